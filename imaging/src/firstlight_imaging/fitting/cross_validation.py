"""Split gridded data into folds for cross-validation: an image should predict visibilities left out of its fit.

A cell and its mirror image hold the same visibility, conjugated. They are always left out together: what is to be
predicted must not be known already. So must all channels of a cell, as a sky differs little from one to the next.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from firstlight_imaging._types import Ints, Mask
from firstlight_imaging.data.datasets import GriddedDataset

_RINGS, _SECTORS = 12, 16  # of a dartboard

Fold = tuple[GriddedDataset, GriddedDataset]


def split_cells(dataset: GriddedDataset, k: int = 5, *, seed: int) -> Iterator[Fold]:
    """Split the filled cells into k random folds; yield the data to train on, and those to test with.

    Parameters
    ----------
    dataset
        What to split.
    k
        How many folds; each visibility is tested with in one of them.
    seed
        The same seed gives the same folds.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords
    >>> u = GridCoords(0.1, 8).du * np.arange(4)
    >>> ones = torch.ones(1, 8, 8)
    >>> mask = torch.zeros(1, 8, 8, dtype=torch.bool)
    >>> mask[0, 0, :4] = True
    >>> dataset = GriddedDataset(coords=GridCoords(0.1, 8), vis_gridded=ones, weight_gridded=ones, mask=mask)
    >>> [(len(train.index), len(test.index)) for train, test in split_cells(dataset, k=4, seed=1)]
    [(3, 1), (3, 1), (3, 1), (3, 1)]
    """
    npix = dataset.coords.npix
    return _folds(dataset, np.arange(npix**2), "cells", k, seed)


def split_dartboard(dataset: GriddedDataset, k: int = 5, *, seed: int) -> Iterator[Fold]:
    """Split the sectors of a dartboard into k folds, which leave gaps in (u, v), as an array with fewer antennas does.

    It has 12 rings, from zero to the longest baseline, which grow wider outwards, and 16 sectors in half a turn; the
    other half is the mirror image.

    Parameters
    ----------
    dataset, k, seed
        As in `split_cells`.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords
    >>> ones = torch.ones(1, 32, 32)
    >>> full = GriddedDataset(coords=GridCoords(0.1, 32), vis_gridded=ones, weight_gridded=ones, mask=ones.bool())
    >>> sum(len(test.index) for _, test in split_dartboard(full, seed=1))
    1024
    """
    u, v = (x.ravel() for x in dataset.coords.packed_uv())
    q = np.hypot(u, v)
    longest = q[_filled_cells(dataset)].max(initial=0.0) or 1.0
    ring = np.minimum((_RINGS * np.sqrt(q / longest)).astype(int), _RINGS - 1)
    sector = (_SECTORS * (np.arctan2(v, u) % math.pi) / math.pi).astype(int) % _SECTORS
    return _folds(dataset, ring * _SECTORS + sector, "fields of the dartboard", k, seed)


def stack_folds(
    dataset: GriddedDataset, k: int = 5, *, seed: int, split: Callable[..., Iterator[Fold]] = split_cells
) -> Fold:
    """Return all folds as the channels of one data set to train on and one to test with: a device fits them at once.

    Of a data set with several channels, those of the first fold come first. For a sweep over λ as well, stack what this
    gives once for each λ.

    Parameters
    ----------
    dataset, k, seed
        As in `split_cells`.
    split
        How to split: `split_cells` or `split_dartboard`.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords
    >>> ones = torch.ones(1, 8, 8)
    >>> full = GriddedDataset(coords=GridCoords(0.1, 8), vis_gridded=ones, weight_gridded=ones, mask=ones.bool())
    >>> train, test = stack_folds(full, k=4, seed=1)
    >>> train.nchan, len(train.index), len(test.index)
    (4, 192, 64)
    """
    trains, tests = zip(*split(dataset, k, seed=seed), strict=True)
    return stack(trains), stack(tests)


def stack(datasets: Sequence[GriddedDataset]) -> GriddedDataset:
    """Return data sets of one grid as the channels of one data set, in their order.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords
    >>> ones = torch.ones(1, 8, 8)
    >>> full = GriddedDataset(coords=GridCoords(0.1, 8), vis_gridded=ones, weight_gridded=ones, mask=ones.bool())
    >>> stack([full] * 3).nchan
    3
    """
    if len({dataset.coords for dataset in datasets}) != 1:
        raise ValueError(f"data sets to stack must share a grid; got {[dataset.coords for dataset in datasets]}")
    return GriddedDataset(
        coords=datasets[0].coords,
        vis_gridded=torch.cat([_dense(one.vis_indexed, one) for one in datasets]),
        weight_gridded=torch.cat([_dense(one.weight_indexed, one) for one in datasets]),
        mask=torch.cat([one.mask for one in datasets]),
        nchan=sum(one.nchan for one in datasets),
        bias=float(np.max([one.bias for one in datasets])),
    )


def _dense(values: torch.Tensor, dataset: GriddedDataset) -> torch.Tensor:
    """Return the values of the filled cells as a cube, with zeros in the others."""
    return values.new_zeros(dataset.mask.numel()).index_put((dataset.index,), values).reshape(dataset.mask.shape)


def _folds(dataset: GriddedDataset, label: Ints, what: str, k: int, seed: int) -> Iterator[Fold]:
    """Return folds of the cells, those of a label together; raise an error if a fold would be empty."""
    mirror = _conjugate_cells(dataset.coords.npix)
    label = label[np.minimum(np.arange(mirror.size), mirror)]  # the mirror image goes with the cell
    labels = np.unique(label[_filled_cells(dataset)])
    if not 2 <= k <= labels.size:
        raise ValueError(f"k must be from 2 to {labels.size}, as there are so many {what} with data; got {k!r}")
    labels = np.random.default_rng(seed).permutation(labels)
    return (_train_and_test(dataset, np.isin(label, labels[fold::k])) for fold in range(k))


def _train_and_test(dataset: GriddedDataset, fold: Mask) -> Fold:
    """Return a data set without the cells of a fold, and one with them alone."""
    mask = torch.from_numpy(fold).reshape(dataset.coords.npix, -1).expand(dataset.mask.shape)
    train, test = copy.deepcopy(dataset), copy.deepcopy(dataset)
    train.add_mask(~mask)
    test.add_mask(mask)
    return train, test


def _filled_cells(dataset: GriddedDataset) -> Ints:
    """Return the cells of the flattened plane that some channel has data in."""
    return np.asarray(np.flatnonzero(dataset.mask.any(0).cpu().numpy()))


def _conjugate_cells(npix: int) -> Ints:
    """Return, for each cell of the flattened packed plane, the one at (-u, -v).

    Examples
    --------
    >>> _conjugate_cells(4).reshape(4, 4)[:2].tolist()
    [[0, 3, 2, 1], [12, 15, 14, 13]]
    """
    back = -np.arange(npix) % npix
    return np.asarray((back[:, None] * npix + back).ravel())
