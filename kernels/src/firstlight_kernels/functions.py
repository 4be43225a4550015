# ruff: noqa: ARG001, ARG005, B008 -- what a kernel calls gets the mask first; numbers are immutable
"""What functions of Python, of ``math`` and of NumPy do for all threads at once; the first argument is their mask."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from firstlight_kernels import arithmetic, promotion
from firstlight_kernels.lanes import Array, Mask
from firstlight_kernels.masked import Unsupported
from firstlight_kernels.promotion import converted


def function_of(value: Any) -> Callable[..., Any] | None:
    """Return what a function does in lockstep, or None if it isn't known."""
    if isinstance(value, np.ufunc):
        return _of_numpy(value)
    if getattr(value, "__module__", None) == "math":
        return _of_math(value)
    return _BUILTINS.get(id(value))


class Together:
    """What ``enumerate`` and ``zip`` go through at the same time."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


def length(items: Any) -> int:
    """Return how many turns a loop through something makes."""
    if isinstance(items, Together):
        return min(map(length, items.parts))
    if isinstance(items, tuple | range):
        return len(items)
    if type(items) is Array and items.shape:
        return int(items.shape[0])
    raise Unsupported("a loop through something other than a range, a tuple or an array")


def truth(value: Any) -> Any:
    """Return numbers as booleans."""
    return value if value.dtype == np.bool_ else value != 0


def negated(value: Any) -> Any:
    """Return ``not value``."""
    return ~truth(value) if isinstance(value, np.ndarray | np.generic) else np.bool_(not value)


def _of_numpy(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return a ufunc of numbers: NumPy has some for ``float16``, and Numba has none."""

    def result(mask: Mask, *values: Any) -> Any:
        if any(isinstance(each, Array) for each in values):
            raise Unsupported(f"np.{ufunc.__name__} of a whole array")
        small = (np.dtype(np.int8), np.dtype(np.uint8))
        return ufunc(*(each.astype(np.int16) if each.dtype in small else each for each in values))

    return result


def _of_math(function: Any) -> Callable[..., Any]:
    """Return a function of ``math``."""
    operate = getattr(np, function.__name__, None)
    if operate is None:
        return elementwise(arithmetic.as_in_kernels(function))

    def result(mask: Mask, value: Any, *more: Any) -> Any:
        return operate(value.astype(np.float64) if value.dtype.kind in "iub" else value, *more)

    return result


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a thread's numbers as one of all threads'."""

    def result(mask: Mask, *values: Any) -> Any:
        if not any(isinstance(each, np.ndarray) for each in values):
            return arithmetic.scalar(function(*map(arithmetic.typed, values)))
        columns = [each[mask.numbers] for each in np.broadcast_arrays(*values)]
        found = [arithmetic.scalar(function(*map(arithmetic.typed, row))) for row in zip(*columns, strict=True)]
        some = np.array(found)
        results = np.zeros(mask.on.size, some.dtype)
        results[mask.numbers] = some
        return results

    return result


def _int(mask: Mask, value: Any = np.int64(0)) -> Any:
    return converted(value, np.dtype(np.int64)) if value.dtype.kind in "fb" else value


def _float(mask: Mask, value: Any = np.float64(0)) -> Any:
    return value if value.dtype.kind == "f" else value.astype(np.float64)


def _round(mask: Mask, value: Any, digits: Any = None) -> Any:
    if digits is not None:
        return elementwise(arithmetic.BUILTINS["round"])(mask, value, digits)
    return converted(np.rint(value), np.dtype(np.int64))


def _best(name: str) -> Callable[..., Any]:
    operate = promotion.extreme(name)
    return lambda mask, *values: operate(*(values[0] if len(values) == 1 else values))


def _without_mask(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda mask, *given: function(*given)


_DIVIDE, _REMAINDER = promotion.binary("floordiv"), promotion.binary("mod")
#: What Python's own functions do, by their ids.
_BUILTINS: dict[int, Any] = {
    id(function): meaning
    for function, meaning in {
        abs: lambda mask, value: abs(value),
        bool: lambda mask, value: truth(value),
        complex: lambda mask, real, imag=np.float64(0): real + 1j * imag,
        divmod: lambda mask, first, second: (_DIVIDE(first, second), _REMAINDER(first, second)),
        enumerate: lambda mask, items, start=np.int64(0): Together(
            range(int(start), int(start) + length(items)), items
        ),
        float: _float,
        int: _int,
        len: lambda mask, value: np.int64(length(value)),
        max: _best("max"),
        min: _best("min"),
        pow: lambda mask, base, exponent: promotion.binary("pow")(base, exponent),
        round: _round,
        tuple: lambda mask, values: values,
        zip: lambda mask, *items: Together(*items),
        **{getattr(operator, name): _without_mask(promotion.binary(name)) for name in promotion.BINARY},
    }.items()
}
