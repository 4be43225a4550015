"""What holds of any data: gridding, the orders of pixels, and what refuses unusable input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from firstlight.imaging import coordinates, gridding, measured, nufft
from firstlight.imaging.coordinates import GridCoords
from firstlight.imaging.dirty import DirtyImager
from firstlight.imaging.exact import ExactLikelihood

FEW = settings(max_examples=40)
FEWER = settings(max_examples=15)
SIDES = st.integers(1, 10).map(lambda half: 2 * half)
NUMBERS = st.floats(-1e3, 1e3, width=32)


@st.composite
def measurements(draw) -> tuple[GridCoords, dict[str, np.ndarray]]:
    """A grid, and anything that it can hold: visibilities of zero, weights that differ by 10⁶, cells used again."""
    coords = GridCoords(draw(st.floats(0.001, 2)), draw(SIDES))
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 12)))
    place = st.floats(-1, 1).map(lambda part: part * coords.uv_limit)
    data = {name: draw(arrays.arrays(float, shape, elements=place)) for name in ("uu", "vv")}
    data["weight"] = draw(arrays.arrays(float, shape, elements=st.floats(1e-3, 1e3)))
    data |= {name: draw(arrays.arrays(float, shape, elements=NUMBERS)) for name in ("data_re", "data_im")}
    try:
        gridding.DataAverager(coords, **data)
    except ValueError:  # too short for the grid, or each stands there twice: refused, as other tests show
        assume(False)
    return coords, data


def shuffled(data: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    order = np.random.default_rng(seed).permutation(data["uu"].shape[1])
    return {name: values[:, order] for name, values in data.items()}


def turned(data: dict[str, np.ndarray], which: np.ndarray) -> dict[str, np.ndarray]:
    """The same visibilities, some of them seen from the other antenna."""
    signs = {"uu": -1, "vv": -1, "data_im": -1}
    return {name: np.where(which, signs.get(name, 1) * values, values) for name, values in data.items()}


# -- Gridding ----------------------------------------------------------------------------


@FEW
@given(measurements())
def test_gridding_keeps_weights_and_weighted_sums(seen) -> None:
    coords, data = seen
    vis, weight = gridding.DataAverager(coords, **data).cell_means()
    np.testing.assert_allclose(weight.sum((1, 2)), data["weight"].sum(1), rtol=1e-12)
    total = (data["weight"] * (data["data_re"] + 1j * data["data_im"])).sum(1)
    scale = (data["weight"] * np.hypot(data["data_re"], data["data_im"])).sum(1)
    assert (np.abs((weight * vis).sum((1, 2)) - total) <= 1e-12 * scale).all()


@FEW
@given(measurements())
def test_a_mean_is_between_the_values_of_its_cell_and_an_empty_cell_is_zero(seen) -> None:
    coords, data = seen
    averager = gridding.DataAverager(coords, **data)
    vis, weight = averager.cell_means()
    for channel, cells in enumerate(averager.cells):
        means, weights = vis[channel].reshape(-1), weight[channel].reshape(-1)
        assert set(np.flatnonzero(weights)) == set(cells)
        assert not means[weights == 0].any()
        for cell in set(cells):
            for part, name in ((means[cell].real, "data_re"), (means[cell].imag, "data_im")):
                values = data[name][channel, cells == cell]
                slack = 1e-9 * np.abs(values).max()
                assert values.min() - slack <= part <= values.max() + slack


@FEW
@given(measurements(), st.integers(0, 99))
def test_the_order_of_visibilities_is_of_no_account(seen, seed: int) -> None:
    coords, data = seen
    averagers = [gridding.DataAverager(coords, **each) for each in (data, shuffled(data, seed))]
    for mine, other in zip(*(averager.cell_means() for averager in averagers), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9 * np.abs(mine).max())


@FEW
@given(measurements())
def test_cells_of_mirrored_baselines_mirror_each_other(seen) -> None:
    """Not only on average: but for ties on the border of two cells, u → −u takes each mean to its conjugate."""
    coords, data = seen
    for name in ("uu", "vv"):
        cycles = data[name] / coords.du
        assume((np.abs(cycles % 1 - 0.5) > 1e-9).all())
    means = [gridding.DataAverager(coords, **each).cell_means() for each in (data, turned(data, np.True_))]
    back = -np.arange(coords.npix)
    (vis, weight), (mirrored_vis, mirrored_weight) = means
    np.testing.assert_array_equal(mirrored_weight[:, back][:, :, back], weight)
    np.testing.assert_array_equal(mirrored_vis[:, back][:, :, back], vis.conj())


@FEWER
@given(measurements(), st.integers(0, 99))
def test_a_dirty_image_does_not_ask_which_antenna_came_first(seen, seed: int) -> None:
    coords, data = seen
    which = np.random.default_rng(seed).uniform(size=data["uu"].shape) < 0.5
    both = [DirtyImager(coords, **each) for each in (data, turned(shuffled(data, seed), which))]
    scale = np.hypot(data["data_re"], data["data_im"]).max() + 1e-300
    for weighting in ("natural", "briggs"):
        robust = 0.5 if weighting == "briggs" else None
        images, beams = zip(*(imager.get_dirty_image(weighting, robust) for imager in both), strict=True)
        np.testing.assert_allclose(images[0] / scale, images[1] / scale, atol=1e-7)
        np.testing.assert_allclose(*beams, atol=1e-7)


@FEWER
@given(measurements(), st.integers(0, 99))
def test_nor_does_the_exact_likelihood(seen, seed: int) -> None:
    coords, data = seen
    which = np.random.default_rng(seed).uniform(size=data["uu"].shape) < 0.5
    image = torch.rand(len(data["uu"]), coords.npix, coords.npix, dtype=torch.float64)
    values = []
    for each in (data, turned(shuffled(data, seed), which)):
        vis = each["data_re"] + 1j * each["data_im"]
        likelihood = ExactLikelihood(
            each["uu"], each["vv"], vis, each["weight"], coords.cell_size, coords.npix, dtype=torch.float64
        )
        assert (likelihood.c0 >= 0).all()
        values.append(likelihood.chi_squared(image))
    torch.testing.assert_close(*values, rtol=1e-9, atol=1e-9)


# -- Orders of pixels --------------------------------------------------------------------

CUBES = st.tuples(st.integers(1, 3), SIDES).flatmap(
    lambda size: arrays.arrays(
        st.sampled_from([np.float32, np.float64, np.complex64]), (size[0], size[1], size[1]), elements=st.integers(0, 9)
    )
)


@FEW
@given(CUBES)
def test_any_way_round_the_orders_leads_back_bit_for_bit(cube: np.ndarray) -> None:
    for kind in (np.asarray, torch.as_tensor):
        for one, other in itertools.permutations(("sky", "ground", "packed"), 2):
            there, back = (getattr(coordinates, name) for name in (f"{one}_to_{other}", f"{other}_to_{one}"))
            np.testing.assert_array_equal(back(there(kind(cube))), cube)
        through = coordinates.ground_to_packed(coordinates.sky_to_ground(kind(cube)))
        np.testing.assert_array_equal(through, coordinates.sky_to_packed(kind(cube)))


@FEW
@given(SIDES, st.data())
def test_a_pixel_is_at_the_same_place_in_every_order(npix: int, data) -> None:
    coords = GridCoords(0.1, npix)
    row, column = (data.draw(st.integers(0, npix - 1)) for _ in range(2))
    sky = np.zeros((1, npix, npix))
    sky[0, row, column] = 1
    east, north = (axis[row, column] for axis in coords.sky_coordinates())
    assert (east, north) == pytest.approx(((npix / 2 - 1 - column) * 0.1, (row - npix / 2) * 0.1))
    for order in ("ground", "packed"):
        chosen = getattr(coordinates, f"sky_to_{order}")(sky)[0] == 1
        assert [float(axis[chosen][0]) for axis in getattr(coords, f"{order}_coordinates")()] == [east, north]


@FEW
@given(CUBES.filter(lambda cube: cube.dtype.kind == "f"))
def test_the_zero_of_packed_visibilities_is_the_sum_and_a_real_sky_is_hermitian(cube: np.ndarray) -> None:
    packed = coordinates.sky_to_packed(cube.astype(float))
    vis = np.fft.fft2(packed)
    np.testing.assert_allclose(vis[:, 0, 0], cube.sum((1, 2), dtype=float), atol=1e-9)
    back = -np.arange(cube.shape[-1])
    np.testing.assert_allclose(vis[:, back][:, :, back], vis.conj(), atol=1e-9)


# -- What is refused ---------------------------------------------------------------------

SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
NAMES = ("data_re", "data_im", "uu", "vv", "weight")


@FEW
@given(st.lists(SHAPES, min_size=5, max_size=5))
def test_shapes_fit_or_are_refused_by_name(shapes) -> None:
    named = dict(zip(NAMES, (np.zeros(shape) for shape in shapes), strict=True))
    try:
        fitted = gridding.same_shape(named)
    except ValueError as refusal:
        assert "data_re" in str(refusal)  # noqa: PT017
    else:
        assert {values.shape for values in fitted} == {np.atleast_2d(named["data_re"]).shape}
        assert all(values.shape[-1:] == shapes[0][-1:] for values in named.values())


@FEW
@given(measurements(), st.sampled_from(NAMES), st.sampled_from([np.nan, np.inf, -np.inf]), st.data())
def test_one_bad_number_anywhere_is_refused(seen, name: str, bad: float, data) -> None:
    coords, values = seen
    at = tuple(data.draw(st.integers(0, size - 1)) for size in values[name].shape)
    values[name][at] = bad
    for reader in (gridding.DataAverager, DirtyImager):
        with pytest.raises(ValueError, match="finite"):
            reader(coords, **values)


def given_to_the_likelihood(values, **changes):
    taken = {"u": values["uu"], "v": values["vv"], "data": values["data_re"] + 0j, "weight": values["weight"]}
    return measured.check_measured(**taken | {"factor": None, "chunk": 5} | changes)


@FEW
@given(measurements(), st.sampled_from(["weight", "data", "factor"]), st.data())
def test_one_bad_number_is_counted_unless_it_has_no_weight(seen, name: str, data) -> None:
    _, values = seen
    shape = values["uu"].shape
    at = tuple(data.draw(st.integers(0, size - 1)) for size in shape)
    good = {"data": np.ones(shape, complex), "factor": np.ones(shape), "weight": values["weight"]}
    bad = {name: good[name].copy()}
    bad[name][at] = np.nan
    with pytest.raises(ValueError, match=r"^1 (weights are|visibilities with a weight, or their factors,)"):
        given_to_the_likelihood(values, **good | bad)
    if name != "weight":
        flagged = good["weight"].copy()
        flagged[at] = 0
        given_to_the_likelihood(values, **good | bad | {"weight": flagged})


@FEW
@given(SHAPES, SHAPES, st.integers(1, 3), st.integers(0, 4))
def test_baselines_fit_or_are_refused_with_both_shapes(one, other, nchan: int, nvis: int) -> None:
    fit = one == other and one in ((nvis,), (nchan, nvis))
    if fit:
        assert nufft.check_baselines(np.zeros(one), np.zeros(other), nchan, nvis)[0].shape == one
    else:
        with pytest.raises(ValueError, match="u and v have shapes") as refusal:
            nufft.check_baselines(np.zeros(one), np.zeros(other), nchan, nvis)
        assert str(one) in str(refusal.value)
        assert str(other) in str(refusal.value)


@FEW
@given(st.floats(allow_nan=True, allow_infinity=True), st.integers(-5, 20))
def test_a_grid_is_right_or_refused(cell_size: float, npix: int) -> None:
    right = np.isfinite(cell_size) and cell_size > 0 and npix > 0 and npix % 2 == 0
    assume(not right or 1e-100 < cell_size < 1e100)
    if right:
        coords = GridCoords(cell_size, npix)
        assert coords.du * npix * cell_size * coordinates.ARCSEC == pytest.approx(1)
        assert coords.uv_limit < coords.npix / 2 * coords.du < coords.q_max
    else:
        with pytest.raises(ValueError, match=r"must be (a positive|an even) number"):
            GridCoords(cell_size, npix)
