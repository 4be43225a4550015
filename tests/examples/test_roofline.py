"""The page's check accepts what is right and tells what is wrong; its counts are those of other counters, too."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from pages import judged

PAGE = "2_devices/15_roofline.py"


def brief(operations, moved, rate, bandwidth):
    return max((np.float64(moved / bandwidth), "memory"), (operations / rate, "arithmetic"))[::-1]


def by_intensity(operations, moved, rate, bandwidth):
    if operations < moved * (rate / bandwidth):
        return ["memory", moved / bandwidth]
    return ["arithmetic", operations / rate]


WRONG = {
    "more of them": (lambda f, b, r, w: ("arithmetic", f / r) if f > b else ("memory", b / w), "not numbers"),
    "added": (lambda f, b, r, w: ("memory" if b / w > f / r else "arithmetic", b / w + f / r), "longer"),
    "the shorter": (lambda f, b, r, w: min((b / w, "memory"), (f / r, "arithmetic"))[::-1], "longer"),
    "always memory": (lambda f, b, r, w: ("memory", b / w), "longer"),
    "always arithmetic": (lambda f, b, r, w: ("arithmetic", f / r), "longer"),
    "another ridge": (lambda f, b, r, w: ("arithmetic", f / r) if f / b > 20 else ("memory", b / w), "ridge"),
    "upside down": (lambda f, b, r, w: ("memory", b / w) if b / f > w / r else ("arithmetic", f / r), "ZeroDivision"),
    "milliseconds": (lambda f, b, r, w: (brief(f, b, r, w)[0], 1e3 * brief(f, b, r, w)[1]), "memory alone"),
    "the other's time": (lambda f, b, r, w: (brief(f, b, r, w)[0], min(f / r, b / w)), "memory alone"),
    "a rate": (lambda f, b, r, w: (brief(f, b, r, w)[0], min(r, f / b * w)), "memory alone"),
    "not a number": (lambda f, b, r, w: (brief(f, b, r, w)[0], math.nan), "memory alone"),
    "only a time": (lambda f, b, r, w: max(f / r, b / w), "a name"),
    "turned around": (lambda f, b, r, w: brief(f, b, r, w)[::-1], "a name"),
    "other names": (lambda f, b, r, w: ("bandwidth", b / w), "'bandwidth'"),
    "the start": ("least_time", "a name"),
}


test_answers = judged(["least_time_solution", brief, by_intensity], WRONG)


def test_the_counters_see_what_the_page_says_and_no_more(page) -> None:
    """If a new PyTorch counts more, the page's table and prose must say so."""
    counted, hand = page["counted"], page["by_hand"]
    assert {step: counted[step][0] for step in hand} == dict.fromkeys(hand, 0)
    assert counted["taper"][1] == hand["taper"][0]
    assert [counted[step][1] for step in ("FFT", "power", "match")] == [0, 0, 0]
    assert counted["match, one column"] == (hand["match"][0], hand["match"][0])


def test_the_product_of_many_frames_is_counted_as_pytorch_does(page) -> None:
    side, kinds, frames = 64, 5, 7
    operations, moved = page["costs"](side, kinds, frames)["match"]
    left, right = torch.rand(kinds, side * (side // 2 + 1)), torch.rand(side * (side // 2 + 1), frames)
    with page["FlopCounterMode"](display=False) as counter:
        product = left @ right
    assert operations == counter.get_total_flops()
    assert moved == left.nbytes + right.nbytes + product.nbytes


@pytest.mark.parametrize("n", [2, 8, 64, 512])
def test_the_textbook_fft_is_right_and_takes_the_operations_of_the_custom(page, n) -> None:
    values = np.random.default_rng(n).random(n)
    both, done = page["counting_fft"](values)
    np.testing.assert_allclose(both, np.fft.fft(values), atol=1e-9)
    assert done == 5 * n * math.log2(n)


@pytest.mark.parametrize("side", [9, 33, 64])
def test_all_frames_at_once_agree_with_numpy(page, side) -> None:
    assert page["check_against_numpy"](side=side) < 1e-5


def test_two_ways_of_a_step_do_the_same(page) -> None:
    for step, other in (("power", "power, abs"), ("match", "match, converting")):
        (one, *first), (two, *second) = page["steps"][step], page["steps"][other]
        torch.testing.assert_close(one(*first), two(*second), rtol=1e-4, atol=0)


def test_shares_are_shares_of_one_whole(page) -> None:
    """What the steps can save adds up to less than all; no step saves more than its own time."""
    bench, steps, saved = page["bench"], page["by_hand"], page["saved"]
    shares = {step: bench[step].median / page["whole"] for step in steps}
    assert sum(shares.values()) == pytest.approx(1)
    assert all(0 <= saved[step] < shares[step] for step in steps)
    assert page["first"] == max(shares, key=shares.get)
    assert "leave" not in page["advice"][page["first"]]


def test_the_prediction_is_the_roofline_and_not_what_was_measured(page, monkeypatch) -> None:
    known = page["least_seconds"].__globals__
    monkeypatch.setitem(known, "roof", replace(page["roof"], byte_rate=1e9, flop_rate=1e12))
    one, many = (page["least_seconds"]("match", frames) for frames in (1, 10**6))
    costs = page["costs"](page["side"], page["kinds"], 10**6)["match"]
    assert one == pytest.approx(page["by_hand"]["match"][1] / 1e9)
    assert many == pytest.approx(max(costs[0] / 1e12, costs[1] / 1e9))
    assert page["speedup"] == page["measured"][1] / page["measured"][page["most"]]
