"""What the page says of beams, weights and gridding, and its checker."""

import numpy as np
import pytest
import torch
from numba import cuda
from pages import judged

from firstlight_imaging.units import ARCSEC
from firstlight_kernels import blocks_for

PAGE = "4_imaging/05_dirty_image.py"


def test_weights_trade_resolution_for_noise(page):
    areas = [page["fitted"][name].area for name in ("natural", "robust 0.5", "uniform")]
    noises = [page["rms"][name] for name in ("natural", "robust 0.5", "uniform")]
    assert areas == sorted(areas, reverse=True)
    assert areas[0] > 2 * areas[-1]
    assert noises == sorted(noises)
    assert noises[0] == pytest.approx(page["weight"].sum() ** -0.5, rel=0.05)


def test_every_weighting_leaves_a_dark_bowl(page):
    assert all(image.min() < -3 * page["rms"][name] for name, image in page["images"].items())


def test_the_sum_depends_on_the_field_although_the_light_is_in_the_data(page):
    sums = np.array(list(page["found"].values())) / 0.25
    assert 0.5 < sums[0] < 0.65
    assert sums[1] > 1.5
    assert sums[2] < 0
    assert abs(page["shortest"]) == pytest.approx(0.98 * 0.25, rel=0.005)


@pytest.mark.parametrize("count", [1, 31, 129])
def test_the_kernel_adds_to_what_is_there_and_wraps_around(page, count):
    rng = np.random.default_rng(seed=count)
    npix = page["npix"]
    u, v = (rng.uniform(-npix / 2 + 1, npix / 2 - 1, count).astype(np.float32) for _ in range(2))
    values = [rng.integers(-9, 10, count).astype(np.float32) for _ in range(2)]
    before = rng.integers(-9, 10, (npix, npix)).astype(np.float32)
    grids = [cuda.to_device(before) for _ in range(2)]
    arrays = [cuda.to_device(x) for x in (u, v, *values)]
    page["to_cells"][blocks_for(count, 32), 32](*arrays, *grids)
    for grid, given in zip(grids, values, strict=True):
        expected = before.copy()
        for x, y, value in zip(u, v, given, strict=True):
            expected[int(np.floor(y + np.float32(0.5))), int(np.floor(x + np.float32(0.5)))] += value
        np.testing.assert_array_equal(grid.copy_to_host(), expected)


def test_the_direct_sum_is_that_of_the_definition_and_does_not_depend_on_its_pieces(page):
    few = slice(0, 997, 3)
    some = [x[few] for x in page["columns"]]
    image = page["direct"](50, *some).numpy()
    east, north = page["coords"].sky_coordinates()
    along, up = (
        np.exp(2j * np.pi * ARCSEC * np.outer(*each))
        for each in ((page["u"][few], east[0]), (north[:, 0], page["v"][few]))
    )
    expected = ((up * page["wave"][few]) @ along).real
    np.testing.assert_allclose(image, expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(page["direct"](1 << 20, *some).numpy(), image, atol=1e-12 * np.abs(image).max())


def test_the_direct_sum_in_float32_has_six_digits(page):
    """As a GPU runs it: the page says that whole turns are left out for this."""
    image = page["direct"](4096, *(x.float() for x in page["columns"])).double().numpy()
    assert np.abs(image - page["exact"]).max() < 2e-6 * page["exact"].max()


def test_gridding_is_wrong_at_the_edges_and_division_makes_it_worse(page):
    off = np.abs(page["off"]["nearest cell"])
    assert off.max() > 3 * off[67:113, 67:113].max()
    assert page["worst"]["divided by sinc"] > 1.5 * page["worst"]["nearest cell"]
    assert page["worst"]["2 x 2 cells"] < 0.3 * page["worst"]["nearest cell"]


def test_only_the_nufft_is_below_the_noise(page):
    error, noise = page["error"], page["depth"]
    assert min(error["nearest cell"], error["2 x 2 cells"]) > noise
    assert page["typical"]["nearest cell"] > noise > page["typical"]["2 x 2 cells"]
    for digits in (2, 4, 8, 12):
        assert error[f"NUFFT 1e-{digits}"] < min(noise, 10**-digits)
    assert error["direct"] < 1e-12


def noise_by_loop(weight, used):
    variance = sum(b**2 / a for a, b in zip(weight, used, strict=True) if b > 0)
    return torch.tensor(variance).sqrt() / used.sum()


WRONG = {
    "adds up the noise, not its square": (lambda weight, used: np.sum(used / np.sqrt(weight)) / used.sum(), "squares"),
    "a 2 too many": (lambda weight, used: np.sqrt(2 / weight.sum()), "squares"),
    "squares and weights exchanged": (lambda weight, used: np.sqrt(np.sum(used**2 * weight)) / used.sum(), "sigma"),
    "with the weights that were used alone": (lambda weight, used: 1 / np.sqrt(used.sum()), "7 times"),
    "not divided by the sum": (lambda weight, used: np.sqrt(np.sum(used**2 / weight)), "squares|7 times"),
    "with the true weights alone": (lambda weight, used: 1 / np.sqrt(weight.sum()), "sqrt(weight)"),
    "counts flagged visibilities": (lambda weight, used: np.sqrt(np.sum(used**2 / weight)) / used.sum(), "flagged"),
    "an array": (lambda weight, used: used / weight, "no number"),
}


test_answers = judged(["image_noise_solution", noise_by_loop], WRONG)
