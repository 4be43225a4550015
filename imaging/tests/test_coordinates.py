import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight_imaging.coordinates import (
    GridCoords,
    ground_to_packed,
    ground_to_sky,
    packed_to_ground,
    packed_to_sky,
    sky_to_ground,
    sky_to_packed,
)
from firstlight_imaging.units import ARCSEC

COORDS = GridCoords(cell_size=0.03, npix=180)


@pytest.mark.parametrize(
    ("cell_size", "npix"), [(0.1, 0), (0.1, -2), (0.1, 5), (0.1, 4.5), (0, 4), (-0.1, 4), (math.nan, 4), (math.inf, 4)]
)
def test_what_is_no_grid_is_refused(cell_size, npix):
    with pytest.raises(ValueError, match=r"(npix|cell_size) must be"):
        GridCoords(cell_size, npix)


# -- Orders ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 4), (1, 6, 6), (2, 3, 8, 8)])
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_every_order_leads_back_and_numpy_and_torch_agree(shape, kind):
    sky = np.random.default_rng(0).normal(size=shape)
    cube = kind(sky)
    for there, back in ((sky_to_ground, ground_to_sky), (ground_to_packed, packed_to_ground)):
        np.testing.assert_array_equal(back(there(cube)), sky)
        np.testing.assert_array_equal(there(cube), there(sky))
    np.testing.assert_array_equal(packed_to_sky(sky_to_packed(cube)), sky)
    np.testing.assert_array_equal(sky_to_packed(cube), ground_to_packed(sky_to_ground(sky)))


def test_a_source_to_the_north_east_is_up_and_to_the_left():
    coords = GridCoords(cell_size=0.5, npix=8)
    east, north = coords.sky_coordinates()
    row, column = np.argwhere((east == 1.0) & (north == 1.5))[0]
    assert (row, column) == (7, 1)  # the centre is at row 4, column 3
    left, right, bottom, top = coords.img_ext
    assert left - 0.25 - column * 0.5 == 1.0
    assert bottom + 0.25 + row * 0.5 == 1.5
    assert (right, top) == (-2.25, 1.75)


def test_coordinates_of_all_orders_are_those_of_the_same_pixels():
    for order, convert in (("packed", sky_to_packed), ("ground", sky_to_ground)):
        for mine, sky in zip(getattr(COORDS, f"{order}_coordinates")(), COORDS.sky_coordinates(), strict=True):
            np.testing.assert_array_equal(mine, convert(sky))
    assert [float(axis[0, 0]) for axis in COORDS.packed_coordinates()] == [0, 0]


def test_uv_of_packed_cells_are_the_frequencies_of_the_fft():
    u, v = COORDS.packed_uv()
    along = np.fft.fftfreq(180, d=0.03 * ARCSEC)
    np.testing.assert_allclose(u, np.broadcast_to(along, (180, 180)), rtol=1e-14)
    np.testing.assert_allclose(v, u.T)
    half_cells = np.array([-0.5, 0.5]) * COORDS.du
    np.testing.assert_allclose(COORDS.vis_ext, (*(COORDS.uv_centers[[0, -1]] + half_cells),) * 2)


# -- What fits ---------------------------------------------------------------------------


@given(st.floats(1.0001, 1e3), st.sampled_from([(1, 0), (0, 1), (-1, 0.3), (0.9, -1)]), st.floats(1e-4, 10))
def test_data_beyond_the_grid_are_refused_with_a_cell_size_that_does(times, towards, cell_size):
    coords = GridCoords(cell_size, 64)
    u, v = ([0, way * times * coords.uv_limit] for way in towards)
    with pytest.raises(ValueError, match="cell_size") as refusal:
        coords.check_data_fit(u, v)
    advised = float(str(refusal.value).split("cell_size of ")[1].split()[0])
    GridCoords(advised, 64).check_data_fit(u, v)
    assert advised > 0.85 * cell_size / times  # and not needlessly small


def test_kilo_lambda_are_refused_and_their_remedy_does():
    u, v = np.array([200.0, -1500.0, 700.0]), np.array([1000.0, 0.0, -300.0])
    with pytest.raises(ValueError, match=r"1500 .* kilo-lambda"):
        COORDS.check_data_fit(u, v)
    COORDS.check_data_fit(1000 * u, 1000 * v)
