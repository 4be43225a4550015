"""The page's check accepts what is right and tells what is wrong; its models and counts agree with the makers'."""

import math

import numpy as np
import pytest

from firstlight.measure.roofs import PER_CLOCK
from firstlight.measure.specs import spec

PAGE = "1_setup/03_what_is_a_gpu.py"


def check_of(page, answer) -> str:
    return page["check"](answer)


def right(cores, units, bits, clock, ticks):
    lanes = cores * units * bits / 32
    return 2 * lanes * clock, lanes * ticks


RIGHT = [
    right,
    lambda c, u, b, f, t: [np.float64(c * u * b * f / 16), c * u * (b // 32) * t],
]
WRONG = {  # each with a word of the hint that it should get
    "forgot the 2": (lambda c, u, b, f, t: (c * u * b // 32 * f, c * u * b // 32 * t), "counts as two"),
    "bits as lanes": (lambda c, u, b, f, t: (2 * c * u * b * f, c * u * b * t), "bits / 32"),
    "lanes times warps": (lambda *a: tuple(32 * x for x in right(*a)), "warps are no further factor"),
    "bits for bytes": (lambda *a: tuple(8 * x for x in right(*a)), "not in bytes"),
    "a lane a byte": (lambda *a: tuple(4 * x for x in right(*a)), "one lane, not four"),
    "one unit": (lambda c, u, b, f, t: right(c, 1, b, f, t), "several units"),
    "operations under way": (lambda *a: (right(*a)[0], 2 * right(*a)[1]), "not operations"),
    "lanes under way": (lambda *a: (right(*a)[0], right(*a)[1] / a[4]), "a different station|each station"),
    "warps under way": (lambda *a: (right(*a)[0], 32 * right(*a)[1]), "warps are no further factor"),
    "four ticks always": (lambda c, u, b, f, t: right(c, u, b, f, 4), "times ticks"),
    "seconds": (lambda c, u, b, f, t: (right(c, u, b, f, t)[0], t / f), "times ticks"),
    "swapped": (lambda *a: right(*a)[::-1], "lanes in all"),
    "not a number": (lambda *a: (math.nan, math.nan), "lanes in all"),
    "only the peak": (lambda *a: right(*a)[0], "return two"),
    "nothing": (lambda *a: None, "return two"),
    "other arguments": (lambda n: n, "take five numbers"),
    "three numbers": (lambda *a: (1, 2, 3), "ValueError"),
    "raises": (lambda *a: 1 / 0, "ZeroDivisionError"),
    "no function": (67e12, "take five numbers"),
}


@pytest.mark.parametrize("answer", RIGHT)
def test_right_answers(page, answer) -> None:
    assert check_of(page, answer).startswith("Right")


@pytest.mark.parametrize(("answer", "hint"), WRONG.values(), ids=WRONG)
def test_wrong_answers_are_told_why(page, answer, hint) -> None:
    said = check_of(page, answer)
    assert not said.startswith("Right")
    assert any(words in said for words in hint.split("|"))


def test_the_solution_is_right_and_the_start_is_not(page) -> None:
    assert check_of(page, page["peak_and_under_way_solution"]).startswith("Right")
    assert "return two" in check_of(page, page["peak_and_under_way"])


def test_the_check_expects_what_makers_print(page) -> None:
    for card, name in (("V100 SXM2", "a V100"), ("H100 SXM", "an H100")):
        arguments, (peak, number) = page["machines"][name]
        assert right(*arguments) == pytest.approx((peak, number))
        assert peak == pytest.approx(spec(card, "fp32"), rel=0.01)


def test_lanes_of_all_multiprocessors_are_the_cuda_cores_that_makers_print(page) -> None:
    printed = {"V100": "V100 SXM2", "RTX 4090": "RTX 4090", "H100": "H100 SXM"}
    for name, card in printed.items():
        capability, multiprocessors, _ = page["chips"][name]
        assert multiprocessors * PER_CLOCK[capability][0] == page["cuda_cores"][card]
    capability, multiprocessors, warps = page["chips"]["GTX 1650"]
    assert (multiprocessors, PER_CLOCK[capability][0], 32 * warps) == (16, 4 * 16, 1024)


def test_the_floor_is_flat_up_to_littles_number_and_rises_then(page) -> None:
    floor = page["floor"]
    for latency, throughput in page["models"].values():
        full = latency * throughput
        assert floor(1, latency, throughput) == floor(0.99 * full, latency, throughput) == page["steps"] * latency
        assert floor(2 * full, latency, throughput) == pytest.approx(2 * page["steps"] * latency)
    assert page["full"] == pytest.approx(4 * 16_896)


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


def test_a_step_too_few_would_be_seen(page) -> None:
    assert np.abs(page["one_more"]).min() > 100 * 1e-3


def test_only_the_simd_ways_were_compiled_to_vectors(page) -> None:
    for way in ("one_at_a_time", "eight_at_a_time"):
        assert " x float>" not in "".join(page[way].inspect_llvm().values())
    assert page["lanes"] in (1, 2, 4, 8, 16, 32, 64)


def test_rows_are_counted_in_operations_of_their_own_size(page) -> None:
    for label, timing in page["cooling"].items():
        assert timing.label == label
        assert timing.flops % (2 * timing.n) == 0
    assert page["cooling"]["one at a time"].flops == 2 * 16 * page["steps"]


def test_the_hunt_visits_every_place_once(page) -> None:
    assert np.array_equal(page["following"][page["order"]], np.roll(page["order"], -1))
    assert np.array_equal(np.sort(page["order"]), np.arange(page["order"].size))


def test_the_figure_says_what_it_shows(page) -> None:
    assert "67,584 cups" in page["fig"].get_label()
