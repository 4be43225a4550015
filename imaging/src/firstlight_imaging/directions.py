"""Directions on the sky: what a shift does to visibilities, and the frame that CASA calls J2000."""

from __future__ import annotations

import math

import erfa
import numpy as np

from firstlight_imaging._types import Complex, Real

_J2000 = 2451545.0  # a Julian date


def phase_factor(u: Real, v: Real, east: float, north: float) -> Complex:
    """Return the factor on a visibility when its source moves by arcsec; u and v in cycles per arcsec."""
    return np.asarray(np.exp(-2j * math.pi * (u * east + v * north)))


def from_j2000(ra: float, dec: float, *, back: bool = False) -> tuple[float, float]:
    """Return a place of casacore's J2000, the mean equator of that date, in ICRS, or the other way; in degrees.

    Examples
    --------
    >>> ra, dec = from_j2000(187.7, 12.4)
    >>> round(3.6e6 * (dec - 12.4), 1), np.round(from_j2000(ra, dec, back=True), 12).tolist()  # mas
    (-17.4, [187.7, 12.4])
    """
    bias = erfa.bp06(_J2000, 0.0)[0]
    turned = (bias if back else bias.T) @ erfa.s2c(math.radians(ra), math.radians(dec))
    right_ascension, declination = np.degrees(erfa.c2s(turned))
    return float(right_ascension % 360), float(declination)
