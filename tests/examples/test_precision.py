"""The page's check accepts what is right and tells what is wrong; its roundings, sums and models are as it says."""

import math

import numpy as np
import pytest
import torch
from pages import judged

PAGE = "2_devices/13_precision.py"

FORMATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]  # by bytes, then by eps


def cheapest(error, largest, cancels):
    fit = (f for f in FORMATS if torch.finfo(f).max >= largest and torch.finfo(f).eps * cancels <= error)
    return next(fit, None)


def named(rule):
    return lambda error, largest, cancels: str(rule(error, largest, cancels) or "").removeprefix("torch.") or None


def of_half_an_eps(error, largest, cancels):
    return cheapest(2 * error, largest, cancels)


WRONG = {
    "never narrow": (lambda *_: "float32", "eps with the error"),
    "always wide": (lambda *_: "float64", "eps with the error"),
    "always bfloat16": (lambda *_: "bfloat16", "eps with the error"),
    "always float16": (lambda *_: "float16", "float16 end"),
    "no range": (lambda error, largest, cancels: cheapest(error, 1, cancels), "float16 end"),
    "nothing cancels": (lambda error, largest, cancels: cheapest(error, largest, 1), "cancels"),
    "the wrong way round": (lambda e, largest, cancels: cheapest(e, largest, 1 / cancels), "cancels"),
    "range before digits": (
        lambda e, largest, cancels: torch.bfloat16 if 2**-7 * cancels <= e else cheapest(e, largest, cancels),
        "smaller eps",
    ),
    "at least float64": (lambda *a: cheapest(*a) or torch.float64, "None"),
    "only float32 ends early": (lambda e, largest, cancels: cheapest(e, min(largest, 1e30), cancels), "quasar"),
    "a number": (lambda *_: 16, "a format"),
    "tf32": (lambda *_: "tf32", "a format"),
    "an array": (lambda *_: np.ones(2), "a format"),
    "the start": ("choose", "None"),
}


test_answers = judged(["choose_solution", cheapest, named(cheapest), of_half_an_eps], WRONG)


def test_the_rule_bounds_what_the_trial_finds(page) -> None:
    for name in page["NAMES"]:
        for cancels in (1, 2, 10, 100):
            worst = page["worst_in"](name, 1000, cancels)
            assert 0 < worst <= 1.001 * page["EPS"][name] * cancels or name == "float64"
    assert math.isinf(page["worst_in"]("float16", 1e5, 1))
    assert page["worst_in"]("float16", 65504, 1) < 1e-3


@pytest.mark.parametrize(("bits", "dtype"), [(7, torch.bfloat16), (10, torch.float16)])
def test_the_emulation_rounds_as_pytorch_does(page, bits, dtype) -> None:
    keep = page["keep"]
    halfway = torch.arange(2**13, dtype=torch.float32) * 2.0**-12 + 1  # with every tie of both formats
    for x in (halfway, -halfway, torch.zeros(3), torch.tensor([math.inf, -math.inf])):
        assert torch.equal(keep(x, bits), x.to(dtype).float())
    assert torch.equal(keep(keep(halfway, bits), bits), keep(halfway, bits))


def test_errors_are_as_predicted(page) -> None:
    error, predicted = page["error"], page["predicted"]
    assert page["per_rounding"] == pytest.approx(0.213, abs=0.002)
    for name in ("tf32", "float16", "bfloat16"):
        assert error[name] == pytest.approx(predicted[name], rel=0.1)
    assert 0 < error["float64"] < error["float32"] < error["tf32"] < error["float16"] < error["bfloat16"]


def test_16_bit_products_are_summed_in_float32(page) -> None:
    """Ten thousand ones: a sum in bfloat16 would stop at 256."""
    for name in page["formats"][page["places"][0]]:
        product = page["product"](name, torch.ones(1, 10_001), torch.ones(10_001, 1)).double()
        assert product.item() == pytest.approx(10_001, rel=page["EPS"][name])


@pytest.mark.parametrize("threads", [1, 32, 256])
@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (2, 257), (5, 1000)])
def test_the_order_of_a_gpu_adds_every_term_once(page, shape, threads) -> None:
    terms = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)  # whole numbers: no rounding
    assert np.array_equal(page["like_a_gpu"](terms, threads), terms.sum(axis=1))


def test_phases_follow_the_rule(page) -> None:
    turns, missed = page["turns"], page["phase_error"]
    rule = 2 * np.pi * turns * page["per_rounding"] * math.sqrt(3)
    few = (turns > 10) & (turns < 1e5)
    for name in ("float32", "float64"):
        ratio = missed[name][few] / (rule[few] * page["EPS"][name])
        assert np.all((ratio > 0.6) & (ratio < 1.6))
    assert missed["turns in float64, then float32"].max() < 3e-7
    assert 1e5 < page["lost"] < 1e6
