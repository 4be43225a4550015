"""The package behind the First Light tutorials. Importing it loads no library: it is instant and never fails."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstlight.devices import best_device
    from firstlight.measure.bench import Bench

__version__ = "0.1.0"
__all__ = ["Bench", "best_device"]

_HOME = {"Bench": "firstlight.measure.bench", "best_device": "firstlight.devices"}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'firstlight' has no attribute {name!r}")
