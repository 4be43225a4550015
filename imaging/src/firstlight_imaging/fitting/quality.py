"""The quality of an image: whether its residuals are noise, no more and no less, and its flux that of the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from firstlight_imaging._types import Mask, Real
from firstlight_imaging.coordinates import packed_to_sky, sky_to_packed
from firstlight_imaging.data.datasets import GriddedDataset
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.fourier.nufft import to_tensor, visibilities

ImageVerdict = Literal[
    "converged",
    "over-fitted",
    "not converged",
    "limited by calibration",
    "limited by artefacts",
    "not calibrated",
    "doubtful",
]

#: The verdicts on an image whose residuals are not noise: nothing is known of its errors.
LIMITED: tuple[ImageVerdict, ...] = ("limited by calibration", "limited by artefacts", "not calibrated")
SOURCE_FLOOR = 0.05  # of the brightest pixel: what is above it is the source, if no mask says where it is
_BEAM_PIXELS = 12  # pixels of a beam, about, at three cells for the finest fringe
MAX_SIGMA = 5.0  # of a residual, and of chi² from 1
_MIN_RMS, _MAX_RMS = 0.8, 1.25  # of the residuals, in units of the noise
_FLUX_TOLERANCE, _FLUX_SIGMA = 0.1, 4.0  # of the flux, plus σ: how far the shortest baselines may disagree
EXCESS = 1.3  # times what the shortest baselines see: artefacts of a limited image have become flux
_MIN_DIFFERENCE = 0.03  # of the flux, that is worth a word
_MAX_MASK = 0.9  # of the field: what is beside it tells too little
MAX_MAP_NOISE = 1.5  # of the residuals beside the source, in units of the noise
_NORMAL_MEDIAN = 0.6745  # of |x|, where x is normal, in σ
_MIN_SHORT_SHARE = 0.3  # of the flux, that an image has on the shortest baselines, for its shape to tell the rest
_PARTS = 8  # of the shortest baselines, each of which is left out once
_MAX_BIAS = 0.1  # chi² that averaging in cells may add


class Fault(NamedTuple):
    """What is wrong with an image, and what to do about it.

    Examples
    --------
    >>> Fault("doubtful", "the flux is not what the shortest baselines see").verdict
    'doubtful'
    """

    verdict: ImageVerdict
    text: str


@dataclass(frozen=True)
class Measured:
    """Residuals and flux of an image, before they are judged; of several channels, of the worst.

    Attributes
    ----------
    chi2, count
        The reduced chi², and of how many visibilities or cells.
    inside, outside
        The rms of the residuals' dirty image in the source, and beside it, in units of its noise: 1 is right.
    largest
        The largest residual, in σ.
    flux, short_flux, short_error
        In Jy: of the image; as fitted to the shortest baselines, for a source with the shape of what is brighter than a
        twentieth of the image's peak; one σ of that, of noise or of how far parts of these baselines disagree.
    beams
        How many the source covers; of few, the residuals may be off by chance.
    dynamic_range
        The peak of the restored image over the residuals, where calibration limits it; else NaN.

    Examples
    --------
    >>> measured = Measured(1.01, 40_000, inside=1, outside=1, largest=4, flux=0.4, short_flux=0.2, short_error=0.01)
    >>> round(measured.chi2_off), measured.has_excess
    (2, True)
    """

    chi2: float
    count: float
    inside: float
    outside: float
    largest: float
    flux: float
    short_flux: float
    short_error: float
    beams: float = math.inf
    dynamic_range: float = math.nan

    @property
    def chi2_off(self) -> float:
        """How many σ the reduced chi² is from 1."""
        return (self.chi2 - 1) * math.sqrt(self.count)

    @property
    def has_excess(self) -> bool:
        """Whether the image has far more flux than the shortest baselines see."""
        return self.flux > EXCESS * self.short_flux

    @property
    def disagrees(self) -> bool:
        """Whether the image's flux is not what the shortest baselines see."""
        tolerance = _FLUX_TOLERANCE * abs(self.short_flux) + _FLUX_SIGMA * self.short_error
        return abs(self.flux - self.short_flux) > tolerance


