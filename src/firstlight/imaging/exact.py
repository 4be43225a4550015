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

from firstlight.imaging.nufft import (
    CHUNK,
    Array,
    adjoint,
    check_baselines,
    check_npix,
    chunks,
    sums_of_cosines,
    to_tensor,
    visibilities,
)
from firstlight.imaging.padding import check_width, fast_width, spread, transfer


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
    width
        The width of the padded grid: at least ``2 * npix - 1``; by default a width from there on that FFTs like.

    Examples
    --------
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
        width: int | None = None,
    ) -> None:
        super().__init__()
        check_npix(npix)
        self.data = data if data.ndim > 1 else data[None]
        nchan, self.nvis = map(int, self.data.shape)
        self.u, self.v = check_baselines(u, v, nchan, self.nvis)
        self.weight = check_rows("weight", weight, nchan, self.nvis)
        self.factor = None if factor is None else check_rows("factor", factor, nchan, self.nvis)
        self.cell_size, self.npix, self.chunk = cell_size, npix, chunk
        self.channels_at_once = channels_at_once or nchan
        self.width = fast_width(2 * npix - 1) if width is None else check_width(width, npix)
        self.exact_beam = None if beam is None else check_beam(to_tensor(beam, torch.float64), nchan, npix)
        self.register_buffer("reference", torch.zeros(nchan, npix, npix, dtype=dtype, device=device))
        for at in self.parts():
            check_values(to_tensor(self.weight[..., at], torch.float64), self.read(at)[1])
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
        seen = through(self.beam, image)
        at_once = chunks(len(seen), self.channels_at_once)
        parts = [spread(seen[at], self.kernel[at] if len(self.kernel) > 1 else self.kernel) for at in at_once]
        out = torch.cat(parts) if len(parts) > 1 else parts[0]
        return through(self.beam, out)

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

    @torch.no_grad()
    def residuals(self, image: Tensor | None = None) -> Tensor:
        """Give D − V of an image, by default of the reference, for every visibility, in complex128."""
        sky = self.seen_exactly(self.reference if image is None else image)
        return torch.cat([self.read(at)[1] - self.model(sky, at) for at in self.parts()], dim=-1)

    def replace_data(self, data: Array) -> None:
        """Take new data of the same shape, baselines and weights: the kernel stays."""
        data = data if data.ndim > 1 else data[None]
        if tuple(data.shape) != tuple(self.data.shape):
            raise ValueError(f"The new data have shape {tuple(data.shape)}, and should have {tuple(self.data.shape)}.")
        self.data = data
        for at in self.parts():
            check_values(to_tensor(self.weight[..., at], torch.float64), self.read(at)[1])
        self.recentre(self.reference)

    # Below: what is made from the visibilities, in float64.

    def rebuild(self) -> None:
        """Make kernel, residuals and the beam's working copy for the type and the place of the reference."""
        like = self.reference
        beam = None if self.exact_beam is None else self.exact_beam.to(like.dtype).to(like.device)
        self.register_buffer("beam", beam, persistent=False)
        kernel = transfer(self.point_spread(), self.width).to(like.dtype).to(like.device)
        self.register_buffer("kernel", kernel, persistent=False)
        self.recentre(like)

    def point_spread(self) -> Tensor:
        """Sum w|g|² cos 2π(uΔl + vΔm) cell⁴ for all distances of two pixels, −npix to npix − 1 along each axis.

        Channels that share baselines, weights and factors share one.
        """
        alike = all(part is None or part.ndim == 1 for part in (self.u, self.weight, self.factor))
        total = torch.zeros(1 if alike else len(self.data), 2 * self.npix, 2 * self.npix, dtype=torch.float64)
        for at in self.parts():
            weight, _, factor = self.read(at)
            power = weight if factor is None else weight * factor.abs() ** 2
            cosines = sums_of_cosines(
                power[: len(total)], self.u[..., at], self.v[..., at], self.cell_size, 2 * self.npix
            )
            total += cosines.cpu()
        return total * self.cell_size**4

    def sums_about(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Sum Σ w|r|² for each channel, and R = AᵀWr for each pixel."""
        sky = self.seen_exactly(image)
        c0, dirty = sky.new_zeros(len(sky)), torch.zeros_like(sky)
        for at in self.parts():
            weight, data, factor = self.read(at)
            residual = data - self.model(sky, at)
            c0 += (weight * residual.abs() ** 2).sum(-1)
            back = weight * residual if factor is None else weight * residual * factor.conj()
            dirty += adjoint(back, self.u[..., at], self.v[..., at], self.cell_size, self.npix)
        return c0, self.seen_exactly(dirty)

    def model(self, sky: Tensor, at: slice) -> Tensor:
        """Predict a part of the visibilities of a sky as seen through the beam."""
        vis = visibilities(sky, self.u[..., at], self.v[..., at], self.cell_size)
        return vis if self.factor is None else vis * to_tensor(self.factor[..., at], torch.complex128).to(vis.device)

    def seen_exactly(self, sky: Tensor) -> Tensor:
        """Multiply by the beam in float64, where there is float64."""
        sky = to_tensor(sky, torch.float64)
        return through(None if self.exact_beam is None else self.exact_beam.to(sky.device), sky)

    def read(self, at: slice) -> tuple[Tensor, Tensor, Tensor | None]:
        """Read weights, data and factors of a part; data without weight are 0, whatever they were."""
        place = "cpu" if self.reference.device.type == "mps" else self.reference.device
        weight = to_tensor(self.weight[..., at], torch.float64).to(place).expand(len(self.data), -1)
        data = to_tensor(self.data[:, at], torch.complex128).to(place)
        factor = None if self.factor is None else to_tensor(self.factor[..., at], torch.complex128).to(place)
        return weight, torch.where(weight == 0, 0, data), factor

    def parts(self) -> Iterator[slice]:
        """Cut the visibilities into chunks."""
        return chunks(self.nvis, self.chunk)

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
    """Choose what to sum in: Apple's GPUs have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def through(beam: Tensor | None, sky: Tensor) -> Tensor:
    """Multiply by the primary beam, if there is one."""
    return sky if beam is None else sky * beam


def check_rows(name: str, values: Array, nchan: int, nvis: int) -> Array:
    """Refuse numbers that do not fit the visibilities."""
    if tuple(values.shape) not in ((nvis,), (nchan, nvis)):
        raise ValueError(f"{name} has shape {tuple(values.shape)}, and should have ({nvis},) or ({nchan}, {nvis}).")
    return values


def check_beam(beam: Tensor, nchan: int, npix: int) -> Tensor:
    """Refuse a beam that does not fit the image."""
    if tuple(beam.shape) not in ((npix, npix), (1, npix, npix), (nchan, npix, npix)):
        raise ValueError(
            f"beam has shape {tuple(beam.shape)}, and should have ({npix}, {npix}) or ({nchan}, {npix}, {npix})."
        )
    return beam


def check_values(weight: Tensor, data: Tensor) -> None:
    """Refuse weights that are no weights, and data that would make chi² NaN."""
    bad = int((~weight.isfinite() | (weight < 0)).sum())
    if bad:
        raise ValueError(f"{bad} weights are negative or not finite: set the weight of flagged visibilities to 0.")
    lost = int((~data.isfinite()).sum())
    if lost:
        raise ValueError(f"{lost} visibilities with a weight are not finite: set their weight to 0.")
