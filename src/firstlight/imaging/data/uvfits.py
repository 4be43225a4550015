"""Read visibilities from UVFITS, with astropy alone.

A UVFITS file is one random-groups table: a row for each baseline and integration, which holds a few parameters
(u, v, w, the antennas, the date) and a small cube of visibilities over windows, channels and polarizations. Rows are
read through a memory map, some at a time, so that reading takes hardly more memory than what is read.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from astropy.io import fits  # type: ignore[import-untyped]
from numpy.typing import NDArray

from firstlight.imaging._types import Complex, Ints, Real
from firstlight.imaging.data.visibilities import Visibilities, refuse_folder

DAY = 86400.0  # seconds
MJD = 2400000.5  # the Julian date of MJD 0
FARTHEST = 10.0  # light-seconds: the orbit of no antenna is as wide
PIECE = 2**21  # numbers handled at a time
CODES = (1, 2, 3, 4, -1, -2, -3, -4, -5, -6, -7, -8)
STOKES = dict(zip(CODES, ["I", "Q", "U", "V", "RR", "LL", "RL", "LR", "XX", "YY", "XY", "YX"], strict=True))
DIVIDED = (
    "CASA wrote it, and all channels of a row share one weight. If the set had no WEIGHT_SPECTRUM, the weights are too "
    "small by the number of channels, {}. check_weights tells, and scale_weights mends it; or read the set itself, or "
    "export it again after initweights(vis, wtmode='weight', dowtsp=True)"
)
INTENSITIES = ((1,), (-5, -6), (-1, -2))  # what Stokes I is made of, the best first

Raw = NDArray[Any]


def read_uvfits(path: str | Path, *, conjugate: bool = True) -> Visibilities:
    """Read the total intensity of one source.

    Both hands (XX and YY, or RR and LL) estimate Stokes I of an unpolarized source: their mean is taken, each
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
        0. A file does not tell ICRS from the mean equator and equinox of J2000, which CASA writes alike: of a set in
        J2000 ``phase_centre`` is some 20 mas off, `read_ms` is right. It is None where the file has none.

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
    layout = Layout(Path(path))
    rows, antennas, subarray = baselines(layout)
    sign = -1.0 if conjugate else 1.0
    uu, vv = (sign * layout.frequency[:, None] * light_seconds(layout, name)[rows] for name in ("UU", "VV"))
    data, weight = np.empty(uu.shape, complex), np.empty(uu.shape)
    table, divided = layout.table(), "CASA" in str(layout.header.get("ORIGIN")).upper()
    for piece in layout.pieces(rows):
        seen, weights = hands(layout, table[rows[piece]])
        divided = divided and one_for_all_channels(weights, layout.window)
        data[:, piece], weight[:, piece] = total_intensity(seen, weights)
    if not weight.any():
        raise ValueError(f"{path} is flagged throughout: no weight is above zero")
    if divided:
        warnings.warn(f"{path}: {DIVIDED.format(int(np.bincount(layout.window).max()))}", UserWarning, stacklevel=2)
    days = layout.needed("DATE")[rows]
    return Visibilities(
        uu=uu,
        vv=vv,
        data=data,
        weight=weight,
        frequency=layout.frequency,
        window=layout.window,
        antennas=antennas[rows],
        time=(days - days.min()) * DAY,
        execution=subarray[rows],
        phase_centre=layout.phase_centre,
        telescope=str(layout.header.get("TELESCOP", "")).strip(),
        start=float((days.min() - MJD) * DAY) if days.min() >= MJD else None,
    )


def one_for_all_channels(weights: Real, window: Ints) -> bool:
    """Tell whether all channels of each window share the weights of a row, (hand, channel, row), flags apart."""
    parts = [weights[:, window == number] for number in np.unique(window)]
    even = (np.where(p > 0, p / p.max(axis=1, keepdims=True).clip(1e-300), 1).min() > 1 - 1e-5 for p in parts)
    return all(p.shape[1] > 1 for p in parts) and all(even)


