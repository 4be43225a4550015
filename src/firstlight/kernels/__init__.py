"""Write CUDA kernels in Python and run them anywhere; importing this package alone imports nothing else."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstlight.kernels.backend import blocks_for, cuda, simulated
    from firstlight.kernels.tracing import trace

__all__ = ["blocks_for", "cuda", "simulated", "trace"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module(f"{__name__}.{'tracing' if name == 'trace' else 'backend'}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
