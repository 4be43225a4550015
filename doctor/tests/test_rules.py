"""What is to be done fits the place, the card and what is installed; and neighbours of a cause are told from it."""

import json
from pathlib import Path
from typing import Any

import pytest
from kept import causes, like, steps

from gpu_doctor import Facts, case, cases, diagnose, examine
from gpu_doctor.cases import patched
from gpu_doctor.rules import RULES

LOOKS = {rule.code: rule.look for rule in RULES}


def gpu(vendor: str, *devices: str, driver: str | None = None) -> dict[str, Any]:
    return {"gpus": [{"vendor": vendor, "device": device, "driver": driver} for device in devices]}


def system(**what: Any) -> dict[str, Any]:
    return {"system": what}


FULL = case("memory-full").facts.content()["nvml"]["devices"][0]

# A kept machine, what is changed on it, what has to be done then, and what must not be said.
PRESCRIBED = json.loads(Path(__file__).with_name("prescribed.json").read_text("utf-8"))


@pytest.mark.parametrize("row", PRESCRIBED, ids=lambda row: f"{row['on']}: {row['says']}")
def test_what_is_prescribed(row: dict[str, Any]) -> None:
    facts = like(row["on"], row.get("changes", {}))
    assert diagnose(facts)[0].rule.code == case(row["on"]).cause
    assert row["says"] in steps(facts)
    assert "never" not in row or row["never"] not in steps(facts)


GIVEN = {
    ("docker", "nvidia"): "$ docker run --gpus all ",
    ("podman", "nvidia"): "$ podman run --device nvidia.com/gpu=all ",
    ("apptainer", "nvidia"): "$ apptainer exec --nv ",
    ("kubernetes", "nvidia"): "limits: {nvidia.com/gpu: 1}",
    ("docker", "amd"): "$ docker run --device /dev/kfd --device /dev/dri ",
    ("apptainer", "amd"): "$ apptainer exec --rocm ",
    ("kubernetes", "amd"): "limits: {amd.com/gpu: 1}",
}


@pytest.mark.parametrize(("engine", "vendor"), GIVEN)
def test_each_kind_of_container_is_given_the_card_in_its_own_way(engine: str, vendor: str) -> None:
    seen = LOOKS["container-without-gpu"](Facts.of(system(container=engine) | gpu(vendor, "0x2684", driver="nvidia")))
    assert seen
    assert GIVEN[engine, vendor] in "\n".join(seen.fix)


def test_a_container_on_a_machine_without_a_card_is_no_problem_but_told_how_to_get_one() -> None:
    report = examine(Facts.of({"system": {"container": "docker"}, "torch": {"version": "2.13.0"}}))
    assert report.status == "no-gpu"
    assert "$ docker run --gpus all " in "\n".join(report.findings[0].fix)


# -- On every case -----------------------------------------------------------------------------------------------------

MANAGERS = {"apt": "debian", "dnf": "fedora", "pacman": "arch", "zypper": "opensuse-leap"}
INSTALLS = {"apt": "apt install", "dnf": "dnf install", "pacman": "pacman -S", "zypper": "zypper install"}


@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("name", ["no-driver", "nouveau", "secure-boot", "closed-module", "no-libcuda"])
def test_commands_are_those_of_the_system(name: str, manager: str) -> None:
    told = steps(like(name, system(distro=[MANAGERS[manager]], commands=[manager])))
    assert "$ " in told
    assert not [other for other, words in INSTALLS.items() if other != manager and words in told]


@pytest.mark.parametrize("module", ["driver", "libcuda", "cuda_init", "card"])  # others tell also what a host has to do
def test_root_needs_no_sudo(module: str) -> None:
    codes = {rule.code for rule in RULES if rule.judge.__module__.endswith(f".{module}")}
    ours = [like(name, system(root=True)) for name in cases() if case(name).cause in codes]
    assert ours
    assert not [facts for facts in ours if "sudo" in steps(facts)]


# -- Neighbours --------------------------------------------------------------------------------------------------------

