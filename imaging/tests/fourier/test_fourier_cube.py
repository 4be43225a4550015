import math

import numpy as np
import torch

from firstlight_imaging.coordinates import GridCoords, packed_to_ground, sky_to_packed
from firstlight_imaging.fourier.fourier_cube import FourierCube
from firstlight_imaging.units import ARCSEC


def test_an_off_centre_elliptical_gaussian_has_its_closed_form():
    coords, flux = GridCoords(cell_size=0.04, npix=256), 0.25
    east0, north0, angle = 0.61, -0.93, math.radians(27)
    major, minor = 0.35, 0.17
    east, north = coords.sky_coordinates()
    along = (east - east0) * math.sin(angle) + (north - north0) * math.cos(angle)
    across = (east - east0) * math.cos(angle) - (north - north0) * math.sin(angle)
    sky = np.exp(-((along / major) ** 2 + (across / minor) ** 2) / 2) * flux / (2 * np.pi * major * minor)
    vis = FourierCube(coords)(sky_to_packed(torch.from_numpy(sky[None])))[0].numpy()
    u, v = (ARCSEC * axis for axis in coords.packed_uv())
    along_uv, across_uv = u * math.sin(angle) + v * math.cos(angle), u * math.cos(angle) - v * math.sin(angle)
    expected = flux * np.exp(-2 * np.pi**2 * ((major * along_uv) ** 2 + (minor * across_uv) ** 2))
    expected = expected * np.exp(-2j * np.pi * (u * east0 + v * north0))
    assert np.abs(vis - expected).max() < 1e-12 * flux


def test_channels_do_not_mix_and_in_ground_order_the_zero_frequency_is_in_the_middle():
    coords = GridCoords(cell_size=0.5, npix=6)
    fourier = FourierCube(coords)
    cube = torch.rand(3, 6, 6, dtype=torch.float64)
    vis = fourier(cube)
    for channel in range(3):
        torch.testing.assert_close(vis[channel], FourierCube(coords)(cube[channel : channel + 1])[0])
    torch.testing.assert_close(packed_to_ground(vis)[:, 3, 3], cube.sum(dim=(1, 2)) * 0.25 + 0j)
