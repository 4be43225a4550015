"""What a field is too wide for: channels, integrations and a flat sky, each with what is lost at the edge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from firstlight.imaging.coordinates import ARCSEC, GridCoords
from firstlight.imaging.neighbours import time_runs
from firstlight.imaging.observe import Observation
from firstlight.imaging.skies import Mask, Real
from firstlight.imaging.tracks import SIDEREAL_HOUR

EARTH = math.pi / 12 / SIDEREAL_HOUR  # radians it turns in a second
NOTE, WARNING = 0.01, 0.1  # the loss at the edge of the field from which it is worth a word, and a change

Severity = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One thing that was checked.

    Attributes
    ----------
    code
        Which: ``units``, ``beyond``, ``cells``, ``bandwidth``, ``time``, ``w`` or ``scale``.
    severity
        ``"ok"``; ``"note"``, worth knowing, as is the loss of a hundredth; ``"warning"``, the loss of a tenth or units
        that are doubtful; ``"error"``, there can be no image.
    message
        What was found, with the numbers.
    remedy
        What to do; empty where nothing needs to be done.
    value
        The number that decided: a loss, a part, or arcsec.

    Examples
    --------
    >>> from firstlight.imaging import GridCoords, Point, check_image_grid
    >>> from firstlight.imaging.observe import observe, uv_track
    >>> found = check_image_grid(observe([Point(1.0)], uv_track()), GridCoords(cell_size=0.5, npix=64))
    >>> [finding.code for finding in found if finding.severity == "error"]
    ['beyond']
    """

    code: str
    severity: Severity
    message: str
    remedy: str
    value: float

    def __str__(self) -> str:
        return f"{self.severity}: {self.code}: {self.message}" + (f" {self.remedy}" if self.remedy else "")


def bandwidth(seen: Observation, counts: Mask, coords: GridCoords, width: float | None) -> Finding:
    """Estimate how much of a source is lost where the fringe turns within a channel.

    The mean of exp(-2πi τν) over a width Δν is its middle times sinc(τΔν); here τν = ul + vm. (Bridle & Schwab 1999,
    ASP Conference Series 180, 371; Thompson, Moran & Swenson, Interferometry and Synthesis in Radio Astronomy, ch. 6.)
    """
    widths = channel_widths(seen) if width is None else np.full(len(seen.frequency), checked("channel_width", width))
    if np.isnan(widths).any():
        message = "a window of one channel does not tell how wide it is."
        return Finding("bandwidth", "note", message, "Pass channel_width, in Hz.", math.nan)
    part = (widths / seen.frequency)[:, None]
    loss, offset = worst_loss(seen, coords, seen.uu * part, seen.vv * part, counts)
    message = (
        f"channels of up to {widths.max():.4g} Hz dim a point at the edge of the field, {offset:.2g} arcsec from its "
        f"centre, by {100 * loss:.2g} %."
    )
    return smearing("bandwidth", message, loss, "Take a smaller field, or average fewer channels into one.")


def averaging(seen: Observation, counts: Mask, coords: GridCoords, integration: float | None) -> Finding:
    """Estimate how much of a source is lost where the fringe turns within an integration.

    As with bandwidth, by sinc, of what ul + vm changes in the time. How fast u and v change is seen from the
    tracks; a visibility alone is taken to turn as at the pole, a whole turn a day, which is rather too fast elsewhere.
    """
    if integration is not None:
        checked("integration", integration)
    pairs = time_runs(seen, 2)
    steps = np.diff(seen.time[pairs], axis=0)[0]
    seconds = float(np.median(steps)) if integration is None and steps.size else integration
    if seconds is None:
        message = "no baseline has a second integration, so the time that each takes is not known."
        return Finding("time", "note", message, "Pass integration, in seconds.", math.nan)
    du, dv = -EARTH * seen.vv, EARTH * seen.uu
    for each in pairs:  # at both ends of a step; of two steps that meet, the second counts
        du[:, each] = np.diff(seen.uu[:, pairs], axis=1)[:, 0] / steps
        dv[:, each] = np.diff(seen.vv[:, pairs], axis=1)[:, 0] / steps
    loss, offset = worst_loss(seen, coords, du * seconds, dv * seconds, counts)
    known = "" if integration is not None else " (taken from the time between integrations)"
    message = (
        f"integrations of {seconds:.4g} s{known} dim a point at the edge of the field, {offset:.2g} arcsec from its "
        f"centre, by {100 * loss:.2g} %."
    )
    return smearing("time", message, loss, "Take a smaller field, or average over less time.")


def w_term(seen: Observation, counts: Mask, coords: GridCoords, ww: ArrayLike | None) -> Finding:
    """Estimate the phase that a flat sky leaves out, 2π w (1 - √(1 - l² - m²)), largest in the corners.

    The loss is that of the part that stays in phase, 1 - cos. (Thompson, Moran & Swenson, ch. 3.)
    """
    if ww is None:
        longest, taken = float(np.hypot(seen.uu, seen.vv)[counts].max()), " (w taken to be the longest baseline)"
    else:
        w = np.asarray(ww, float)
        if w.shape != seen.uu.shape or not np.isfinite(w[counts]).all():
            raise ValueError(f"ww must be finite numbers of wavelengths of the shape {seen.uu.shape}; got {w.shape}")
        longest, taken = float(np.abs(w)[counts].max()), ""
    offset = math.sqrt(0.5) * coords.npix * coords.cell_size
    squared = min((offset * ARCSEC) ** 2, 1.0)
    turn = 2 * math.pi * longest * squared / (1 + math.sqrt(1 - squared))  # 1 - √(1 - x), without losing digits
    loss = 1 - math.cos(min(turn, math.pi / 2))
    message = (
        f"w of up to {longest:.4g} wavelengths{taken} turns the phase of a point {offset:.2g} arcsec from the centre "
        f"by {turn:.2g} rad."
    )
    remedy = "Take a smaller field, or the phase centre nearer to the source: there is no w-projection here."
    return smearing("w", message, loss, remedy)


def smearing(code: str, message: str, loss: float, remedy: str) -> Finding:
    """Judge a loss."""
    if loss < NOTE:
        return Finding(code, "ok", message, "", loss)
    return Finding(code, "note" if loss < WARNING else "warning", message, remedy, loss)


def worst_loss(seen: Observation, coords: GridCoords, du: Real, dv: Real, counts: Mask) -> tuple[float, float]:
    """Find where on the edge and in which channel most is lost when u and v run over spans: the loss, and how far out.

    The spans du and dv are in wavelengths, of the shape of ``seen.uu``.
    """
    half = coords.npix * coords.cell_size / 2
    some = counts.any(axis=1)
    losses = []
    for east, north in ((1, 0), (0, 1), (1, 1), (1, -1)):  # the other side loses the same
        turns = (du * east + dv * north)[some] * half * ARCSEC
        kept = (np.sinc(turns) * seen.weight[some]).sum(axis=1) / seen.weight[some].sum(axis=1)
        losses.append((1 - float(kept.min()), half * math.hypot(east, north)))
    return max(losses)


def channel_widths(seen: Observation) -> Real:
    """Take the distance to the nearest channel of the same window as the width; NaN where there is none."""
    widths = np.full(len(seen.frequency), math.nan)
    for window in np.unique(seen.window):
        inside = seen.window == window
        apart = np.abs(seen.frequency[inside][:, None] - seen.frequency[inside])
        apart[apart == 0] = math.inf
        widths[inside] = apart.min(axis=1)
    return np.where(np.isinf(widths), math.nan, widths)


def checked(name: str, value: float) -> float:
    """Refuse what is no width."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; got {value!r}")
    return value
