import numpy as np
import pytest
from direct import ARCSEC, baselines, sky_of
from hypothesis import given
from hypothesis import strategies as st

from firstlight.imaging import waves
from firstlight.imaging.coordinates import GridCoords
from firstlight.imaging.dirty import DirtyImager
from firstlight.imaging.observe import observe, uv_track
from firstlight.imaging.skies import Point, protoplanetary_disk, sky_image, sky_visibilities
from firstlight.imaging.waves import METHODS, by_direct_sum, by_gridding, by_nufft

COORDS = GridCoords(cell_size=0.03, npix=180)
# Fills the field of 5.4 arcsec, off-centre, with a source near a corner: what a wrong flip or a fold shows by.
SKY = [*protoplanetary_disk(size=1.7, east=0.3, north=-0.2), Point(0.05, east=2.4, north=-2.1)]


@pytest.fixture(scope="module")
def seen():
    """A whole night with long steps."""
    return observe(SKY, uv_track(n_times=9))


@pytest.fixture(scope="module")
def truth(seen):
    """Rows and columns of 400 random pixels, and there the dirty image and beam from the definition."""
    rows, columns = np.random.default_rng(0).integers(0, 180, (2, 400))
    east, north = (plane[rows, columns] * ARCSEC for plane in COORDS.sky_coordinates())
    u, v, w, data = seen.uu[0], seen.vv[0], seen.weight[0], seen.data[0]
    sums = np.zeros((400, 2))
    for start in range(0, len(u), 5000):
        at = slice(start, start + 5000)
        phase = np.exp(2j * np.pi * (np.outer(east, u[at]) + np.outer(north, v[at])))
        sums += (phase @ np.stack([w * data, w], axis=1)[at]).real
    return rows, columns, sums.T / w.sum()


# (of the image, of the beam); the last is held to be no better than its documentation says, either
BOUNDS = {"nufft": (0, 1e-9), "direct": (0, 1e-11), "gridding": (5e-4, 1e-2)}


@pytest.mark.parametrize("method", METHODS)
def test_400_pixels_of_an_observation_are_the_sums_of_their_waves(method, seen, truth):
    rows, columns, sums = truth
    imager = DirtyImager(COORDS, seen.uu, seen.vv, seen.weight, seen.data.real, seen.data.imag, method=method)
    low, high = BOUNDS[method]
    for cube, expected in zip(imager.get_dirty_image("natural"), sums, strict=True):
        error = np.abs(cube[0][rows, columns] - expected).max() / cube.max()
        assert low <= error < high


@pytest.mark.parametrize("method", ["nufft", "direct"])
def test_a_fully_sampled_sky_is_seen_as_it_is(method):
    """The closed form of the sky itself: half of the plane holds a baseline in each cell, zero counts half."""
    coords = GridCoords(cell_size=0.06, npix=104)
    disk = protoplanetary_disk(size=1.7, east=0.3, north=-0.2)
    u, v = coords.ground_uv()
    half = ((v > 0) | ((v == 0) & (u >= 0))) & (u > coords.uv_centers[0])
    u, v = u[half], v[half]
    weight = np.where((u == 0) & (v == 0), 0.5, 1)
    data = sky_visibilities(disk, u, v)
    imager = DirtyImager(coords, u, v, weight, data.real, data.imag, method=method)
    image, _ = imager.get_dirty_image("natural")
    brightness = image[0] * 2 * weight.sum() * (coords.du * ARCSEC) ** 2
    expected = sky_image(disk, coords.cell_size, coords.npix)
    assert np.abs(brightness - expected).max() < 1e-6 * expected.max()


@given(st.integers(1, 3), st.integers(0, 40), st.integers(1, 8), st.integers(0, 10_000))
def test_any_sizes(n, nvis, half, seed):
    coords = GridCoords(cell_size=0.1, npix=2 * half)
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(-1, 1, (2, nvis)) * coords.uv_limit
    vis = rng.normal(size=(n, nvis)) + 1j * rng.normal(size=(n, nvis))
    expected = sky_of(vis, u, v, coords.npix, coords.cell_size) / coords.cell_size**2
    for found in (by_direct_sum(vis, u, v, coords), by_nufft(vis, u, v, coords)):
        assert found.shape == (n, coords.npix, coords.npix)
        np.testing.assert_allclose(found, expected, atol=1e-8)
    # One visibility's wave, by gridding, is off by at most what folds in at the corner of the field: 2 x 1/9 and more.
    rough = by_gridding(vis, u, v, coords)
    assert rough.shape == expected.shape
    assert np.abs(rough - expected).max() <= 0.35 * np.abs(vis).sum() + 1e-12


def test_the_direct_sum_in_pieces(monkeypatch):
    u, v = baselines(50, cell=0.03)
    vis = np.exp(1j * np.arange(100)).reshape(2, 50)
    whole = by_direct_sum(vis, u, v, COORDS)
    monkeypatch.setattr(waves, "AT_ONCE", 7 * COORDS.npix)
    np.testing.assert_allclose(by_direct_sum(vis, u, v, COORDS), whole, atol=1e-12)


def test_baselines_on_the_cells_need_no_sharing():
    """Then gridding is exact at any fineness, if nothing is flipped or moved."""
    coords = GridCoords(cell_size=0.1, npix=12)
    rng = np.random.default_rng(1)
    u, v = coords.du * rng.integers(-5, 6, (2, 30))
    vis = rng.normal(size=(2, 30)) + 1j * rng.normal(size=(2, 30))
    expected = by_direct_sum(vis, u, v, coords)
    for finer in (2, 3, 4):
        darkened = by_gridding(vis, u, v, coords, finer)
        x = (np.arange(12) - 6) / (12 * finer)
        dark = np.outer(np.sinc(x) ** 2, np.sinc(x) ** 2)[..., ::-1]
        np.testing.assert_allclose(darkened * dark, expected, atol=1e-10)
