"""Whole machines that no case shows: several causes at once, and odd facts that are no fault."""

from typing import Any

import pytest
from kept import like, steps

from firstlight.doctor import Facts, Report, case, examine

NO_LIBRARY = "OSError: libcuda.so.1: cannot open shared object file: No such file or directory"
FINDS_NONE: dict[str, Any] = dict.fromkeys(("kind", "names", "kernel", "rate", "ceiling"))
FOR_CPU = {**FINDS_NONE, "version": "2.13.0+cpu", "cuda": None, "archs": None}
CUDA_12 = {"version": "2.13.0+cu126", "cuda": "12.6", "archs": ["sm_50", "sm_60", "sm_70", "sm_80", "sm_90"]}
WITHOUT_DRIVER: dict[str, Any] = {
    "nodes": None,
    "kernel": None,
    "cuda": {"error": NO_LIBRARY, **dict.fromkeys(("path", "version", "init", "devices"))},
    "nvml": {"error": "OSError: libnvidia-ml.so.1", **dict.fromkeys(("init", "driver", "cuda", "devices"))},
    "torch": {**FINDS_NONE, "archs": None},
    "numba": {"kernel": None},
}


def on(base: str, *changes: dict[str, Any]) -> Report:
    """The report on a kept machine after some changes."""
    return examine(like(base, *changes))


def codes(report: Report) -> list[str]:
    return [finding.rule.code for finding in report.findings if finding.rule.kind != "note"]


def cards(*names: str, capability: tuple[int, int] = (9, 0), **more: Any) -> dict[str, Any]:
    """Cards as CUDA, nvidia-smi's library and PyTorch see them."""
    return {
        "cuda": {"devices": [{"name": name, "capability": list(capability), "context": 0} for name in names]},
        "nvml": {"devices": [{"name": name, "bus": f"{number:02x}", **more} for number, name in enumerate(names)]},
        "torch": {"names": list(names)},
    }


def bus(*devices: str, vendor: str = "nvidia", driver: str | None = "nvidia") -> dict[str, Any]:
    return {"gpus": [{"vendor": vendor, "device": device, "driver": driver} for device in devices]}


def files(*open_cards: int, of: int = 8) -> dict[str, Any]:
    named = [{"path": f"/dev/nvidia{number}", "open": number in open_cards} for number in range(of)]
    return {"nodes": [*named, {"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia-uvm"}]}


MIG = {"name": "NVIDIA H100 80GB HBM3", "bus": "1b", "mig": True, "mig_instances": 7}
H100 = {"name": "NVIDIA H100 80GB HBM3", "capability": [9, 0], "context": 0}
JETSON: dict[str, Any] = {
    "system": {"machine": "aarch64", "kernel": "6.8.12-tegra", "tegra": True},
    "gpus": None,
    "nodes": [{"path": "/dev/nvhost-gpu"}, {"path": "/dev/nvmap"}],
    "cuda": {"devices": [{"name": "Orin", "capability": [8, 7], "context": 0}]},
    "nvml": {"init": 999, "driver": None, "cuda": None, "devices": None},
    "torch": {"version": "2.9.0", "archs": ["sm_87"], "names": ["Orin"], "rate": None},
}
RYZEN = {"vendor": "amd", "device": "0x164e", "driver": "amdgpu"}  # what draws the screen in a desktop processor

