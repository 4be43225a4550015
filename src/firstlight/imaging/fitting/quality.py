"""How good an image is: whether what it leaves is noise, no more and no less, and whether its flux is what is seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from firstlight.imaging._types import Array
from firstlight.imaging.coordinates import GridCoords, packed_to_sky, sky_to_packed
from firstlight.imaging.data.datasets import GriddedDataset
from firstlight.imaging.fitting.exact import ExactLikelihood
from firstlight.imaging.fourier.nufft import to_tensor, visibilities

Verdict = Literal["settled", "over-fitted", "not converged", "doubtful"]

BRIGHT = 0.05  # of the brightest pixel: what is above it is the source, if nobody says where it is
LOBE = 12  # pixels of a beam, about, at three cells for the finest fringe
SURE = 5.0  # σ
QUIET, LOUD = 0.8, 1.25  # of the noise: what residuals may be at least and at most
FLUX_OFF, FLUX_SURE = 0.1, 4.0  # of the flux, and σ: how far the shortest baselines may disagree
BIASED = 0.1  # chi² that averages in cells may add


@dataclass(frozen=True)
class Quality:
    """What residuals and flux say of an image; of several channels, of the one that is worst off.

    Attributes
    ----------
    chi2, chi2_off
        The reduced chi², and how many σ it is from 1.
    inside, outside
        The rms of the residuals' dirty image in the source, and beside it, in units of its noise: 1 is right.
    largest
        The largest residual, in σ.
    flux, short_flux, short_error
        In Jy: of the image; what the shortest baselines say that it is, if its source has the shape of what is brighter
        than a twentieth of its peak; one σ.
    faults
        What is wrong, and what to do; empty if nothing is.

    Examples
    --------
    >>> quality = judged(1.001, 100_000, 0.97, 1.0, 4.1, (0.2, 0.21, 0.01))
    >>> quality.verdict, round(quality.chi2_off, 2)
    ('settled', 0.32)
    >>> print(judged(0.97, 100_000, 0.2, 0.9, 3.9, (0.44, 0.2, 0.01)))
    reduced chi² 0.97 (-9.5 σ from 1); residuals 0.20 of the noise in the source, 0.90 beside it, 3.9 σ at most
    flux 0.44 Jy; the shortest baselines see 0.2 ± 0.01 Jy
    over-fitted: the residuals are quieter than noise: take a larger λ, or a smaller field
    doubtful: the flux is not what the shortest baselines see: take a narrower field
    """

    chi2: float
    chi2_off: float
    inside: float
    outside: float
    largest: float
    flux: float
    short_flux: float
    short_error: float
    faults: tuple[tuple[Verdict, str], ...]

    @property
    def verdict(self) -> Verdict:
        """``settled`` if nothing is wrong; else its first fault: over-fitted, not converged or doubtful."""
        return self.faults[0][0] if self.faults else "settled"

    def __str__(self) -> str:
        lines = [
            f"reduced chi² {self.chi2:.5g} ({self.chi2_off:+.1f} σ from 1); residuals {self.inside:.2f} of the noise "
            f"in the source, {self.outside:.2f} beside it, {self.largest:.1f} σ at most",
            f"flux {self.flux:.4g} Jy; the shortest baselines see {self.short_flux:.4g} ± {self.short_error:.1g} Jy",
        ]
        return "\n".join(lines + [f"{verdict}: {said}" for verdict, said in self.faults])


def judged(
    chi2: float,
    count: float,
    inside: float,
    outside: float,
    largest: float,
    fluxes: tuple[float, float, float],
    *,
    beams: float = math.inf,
    bias: float = 0.0,
) -> Quality:
    """Say what is wrong with such numbers; those of few visibilities, or of few beams, may be off by chance."""
    off = (chi2 - 1) * math.sqrt(count)
    chance = SURE / math.sqrt(2 * max(1, min(beams, count)))
    flux, short, error = fluxes
    faults: list[tuple[Verdict, str]] = []
    if off < -SURE or inside < min(QUIET, 1 - chance):
        faults.append(("over-fitted", "the residuals are quieter than noise: take a larger λ, or a smaller field"))
    if inside > max(LOUD, 1 + chance) or largest > SURE or off > SURE:
        said = "the residuals are larger than noise: take more steps or a smaller λ; if neither helps, check_weights"
        faults.append(("not converged", said))
    if abs(flux - short) > FLUX_OFF * abs(short) + FLUX_SURE * error:
        faults.append(("doubtful", "the flux is not what the shortest baselines see: take a narrower field"))
    if bias > BIASED:
        said = f"averages in cells add {bias:.2g} to the chi² of the true sky: take more pixels, or an ExactLikelihood"
        faults.append(("doubtful", said))
    return Quality(chi2, off, inside, outside, largest, flux, short, error, tuple(faults))


def quality_of(sky: Tensor, data: GriddedDataset | ExactLikelihood, chi2: float, count: float) -> Quality:
    """Judge an image, (nchan, npix, npix) in sky order, of a reduced chi² over so many visibilities or cells.

    Examples
    --------
    >>> u, dark = np.array([1e5, 3e5, 6e5]), torch.zeros(1, 16, 16)
    >>> data = ExactLikelihood(u, u[::-1], np.zeros(3, complex), np.ones(3), cell_size=0.1, npix=16)
    >>> quality_of(dark, data, chi2=0.0, count=3).verdict
    'settled'
    """
    coords = data.coords if isinstance(data, GriddedDataset) else GridCoords(data.cell_size, data.npix)
    residual = residual_of(sky, data)
    image = sky.detach().cpu().double().numpy()
    source = image > BRIGHT * image.max(axis=(1, 2), keepdims=True)
    fluxes = [
        (float(one.sum()) * coords.cell_size**2, *short_flux(one * bright, data, coords, channel))
        for channel, (one, bright) in enumerate(zip(image, source, strict=True))
    ]
    worst = max(fluxes, key=lambda seen: abs(seen[0] - seen[1]) / (FLUX_OFF * abs(seen[1]) + FLUX_SURE * seen[2]))
    inside, outside = rms(residual[source]), rms(residual[~source])
    bias = getattr(data, "bias", math.nan)
    largest, beams = float(np.abs(residual).max()), source.sum() / LOBE
    return judged(chi2, count, inside, outside, largest, worst, beams=beams, bias=bias)


def rms(values: Array) -> float:
    """Take the root of the mean square; of nothing, 1."""
    return float(np.sqrt((values**2).mean())) if values.size else 1.0


def residual_of(sky: Tensor, data: GriddedDataset | ExactLikelihood) -> Array:
    """Image what a sky leaves of the data, with natural weights, in σ."""
    if isinstance(data, GriddedDataset):
        npix = data.coords.npix
        vis = data.coords.cell_size**2 * torch.fft.fft2(sky_to_packed(sky.detach().to(data.weight_indexed.dtype)))
        grid, weight = torch.zeros_like(vis), torch.zeros_like(vis.real)
        grid.view(-1)[data.index] = data.weight_indexed * (data.vis_indexed - vis.reshape(-1)[data.index])
        weight.view(-1)[data.index] = data.weight_indexed
        image = npix**2 * torch.fft.ifft2(grid).real / weight.sum((-2, -1), keepdim=True).sqrt()
        return np.asarray(packed_to_sky(image).cpu().double().numpy())
    with torch.no_grad():
        left = data.dirty - data.respond(sky.detach() - data.reference)
        point = torch.zeros_like(left)
        point[:, data.npix // 2, data.npix // 2] = 1
        unit = data.convolve(point)[:, data.npix // 2, data.npix // 2, None, None].sqrt()
        seen = left if data.beam is None else left / data.beam.clamp(min=0.1)
    return np.asarray((seen / unit).cpu().double().numpy())


def short_flux(
    source: Array, data: GriddedDataset | ExactLikelihood, coords: GridCoords, channel: int
) -> tuple[float, float]:
    """Fit the flux of a source, of known shape, to the baselines up to twice the shortest: in Jy, and one σ of it."""
    u, v, seen, weight = measured(data, channel)
    lengths = np.where((weight > 0) & ((u != 0) | (v != 0)), np.hypot(u, v), np.inf)
    near = lengths <= 2 * lengths.min(initial=np.inf)
    flux = float(source.sum()) * coords.cell_size**2
    shape = visibilities(torch.from_numpy(source[None]), u[near], v[near], coords.cell_size)[0].numpy() / (flux or 1)
    power = float((weight[near] * np.abs(shape) ** 2).sum())
    if not power:
        return flux, math.inf
    return float((weight[near] * (seen[near] * shape.conj()).real).sum()) / power, power**-0.5


def measured(data: GriddedDataset | ExactLikelihood, channel: int) -> tuple[Array, Array, Array, Array]:
    """Give u, v, data and weights of a channel: of its cells, or of its visibilities."""
    if isinstance(data, GriddedDataset):
        of_u, of_v = (axis.ravel() for axis in data.coords.packed_uv())
        here = data.index // of_u.size == channel
        cell = (data.index[here] % of_u.size).cpu().numpy()
        return of_u[cell], of_v[cell], data.vis_indexed[here].cpu().numpy(), data.weight_indexed[here].cpu().numpy()
    u, v = (to_tensor(values if values.ndim == 1 else values[channel], torch.float64) for values in (data.u, data.v))
    weight, seen, _ = data.read(slice(None), slice(channel, channel + 1))
    return u.cpu().numpy(), v.cpu().numpy(), seen[0].cpu().numpy(), weight[0].cpu().numpy()
