"""``cuda``, for programs that run with and without a GPU: without one, launches of kernels are simulated."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, cast

__all__ = ["cuda"]

# The grids of a tutorial are small on purpose.
os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")


class Cuda(Protocol):
    """``numba.cuda``, which has no types; a strict checker wants to know that of the decorator."""

    jit: Callable[..., Any]

    def __getattr__(self, name: str) -> Any: ...


import_module("firstlight_kernels.launch")
try:
    cuda = cast("Cuda", import_module("numba.cuda"))
except ImportError:  # numba-cuda-mlir needs no Numba
    cuda = cast("Cuda", import_module("numba_cuda_mlir.cuda"))
