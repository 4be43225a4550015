"""Why residuals are larger than noise: the gains of antennas, the weights, or neither; and what to do about it."""

from __future__ import annotations

import math

import numpy as np

from firstlight_imaging._types import Complex, Mask, Real
from firstlight_imaging.calibration.gains import apply_gains, chi2_of_gains, describe_gains, solve_gains
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.fitting.bregman import MAX_RESIDUAL
from firstlight_imaging.fitting.quality import MAX_MAP_NOISE, MAX_SIGMA, ImageVerdict, map_noise, rms
from firstlight_imaging.fourier.beams import Beam, convolve
from firstlight_imaging.fourier.dirty import DirtyImager
from firstlight_imaging.fourier.limits import CELLS_PER_FRINGE
from firstlight_imaging.units import ARCSEC, angular_unit

_MAX_ARTEFACT = 6.5  # σ: a larger residual is no noise
_SURE, _MAX_LEFT = 10.0, 0.5  # σ of chi², and how much of the data's power an image may leave unexplained
_RANDOM_PHASES = 60.0  # degrees, rms over antennas
_MIN_DYNAMIC_RANGE = 20.0  # of an image of data that are calibrated at all, if noise does not limit it
_MIN_CURED = {False: 0.25, True: 0.5}  # of chi² above 1, for gains to be to blame: where noise does not limit, and does
_WIDE_PIXELS = 2048  # of the width of a map in which a source outside of the field is looked for
_OUTSIDE = 2.0  # times the largest residual in the field: sidelobes of these are no brighter than they are
ADVISED_PIXELS = 640  # of the width of a field that is advised: an image of it takes a minute or two on a CPU
_STEP, _SLOPE = 0.05, 4.0  # how far windows' fluxes may be apart, and the steepest spectral index
_MAX_NAMED = 3  # windows
UNEXPLAINED = "no gains of antennas explain what is left"
_PHASES_FIRST = 0.5  # of what phases and amplitudes cure: more than that, and phases are to be calibrated


def is_noise(residual: Real, mask: Mask) -> bool:
    """Return whether residuals are no louder than noise, as far as a map of them tells."""
    return map_noise(residual, mask) <= MAX_MAP_NOISE and float(np.abs(residual).max()) <= _MAX_ARTEFACT


def dynamic_range_of(residual: Real, mask: Mask, model: Real, beam: Beam, coords: GridCoords) -> float:
    """Return the peak of the restored image over the noise of the residuals."""
    restored = convolve(model, coords, beam) / beam.area + residual
    return float(restored.max()) / max(map_noise(residual, mask), rms(residual))


def diagnose(
    vis: Visibilities,
    model_vis: Complex,
    residual: Real,
    coords: GridCoords,
    chi2: float,
    dynamic_range: float,
    *,
    noise_limited: bool,
    parameters: float = 0.0,
) -> tuple[ImageVerdict, str] | None:
    """Return what makes residuals larger than noise, of data and what a model has of them, if anything does.

    ``noise_limited`` says that the residuals are no louder than noise, so that nothing else limits the image, and
    ``parameters`` how many gains were fitted before.
    """
    data = np.where(vis.flagged, 0, vis.data)
    count = int((~vis.flagged).sum())
    power, largest = float((vis.weight * np.abs(data) ** 2).sum()) / 2 / count - 1, float(np.abs(residual).max())
    left = (chi2 - 1) / power if (chi2 - 1) * math.sqrt(count) > _SURE else 0.0
    is_larger = largest > MAX_SIGMA or (chi2 - 1) * math.sqrt(count) > MAX_SIGMA
    if noise_limited and left < _MAX_LEFT and not is_larger:
        return None
    unexplained = f"the image leaves {left:.0%} of the power of the data unexplained"
    reached = "" if noise_limited else f"dynamic range {dynamic_range:.0f}; "
    verdict: ImageVerdict = "doubtful" if noise_limited else "limited by calibration"
    unknown: ImageVerdict = "doubtful" if noise_limited else "limited by artefacts"
    windows = windows_that_disagree(vis, model_vis)
    if not vis.antennas.any():
        if left > _MAX_LEFT:
            return "not calibrated", f"{unexplained}: calibrate the data first"
        why = windows or "the data do not say which antennas saw what"
        return (verdict if windows else unknown, f"{reached}{why}") if windows or not noise_limited else None
    phases = solve_gains(vis, model_vis)
    because, scatter = describe_gains(phases), phases.phase_scatter
    random = rms(scatter[np.isfinite(scatter)]) > _RANDOM_PHASES or (
        not noise_limited and dynamic_range < _MIN_DYNAMIC_RANGE
    )
    if left > _MAX_LEFT or random:
        advice = "Calibrate the data first, or image their closure quantities"
        if largest < MAX_RESIDUAL * math.sqrt(chi2):
            advice += ". Or the weights are too large (check_weights): the residuals look like noise"
        return "not calibrated", f"{unexplained}; {because}. {advice}"
    with_phases, with_both = (
        chi2_of_gains(vis, model_vis, amplitude=amplitude, parameters=parameters) for amplitude in (False, True)
    )
    message = f"{reached}chi² is {chi2:.3g}. With other phases of the antennas it would be {with_phases:.3g}, "
    message += f"and with other amplitudes, too, {with_both:.3g} (allowing for the noise that gains fit): "
    cured = chi2 - min(with_phases, with_both)
    if cured < max(_MIN_CURED[noise_limited] * (chi2 - 1), MAX_SIGMA / math.sqrt(count)):
        if largest < MAX_RESIDUAL * math.sqrt(chi2):  # as large as chi² says, and no larger anywhere
            message += f"the residuals look like noise: the weights may be {chi2:.3g} times too large (check_weights)"
            return verdict, message
        message += f"{UNEXPLAINED}, {_where_largest(residual, coords)}. {windows or 'Try another --field or --mask'}"
        return (verdict if windows else unknown, message) if windows or not noise_limited else None
    if chi2 - with_phases > _PHASES_FIRST * cured:
        return "limited by calibration", f"{message}{because}. Self-calibrate phases"
    amplitudes = solve_gains(apply_gains(vis, phases), model_vis, amplitude=True)
    return "limited by calibration", f"{message}{describe_gains(amplitudes, amplitude=True)}. Self-calibrate amplitudes"


