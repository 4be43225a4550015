"""A thread's numbers in a trace: they are Python's, keep their types, and no operation of theirs raises anything.

Of which type a result is, says :mod:`firstlight_kernels.promotion`, by the rules of the kernel's compiler.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

from firstlight_kernels.compilers import dtype_of
from firstlight_kernels.findings import TraceError
from firstlight_kernels.functions import builtins_of, function_of, of_type
from firstlight_kernels.promotion import BINARY, Rules, converted, operations
from firstlight_kernels.vectors import Vector, class_of, is_vector, like


class _Current(threading.local):
    """Whose rules hold in the trace that this thread of the system runs."""

    rules: Rules = "numba"
    operations = operations("numba")


_current = _Current()


def compute_as(rules: Rules) -> None:
    """Let numbers follow the rules of a compiler from here on."""
    _current.rules, _current.operations = rules, operations(rules)


class Number:
    """A number of a type that it keeps, where Numba infers one for each variable."""

    __slots__ = ()
    __array_priority__ = 1  # so that NumPy's scalars leave an operation with one of these to it
    real = property(lambda self: typed(scalar(self).real))
    imag = property(lambda self: typed(scalar(self).imag))


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

    def _same(self, *_: Any, **__: Any) -> Undefined:
        return self

    __array_ufunc__ = _same
    real = imag = property(_same)


_BASES = {"i": int, "u": int, "f": float, "c": complex}
_TYPED: dict[type, Any] = {}
for _code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"):
    _type = np.dtype(_code).type
    _TYPED[_type] = type(_type.__name__, (Number, _BASES[_code[0]]), {"__slots__": ()})
_SCALAR: dict[type, Any] = {kind: each for each, kind in _TYPED.items()}
Int64, Float32, Float64 = _TYPED[np.int64], _TYPED[np.float32], _TYPED[np.float64]


class NegativeInt64(Int64):  # type: ignore[misc,valid-type]
    """A negative number that stands in the source: as an index it counts from the end, which others do by mistake."""

    __slots__ = ()


_SCALAR[NegativeInt64] = np.int64


class Boolean(Number, int):
    """A truth."""

    __slots__ = ()

    def __new__(cls, value: object) -> Boolean:
        """Return one of two, so that `flag is True` holds, whose constant is typed, too."""
        return _TRUTHS[bool(value)]

    def __repr__(self) -> str:
        return str(bool(self))


_TYPED[np.bool_], _SCALAR[Boolean] = Boolean, np.bool_
_TRUTHS: dict[Any, Boolean] = {truth: int.__new__(Boolean, truth) for truth in (False, True)}
_AS_NUMPY = {bool: np.bool_, float: np.float64, complex: np.complex128}


def scalar(value: Any) -> Any:
    """Return a number as NumPy has it; anything else as it is."""
    if exact := _SCALAR.get(type(value)) or _AS_NUMPY.get(type(value)):
        return exact(value)
    if isinstance(value, np.integer):
        return value.astype(f"{value.dtype.kind}{value.dtype.itemsize}")
    if isinstance(value, int):
        return np.int64(value) if -(2**63) <= value < 2**63 else np.uint64(int(value) % 2**64)
    return like(value, map(scalar, value)) if isinstance(value, tuple) else value


def typed(value: Any) -> Any:
    """Return a number as kernels compute with it; anything else as it is."""
    if kind := _TYPED.get(type(value)):
        return kind(value)
    if isinstance(value, tuple):
        return like(value, map(typed, value))
    if isinstance(value, np.void) and is_vector(value.dtype):
        return class_of(value.dtype)(typed(value[field]) for field in value.dtype.names or ())
    number = scalar(value)
    return _TYPED.get(type(number), lambda same: same)(number)


def convert(value: Any, dtype: np.dtype) -> Any:
    """Return a number as an array of a type keeps it: integers lose their upper bits, floats are cut to the range."""
    number = scalar(value.kept() if isinstance(value, Undefined) else value)
    if is_vector(dtype) and not isinstance(number, np.void):
        if not isinstance(number, Vector) or number.dtype != dtype:
            raise TraceError(
                f"an array of {class_of(dtype).__name__} holds nothing else, and got {type(number).__name__}"
            )
        return tuple(number)
    return converted(number, dtype) if isinstance(number, np.number | np.bool_) else number


def typed_code(code: CodeType) -> CodeType:
    """Return a function's code in which the constants are typed."""

    def constant(value: Any) -> Any:
        if isinstance(value, CodeType):
            return typed_code(value)
        return NegativeInt64(value) if type(value) is int and value < 0 else typed(value)

    return code.replace(co_consts=tuple(map(constant, code.co_consts)))


