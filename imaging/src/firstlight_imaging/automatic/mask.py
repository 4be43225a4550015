"""Where the source is: the mask, outside of which an image stays dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.ndimage import binary_propagation, maximum_filter

from firstlight_imaging._types import Mask, MaskFunction, Real
from firstlight_imaging.automatic.problem import FieldProblem, hann_smooth, model_visibilities, softplus_pixels
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.fitting.quality import MAX_MAP_NOISE, map_noise
from firstlight_imaging.fourier.beams import convolve
from firstlight_imaging.fourier.padding import fast_fft_size
from firstlight_imaging.gains import chi2_of_gains
from firstlight_imaging.units import ARCSEC

_TV_STRENGTH_MASK = 4.0  # of the fits for the mask, as `TV_STRENGTH` is of the image
_MASK_PASSES = 3
_MASK_SCALES = (0, 2, 4, 8)  # beams, by which an image is smoothed to see what is faint and wide
_WORTH = 0.95  # of the chi² of the best gains: more than that, and a wider mask is not worth it
_AS_DEEP = 0.8  # times the peak of a dirty image is a hole that deserves a word
_POSITIVE = (
    "Phases may be wrong: calibrate them, or image closure quantities (--closures). Or there is absorption, or the "
    "continuum was over-subtracted: pixels here are positive"
)
_SKEW = 1.5  # times as high as the deepest hole is a residual that is no artefact: these are as often negative
_DETECTION_THRESHOLD, _EDGE_THRESHOLD = 5.0, 2.5  # σ: what is a source, and how far down its mask reaches
_PEAK_THRESHOLD = 0.05  # of the brightest pixel, below which nothing is taken for the edge of the source
_COVERED = 0.8  # of a fit, by what narrower beams have seen: a wider one would only blur that
_BRIGHT_SOURCE = 30.0  # σ: beside a brighter source, wide emission is looked for in the residuals only


def mask_of(problem: FieldProblem, given: MaskFunction | None) -> tuple[Mask, float, float]:
    """Return where emission is allowed, the noise beside it in σ: 1, or more for wrong gains; and a fit's chi²."""
    if given is not None:
        mask = np.asarray(given(*problem.coords.sky_coordinates()))
        if mask.dtype != bool or mask.shape != (problem.coords.npix, problem.coords.npix) or not mask.any():
            raise ValueError(
                "mask must return True or False for each pixel of the field, and True somewhere; got "
                f"{mask.dtype} {mask.shape}, {np.count_nonzero(mask)} of them not 0"
            )
        _, residual, chi2 = fit_in(problem, mask, "noise beside the mask")
        noise = map_noise(residual, mask)
        return mask, noise if noise > MAX_MAP_NOISE else 1.0, chi2
    mask, noise, chi2 = find_source(problem)
    if not mask.any():
        dirty = problem.dirty_image()
        why = f"the dirty image has nothing above {_DETECTION_THRESHOLD:g} times its noise (at most {dirty.max():.1f})"
        cure = "Check the weights (check_weights) and the phase centre, or observe for longer"
        if -dirty.min() > _DETECTION_THRESHOLD:
            why, cure = _both_signs(dirty), _POSITIVE
        raise ValueError(f"no source is seen: {why}. {cure}")
    return mask, noise, chi2


def negative_emission(problem: FieldProblem) -> str:
    """Return what it means where the dirty image has holes that no sidelobe is as deep as; else nothing."""
    dirty = problem.dirty_image()
    deepest = max(_DETECTION_THRESHOLD, max(1.0, _SKEW * problem.sidelobe) * _AS_DEEP * dirty.max())
    return f"{_both_signs(dirty)}. {_POSITIVE}" if -dirty.min() > deepest else ""


def _both_signs(dirty: Real) -> str:
    """Return how deep the deepest hole of a dirty image is, beside its peak."""
    return f"the deepest hole of the dirty image is {dirty.min():.0f} σ deep, its peak {dirty.max():.0f} σ high"


def find_source(problem: FieldProblem) -> tuple[Mask, float, float]:
    """Return where the source is, the noise beside it in σ: 1, or more for wrong gains; and the chi² of the last fit.

    The source is looked for in the dirty image, then in fits in the mask plus their residuals. Where these are louder
    than noise, positive pixels may turn the artefacts of wrong gains into flux, so there a wider mask must fit better
    whatever the gains are.
    """
    mask = np.zeros((problem.coords.npix, problem.coords.npix), bool)
    before, grown, noise, least = mask, mask, 1.0, None
    for attempt in range(_MASK_PASSES):
        model, residual, chi2 = fit_in(problem, mask, f"where the source is, {attempt} of {_MASK_PASSES - 1}")
        if attempt and (noise := map_noise(residual, mask)) > MAX_MAP_NOISE:
            unexplained = _chi2_of_gains(problem, model)
            if least is not None and not unexplained < _WORTH * least:
                before = grown
                break
            least, grown = unexplained, mask
            if residual.max() > -_SKEW * residual.min():
                grown = _grow_mask(problem, residual, model, mask, _MASK_SCALES[:1])
        before, mask = mask, _grow_mask(problem, residual, model, mask)
        if not mask.any():
            break
    return (before, noise, chi2) if noise > MAX_MAP_NOISE else (mask, 1.0, chi2)


