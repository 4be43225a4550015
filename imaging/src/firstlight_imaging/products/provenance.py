"""Say in each product of which data, by which options and version it was made, and read that back."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from astropy.io import fits  # type: ignore[import-untyped]
from astropy.time import Time  # type: ignore[import-untyped]

from firstlight_imaging import __version__
from firstlight_imaging.products.report import Products

_LOCKS = "table.lock"  # of a measurement set, and changed by whoever reads it


def write_provenance(
    made: Products,
    data: Mapping[Path, str],
    options: Mapping[str, Any],
    results: Mapping[str, Any],
    folder: Path,
    name: str,
) -> Products:
    """Add a HISTORY to all FITS files, and a report for programs, ``name.json``, from which `read_run` makes it again.

    ``data`` are the files and their digests (`digest_of`), taken when they were read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = Path(place)
    ...     data, _ = folder / "my.npz", (folder / "my.npz").write_text("data")
    ...     told = {data: digest_of(data)}
    ...     _ = write_provenance(Products([], "flux 0.5 Jy"), told, {"robust": 0.0}, {"flux": 0.5}, folder, "my")
    ...     read_run(folder / "my.json")[1]
    {'robust': 0.0}
    """
    inputs = [{"path": str(path.absolute()), "sha256": sha256} for path, sha256 in data.items()]
    options = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
    date, version = Time.now().isot, f"firstlight-imaging {__version__}"
    history = [version, *(f"{Path(one['path']).name}\n{one['sha256']}" for one in inputs)]
    history += [f"--{key.replace('_', '-')} {value}" for key, value in options.items()]
    for path in made.paths:
        if path.suffix == ".fits":
            with fits.open(path, mode="update") as hdus:
                hdus[0].header["ORIGIN"], hdus[0].header["DATE"] = version, date
                for line in "\n".join(history).splitlines():
                    hdus[0].header["HISTORY"] = "".join(letter if " " <= letter <= "~" else "?" for letter in line)
    numbers = {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in results.items()}
    report = {"version": version, "date": date, "data": inputs, "options": options, "results": numbers}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(report | {"report": made.report.splitlines()}, indent=2) + "\n", encoding="utf-8")
    return Products([*made.paths, path], made.report)


def read_run(report: Path, data: Iterable[Path] = ()) -> tuple[list[Path], dict[str, Any]]:
    """Return the data and the options of a report, ``name.json``; raise an error if the data are not what they were.

    ``data`` say where they are now, if that is not where they were.
    """
    try:
        held = json.loads(report.read_text(encoding="utf-8"))
        inputs, options = [(Path(one["path"]), str(one["sha256"])) for one in held["data"]], dict(held["options"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{report} is no report of this program: give the .json that stands beside an image"
        ) from error
    paths = [*data] or [path for path, _ in inputs]
    if len(paths) != len(inputs):
        raise ValueError(f"{report} is of {len(inputs)} files of data; got {len(paths)}: give them all, in their order")
    for path, (was, sha256) in zip(paths, inputs, strict=True):
        if not path.exists():
            raise FileNotFoundError(f"there is no {path}: say where {was.name} is now, behind --again {report}")
        if (found := digest_of(path)) != sha256:
            raise ValueError(
                f"{path} is not the {was.name} of which {report} tells: its SHA-256 begins with {found[:12]}, and then "
                f"it was {sha256[:12]}. Give the data as they were, or image these without --again"
            )
    return paths, options


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and the contents of all files of a folder."""
    whole = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file() and file.name != _LOCKS:
            if path.is_dir():
                whole.update(f"{file.relative_to(path).as_posix()}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as content:
                hashlib.file_digest(content, lambda: whole)  # which updates it
    return whole.hexdigest()
