"""The page's answers about moves hold, and its check accepts what is right and tells what is wrong."""

import pytest
import torch
from pages import judged
from torch import nn

PAGE = "2_devices/01_moving.py"


def changed(leaf, **of_type):
    """An answer that is right but for one thing."""

    def answer(thing, device):
        for kind, instead in of_type.items():
            if kind in (base.__name__ for base in type(thing).__mro__):
                return instead(thing, device, answer)
        if isinstance(thing, dict):
            return {key: answer(value, device) for key, value in thing.items()}
        if isinstance(thing, (list, tuple)):
            return type(thing)(answer(part, device) for part in thing)
        return leaf(thing, device)

    return answer


def to(thing, device):
    return thing.to(device) if hasattr(thing, "to") else thing


def in_place(thing, device):
    moved = changed(to)(thing, device)
    if isinstance(thing, dict):
        thing.update(moved)
        return thing
    return moved


def one_level(thing, device):
    if isinstance(thing, dict):
        return {key: to(part, device) for key, part in thing.items()}
    return [to(part, device) for part in thing] if isinstance(thing, list) else to(thing, device)


def without_none(thing, device, answer):
    return {key: answer(value, device) for key, value in thing.items() if value is not None}


WRONG = {
    "drops the result": (lambda thing, device: (changed(to)(thing, device), thing)[1], "still on cpu"),
    "tensors only": (lambda thing, device: thing.to(device), "AttributeError"),
    "flat": (lambda t, d: [to(part, d) for part in t] if type(t) is list else to(t, d), "['pair'][0]"),
    "one level": (one_level, "['pair'][0]"),
    "tuples become lists": (changed(to, tuple=lambda t, d, again: [again(part, d) for part in t]), "list"),
    "lists become tuples": (changed(to, list=lambda t, d, again: tuple(again(part, d) for part in t)), "tuple"),
    "copies always": (changed(to, Tensor=lambda t, d, _: t.to(d, copy=True)), "copied"),
    "one type for all": (changed(to, Tensor=lambda t, d, _: t.to(d, torch.float32)), "torch.float32"),
    "numbers become tensors": (changed(to, int=lambda t, d, _: torch.tensor(t, device=d)), "int"),
    "loses None": (changed(to, dict=without_none), "['id', 'weight']"),
    "changes the batch": (in_place, "has changed"),
    "the start": ("prepare", "still on cpu"),
}


test_answers = judged(["prepare_solution", changed(to)], WRONG)


def test_each_line_answers_as_its_group_does(page) -> None:
    answers = {line: tuple(yes for yes, _ in answer) for line, answer in page["answers"].items()}
    assert answers.pop("model.to(gpu)") == (False, True, True)
    same, copied, crossed = [(False, False, False)] * 2 + [(True, False, False)] * 3, (True, True, False), (True,) * 3
    assert [*answers.values()] == [*same, *[copied] * 3, *[crossed] * 3]


def test_the_trainer_learns_and_the_notes_need_a_gpu(page) -> None:
    assert page["losses"][-1] < 1e-3 * page["losses"][0]
    with pytest.raises(AttributeError, match="model"):
        page["Notes"]("cpu").fit(nn.Linear(3, 1), page["batches"])


def test_a_rehearsal_finds_a_forgotten_tensor(page) -> None:
    trainer = page["Trainer"]("meta")
    with pytest.raises(RuntimeError, match="not on the expected device"):
        trainer.fit(page["Scale"](), page["batches"])
