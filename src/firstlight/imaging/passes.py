"""Passes over visibilities, in float64: what an exact likelihood is made from, a chunk of a channel at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from tqdm import tqdm

from firstlight.imaging.measured import pieces, read_part, same_power
from firstlight.imaging.nufft import (
    ACCURACY,
    COARSE,
    Array,
    at_once,
    exact_place,
    sky_of,
    sums_of_cosines,
    to_modes,
    to_tensor,
)
from firstlight.imaging.padding import transfer
from firstlight.imaging.streaming import bar, stream

EXACT = ACCURACY[torch.float64]


class Passes:
    """What `ExactLikelihood` does with its visibilities. It holds what is named here, and so could another class.

    Of each channel only what is asked for is read, and nothing kept. Where a device has no memory for a chunk, it goes
    on with smaller ones.
    """

    u: Array
    v: Array
    data: Array
    weight: Array
    factor: Array | None
    cell_size: float
    npix: int
    width: int
    chunk: int
    progress: bool | None
    exact_beam: Tensor | None
    reference: Tensor
    mine: slice = slice(None)  # of the channels of the data, those that the image has

    def transfers(self) -> Tensor:
        """Make the kernels, one after another; channels that share baselines, weights and factors share one."""
        channels = range(1 if self.alike else len(self.data))
        own = channels if self.alike else channels[self.mine]
        kernels = self.reference.new_empty(len(own), self.width // 2 + 1, self.width)
        with bar("point-spread function", len(channels) * self.nvis, self.progress) as progress:
            for channel in channels:
                total = self.point_spread(channel, progress)
                if channel in own:
                    kernels[own.index(channel)] = transfer(total, self.width)[0]
        return kernels

    def point_spread(self, channel: int, progress: tqdm[None]) -> Tensor:
        """Sum w|g|² cos 2π(uΔl + vΔm) cell⁴ for all distances of two pixels, −npix to npix − 1 along each axis."""
        total = torch.zeros(1, 2 * self.npix, 2 * self.npix, dtype=torch.float64)
        eps = COARSE if self.reference.dtype == torch.float32 else EXACT  # accuracy lives in the residuals

        def add(at: slice) -> None:
            u, v = (row(part, channel, at) for part in (self.u, self.v))
            total.add_(sums_of_cosines(self.power(channel, at), u, v, self.cell_size, 2 * self.npix, eps).cpu())

        self.chunk = stream(self.nvis, self.chunk, add, progress.update)
        return total.mul_(self.cell_size**4)

    def sums_about(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Sum Σ w|r|² for each channel, and R = AᵀWr for each pixel."""
        place = exact_place(image.device)
        c0 = torch.zeros(len(image), dtype=torch.float64, device=place)
        dirty = torch.zeros(image.shape, dtype=torch.float64, device=place)
        with bar("residuals", len(image) * self.nvis, self.progress) as progress:
            for channel in range(len(image)):
                self.add_residuals(image, c0, dirty, channel, progress)
        return c0, dirty

    def add_residuals(self, image: Tensor, c0: Tensor, dirty: Tensor, channel: int, progress: tqdm[None]) -> None:
        """Do what `sums_about` says for a channel."""
        rows = slice(channel, channel + 1)
        sky = self.seen_exactly(image[rows], rows)
        dark = not sky.any()

        def add(at: slice) -> None:
            u, v = (row(part, channel, at) for part in (self.u, self.v))
            weight, residual, factor = self.read(at, rows)
            if not dark:
                residual -= self.model(sky, u, v, factor)
            squares = (weight * residual.abs().square_()).sum(-1)
            residual *= weight if factor is None else weight * factor.conj()
            dirty[rows] += sky_of(at_once(residual, u, v, self.cell_size, self.npix, EXACT), self.cell_size)
            c0[rows] += squares

        self.chunk = stream(self.nvis, self.chunk, add, progress.update)
        dirty[rows] = self.seen_exactly(dirty[rows], rows)

    @torch.no_grad()
    def residuals(self, image: Tensor | None = None) -> Tensor:
        """Give D − V of an image, by default of the reference, for every visibility, in complex128."""
        image = self.reference if image is None else image
        found = torch.empty(*self.data.shape, dtype=torch.complex128, device=exact_place(image.device))
        with bar("residuals", found.numel(), self.progress) as progress:
            for channel in range(len(image)):
                rows = slice(channel, channel + 1)
                sky = self.seen_exactly(image[rows], rows)

                def put(at: slice, rows: slice = rows, sky: Tensor = sky) -> None:
                    u, v = (row(part, rows.start, at) for part in (self.u, self.v))
                    _, data, factor = self.read(at, rows)
                    found[rows, at] = data - self.model(sky, u, v, factor)

                self.chunk = stream(self.nvis, self.chunk, put, progress.update)
        return found

    def model(self, sky: Tensor, u: Array, v: Array, factor: Tensor | None) -> Tensor:
        """Predict visibilities of a sky as seen through the beam."""
        vis = at_once(to_modes(sky, self.cell_size), u, v, self.cell_size, None, EXACT)
        return vis if factor is None else vis * factor

    def seen_exactly(self, sky: Tensor, rows: slice) -> Tensor:
        """Multiply some channels by the beam in float64, where there is float64."""
        sky = to_tensor(sky, torch.float64)
        if self.exact_beam is None:
            return sky
        beam = self.exact_beam if self.exact_beam.ndim == 2 or len(self.exact_beam) == 1 else self.exact_beam[rows]
        return sky * beam.to(sky.device)

    def power(self, channel: int, at: slice) -> Tensor:
        """Read w|g|²; what has no weight is 0, whatever its factor."""
        weight = to_tensor(row(self.weight, channel, at), torch.float64).to(exact_place(self.reference.device))
        if self.factor is None:
            return weight
        factor = to_tensor(row(self.factor, channel, at), torch.complex128).to(weight.device)
        return torch.where(weight == 0, 0, weight * factor.abs() ** 2)

    def read(self, at: slice, rows: slice = slice(None)) -> tuple[Tensor, Tensor, Tensor | None]:
        """Read weights, data and factors of a part; what has no weight is 0, whatever it was."""
        place = exact_place(self.reference.device)
        given = (part if part is None or part.ndim == 1 else part[rows] for part in (self.weight, self.factor))
        weight, factor = given
        assert weight is not None
        weight, data, factor = read_part(weight, self.data[rows], factor, at)
        return weight.to(place), data.to(place), None if factor is None else factor.to(place)

    def parts(self) -> Iterator[slice]:
        """Cut the visibilities of all channels together into chunks."""
        return pieces(self.nvis, len(self.data), self.chunk)

    def same_kernel(self, factor: Array | None) -> bool:
        """Tell whether a new factor leaves the kernel as it is."""
        return factor is None or same_power(factor, self.factor, self.parts())

    @property
    def alike(self) -> bool:
        """Whether all channels share baselines, weights and factors."""
        return all(part is None or part.ndim == 1 for part in (self.u, self.weight, self.factor))

    @property
    def nvis(self) -> int:
        """The number of visibilities of a channel."""
        return int(self.data.shape[-1])


def row(values: Array | None, channel: int, at: slice) -> Array:
    """Take a part of what a channel has, alone or together with all others."""
    assert values is not None
    return values[at] if values.ndim == 1 else values[channel, at]
