"""Why residuals are larger than noise: the gains of antennas, the weights, or neither; and what to do about it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from firstlight_imaging._types import Complex, Real
from firstlight_imaging.automatic.bregman import MAX_RESIDUAL
from firstlight_imaging.automatic.residuals import Cause, Residuals
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.fitting.quality import MAX_SIGMA, ImageVerdict, rms
from firstlight_imaging.fourier.dirty import DirtyImager
from firstlight_imaging.fourier.limits import CELLS_PER_FRINGE
from firstlight_imaging.gains import apply_gains, chi2_of_gains, describe_gains, fit_other_baselines, solve_gains
from firstlight_imaging.units import ARCSEC, angular_unit

_SURE, _MAX_LEFT = 10.0, 0.5  # σ of chi², and how much of the data's power an image may leave unexplained
_RANDOM_PHASES, _MAX_OF_RANDOM = 60.0, 50.0  # degrees, rms over antennas; a dynamic range that these do not reach
_MIN_DYNAMIC_RANGE = 20.0  # of an image of data that are calibrated at all, if noise does not limit it
_MIN_CURED, _MIN_CURED_OF_NOISE = 0.25, 0.5  # of chi² above 1, for gains to be to blame, also where noise limits
_WIDE_PIXELS = 2048  # of the width of a map in which a source outside of the field is looked for
_OUTSIDE = 2.0  # times the largest residual in the field: sidelobes of these are no brighter than they are
ADVISED_PIXELS = 640  # of the width of a field that is advised: an image of it takes a minute or two on a CPU
_STEP, _SLOPE = 0.05, 4.0  # how far windows' fluxes may be apart, and the steepest spectral index
_MAX_NAMED = 3  # windows
# Of chi² above 1, in gains that may be real though no other baselines confirm them; antennas for closure quantities.
_MAYBE_GAINS, _FEW_ANTENNAS = 0.7, 16
# Times as large is chi² of one of so many parts of the lengths as of another, at most, if weights make it. Of
# visibilities, and of chi² in them, if they are outliers; and chi² by its median then, at most.
_EVEN, _PARTS, _FEW, _MUCH, _ELSE_NOISE = 2.0, 4, 0.01, 0.4, 2.0
_PHASES_FIRST = 0.5  # of what phases and amplitudes cure: more than that, and phases are to be calibrated


def diagnose(left: Residuals) -> Cause | None:
    """Return what makes residuals larger than noise, if anything does."""
    cause = cause_in_field(left)
    outside = source_outside(left) if cause and cause.limits else ""
    return Cause("outside", "doubtful", outside) if outside else cause


def cause_in_field(left: Residuals) -> Cause | None:
    """Return the same, but for sources outside of the field."""
    vis, chi2, count = left.vis, left.chi2, np.count_nonzero(left.vis.weight)
    off = (chi2 - 1) * math.sqrt(count)
    share = (chi2 - 1) / (vis.dark_chi2 - 1) if off > _SURE else 0.0
    if left.is_noise and share < _MAX_LEFT and left.largest <= MAX_SIGMA and off <= MAX_SIGMA:
        return None
    model_vis = left.model_vis
    unexplained = f"the image leaves {share:.0%} of the power of the data unexplained"
    reached = "" if left.is_noise else f"dynamic range {left.dynamic_range:.0f}; "
    calibration: ImageVerdict = "doubtful" if left.is_noise else "limited by calibration"
    windows = windows_that_disagree(vis, model_vis)
    artefacts: ImageVerdict = calibration if windows else "limited by artefacts"
    matters = bool(windows) or not left.is_noise
    # As large as chi² says, and no larger anywhere, neither in the image nor on baselines of some lengths.
    looks_like_noise = left.largest < MAX_RESIDUAL * math.sqrt(chi2) and _is_even(left)
    if not vis.antennas.any():
        if looks_like_noise and not left.is_noise:
            text = f"{unexplained}, and it looks like noise: the weights may be {chi2:.3g} times too large"
            return Cause("weights", "limited by calibration", f"{text} (check_weights)")
        if share > _MAX_LEFT:
            return Cause("uncalibrated", "not calibrated", f"{unexplained}: calibrate the data first")
        why = windows or "the data do not say which antennas saw what"
        return Cause("unknown", artefacts, f"{reached}{why}") if matters else None
    phases = solve_gains(vis, model_vis)
    because, scatter = describe_gains(phases), phases.phase_scatter
    too_faint = not left.is_noise and left.dynamic_range < _MIN_DYNAMIC_RANGE
    random = rms(scatter[np.isfinite(scatter)]) > _RANDOM_PHASES and left.dynamic_range < _MAX_OF_RANDOM
    if share > _MAX_LEFT or too_faint or random:
        advice = "Calibrate the data first, or image their closure quantities"
        if looks_like_noise:
            advice += ". Or the weights are too large (check_weights): the residuals look like noise"
        text = f"{unexplained}; {because}. {advice}"
        return Cause("uncalibrated", "not calibrated", text, also="weights" if looks_like_noise else "")
    with_phases = chi2_of_gains(vis, model_vis, parameters=left.parameters)
    with_both = chi2_of_gains(vis, model_vis, "amplitude", parameters=left.parameters)
    message = f"{reached}chi² is {chi2:.3g}. With other phases of the antennas it would be {with_phases:.3g}, "
    message += f"and with other amplitudes, too, {with_both:.3g} (allowing for the noise that gains fit): "
    cured, least = chi2 - min(with_phases, with_both), _MIN_CURED_OF_NOISE if left.is_noise else _MIN_CURED
    are_gains = cured >= max(least * (chi2 - 1), MAX_SIGMA / math.sqrt(count))
    if not (are_gains and any(fit_other_baselines(vis, model_vis, mode) for mode in ("phase", "amplitude"))):
        message += "but these fit no baselines that they were solved without: " if are_gains else ""
        if looks_like_noise:
            message += f"the residuals look like noise: the weights may be {chi2:.3g} times too large (check_weights)"
            return Cause("weights", calibration, message)
        found = "no gains of antennas explain what is left"
        if maybe_gains := are_gains and cured > _MAYBE_GAINS * (chi2 - 1):
            mode = "phase" if chi2 - with_phases > _PHASES_FIRST * cured else "amplitude"
            found = f"what is left may be gains (--self-calibrate {mode}, and compare the flux) or the image"
        message += f"{found}, {where_largest(left)}. "
        other = "Try --closures, another" if np.unique(vis.antennas).size <= _FEW_ANTENNAS else "Try another"
        message += windows or outlying_residuals(vis, model_vis) or f"{other} --field or --mask"
        return Cause("unexplained", artefacts, message, also="gains" if maybe_gains else "") if matters else None
    share = cured / (chi2 - 1)
    if chi2 - with_phases > _PHASES_FIRST * cured:
        return Cause("gains", "limited by calibration", f"{message}{because}. Self-calibrate phases", share)
    amplitudes = describe_gains(solve_gains(apply_gains(vis, phases), model_vis, mode="amplitude"), "amplitude")
    return Cause("gains", "limited by calibration", f"{message}{amplitudes}. Self-calibrate amplitudes", share)


def _chi2_each(vis: Visibilities, model_vis: Complex) -> Real:
    """Return what each visibility that is not flagged adds to chi²: 1 on average, of noise."""
    return np.asarray((vis.weight * np.abs(vis.data - model_vis) ** 2)[~vis.flagged]) / 2


def _is_even(left: Residuals) -> bool:
    """Return whether chi² is about as large on short and on long baselines, as it is if weights make it."""
    order = np.argsort(left.vis.lengths[~left.vis.flagged])
    chi2 = [part.mean() for part in np.array_split(_chi2_each(left.vis, left.model_vis)[order], _PARTS)]
    return bool(max(chi2) < _EVEN * min(chi2))


def outlying_residuals(vis: Visibilities, model_vis: Complex) -> str:
    """Return which few visibilities make much of chi², where most others are noise; empty if none do."""
    each = _chi2_each(vis, model_vis)
    worst = np.argsort(-each)[: math.ceil(_FEW * each.size)]
    share, rest = each[worst].sum() / each.sum(), np.median(each) / math.log(2)
    if share < _MUCH or rest > _ELSE_NOISE:
        return ""
    rows = np.nonzero(~vis.flagged)[1][worst]
    pairs, counts = np.unique(np.sort(vis.antennas[rows], axis=1), axis=0, return_counts=True)
    names = [" and ".join(map(vis.name_of, pair)) for pair in pairs.tolist()]
    most = ", ".join(f"{names[k]} ({counts[k]})" for k in np.argsort(-counts)[:_MAX_NAMED])
    said = (
        f"{worst.size} of {each.size} visibilities make {share:.0%} of chi², which is {rest:.2g} by its median: flag "
    )
    return f"{said}them, or mend their weights. Most: antennas {most}; the largest: {vis.utc(vis.time[rows[0]]) or '?'}"


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
    spectrum = _SLOPE * np.abs(log_frequency - log_frequency[best])
    noise = MAX_SIGMA * np.sqrt(variance + variance[best])
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


def where_largest(left: Residuals) -> str:
    """Return how large the largest residual is, and where."""
    residual, coords = left.map, left.coords
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


def source_outside(left: Residuals) -> str:
    """Return where a source outside of the field is, and how to get it in; empty if the residuals show none."""
    vis, coords = left.vis, left.coords
    wide = GridCoords(coords.cell_size, _WIDE_PIXELS)
    u, v, data, weight = replace(vis, data=vis.data - left.model_vis).unflagged
    imager = DirtyImager(wide, u, v, weight, data.real, data.imag, eps=1e-3)
    dirty = imager.get_dirty_image("natural", check_visibility_scatter=False)[0][0]
    distance = np.abs(wide.sky_coordinates()).max(axis=0)
    dirty[distance < coords.npix * coords.cell_size / 2] = 0
    brightest = np.unravel_index(dirty.argmax(), dirty.shape)
    if dirty[brightest] * math.sqrt(weight.sum()) < _OUTSIDE * left.largest:
        return ""
    east, north = (float(axis[brightest]) for axis in wide.sky_coordinates())
    per_arcsec, angle = angular_unit(distance[brightest])
    field = 2.5 * float(distance[brightest])
    longest = ADVISED_PIXELS / (CELLS_PER_FRINGE * field * ARCSEC)
    shorter = f", and only baselines up to {longest:.2g} wavelengths" if longest < np.hypot(u, v).max() else ""
    return (
        f"a source {_place(per_arcsec * east, per_arcsec * north, angle)} is outside of the field: take one of "
        f"{per_arcsec * field:.2g} {angle}{shorter}"
    )
