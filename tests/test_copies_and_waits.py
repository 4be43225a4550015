"""Each line in the tables of the page on copies and waits does what stands beside it."""

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

PAGE = Path(__file__).parents[1] / "docs/copies_and_waits.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
]
MOVES = {row[0].strip("`"): row[1:] for row in ROWS if len(row) == 4}
WAITS = {row[0].strip("`"): row[1] for row in ROWS if len(row) == 2}
CUDA = torch.cuda.is_available()
GPU = torch.device("cuda" if CUDA else "meta")


def names() -> dict[str, object]:
    h, a = torch.ones(5), np.ones(5, dtype=np.float32)
    x = h.to(GPU if CUDA else "cpu", copy=True)
    made = {"h": h, "a": a, "x": x, "g": h.to(GPU), "model": nn.Linear(3, 2), "gpu": GPU, "device": x.device}
    return {"torch": torch, **made}


def address(thing):
    """The memory of an array, of a tensor, or of a model's first parameter."""
    if isinstance(thing, nn.Module):
        thing = next(thing.parameters())
    if isinstance(thing, np.ndarray):
        return torch.device("cpu"), thing.ctypes.data
    return thing.device, thing.untyped_storage().data_ptr()


def stands_still(line: str) -> bool:
    """Whether a line returns only after a CUDA GPU has reached a mark behind a lot of work."""
    eval(line, names())  # a first call may wait for reasons of its own
    there, big = names(), torch.ones(4096, 4096, device=GPU)
    product = big @ big
    torch.cuda.synchronize()
    for _ in range(20):
        torch.mm(big, big, out=product)
    mark = torch.cuda.Event()
    mark.record()
    eval(line, there)
    return mark.query()


def needs_numbers(line: str) -> bool:
    """Whether a line fails on tensors without numbers, or prints dots in their place."""
    x = torch.ones(1003, device="meta")
    with contextlib.redirect_stdout(None):
        try:
            result = eval(line, {"torch": torch, "x": x, "mask": x > 0.5, "print": str})
        except Exception:
            return True
    return isinstance(result, str) and "..." in result


def test_all_rows_were_read() -> None:
    assert len(MOVES) == 14
    assert len(WAITS) == 18
    assert {cells[2] for cells in MOVES.values()} | {*WAITS.values()} == {"goes on", "waits"}


@pytest.mark.parametrize("line", MOVES)
def test_a_line_gives_the_object_and_the_memory_that_the_page_says(line: str) -> None:
    if line.startswith("g.") and not CUDA:
        pytest.skip("a tensor without numbers cannot come back")
    there = names()
    had = there[re.findall(r"\b(x|h|g|a|model)\b", line)[0]]
    before = address(had)
    got = eval(line, there)
    assert MOVES[line][:2] == ["the same" if got is had else "new", "the same" if address(got) == before else "new"]


@pytest.mark.parametrize("line", MOVES)
def test_what_crosses_waits(line: str) -> None:
    crosses = line.startswith("g.") or "gpu" in line
    assert MOVES[line][2] == ("waits" if (stands_still(line) if CUDA else crosses) else "goes on")


@pytest.mark.parametrize("line", WAITS)
def test_a_line_waits_if_it_needs_a_number(line: str) -> None:
    assert WAITS[line] == ("waits" if needs_numbers(line) else "goes on")
    x = torch.ones(1003)
    with contextlib.redirect_stdout(None):
        eval(line, {"torch": torch, "x": x, "mask": x > 0.5})  # a line that works where there are numbers
