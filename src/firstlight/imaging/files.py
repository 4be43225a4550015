"""Images in FITS files, placed on the sky: what CASA, CARTA and astropy read."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from astropy.io import fits  # type: ignore[import-untyped]
from astropy.wcs import WCS  # type: ignore[import-untyped]

from firstlight.imaging.beams import Beam
from firstlight.imaging.coordinates import Array, GridCoords
from firstlight.imaging.saving import completed

UNEVEN = 1e-3  # of a channel's width: the most by which frequencies may stray from even steps
AXES = {"RA", "DEC", "FREQ", "STOKES"}
FRAMES = ("TOPOCENT", "GEOCENTR", "BARYCENT", "HELIOCEN", "LSRK", "LSRD", "GALACTOC")


@dataclass(frozen=True, eq=False)
class ImageFile:
    """What an image file holds.

    Attributes
    ----------
    cube
        In sky order: (nchan, npix, npix).
    coords
        The grid.
    unit
        Of the cube: ``"Jy/pixel"`` or ``"Jy/beam"``.
    ra, dec
        Of the centre, in degrees: row npix / 2 and column npix / 2 - 1.
    frequencies
        Of the channels, in Hz; NaN if the file names none.
    beam
        None if the file names none.
    frame
        Of the frequencies, in FITS's word; None if the file names none.

    Examples
    --------
    >>> import tempfile
    >>> cube = np.ones((1, 4, 4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.fits")
    ...     write_image(path, cube, GridCoords(0.5, 4), unit="Jy/pixel", ra=83.8, dec=-5.4, frequencies=[230e9])
    ...     model = read_image(path)
    >>> model.unit, model.coords, model.beam is None
    ('Jy/pixel', GridCoords(cell_size=0.5, npix=4), True)
    """

    cube: npt.NDArray[Any]
    coords: GridCoords
    unit: str
    ra: float
    dec: float
    frequencies: Array
    beam: Beam | None
    frame: str | None


def write_image(
    path: str | os.PathLike[str],
    cube: npt.ArrayLike | torch.Tensor,
    coords: GridCoords,
    *,
    unit: str,
    ra: float,
    dec: float,
    frequencies: npt.ArrayLike,
    beam: Beam | None = None,
    frame: str = "TOPOCENT",
    rest_frequency: float | None = None,
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
    ra, dec
        Of the phase centre, in degrees (ICRS).
    frequencies
        Of the channels, in Hz, at even steps.
    beam
        For Jy/beam, one for all channels: see `firstlight.imaging.beams.fit_beam`.
    frame
        In which the frequencies are those: ``"TOPOCENT"``, the observatory's, as a correlator has them; ``"LSRK"`` or
        ``"BARYCENT"`` if they were corrected for the Earth's motion; or another of FITS's words.
    rest_frequency
        At which a program has the velocity zero, in Hz: that of a spectral line, or by default that of the middle of
        the cube.
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
    ...     model = read_image(path)
    >>> float(model.cube[0, 2, 1]), model.unit, model.coords
    (2.0, 'Jy/pixel', GridCoords(cell_size=0.5, npix=4))
    """
    path = Path(path)
    values = native_floats(cube)
    frequencies = np.asarray(frequencies, dtype=float)
    check_cube(values, coords, frequencies)
    check_unit(unit, beam)
    if unit == "Jy/arcsec^2":
        values = values * values.dtype.type(coords.cell_size**2)
    header = make_header(coords, ra, dec, frequencies)
    header["SPECSYS"] = checked_frame(frame)
    header["RESTFRQ"] = checked_rest(frequencies, rest_frequency)
    header["BUNIT"] = "Jy/beam" if beam else "Jy/pixel"
    if beam:
        header["BMAJ"], header["BMIN"], header["BPA"] = beam.major / 3600, beam.minor / 3600, beam.position_angle
    with completed(path, overwrite) as unfinished:
        fits.PrimaryHDU(values[None], header).writeto(unfinished)


def read_image(path: str | os.PathLike[str]) -> ImageFile:
    """Read a cube from a FITS file: one of `write_image`, or another's with square pixels, north up and east left.

    Other programs put the centre into another pixel. ``ra`` and ``dec`` are those of the pixel that `GridCoords` has in
    the middle, wherever the file has its own.

    Examples
    --------
    >>> import tempfile
    >>> cube = np.ones((1, 4, 4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.fits")
    ...     write_image(path, cube, GridCoords(0.5, 4), unit="Jy/pixel", ra=83.8, dec=-5.4, frequencies=[230e9])
    ...     model = read_image(path)
    >>> model.cube.shape, model.ra, model.frequencies
    ((1, 4, 4), 83.8, array([2.3e+11]))
    """
    with fits.open(path) as file:
        header, data = file[0].header, file[0].data
        if data is None:
            raise ValueError(f"{path} has no image in its first part")
        try:
            return from_fits(header, data)
        except (KeyError, ValueError) as error:
            reason = error.args[0] if error.args else error
            raise ValueError(f"{path} cannot be read as an image: {reason}") from None


def from_fits(header: fits.Header, data: npt.NDArray[Any]) -> ImageFile:
    """Make a cube of a header and its numbers."""
    names = [str(header[f"CTYPE{axis}"]).split("-")[0] for axis in range(1, data.ndim + 1)]
    if names[:2] != ["RA", "DEC"] or set(names) - AXES:
        raise ValueError(f"its axes are {', '.join(names)}, and should be RA, DEC, FREQ and STOKES")
    if "STOKES" in names:
        place = data.ndim - 1 - names.index("STOKES")
        if data.shape[place] != 1:
            raise ValueError(f"it has {data.shape[place]} Stokes parameters, and should have one")
        data = data.squeeze(place)
    if data.ndim == 2:
        data = data[None]
    wcs = WCS(header)
    cell = cell_of(wcs)
    rows, columns = data.shape[1:]
    if rows != columns or rows % 2:
        raise ValueError(f"it has {rows} rows and {columns} columns, and should have as many, an even number")
    ra, dec = (float(value) for value in wcs.celestial.wcs_pix2world(columns / 2 - 1, rows / 2, 0))
    unit = {"jy/pixel": "Jy/pixel", "jy/beam": "Jy/beam"}.get(str(header.get("BUNIT", "")).strip().lower())
    if unit is None:
        raise ValueError(f"its BUNIT is {header.get('BUNIT')!r}, and should be Jy/pixel or Jy/beam")
    beam = None
    if "BMAJ" in header:
        beam = Beam(3600 * header["BMAJ"], 3600 * header["BMIN"], float(header.get("BPA", 0)))
    frequencies = np.full(1, np.nan)
    if "FREQ" in names:
        frequencies = wcs.spectral.wcs_pix2world(np.arange(len(data)), 0)[0]
    frame = str(header["SPECSYS"]) if "SPECSYS" in header else None
    return ImageFile(native_floats(data), GridCoords(cell, rows), unit, ra, dec, np.asarray(frequencies), beam, frame)


def make_header(coords: GridCoords, ra: float, dec: float, frequencies: Array) -> fits.Header:
    """Say where the pixels are.

    l and m are direction cosines: that is the SIN projection, without approximation. Columns count from 1, so that the
    centre, column npix / 2 - 1 of the sky order, is pixel npix / 2, and row npix / 2 is pixel npix / 2 + 1.
    """
    if not (0 <= ra < 360 and -90 <= dec <= 90):
        raise ValueError(f"ra must be from 0 to below 360 degrees and dec from -90 to 90; got {ra!r} and {dec!r}")
    step = (frequencies[-1] - frequencies[0]) / (len(frequencies) - 1) if len(frequencies) > 1 else 1.0
    cell, half = coords.cell_size / 3600, coords.npix // 2
    axes = [
        ("RA---SIN", ra, half, -cell, "deg"),
        ("DEC--SIN", dec, half + 1, cell, "deg"),
        ("FREQ", frequencies[0], 1, step, "Hz"),
        ("STOKES", 1, 1, 1, ""),
    ]
    header = fits.Header()
    for number, (name, value, pixel, width, unit) in enumerate(axes, 1):
        header[f"CTYPE{number}"] = name
        header[f"CRVAL{number}"] = float(value)
        header[f"CRPIX{number}"] = float(pixel)
        header[f"CDELT{number}"] = float(width)
        header[f"CUNIT{number}"] = unit
    header["RADESYS"] = "ICRS"
    return header


def native_floats(cube: npt.ArrayLike | torch.Tensor) -> npt.NDArray[Any]:
    """Bring a cube to float32, if it is that, or to float64, in the order of this machine's bytes."""
    values = cube.detach().cpu().numpy() if isinstance(cube, torch.Tensor) else np.asarray(cube)
    if values.dtype.kind not in "fiu":
        raise TypeError(f"the cube must be of real numbers; got {values.dtype}")
    kept = values.dtype.kind == "f" and values.dtype.itemsize == 4
    return np.ascontiguousarray(values, dtype=np.float32 if kept else np.float64)


def check_cube(values: npt.NDArray[Any], coords: GridCoords, frequencies: Array) -> None:
    """Refuse a cube that does not fit its grid and its frequencies, or that has holes."""
    if frequencies.ndim != 1 or not len(frequencies) or not (np.isfinite(frequencies) & (frequencies > 0)).all():
        raise ValueError(f"frequencies must be positive numbers of Hz, one for each channel; got {frequencies}")
    expected = (len(frequencies), coords.npix, coords.npix)
    if values.shape != expected:
        raise ValueError(
            f"the cube must be (nchan, npix, npix) = {expected}, as its frequencies and its grid are; got "
            f"{values.shape}. Of one image, pass image[None]."
        )
    even = np.linspace(frequencies[0], frequencies[-1], len(frequencies))
    if len(frequencies) > 1 and not np.abs(frequencies - even).max() < UNEVEN * abs(even[1] - even[0]):
        raise ValueError("the frequencies are not at even steps, which is all that FITS has room for: write parts")
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise ValueError(f"{bad} pixels of the cube are NaN or infinite: an image of those is of no use to others")


def check_unit(unit: str, beam: Beam | None) -> None:
    """Refuse a beam without its unit, and the unit without its beam."""
    if unit not in ("Jy/arcsec^2", "Jy/pixel", "Jy/beam"):
        raise ValueError(f"unit must be Jy/arcsec^2, Jy/pixel or Jy/beam; got {unit!r}")
    if unit == "Jy/beam" and beam is None:
        raise ValueError("Jy/beam means nothing without the beam: pass beam=fit_beam(...) of the dirty beam")
    if unit != "Jy/beam" and beam is not None:
        raise ValueError(f"an image in {unit} has no beam: pass none, or unit='Jy/beam' if it is in that")


def checked_frame(frame: str) -> str:
    """Refuse words that FITS does not have, like CASA's short ones."""
    if frame not in FRAMES:
        raise ValueError(
            f"frame must be one of {', '.join(FRAMES)} (CASA's TOPO is TOPOCENT, BARY BARYCENT); got {frame!r}"
        )
    return frame


def checked_rest(frequencies: Array, rest: float | None) -> float:
    """Return the rest frequency, or the middle of the cube where there is none."""
    rest = float(frequencies.mean()) if rest is None else float(rest)
    if not (math.isfinite(rest) and rest > 0):
        raise ValueError(f"rest_frequency must be a positive number of Hz; got {rest!r}")
    return rest


def cell_of(wcs: WCS) -> float:
    """Return the width of a pixel in arcsec; refuse what is not square, turned or mirrored."""
    (a, b), (c, d) = wcs.celestial.pixel_scale_matrix
    if not (a < 0 < d and math.isclose(-a, d, rel_tol=1e-6) and max(abs(b), abs(c)) < 1e-6 * d):
        raise ValueError("its pixels are not square, or north is not up and east not left")
    # A decimal number of arcsec comes back as itself, not as a neighbour that 1/3600 has made of it.
    return float(f"{3600 * d:.12g}")
