"""What the headers of a UVFITS file say of its rows, and the rows as they are stored.

A UVFITS file is one random-groups table: a row for each baseline and integration, which holds a few parameters
(u, v, w, the antennas, the date) and a small cube of visibilities over windows, channels and polarizations. Rows are
read through a memory map, some at a time, so that reading takes hardly more memory than what is read.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from astropy.io import fits  # type: ignore[import-untyped]
from numpy.typing import NDArray

from firstlight.imaging.skies import Ints, Real

__all__ = ["Layout", "read_layout"]

PIECE = 2**21  # numbers handled at a time

Raw = NDArray[Any]


@dataclass(frozen=True)
class Layout:
    """What the headers of a UVFITS file say of its rows."""

    path: Path
    start: int  # of the first row, in bytes
    rows: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # of the visibilities of a row
    axes: tuple[str, ...]
    parameters: tuple[tuple[str, float, float], ...]  # name, scale and zero of each
    scale: float
    zero: float
    blank: int | None
    stokes: tuple[int, ...]
    frequency: Real
    window: Ints
    setups: int

    def table(self) -> Raw:
        """Map the rows as they are stored, (rows, parameters and visibilities)."""
        width = len(self.parameters) + int(np.prod(self.shape))
        return np.memmap(self.path, self.dtype, "r", self.start, (self.rows, width))

    def cube(self, rows: Raw) -> Raw:
        """View the visibilities of some rows as (row, window, channel, stokes, part), in place."""
        cube = rows[:, len(self.parameters) :].reshape(-1, *self.shape)
        named = [1 + self.axes.index(name) for name in ("IF", "FREQ", "STOKES", "COMPLEX") if name in self.axes]
        others = [axis for axis in range(1, cube.ndim) if axis not in named]
        cube = cube.transpose(0, *named, *others)
        for _ in others:  # which are of length 1
            cube = cube[..., 0]
        return cube if "IF" in self.axes else cube[:, None]

    def parameter(self, *names: str) -> Real | None:
        """Sum the parameters of these names: what one number cannot hold stands in two of them."""
        table, found = self.table(), [i for i, (name, _, _) in enumerate(self.parameters) if name in names]
        parts = (table[:, i] * np.float64(self.parameters[i][1]) + self.parameters[i][2] for i in found)
        return np.asarray(sum(parts), float) if found else None

    def needed(self, *names: str) -> Real:
        """Do the same where there must be one."""
        values = self.parameter(*names)
        if values is None:
            held = ", ".join(name for name, _, _ in self.parameters)
            raise ValueError(f"{self.path} has no parameter {names[0]}; its rows hold {held}")
        if not np.isfinite(values).all():
            raise ValueError(f"{self.path}: {names[0]} is NaN or infinite in {(~np.isfinite(values)).sum()} rows")
        return values

    def pieces(self, chosen: Ints) -> Iterator[slice]:
        """Divide the chosen rows into pieces that are small enough to hold in memory several times."""
        step = max(1, PIECE // int(np.prod(self.shape)))
        return (slice(first, first + step) for first in range(0, len(chosen), step))


def read_layout(path: Path) -> Layout:
    """Read the headers, and refuse what is no UVFITS file or not all of one."""
    with path.open("rb") as file:
        if file.read(6) != b"SIMPLE":
            raise ValueError(f"{path} is not a FITS file; a compressed one must be unpacked first")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a truncated file, which is refused below
        with fits.open(path, memmap=True, lazy_load_hdus=True) as hdus:
            header, start = hdus[0].header, int(hdus[0].fileinfo()["datLoc"])
            if not header.get("GROUPS") or header.get("NAXIS1") != 0:
                raise ValueError(
                    f"{path} is a FITS file without random groups: an image, or FITS-IDI. CASA's exportuvfits writes "
                    "a UVFITS file"
                )
            bits, rows = int(header["BITPIX"]), int(header["GCOUNT"])
            numbers = range(2, int(header["NAXIS"]) + 1)
            shape = tuple(int(header[f"NAXIS{i}"]) for i in reversed(numbers))
            axes = tuple(str(header.get(f"CTYPE{i}", "")).strip().upper() for i in reversed(numbers))
            count = int(header["PCOUNT"])
            missing = start + rows * (count + math.prod(shape)) * abs(bits) // 8 - path.stat().st_size
            if missing > 0:
                raise ValueError(f"{path} is cut off: {missing} bytes of its {rows} rows are missing")
            check_axes(path, dict(zip(axes, shape, strict=True)))
            if not rows:
                raise ValueError(f"{path} holds no rows")
            frequency, setups = channel_frequencies(path, hdus, axes, shape)
            n_channels = shape[axes.index("FREQ")]
            return Layout(
                path=path,
                start=start,
                rows=rows,
                dtype=np.dtype(f">{'f' if bits < 0 else 'i'}{abs(bits) // 8}") if bits != 8 else np.dtype("u1"),
                shape=shape,
                axes=axes,
                parameters=tuple(
                    (
                        str(header[f"PTYPE{i}"]).strip().upper(),
                        float(header.get(f"PSCAL{i}", 1.0)),
                        float(header.get(f"PZERO{i}", 0.0)),
                    )
                    for i in range(1, count + 1)
                ),
                scale=float(header.get("BSCALE", 1.0)),
                zero=float(header.get("BZERO", 0.0)),
                blank=header.get("BLANK") if bits > 0 else None,
                stokes=tuple(round(value) for value in axis_values(header, axes, shape, "STOKES")),
                frequency=frequency.ravel(),
                window=np.repeat(np.arange(len(frequency)), n_channels),
                setups=setups,
            )


def check_axes(path: Path, lengths: dict[str, int]) -> None:
    """Refuse cubes that are not those of visibilities."""
    for name in ("COMPLEX", "STOKES", "FREQ"):
        if name not in lengths:
            raise ValueError(f"{path} has no axis {name}; its axes are {', '.join(lengths)}")
    if lengths["COMPLEX"] != 3:
        raise ValueError(
            f"{path}: the axis COMPLEX is {lengths['COMPLEX']} long; expected 3: real part, imaginary part and weight. "
            "AIPS's task UVCMP expands compressed data"
        )
    for name, length in lengths.items():
        if name not in ("COMPLEX", "STOKES", "FREQ", "IF") and length != 1:
            raise ValueError(f"{path}: the axis {name} is {length} long; only windows, channels and Stokes may be more")


def axis_values(header: fits.Header, axes: tuple[str, ...], shape: tuple[int, ...], name: str) -> Real:
    """Give the coordinates along an axis."""
    at = axes.index(name)
    i, steps = len(axes) + 1 - at, np.arange(1, shape[at] + 1)
    step, pixel = float(header.get(f"CDELT{i}", 1.0)), float(header.get(f"CRPIX{i}", 1.0))
    return np.asarray(float(header[f"CRVAL{i}"]) + (steps - pixel) * step)


def channel_frequencies(
    path: Path, hdus: fits.HDUList, axes: tuple[str, ...], shape: tuple[int, ...]
) -> tuple[Real, int]:
    """Give the frequencies in Hz, (window, channel), and how many set-ups the file has."""
    header, at = hdus[0].header, axes.index("FREQ")
    windows = shape[axes.index("IF")] if "IF" in axes else 1
    along = axis_values(header, axes, shape, "FREQ")
    try:
        table = hdus["AIPS FQ"].data
        offset, width, sideband = (
            np.asarray(table[name][0], float).reshape(-1) for name in ("IF FREQ", "CH WIDTH", "SIDEBAND")
        )
    except (KeyError, IndexError, TypeError, ValueError, OSError):
        if windows > 1:
            raise ValueError(
                f"{path} has {windows} spectral windows, but no whole table AIPS FQ that says where they lie"
            ) from None
        return along[None], 1
    if len(offset) != windows:
        raise ValueError(f"{path}: the table AIPS FQ is of {len(offset)} spectral windows, the data of {windows}")
    reference = float(header[f"CRVAL{len(axes) + 1 - at}"])
    from_reference = np.arange(1, shape[at] + 1) - float(header.get(f"CRPIX{len(axes) + 1 - at}", 1.0))
    step = np.where((width > 0) & (sideband < 0), -width, width)  # some writers put the sign into the width as well
    frequency = reference + offset[:, None] + step[:, None] * from_reference
    if not (np.isfinite(frequency) & (frequency > 0)).all():
        raise ValueError(f"{path}: its headers give frequencies that are not positive: {frequency.ravel()}")
    return frequency, len(table)
