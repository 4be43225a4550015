"""Automatic RML image: auto-mask, TV strength by the discrepancy principle, Bregman iterations, bootstrapped errors.

An image is made in five steps. (1) `_auto_mask` finds where the source is, and emission is allowed there only:
positive pixels would turn the noise of an empty sky into flux. (2) `_bregman_iterations` fits the image with a strong
total variation, adds the residual visibilities back to the data, and fits again, which restores what the regularizer
took away. (3) The discrepancy principle ends this: `_residuals_are_noise` at the first image whose residuals in the
source are no larger than noise, and `_discrepancy_step` interpolates between the last two images, so that they are no
smaller either. (4) A parametric bootstrap repeats the fits on visibilities of that image with fresh noise: their
scatter is the error of the image. (5) Their mean excess over the image that they were made from is its bias, which is
subtracted.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from scipy.ndimage import binary_propagation
from torch import Tensor
from torch.nn.functional import max_pool2d, softplus

from firstlight.imaging._types import Complex, Mask, Real
from firstlight.imaging.calibration.gains import apply_gains, chi2_of_gains, describe_gains, solve_gains
from firstlight.imaging.coordinates import GridCoords, packed_to_sky, phase_factor, sky_to_packed
from firstlight.imaging.data.visibilities import Visibilities, check_visibilities, select_baselines
from firstlight.imaging.fitting.exact import ExactLikelihood
from firstlight.imaging.fitting.fit_loop import fit
from firstlight.imaging.fitting.quality import (
    MAX_MAP_NOISE,
    SOURCE_FLOOR,
    Quality,
    Verdict,
    assess,
    map_noise,
    rms,
    short_baseline_amplitude,
    short_baseline_flux,
)
from firstlight.imaging.fourier.beams import Beam, convolve, fit_beam
from firstlight.imaging.fourier.dirty import DirtyImager
from firstlight.imaging.fourier.limits import suggest_grid
from firstlight.imaging.fourier.nufft import visibilities
from firstlight.imaging.fourier.padding import fast_fft_size
from firstlight.imaging.model.cubes import DEFAULT_BASE, smooth_columns, smooth_rows
from firstlight.imaging.model.gridded_net import GriddedNet
from firstlight.imaging.model.losses import TV_image
from firstlight.imaging.units import ARCSEC, angular_unit

# λ of total variation, in units of the noise of the gradient of chi²: of the image, and of fits for the mask.
_TV_STRENGTH, _TV_STRENGTH_MASK = 8.0, 4.0
_MASK_PASSES = 3
_MAX_BREGMAN = 6
_MAX_LBFGS = 500
_MASKED_PARAMETER = -1e4  # its softplus is 0, and its gradient too
_MASK_SCALES = (0, 2, 4, 8)  # beams, by which an image is smoothed to see what is faint and wide
_WORTH = 0.95  # of the chi² of the best gains: more than that, and a wider mask is not worth it
_MASK_SEED, _MASK_EDGE = 5.0, 2.5  # σ: where a source is found, and how far it reaches
_MASK_FLOOR = 0.05  # of the brightest pixel, below which nothing is taken for the edge of the source
_BRIGHT_SOURCE = 30.0  # σ: beside a brighter source, wide emission is looked for in the residuals only
_MIN_BEAMS = 4  # of a source, for its residuals to tell anything
_MAX_RESIDUAL = 4.9  # σ, in the mask
_MAX_ARTEFACT = 6.5  # σ: a larger residual is no noise
_WIDE_MASK = 0.3  # of the field: where artefacts are louder than noise, it may well follow them
_SURE, _MAX_LEFT = 10.0, 0.5  # σ of chi², and how much of the data's power an image may leave unexplained
_RANDOM_PHASES = 60.0  # degrees, rms over antennas
_MIN_DYNAMIC_RANGE = 20.0  # of an image of data that are calibrated at all, if noise does not limit it
_CURED = 0.9  # of the chi² above 1: less than that is left if gains are to blame
_MIN_PIXELS, _MAX_PIXELS = 48, 1024  # of the width of a field that nobody asked for
_GPU_PIXELS = 512  # of the width of an image; a GPU spends the time of a smaller one on launches
_MAX_PIXELS_ASKED = 4096  # of one that somebody did: 4 GB
_INTRA_SITE = 10.0  # times as long is the next baseline, at least


@dataclass(frozen=True, eq=False)
class _WhitenedVisibilities:
    """The visibilities of all channels in one row, scaled so that the noise of a beam is 1 Jy/arcsec² bright."""

    u: Real
    v: Real
    data: Complex
    weight: Real

    @property
    def noise(self) -> float:
        """The noise of an image with natural weights, in units of flux per beam."""
        return math.sqrt(1 / float(self.weight.sum()))

    def in_units_of(self, noise: float) -> _WhitenedVisibilities:
        """Return them scaled so that the noise is 1 where it was as much."""
        return replace(self, data=self.data / noise)

    def phase_shifted(self, east: float, north: float) -> _WhitenedVisibilities:
        """Return them with the phase centre moved there."""
        return replace(self, data=self.data * phase_factor(self.u * ARCSEC, self.v * ARCSEC, -east, -north))

    def noise_realizations(self, n: int, seed: int) -> Complex:
        """Return n draws of the noise that the weights state."""
        parts = np.random.default_rng(seed).normal(size=(2, n, len(self.weight))) / np.sqrt(self.weight)
        return np.asarray(parts[0] + 1j * parts[1])


class _ImagingProblem:
    """Whitened visibilities and a grid: their exact likelihood, fits, and residual images in units of the noise."""

    def __init__(self, vis: _WhitenedVisibilities, coords: GridCoords, device: torch.device | str) -> None:
        self.vis, self.coords, self.device = vis, coords, device if coords.npix >= _GPU_PIXELS else "cpu"
        self.likelihood = self.likelihood_of(vis.data)
        # A GriddedNet smooths its pixels with a Hann window. Divided by its transform, no point source is that wide.
        u, v = (math.pi * coords.cell_size * ARCSEC * axis for axis in (vis.u, vis.v))
        self.inverse_hann = 1 / (np.cos(u) * np.cos(v)) ** 2
        self.gradient_noise = coords.cell_size**2 / vis.noise  # σ of the dirty residual of the likelihood

    def likelihood_of(self, data: Complex, factor: Real | None = None) -> ExactLikelihood:
        """Return the likelihood of other data of the same baselines, one set or several."""
        u, v, weight, coords = self.vis.u, self.vis.v, self.vis.weight, self.coords
        grid = coords.cell_size, coords.npix
        return ExactLikelihood(u, v, data, weight, *grid, factor=factor, device=self.device, progress=False)

    def initial_parameters(self, mask: Mask, nchan: int) -> Tensor:
        """Return parameters of images that are faint in the mask, and zero outside it."""
        inside = sky_to_packed(torch.as_tensor(mask)[None]).to(self.device)
        return torch.where(inside, DEFAULT_BASE, _MASKED_PARAMETER).repeat(nchan, 1, 1)

    def fit(self, likelihood: ExactLikelihood, parameters: Tensor, tv_strength: float) -> Tensor:
        """Return the fitted parameters; masked ones stay as they are."""
        model = GriddedNet(self.coords, nchan := len(parameters), parameters)
        strength = tv_strength * self.gradient_noise / len(self.vis.u)
        fit(
            model,
            likelihood,
            losses={"tv": (strength, partial(TV_image, epsilon=1e-2))},
            optimizer="lbfgs",
            lambdas="exact",
            max_iter=_MAX_LBFGS,
            tolerance=0.02 / len(self.vis.u),  # of the reduced chi²: 0.04 of chi² itself, far less than noise does
            check_every=10,
            separate=nchan > 1,
        )
        return model.bcube.base_cube.detach()

    def best_fit_scale(self, image: Tensor, data: Complex) -> Tensor:
        """Return the factor by which each image fits its data best."""
        likelihood = self.likelihood if len(data) == 1 else self.likelihood_of(data)
        convolved = likelihood.normal_operator(image)
        squares = (image * convolved).sum((1, 2), keepdim=True)
        dirty = likelihood.dirty + likelihood.normal_operator(likelihood.reference)
        return torch.where(squares > 0, (image * dirty).sum((1, 2), keepdim=True) / squares, 1.0)

    def residual_image(self, image: Tensor) -> Real:
        """Return the dirty image of the residual visibilities, with natural weights, in σ."""
        likelihood = self.likelihood
        residual = likelihood.dirty - likelihood.normal_operator(image - likelihood.reference)
        return np.asarray(residual[0].cpu().double().numpy()) / self.gradient_noise


def model_visibilities(model: Real, vis: Visibilities, coords: GridCoords) -> Complex:
    """Return what an interferometer would see of an image in sky order, (nchan, nvis).

    Examples
    --------
    >>> from firstlight.imaging.simulate.observation import observe, uv_track
    >>> from firstlight.imaging.simulate.skies import Point
    >>> vis = observe([Point(1.0)], uv_track(n_times=1))
    >>> star = np.zeros((8, 8))
    >>> star[4, 3] = 1 / 0.01**2  # 1 Jy in the middle
    >>> bool(np.allclose(model_visibilities(star, vis, GridCoords(0.01, 8)), vis.data))
    True
    """
    seen = visibilities(torch.from_numpy(model[None]), vis.uu.ravel(), vis.vv.ravel(), coords.cell_size)
    return np.asarray(seen[0].numpy().reshape(vis.data.shape))


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
        limits the image, noise tells nothing of its errors, and they are NaN; so is the flux of what is not calibrated.
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
    >>> from firstlight.imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight.imaging.simulate.skies import Ring
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
        """The flux and its error; without one where calibration limits it, and without a flux where there is none."""
        if self.quality.verdict == "not calibrated":
            return "not calibrated"
        if self.quality.verdict == "limited by calibration":
            return f"{self.flux:.4g} Jy, limited by calibration"
        return f"{self.flux:.4g} ± {self.flux_error:.2g} Jy"


def image(
    vis: Visibilities,
    *,
    field: float | None = None,
    draws: int = 16,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Image:
    """Return one image of all channels, with errors; mask and strength of the regularizer are found from the data.

    Parameters
    ----------
    vis
        What was observed. The weights must be right: see `check_weights`.
    field
        The width of the image in arcsec; by default as wide as the source needs.
    draws
        How many bootstrap images the errors are taken from; with 0 they are NaN.
    seed
        Of their noise.
    device
        Where to fit. A GPU gets only what has 512 × 512 pixels or more: it is slower than a CPU on less.

    Examples
    --------
    >>> from firstlight.imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight.imaging.simulate.skies import Ring
    >>> seen = with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(n_times=4)), 0.03, seed=1)
    >>> found = image(seen, draws=4)
    >>> abs(found.flux - 0.5) < 0.05, found.residual.std().round()
    (True, np.float64(1.0))
    """
    check_visibilities(vis)
    # In seconds, as float32: so a UVFITS has them, and the same data make the same image, whatever file they were in.
    hertz = np.nan_to_num(vis.frequency, nan=1.0)[:, None]
    vis = replace(vis, uu=np.float32(vis.uu / hertz) * hertz, vv=np.float32(vis.vv / hertz) * hertz)
    vis, left_out = leave_out_intra_site(vis)
    source_width = _suggest_field(vis, device) if field is None else field
    suggested = suggest_grid(vis, source_width)
    npix = suggested.npix if source_width else max(suggested.npix, _MIN_PIXELS)
    if field is None:
        npix = min(npix, _MAX_PIXELS)
    elif npix > _MAX_PIXELS_ASKED:
        raise ValueError(
            f"a field of {field:g} arcsec needs {npix} x {npix} pixels of {suggested.cell_size:g} arcsec; more than "
            f"{_MAX_PIXELS_ASKED} x {_MAX_PIXELS_ASKED} take too much memory: take a field of "
            f"{_MAX_PIXELS_ASKED * suggested.cell_size:.3g} arcsec or less, or leave out the longest baselines "
            "(select_baselines)"
        )
    for finer in (1, 2):  # pixels of a fifth of a beam show the position of a bright point too coarsely
        coords = GridCoords(suggested.cell_size / finer, npix * finer)
        problem, beam, observed, unit = _whiten(vis, coords, device)
        mask, noise = _auto_mask(problem, beam, observed)
        if not mask.any():
            most = np.abs(problem.residual_image(torch.zeros_like(problem.likelihood.reference))).max()
            raise ValueError(
                f"no source is seen: the dirty image has nothing above {_MASK_SEED:g} times its noise (at most "
                f"{most:.1f}). Check the weights (check_weights) and the phase centre, or observe for longer"
            )
        crop, centre, cropped_coords = _crop_to_mask(mask, coords)
        cropped_vis = problem.vis.phase_shifted(*centre).in_units_of(noise)
        cropped = _ImagingProblem(cropped_vis, cropped_coords, device)
        images = _bregman_iterations(cropped, cropped_vis.data[None], mask[crop], _MAX_BREGMAN, stop_at_noise=True)
        if noise > 1 or np.abs(cropped.residual_image(images[-1])[mask[crop]]).max() < _MAX_RESIDUAL:
            break
    step = _discrepancy_step(cropped, images, mask[crop])
    best, pixel_flux = _interpolate(images, step), coords.cell_size**2 * unit * noise
    sky, error, model = np.zeros((3, coords.npix, coords.npix))
    model[crop] = best[0].cpu().numpy() * noise
    residual, chi2 = _residual_and_chi2(problem, model)
    dynamic_range = _dynamic_range(residual, mask, model, beam, coords)
    # Residuals that are as large as chi² says, and no larger anywhere, look like noise.
    like_noise = np.abs(residual).max() < _MAX_RESIDUAL * math.sqrt(chi2)
    fault = _calibration_fault(observed, model, coords, chi2, dynamic_range, like_noise=like_noise)
    if fault or not draws:
        bias, flux_scatter, error = torch.zeros(()), math.nan, np.full_like(error, math.nan)
    else:
        draws_of, bias = _bootstrap(cropped, images, step, mask[crop], draws, seed)
        flux_scatter = float((draws_of.sum((1, 2)).cpu().double() * pixel_flux).std())
        error[crop] = draws_of.std(0).cpu().numpy() * unit
    sky[crop] = (_hann_smooth(best)[0] - bias).cpu().numpy() * unit * noise
    quality = _assess(problem, model, sky, mask, beam, unit, residual, chi2, dynamic_range, fault)
    beams = mask.sum() * coords.cell_size**2 / beam.area
    width = (
        "as asked for" if field else "as the source needs" if source_width else "all that the shortest baseline sees"
    )
    per_arcsec, angle = angular_unit(coords.npix * coords.cell_size)
    field_width, cell, major, minor = (
        per_arcsec * size for size in (coords.npix * coords.cell_size, coords.cell_size, beam.major, beam.minor)
    )
    doubt = ", or artefacts: faint pieces may not be real" if fault and mask.mean() > _WIDE_MASK else ""
    return Image(
        sky=sky,
        error=error,
        model=model * unit,
        flux=math.nan if quality.verdict == "not calibrated" else quality.flux,
        flux_error=math.hypot(flux_scatter, float(bias.sum()) * pixel_flux),
        residual=residual,
        mask=mask,
        coords=coords,
        beam=beam,
        noise=problem.vis.noise * unit,
        quality=quality,
        choices=(
            *left_out,
            f"field {field_width:.3g} {angle}, {coords.npix} pixels of {cell:g} {angle}: {width}",
            f"the mask, where emission is allowed, covers {beams:.0f} beams of {major:.3g} × {minor:.3g} {angle}, "
            f"{mask.mean():.0%} of the field, where the data show a source{doubt}",
            f"total variation {_TV_STRENGTH:g} times the noise of the gradient; {len(images) - 2 + step:.2g} Bregman "
            f"iterations, until the residuals of the source were {_noise_text(noise)} (discrepancy principle)",
        ),
    )


def _bootstrap(
    problem: _ImagingProblem, images: list[Tensor], step: float, mask: Mask, draws: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Return images of simulated data, and their mean excess over the image that these were made from."""
    best = _interpolate(images, step)
    kept = torch.where(best > 1, best, 0)  # faint pixels as dark as they are in the sky, so that their bias shows
    model_vis = problem.vis.data - problem.likelihood.residuals(kept).cpu().numpy()
    simulated = model_vis + problem.vis.noise_realizations(draws, seed)
    found = _hann_smooth(_interpolate(_bregman_iterations(problem, simulated, mask, len(images)), step))
    return found, found.mean(0) - _hann_smooth(kept)[0]


