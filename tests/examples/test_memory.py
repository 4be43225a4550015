"""The page's allocator keeps its rules, its rehearsal is right to the byte, and its check finds what still leaks."""

import copy
import itertools
import re
import weakref
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from pages import EXAMPLES, judged
from samples import recorded
from torch.nn import functional as F

PAGE = "2_devices/10_memory.py"
MIB = 2**20


def variant(of_loss, of_row, before=lambda: None):
    """The loop of the exercise, with these two ways to keep a loss and a row."""

    def validate(model, batches):
        losses, rows = [], []
        for x, y in batches:
            before()
            output = model(x)
            losses.append(of_loss(F.l1_loss(output, y)))
            rows.append(of_row(output))
        return losses, rows

    return validate


def row(output):
    return output[0].detach()


def clone(output):
    return row(output).clone()


hoard, item = [], torch.Tensor.item
RIGHT = [
    "validate_solution",
    variant(item, lambda output: output[0].tolist()),
    variant(torch.Tensor.detach, lambda output: output[0].clone().detach()),
    variant(item, lambda output: row(output).numpy().copy()),
    torch.no_grad()(variant(torch.clone, lambda output: output[0].clone())),
    torch.inference_mode()(variant(item, lambda output: output[0].clone())),
]
WRONG = {
    "losses as they were": (variant(lambda loss: loss, clone), "backward()"),
    "rows as they were": (variant(item, lambda output: output[0]), "backward()"),
    "a copy with its graph": (variant(item, lambda output: output[0].clone()), "backward()"),
    "rows only detached": (variant(item, row), "shares"),
    "only no_grad": (torch.no_grad()(variant(item, lambda output: output[0])), "shares"),
    "to the CPU, where it is": (variant(item, lambda output: row(output).cpu()), "shares"),
    "contiguous already": (variant(item, lambda output: row(output).contiguous()), "shares"),
    "a deep copy, storage and all": (variant(item, lambda output: copy.deepcopy(row(output))), "shares"),
    "NumPy shares too": (variant(item, lambda output: row(output).numpy()), "something else"),
    "empty_cache": (variant(torch.clone, lambda output: output[0], torch.cuda.empty_cache), "backward()"),
    "a list elsewhere": (variant(item, lambda output: hoard.append(row(output)) or clone(output)), "something else"),
    "whole outputs": (variant(item, lambda output: output.detach().clone()), "rows are not"),
    "no losses": (variant(lambda _: 0.0, clone), "losses are not"),
    "nothing kept": (lambda *_: ([], []), "losses are not"),
    "as it was": ("validate_leaking", "each batch"),
    "the start": ("validate", "TypeError"),
}


test_answers = judged(RIGHT, WRONG)


# -- The model of the allocator ----------------------------------------------------------------------------------------


def test_the_sizes_of_the_rules_are_those_of_the_installed_pytorch() -> None:
    header = Path(torch.__file__).parent / "include/c10/core/AllocatorConfig.h"
    if not header.exists():
        pytest.skip("this PyTorch comes without its headers")
    text = header.read_text(encoding="utf-8")
    sizes = {name: int(size) for name, size in re.findall(r"size_t (\w+)(?: = |\{)(\d+)", text)}
    sizes |= {name: int(size) for name, size in re.findall(r"> (large_segment_size_)\{(\d+)\}", text)}
    rules = {"kMinBlockSize": 512, "kSmallSize": MIB, "kSmallBuffer": 2 * MIB, "kRoundLarge": 2 * MIB}
    rules |= {"kMinLargeAlloc": 10 * MIB, "large_segment_size_": 20 * MIB}
    assert {name: sizes.get(name) for name in rules} == rules
    assert "use_expandable_segments_{false}" in text


@pytest.mark.parametrize(
    ("size", "copies", "reserved"),
    [(4097, 455, 2), (4097, 456, 4), (MIB, 3, 4), (MIB + 512, 1, 20), (10 * MIB - 512, 2, 20), (10 * MIB + 512, 3, 36)],
)
def test_segments_are_shared_and_as_large_as_the_rules_say(page, size, copies, reserved) -> None:
    page["segments"].clear()
    for name in range(copies):
        page["allocate"](name, size)
    assert page["count"]()[1] == reserved * MIB