@dataclass(frozen=True)
class Quality(Measured):
    """What residuals and flux say of an image.

    Attributes
    ----------
    faults
        The verdict and a text for each thing that is wrong; empty if nothing is. What was measured, such as ``chi2``
        and ``flux``, `Measured` explains.

    Examples
    --------
    >>> quality = assess(Measured(1.001, 100_000, 0.97, 1.0, 4.1, 0.2, 0.21, 0.01))
    >>> quality.verdict, round(quality.chi2_off, 2)
    ('converged', 0.32)
    >>> print(assess(Measured(0.97, 100_000, 0.2, 0.9, 3.9, 0.44, 0.2, 0.01)))
    reduced chi²: 0.97, -9.5 σ from 1
    residuals: 0.20 times the expected noise in the source, 0.90 times beside it, 3.9 σ at most
    flux: 0.44 Jy; the shortest baselines see 0.2 ± 0.01 Jy, if only its bright parts are real: ... 0.24 Jy (120%) more
    over-fitted: the residuals are quieter than noise: check the weights, or take a larger λ
    doubtful: the flux is not what the shortest baselines see: take a narrower field
    """

    faults: tuple[Fault, ...] = ()

    @property
    def verdict(self) -> ImageVerdict:
        """``converged`` if nothing is wrong; else its first fault; `ImageVerdict` lists them."""
        return self.faults[0].verdict if self.faults else "converged"

    def __str__(self) -> str:
        """Return a summary of a few lines."""
        lines = [
            f"reduced chi²: {self.chi2:.4g}, {self.chi2_off:+.1f} σ from 1",
            f"residuals: {self.inside:.2f} times the expected noise in the source, {self.outside:.2f} times beside it, "
            f"{self.largest:.1f} σ at most",
        ]
        if self.verdict != "not calibrated":
            # Where gains are off, or the image, its scatter says nothing of how far it is from the truth.
            error = "" if self.verdict in LIMITED else f" ± {self.short_error:.1g}"
            seen = f"{self.short_flux:.4g}{error} Jy, if only its bright parts are real"
            lines.append(f"flux: {self.flux:.4g} Jy; the shortest baselines see {seen}{self._difference()}")
        return "\n".join(lines + [f"{fault.verdict}: {fault.text}" for fault in self.faults])

    def _difference(self) -> str:
        """Return what the image has less, or more, than the shortest baselines see, where that is more than noise."""
        missing, share = self.short_flux - self.flux, abs(self.flux / self.short_flux - 1) if self.short_flux else 0.0
        if share < _MIN_DIFFERENCE or not abs(missing) > _FLUX_SIGMA * self.short_error:
            return ""
        amount = f"{abs(missing):.2g} Jy ({share:.0%})"
        return f": the image misses {amount} of that" if missing > 0 else f": the image has {amount} more"


def assess(
    measured: Measured,
    *,
    cause: Fault | None = None,
    bias: float = 0.0,
    loud: str = "take more steps or a smaller λ; if neither helps, check_weights",
    quiet: str = "check the weights, or take a larger λ",
) -> Quality:
    """Return the quality that such numbers mean.

    If residuals are larger than noise, a known ``cause`` is told, or else what to do if they are so ``loud``; there is
    other advice where they are ``quiet``, smaller than noise.
    """
    off, inside = measured.chi2_off, measured.inside
    rms_scatter = MAX_SIGMA / math.sqrt(2 * max(1, min(measured.beams, measured.count)))
    faults: list[Fault] = []
    if cause:
        faults.append(cause)
    elif off < -MAX_SIGMA or inside < min(_MIN_RMS, 1 - rms_scatter):
        faults.append(Fault("over-fitted", f"the residuals are quieter than noise: {quiet}"))
    if not cause and (inside > max(_MAX_RMS, 1 + rms_scatter) or measured.largest > MAX_SIGMA or off > MAX_SIGMA):
        faults.append(Fault("not converged", f"the residuals are larger than noise: {loud}"))
    if measured.disagrees and not (cause and cause.verdict == "not calibrated"):
        cure = "" if cause else ": take a narrower field"
        faults.append(Fault("doubtful", f"the flux is not what the shortest baselines see{cure}"))
    if bias > _MAX_BIAS:
        averages = f"averages in cells add {bias:.2g} to the chi² of the true sky"
        faults.append(Fault("doubtful", f"{averages}: take more pixels, or ExactLikelihood"))
    return Quality(**vars(measured), faults=tuple(faults))