def _residual_and_chi2(problem: _ImagingProblem, model: Real) -> tuple[Real, float]:
    """Return the residual image, in σ, and the reduced chi² of a whitened model."""
    whitened = torch.as_tensor(model, dtype=torch.float32, device=problem.device)[None]
    problem.likelihood.recentre(whitened)  # for all digits of chi², however strong the source
    return problem.residual_image(whitened), float(problem.likelihood(whitened)) / 2 / len(problem.vis.u)


def _dynamic_range(residual: Real, mask: Mask, model: Real, beam: Beam, coords: GridCoords) -> float:
    """Return the peak of the restored image over the noise of the residuals; NaN if that is what weights promise."""
    noise = map_noise(residual, mask)
    if noise <= MAX_MAP_NOISE and np.abs(residual).max() <= _MAX_ARTEFACT:
        return math.nan
    return float((convolve(model, coords, beam) / beam.area + residual).max()) / max(noise, rms(residual))


def _calibration_fault(
    observed: Visibilities, model: Real, coords: GridCoords, chi2: float, dynamic_range: float, *, like_noise: bool
) -> tuple[Verdict, str] | None:
    """Return whether it is the calibration that limits an image, and which antennas' gains are wrong by how much."""
    data = np.where(observed.flagged, 0, observed.data)
    count = int((~observed.flagged).sum())
    power = float((observed.weight * np.abs(data) ** 2).sum()) / 2 / count - 1
    left = (chi2 - 1) / power if (chi2 - 1) * math.sqrt(count) > _SURE else 0.0
    if math.isnan(dynamic_range) and left < _MAX_LEFT:
        return None
    unexplained = f"the image leaves {left:.0%} of the power of the data unexplained"
    if not observed.antennas.any():
        if left > _MAX_LEFT:
            return "not calibrated", f"{unexplained}: calibrate the data first"
        return (
            "limited by calibration",
            f"dynamic range {dynamic_range:.0f}; the data do not say which antennas saw what",
        )
    seen = model_visibilities(model, observed, coords)
    phases = solve_gains(observed, seen)
    with_phases, with_both = (chi2_of_gains(observed, seen, amplitude=amplitude) for amplitude in (False, True))
    because = describe_gains(phases)
    scatter = phases.phase_scatter
    random = rms(scatter[np.isfinite(scatter)]) > _RANDOM_PHASES or dynamic_range < _MIN_DYNAMIC_RANGE
    if left > _MAX_LEFT or random:
        return (
            "not calibrated",
            f"{unexplained}; {because}. Calibrate the data first, or image their closure quantities",
        )
    message = f"dynamic range {dynamic_range:.0f}; chi² is {chi2:.3g}, with the best phases of antennas "
    message += f"{with_phases:.3g}, and with the best amplitudes {with_both:.3g}: "
    if min(with_phases, with_both) - 1 > _CURED * (chi2 - 1):
        if like_noise:
            message += f"the residuals look like noise: the weights may be {chi2:.2g} times too large (check_weights)"
        else:
            message += "what limits it is not of antennas alone; look at the weights, too"
        return "limited by calibration", message
    if with_phases - 1 < _CURED * (chi2 - 1):
        return "limited by calibration", f"{message}{because}. Self-calibrate phases"
    amplitudes = solve_gains(apply_gains(observed, phases), seen, amplitude=True)
    return "limited by calibration", f"{message}{describe_gains(amplitudes, amplitude=True)}. Self-calibrate amplitudes"


