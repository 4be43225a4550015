"""ALMA's measurement set of HD 142527 at 709 GHz, and what CASA's tclean made of it.

The set is one of the tests of gpuvmem (https://github.com/miguelcarcamov/gpuvmem).
"""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from astropy.utils.data import download_file  # type: ignore[import-untyped]
from numpy.typing import NDArray

_SET = (
    "https://raw.githubusercontent.com/miguelcarcamov/gpuvmem/b860b9406fcf11c91b34d06f0b18008b36cb0f11"
    "/tests/selfcalband9/hd142_b9cont_self_tav.ms/"
)
_SHA256 = "1b4c7cc6800e5358f0058a6ae945cdba7f441df0568d97412ce3091e0c8f10b7"  # of all files, one after the other
_TABLES = {  # those that are read, and their files
    "": "dat f0 f1 f2 f2_TSM1 f3 f3_TSM1 f4 f5 f5_TSM1 f6 f6_TSM0 f7 f8",
    "DATA_DESCRIPTION/": "dat f0 lock",
    "FIELD/": "dat f0 f0i lock",
    "OBSERVATION/": "dat f0 lock",
    "POLARIZATION/": "dat f0 f0i lock",
    "SPECTRAL_WINDOW/": "dat f0 f0i lock",
}


def download(folder: Path) -> Path:
    """Download the set, 6.6 MB, and return its path in a folder; astropy keeps what was downloaded once.

    It raises an OSError where there is no network.

    Examples
    --------
    >>> download(Path("data"))  # doctest: +SKIP
    PosixPath('data/hd142.ms')
    """
    ms, digest = folder / "hd142.ms", hashlib.sha256()
    for table, endings in _TABLES.items():
        (ms / table).mkdir(parents=True)
        for file in (f"{table}table.{ending}" for ending in endings.split()):
            content = Path(download_file(_SET + file, cache=True, timeout=20, show_progress=False)).read_bytes()
            digest.update(content)
            (ms / file).write_bytes(content)
    if digest.hexdigest() != _SHA256:
        raise ValueError(f"what was downloaded from {_SET} is not the set of gpuvmem b860b94; clear astropy's cache")
    return ms


def by_tclean() -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Return what tclean was told and gave of window 0, in three runs, and maps.

    These are its models in Jy/pixel, and of the run with a mask drawn by hand also the restored ``map`` and what is
    ``left``, in Jy/beam.

    Examples
    --------
    >>> told, maps = by_tclean()
    >>> [(name, told[name]["tclean"]["nsigma"], float(maps[name].sum())) for name in ("defaults", "advised", "by_hand")]
    [('defaults', 3.0, 5.8...), ('advised', 3.0, 7.0...), ('by_hand', 1.5, 6.9...)]
    """
    with files("firstlight.lessons").joinpath("hd142527_by_tclean.npz").open("rb") as file, np.load(file) as kept:
        told = json.loads(str(kept["about"]))
        unit = told["by_hand"]["rms"] / told["shades"]  # these maps are kept as whole numbers
        maps = {name: kept[name].astype(float) for name in ("defaults", "advised", "by_hand")}
        return told, maps | {name: unit * kept[name] for name in ("map", "left")}
