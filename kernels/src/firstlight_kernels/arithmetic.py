"""Numbers as a kernel has them on a GPU, where Numba types each operation, and no operation raises anything.

Integers are widened to 64 bits before anything is done with them, and wrap. ``float32`` stays only with itself: with a
constant or an integer it becomes ``float64``. Division by zero gives infinity or NaN, and 0 for integers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np

from firstlight_kernels.compilers import dtype_of
from firstlight_kernels.findings import TraceError
from firstlight_kernels.promotion import BINARY, converted, operand_types, power


class Number:
    """A number of a type that it keeps, where Numba infers one for each variable."""

    __slots__ = ()
    __array_priority__ = 1  # so that NumPy's scalars leave an operation with one of these to it
    real = property(lambda self: typed(scalar(self).real))
    imag = property(lambda self: typed(scalar(self).imag))

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other


class Undefined:
    """A number that nobody defined, as a shuffle's from a lane that takes no part: to compute with, not to keep."""

    __slots__ = ("_tell", "value")

    def __init__(self, value: Any, tell: Callable[[], None]) -> None:
        self.value, self._tell = value, tell

    def kept(self) -> Any:
        """Return what is kept of it, after it was told that somebody does."""
        self._tell()
        return self.value

    def __bool__(self) -> bool:  # so that `if other > best: best = other` keeps it
        return True

    def __float__(self) -> float:
        return float(self.kept())

    def __int__(self) -> int:
        return int(self.kept())

    __index__ = __int__

    def __hash__(self) -> int:
        return id(self)

    def _same(self, *_: Any, **__: Any) -> Undefined:
        return self

    __array_ufunc__ = _same
    real = imag = property(_same)


def _of_defined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of numbers that gives what nobody defined for what nobody defined."""

    def result(*values: Any) -> Any:
        undefined = Undefined in map(type, values)
        return next(each for each in values if type(each) is Undefined) if undefined else function(*values)

    return result


_BASES = {"i": int, "u": int, "f": float, "c": complex}
_TYPED: dict[type, Any] = {}
for _code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"):
    _type = np.dtype(_code).type
    _TYPED[_type] = type(_type.__name__, (Number, _BASES[_code[0]]), {"__slots__": ()})
_SCALAR: dict[type, Any] = {kind: each for each, kind in _TYPED.items()}
Int64, Float32, Float64 = _TYPED[np.int64], _TYPED[np.float32], _TYPED[np.float64]


_TRUTHS: dict[Any, Boolean] = {}


class Boolean(Number, int):
    """A truth: ``~`` is "not", ``&``, ``|`` and ``^`` of two are one, and other operations take it for an integer."""

    __slots__ = ()

    def __new__(cls, value: object) -> Boolean:
        """Return one of two, so that `flag is True` holds, whose constant is typed, too."""
        truth = bool(value)
        if truth not in _TRUTHS:
            _TRUTHS[truth] = super().__new__(cls, truth)
        return _TRUTHS[truth]

    def __repr__(self) -> str:
        return str(bool(self))

    def __invert__(self) -> Any:
        return Boolean(not self)


_TYPED[np.bool_], _SCALAR[Boolean] = Boolean, np.int8
for _truth in (False, True):
    Boolean(_truth)


def scalar(value: Any) -> Any:
    """Return a number as NumPy has it; anything else as it is."""
    if exact := _SCALAR.get(type(value)):
        return exact(value)
    if isinstance(value, np.integer):
        return value.astype(f"{value.dtype.kind}{value.dtype.itemsize}")
    if isinstance(value, bool | np.bool_):
        return np.int8(value)
    if isinstance(value, int):
        return np.int64(value) if -(2**63) <= value < 2**63 else np.uint64(int(value) % 2**64)
    if isinstance(value, np.generic):
        return value
    if isinstance(value, float):
        return np.float64(value)
    return np.complex128(value) if isinstance(value, complex) else value


def typed(value: Any) -> Any:
    """Return a number as kernels compute with it; anything else as it is."""
    if kind := _TYPED.get(type(value)):
        return kind(value)
    if isinstance(value, bool):
        return Boolean(value)
    if isinstance(value, tuple):
        numbers = map(typed, value)
        return type(value)(*numbers) if hasattr(value, "_fields") else tuple(numbers)
    number = scalar(value)
    return _TYPED.get(type(number), lambda same: same)(number)


def convert(value: Any, dtype: np.dtype) -> Any:
    """Return a number as an array of a type keeps it: integers lose their upper bits, floats are cut to the range."""
    number = scalar(value.kept() if isinstance(value, Undefined) else value)
    return converted(number, dtype) if isinstance(number, np.number) else number


def typed_code(code: CodeType) -> CodeType:
    """Return a function's code in which the constants are typed."""
    constants = (typed_code(each) if isinstance(each, CodeType) else typed(each) for each in code.co_consts)
    return code.replace(co_consts=tuple(constants))


_IN_DOUBLE = {(Float64, Float64), (Float64, Float32), (Float32, Float64)}
_SINGLE, _INTEGERS = (Float32, Float32), (Int64, Int64)


