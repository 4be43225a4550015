"""The visibilities of an image, at the cells of the grid."""

from __future__ import annotations

import torch
from torch import nn

from firstlight_imaging.coordinates import GridCoords


class FourierCube(nn.Module):
    """V(u, v) = sum of I(l, m) exp(-2 pi i (u l + v m)) cell² over the pixels, for every cell, by a fast transform.

    `packed_to_ground` moves the zero frequency of what it returns to the middle, to be shown with ``coords.vis_ext``.

    Examples
    --------
    >>> fourier = FourierCube(GridCoords(cell_size=0.5, npix=4))
    >>> vis = fourier(torch.ones(1, 4, 4))
    >>> vis[0, 0].tolist()  # 4 Jy, and nothing that varies
    [(4+0j), 0j, 0j, 0j]
    """

    def __init__(self, coords: GridCoords) -> None:
        super().__init__()
        self.coords = coords

    def forward(self, packed_cube: torch.Tensor) -> torch.Tensor:
        """Return the visibilities of a packed cube, packed too: (nchan, npix, npix), in Jy."""
        npix = self.coords.npix
        if packed_cube.shape[-2:] != (npix, npix):
            raise ValueError(f"the cube must end in (npix, npix) = {(npix, npix)}; got {tuple(packed_cube.shape)}")
        # Not every FFT takes a cube without channels.
        transform = torch.fft.fftn(packed_cube, dim=(-2, -1)) if packed_cube.numel() else packed_cube + 0j
        return self.coords.cell_size**2 * transform
