import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight_imaging.coordinates import GridCoords, sky_to_packed
from firstlight_imaging.fourier.beams import Beam, convolve, fit_beam
from firstlight_imaging.fourier.dirty import DirtyImager
from firstlight_imaging.fourier.fourier_cube import FourierCube
from firstlight_imaging.simulate.observation import observe, uv_track
from firstlight_imaging.simulate.skies import Ring

COORDS = GridCoords(cell_size=0.02, npix=64)


def gaussian(beam):
    """The beam as an image of peak 1; that it lies as it should, the last test here says."""
    return beam.at(*COORDS.sky_coordinates())


@given(st.floats(0.06, 0.35), st.floats(0.3, 0.95), st.floats(0, 179))
def test_a_gaussian_is_found_again(major, ratio, angle):
    truth = Beam(major, max(major * ratio, 0.05), angle)
    found = fit_beam(gaussian(truth), COORDS.cell_size)
    assert found.major == pytest.approx(truth.major, rel=1e-9)
    assert found.minor == pytest.approx(truth.minor, rel=1e-9)
    turn = (found.position_angle - truth.position_angle + 90) % 180 - 90
    assert abs(turn) < 1e-5


def test_sidelobes_as_high_as_the_cut_are_left_alone():
    truth = Beam(0.2, 0.15, 120)
    image = gaussian(truth)
    image[50:55, 10:14] = 0.6
    found = fit_beam(image, COORDS.cell_size)
    assert found.major == pytest.approx(truth.major, rel=1e-9)


def baselines(short, nvis=20_000):
    """As of two arrays, one ten times as long as the other; so many of the baselines are of the short one."""
    rng = np.random.default_rng(0)
    long = np.where(np.arange(nvis) < short * nvis, 6e4, 6e5)
    return long * rng.normal(size=(2, nvis))


def test_sidelobes_that_join_the_main_lobe_with_the_edge_are_cut_off():
    """As of five telescopes of the Event Horizon Telescope: a wider field would have them, too."""
    beam = gaussian(Beam(0.3, 0.2, 20))
    beam[len(beam) // 2] = np.maximum(beam[len(beam) // 2], 0.4)
    with pytest.warns(UserWarning, match="not like a Gaussian"):
        found = fit_beam(beam, COORDS.cell_size)
    assert (found.major, found.minor) == pytest.approx((0.3, 0.2), rel=0.1)


def test_a_core_on_a_pedestal_is_no_gaussian_and_a_warning_says_by_how_much():
    coords = GridCoords(0.03, 384)
    u, v = baselines(short=0.5)
    imager = DirtyImager(coords, u, v, np.ones(u.size), np.ones(u.size), np.zeros(u.size))
    lobe = imager.get_dirty_beam("natural")[0]
    with pytest.warns(UserWarning, match=r"by 0\.4 of the peak.*robust=0") as told:
        found = fit_beam(lobe, coords.cell_size)
    assert len(told) == 1
    assert found.misfit == pytest.approx(np.abs(lobe - found.at(*coords.sky_coordinates())).max(), rel=0.05)
    assert fit_beam(imager.get_dirty_beam("briggs", 0.0)[0], coords.cell_size).misfit < 0.2


@pytest.mark.parametrize("how", [("natural", None), ("uniform", None), ("briggs", 0.5)])
def test_the_beams_of_one_array_pass_without_a_warning(how):
    seen = observe([], uv_track(n_times=33))
    zero = np.zeros(seen.uu.shape)
    beam = DirtyImager(GridCoords(0.03, 180), seen.uu, seen.vv, zero + 1, zero, zero).get_dirty_beam(*how)[0]
    assert 0.01 < fit_beam(beam, 0.03).misfit < 0.15
    assert fit_beam(gaussian(Beam(0.2, 0.1, 30)), COORDS.cell_size).misfit < 1e-9


@pytest.mark.parametrize("place", [(0, 0), (0, 63), (63, 0), (63, 63), (40, 5)])
def test_nothing_wraps_around(place):
    """A source in a corner, and a beam as wide as the field: what leaves does not come back."""
    beam = Beam(1.0, 0.4, 130)
    image = np.zeros((64, 64))
    image[place] = 5 / 0.02**2
    east, north = (plane - plane[place] for plane in COORDS.sky_coordinates())
    np.testing.assert_allclose(convolve(image, COORDS, beam), 5 * beam.at(east, north), atol=1e-12)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.ones((2, 8, 8)), "channel"),
        (np.ones((7, 7)), "npix"),
        (np.ones((8, 8)), "edge"),
        (np.full((8, 8), np.nan), "row 4 and column 3"),
        (gaussian(Beam(0.02, 0.02, 0)), "pixels"),
        (gaussian(Beam(0.2, 0.2, 0))[:, ::-1], "row 32 and column 31.* 0.97"),
    ],
)
def test_what_cannot_be_fitted_is_named(image, message):
    with pytest.raises(ValueError, match=message):
        fit_beam(image, COORDS.cell_size)


@pytest.mark.parametrize("angle", [20.0, 117.0])
def test_a_gaussian_has_one_position_angle_in_both_planes(angle):
    """From north through east. MPoL's convolutions in the image and in the Fourier plane were at right angles."""
    coords, fwhm = GridCoords(0.02, 96), np.sqrt(8 * np.log(2))
    ring = Ring(1.0, 0.0, width=0.16, inclination=60, position_angle=angle)
    image = ring.image(0.02, 96)
    vis = FourierCube(coords)(sky_to_packed(torch.tensor(image[None])))
    assert np.abs(vis[0].numpy() - ring.visibilities(*coords.packed_uv())).max() < 1e-6
    east, north = coords.sky_coordinates()
    along = np.deg2rad(angle)
    for turn, width in ((0, 0.16), (np.pi / 2, 0.08)):
        where = east * np.sin(along + turn) + north * np.cos(along + turn)
        assert (image * where**2).sum() / image.sum() == pytest.approx(width**2, rel=1e-3)
    beam = fit_beam(image / image.max(), 0.02)
    assert (beam.major, beam.minor) == pytest.approx((0.16 * fwhm, 0.08 * fwhm), rel=0.01)
    assert (beam.position_angle - angle + 90) % 180 - 90 == pytest.approx(0, abs=0.5)
    assert beam.area == pytest.approx(1 / image.max(), rel=0.02)