def assess_image(sky: Tensor, data: GriddedDataset | ExactLikelihood, chi2: float, count: float) -> Quality:
    """Return the quality of an image, (nchan, npix, npix) in sky order.

    Parameters
    ----------
    sky
        The image.
    data
        Averages in cells, or an exact likelihood.
    chi2, count
        Its reduced chi², and of how many visibilities or cells.

    Examples
    --------
    >>> u, dark = np.array([1e5, 3e5, 6e5]), torch.zeros(1, 16, 16)
    >>> data = ExactLikelihood(u, u[::-1], np.zeros(3, complex), np.ones(3), cell_size=0.1, npix=16)
    >>> assess_image(dark, data, chi2=0.0, count=3).verdict
    'converged'
    """
    coords = data.coords
    residual = residual_image(sky, data)
    image = sky.detach().cpu().double().numpy()
    source = image > SOURCE_FLOOR * image.max(axis=(1, 2), keepdims=True)
    fluxes = [
        (float(one.sum()) * coords.cell_size**2, *short_baseline_flux(one * bright, data, channel))
        for channel, (one, bright) in enumerate(zip(image, source, strict=True))
    ]
    worst = max(fluxes, key=lambda f: abs(f[0] - f[1]) / (_FLUX_TOLERANCE * abs(f[1]) + _FLUX_SIGMA * f[2]))
    inside, outside, largest = rms(residual[source]), rms(residual[~source]), float(np.abs(residual).max())
    measured = Measured(chi2, count, inside, outside, largest, *worst, beams=source.sum() / _BEAM_PIXELS)
    return assess(measured, bias=getattr(data, "bias", math.nan))


def rms(values: Real) -> float:
    """Return the root mean square; of nothing, 1."""
    return float(np.sqrt((values**2).mean())) if values.size else 1.0


def map_noise(residual: Real, mask: Mask) -> float:
    """Return the noise of a residual map beside the source, from medians; of the whole map, if the mask covers it."""
    beside = residual[~mask] if mask.mean() < _MAX_MASK else residual
    return float(np.median(np.abs(beside - np.median(beside)))) / _NORMAL_MEDIAN


