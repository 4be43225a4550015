import copy
import math

import numpy as np
import pytest
import torch

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.datasets import GriddedDataset
from firstlight_imaging.model.losses import r_chi_squared_gridded

COORDS = GridCoords(cell_size=0.1, npix=8)


@pytest.fixture
def dataset():
    generator = torch.Generator().manual_seed(0)
    vis = torch.randn(2, 8, 8, generator=generator, dtype=torch.complex128)
    weight = torch.rand(2, 8, 8, generator=generator, dtype=torch.float64)
    return GriddedDataset(coords=COORDS, vis_gridded=vis, weight_gridded=weight, mask=weight > 0.6, nchan=2)


MOVES = {
    "to(float32)": (lambda d: d.to(torch.float32), torch.complex64),
    "float()": (lambda d: d.float(), torch.complex64),
    "down and up": (lambda d: d.to(torch.float32).to(torch.float64), torch.complex128),
    "to(device)": (lambda d: d.to("cpu"), torch.complex128),
    "inside a module": (lambda d: torch.nn.ModuleList([d]).to(torch.float32)[0], torch.complex64),
}


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")
@pytest.mark.parametrize(("move", "dtype"), MOVES.values(), ids=MOVES)
def test_moves_change_precision_and_never_the_data(dataset, move, dtype):
    before, model = copy.deepcopy(dataset), torch.zeros(2, 8, 8, dtype=dtype)
    moved = move(dataset)
    assert moved is dataset
    assert moved.vis_indexed.dtype == dtype
    assert moved.weight_indexed.dtype == dtype.to_real()
    assert (moved.mask.dtype, moved.index.dtype) == (torch.bool, torch.int64)
    torch.testing.assert_close(moved.vis_indexed, before.vis_indexed.to(dtype), rtol=1e-6, atol=0)
    loss, expected = r_chi_squared_gridded(model, moved), r_chi_squared_gridded(model, before)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)


def test_a_mask_takes_cells_away_and_adds_none(dataset):
    before = copy.deepcopy(dataset)
    mask = torch.zeros(2, 8, 8, dtype=torch.bool)
    mask[1, :, ::3] = True
    dataset.add_mask(mask)
    kept = before.mask & mask
    assert 0 < kept.sum() == len(dataset.index) < len(before.index)
    torch.testing.assert_close(dataset.mask, kept)
    cube = torch.zeros(2, 8, 8, dtype=torch.complex128)
    cube[before.mask] = before.vis_indexed
    torch.testing.assert_close(dataset(cube), dataset.vis_indexed)
    assert dataset.weight_indexed.shape == dataset.vis_indexed.shape


PLANE = np.random.default_rng(0).random((8, 8)) < 0.5
EACH = np.stack([PLANE, ~PLANE])
MASKS = {
    "NumPy, a plane": (PLANE, [PLANE, PLANE]),
    "torch, a plane": (torch.from_numpy(PLANE), [PLANE, PLANE]),
    "NumPy, a plane a channel": (EACH, EACH),
    "one for all": (PLANE[None], [PLANE, PLANE]),
    "numbers": (2.0 * EACH, EACH),
    "a list": (PLANE.tolist(), [PLANE, PLANE]),
}


@pytest.mark.parametrize(("mask", "means"), MASKS.values(), ids=MASKS)
def test_masks_are_taken_as_in_mpol(dataset, mask, means):
    expected = dataset.mask & torch.from_numpy(np.array(means))
    dataset.add_mask(mask)
    assert torch.equal(dataset.mask, expected)
    assert len(dataset.index) == len(dataset.weight_indexed) == expected.sum()


@pytest.mark.parametrize("mask", [PLANE[:4], PLANE[0], np.ones((3, 8, 8)), True], ids=["half", "row", "three", "bool"])
def test_masks_that_fit_no_plane_are_refused_and_change_nothing(dataset, mask):
    before = dataset.mask.clone()
    with pytest.raises(ValueError, match=r"mask must be .*\(2, 8, 8\)"):
        dataset.add_mask(mask)
    assert torch.equal(dataset.mask, before)


def test_the_bias_goes_along_with_every_move(dataset):
    assert math.isnan(dataset.bias)
    dataset.bias = 0.5
    assert copy.deepcopy(dataset).float().to("cpu").bias == 0.5
