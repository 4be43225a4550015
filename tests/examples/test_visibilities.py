"""What the page says of visibilities, weights and holes in the uv plane, and its checker."""

import cmath
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from answers import judge

from firstlight.imaging import ExactLikelihood, check_weights, losses, scale_weights
from firstlight.imaging.nufft import visibilities
from firstlight.imaging.observe import alma_antennas, equatorial, uv_track

PAGE = "4_imaging/01_visibilities.py"
ARCSEC = math.pi / 180 / 3600


def test_a_move_by_half_a_stripe_turns_the_phase_by_half_a_circle(page):
    u = 450 / page["wavelength"]
    moved = page["Point"](2.0, east=0.5 / u / ARCSEC).visibilities(u, 0)
    assert moved == pytest.approx(-2, abs=1e-9)


def test_a_glow_wider_than_a_stripe_is_gone_on_the_longer_baseline_only(page):
    """The last of the squares in the first figure."""
    long, short = (page["Ring"](1, 0, 0.4).visibilities(m / page["wavelength"], 0).real for m in (450, 150))
    assert long < 1e-3
    assert short > 0.3


@pytest.mark.parametrize("declination", [-24, 30, 60])
def test_tracks_are_ellipses(declination):
    """As the page says: as wide as the baseline seen from the pole, flatter by sin(declination)."""
    pair = alma_antennas()[[0, 40]]
    u, v, _ = uv_track(pair, declination=declination, min_elevation=0, n_times=25).uvw.T
    x, y, z = np.diff(equatorial(pair), axis=0)[0]
    tilt = math.radians(declination)
    radius = np.hypot(u, (v - z * math.cos(tilt)) / math.sin(tilt))
    np.testing.assert_allclose(radius, math.hypot(x, y), rtol=1e-9)


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


def test_two_thirds_of_the_light_are_missing(page):
    assert page["found"][4][0] / 0.75 == pytest.approx(1 / 3, abs=0.05)


def test_of_what_is_as_wide_as_the_rule_says_most_is_lost(page):
    """A Gaussian whose full width at half maximum is 0.6 of the widest stripe."""
    u = page["length"].min()
    width = 0.6 / u / ARCSEC / math.sqrt(8 * math.log(2))
    assert page["Ring"](1, 0, width).visibilities(u, 0).real < 0.3


def test_a_wrong_factor_is_found_and_mended(page):
    wrong = replace(page["seen"], weight=4 * page["seen"].weight)
    report = check_weights(wrong)
    assert report.worst == pytest.approx(0.25, rel=0.03)
    assert len(report.wrong) == 1
    np.testing.assert_allclose(scale_weights(wrong, report).weight, page["seen"].weight, rtol=0.03)
    assert not check_weights(page["seen"]).wrong


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


def test_a_regularizer_tells_the_skies_apart_and_chi_squared_does_not(page):
    """By the pixels of their images, as a fit sees them; sparsity is the same, too."""
    smooth, striped = (torch.from_numpy(sky)[None] for sky in page["skies"].values())
    data = page["data"]
    chi2 = ExactLikelihood(data.uu, data.vv, data.data, data.weight, 0.03, 180, dtype=torch.float64)
    assert chi2(smooth).item() == pytest.approx(chi2(striped).item(), rel=1e-4)
    assert losses.TV_image(striped) > 4 * losses.TV_image(smooth)
    assert losses.sparsity(striped).item() == pytest.approx(losses.sparsity(smooth).item(), rel=1e-6)


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
    (lambda f, x, y, b, nu: None, "TypeError"),
    (lambda f, x, y, b, nu: 1 / 0, "ZeroDivisionError"),
]


def test_the_check_tells_right_answers_from_wrong_ones(page) -> None:
    judge(page["check"], [page["visibility_solution"], point], WRONG)
