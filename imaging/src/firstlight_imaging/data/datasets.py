"""The filled cells of the Fourier plane, kept on the device of the model."""

from __future__ import annotations

import numpy.typing as npt
import torch
from torch import nn

from firstlight_imaging.coordinates import GridCoords, check_cube


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
    weight_indexed: torch.Tensor
    _parts: torch.Tensor  # real and imaginary, of the visibilities: a change of precision must not drop the second

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
        for name, cube in (("vis_gridded", vis_gridded), ("weight_gridded", weight_gridded), ("mask", mask)):
            check_cube(cube, coords, nchan, name)
        # Looking for the filled cells makes a GPU wait for the host: it is done once, here.
        index = torch.nonzero(mask.reshape(-1)).squeeze(1)
        self.register_buffer("mask", mask.clone())
        self.register_buffer("index", index)
        self.register_buffer("_parts", torch.view_as_real(vis_gridded.reshape(-1)[index] + 0j))
        self.register_buffer("weight_indexed", weight_gridded.reshape(-1)[index])

    @property
    def vis_indexed(self) -> torch.Tensor:
        """The visibilities of the filled cells."""
        return torch.view_as_complex(self._parts)

    def forward(self, cube: torch.Tensor) -> torch.Tensor:
        """Return the cells of a packed model cube that have data, in the order of ``vis_indexed``."""
        check_cube(cube, self.coords, self.nchan)
        return cube.reshape(-1).index_select(0, self.index)

    def add_mask(self, mask: npt.ArrayLike | torch.Tensor) -> None:
        """Keep only those cells that are also in this packed mask: (npix, npix) for all channels, or one for each."""
        mask = torch.as_tensor(mask, device=self.mask.device).bool()
        one_for_all = mask.ndim > 1 and mask.shape[:-2].numel() == 1
        check_cube(mask.repeat(self.nchan, 1, 1) if one_for_all else mask, self.coords, self.nchan, "mask")
        self.mask = self.mask & mask
        inside = self.mask.reshape(-1)[self.index]
        self.index, self._parts = self.index[inside], self._parts[inside]
        self.weight_indexed = self.weight_indexed[inside]
