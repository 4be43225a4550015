"""Check an observation against an image grid before an image is made: units, cells, smearing, the largest scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from firstlight_imaging._types import Mask, Real
from firstlight_imaging.coordinates import MIN_GRID_FRACTION, GridCoords, round_down
from firstlight_imaging.data.visibilities import Visibilities, check_visibilities
from firstlight_imaging.data.weights import consecutive_rows
from firstlight_imaging.fourier.padding import fast_fft_size
from firstlight_imaging.units import ARCSEC, LIGHT_SPEED, SIDEREAL_HOUR

CELLS_PER_FRINGE = 3  # for the finest fringe: 2 are the least with which it is a fringe
_MIN_CELLS, _MAX_CELLS = 2.5, 10  # per fringe, without a note
_RECOVERABLE_SCALE = 0.6  # of the wavelength over the shortest baseline: what ALMA calls the maximum recoverable scale
_MIN_ARRAY_METRES = 10.0  # the longest baseline of any array is longer
EARTH_ROTATION_RATE = math.pi / 12 / SIDEREAL_HOUR  # radians a second
_NOTE_LOSS, _WARNING_LOSS = 0.01, 0.1  # at the edge of the field

Severity = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True)
class Limit:
    """One thing that limits an image: how much, and what to do about it.

    Attributes
    ----------
    code
        Which: ``units``, ``outside_grid``, ``cells``, ``bandwidth``, ``time``, ``w`` or ``scale``.
    severity
        ``"ok"``; ``"note"``, worth knowing, as is the loss of a hundredth; ``"warning"``, the loss of a tenth or units
        that are doubtful; ``"error"``, there can be no image.
    message
        What it is, with the numbers.
    remedy
        What to do; empty where nothing needs to be done.
    value
        The number that decided: a loss, a part, or arcsec.

    Examples
    --------
    >>> from firstlight_imaging import GridCoords, Point, check_image_grid
    >>> from firstlight_imaging.simulate.observation import observe, uv_track
    >>> limits = check_image_grid(observe([Point(1.0)], uv_track()), GridCoords(cell_size=0.5, npix=64))
    >>> [limit.code for limit in limits if limit.severity == "error"]
    ['outside_grid']
    """

    code: str
    severity: Severity
    message: str
    remedy: str
    value: float

    def __str__(self) -> str:
        return f"{self.severity}: {self.code}: {self.message}" + (f" {self.remedy}" if self.remedy else "")


def check_image_grid(
    vis: Visibilities,
    coords: GridCoords,
    *,
    channel_width: float | None = None,
    integration: float | None = None,
    offset: float | None = None,
) -> list[Limit]:
    """Return what limits an image of an observation on a grid; what is flagged does not count.

    Losses are of a point source, as a fraction of its peak in the dirty image of natural weights.

    Parameters
    ----------
    vis
        What was observed.
    coords
        The grid of the image.
    channel_width
        In Hz; by default the distance between the channels of each window.
    integration
        In seconds; by default the time between successive integrations of a baseline.
    offset
        Of the point, in arcsec from the centre, wherever it loses most; by default it is in a corner of the field, or
        halfway along an edge.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import channels, observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = observe([Point(1.0)], uv_track(n_times=120), channels(230e9, 4e9, 2))
    >>> for limit in check_image_grid(vis, GridCoords(cell_size=0.03, npix=180)):
    ...     if limit.code == "bandwidth":
    ...         print(limit)  # doctest: +ELLIPSIS
    note: bandwidth: channels of up to 4e+09 Hz dim a point 3.8 arcsec from the centre by ...
    """
    check_visibilities(vis)
    if np.isnan(vis.frequency).any():
        raise ValueError("the frequencies are not known: replace(vis, frequency=...), in Hz, one for each channel")
    unflagged = ~vis.flagged
    if not vis.lengths[unflagged].any():
        raise ValueError("every visibility is flagged, or has no length: there is nothing to image")
    half = coords.npix * coords.cell_size / 2 if offset is None else math.sqrt(0.5) * offset
    return [
        _check_units(vis, unflagged, coords),
        _baselines_outside_grid(vis, coords),
        _check_cell_size(vis, unflagged, coords),
        _bandwidth_smearing(vis, unflagged, half, channel_width),
        _time_smearing(vis, unflagged, half, integration),
        _w_term_loss(vis, unflagged, half),
        _largest_scale(vis, unflagged, coords),
    ]


def suggest_grid(vis: Visibilities, field: float | None = None) -> GridCoords:
    """Return a grid that suits the data: three cells for the finest fringe, and pixels enough for the field.

    Parameters
    ----------
    vis
        What was observed.
    field
        The width of the field in arcsec; by default the fringe of the shortest baseline, the largest scale of which
        the data know. Where antennas stand almost side by side, this is about their primary beam.

    Returns
    -------
    GridCoords
        Its ``npix`` is even and has no prime factor above 5, for a fast transform.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> suggest_grid(observe([Point(1.0)], uv_track()), field=5.4)
    GridCoords(cell_size=0.035, npix=160)
    """
    check_visibilities(vis)
    lengths = vis.lengths[~vis.flagged & (vis.lengths > 0)]
    if not lengths.size:
        raise ValueError("there is no baseline with a length that is not flagged")
    _check_positive("field", field)
    field = field or 1 / lengths.min() / ARCSEC
    cell_size = round_down(1 / (CELLS_PER_FRINGE * lengths.max() * ARCSEC))
    return GridCoords(cell_size, fast_fft_size(max(4, math.ceil(field / cell_size * (1 - 1e-9)))))


def _check_units(vis: Visibilities, unflagged: Mask, coords: GridCoords) -> Limit:
    """Return whether u and v seem to be in another unit than wavelengths: too short for the grid, or for any array."""
    lengths = np.where(unflagged, vis.lengths, 0)
    part = float(lengths.max()) / coords.uv_limit
    metres = float((lengths * (LIGHT_SPEED / vis.frequency[:, None])).max())
    message = (
        f"the longest baseline is {lengths.max():.4g} wavelengths ({metres:.4g} m), {100 * part:.2g} % of what "
        f"cells of {coords.cell_size:g} arcsec can hold."
    )
    remedy = "If u and v are in kilo-lambda, multiply them by 1000; if in metres, by the frequency over 299792458 m/s."
    severity: Severity = "error" if part < MIN_GRID_FRACTION else "warning" if metres < _MIN_ARRAY_METRES else "ok"
    return _limit("units", severity, message, remedy, part)


def _baselines_outside_grid(vis: Visibilities, coords: GridCoords) -> Limit:
    """Return how many baselines the grid cannot hold, flagged or not: a grid refuses both."""
    reach = np.maximum(np.abs(vis.uu), np.abs(vis.vv))
    outside = int((reach > coords.uv_limit).sum())
    part = outside / reach.size
    if not outside:
        message = f"all baselines are on the grid, which holds u and v up to {coords.uv_limit:.4g} wavelengths."
        return Limit("outside_grid", "ok", message, "", 0.0)
    message = (
        f"{outside} of {reach.size} visibilities ({100 * part:.2g}%) reach up to {reach.max():.4g} wavelengths, but "
        f"cells of {coords.cell_size:g} arcsec hold only {coords.uv_limit:.4g}."
    )
    fitting = round_down(coords.cell_size * coords.uv_limit / reach.max())
    remedy = f"Take a cell_size of {fitting:g} arcsec or less, or select_baselines(vis, longest={coords.uv_limit:.4g})."
    return Limit("outside_grid", "error", message, remedy, part)


def _check_cell_size(vis: Visibilities, unflagged: Mask, coords: GridCoords) -> Limit:
    """Return how many cells the finest fringe has."""
    fringe = 1 / (float(vis.lengths[unflagged].max()) * ARCSEC)
    pixels, better = fringe / coords.cell_size, round_down(fringe / CELLS_PER_FRINGE)
    message = f"the finest fringe is {fringe:.4g} arcsec wide: {pixels:.3g} cells of {coords.cell_size:g} arcsec."
    if pixels < _MIN_CELLS:
        remedy = f"That is coarse: a model cannot be sharper than its cells. Take {better:g} arcsec."
    else:
        remedy = f"Finer cells than about {better:g} arcsec show nothing more and cost time."
    return _limit("cells", "ok" if _MIN_CELLS <= pixels <= _MAX_CELLS else "note", message, remedy, pixels)


def _largest_scale(vis: Visibilities, unflagged: Mask, coords: GridCoords) -> Limit:
    """Return the largest scale of the shortest baseline: 0.6 of its fringe, as ALMA's Observing Tool has it.

    Of a Gaussian as wide at half its maximum as that, the shortest baseline sees 28 % of the flux; of a uniform disk
    of that diameter, 62%.
    """
    lengths = vis.lengths[unflagged & (vis.lengths > 0)]
    scale, field = _RECOVERABLE_SCALE / lengths.min() / ARCSEC, coords.npix * coords.cell_size
    message = (
        f"the shortest baseline, of {lengths.min():.4g} wavelengths, recovers scales up to {scale:.3g} arcsec; the "
        f"field is {field:.3g} arcsec wide."
    )
    remedy = "What is wider and smooth is missing, and with it flux: compare with a single dish or a compact array."
    return _limit("scale", "ok" if scale >= field else "note", message, remedy, scale)


def _bandwidth_smearing(vis: Visibilities, unflagged: Mask, half: float, width: float | None) -> Limit:
    """Return how much of a source is lost where the fringe turns within a channel.

    The mean of exp(-2πi τν) over a width Δν is its middle times sinc(τΔν); here τν = ul + vm. (Bridle & Schwab 1999,
    ASP Conference Series 180, 371; Thompson, Moran & Swenson, Interferometry and Synthesis in Radio Astronomy, ch. 6.)
    """
    _check_positive("channel_width", width)
    widths = _channel_widths(vis) if width is None else np.full(len(vis.frequency), width)
    if np.isnan(widths).any():
        message = "a window of one channel does not tell how wide it is."
        return Limit("bandwidth", "note", message, "Pass channel_width, in Hz.", math.nan)
    part = (widths / vis.frequency)[:, None]
    loss, where = _worst_loss(vis, half, vis.uu * part, vis.vv * part, unflagged)
    message = f"channels of up to {widths.max():.4g} Hz {where}: 1 - mean of sinc(Δν/ν (u l + v m))."
    return _limit_of_loss("bandwidth", message, loss, "Take a smaller field, or average fewer channels into one.")


def _time_smearing(vis: Visibilities, unflagged: Mask, half: float, integration: float | None) -> Limit:
    """Return how much of a source is lost where the fringe turns within an integration.

    As with bandwidth, by sinc, of what ul + vm changes in the time. How fast u and v change is known from the
    tracks; a visibility alone is taken to turn as at the pole, a whole turn a day, which is rather too fast elsewhere.
    """
    _check_positive("integration", integration)
    pairs = consecutive_rows(vis, 2)
    steps = np.diff(vis.time[pairs], axis=0)[0]
    seconds = float(np.median(steps)) if integration is None and steps.size else integration
    if seconds is None:
        message = "no baseline has a second integration, so the time that each takes is not known."
        return Limit("time", "note", message, "Pass integration, in seconds.", math.nan)
    du, dv = -EARTH_ROTATION_RATE * vis.vv, EARTH_ROTATION_RATE * vis.uu
    for each in pairs:  # at both ends of a step; of two steps that meet, the second counts
        du[:, each] = np.diff(vis.uu[:, pairs], axis=1)[:, 0] / steps
        dv[:, each] = np.diff(vis.vv[:, pairs], axis=1)[:, 0] / steps
    loss, where = _worst_loss(vis, half, du * seconds, dv * seconds, unflagged)
    source = "" if integration is not None else "(if they fill the time from one to the next) "
    message = f"integrations of {seconds:.4g} s {source}{where}: 1 - mean of sinc(Δt d(u l + v m)/dt)."
    return _limit_of_loss("time", message, loss, "Take a smaller field, or average over less time.")


def _w_term_loss(vis: Visibilities, unflagged: Mask, half: float) -> Limit:
    """Return the loss by the phase that a flat sky leaves out, 2π w (1 - √(1 - l² - m²)), largest in the corners.

    w is taken to be as large as the longest baseline: about what it can be in a flat array with long baselines in all
    directions, as long as the source is not low. The loss is that of the part that stays in phase, 1 - cos. (Thompson,
    Moran & Swenson, ch. 3.)
    """
    longest = float(vis.lengths[unflagged].max())
    offset = math.sqrt(2) * half
    squared = min((offset * ARCSEC) ** 2, 1.0)
    turn = 2 * math.pi * longest * squared / (1 + math.sqrt(1 - squared))  # 1 - √(1 - x), without losing digits
    loss = 1 - math.cos(min(turn, math.pi / 2))
    message = (
        f"w of up to {longest:.4g} wavelengths (taken to be the longest baseline) turns the phase of a point "
        f"{offset:.2g} arcsec from the centre by {turn:.2g} rad, which dims it by {100 * loss:.2g}%: 1 - cos 2π w (1 - "
        "√(1 - l² - m²))."
    )
    remedy = "Take a smaller field, or the phase centre nearer to the source: there is no w-projection here."
    return _limit_of_loss("w", message, loss, remedy)


def _limit_of_loss(code: str, message: str, loss: float, remedy: str) -> Limit:
    """Return a limit whose severity is that of a loss."""
    severity: Severity = "ok" if loss < _NOTE_LOSS else "note" if loss < _WARNING_LOSS else "warning"
    return _limit(code, severity, message, remedy, loss)


def _limit(code: str, severity: Severity, message: str, remedy: str, value: float) -> Limit:
    """Return a limit, without the remedy where there is nothing to mend."""
    return Limit(code, severity, message, "" if severity == "ok" else remedy, value)


def _worst_loss(vis: Visibilities, half: float, du: Real, dv: Real, unflagged: Mask) -> tuple[float, str]:
    """Return the worst loss along the edge and over channels when u and v run over spans, and a sentence on it.

    The spans du and dv are in wavelengths, of the shape of ``vis.uu``.
    """
    channels = unflagged.any(axis=1)
    losses = []
    for east, north in ((1, 0), (0, 1), (1, 1), (1, -1)):  # the other side loses the same
        turns = (du * east + dv * north)[channels] * half * ARCSEC
        peak = (np.sinc(turns) * vis.weight[channels]).sum(axis=1) / vis.weight[channels].sum(axis=1)
        losses.append((1 - float(peak.min()), half * math.hypot(east, north)))
    loss, offset = max(losses)
    return loss, f"dim a point {offset:.2g} arcsec from the centre by {100 * loss:.2g}%"


def _channel_widths(vis: Visibilities) -> Real:
    """Return the distance of each channel to the nearest of its window; NaN where there is none."""
    apart = np.abs(vis.frequency[:, None] - vis.frequency)
    neighbours = (vis.window[:, None] == vis.window) & (apart > 0)
    widths = np.where(neighbours, apart, math.inf).min(axis=1)
    return np.where(np.isinf(widths), math.nan, widths)


def _check_positive(name: str, value: float | None) -> None:
    """Raise an error if a width is not positive."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; got {value!r}")
