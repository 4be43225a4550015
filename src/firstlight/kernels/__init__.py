"""Write CUDA kernels in Python and run them anywhere; importing this package alone imports nothing else."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstlight.kernels.cuda import blocks_for, cuda, simulated
    from firstlight.kernels.tracing import trace

__all__ = ["blocks_for", "cuda", "simulated", "trace"]

_HOME = {"blocks_for": "cuda", "cuda": "cuda", "simulated": "cuda", "trace": "tracing"}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Package(ModuleType):
    """A package in which ``cuda`` is Numba's module, although a submodule has that name too.

    Python binds a submodule to its package after importing it; here its member of that name is bound instead.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if value is sys.modules.get(f"{__name__}.{name}") and name in _HOME:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
