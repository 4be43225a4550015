"""The page's check accepts what is right and tells what is wrong; what it says of NumPy and PyTorch is so."""

from itertools import groupby, pairwise

import numpy as np
import pytest
import torch
from pages import judged

PAGE = "2_devices/12_port_your_numpy.py"


def seconds(profile, factors):
    return sum(time / factors.get(step, 1) for step, time in profile.items())


def by_groups(profile, factors, trip):
    groups = sum(moved for moved, _ in groupby(profile, key=factors.__contains__))
    return seconds(profile, factors) + 2 * groups * trip


def from_the_first_step(profile, factors, trip):
    sides = [step in factors for step in profile]
    return seconds(profile, factors) + trip * sum(a != b for a, b in pairwise(sides))


WRONG = {
    "always two trips": (lambda p, f, trip: seconds(p, f) + 2 * trip, "no transfer"),
    "multiplied": (lambda p, f, trip: sum(t * f.get(s, 1) for s, t in p.items()), "divided by 4"),
    "nothing gained": (lambda p, f, trip: sum(p.values()), "divided by 4"),
    "only what stays": (lambda p, f, trip: sum(t for s, t in p.items() if s not in f), "divided by 4"),
    "no trips": (lambda p, f, trip: seconds(p, f), "two transfers"),
    "one trip": (lambda p, f, trip: seconds(p, f) + trip * bool(f), "two transfers"),
    "two trips a step": (lambda p, f, trip: seconds(p, f) + 2 * trip * len(f), "share"),
    "two trips at most": (lambda p, f, trip: seconds(p, f) + 2 * trip * bool(f), "change"),
    "the result stays there": (from_the_first_step, "back"),
    "only the faster": (lambda p, f, trip: by_groups(p, {s: x for s, x in f.items() if x > 1}, trip), "slower"),
    "raises": (lambda p, f, trip: p["nothing"], "KeyError"),
    "the start": ("total", "None"),
}


test_answers = judged(["total_solution", by_groups, lambda *given: np.float64(by_groups(*given))], WRONG)


def test_photometry_finds_the_truth_and_a_plain_mean_does_not(page) -> None:
    assert 0.7 < page["pull"](*page["exact"]) < 1.5
    assert 0.7 < page["pull"](*page["moved"]) < 1.5
    plain = page["level"](page["read"](page["night"])[0]).mean(axis=0)
    flux, _ = page["photometry"](plain, page["exact_error"], page["stars"], page["box"])
    assert page["pull"](flux, page["exact"][1]) > 5


@pytest.mark.parametrize("shape", [(1, 5), (2, 7), (15, 3, 11), (16, 3, 11), (8, 1, 1)])
def test_the_medians_are_those_of_numpy(page, shape) -> None:
    values = np.random.default_rng(1).standard_normal(shape)
    for dim in range(len(shape)):
        ours = page["median"](torch.from_numpy(values), dim)
        assert np.array_equal(ours, np.median(values, axis=dim))
    for xp, frames in ((np, values), (torch, torch.from_numpy(values))):
        assert np.array_equal(page["median_by_swaps"](frames, xp), np.median(values, axis=0))


def test_the_lower_median_is_low_for_an_even_number_only(page) -> None:
    values = torch.tensor([[1.0, 2.0, 3.0, 10.0]])
    assert page["lower"](values, 1) == 2
    assert page["lower"](values[:, :3], 1) == page["median"](values[:, :3], 1) == 2
    assert page["lower"](page["t_biases"], 0).mean() < page["median"](page["t_biases"], 0).mean() - 0.3


SAME = ("xp.sum(m, axis=0)", "xp.mean(m, axis=(0, 1))", "(m * 2.0).dtype")
OTHER = ("xp.max(m, axis=0)", "xp.median(v)", "xp.nanmedian(v)", "xp.std(v)", "(m * xp.arange(2)).dtype")
OTHER += ("v.copy().sum()", "(xp.arange(3) / 2).dtype", "v[::-1]")


@pytest.mark.parametrize("line", SAME + OTHER)
def test_what_the_two_libraries_say(page, line) -> None:
    numbers = page["numbers"]
    said = page["reply"](line, np, numbers), page["reply"](line, torch, torch.from_numpy(numbers))
    assert (said[0] == said[1]) is (line in SAME)


def test_the_prediction_is_amdahls_sum(page) -> None:
    factors = dict.fromkeys(page["moving"], page["gain"])
    predicted = page["total_solution"](page["profile"], factors, sum(page["travel"].values()) / 2)
    assert predicted == pytest.approx(page["new"])