def fit_in(problem: FieldProblem, mask: Mask, what: str, rough: bool = False) -> tuple[Real, Real, float]:
    """Return a fit in a mask, dark if that is empty, and its residual image, both in σ; and its reduced chi²."""
    pixels = torch.zeros((1, *mask.shape), device=problem.device)
    if mask.any():
        parameters = problem.initial_parameters(mask, 1)
        parameters = problem.fit(problem.dirty_likelihood(), parameters, _TV_STRENGTH_MASK, what, rough)
        pixels = softplus_pixels(parameters)
    image = problem.sharpen(pixels)
    chi2 = float(problem.likelihood(image)) / (2 * len(problem.vis.u))
    return hann_smooth(pixels)[0].cpu().double().numpy(), problem.residual_image(image), chi2


def _chi2_of_gains(problem: FieldProblem, model: Real) -> float:
    """Return the chi² that no phases of antennas explain; infinite if nobody knows which antennas saw what."""
    if not problem.seen.antennas.any():
        return math.inf
    return chi2_of_gains(problem.seen, model_visibilities(model * problem.unit, problem.seen, problem.coords))


def _grow_mask(
    problem: FieldProblem, residual: Real, model: Real, before: Mask, scales: Sequence[int] = _MASK_SCALES
) -> Mask:
    """Return the mask extended to where the model plus its residuals, in σ, stand out of the noise at any scale."""
    vis, coords, beam = problem.vis, problem.coords, problem.beam
    convolved = convolve(model, coords, beam) / beam.area if before.any() else np.zeros(model.shape)
    mask, highest = before & (model > 1), 0.0
    is_bright = (residual + convolved).max() > _BRIGHT_SOURCE
    beam_width = min(beam.major, 2 * beam.minor)  # of a snapshot, a beam can be long
    for width in (scale * beam_width for scale in scales):
        taper = _gaussian_taper((vis.u**2 + vis.v**2) * ARCSEC**2, width)
        noise = math.sqrt((vis.weight * taper**2).sum() / vis.weight.sum())
        smooth_residual = _gaussian_smooth(residual, coords, width) / noise
        restored = smooth_residual + _gaussian_smooth(convolved, coords, width) / noise
        is_covered = before.any() and model[mask].sum() > _COVERED * model.sum()
        if width and (is_bright or is_covered or restored.max() < highest):  # a narrow source would become a wide one
            if not before.any():
                break
            restored = smooth_residual
        highest = max(highest, restored.max())
        # No source is negative: what is as faint as the deepest hole may be a sidelobe.
        floor = max(_PEAK_THRESHOLD * restored.max(), -smooth_residual.min())
        detected, region = restored > max(_DETECTION_THRESHOLD, floor), restored > max(_EDGE_THRESHOLD, floor)
        mask = mask | binary_propagation(detected, mask=region)
    return np.asarray(maximum_filter(mask, 2 * round(beam_width / coords.cell_size) + 1, mode="constant"))


def _gaussian_smooth(image: Real, coords: GridCoords, width: float) -> Real:
    """Return an image convolved with a Gaussian of integral 1, its full width at half maximum in arcsec."""
    v, u = np.fft.fftfreq(coords.npix, coords.cell_size), np.fft.rfftfreq(coords.npix, coords.cell_size)
    spectrum = np.fft.rfft2(image) * _gaussian_taper(u[None] ** 2 + v[:, None] ** 2, width)
    return np.asarray(np.fft.irfft2(spectrum, s=image.shape))


def _gaussian_taper(squared: Real, width: float) -> Real:
    """Return the transform of that Gaussian, at squared frequencies in cycles per arcsec."""
    return np.asarray(np.exp(-((math.pi * width) ** 2) / (4 * math.log(2)) * squared))


class Crop(NamedTuple):
    """A part of a grid: its rows and columns, its centre in arcsec east and north, and its own grid."""

    pixels: tuple[slice, slice]
    centre: tuple[float, float]
    coords: GridCoords


def crop_to_mask(mask: Mask, coords: GridCoords) -> Crop:
    """Return the part of the grid that holds the mask."""
    spans = [(int(axis.min()), int(axis.max()) + 1) for axis in np.nonzero(mask)]
    npix = min(fast_fft_size(max(end - start for start, end in spans) + 4), coords.npix)
    first = [min(max((start + end - npix) // 2, 0), coords.npix - npix) for start, end in spans]
    half, cell = coords.npix // 2, coords.cell_size
    north, east = (first[0] + npix // 2 - half) * cell, (half - 1 - (first[1] + npix // 2 - 1)) * cell
    rows, columns = (slice(start, start + npix) for start in first)
    return Crop((rows, columns), (east, north), GridCoords(cell, npix))