def _assess(
    problem: _ImagingProblem,
    model: Real,
    sky: Real,
    mask: Mask,
    beam: Beam,
    unit: float,
    residual: Real,
    chi2: float,
    dynamic_range: float,
    fault: tuple[Verdict, str] | None,
) -> Quality:
    """Return the quality of an image; the model is whitened, the sky in Jy/arcsec²."""
    coords = problem.coords
    bright = mask & (sky > unit)
    # Faint emission all over a field can add up to any flux that the shortest baselines do not see.
    shape = np.where(model > SOURCE_FLOOR * model.max(), model, 0)
    short = short_baseline_flux if math.isnan(dynamic_range) else short_baseline_amplitude
    short_flux, short_error = short(shape, problem.likelihood, coords, 0)
    return assess(
        chi2,
        len(problem.vis.u),
        rms(residual[bright]),
        rms(residual[~mask]),
        float(np.abs(residual).max()),
        (float(sky.sum()) * coords.cell_size**2, unit * short_flux, unit * short_error),
        beams=bright.sum() * coords.cell_size**2 / beam.area,
        dynamic_range=dynamic_range,
        calibration=fault,
    )


def _noise_text(noise: float) -> str:
    """Return what the residuals of the source were compared with."""
    return "noise" if noise == 1 else f"as those beside it, {noise:.2g} times the noise that the weights promise"


