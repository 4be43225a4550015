"""The compilers whose kernels we take, and what is different in each: numba-cuda, numba-cuda-mlir, and Numba itself.

Nothing here imports a compiler before somebody has one of its kernels: who wrote the kernel has imported it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import isfunction
from types import FunctionType, ModuleType
from typing import Any, Literal, cast

import numpy as np

from firstlight_kernels.vectors import vector_dtype


@dataclass(frozen=True)
class Compiler:
    """A compiler of kernels.

    Examples
    --------
    >>> from firstlight_kernels.compilers import MLIR
    >>> MLIR.name, MLIR.typing
    ('numba-cuda-mlir', 'mlir')
    """

    name: str  # under which pip installs it
    package: str  # from which a kernel's author imports cuda
    typing: Literal["numba", "mlir"]  # whose rules say of which type a result is

    @property
    def cuda(self) -> Any:
        """The module that a kernel knows as ``cuda``."""
        name = f"{self.package}.cuda"
        return sys.modules.get(name) or import_module(name)

    @property
    def dispatcher(self) -> type:
        """The class of a kernel, which ``kernel[blocks, threads]`` asks for a launch."""
        if self.typing == "mlir":
            return cast("type", import_module("numba_cuda_mlir.descriptor").MLIRDispatcher)
        return cast("type", self.part("dispatcher").CUDADispatcher)

    def part(self, name: str) -> Any:
        """Return one of the modules that both have: numba-cuda-mlir grew from numba-cuda."""
        return import_module(f"{self.package}.{'numba_cuda' if self.typing == 'mlir' else 'cuda'}.{name}")


MLIR = Compiler("numba-cuda-mlir", "numba_cuda_mlir", "mlir")
NUMBA_CUDA = Compiler("numba-cuda", "numba", "numba")
#: What Numba brings itself, as on a Mac: it can't compile for the GPUs of today. numba-cuda takes its place.
NUMBA = Compiler("numba", "numba", "numba")


#: What a kernel knows as ``cuda``, by which compiler it is of.
MODULES = ("numba.cuda", "numba_cuda_mlir.cuda")


def imported() -> Iterator[Compiler]:
    """Yield the compilers that are imported, whose kernels there can be."""
    for module, compiler in zip(MODULES, (_of_numba(), MLIR), strict=True):
        if hasattr(sys.modules.get(module), "jit"):  # to its end; another thread may be at it
            yield compiler


def _of_numba() -> Compiler:
    return NUMBA_CUDA if "numba_cuda" in sys.modules else NUMBA


# -- Kernels -------------------------------------------------------------------------------------------------------


def is_jitted(value: object) -> bool:
    """Return whether ``@cuda.jit`` made this."""
    return type(value).__name__ in ("CUDADispatcher", "MLIRDispatcher")


def compiler_of(kernel: object) -> Compiler:
    """Return the compiler of a kernel, or raise a TypeError if this is not one."""
    python_function(kernel)
    if type(kernel).__module__.startswith(MLIR.package):
        return MLIR
    return _of_numba()


def python_function(kernel: Any) -> FunctionType:
    """Return the function below ``@cuda.jit``, or raise a TypeError if this is not a kernel."""
    if not is_jitted(kernel):
        if type(kernel).__name__ == "FakeCUDAKernel":
            raise TypeError(
                "this kernel is of Numba's own simulator: unset NUMBA_ENABLE_CUDASIM. Without a GPU, launches are "
                "simulated anyway"
            )
        name = getattr(kernel, "__name__", repr(kernel))
        cure = f"put @cuda.jit above {name}" if isfunction(kernel) else "give a function with @cuda.jit above it"
        raise TypeError(f"{name} is not a kernel: {cure}")
    function: FunctionType = kernel.py_func
    return function


# -- What a kernel takes from them ---------------------------------------------------------------------------------


def is_cuda(value: object) -> bool:
    """Return whether this is what kernels know as ``cuda``."""
    return isinstance(value, ModuleType) and any(value is sys.modules.get(name) for name in MODULES)


def intrinsic_name(value: object) -> str | None:
    """Return how a kernel calls something that is imported from ``cuda`` by its name, such as ``"shared.array"``."""
    return next(
        (name for each in imported() if (name := _names(each.cuda, vars(each.cuda).get("fp16")).get(id(value)))), None
    )


@cache
def _names(cuda: ModuleType, halves: ModuleType | None) -> dict[int, str]:
    """Return the names of what ``cuda`` has for kernels, and of their parts, by the ids of these."""
    found = {id(value): f"fp16.{name}" for name, value in (vars(halves) if halves else {}).items() if name[0] == "h"}
    for name in dir(cuda):
        value = getattr(cuda, name)
        if not (isinstance(value, ModuleType | int | str | tuple | None) or dtype_of(value)):
            found[id(value)] = name
    for name in {"shared", "local", "const", "atomic", "vector"} & {
        *dir(cuda)
    }:  # modules or classes; a simulator has none
        parts = vars(getattr(cuda, name))
        found |= {id(getattr(getattr(cuda, name), each)): f"{name}.{each}" for each in parts if each[0] != "_"}
    return found


def dtype_of(value: Any) -> np.dtype | None:
    """Return what an array of a type holds, in NumPy's words; the type is NumPy's or a compiler's. None if it is none.

    Examples
    --------
    >>> dtype_of(np.float32)
    dtype('float32')
    >>> dtype_of(7) is None
    True
    """
    if isinstance(value, np.dtype):
        return value
    if isinstance(value, type):
        if value.__module__ == "numba.cuda.stubs":
            return _vector(value.__name__)
        return np.dtype(value) if issubclass(value, np.number | np.bool_) else None
    if not hasattr(value, "cast_python_value"):  # of each of their types
        return None
    name = {"boolean": "bool"}.get(str(value), str(value))
    if name in np.sctypeDict:
        return np.dtype(name)
    if hasattr(value, "fields"):  # of a record
        package = type(value).__module__.partition(".types")[0].removesuffix(".core")
        numpy_support = import_module(f"{package}.np.numpy_support")
        record: np.dtype = numpy_support.as_dtype(value)
        return record
    return _vector(name)


def _vector(name: str) -> np.dtype | None:
    found = re.fullmatch(r"(u?int\d+|float\d+)x([1-4])", name)
    return vector_dtype(np.dtype(found[1]), int(found[2])) if found else None
