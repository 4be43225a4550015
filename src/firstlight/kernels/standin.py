"""Make a kernel again with another ``cuda`` in its place, and so the device functions that it calls."""

from __future__ import annotations

import builtins
from types import CellType, CodeType, FunctionType
from typing import Any

from firstlight.kernels.backend import cuda, is_jitted, python_function
from firstlight.kernels.executor import codes_of
from firstlight.kernels.intrinsics import Cuda


def stand_in(function: FunctionType, fake: Cuda, codes: set[int], made: dict[int, FunctionType]) -> FunctionType:
    """Make the function again, with a ``cuda`` that watches, and so with the functions that it calls."""
    if known := made.get(id(function)):
        return known
    cells = tuple(CellType() for _ in function.__closure__ or ())
    names: dict[str, Any] = {"__builtins__": builtins}
    new = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
    made[id(function)] = new  # before what it calls, which may be itself
    codes.update(codes_of(function.__code__))

    def translated(value: Any) -> Any:
        if value is cuda:
            return fake
        if getattr(value, "cuda", None) is cuda:  # numba itself
            return Numba(value, fake)
        for name, own in REAL.items():
            if value is own:
                return getattr(fake, name)
        return stand_in(python_function(value), fake, codes, made) if is_jitted(value) else value

    for name in names_in(function.__code__):
        if name in function.__globals__:
            names[name] = translated(function.__globals__[name])
    for cell, old in zip(cells, function.__closure__ or (), strict=True):
        cell.cell_contents = translated(old.cell_contents)
    return new


class Numba:
    """The package ``numba``, whose ``cuda`` watches."""

    def __init__(self, real: Any, fake: Cuda) -> None:
        self._real, self.cuda = real, fake

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def names_in(code: CodeType) -> set[str]:
    """Return the names that a function may look up, also in the functions inside it."""
    inner = (names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _known() -> dict[str, Any]:
    """What someone may have imported from ``numba.cuda`` by name."""
    names = [*vars(Cuda), "shared", "local", "const", "atomic"]
    return {name: getattr(cuda, name) for name in names if not name.startswith("_") and hasattr(cuda, name)}


REAL = _known()
