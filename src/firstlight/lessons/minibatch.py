"""The chi² of an image from a few visibilities at a time, for models that change what a visibility is in every step.

`ExactLikelihood` needs weights and gains that stay. Where those are fitted along with the image they do not. Then a
step may look at some of the visibilities only, if what it sees is right on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from firstlight.imaging.fitting.exact import sum_type
from firstlight.imaging.fitting.visibility_chunks import check_measured, check_rows, read_part
from firstlight.imaging.fourier.nufft import CHUNK, COMPLEX, Array, visibilities

Ints = npt.NDArray[np.int64]


class MiniBatches:
    """Deal the visibilities into batches by chance, in another way on each pass, and estimate chi² from one of them.

    Parameters
    ----------
    u, v, data, weight
        As for `ExactLikelihood`: arrays, maps of files or tensors. They stay where they are; a batch is read from them.
    cell_size
        The width of a pixel in arcsec.
    size
        How many visibilities a batch has at most; all batches have as many, give or take one.
    seed
        The same seed deals the same batches.

    Examples
    --------
    Iterate over a pass. Each batch is the places of its visibilities, with which to pick what belongs to them:

    >>> u, v, data = np.arange(5) * 1e5, np.zeros(5), np.ones(5, complex)
    >>> batches = MiniBatches(u, v, data, np.ones(5), cell_size=0.1, size=2, seed=1)
    >>> [len(at) for at in batches]
    [2, 2, 1]

    A gain of each antenna, to be fitted along with the image:

    >>> gain = torch.ones(3, dtype=torch.complex64, requires_grad=True)
    >>> one, other = np.array([[0, 0, 1, 1, 2], [1, 2, 2, 0, 0]])
    >>> sky = torch.zeros(1, 8, 8)
    >>> chi2 = [batches.chi_squared(sky, at, factor=gain[one[at]] * gain[other[at]].conj()).item() for at in batches]
    >>> chi2  # of a sky without light, each visibility weighs the same
    [5.0, 5.0, 5.0]
    """

    def __init__(
        self, u: Array, v: Array, data: Array, weight: Array, cell_size: float, *, size: int, seed: int
    ) -> None:
        self.u, self.v, self.data, self.weight, _ = check_measured(u, v, data, weight, None, CHUNK)
        self.nvis = int(self.data.shape[-1])
        if not 1 <= size <= self.nvis:
            raise ValueError(f"size must be from 1 to {self.nvis}, the number of visibilities; got {size!r}")
        self.cell_size, self.size = cell_size, size
        self.rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        """Give the number of batches in a pass."""
        return math.ceil(self.nvis / self.size)

    def __iter__(self) -> Iterator[Ints]:
        """Deal one pass: every visibility is in one batch; files are read in ascending order."""
        return (np.sort(batch) for batch in np.array_split(self.rng.permutation(self.nvis), len(self)))

    def chi_squared(
        self, sky: Tensor, at: Ints, *, weight: Array | None = None, factor: Tensor | None = None
    ) -> Tensor:
        """Estimate Σ ``w |D − g V(I)|²`` over all visibilities, channel by channel, from those of a batch.

        Its mean over all batches that could be dealt is chi², and that of its gradient the gradient of chi².

        Parameters
        ----------
        sky
            The image, (nchan, npix, npix) in Jy/arcsec² and sky order.
        at
            The batch.
        weight
            Of the batch, in place of what was given at first; gradients flow to it. What had no weight has none.
        factor
            g, of each model visibility of the batch; gradients flow to it, too.
        """
        weights, data, _ = read_part(self.weight, self.data, None, at)
        if weight is not None:
            check_rows("weight", weight, len(data), len(at))
            given = torch.as_tensor(weight)
            weights = torch.where(weights.to(given.device) == 0, 0, given)
        model = visibilities(sky, self.u[..., at], self.v[..., at], self.cell_size)
        if factor is not None:
            check_rows("factor", factor, len(data), len(at))
            model = model * factor
        residual = data.to(sky.device, COMPLEX[sky.dtype]) - model
        squares = weights.to(sky.device, sky.dtype) * (residual.real.square() + residual.imag.square())
        return squares.to(sum_type(sky.device)).sum(-1) * (self.nvis / len(at))