def windows_that_disagree(vis: Visibilities, model_vis: Complex) -> str:
    """Return which spectral windows have another flux than the one that fits best; empty if none has.

    The flux of a window is how much of the model its own baselines see. Noise and any spectrum are allowed for.
    """
    data = np.where(vis.flagged, 0, vis.data)
    squares = (np.abs(model_vis) ** 2, (data * model_vis.conj()).real, np.abs(data - model_vis) ** 2 / 2)
    sums = [np.bincount(vis.window, (vis.weight * part).sum(axis=1)) for part in squares]
    sums += [np.bincount(vis.window, part) for part in ((~vis.flagged).sum(axis=1), np.log(vis.frequency), None)]
    there = np.flatnonzero((sums[0] > 0) & (sums[1] > 0))
    if len(there) < 2:
        return ""
    power, seen, left, count, logs, channels = (part[there] for part in sums)
    flux, chi2, log_frequency = seen / power, left / count, logs / channels
    best, variance = int(chi2.argmin()), np.maximum(chi2, 1) * power / seen**2
    spectrum, noise = (
        _SLOPE * np.abs(log_frequency - log_frequency[best]),
        MAX_SIGMA * np.sqrt(variance + variance[best]),
    )
    off = np.flatnonzero(np.abs(np.log(flux / flux[best])) > _STEP + spectrum + noise)
    if not off.size:
        return ""
    named = " and ".join(
        f"window {there[k]} has {flux[k] / flux[best]:.2g} times (chi² {chi2[k]:.3g})" for k in off[:_MAX_NAMED]
    )
    first, last = np.flatnonzero(vis.window == there[best])[[0, -1]]
    return (
        f"Spectral windows disagree: on its baselines, {named} the flux of window {there[best]} "
        f"(chi² {chi2[best]:.3g}). Image that one by itself (--spw {there[best]} of a measurement set, "
        f"--channels {first}:{last + 1} of other data)"
    )


def _where_largest(residual: Real, coords: GridCoords) -> str:
    """Return how large the largest residual is, and where."""
    at = np.unravel_index(np.abs(residual).argmax(), residual.shape)
    east, north = (float(axis[at]) for axis in coords.sky_coordinates())
    per_arcsec, angle = angular_unit(coords.npix * coords.cell_size)
    return f"at most {abs(residual[at]):.0f} σ, {_place(per_arcsec * east, per_arcsec * north, angle)}"


def _place(east: float, north: float, unit: str) -> str:
    """Return where something is, seen from the middle.

    Examples
    --------
    >>> _place(0.5, -1.81, "mas")
    '0.5 mas east and 1.81 mas south of the middle'
    """
    along, up = "east" if east >= 0 else "west", "north" if north >= 0 else "south"
    return f"{abs(east):.3g} {unit} {along} and {abs(north):.3g} {unit} {up} of the middle"


def source_outside(vis: Visibilities, model_vis: Complex, residual: Real, coords: GridCoords) -> str:
    """Return where a source outside of the field is, and how to get it in; empty if the residuals show none."""
    wide, there = GridCoords(coords.cell_size, _WIDE_PIXELS), ~vis.flagged
    uu, vv, weight, left = (part[there] for part in (vis.uu, vis.vv, vis.weight, vis.data - model_vis))
    imager = DirtyImager(wide, uu, vv, weight, left.real, left.imag, eps=1e-3)
    dirty = imager.get_dirty_image("natural", check_visibility_scatter=False)[0][0]
    distance = np.abs(wide.sky_coordinates()).max(axis=0)
    dirty[distance < coords.npix * coords.cell_size / 2] = 0
    brightest = np.unravel_index(dirty.argmax(), dirty.shape)
    if dirty[brightest] * math.sqrt(weight.sum()) < _OUTSIDE * np.abs(residual).max():
        return ""
    east, north = (float(axis[brightest]) for axis in wide.sky_coordinates())
    per_arcsec, angle = angular_unit(distance[brightest])
    field = 2.5 * float(distance[brightest])
    longest = ADVISED_PIXELS / (CELLS_PER_FRINGE * field * ARCSEC)
    shorter = f", and only baselines up to {longest:.2g} wavelengths" if longest < vis.lengths[there].max() else ""
    return (
        f"a source {_place(per_arcsec * east, per_arcsec * north, angle)} is outside of the field: take one of "
        f"{per_arcsec * field:.2g} {angle}{shorter}"
    )
