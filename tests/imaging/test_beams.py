import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.imaging.beams import Beam, convolve, fit_beam
from firstlight.imaging.coordinates import GridCoords
from firstlight.imaging.skies import Ring

COORDS = GridCoords(cell_size=0.02, npix=64)


def gaussian(beam, coords=COORDS):
    """The beam as an image of peak 1."""
    east, north = coords.sky_coordinates()
    sin, cos = math.sin(math.radians(beam.position_angle)), math.cos(math.radians(beam.position_angle))
    along, across = east * sin + north * cos, east * cos - north * sin
    return np.exp(-4 * math.log(2) * ((along / beam.major) ** 2 + (across / beam.minor) ** 2))


@given(st.floats(0.06, 0.35), st.floats(0.3, 0.95), st.floats(0, 179))
@settings(max_examples=40, deadline=None)
def test_a_gaussian_is_found_again(major, ratio, angle):
    truth = Beam(major, max(major * ratio, 0.05), angle)
    found = fit_beam(gaussian(truth), COORDS.cell_size)
    assert found.major == pytest.approx(truth.major, rel=1e-9)
    assert found.minor == pytest.approx(truth.minor, rel=1e-9)
    turn = (found.position_angle - truth.position_angle + 90) % 180 - 90
    assert abs(turn) < 1e-5


def test_the_angle_is_that_of_the_skies():
    """A Gaussian of `skies` and the beam that fits it agree on what a position angle is."""
    ring = Ring(flux=1, radius=0, width=0.08, inclination=50, position_angle=25)
    image = ring.image(COORDS.cell_size, COORDS.npix)
    found = fit_beam(image / image.max(), COORDS.cell_size)
    sigma = math.sqrt(8 * math.log(2))
    assert found.position_angle == pytest.approx(25, abs=1e-6)
    assert found.major == pytest.approx(0.08 * sigma)
    assert found.minor == pytest.approx(0.08 * sigma * math.cos(math.radians(50)))


def test_the_area_is_the_integral():
    beam = Beam(0.2, 0.12, 40)
    assert beam.area == pytest.approx(gaussian(beam).sum() * COORDS.cell_size**2, rel=1e-9)


def test_sidelobes_as_high_as_the_cut_are_left_alone():
    truth = Beam(0.2, 0.15, 120)
    image = gaussian(truth)
    image[50:55, 10:14] = 0.6
    found = fit_beam(image, COORDS.cell_size)
    assert found.major == pytest.approx(truth.major, rel=1e-9)


@given(st.floats(0.08, 0.3), st.floats(0.5, 1), st.floats(0, 180), st.floats(-0.3, 0.3), st.floats(-0.2, 0.2))
@settings(max_examples=25, deadline=None)
def test_a_gaussian_convolved_is_a_gaussian(major, ratio, angle, east, north):
    """Variances add: the closed form for any two ellipses, off-centre, the source turned by 25 degrees."""
    beam = Beam(major, major * ratio, angle)
    source = Ring(flux=2, radius=0, width=0.05, inclination=50, position_angle=25, east=east, north=north)
    fine = GridCoords(0.02, 100)
    found = convolve(source.image(0.02, 100), fine, beam)

    def covariance(major, minor, angle):
        sin, cos = math.sin(math.radians(angle)), math.cos(math.radians(angle))
        axes = np.array([[sin, cos], [cos, -sin]])
        return axes.T @ np.diag([major**2, minor**2]) @ axes

    sigma = covariance(0.05, 0.05 * math.cos(math.radians(50)), 25)
    sigma = sigma + covariance(beam.major, beam.minor, angle) / (8 * math.log(2))
    away = np.stack([plane - place for plane, place in zip(fine.sky_coordinates(), (east, north), strict=True)], -1)
    exponent = np.einsum("ija,ab,ijb->ij", away, np.linalg.inv(sigma), away) / 2
    expected = 2 * beam.area * np.exp(-exponent) / (2 * math.pi * math.sqrt(np.linalg.det(sigma)))
    # The source is 0.032 arcsec across its narrow side, one and a half pixels: sampled to 1e-5.
    np.testing.assert_allclose(found, expected, atol=2e-4 * expected.max())


@pytest.mark.parametrize("place", [(0, 0), (0, 63), (63, 0), (63, 63), (40, 5)])
def test_nothing_wraps_around(place):
    """A source in a corner, and a beam as wide as the field: what leaves does not come back."""
    beam = Beam(1.0, 0.4, 130)
    image = np.zeros((64, 64))
    image[place] = 5 / 0.02**2
    east, north = (plane - plane[place] for plane in COORDS.sky_coordinates())
    np.testing.assert_allclose(convolve(image, COORDS, beam), 5 * beam.at(east, north), atol=1e-12)


def test_cubes_are_convolved_channel_by_channel_and_tensors_too():
    cube = torch.rand(3, 64, 64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    beam = Beam(0.1, 0.06, 20)
    found = convolve(cube, COORDS, beam)
    assert found.dtype == np.float64
    for channel, plane in zip(cube, found, strict=True):
        np.testing.assert_array_equal(convolve(channel.detach().numpy(), COORDS, beam), plane)


def test_a_convolved_point_is_fitted_by_its_beam():
    beam = Beam(0.2, 0.12, 150)
    image = np.zeros((64, 64))
    image[32, 31] = 1 / 0.02**2
    found = fit_beam(convolve(image, COORDS, beam), 0.02)
    assert (found.major, found.minor, found.position_angle) == pytest.approx((0.2, 0.12, 150))


@pytest.mark.parametrize(
    ("shape", "beam", "message"),
    [
        ((63, 64), Beam(0.1, 0.1, 0), r"\(64, 64\), or a cube of such; got \(63, 64\)"),
        ((1, 1, 64, 64), Beam(0.1, 0.1, 0), "cube of such"),
        ((64,), Beam(0.1, 0.1, 0), "cube of such"),
        ((64, 64), Beam(0.1, 0.029, 0), "less than 1.5 pixels of 0.02"),
    ],
)
def test_what_cannot_be_convolved_is_named(shape, beam, message):
    with pytest.raises(ValueError, match=message):
        convolve(np.zeros(shape), COORDS, beam)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.ones((2, 8, 8)), "one channel"),
        (np.ones((7, 7)), "npix even"),
        (np.ones((8, 8)), "edge"),
        (np.zeros((8, 8)), "is 1 in row 4 and column 3"),
        (np.full((8, 8), np.nan), "is 1 in row 4 and column 3"),
        (gaussian(Beam(0.02, 0.02, 0)), "less than three pixels"),
        (
            gaussian(Beam(0.2, 0.2, 0))[:, ::-1],
            "is 1 in row 32 and column 31, its centre in sky order; this one is 0.97",
        ),
    ],
)
def test_what_cannot_be_fitted_is_named(image, message):
    with pytest.raises(ValueError, match=message):
        fit_beam(image, COORDS.cell_size)


@pytest.mark.parametrize("sizes", [(0.1, 0.2, 0), (0.1, 0, 0), (math.inf, 1, 0), (math.nan, 1, 0), (1, 1, math.nan)])
def test_no_beam_is_impossible(sizes):
    with pytest.raises(ValueError, match="must be"):
        Beam(*sizes)
