"""Automatic RML image: auto-mask, Bregman iterations until the discrepancy principle stops them, bootstrapped errors.

An image is made in five steps, on a grid that `choose_grid` chooses, and in a crop of it that holds the source. (1)
`find_source` finds where the source is, and emission is allowed there only: positive pixels would turn the noise of an
empty sky into flux. (2) `bregman_iterations` fits the image with a strong total variation, adds the residual
visibilities back to the data, and fits again, which restores what the regularizer took away. (3) The discrepancy
principle ends this at the first image whose residuals in the source are no larger than noise, and
`fraction_of_last_iteration` takes only so much of the last iteration that they are no smaller either. (4) A parametric
bootstrap repeats the fits on visibilities of that image with fresh noise: their scatter is the error of the image. (5)
Their mean excess over the image that they were made from is its bias, which is subtracted. Where gains or weights limit
the image (`diagnose`), (4) and (5) would mean nothing, and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from firstlight_imaging._types import Mask, Real
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities, check_visibilities
from firstlight_imaging.fitting.bregman import (
    MAX_RESIDUAL,
    TV_STRENGTH,
    bootstrap,
    bregman_iterations,
    fraction_of_last_iteration,
    interpolate,
)
from firstlight_imaging.fitting.diagnosis import (
    ADVISED_PIXELS,
    UNEXPLAINED,
    diagnose,
    dynamic_range_of,
    is_noise,
    source_outside,
)
from firstlight_imaging.fitting.image_grid import choose_grid, grid_with_mask, leave_out_intra_site
from firstlight_imaging.fitting.imaging_problem import ImagingProblem, hann_smooth, model_visibilities, whiten
from firstlight_imaging.fitting.quality import (
    EXCESS,
    SOURCE_FLOOR,
    ImageVerdict,
    Quality,
    assess,
    rms,
    short_baseline_amplitude,
    short_baseline_flux,
)
from firstlight_imaging.fitting.source_mask import DETECTION_THRESHOLD, crop_to_mask, find_source, noise_beside
from firstlight_imaging.fourier.beams import Beam, convolve
from firstlight_imaging.units import angular_unit

_QUIET = 0.5  # of the noise power that the weights promise: a fit to noise alone comes nowhere near it
_SCALED, _MAX_SCALINGS = 0.95, 2  # the same once they were scaled, and how often they are
_WIDER, _MUCH_BETTER = 2, 0.7  # times as wide a field is tried, and kept if chi² above 1 falls to that much of it
_MAX_BREGMAN = 6
_ADVICE = (
    "look where they are in the residual map. A source outside the mask needs a wider field, or a mask of yours; one "
    "between pixels, a smaller cell"
)
_LEFT_OVER = 1.25  # times what is beside the source: residuals of it that are larger are not only noise and artefacts
_LIMITED = ("limited by calibration", "limited by artefacts", "not calibrated")  # and not by noise
_WIDE_MASK = 0.3  # of the field: where artefacts are louder than noise, it may well follow them


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
        this one.
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
        What was chosen, and why, a sentence each.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Ring
    >>> found = image(with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(n_times=4)), 0.03, seed=1), draws=2)
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
    def flux_text(self) -> str:
        """The flux, with its error where noise alone limits it; no flux where there is none."""
        if self.quality.verdict == "not calibrated":
            return "not calibrated"
        if math.isnan(self.flux):
            return "not known: artefacts have become flux"
        if self.quality.verdict in (*_LIMITED, "over-fitted"):
            return f"{self.flux:.4g} Jy, {self.quality.verdict}"
        if math.isnan(self.flux_error):
            return f"{self.flux:.4g} Jy, without an error"
        return f"{self.flux:.4g} ± {self.flux_error:.2g} Jy"


def image(
    vis: Visibilities,
    *,
    field: float | None = None,
    cell_size: float | None = None,
    mask: Callable[[Real, Real], Mask] | None = None,
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
        What was observed. The weights must be right: see `check_weights`. Only those that are far too small are scaled.
    field
        The width of the image in arcsec; by default as wide as the source needs.
    cell_size
        The width of a pixel in arcsec; by default a third of the finest fringe, or half of that for a bright source.
    mask
        Where emission is allowed: a function that returns True or False for arrays of places, in arcsec east and north
        of the phase centre, such as ``lambda east, north: np.hypot(east, north) < 1.5``; by default it is found.
    draws
        How many bootstrap images the errors are taken from; with 0 they are NaN.
    seed
        Of their noise.
    device
        Where to fit. A GPU gets only what has 512 × 512 pixels or more: it is slower than a CPU on less.
    parameters
        How many numbers were fitted to these data before, such as those of `SelfCalibration`: they make chi² smaller.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Ring
    >>> seen = with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(n_times=4)), 0.03, seed=1)
    >>> found = image(seen, draws=4)
    >>> abs(found.flux - 0.5) < 0.05, found.residual.std().round()
    (True, np.float64(1.0))
    """
    check_visibilities(vis)
    data = np.where(vis.flagged, 0, vis.data)
    dark = float((vis.weight * np.abs(data) ** 2).sum()) / max(1, 2 * int((~vis.flagged).sum()))  # chi² of a dark sky
    make = partial(_image, field=field, cell_size=cell_size, mask=mask, draws=draws, seed=seed, device=device)
    make = partial(make, parameters=parameters)
    scale, quiet = (1 / dark, _SCALED) if 0 < dark < _QUIET else (1.0, _QUIET)
    for scalings in range(_MAX_SCALINGS + 1):  # each takes more of the source out of chi²
        found, chi2 = make(replace(vis, weight=vis.weight * scale))
        if scalings == _MAX_SCALINGS or not chi2 or max(chi2, rms(found.residual[~found.mask]) ** 2) > quiet:
            break
        scale, quiet = scale / chi2, _SCALED
    grows = field is None and mask is None and _WIDER * found.coords.npix <= ADVISED_PIXELS
    if grows and UNEXPLAINED in str(found.quality):
        wider, wider_chi2 = make(vis, wider=_WIDER)
        runaway = wider.quality.has_excess and wider.quality.flux > EXCESS * found.quality.flux  # of artefacts
        if wider_chi2 - 1 < _MUCH_BETTER * (chi2 - 1) and not runaway:
            said = f"chi² is {wider_chi2:.3g} in this field, and {chi2:.3g} in one {_WIDER} times as narrow"
            found = replace(wider, choices=(*wider.choices, said))
    if scale == 1:
        return found
    said = f"the weights are multiplied by {scale:.3g}: so much quieter is the noise of the residuals than they promise"
    return replace(found, choices=(said, *found.choices))


