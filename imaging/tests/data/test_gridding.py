import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data import gridding
from firstlight_imaging.fourier import dirty
from firstlight_imaging.fourier.dirty import DirtyImager
from firstlight_imaging.model.losses import r_chi_squared_gridded
from firstlight_imaging.simulate.observation import channels, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point, protoplanetary_disk, sky_visibilities

COORDS = GridCoords(cell_size=0.05, npix=12)


def tracks(nchan=1, nvis=400, seed=0, reach=1.0):
    """Baselines all over the grid, and the same number of weights and visibilities."""
    rng = np.random.default_rng(seed)
    limit = reach * COORDS.uv_limit
    return {
        "uu": rng.uniform(-limit, limit, (nchan, nvis)),
        "vv": rng.uniform(-limit, limit, (nchan, nvis)),
        "weight": rng.uniform(0.5, 2, (nchan, nvis)),
        "data_re": rng.normal(size=(nchan, nvis)),
        "data_im": rng.normal(size=(nchan, nvis)),
    }


def slow_means(uu, vv, weight, data_re, data_im):
    """One visibility at a time: find the nearest cell, add to it."""
    u, v = COORDS.packed_uv()
    shape = (len(uu), COORDS.npix, COORDS.npix)
    total, weights = np.zeros(shape, complex), np.zeros(shape)
    for channel, k in np.ndindex(uu.shape):
        distance = np.maximum(abs(u - uu[channel, k]), abs(v - vv[channel, k]))
        cell = (channel, *np.unravel_index(np.argmin(distance), distance.shape))
        total[cell] += weight[channel, k] * complex(data_re[channel, k], data_im[channel, k])
        weights[cell] += weight[channel, k]
    return total / np.where(weights > 0, weights, 1), weights


@given(st.integers(1, 3), st.integers(1, 60), st.integers(0, 10_000), st.floats(0.05, 1))
def test_means_are_those_of_a_slow_loop(nchan, nvis, seed, reach):
    data = tracks(nchan, nvis, seed, reach)
    data["weight"][:, ::3] *= 1e-3
    vis, weight, _ = gridding.DataAverager(COORDS, **data).cell_means()
    expected, weights = slow_means(**data)
    np.testing.assert_allclose(weight, weights, rtol=1e-12)
    np.testing.assert_allclose(vis, expected, rtol=1e-10, atol=1e-12)


def test_the_data_set_holds_the_filled_cells_of_every_channel():
    data = tracks(nchan=3, nvis=50)
    data["weight"][1, 7] = 0
    averager = gridding.DataAverager(COORDS, **data)
    vis, weight, _ = averager.cell_means()
    dataset = averager.to_pytorch_dataset(check_visibility_scatter=False)
    assert dataset.nchan == 3
    np.testing.assert_array_equal(dataset.mask.numpy(), weight > 0)
    np.testing.assert_array_equal(dataset.vis_indexed.numpy(), vis[weight > 0])
    np.testing.assert_array_equal(dataset.weight_indexed.numpy(), weight[weight > 0])


# -- Scatter -----------------------------------------------------------------------------


def noisy(sigma_true, nvis=20_000):
    data = tracks(nvis=nvis)
    sigma = sigma_true / np.sqrt(data["weight"])
    rng = np.random.default_rng(5)
    return data | {name: 40.0 + sigma * rng.normal(size=(1, nvis)) for name in ("data_re", "data_im")}


@pytest.mark.parametrize("sigma", [0.1, 1.0, 3.0])
def test_scatter_is_measured_in_units_of_the_weights(sigma):
    data = noisy(sigma)
    assert gridding.DataAverager(COORDS, **data).cell_means()[2] == [pytest.approx(sigma, rel=0.02)]
    assert DirtyImager(COORDS, **data).scatter == [pytest.approx(sigma, rel=0.02)]


def test_weights_that_promise_too_much_are_told_with_the_factor_that_mends_them():
    data = noisy(3.0)
    with pytest.warns(UserWarning, match=r"channel 0 .*(3|2\.9)") as told:
        gridding.DataAverager(COORDS, **data).to_pytorch_dataset()
    factor = float(str(told[0].message).split("multiply them by ")[1].split()[0].rstrip("."))
    mended = data | {"weight": factor * data["weight"]}
    gridding.DataAverager(COORDS, **mended).to_pytorch_dataset()
    gridding.DataAverager(COORDS, **data).to_pytorch_dataset(check_visibility_scatter=False)
    gridding.DataAverager(COORDS, **data).to_pytorch_dataset(max_scatter=4)
    with pytest.warns(UserWarning, match=r"channel 0 .*multiply them by"):
        DirtyImager(COORDS, **data).get_dirty_image()
    DirtyImager(COORDS, **mended).get_dirty_image()
    DirtyImager(COORDS, **data).get_dirty_image(check_visibility_scatter=False)
    DirtyImager(COORDS, **data).get_dirty_image(max_scatter=4)


def test_a_handful_of_visibilities_tells_nothing_and_one_without_weight_does_not_count():
    few = {name: values[:, :40] for name, values in noisy(9.0).items()}
    assert np.isnan(gridding.DataAverager(COORDS, **few).cell_means()[2][0])
    data = noisy(1.0)
    data["weight"][:, ::2], data["data_re"][:, ::2] = 0, 1e6
    assert gridding.DataAverager(COORDS, **data).cell_means()[2] == [pytest.approx(1, rel=0.03)]


