"""Skies whose image and visibilities are both known in closed form: rings and points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import i0e, j0

from firstlight_imaging._types import Complex, Real
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.directions import phase_factor
from firstlight_imaging.units import ARCSEC


@dataclass(frozen=True)
class Ring:
    """A thin ring blurred by a Gaussian, seen inclined; with radius 0 it is a Gaussian.

    Parameters
    ----------
    flux
        Its total, in Jy; below zero it digs a gap into what else is in the sky.
    radius, width
        Of the ring, and the standard deviation of the Gaussian, in arcsec.
    inclination
        In degrees from face-on: the minor axis is shorter by its cosine.
    position_angle
        Of the major axis, in degrees from north through east.
    east, north
        Where the centre is, in arcsec.

    Examples
    --------
    >>> ring = Ring(flux=0.25, radius=1.0, width=0.1, east=0.3)
    >>> ring.visibilities([0.0], [0.0])
    array([0.25+0.j])
    """

    flux: float
    radius: float
    width: float
    inclination: float = 0.0
    position_angle: float = 0.0
    east: float = 0.0
    north: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius) and self.radius >= 0):
            raise ValueError(f"radius must be a number of arcsec, zero or more; got {self.radius!r}")
        if not (math.isfinite(self.width) and self.width > 0):
            raise ValueError(f"width must be a positive number of arcsec, best two pixels or more; got {self.width!r}")
        if not 0 <= self.inclination < 90:
            raise ValueError(f"inclination must be from 0 to below 90 degrees; got {self.inclination!r}")

    def image(self, cell_size: float, npix: int) -> Real:
        """Return the brightness at the pixel centres in sky order, in Jy/arcsec²."""
        x, y = GridCoords(cell_size, npix).sky_coordinates()
        along, across = self._axes(x - self.east, y - self.north)
        axis_ratio = math.cos(math.radians(self.inclination))
        r = np.hypot(along, across / axis_ratio)
        # I0 grows like an exponential. Scaled by one, which completes the square of the Gaussian, it does not overflow.
        profile = np.exp(-((r - self.radius) ** 2) / (2 * self.width**2)) * i0e(r * self.radius / self.width**2)
        return np.asarray(self.flux / (2 * math.pi * self.width**2 * axis_ratio) * profile)

    def visibilities(self, uu: ArrayLike, vv: ArrayLike) -> Complex:
        """Return the visibilities in Jy at ``uu``, ``vv`` in wavelengths."""
        u, v = np.asarray(uu, float) * ARCSEC, np.asarray(vv, float) * ARCSEC  # cycles per arcsec
        along, across = self._axes(u, v)
        q = np.hypot(along, across * math.cos(math.radians(self.inclination)))
        amplitude = self.flux * j0(2 * math.pi * self.radius * q) * np.exp(-2 * (math.pi * self.width * q) ** 2)
        return np.asarray(amplitude * phase_factor(u, v, self.east, self.north))

    def _axes(self, x: Real, y: Real) -> tuple[Real, Real]:
        """Return coordinates along the major and the minor axis from east and north, or from u and v."""
        angle = math.radians(self.position_angle)
        sin, cos = math.sin(angle), math.cos(angle)
        return x * sin + y * cos, x * cos - y * sin


@dataclass(frozen=True)
class Point:
    """A source without size: flux in Jy, offsets in arcsec.

    Examples
    --------
    >>> Point(flux=2.0, east=0.5).image(0.5, 4)[2]  # row 2 is the middle, east is left
    array([8., 0., 0., 0.])
    """

    flux: float
    east: float = 0.0
    north: float = 0.0

    def image(self, cell_size: float, npix: int) -> Real:
        """Return all of the flux in one pixel, in sky order and Jy/arcsec²."""
        column, row = npix / 2 - 1 - self.east / cell_size, npix / 2 + self.north / cell_size
        j, i = round(column), round(row)
        if max(abs(column - j), abs(row - i)) > 1e-6:
            raise ValueError(
                f"a point between pixels has no image: move it to ({(npix / 2 - 1 - j) * cell_size:g}, "
                f"{(i - npix / 2) * cell_size:g}), or take a Ring of radius 0 with a width of two pixels"
            )
        if not (0 <= i < npix and 0 <= j < npix):
            raise ValueError(
                f"the point at ({self.east:g}, {self.north:g}) is beyond the image, {npix * cell_size:g} arcsec wide"
            )
        image = np.zeros((npix, npix))
        image[i, j] = self.flux / cell_size**2
        return image

    def visibilities(self, uu: ArrayLike, vv: ArrayLike) -> Complex:
        """Return the visibilities in Jy at ``uu``, ``vv`` in wavelengths."""
        u, v = np.asarray(uu, float) * ARCSEC, np.asarray(vv, float) * ARCSEC
        return np.asarray(self.flux * phase_factor(u, v, self.east, self.north))


Sky: TypeAlias = Sequence[Ring | Point]


def protoplanetary_disk(flux: float = 0.25, *, size: float = 1.0, east: float = 0.12, north: float = -0.2) -> Sky:
    """Return a disk with two rings around a core, inclined and turned, not in the middle.

    Parameters
    ----------
    flux
        The total, in Jy.
    size
        1 for a disk of about 3 arcsec across; 1.7 nearly fills a field of 5.4 arcsec.
    east, north
        Where the centre is, in arcsec.

    Examples
    --------
    >>> sum(part.flux for part in protoplanetary_disk(0.25))
    0.25
    """
    parts = ((0.25, 0.0, 0.12), (0.375, 0.55, 0.1), (0.375, 1.1, 0.16))  # share of the flux, radius, width
    return [
        Ring(share * flux, size * radius, size * width, inclination=38, position_angle=30, east=east, north=north)
        for share, radius, width in parts
    ]


def sky_image(sky: Sky, cell_size: float, npix: int) -> Real:
    """Return the brightness of a sky at the pixel centres, in Jy/arcsec² and sky order (row 0 south, column 0 east).

    Parameters
    ----------
    sky
        Rings and points; their brightness adds up.
    cell_size
        The side of a pixel in arcsec.
    npix
        Pixels on a side, even.

    Examples
    --------
    >>> image = sky_image([Ring(flux=1.0, radius=0.5, width=0.2)], cell_size=0.1, npix=64)
    >>> round(float(image.sum()) * 0.1**2, 12)
    1.0
    """
    image = np.zeros((npix, npix))
    for part in sky:
        image += part.image(cell_size, npix)
    return image


def sky_visibilities(sky: Sky, uu: ArrayLike, vv: ArrayLike) -> Complex:
    """Return the visibilities of a sky in Jy, in closed form, of the shape that ``uu`` and ``vv`` have together.

    Parameters
    ----------
    sky
        Rings and points; their visibilities add up.
    uu, vv
        In wavelengths.

    Examples
    --------
    >>> abs(sky_visibilities([Point(1.0), Point(1.0, east=0.5)], [0.0, 206264.80624709636], [0.0, 0.0])).round(9)
    array([2., 0.])
    """
    u, v = np.broadcast_arrays(np.asarray(uu, float), np.asarray(vv, float))
    total = np.zeros(u.shape, complex)
    for part in sky:
        total += part.visibilities(u, v)
    return total
