"""Whether a point alone explains the data."""

import re

import numpy as np
import pytest

from firstlight_imaging import image
from firstlight_imaging.products.point import point_remark
from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point


@pytest.mark.parametrize("seed", [1, 7])
def test_of_a_point_between_pixels_the_flux_is_told(seed):
    """Of a sparse array, an image has it 2 to 9 % too bright."""
    rng = np.random.default_rng(seed)
    antennas = rng.uniform(-75, 75, (20, 3)) * [1, 1, 0.05]
    east, north, flux = *rng.uniform(-1, 1, 2), rng.uniform(0.2, 0.6)
    seen = with_noise(observe([Point(flux, east, north)], uv_track(antennas, n_times=8)), 0.05, seed=seed)
    found = image(seen, draws=2)
    (remark,) = point_remark(found, seen)
    told, error = map(float, re.search(r"([\d.e-]+) ± ([\d.e-]+) Jy", remark).groups())
    assert abs(told - flux) < 3 * error < abs(found.flux - flux)
    pair = [Point(flux, east, north), Point(flux / 5, east + 8)]
    two = with_noise(observe(pair, uv_track(antennas, n_times=8)), 0.05, seed=seed)
    assert point_remark(found, two) == []
