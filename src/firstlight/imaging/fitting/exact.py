"""The exact chi² of an image: every visibility counts, and an evaluation costs the same however many there are.

Written about a reference image I₀, with residuals r = D − V(I₀), c₀ = Σ w|r|² and the dirty residual R = AᵀWr,

    chi²(I) = c₀ + δ·(Tδ − 2R),    gradient 2(Tδ − R),    δ = I − I₀.

T = AᵀWA depends on the distance of two pixels only (it is the point-spread function), so that one pair of FFTs on a
grid of twice the width gives both. Differences from I₀ are what makes float32 enough: near I₀ nothing large cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from firstlight.imaging.fitting.needs import plan
from firstlight.imaging.fitting.visibility_chunks import check_beam, check_measured, pieces, read_part
from firstlight.imaging.fourier.nufft import (
    ACCURACY,
    CHUNK,
    COARSE,
    COMPLEX,
    Array,
    at_once,
    check_npix,
    exact_place,
    sky_of,
    sums_of_cosines,
    to_modes,
    to_tensor,
)
from firstlight.imaging.fourier.padding import CACHED, fast_fft_size, fft_convolve, transfer_function
from firstlight.imaging.fourier.streaming import bar, chunks, stream

EXACT = ACCURACY[torch.float64]


class ExactLikelihood(nn.Module):
    """The sum of ``w |D − V(I)|²`` over all visibilities, from their point-spread function.

    The visibilities stay where they are (numpy arrays, maps of files, tensors) and are read in chunks, only to build
    and to re-centre. Several spectral windows are one channel if their u and v, in wavelengths, are joined.

    Parameters
    ----------
    u, v
        Baselines in wavelengths: (nvis,) for all channels, or (nchan, nvis). Each channel needs its own unless the
        frequencies agree to about 1e-5: u = b ν/c.
    data
        Complex visibilities in Jy, (nvis,) or (nchan, nvis). Those without weight may be NaN.
    weight
        1/σ² of the real and of the imaginary part, (nvis,) or (nchan, nvis).
    cell_size, npix
        The width of a pixel in arcsec, and of the image in pixels.
    beam
        A primary beam to multiply the sky by, (npix, npix) or (nchan, npix, npix).
    factor
        A complex number to multiply each model visibility by (a gain, a taper), (nvis,) or (nchan, nvis).
    dtype, device
        Where and in what to compute chi². c₀, R and T are made in float64 whatever is said here.
    chunk
        How many visibilities to read at once.
    channels_at_once
        How many channels to transform at once; by default all. It bounds the memory at 4096² and above.
    memory
        Bytes that the set-up, and a fit of a `GriddedNet`, may use beside the visibilities. Chunks and channels at once
        become as small as that needs; `firstlight.imaging.plan` shows what it is used for.
    progress
        Whether to draw a bar on stderr for each pass over the visibilities; by default in a terminal, if it takes long.

    Examples
    --------
    >>> import numpy as np
    >>> u, v, data = np.array([0.0, 3e5]), np.array([0.0, 1e5]), np.array([1.0, 0.5j])
    >>> likelihood = ExactLikelihood(u, v, data, np.ones(2), cell_size=0.1, npix=8)
    >>> image = torch.zeros(1, 8, 8, requires_grad=True)
    >>> chi2 = likelihood(image)
    >>> chi2.item()
    1.25
    >>> chi2.backward()  # no further transform: the gradient was made with the value
    """

    kernel: Tensor
    dirty: Tensor
    reference: Tensor
    beam: Tensor | None

    def __init__(
        self,
        u: Array,
        v: Array,
        data: Array,
        weight: Array,
        cell_size: float,
        npix: int,
        *,
        beam: Array | None = None,
        factor: Array | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        chunk: int = CHUNK,
        channels_at_once: int | None = None,
        memory: float | None = None,
        progress: bool | None = None,
    ) -> None:
        super().__init__()
        check_npix(npix)
        self.cell_size, self.npix, self.chunk, self.progress = cell_size, npix, chunk, progress
        self.u, self.v, self.data, self.weight, self.factor = check_measured(u, v, data, weight, factor, chunk)
        nchan = len(self.data)
        if memory is not None:
            planned = plan(npix, nchan, self.nvis, device, dtype=dtype, shared=self.alike, memory=memory, chunk=chunk)
            if not planned.fits:
                raise ValueError(f"memory is {memory:.4g} bytes, which is too little.\n{planned}")
            self.chunk, channels_at_once = planned.chunk, channels_at_once or planned.channels_at_once
        self.channels_at_once = channels_at_once or nchan
        self.width = fast_fft_size(2 * npix - 1)  # of the padded grid, on which nothing wraps around
        self.exact_beam = None if beam is None else check_beam(to_tensor(beam, torch.float64), nchan, npix)
        self.register_buffer("reference", torch.zeros(nchan, npix, npix, dtype=dtype, device=device))
        self.register_load_state_dict_post_hook(centre_on_loaded)  # type: ignore[no-untyped-call]
        self.rebuild()

    def forward(self, image: Tensor) -> Tensor:
        """Give chi², summed over the channels; `chi_squared` gives it channel by channel."""
        return self.chi_squared(image).sum()

    def chi_squared(self, image: Tensor) -> Tensor:
        """Give chi² of each channel, in float64, its gradient at hand."""
        self.check_image(image)
        value: Tensor = ChiSquared.apply(image, self)  # type: ignore[no-untyped-call]
        return value

    def respond(self, image: Tensor) -> Tensor:
        """Apply T: what the visibilities of an image put on its pixels, by one pair of FFTs."""
        out = self.convolve(through(self.beam, image))[..., : self.npix, : self.npix]
        return through(self.beam, out.contiguous())  # a part of a padded image would keep all of it

    def convolve(self, image: Tensor) -> Tensor:
        """Apply T to an image as seen through the beam; it may be padded, as what comes out is."""
        cached = max(1, CACHED // (self.npix * self.width)) if image.device.type == "cpu" else len(image)
        kernels = self.kernel.expand(len(image), -1, -1)
        parts = [fft_convolve(image[at], kernels[at]) for at in chunks(len(image), min(cached, self.channels_at_once))]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    @torch.no_grad()
    def recentre(self, image: Tensor) -> None:
        """Make an image the reference, by one pass over the visibilities in float64.

        It is rounded to the working type first: δ is then measured from the very image that R belongs to.
        """
        self.check_image(image.to(self.reference.dtype))
        self.reference = image.detach().to(self.reference, copy=True)
        c0, dirty = self.sums_about(self.reference)
        self.c0 = c0.to(self.reference.device, sum_type(self.reference.device))
        self.register_buffer("dirty", dirty.to(self.reference.dtype).to(self.reference.device), persistent=False)

    @torch.no_grad()
    def needs_recentring(self, image: Tensor) -> bool:
        """Tell whether a term of chi² has outgrown chi² itself, so that digits are lost. The host waits for this."""
        self.check_image(image)
        delta = image - self.reference
        curved, sloped = dot(delta, self.respond(delta)), 2 * dot(delta, self.dirty)
        return bool((torch.maximum(curved, sloped.abs()) > self.c0 + curved - sloped).any())

    def replace(self, data: Array) -> None:
        """Take other data, of the same baselines and weights, about the same reference; the kernel stays bit for bit.

        So a phase that the data should not have can be taken out of them at any time.

        Examples
        --------
        >>> import numpy as np
        >>> u, v, weight = np.array([0.0, 3e5]), np.array([0.0, 1e5]), np.ones(2)
        >>> likelihood = ExactLikelihood(u, v, np.array([1.0, 0.5j]), weight, cell_size=0.1, npix=8)
        >>> likelihood.replace(np.array([1.0, 1.0]))
        >>> likelihood(torch.zeros(1, 8, 8)).item()
        2.0
        """
        self.data = check_measured(self.u, self.v, data, self.weight, self.factor, self.chunk, len(self.data))[2]
        self.recentre(self.reference)

    def rebuild(self) -> None:
        """Make kernel, residuals and the beam's working copy for the type and the place of the reference."""
        like = self.reference
        if like.dtype not in COMPLEX:
            raise TypeError(f"The likelihood cannot be {like.dtype}: it should be float32 or float64.")
        beam = None if self.exact_beam is None else self.exact_beam.to(like.dtype).to(like.device)
        self.register_buffer("beam", beam, persistent=False)
        self.register_buffer("kernel", self.transfers(), persistent=False)
        self.recentre(like)

    def check_image(self, image: Tensor) -> None:
        """Refuse an image that would be broadcast or rounded in silence."""
        if image.shape != self.reference.shape or image.dtype != self.reference.dtype:
            raise ValueError(
                f"The image is {image.dtype} of shape {tuple(image.shape)}, and should be {self.reference.dtype} of "
                f"shape {tuple(self.reference.shape)}: convert it, or the likelihood with .to({image.dtype})."
            )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ExactLikelihood:
        """Move to a device, or to another type; the latter rounds the reference, so that all is made anew."""
        before = self.reference.dtype
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.c0 = self.c0.to(self.reference.device, sum_type(self.reference.device))
        if self.reference.dtype != before:
            self.rebuild()
        return self

    # Below: passes over the visibilities, in float64, a chunk of a channel at a time. Nothing is kept of what is read.

    def transfers(self) -> Tensor:
        """Make the kernels, one after another; channels that share baselines, weights and factors share one."""
        nchan = 1 if self.alike else len(self.data)
        kernels = self.reference.new_empty(nchan, self.width // 2 + 1, self.width)
        with bar("point-spread function", nchan * self.nvis, self.progress) as progress:
            for channel in range(nchan):
                kernels[channel] = transfer_function(self.point_spread(channel, progress), self.width)[0]
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

        def add(at: slice) -> None:
            u, v, weight, residual, factor = self.compare(sky, at, rows)
            squares = (weight * residual.abs().square_()).sum(-1)
            residual *= weight if factor is None else weight * factor.conj()
            dirty[rows] += sky_of(at_once(residual, u, v, self.cell_size, self.npix, EXACT), self.cell_size)
            c0[rows] += squares

        self.chunk = stream(self.nvis, self.chunk, add, progress.update)
        dirty[rows] = self.seen_exactly(dirty[rows], rows)

    @torch.no_grad()
    def residuals(self, image: Tensor) -> Tensor:
        """Give D − V of an image for every visibility, in complex128."""
        found = torch.empty(*self.data.shape, dtype=torch.complex128, device=exact_place(image.device))
        with bar("residuals", found.numel(), self.progress) as progress:
            for channel in range(len(image)):
                rows = slice(channel, channel + 1)
                sky = self.seen_exactly(image[rows], rows)

                def put(at: slice, rows: slice = rows, sky: Tensor = sky) -> None:
                    found[rows, at] = self.compare(sky, at, rows)[3]

                self.chunk = stream(self.nvis, self.chunk, put, progress.update)
        return found

    def compare(self, sky: Tensor, at: slice, rows: slice) -> tuple[Array, Array, Tensor, Tensor, Tensor | None]:
        """Read a part of a channel, and take from its data what a sky as seen through the beam explains."""
        u, v = (row(part, rows.start, at) for part in (self.u, self.v))
        weight, residual, factor = self.read(at, rows)
        if sky.any():
            vis = at_once(to_modes(sky, self.cell_size), u, v, self.cell_size, None, EXACT)
            residual -= vis if factor is None else vis * factor
        return u, v, weight, residual, factor

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
        weight = self.weight if self.weight.ndim == 1 else self.weight[rows]
        factor = self.factor if self.factor is None or self.factor.ndim == 1 else self.factor[rows]
        weight, data, factor = read_part(weight, self.data[rows], factor, at)
        return weight.to(place), data.to(place), None if factor is None else factor.to(place)

    def parts(self) -> Iterator[slice]:
        """Cut the visibilities of all channels together into chunks."""
        return pieces(self.nvis, len(self.data), self.chunk)

    @property
    def alike(self) -> bool:
        """Whether all channels share baselines, weights and factors."""
        return all(part is None or part.ndim == 1 for part in (self.u, self.weight, self.factor))

    @property
    def nvis(self) -> int:
        """The number of visibilities of a channel."""
        return int(self.data.shape[-1])


def centre_on_loaded(likelihood: ExactLikelihood, _incompatible_keys: object) -> None:
    """Make what belongs to a reference that was loaded from a file."""
    likelihood.recentre(likelihood.reference)


def through(beam: Tensor | None, sky: Tensor) -> Tensor:
    """Multiply by the primary beam, if there is one."""
    return sky if beam is None else sky * beam


class ChiSquared(torch.autograd.Function):
    """chi² and its gradient from one response."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, likelihood: ExactLikelihood) -> Tensor:
        """Keep half of the gradient, Tδ − R, which the value needs as well."""
        delta = image - likelihood.reference
        slope = likelihood.respond(delta) - likelihood.dirty
        ctx.save_for_backward(image, slope)
        ctx.likelihood = likelihood
        return likelihood.c0 + dot(delta, slope - likelihood.dirty)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Scale the gradient that is there already."""
        image, slope = ctx.saved_tensors
        slope = Slope.apply(image, slope, ctx.likelihood)  # type: ignore[no-untyped-call]
        return (2 * grad).to(slope.dtype)[:, None, None] * slope, None


class Slope(torch.autograd.Function):
    """Tδ − R of an image, made before; its own derivative is T, for second derivatives of chi²."""

    @staticmethod
    def forward(ctx: Any, _image: Tensor, slope: Tensor, likelihood: ExactLikelihood) -> Tensor:
        """Hand on what is known."""
        ctx.likelihood = likelihood
        return slope.view_as(slope)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Apply T, which is its own transpose."""
        return ctx.likelihood.respond(grad), None, None


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Multiply and add up the pixels of each channel, in float64 where the device has it."""
    kind = sum_type(a.device)
    return (a.to(kind) * b.to(kind)).sum((-2, -1))


def sum_type(device: torch.device) -> torch.dtype:
    """Choose what to sum in: float64 where the device has it."""
    return torch.float64 if exact_place(device) == device else torch.float32


def row(values: Array | None, channel: int, at: slice) -> Array:
    """Take a part of what a channel has, alone or together with all others."""
    assert values is not None
    return values[at] if values.ndim == 1 else values[channel, at]
