"""The exact chi² of an image: every visibility counts, and an evaluation costs the same however many there are.

Written about a reference image I₀, with residuals r = D − V(I₀), c₀ = Σ w|r|² and the dirty residual R = AᵀWr,

    chi²(I) = c₀ + δ·(Tδ − 2R),    gradient 2(Tδ − R),    δ = I − I₀.

T = AᵀWA depends on the distance of two pixels only (it is the point-spread function), so that one pair of FFTs on a
grid of twice the width gives both. Differences from I₀ are what makes float32 enough: near I₀ nothing large cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from firstlight_imaging._types import Real
from firstlight_imaging.coordinates import GridCoords, packed_to_sky
from firstlight_imaging.fourier.nufft import (
    CHUNK,
    COARSE_EPS,
    COMPLEX,
    DEFAULT_EPS,
    Array,
    check_baselines,
    cosine_sums,
    float64_device,
    modes_to_sky,
    nufft,
    sky_to_modes,
    to_tensor,
)
from firstlight_imaging.fourier.padding import CACHED, fast_fft_size, fft_convolve, transfer_function
from firstlight_imaging.streaming import chunks, progress_bar

_EXACT_EPS = DEFAULT_EPS[torch.float64]
_MAX_NUMBERS = 1 << 18  # of all channels together, 10 MB with copies: more would be read no faster
_FINER = 4  # times finer than its own is the grid of baselines on which noise is drawn for an image


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
        How many visibilities to read at once: fewer need less memory.
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

    transfer: Tensor  # of the point-spread function
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
        progress: bool | None = None,
    ) -> None:
        super().__init__()
        self.coords, self.chunk, self.progress = GridCoords(cell_size, npix), chunk, progress
        self.cell_size, self.npix = cell_size, npix
        data = data if data.ndim > 1 else data[None]
        self.nchan, self.nvis = nchan, nvis = len(data), int(data.shape[-1])
        self.u, self.v = check_baselines(u, v, nchan, nvis)
        self.weight, self.factor = weight, factor
        self.data = self._checked(data)
        self.width = fast_fft_size(2 * npix - 1)  # of the padded grid, on which nothing wraps around
        if beam is not None and tuple(beam.shape) not in ((npix, npix), (1, npix, npix), (nchan, npix, npix)):
            planes = f"one or {nchan} planes, {npix} pixels wide"
            raise ValueError(f"beam has shape {tuple(beam.shape)}, and should be {planes}")
        self._beam_float64 = None if beam is None else to_tensor(beam, torch.float64)
        reference = torch.zeros(nchan, npix, npix, dtype=dtype, device=device)
        self.register_buffer("reference", reference, persistent=False)
        self._rebuild()

    def forward(self, image: Tensor) -> Tensor:
        """Return chi², summed over the channels; `chi_squared` returns it channel by channel."""
        return self.chi_squared(image).sum()

    def chi_squared(self, image: Tensor) -> Tensor:
        """Return chi² of each channel, in float64, with its gradient."""
        self._check_image(image)
        value: Tensor = _ChiSquared.apply(image, self)  # type: ignore[no-untyped-call]
        return value

    def normal_operator(self, image: Tensor) -> Tensor:
        """Return T applied to an image, AᵀWA: beam, convolution with the point-spread function, and beam again."""
        seen = image if self.beam is None else image * self.beam
        out = self.convolve_with_psf(seen)[..., : self.npix, : self.npix].contiguous()  # no view, which keeps all of it
        return out if self.beam is None else out * self.beam

    def convolve_with_psf(self, image: Tensor) -> Tensor:
        """Return an image convolved with the point-spread function; both may be padded."""
        on_cpu = image.device.type == "cpu"
        channels = max(1, CACHED // (self.npix * self.width)) if on_cpu else max(1, len(image))
        transfer = self.transfer.expand(len(image), -1, -1)
        parts = [fft_convolve(image[at], transfer[at]) for at in chunks(len(image), channels)]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    @torch.no_grad()
    def recentre(self, image: Tensor) -> None:
        """Make an image the reference, by one pass over the visibilities in float64.

        It is rounded to the working type first: δ is then measured from the very image that R belongs to.
        """
        self._check_image(image.to(self.reference.dtype))
        self.reference = image.detach().to(self.reference, copy=True)
        c0, dirty = self._c0_and_dirty_residual(self.reference)
        self.c0 = c0.to(self.reference.device, _sum_dtype(self.reference.device))
        self.register_buffer("dirty", dirty.to(self.reference.dtype).to(self.reference.device), persistent=False)

    @torch.no_grad()
    def needs_recentring(self, image: Tensor) -> bool:
        """Return whether a term of chi² has outgrown chi² itself, so that digits are lost. The host waits for this."""
        self._check_image(image)
        delta = image - self.reference
        quadratic, linear = _dot(delta, self.normal_operator(delta)), 2 * _dot(delta, self.dirty)
        return bool((torch.maximum(quadratic, linear.abs()) > self.c0 + quadratic - linear).any())

    def replace(self, data: Array) -> None:
        """Take other data, of the same baselines and weights: the reference and the point-spread function stay.

        A phase that the data should not have can be taken out of them in this way at any time.

        Examples
        --------
        >>> import numpy as np
        >>> u, v, weight = np.array([0.0, 3e5]), np.array([0.0, 1e5]), np.ones(2)
        >>> likelihood = ExactLikelihood(u, v, np.array([1.0, 0.5j]), weight, cell_size=0.1, npix=8)
        >>> likelihood.replace(np.array([1.0, 1.0]))
        >>> likelihood(torch.zeros(1, 8, 8)).item()
        2.0
        """
        self.data = self._checked(data if data.ndim > 1 else data[None])
        self.recentre(self.reference)

    def _checked(self, data: Array) -> Array:
        """Return data; raise an error if shapes disagree, or if chi² would be NaN."""
        shape = self.nchan, self.nvis
        if tuple(data.shape) != shape:
            raise ValueError(f"The data have shape {tuple(data.shape)}, and should have {shape}.")
        for name, values in (("weight", self.weight), ("factor", self.factor)):
            if values is not None and tuple(values.shape) not in (shape, shape[1:]):
                raise ValueError(f"{name} has shape {tuple(values.shape)}, and should have {shape[1:]} or {shape}.")
        for at in self._chunks_of_all_channels():
            _check_finite(*_read_chunk(self.weight, data, self.factor, at))
        return data

    def _rebuild(self) -> None:
        """Compute the transfer function, the residuals and the beam for the type and the device of the reference."""
        like = self.reference
        if like.dtype not in COMPLEX:
            raise TypeError(f"The likelihood cannot be {like.dtype}: it should be float32 or float64.")
        beam = None if self._beam_float64 is None else self._beam_float64.to(like.dtype).to(like.device)
        self.register_buffer("beam", beam, persistent=False)
        self.register_buffer("transfer", self._transfer_functions(), persistent=False)
        self.recentre(like)

    def _check_image(self, image: Tensor) -> None:
        """Raise an error for an image that would be broadcast or rounded in silence."""
        expected = self.reference
        if image.shape != expected.shape or image.dtype != expected.dtype:
            raise ValueError(
                f"The image must be {expected.dtype} {tuple(expected.shape)}; got {image.dtype} {tuple(image.shape)}"
            )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ExactLikelihood:
        """Move to a device, or convert to another type; the latter rounds the reference, so all is computed anew."""
        before = self.reference.dtype
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.c0 = self.c0.to(self.reference.device, _sum_dtype(self.reference.device))
        if self.reference.dtype != before:
            self._rebuild()
        return self

    # Below: passes over the visibilities, in float64, a chunk of a channel at a time. Nothing is kept of what is read.

    def _transfer_functions(self) -> Tensor:
        """Return the transfer functions of the channels, or a single one if they share baselines and weights."""
        shared = all(part is None or part.ndim == 1 for part in (self.u, self.weight, self.factor))
        nchan = 1 if shared else self.nchan
        transfer = self.reference.new_empty(nchan, self.width // 2 + 1, self.width)
        with progress_bar("point-spread function", nchan * self.nvis, self.progress) as progress:
            for channel in range(nchan):
                transfer[channel] = transfer_function(self._point_spread_function(channel, progress), self.width)[0]
        return transfer

    def _point_spread_function(self, channel: int, progress: tqdm[None]) -> Tensor:
        """Return Σ w|g|² cos 2π(uΔl + vΔm) cell⁴ for all offsets of two pixels, −npix to npix − 1 along each axis."""
        psf = torch.zeros(1, 2 * self.npix, 2 * self.npix, dtype=torch.float64)
        # Errors here change the gradient far from the solution; what a fit ends at is as exact as the residuals.
        eps = COARSE_EPS if self.reference.dtype == torch.float32 else _EXACT_EPS
        for u, v, weight in self._weight_chunks(channel):
            psf.add_(cosine_sums(weight, u, v, self.cell_size, 2 * self.npix, eps).cpu())
            progress.update(len(weight))
        return psf.mul_(self.cell_size**4)

    def _weight_chunks(self, channel: int) -> Iterator[tuple[Array, Array, Tensor]]:
        """Yield u, v and the weights of a channel, times the squares of its factors, of one chunk after another."""
        for at in chunks(self.nvis, self.chunk):
            u, v = (_channel_chunk(part, channel, at) for part in (self.u, self.v))
            weight, _, factor = self.read(at, slice(channel, channel + 1))
            yield u, v, weight[0] if factor is None else weight[0] * factor[0].abs() ** 2

    def _c0_and_dirty_residual(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return c₀ = Σ w|r|² of each channel, and R = AᵀWr at each pixel."""
        device = float64_device(image.device)
        c0 = torch.zeros(len(image), dtype=torch.float64, device=device)
        dirty = torch.zeros(image.shape, dtype=torch.float64, device=device)
        for channel, _, u, v, weight, residual, factor in self._residual_chunks(image):
            c0[channel] += (weight * residual.abs().square_()).sum(-1)
            residual *= weight if factor is None else weight * factor.conj()
            modes = nufft(residual, u, v, self.cell_size, self.npix, _EXACT_EPS)
            dirty[channel] += modes_to_sky(modes, self.cell_size)
        for channel in (slice(k, k + 1) for k in range(len(image))):
            dirty[channel] = self._apply_beam_float64(dirty[channel], channel)
        return c0, dirty

    @torch.no_grad()
    def residuals(self, image: Tensor) -> Tensor:
        """Return the residual visibilities of an image, D − V, in complex128."""
        found = torch.empty(*self.data.shape, dtype=torch.complex128, device=float64_device(image.device))
        for channel, at, _, _, _, residual, _ in self._residual_chunks(image):
            found[channel, at] = residual
        return found

    def _residual_chunks(
        self, image: Tensor
    ) -> Iterator[tuple[slice, slice, Array, Array, Tensor, Tensor, Tensor | None]]:
        """Yield channel, chunk, u, v, weight, residual visibilities and factor of one chunk after another."""
        with progress_bar("residuals", len(image) * self.nvis, self.progress) as progress:
            for k in range(len(image)):
                channel = slice(k, k + 1)
                modes = sky_to_modes(self._apply_beam_float64(image[channel], channel), self.cell_size)
                dark = not modes.any()
                for at in chunks(self.nvis, self.chunk):
                    u, v = (_channel_chunk(part, k, at) for part in (self.u, self.v))
                    weight, residual, factor = self.read(at, channel)
                    if not dark:
                        vis = nufft(modes, u, v, self.cell_size, None, _EXACT_EPS)
                        residual -= vis if factor is None else vis * factor
                    yield channel, at, u, v, weight, residual, factor
                    progress.update(at.stop - at.start)

    def _apply_beam_float64(self, sky: Tensor, channels: slice) -> Tensor:
        """Return some channels times the primary beam in float64, on a device that has it."""
        sky, beam = to_tensor(sky, torch.float64), self._beam_float64
        if beam is None:
            return sky
        return sky * (beam if beam.ndim == 2 or len(beam) == 1 else beam[channels]).to(sky.device)

    def read(self, at: slice, channels: slice = slice(None)) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return weights, data and factors of a chunk; data without a weight are 0, whatever they were."""
        device = float64_device(self.reference.device)
        weight = self.weight if self.weight.ndim == 1 else self.weight[channels]
        factor = self.factor if self.factor is None or self.factor.ndim == 1 else self.factor[channels]
        weight, data, factor = _read_chunk(weight, self.data[channels], factor, at)
        return weight.to(device), data.to(device), None if factor is None else factor.to(device)

    @cached_property
    def counts(self) -> tuple[Real, Real]:
        """How many visibilities of each channel have a weight, and how many cells of the grid they lie in."""
        filled, nvis = np.zeros((self.nchan, self.npix**2), bool), np.zeros(self.nchan)
        for at in self._chunks_of_all_channels():
            weight = self.read(at)[0].cpu().numpy()
            nvis += np.count_nonzero(weight, axis=1)
            u, v = (to_tensor(part[..., at], torch.float64).cpu().numpy() for part in (self.u, self.v))
            cells = np.broadcast_to(self.coords.packed_cells(u, v), weight.shape)
            for channel, (w, cell) in enumerate(zip(weight, cells, strict=True)):
                filled[channel, cell[w > 0]] = True
        return nvis, filled.sum(1).astype(float)

    @torch.no_grad()
    def draw_noise(self, draws: int, seed: int) -> Tensor:
        """Return AᵀWr of so many draws of the noise that the weights state, of the first channel, on a fine grid."""
        fine, random = GridCoords(self.cell_size, _FINER * self.npix), np.random.default_rng(seed)
        power = np.zeros(fine.npix**2)
        for u, v, weight in self._weight_chunks(0):
            cells = fine.packed_cells(*(to_tensor(part, torch.float64).cpu() for part in (u, v)))
            power += np.bincount(cells, weight.cpu().numpy(), len(power))
        sigma = (torch.from_numpy(power).sqrt() * self.cell_size**2).view(fine.npix, fine.npix)
        inside = slice((fine.npix - self.npix) // 2, (fine.npix + self.npix) // 2)
        found = self.reference.new_empty(draws, self.npix, self.npix)
        for draw in found:
            noise = torch.complex(*(sigma * torch.from_numpy(random.standard_normal((2, *sigma.shape)))))
            draw.copy_(packed_to_sky(torch.fft.ifft2(noise, norm="forward").real)[inside, inside])
        return found

    def _chunks_of_all_channels(self) -> Iterator[slice]:
        """Return slices that cut visibilities, of all channels, into chunks that are small beside an image."""
        return chunks(self.nvis, max(1, min(self.chunk, _MAX_NUMBERS) // max(1, self.nchan)))


def _read_chunk(weight: Array, data: Array, factor: Array | None, at: slice) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return weights, data and factors of a chunk in float64; data without a weight are 0, whatever they were."""
    values = to_tensor(data[:, at], torch.complex128)
    weights = to_tensor(weight[..., at], torch.float64).to(values.device).expand(len(values), -1)
    values = torch.where(weights == 0, 0, values)
    if factor is None:
        return weights, values, None
    factors = to_tensor(factor[..., at], torch.complex128).to(values.device)
    return weights, values, torch.where(weights == 0, 0, factors)


