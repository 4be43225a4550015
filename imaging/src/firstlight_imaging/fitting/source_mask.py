"""Where the source is: the mask, outside of which an image stays dark."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.ndimage import binary_propagation
from torch.nn.functional import max_pool2d

from firstlight_imaging._types import Mask, Real
from firstlight_imaging.calibration.gains import chi2_of_gains
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.fitting.imaging_problem import (
    ImagingProblem,
    hann_smooth,
    model_visibilities,
    softplus_pixels,
)
from firstlight_imaging.fitting.quality import MAX_MAP_NOISE, map_noise
from firstlight_imaging.fourier.beams import Beam, convolve
from firstlight_imaging.fourier.padding import fast_fft_size
from firstlight_imaging.units import ARCSEC

_TV_STRENGTH_MASK = 4.0  # of the fits for the mask, as `TV_STRENGTH` is of the image
_MASK_PASSES = 3
_MASK_SCALES = (0, 2, 4, 8)  # beams, by which an image is smoothed to see what is faint and wide
_WORTH = 0.95  # of the chi² of the best gains: more than that, and a wider mask is not worth it
_SKEW = 1.5  # times as high as the deepest hole is a residual that is no artefact: these are as often negative
DETECTION_THRESHOLD, _EDGE_THRESHOLD = 5.0, 2.5  # σ: what is a source, and how far down its mask reaches
_PEAK_THRESHOLD = 0.05  # of the brightest pixel, below which nothing is taken for the edge of the source
_BRIGHT_SOURCE = 30.0  # σ: beside a brighter source, wide emission is looked for in the residuals only


def find_source(problem: ImagingProblem, beam: Beam, vis: Visibilities) -> tuple[Mask, float]:
    """Return where the source is, and the noise of the residuals beside it, in σ: 1, or more for wrong gains.

    The source is looked for in the dirty image, then in fits in the mask plus their residuals. Where these are louder
    than noise, positive pixels may turn the artefacts of wrong gains into flux, so there a wider mask must fit better
    whatever the gains are.
    """
    mask = np.zeros((problem.coords.npix, problem.coords.npix), bool)
    before, grown, noise, least = mask, mask, 1.0, None
    for attempt in range(_MASK_PASSES):
        model, residual = _fit_in(problem, mask, f"where the source is, {attempt} of {_MASK_PASSES - 1}")
        if attempt and (noise := map_noise(residual, mask)) > MAX_MAP_NOISE:
            unexplained = _chi2_of_gains(vis, model, problem.coords)
            if least is not None and not unexplained < _WORTH * least:
                before = grown
                break
            least, grown = unexplained, mask
            if residual.max() > -_SKEW * residual.min():
                grown = _grow_mask(problem, beam, residual, model, mask, _MASK_SCALES[:1])
        before, mask = mask, _grow_mask(problem, beam, residual, model, mask)
        if not mask.any():
            break
    return (before, noise) if noise > MAX_MAP_NOISE else (mask, 1.0)


def noise_beside(problem: ImagingProblem, mask: Mask) -> float:
    """Return the noise of the residuals beside a source whose mask is known, in σ: 1, or more for wrong gains."""
    noise = map_noise(_fit_in(problem, mask, "noise beside the mask")[1], mask)
    return noise if noise > MAX_MAP_NOISE else 1.0


def _fit_in(problem: ImagingProblem, mask: Mask, what: str) -> tuple[Real, Real]:
    """Return a fit in a mask, dark if that is empty, and its residual image, both in σ."""
    pixels = torch.zeros((1, *mask.shape), device=problem.device)
    if mask.any():
        likelihood = problem.likelihood_of(problem.vis.data, problem.inverse_hann)
        parameters = problem.fit(likelihood, problem.initial_parameters(mask, 1), _TV_STRENGTH_MASK, what)
        pixels = softplus_pixels(parameters)
    return hann_smooth(pixels)[0].cpu().double().numpy(), problem.residual_image(pixels)


def _chi2_of_gains(vis: Visibilities, model: Real, coords: GridCoords) -> float:
    """Return the chi² that no phases of antennas explain; infinite if nobody knows which antennas saw what."""
    return chi2_of_gains(vis, model_visibilities(model, vis, coords)) if vis.antennas.any() else math.inf


def _grow_mask(
    problem: ImagingProblem,
    beam: Beam,
    residual: Real,
    model: Real,
    before: Mask,
    scales: Sequence[int] = _MASK_SCALES,
) -> Mask:
    """Return the mask extended to where the model plus its residuals, in σ, stand out of the noise at any scale."""
    vis, coords = problem.vis, problem.coords
    convolved = convolve(model, coords, beam) / beam.area if before.any() else np.zeros(model.shape)
    mask, highest = before & (model > 1), 0.0
    is_bright = (residual + convolved).max() > _BRIGHT_SOURCE
    beam_width = min(beam.major, 2 * beam.minor)  # of a snapshot, a beam can be long
    for width in (scale * beam_width for scale in scales):
        taper = _gaussian_taper((vis.u**2 + vis.v**2) * ARCSEC**2, width)
        noise = math.sqrt((vis.weight * taper**2).sum() / vis.weight.sum())
        smooth_residual = _gaussian_smooth(residual, coords, width) / noise
        restored = smooth_residual + _gaussian_smooth(convolved, coords, width) / noise
        if width and (is_bright or restored.max() < highest):  # smoothed, a narrow source would be a wide one
            if not before.any():
                break
            restored = smooth_residual
        highest = max(highest, restored.max())
        # No source is negative: what is as faint as the deepest hole may be a sidelobe.
        floor = max(_PEAK_THRESHOLD * restored.max(), -smooth_residual.min())
        detected, region = restored > max(DETECTION_THRESHOLD, floor), restored > max(_EDGE_THRESHOLD, floor)
        mask = mask | binary_propagation(detected, mask=region)
    return _dilate(mask, round(beam_width / coords.cell_size))


def _gaussian_smooth(image: Real, coords: GridCoords, width: float) -> Real:
    """Return an image convolved with a Gaussian of integral 1, its full width at half maximum in arcsec."""
    v, u = np.fft.fftfreq(coords.npix, coords.cell_size), np.fft.rfftfreq(coords.npix, coords.cell_size)
    spectrum = np.fft.rfft2(image) * _gaussian_taper(u[None] ** 2 + v[:, None] ** 2, width)
    return np.asarray(np.fft.irfft2(spectrum, s=image.shape))


def _gaussian_taper(squared: Real, width: float) -> Real:
    """Return the transform of that Gaussian, at squared frequencies in cycles per arcsec."""
    return np.asarray(np.exp(-((math.pi * width) ** 2) / (4 * math.log(2)) * squared))


def _dilate(mask: Mask, pixels: int) -> Mask:
    """Return a mask grown by so many pixels along both axes."""
    values = torch.from_numpy(mask)[None, None].float()
    return np.asarray(max_pool2d(values, 2 * pixels + 1, 1, pixels)[0, 0].bool().numpy())


def crop_to_mask(mask: Mask, coords: GridCoords) -> tuple[tuple[slice, slice], tuple[float, float], GridCoords]:
    """Return the slices of the grid that hold the mask, their centre in arcsec east and north, and their grid."""
    spans = [(int(axis.min()), int(axis.max()) + 1) for axis in np.nonzero(mask)]
    npix = min(fast_fft_size(max(end - start for start, end in spans) + 4), coords.npix)
    first = [min(max((start + end - npix) // 2, 0), coords.npix - npix) for start, end in spans]
    half, cell = coords.npix // 2, coords.cell_size
    north, east = (first[0] + npix // 2 - half) * cell, (half - 1 - (first[1] + npix // 2 - 1)) * cell
    return (slice(first[0], first[0] + npix), slice(first[1], first[1] + npix)), (east, north), GridCoords(cell, npix)
