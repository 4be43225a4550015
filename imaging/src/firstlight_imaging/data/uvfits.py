"""Read visibilities from UVFITS, by astropy's random groups.

A UVFITS file is a table of random groups: a row for each baseline and integration, which holds a few parameters
(u, v, w, the antennas, the date) and a small cube of visibilities over windows, channels and polarizations. Cubes are
read through a memory map, some rows at a time, so that reading takes hardly more memory than what is read.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from astropy.io import fits  # type: ignore[import-untyped]
from numpy.typing import NDArray

from firstlight_imaging._types import Complex, Ints, Real
from firstlight_imaging.data.visibilities import Visibilities, check_is_file, check_nothing_counts_twice, readable
from firstlight_imaging.units import check_hertz

_DAY = 86400.0  # seconds
_MJD_ZERO = 2400000.5  # a Julian date
_MAX_LIGHT_SECONDS = 10.0  # the orbit of no antenna is as wide
_NUMBERS_AT_ONCE = 2**21
_UNITS = ("", "JY", "UNCALIB")  # the last stays in the header where data are calibrated
_CODES = (1, 2, 3, 4, -1, -2, -3, -4, -5, -6, -7, -8)
_STOKES = dict(zip(_CODES, ["I", "Q", "U", "V", "RR", "LL", "RL", "LR", "XX", "YY", "XY", "YX"], strict=True))
_INTENSITIES = ((1,), (-5, -6), (-1, -2))  # the codes whose mean is Stokes I, the best first
_WEIGHTS_MAY_BE_DIVIDED = (
    "CASA wrote it, and all channels of a row share one weight. If the set had no WEIGHT_SPECTRUM, the weights are too "
    "small by the number of channels, {}. check_weights tells, and scale_weights mends it; or read the set itself, or "
    "export it again after initweights(vis, wtmode='weight', dowtsp=True)"
)


def read_uvfits(path: str | Path, *, conjugate: bool = True) -> Visibilities:
    """Return the total intensity of the one source in a UVFITS file.

    Both parallel hands (XX and YY, or RR and LL) estimate Stokes I of an unpolarized source: their mean is taken, each
    counting by its weight, and the weights add up. Where one hand is flagged, the other counts alone. A weight of
    zero or less is a flag. Autocorrelations are left out.

    Parameters
    ----------
    path
        Of the file, not compressed.
    conjugate
        Files are written with phases of the sign of exp(+2πi(ul + vm)), where u leads from the second antenna to the
        first. Ours is exp(-2πi(ul + vm)), from the first to the second. So by default u and v change sign, which says
        the same as conjugated data. With False they are kept, for a file of the other sign: if the image comes out
        turned by 180 degrees, this is why.

    Returns
    -------
    Visibilities
        ``time`` is in seconds since the first integration, ``start``; ``execution`` counts the file's subarrays from
        0. ``phase_centre`` is None where the file has none; one of B1950 becomes ICRS, and u and v, whose north is that
        of 1950, stay. A file does not tell ICRS from the mean equator and equinox of J2000, which CASA writes alike: of
        a set in J2000 ``phase_centre`` is some 20 mas off, `read_ms` is right.

    Warns
    -----
    UserWarning
        Where weights may be too small. CASA's ``exportuvfits`` divides them by the number of channels if the set has
        no ``WEIGHT_SPECTRUM``; once it is written, nothing in the file says so.

    Examples
    --------
    A file with one row, of a point in the centre:

    >>> import tempfile
    >>> names = ["UU", "VV", "BASELINE", "DATE"]
    >>> groups = fits.GroupData(np.ones((1, 1, 1, 3), "f4"), -32, parnames=names, pardata=[1e-6, 0, 258, 0])
    >>> hdu = fits.GroupsHDU(groups)
    >>> for axis, name in enumerate(("COMPLEX", "STOKES", "FREQ"), 2):
    ...     hdu.header[f"CTYPE{axis}"], hdu.header[f"CRVAL{axis}"] = name, 1.0 if name != "FREQ" else 230e9
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hdu.writeto(f"{folder}/sky.uvfits")
    ...     vis = read_uvfits(f"{folder}/sky.uvfits")
    >>> vis.data, vis.antennas
    (array([[1.+1.j]]), array([[0, 1]]))
    """
    path = Path(path)
    check_is_file(path)
    with readable(path), path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a truncated file, which is refused below
        if file.read(6) != b"SIMPLE":
            raise ValueError(
                "it is not a FITS file, nor an npz file or a measurement set. Unpack a compressed file first, and let "
                "the name of a table of text, with u, v, Re, Im and weight, end in .txt or .dat"
            )
        with fits.open(file, memmap=True) as hdus:
            vis, may_be_divided = _visibilities(_Groups(path, hdus), conjugate)
    if may_be_divided:
        warning = _WEIGHTS_MAY_BE_DIVIDED.format(int(np.bincount(vis.window).max()))
        warnings.warn(f"{path}: {warning}", UserWarning, stacklevel=2)
    return vis


def _visibilities(groups: _Groups, conjugate: bool) -> tuple[Visibilities, bool]:
    """Return what a file holds, and whether CASA may have divided its weights by the number of channels."""
    frequency, window = groups.channels()
    check_hertz(frequency, name="the frequencies of its channels")
    rows, antennas, subarray = groups.baselines()
    sign = -1.0 if conjugate else 1.0
    uu, vv = (sign * frequency[:, None] * groups.light_seconds(axis)[rows] for axis in ("UU", "VV"))
    data, weight = np.empty(uu.shape, complex), np.empty(uu.shape)
    may_be_divided = "CASA" in str(groups.header.get("ORIGIN")).upper()
    step = max(1, _NUMBERS_AT_ONCE // groups.cubes[0].size)
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        hands, weights = groups.parallel_hands(rows[part])
        may_be_divided = may_be_divided and _share_weights(weights, window)
        data[:, part], weight[:, part] = total_intensity(hands, weights)
    if not weight.any():
        raise ValueError("it is flagged throughout: no weight is above zero")
    days = groups.needed("DATE")[rows]
    vis = Visibilities(
        uu=uu,
        vv=vv,
        data=data,
        weight=weight,
        frequency=frequency,
        window=window,
        antennas=antennas[rows],
        time=(days - days.min()) * _DAY,
        execution=subarray[rows],
        phase_centre=groups.phase_centre(),
        telescope=groups.text("TELESCOP"),
        target=groups.target(),
        start=float((days.min() - _MJD_ZERO) * _DAY) if days.min() >= _MJD_ZERO else None,
        antenna_names=groups.antenna_names(),
    )
    check_nothing_counts_twice(vis)
    return vis, may_be_divided


def _share_weights(weights: Real, window: Ints) -> bool:
    """Return whether all channels of each window share the weights of a row, (hand, channel, row), flags apart."""
    parts = [weights[:, window == number] for number in np.unique(window)]
    even = (np.where(p > 0, p / p.max(axis=1, keepdims=True).clip(1e-300), 1).min() > 1 - 1e-5 for p in parts)
    return all(p.shape[1] > 1 for p in parts) and all(even)


class _Groups:
    """The random groups of a file, and what its headers say of them; what is no UVFITS file, or not all, is refused.

    ``axes`` has the number of each axis in the header, and ``cubes`` the visibilities as they are stored: (row, window,
    channel, Stokes, part).
    """

    def __init__(self, path: Path, hdus: fits.HDUList) -> None:
        self.hdus = hdus
        if "UV_DATA" in hdus:  # which may say that it has groups, though no rows of them
            raise ValueError("it is FITS-IDI: CASA's importfitsidi makes a measurement set of it, and AIPS UVFITS")
        if not isinstance(hdus[0], fits.GroupsHDU) or hdus[0].header.get("NAXIS1") != 0:
            raise ValueError("it is a FITS file without random groups: an image?")
        self.header = header = hdus[0].header.copy()  # astropy takes the scales out of its own
        _check_is_whole(path, hdus)
        for parameter in range(1, header["PCOUNT"] + 1):  # by which astropy scales them, whatever it finds there
            for name, default in (("PSCAL", 1.0), ("PZERO", 0.0)):
                self.number(f"{name}{parameter}", default)
        if (unit := self.text("BUNIT")).upper() not in _UNITS:
            raise ValueError(f"its data are in {unit} (BUNIT), and Jy are needed: scale them, or correct that card")
        cards = (self.text(f"PTYPE{n}").upper() for n in range(1, header["PCOUNT"] + 1))
        if tilted := [name for name in cards if name[:2] in ("UU", "VV", "WW") and name.endswith("NCP")]:
            raise ValueError(f"its {tilted[0]} are of the projection NCP, and SIN is needed: AIPS's UVFIX makes them")
        if not header["GCOUNT"]:
            raise ValueError("it holds no rows")
        self.axes = {str(header.get(f"CTYPE{n}", "")).strip().upper(): n for n in range(2, header["NAXIS"] + 1)}
        for name in ("COMPLEX", "STOKES", "FREQ"):
            if name not in self.axes:
                raise ValueError(f"it has no axis {name}; its axes are {', '.join(self.axes)}")
        if (length := header[f"NAXIS{self.axes['COMPLEX']}"]) != 3:
            raise ValueError(f"its axis COMPLEX is {length} long and not 3; AIPS's task UVCMP expands compressed data")
        self.table = hdus[0].data
        self.cubes = self._cubes()

    def _cubes(self) -> NDArray[Any]:
        """Return a view of the visibilities, not scaled: astropy does not know BZERO."""
        stored = self.table.view(np.ndarray)[self.table.dtype.names[-1]]
        last = self.header["NAXIS"]
        cubes = stored.reshape(len(stored), *(self.header[f"NAXIS{n}"] for n in range(last, 1, -1)))
        known = [1 + last - self.axes[name] for name in ("IF", "FREQ", "STOKES", "COMPLEX") if name in self.axes]
        others = tuple(axis for axis in range(1, last) if axis not in known)
        cubes = cubes.transpose(0, *known, *others).squeeze(tuple(range(1 + len(known), last)))
        return np.asarray(cubes if "IF" in self.axes else cubes[:, None])

    def text(self, key: str) -> str:
        """Return the text on a card of the header, empty where there is none."""
        value = self.header.get(key)
        return value.strip() if isinstance(value, str) else ""

    def number(self, key: str, default: float | None = None) -> float:
        """Return the number on a card of the header; without a default, there must be one."""
        try:
            number = float(str(self.header.get(key, default)).strip().lstrip("BJ"))  # of an equinox: J2000
        except (ValueError, fits.VerifyError):
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"the card {key} of its header is missing, or holds no number")
        return number

    def coordinates(self, axis: str, step: float | None = None) -> Real:
        """Return the coordinates along an axis, or how far they are from its reference with another step."""
        n = self.axes[axis]
        length = self.header[f"NAXIS{n}"]
        only = 1.0 if length == 1 else None  # which needs no step
        pixels = np.arange(1, length + 1) - self.number(f"CRPIX{n}", only)
        if step is not None:
            return np.asarray(pixels * step)
        return np.asarray(self.number(f"CRVAL{n}") + pixels * self.number(f"CDELT{n}", only))

    def parameter(self, name: str) -> Real | None:
        """Return the sum of the parameters whose names begin so: what one number cannot hold stands in two of them."""
        held = [each for each in dict.fromkeys(self.table.parnames) if each.upper().startswith(name)]
        return np.asarray(sum(np.asarray(self.table.par(each), float) for each in held)) if held else None

    def needed(self, name: str) -> Real:
        """Return the same where there must be one."""
        values = self.parameter(name)
        if values is None:
            raise ValueError(f"it has no parameter {name}; its rows hold {', '.join(self.table.parnames)}")
        if not np.isfinite(values).all():
            raise ValueError(f"its {name} is NaN or infinite in {(~np.isfinite(values)).sum()} rows")
        return values

    def light_seconds(self, axis: str) -> Real:
        """Return u or v in light-seconds; a projection may follow their names, as in UU---SIN."""
        lengths = self.needed(axis)
        if np.abs(lengths).max() > _MAX_LIGHT_SECONDS:
            raise ValueError(f"its {axis} reaches {np.abs(lengths).max():.4g}, which is no number of light-seconds")
        return lengths

    def table_of(self, name: str) -> fits.FITS_rec | None:
        """Return a table of the file, if it has that."""
        if name not in self.hdus:
            return None
        table = self.hdus[name].data
        if table.dtype.itemsize != self.hdus[name].header["NAXIS1"]:
            raise ValueError(f"the columns of its table {name} are not as wide as its rows")
        return table

    def channels(self) -> tuple[Real, Ints]:
        """Return the frequency in Hz and the window of each channel."""
        windows, nchan = self.cubes.shape[1:3]
        window = np.repeat(np.arange(windows), nchan)
        selected = self.parameter("FREQSEL")
        table = self.table_of("AIPS FQ")
        if table is None:
            if windows > 1:
                raise ValueError(f"it has {windows} spectral windows, but no table AIPS FQ that says where they lie")
            return self.coordinates("FREQ"), window
        if selected is not None and len(table) > 1 and selected[0] != 1:
            raise ValueError(f"its rows are of FREQSEL {selected[0]:g}, not of the first in AIPS FQ")
        offset, width, sideband = (
            np.asarray(table[name][0], float).reshape(-1) for name in ("IF FREQ", "CH WIDTH", "SIDEBAND")
        )
        if len(offset) != windows:
            raise ValueError(f"its table AIPS FQ is of {len(offset)} spectral windows, the data of {windows}")
        step = np.where((width > 0) & (sideband < 0), -width, width)  # some writers put the sign into the width as well
        start = self.number(f"CRVAL{self.axes['FREQ']}") + offset[:, None]
        return (start + np.outer(step, self.coordinates("FREQ", 1.0))).ravel(), window

    def source(self) -> fits.FITS_rec | None:
        """Return the rows of the source in AIPS's table of sources, if there is one."""
        sources, number = self.table_of("AIPS SU"), self.parameter("SOURCE")
        if sources is None or number is None:
            return sources
        return sources[sources["ID. NO."] == round(number[0])]

    def target(self) -> str:
        """Return the name of the source, from that table or the first header."""
        rows = self.source()
        if rows is not None and len(rows) == 1 and "SOURCE" in rows.names:
            return str(rows["SOURCE"][0]).strip()
        return self.text("OBJECT")

    def antenna_names(self) -> dict[int, str]:
        """Return the names of antennas by their numbers from 0, without those that subarrays name differently."""
        held: set[tuple[int, str]] = set()
        for hdu in self.hdus:
            if hdu.name == "AIPS AN" and {"NOSTA", "ANNAME"} <= set(hdu.columns.names):
                table = hdu.data.view(np.ndarray)  # whose names may not be ASCII, which astropy would refuse
                names = (printable(name.decode("utf-8", "replace")) for name in table["ANNAME"])
                held.update(zip((table["NOSTA"] - 1).tolist(), names, strict=True))
        times = Counter(number for number, _ in held)
        return {number: name for number, name in sorted(held) if name and times[number] == 1}

    def phase_centre(self) -> tuple[float, float] | None:
        """Return right ascension and declination from AIPS's table of sources, if there is one, or the first header."""
        axes, number = {name.split("-")[0]: n for name, n in self.axes.items()}, self.parameter("SOURCE")
        year = self.number("EQUINOX", self.number("EPOCH", 2000.0))
        if (rows := self.source()) is not None:
            if len(rows) != 1:
                return None
            ra, dec = float(rows["RAEPO"][0]), float(rows["DECEPO"][0])
            year = float(rows["EPOCH"][0]) if "EPOCH" in rows.names else year
        elif number is None and "RA" in axes and "DEC" in axes:
            ra, dec = (self.number(f"CRVAL{axes[name]}") for name in ("RA", "DEC"))
        else:
            return None
        if year in (0.0, 2000.0):
            return ra, dec
        from astropy.coordinates import SkyCoord  # type: ignore[import-untyped]

        frame, letter = ("fk4", "B") if year < 1984 else ("fk5", "J")  # as the standard of FITS has it
        place = SkyCoord(ra, dec, unit="deg", frame=frame, equinox=f"{letter}{year}").icrs
        return float(place.ra.deg), float(place.dec.deg)

    def baselines(self) -> tuple[Ints, Ints, Ints]:
        """Return the numbers of the rows that are of two antennas, and the antennas and subarray of every row."""
        for name, what in (("SOURCE", "sources"), ("FREQSEL", "frequency set-ups")):
            numbers = self.parameter(name)
            if numbers is not None and len(held := np.unique(numbers)) > 1:
                raise ValueError(f"it holds {len(held)} {what} ({name} {held}): write one to a file")
        if self.parameter("BASELINE") is None:
            first, second = (self.needed(name) for name in ("ANTENNA1", "ANTENNA2"))
            given = self.parameter("SUBARRAY")
            subarray = np.ones(len(first)) if given is None else given
        else:
            code = self.needed("BASELINE")
            whole = np.floor(code + 1e-3)
            large = whole > 65536  # more than 255 antennas
            first, second = np.divmod(np.where(large, whole - 65536, whole), np.where(large, 2048, 256))
            subarray = 1 + np.round(100 * (code - whole))
        antennas = np.stack([first, second], axis=1).round().astype(int) - 1
        if antennas.min() < 0:
            raise ValueError(f"antennas count from 1, but a row is of antenna {antennas.min() + 1}")
        rows = np.flatnonzero(antennas[:, 0] != antennas[:, 1])
        if not rows.size:
            raise ValueError("it holds autocorrelations only")
        return rows, antennas, np.maximum(subarray.round().astype(int) - 1, 0)

    def parallel_hands(self, rows: Ints) -> tuple[Complex, Real]:
        """Return the hands that make total intensity and their weights, (hand, channel, row); those flagged are 0."""
        stored = self.cubes[rows][:, :, :, self._intensities()]
        cube = stored * np.float64(self.number("BSCALE", 1.0)) + self.number("BZERO", 0.0)
        if "BLANK" in self.header and stored.dtype.kind != "f":
            cube[(stored == self.header["BLANK"]).any(axis=-1)] = 0
        weight = cube[..., 2]
        counts = weight > 0
        unknown = np.isnan(weight) | (counts & ~np.isfinite(cube).all(axis=-1))
        if unknown.any():
            raise ValueError(f"{unknown.sum()} visibilities or weights are NaN or infinite and not flagged: weigh by 0")
        cube[~counts] = 0
        cube = np.moveaxis(cube, (3, 0), (0, 3)).reshape(cube.shape[3], -1, len(rows), 3)
        return cube[..., 0] + 1j * cube[..., 1], cube[..., 2]

    def _intensities(self) -> list[int]:
        """Return the indices on the Stokes axis of what total intensity is made of."""
        held = [round(value) for value in self.coordinates("STOKES")]
        for codes in _INTENSITIES:
            if indices := [i for i, code in enumerate(held) if code in codes]:
                return indices
        names = ", ".join(_STOKES.get(code, str(code)) for code in held)
        raise ValueError(f"it holds {names}; total intensity needs I, XX or YY, or RR or LL")


def _check_is_whole(path: Path, hdus: fits.HDUList) -> None:
    """Raise an error if the last table of a file is cut off, or what follows it is no table."""
    last, length = hdus[-1].fileinfo(), path.stat().st_size
    missing = last["datLoc"] + hdus[-1].size - length
    if missing > 0:
        raise ValueError(f"it is cut off: {missing} bytes are missing of what its headers announce")
    with path.open("rb") as file:
        file.seek(last["datLoc"] + last["datSpan"])
        if file.read(2880).strip(b"\0 "):
            raise ValueError("what follows its last whole table is none: it is cut off, or damaged")


def printable(text: str) -> str:
    """Return what of a name can be printed, without spaces around it; CASA leaves others behind a zero byte."""
    return "".join(letter for letter in text.partition("\0")[0] if letter.isprintable()).strip()


def total_intensity(hands: Complex, weights: Real) -> tuple[Complex, Real]:
    """Return the mean of the hands by their weights, and its weight: (channel, row)."""
    weight = weights.sum(axis=0)
    mean = np.divide((weights * hands).sum(axis=0), weight, out=np.zeros(weight.shape, complex), where=weight > 0)
    return mean, weight
