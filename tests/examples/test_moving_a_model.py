"""What the page says of models and loaders holds; its check tells right answers from wrong ones."""

import re
import textwrap

import pytest
import torch
from pages import EXAMPLES, judged
from torch import nn

PAGE = "2_devices/05_moving_a_model.py"


class Sound(nn.Module):
    """A right answer, and the base of those that are right but for one thing."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("width", torch.ones(4))
        self.steps = nn.ModuleList([nn.Linear(4, 4)])

    def scale(self, x):
        return torch.tensor([1.0, 2.0, 4.0]).to(x)

    def forward(self, x):
        x = (x - self.mean) / self.width
        for layer in self.steps:
            x = torch.relu(layer(x))
        return self.linear(x) * self.scale(x)


class Sequence(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.Sequential(nn.Linear(4, 4))
        self.register_buffer("factors", torch.tensor([1.0, 2.0, 4.0]), persistent=False)

    def scale(self, _):
        return self.factors


class Frozen(Sound):
    def __init__(self) -> None:
        super().__init__()
        del self.width
        self.width = nn.Parameter(torch.ones(4), requires_grad=False)


def changed(**attributes):
    """An answer that is right but for what its attributes are."""

    class Answer(Sound):
        def __init__(self) -> None:
            super().__init__()
            for name, value in attributes.items():
                delattr(self, name)
                if value is not None:
                    setattr(self, name, value())

    return Answer


class Hidden(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.extra = {"factors": torch.ones(3)}


class MovesItself(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("width", torch.ones(4), persistent=False)


class OnTheCpu(Sound):
    def scale(self, _):
        return torch.tensor([1.0, 2.0, 4.0])


class ComesBack(Sound):
    def forward(self, x):
        result = super().forward(x)
        return result if x.device.type == "cpu" else torch.zeros(result.shape)


class ForgetsTheSteps(Sound):
    def forward(self, x):
        return self.linear((x - self.mean) / self.width) * self.scale(x)


class ForgetsTheScale(Sound):
    def scale(self, x):
        return torch.ones(3).to(x)


WRONG = {
    "the careless one": ("Careless", "know of width, steps"),
    "a plain width": (changed(width=lambda: torch.ones(4)), "know of width"),
    "a plain list": (changed(steps=lambda: [nn.Linear(4, 4)]), "know of steps"),
    "a dictionary": (Hidden, "know of extra"),
    "trains the width": (changed(width=lambda: nn.Parameter(torch.ones(4))), "39 numbers"),
    "no layer in steps": (changed(steps=nn.ModuleList), "15 numbers"),
    "a number for a width": (changed(width=lambda: 1.0), "width"),
    "no width": (changed(width=None), "no width"),
    "not saved": (MovesItself, "width wouldn't be saved"),
    "made on the CPU": (OnTheCpu, "device"),
    "comes back": (ComesBack, "isn't on that device"),
    "forgets the steps": (ForgetsTheSteps, "another result"),
    "forgets the scale": (ForgetsTheScale, "another result"),
    "the start": ("Careful", "no linear"),
}


test_answers = judged(["CarefulSolution", Sound, Sequence, Frozen], WRONG)


def test_the_lines_to_copy_carry_a_run_on(monkeypatch, tmp_path) -> None:
    lines = re.search(r"(?ms)^# \.\. code-block:: python\n(.*?)^# \S", (EXAMPLES / PAGE).read_text(encoding="utf-8"))[1]
    monkeypatch.chdir(tmp_path)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    there = {"torch": torch, "model": model, "optimizer": optimizer, "Network": lambda: nn.Linear(3, 1)}
    exec(textwrap.dedent(re.sub("(?m)^#", "", lines)), there)
    assert there["model"] is not model
    assert torch.equal(there["model"].weight.cpu(), model.weight)
    assert there["optimizer"].state[there["model"].weight]["step"] == 1


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


def test_a_module_that_is_also_in_a_list_is_known(page) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    model.layers = [model[0]]
    assert [*page["unknown"](model)] == []


def test_what_stayed_behind_is_not_trained_and_not_saved(page) -> None:
    careless = page["Careless"]()
    assert sum(p.numel() for p in careless.parameters()) == 15
    assert [*careless.state_dict()] == ["mean", "linear.weight", "linear.bias"]


def test_an_optimizer_made_before_fails_and_its_state_follows_when_loaded(page) -> None:
    x64 = torch.ones(1, 3, dtype=torch.float64)
    assert isinstance(page["error_of"](page["step"], page["line"], page["adam"], x64), RuntimeError)
    page["adam"].load_state_dict(page["adam"].state_dict())
    assert page["step"](page["line"], page["adam"], x64) == "done"


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
