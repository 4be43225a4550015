"""Write the state of a fit to a file that is never half-written, and read it back, or the one before it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write beside the file, to the disk, and only then put it in the place of the last one, which is kept.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "fit.pt")
    ...     save(path, {"iteration": 3})
    ...     save(path, {"iteration": 6})
    ...     path.write_bytes(b"cut off")
    ...     load(path) == ({"iteration": 3}, f"{path} is damaged: went on from the checkpoint before it.")
    7
    True
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            path.replace(before(path))
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def load(path: Path) -> tuple[dict[str, Any], str] | None:
    """Read the last checkpoint, or the one before it if that is not whole, and say so; None if there is none.

    The one before it then takes its place: what is damaged must never be kept for it.
    """
    states = {file: read(file) for file in (path, before(path)) if file.exists()}
    if not states:
        return None
    if state := states.get(path):
        return state, ""
    if state := states.get(before(path)):
        wrong = "damaged" if path in states else "missing"
        before(path).replace(path)
        return state, f"{path} is {wrong}: went on from the checkpoint before it."
    raise ValueError(f"{path} is no checkpoint of a fit: give another path, or delete it")


def read(path: Path) -> dict[str, Any] | None:
    """Read tensors and numbers, nothing that could run; None if a bit of it is not as it was written."""
    with path.open("rb") as file:
        try:
            if ZipFile(file).testzip():  # torch does not compare checksums
                return None
            file.seek(0)
            state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        except Exception:  # whatever a damaged file leads its readers to
            return None
    return state


def before(path: Path) -> Path:
    """Name the checkpoint before the last one."""
    return path.with_name(path.name + ".previous")


def check_settings(path: Path, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to go on with other settings than those that it was begun with."""
    differing = [f"{name} was {kept.get(name)}, is {given[name]}" for name in given if kept.get(name) != given[name]]
    if differing:
        raise ValueError(
            f"the checkpoint {path} is of another fit: {'; '.join(differing)}. Give the same again, or resume=False to "
            "start anew."
        )
