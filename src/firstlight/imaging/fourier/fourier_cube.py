"""The visibilities of an image, at the cells of the grid."""

from __future__ import annotations

import torch
from torch import nn

from firstlight.imaging.coordinates import GridCoords, packed_to_ground


class FourierCube(nn.Module):
    """V(u, v) = sum of I(l, m) exp(-2 pi i (u l + v m)) cell² over the pixels, for every cell, by a fast transform.

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
        self._parts: torch.Tensor | None  # real and imaginary: a change of precision must not drop the second
        self.register_buffer("_parts", None, persistent=False)  # a buffer moves with the model

    def forward(self, packed_cube: torch.Tensor) -> torch.Tensor:
        """Return the visibilities of a packed cube, packed too: (nchan, npix, npix), in Jy."""
        npix = self.coords.npix
        if packed_cube.shape[-2:] != (npix, npix):
            raise ValueError(f"the cube must end in (npix, npix) = {(npix, npix)}; got {tuple(packed_cube.shape)}")
        # Not every FFT takes a cube without channels.
        transform = torch.fft.fftn(packed_cube, dim=(-2, -1)) if packed_cube.numel() else packed_cube + 0j
        vis = self.coords.cell_size**2 * transform
        self._parts = torch.view_as_real(vis)
        return vis

    @property
    def vis(self) -> torch.Tensor:
        """The visibilities of the last forward pass, packed."""
        if self._parts is None:
            raise RuntimeError("there are no visibilities yet: call the model, or this module with a cube, first")
        return torch.view_as_complex(self._parts)

    @property
    def ground_vis(self) -> torch.Tensor:
        """The visibilities with the zero frequency at (N/2, N/2), to be shown with ``coords.vis_ext``."""
        return packed_to_ground(self.vis)

    @property
    def ground_amp(self) -> torch.Tensor:
        """The amplitudes, in Jy."""
        return self.ground_vis.abs()

    @property
    def ground_phase(self) -> torch.Tensor:
        """The phases, in radians."""
        return self.ground_vis.angle()
