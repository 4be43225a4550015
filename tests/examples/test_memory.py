"""The page's allocator has PyTorch's constants, its meter counts to the byte, and its check finds what still leaks."""

import copy
import re
import weakref
from itertools import count
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from torch.nn import functional as F

PAGE = "2_devices/06_memory.py"
EXAMPLES = Path(__file__).parents[2] / "examples"
MIB = 2**20


def variant(of_loss, of_row, before=lambda: None):
    """The loop of the exercise, with these two ways to keep a loss and a row."""

    def fit(model, optimizer, batches):
        history, rows = [], []
        for x, y in batches:
            before()
            output = model(x)
            optimizer.zero_grad()
            F.l1_loss(output, y).backward()
            optimizer.step()
            history.append(of_loss(F.l1_loss(model(x), y)))
            rows.append(of_row(output))
        return history, rows

    return fit


def without_graph(model, optimizer, batches):
    with torch.no_grad():
        return variant(torch.Tensor.item, lambda output: output[0].clone())(model, optimizer, batches)


def later_rows(model, optimizer, batches):
    history, rows = [], []
    for x, y in batches:
        optimizer.zero_grad()
        F.l1_loss(model(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            output = model(x)
            history.append(F.l1_loss(output, y).item())
            rows.append(output[0].clone())
    return history, rows


def clone(output):
    return output[0].detach().clone()


hoard = []


def hoarded(output):
    hoard.append(output)
    return clone(output)


RIGHT = {
    "numbers and copies": variant(torch.Tensor.item, clone),
    "float and a list": variant(torch.Tensor.item, lambda output: output[0].tolist()),
    "detached": variant(torch.Tensor.detach, lambda output: output[0].clone().detach()),
    "arrays": variant(torch.Tensor.item, lambda output: output[0].detach().numpy().copy()),
}
WRONG = {
    "as it was": (variant(lambda loss: loss, lambda output: output[0].detach()), "backward() would need"),
    "rows only": (variant(lambda loss: loss, clone), "backward() would need"),
    "losses only": (variant(torch.Tensor.item, lambda output: output[0].detach()), "shares a storage"),
    "to the CPU, where it is": (
        variant(torch.Tensor.item, lambda output: output[0].detach().cpu()),
        "shares a storage",
    ),
    "contiguous already": (
        variant(torch.Tensor.item, lambda output: output[0].detach().contiguous()),
        "shares a storage",
    ),
    "a deep copy, storage and all": (
        variant(torch.Tensor.item, lambda o: copy.deepcopy(o[0].detach())),
        "shares a storage",
    ),
    "NumPy shares too": (variant(torch.Tensor.item, lambda output: output[0].detach().numpy()), "something else"),
    "empty_cache": (
        variant(lambda loss: loss, lambda output: output[0].detach(), torch.cuda.empty_cache),
        "backward() would need",
    ),
    "a list elsewhere": (variant(torch.Tensor.item, hoarded), "something else"),
    "rows of another moment": (later_rows, "rows has changed"),
    "whole outputs": (variant(torch.Tensor.item, lambda output: output.detach().clone()), "rows has changed"),
    "no losses": (variant(lambda _: 0.0, clone), "history has changed"),
    "nothing kept": (lambda *_: ([], []), "history has changed"),
    "no graph at all": (without_graph, "raised RuntimeError"),
    "nothing returned": (lambda *_: None, "raised TypeError"),
    "no function": (3, "raised TypeError"),
}


@pytest.mark.parametrize("answer", RIGHT.values(), ids=RIGHT)
def test_right_answers(page, answer) -> None:
    assert page["check"](answer).startswith("Right")


@pytest.mark.parametrize(("answer", "hint"), WRONG.values(), ids=WRONG)
def test_wrong_answers_are_told_why(page, answer, hint) -> None:
    said = page["check"](answer)
    assert hint in said
    assert not said.startswith("Right")
    hoard.clear()


def test_the_solution_is_right_and_the_start_is_not(page) -> None:
    assert page["check"](page["fit_solution"]).startswith("Right")
    assert "each step still adds" in page["check"](page["fit"])


# -- The model of the allocator ----------------------------------------------------------------------------------------


def test_the_rules_are_those_of_the_installed_pytorch(page) -> None:
    header = Path(torch.__file__).parent / "include/c10/core/AllocatorConfig.h"
    text = header.read_text(encoding="utf-8") if header.exists() else ""
    constants = {name: int(value) for name, value in re.findall(r"size_t (k\w+) = (\d+);", text)}
    if "kMinLargeAlloc" not in constants:
        pytest.skip("this PyTorch keeps them elsewhere")
    assert constants["kMinBlockSize"] == 512
    assert constants["kSmallSize"] == MIB
    assert constants["kSmallBuffer"] == constants["kRoundLarge"] == 2 * MIB
    assert constants["kMinLargeAlloc"] == 10 * MIB
    assert re.search(r"large_segment_size_\{20971520\}", text)
    assert page["MIB"] == MIB


@pytest.mark.parametrize(
    ("size", "copies", "reserved"),
    [(8, 4096, 2), (8, 4097, 4), (MIB, 3, 4), (MIB + 512, 1, 20), (10 * MIB - 512, 2, 20), (10 * MIB + 512, 3, 36)],
)
def test_segments_are_shared_and_as_large_as_the_rules_say(page, size, copies, reserved) -> None:
    segments = []
    for name in range(copies):
        page["allocate"](segments, name, size)
    assert page["count"](segments)[1] == reserved * MIB


def test_the_story_goes_as_the_page_tells_it(page) -> None:
    allocated, reserved, on_card = page["modelled"].T
    labels = [label for label, _, _ in page["story"]]
    assert (np.diff(reserved)[labels.index("del d") - 1], np.diff(reserved)[labels.index("e: 200 MiB") - 1]) == (0, 0)
    f = labels.index("f: 240 MiB")
    assert sum(page["holes"][f - 1]) > 240 * MIB > max(page["holes"][f - 1])
    assert reserved[f] - reserved[f - 1] == 240 * MIB
    assert reserved[f + 1] - reserved[f] == -150 * MIB
    assert allocated[f + 1] == allocated[f]
    assert (allocated[-1], reserved[-1], on_card[-1]) == (0, 0, page["context"])


class Card:
    """A CUDA card, played by the page's own model, with tensors and a cache left over from something else."""

    def __init__(self, model) -> None:
        self.model, self.segments, self.names = model, [], count()
        model["allocate"](self.segments, "somebody else's", 30 * MIB)

    def empty(self, size, **_):
        tensor, name = weakref.WeakSet(), next(self.names)  # anything that dies when nobody refers to it
        self.model["allocate"](self.segments, name, size)
        weakref.finalize(tensor, self.model["free"], self.segments, name)
        return tensor


def test_the_steps_are_taken_on_a_gpu_as_in_the_model(page, monkeypatch) -> None:
    card = Card(page)
    monkeypatch.setattr(torch, "empty", card.empty)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: page["empty_cache"](card.segments))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda *_: page["count"](card.segments)[0])
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda *_: page["count"](card.segments)[1])
    taken = 500 * MIB
    monkeypatch.setattr(
        torch.cuda, "mem_get_info", lambda *_: (8000 * MIB - taken - torch.cuda.memory_reserved(), 8000 * MIB)
    )
    monkeypatch.setattr(plt, "show", lambda: None)
    text = (EXAMPLES / PAGE).read_text(encoding="utf-8").partition("# A meter for every device")[0]
    on_card = {"__name__": "__main__"}
    exec(compile(text.replace('device.type == "cuda"', "True"), PAGE, "exec"), on_card)
    plt.close("all")
    assert on_card["context"] == taken
    np.testing.assert_array_equal(on_card["measured"], on_card["modelled"])


