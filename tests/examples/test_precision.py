"""The page's check accepts what is right and tells what is wrong; its loop trains, and its errors are as it says."""

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
        eps = torch.finfo(getattr(torch, name)).eps
        for cancels in (1, 2, 10, 100):
            worst = page["worst_in"](name, 1000, cancels)
            assert 0 < worst <= 1.001 * eps * cancels or name == "float64"
    assert math.isinf(page["worst_in"]("float16", 1e5, 1))
    assert page["worst_in"]("float16", 65504, 1) < 1e-3


def test_tf32_is_rounded_as_numbers_of_as_many_digits_are(page) -> None:
    halfway = torch.arange(2**13, dtype=torch.float32) * 2.0**-12 + 1  # with every tie
    for x in (halfway, -halfway, torch.zeros(3), torch.tensor([math.inf, -math.inf])):
        rounded = page["to_tf32"](x)
        assert torch.equal(rounded, x.half().float())
        assert torch.equal(page["to_tf32"](rounded), rounded)


def test_errors_are_as_predicted(page) -> None:
    error, predicted = page["error"], page["predicted"]
    assert page["per_rounding"] == pytest.approx(0.213, abs=0.002)
    for name in ("float16", "bfloat16"):
        assert error[name] == pytest.approx(predicted[name], rel=0.1)
    assert error["tf32"] == pytest.approx(2**0.5 * page["per_rounding"] * 2**-10, rel=0.1)
    assert 0 < error["float64"] < error["float32"] < error["tf32"] < error["float16"] < error["bfloat16"]


def test_16_bit_products_are_summed_in_float32(page) -> None:
    """Ten thousand ones: a sum in bfloat16 would stop at 256."""
    for name in page["formats"][page["places"][0]]:
        product = page["product"](name, torch.ones(1, 10_001), torch.ones(10_001, 1)).double()
        eps = 2**-10 if name == "tf32" else torch.finfo(getattr(torch, name)).eps
        assert product.item() == pytest.approx(10_001, rel=eps)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("use_amp", [False, True])
def test_the_loop_to_copy_trains(page, use_amp, dtype) -> None:
    one = page["train"](page["batches"][:1], use_amp, dtype)
    all_of_them = page["train"](page["batches"], use_amp, dtype)
    assert 0 < all_of_them < one / 3


def test_whoever_has_set_the_new_switch_can_run_the_page() -> None:
    matmul = torch.backends.cuda.matmul
    if not hasattr(matmul, "fp32_precision"):
        pytest.skip("this PyTorch has only the older switch")
    try:
        matmul.fp32_precision = "tf32"
        with pytest.raises(RuntimeError, match="mix of the legacy and new APIs"):
            torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")  # as the page does before it times
        assert torch.get_float32_matmul_precision() == "highest"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_the_tolerance_takes_right_sums_and_refuses_a_missing_term(page) -> None:
    truth, tolerance = page["truth"], page["tolerance"]
    for got in page["ways"].values():
        assert np.all(np.abs(got - truth) < tolerance)
    without = np.sum(page["terms"][:, 1:], axis=1, dtype=np.float64)
    assert np.mean(np.abs(without - truth) > tolerance) > 0.9