def residual_image(sky: Tensor, data: GriddedDataset | ExactLikelihood) -> Real:
    """Return the dirty image of the residual visibilities, with natural weights, in σ.

    Examples
    --------
    >>> u, dark = np.array([1e5, 3e5, 6e5]), torch.zeros(1, 16, 16)
    >>> data = ExactLikelihood(u, u[::-1], np.zeros(3, complex), np.ones(3), cell_size=0.1, npix=16)
    >>> residual_image(dark, data).any()
    np.False_
    """
    if isinstance(data, GriddedDataset):
        npix = data.coords.npix
        vis = data.coords.cell_size**2 * torch.fft.fft2(sky_to_packed(sky.detach().to(data.weight_indexed.dtype)))
        grid, weight = torch.zeros_like(vis), torch.zeros_like(vis.real)
        grid.view(-1)[data.index] = data.weight_indexed * (data.vis_indexed - vis.reshape(-1)[data.index])
        weight.view(-1)[data.index] = data.weight_indexed
        image = npix**2 * torch.fft.ifft2(grid).real / weight.sum((-2, -1), keepdim=True).sqrt()
        return np.asarray(packed_to_sky(image).cpu().double().numpy())
    with torch.no_grad():
        residual = data.dirty - data.normal_operator(sky.detach() - data.reference)
        point = torch.zeros_like(residual)
        point[:, data.npix // 2, data.npix // 2] = 1
        sigma = data.convolve_with_psf(point)[:, data.npix // 2, data.npix // 2, None, None].sqrt()
        residual = residual if data.beam is None else residual / data.beam.clamp(min=0.1)
    return np.asarray((residual / sigma).cpu().double().numpy())


def short_baseline_flux(source: Real, data: GriddedDataset | ExactLikelihood, channel: int) -> tuple[float, float]:
    """Return a source's flux in Jy and its σ: its shape is fitted to the baselines up to twice the shortest."""
    flux = float(source.sum()) * data.coords.cell_size**2

    def fitted(shape: Real, vis: Real, weight: Real) -> tuple[float, float]:
        shape = shape / (flux or 1)
        power = float((weight * np.abs(shape) ** 2).sum())
        if not power:
            return flux, math.inf
        return float((weight * (vis * shape.conj()).real).sum()) / power, power**-0.5

    return _with_its_scatter(fitted, _short_baselines(source, data, channel))


def short_baseline_amplitude(source: Real, data: GriddedDataset | ExactLikelihood, channel: int) -> tuple[float, float]:
    """Return the same from amplitudes, which no antenna's phase can lower.

    Where the image has little of its flux on these baselines, its shape is no guide, and it is what they see.
    """
    flux = float(source.sum()) * data.coords.cell_size**2

    def seen(shape: Real, vis: Real, weight: Real) -> tuple[float, float]:
        share = math.sqrt((weight * np.abs(shape) ** 2).sum() / (weight.sum() or 1)) / (flux or 1)
        amplitude = math.sqrt(max(0, (weight * np.abs(vis) ** 2).sum() - 2 * len(vis)) / (weight.sum() or 1))
        scale = 1 / share if share > _MIN_SHORT_SHARE else 1.0
        return amplitude * scale, scale * (weight.sum() or math.inf) ** -0.5

    return _with_its_scatter(seen, _short_baselines(source, data, channel))


def _with_its_scatter(
    estimate: Callable[[Real, Real, Real], tuple[float, float]], data: tuple[Real, Real, Real]
) -> tuple[float, float]:
    """Return an estimate, and its σ: of noise or, if that is larger, by the jackknife over parts of the data.

    Parts disagree where gains are wrong, or the shape is.
    """
    flux, noise = estimate(*data)
    if len(data[0]) < _PARTS:
        return flux, noise
    parts = np.array_split(np.arange(len(data[0])), _PARTS)
    others = [estimate(*(np.delete(values, part) for values in data))[0] for part in parts]
    return flux, max(noise, math.sqrt(_PARTS - 1) * float(np.std(others)))


def _short_baselines(source: Real, data: GriddedDataset | ExactLikelihood, channel: int) -> tuple[Real, Real, Real]:
    """Return the visibilities of a source, those of the data, and weights, of baselines up to twice the shortest."""
    u, v, vis, weight = _uv_data(data, channel)
    lengths = np.where((weight > 0) & ((u != 0) | (v != 0)), np.hypot(u, v), np.inf)
    short = np.flatnonzero(lengths <= 2 * lengths.min(initial=np.inf))
    # By direction: so parts of them are of other baselines and times.
    short = short[np.argsort(np.arctan2(v[short], u[short]) % math.pi, kind="stable")]
    model = visibilities(torch.from_numpy(source[None]), u[short], v[short], data.coords.cell_size)[0].numpy()
    return model, vis[short], weight[short]


def _uv_data(data: GriddedDataset | ExactLikelihood, channel: int) -> tuple[Real, Real, Real, Real]:
    """Return u, v, data and weights of a channel: of its cells, or of its visibilities."""
    if isinstance(data, GriddedDataset):
        cell_u, cell_v = (axis.ravel() for axis in data.coords.packed_uv())
        own = data.index // cell_u.size == channel
        cell = (data.index[own] % cell_u.size).cpu().numpy()
        return cell_u[cell], cell_v[cell], data.vis_indexed[own].cpu().numpy(), data.weight_indexed[own].cpu().numpy()
    u, v = (to_tensor(values if values.ndim == 1 else values[channel], torch.float64) for values in (data.u, data.v))
    weight, vis, _ = data.read(slice(None), slice(channel, channel + 1))
    return u.cpu().numpy(), v.cpu().numpy(), vis[0].cpu().numpy(), weight[0].cpu().numpy()
