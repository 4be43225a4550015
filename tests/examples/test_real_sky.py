"""The page of M87*: its measure of a ring, what self-calibration gives on it, and its checker."""

from types import SimpleNamespace

import numpy as np
import pytest
from pages import judged

from firstlight.imaging import GridCoords

PAGE = "4_imaging/03_real_sky.py"


def test_the_diameter_of_a_ring_that_is_off_the_middle(page):
    coords = GridCoords(2e-6, 64)
    east, north = (part / 1e-6 for part in coords.sky_coordinates())
    radius = np.hypot(east + 9, north - 6)
    sky = np.exp(-(((radius - 21) / 5) ** 2)) * (2 - (north > 6))
    middle_north, middle_east, diameter, south = page["ring_of"](SimpleNamespace(sky=sky, coords=coords))
    assert (middle_north, middle_east) == pytest.approx((6, -9), abs=2)
    assert diameter == pytest.approx(42, abs=2)
    assert 1.7 < south < 2.1


def test_self_calibration_finds_the_flux(page):
    as_observed, cured = page["fluxes"]
    assert abs(cured - page["truth"]) < 0.05 * page["truth"] < abs(as_observed - page["truth"])


test_answers = judged(
    ["closure_phase_solution", lambda *phases: (sum(phases) + 180) % 360 - 180],
    [(lambda *phases: sum(phases), "turn"), (lambda *phases: sum(phases) % 360, "turn"), (lambda *_: 60, "turn")],
)
