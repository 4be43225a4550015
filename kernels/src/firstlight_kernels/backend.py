"""``numba.cuda``, whose kernels run in Numba's simulator where there is no CUDA device; and how many blocks to launch.

Nothing else in the project imports ``numba.cuda``. numba-cuda gets no new features; when its successor takes
over (numba-cuda-mlir: ``from numba_cuda_mlir import cuda``, without a simulator), only this module changes.
"""

from __future__ import annotations

import builtins
import dis
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from inspect import isfunction
from itertools import pairwise
from math import prod
from numbers import Integral
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Protocol, TypeVar, cast

from firstlight_kernels.driver import cuda_device_count
from firstlight_kernels.findings import Dim3

__all__ = ["blocks_for", "cuda", "simulated"]

# The grids of a tutorial are small on purpose.
os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")


class Cuda(Protocol):
    """``numba.cuda``, which has no types; a strict checker wants to know that of the decorator."""

    jit: Callable[..., Any]

    def __getattr__(self, name: str) -> Any: ...


config: Any = import_module("numba.core.config")
config.reload_config()  # here: a later one, in Numba's next compilation, would undo what is set below
_simulate = config.ENABLE_CUDASIM if os.environ.get("NUMBA_ENABLE_CUDASIM") else not cuda_device_count()
config.ENABLE_CUDASIM = 0  # if it were on while numba.cuda is imported, `ptx` would have no compiler
cuda = cast("Cuda", import_module("numba.cuda"))

# What a program calls besides `cuda.jit`, which looks at the switch itself. What a kernel calls stays Numba's own: the
# compiler needs it, and the simulator puts its own there while a kernel runs.
_HOST_API = {
    *("to_device", "device_array", "device_array_like", "pinned", "pinned_array", "pinned_array_like", "mapped_array"),
    *("stream", "default_stream", "external_stream", "event", "synchronize", "reduce", "Reduce", "In", "Out", "InOut"),
    *("gpus", "list_devices", "get_current_device", "current_context", "select_device", "close", "detect"),
    "declare_device",
}
if _simulate:
    config.ENABLE_CUDASIM = 1
    _simulator = import_module("numba.cuda.simulator")
    vars(cuda).update({name: value for name, value in vars(_simulator).items() if name in _HOST_API})
    # Without numba-cuda, as on a Mac, Numba's own simulator hands arrays over by what is in the driver's module.
    vars(import_module("numba.cuda.cudadrv.devicearray"))["auto_device"] = _simulator.auto_device

Size = TypeVar("Size", int, tuple[int, ...])
MAX_THREADS = 1024  # in one block, on every CUDA device
MAX_THREADS_Z = 64  # of these along z


def simulated() -> bool:
    """Return whether kernels run in Numba's simulator (``cuda.is_available()`` is false then).

    Returns
    -------
    bool
        True where a kernel is run by Python: its results can be trusted, its times mean nothing.

    Examples
    --------
    >>> from firstlight_kernels import simulated
    >>> n = 1_000 if simulated() else 10_000_000
    """
    return bool(config.ENABLE_CUDASIM)


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


def _are_integers(values: tuple[object, ...], least: int) -> bool:
    """Return whether all are integers of at least some value; NumPy's count, too."""
    return all(isinstance(value, Integral) and int(value) >= least for value in values)


def is_jitted(value: object) -> bool:
    """Return whether ``@cuda.jit`` made this."""
    return type(value).__name__ in ("CUDADispatcher", "FakeCUDAKernel")  # the second in the simulator


def python_function(kernel: Any) -> FunctionType:
    """Return the function below ``@cuda.jit``, or raise a TypeError if this is not a kernel."""
    if not is_jitted(kernel):
        name = getattr(kernel, "__name__", repr(kernel))
        cure = f"put @cuda.jit above {name}" if isfunction(kernel) else "give a function with @cuda.jit above it"
        raise TypeError(f"{name} is not a kernel: {cure}")
    function: FunctionType = kernel.py_func
    return function


def empty_copy(function: FunctionType) -> FunctionType:
    """Return a copy of a function that knows no names yet, until ``fill_copy`` gives it some."""
    cells = tuple(CellType() for _ in function.__closure__ or ())
    return FunctionType(function.__code__, {"__builtins__": builtins}, function.__name__, function.__defaults__, cells)


def fill_copy(copy: FunctionType, function: FunctionType, translate: Callable[[Any], Any]) -> None:
    """Let each name that a function looks up mean something else in its copy: what ``translate`` makes of its value.

    Of a module, what the function takes from it is translated, too.
    """
    attributes = looked_up_names(function.__code__)

    def translated(name: str, value: Any) -> Any:
        new = translate(value)
        if new is not value or not isinstance(value, ModuleType):
            return new
        taken = {attribute: getattr(value, attribute, None) for attribute in attributes.get(name, ())}
        changed = {attribute: translate(old) for attribute, old in taken.items() if translate(old) is not old}
        if not changed:
            return value
        module = ModuleType(value.__name__)
        vars(module).update(vars(value) | changed)
        return module

    for name in attributes:
        if name in function.__globals__:
            copy.__globals__[name] = translated(name, function.__globals__[name])
    cells = zip(function.__code__.co_freevars, copy.__closure__ or (), function.__closure__ or (), strict=True)
    for name, cell, old in cells:
        with suppress(ValueError):  # a name that has no value yet
            cell.cell_contents = translated(name, old.cell_contents)


def looked_up_names(code: CodeType) -> dict[str, set[str]]:
    """Return the names that a function looks up outside of it, each with the attributes that it takes of its value."""
    found: dict[str, set[str]] = {}
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for step, after in pairwise(steps):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
            taken = {after.argval} if after.opname in ("LOAD_ATTR", "LOAD_METHOD") else set()
            found[step.argval] = found.get(step.argval, set()) | taken
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            for name, taken in looked_up_names(constant).items():
                found[name] = found.get(name, set()) | taken
    return found
