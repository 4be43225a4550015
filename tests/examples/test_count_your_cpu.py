"""The page's check accepts what is right and tells what is wrong; its ways and its model do what it says."""

import math

import numpy as np
import pytest
from pages import judged

from firstlight.timing.ceilings import PER_CLOCK

PAGE = "1_setup/04_count_your_cpu.py"


def in_chains(count, x):
    return [sum(x[start::count]) for start in range(count)]


def pairwise(x):
    half = len(x) // 2
    return pairwise(x[:half]) + pairwise(x[half:]) if half else sum(x)


def unrolled(x):
    a = b = c = d = e = f = g = h = 0.0
    full = len(x) // 8 * 8
    for i in range(0, full, 8):
        a, b, c, d = a + x[i], b + x[i + 1], c + x[i + 2], d + x[i + 3]
        e, f, g, h = e + x[i + 4], f + x[i + 5], g + x[i + 6], h + x[i + 7]
    return a + b + c + d + e + f + g + h + sum(x[full:])


def with_numpy(x):
    full = len(x) // 8 * 8
    return x[:full].reshape(-1, 8).sum(axis=0).sum() + x[full:].sum()


def eight_by_eight(x):
    return sum((sum(x[i : i + 8]) for i in range(0, len(x), 8)), 0.0)


RIGHT = ["sum_in_eight_solution", pairwise, unrolled, with_numpy, eight_by_eight, lambda x: sum(in_chains(16, x))]
WRONG = {  # each with a word of what it should hear
    "one chain": ("chain_sum", "wait for each other"),
    "NumPy's sum": (np.sum, "wait for each other"),
    "two chains": (lambda x: sum(in_chains(2, x)), "wait for each other"),
    "seven chains": (lambda x: sum(in_chains(7, x)), "wait for each other"),
    "drops the rest": (lambda x: unrolled(x[: len(x) // 8 * 8]), "With 1 numbers"),
    "takes the rest twice": (lambda x: unrolled(x) + sum(x[len(x) // 8 * 8 :]), "should give"),
    "a list": (lambda x: in_chains(8, x), "should give a number"),
    "needs a number": (lambda x: x[0] + pairwise(x[1:]), "With 0 numbers, it raised IndexError"),
    "floats": (lambda x: math.fsum(x), "raised TypeError"),
    "the start": ("sum_in_eight", "should give a number"),
}


test_answers = judged(RIGHT, WRONG)


def test_the_floor_is_flat_up_to_littles_number_and_rises_then(page) -> None:
    floor, of_gpu, full = page["floor"], (page["latency"], page["throughput"]), page["full"]
    assert floor(1, *of_gpu) == floor(0.99 * full, *of_gpu) == page["steps"] * page["latency"]
    assert floor(2 * full, *of_gpu) == pytest.approx(2 * page["steps"] * page["latency"])
    assert full == pytest.approx(4 * 132 * PER_CLOCK[9, 0][0])


def test_a_loop_in_python_loses_and_vectors_win(page) -> None:
    assert page["bars"]["Python loop"] < 0.5 < page["bars"]["SIMD, one thread"]
    assert page["bars"]["NumPy"] < page["bars"]["SIMD, one thread"]


def test_every_way_cools_every_cup(page) -> None:
    keep, gain = np.float32(0.9), np.float32(2)
    for n in (0, 1, 7, 8, 31, 65):
        hot = np.linspace(60, 95, n, dtype=np.float32)
        for way in (*page["compiled"], page["whole_array"], page["kernel"]):
            if n == 0 and way is page["kernel"]:
                continue  # CUDA copies no empty arrays
            cups = hot.copy()
            way(cups, keep, gain, 64)
            assert cups == pytest.approx(page["exact"](hot, keep, gain, 64), abs=1e-3)


def test_only_the_simd_ways_were_compiled_to_vectors(page) -> None:
    for way in ("one_at_a_time", "eight_at_a_time"):
        assert " x float>" not in "".join(page[way].inspect_llvm().values())
    assert page["lanes"] in (1, 2, 4, 8, 16, 32, 64)
