"""Visibilities in NumPy's npz files: those of MPoL, those that our CASA script exports, and our own.

A file holds ``uu`` and ``vv``, ``weight``, and ``data`` or ``data_re`` and ``data_im``, each of shape (nchan, nvis) or
(nvis,). It may hold ``frequencies`` and, where weights of 0 are meant, ``flag``.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from firstlight.imaging.observe import Observation
from firstlight.imaging.saving import completed
from firstlight.imaging.skies import Real
from firstlight.imaging.visibilities import Visibilities, check

__all__ = ["Visibilities", "read_npz", "write_npz"]

Unit = Literal["lambda", "kilolambda"]
Arrays = dict[str, NDArray[Any]]

KEYS = ("uu", "vv", "weight", "data", "data_re", "data_im", "flag", "frequencies")
SHORTEST, LONGEST = 1e4, 1e10  # wavelengths: the longest baseline of any array is between them, or nearly so


def read_npz(path: str | Path, *, unit: Unit | None = None, conjugate: bool = False) -> Visibilities:
    """Read the visibilities of a file.

    Parameters
    ----------
    path
        Of the file.
    unit
        Of ``uu`` and ``vv``. Without it, files with ``data_re`` and ``data_im`` are taken to be in kilo-lambda and
        others in lambda, and refused where the baselines that result are unlikely.
    conjugate
        For data of the other sign, exp(+2πi(ul + vm)), as CASA has them: if the image comes out turned by 180 degrees,
        this is why.

    Examples
    --------
    >>> import tempfile
    >>> seen = Visibilities(np.array([[1e5, 3e5]]), np.zeros((1, 2)), np.array([[1, 0.5j]]), np.ones((1, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz(f"{folder}/seen.npz", seen)
    ...     read_npz(f"{folder}/seen.npz").data
    array([[1.+0.j , 0.+0.5j]])
    """
    called = str(path)
    arrays = members(Path(path))
    old = "data" not in arrays
    needed = ["uu", "vv", "weight", *(["data_re", "data_im"] if old else ["data"])]
    if absent := [key for key in needed if key not in arrays]:
        held = ", ".join(arrays) or "none of its arrays"
        raise ValueError(f"{called} lacks {', '.join(absent)}; it holds {held}")
    for key in needed:
        if arrays[key].dtype.kind not in ("c" if key == "data" else "fiu"):
            wanted = "complex" if key == "data" else "real"
            raise ValueError(f"{called}: {key} must be {wanted} numbers; got {arrays[key].dtype}")
    thousand = unit == "kilolambda" or (unit is None and old)
    arrays |= {key: np.asarray(arrays[key], complex if key == "data" else float) for key in needed}
    if old:
        same_shape(called, arrays, "data_re", "data_im")
        arrays["data"] = arrays["data_re"] + 1j * arrays["data_im"]
    if arrays["data"].ndim not in (1, 2) or not arrays["data"].size:
        raise ValueError(f"{called}: the data must be (nchan, nvis) or (nvis,), and some; got {arrays['data'].shape}")
    data = arrays["data"] = np.atleast_2d(arrays["data"])
    same_shape(called, arrays, "data", "uu", "vv", "weight", *(["flag"] if "flag" in arrays else []))
    uu, vv, weight = (spread(arrays[key], data.shape) for key in ("uu", "vv", "weight"))
    flag = spread(arrays["flag"], data.shape).astype(bool, copy=False) if "flag" in arrays else None
    uu, vv, weight = (np.require(array, requirements="W") for array in (uu, vv, weight))  # as torch wants them
    if thousand:
        uu, vv = 1000 * uu, 1000 * vv
    if flag is not None:
        weight, data = np.where(flag, 0, weight), np.where(flag, 0, data)
    if conjugate:
        data = data.conj()
    seen = Visibilities(uu, vv, data, weight, frequencies(called, arrays, len(data)))
    longest = check(called, seen, flag)
    if unit is None and not SHORTEST <= longest <= LONGEST:
        raise ValueError(
            f"{called}: taken to be in {'kilo-lambda' if thousand else 'lambda'}, its longest baseline is of "
            f"{longest:.3g} wavelengths. Say unit='lambda' or unit='kilolambda', whichever is right"
        )
    return seen


def write_npz(path: str | Path, seen: Observation | Visibilities, *, overwrite: bool = False) -> None:
    """Write visibilities for `read_npz`; MPoL reads them too.

    A model or its residuals are visibilities with other data: ``dataclasses.replace(seen, data=seen.data - model)``.

    Examples
    --------
    >>> import tempfile
    >>> seen = Visibilities(np.array([[1e5, 3e5]]), np.zeros((1, 2)), np.array([[1, 0.5j]]), np.ones((1, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz(f"{folder}/seen.npz", seen)
    ...     sorted(np.load(f"{folder}/seen.npz"))
    ['data', 'flag', 'uu', 'vv', 'weight']
    """
    flag = seen.flagged
    data = np.where(flag, 0, seen.data)  # what is flagged may be NaN
    check(str(path), Visibilities(seen.uu, seen.vv, data, seen.weight), flag, mirrors=False)
    given: dict[str, Any] = {} if seen.frequency is None else {"frequencies": seen.frequency}
    with completed(Path(path), overwrite) as unfinished, unfinished.open("wb") as file:
        np.savez(file, uu=seen.uu, vv=seen.vv, data=data, weight=seen.weight, flag=flag, **given)


def members(path: Path) -> Arrays:
    """Load the arrays that we know."""
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{path} is no npz file, or not all of one")
    try:
        with np.load(path) as file:
            return {key: np.asarray(file[key]) for key in KEYS if key in file.files}
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def spread(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Give every channel what stands in the file once; others pass as they are."""
    return array if array.shape == shape else np.broadcast_to(array, shape)


def same_shape(called: str, arrays: Arrays, first: str, *others: str) -> None:
    """Refuse arrays that are of other shapes than the first, or than that without its channels."""
    shape = arrays[first].shape
    if any(arrays[key].shape not in (shape, shape[1:]) for key in others):
        found = ", ".join(f"{key} {arrays[key].shape}" for key in (first, *others))
        raise ValueError(f"{called}: the arrays must be of one shape; got {found}")


def frequencies(called: str, arrays: Arrays, n: int) -> Real | None:
    """Give the frequencies in Hz; some files have GHz, which no radio telescope observes as Hz."""
    if "frequencies" not in arrays:
        return None
    given = np.atleast_1d(np.asarray(arrays["frequencies"], float))
    if given.shape != (n,) or not (np.isfinite(given) & (given > 0)).all():
        raise ValueError(f"{called}: frequencies must be {n} positive numbers, one for each channel; got {given}")
    return given * 1e9 if given.max() < 1e5 else given