def _image(
    vis: Visibilities,
    field: float | None,
    cell_size: float | None,
    mask: Callable[[Real, Real], Mask] | None,
    draws: int,
    seed: int,
    device: torch.device | str,
    parameters: float,
    wider: int = 1,
) -> tuple[Image, float]:
    """Return an image made with the weights as they are, and its reduced chi², in so much wider a field."""
    # In seconds, as float32: so a UVFITS has them, and the same data make the same image, whatever file they were in.
    hertz = np.nan_to_num(vis.frequency, nan=1.0)[:, None]
    vis = replace(vis, uu=np.float32(vis.uu / hertz) * hertz, vv=np.float32(vis.vv / hertz) * hertz)
    vis, left_out = leave_out_intra_site(vis)
    grid, reason = choose_grid(vis, field, cell_size, device, wider)
    if mask:
        grid, reason = grid_with_mask(grid, reason, mask, asked=field is not None)
    for finer in (1, 2):  # pixels of a fifth of a beam show the position of a bright point too coarsely
        coords = GridCoords(grid.cell_size / finer, grid.npix * finer)
        problem, beam, scaled_vis, unit = whiten(vis, coords, device)
        where, noise = _mask_of(problem, beam, scaled_vis, mask)
        crop, centre, cropped_coords = crop_to_mask(where, coords)
        cropped_vis = problem.vis.phase_shifted(*centre).in_units_of(noise)
        cropped = ImagingProblem(cropped_vis, cropped_coords, device)
        images = bregman_iterations(cropped, cropped_vis.data[None], where[crop], _MAX_BREGMAN, stop_at_noise=True)
        if cell_size or noise > 1 or np.abs(cropped.residual_image(images[-1])[where[crop]]).max() < MAX_RESIDUAL:
            break
    fraction = fraction_of_last_iteration(cropped, images, where[crop])
    best, pixel_flux = interpolate(images, fraction), coords.cell_size**2 * unit * noise
    sky, error, model = np.zeros((3, coords.npix, coords.npix))
    model[crop] = best[0].cpu().numpy() * noise
    residual, chi2, dynamic_range, limited, cause = _fit_of(problem, model, where, beam, scaled_vis, parameters)
    if limited or not draws:
        bias, flux_scatter, error = torch.zeros(()), math.nan, np.full_like(error, math.nan)
    else:
        draws_of, bias = bootstrap(cropped, images, fraction, where[crop], draws, seed)
        flux_scatter = float((draws_of.sum((1, 2)).cpu().double() * pixel_flux).std())
        error[crop] = draws_of.std(0).cpu().numpy() * unit * noise
    sky[crop] = (hann_smooth(best)[0] - bias).cpu().numpy() * unit * noise
    dynamic_range = dynamic_range if limited else math.nan
    quality = _assess(problem, model, sky, where, beam, unit, residual, chi2, dynamic_range, cause)
    beams = where.sum() * coords.cell_size**2 / beam.area
    per_arcsec, angle = angular_unit(coords.npix * coords.cell_size)
    field_width, cell_size, major, minor = (
        per_arcsec * size for size in (coords.npix * coords.cell_size, coords.cell_size, beam.major, beam.minor)
    )
    doubt = "; faint pieces may be artefacts" if limited and where.mean() > _WIDE_MASK else ""
    found = Image(
        sky=sky,
        error=error,
        model=model * unit,
        flux=math.nan if quality.verdict == "not calibrated" or (limited and quality.has_excess) else quality.flux,
        flux_error=math.hypot(flux_scatter, float(bias.sum()) * pixel_flux),
        residual=residual,
        mask=where,
        coords=coords,
        beam=beam,
        noise=problem.vis.noise * unit,
        quality=quality,
        choices=(
            *left_out,
            f"field {field_width:.3g} {angle}, {coords.npix} pixels of {cell_size:g} {angle}: {reason}",
            f"the mask, where emission is allowed, covers {beams:.0f} beams of {major:.3g} × {minor:.3g} {angle}, "
            f"{where.mean():.0%} of the field, {'as given' if mask else 'where the data show a source'}{doubt}",
            f"total variation {TV_STRENGTH:g} times the noise of the gradient; {len(images) - 2 + fraction:.2g} "
            f"Bregman iterations, until the residuals of the source were {_noise_text(noise)} (discrepancy principle)",
        ),
    )
    return found, chi2


