"""What the page says of its two fits, and its checker."""

import numpy as np
import pytest
import torch
from pages import judged

PAGE = "4_imaging/01_first_light.py"


def test_the_averages_are_to_blame_and_not_the_fit(page):
    """The truth fits them worse than the fit does, better in a wide field, and without averages as it should."""
    assert page["of_truth"][180] > 1.5 * page["in_cells"].terms["chi2"] > 5
    assert page["of_truth"][180] > page["of_truth"][360] > page["of_truth"][720] > 1.1
    assert page["told"][180]
    assert page["exact"] == pytest.approx(1, abs=0.01)


def test_the_chosen_fit_leaves_what_noise_leaves(page):
    """Inside the disk and outside, where a weaker regularizer leaves half of it, and a stronger one a pattern."""
    rest, inside, rms = page["rest"], page["inside"], page["rms"]
    for where in (inside, ~inside):
        assert rms(rest[32][where]) == pytest.approx(rms(page["noise"][where]), rel=0.15)
    assert np.abs(rest[32]).max() < 5 < np.abs(rest[64]).max()
    assert rms(rest[8][inside]) < 0.7
    assert page["chi2"][32] == pytest.approx(1, abs=0.005)


def test_the_chosen_image_has_the_flux_and_is_near_the_truth(page):
    assert page["sky"][32].sum() * page["area"] == pytest.approx(0.25, rel=0.01)
    by_pixel, at_beam = page["compare"](page["sky"][32], page["truth"])
    assert at_beam < 0.03 < by_pixel < 0.08


def test_the_second_fit_puts_back_what_the_first_took(page):
    first, second = page["fits"][32]
    assert np.abs(page["judge"](first)[0]).max() > 20 > 5 > np.abs(page["judge"](second)[0]).max()
    assert page["compare"](second, page["truth"])[0] < page["compare"](first, page["truth"])[0]


def test_noise_alone_has_an_rms_of_one(page):
    assert page["rms"](page["noise"]) == pytest.approx(1, abs=0.05)
    assert np.abs(page["noise"]).max() == pytest.approx(page["largest"], rel=0.25)


def test_the_truth_is_no_distance_from_itself_and_nothing_is_one(page):
    truth = page["truth"]
    assert page["compare"](truth, truth) == (0, 0)
    assert page["compare"](torch.zeros_like(truth), truth) == pytest.approx((1, 1))


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