WELL: dict[str, list[dict[str, Any]]] = {
    "a container with one of eight cards": [
        {"system": {"container": "docker", "root": True}, "env": {"NVIDIA_VISIBLE_DEVICES": "0"}},
        bus(*["0x2330"] * 8),
        cards("NVIDIA H100 80GB HBM3"),
    ],
    "eight cards, no two alike": [
        bus(*["0x2230"] * 8),
        files(*range(8)),
        cards(*[f"NVIDIA RTX {n}" for n in range(8)], capability=(8, 6)),
    ],
    "a job with one instance of seven": [
        {"env": {"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "MIG-…"}, "nvml": {"devices": [MIG]}},
        {"cuda": {"devices": [{**H100, "name": f"{H100['name']} MIG 1g.10gb"}]}, "torch": {"rate": None}},
    ],
    "a card beside one that MIG shares out": [
        {"cuda": {"devices": [H100]}, "nvml": {"devices": [MIG, {**MIG, "mig": False, "mig_instances": 0}]}}
    ],
    "a conda environment in which only pip installed PyTorch": [
        {"system": {"commands": ["conda", "cc"], "conda": ["mkl-2025.0.1-h1"]}}
    ],
    "a Jetson, on which nvidia-smi's library does not start": [JETSON],
    "a laptop with Intel's graphics, closed, and NVIDIA's": [
        {
            "gpus": [
                {"vendor": "intel", "device": "0xa7a0", "driver": "i915"},
                {"vendor": "nvidia", "device": "0x28e0", "driver": "nvidia"},
            ]
        },
        {"nodes": [*files(0, of=1)["nodes"], {"path": "/dev/dri/renderD128", "open": False}]},
    ],
    "a Ryzen that draws the screen beside NVIDIA's card": [
        {"gpus": [{"vendor": "nvidia", "device": "0x2684", "driver": "nvidia"}, RYZEN]},
        {"kernel": {"gfx": ["gfx1036"]}, "nodes": [*files(0, of=1)["nodes"], {"path": "/dev/kfd", "open": False}]},
    ],
    "an old card for the screen beside a new one": [
        bus("0x2684", "0x1cb3"),
        {
            "cuda": {
                "devices": [
                    {"name": "RTX 4090", "capability": [8, 9], "context": 0},
                    {"name": "Quadro P400", "capability": [6, 1], "context": 0},
                ]
            },
            "torch": {
                "warnings": [
                    "Quadro P400 with CUDA capability sm_61 is not compatible with the current PyTorch installation."
                ]
            },
        },
    ],
    "a virtual machine with a part of a card (vGPU)": [
        {"kernel": {"version": "570.158.01", "open_module": False}, "torch": CUDA_12, "numba": {"needs": 12060}},
        cards("GRID A100-10C", capability=(8, 0)),
        {"cuda": {"version": 12080}, "nvml": {"driver": "570.158.01", "cuda": 12080}},
    ],
    "a job that was given card 3 of 8": [
        {"env": {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "3", "CUDA_VISIBLE_DEVICES": "0"}},
        bus(*["0x2330"] * 8),
        files(3),
        cards("NVIDIA H100 80GB HBM3", fabric="completed"),
    ],
    "the second of two cards, chosen by CUDA_VISIBLE_DEVICES": [
        {"env": {"CUDA_VISIBLE_DEVICES": "1"}, "nvml": {"devices": [{"name": "A"}, {"name": "A"}]}},
        bus("0x2684", "0x2684"),
    ],
    "an ARM server with a GH200": [{"system": {"machine": "aarch64"}}, bus("0x2342"), cards("NVIDIA GH200 480GB")],
    "no Numba": [{"numba": None}],
    "a PyTorch that was built last night": [{"torch": {"version": "2.14.0.dev20260701+cu130"}}],
    "a newer CUDA than the driver's own, where NVIDIA allows it": [
        {"system": {"container": "docker"}, "cuda": {"path": "/usr/local/cuda-13.0/compat/libcuda.so.580.65.06"}},
        {"kernel": {"version": "550.54.15"}, "nvml": {"driver": "550.54.15", "cuda": 12040}},
        cards("NVIDIA A100-SXM4-80GB", capability=(8, 0), fabric="completed"),
    ],
    "two cards, of which a virtual machine has one": [
        {"gpus": [*bus("0x2684")["gpus"], *bus("0x2684", driver="vfio-pci")["gpus"]]}
    ],
    "a card that one program at a time may have, and none has": [
        cards("Tesla V100", capability=(8, 0), exclusive=True)
    ],
}


@pytest.mark.parametrize("name", WELL)
def test_odd_facts_are_no_fault(name: str) -> None:
    report = on("healthy-nvidia", *WELL[name])
    assert codes(report) == []
    assert report.status == "healthy"
    assert [answer.question for answer in report.ladder if answer.state is False] == []


NO_GPU: dict[str, tuple[dict[str, Any], ...]] = {
    "Linux on a Ryzen desktop": (WITHOUT_DRIVER, {"gpus": [RYZEN], "kernel": {"gfx": ["gfx1036"]}}),
    "Windows on a Ryzen desktop, which tells no architecture": (
        WITHOUT_DRIVER,
        {"system": {"os": "windows"}, "gpus": [{"vendor": "amd", "device": "0x164e"}], "torch": FOR_CPU},
    ),
    "an office computer with a GeForce GT 710 for the screen": (WITHOUT_DRIVER, bus("0x128b", driver="nouveau")),
    "the same with the module that turned it away": (
        WITHOUT_DRIVER,
        bus("0x128b", driver=None),
        {"kernel": {"log": ["NVRM: supported through the NVIDIA 470.xx Legacy drivers."], "on_disk": "/nvidia.ko"}},
    ),
}


@pytest.mark.parametrize("name", NO_GPU)
def test_a_gpu_that_pytorch_cannot_use_is_no_fault(name: str) -> None:
    report = on("healthy-nvidia", *NO_GPU[name])
    assert codes(report) == ["not-supported"]
    assert report.status == "no-gpu"


@pytest.mark.parametrize(
    ("base", "change", "expected"),
    [
        # The wheel has to be changed in any case; the rest is mended in the order in which it is in the way.
        ("driver-half-updated", {"torch": FOR_CPU}, ["cpu-wheel", "driver-half-updated"]),
        ("nouveau", {"torch": FOR_CPU}, ["cpu-wheel", "nouveau"]),
        ("linux-driver-in-wsl", {"torch": FOR_CPU}, ["cpu-wheel", "linux-driver-in-wsl"]),
        ("nouveau", {"system": {"container": "docker"}}, ["nouveau", "container-without-gpu"]),
        ("uvm-missing", {"env": {"CUDA_VISIBLE_DEVICES": ""}}, ["uvm-missing"]),
        ("numba-without-toolkit", {"env": {"CUDA_VISIBLE_DEVICES": "-1"}}, ["numba-without-toolkit"]),
        ("no-driver", {"system": {"shadowed": ["torch.py"]}}, ["no-driver", "shadowed"]),
    ],
)
def test_of_two_causes_the_one_that_is_in_the_way_first_leads(
    base: str, change: dict[str, Any], expected: list[str]
) -> None:
    assert codes(on(base, change)) == expected


def test_what_is_in_the_way_first_leads_though_what_comes_later_is_surer() -> None:
    numba = case("numba-without-toolkit").facts.content()["numba"]
    report = examine(Facts.of(case("address-space-limit").facts.content() | {"numba": numba}))
    assert codes(report) == ["address-space-limit", "numba-without-toolkit"]
    assert [finding.seen.certainty for finding in report.findings][:2] == ["likely", "certain"]


def test_on_a_cluster_only_the_administrators_are_told_to_use_sudo() -> None:
    said = steps(like("driver-half-updated", env={"SLURM_JOB_ID": "7"}))
    assert said.index("administrators") < said.index("$ sbatch --exclude=$(hostname -s)") < said.index("$ sudo reboot")


def test_what_you_can_do_yourself_on_a_cluster_comes_before_the_administrators() -> None:
    said = steps(like("exclusive-card", system={"commands": ["sbatch"]}))
    assert said.index("$ kill PID") < said.index("administrators")
    assert "--exclude" not in said  # this is no job


def test_who_may_not_use_sudo_is_told_whom_to_ask_and_nobody_else() -> None:
    words = steps(like("nouveau")).splitlines()[-1]
    assert "sudo" in words
    assert not words.startswith("$ ")
    assert words not in steps(like("nouveau", system={"root": True}))
    assert words not in steps(like("cpu-wheel")) + steps(like("linux-driver-in-wsl"))


def test_a_driver_is_not_to_be_installed_in_a_container() -> None:
    where = steps(like("nouveau", system={"container": "docker"})).splitlines()[0]
    assert where not in steps(like("nouveau"))
    assert not where.startswith("$ ")  # it says where to do the rest


def test_an_old_card_without_a_driver_gets_a_wheel_that_will_have_code_for_it() -> None:
    report = on("healthy-nvidia", WITHOUT_DRIVER, bus("0x1b80"), {"torch": FOR_CPU})
    assert "whl/cu126" in "\n".join(report.findings[0].seen.fix)


def test_a_module_that_the_distribution_signed_is_not_blamed_on_secure_boot() -> None:
    there = {"on_disk": "/lib/modules/6.8.0-85-generic/kernel/nvidia-580/nvidia.ko"}
    report = on("module-not-loaded", {"system": {"secure_boot": True}, "kernel": there})
    assert codes(report) == ["module-not-loaded"]
