"""Whole machines that no case shows: several causes at once, and odd facts that are no fault."""

import json
from pathlib import Path
from typing import Any

import pytest
from kept import like, steps

from firstlight.doctor import Facts, Report, case, examine

NO_LIBRARY = "OSError: libcuda.so.1: cannot open shared object file: No such file or directory"
FINDS_NONE: dict[str, Any] = dict.fromkeys(("kind", "names", "kernel", "rate", "ceiling"))
FOR_CPU = {**FINDS_NONE, "version": "2.13.0+cpu", "cuda": None, "archs": None}
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


def bus(*devices: str, vendor: str = "nvidia", driver: str | None = "nvidia") -> dict[str, Any]:
    return {"gpus": [{"vendor": vendor, "device": device, "driver": driver} for device in devices]}


RYZEN = {"vendor": "amd", "device": "0x164e", "driver": "amdgpu"}  # what draws the screen in a desktop processor

WELL = json.loads(Path(__file__).with_name("odd_machines.json").read_text("utf-8"))  # changes of a healthy machine


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
