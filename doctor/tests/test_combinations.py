"""Whole machines that no case shows: several causes at once, and odd facts that are no fault."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kept import causes, like, steps

from firstlight_doctor import Facts, Report, case, cases, examine
from firstlight_doctor.rules.libcuda import MEANS

FOR_CPU = {"version": "2.13.0+cpu"} | dict.fromkeys(("cuda", "archs", "kind", "names", "kernel"))


def on(base: str, *changes: dict[str, Any]) -> Report:
    """The report on a kept machine after some changes."""
    return examine(like(base, *changes))


def bus(*devices: str, vendor: str = "nvidia", driver: str | None = "nvidia") -> dict[str, Any]:
    return {"gpus": [{"vendor": vendor, "device": device, "driver": driver} for device in devices]}


RYZEN = {"vendor": "amd", "device": "0x164e", "driver": "amdgpu"}  # what draws the screen in a desktop processor

WELL = json.loads(Path(__file__).with_name("odd_machines.json").read_text("utf-8"))  # changes of a healthy machine


@pytest.mark.parametrize("name", WELL)
def test_odd_facts_are_no_fault(name: str) -> None:
    report = on("healthy-nvidia", *WELL[name])
    assert causes(report.facts) == []
    assert report.status == "healthy"
    assert [answer.question for answer in report.checks if answer.state is False] == []


LEGACY = "NVRM: supported through the NVIDIA 470.xx Legacy drivers."
NO_GPU: dict[str, dict[str, Any]] = {
    "Linux on a Ryzen desktop": {"gpus": [RYZEN], "kernel": {"gfx": ["gfx1036"]}},
    "Windows there, which tells no architecture": {"gpus": [RYZEN | {"driver": None}], "system": {"os": "windows"}},
    "an office computer with a GeForce GT 710 for the screen": bus("0x128b", driver="nouveau"),
    "there with a module": bus("0x128b", driver=None) | {"kernel": {"log": [LEGACY], "on_disk": "/nvidia.ko"}},
}


@pytest.mark.parametrize("name", NO_GPU)
def test_a_gpu_that_pytorch_cannot_use_is_no_fault(name: str) -> None:
    report = on("no-gpu", NO_GPU[name])
    assert causes(report.facts) == ["not-supported"]
    assert report.status == "no-gpu"


LINUX_ALONE = ("distro", "kernel", "wsl", "container", "tegra", "rosetta", "memory_limit", "commands")
ON_WINDOWS = {"system": {"os": "windows", **dict.fromkeys(LINUX_ALONE)}, "nodes": None, "kernel": None}


def test_windows_is_told_nothing_of_linux() -> None:
    wrong = re.compile(r"\$ .*(sudo|/etc|/dev/|modprobe|rmmod|systemctl|apt |export |unset |source |~/)")
    machines = [like(name, ON_WINDOWS, {"cuda": {"path": None}}) for name in cases()]
    for facts in machines + [like("healthy-nvidia", *WELL[name], ON_WINDOWS) for name in WELL]:
        for code in (0, *MEANS) if facts is not machines[0] else range(1000):
            cuda = replace(facts.cuda, init=code, devices=() if code else facts.cuda.devices)
            for finding in examine(replace(facts, cuda=cuda)).findings:
                assert not [step for step in finding.fix if wrong.match(step)]


@pytest.mark.parametrize("code", [*MEANS, 1, 35, 205, 700])
@pytest.mark.parametrize("where", [{}, ON_WINDOWS, {"system": {"wsl": True}, "nodes": [{"path": "/dev/dxg"}]}], ids=str)
@pytest.mark.parametrize("nvml", [{}, {"nvml": {"devices": None}}], ids=str)
def test_a_driver_that_finds_no_card_is_never_without_a_known_cause(code: int, where: Any, nvml: Any) -> None:
    assert "no-known-cause" not in causes(
        like("healthy-nvidia", {"cuda": {"init": code, "devices": None}}, where, nvml)
    )


def test_what_is_in_the_way_first_leads_though_what_comes_later_is_surer() -> None:
    numba = case("numba-without-toolkit").facts.content()["numba"]
    report = examine(Facts.of(case("address-space-limit").facts.content() | {"numba": numba}))
    assert causes(report.facts) == ["address-space-limit", "numba-without-toolkit"]
    assert [finding.certainty for finding in report.findings][:2] == ["likely", "certain"]


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
    report = on("no-driver", bus("0x1b80", driver=None), {"torch": FOR_CPU})
    assert causes(report.facts) == ["no-driver", "cpu-wheel"]
    assert "whl/cu126" in "\n".join(report.findings[1].fix)


def test_a_module_that_the_distribution_signed_is_not_blamed_on_secure_boot() -> None:
    there = {"on_disk": "/lib/modules/6.8.0-85-generic/kernel/nvidia-580/nvidia.ko"}
    report = on("module-not-loaded", {"system": {"secure_boot": True}, "kernel": there})
    assert causes(report.facts) == ["module-not-loaded"]
