"""A model that is ready to fit: parameters, a smoothed positive image, its visibilities."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.fourier.fourier_cube import FourierCube
from firstlight_imaging.fourier.nufft import Array, visibilities
from firstlight_imaging.model.cubes import BaseCube, HannConvCube, ImageCube


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
    pixel_mapping
        The function from parameters to intensities. Softplus bends at 1 Jy/arcsec²; of a fainter sky, the parameters
        are logarithms, which L-BFGS finds hard. ``partial(softplus, beta=100)``, from a base cube of zeros, bends
        at 1/100.

    Examples
    --------
    >>> model = GriddedNet(coords=GridCoords(cell_size=0.1, npix=8))
    >>> vis = model()
    >>> tuple(vis.shape), tuple(model.icube.sky_cube.shape)
    ((1, 8, 8), (1, 8, 8))
    """

    def __init__(
        self,
        coords: GridCoords,
        nchan: int = 1,
        base_cube: torch.Tensor | None = None,
        pixel_mapping: Callable[[torch.Tensor], torch.Tensor] = functional.softplus,
    ) -> None:
        super().__init__()
        self.coords, self.nchan = coords, nchan
        self.bcube = BaseCube(coords, nchan, pixel_mapping, base_cube)
        self.conv_layer = HannConvCube(nchan)
        self.icube = ImageCube(coords, nchan)
        self.fcube = FourierCube(coords)

    def forward(self) -> torch.Tensor:
        """Return the visibilities, packed; the image is then in ``icube``."""
        vis: torch.Tensor = self.fcube(self.icube(self.conv_layer(self.bcube())))
        return vis

    def predict_loose_visibilities(self, uu: Array, vv: Array) -> torch.Tensor:
        """Return the visibilities of the last call's image at any baselines, not at those of the grid alone.

        Parameters
        ----------
        uu, vv
            In wavelengths: (nvis,) for all channels, or (nchan, nvis).

        Returns
        -------
        Tensor
            In Jy, (nchan, nvis), complex and with gradients.

        Examples
        --------
        >>> model = GriddedNet(GridCoords(cell_size=0.1, npix=8))
        >>> of_the_grid = model()
        >>> loose = model.predict_loose_visibilities(torch.tensor([model.coords.du]), torch.tensor([0.0]))
        >>> torch.testing.assert_close(loose[:, 0], of_the_grid[:, 0, 1])
        """
        return visibilities(self.icube.sky_cube, uu, vv, self.coords.cell_size)


SimpleNet = GriddedNet  # its name in MPoL before 0.3
