"""The models are what the prose says of them, the demonstrations show it, the check knows which limit was forgotten."""

from heapq import heapreplace
from math import ceil

import numpy as np
import pytest
from pages import judged

from firstlight.kernels import simulated, trace

PAGE = "3_kernels/04_waves_and_blocks.py"


def per_multiprocessor(threads, registers, card):
    in_warps = 32 * ceil(threads / 32)
    return min(card.threads // in_warps, card.blocks, card.registers // (in_warps * registers))


def right(blocks, threads, registers, card):
    return ceil(blocks / (card.multiprocessors * per_multiprocessor(threads, registers, card)))


def not_rounded(blocks, threads, registers, card):
    return blocks / (card.multiprocessors * per_multiprocessor(threads, registers, card))


def rounded_down(blocks, threads, registers, card):
    return blocks // (card.multiprocessors * per_multiprocessor(threads, registers, card))


def one_at_a_time(blocks, _threads, _registers, card):
    return ceil(blocks / card.multiprocessors)


def threads_only(blocks, threads, _registers, card):
    return ceil(blocks / (card.multiprocessors * (card.threads // threads)))


def without_registers(blocks, threads, _registers, card):
    return right(blocks, threads, 1, card)


def without_warps(blocks, threads, registers, card):
    held = min(card.threads // threads, card.blocks, card.registers // (threads * registers))
    return ceil(blocks / (card.multiprocessors * held))


WRONG = [
    (not_rounded, "round up"),
    (rounded_down, "round up"),
    (one_at_a_time, "several"),
    (threads_only, "so many blocks"),
    (without_registers, "share"),
    (without_warps, "four warps"),
    (lambda *_: "7", "no number"),
    (lambda *_: True, "no number"),
    ("waves", "no number"),
]

test_answers = judged(["waves_solution", right], WRONG)


def test_blocks_fill_what_the_text_says(page):
    filled, room = page["filled"], page["ROOM"]
    assert {name: filled(32, *limits) for name, limits in room.items()} == dict.fromkeys(room, 1 / 2)
    assert filled(1024, *room["8.9"]) == pytest.approx(2 / 3)
    assert all(filled(256, *limits) == 1 for limits in room.values())
    assert max(filled(100, *limits) for limits in room.values()) < 0.8


def test_a_loop_costs_registers(page):
    one, loop = (page["registers"][name] for name in ("smooth", "smooth_any_grid"))
    assert all(less < more for less, more in zip(one, loop, strict=True))
    for name, needs in page["registers"].items():
        assert needs == pytest.approx(page["RECORDED"][name], abs=12), "record it anew"


SIGNATURES = {
    "turn_around": "int64[::1]",
    "running_total": "int64[::1], int64[::1], int64[::1]",
    "busy": "float32[::1], int64",
}


def test_each_kernel_compiles_without_a_double_or_a_spill(page, compiled):
    for name, types in SIGNATURES.items():
        compiled(page[name], types)


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
def test_the_running_total_is_right_in_the_simulators_order_only(page):
    wrong = page["wrong_totals"]
    assert wrong["in order"] == 0
    assert wrong["backwards"] > 20
