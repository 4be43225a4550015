"""What is prescribed for a wheel, or for Numba's CUDA, fits the card, the driver and what is installed already."""

from typing import Any

import pytest

from firstlight.doctor import Facts, case, cases, diagnose
from firstlight.doctor.cases import patched
from firstlight.doctor.rules import RULES

OURS = {rule.code: rule for rule in RULES if rule.look.__module__.endswith((".wheels", ".installs", ".compilers"))}


def fix(name: str, **changes: Any) -> str:
    """What a case's cause prescribes after the facts were changed."""
    facts = Facts.of(patched(case(name).facts.content(), changes))
    first = diagnose(facts)[0]
    assert first.rule.code == case(name).cause
    return "\n".join(first.seen.fix)


def test_a_driver_too_old_can_be_met_from_both_sides() -> None:
    text = fix("driver-too-old-for-wheel")
    assert "ubuntu-drivers install" in text
    assert "whl/cu126" in text
    assert '"numba-cuda[cu12]" "cuda-toolkit==12.6.*"' in text


@pytest.mark.parametrize(
    ("name", "driver"), [("driver-too-old-for-blackwell", "570.133.20"), ("driver-too-old-for-wheel", "515.105.01")]
)
def test_where_no_wheel_fits_the_driver_it_comes_first(name: str, driver: str) -> None:
    text = fix(name, kernel={"version": driver}, nvml={"driver": driver})
    assert "cu126" not in text
    assert text.index("ubuntu-drivers install") < text.index("whl/cu130")


@pytest.mark.parametrize(("driver", "wheel"), [(13000, "13.0"), (12040, "12.8")])
def test_an_old_card_stays_with_cuda_12_whatever_the_driver(driver: int, wheel: str) -> None:
    text = fix("no-code-for-card", cuda={"version": driver}, torch={"cuda": wheel})
    assert "whl/cu126" in text
    assert "cu130" not in text


def test_a_release_that_an_index_does_not_have_is_replaced() -> None:
    assert '"torch==2.13.0"' in fix("no-code-for-blackwell")
    assert '"torch==2.10.0"' in fix("no-code-for-blackwell", torch={"version": "2.10.0.post3"})


def test_of_two_cards_the_one_with_code_is_shown() -> None:
    two = [{"name": "GTX 1080", "capability": [6, 1]}, {"name": "RTX 4090", "capability": [8, 9]}]
    assert "$ export CUDA_VISIBLE_DEVICES=1" in fix("no-code-for-card", cuda={"devices": two})


def test_without_a_gpu_a_missing_pytorch_does_not_lead() -> None:
    facts = Facts.of({"torch": {"error": "ModuleNotFoundError: No module named 'torch'"}})
    assert [finding.rule.code for finding in diagnose(facts)] == ["no-gpu"]


def test_numba_gets_the_cuda_of_pytorch() -> None:
    assert "cuda-toolkit==12.6.*" in fix("numba-without-toolkit", torch={"cuda": "12.6"})
    assert "cuda-toolkit==13.2.*" in fix("numba-without-toolkit", torch={"cuda": "13.2"})
    conda = fix("numba-without-toolkit", system={"conda": ["numba-0.61.2-py312h7bcfee6_1"]})
    assert 'conda install --channel conda-forge numba-cuda "cuda-version=13.0"' in conda


def test_numpy_goes_below_what_numba_named() -> None:
    assert '"numpy<2.1"' in fix("numba-refuses-numpy")
    assert '"numpy<2.5"' in fix("numpy-too-new")


def test_what_runs_is_no_problem() -> None:
    leftovers = {
        "packages": {"nvidia-cudnn-cu12": "9.10.2.21"},
        "system": {"conda": ["pytorch-2.5.1-py3.12_cuda12.4_0"]},
    }
    facts = Facts.of(patched(case("no-nvcc").facts.content(), {**leftovers, "said": None}))
    assert not [finding for finding in diagnose(facts) if finding.rule.kind == "problem"]


@pytest.mark.parametrize("name", [name for name in cases() if case(name).cause in OURS])
def test_windows_is_told_nothing_of_linux(name: str) -> None:
    changes = {"system": {"os": "windows", "commands": ["nvidia-smi"]}}
    facts = Facts.of(patched(case(name).facts.content(), changes))
    steps = [step for rule in OURS.values() if (seen := rule.look(facts)) for step in seen.fix]
    assert not [step for step in steps if any(word in step for word in ("sudo", "export ", "/etc/", "source "))]
