"""What is left out of a fit, to be predicted."""

import numpy as np
import pytest
import torch

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.datasets import GriddedDataset
from firstlight_imaging.data.gridding import DataAverager
from firstlight_imaging.fitting.cross_validation import split_cells, split_dartboard, stack, stack_folds
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.fitting.fit_loop import fit
from firstlight_imaging.fitting.objective import r_chi_squared_per_channel
from firstlight_imaging.model.gridded_net import GriddedNet
from firstlight_imaging.model.losses import TSV, TV_image, entropy, r_chi_squared_gridded, sparsity
from firstlight_imaging.simulate.skies import Ring

COORDS = GridCoords(cell_size=0.1, npix=16)


def gridded(mask):
    """Visibilities that are all different, in the cells of a mask."""
    mask = torch.as_tensor(mask)
    vis = torch.arange(1.0, mask.numel() + 1).reshape(mask.shape) * (1 - 2j)
    return GriddedDataset(coords=COORDS, vis_gridded=vis, weight_gridded=vis.real, mask=mask, nchan=len(mask))


@pytest.fixture
def dataset():
    """A lopsided part of the plane, in two channels that do not agree in which."""
    mask = np.random.default_rng(5).random((2, 16, 16)) < [[[0.35]], [[0.2]]]
    mask[:, 3:6] = False
    mask[0, 0, 0] = True
    return gridded(mask)


@pytest.mark.parametrize("split", [split_cells, split_dartboard])
@pytest.mark.parametrize("k", [2, 7])
def test_every_cell_is_tested_with_once_and_trained_on_otherwise(dataset, split, k):
    folds = list(split(dataset, k, seed=3))
    assert len(folds) == k
    together = torch.zeros_like(dataset.mask, dtype=torch.int)
    for train, test in folds:
        assert len(test.index)
        assert len(train.index)
        assert not (train.mask & test.mask).any()
        assert torch.equal(train.mask | test.mask, dataset.mask)
        together += test.mask
        for part in (train, test):
            assert torch.equal(part.vis_indexed, torch.arange(1.0, 513)[part.mask.reshape(-1)] * (1 - 2j))
            assert torch.equal(part.weight_indexed, part.vis_indexed.real)
    assert torch.equal(together, dataset.mask.int())


@pytest.mark.parametrize("split", [split_cells, split_dartboard])
def test_the_mirror_image_of_a_cell_goes_with_it_in_all_channels(split):
    dataset = gridded(np.ones((3, 16, 16), bool))
    for _, test in split(dataset, 4, seed=1):
        assert torch.equal(test.mask, test.mask.flip(-1, -2).roll((1, 1), (-1, -2)))
        assert torch.equal(test.mask[0], test.mask[1])
        assert torch.equal(test.mask[0], test.mask[2])


@pytest.mark.parametrize("split", [split_cells, split_dartboard])
def test_a_seed_decides(dataset, split):
    first, again, other = ([test.index.tolist() for _, test in split(dataset, 4, seed=s)] for s in (8, 8, 9))
    assert first == again
    assert first != other


@pytest.mark.parametrize("split", [split_cells, split_dartboard])
@pytest.mark.parametrize("k", [1, 3])
def test_no_fold_is_ever_empty(split, k):
    """Four cells, two of which are mirror images, one by one in fields of their own."""
    mask = np.zeros((1, 16, 16), bool)
    mask[0, 0, 1] = mask[0, 0, -1] = mask[0, 6, 0] = mask[0, -6, 0] = True
    with pytest.raises(ValueError, match="from 2 to 2"):
        split(gridded(mask), k, seed=0)
    assert [(len(train.index), len(test.index)) for train, test in split(gridded(mask), 2, seed=0)] == [(2, 2)] * 2


@pytest.mark.parametrize("split", [split_cells, split_dartboard])
def test_stacked_folds_are_the_folds(dataset, split):
    train, test = stack_folds(dataset, 3, seed=2, split=split)
    folds = list(split(dataset, 3, seed=2))
    assert train.nchan == test.nchan == 6
    for i, (one_train, one_test) in enumerate(folds):
        for stacked, one in ((train, one_train), (test, one_test)):
            mine = stacked.index // 512 == i
            assert torch.equal(stacked.mask[2 * i : 2 * i + 2], one.mask)
            assert torch.equal(stacked.index[mine] - 512 * i, one.index)
            assert torch.equal(stacked.vis_indexed[mine], one.vis_indexed)
            assert torch.equal(stacked.weight_indexed[mine], one.weight_indexed)
    assert stack([test.float(), test.float()]).vis_indexed.dtype == torch.complex64


