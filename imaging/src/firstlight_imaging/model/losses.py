"""Losses: reduced chi² and the regularizers.

Cubes are (nchan, ny, nx) in Jy/arcsec². None of these functions makes a GPU wait for the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from firstlight_imaging.data.datasets import GriddedDataset


def r_chi_squared(model_vis: torch.Tensor, data_vis: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return reduced chi²: about 1 where the model differs from the data by the noise alone.

    Parameters
    ----------
    model_vis, data_vis
        Visibilities in Jy, of the same shape.
    weight
        1 / sigma², sigma being the noise of the real and of the imaginary part.

    Examples
    --------
    >>> data = torch.tensor([1 + 1j, 2 - 1j])
    >>> r_chi_squared(torch.zeros(2), data, weight=torch.tensor([1.0, 2.0])).item()
    3.0
    """
    if not (model_vis.shape == data_vis.shape == weight.shape):
        shapes = tuple(model_vis.shape), tuple(data_vis.shape), tuple(weight.shape)
        raise ValueError(f"model, data and weights must have one shape; got {shapes}")
    if not data_vis.numel():
        raise ValueError("there are no visibilities to compare with")
    residual = data_vis - model_vis
    return (weight * (residual.real.square() + residual.imag.square())).sum() / (2 * data_vis.numel())


def r_chi_squared_gridded(model_vis: torch.Tensor, dataset: GriddedDataset) -> torch.Tensor:
    """Return reduced chi² of a packed cube of model visibilities, over the cells that have data.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords, GriddedDataset
    >>> ones = torch.ones(1, 8, 8)
    >>> cells = GriddedDataset(coords=GridCoords(0.1, 8), vis_gridded=ones + 0j, weight_gridded=ones, mask=ones.bool())
    >>> r_chi_squared_gridded(torch.zeros(1, 8, 8) + 0j, cells).item()
    0.5
    """
    return r_chi_squared(dataset(model_vis), dataset.vis_indexed, dataset.weight_indexed)


nll, nll_gridded = r_chi_squared, r_chi_squared_gridded  # their names in MPoL before 0.3


def entropy(cube: torch.Tensor, prior: float | torch.Tensor, tot_flux: float = 10) -> torch.Tensor:
    """Return how far an image is from a prior image: the sum of I ln(I / prior) over ``tot_flux``.

    Below one part in 2^23 of the prior (2^52 in float64) it goes on as a straight line, which is finite at zero, with a
    finite slope, and rises again for negative pixels.

    Parameters
    ----------
    cube
        Intensities.
    prior
        What to expect where the data say nothing: one positive number, or an image in the order of the cube.
    tot_flux
        What to divide by: the sum of intensities that one expects.

    Examples
    --------
    >>> entropy(torch.tensor([0.0, 1.0, 2.0]), prior=torch.tensor([1.0, 1.0, 2.0])).item()
    0.0
    """
    if not tot_flux > 0 or not (isinstance(prior, torch.Tensor) or prior > 0):
        raise ValueError(f"the prior must be a positive intensity, and tot_flux positive; got {prior!r}, {tot_flux!r}")
    ratio = (cube / prior).clamp(min=torch.finfo(cube.dtype).eps)
    return (cube * ratio.log()).sum() / tot_flux


def sparsity(cube: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Return the sum of absolute intensities, of the pixels where the mask is true.

    Examples
    --------
    >>> sparsity(torch.tensor([1.0, -2.0, 4.0]), mask=torch.tensor([True, True, False])).item()
    3.0
    """
    size = cube.abs()
    return size.sum() if mask is None else (size * mask).sum()


def TV_image(sky_cube: torch.Tensor, epsilon: float = 1e-10) -> torch.Tensor:
    """Return total variation: the sum of the lengths of the gradient. Favours flat regions with sharp edges.

    Parameters
    ----------
    sky_cube
        Intensities.
    epsilon
        Added under the root, to keep the slope finite where the image is flat.

    Examples
    --------
    >>> ramp = torch.arange(4.0).expand(1, 3, 4)
    >>> round(TV_image(ramp).item(), 3)  # two rows of three steps of 1
    6.0
    """
    across, up = _gradient(sky_cube)
    return (across.square() + up.square() + epsilon).sqrt().sum()


def TSV(sky_cube: torch.Tensor) -> torch.Tensor:
    """Return total squared variation: the sum of the squared lengths of the gradient. Favours smooth edges.

    Examples
    --------
    >>> ramp = torch.arange(4.0).expand(1, 3, 4)
    >>> TSV(ramp).item()
    6.0
    """
    across, up = _gradient(sky_cube)
    return across.square().sum() + up.square().sum()


def TV_channel(cube: torch.Tensor, epsilon: float = 1e-10) -> torch.Tensor:
    """Return total variation from channel to channel.

    Examples
    --------
    >>> line = torch.tensor([0.0, 1.0, 0.0]).reshape(3, 1, 1)
    >>> round(TV_channel(line).item(), 3)
    2.0
    """
    return (cube.diff(dim=0).square() + epsilon).sqrt().sum()


def edge_clamp(cube: torch.Tensor) -> torch.Tensor:
    """Return the sum of squares of the outermost pixels, of a cube in sky or ground order; the corners count once.

    Examples
    --------
    >>> edge_clamp(torch.ones(1, 3, 4)).item()
    10.0
    """
    squares = cube.square()
    rows, columns = cube.shape[-2:]
    return squares[..., :: max(rows - 1, 1), :].sum() + squares[..., 1:-1, :: max(columns - 1, 1)].sum()


def _gradient(cube: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the differences of each pixel from the next column and from the next row, where it has both."""
    corner = cube[..., :-1, :-1]
    return cube[..., :-1, 1:] - corner, cube[..., 1:, :-1] - corner
