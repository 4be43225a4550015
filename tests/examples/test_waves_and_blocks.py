"""The models are what the prose says of them, the demonstrations show it, and the check finds an order relied upon."""

from heapq import heapreplace

import numpy as np
import pytest
from numba import cuda
from pages import doubles_and_spills, judged
from variants import edited

from firstlight_kernels import simulated, trace

PAGE = "3_kernels/04_waves_and_blocks.py"


# -- The exercise ------------------------------------------------------------------------------------------------------


@cuda.jit
def each_its_own(counts, totals):
    block = cuda.blockIdx.x
    total = 0
    for earlier in range(block + 1):
        total += counts[earlier]
    totals[block] = total


@cuda.jit
def with_atomics(counts, totals):
    block = cuda.blockIdx.x
    for later in range(block, totals.size):
        cuda.atomic.add(totals, later, counts[block])


@cuda.jit
def one_block_does_all(counts, totals):
    if cuda.blockIdx.x == 0:
        total = 0
        for row in range(totals.size):
            total += counts[row]
            totals[row] = total


@cuda.jit
def waits(counts, totals):
    block = cuda.blockIdx.x
    while block < totals.size - 1 and totals[block + 1] == 0:
        pass
    totals[block] = counts[block]


NOT_ATOMIC = "cuda.atomic.add(totals, later, counts[block])", "totals[later] += counts[block]"
SPOILED = "totals[block] = total", "totals[block] = total; counts[block] = 0"
WRONG = {
    "as it was": ("running_total", "order"),
    "it forgets its own row": (edited(each_its_own, ("block + 1", "block")), "should have"),
    "read, add, write": (edited(with_atomics, NOT_ATOMIC), "order"),
    "it spoils the counts": (edited(each_its_own, SPOILED), "order|changes"),
    "past the end": (edited(each_its_own, ("block + 1", "block + 2")), "counts["),
    "it waits for ever": (waits, "runs"),
    "the start": ("any_order", "should have"),
}


test_answers = judged(["any_order_solution", each_its_own, with_atomics, one_block_does_all], WRONG)


# -- What the page says ------------------------------------------------------------------------------------------------


def test_blocks_fill_what_the_text_says(page):
    filled, room = page["filled"], page["ROOM"]
    assert {name: filled(32, *limits) for name, limits in room.items()} == dict.fromkeys(room, 1 / 2)
    assert filled(1024, *room["RTX 4090"]) == pytest.approx(2 / 3)
    assert all(filled(threads, *limits) == 1 for limits in room.values() for threads in (128, 256))
    assert max(filled(100, *limits) for limits in room.values()) < 0.8


SIGNATURES = {
    "turn_around": "int64[::1]",
    "running_total": "int64[::1], int64[::1]",
    "any_order_solution": "int64[::1], int64[::1]",
    "busy": "float32[::1], int64",
}


def test_each_kernel_compiles_without_a_double_or_a_spill(page, compiled):
    for name, types in SIGNATURES.items():
        assert doubles_and_spills(compiled(page[name], types)) == ([], 0), name


@pytest.mark.parametrize(("blocks", "multiprocessors"), [(98, 16), (98, 132), (16, 16), (17, 16), (1, 5), (500, 132)])
def test_the_formula_is_what_handing_out_blocks_one_by_one_gives(page, blocks, multiprocessors):
    free = [0] * multiprocessors
    for _ in range(blocks):
        heapreplace(free, free[0] + 1)  # the one that is free first takes the next block
    assert page["in_use"](blocks, multiprocessors) == pytest.approx(blocks / (multiprocessors * max(free)))


def test_the_barrier_is_what_makes_it_right(page):
    assert page["wrong"] == 0
    assert not trace(page["turn_around"], 1, 1024, np.arange(1024)).races


@pytest.mark.skipif(not simulated(), reason="on a GPU nobody knows what it gives: that is the point")
def test_the_running_total_is_wrong_but_in_the_first_row_when_all_blocks_begin_at_once(page):
    assert page["wrong_rows"] == 28
