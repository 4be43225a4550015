"""How many blocks to launch, and which grids CUDA allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from firstlight_kernels.findings import Dim3
from firstlight_kernels.promotion import Rules

Size = TypeVar("Size", int, tuple[int, ...])
WARP = 32  # threads
MAX_THREADS = 1024  # in one block, on every CUDA device
MAX_THREADS_Z = 64  # of these along z


@dataclass(frozen=True)
class BoundLaunch:
    """A launch that CUDA takes: what is run, on which grid, with which arguments, and by whose rules."""

    function: FunctionType  # below ``@cuda.jit``
    blocks: Dim3
    threads: Dim3
    arguments: tuple[Any, ...]  # with the defaults, and of the types that a signature asks for
    shared_bytes: int = 0  # of shared arrays of shape 0
    rules: Rules = "numba"


def blocks_for(n: Size, threads: Size) -> Size:
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
    >>> from firstlight_kernels import blocks_for
    >>> blocks_for(37, 16)
    3
    >>> blocks_for((100, 37), (8, 16))
    (13, 3)
    """
    sizes = n if isinstance(n, tuple) else (n,)
    block = threads if isinstance(threads, tuple) else (threads,)
    if isinstance(n, tuple) != isinstance(threads, tuple) or len(sizes) != len(block):
        raise ValueError(f"n={n!r} and threads={threads!r} do not match: give two whole numbers, or two tuples")
    if not _are_integers(sizes, least=0):
        raise ValueError(f"n={n!r}: a number of elements is a whole number, 0 or more")
    size_of("threads", threads)
    blocks = tuple(max(1, -(-int(size) // int(side))) for size, side in zip(sizes, block, strict=True))
    return blocks if isinstance(n, tuple) else blocks[0]


def size_of(name: str, given: int | Sequence[int]) -> Dim3:
    """Return the size of a grid or a block in three axes, or raise a ValueError that says what CUDA allows."""
    axes = tuple(given) if isinstance(given, Sequence) else (given,)
    if not 1 <= len(axes) <= 3 or not _are_integers(axes, least=1):
        raise ValueError(f"{name}={given!r}: give one to three whole numbers of at least 1")
    size = Dim3(*map(int, (*axes, 1, 1)[:3]))
    if name == "threads" and (prod(size) > MAX_THREADS or size.z > MAX_THREADS_Z):
        axes_too = f", all axes multiplied, and {MAX_THREADS_Z} along z" if len(axes) > 1 else ""
        allowed = f"CUDA allows {MAX_THREADS} threads in a block{axes_too}; 128 or 256 is a good start"
        raise ValueError(f"threads={given!r}: {allowed}")
    return size


def unravelled(number: Any, size: Dim3) -> Dim3:
    """Return the index of a number, or of many, in a grid or a block: x counts fastest."""
    return Dim3(number % size.x, number // size.x % size.y, number // (size.x * size.y))


def _are_integers(values: tuple[object, ...], least: int) -> bool:
    """Return whether all are integers of at least some value; NumPy's count, too."""
    return all(isinstance(value, (int, np.integer)) and int(value) >= least for value in values)
