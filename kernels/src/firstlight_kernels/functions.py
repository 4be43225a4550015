"""What functions of Python, ``math``, NumPy and ``cuda`` do to NumPy's numbers: to one, or to one for each thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from firstlight_kernels.promotion import (
    BINARY,
    NotCompiledError,
    Rules,
    complex_of,
    converted,
    extreme,
    operations,
    truth,
    vector_of,
)
from firstlight_kernels.vectors import Vector, is_vector

_HALF, _WHOLE = np.dtype(np.float16), np.dtype(np.int64)


@cache
def _known_function(value: Any, rules: Rules) -> Callable[..., Any] | None:
    if isinstance(value, np.ufunc):
        return of_numpy(value)
    if value.__module__ == "math":
        return _of_math(value, rules)
    return builtins_of(rules).get(value.__name__) if value.__module__ in ("builtins", "_operator") else None


def function_of(value: Any, rules: Rules = "numba") -> Callable[..., Any] | None:
    """Return what a function does in a kernel, or None if it isn't known."""
    return _known_function(value, rules) if isinstance(value, np.ufunc | BuiltinFunctionType | type) else None


def of_numpy(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return a ufunc of numbers: NumPy has some for ``float16``, and Numba has none."""
    small = (np.dtype(np.int8), np.dtype(np.uint8))
    return lambda *values: ufunc(*(each.astype(np.int16) if each.dtype in small else each for each in values))


def _of_math(function: Callable[..., Any], rules: Rules) -> Callable[..., Any]:
    """Return a function of ``math``: it gives ``float32`` for ``float32``, and never raises."""
    name = function.__name__

    def of_one(*values: Any) -> Any:
        try:
            return function(*values)
        except (OverflowError, ValueError):
            return np.inf if name == "lgamma" or (name == "gamma" and values[0] >= 0) else np.nan

    operate = getattr(np, name, None) or (lambda value, *more: _one_by_one(of_one, value.dtype, value, *more))

    def as_float(value: Any) -> Any:
        if value.dtype.kind == "b" and rules == "mlir":
            raise NotCompiledError(f"math.{name} of a boolean is not compiled for a GPU")
        small = rules == "mlir" and value.dtype.itemsize < 8
        return value.astype(np.float32 if small else np.float64) if value.dtype.kind in "iub" else value

    def result(value: Any, *more: Any) -> Any:
        value = as_float(value)
        found = operate(value, *(more if name == "ldexp" else map(as_float, more)))
        if rules == "mlir" and name in ("floor", "ceil", "trunc"):
            return converted(found, np.dtype(np.int64 if value.dtype.itemsize == 8 else np.int32))
        return found

    return result


def _one_by_one(function: Callable[..., Any], dtype: np.dtype, *values: Any) -> Any:
    """Return what a function of Python's numbers gives for each."""
    return np.asarray(np.frompyfunc(function, len(values), 1)(*values)).astype(dtype)[()]


def _int(value: Any = np.int64(0)) -> Any:  # noqa: B008 -- a number
    return converted(value, _WHOLE) if value.dtype.kind in "fb" else value


def _float(value: Any = np.float64(0)) -> Any:  # noqa: B008
    return value if value.dtype.kind == "f" else value.astype(np.float64)


def _round(value: Any, digits: Any = None) -> Any:
    return converted(np.rint(value), _WHOLE) if digits is None else _one_by_one(round, value.dtype, value, digits)


def _complex(real: Any, imag: Any = np.float64(0)) -> Any:  # noqa: B008
    if not isinstance(real, Vector):
        return real + 1j * imag
    small = real.x.itemsize <= (4 if real.x.dtype.kind == "f" else 2)
    return complex_of(real.x, real.y, np.dtype(np.complex64 if small else np.complex128))


def of_type(dtype: np.dtype, value: Any = np.int64(0), *more: Any) -> Any:  # noqa: B008
    """Return a number, or a vector, of a type."""
    if is_vector(dtype):
        return vector_of(dtype, (value, *more))
    if isinstance(value, Vector):
        value = _complex(value)
    elif more:
        (imag,) = more
        value = complex_of(value, imag, dtype)
    return truth(value) if dtype.kind == "b" else converted(value, dtype)


def element_dtype(given: Any, rules: Rules) -> np.dtype:
    """Return what a shared or local array of a type holds."""
    dtype: np.dtype = np.dtype(given)
    if is_vector(dtype) and rules == "numba":
        raise NotCompiledError("an array of vectors is not compiled for a GPU by numba-cuda")
    return dtype


@cache
def builtins_of(rules: Rules) -> dict[str, Callable[..., Any]]:
    """Return what Python's own functions do, and those of its module ``operator``."""
    own = operations(rules)
    found: dict[str, Callable[..., Any]] = {
        "abs": abs,
        "bool": lambda value=np.bool_(False): truth(value),  # noqa: B008
        "complex": _complex,
        "divmod": lambda first, second: (own["floordiv"](first, second), own["mod"](first, second)),
        "float": _float,
        "int": _int,
        "max": extreme("max"),
        "min": extreme("min"),
        "round": _round,
    }
    return found | {name: own[name] for name in BINARY}


# -- Of cuda -----------------------------------------------------------------------------------------------------------


def _of_bits(function: Callable[[str], int], *, same: bool = False) -> Callable[[Any], Any]:
    """Return a function of the bits of an integer, as many as its type has."""

    def result(value: Any) -> Any:
        whole = np.dtype(f"u{value.dtype.itemsize}")

        def of_one(number: int) -> int:
            return function(f"{number:0{8 * whole.itemsize}b}")

        return _one_by_one(of_one, whole if same else _WHOLE, value.view(whole))

    return result


def _of_half(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of ``float16``, rounded once."""

    def result(*values: Any) -> Any:
        found = function(*(converted(value, _HALF).astype(np.float64) for value in values))
        return found if found.dtype == np.bool_ else found.astype(_HALF)

    return result


#: Functions of numbers, by how a kernel calls them after ``cuda.``
OF_CUDA: dict[str, Callable[..., Any]] = {
    "fma": lambda a, b, c: a * b + c,
    "cbrt": np.cbrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "popc": _of_bits(lambda bits: bits.count("1")),
    "brev": _of_bits(lambda bits: int(bits[::-1], 2), same=True),
    "clz": _of_bits(lambda bits: len(bits) - len(bits.lstrip("0"))),
    "ffs": _of_bits(lambda bits: (len(bits) - bits.rfind("1")) % (len(bits) + 1)),
}
_OF_HALF: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("ceil", "cos", "exp", "exp2", "floor", "log", "log2", "log10", "rint",
                                            "sin", "sqrt", "tanh", "trunc")},
    "abs": np.abs, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "max": np.fmax, "min": np.fmin, "tanh_approx": np.tanh, "fma": OF_CUDA["fma"], "rsqrt": OF_CUDA["rsqrt"],
    "exp10": lambda a: 10.0**a,
    "rcp": lambda a: 1 / a,
}  # fmt: skip
OF_CUDA |= {f"fp16.h{name}": _of_half(function) for name, function in _OF_HALF.items()}
