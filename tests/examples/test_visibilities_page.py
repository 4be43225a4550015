"""What the page says of visibilities, weights and holes in the uv plane, and its checker."""

import cmath
import math

import numpy as np
import pytest
import torch
from pages import judged

from firstlight.imaging.fourier.nufft import visibilities

PAGE = "4_imaging/04_visibilities.py"
ARCSEC = math.pi / 180 / 3600


def test_longer_tracks_fill_more_and_most_cells_stay_empty(page):
    filled = page["filled"]
    assert filled[0, -24] < filled[1, -24] < filled[6, -24] < 0.2
    assert filled[6, 30] < filled[6, 0] < filled[6, -24]


def test_means_of_complex_numbers_are_right_within_their_errors_and_of_amplitudes_are_not(page):
    amplitude, real, error = page["found"][:3]
    quiet = page["observe"](page["sky"], page["uv_track"](n_times=60))
    truth = page["shift_phase_centre"](quiet, **page["place"]).data[0].real
    edges = np.quantile(page["length"], np.linspace(0, 1, 40))
    pull = (real - page["means"](truth, edges)[0]) / error
    assert np.sqrt(np.mean(pull**2)) == pytest.approx(1, abs=0.35)
    assert amplitude[-1] > 20 * error[-1]
    assert abs(real[-1]) < 4 * error[-1]


def test_the_shortest_pair_misses_more_than_half_of_the_flux(page):
    assert 0.25 < page["shortest"] < page["total"] / 2


def test_no_factor_mends_sigma(page):
    """The mean of all data is much noisier than its weights say, and noisy antennas count too much."""
    assert page["report"].worst > 1e4
    assert page["true"] > 1.5 * page["promised"]
    assert page["still"][0] < 0.5 < 1.2 < page["still"][1]
    best = page["seen"].weight.sum() ** -0.5
    assert page["true"] > 1.5 * best


def test_the_two_skies_are_positive_have_the_same_flux_and_differ_by_much(page):
    smooth, striped = page["skies"].values()
    assert min(smooth.min(), striped.min()) >= 0
    assert striped.sum() == pytest.approx(smooth.sum(), rel=1e-6)
    assert np.linalg.norm(striped - smooth) > 0.6 * np.linalg.norm(smooth)


def test_only_more_data_tell_them_apart(page):
    assert abs(page["chi2"]["smooth"] - page["chi2"]["striped"]) < 1e-3
    assert page["chi2"]["smooth"] / (2 * page["u"].size) == pytest.approx(1, abs=0.1)
    apart = page["apart"]
    assert apart[11, 1] < 1e-6
    assert 9 < apart[11, 6] < 100
    assert 1000 < apart[22, 1] < apart[43, 1]


def test_what_the_stripes_add_is_the_transform_of_the_stripes(page):
    """Everywhere, and not only where it is nothing: by an independent transform of the image."""
    rng = np.random.default_rng(4)
    u, v = rng.uniform(-1e6, 1e6, (2, 500))
    image = page["skies"]["striped"] - page["skies"]["smooth"]
    seen = visibilities(torch.from_numpy(image)[None], u, v, page["grid"].cell_size)[0]
    np.testing.assert_allclose(seen, page["added"](u, v), atol=1e-7)
    assert np.abs(page["added"](u, v)).max() > 0.05


@pytest.mark.parametrize(("count", "npix"), [(1, 2), (301, 38)])
def test_the_direct_sum_is_the_definition(page, count, npix):
    rng = np.random.default_rng(5)
    grid = page["GridCoords"](0.03, npix)
    image, (u, v) = rng.uniform(size=(npix, npix)), rng.uniform(-1.5e6, 1.5e6, (2, count))
    east, north = (axis.ravel() * ARCSEC for axis in grid.sky_coordinates())
    exact = np.exp(-2j * np.pi * (np.outer(u, east) + np.outer(v, north))) @ image.ravel() * 0.03**2
    parts = page["direct_sum"](torch.from_numpy(image).float(), *page["make_waves"](u, v, grid), 0.03**2)
    np.testing.assert_allclose(torch.complex(*parts).numpy(), exact, atol=1e-6 * image.sum() * 0.03**2)


def point(flux, east, north, baseline, frequency):
    turns = sum(a * b for a, b in zip(baseline, (east, north), strict=True)) * frequency / 299_792_458 * ARCSEC
    return flux * cmath.exp(-2j * math.pi * turns)


WRONG = [
    (lambda f, x, y, b, nu: point(f, x, y, b, nu).conjugate(), "negative"),
    (lambda f, x, y, b, nu: point(f, x / 2 / math.pi, y / 2 / math.pi, b, nu), "2π"),
    (lambda f, x, y, b, nu: point(f, x / ARCSEC, y / ARCSEC, b, nu), "radians"),
    (lambda f, x, y, b, nu: point(f, x / 1e3, y / 1e3, b, nu), "thousands"),
    (lambda f, x, y, b, nu: point(f, x, y, b, 299_792_458**2 / nu), "frequency"),
    (lambda f, x, y, b, nu: point(f, y, x, b, nu), "east"),
    (lambda f, x, y, b, nu: point(f, x, y, b, nu).real, "complex"),
    (lambda f, x, y, b, nu: point(1, x, y, b, nu), "flux ×"),
]


test_answers = judged(["visibility_solution", point], WRONG)
