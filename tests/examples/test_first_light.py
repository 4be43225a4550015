"""What the page says of its script, of a step, of its fits and of the truth, and its checker."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pages import judged

PAGE = "4_imaging/01_first_light.py"


def test_the_file_has_the_form_that_the_script_expects(page):
    cube = page["cube"]
    assert {cube[name].shape for name in ("uu", "vv", "weight", "data_re", "data_im")} == {(9, page["nvis"])}
    np.testing.assert_allclose(page["uu"], page["seen"].uu[0], rtol=1e-6)
    np.testing.assert_allclose(page["re"] + 1j * page["im"], page["seen"].data[0], atol=1e-7)


def test_the_shortest_baselines_see_nearly_all_of_the_flux(page):
    shortest = np.argsort(np.hypot(page["uu"], page["vv"]))[:100]
    assert page["re"][shortest].mean() == pytest.approx(0.24, abs=0.01)


def test_down_the_gradient_the_loss_falls_and_up_or_too_far_it_rises(page):
    image, data, factors = page["image"], page["data"], (0, 0.4, -0.4, -1.0)
    with torch.no_grad():
        still, up, down, too_far = (data(image + factor * image.grad).item() for factor in factors)
    assert down < still / 2
    assert up > still
    assert too_far > still


def test_the_gradient_is_the_dirty_image_upside_down(page):
    gradient, dirty = page["gradient"].numpy().ravel(), np.asarray(page["dirty"]).ravel()
    assert np.corrcoef(gradient, dirty)[0, 1] < -0.8


def test_the_script_is_not_at_its_minimum_and_gets_worse_on_the_way(page):
    assert page["loss"].item() < page["curve"][-1]
    assert page["distance"](page["after_1200"]) > page["distance"](page["after_600"]) > 0.15
    assert np.abs(page["script_left"]).max() > 10


def test_residuals_tell_too_smooth_from_over_fitted(page):
    rest, rms, inside = page["rest"], page["rms"], page["disk_at"]
    assert np.abs(rest[1e-2]).max() > 20
    assert np.abs(rest[1.2e-3]).max() < 5
    assert rms(rest[1.2e-3][inside]) > 0.7
    assert rms(rest[5e-4][inside]) < 0.6
    assert rms(rest[0][inside]) < 0.1
    for found in page["fits"].values():
        assert found.terms["chi2"] == pytest.approx(1, abs=0.03)


def test_the_eight_lines_need_no_more_steps(page):
    assert page["found"].status == "converged"
    assert page["fits"][5e-4].status == "over-fitted"
    assert page["sky"][1.2e-3].sum() * page["area"] == pytest.approx(0.25, rel=0.01)


def test_the_rule_does_not_find_the_image_nearest_to_the_truth(page):
    off = {strength: page["distance"](image) for strength, image in page["sky"].items()}
    assert off[5e-4] < off[1.2e-3] < 0.06 < off[1e-2] < off[0] < page["distance"](page["dirty"])


def fixed(strength):
    """An answer that does not look at what is left over."""
    return lambda page: lambda data: page["first_light"](data, strength).image


def test_no_single_strength_suits_both_nights(page):
    for strength in (1e-2, 3e-3, 1e-3):
        said = page["check"](fixed(strength)(page))
        assert "too smooth" in said.lower() or "over-fitted" in said.lower(), said


WRONG = {
    "all zeros": (lambda data: torch.zeros(1, data.npix, data.npix), "Jy/arcsec²"),
    "the whole fit": (lambda data: SimpleNamespace(image=torch.ones(1, data.npix, data.npix)), "its .image"),
    "no axis of channels": (lambda data: torch.ones(data.npix, data.npix), "shape"),
    "the dirty image": (lambda data: data.dirty / data.dirty.max(), "negative"),
    "the same flux everywhere": (
        lambda data: torch.full((1, 64, 64), 0.07 / 64**2 / 0.05**2),
        "Too smooth",
    ),
    "not a number": (lambda data: torch.full((1, data.npix, data.npix), torch.nan), "finite"),
}


test_answers = judged(["find_sky_solution"], WRONG)
