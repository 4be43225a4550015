"""What the page says of visibilities, weights and holes in the uv plane, and its checker."""

import cmath
import math

import numpy as np
import pytest
import torch
from pages import judged

from firstlight_imaging.fourier.nufft import visibilities

PAGE = "4_imaging/04_visibilities.py"
ARCSEC = math.pi / 180 / 3600


def test_longer_tracks_fill_more_and_most_cells_stay_empty(page):
    filled = page["filled"]
    assert filled[0] < filled[1] < filled[6] < 1 / 6


def test_means_of_complex_numbers_are_right_within_their_errors_and_of_amplitudes_are_not(page):
    amplitude, real, error = (page[name] for name in ("amplitude", "real", "error"))
    quiet = page["observe"](page["sky"], page["uv_track"](n_times=60))
    truth = page["shift_phase_centre"](quiet, **page["place"]).data[0].real
    pull = (real - page["means"](truth, page["edges"])[0]) / error
    assert np.sqrt(np.mean(pull**2)) == pytest.approx(1, abs=0.35)
    assert amplitude[-1] > 20 * error[-1]
    assert abs(real[-1]) < 4 * error[-1]


def test_the_shortest_pair_misses_more_than_half_of_the_flux(page):
    assert 0.25 < page["shortest"] < page["total"] / 2


def test_the_pair_of_the_first_cell_measures_what_the_package_says(page):
    u = 150 / page["wavelength"]
    for east in (0.3, -1.2):
        assert page["seen_by"](150, 2.0, east) == pytest.approx(page["Point"](2.0, east=east).visibilities(u, 0))


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


def by_loop(image, east, north, cell_size, u, v, sign=-1, unit=ARCSEC, flux=1.0):
    """Add up pixel by pixel, with nothing of the page."""
    waves = [
        cmath.exp(sign * 2j * math.pi * (u * x + v * y) * unit) for x, y in zip(east.flat, north.flat, strict=True)
    ]
    return sum(one * wave for one, wave in zip(image.flat, waves, strict=True)) * cell_size**2 * flux


WRONG = [
    (lambda *a: by_loop(*a).conjugate(), "negative"),
    (lambda *a: by_loop(*a, unit=ARCSEC / 2 / math.pi), "2π"),
    (lambda *a: by_loop(*a, unit=1), "radians"),
    (lambda i, x, y, c, u, v: by_loop(i, x, y, c, v, u), "north with v"),
    (lambda *a: by_loop(*a) / 0.05**2, "area"),
    (lambda *a: by_loop(*a) / 0.05, "square"),
    (lambda *a: by_loop(*a) / 400, "average"),
    (lambda *a: by_loop(*a) * ARCSEC**2, "stays in arcsec"),
    (lambda *a: by_loop(*a).real, "added up"),
    (lambda i, x, y, c, u, v: by_loop(i[::-1], x, y, c, u, v), "added up"),
    (lambda i, *a: i * by_loop(i, *a), "TypeError"),
]


test_answers = judged(["visibility_solution", by_loop], WRONG)
