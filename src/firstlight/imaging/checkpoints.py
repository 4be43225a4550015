"""Write the state of a fit to a file that is never half-written, and read it back."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write beside the file, to the disk, and only then put it in the old one's place.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save(Path(folder, "fit.pt"), {"iteration": 3})
    ...     load(Path(folder, "fit.pt"))
    {'iteration': 3}
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def load(path: Path) -> dict[str, Any]:
    """Read tensors and numbers, nothing that could run."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(f"{path} is no checkpoint of a fit: give another path, or delete it") from error
    return state


def check_settings(path: Path, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to go on with other settings than those that it was begun with."""
    differing = [f"{name} was {kept.get(name)}, is {given[name]}" for name in given if kept.get(name) != given[name]]
    if differing:
        raise ValueError(
            f"the checkpoint {path} is of another fit: {'; '.join(differing)}. Give the same again, or resume=False to "
            "start anew."
        )