def _operation(name: str, *, reflected: bool = False) -> Callable[[Any, Any], Any]:
    operate = power if name == "pow" else getattr(operator, name)
    quick = name in ("add", "sub", "mul") and not reflected
    of_floats, of_integers = (getattr(kind, f"__{name.strip('_')}__", operate) for kind in (float, int))

    def result(self: Any, other: Any) -> Any:
        if quick:
            pair = type(self), type(other)
            if pair in _IN_DOUBLE:
                return Float64(of_floats(self, other))
            if pair == _SINGLE:  # to round twice is exact here
                return Float32(np.float32(of_floats(self, other)))
            if pair == _INTEGERS and -(2**63) <= (exact := of_integers(self, other)) < 2**63:
                return Int64(exact)
        if name in ("and_", "or_", "xor") and isinstance(self, Boolean) and isinstance(other, bool | Boolean):
            return Boolean(of_integers(self, other))
        first, second = scalar(self), scalar(other)
        if reflected:
            first, second = second, first
        if not (isinstance(first, np.number) and isinstance(second, np.number)):
            return NotImplemented
        kinds = operand_types(name, first.dtype, second.dtype)
        first, second = (each.astype(kind) for each, kind in zip((first, second), kinds, strict=True))
        return typed(operate(first, second))

    return result


def _of_one(name: str) -> Callable[[Any], Any]:
    operate = getattr(operator, name)

    def result(self: Any) -> Any:
        found = operate(scalar(self))
        widened = isinstance(found, np.integer) and name != "abs"
        return typed(found.astype(f"{found.dtype.kind}8") if widened else found)

    return result


for _name in BINARY:
    setattr(Number, f"__{_name.strip('_')}__", _operation(_name))
    setattr(Number, f"__r{_name.strip('_')}__", _operation(_name, reflected=True))
    setattr(Undefined, f"__{_name.strip('_')}__", Undefined._same)
    setattr(Undefined, f"__r{_name.strip('_')}__", Undefined._same)
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Number, f"__{_name}__", _of_one(_name))
    setattr(Undefined, f"__{_name}__", Undefined._same)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Undefined, f"__{_name}__", Undefined._same)


def _comparison(name: str, base: type) -> Callable[[Any, Any], Any]:
    compare, plain = getattr(operator, name), getattr(base, f"__{name}__")

    def result(self: Any, other: Any) -> Any:  # NumPy's scalars leave this to us, too
        found = compare(scalar(self), other) if isinstance(other, np.generic) else plain(self, other)
        return _TRUTHS.get(found, found)

    return result


for _kind in _TYPED.values():
    _base = _kind.__bases__[1]
    for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(_kind, f"__{_name}__", _comparison(_name, _base))
    _kind.__hash__ = _base.__hash__


class NumberType:
    """A type of NumPy or Numba in a kernel: it converts a number, and says what an array holds."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)

    def __call__(self, value: Any = 0, *unit: str) -> Any:
        """Return a number of this type."""
        if unit or self.dtype.kind in "mM":
            raise TraceError(
                f"np.{self.dtype.type.__name__}: the tracer has no dates and no times. Take a number of seconds"
            )
        return value if isinstance(value, Undefined) else typed(convert(value, self.dtype))


def through_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy's scalars as one of a kernel's numbers."""
    return lambda *values: typed(function(*map(ufunc_operand, values)))


def ufunc_operand(value: Any) -> Any:
    """Return a number as ufuncs take it: NumPy has some for ``float16``, and Numba has none."""
    number = scalar(value)
    return number.astype(np.int16) if isinstance(number, np.int8 | np.uint8) else number


def _of_math(name: str) -> Callable[..., Any]:
    """Return a function of ``math`` that gives ``float32`` for ``float32``, and never raises."""

    def not_in_numpy(value: Any, *more: Any) -> Any:
        try:
            return value.dtype.type(getattr(math, name)(value, *more))
        except (OverflowError, ValueError):
            pole = name == "lgamma" or (name == "gamma" and value >= 0)
            return value.dtype.type(np.inf if pole else np.nan)

    operate = getattr(np, name, not_in_numpy)

    def result(value: Any, *more: Any) -> Any:
        first = scalar(value)
        first = np.float64(first) if isinstance(first, np.integer) else first
        return typed(operate(first, *map(scalar, more)))

    return _of_defined(result)


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def result(*values: Any) -> Any:
        values = values[0] if len(values) == 1 else values
        if Undefined in map(type, values):
            return next(each for each in values if type(each) is Undefined)
        kinds = [np.bool_ if isinstance(each, bool | Boolean) else scalar(each) for each in values]
        return typed(np.result_type(*kinds).type(choose(values)))

    return result


def _float(value: Any) -> Any:
    number = scalar(value)
    return typed(number if isinstance(number, np.floating) else np.float64(number))


def _int(value: Any) -> Any:
    number = scalar(value)
    return typed(convert(number, np.dtype(np.int64)) if isinstance(number, np.floating) else number)


class Range:
    """A ``range`` of a kernel's numbers."""

    def __init__(self, *limits: float) -> None:
        self._numbers = range(*map(int, limits))  # Numba cuts what math.ceil returns, a float

    def __iter__(self) -> Iterator[Any]:
        return map(Int64, self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, value: object) -> bool:
        return value in self._numbers


def _round(value: Any, digits: int | None = None) -> Any:
    number = scalar(value)
    return _int(np.rint(number)) if digits is None else typed(number.dtype.type(round(number.item(), digits)))


#: What Python's own functions do in a kernel.
BUILTINS: dict[str, Any] = {
    "bool": lambda value=False: Boolean(bool(value)),
    "float": _of_defined(_float),
    "int": _of_defined(_int),
    "max": _extreme(max),
    "min": _extreme(min),
    "range": Range,
    "round": _of_defined(_round),
}


def as_in_kernels(value: Any) -> Any:
    """Return what a number, a type of numbers, or a function of ``math`` is in a kernel."""
    if (dtype := dtype_of(value)) is not None:
        return NumberType(dtype)
    if getattr(value, "__module__", None) == "math":
        return _of_math(value.__name__)
    return typed(value)