def _whiten(
    vis: Visibilities, coords: GridCoords, device: torch.device | str
) -> tuple[_ImagingProblem, Beam, Visibilities, float]:
    """Return the imaging problem of all channels, the natural beam, and visibilities in its unit, in Jy/arcsec²."""
    unflagged = ~vis.flagged
    u, v, data, weight = (getattr(vis, name)[unflagged] for name in ("uu", "vv", "data", "weight"))
    psf = DirtyImager(coords, u, v, weight, data.real, data.imag).get_dirty_beam("natural")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a rough size of the beam is all that is needed
        beam = fit_beam(psf, coords.cell_size)
    unit = float(weight.sum()) ** -0.5 / beam.area
    problem = _ImagingProblem(_WhitenedVisibilities(u, v, data / unit, weight * unit**2), coords, device)
    return problem, beam, replace(vis, data=vis.data / unit, weight=vis.weight * unit**2), unit


def leave_out_intra_site(vis: Visibilities) -> tuple[Visibilities, tuple[str, ...]]:
    """Return visibilities without baselines so short that their field has too many pixels, and a sentence on it.

    Those of antennas of one site see flux on scales that no other baseline knows of.
    """
    lengths = np.sort(vis.lengths[~vis.flagged & (vis.lengths > 0)])
    if not lengths.size or suggest_grid(vis).npix <= _MAX_PIXELS:
        return vis, ()
    jumps = lengths[1:] / lengths[:-1]
    if jumps.max() < _INTRA_SITE:
        return vis, ()
    shortest = float(lengths[1:][jumps >= _INTRA_SITE][-1])
    kept = select_baselines(vis, shortest=shortest)
    sentence = (
        f"{len(vis.time) - len(kept.time)} of {len(vis.time)} visibilities are left out, of baselines up to "
        f"{lengths[lengths < shortest].max():.3g} wavelengths, within a site: the next are of {shortest:.3g}"
    )
    return kept, (sentence,)


