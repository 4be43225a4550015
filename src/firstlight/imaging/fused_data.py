"""What the data say of an image, for the fused step: chi² and its slope at each pixel, in ground order."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from firstlight.imaging.datasets import GriddedDataset
from firstlight.imaging.exact import ExactLikelihood
from firstlight.imaging.fused_columns import WIDTH, compare, convolve, order, stages, turns
from firstlight.imaging.fused_compiler import run
from firstlight.imaging.fused_kernels import slope

Array = np.ndarray[Any, np.dtype[Any]]


class Cells:
    """Averages in cells, folded into the half of the Fourier plane that a real image needs.

    V(−u, −v) is the conjugate of V(u, v). Along u = 0, and along the last column, both halves are kept: there each
    average is divided between its cell and the mirror image, so that what goes back is Hermitian. Averages that fall
    together are averaged again, and what they differ by adds a constant to chi².
    """

    def __init__(self, dataset: GriddedDataset, image: Tensor, ncell: float | None) -> None:
        nchan, npix, _ = image.shape
        half = npix // 2
        index, area = dataset.index.numpy(), dataset.coords.cell_size**2
        channel, row, column = index // npix**2, index // npix % npix, index % npix
        count = np.bincount(channel, minlength=nchan)[channel] if ncell is None else ncell
        data = dataset.vis_indexed.numpy().astype(complex) / area
        weight = dataset.weight_indexed.numpy().astype(float) * area**2 / (2 * count)
        data *= 1 - 2 * ((row + column) % 2)  # the centre of the image is its middle, not its first pixel
        edge = column % half == 0
        weight = np.where(edge, weight / 2, weight)
        flip = column > half
        mirrored = edge | flip
        cell = (channel * npix + row) * (half + 1) + column
        mirror = (channel * npix + -row % npix) * (half + 1) + -column % npix
        cell = np.concatenate([cell[~flip], mirror[mirrored]])
        data = np.concatenate([data[~flip], data[mirrored].conj()])
        weight = np.concatenate([weight[~flip], weight[mirrored]])
        used = weight > 0
        cells, place = np.unique(cell[used], return_inverse=True)
        data, weight = data[used], weight[used]
        total = np.bincount(place, weight)
        mean = (np.bincount(place, weight * data.real) + 1j * np.bincount(place, weight * data.imag)) / total
        # Columns are transformed some at a time; there the cells of each lie in the order that an FFT leaves them in.
        columns = half + 1
        blocks = -(-columns // WIDTH)
        channel, row, column = cells // (npix * columns), cells // columns % npix, cells % columns
        rank = np.argsort(order(npix))
        task = channel * blocks + column // WIDTH
        at = rank[row] * WIDTH + column % WIDTH
        sort = np.lexsort((at, task))
        self.constant = np.bincount(channel[place], weight * np.abs(data - mean[place]) ** 2, nchan)
        twice = np.where(column % half == 0, 2, 1)  # the way back counts the columns in between twice
        real = image.numpy().dtype
        self.sums = np.zeros(nchan * blocks)
        self.arrays = (
            columns,
            turns(npix, real),
            stages(npix),
            np.searchsorted(task[sort], np.arange(self.sums.size + 1)),
            at[sort].astype(np.uint32),
            np.array([mean[sort].real, mean[sort].imag], real),
            total[sort].astype(real),
            (twice * total)[sort].astype(real),
        )
        self.image, self.back = image, torch.empty_like(image)
        self.vis = image.new_empty(nchan, npix, columns, dtype=torch.promote_types(image.dtype, torch.complex32))
        self.numbers, self.slope = flat(self.vis), self.back.numpy()

    def __call__(self) -> Array:
        """Give the chi² of the image, channel by channel, over twice the number of cells; leave its slope in ``back``.

        The number is that which was given, or that of each channel.
        """
        torch.fft.rfft(self.image, out=self.vis)
        run(compare, self.sums.size, self.numbers, *self.arrays, self.sums)
        torch.fft.irfft(self.vis, n=self.image.shape[-1], norm="forward", out=self.back)
        chi2: Array = self.constant + self.sums.reshape(len(self.constant), -1).sum(1)
        return chi2


class Pixels:
    """An exact likelihood about its reference: one pair of FFTs of twice the width."""

    def __init__(self, likelihood: ExactLikelihood, image: Tensor, nvis: Tensor) -> None:
        self.likelihood = likelihood
        self.scale = 1 / (2 * nvis.numpy().astype(float) * np.ones(len(image)))
        self.image, self.back = image, torch.empty_like(image)
        real, width = image.numpy().dtype, likelihood.width
        self.wide, self.spread = image.new_zeros(2, *image.shape[:2], width)
        self.vis = image.new_empty(
            *image.shape[:2], width // 2 + 1, dtype=torch.promote_types(image.dtype, torch.complex32)
        )
        self.numbers, self.slope = flat(self.vis), self.back.numpy()
        self.turns, self.stages = turns(width, real), stages(width)
        self.seen: Tensor | None = None
        self.sums = np.zeros((len(image), image.shape[1]))

    def refresh(self) -> None:
        """Take over what changes when the likelihood is centred anew."""
        likelihood, width = self.likelihood, self.likelihood.width
        self.seen = likelihood.dirty
        self.reference, self.dirty = (cube.flip(-1).contiguous() for cube in (likelihood.reference, likelihood.dirty))
        cubes = (self.image, self.reference, self.dirty, self.spread, self.back)
        self.arrays = tuple(cube.numpy() for cube in cubes)
        # Columns run west here: that is the response at −v, as it is the same at (−u, −v).
        response = likelihood.kernel.numpy()[:, -order(width) % width] / width**2
        response = np.pad(response, ((0, 0), (0, 0), (0, -response.shape[2] % WIDTH)))
        blocks = response.reshape(len(response), width, -1, WIDTH).swapaxes(1, 2)
        self.response = np.ascontiguousarray(blocks.reshape(*blocks.shape[:2], -1), self.turns.dtype)

    def __call__(self) -> Array:
        """Give chi² of each channel over twice the number of visibilities; leave its slope in ``back``."""
        if self.seen is not self.likelihood.dirty:
            self.refresh()
        torch.sub(self.image, self.reference, out=self.wide[..., : self.image.shape[-1]])
        torch.fft.rfft(self.wide, out=self.vis)
        tasks = len(self.vis) * self.response.shape[1]
        run(convolve, tasks, self.numbers, *self.vis.shape[1:], self.turns, self.stages, self.response)
        torch.fft.irfft(self.vis, n=self.likelihood.width, norm="forward", out=self.spread)
        run(slope, self.sums.size, *self.arrays, self.scale, self.sums)
        chi2: Array = (self.likelihood.c0.numpy() + self.sums.sum(1)) * self.scale
        return chi2


def flat(vis: Tensor) -> Array:
    """See the complex numbers of each channel as a row of pairs."""
    numbers: Array = torch.view_as_real(vis).reshape(len(vis), -1).numpy()
    return numbers
