import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.imaging import gridding
from firstlight.imaging.coordinates import GridCoords

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
    vis, weight = gridding.DataAverager(COORDS, **data).cell_means()
    expected, weights = slow_means(**data)
    np.testing.assert_allclose(weight, weights, rtol=1e-12)
    np.testing.assert_allclose(vis, expected, rtol=1e-10, atol=1e-12)


def test_the_data_set_holds_the_filled_cells_of_every_channel():
    data = tracks(nchan=3, nvis=50)
    data["weight"][1, 7] = 0
    averager = gridding.DataAverager(COORDS, **data)
    vis, weight = averager.cell_means()
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
    averager = gridding.DataAverager(COORDS, **noisy(sigma))
    assert averager.scatter(*averager.cell_means()) == [pytest.approx(sigma, rel=0.02)]


def test_weights_that_promise_too_much_are_told_with_the_factor_that_mends_them():
    data = noisy(3.0)
    with pytest.warns(UserWarning, match=r"channel 0 .*(3|2\.9)") as told:
        gridding.DataAverager(COORDS, **data).to_pytorch_dataset()
    factor = float(str(told[0].message).split("multiply them by ")[1].split()[0].rstrip("."))
    mended = data | {"weight": factor * data["weight"]}
    gridding.DataAverager(COORDS, **mended).to_pytorch_dataset()
    gridding.DataAverager(COORDS, **data).to_pytorch_dataset(check_visibility_scatter=False)
    gridding.DataAverager(COORDS, **data).to_pytorch_dataset(max_scatter=4)


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
