"""Adjust visibilities before imaging: another centre, fewer baselines or channels, a known source less, a taper."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from firstlight.imaging.coordinates import ARCSEC
from firstlight.imaging.observe import Observation
from firstlight.imaging.skies import Real, Sky, shift, sky_visibilities

__all__ = ["gaussian_taper", "select_baselines", "select_channels", "shift_phase_centre", "subtract"]


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


def subtract(seen: Observation, sky: Sky | Callable[[float], Sky]) -> Observation:
    """Take away points and rings that are known, such as a bright source outside of the field.

    Parameters
    ----------
    seen
        What was observed; flags and weights stay.
    sky
        Points and rings; or a function that makes them from a frequency in Hz.

    Examples
    --------
    >>> from firstlight.imaging.observe import observe, uv_track
    >>> from firstlight.imaging.skies import Point
    >>> near, far = Point(0.1), Point(3.0, east=12.0)
    >>> rest = subtract(observe([near, far], uv_track(n_times=1)), [far])
    >>> bool(np.allclose(rest.data, 0.1))
    True
    """
    data = seen.data.copy()
    for channel, f in enumerate(seen.frequency):
        known = sky(float(f)) if callable(sky) else sky
        data[channel] -= sky_visibilities(known, seen.uu[channel], seen.vv[channel])
    return replace(seen, data=data)


def gaussian_taper(fwhm: float) -> Callable[[Real, Real], Real]:
    """Make a ``taper_function`` for `firstlight.imaging.dirty.DirtyImager` that smooths like a Gaussian beam.

    The sum of the weighted visibilities is convolved with that Gaussian; what beam comes out is about as wide as it
    and the beam without a taper together: the root of the sum of their squares.

    Parameters
    ----------
    fwhm
        The full width at half maximum of the Gaussian, in arcsec.

    Examples
    --------
    >>> taper = gaussian_taper(0.5)
    >>> half = 2 * np.log(2) / np.pi / (0.5 * ARCSEC)  # a narrow image is wide in the uv plane
    >>> taper(np.array([0.0, half]), np.array([0.0, 0.0])).round(12)
    array([1. , 0.5])
    """
    if not (math.isfinite(fwhm) and fwhm > 0):
        raise ValueError(f"fwhm must be a positive number of arcsec; got {fwhm!r}")
    scale = (math.pi * fwhm * ARCSEC) ** 2 / (4 * math.log(2))

    def taper(u: Real, v: Real) -> Real:
        return np.asarray(np.exp(-scale * (u**2 + v**2)))

    return taper