def seen(n=1500, seed=7):
    """A disk in the south-east that is not round, a tenth of it flagged."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(scale=2e5, size=(2, n))
    noise = 0.05 * (rng.normal(size=n) + 1j * rng.normal(size=n))
    data = Ring(0.5, 0.3, 0.1, 40, 30, 0.2, -0.15).visibilities(u, v) + noise
    return u, v, data, np.where(rng.random(n) < 0.1, 0, 400.0)


def net(nchan=1):
    return GriddedNet(COORDS, nchan, base_cube=torch.full((nchan, 16, 16), -3.0, dtype=torch.float64))


LOSSES = {
    "tv": ([1e-4, 1e-2, 3e-3], TV_image),
    "sparsity": (1e-4, sparsity),
    "entropy": (1e-4, lambda image: entropy(image, 0.1)),
    "tsv": (1e-5, TSV),
}
OPTIONS = {"max_iter": 40, "tolerance": None, "progress": False}


def with_lambdas_of(channel):
    return {name: (strength[channel] if name == "tv" else strength, f) for name, (strength, f) in LOSSES.items()}


def assert_alike(together, channel, alone):
    assert torch.allclose(together.image[channel], alone.image[0], rtol=0, atol=1e-10)
    for name in ("loss", "chi2"):
        np.testing.assert_allclose(getattr(together, name)[:, channel], getattr(alone, name), rtol=1e-10)
    np.testing.assert_allclose(together.flux[:, channel], alone.flux[:, 0], rtol=1e-10)


def test_a_fold_in_a_stack_is_fitted_as_if_it_were_alone():
    """Each with a λ of its own."""
    u, v, data, weight = seen()
    averager = DataAverager(COORDS, u, v, weight, data.real, data.imag)
    dataset = averager.to_pytorch_dataset(check_visibility_scatter=False)  # such large cells scatter
    train, test = stack_folds(dataset, 3, seed=2)
    model = net(3)
    together = fit(model, train, losses=LOSSES, separate=True, **OPTIONS)
    assert together.loss.shape == together.chi2.shape == together.flux.shape == (40, 3)
    for channel, (one_train, one_test) in enumerate(split_cells(dataset, 3, seed=2)):
        one = net()
        alone = fit(one, one_train, losses=with_lambdas_of(channel), **OPTIONS)
        assert_alike(together, channel, alone)
        predicted = r_chi_squared_per_channel(model(), test)[channel].item()
        assert predicted == pytest.approx(r_chi_squared_gridded(one(), one_test).item(), rel=1e-9)
    assert (together.image[0] - together.image[1]).norm() > 0.01 * together.image[0].norm()


def test_a_sweep_of_exact_fits_is_one_fit():
    """One transfer function for all, as they share baselines and weights; then one each, with other data left out."""
    u, v, data, weight = seen()
    rows = np.broadcast_to(data, (3, len(data)))
    exact = {"cell_size": COORDS.cell_size, "npix": 16, "dtype": torch.float64}
    left_out = np.where(np.arange(len(data)) % 3 == np.arange(3)[:, None], 0, weight)
    for weights in (weight, left_out):
        likelihood = ExactLikelihood(u, v, rows, weights, **exact)
        assert len(likelihood.transfer) == weights.size // len(data)
        together = fit(net(3), likelihood, losses=LOSSES, separate=True, **OPTIONS)
        for channel in range(3):
            alone = ExactLikelihood(u, v, data, weights if weights.ndim == 1 else weights[channel], **exact)
            assert_alike(together, channel, fit(net(), alone, losses=with_lambdas_of(channel), **OPTIONS))


def test_what_cannot_be_fitted_apart_is_refused():
    u, v, data, weight = seen()
    likelihood = ExactLikelihood(u, v, np.stack([data, data]), weight, COORDS.cell_size, 16, dtype=torch.float64)
    with pytest.raises(ValueError, match="separate=True"):
        fit(net(2), likelihood, losses={"tv": ([1e-3, 1e-4], TV_image)}, progress=False)
    none = ExactLikelihood(u, v, np.stack([data, data]), np.stack([weight, 0 * weight]), COORDS.cell_size, 16)
    with pytest.raises(ValueError, match="channel 1"):
        fit(net(2).float(), none, separate=True, progress=False)