def assess_model(
    vis: Visibilities, sky: Real, coords: GridCoords, *, parameters: float = 0.0, device: torch.device | str = "cpu"
) -> Quality:
    """Return what the report of `image` says of an image that another program has made, such as a model of tclean's.

    Parameters
    ----------
    vis
        What was observed, with right weights.
    sky, coords
        (npix, npix) in sky order, in Jy/arcsec²: the model, not convolved with a beam; and its grid.
    parameters, device
        As of `image`.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Ring
    >>> seen = with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(n_times=4)), 0.03, seed=1)
    >>> found = image(seen, draws=0)
    >>> assess_model(seen, found.model, found.coords).verdict
    'converged'
    """
    vis, _ = leave_out_intra_site(vis)
    problem, beam, scaled_vis, unit = whiten(vis, coords, device)
    model = np.asarray(sky, float) / unit
    restored = convolve(model, coords, beam)
    source = restored > SOURCE_FLOOR * restored.max()
    residual, chi2, dynamic_range, limited, cause = _fit_of(problem, model, source, beam, scaled_vis, parameters)
    reached = dynamic_range if limited else math.nan
    quality = _assess(problem, model, model * unit, source, beam, unit, residual, chi2, reached, cause)
    times = rms(residual[source]) / rms(residual[~source])
    if times < _LEFT_OVER:
        return quality
    left = f"residuals are {times:.2g} times as large in the source as beside it, so some of it may be left over"
    cure = "clean deeper, or with a wider mask" + (", once the data are calibrated" if limited else "")
    return replace(quality, faults=(*quality.faults, ("not converged", f"{left}: {cure}")))