def _suggest_field(vis: Visibilities, device: torch.device | str) -> float | None:
    """Return a field two and a half times as wide as the source, which is found in a coarse image of a wide field."""
    longest = float(np.quantile(vis.lengths.max(axis=0), 0.25))
    short = select_baselines(vis, longest=longest)
    suggested = suggest_grid(short)
    coords = GridCoords(suggested.cell_size, min(suggested.npix, _MAX_PIXELS))
    try:
        problem, beam, observed, _ = _whiten(short, coords, device)
    except ValueError:  # so few baselines have no beam
        return None
    mask, _ = _auto_mask(problem, beam, observed)
    if not mask.any():
        return None  # all baselines together may see more
    half = coords.npix / 2
    farthest = max(np.abs(axis + 0.5 - half).max() for axis in np.nonzero(mask))
    return float(min(2.5 * farthest, coords.npix) * coords.cell_size)


def _auto_mask(problem: _ImagingProblem, beam: Beam, observed: Visibilities) -> tuple[Mask, float]:
    """Return where the source is, and the noise of the residuals beside it, in σ: 1, or more for wrong gains.

    The source is looked for in the dirty image, then in fits in the mask plus their residuals. Where these are louder
    than noise, positive pixels may turn the artefacts of wrong gains into flux, so there a wider mask must fit better
    whatever the gains are.
    """
    shape = (1, problem.coords.npix, problem.coords.npix)
    pixels = torch.zeros(shape, device=problem.device)
    mask, likelihood = np.zeros(shape[1:], bool), problem.likelihood_of(problem.vis.data, problem.inverse_hann)
    before, noise, least = mask, 1.0, None
    for attempt in range(_MASK_PASSES):
        if attempt:
            parameters = problem.fit(likelihood, problem.initial_parameters(mask, 1), _TV_STRENGTH_MASK)
            pixels = _softplus_pixels(parameters)
        model, residual = _hann_smooth(pixels)[0].cpu().double().numpy(), problem.residual_image(pixels)
        if attempt and (noise := map_noise(residual, mask)) > MAX_MAP_NOISE:
            unexplained = _chi2_of_gains(observed, model, problem.coords)
            if least is not None and not unexplained < _WORTH * least:
                break
            least = unexplained
        before, mask = mask, _grow_mask(problem, beam, residual, model, mask)
        if not mask.any():
            break
    return (before, noise) if noise > MAX_MAP_NOISE else (mask, 1.0)