NODES = [{"path": path} for path in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")]
BOUND = {"vendor": "nvidia", "device": "0x2684", "driver": "nvidia"}
RUNNING = {
    "gpus": [BOUND],
    "nodes": NODES,
    "kernel": {"version": "580.95.05", "loaded": ["nvidia", "nvidia_uvm"]},
    "cuda": {"path": "/usr/lib/libcuda.so.580.95.05", "init": 0},
}
ONE = {"devices": [{"name": "A", "context": 0}]}
WELL = {"init": 0, "devices": [{"name": "A"}]}
XID = {"kernel": {"log": ["NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus."]}}
BY_CUDA = {3: "hmm", 34: "stub-library", 46: "exclusive-card", 101: "card-does-not-start", 214: "memory-broken"}
BY_CUDA |= {304: "system-call-refused", 802: "fabric-manager", 803: "driver-half-updated"}
BY_CUDA |= {804: "forward-compatibility", 999: "uvm-stale"}
BY_NVML = {4: "no-permission", 15: "card-lost", 16: "card-lost", 18: "driver-half-updated"}


def running(patch: dict[str, Any]) -> list[str]:
    return causes(Facts.of(patched(RUNNING, patch)))


@pytest.mark.parametrize(
    ("patch", "cause"),
    [
        *(({"cuda": {"init": code}}, cause) for code, cause in BY_CUDA.items()),
        *(({"nvml": {"init": code}, "cuda": {"init": 100}}, cause) for code, cause in BY_NVML.items()),
        ({"gpus": [BOUND, BOUND], "cuda": ONE, "nvml": {"init": 0, "refused": [15]}}, "card-lost"),
    ],
)
def test_a_code_alone_leads_to_its_cause(patch: dict[str, Any], cause: str) -> None:
    assert cause in running(patch)


@pytest.mark.parametrize(
    ("patch", "cause"),
    [
        ({"cuda": ONE, "nvml": WELL, **XID}, "card-lost"),  # a reset has mended it
        ({"cuda": {"init": None, "failed": "was killed by signal 11: it said nothing"}}, "hangs"),
        *(({"nodes": NODES[:2], "cuda": {"init": code}, "nvml": WELL}, BY_CUDA[code]) for code in (3, 304, 999)),
    ],
)
def test_what_explains_better_silences_the_rest(patch: dict[str, Any], cause: str) -> None:
    assert cause not in running(patch)


def throttled(bits: int) -> dict[str, Any]:
    return {"nvml": {"devices": [{"name": "GPU", "throttle": bits}]}}


GONE = dict.fromkeys(("cuda", "archs", "kind", "names", "kernel"))
JOB = {"SLURM_JOB_ID": "4711"}
LEFT = {"packages": {"nvidia-cudnn-cu12": "9.10.2.21"}, "system": {"conda": ["pytorch-2.5.1-py3.12_cuda12.4_0"]}}
OLD_INTEL = ("0x9a49", "0x46A6", "0xa780", "0x3e9b", "0x5917", "0x1912", "0x4c8a")
NEW_INTEL = ("0x56a0", "0xe20b", "0x0bda", "0x64a0", "0x7d55", "0x7d51", "0xb080")
RESTING = (0, 0x1, 0x2, 0x4, 0x8, 0x10, 0x100, 0x1 | 0x8, 0x4 | 0x2 | 0x100)


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        *(("intel-not-supported", gpu("intel", card, driver="i915"), ["not-supported"]) for card in OLD_INTEL),
        *(("not-built-for-intel", gpu("intel", card, driver="xe"), ["not-built-for-intel"]) for card in NEW_INTEL),
        ("healthy-intel", gpu("intel", "0xa780", driver="i915"), []),  # it computes
        *(("healthy-nvidia", throttled(bits), []) for bits in RESTING),
        *(("healthy-nvidia", throttled(bits), ["throttled"]) for bits in (0x20, 0x40, 0x80, 0x41)),
        ("healthy-nvidia", {"nvml": {"devices": [FULL]}}, []),
        ("healthy-amd", {"kernel": {"gfx": ["gfx1036", "gfx1100"]}}, []),
        ("healthy-amd", gpu("amd", *["0x744c"] * 2, driver="amdgpu") | {"kernel": {"gfx": ["gfx1100"] * 2}}, []),
        ("no-gpu", {}, ["no-gpu"]),
        ("no-gpu", system(commands=["sbatch"]), ["cluster-node-without-gpu"]),
        ("no-gpu", system(os="darwin"), ["no-gpu"]),
        ("cluster-node-without-gpu", {"env": JOB}, ["cluster-node-without-gpu"]),
        ("cuda-visible-devices", {"env": JOB | {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}}, ["slurm-job-without-gpu"]),
        ("cuda-visible-devices", {"env": {"CUDA_VISIBLE_DEVICES": "GPU-…"}}, ["cuda-visible-devices"]),
        ("jetson-wheel", {"torch": {"version": "2.13.0", **GONE}}, ["jetson-wheel"]),
        ("no-nvcc", {**LEFT, "said": None}, []),
    ],
)
def test_it_is_told_from_its_neighbours(name: str, changes: dict[str, Any], expected: list[str]) -> None:
    assert causes(like(name, changes)) == expected


@pytest.mark.parametrize(
    ("name", "changes", "certainty"),
    [
        ("cuda-visible-devices", {"env": {"CUDA_VISIBLE_DEVICES": "GPU-…"}}, "likely"),
        ("not-built-for-intel", gpu("intel", "0x56a0", driver="xe"), "certain"),
    ],
)
def test_how_certain_it_is(name: str, changes: dict[str, Any], certainty: str) -> None:
    assert diagnose(like(name, changes))[0].certainty == certainty
