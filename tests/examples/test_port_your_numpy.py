"""The page's check accepts what is right and tells what is wrong; what it says of NumPy and PyTorch is so."""

from itertools import groupby, pairwise

import numpy as np
import pytest
import torch
from answers import judge

PAGE = "2_devices/08_port_your_numpy.py"


def seconds(profile, factors):
    return sum(time / factors.get(step, 1) for step, time in profile.items())


def by_groups(profile, factors, trip):
    groups = sum(moved for moved, _ in groupby(profile, key=factors.__contains__))
    return seconds(profile, factors) + 2 * groups * trip


def from_the_first_step(profile, factors, trip):
    sides = [step in factors for step in profile]
    return seconds(profile, factors) + trip * sum(a != b for a, b in pairwise(sides))


WRONG = {
    "always two trips": (lambda p, f, trip: seconds(p, f) + 2 * trip, "no trip"),
    "multiplied": (lambda p, f, trip: sum(t * f.get(s, 1) for s, t in p.items()), "divided by 4"),
    "nothing gained": (lambda p, f, trip: sum(p.values()), "divided by 4"),
    "only what stays": (lambda p, f, trip: sum(t for s, t in p.items() if s not in f), "divided by 4"),
    "no trips": (lambda p, f, trip: seconds(p, f), "two trips"),
    "one trip": (lambda p, f, trip: seconds(p, f) + trip * bool(f), "two trips"),
    "two trips a step": (lambda p, f, trip: seconds(p, f) + 2 * trip * len(f), "share"),
    "two trips at most": (lambda p, f, trip: seconds(p, f) + 2 * trip * bool(f), "change"),
    "the result stays there": (from_the_first_step, "back"),
    "only the faster": (lambda p, f, trip: by_groups(p, {s: x for s, x in f.items() if x > 1}, trip), "slower"),
    "not a number": (lambda *_: np.nan, "no trip"),
    "a text": (lambda *_: "10", "'10'"),
    "raises": (lambda p, f, trip: p["nothing"], "KeyError"),
    "other arguments": (lambda p: 10, "TypeError"),
    "no function": (10, "TypeError"),
}


def test_the_check_tells_right_answers_from_wrong_ones(page) -> None:
    judge(
        page["check"],
        [page["total_solution"], by_groups, lambda *given: np.float64(by_groups(*given))],
        WRONG | {"the start": (page["total"], "None")},
    )


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


def test_the_median_of_what_holds_nan_is_nan(page) -> None:
    values = np.array([1, np.nan, 3, 4])
    assert np.isnan(np.median(values))
    assert page["median"](torch.from_numpy(values), 0).isnan()


def test_the_lower_median_is_low_for_an_even_number_only(page) -> None:
    values = torch.tensor([[1.0, 2.0, 3.0, 10.0]])
    assert page["lower"](values, 1) == 2
    assert page["lower"](values[:, :3], 1) == page["median"](values[:, :3], 1) == 2
    assert page["lower"](page["t_biases"], 0).mean() < page["median"](page["t_biases"], 0).mean() - 0.3


def test_quantile_refuses_what_the_page_says_it_refuses() -> None:
    with pytest.raises(RuntimeError, match="too large"):
        torch.zeros(1).expand(2**24 + 1).quantile(0.5)


def test_torch_refuses_the_byte_order_of_fits(page) -> None:
    with pytest.raises(ValueError, match="byte order"):
        torch.from_numpy(np.frombuffer(page["night"][0][0], ">i2").copy())


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("xp.sum(m, axis=0)", True),
        ("xp.mean(m, axis=(0, 1))", True),
        ("(m * 2.0).dtype", True),
        ("xp.max(m, axis=0)", False),
        ("xp.median(v)", False),
        ("xp.nanmedian(v)", False),
        ("xp.std(v)", False),
        ("(m * xp.arange(2)).dtype", False),
        ("(v * two).dtype", np.__version__ < "2"),
        ("v.copy().sum()", False),
        ("(xp.arange(3) / 2).dtype", False),
        ("v[::-1]", False),
    ],
)
def test_what_the_two_libraries_say(page, line, same) -> None:
    numbers = page["numbers"]
    said = page["reply"](line, np, numbers), page["reply"](line, torch, torch.from_numpy(numbers))
    assert (said[0] == said[1]) is same


def test_a_count_made_the_error_float64_in_numpy_only(page) -> None:
    assert page["image"].dtype == np.float32
    assert page["error"].dtype == np.float64
    assert page["t_stack"](torch.from_numpy(page["cleaned"]))[1].dtype == torch.float32


def test_in_place_reaches_the_caller_on_the_cpu_only(page) -> None:
    on_cpu = page["device"].type == "cpu"
    assert page["counts"].tolist() == ([-1, 0, 1] if on_cpu else [11, 12, 13])
    assert page["picked"].tolist() == [2, 3]
    assert np.shares_memory(page["counts"], page["cut"].numpy())


def test_a_move_keeps_strides() -> None:
    turned = torch.ones(2, 3).T
    assert turned.to(torch.float64).stride() == turned.stride() == (1, 3)
    assert not turned.is_contiguous()


def test_photometry_serves_tensors_as_it_is(page) -> None:
    photometry, *inputs = page["loop"]
    flux, error = photometry(*inputs)
    np.testing.assert_allclose(flux, page["exact"][0], atol=0.02 * page["exact"][1].min())
    np.testing.assert_allclose(error, page["exact"][1], rtol=1e-3)


def test_the_order_of_a_sum_changes_it_and_a_fixed_order_does_not(page) -> None:
    assert len(page["mixed"]) > 1
    assert len(page["same"]) == 1 or page["device"].type != "cpu"


def test_the_prediction_is_amdahls_sum(page) -> None:
    factors = dict.fromkeys(page["moving"], page["gain"])
    predicted = page["total_solution"](page["profile"], factors, sum(page["travel"].values()) / 2)
    assert predicted == pytest.approx(page["new"])