def _fit_of(
    problem: ImagingProblem, model: Real, source: Mask, beam: Beam, vis: Visibilities, parameters: float
) -> tuple[Real, float, float, bool, tuple[ImageVerdict, str] | None]:
    """Return the residuals of a whitened model, its chi², its dynamic range, whether that is its limit, and why."""
    coords = problem.coords
    residual, chi2 = _residual_and_chi2(problem, model, parameters)
    dynamic_range = dynamic_range_of(residual, source, model, beam, coords)
    model_vis, is_quiet = model_visibilities(model, vis, coords), is_noise(residual, source)
    fit = (residual, coords, chi2, dynamic_range)
    cause = diagnose(vis, model_vis, *fit, noise_limited=is_quiet, parameters=parameters)
    limited = cause is not None and cause[0] in _LIMITED
    if limited and (outside := source_outside(vis, model_vis, residual, coords)):
        cause = "doubtful", outside
    return residual, chi2, dynamic_range, limited, cause


def _mask_of(
    problem: ImagingProblem, beam: Beam, vis: Visibilities, given: Callable[[Real, Real], Mask] | None
) -> tuple[Mask, float]:
    """Return where emission is allowed, and the noise of the residuals beside it, in σ: 1, or more for wrong gains."""
    if given is not None:
        mask = np.asarray(given(*problem.coords.sky_coordinates()))
        if mask.dtype != bool or mask.shape != (problem.coords.npix, problem.coords.npix) or not mask.any():
            raise ValueError(
                "mask must return True or False for each pixel of the field, and True somewhere; got "
                f"{mask.dtype} {mask.shape}, {np.count_nonzero(mask)} of them not 0"
            )
        return mask, noise_beside(problem, mask)
    mask, noise = find_source(problem, beam, vis)
    if not mask.any():
        most = np.abs(problem.residual_image(torch.zeros_like(problem.likelihood.reference))).max()
        raise ValueError(
            f"no source is seen: the dirty image has nothing above {DETECTION_THRESHOLD:g} times its noise (at most "
            f"{most:.1f}). Check the weights (check_weights) and the phase centre, or observe for longer"
        )
    return mask, noise


def _residual_and_chi2(problem: ImagingProblem, model: Real, parameters: float) -> tuple[Real, float]:
    """Return the residual image, in σ, and the reduced chi² of a whitened model, where so many numbers were fitted."""
    whitened = torch.as_tensor(model, dtype=torch.float32, device=problem.device)[None]
    problem.likelihood.recentre(whitened)  # for all digits of chi², however strong the source
    free = max(1.0, 2 * len(problem.vis.u) - parameters)
    return problem.residual_image(whitened), float(problem.likelihood(whitened)) / free


def _assess(
    problem: ImagingProblem,
    model: Real,
    sky: Real,
    mask: Mask,
    beam: Beam,
    unit: float,
    residual: Real,
    chi2: float,
    dynamic_range: float,
    cause: tuple[ImageVerdict, str] | None,
) -> Quality:
    """Return the quality of an image; the model is whitened, the sky in Jy/arcsec²."""
    coords = problem.coords
    bright = mask & (sky > unit)
    # Faint emission all over a field can add up to any flux that the shortest baselines do not see.
    shape = np.where(model > SOURCE_FLOOR * model.max(), model, 0)
    short = short_baseline_flux if math.isnan(dynamic_range) else short_baseline_amplitude
    short_flux, short_error = short(shape, problem.likelihood, 0)
    return assess(
        chi2,
        len(problem.vis.u),
        rms(residual[bright]),
        rms(residual[~mask]),
        float(np.abs(residual).max()),
        (float(sky.sum()) * coords.cell_size**2, unit * short_flux, unit * short_error),
        beams=bright.sum() * coords.cell_size**2 / beam.area,
        dynamic_range=dynamic_range,
        cause=cause,
        advice=_ADVICE,
    )


def _noise_text(noise: float) -> str:
    """Return what the residuals of the source were compared with."""
    return "noise" if noise == 1 else f"as those beside it, {noise:.2g} times the expected noise"
