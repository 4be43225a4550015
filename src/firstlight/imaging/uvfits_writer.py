"""Write an observation as UVFITS."""

from __future__ import annotations

import math
from datetime import date as Date
from pathlib import Path
from typing import Any

import numpy as np
from astropy.io import fits  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray

from firstlight.imaging.observe import LIGHT_SPEED, Observation
from firstlight.imaging.saving import completed
from firstlight.imaging.skies import Real
from firstlight.imaging.tracks import SIDEREAL_HOUR, equatorial
from firstlight.imaging.uvfits import DAY

__all__ = ["write_uvfits"]

ALMA_LONGITUDE = -67.7549  # degrees
ALMA_PLACE = (2225142.18, -5440307.37, -2481029.85)  # metres from the centre of the earth


def write_uvfits(
    path: str | Path,
    seen: Observation,
    *,
    phase_centre: tuple[float, float],
    antennas: ArrayLike | None = None,
    date: str = "2020-01-01",
    double: bool = False,
    overwrite: bool = False,
) -> None:
    """Write an observation as Stokes I; what is flagged has weight 0.

    Parameters
    ----------
    path, overwrite
        Where to, and whether it may replace a file. Nothing is there until all is written.
    seen
        With windows of as many, evenly spaced channels each. Phases change sign as `read_uvfits` describes.
    phase_centre
        Right ascension and declination in degrees.
    antennas
        East, north and up in metres, as for `uv_track`, seen from ALMA. Without them they and w are written as 0.
    date
        The day of the transit that ``seen.time`` counts from.
    double
        Write numbers of 64 bits; 32 are usual.

    Examples
    --------
    >>> import tempfile
    >>> from firstlight.imaging import read_uvfits
    >>> from firstlight.imaging.observe import observe, uv_track
    >>> from firstlight.imaging.skies import Point
    >>> seen = observe([Point(0.5)], uv_track(n_times=2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_uvfits(f"{folder}/sky.uvfits", seen, phase_centre=(83.0, -24.0))
    ...     read_uvfits(f"{folder}/sky.uvfits").data.shape
    (1, 1806)
    """
    widths, starts = channel_widths(seen)
    n_windows = len(widths)
    cube = np.empty((len(seen.time), 1, 1, n_windows, len(seen.frequency) // n_windows, 1, 3), "f8" if double else "f4")
    for part, array in enumerate((seen.data.real, seen.data.imag, seen.weight)):
        cube[..., part] = array.T.reshape(cube.shape[:-1])
    reference = starts[0]
    midnight = Date.fromisoformat(date).toordinal() + 1721424.5  # Julian
    sidereal = (280.46061837 + 360.98564736629 * (midnight - 2451545.0)) % 360  # at Greenwich, in degrees
    transit = (phase_centre[0] - ALMA_LONGITUDE - sidereal) % 360 / 360.98564736629  # in days since midnight
    days = transit + seen.time / DAY
    coarse = days.astype("f4").astype(float)
    xyz = None if antennas is None else equatorial(antennas)
    ww = np.zeros(len(days)) if xyz is None else heights(xyz, seen, phase_centre[1])
    first, second = seen.antennas.T + 1
    pairs: dict[str, NDArray[Any]] = {"BASELINE": 256 * first + second + 0.01 * seen.execution}
    if seen.antennas.max(initial=0) > 254:  # AIPS's way out
        pairs = {"ANTENNA1": first, "ANTENNA2": second, "SUBARRAY": seen.execution + 1}
    columns = {
        "UU---SIN": -seen.uu[0] / seen.frequency[0],
        "VV---SIN": -seen.vv[0] / seen.frequency[0],
        "WW---SIN": -ww / LIGHT_SPEED,
        **pairs,
    }
    groups = fits.GroupData(
        cube,
        bitpix=-64 if double else -32,
        parnames=[*columns, "DATE", "DATE"],
        pardata=[*columns.values(), coarse, days - coarse],
    )
    hdu = fits.GroupsHDU(groups)
    hdu.header[f"PZERO{len(columns) + 1}"] = midnight
    axes = (
        ("COMPLEX", 1.0, 1.0),
        ("STOKES", 1.0, 1.0),
        ("FREQ", reference, widths[0]),
        ("IF", 1.0, 1.0),
        ("RA", phase_centre[0], 1.0),
        ("DEC", phase_centre[1], 1.0),
    )
    for axis, (name, value, step) in enumerate(axes, 2):
        hdu.header.update({f"CTYPE{axis}": name, f"CRVAL{axis}": value, f"CDELT{axis}": step, f"CRPIX{axis}": 1.0})
    hdu.header.update({"OBJECT": "SKY", "TELESCOP": "ALMA", "INSTRUME": "ALMA", "DATE-OBS": date, "BUNIT": "JY"})
    hdu.header.update({"EQUINOX": 2000.0, "EPOCH": 2000.0})
    arrays = [
        antenna_table(seen, xyz, number + 1, reference, date, sidereal) for number in range(seen.execution.max() + 1)
    ]
    with completed(Path(path), overwrite) as unfinished:
        fits.HDUList([hdu, frequency_table(widths, starts, seen), *arrays]).writeto(unfinished, overwrite=True)


def channel_widths(seen: Observation) -> tuple[Real, Real]:
    """Give the channel width and the first frequency of each window, of which UVFITS holds no more."""
    if not len(seen.time) or not len(seen.frequency):
        raise ValueError("there is nothing to write: no visibilities, or no channels")
    for name in ("uu", "vv", "data", "weight"):
        if not np.isfinite(getattr(seen, name)).all():
            raise ValueError(f"{name} must be finite; some of it is NaN or infinite")
    if (seen.weight < 0).any() or not seen.weight.any():
        raise ValueError("weights must not be negative, and not be zero throughout")
    metres = seen.uu[0] / seen.frequency[0], seen.vv[0] / seen.frequency[0]
    for one, array in zip(metres, (seen.uu, seen.vv), strict=True):
        if not np.allclose(np.outer(seen.frequency, one), array, rtol=1e-6, atol=1e-3):
            raise ValueError("u and v must grow with the frequency from channel to channel; UVFITS stores them once")
    numbers, counts = np.unique(seen.window, return_counts=True)
    if len(set(counts)) > 1 or (seen.window != np.repeat(numbers, counts[0])).any():
        held = ", ".join(map(str, counts))
        raise ValueError(f"the windows must follow each other and have as many channels each; they have {held}")
    frequency = seen.frequency.reshape(len(numbers), -1)
    widths = (frequency[:, -1] - frequency[:, 0]) / max(frequency.shape[1] - 1, 1)
    if not np.allclose(np.diff(frequency, axis=1), widths[:, None], rtol=1e-3, atol=0):
        raise ValueError("the channels of a window must be evenly spaced; write each evenly spaced part as a window")
    return np.where(widths == 0, 1.0, widths), frequency[:, 0]


def heights(xyz: Real, seen: Observation, declination: float) -> Real:
    """Give w in metres, from the first to the second antenna."""
    if seen.antennas.max() >= len(xyz):
        raise ValueError(f"there are {len(xyz)} antennas, but a baseline of number {seen.antennas.max()}, from 0")
    x, y, z = (xyz[seen.antennas[:, 1]] - xyz[seen.antennas[:, 0]]).T
    hour = seen.time / SIDEREAL_HOUR * (math.pi / 12)
    outward = np.cos(hour) * x - np.sin(hour) * y
    return np.asarray(math.cos(math.radians(declination)) * outward + math.sin(math.radians(declination)) * z)


def frequency_table(widths: Real, starts: Real, seen: Observation) -> fits.BinTableHDU:
    """Tell where the windows lie."""
    n = len(widths)
    band = np.abs(widths) * (len(seen.frequency) // n)
    columns = [
        fits.Column("FRQSEL", "1J", array=[1]),
        fits.Column("IF FREQ", f"{n}D", unit="HZ", array=(starts - starts[0])[None]),
        fits.Column("CH WIDTH", f"{n}D", unit="HZ", array=widths[None]),
        fits.Column("TOTAL BANDWIDTH", f"{n}D", unit="HZ", array=band[None]),
        fits.Column("SIDEBAND", f"{n}J", array=np.sign(widths).astype(int)[None]),
    ]
    table = fits.BinTableHDU.from_columns(columns, name="AIPS FQ")
    table.header["NO_IF"] = n
    return table


def antenna_table(
    seen: Observation, xyz: Real | None, number: int, reference: float, date: str, sidereal: float
) -> fits.BinTableHDU:
    """Tell where the antennas of a subarray stand; X points to the meridian of the array, not to Greenwich."""
    n = int(seen.antennas.max()) + 1 if xyz is None else len(xyz)
    columns = [
        fits.Column("ANNAME", "8A", array=[f"A{i + 1:03d}" for i in range(n)]),
        fits.Column("STABXYZ", "3D", unit="METERS", array=np.zeros((n, 3)) if xyz is None else xyz),
        fits.Column("NOSTA", "1J", array=np.arange(1, n + 1)),
        fits.Column("MNTSTA", "1J", array=np.zeros(n, int)),
        fits.Column("STAXOF", "1E", unit="METERS", array=np.zeros(n)),
        fits.Column("POLTYA", "1A", array=["X"] * n),
        fits.Column("POLAA", "1E", unit="DEGREES", array=np.zeros(n)),
        fits.Column("POLCALA", "1E", array=np.zeros(n)),
        fits.Column("POLTYB", "1A", array=["Y"] * n),
        fits.Column("POLAB", "1E", unit="DEGREES", array=np.zeros(n)),
        fits.Column("POLCALB", "1E", array=np.zeros(n)),
    ]
    table = fits.BinTableHDU.from_columns(columns, name="AIPS AN", ver=number)
    table.header.update(dict(zip(("ARRAYX", "ARRAYY", "ARRAYZ"), ALMA_PLACE, strict=True)))
    table.header.update({"FRAME": "ITRF", "XYZHAND": "RIGHT", "ARRNAM": "ALMA", "FREQ": reference, "TIMSYS": "UTC"})
    table.header.update({"RDATE": date, "GSTIA0": sidereal, "DEGPDY": 360.98564736629, "UT1UTC": 0.0, "DATUTC": 0.0})
    table.header.update({"POLARX": 0.0, "POLARY": 0.0, "NUMORB": 0, "NOPCAL": 0, "FREQID": 1})
    return table