_NUMBERS = (np.number, np.bool_, Vector)
_IN_DOUBLE = {(Float64, Float64), (Float64, Float32), (Float32, Float64)}
_SINGLE, _INTEGERS = (Float32, Float32), (Int64, Int64)


def _operation(name: str, *, reflected: bool = False) -> Callable[[Any, Any], Any]:
    quick = name in ("add", "sub", "mul") and not reflected
    of_floats: Any = getattr(float, f"__{name}__", None)
    of_integers: Any = getattr(int, f"__{name}__", None)

    def result(self: Any, other: Any) -> Any:
        if quick:
            pair = type(self), type(other)
            if pair in _IN_DOUBLE:
                return Float64(of_floats(self, other))
            if pair == _SINGLE:  # to round twice is exact here
                return Float32(np.float32(of_floats(self, other)))
            if pair == _INTEGERS and -(2**63) <= (exact := of_integers(self, other)) < 2**63:
                return Int64(exact)
        first, second = scalar(self), scalar(other)
        if reflected:
            first, second = second, first
        if not (isinstance(first, _NUMBERS) and isinstance(second, _NUMBERS)):
            return NotImplemented
        return typed(_current.operations[name](first, second))

    return result


def _of_one(name: str) -> Callable[[Any], Any]:
    return lambda self: typed(_current.operations[name](scalar(self)))


_COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")
_OPERATORS: dict[str, Callable[..., Any]] = {f"__{name}__": _of_one(name) for name in ("neg", "pos", "invert")}
for _name in BINARY:
    _OPERATORS[f"__{_name.strip('_')}__"] = _operation(_name)
    _OPERATORS[f"__r{_name.strip('_')}__"] = _operation(_name, reflected=True)
for _name, _operate in _OPERATORS.items():
    setattr(Number, _name, _operate)
for _name in (*_OPERATORS, *(f"__{name}__" for name in _COMPARED)):
    setattr(Undefined, _name, Undefined._same)


def _comparison(name: str, base: type) -> Callable[[Any, Any], Any]:
    compare, plain = getattr(operator, name), getattr(base, f"__{name}__")

    def result(self: Any, other: Any) -> Any:  # NumPy's scalars leave this to us, too
        found = compare(scalar(self), other) if isinstance(other, np.generic) else plain(self, other)
        return _TRUTHS.get(found, found)

    return result


for _kind in _TYPED.values():
    _base = _kind.__bases__[1]
    for _name in _COMPARED:
        setattr(_kind, f"__{_name}__", _comparison(_name, _base))
    _kind.__hash__ = _base.__hash__


class NumberType:
    """A type of NumPy or Numba in a kernel: it converts a number, and says what an array holds."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)

    def __call__(self, *given: Any) -> Any:
        """Return a number of this type."""
        return through_numpy(partial(of_type, self.dtype))(*given)


def through_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy's scalars as one of a kernel's numbers; of what nobody defined, it gives the same."""

    def result(*values: Any) -> Any:
        if Undefined in map(type, values):
            return next(each for each in values if type(each) is Undefined)
        return typed(function(*map(scalar, values)))

    return result


class Range:
    """A ``range`` of a kernel's numbers."""

    def __init__(self, *limits: float) -> None:
        self._numbers = range(*map(int, limits))  # Numba cuts what math.ceil returns, a float

    def __iter__(self) -> Iterator[Any]:
        return map(Int64, self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def builtins() -> dict[str, Any]:
    """Return what Python's own functions do in a kernel."""
    of_python = {name: through_numpy(function) for name, function in builtins_of(_current.rules).items()}
    return of_python | {"range": Range}


def as_in_kernels(value: Any) -> Any:
    """Return what a number, a type of numbers, or a function of ``math`` is in a kernel."""
    if (dtype := dtype_of(value)) is not None:
        return NumberType(dtype)
    if function := function_of(value, _current.rules):
        return through_numpy(function)
    return typed(value)