def _check_finite(weight: Tensor, data: Tensor, factor: Tensor | None) -> None:
    """Raise an error for weights that are negative, and for what would make chi² NaN."""
    bad = int((~weight.isfinite() | (weight < 0)).sum())
    if bad:
        raise ValueError(f"{bad} weights are negative or not finite: set the weight of flagged visibilities to 0.")
    lost = ~data.isfinite() if factor is None else ~(data.isfinite() & factor.isfinite())
    if lost.any():
        raise ValueError(f"{int(lost.sum())} visibilities, or their factors, are not finite: set their weight to 0.")


class DirtyLikelihood(ExactLikelihood):
    """The chi² of data of which only the dirty image is known: nothing passes over visibilities.

    Parameters
    ----------
    of
        The likelihood of other data of the same baselines and weights, of one channel, without a primary beam.
    reference, dirty
        An image, (n, npix, npix), and AᵀWr of the residuals that it leaves of each of n sets of data.
    c0
        The chi² of that image.

    Examples
    --------
    >>> u, v, weight = np.array([0.0, 3e5]), np.array([0.0, 1e5]), np.ones(2)
    >>> exact = ExactLikelihood(u, v, np.array([1.0, 0.5j]), weight, cell_size=0.1, npix=8)
    >>> dirty = DirtyLikelihood(exact, exact.reference, exact.dirty, exact.c0)
    >>> dirty(torch.zeros(1, 8, 8)).item()
    1.25
    """

    def __init__(self, of: ExactLikelihood, reference: Tensor, dirty: Tensor, c0: Tensor) -> None:
        nn.Module.__init__(self)
        self.coords, self.cell_size, self.npix, self.width = of.coords, of.cell_size, of.npix, of.width
        self.nchan, self._beam_float64, self.beam, self.c0 = len(reference), None, None, c0
        self.counts = of.counts[0].repeat(self.nchan), of.counts[1].repeat(self.nchan)
        for name, values in (("transfer", of.transfer), ("reference", reference), ("dirty", dirty)):
            self.register_buffer(name, values, persistent=False)
        self._of_data = reference, dirty

    @torch.no_grad()
    def recentre(self, image: Tensor) -> None:
        """Make an image the reference."""
        delta = image - self.reference
        dirty = self._dirty_residual(self.reference, self.dirty, image)
        self.c0 = self.c0 - _dot(delta, dirty + self.dirty)
        self.reference, self.dirty = image.detach().clone(), dirty

    @torch.no_grad()
    def add_residuals(self, image: Tensor, times: int) -> None:
        """Add what an image leaves of the data as they were at first to the data as they are, so many times now."""
        self.recentre(image)
        self.dirty = self.dirty + self._dirty_residual(*self._of_data, image)
        self.c0 = self.c0 * (1 + 1 / times) ** 2  # nearly: each fit leaves about as much

    @torch.no_grad()
    def best_fit_scale(self, image: Tensor) -> Tensor:
        """Return the factor by which each image fits the data best, as they were at first."""
        whole = self._dirty_residual(*self._of_data, torch.zeros_like(image))
        squares = (image * self.normal_operator(image)).sum((1, 2), keepdim=True)
        return torch.where(squares > 0, (image * whole).sum((1, 2), keepdim=True) / squares, 1.0)

    def _dirty_residual(self, reference: Tensor, dirty: Tensor, image: Tensor) -> Tensor:
        """Return AᵀWr of an image from that of a reference, by FFTs in float64, for the digits of a bright source."""
        exact = float64_device(image.device), torch.float64
        delta, transfer = image.to(*exact) - reference.to(*exact), self.transfer.to(*exact)
        convolved = torch.cat([fft_convolve(one[None], transfer) for one in delta])[..., : self.npix, : self.npix]
        return (dirty.to(*exact) - convolved).to(dirty)


