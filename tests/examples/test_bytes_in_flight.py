"""The kernels copy, the compiler kept their loads apart, the model and the occupancies are those of the prose."""

import re

import numpy as np
import pytest
from numba import cuda
from pages import doubles_and_spills, judged
from samples import recorded
from variants import edited

from firstlight_kernels import trace

PAGE = "3_kernels/11_bytes_in_flight.py"


# -- The law on a CPU --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [1, 7, 64, 101])
def test_a_linked_table_is_one_cycle_through_all_lines(page, lines) -> None:
    after, at = np.zeros(8 * lines, np.int64), np.zeros(1, np.int64)
    page["link"](after, np.random.default_rng(lines).permutation(lines))
    seen = []
    for _ in range(lines):
        seen.append(at[0])
        page["walk"](after, at, 1)
    assert sorted(seen) == [8 * line for line in range(lines)]
    assert at[0] == 0


# -- The kernels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["four_in_turn", *(f"loads_first({E})" for E in (1, 2, 4, 8))])
def test_every_element_is_copied_once_whatever_the_grid(page, name) -> None:
    for size in (1, 65, 257):
        for blocks, threads in ((1, 3), (3, 16), (5, 33)):
            x, out = np.random.default_rng(size).random(size, dtype=np.float32), np.full(size, -1, np.float32)
            made = trace(page["kernels"][name], blocks, threads, x, out)
            assert made.problems == []
            assert np.array_equal(out, x), (size, blocks, threads)
            assert made.counts("store", "global").sum() == size


def test_loads_first_has_its_loads_before_its_stores_and_in_turn_has_not(page, compiled) -> None:
    begins = {"four_in_turn": "LSLSLSLS", "loads_first(1)": "LS", "loads_first(2)": "LLSS"}
    begins |= {"loads_first(4)": "LLLLSSSS", "loads_first(8)": "LLLLLLLLSSSSSSSS"}
    made = {name: compiled(page["kernels"][name], page["TYPES"]) for name in begins}
    for name, expected in begins.items():
        assert doubles_and_spills(made[name]) == ([], 0), name
        for text in filter(None, (made[name].text, made[name].sass if "4" in name else None)):
            found = re.findall(r"\b(?:(LD|ST)G\b|(ld|st)\.global)", text)
            assert "".join((a or b)[0].upper() for a, b in found).startswith(expected), name
    assert made["four_in_turn"].mix == made["loads_first(4)"].mix


# -- The law -----------------------------------------------------------------------------------------------------------


def test_an_h100_needs_about_half_of_its_threads(page) -> None:
    """As many as with the rate of its cores: 67e12 / (2 · 128) clocks a second of all multiprocessors."""
    clocks = page["spec"]("H100 SXM", "fp32") / 2 / 128
    assert page["needs"]["H100 SXM"] == pytest.approx(
        page["spec"]("H100 SXM", "bandwidth") / clocks * 600 / 8, rel=0.01
    )
    assert 0.4 < page["needs"]["H100 SXM"] / 2048 < 0.6


def test_the_gpus_walker_walks_as_the_cpus(page) -> None:
    table, at, right = np.zeros(8 * 101, np.int64), 8 * np.arange(33), 8 * np.arange(33)
    page["link"](table, np.random.default_rng(1).permutation(101))
    assert not trace(page["walk_on_gpu"], 3, 11, table, at, 7).problems
    page["walk"](table, right, 7)
    assert np.array_equal(at, right)


def test_the_h100_did_what_the_text_says_of_it() -> None:
    timings = recorded(PAGE).timings
    rate = {
        row.label: row.byte_rate / timings["bytes-in-flight/torch/cuda:0/n=314572801"].byte_rate
        for row in timings.values()
        if row.byte_rate
    }
    assert rate["four_in_turn"] < 0.9 < 0.97 < rate["loads_first(4)"] < 1.03
    quarter = [rate[f"{loads}, 25% full"] for loads in ("1 load", "2 loads", "4 loads", "8 loads")]
    assert quarter == sorted(quarter)
    assert 0.3 < quarter[0] < 0.4
    assert rate["1 load, 100% full"] < quarter[3]
    same = rate["2 loads, 100% full"], rate["4 loads, 50% full"], quarter[3]
    assert max(same) < 1.05 * min(same)
    twice = rate["1 load, 100% full"], rate["2 loads, 50% full"], quarter[2]
    assert all(0.7 < each < 0.8 for each in twice)


# -- The exercise ------------------------------------------------------------------------------------------------------


@cuda.jit
def squares(x, out):
    mine = cuda.local.array(4, np.float32)
    step = cuda.blockDim.x
    at = cuda.blockIdx.x * 4 * step + cuda.threadIdx.x
    for e in range(4):
        if at + e * step < x.size:
            mine[e] = x[at + e * step]
    for e in range(4):
        if at + e * step < x.size:
            out[at + e * step] = mine[e] * mine[e]


@cuda.jit
def one_each(x, out):
    i = cuda.grid(1)
    if i < x.size:
        number = x[i]
        out[i] = number * number


NUMBER, SQUARE, FIRST = "x[at + e * step]\n", "mine[e] * mine[e]", "cuda.blockIdx.x * 4 * step + cuda.threadIdx.x"
STEP, AGAIN = "step = cuda.blockDim.x", "    for e in range(4):\n        if at + e * step < x.size:\n"
NEIGHBOURS = (STEP, "step = 1"), (FIRST, "4 * cuda.grid(1)")
OVER_THE_GRID = edited(squares, (STEP, "step = cuda.gridsize(1)"), (FIRST, "cuda.grid(1)"))
WRONG = {
    "in turn": (edited(squares, (NUMBER + AGAIN, NUMBER)), "before its last load"),
    "one each": (one_each, "should be"),
    "not squared": (edited(squares, (SQUARE, "mine[e]")), "should be"),
    "loaded twice": (edited(squares, (SQUARE, "mine[e]"), (NUMBER, f"{NUMBER.strip()} * {NUMBER}")), "twice"),
    "four neighbours": (edited(squares, *NEIGHBOURS), "neighbouring"),
    "no guard": (edited(squares, ("at + e * step < x.size", "True")), "where the shape"),
    "the start": ("squares", "should be"),
}


test_answers = judged(["squares_solution", squares, OVER_THE_GRID], WRONG)
