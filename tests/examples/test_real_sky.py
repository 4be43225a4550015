"""The page of M87* and CI Tau: its measure of a ring, and its checker."""

from types import SimpleNamespace

import numpy as np
import pytest
from pages import judged

from firstlight_imaging import GridCoords
from firstlight_imaging.gains import solve_gains
from firstlight_imaging.simulate import Point, alma_antennas, observe, uv_track, with_noise

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


def test_an_antenna_has_the_signal_over_noise_of_the_formula():
    count, times = 23, 4
    clean = observe([Point(1.0)], uv_track(alma_antennas()[:count], n_times=times))
    seen = with_noise(clean, 0.7, seed=1)
    gains = solve_gains(seen, clean.data)  # so bright that each integration is an interval
    noise_of_image = seen.weight.sum() ** -0.5
    assert 1 / np.median(gains.error) == pytest.approx(np.sqrt(2 / count / times) / noise_of_image, rel=1e-6)


def angles(*visibilities):
    return np.angle(visibilities, deg=True)


def turned(angle):
    return (angle + 180) % 360 - 180


test_answers = judged(
    [
        "possible_solution",
        lambda v12, v23, v13: np.angle(v12 * v23 / v13, deg=True),
        lambda v12, v23, v13: turned(angles(v12)[0] + angles(v23)[0] - angles(v13)[0]),
    ],
    [
        (lambda v12, v23, v13: np.angle(v12 * v23 * v13, deg=True), "out"),
        (lambda v12, v23, v13: np.angle(v12 * v23 / v13), "Radians"),
        (lambda v12, v23, v13: angles(v12)[0] + angles(v23)[0] - angles(v13)[0], "whole turns"),
        (lambda v12, v23, v13: np.angle(v12 + v23 - v13, deg=True), "visibilities"),
        (lambda v12, v23, v13: np.angle([v12, v23, v13], deg=True), "raised"),
    ],
)