class _ChiSquared(torch.autograd.Function):
    """chi² and its gradient from one convolution."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, likelihood: ExactLikelihood) -> Tensor:
        """Return chi²; keep half of the gradient, Tδ − R, which the value needs as well."""
        delta = image - likelihood.reference
        half_grad = likelihood.normal_operator(delta) - likelihood.dirty
        ctx.save_for_backward(image, half_grad)
        ctx.likelihood = likelihood
        return likelihood.c0 + _dot(delta, half_grad - likelihood.dirty)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Return the gradient 2(Tδ − R), scaled."""
        image, half_grad = ctx.saved_tensors
        half_grad = _HalfGradient.apply(image, half_grad, ctx.likelihood)  # type: ignore[no-untyped-call]
        return (2 * grad).to(half_grad.dtype)[:, None, None] * half_grad, None


class _HalfGradient(torch.autograd.Function):
    """Tδ − R of an image, computed before; its own derivative is T, for second derivatives of chi²."""

    @staticmethod
    def forward(ctx: Any, _image: Tensor, half_grad: Tensor, likelihood: ExactLikelihood) -> Tensor:
        """Return what is known."""
        ctx.likelihood = likelihood
        return half_grad.view_as(half_grad)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Apply T, which is its own transpose."""
        return ctx.likelihood.normal_operator(grad), None, None


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the scalar product of each channel's pixels, in float64 where the device has it."""
    dtype = _sum_dtype(a.device)
    return (a.to(dtype) * b.to(dtype)).sum((-2, -1))


def _sum_dtype(device: torch.device) -> torch.dtype:
    """Return the type to sum in: float64 where the device has it."""
    return torch.float64 if float64_device(device) == device else torch.float32


def _channel_chunk(values: Array, channel: int, at: slice) -> Array:
    """Return a chunk of a channel's values, which may be those of all channels."""
    return values[at] if values.ndim == 1 else values[channel, at]
