"""Numba's types for operations on numbers, of which each may be one number or one for each thread.

Integers are widened to 64 bits before anything is done with them, and wrap. ``float32`` stays only with itself: with a
constant or an integer it becomes ``float64``. Division by zero gives infinity or NaN, and 0 for integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from firstlight_kernels.vectors import Vector, class_of

#: Whose rules hold: those of numba-cuda, or those of numba-cuda-mlir.
Rules = Literal["numba", "mlir"]
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor")
_SYMBOLS = dict(zip(BINARY, ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^"), strict=True))


class NotCompiledError(TypeError):
    """An operation that the compiler refuses for the types of its operands."""


class Negative(np.int64):
    """A negative number that stands in the source: as an index it counts from the end, which others do by mistake."""


@cache
def operand_types(name: str, first: np.dtype, second: np.dtype, rules: Rules = "numba") -> tuple[np.dtype, np.dtype]:
    """Return the types to which the operands of an operation are converted; NumPy's rules make the result's of these.

    The name is that of a function in Python's module ``operator``.
    """
    kinds = "".join({"b": "i"}.get(each.kind, each.kind) for each in (first, second))
    if "V" in kinds:
        raise NotCompiledError(f"{_SYMBOLS[name]} of vectors is not simulated: take their x, y, z and w")
    bitwise, whole = name in ("and_", "or_", "xor"), set(kinds) <= set("iu")
    if bitwise and first.kind == second.kind == "b":
        return first, second
    if (not whole and (bitwise or "shift" in name)) or (rules == "mlir" and name == "pow" and kinds in ("if", "uf")):
        raise NotCompiledError(f"{first} {_SYMBOLS[name]} {second} is not compiled for a GPU")
    if bitwise and rules == "mlir":
        kind, size = "u" if kinds == "uu" else "i", max(first.itemsize, second.itemsize)
        return np.dtype(f"{kind}{size}"), np.dtype(f"{kind}{size}")
    if whole:
        first, second = (np.dtype(f"{kind}8") for kind in kinds)
        if "shift" in name:
            second = first
        elif kinds in ("iu", "ui") and name != "truediv":
            first = second = np.dtype(np.int64)
        return first, second
    # Numba's conversions know that float32 holds each uint8 and int16, but not that it holds each uint16.
    own: dict[np.dtype, np.dtype] = {np.dtype(np.bool_): np.dtype(np.int8), np.dtype(np.uint16): np.dtype(np.uint32)}
    return own.get(first, first), second if name == "pow" and kinds in ("fi", "fu") else own.get(second, second)


def binary(name: str, rules: Rules = "numba") -> Callable[[Any, Any], Any]:
    """Return an operation of Python's module ``operator`` on numbers, with Numba's types."""
    operate = power if name == "pow" else getattr(operator, name)
    known: dict[tuple[np.dtype, np.dtype], tuple[np.dtype | None, np.dtype | None, Callable[[Any, Any], Any]]] = {}

    def result(first: Any, second: Any) -> Any:
        given = first.dtype, second.dtype
        try:
            one, other, act = known[given]
        except KeyError:
            wanted = operand_types(name, *given, rules)
            one, other = (None if old is new else new for old, new in zip(given, wanted, strict=True))
            act = _complex_product if name == "mul" and "c" in (wanted[0].kind, wanted[1].kind) else operate
            known[given] = one, other, act
        if one is not None:
            first = first.astype(one)
        if other is not None:
            second = second.astype(other)
        return act(first, second)

    return result


def complex_of(real: Any, imag: Any, dtype: np.dtype) -> Any:
    """Return complex numbers of two parts."""
    result = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), dtype)
    result.real, result.imag = real, imag
    return result[()]


def _complex_product(first: Any, second: Any) -> Any:
    """Return a product that is rounded as one number's is: NumPy rounds those of arrays once less on some CPUs."""
    real = first.real * second.real - first.imag * second.imag
    return complex_of(real, first.real * second.imag + first.imag * second.real, np.result_type(first, second))


def vector_of(dtype: np.dtype, given: Iterable[Any]) -> Vector:
    """Return the vector that numbers, complex ones, and shorter vectors make."""
    parts: list[Any] = []
    for each in given:
        parts.extend(each if isinstance(each, Vector) else (each.real, each.imag) if each.dtype.kind == "c" else [each])
    made, count = class_of(dtype), len(dtype.names or ())
    if len(parts) not in (1, count):
        raise NotCompiledError(f"{made.__name__} of {len(parts)} numbers")
    return made(converted(each, dtype[0]) for each in (parts * count if len(parts) == 1 else parts))


