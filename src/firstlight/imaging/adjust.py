"""Adjust visibilities before imaging: another centre, fewer baselines, fewer channels."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from firstlight.imaging.coordinates import ARCSEC
from firstlight.imaging.observe import Observation
from firstlight.imaging.skies import shift

__all__ = ["select_baselines", "select_channels", "shift_phase_centre"]


def shift_phase_centre(seen: Observation, east: float, north: float) -> Observation:
    """Move the sky so that what is ``east`` and ``north`` of the centre, in arcsec, comes to lie in it.

    The offsets are direction cosines (in units of an arcsecond), as all offsets in images here are: at an angle θ they
    are smaller than it by the part θ²/6, 4e-9 at 30 arcsec. Only phases turn. The baselines stay projected as the old
    centre saw them, so the sky slides and is not seen anew: near its new centre it is foreshortened by the part θ²/2,
    and its north is turned by θ tan(declination), for θ to the east, from the north that is there. The w-term stays
    as large as it was.

    Examples
    --------
    >>> from firstlight.imaging.observe import observe, uv_track
    >>> from firstlight.imaging.skies import Point
    >>> seen = observe([Point(2.0, east=0.5, north=-0.3)], uv_track(n_times=1))
    >>> bool(np.allclose(shift_phase_centre(seen, 0.5, -0.3).data, 2.0))
    True
    """
    if not (math.isfinite(east) and math.isfinite(north)):
        raise ValueError(f"east and north must be finite numbers of arcsec; got {east!r} and {north!r}")
    return replace(seen, data=seen.data * shift(seen.uu * ARCSEC, seen.vv * ARCSEC, -east, -north))


def select_baselines(seen: Observation, *, shortest: float | None = None, longest: float | None = None) -> Observation:
    """Keep the visibilities whose baselines are within a range of lengths, in wavelengths, in every channel.

    What is out of range is gone, not flagged, so that the rest fits a grid that would not hold it.

    Examples
    --------
    >>> from firstlight.imaging.observe import observe, uv_track
    >>> from firstlight.imaging.skies import Point
    >>> seen = observe([Point(2.0)], uv_track(n_times=1))
    >>> len(seen.time), len(select_baselines(seen, longest=1e5).time)
    (903, 48)
    """
    low, high = 0.0 if shortest is None else shortest, math.inf if longest is None else longest
    if not 0 <= low <= high:
        raise ValueError(
            f"shortest and longest must be numbers of wavelengths, 0 or more, shortest not above longest; got "
            f"{shortest!r} and {longest!r}"
        )
    lengths = np.hypot(seen.uu, seen.vv)
    keep = ((lengths >= low) & (lengths <= high)).all(axis=0)
    if not keep.any():
        held = f"between {lengths.min():.4g} and {lengths.max():.4g} wavelengths" if lengths.size else "there are none"
        raise ValueError(f"no baseline is from {low:.4g} to {high:.4g} wavelengths long in every channel; {held}")
    per_channel = {name: getattr(seen, name)[:, keep] for name in ("uu", "vv", "data", "weight")}
    return replace(
        seen, **per_channel, antennas=seen.antennas[keep], time=seen.time[keep], execution=seen.execution[keep]
    )


def select_channels(seen: Observation, which: ArrayLike) -> Observation:
    """Keep some channels, by number or by a mask such as ``seen.window == 1``.

    Examples
    --------
    >>> from firstlight.imaging.observe import channels, observe, uv_track
    >>> from firstlight.imaging.skies import Point
    >>> seen = observe([Point(2.0)], uv_track(n_times=1), channels(230e9, 1e9, 4))
    >>> select_channels(seen, [1, 2]).frequency.tolist()
    [229500000000.0, 230500000000.0]
    """
    chosen = np.arange(len(seen.frequency))[np.asarray(which)]
    if chosen.ndim != 1 or not chosen.size:
        raise ValueError(f"of {len(seen.frequency)} channels none is chosen by {which!r}")
    names = ("uu", "vv", "data", "weight", "frequency", "window")
    return replace(seen, **{name: getattr(seen, name)[chosen] for name in names})
