"""Visibilities in NumPy's npz files: those of MPoL, and those that our CASA script exports.

A file holds ``uu`` and ``vv``, ``weight``, and ``data`` or ``data_re`` and ``data_im``, each of shape (nchan, nvis) or
(nvis,). It may hold ``frequencies`` and, where weights of 0 are meant, ``flag``; and what our script keeps of CASA's
sets: ``antennas``, ``time`` and ``execution`` of each visibility, ``antenna_names`` by number, ``start``,
``phase_centre``, ``telescope`` and ``target``. Or it holds what frank reads: ``u``, ``v``, ``V`` and ``weights``.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from firstlight_imaging._types import Real
from firstlight_imaging.data.uvfits import printable
from firstlight_imaging.data.visibilities import (
    MAX_START,
    Visibilities,
    check_is_file,
    check_nothing_counts_twice,
    check_visibilities,
    readable,
)
from firstlight_imaging.units import LIGHT_SPEED, as_hertz

Unit = Literal["lambda", "kilolambda", "metres"]
_Arrays = dict[str, NDArray[Any]]

_NAMES = ("telescope", "target", "antenna_names")
_KEYS = ("uu", "vv", "weight", "data", "data_re", "data_im", "flag", "frequencies", *_NAMES)
_KINDS = {"data": ("complex numbers", "c"), "flag": ("yes or no", "bfiu")} | dict.fromkeys(_NAMES, ("text", "SU"))
_METADATA = {"antennas": int, "time": float, "execution": int, "start": float, "phase_centre": float}
_SHORTEST = 100.0  # wavelengths: antennas stand no closer, but for metre waves
_OF_FRANK = {"u": "uu", "v": "vv", "V": "data", "weights": "weight"}
_MOST_ANTENNAS = 1e6
_JULIAN = 2.4e6, 2.5e6  # days: the years 1858 to 2132
_MOST_UNPACKED, _MOST_TIMES = 2**30, 100  # bytes, and how many times as large as packed: noise does not get smaller
_LONGEST = 1e4, 1e10  # wavelengths: the longest baseline of any array is between them, or nearly so


def read_npz(path: str | Path, *, unit: Unit | None = None, conjugate: bool | None = None) -> Visibilities:
    """Return the visibilities of a file; antennas, times and executions are 0 where it knows none.

    Parameters
    ----------
    path
        Of the file.
    unit
        Of ``uu`` and ``vv``: ``"lambda"``, ``"kilolambda"`` or ``"metres"``, for which the file needs ``frequencies``.
        Without it, files with ``data_re`` and ``data_im`` are taken to be in kilo-lambda and others in lambda. They are
        refused where the baselines that result are unlikely, or where those in parts may be in lambda as well.
    conjugate
        For data of the other sign, exp(+2πi(ul + vm)), as CASA has them: if the image comes out turned by 180 degrees,
        this is why. Without it, only frank's files are taken to be of this sign.

    Examples
    --------
    >>> import tempfile
    >>> u, data, ones = np.array([1e5, 3e5]), np.array([1, 0.5j]), np.ones(2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/sky.npz", uu=u, vv=0 * u, data=data, weight=ones)
    ...     read_npz(f"{folder}/sky.npz").data
    array([[1.+0.j , 0.+0.5j]])
    """
    path = Path(path)
    check_is_file(path)
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not an .npz file, or a truncated one")
    with readable(path), path.open("rb") as file, zipfile.ZipFile(file) as packed, np.load(file) as held:
        _check_sizes(packed)
        if of_frank := _OF_FRANK.keys() <= set(held.files):
            arrays = {key: np.asarray(held[name]) for name, key in _OF_FRANK.items()}
        elif meant := [name for name in held.files if "unit" in name.lower()]:
            raise ValueError(f"it holds {', '.join(meant)}, which is not read: take Jy, and save it without that")
        else:
            arrays = {key: np.asarray(held[key]) for key in (*_KEYS, *_METADATA) if key in held.files}
        return from_arrays(arrays, unit, of_frank if conjugate is None else conjugate, held.files)


def from_arrays(arrays: _Arrays, unit: Unit | None, conjugate: bool, held: list[str]) -> Visibilities:
    """Return arrays as visibilities, with one shape, unit and sign; ``held`` is all that the file has."""
    in_parts = "data" not in arrays
    needed = ["uu", "vv", "weight", *(["data_re", "data_im"] if in_parts else ["data"])]
    if absent := [key for key in needed if key not in arrays]:
        raise ValueError(f"it lacks {', '.join(absent)}; it holds {', '.join(held) or 'no arrays'}")
    for key, values in arrays.items():
        what, kinds = _KINDS.get(key, ("real numbers", "fiu"))
        if values.dtype.kind not in kinds:
            raise ValueError(f"{key} must be {what}; got {values.dtype}")
    data = np.asarray(arrays["data_re"] + 1j * arrays["data_im"] if in_parts else arrays["data"], complex)
    if data.ndim not in (1, 2) or not data.size:
        raise ValueError(f"the data must be (nchan, nvis) or (nvis,), and some; got {data.shape}")
    data = np.atleast_2d(data)
    nchan, nvis = data.shape
    cubes = {"flag": np.zeros(data.shape, bool)} | arrays
    u, v, weight, flag = (_per_channel(key, cubes[key], data.shape) for key in ("uu", "vv", "weight", "flag"))
    if undeclared := int(((weight == 0) & ~flag).sum()):
        raise ValueError(f"{undeclared} weights are 0, and no array flag says that this is meant")
    frequency = _frequencies(arrays.get("frequencies"), nchan)
    kilo = unit == "kilolambda" or (unit is None and in_parts and _in_kilolambda(np.hypot(u, v)))
    scale = frequency[:, None] / LIGHT_SPEED if unit == "metres" else 1000 if kilo else 1
    if not np.isfinite(scale).all():
        raise ValueError("baselines in metres need an array frequencies, in Hz; it has none")
    u *= scale  # in place, as all that follows: a copy of each would be half as large again as the set
    v *= scale
    data[flag], weight[flag] = 0, 0
    np.conjugate(data, out=data, where=conjugate)
    known = {"antennas": np.zeros((nvis, 2), int), "time": np.zeros(nvis), "execution": np.zeros(nvis, int)}
    vis = Visibilities(
        uu=u,
        vv=v,
        data=data,
        weight=weight,
        frequency=frequency,
        window=np.zeros(nchan, int),
        telescope=_text(arrays.get("telescope", "")),
        target=_text(arrays.get("target", "")),
        antenna_names={k: name for k, one in enumerate(arrays.get("antenna_names", ())) if (name := _text(one))},
        **known | _metadata(arrays),
    )
    check_visibilities(vis)
    if flag.all():
        raise ValueError("it is flagged throughout: no weight is above zero")
    check_nothing_counts_twice(vis)
    longest = float(vis.lengths.max())
    if unit is None and not _LONGEST[0] <= longest <= _LONGEST[1]:
        raise ValueError(
            f"taken to be in {'kilo-lambda' if kilo else 'lambda'}, its longest baseline is of "
            f"{longest:.3g} wavelengths. Say unit='lambda', unit='kilolambda' or unit='metres' (or --unit), as it is"
        )
    return vis


def _check_sizes(packed: zipfile.ZipFile) -> None:
    """Raise an error for arrays that stand there twice, or are far larger than the file, before they are loaded."""
    names = packed.namelist()
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"it holds {', '.join(repeated)} more than once: save it again with numpy.savez")
    unpacked, stored = (sum(getattr(one, size) for one in packed.infolist()) for size in ("file_size", "compress_size"))
    if unpacked > max(_MOST_UNPACKED, _MOST_TIMES * stored):
        raise ValueError(f"its {stored / 1e6:.3g} MB unpack to {unpacked / 1e6:.3g} MB, which visibilities never do")


def _in_kilolambda(lengths: Real) -> bool:
    """Return whether baselines are in kilo-lambda, and not in lambda; raise an error where they may be in either."""
    shortest, longest = float(lengths.min(where=lengths > 0, initial=np.inf)), float(lengths.max())
    if shortest < _SHORTEST or longest < _LONGEST[0]:
        return True
    if 1000 * longest > _LONGEST[1]:
        return False
    raise ValueError(
        f"its baselines are {shortest:.3g} to {longest:.3g} long, which may be wavelengths or thousands of them. Say "
        "unit='lambda' or unit='kilolambda' (or --unit), as it is"
    )


def _metadata(arrays: _Arrays) -> dict[str, Any]:
    """Return what else the file knows of the visibilities, which may be nothing."""
    found: dict[str, Any] = {}
    for key in _METADATA.keys() & arrays:
        if not np.isfinite(arrays[key]).all():
            raise ValueError(f"{key} must be finite numbers; {(~np.isfinite(arrays[key])).sum()} are not")
        if (size := {"start": 1, "phase_centre": 2}.get(key)) and arrays[key].size != size:
            raise ValueError(f"{key} must be {size} number{'s'[: size - 1]}; got {arrays[key].size}")
        values = arrays[key]
        if key == "antennas" and not ((values >= 0) & (values < _MOST_ANTENNAS) & (values % 1 == 0)).all():
            raise ValueError(f"antennas must be whole numbers from 0; got {values.min():g} to {values.max():g}")
        if key == "time" and ((values > _JULIAN[0]) & (values < _JULIAN[1])).all() and np.ptp(values) < 1:
            raise ValueError(f"time must be in seconds; got {values.flat[0]:.10g}, which looks like a Julian day")
        if key in ("start", "time") and (latest := float(np.abs(arrays[key]).max(initial=0))) >= MAX_START:
            raise ValueError(f"{key} must be in seconds, of an MJD or from one, such as 5.2e9; got {latest:g}")
        found[key] = arrays[key].astype(_METADATA[key]).reshape(-1 if size else arrays[key].shape)
    if "start" in found:
        found["start"] = float(found["start"][0])
    if "phase_centre" in found:
        found["phase_centre"] = tuple(map(float, found["phase_centre"]))
    return found


def _per_channel(key: str, values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return for every channel what stands in the file once."""
    if values.shape not in (shape, shape[1:]):
        raise ValueError(f"the arrays must be of one shape; got data {shape}, {key} {values.shape}")
    return np.broadcast_to(values, shape).astype(bool if key == "flag" else float)


def _frequencies(values: NDArray[Any] | None, nchan: int) -> Real:
    """Return the frequencies in Hz; some files have GHz."""
    if values is None:
        return np.full(nchan, np.nan)
    values = np.atleast_1d(np.asarray(values, float))
    if values.shape != (nchan,) or not (values > 0).all():
        raise ValueError(f"frequencies must be {nchan} positive numbers, one for each channel; got {values}")
    return as_hertz(values)


def _text(value: NDArray[Any] | str) -> str:
    """Return a name, which NumPy may have kept as bytes."""
    value = np.asarray(value).reshape(-1)[:1]
    name = str(np.char.decode(value, "utf-8", "replace")[0] if value.dtype.kind == "S" else value[0])
    return printable(name)
