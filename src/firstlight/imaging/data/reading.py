"""Read visibilities, whatever the file: UVFITS, npz, or a measurement set."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from firstlight.imaging.data.ms import read_ms
from firstlight.imaging.data.npz import read_npz
from firstlight.imaging.data.uvfits import read_uvfits
from firstlight.imaging.data.visibilities import Visibilities, join_windows


def read_visibilities(path: str | Path | Sequence[str | Path], **options: Any) -> Visibilities:
    """Return the visibilities of a UVFITS file, an npz file or a measurement set.

    Parameters
    ----------
    path
        Of the file, or of the folder that a measurement set is; or of several, whose windows are joined by
        `join_windows`.
    **options
        Go to `read_uvfits`, `read_npz` or `read_ms`.

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
        return join_windows([read_visibilities(one, **options) for one in path])
    path = Path(path)
    if path.is_dir():
        return read_ms(path, **options)
    if path.suffix == ".npz" or (path.is_file() and zipfile.is_zipfile(path)):
        return read_npz(path, **options)
    return read_uvfits(path, **options)
