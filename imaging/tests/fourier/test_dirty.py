import numpy as np
import pytest
from direct import sky_of
from hypothesis import given
from hypothesis import strategies as st

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.fourier import dirty
from firstlight_imaging.fourier.dirty import DirtyImager, image_by_gridding, image_by_nufft
from firstlight_imaging.simulate.observation import observe, uv_track
from firstlight_imaging.simulate.skies import Point, protoplanetary_disk

COORDS = GridCoords(cell_size=0.05, npix=24)
WEIGHTINGS = [("natural", None), ("uniform", None), ("briggs", -0.5), ("briggs", 1.0)]


def some_data(coords=COORDS, nchan=2, nvis=300, seed=3):
    """Visibilities crowded to the centre, each channel with its own baselines, weights and flags."""
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(-1, 1, (2, nchan, nvis)) ** 3 * coords.uv_limit
    weight = rng.uniform(0.5, 2, (nchan, nvis)) * (rng.uniform(size=(nchan, nvis)) > 0.2)
    re, im = rng.normal(size=(2, nchan, nvis)) + 0.3
    return {"uu": u, "vv": v, "weight": weight, "data_re": re, "data_im": im}


def slow_weights(coords, u, v, w, weighting, robust):
    """From the definitions: both of each pair on the full plane, the nearest cell of each by its distance."""
    if weighting == "natural":
        return w
    both_u, both_v, both_w = np.r_[u, -u], np.r_[v, -v], np.r_[w, w]
    centers = coords.uv_centers
    row = np.abs(both_v[:, None] - centers).argmin(1)
    column = np.abs(both_u[:, None] - centers).argmin(1)
    density = np.zeros((coords.npix, coords.npix))
    np.add.at(density, (row, column), both_w)
    crowd = density[row, column][: len(w)]
    if weighting == "uniform":
        return np.where(w > 0, w / np.where(crowd > 0, crowd, 1), 0)
    return w / (1 + crowd * (5 * 10**-robust) ** 2 / ((density**2).sum() / both_w.sum()))


def slow_image(data, coords, weighting, robust):
    images, beams = [], []
    for u, v, w, re, im in zip(*(data[name] for name in ("uu", "vv", "weight", "data_re", "data_im")), strict=True):
        w = slow_weights(coords, u, v, w, weighting, robust)
        both = np.stack([w * (re + 1j * im), w.astype(complex)]) / w.sum()
        image, beam = sky_of(both, u, v, coords.npix, coords.cell_size) / coords.cell_size**2
        images.append(image)
        beams.append(beam)
    return np.array(images), np.array(beams)


@pytest.mark.parametrize(
    ("weighting", "robust", "chunk"), [(*WEIGHTINGS[0], 149), *((*each, dirty._CHUNK) for each in WEIGHTINGS[1:])]
)
def test_images_and_beams_are_direct_sums(weighting, robust, chunk, monkeypatch):
    monkeypatch.setattr(dirty, "_CHUNK", chunk)  # 300 visibilities in pieces of 149 leave 2 over
    data = some_data()
    imager = DirtyImager(COORDS, **data)
    image, beam = imager.get_dirty_image(weighting, robust)
    expected_image, expected_beam = slow_image(data, COORDS, weighting, robust)
    assert np.abs(image - expected_image).max() < 1e-9 * np.abs(expected_image).max()
    assert np.abs(beam - expected_beam).max() < 1e-9
    np.testing.assert_allclose(imager.get_dirty_beam(weighting, robust), beam, atol=1e-12)
    alone = DirtyImager(COORDS, **{name: values[1] for name, values in data.items()})
    assert (image[1] == alone.get_dirty_image(weighting, robust)[0][0]).all()  # MPoL's mask is another channel's


@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 8), st.integers(0, 10_000))
def test_any_sizes_and_any_side_of_the_plane(nchan, nvis, half, seed):
    coords = GridCoords(cell_size=0.1, npix=2 * half)
    data = some_data(coords, nchan, nvis, seed)
    data["weight"] += 0.1
    data["uu"][:, 0] = coords.uv_limit / 2  # lest all of them are refused as kilo-lambda
    turned = np.random.default_rng(seed).uniform(size=(nchan, nvis)) < 0.5
    mirrored = dict(data)
    for name in ("uu", "vv", "data_im"):
        mirrored[name] = np.where(turned, -data[name], data[name])
    image, beam = DirtyImager(coords, **data).get_dirty_image("briggs", 0.3)
    expected, _ = slow_image(data, coords, "briggs", 0.3)
    np.testing.assert_allclose(image, expected, atol=1e-8)
    again, beam_again = DirtyImager(coords, **mirrored).get_dirty_image("briggs", 0.3)
    np.testing.assert_allclose(again, image, atol=1e-8)
    np.testing.assert_allclose(beam_again, beam, atol=1e-8)


def test_the_mirror_images_of_cells_near_v_zero_count():
    """At v = 0.1 du and at -0.1 du, with opposite u, two visibilities share a cell and its mirror image."""
    du = COORDS.du
    cases = {"u": [4 * du, -4 * du, 7 * du], "v": [0.1 * du, 0.1 * du, -3 * du]}
    data = {"weight": np.ones((1, 3)), "data_re": np.ones((1, 3)), "data_im": np.zeros((1, 3))}
    data |= {"uu": np.array([cases["u"]]), "vv": np.array([cases["v"]])}
    beam = DirtyImager(COORDS, **data).get_dirty_beam("uniform")
    expected = sky_of(np.array([[0.25, 0.25, 0.5]]), data["uu"], data["vv"], COORDS.npix, COORDS.cell_size)
    np.testing.assert_allclose(beam, expected / COORDS.cell_size**2, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "call", "message"),
    [
        ({}, {"weighting": "robust"}, "'robust'"),
        ({}, {"weighting": "briggs", "robust": float("nan")}, "nan"),
        ({}, {"weighting": "uniform", "robust": 0.5}, "robust"),
        ({"uu": np.full((2, 300), np.nan)}, {}, "uu"),
        ({"uu": np.ones((2, 300)), "vv": np.ones((2, 300))}, {}, "kilo-lambda"),
        ({"weight": np.stack([np.ones(300), np.zeros(300)])}, {}, "channel 1"),
        ({"eps": 0}, {}, "eps"),
        ({"data_re": np.ones((2, 300), complex)}, {}, "data_re"),
        ({name: np.zeros((2, 0)) for name in some_data()}, {}, "empty"),
    ],
)
def test_wrong_choices_and_unusable_data_are_named(change, call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        DirtyImager(COORDS, **some_data() | change).get_dirty_image(**call)


def test_gridding_is_as_good_as_its_documentation_says_and_no_better():
    """Of a night of a sky that fills the field, with a source near a corner: what a wrong flip or a fold shows by."""
    sky = [*protoplanetary_disk(size=1.7, east=0.3, north=-0.2), Point(0.05, east=2.4, north=-2.1)]
    vis, coords = observe(sky, uv_track(n_times=9)), GridCoords(cell_size=0.03, npix=180)
    exact, rough = (by(vis.data, vis.uu[0], vis.vv[0], coords) for by in (image_by_nufft, image_by_gridding))
    assert 5e-4 < np.abs(rough - exact).max() / exact.max() < 1e-2