# -- The meter, the budget, leaks --------------------------------------------------------------------------------------


def test_the_meter_counts_storages_once_and_forgets_them(page) -> None:
    with page["Meter"]() as meter:
        a = torch.zeros(1001)
        b = a[3:5].view(2, 1)
        assert meter.live() == 4004
        c = a.double()
        assert meter.live() == 4004 + 8008
        del a, c
        assert meter.live() == 4004
        del b
    assert meter.live() == 0


def test_the_budget_is_that_of_the_tensors(page) -> None:
    budget, batch = page["by_hand"](101), 101
    with page["Meter"]() as meter:
        model, optimizer = page["make"]("cpu")
        weights = meter.live()
        page["train"](model, optimizer, batch, "cpu")
    steps = 4 * len(list(model.parameters()))  # Adam counts its steps, too
    assert weights == budget["weights"]
    assert meter.live() == sum(budget[k] for k in ("weights", "gradients", "Adam's two averages")) + steps
    held = sum(
        p.nbytes + p.grad.nbytes + sum(s.nbytes for s in optimizer.state[p].values()) for p in model.parameters()
    )
    assert meter.live() == held


@pytest.mark.parametrize("batch", [1, 7, 333, 1500])
def test_the_rehearsal_is_right_to_the_byte_and_the_sum_an_upper_bound(page, batch) -> None:
    rehearsed, held = (max(page["rehearse"](batch, device)[0]) for device in ("meta", "cpu"))
    assert rehearsed == held <= sum(page["by_hand"](batch).values())


def test_the_largest_batch_fits_and_one_more_does_not(page) -> None:
    limit = 13_000_000
    fitting = page["largest_batch"](limit)
    assert fitting > 1
    page["rehearse"](fitting, "cpu", limit)
    with pytest.raises(torch.OutOfMemoryError):
        page["rehearse"](fitting + 1, "cpu", limit)


def test_leaks_are_as_predicted(page) -> None:
    for way, steps in page["grown"].items():
        assert set(steps) == {page["predicted"][way]}, way


def test_only_outside_the_block_is_there_room_again(page) -> None:
    got = {}
    for recover in ("again_inside", "again_outside"):
        with page["Meter"](limit=page["toy"]):
            model, optimizer = page["make"](page["device"])
            namespace = page[recover].__globals__
            namespace["model"], namespace["optimizer"] = model, optimizer
            got[recover] = page[recover](8000)
    assert got["again_outside"] == 500 <= page["fitting"]
    assert got["again_inside"] == "nothing"


def test_every_keeper_keeps_and_every_cure_cures(page) -> None:
    alive = {}
    for keeper in (
        "a_part",
        "a_function",
        "an_exception",
        "a_result",
        "a_copy_of_the_part",
        "the_number_of_the_result",
    ):
        with page["Meter"]() as meter:
            kept = page[keeper](torch.zeros(100_003))
        alive[keeper] = meter.live()
        del kept
        assert meter.live() == 0
    cured = {alive.pop("a_copy_of_the_part"), alive.pop("the_number_of_the_result")}
    assert max(cured) <= 40
    assert min(alive.values()) >= 400_012


def test_the_figure_says_what_it_shows(page) -> None:
    assert "predicted lines" in page["fig"].get_label()
