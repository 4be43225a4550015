"""What the page says of models and loaders holds; its check tells right answers from wrong ones."""

import pytest
import torch
from pages import judged
from torch import nn

PAGE = "2_devices/05_moving_a_model.py"


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
    "the start": ("prepare", "NoneType"),
}


test_answers = judged(["prepare_solution", changed(to)], WRONG)


def test_parameters_and_buffers_move_and_nothing_else_does(page) -> None:
    assert [what for what, went in page["moved"].items() if went] == ["a parameter (linear.weight)", "a buffer (mean)"]


def test_on_meta_the_parameters_are_new_ones() -> None:
    model = nn.Linear(2, 2)
    weight = model.weight
    assert model.double().weight is weight
    assert model.to("meta").weight is not weight


def test_where_asks_parameters_and_buffers(page) -> None:
    norm = nn.BatchNorm1d(3)
    norm.running_mean = norm.running_mean.to("meta")
    assert page["where"](norm) == {"cpu", "meta"}


def test_the_loop_learns(page) -> None:
    assert page["losses"][-20:].mean() < 0.5 * page["losses"][0]
    assert page["share"] > 0.6, "guessing is right for a third"


def test_a_rehearsal_finds_what_stayed_behind(page) -> None:
    assert page["train"](page["network"](), page["stars"], "meta").device.type == "meta"
    with pytest.raises(RuntimeError, match="not on the expected device"):
        page["train"](page["Careless"](), page["stars"], "meta")


def test_only_the_call_of_a_model_runs_its_hooks(page) -> None:
    calls, layer = page["calls"], page["layer"]
    assert calls == []
    layer(page["colours"])
    assert calls == ["the hook ran"]


def test_loading_and_picking_give_batches_on_the_device(page) -> None:
    for feed in (page["load"], page["pick"]):
        x, y = feed()
        assert x.shape == (50, 4)
        assert y.shape == (50,)
        assert {x.device.type, y.device.type} == {page["device"].type}
