"""Copies of functions in which the names that they look up mean something else."""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import pairwise
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any


def outer_names(function: FunctionType) -> dict[str, Any]:
    """Return what the names that a function looks up outside of it mean, but for Python's own and those without one."""
    scope = function.__globals__
    known = {name: scope[name] for name in looked_up_names(function.__code__) if name in scope}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        known.pop(name, None)
        with suppress(ValueError):  # it has no value yet
            known[name] = cell.cell_contents
    return known


def empty_copy(function: FunctionType) -> FunctionType:
    """Return a copy of a function that knows no names yet, until ``fill_copy`` gives it some."""
    cells = tuple(CellType() for _ in function.__closure__ or ())
    return FunctionType(function.__code__, {"__builtins__": builtins}, function.__name__, function.__defaults__, cells)


def fill_copy(copy: FunctionType, function: FunctionType, translate: Callable[[Any, str], Any]) -> None:
    """Let each name that a function looks up mean something else in its copy: what ``translate`` makes of it.

    Of a module, what the function takes from it is translated, too.
    """
    attributes = looked_up_names(function.__code__)

    def translated(name: str, value: Any) -> Any:
        new = translate(value, name)
        if new is not value or not isinstance(value, ModuleType):
            return new
        taken = {part: getattr(value, part, None) for part in attributes.get(name, ())}
        changed = {part: new for part, old in taken.items() if (new := translate(old, part)) is not old}
        if not changed:
            return value
        module = ModuleType(value.__name__)
        vars(module).update(vars(value) | changed)
        return module

    cells = dict(zip(function.__code__.co_freevars, copy.__closure__ or (), strict=True))
    for name, value in outer_names(function).items():
        if name in cells:
            cells[name].cell_contents = translated(name, value)
        else:
            copy.__globals__[name] = translated(name, value)


@cache
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
