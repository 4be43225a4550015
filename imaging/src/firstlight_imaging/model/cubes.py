"""From free parameters to an image: positive by construction, and no finer than its pixels.

All modules here take and return packed cubes of shape (nchan, npix, npix), in Jy/arcsec².
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from firstlight_imaging.coordinates import GridCoords, check_cube, ground_to_packed, packed_to_ground, packed_to_sky

DEFAULT_BASE = -3.0  # softplus(-3) ≈ 0.05 Jy/arcsec²: fainter than the source, but with a usable gradient


class BaseCube(nn.Module):
    """The free parameters of an image, and the function that makes intensities of them.

    Parameters
    ----------
    coords
        The grid.
    nchan
        Number of channels.
    pixel_mapping
        The function from a parameter to an intensity; softplus keeps it positive.
    base_cube
        Where to start: packed, of any floating-point precision, which the model then has too. By default -3 everywhere.

    Examples
    --------
    >>> cube = BaseCube(GridCoords(cell_size=0.1, npix=4))()
    >>> tuple(cube.shape), round(cube.max().item(), 3)
    ((1, 4, 4), 0.049)
    """

    def __init__(
        self,
        coords: GridCoords,
        nchan: int = 1,
        pixel_mapping: Callable[[torch.Tensor], torch.Tensor] = functional.softplus,
        base_cube: torch.Tensor | None = None,
    ) -> None:
        super().__init__()
        self.coords, self.nchan, self.pixel_mapping = coords, nchan, pixel_mapping
        if base_cube is None:
            base_cube = torch.full((nchan, coords.npix, coords.npix), DEFAULT_BASE)
        check_cube(base_cube, coords, nchan, "base_cube")
        self.base_cube = nn.Parameter(base_cube.detach().clone())

    def forward(self) -> torch.Tensor:
        """Return the intensities."""
        return self.pixel_mapping(self.base_cube)


class HannConvCube(nn.Module):
    """Smooth each channel by (1/4, 1/2, 1/4) along both axes, so that no pixel stands alone.

    Beyond the edges of the map the sky is empty: what lies on the outermost pixels loses light, all else keeps it.

    Examples
    --------
    >>> cube = torch.zeros(1, 6, 6)
    >>> cube[0, 0, 0] = 16
    >>> HannConvCube()(cube)[0, :2, :2].tolist()
    [[4.0, 2.0], [2.0, 1.0]]
    """

    def __init__(self, nchan: int = 1) -> None:
        super().__init__()
        self.nchan = nchan

    def forward(self, cube: torch.Tensor) -> torch.Tensor:
        """Return the smoothed cube."""
        # In packed order the edge of the map runs through the middle of the array.
        return ground_to_packed(smooth_columns(smooth_rows(packed_to_ground(cube))))


def smooth_rows(cube: torch.Tensor) -> torch.Tensor:
    """Return rows smoothed by (1/4, 1/2, 1/4)."""
    padded = functional.pad(cube, (0, 0, 1, 1))
    return cube / 2 + (padded[..., :-2, :] + padded[..., 2:, :]) / 4


def smooth_columns(cube: torch.Tensor) -> torch.Tensor:
    """Return columns smoothed by (1/4, 1/2, 1/4)."""
    padded = functional.pad(cube, (1, 1))
    return cube / 2 + (padded[..., :-2] + padded[..., 2:]) / 4


class ImageCube(nn.Module):
    """Holds the image of the last forward pass, and shows it as a map.

    Examples
    --------
    >>> image = ImageCube(GridCoords(cell_size=0.5, npix=4))
    >>> packed = torch.zeros(1, 4, 4)
    >>> packed[0, 1, 0] = 8.0  # one pixel north of the phase centre
    >>> _ = image(packed)
    >>> image.sky_cube[0].nonzero().tolist(), image.flux.tolist()
    ([[3, 1]], [2.0])
    """

    def __init__(self, coords: GridCoords, nchan: int = 1) -> None:
        super().__init__()
        self.coords, self.nchan = coords, nchan
        self._cube: torch.Tensor | None
        self.register_buffer("_cube", None, persistent=False)  # a buffer moves with the model

    def forward(self, packed_cube: torch.Tensor) -> torch.Tensor:
        """Keep the cube, and pass it on."""
        check_cube(packed_cube, self.coords, self.nchan)
        self._cube = packed_cube
        return packed_cube

    @property
    def packed_cube(self) -> torch.Tensor:
        """The image as a Fourier transform takes it."""
        if self._cube is None:
            raise RuntimeError("there is no image yet: call the model, or this module with a packed cube, first")
        return self._cube

    @property
    def sky_cube(self) -> torch.Tensor:
        """The image as a map with row 0 in the south and column 0 in the east."""
        return packed_to_sky(self.packed_cube)

    @property
    def flux(self) -> torch.Tensor:
        """The flux of each channel, in Jy."""
        return self.packed_cube.sum(dim=(-2, -1)) * self.coords.cell_size**2