@cache
def operations(rules: Rules) -> dict[str, Callable[..., Any]]:
    """Return what operators do, by the names of Python's module ``operator``."""
    found = {name: binary(name, rules) for name in BINARY}
    found |= {"neg": partial(negative, rules=rules), "pos": partial(positive, rules=rules)}
    return found | {"invert": inverted}


def power(base: Any, exponent: Any) -> Any:
    """Return ``base**exponent``: with a whole exponent a product, and 0 where an integer has a negative one."""
    if exponent.dtype.kind not in "iu":
        return np.power(base, exponent)
    if base.dtype.kind in "iu":
        if not np.any(exponent < 0):
            return np.power(base, exponent)
        inverse = np.where(base == 1, 1, np.where(base == -1, np.where(exponent % 2, -1, 1), 0))
        return np.where(exponent < 0, inverse, np.power(base, np.maximum(exponent, 0)))[()]
    result, factor, left = base.dtype.type(1), base, np.abs(exponent)
    times = _complex_product if base.dtype.kind == "c" else operator.mul
    while np.any(left):
        product = times(result, factor)
        result = (
            np.where(left & 1, product, result)[()] if isinstance(left, np.ndarray) else product if left & 1 else result
        )
        factor, left = times(factor, factor), left >> 1
    return np.where(exponent < 0, 1 / result, result)[()] if np.any(exponent < 0) else result


def negative(value: Any, rules: Rules = "numba") -> Any:
    """Return ``-value``: small integers are negated as they are, and widened after that."""
    if value.dtype.kind == "b":
        return -value.astype(np.int64)
    if value.dtype.kind == "u" and rules == "mlir" and value.itemsize < 8:
        return (-value).view(f"i{value.itemsize}").astype(np.int64)
    return widened(-value)


def positive(value: Any, rules: Rules = "numba") -> Any:
    """Return ``+value``."""
    if value.dtype.kind == "b":
        return value.astype(np.int64)
    return value if rules == "mlir" else widened(value)


def inverted(value: Any) -> Any:
    """Return ``~value``, which is ``not value`` for a boolean."""
    if value.dtype.kind not in "iub":
        raise NotCompiledError(f"~ of {value.dtype} is not compiled for a GPU")
    return widened(~value)


def truth(value: Any) -> Any:
    """Return numbers as booleans."""
    return value if value.dtype == np.bool_ else value != 0


def widened(value: Any) -> Any:
    """Return an integer with 64 bits; anything else as it is."""
    kind, size = value.dtype.kind, value.dtype.itemsize
    return value.astype(f"{kind}8") if kind in "iu" and size < 8 else value


def extreme(name: str) -> Callable[..., Any]:
    """Return ``max`` or ``min``, of two or more numbers, or of those in a tuple."""
    better = operator.gt if name == "max" else operator.lt

    def result(*given: Any) -> Any:
        values = given[0] if len(given) == 1 else given
        best = values[0]
        for value in values[1:]:
            best = np.where(better(value, best), value, best)[()]
        return best.astype(np.result_type(*(value.dtype for value in values)))

    return result


def converted(values: Any, dtype: np.dtype) -> Any:
    """Return numbers as an array of a type keeps them.

    Integers lose their upper bits. Floats are cut to the range, by the rules of PTX's ``cvt``, which has no integers of
    8 bits.
    """
    own = values.dtype
    if own is dtype:
        return values
    if own.kind != "f" or dtype.kind not in "iu" or not values.size:
        return values.astype(dtype)
    limits = np.iinfo(f"{dtype.kind}{max(dtype.itemsize, 2)}")
    end = 2.0 ** (limits.bits - (dtype.kind == "i"))  # the first float above the range
    if limits.min <= values.min() and values.max() < end:  # not so with NaN
        return values.astype(limits.dtype).astype(dtype)
    nan = 0 if own.itemsize < 8 and limits.bits < 64 else 2 ** (limits.bits - 1)
    inside = (values >= limits.min) & (values < end)
    whole = np.where(inside, values, 0).astype(limits.dtype)
    edge = np.where(values < 0, limits.dtype.type(limits.min), limits.dtype.type(limits.max))
    edge = np.where(np.isnan(values), np.uint64(nan).astype(limits.dtype), edge)
    return np.where(inside, whole, edge).astype(dtype)[()]