def test_every_tensor_has_a_block_and_all_is_given_back(page) -> None:
    random, segments, living = Random(1), page["segments"], {}
    segments.clear()
    for name in range(600):
        living[name] = random.choice((1_001, 300_007, 2_000_003, 30_000_001))
        page["allocate"](name, living[name])
        if len(living) > 40:
            victim = random.choice(list(living))
            page["free"](victim)
            del living[victim]
        blocks = {owner: size for segment in segments for size, owner in segment}
        assert all(blocks[name] >= size for name, size in living.items())
    for name in living:
        page["free"](name)
    assert all(len(segment) == 1 for segment in segments)  # free neighbours have joined
    page["empty_cache"]()
    assert page["count"]() == (0, 0)


def test_the_steps_are_taken_on_a_gpu_as_in_the_model(page, monkeypatch) -> None:
    """The card is played by the page's own model, with tensors and a cache left over from something else."""
    names = itertools.count()
    page["segments"].clear()
    page["allocate"]("somebody else's", 30 * MIB)

    def empty(size, **_):
        tensor, name = weakref.WeakSet(), next(names)  # anything that dies when nobody refers to it
        page["allocate"](name, size)
        weakref.finalize(tensor, page["free"], name)
        return tensor

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch.cuda, "empty_cache", page["empty_cache"])
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda *_: page["count"]()[0])
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda *_: page["count"]()[1])
    taken = 500 * MIB
    left = lambda *_: (8000 * MIB - taken - torch.cuda.memory_reserved(), 8000 * MIB)  # noqa: E731
    monkeypatch.setattr(torch.cuda, "mem_get_info", left)
    text = (EXAMPLES / PAGE).read_text(encoding="utf-8").partition("# folded: What a new tensor")[0]
    on_card = {"__name__": "__main__"}
    exec(compile(text.replace('device.type == "cuda"', "True"), PAGE, "exec"), on_card)
    assert on_card["context"] == taken
    np.testing.assert_array_equal(on_card["measured"], on_card["modelled"])


# -- The rehearsal, the budget, leaks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7, 333])
def test_the_rehearsal_is_right_to_the_byte_and_the_sum_an_upper_bound(page, batch) -> None:
    rehearsed, held = (max(page["rehearse"](batch, device)) for device in ("meta", "cpu"))
    assert rehearsed == held <= sum(page["by_hand"](batch).values())


def test_the_largest_batch_fits_and_one_more_does_not(page) -> None:
    limit = 13_000_000
    fitting = page["largest_batch"](limit)
    assert fitting > 1
    page["rehearse"](fitting, "cpu", limit)
    with pytest.raises(torch.OutOfMemoryError):
        page["rehearse"](fitting + 1, "cpu", limit)


def test_leaks_are_as_predicted(page) -> None:
    for way, (predicted, *how) in page["ways"].items():
        levels = [page["live_bytes"](*how, steps=steps) for steps in (2, 3, 4)]
        assert set(np.diff(levels)) == {predicted}, way


def test_the_h100_did_what_the_text_says_of_it() -> None:
    record = recorded(PAGE)
    said = "\n".join(record.outputs.values())
    points = "the model was off by at most 0.00 MiB"
    held = "really held         17,082,400, on cuda:0"
    for number in ("512 more", "203 MiB, PyTorch 472; nvidia-smi shows 999", points, held, "17,083,392"):
        assert number in said
    first, second, third, shown = re.findall(r"(\d+)(?: bytes)?$", next(iter(record.outputs.values())), re.MULTILINE)
    assert first == second == third == "0"
    assert round(int(shown) / 2**20) == 999 - 472  # MiB, the context
    times = {row.label: row.median for row in record.timings.values()}
    assert times["new tensor"] == pytest.approx(times["reused"], rel=0.1)
    assert times["cache emptied"] > 3 * times["new tensor"]


def test_the_figure_of_a_step_has_all_that_the_meter_counts(page) -> None:
    parts = page["parts"]
    assert parts.min() >= 0
    assert parts.sum(axis=1).max() == pytest.approx(max(page["rehearse"](page["batch"])) / 1e6)
