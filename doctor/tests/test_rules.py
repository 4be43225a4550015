"""What is to be done fits the place, the card and what is installed; and neighbours of a cause are told from it."""

import json
from pathlib import Path
from typing import Any

import pytest
from kept import causes, like, steps

from firstlight_doctor import Facts, case, cases, diagnose, examine
from firstlight_doctor.cases import patched
from firstlight_doctor.rules import RULES

LOOKS = {rule.code: rule.look for rule in RULES}


def gpu(vendor: str, *devices: str, driver: str | None = None) -> dict[str, Any]:
    return {"gpus": [{"vendor": vendor, "device": device, "driver": driver} for device in devices]}


def system(**what: Any) -> dict[str, Any]:
    return {"system": what}


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


# A kept machine, what is changed on it, and the causes that it then has, the one in the way first before the others.
NEIGHBOURS = json.loads(Path(__file__).with_name("neighbours.json").read_text("utf-8"))


@pytest.mark.parametrize("row", NEIGHBOURS, ids=lambda row: row["on"])
def test_it_is_told_from_its_neighbours(row: dict[str, Any]) -> None:
    assert causes(like(row["on"], row.get("changes", {}))) == row["causes"]


@pytest.mark.parametrize(
    ("name", "changes", "certainty"),
    [
        ("cuda-visible-devices", {"env": {"CUDA_VISIBLE_DEVICES": "GPU-…"}}, "likely"),
        ("not-built-for-intel", gpu("intel", "0x56a0", driver="xe"), "certain"),
    ],
)
def test_how_certain_it_is(name: str, changes: dict[str, Any], certainty: str) -> None:
    assert diagnose(like(name, changes))[0].certainty == certainty