def test_pieces_scatter_as_the_whole(monkeypatch):
    data, whole = noisy(2.0), DirtyImager(COORDS, **noisy(2.0)).scatter
    monkeypatch.setattr(dirty, "_CHUNK", 1777)
    assert DirtyImager(COORDS, **data).scatter == pytest.approx(whole, rel=1e-9)


# -- Bias --------------------------------------------------------------------------------


DISK = protoplanetary_disk(flux=0.25, size=1.7)
TRACK = uv_track(n_times=60)


def averaged(sky, sigma, npix, times=1.0, nchan=1):
    """The averages of a sky, their scatter, and the true sky's reduced chi² in cells, in units of right weights."""
    coords, frequency = GridCoords(0.03, npix), channels(230e9, 1e6, nchan)
    seen = with_noise(observe(sky, TRACK, frequency), sigma, seed=1)
    parts = seen.data.real.copy(), seen.data.imag.copy()
    averager = gridding.DataAverager(coords, seen.uu, seen.vv, times * seen.weight, *parts)
    truth = torch.from_numpy(np.stack([sky_visibilities(sky, *coords.packed_uv())] * nchan))
    dataset = averager.to_pytorch_dataset(check_visibility_scatter=False)
    return averager, dataset, r_chi_squared_gridded(truth, dataset).item() / times


@pytest.mark.parametrize(
    ("sky", "sigma", "npix"),
    [(DISK, 5e-3, 180), ([Point(0.25, 1.0, -1.1)], 0.05, 180), ([Point(0.25, 2.5, -2.5)], 0.05, 180)],
    ids=["a disk that fills the field", "a point off centre", "a point near the corner"],
)
def test_averages_that_are_off_tell_by_how_much_at_least(sky, sigma, npix):
    averager, dataset, of_truth = averaged(sky, sigma, npix)
    assert max(0.1, (of_truth - 1) / 25) < dataset.bias < of_truth - 1
    with pytest.warns(UserWarning, match="channel 0 changes within cells.*ExactLikelihood"):
        averager.to_pytorch_dataset(max_scatter=99)


@pytest.mark.parametrize(
    ("sky", "sigma", "npix"),
    [(DISK, 5e-3, 720), (DISK, 0.1, 180), ([Point(0.25)], 1e-4, 180), ([], 5e-3, 180)],
    ids=["a wide field", "much noise", "a point at the centre", "noise alone"],
)
def test_averages_that_are_right_within_their_noise_are_not_warned_of(sky, sigma, npix):
    averager, dataset, of_truth = averaged(sky, sigma, npix)
    assert of_truth == pytest.approx(1, abs=0.25)
    assert abs(dataset.bias) < 0.1
    averager.to_pytorch_dataset()


def test_wrong_weights_are_told_as_such_and_are_no_bias():
    averager, *_ = averaged([], 5e-3, 180, times=4.0)
    with pytest.warns(UserWarning, match=r"multiply them by 0\.25") as told:
        averager.to_pytorch_dataset()
    assert len(told) == 1
    averaged([], 5e-3, 180, times=0.25)[0].to_pytorch_dataset()


def test_the_worst_channel_counts_and_a_flat_sky_without_noise_has_no_bias():
    _, one, _ = averaged(DISK, 5e-3, 180)
    _, three, _ = averaged(DISK, 5e-3, 180, nchan=3)
    assert three.bias == pytest.approx(one.bias, rel=0.1)
    flat = tracks(nchan=2) | {"data_re": np.ones((2, 400)), "data_im": np.zeros((2, 400))}
    assert gridding.DataAverager(COORDS, **flat).to_pytorch_dataset().bias == pytest.approx(0, abs=1e-9)


# -- What is refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "where", "bad", "message"),
    [
        ("data_re", np.s_[0, 17], np.nan, "finite"),
        ("uu", np.s_[0, 17], np.nan, "finite"),
        ("weight", np.s_[0, 17], np.inf, "finite"),
        ("weight", np.s_[1, 4], -1, "not negative"),
        ("weight", np.s_[1], 0, "channel 1"),
    ],
)
def test_values_of_which_no_mean_can_be_made_are_refused(name, where, bad, message):
    data = tracks(nchan=3)
    data[name][where] = bad
    with pytest.raises(ValueError, match=message):
        gridding.DataAverager(COORDS, **data)


def test_baselines_may_be_one_channel_for_all_but_not_fewer():
    data = tracks(nchan=3)
    assert gridding.DataAverager(COORDS, **data | {"vv": data["vv"][:1]}).nchan == 3
    with pytest.raises(ValueError, match=r"data_re \(3, 400\)"):
        gridding.DataAverager(COORDS, **data | {"uu": data["uu"][:, 1:]})


def test_mirrored_duplicates_are_refused_and_each_half_is_not():
    data = tracks()
    signs = {"uu": -1, "vv": -1, "weight": 1, "data_re": 1, "data_im": -1}
    twice = {name: np.hstack([data[name], sign * data[name]]) for name, sign in signs.items()}
    with pytest.raises(ValueError, match="pair"):
        gridding.DataAverager(COORDS, **twice)
    gridding.DataAverager(COORDS, **{name: sign * data[name] for name, sign in signs.items()})
