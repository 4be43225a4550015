"""What the page says of its two fits, and its checker."""

import numpy as np
import pytest
import torch
from pages import judged

PAGE = "4_imaging/03_first_light.py"


def test_the_averages_are_to_blame_and_not_the_fit(page):
    """The truth fits them worse than the fit does, and without averages as well as it should."""
    settled = page["history"][-1, 1].item()
    assert page["of_truth"] > 1.5 * settled > 5
    assert page["sum_of_truth"] / 2 / page["seen"].data.size == pytest.approx(1, abs=0.01)


def test_the_exact_fit_is_the_better_image(page):
    assert page["fidelity"](page["sky"]) < 0.08
    assert page["fidelity"](page["fitted"]) > 0.15
    assert page["found"].terms["chi2"] == pytest.approx(1, abs=0.02)
    assert page["found"].flux[-1, 0] == pytest.approx(0.25, rel=0.03)


def test_residuals_are_noise_without_cells_only(page):
    assert np.abs(page["over_exact"]).max() < 5
    assert np.abs(page["over"]).max() > 10


def test_fidelity_of_the_truth_is_perfect_and_of_nothing_is_one(page):
    assert page["fidelity"](page["truth"]) == 0
    assert page["fidelity"](torch.zeros_like(page["truth"])) == pytest.approx(1)


def test_the_settled_loss_had_settled(page):
    loss = page["history"][:, 0]
    assert loss[-1] <= loss.min() * 1.001
    assert loss[500] / loss[-1] < 1.05


WRONG = [
    (lambda image, cell: image.sum((1, 2)), "area"),
    (lambda image, cell: image.sum((1, 2)) * cell, "area"),
    (lambda image, cell: image.mean((1, 2)) * cell**2, "area|mean"),
    (lambda image, cell: image.sum() * cell**2, "shape"),
    (lambda image, cell: np.abs(image).sum((1, 2)) * cell**2, "below zero"),
    (lambda image, cell: image.max((1, 2)) * cell**2, "of its own"),
]


test_answers = judged(
    ["flux_solution", lambda image, cell: [float(np.sum(channel)) * cell**2 for channel in image]], WRONG
)


def test_a_reference_saves_the_digits_that_float32_has_not(page):
    """The more signal there is for the noise, the more of them are lost without one."""
    from_nothing, recentred = zip(*page["digits"].values(), strict=True)
    assert from_nothing[-1] > 100 * from_nothing[0]
    assert from_nothing[-1] > 1e-4
    assert max(recentred) < 1e-4
    assert recentred[-1] < from_nothing[-1] / 30


@pytest.mark.parametrize("count", [1001, 30_011])
def test_both_ways_without_cells_have_the_same_chi_squared(page, count):
    """The page looks before the first step; after five they have parted by rounding alone."""
    calls = [page["step_for"](count, by_nufft) for by_nufft in (True, False)]
    for _ in range(5):
        by_nufft, exact = (call() for call in calls)
        assert by_nufft == pytest.approx(exact, rel=1e-3)
