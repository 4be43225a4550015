"""The questions are answered alike on every maker's cards and on every system, and no red answer goes unexplained."""

import json
from pathlib import Path
from typing import Any

import pytest
from kept import causes, like

from firstlight_doctor import Facts, case
from firstlight_doctor.rules import QUESTIONS, Check, run_checks

# Healthy machines, and the questions that are not asked of them; every other has to be answered with yes.
HEALTHY = json.loads(Path(__file__).with_name("healthy_machines.json").read_text("utf-8"))


def answers(facts: Facts) -> dict[str, Check]:
    return {answer.question: answer for answer in run_checks(facts)}


VFIO = {"gpus": [{"vendor": "nvidia", "driver": "vfio-pci"}], "kernel": None, "nvml": None}


@pytest.mark.parametrize("machine", HEALTHY)
def test_a_healthy_machine_has_no_red_answer_and_no_problem(machine: str) -> None:
    facts = like(HEALTHY[machine]["like"], HEALTHY[machine]["changes"])
    states = {question: answer.state for question, answer in answers(facts).items()}
    assert states == {question: None if question in HEALTHY[machine]["not asked"] else True for question in QUESTIONS}
    assert causes(facts) == []


@pytest.mark.parametrize(
    ("name", "changes", "question", "state", "named"),
    [
        ("healthy-nvidia", {"torch": {"version": None}}, "wheel", False, "not installed"),
        ("healthy-nvidia", {"torch": {"cuda": None}}, "wheel", False, "2.13.0"),
        ("healthy-apple", {"torch": {"imported": None, "mps": None}}, "wheel", None, "2.13.0"),
        ("healthy-nvidia", VFIO, "driver", False, "vfio-pci"),
        ("healthy-amd", {"gpus": [{"vendor": "amd"}]}, "driver", False, "no driver"),
        ("healthy-wsl", {"nvml": None, "cuda": None}, "driver", None, "Windows"),
        ("healthy-amd", {"nodes": [{"path": "/dev/dri/renderD128"}]}, "nodes", False, "/dev/kfd"),
        ("healthy-amd", {"nodes": [{"path": "/dev/kfd", "open": False}]}, "nodes", False, "/dev/kfd"),
        ("healthy-intel", {"nodes": None}, "nodes", False, "none"),
        ("healthy-amd", {"kernel": {"gfx": ["gfx1010"]}, "torch": {"kernel": "HIP error"}}, "code", False, "gfx1010"),
        ("healthy-amd", {"kernel": {"gfx": ["gfx1031"]}}, "code", True, "gfx1031"),
        ("healthy-amd", {"kernel": {"gfx": ["gfx1100", "gfx1036"]}}, "code", True, "gfx1100"),
        ("healthy-nvidia", {"torch": {"archs": ["sm_50"]}}, "code", False, "8.9"),
        ("healthy-nvidia", {"torch": {"kernel": "wrong"}}, "torch", False, "wrong"),
        ("healthy-nvidia", {"torch": {"kernel": None, "failed": "by signal 11"}}, "torch", False, "signal 11"),
        ("healthy-nvidia", {"torch": {"kernel": None, "imported": None, "failed": "hung"}}, "torch", False, "hung"),
        ("healthy-apple", {"torch": {"kernel": None, "kind": None}}, "torch", False, "no GPU"),
        ("healthy-nvidia", {"numba": {"ptx": "9.2", "needs": 13020}}, "ptx", True, "13.2"),
        ("healthy-nvidia", {"numba": {"ptx": "9.2", "needs": 13020, "kernel": None}}, "ptx", False, "13.2"),
        ("healthy-nvidia", {"nvml": {"devices": [{"ecc_errors": 2}]}}, "health", False, "2 errors"),
    ],
)
def test_one_fact_changes_one_answer(name: str, changes: Any, question: str, state: bool | None, named: str) -> None:
    answer = answers(like(name, **changes))[question]
    assert answer.state is state
    assert named in answer.words


def test_files_that_cuda_does_not_need_may_be_closed() -> None:
    card = case("healthy-nvidia").facts.content()["nodes"]
    shut = [*card, {"path": "/dev/dri/renderD128", "open": False}, {"path": "/dev/kfd", "open": False}]
    assert answers(like("healthy-nvidia", nodes=shut))["nodes"].state is True


def test_without_a_gpu_nothing_is_red_but_the_gpu() -> None:
    climbed = run_checks(Facts.of({"torch": {"version": "2.13.0+cpu"}}))
    assert [answer.question for answer in climbed if answer.state is False] == ["bus"]


def test_a_gpu_that_pytorch_has_nothing_for_is_named() -> None:
    facts = Facts.of({"gpus": [{"vendor": "intel", "device": "0x9a49", "driver": "i915"}]})
    assert "Intel" in answers(facts)["bus"].words


def test_without_a_gpu_a_missing_pytorch_does_not_lead() -> None:
    assert causes(Facts.of({"torch": {"error": "ModuleNotFoundError: No module named 'torch'"}})) == ["no-gpu"]


def test_of_two_makers_the_installed_pytorch_decides() -> None:
    cards = [{"vendor": "nvidia", "device": "0x2684"}, {"vendor": "amd", "device": "0x744c"}]
    both = like("healthy-nvidia", gpus=cards, torch={"cuda": None, "hip": "7.2.1"})
    assert answers(both)["wheel"].state is True
    assert answers(both)["version"].state is None
