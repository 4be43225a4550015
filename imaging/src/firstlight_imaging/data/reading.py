"""Read visibilities, whatever the file: UVFITS, npz, a measurement set, or a table of text."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from inspect import signature
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from firstlight_imaging.data.ms import read_ms
from firstlight_imaging.data.npz import read_npz
from firstlight_imaging.data.uvfits import read_uvfits
from firstlight_imaging.data.uvtable import is_uvtable, read_uvtable
from firstlight_imaging.data.visibilities import Visibilities, check_is_file, join_windows

_OPTIONS = {"field": "--of", "windows": "--spw", "column": "--column", "unit": "--unit"}  # of readers, and the command
# Formats that are not read: a file that tells one by how it begins (in the folder, or the file itself), and what to do.
_OTHERS = (
    ("visdata", b"", "a MIRIAD data set: fits in={0} op=uvout out=my.uvfits (in MIRIAD) writes UVFITS of it"),
    ("sch_read", b"", "an SMA data set (MIR): pyuvdata's UVData.from_file('{0}').write_ms('my.ms') converts it"),
    ("ASDM.xml", b"", "an ASDM: CASA's importasdm(asdm='{0}', vis='my.ms') makes a measurement set, to be calibrated"),
    ("table.info", b"Type = Image", "a CASA image: give the data behind it; to judge it, exportfits and --assess"),
    ("table.info", b"Type = Calibration", "a calibration table of CASA's: applycal it, and give the measurement set"),
    ("", b"\x89HDF", "an HDF5 file; if it is uvh5, pyuvdata's UVData.from_file('{0}').write_ms('my.ms') converts it"),
    ("", b"GILDAS", "a GILDAS file; of a UV table, READ UV {0} and WRITE UV my.uvfits FITS (in IMAGER) make UVFITS"),
)
_SAME_ROWS = 1e-3  # of the longest baseline: by what rows of one execution may differ in two windows
_ROUNDED = (1e-8, 1e-6, 1e-6, 1e-6)  # by which a frequency and sums of u, v and data may differ in two kinds of files


def read_visibilities(path: str | Path | Sequence[str | Path], **options: Any) -> Visibilities:
    """Return the visibilities of a UVFITS file, an npz file, a measurement set or a table of text.

    Parameters
    ----------
    path
        Of the file, or of the folder that a measurement set is; or of several, windows of one execution.
    **options
        Go to `read_uvfits`, `read_npz`, `read_ms` or `read_uvtable`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> u, ones = np.array([1e5, 3e5]), np.ones(2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for window, hertz in enumerate([230e9, 245e9]):
    ...         np.savez(f"{folder}/sky.{window}.npz", uu=u, vv=u, data=ones + 0j, weight=ones, frequencies=[hertz])
    ...     read_visibilities([f"{folder}/sky.0.npz", f"{folder}/sky.1.npz"]).window
    array([0, 1])
    """
    if not isinstance(path, (str, Path)):
        return join_windows(list(read_executions(path, **options).values()))
    path = Path(path)
    reader = _reader(path)
    if others := [name for name in options if name not in signature(reader).parameters]:
        asked = " and ".join(f"{name} ({_OPTIONS[name]})" if name in _OPTIONS else name for name in others)
        raise ValueError(f"{path} is read by {reader.__name__}, which has no {asked}: leave it out")
    return reader(path, **options)


def read_executions(paths: Sequence[str | Path], **options: Any) -> dict[str, Visibilities]:
    """Return the executions that files hold, by the names of their files; windows of the same rows are joined.

    Options go to those readers that have them; at least one must.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> u, ones = np.array([1e5, 3e5]), np.ones(2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = [f"{folder}/{k}.npz" for k in range(3)]
    ...     for file, times, hertz in zip(files, [1, 1.1, 5], [230e9, 253e9, 230e9]):
    ...         np.savez(file, uu=times * u, vv=u, data=times * ones + 0j, weight=ones, frequencies=[hertz])
    ...     [len(vis.frequency) for vis in read_executions(files).values()]
    [1, 1, 1]
    """
    known = {
        path: {name: options[name] for name in options if name in signature(_reader(path)).parameters}
        for path in map(Path, paths)
    }
    for name in options:
        if not any(name in own for own in known.values()):
            known[Path(paths[0])][name] = options[name]  # whose reader says what it has not
    parts = [(str(path), read_visibilities(path, **known[Path(path)])) for path in paths]
    for (one, held), (other, also) in combinations(parts, 2):
        if _share_channels(held, also):
            raise ValueError(f"{one} and {other} hold the same data, which would count twice: give them once")
    groups: list[tuple[list[str], list[Visibilities]]] = []
    for name, part in parts:
        same = [group for group in groups if _are_windows(group[1][0], part)]
        if not same:
            groups.append(([], []))
        names, windows = (same or groups)[-1]
        names.append(Path(name).name)
        windows.append(part)
    named = {" and ".join(names): join_windows(held) for names, held in groups}
    if len(named) < len(groups):  # of one name, in several folders
        named = {f"{k}: {' and '.join(names)}": join_windows(held) for k, (names, held) in enumerate(groups)}
    return named


def _reader(path: Path) -> Callable[..., Visibilities]:
    """Return what reads a file, or a folder."""
    for mark, begins, text in _OTHERS:
        if (path / mark).is_file() and np.fromfile(path / mark, "u1", len(begins)).tobytes() == begins:
            raise ValueError(f"{path} is {text.format(path)}")
    if path.is_dir():
        return read_ms
    check_is_file(path)
    is_npz = path.suffix == ".npz" or zipfile.is_zipfile(path)
    return read_npz if is_npz else read_uvtable if is_uvtable(path) else read_uvfits


def _are_windows(one: Visibilities, other: Visibilities) -> bool:
    """Return whether two hold the same rows: the same antennas at the same times, and baselines in metres."""
    if one.time.shape != other.time.shape or one.start != other.start:
        return False
    if not all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("antennas", "time", "execution")):
        return False
    metres = (np.stack([part.uu[0], part.vv[0]]) / np.nan_to_num(part.frequency[0], nan=1.0) for part in (one, other))
    first, second = metres
    return bool(np.abs(first - second).max() <= _SAME_ROWS * np.abs(first).max())


def _share_channels(one: Visibilities, other: Visibilities) -> bool:
    """Return whether a channel of one is in the other too, whatever files they were in."""
    marks, others = (
        np.column_stack([part.frequency, *(np.abs(values).sum(axis=1) for values in (part.uu, part.vv, part.data))])
        for part in (one, other)
    )
    return any(np.isclose(others, mark, _ROUNDED, 0, equal_nan=True).all(axis=1).any() for mark in marks)
