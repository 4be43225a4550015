"""The same cause asks for other steps in another place, and is told from its neighbours."""

from typing import Any

import pytest

from firstlight.doctor import Facts, case, diagnose, examine
from firstlight.doctor.cases import patched
from firstlight.doctor.rules import Finding


def found(name: str, changes: dict[str, Any]) -> list[Finding]:
    return diagnose(Facts.of(patched(case(name).facts.content(), changes)))


def steps(findings: list[Finding]) -> str:
    return "\n".join(findings[0].seen.fix)


@pytest.mark.parametrize(
    ("engine", "vendor", "command"),
    [
        ("docker", "nvidia", "$ docker run --gpus all "),
        ("podman", "nvidia", "$ podman run --device nvidia.com/gpu=all "),
        ("apptainer", "nvidia", "$ apptainer exec --nv "),
        ("kubernetes", "nvidia", "limits: {nvidia.com/gpu: 1}"),
        ("docker", "amd", "$ docker run --device /dev/kfd --device /dev/dri "),
        ("apptainer", "amd", "$ apptainer exec --rocm "),
        ("kubernetes", "amd", "limits: {amd.com/gpu: 1}"),
    ],
)
def test_each_kind_of_container_is_given_the_card_in_its_own_way(engine: str, vendor: str, command: str) -> None:
    facts = Facts.of({"system": {"container": engine}, "gpus": [{"vendor": vendor, "driver": "nvidia"}]})
    findings = [each for each in diagnose(facts) if each.rule.code == "container-without-gpu"]
    assert command in steps(findings)


def test_a_container_on_a_machine_without_a_card_is_no_problem_but_told_how_to_get_one() -> None:
    report = examine(Facts.of({"system": {"container": "docker"}, "torch": {"version": "2.13.0"}}))
    assert report.status == "no-gpu"
    assert "$ docker run --gpus all " in steps(report.findings)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"system": {"commands": ["sbatch"]}},
        {"system": {"wsl": True, "kernel": "6.6.87.2-microsoft-standard-WSL2"}},
        {"system": {"os": "darwin"}},
        {"gpus": [{"vendor": "intel", "device": "0x9a49", "driver": "i915"}]},
    ],
)
def test_a_machine_without_a_gpu_is_told_once_that_nothing_is_broken(changes: dict[str, Any]) -> None:
    findings = found("no-gpu", changes)
    assert [each.rule.kind for each in findings if each.rule.kind != "note"] == ["no-gpu"]
    assert "NUMBA_ENABLE_CUDASIM=1" in steps(findings)


def test_what_needs_powershell_is_not_told_to_a_shell() -> None:
    assert '$ $env:NUMBA_ENABLE_CUDASIM = "1"; python' in steps(found("no-gpu", {"system": {"os": "windows"}}))
    assert "$ Remove-Item Env:NUMBA_DISABLE_CUDA" in steps(found("numba-disabled", {"system": {"os": "windows"}}))


def test_wsl_1_must_be_turned_into_2_and_wsl_2_must_not() -> None:
    assert "--set-version" in steps(found("wsl-without-gpu", {}))
    newer = found("wsl-without-gpu", {"system": {"kernel": "6.6.87.2-microsoft-standard-WSL2"}})
    assert "--set-version" not in steps(newer)
    assert "wsl --update" in steps(newer)


def test_a_job_on_a_node_without_gpus_is_not_called_a_login() -> None:
    findings = found("cluster-node-without-gpu", {"env": {"SLURM_JOB_ID": "4711"}})
    assert findings[0].rule.code == "cluster-node-without-gpu"
    assert "log in" not in " ".join(findings[0].seen.evidence)


def test_what_slurm_hides_is_not_blamed_on_the_user() -> None:
    env = {"SLURM_JOB_ID": "4711", "CUDA_VISIBLE_DEVICES": "NoDevFiles"}
    assert [each.rule.code for each in found("cuda-visible-devices", {"env": env})] == ["slurm-job-without-gpu"]


def test_a_name_that_the_report_does_not_hold_makes_the_diagnosis_less_than_certain() -> None:
    findings = found("cuda-visible-devices", {"env": {"CUDA_VISIBLE_DEVICES": "GPU-…"}})
    assert (findings[0].rule.code, findings[0].seen.certainty) == ("cuda-visible-devices", "likely")


def test_a_setting_of_numba_that_no_variable_made_is_looked_for_in_its_file() -> None:
    assert ".numba_config.yaml" in steps(found("numba-simulator", {"env": None}))


@pytest.mark.parametrize(("capability", "index"), [([8, 7], "jetson-ai-lab"), ([11, 0], "whl/cu130")])
def test_each_jetson_has_its_own_wheel(capability: list[int], index: str) -> None:
    card = {"name": "Jetson", "capability": capability, "context": 0}
    assert index in steps(found("jetson-wheel", {"cuda": {"devices": [card]}}))


def test_a_wheel_for_the_cpu_on_a_jetson_is_not_mended_with_one_for_servers() -> None:
    gone = dict.fromkeys(("cuda", "archs", "kind", "names", "kernel"))
    findings = found("jetson-wheel", {"torch": {"version": "2.13.0", **gone}})
    assert findings[0].rule.code == "jetson-wheel"