class Layout:
    """What the headers of a UVFITS file say of its rows; what is no UVFITS file, or not all of one, is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        refuse_folder(path)
        with path.open("rb") as file:
            if file.read(6) != b"SIMPLE":
                raise ValueError(f"{path} is not a FITS file; a compressed one must be unpacked first")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a truncated file, which is refused below
            with fits.open(path, memmap=True, lazy_load_hdus=True) as hdus:
                self.header, self.start = hdus[0].header, int(hdus[0].fileinfo()["datLoc"])
                self.read_rows()
                self.frequency, self.window, self.setups = self.channels(hdus)
                self.phase_centre = self.centre(hdus)
        self.stokes = [round(value) for value in self.along("STOKES")]

    def read_rows(self) -> None:
        """Read how the rows are stored, and check that they are those of visibilities."""
        header, path = self.header, self.path
        if not header.get("GROUPS") or header.get("NAXIS1") != 0:
            raise ValueError(
                f"{path} is a FITS file without random groups: an image, or FITS-IDI. CASA's exportuvfits writes "
                "a UVFITS file"
            )
        bits, self.rows = int(header["BITPIX"]), int(header["GCOUNT"])
        numbers = range(int(header["NAXIS"]), 1, -1)
        self.shape = tuple(int(header[f"NAXIS{i}"]) for i in numbers)  # of the visibilities of a row
        self.axes = [str(header.get(f"CTYPE{i}", "")).strip().upper() for i in numbers]
        self.parameters = [
            (str(header[f"PTYPE{i}"]).strip().upper(), header.get(f"PSCAL{i}", 1.0), header.get(f"PZERO{i}", 0.0))
            for i in range(1, int(header["PCOUNT"]) + 1)
        ]
        self.width = len(self.parameters) + math.prod(self.shape)
        self.dtype = np.dtype(f">{'f' if bits < 0 else 'i'}{abs(bits) // 8}") if bits != 8 else np.dtype("u1")
        missing = self.start + self.rows * self.width * abs(bits) // 8 - path.stat().st_size
        if missing > 0:
            raise ValueError(f"{path} is cut off: {missing} bytes of its {self.rows} rows are missing")
        lengths = dict(zip(self.axes, self.shape, strict=True))
        for name in ("COMPLEX", "STOKES", "FREQ"):
            if name not in lengths:
                raise ValueError(f"{path} has no axis {name}; its axes are {', '.join(lengths)}")
        if lengths["COMPLEX"] != 3:
            raise ValueError(
                f"{path}: the axis COMPLEX is {lengths['COMPLEX']} long; expected 3: real part, imaginary part and "
                "weight. AIPS's task UVCMP expands compressed data"
            )
        if not self.rows:
            raise ValueError(f"{path} holds no rows")

    def along(self, name: str, step: float | None = None) -> Real:
        """Return the coordinates along an axis, or how far they are from its reference with another step."""
        i = len(self.axes) + 1 - self.axes.index(name)
        pixels = np.arange(1, self.header[f"NAXIS{i}"] + 1) - float(self.header.get(f"CRPIX{i}", 1.0))
        if step is not None:
            return np.asarray(pixels * step)
        return np.asarray(float(self.header[f"CRVAL{i}"]) + pixels * float(self.header.get(f"CDELT{i}", 1.0)))

    def channels(self, hdus: fits.HDUList) -> tuple[Real, Ints, int]:
        """Return the frequency in Hz and the window of each channel, and how many set-ups the file has."""
        at = self.axes.index("FREQ")
        windows = self.shape[self.axes.index("IF")] if "IF" in self.axes else 1
        window = np.repeat(np.arange(windows), self.shape[at])
        try:
            table = hdus["AIPS FQ"].data
            offset, width, sideband = (
                np.asarray(table[name][0], float).reshape(-1) for name in ("IF FREQ", "CH WIDTH", "SIDEBAND")
            )
        except (KeyError, IndexError, TypeError, ValueError, OSError):
            if windows > 1:
                raise ValueError(
                    f"{self.path} has {windows} spectral windows, but no whole table AIPS FQ that says where they lie"
                ) from None
            return self.along("FREQ"), window, 1
        if len(offset) != windows:
            raise ValueError(
                f"{self.path}: the table AIPS FQ is of {len(offset)} spectral windows, the data of {windows}"
            )
        reference = float(self.header[f"CRVAL{len(self.axes) + 1 - at}"])
        step = np.where((width > 0) & (sideband < 0), -width, width)  # some writers put the sign into the width as well
        frequency = (reference + offset[:, None] + np.outer(step, self.along("FREQ", 1.0))).ravel()
        if not (np.isfinite(frequency) & (frequency > 0)).all():
            raise ValueError(f"{self.path}: its headers give frequencies that are not positive: {frequency}")
        return frequency, window, len(table)

    def centre(self, hdus: fits.HDUList) -> tuple[float, float] | None:
        """Read right ascension and declination from AIPS's table of sources, if there is one, or the first header."""
        axes, number = [name.split("-")[0] for name in self.axes], self.parameter("SOURCE")
        places = [len(axes) + 1 - axes.index(name) for name in ("RA", "DEC") if name in axes]
        centre = [self.header[f"CRVAL{i}"] for i in places if f"CRVAL{i}" in self.header]
        if number is not None and "AIPS SU" in hdus:
            table = hdus["AIPS SU"].data
            row = table[table["ID. NO."] == round(number[0])]
            centre = [*row["RAEPO"][:1], *row["DECEPO"][:1]]
        return (float(centre[0]) % 360, float(centre[1])) if len(centre) == 2 else None

    def table(self) -> Raw:
        """Map the rows as they are stored, (rows, parameters and visibilities)."""
        return np.memmap(self.path, self.dtype, "r", self.start, (self.rows, self.width))

    def cube(self, rows: Raw) -> Raw:
        """View the visibilities of some rows as (row, window, channel, stokes, part), in place."""
        cube = rows[:, len(self.parameters) :].reshape(-1, *self.shape)
        named = [1 + self.axes.index(name) for name in ("IF", "FREQ", "STOKES", "COMPLEX") if name in self.axes]
        others = [axis for axis in range(1, cube.ndim) if axis not in named]  # which are of length 1
        cube = cube.transpose(0, *named, *others).reshape(len(cube), *(cube.shape[axis] for axis in named))
        return cube if "IF" in self.axes else cube[:, None]

    def parameter(self, *names: str) -> Real | None:
        """Sum the parameters of these names: what one number cannot hold stands in two of them."""
        table, columns = self.table(), [i for i, (name, _, _) in enumerate(self.parameters) if name in names]
        parts = (table[:, i] * np.float64(self.parameters[i][1]) + float(self.parameters[i][2]) for i in columns)
        return np.asarray(sum(parts), float) if columns else None

    def needed(self, *names: str) -> Real:
        """Do the same where there must be one."""
        values = self.parameter(*names)
        if values is None:
            held = ", ".join(name for name, _, _ in self.parameters)
            raise ValueError(f"{self.path} has no parameter {names[0]}; its rows hold {held}")
        if not np.isfinite(values).all():
            raise ValueError(f"{self.path}: {names[0]} is NaN or infinite in {(~np.isfinite(values)).sum()} rows")
        return values

    def pieces(self, rows: Ints) -> Iterator[slice]:
        """Divide rows into pieces that are small enough to hold in memory several times."""
        step = max(1, PIECE // math.prod(self.shape))
        return (slice(first, first + step) for first in range(0, len(rows), step))


def baselines(layout: Layout) -> tuple[Ints, Ints, Ints]:
    """Return the numbers of the rows that are of one baseline each, and the antennas and subarray of every row."""
    for name, what in (("SOURCE", "sources"), ("FREQSEL", "frequency set-ups")):
        numbers = layout.parameter(name)
        if numbers is not None and len(held := np.unique(numbers)) > 1:
            raise ValueError(f"{layout.path} holds {len(held)} {what} ({name} {held}): write one to a file")
        if name == "FREQSEL" and numbers is not None and layout.setups > 1 and numbers[0] != 1:
            raise ValueError(f"{layout.path}: its rows are of FREQSEL {numbers[0]:g}, not of the first in AIPS FQ")
    code = layout.parameter("BASELINE")
    if code is None:
        first, second = (layout.needed(name) for name in ("ANTENNA1", "ANTENNA2"))
        subarray = layout.parameter("SUBARRAY")
        subarray = np.ones(layout.rows) if subarray is None else subarray
    else:
        code = layout.needed("BASELINE")
        whole = np.floor(code + 1e-3)
        large = whole > 65536  # more than 255 antennas
        first, second = np.divmod(np.where(large, whole - 65536, whole), np.where(large, 2048, 256))
        subarray = 1 + np.round(100 * (code - whole))
    antennas = np.stack([first, second], axis=1).round().astype(int) - 1
    if antennas.min() < 0:
        raise ValueError(f"{layout.path}: antennas count from 1, but a row is of antenna {antennas.min() + 1}")
    rows = np.flatnonzero(antennas[:, 0] != antennas[:, 1])
    if not rows.size:
        raise ValueError(f"{layout.path} holds autocorrelations only")
    return rows, antennas, np.maximum(subarray.round().astype(int) - 1, 0)


def light_seconds(layout: Layout, axis: str) -> Real:
    """Return u or v in light-seconds."""
    names = (axis, *(f"{axis}{'-' * dashes}{plane}" for dashes in range(1, 4) for plane in ("", "SIN", "NCP")))
    lengths = layout.needed(*names)
    if np.abs(lengths).max() > FARTHEST:
        raise ValueError(
            f"{layout.path}: {axis} reaches {np.abs(lengths).max():.4g}, which is no number of light-seconds for an "
            "array on earth; convert it from wavelengths or metres first"
        )
    return lengths


def intensities(layout: Layout) -> list[int]:
    """Return where on the Stokes axis that stands which total intensity is made of."""
    for codes in INTENSITIES:
        if places := [i for i, code in enumerate(layout.stokes) if code in codes]:
            return places
    held = ", ".join(STOKES.get(code, str(code)) for code in layout.stokes)
    raise ValueError(f"{layout.path} holds {held}; total intensity needs I, XX or YY, or RR or LL")


def hands(layout: Layout, rows: Raw) -> tuple[Complex, Real]:
    """Return the hands of total intensity and their weights, (hand, channel, row); those flagged are 0."""
    stored = layout.cube(rows)[:, :, :, intensities(layout)]
    cube = stored * np.float64(layout.header.get("BSCALE", 1.0)) + float(layout.header.get("BZERO", 0.0))
    if "BLANK" in layout.header and layout.dtype.kind != "f":
        cube[(stored == layout.header["BLANK"]).any(axis=-1)] = 0
    weight = cube[..., 2]
    counts = weight > 0
    unknown = np.isnan(weight) | (counts & ~np.isfinite(cube).all(axis=-1))
    if unknown.any():
        raise ValueError(
            f"{layout.path}: {unknown.sum()} visibilities or weights are NaN or infinite and not flagged. Give them "
            "the weight 0"
        )
    cube[~counts] = 0
    cube = np.moveaxis(cube, (3, 0), (0, 3)).reshape(cube.shape[3], -1, len(rows), 3)
    return cube[..., 0] + 1j * cube[..., 1], cube[..., 2]


def total_intensity(vis: Complex, weights: Real) -> tuple[Complex, Real]:
    """Average the hands by their weights."""
    weight = weights.sum(axis=0)
    mean = np.divide((weights * vis).sum(axis=0), weight, out=np.zeros(weight.shape, complex), where=weight > 0)
    return mean, weight
