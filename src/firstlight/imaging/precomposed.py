"""The usual chain from parameters to visibilities, ready to fit."""

from __future__ import annotations

import torch
from torch import nn

from firstlight.imaging.coordinates import GridCoords
from firstlight.imaging.fourier import FourierCube
from firstlight.imaging.images import BaseCube, HannConvCube, ImageCube


class GriddedNet(nn.Module):
    """A positive image, smoothed by a pixel, and its visibilities at the cells of the grid.

    Parameters
    ----------
    coords
        The grid.
    nchan
        Number of channels.
    base_cube
        Where the parameters start (see `BaseCube`).

    Examples
    --------
    >>> model = GriddedNet(coords=GridCoords(cell_size=0.1, npix=8))
    >>> vis = model()
    >>> tuple(vis.shape), tuple(model.icube.sky_cube.shape)
    ((1, 8, 8), (1, 8, 8))
    """

    def __init__(self, coords: GridCoords, nchan: int = 1, base_cube: torch.Tensor | None = None) -> None:
        super().__init__()
        self.coords, self.nchan = coords, nchan
        self.bcube = BaseCube(coords, nchan, base_cube=base_cube)
        self.conv_layer = HannConvCube(nchan)
        self.icube = ImageCube(coords, nchan)
        self.fcube = FourierCube(coords)

    def forward(self) -> torch.Tensor:
        """Return the visibilities, packed; the image is then in ``icube``."""
        vis: torch.Tensor = self.fcube(self.icube(self.conv_layer(self.bcube())))
        return vis


SimpleNet = GriddedNet  # its name in MPoL before 0.3
