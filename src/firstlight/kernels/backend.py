"""``numba.cuda``, or its simulator where there is no CUDA device, and the number of blocks to launch.

Nothing else in the project imports ``numba.cuda``. numba-cuda gets no new features; when its successor takes
over (numba-cuda-mlir: ``from numba_cuda_mlir import cuda``, without a simulator), only this module changes.
"""

from __future__ import annotations

import dis
import os
import sys
from inspect import isfunction
from itertools import pairwise
from math import prod
from numbers import Integral
from types import CodeType, FunctionType
from typing import Any

from firstlight.kernels.driver import cuda_device_count

_SWITCH = "NUMBA_ENABLE_CUDASIM"

# Numba reads the switch once, when it is first imported: it must be set above the import below.
_simulator = os.environ.get(_SWITCH) or ("0" if cuda_device_count() else "1")
if _simulator != "0":
    if "numba" in sys.modules and not sys.modules["numba"].config.ENABLE_CUDASIM:
        raise RuntimeError(
            "Kernels need Numba's CUDA simulator here (there is no CUDA device, or NUMBA_ENABLE_CUDASIM asks "
            "for it), but numba was imported before with the simulator off, and it decides only once. Start "
            "Python again and put `from firstlight.kernels import cuda` above every import of numba, or set "
            "NUMBA_ENABLE_CUDASIM=1 before Python starts."
        )
    os.environ[_SWITCH] = _simulator
# The grids of a tutorial are small on purpose.
os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

from numba import config, cuda  # noqa: E402

__all__ = ["blocks_for", "cuda", "simulated"]

MAX_THREADS = 1024  # in one block, on every CUDA device


def simulated() -> bool:
    """Return whether kernels run in Numba's simulator (``cuda.is_available()`` is true there, too).

    Returns
    -------
    bool
        True where a kernel is run by Python: its results can be trusted, its times mean nothing.

    Examples
    --------
    >>> from firstlight.kernels import simulated
    >>> n = 1_000 if simulated() else 10_000_000
    """
    return bool(config.ENABLE_CUDASIM)  # type: ignore[attr-defined]


def blocks_for(n: int | tuple[int, ...], threads: int | tuple[int, ...]) -> Any:
    """Return the least number of blocks that has a thread for every element.

    Parameters
    ----------
    n : int or tuple of int
        The number of elements, or an array's shape with one to three axes.
    threads : int or tuple of int
        The threads of a block, along the same axes.

    Returns
    -------
    int or tuple of int
        The blocks along each axis; at least 1, since CUDA refuses to launch none: with an empty array, the
        kernel's guard keeps every thread idle.

    Raises
    ------
    ValueError
        If the axes do not match, ``n`` is negative, or CUDA has no blocks of so many threads.

    Examples
    --------
    >>> from firstlight.kernels import blocks_for
    >>> blocks_for(37, 16)
    3
    >>> blocks_for((100, 37), (8, 16))
    (13, 3)
    """
    sizes = n if isinstance(n, tuple) else (n,)
    block = threads if isinstance(threads, tuple) else (threads,)
    if isinstance(n, tuple) != isinstance(threads, tuple) or len(sizes) != len(block) or len(sizes) not in (1, 2, 3):
        raise ValueError(
            f"n={n!r} and threads={threads!r} do not match: give two whole numbers, or two tuples of 1 to 3"
        )
    if not all_whole(sizes, least=0):
        raise ValueError(f"n={n!r}: a number of elements is a whole number, 0 or more")
    if not all_whole(block, least=1) or prod(map(int, block)) > MAX_THREADS:
        raise ValueError(
            f"threads={threads!r}: CUDA allows 1 to {MAX_THREADS} threads in a block, all axes multiplied; "
            "128 or 256 is a good start"
        )
    blocks = tuple(max(1, -(-int(size) // int(side))) for size, side in zip(sizes, block, strict=True))
    return blocks if isinstance(n, tuple) else blocks[0]


def all_whole(values: tuple[object, ...], least: int) -> bool:
    """Return whether all are whole numbers of some size; NumPy's count, too."""
    return all(isinstance(value, Integral) and int(value) >= least for value in values)


def is_jitted(value: object) -> bool:
    """Return whether ``@cuda.jit`` made this."""
    return type(value).__name__ in ("CUDADispatcher", "FakeCUDAKernel")  # the second in the simulator


def python_function(kernel: Any) -> FunctionType:
    """Return the function that stands below ``@cuda.jit``, or say what is no kernel."""
    if not is_jitted(kernel):
        name = getattr(kernel, "__name__", repr(kernel))
        cure = f"put @cuda.jit above {name}" if isfunction(kernel) else "give a function with @cuda.jit above it"
        raise TypeError(f"{name} is no kernel: {cure}")
    function: FunctionType = kernel.fn if type(kernel).__name__ == "FakeCUDAKernel" else kernel.py_func
    return function


def looked_up(code: CodeType) -> dict[str, set[str]]:
    """Return the names that a function looks up outside of it, each with the attributes it takes of it at once."""
    found: dict[str, set[str]] = {}
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for step, after in pairwise(steps):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
            taken = {after.argval} if after.opname in ("LOAD_ATTR", "LOAD_METHOD") else set()
            found[step.argval] = found.get(step.argval, set()) | taken
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            for name, taken in looked_up(constant).items():
                found[name] = found.get(name, set()) | taken
    return found
