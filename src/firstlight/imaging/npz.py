"""Visibilities in NumPy's npz files: those of MPoL, those that our CASA script exports, and our own.

A file holds ``uu`` and ``vv``, ``weight``, and ``data`` or ``data_re`` and ``data_im``, each of shape (nchan, nvis) or
(nvis,). It may hold ``frequencies`` and, where weights of 0 are meant, ``flag``.
"""

from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib
from http.client import HTTPException
from pathlib import Path
from typing import Any, Literal
from urllib.error import HTTPError

import numpy as np
from astropy.utils.data import clear_download_cache, download_file  # type: ignore[import-untyped]
from numpy.typing import NDArray

from firstlight.imaging.observe import Observation
from firstlight.imaging.saving import completed
from firstlight.imaging.skies import Real
from firstlight.imaging.visibilities import Visibilities, check

__all__ = ["Visibilities", "fetch_npz", "read_npz", "write_npz"]

Unit = Literal["lambda", "kilolambda"]
Arrays = dict[str, NDArray[Any]]

KEYS = ("uu", "vv", "weight", "data", "data_re", "data_im", "flag", "frequencies")
SHORTEST, LONGEST = 1e4, 1e10  # wavelengths: the longest baseline of any array is between them, or nearly so


def fetch_npz(
    url: str,
    *,
    sha256: str | None = None,
    md5: str | None = None,
    unit: Unit | None = None,
    conjugate: bool = False,
    mapped: bool = False,
) -> Visibilities:
    """Download a file once, check that it is the one that was meant, and read it.

    It is kept in astropy's cache; what turns out to be wrong, or of no use, is not.

    Parameters
    ----------
    url
        Of the file.
    sha256, md5
        Its checksum, of one kind at least. Zenodo shows the md5 beside each file.
    unit, conjugate, mapped
        As for `read_npz`.

    Examples
    --------
    >>> url = "https://zenodo.org/records/4930016/files/data.npz"  # doctest: +SKIP
    >>> seen = fetch_npz(url, md5="0123456789abcdef0123456789abcdef")  # doctest: +SKIP
    """
    expected = {kind: given.lower() for kind, given in (("sha256", sha256), ("md5", md5)) if given}
    if not expected:
        raise ValueError("give sha256= or md5=, which tells whether the file is the one that you mean")
    try:
        path = Path(download_file(url, cache=True, show_progress=False))
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # which else keeps its connection
        raise OSError(f"{url} did not arrive whole: {error}. Nothing of it was kept; try again") from error
    try:
        for kind, checksum in expected.items():
            with path.open("rb") as file:
                found = hashlib.file_digest(file, kind).hexdigest()
            if found != checksum:
                raise ValueError(
                    f"{url} is not the file that was meant: its {kind} is {found}, expected {checksum}. It was not kept"
                )
        return read(path, url, unit, conjugate, mapped)
    except ValueError:
        clear_download_cache(url)
        raise


def read_npz(
    path: str | Path, *, unit: Unit | None = None, conjugate: bool = False, mapped: bool = False
) -> Visibilities:
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
    mapped
        Leave the arrays in the file, which may then be larger than memory; what is used of them is read when it is
        used. It must have been written by `write_npz` or by ``numpy.savez``, which does not compress, in lambda, with
        ``data`` of our sign.

    Examples
    --------
    >>> import tempfile
    >>> seen = Visibilities(np.array([[1e5, 3e5]]), np.zeros((1, 2)), np.array([[1, 0.5j]]), np.ones((1, 2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz(f"{folder}/seen.npz", seen)
    ...     read_npz(f"{folder}/seen.npz").data
    array([[1.+0.j , 0.+0.5j]])
    """
    return read(Path(path), str(path), unit, conjugate, mapped)


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


def read(path: Path, called: str, unit: Unit | None, conjugate: bool, mapped: bool) -> Visibilities:
    """Do what `read_npz` says; errors use the name by which the reader knows the file."""
    arrays = members(path, called, mapped)
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
    if mapped:
        if old or thousand or conjugate:
            raise ValueError(
                f"{called} must be converted, which cannot be done in the file: read it without mapped=True, once, and "
                "write it with write_npz"
            )
    else:
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
    if not mapped:  # and then writable, as torch wants them
        uu, vv, weight = (np.require(array, requirements="W") for array in (uu, vv, weight))
    if thousand:
        uu, vv = 1000 * uu, 1000 * vv
    if flag is not None and not mapped:
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


def members(path: Path, called: str, mapped: bool) -> Arrays:
    """Load the arrays that we know, or map them."""
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{called} is no npz file, or not all of one")
    try:
        if mapped:
            with zipfile.ZipFile(path) as archive:
                parts = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            return {key: stored(path, parts[key]) for key in KEYS if key in parts}
        with np.load(path) as file:
            return {key: np.asarray(file[key]) for key in KEYS if key in file.files}
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError) as error:
        raise ValueError(f"{called} cannot be read: {error}") from error


def stored(path: Path, part: zipfile.ZipInfo) -> NDArray[Any]:
    """Map an array where it lies in the file."""
    if part.compress_type != zipfile.ZIP_STORED:
        raise ValueError("it is compressed, and cannot be mapped; read it without mapped=True")
    with path.open("rb") as file:
        file.seek(part.header_offset + 26)
        file.seek(sum(struct.unpack("<HH", file.read(4))), 1)  # over its name and what else stands before it
        version = np.lib.format.read_magic(file)
        head = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, columns_first, dtype = head(file)
        if dtype.hasobject or 0 in shape:
            return np.empty(shape, dtype)  # which is refused later on
        # In a copy of the pages that are changed, if any: torch takes no array that is read-only.
        return np.memmap(path, dtype, "c", file.tell(), shape, "F" if columns_first else "C")


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
