"""The page's check accepts what is right and tells what is wrong; its models and counts agree with the makers'."""

import math

import numpy as np
import pytest
from pages import judged

PAGE = "1_setup/04_count_your_cpu.py"


def right(cores, units, bits, cycles):
    return cores * units * bits / 32 * cycles


WRONG = {  # each with a word of the hint that it should get
    "operations": (lambda *a: 2 * right(*a), "count no bits"),
    "bits as lanes": (lambda *a: 32 * right(*a), "count no bits"),
    "bits for bytes": (lambda *a: 8 * right(*a), "count no bits"),
    "lanes times warps": (lambda *a: 32 * right(*a), "operations or warps"),
    "vectors, not lanes": (lambda c, u, b, t: c * u * t, "float32 has 32"),
    "float64": (lambda c, u, b, t: c * u * max(b // 64, 1) * t, "float32 has 32"),
    "one unit": (lambda c, u, b, t: right(c, 1, b, t), "units"),
    "one core": (lambda c, u, b, t: right(1, u, b, t), "units"),
    "lanes under way": (lambda c, u, b, t: right(c, u, b, 1), "cycles"),
    "four cycles always": (lambda c, u, b, t: right(c, u, b, 4), "count no bits"),
    "table of one card": (lambda *a: 20_480 if a[0] == 80 else math.prod(a) / 32 * (a[0] < 64), "64 cores"),
    "a pair": (lambda *a: (right(*a), 0), "one number"),
    "the start": ("chains_needed", "one number"),
}


test_answers = judged(["chains_needed_solution", right, lambda c, u, b, t: np.int64(c * u * (b // 32) * t)], WRONG)


def test_the_check_expects_what_the_page_counts(page) -> None:
    multiprocessors, capability = page["chips"]["V100 SXM2"]
    assert page["cases"][80, 4, 512, 4][0] == 4 * multiprocessors * page["PER_CLOCK"][capability][0]
    for arguments, (expected, _) in page["cases"].items():
        assert right(*arguments) == expected


def test_the_floor_is_flat_up_to_littles_number_and_rises_then(page) -> None:
    floor = page["floor"]
    for latency, throughput in page["models"].values():
        full = latency * throughput
        assert floor(1, latency, throughput) == floor(0.99 * full, latency, throughput) == page["steps"] * latency
        assert floor(2 * full, latency, throughput) == pytest.approx(2 * page["steps"] * latency)
    assert page["full"] == pytest.approx(4 * 16_896)


def test_the_counts_and_the_lines_of_the_figure_agree(page) -> None:
    for line, label in (("one_core", "SIMD, one thread"), ("all_cores", "SIMD, all cores")):
        assert math.prod(page[line]) == pytest.approx(page["bars"][label])
    assert all(
        page["floor"](1, *page["models"][chip]) == page["floor"](1000, *page["models"][chip]) for chip in page["chips"]
    )
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
