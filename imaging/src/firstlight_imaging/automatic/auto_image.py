"""Automatic RML image: auto-mask, Bregman iterations until the discrepancy principle stops them, bootstrapped errors.

An image is made in five steps, on a grid that `choose_grid` chooses, and in a crop of it that holds the source. (1)
`mask_of` finds where the source is, and emission is allowed there only: positive pixels would turn the noise of an
empty sky into flux. (2) `Iterations` fit the image with a strong total variation, add the residual
visibilities back to the data, and fit again, which restores what the regularizer took away. (3) The discrepancy
principle ends this at the first image whose residuals in the source are no larger than noise, and
its ``fraction`` takes only so much of the last iteration that they are no smaller either. (4) A parametric
bootstrap repeats the fits on visibilities of that image with fresh noise: their scatter is the error of the image. (5)
Their mean excess over the image that they were made from is its bias, which is subtracted. Where gains or weights
limit the image (`diagnose`), (4) and (5) would mean nothing, and are left out.

A point between pixels isn't a sum of positive points on pixels. Together, its four neighbours are fainter than it is on
long baselines, so a fit makes them too bright, and what is left looks like wrong gains. So pixels stand for something
sharper than a point (`ImagingProblem.sharpen`) if the source is compact, or if most of chi² above 1 goes away with it.
In the second case they are half as wide, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from firstlight_imaging._types import Mask, MaskFunction, Real
from firstlight_imaging.automatic.attempt import Attempt, attempt_image
from firstlight_imaging.automatic.diagnosis import ADVISED_PIXELS
from firstlight_imaging.automatic.grid import Options
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities, check_visibilities
from firstlight_imaging.data.weights import trusted
from firstlight_imaging.fitting.quality import EXCESS, LIMITED, Quality, rms
from firstlight_imaging.fourier.beams import Beam

_QUIET = 0.5  # of the noise power that the weights promise: a fit to noise alone comes nowhere near it
_SCALED, _MAX_SCALINGS = 0.95, 2  # the same once they were scaled, and how often they are
_WIDER, _MUCH_BETTER = 2, 0.7  # times as wide a field is tried, and kept if chi² above 1 falls to that much of it
_PROMISING = 0.85  # the same of the fits for the masks: else the image of the wider field is not made at all


@dataclass(frozen=True, eq=False)
class Image:
    """An image, its errors, and how it was made.

    Attributes
    ----------
    sky, error
        (npix, npix) in sky order, in Jy/arcsec²: the image, without residuals, and what noise does to each pixel,
        one σ. What total variation smooths away is not in it.
    model
        The image before its bias was subtracted, without the smoothing over two pixels: the residuals are those of
        this one. Where pixels are sharper than points, it is negative beside bright ones, and reaches one pixel beyond
        the mask; ``sky`` is negative there, too, by a few percent of the peak.
    flux, flux_error
        Of the image, in Jy; the error is one σ, of the noise and of the bias that was subtracted. Where calibration
        limits the image, noise tells nothing of its errors, and they are NaN; so is the flux of what is not calibrated,
        and one far above what the shortest baselines see.
    residual
        The dirty image of the residual visibilities, with natural weights, in units of its noise.
    mask
        Where emission was allowed.
    coords
        The grid.
    beam
        The main lobe of the dirty beam with natural weights, whose noise is ``noise``, in Jy/beam.
    quality
        Whether the residuals are noise, and the flux is what the shortest baselines see.
    choices
        What was done to the weights, and what was chosen, and why, a sentence each.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Ring
    >>> seen = with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(alma_antennas()[:20], n_times=4)), 0.03, seed=1)
    >>> found = image(seen, draws=2)
    >>> found.sky.shape == found.error.shape == found.residual.shape, bool(found.model[~found.mask].any())
    (True, False)
    """

    sky: Real
    error: Real
    model: Real
    flux: float
    flux_error: float
    residual: Real
    mask: Mask
    coords: GridCoords
    beam: Beam
    noise: float
    quality: Quality
    choices: tuple[str, ...]

    def __str__(self) -> str:
        """Return a summary of a few lines."""
        return "\n".join([*self.choices, f"flux {self.flux_text}", str(self.quality)])

    @property
    def results(self) -> dict[str, float | str]:
        """What the summary says, for programs. Angles are in arcsec, and fluxes in Jy."""
        quality, beam = self.quality, self.beam
        return {
            "verdict": quality.verdict,
            "flux": self.flux,
            "flux_error": self.flux_error,
            "short_flux": quality.short_flux,
            "short_error": quality.short_error,
            "chi2": quality.chi2,
            "residual_in_source": quality.inside,
            "residual_beside": quality.outside,
            "largest_residual": quality.largest,
            "noise": self.noise,
            "beam_major": beam.major,
            "beam_minor": beam.minor,
            "beam_angle": beam.position_angle,
            "cell_size": self.coords.cell_size,
            "npix": self.coords.npix,
        }

    @property
    def flux_text(self) -> str:
        """The flux, with its error where noise alone limits it; no flux where there is none."""
        if self.quality.verdict == "not calibrated":
            return "not calibrated"
        if math.isnan(self.flux):
            return "not known: artefacts have become flux"
        if self.quality.verdict in (*LIMITED, "over-fitted"):
            return f"{self.flux:.4g} Jy, {self.quality.verdict}"
        if math.isnan(self.flux_error):
            return f"{self.flux:.4g} Jy, without an error"
        return f"{self.flux:.4g} ± {self.flux_error:.2g} Jy"


def image(
    vis: Visibilities,
    *,
    field: float | None = None,
    cell_size: float | None = None,
    mask: MaskFunction | None = None,
    draws: int = 16,
    seed: int = 0,
    device: torch.device | str = "cpu",
    parameters: float = 0.0,
) -> Image:
    """Return one image of all channels, with errors; mask and number of iterations are found from the data.

    A terminal shows a line of progress on stderr.

    Parameters
    ----------
    vis
        What was observed. If its weights weren't checked before, they are now (`trusted`), and ``choices`` of the image
        begin with what was wrong. Those that are far too small are scaled in any case.
    field
        The width of the image in arcsec; by default as wide as the source needs.
    cell_size
        The width of a pixel in arcsec; by default a third of the finest fringe, or half of that for a bright source.
    mask
        Where emission is allowed: a function that returns True or False for arrays of places, in arcsec east and north
        of the phase centre, such as ``lambda east, north: np.hypot(east, north) < 1.5``; by default it is found.
    draws
        How many bootstrap images the errors are taken from, at least 2; with 0 they are NaN.
    seed
        Of their noise.
    device
        Where to fit. A GPU gets only what has 512 × 512 pixels or more: it is slower than a CPU on less.
    parameters
        How many numbers were fitted to these data before, such as those of `SelfCalibration`: they make chi² smaller.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Ring
    >>> seen = with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(alma_antennas()[:20], n_times=4)), 0.03, seed=1)
    >>> found = image(seen, draws=4)
    >>> abs(found.flux - 0.5) < 0.05, found.residual.std().round()
    (True, np.float64(1.0))
    """
    if draws == 1:
        raise ValueError("one draw has no scatter: draws must be 0, for no errors, or at least 2")
    check_visibilities(vis)
    vis, notes = trusted(vis)
    options = Options(field, cell_size, mask, device, parameters)
    attempt, scale = _attempt_with_scaled_weights(vis, options)
    if field is None and mask is None and _WIDER * attempt.coords.npix <= ADVISED_PIXELS:
        attempt = _wider_if_better(attempt, replace(vis, weight=vis.weight * scale), options)
    errors = attempt.errors(draws, seed)
    quality, unit = attempt.quality(errors.bias), attempt.problem.unit
    unknown = quality.verdict == "not calibrated" or (attempt.limited and quality.has_excess)
    scaled = f"{scale:.3g}: so much quieter is the noise of the residuals than they promise"
    return Image(
        sky=attempt.sky(errors.bias),
        error=errors.pixels,
        model=attempt.model * unit,
        flux=math.nan if unknown else quality.flux,
        flux_error=errors.flux,
        residual=attempt.left.map,
        mask=attempt.mask,
        coords=attempt.coords,
        beam=attempt.problem.beam,
        noise=attempt.problem.vis.noise * unit,
        quality=quality,
        choices=(*notes, *([f"the weights are multiplied by {scaled}"] if scale != 1 else []), *attempt.choices()),
    )


def _attempt_with_scaled_weights(vis: Visibilities, options: Options) -> tuple[Attempt, float]:
    """Return an attempt, and the factor on weights that are far too small, so that a fit leaves less than noise."""
    dark = vis.dark_chi2
    scale, quiet = (1 / dark, _SCALED) if 0 < dark < _QUIET else (1.0, _QUIET)
    for scalings in range(_MAX_SCALINGS + 1):  # each takes more of the source out of chi²
        attempt = attempt_image(vis if scale == 1 else replace(vis, weight=vis.weight * scale), options)
        left = attempt.left
        if scalings == _MAX_SCALINGS or not left.chi2 or max(left.chi2, rms(left.map[~attempt.mask]) ** 2) > quiet:
            break
        scale, quiet = scale / left.chi2, _SCALED
    return attempt, scale


def _wider_if_better(attempt: Attempt, vis: Visibilities, options: Options) -> Attempt:
    """Return an attempt in a wider field, if nothing explains what is left in this one, and much less is left there."""
    if not (attempt.cause and attempt.cause.kind == "unexplained"):
        return attempt
    wider = attempt_image(vis, options._replace(wider=_WIDER))
    if wider.rough_chi2 - 1 > _PROMISING * (attempt.rough_chi2 - 1):
        return attempt
    before, after, quality = attempt.left.chi2, wider.left.chi2, wider.quality()
    runaway = quality.has_excess and quality.flux > EXCESS * attempt.quality().flux  # of artefacts
    if runaway or not after - 1 < _MUCH_BETTER * (before - 1):
        return attempt
    wider.notes += (f"chi² is {after:.3g} in this field, and {before:.3g} in one {_WIDER} times as narrow",)
    return wider
