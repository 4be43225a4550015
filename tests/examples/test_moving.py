"""The page's answers about moves hold, and its check accepts what is right and tells what is wrong."""

import itertools

import pytest
import torch
from torch import nn

PAGE = "2_devices/01_moving.py"


def check_of(page, answer) -> str:
    return page["check"](answer)


def right(thing, device):
    match thing:
        case torch.Tensor():
            return thing.to(device)
        case dict():
            return type(thing)((key, right(value, device)) for key, value in thing.items())
        case list():
            return [right(part, device) for part in thing]
        case tuple():
            return tuple(right(part, device) for part in thing)
    return thing


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


def drop(thing, device):
    to(thing, device)
    return thing


def in_place(thing, device):
    if isinstance(thing, dict):
        for key in thing:
            thing[key] = in_place(thing[key], device)
        return thing
    if isinstance(thing, list):
        thing[:] = [in_place(part, device) for part in thing]
        return thing
    if isinstance(thing, tuple):
        return tuple(in_place(part, device) for part in thing)
    return to(thing, device)


WRONG = {
    "drops the result": (changed(drop), "it is still on cpu; .to returns the moved tensor"),
    "tensors only": (lambda thing, device: thing.to(device), "raised AttributeError"),
    "flat": (
        lambda thing, device: [to(part, device) for part in thing] if isinstance(thing, list) else to(thing, device),
        "it['pair'][0] is still on cpu",
    ),
    "one level": (
        lambda thing, device: (
            {key: to(part, device) for key, part in thing.items()}
            if isinstance(thing, dict)
            else [to(part, device) for part in thing]
            if isinstance(thing, list)
            else to(thing, device)
        ),
        "it['pair'][0] is still on cpu",
    ),
    "tuples become lists": (
        changed(to, tuple=lambda thing, device, answer: [answer(part, device) for part in thing]),
        "it['pair'] was tuple, and became list",
    ),
    "lists become tuples": (
        changed(to, list=lambda thing, device, answer: tuple(answer(part, device) for part in thing)),
        "it was list, and became tuple",
    ),
    "copies always": (
        changed(to, Tensor=lambda thing, device, answer: thing.to(device, copy=True)),
        "already was copied",
    ),
    "one type for all": (
        changed(to, Tensor=lambda thing, device, answer: thing.to(device, torch.float32)),
        "it['pair'][1][0] became torch.float32",
    ),
    "numbers become tensors": (
        changed(to, int=lambda thing, device, answer: torch.tensor(thing, device=device)),
        "it was int, and became Tensor",
    ),
    "loses None": (
        changed(
            to, dict=lambda thing, device, answer: {k: answer(v, device) for k, v in thing.items() if v is not None}
        ),
        "it['rest'] had the parts ['id', 'weight', 'no'], and now has ['id', 'weight']",
    ),
    "changes the batch": (in_place, "the batch that you were given has changed"),
    "returns nothing": (lambda thing, device: None, "it was Tensor, and became NoneType"),
    "one argument": (lambda thing: thing, "raised TypeError"),
    "no function": (3, "raised TypeError"),
}


@pytest.mark.parametrize("answer", [right, changed(to)])
def test_right_answers(page, answer) -> None:
    assert check_of(page, answer).startswith("Right")


@pytest.mark.parametrize(("answer", "hint"), WRONG.values(), ids=WRONG)
def test_wrong_answers_are_told_why(page, answer, hint) -> None:
    said = check_of(page, answer)
    assert said.startswith("Not yet. Moving to")
    assert hint in said


def test_the_solution_is_right_and_the_start_is_not(page) -> None:
    assert check_of(page, page["prepare_solution"]).startswith("Right")
    assert "it is still on cpu; .to returns the moved tensor" in check_of(page, page["prepare"])


def test_each_line_answers_as_its_group_does(page) -> None:
    answers = {line: tuple(yes for yes, _ in answer) for line, answer in page["answers"].items()}
    assert [*answers] == [*page["lines"]]
    assert len(answers) == 12
    same, copied, crossed = [*answers][:5], [*answers][5:8], [*answers][8:]
    assert [answers[line] for line in same] == [(False, False, False)] * 2 + [(True, False, False)] * 3
    assert {answers[line] for line in copied} == {(True, True, False)}
    assert answers.pop("model.to(gpu)") == (False, True, True)
    assert {answers[line] for line in crossed if line in answers} == {(True, True, True)}


def test_only_what_cannot_be_asked_here_is_a_model(page) -> None:
    for line, (thing, memory, wait) in page["answers"].items():
        assert wait[1] is (page["device"].type == "cuda")
        assert thing[1] is memory[1] is (page["has_gpu"] or not line.startswith("g."))


def test_a_list_of_devices_is_never_empty(page) -> None:
    gpus = page["try_all_gpus"]()
    assert len(gpus) == max(1, torch.accelerator.device_count())
    assert (gpus[0].type == "cpu") is not page["has_gpu"]


def test_the_trap_of_cpu(page) -> None:
    kept = [int(value) for value in page["kept"]]
    assert kept == ([1, 2, 3] if page["has_gpu"] else [3, 3, 3])


def test_what_moves_with_a_model_and_what_stays(page) -> None:
    model = page["Scale"]().to("meta")
    assert page["where"](model) == {"meta"}
    assert {model.width.device.type, model.steps[0].weight.device.type} == {"cpu"}


def test_a_state_made_before_the_move_fails_until_it_is_loaded_again(page) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters())
    page["step"](model, optimizer, torch.ones(1, 3))
    model.double()
    with pytest.raises(RuntimeError, match="dtype"):
        page["step"](model, optimizer, page["x64"])
    optimizer.load_state_dict(optimizer.state_dict())
    page["step"](model, optimizer, page["x64"])


def test_the_trainer_learns_and_the_notes_need_a_gpu(page) -> None:
    assert page["losses"][-1] < 1e-3 * page["losses"][0]
    with pytest.raises(AttributeError, match="model"):
        page["Notes"]("cpu").fit(nn.Linear(3, 1), page["batches"])


class Turned(nn.Module):
    """It forgets a tensor, too, but only multiplies matrices with it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.turn = torch.eye(3)

    def forward(self, x):
        return self.linear(x @ self.turn)


def test_a_rehearsal_finds_one_forgotten_tensor_and_misses_another(page) -> None:
    trainer = page["Trainer"]("meta")
    with pytest.raises(RuntimeError, match="not on the expected device"):
        trainer.fit(page["Scale"](), page["batches"])
    assert trainer.fit(Turned(), page["batches"]).device.type == "meta"


def test_the_figure_says_what_it_shows(page) -> None:
    assert "Only model.to(gpu)" in page["fig"].get_label()


def test_times_of_many_decades_can_be_read_off_the_axis(page) -> None:
    fig = page["bench"].plot()
    fig.canvas.draw()
    ax = fig.axes[0]
    low, high = ax.get_xlim()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels() if low <= label.get_position()[0] <= high]
    assert len(boxes) >= 3
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
