"""Average the visibilities of each cell of the Fourier plane: what the gridded likelihood compares with a model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import torch

from firstlight_imaging._types import Complex, Ints, Real
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.datasets import GriddedDataset
from firstlight_imaging.data.visibilities import check_no_hermitian_pairs

MAX_SCATTER = 1.2
_MAX_BIAS = 0.1  # of reduced chi², in which the noise alone counts 1
_MIN_DISTANCE_SQUARED = 0.5  # cells²: visibilities nearer to each other do not tell a slope
_MIN_SHARED = 50  # visibilities that share cells: of fewer the scatter is not known within 7 %


class DataAverager:
    """Weighted means of the visibilities that fall into the same cell.

    Each baseline is to be given once, in either direction, not a second time as its mirror image.

    Parameters
    ----------
    coords
        The grid.
    uu, vv
        Baselines in wavelengths: (nchan, nvis), or (nvis) for a single channel or the same in every channel.
    weight
        1 / sigma², where sigma is the noise of the real and of the imaginary part. Zero leaves a visibility out.
    data_re, data_im
        The visibilities in Jy: (nchan, nvis), or (nvis) for a single channel.

    Examples
    --------
    >>> coords = GridCoords(cell_size=0.1, npix=16)
    >>> du = coords.du
    >>> averager = DataAverager(coords, [du, 1.2 * du], [0, 0], weight=[1, 3], data_re=[2, 6], data_im=[0, 0])
    >>> vis, weight, _ = averager.cell_means()
    >>> complex(vis[0, 0, 1]), float(weight[0, 0, 1])
    ((5+0j), 4.0)
    """

    def __init__(
        self,
        coords: GridCoords,
        uu: npt.ArrayLike,
        vv: npt.ArrayLike,
        weight: npt.ArrayLike,
        data_re: npt.ArrayLike,
        data_im: npt.ArrayLike,
    ) -> None:
        self.coords = coords
        arrays = (np.asarray(values, dtype=float) for values in (data_re, data_im, uu, vv, weight))
        self.data_re, self.data_im, self.uu, self.vv, self.weight = checked_arrays(coords, *arrays)
        self.cells = coords.packed_cells(self.uu, self.vv)
        self.nchan = len(self.data_re)

    def cell_means(self) -> tuple[Complex, Real, list[float]]:
        """Return the weighted mean and the sum of weights of every cell, packed: (nchan, npix, npix) each.

        Last comes how far each channel's visibilities scatter about these means, in units of their own sigma: about 1
        where the weights are right; NaN where too few share a cell with others.
        """
        npix, scatter = self.coords.npix, np.zeros(self.nchan)
        vis, weight = np.zeros((self.nchan, npix**2), complex), np.zeros((self.nchan, npix**2))
        for channel, columns in enumerate(zip(self.cells, self.weight, self.data_re, self.data_im, strict=True)):
            vis[channel], weight[channel], scatter[channel] = means_and_scatter([columns], npix**2)
        return vis.reshape(-1, npix, npix), weight.reshape(-1, npix, npix), scatter.tolist()

    def bias(self, vis: Complex, weight: Real, scatter: list[float]) -> Iterator[float]:
        """Yield an estimate of what averaging adds to each channel's reduced chi² of the true sky, where noise adds 1.

        The visibilities of a cell lie about a place that is not its centre, where a model is compared with their mean.
        How fast the sky's change from one place to another, the neighbouring cells tell, less their noise. The estimate
        is the slope's alone: what a sky that reaches to the edge of the field adds can be three times that.
        """
        npix, centres = self.coords.npix, np.fft.ifftshift(self.coords.uv_centers) / self.coords.du
        for channel, factor in enumerate(scatter):
            w, uv = weight[channel].ravel(), (self.uu[channel], self.vv[channel])
            sums = np.stack([np.bincount(self.cells[channel], self.weight[channel] * x, w.size) for x in uv])
            at, noise = np.flatnonzero(w), 1 if math.isnan(factor) else factor
            centroids = sums[:, at] / (w[at] * self.coords.du)
            offsets = centroids - [centres[at % npix], centres[at // npix]]
            yield _squared_error(vis[channel].ravel(), w, noise, at, centroids, offsets) / (2 * at.size)

    def to_pytorch_dataset(
        self, check_visibility_scatter: bool = True, max_scatter: float = MAX_SCATTER
    ) -> GriddedDataset:
        """Return the averages of the filled cells, as a data set for a gridded likelihood.

        Parameters
        ----------
        check_visibility_scatter
            Warn of visibilities that scatter more within their cells than their weights allow, and of averages that
            do not fit the true sky: see the ``bias`` of a `GriddedDataset`.
        max_scatter
            How much more, as a factor on sigma.
        """
        vis, weight, scatter = self.cell_means()
        bias = list(self.bias(vis, weight, scatter))
        if check_visibility_scatter:
            warn_of_scatter(scatter, max_scatter)
            _warn_of_bias(bias, scatter)
        return GriddedDataset(
            coords=self.coords,
            vis_gridded=torch.from_numpy(vis),
            weight_gridded=torch.from_numpy(weight),
            mask=torch.from_numpy(weight > 0),
            nchan=self.nchan,
            bias=max(bias),
        )


Gridder = DataAverager  # its name in MPoL before 0.2


def checked_arrays(coords: GridCoords, re: Real, im: Real, u: Real, v: Real, weight: Real) -> list[Real]:
    """Return data, baselines and weights in one shape; raise an error if no image can be made of them."""
    re, im, u, v, weight = _same_shape({"data_re": re, "data_im": im, "uu": u, "vv": v, "weight": weight})
    coords.check_data_fit(u, v)
    _check_values(re, im, weight)
    check_no_hermitian_pairs(u[0], v[0], re[0] + 1j * im[0])
    return [re, im, u, v, weight]


def _same_shape(arrays: dict[str, Real]) -> list[Real]:
    """Return all arrays as (nchan, nvis), the shape of the first ones, the data; nothing is copied."""
    for name, values in arrays.items():
        if values.dtype.kind not in "fiu":
            raise TypeError(f"{name} must be real numbers; got {values.dtype}")
    shapes = ", ".join(f"{name} {values.shape}" for name, values in arrays.items())
    shape = next(iter(arrays.values())).shape
    if len(shape) not in (1, 2):
        raise ValueError(f"the data must be (nvis) or (nchan, nvis); got {shapes}")
    if any(values.ndim == 0 or values.shape[-1] != shape[-1] for values in arrays.values()):
        raise ValueError(f"there must be as many baselines, weights and data; got {shapes}")
    try:
        return [np.atleast_2d(np.broadcast_to(values, shape)) for values in arrays.values()]
    except ValueError:
        raise ValueError(f"the arrays must have the data's shape, or be one channel for all; got {shapes}") from None


def _check_values(re: Real, im: Real, weight: Real) -> None:
    """Raise an error if data or weights are not finite, or a channel has no weight."""
    if not (_all_finite(re) and _all_finite(im)):
        raise ValueError("data_re and data_im must be finite; some are NaN or infinite. Drop the flagged visibilities.")
    if not (weight.min() >= 0 and weight.max() < np.inf):
        raise ValueError("weights must be finite and not negative. Drop the flagged visibilities.")
    if not weight.any(axis=1).all():
        raise ValueError(f"channel {int(np.argmin(weight.any(axis=1)))} has no weight above zero: leave it out")


def _all_finite(values: Real) -> bool:
    """Return whether all are finite; only finite numbers have a finite sum, which is quicker to look at."""
    return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def means_and_scatter(pieces: Iterable[tuple[Ints, Real, Real, Real]], size: int) -> tuple[Complex, Real, float]:
    """Return the means of the visibilities in each cell, their weights, and the scatter in units of sigma.

    Parameters
    ----------
    pieces
        Of one channel: cells, weights, real and imaginary parts.
    size
        How many cells there are.

    Examples
    --------
    >>> same = np.full(99, 3.0)
    >>> vis, weight, scatter = means_and_scatter([(np.zeros(99, int), same, same, -same)], 2)
    >>> vis.tolist(), weight.tolist(), scatter
    ([(3-3j), 0j], [297.0, 0.0], 0.0)
    """
    vis, weight, squares, count = np.zeros(size, complex), np.zeros(size), 0.0, 0
    for cells, w, re, im in pieces:
        weight += np.bincount(cells, w, size)
        count += int(np.count_nonzero(w))
        for part, values in ((vis.real, re), (vis.imag, im)):
            weighted = w * values
            part += np.bincount(cells, weighted, size)
            squares += float(weighted @ values)
    np.divide(vis, weight, out=vis, where=weight > 0)
    redundant, residual = count - int(np.count_nonzero(weight)), squares - float(weight @ np.abs(vis) ** 2)
    return vis, weight, math.sqrt(max(0.0, residual) / (2 * redundant)) if redundant >= _MIN_SHARED else math.nan


def _squared_error(vis: Complex, weight: Real, noise: float, at: Ints, centroids: Real, offsets: Real) -> float:
    """Return the sum of squares of how far the means of filled cells are off, in units of their noise by the weights.

    Parameters
    ----------
    vis, weight
        Mean and sum of weights of every cell, packed and flattened.
    noise
        How much larger it is than the weights say.
    at
        The filled cells.
    centroids, offsets
        Of these, the mean position of their visibilities, and its distance from the centre: (2, ncells), in cells.
    """
    npix, total = math.isqrt(weight.size), 0.0
    for offset, after in zip(offsets, (at - at % npix + (at + 1) % npix, (at + npix) % weight.size), strict=True):
        i = np.flatnonzero(weight[after])
        k, a, b = np.searchsorted(at, after[i]), at[i], after[i]
        change = np.abs(vis[a] - vis[b]) ** 2 - 2 * noise**2 * (1 / weight[a] + 1 / weight[b])
        slope = change / np.maximum(((centroids[:, i] - centroids[:, k]) ** 2).sum(0), _MIN_DISTANCE_SQUARED)
        total += float(slope @ (weight[a] * offset[i] ** 2 + weight[b] * offset[k] ** 2)) / 2
    return total


def warn_of_scatter(scatter: list[float], max_scatter: float) -> None:
    """Warn of weights that promise less noise than the data show within the cells."""
    for channel, times in enumerate(scatter):
        if times > max_scatter:
            warnings.warn(
                f"within their cells, the visibilities of channel {channel} scatter {times:.3g} times as far as their "
                f"weights say, more than max_scatter={max_scatter:g}. Where the noise is larger than the weights say, "
                f"multiply them by {times**-2:.2g}. Where the sky changes within a cell, averages are off: take more "
                "pixels of the same cell_size, or a likelihood without cells. A dirty image needs none.",
                stacklevel=3,
            )


def _warn_of_bias(bias: list[float], scatter: list[float]) -> None:
    """Warn of means that are off for where they lie in their cells, as far as wrong weights do not explain it."""
    for channel, (extra, noise) in enumerate(zip(bias, scatter, strict=True)):
        if extra > _MAX_BIAS * max(1.0, noise**2):
            warnings.warn(
                f"the sky of channel {channel} changes within cells: averaging adds {extra:.2g} or more to its chi². "
                "Take more pixels of the same cell_size, or an ExactLikelihood, which has no cells.",
                stacklevel=3,
            )
