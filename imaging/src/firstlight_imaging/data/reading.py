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
_ROUNDED = (1e-8, 1e-6, 1e-6, 1e-6)  # by which a frequency and sums of u, v and data may differ in two kinds of files


def read_visibilities(path: str | Path | Sequence[str | Path], **options: Any) -> Visibilities:
    """Return the visibilities of a UVFITS file, an npz file, a measurement set or a table of text.

    Parameters
    ----------
    path
        Of the file, or of the folder that a measurement set is; or of several, whose windows are joined by
        `join_windows`.
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
        parts = [read_visibilities(one, **options) for one in path]
        for (one, held), (other, also) in combinations(zip(path, parts, strict=True), 2):
            if _share_channels(held, also):
                raise ValueError(f"{one} and {other} hold the same data, which would count twice: give them once")
        return join_windows(parts)
    path = Path(path)
    if path.is_dir():
        reader: Callable[..., Visibilities] = read_ms
    else:
        check_is_file(path)
        is_npz = path.suffix == ".npz" or zipfile.is_zipfile(path)
        reader = read_npz if is_npz else read_uvtable if is_uvtable(path) else read_uvfits
    if others := [name for name in options if name not in signature(reader).parameters]:
        asked = " and ".join(f"{name} ({_OPTIONS[name]})" if name in _OPTIONS else name for name in others)
        raise ValueError(f"{path} is read by {reader.__name__}, which has no {asked}: leave it out")
    return reader(path, **options)


def _share_channels(one: Visibilities, other: Visibilities) -> bool:
    """Return whether a channel of one is in the other too, whatever files they were in."""
    marks, others = (
        np.column_stack([part.frequency, *(np.abs(values).sum(axis=1) for values in (part.uu, part.vv, part.data))])
        for part in (one, other)
    )
    return any(np.isclose(others, mark, _ROUNDED, 0, equal_nan=True).all(axis=1).any() for mark in marks)
