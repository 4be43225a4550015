"""Average the visibilities of each cell of the Fourier plane: what the gridded likelihood compares with a model."""

from __future__ import annotations

import math
import warnings

import numpy as np
import numpy.typing as npt
import torch

from firstlight.imaging.coordinates import Array, GridCoords, blocks
from firstlight.imaging.datasets import GriddedDataset

MAX_SCATTER = 1.2


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
    >>> vis, weight = averager.cell_means()
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
        named = {"data_re": data_re, "data_im": data_im, "uu": uu, "vv": vv, "weight": weight}
        re, im, u, v, w = same_shape({name: np.asarray(values, dtype=float) for name, values in named.items()})
        coords.check_data_fit(u, v)
        refuse_unusable(re, im, w)
        refuse_mirrored(u, v, re, im)
        self.uu, self.vv, self.weight, self.data_re, self.data_im = u, v, w, re, im
        self.cells = coords.packed_cells(u, v)
        self.nchan = len(re)

    def cell_means(self) -> tuple[npt.NDArray[np.complex128], Array]:
        """Return the weighted mean and the sum of weights of every cell, packed: (nchan, npix, npix) each."""
        npix = self.coords.npix
        vis, weight = np.zeros((self.nchan, npix**2), complex), np.zeros((self.nchan, npix**2))
        for channel in range(self.nchan):
            cells, w = self.cells[channel], self.weight[channel]
            weight[channel] = np.bincount(cells, w, npix**2)
            vis[channel].real = np.bincount(cells, w * self.data_re[channel], npix**2)
            vis[channel].imag = np.bincount(cells, w * self.data_im[channel], npix**2)
        np.divide(vis, weight, out=vis, where=weight > 0)
        return vis.reshape(-1, npix, npix), weight.reshape(-1, npix, npix)

    def scatter(self, vis: npt.NDArray[np.complex128], weight: Array) -> list[float]:
        """Return how far each channel's visibilities scatter about these means, in units of their own sigma.

        About 1 where the weights are right; NaN where no cell has two visibilities.
        """
        factors = []
        for channel, mean in enumerate(vis.reshape(self.nchan, -1)):
            cells, w, re, im = (a[channel] for a in (self.cells, self.weight, self.data_re, self.data_im))
            squares = 0.0
            for some in blocks(cells.size):
                means = mean.take(cells[some])
                squares += float(np.sum(w[some] * ((re[some] - means.real) ** 2 + (im[some] - means.imag) ** 2)))
            spare = np.count_nonzero(w) - np.count_nonzero(weight[channel])
            factors.append(math.sqrt(squares / (2 * spare)) if spare else math.nan)
        return factors

    def to_pytorch_dataset(
        self, check_visibility_scatter: bool = True, max_scatter: float = MAX_SCATTER
    ) -> GriddedDataset:
        """Average, and hand the filled cells over as a data set for a gridded likelihood.

        Parameters
        ----------
        check_visibility_scatter
            Warn of visibilities that scatter more within their cells than their weights allow.
        max_scatter
            How much more, as a factor on sigma.
        """
        vis, weight = self.cell_means()
        if check_visibility_scatter:
            warn_of_scatter(self.scatter(vis, weight), max_scatter)
        return GriddedDataset(
            coords=self.coords,
            vis_gridded=torch.from_numpy(vis),
            weight_gridded=torch.from_numpy(weight),
            mask=torch.from_numpy(weight > 0),
            nchan=self.nchan,
        )


Gridder = DataAverager  # its name in MPoL before 0.2


def same_shape(arrays: dict[str, Array]) -> list[Array]:
    """Bring all arrays to (nchan, nvis), which the first ones, the data, decide; nothing is copied."""
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


def refuse_unusable(re: Array, im: Array, weight: Array) -> None:
    """Refuse what no mean can be made of."""
    if not (all_finite(re) and all_finite(im)):
        raise ValueError("data_re and data_im must be finite; some are NaN or infinite. Drop the flagged visibilities.")
    if not (weight.min() >= 0 and weight.max() < np.inf):
        raise ValueError("weights must be finite and not negative. Drop the flagged visibilities.")
    if not weight.any(axis=1).all():
        raise ValueError(f"channel {int(np.argmin(weight.any(axis=1)))} has no weight above zero: leave it out")


def all_finite(values: Array) -> bool:
    """Look at the sum first, which is quicker to make: only finite numbers have a finite one."""
    return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def refuse_mirrored(u: Array, v: Array, re: Array, im: Array, samples: int = 5) -> None:
    """Refuse data that hold each visibility a second time at (-u, -v): they would count double."""
    u, v, re, im = u[0], v[0], re[0], im[0]
    spread = np.unique(np.linspace(0, u.size - 1, samples).astype(int))
    samples_off_centre = [i for i in spread if u[i] or v[i]]

    def has_twin(i: int) -> bool:
        at = np.flatnonzero(u == -u[i])
        return bool(((v[at] == -v[i]) & (re[at] == re[i]) & (im[at] == -im[i])).any())

    if len(samples_off_centre) > 1 and all(map(has_twin, samples_off_centre)):
        raise ValueError(
            "these are Hermitian pairs: every visibility stands a second time at (-u, -v), as its complex conjugate, "
            "and would count double. Keep one of each pair."
        )


def warn_of_scatter(scatter: list[float], most: float) -> None:
    """Warn of weights that promise less noise than the data show within the cells."""
    for channel, times in enumerate(scatter):
        if times > most:
            warnings.warn(
                f"within their cells, the visibilities of channel {channel} scatter {times:.3g} times as far as their "
                f"weights say, more than max_scatter={most:g}. Where the noise is larger than the weights say, "
                f"multiply them by {times**-2:.2g}. Where the sky changes within a cell, the mean is biased: take "
                "more pixels of the same cell_size, or a likelihood without cells.",
                stacklevel=3,
            )
