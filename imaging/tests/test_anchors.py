"""Six anchors that need no other program: closed forms, direct sums, statistics.

The sixth, images that are recovered from noisy data, is in ``test_recovery.py``.
"""

import inspect

import numpy as np
import pytest
import torch
from direct import ARCSEC, CELL, baselines, field_filling, ratio_error

from firstlight_imaging.coordinates import GridCoords, sky_to_packed
from firstlight_imaging.data.datasets import GriddedDataset
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.fourier.dirty import DirtyImager
from firstlight_imaging.fourier.fourier_cube import FourierCube
from firstlight_imaging.fourier.nufft import COMPLEX, visibilities
from firstlight_imaging.model import losses
from firstlight_imaging.model.cubes import HannConvCube, ImageCube
from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point, Ring, Sky, protoplanetary_disk, sky_image, sky_visibilities

GRID = GridCoords(cell_size=0.03, npix=256)  # 7.7 arcsec
FIELD = GridCoords(cell_size=0.03, npix=180)  # 5.4 arcsec, which this disk fills
DISK = protoplanetary_disk(0.25, size=1.5)
BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def packed(image: np.ndarray) -> torch.Tensor:
    return sky_to_packed(torch.from_numpy(image[None]))


# -- 1. Fourier pair ---------------------------------------------------------------------

SKIES: dict[str, Sky] = {
    "ring in the south-east": [Ring(0.3, 0.7, 0.12, inclination=50, position_angle=30, east=0.41, north=-0.63)],
    "Gaussian": [Ring(0.25, 0.0, 0.1, inclination=45, position_angle=120, east=0.013, north=0.771)],
    "coarse pixels": [Ring(1.0, 1.3, 0.05)],  # the I0 of its formula alone would overflow
    "ring with a gap": [Ring(0.6, 0.8, 0.2, 20, 30, 0.1, 0.2), Ring(-0.1, 0.4, 0.1, 20, 30, 0.1, 0.2)],
    "disk that fills the field": protoplanetary_disk(0.25, size=1.9),
}


@pytest.mark.parametrize("sky", SKIES.values(), ids=SKIES)
def test_anchor_1_image_and_visibilities_are_a_fourier_pair(sky: Sky) -> None:
    vis = FourierCube(GRID)(packed(sky_image(sky, 0.03, 256)))[0].numpy()
    flux = sum(abs(part.flux) for part in sky)
    assert np.abs(vis - sky_visibilities(sky, *GRID.packed_uv())).max() <= 1e-6 * flux


@pytest.mark.parametrize("npix", [8, 30])
@pytest.mark.parametrize(("north", "east"), [(0, 0), (1, 0), (0, 1), (3, -2), (-4, -4), (-3, 3)])
def test_anchor_1_points_at_pixels_to_the_last_digit(npix: int, north: int, east: int) -> None:
    coords = GridCoords(cell_size=0.05, npix=npix)
    source = Point(1.0, east=east * 0.05, north=north * 0.05)
    vis = FourierCube(coords)(packed(source.image(0.05, npix)))[0].numpy()
    u, v = coords.packed_uv()
    phase = 2 * np.pi * coords.cell_size * ARCSEC * (u * east + v * north)
    assert np.abs(vis - np.exp(-1j * phase)).max() < 1e-13
    assert np.abs(vis - source.visibilities(u, v)).max() < 1e-13


# -- 2. Flux -----------------------------------------------------------------------------


def test_anchor_2_flux_is_the_visibility_at_zero() -> None:
    sky = SKIES["ring in the south-east"]
    image = packed(sky_image(sky, 0.03, 256))
    cube = ImageCube(GRID)
    fluxes = {
        "closed form": sky_visibilities(sky, 0.0, 0.0).real,
        "FFT": FourierCube(GRID)(cube(image))[0, 0, 0].real,
        "image": cube.flux,
        "NUFFT": visibilities(cube.sky_cube, np.zeros(1), np.zeros(1), 0.03).real,
    }
    for name, flux in fluxes.items():
        assert ratio_error(flux, sky[0].flux) < 1e-12, name


# -- 3. The true sky's chi² --------------------------------------------------------------


@pytest.fixture(scope="module")
def truth() -> Visibilities:
    """30 000 visibilities of the disk, without noise."""
    return observe(DISK, uv_track(n_times=33))


@pytest.mark.parametrize(
    ("sigma", "dtype"),
    [(5e-3, torch.float64), *(pytest.param(s, torch.float32, marks=pytest.mark.slow) for s in (30e-3, 0.5e-3))],
)
def test_anchor_3_the_true_sky_scores_one(truth: Visibilities, sigma: float, dtype: torch.dtype) -> None:
    """Reduced chi² of N visibilities, 2N numbers, has a standard deviation of 1/√N, and the mean of five 1/√(5N).

    Each seed within three of its own, and the mean within three of its own: were the seeds drawn anew, a right
    likelihood would fail once in 60 times. A wrong one scores too low as easily as too high.
    """
    sky = torch.tensor(sky_image(DISK, 0.03, 180)[None])
    nvis = truth.data.size
    likelihood = ExactLikelihood(truth.uu, truth.vv, truth.data, truth.weight / sigma**2, 0.03, 180, dtype=dtype)
    off = []
    for seed in range(5):
        likelihood.replace(with_noise(truth, sigma, seed=seed).data)
        likelihood.recentre(sky)
        off.append(likelihood(sky.to(dtype)).item() / (2 * nvis) - 1)
    assert np.abs(off).max() < 3 / np.sqrt(nvis)
    assert abs(np.mean(off)) < 3 / np.sqrt(5 * nvis)
    assert np.ptp(off) > 0.5 / np.sqrt(nvis)  # it is the noise that is seen


