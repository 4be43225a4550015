"""Read images that other programs have made: models of tclean, difmap, AIPS, ehtim and SMILI, and frank's profiles."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from astropy.coordinates import SkyCoord  # type: ignore[import-untyped]
from astropy.wcs import WCS  # type: ignore[import-untyped]

from firstlight_imaging._types import Real
from firstlight_imaging.automatic.assessment import Program
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities, check_is_file, readable
from firstlight_imaging.fourier.limits import suggest_grid
from firstlight_imaging.products.fits_images import first_plane
from firstlight_imaging.units import ARCSEC

_MAX_AWAY = 0.1  # arcsec: CASA's J2000 is 25 mas from the FK5 that it calls it in FITS files
_OFF_GRID = 0.1  # of a cell: components lie on the pixels of their program
_FINER = 2  # times the suggested grid, for a profile
_MOST_PIXELS = 2048


class Model(NamedTuple):
    """A sky in Jy/arcsec², in sky order, its grid, and the program that made it, as far as its file says.

    Examples
    --------
    >>> Model(np.zeros((4, 4)), GridCoords(0.1, 4), "ehtim").program
    'ehtim'
    """

    sky: Real
    coords: GridCoords
    program: Program


def read_model(
    path: str | os.PathLike[str],
    phase_centre: tuple[float, float] | None,
    *,
    like: Visibilities | None = None,
    geometry: tuple[float, float, float, float] | None = None,
) -> Model:
    """Return the sky of a model that a program has made: of what is fitted, not convolved with a beam.

    Parameters
    ----------
    path
        Of a FITS file in Jy/pixel, such as a model of tclean's or an image of ehtim's; of a map in Jy/beam with the
        table of CLEAN components that difmap and AIPS write; of difmap's model in text (``.mod``); or of a profile, as
        frank saves it: radius in arcsec, and Jy/sr.
    phase_centre
        Of the data, right ascension and declination in degrees (ICRS), which is the reference pixel of a FITS file.
    like
        The data, whose grid a profile gets.
    geometry
        Of a profile: inclination, position angle, and the offsets east and north of its centre, as frank's ``inc``,
        ``PA``, ``dRA`` and ``dDec``.

    Examples
    --------
    >>> import tempfile
    >>> from firstlight_imaging.products.fits_images import write_image
    >>> sky, grid = np.arange(64.0).reshape(8, 8), GridCoords(cell_size=0.5, npix=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.fits")
    ...     write_image(path, sky[None], grid, unit="Jy/pixel", frequencies=[1e9], ra=10, dec=20)
    ...     back, coords, _ = read_model(path, (10, 20))
    >>> coords.npix, np.allclose(back * 0.5**2, sky)
    (8, True)
    """
    path = Path(path)
    check_is_file(path)
    if path.suffix == ".obj":
        raise ValueError(f"{path} is a pickle, which can run anything: give frank's .._frank_profile_fit.txt")
    with path.open("rb") as file:
        is_fits = file.read(6) == b"SIMPLE"
    if not is_fits:
        with readable(path):
            rows = _rows(path)
            is_profile = len(rows) > 1 and all(low[0] < high[0] for low, high in pairwise(rows))  # its radii rise
            return _of_profile(rows, like, geometry) if is_profile else _of_components(rows, path)
    if phase_centre is None:
        raise ValueError("a model has a place on the sky, and the data have none: give --phase-centre, too")
    plane, theirs, hdus = first_plane(path)
    header = hdus[0].header
    unit = str(header.get("BUNIT", "")).lower().replace(" ", "")
    cell = 3600 * float(theirs.wcs.cdelt[1])
    _check_place(path, theirs, cell, phase_centre)
    if unit == "jy/beam" and "AIPS CC" in hdus:
        table = hdus["AIPS CC"].data
        places = 3600 * np.stack([table["DELTAX"], table["DELTAY"]]).astype(float)
        if "MAJOR AX" in table.names and table["MAJOR AX"].any():
            raise ValueError(f"{path} has components with a width; only CLEAN components, which are points, are read")
        return Model(*_on_grid(path, places, table["FLUX"].astype(float), cell), "difmap")
    if unit != "jy/pixel":
        raise ValueError(
            f"{path} is in {unit or 'no unit'}; a model must be in Jy/pixel, as tclean's .model is, or have a table of "
            "CLEAN components"
        )
    row, column = np.nonzero(plane)
    if not row.size:
        raise ValueError(f"{path} is dark: all of its pixels are 0")
    to_centre = np.stack([theirs.wcs.crpix[0] - 1 - column, row + 1 - theirs.wcs.crpix[1]])
    if (to_centre % 0.5).any():
        raise ValueError(
            f"the reference pixel of {path}, {theirs.wcs.crpix}, is neither the middle of a pixel nor its edge"
        )
    finer = 2 if (to_centre % 1).any() else 1  # as ehtim does: no pixel has the phase centre in its middle
    width = math.ceil(finer * max(plane.shape) / 2)
    sky = _on_grid(path, cell * to_centre, plane[row, column], cell / finer, width)
    is_ehtim = finer == 2 or header.get("TELESCOP") == "VLBI"
    return Model(*sky, "tclean" if "CASA" in str(header.get("ORIGIN", "")) else "ehtim" if is_ehtim else "")


def _check_place(path: Path, theirs: WCS, cell: float, phase_centre: tuple[float, float]) -> None:
    """Raise an error for a model whose pixels are not square, or whose reference pixel is not the phase centre."""
    if not np.allclose(3600 * theirs.pixel_scale_matrix / cell, np.diag([-1, 1]), atol=1e-3):
        raise ValueError(f"{path} must have square pixels, east to the left and north up")
    away = theirs.pixel_to_world(*(theirs.wcs.crpix - 1)).icrs.separation(SkyCoord(*phase_centre, unit="deg")).arcsec
    if away > _MAX_AWAY:
        raise ValueError(
            f"the reference pixel of {path} is {away:.3g} arcsec from the phase centre of the data: make the model "
            "without tclean's phasecenter"
        )


def _on_grid(path: Path, places: Real, fluxes: Real, cell: float, least: int = 2) -> tuple[Real, GridCoords]:
    """Return an image in Jy/arcsec² of points in Jy at places in arcsec, (2, n) east and north, and its grid."""
    at = np.rint(places / cell).astype(int)
    if np.abs(places / cell - at).max(initial=0) > _OFF_GRID:
        raise ValueError(f"the components of {path} are on no grid: give the FITS file that they were cleaned on")
    half = max(least, int(at.max(initial=0)) + 1, -int(at.min(initial=0)))
    if half > _MOST_PIXELS:
        raise ValueError(f"{path} has {2 * half} pixels across; at most {2 * _MOST_PIXELS} are read")
    sky = np.zeros((2 * half, 2 * half))
    np.add.at(sky, (half + at[1], half - 1 - at[0]), fluxes / cell**2)
    return sky, GridCoords(cell, 2 * half)


def _rows(path: Path) -> list[list[float]]:
    """Return the numbers of a text; ``!`` and ``#`` begin comments, and a ``v`` ends what difmap has fitted."""
    lines = (re.split("[!#]", line)[0].replace("v", "").split() for line in path.read_text("utf-8").splitlines())
    return [[float(word) for word in words] for words in lines if words]


def _of_components(rows: Sequence[Sequence[float]], path: Path) -> Model:
    """Return the CLEAN components of difmap's model: flux in Jy, distance in mas, and angle from north to east."""
    if any(len(row) > 3 and row[3] for row in rows):
        raise ValueError("it has components with a width; only CLEAN components, which are points, are read")
    rows = [row[:3] for row in rows]
    fluxes, distance, angle = np.array(rows).T
    places = 1e-3 * distance * np.stack([np.sin(np.radians(angle)), np.cos(np.radians(angle))])
    sizes = np.abs(places).ravel()
    least = float(sizes[sizes > 1e-3 * sizes.max()].min()) if sizes.any() else 1.0
    near, cell = places[np.abs(places) < 10 * least], least
    for pixels in range(1, 5):  # from the middle to the innermost component
        count = np.rint(near * pixels / least)
        cell = float((near * count).sum() / (count**2).sum()) if count.any() else least  # its digits are few
        if np.abs(places / cell - np.rint(places / cell)).max(initial=0) < _OFF_GRID:
            break
    return Model(*_on_grid(path, places, fluxes, cell), "difmap")


def _of_profile(
    rows: Sequence[Sequence[float]], like: Visibilities | None, geometry: tuple[float, float, float, float] | None
) -> Model:
    """Return the image of an inclined disc, of its brightness by radius."""
    if geometry is None or like is None:
        raise ValueError("a profile has no inclination: give --geometry INC,PA,DRA,DDEC, in degrees and arcsec")
    inclination, angle, to_east, to_north = geometry
    radius, brightness = np.array([row[:2] for row in rows]).T
    reach = float(radius[-1]) + math.hypot(to_east, to_north)
    suggested = suggest_grid(like, 2 * reach)
    npix = min(_FINER * suggested.npix, _MOST_PIXELS)
    coords = GridCoords(2 * reach / npix, npix)
    east, north = coords.sky_coordinates()
    turn, tilt = math.radians(angle), math.cos(math.radians(inclination))
    x, y = east - to_east, north - to_north
    along, across = x * math.sin(turn) + y * math.cos(turn), (x * math.cos(turn) - y * math.sin(turn)) / tilt
    sky = np.interp(np.hypot(along, across), radius, brightness, right=0.0) * ARCSEC**2
    return Model(sky, coords, "frank")
