"""Write images to FITS files with sky coordinates, as CASA, CARTA and astropy read them."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from astropy.io import fits  # type: ignore[import-untyped]
from astropy.wcs import WCS  # type: ignore[import-untyped]
from scipy.ndimage import map_coordinates

from firstlight_imaging._types import Mask, MaskFunction, Real
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import MAX_START, MJD_ZERO, Visibilities, check_is_file, readable
from firstlight_imaging.directions import from_j2000
from firstlight_imaging.fourier.beams import Beam

_MAX_STRAY = 1e-3  # of a channel's width, by which frequencies may differ from even steps
_YEAR = 2000.0
_FRAMES = ("TOPOCENT", "GEOCENTR", "BARYCENT", "HELIOCEN", "LSRK", "LSRD", "GALACTOC")


def known_of(vis: Visibilities) -> dict[str, Any]:
    """Return what `write_image` keeps of the visibilities of an image."""
    about = {name: getattr(vis, name) for name in ("telescope", "target", "start")}
    return about | {"frequencies": [vis.mean_frequency], "width": vis.band}


def write_image(
    path: str | os.PathLike[str],
    cube: npt.ArrayLike | torch.Tensor,
    coords: GridCoords,
    *,
    unit: str,
    frequencies: npt.ArrayLike,
    ra: float | None = None,
    dec: float | None = None,
    beam: Beam | None = None,
    frame: str = "TOPOCENT",
    rest_frequency: float | None = None,
    telescope: str = "",
    target: str = "",
    start: float | None = None,
    width: float = 1.0,
    overwrite: bool = False,
) -> None:
    """Write a cube to a FITS file with four axes, whole or not at all.

    Parameters
    ----------
    path
        Of the file.
    cube
        In sky order, (nchan, npix, npix); float32 is kept, all else becomes float64.
    coords
        The grid.
    unit
        Of the cube: ``"Jy/arcsec^2"`` for a model, which the file holds in Jy/pixel; ``"Jy/pixel"``, likewise for what
        CASA's ``startmodel`` takes after ``importfits``; or ``"Jy/beam"`` for an image that has a beam, dirty or
        convolved.
    frequencies
        Of the channels, in Hz, at even steps.
    ra, dec
        Of the phase centre, in degrees (ICRS). Without them the axes are offsets from it, and no place on the sky.
    beam
        For Jy/beam, one for all channels: see `firstlight_imaging.fourier.beams.fit_beam`.
    frame
        In which the frequencies are those: ``"TOPOCENT"``, the observatory's, as a correlator has them; ``"LSRK"`` or
        ``"BARYCENT"`` if they were corrected for the Earth's motion; or another of FITS's words.
    rest_frequency
        At which a program has the velocity zero, in Hz: that of a spectral line, or by default that of the middle of
        the cube.
    telescope, target, start
        Which, what it looked at, and when its observation began: the UTC as a Modified Julian Date, in seconds. A time
        that is negative, or after the year 2132, is left out.
    width
        Of a single channel, in Hz: CASA predicts visibilities only for frequencies that lie in it.
    overwrite
        Replace a file of this name.

    Examples
    --------
    >>> import tempfile
    >>> coords = GridCoords(cell_size=0.5, npix=4)
    >>> sky = np.zeros((1, 4, 4))
    >>> sky[0, 2, 1] = 8  # Jy/arcsec²: 2 Jy in the pixel at the centre
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.fits")
    ...     write_image(path, sky, coords, unit="Jy/arcsec^2", ra=83.8, dec=-5.4, frequencies=[230e9])
    ...     float(fits.getdata(path)[0, 0, 2, 1]), fits.getheader(path)["BUNIT"]
    (2.0, 'Jy/pixel')
    """
    values = cube.detach().cpu().numpy() if isinstance(cube, torch.Tensor) else np.asarray(cube)
    if values.dtype.kind not in "fiu":
        raise TypeError(f"the cube must be of real numbers; got {values.dtype}")
    values = values.astype(np.float32 if values.dtype == np.float32 else np.float64, copy=False)
    frequencies = np.asarray(frequencies, dtype=float)
    _check_cube(values, coords, frequencies)
    _check_unit(unit, beam)
    if unit == "Jy/arcsec^2":
        values = values * values.dtype.type(coords.cell_size**2)
    wcs = _image_wcs(coords, ra, dec, frequencies, width)
    if frame not in _FRAMES:
        raise ValueError(f"frame must be one of {', '.join(_FRAMES)}; got {frame!r}")
    rest = float(frequencies.mean()) if rest_frequency is None else float(rest_frequency)
    if not (math.isfinite(rest) and rest > 0):
        raise ValueError(f"rest_frequency must be a positive number of Hz; got {rest_frequency!r}")
    wcs.wcs.specsys, wcs.wcs.restfrq = frame, rest
    header = wcs.to_header()
    for key, name in (("TELESCOP", telescope), ("OBJECT", target)):
        if name:
            header[key] = "".join(letter if " " <= letter <= "~" else "?" for letter in name)  # all FITS knows
    if start is not None and 0 <= start < MAX_START:
        header["DATE-OBS"] = str(MJD_ZERO + np.timedelta64(round(1000 * start), "ms"))
    header["BUNIT"] = "Jy/beam" if beam else "Jy/pixel"
    if beam:
        header["BMAJ"], header["BMIN"], header["BPA"] = beam.major / 3600, beam.minor / 3600, beam.position_angle
    path = Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; overwrite=True replaces it")
    temporary = path.with_name(f".{os.getpid()}.{id(values)}.tmp")  # no longer than the name itself
    try:
        fits.PrimaryHDU(values[None], header).writeto(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_mask(path: str | os.PathLike[str], phase_centre: tuple[float, float] | None) -> MaskFunction:
    """Return the mask of a FITS file, such as CASA exports, for `image`: where its first plane is above one half.

    Parameters
    ----------
    path
        Of the file, whose pixels have a place on the sky.
    phase_centre
        Of the data, right ascension and declination in degrees (ICRS).

    Examples
    --------
    >>> import tempfile
    >>> ones, grid = np.ones((1, 8, 8)), GridCoords(cell_size=0.5, npix=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "mask.fits")
    ...     write_image(path, ones, grid, unit="Jy/pixel", frequencies=[1e9], ra=10, dec=20)
    ...     read_mask(path, (10, 20))(np.array([1.4, 2.6]), np.array([0.0, 0.0]))
    array([ True, False])
    """
    if phase_centre is None:
        raise ValueError("a mask has a place on the sky, and the data have none: give their phase centre, too")
    plane, theirs, _ = first_plane(path)
    if theirs.wcs.radesys in ("", "FK5") and theirs.wcs.equinox == _YEAR:
        # CASA, AIPS and difmap call so the frame of their data, be that CASA's J2000 or ICRS: the nearer one it is.
        centres = {from_j2000(*phase_centre, back=True), phase_centre}
        phase_centre = min(centres, key=lambda centre: float(np.hypot(*(theirs.wcs.crval - np.array(centre)))))
        theirs.wcs.radesys, theirs.wcs.equinox = "ICRS", math.nan
    ours = _image_wcs(GridCoords(1.0, 2), *phase_centre, np.ones(1)).celestial

    def mask(east: Real, north: Real) -> Mask:
        column, row = theirs.world_to_pixel(ours.pixel_to_world(-np.asarray(east), 1 + np.asarray(north)))
        return np.asarray(map_coordinates(plane, [row, column], order=0) > 0.5)

    return mask


def first_plane(path: str | os.PathLike[str]) -> tuple[Real, WCS, fits.HDUList]:
    """Return the first plane of a FITS file, where its pixels are on the sky, and all that the file holds."""
    path = Path(path)
    check_is_file(path)
    with readable(path), path.open("rb") as file, fits.open(file, memmap=False) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of dates that astropy mends
        hdus = fits.HDUList([hdu.copy() for hdu in opened])
        header = hdus[0].header
        for axis, name in ((1, "OBSRA"), (2, "OBSDEC")):
            kind = str(header.get(f"CTYPE{axis}", ""))
            header[f"CTYPE{axis}"] = kind.replace("---SIN", "--SIN") if axis == 2 else kind  # smili's
            header.setdefault(f"CRVAL{axis}", header.get(name, 0.0))  # ehtim's has its place in these alone
        values, where = hdus[0].data, WCS(header).celestial
    if values is None or not where.has_celestial:
        raise ValueError(f"{path} holds no image with a place on the sky: it must, as CASA's exportfits writes it")
    return np.nan_to_num(np.reshape(values, (-1, *np.shape(values)[-2:]))[0]).astype(float), where, hdus


def _image_wcs(coords: GridCoords, ra: float | None, dec: float | None, frequencies: Real, width: float = 1.0) -> WCS:
    """Return the coordinates of the pixels.

    l and m are direction cosines: that is the SIN projection, without approximation. Columns count from 1, so that the
    centre, column npix / 2 - 1 of the sky order, is pixel npix / 2, and row npix / 2 is pixel npix / 2 + 1.
    """
    on_sky = not (ra is None and dec is None)
    if on_sky and not (ra is not None and 0 <= ra < 360 and dec is not None and -90 <= dec <= 90):
        raise ValueError(f"ra must be from 0 to below 360 and dec from -90 to 90 degrees, or None; got {ra!r}, {dec!r}")
    step = (frequencies[-1] - frequencies[0]) / (len(frequencies) - 1) if len(frequencies) > 1 else width
    cell, half = coords.cell_size / 3600, coords.npix // 2
    wcs = WCS(naxis=4)
    wcs.wcs.ctype = ["RA---SIN", "DEC--SIN", "FREQ", "STOKES"] if on_sky else ["L", "M", "FREQ", "STOKES"]
    wcs.wcs.crval = [ra or 0, dec or 0, frequencies[0], 1]
    wcs.wcs.crpix = [half, half + 1, 1, 1]
    wcs.wcs.cdelt = [-cell, cell, step, 1]
    wcs.wcs.cunit = ["deg", "deg", "Hz", ""]
    wcs.wcs.radesys = "ICRS" if on_sky else ""
    return wcs


def _check_cube(values: npt.NDArray[Any], coords: GridCoords, frequencies: Real) -> None:
    """Raise an error if a cube does not fit its grid and its frequencies, or has holes."""
    if frequencies.ndim != 1 or not len(frequencies) or not (np.isfinite(frequencies) & (frequencies > 0)).all():
        raise ValueError(f"frequencies must be positive numbers of Hz, one for each channel; got {frequencies}")
    expected = (len(frequencies), coords.npix, coords.npix)
    if values.shape != expected:
        raise ValueError(f"the cube must be (nchan, npix, npix) = {expected}, or image[None]; got {values.shape}")
    even = np.linspace(frequencies[0], frequencies[-1], len(frequencies))
    if len(frequencies) > 1 and not np.abs(frequencies - even).max() < _MAX_STRAY * abs(even[1] - even[0]):
        raise ValueError("the frequencies are not at even steps, which is all that FITS has room for: write parts")
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise ValueError(f"{bad} pixels of the cube are NaN or infinite: an image of those is of no use to others")


def _check_unit(unit: str, beam: Beam | None) -> None:
    """Raise an error for a beam without its unit, or the unit without its beam."""
    if unit not in ("Jy/arcsec^2", "Jy/pixel", "Jy/beam"):
        raise ValueError(f"unit must be Jy/arcsec^2, Jy/pixel or Jy/beam; got {unit!r}")
    if (unit == "Jy/beam") != (beam is not None):
        raise ValueError(f"Jy/beam, and no other unit, needs a beam=fit_beam(...); got {unit}, {beam}")