def _chi2_of_gains(observed: Visibilities, model: Real, coords: GridCoords) -> float:
    """Return the chi² that no phases of antennas explain; infinite if nobody knows which antennas saw what."""
    return chi2_of_gains(observed, model_visibilities(model, observed, coords)) if observed.antennas.any() else math.inf


def _grow_mask(problem: _ImagingProblem, beam: Beam, residual: Real, model: Real, before: Mask) -> Mask:
    """Return the mask extended to where the model plus its residuals, in σ, stand out of the noise at any scale."""
    vis, coords = problem.vis, problem.coords
    convolved = convolve(model, coords, beam) / beam.area if before.any() else np.zeros(model.shape)
    mask, highest = before & (model > 1), 0.0
    is_bright = (residual + convolved).max() > _BRIGHT_SOURCE
    beam_width = min(beam.major, 2 * beam.minor)  # of a snapshot, a beam can be long
    for width in (scale * beam_width for scale in _MASK_SCALES):
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
        floor = max(_MASK_FLOOR * restored.max(), -smooth_residual.min())
        seeds, region = restored > max(_MASK_SEED, floor), restored > max(_MASK_EDGE, floor)
        mask = mask | binary_propagation(seeds, mask=region)
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


def _crop_to_mask(mask: Mask, coords: GridCoords) -> tuple[tuple[slice, slice], tuple[float, float], GridCoords]:
    """Return the slices of the grid that hold the mask, their centre in arcsec east and north, and their grid."""
    spans = [(int(axis.min()), int(axis.max()) + 1) for axis in np.nonzero(mask)]
    npix = min(fast_fft_size(max(end - start for start, end in spans) + 4), coords.npix)
    first = [min(max((start + end - npix) // 2, 0), coords.npix - npix) for start, end in spans]
    half, cell = coords.npix // 2, coords.cell_size
    north, east = (first[0] + npix // 2 - half) * cell, (half - 1 - (first[1] + npix // 2 - 1)) * cell
    return (slice(first[0], first[0] + npix), slice(first[1], first[1] + npix)), (east, north), GridCoords(cell, npix)


def _bregman_iterations(
    problem: _ImagingProblem, data: Complex, mask: Mask, max_iterations: int, *, stop_at_noise: bool = False
) -> list[Tensor]:
    """Return the images of Bregman iterations: each fits the data plus the residual visibilities of the one before.

    With ``stop_at_noise`` they end by the discrepancy principle, or when the residuals no longer shrink.
    """
    likelihood, images, smallest = problem.likelihood_of(data, problem.inverse_hann), [], math.inf
    parameters = problem.initial_parameters(mask, len(data))
    for _ in range(max_iterations):
        parameters = problem.fit(likelihood, parameters, _TV_STRENGTH)
        pixels = _softplus_pixels(parameters)
        image = problem.best_fit_scale(pixels, data) * pixels
        previous, smallest = smallest, rms(problem.residual_image(image)[mask])
        if stop_at_noise and smallest > 0.98 * previous:
            break
        images.append(image)
        if stop_at_noise and _residuals_are_noise(problem.residual_image(image), image, mask):
            break
        likelihood.replace(data + likelihood.residuals(_hann_smooth(image)).cpu().numpy())
    return images


def _residuals_are_noise(residual: Real, image: Tensor, mask: Mask) -> bool:
    """Return whether residuals are as small as noise where the image is bright, and nowhere in the mask above it."""
    bright = mask & (image[0] > 1).cpu().numpy()
    return rms(residual[bright]) <= 1 and float(np.abs(residual[mask]).max()) <= _MAX_RESIDUAL


def _discrepancy_step(problem: _ImagingProblem, images: list[Tensor], mask: Mask) -> float:
    """Return the least step from the last image but one to the last that leaves residuals like noise."""
    bright = (images[-1][0] > 1).sum().item() * problem.coords.cell_size**2
    if len(images) == 1 or bright < _MIN_BEAMS * problem.vis.noise:
        return 1.0  # of so few beams, the residuals tell nothing
    before, after = (problem.residual_image(one) for one in images[-2:])
    for step in np.linspace(0, 1, 1001)[:-1]:
        residual = step * after + (1 - step) * before
        if _residuals_are_noise(residual, _interpolate(images, step), mask):
            return float(step)
    return 1.0


def _interpolate(images: list[Tensor], step: float) -> Tensor:
    """Return the image that lies a step, from 0 to 1, between the last but one and the last."""
    return images[-1] if len(images) == 1 else step * images[-1] + (1 - step) * images[-2]


def _softplus_pixels(parameters: Tensor) -> Tensor:
    """Return the pixels of a `GriddedNet`, before it smooths them, in sky order."""
    return packed_to_sky(softplus(parameters))


def _hann_smooth(images: Tensor) -> Tensor:
    """Return images smoothed as a `GriddedNet` does."""
    return smooth_columns(smooth_rows(images))
