"""The filled cells of the Fourier plane, kept on the device of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy.typing as npt
import torch
from torch import nn

from firstlight.imaging.coordinates import GridCoords


class GriddedDataset(nn.Module):
    """Averaged visibilities of the filled cells, and where those lie in a packed cube.

    Moves like any module: ``dataset.to("cuda")``, ``.float()``, ``.to(torch.float32)``. The visibilities then become
    complex numbers of the same precision; their imaginary part is never lost.

    Parameters
    ----------
    coords
        The grid.
    vis_gridded, weight_gridded
        Mean visibility and sum of weights of every cell, packed: (nchan, npix, npix).
    mask
        True for the cells to use.
    nchan
        Number of channels.
    bias
        What the averaging alone adds to the reduced chi² of the true sky, at least; NaN where nobody has estimated it.

    Examples
    --------
    >>> coords = GridCoords(cell_size=0.1, npix=4)
    >>> vis = torch.full((1, 4, 4), 1 + 2j)
    >>> mask = torch.eye(4).bool()[None]
    >>> dataset = GriddedDataset(coords=coords, vis_gridded=vis, weight_gridded=vis.real, mask=mask)
    >>> dataset.to(torch.float64).vis_indexed.tolist()
    [(1+2j), (1+2j), (1+2j), (1+2j)]
    """

    mask: torch.Tensor
    index: torch.Tensor
    vis_indexed: torch.Tensor
    weight_indexed: torch.Tensor

    def __init__(
        self,
        *,
        coords: GridCoords,
        vis_gridded: torch.Tensor,
        weight_gridded: torch.Tensor,
        mask: torch.Tensor,
        nchan: int = 1,
        bias: float = float("nan"),
    ) -> None:
        super().__init__()
        self.coords, self.nchan, self.bias = coords, nchan, bias
        self._check(vis_gridded=vis_gridded, weight_gridded=weight_gridded, mask=mask)
        # Looking for the filled cells makes a GPU wait for the host: it is done once, here.
        index = torch.nonzero(mask.reshape(-1)).squeeze(1)
        self.register_buffer("mask", mask.clone())
        self.register_buffer("index", index)
        self.register_buffer("vis_indexed", vis_gridded.reshape(-1)[index])
        self.register_buffer("weight_indexed", weight_gridded.reshape(-1)[index])

    def forward(self, cube: torch.Tensor) -> torch.Tensor:
        """Return the cells of a packed model cube that have data, in the order of ``vis_indexed``."""
        self._check(cube=cube)
        return cube.reshape(-1).index_select(0, self.index)

    def add_mask(self, mask: npt.ArrayLike | torch.Tensor) -> None:
        """Keep only those cells that are also in this packed mask: (npix, npix) for all channels, or one for each."""
        mask = torch.as_tensor(mask, device=self.mask.device).bool()
        self._check(mask=mask.repeat(self.nchan, 1, 1) if mask.ndim > 1 and mask.shape[:-2].numel() == 1 else mask)
        self.mask = self.mask & mask
        inside = self.mask.reshape(-1)[self.index]
        self.index, self.vis_indexed = self.index[inside], self.vis_indexed[inside]
        self.weight_indexed = self.weight_indexed[inside]

    def _check(self, **cubes: torch.Tensor) -> None:
        expected = (self.nchan, self.coords.npix, self.coords.npix)
        for name, cube in cubes.items():
            if tuple(cube.shape) != expected:
                raise ValueError(f"{name} must be (nchan, npix, npix) = {expected}; got {tuple(cube.shape)}")

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """Pass complex buffers through every move as pairs of real numbers: a cast to float32 keeps both."""

        def move(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_complex():
                moved = fn(tensor)
                return moved.real.clone() if moved.is_complex() else moved
            pairs = fn(torch.view_as_real(tensor))
            return fn(tensor) if pairs.is_complex() else torch.view_as_complex(pairs)

        super()._apply(move, recurse)  # type: ignore[no-untyped-call]
        return self