# -- 4. Dirty image and beam -------------------------------------------------------------


def test_anchor_4_dirty_image_and_beam_are_the_direct_sums(truth: Visibilities) -> None:
    """At 400 pixels, of the whole field up to its edges; natural weights, which are known without a grid."""
    seen = with_noise(truth, 5e-3, seed=0)
    imager = DirtyImager(FIELD, seen.uu, seen.vv, seen.weight, seen.data.real, seen.data.imag)
    image, beam = imager.get_dirty_image("natural")
    east, north = (axis.reshape(-1) for axis in FIELD.sky_coordinates())
    chosen = np.random.default_rng(0).choice(180**2, 400, replace=False)
    u, v, w = seen.uu[0], seen.vv[0], seen.weight[0] / seen.weight.sum()
    waves = np.exp(2j * np.pi * ARCSEC * (np.outer(east[chosen], u) + np.outer(north[chosen], v)))
    for found, values in ((image, w * seen.data[0]), (beam, w)):
        assert np.abs(found.reshape(-1)[chosen] - (waves @ values).real).max() <= 1e-8 * found.max()


# -- 5. Adjoints and gradients -----------------------------------------------------------


def noise(*shape: int, dtype: torch.dtype, seed: int = 7) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def inner(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The real part of the inner product, in float64."""
    return (a.to(torch.complex128).conj() * b.to(torch.complex128)).sum().real


@BOTH
def test_anchor_5_each_step_of_a_model_has_its_adjoint(dtype: torch.dtype) -> None:
    coords = GridCoords(CELL, 30)
    mask = torch.rand(2, 30, 30, generator=torch.Generator().manual_seed(0)) > 0.7
    data = noise(2, 30, 30, dtype=COMPLEX[dtype])
    dataset = GriddedDataset(coords=coords, vis_gridded=data, weight_gridded=data.abs(), mask=mask, nchan=2)
    u, v = baselines(300)
    likelihood = ExactLikelihood(u, v, np.ones((2, 300)), np.ones(300), CELL, 30, dtype=dtype)
    steps = {
        "Hann": HannConvCube(2),
        "FFT": FourierCube(coords),
        "FFT and cells": lambda x: dataset(FourierCube(coords)(x)),
        "normal operator": likelihood.normal_operator,
    }
    x = torch.tensor(field_filling(2, 30), dtype=dtype, requires_grad=True)
    for name, step in steps.items():
        out = step(x)
        y = noise(*out.shape, dtype=out.dtype) + 1
        (back,) = torch.autograd.grad(out, x, y)
        there = inner(out.detach(), y)
        assert ratio_error(there, inner(x.detach(), back)) < (1e-12 if dtype == torch.float64 else 1e-5), name


def positive(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1


U, V = baselines(40)
WEIGHT = positive(40, seed=5)
MASK = positive(2, 6, 6, seed=3) > 0.6
SIX = GridCoords(CELL, 6)
DATA = torch.complex(positive(2, 6, 6, seed=2), positive(2, 6, 6, seed=4))
CELLS = GriddedDataset(coords=SIX, vis_gridded=DATA, weight_gridded=positive(2, 6, 6, seed=5), mask=MASK, nchan=2)
LOOSE = noise(2, 40, dtype=torch.complex128)
EXACT = ExactLikelihood(U, V, LOOSE, WEIGHT, CELL, 6, dtype=torch.float64)
LOSSES = {
    "r_chi_squared": lambda x: losses.r_chi_squared(visibilities(x, U, V, CELL), LOOSE, WEIGHT.expand(2, -1)),
    "r_chi_squared_gridded": lambda x: losses.r_chi_squared_gridded(FourierCube(SIX)(sky_to_packed(x)), CELLS),
    "exact": EXACT,
    "entropy": lambda x: losses.entropy(x, 0.3, tot_flux=2.0),
    "entropy about an image": lambda x: losses.entropy(x, positive(2, *x.shape[1:], seed=9)),
    "sparsity": losses.sparsity,
    "sparsity in a mask": lambda x: losses.sparsity(x, MASK[:, : x.shape[1], : x.shape[2]]),
    "sparsity of visibilities": lambda x: losses.sparsity(FourierCube(SIX)(x), MASK),
    "TV_image": losses.TV_image,
    "TV_channel": losses.TV_channel,
    "TSV": losses.TSV,
    "edge_clamp": losses.edge_clamp,
}
SQUARE = ("r_chi_squared", "r_chi_squared_gridded", "exact", "sparsity of visibilities")


@pytest.mark.parametrize("name", LOSSES)
def test_anchor_5_gradients_are_those_of_central_differences(name: str) -> None:
    """At every pixel of an image that is like none of its mirror images, and not even square where it need not be."""
    loss, shape = LOSSES[name], (2, 6, 6) if name in SQUARE else (2, 5, 6)
    image = positive(*shape).requires_grad_()
    (slope,) = torch.autograd.grad(loss(image), image)
    step, flat = 1e-5, image.detach().reshape(-1)
    shifts = step * torch.eye(len(flat), dtype=torch.float64)
    found = [(loss((flat + s).reshape(shape)) - loss((flat - s).reshape(shape))).item() / (2 * step) for s in shifts]
    assert np.abs(slope.reshape(-1).numpy() - found).max() < 1e-6 * np.abs(found).max()


def test_anchor_5_is_asked_of_every_loss() -> None:
    public = {name for name, f in inspect.getmembers(losses, inspect.isfunction) if f.__module__ == losses.__name__}
    assert public - {"_gradient", "nll", "nll_gridded"} <= set(LOSSES)
