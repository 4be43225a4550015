"""What Python runs and no compiler takes in a kernel: told by its line, before or while the kernel is traced.

Only what is cheap to see is told here. The compiler knows the rest, and :meth:`Trace.compile` asks it.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from firstlight_kernels.findings import SourceLine, TraceError

_LIST = "a list. Make it a tuple, or an array with cuda.local.array"
_GENERATOR = "a generator. Write a loop"
_CONSTEVAL = "`with consteval()`. Compute it above the kernel"
_DICT = "a dict. Pass its numbers as arguments, or in an array"
_SET = "a set. Make it a tuple"
_TEXT = "an f-string. A kernel has no text, except in print('sum', x)"
_NO_END = "a loop that does nothing has no end"
_INVERTED = "it has ~ of what `not`, `is` or `in` gave, of which the tracer no longer knows the type. Write `not`"
_REFUSED = {
    "BUILD_LIST": _LIST,
    "BUILD_MAP": _DICT,
    "BUILD_CONST_KEY_MAP": _DICT,
    "BUILD_SET": _SET,
    "FORMAT_VALUE": _TEXT,
    "FORMAT_SIMPLE": _TEXT,
    "FORMAT_WITH_SPEC": _TEXT,
    "STORE_GLOBAL": "an assignment to a global name. Write into an array that is an argument",
    "PUSH_EXC_INFO": "try, or with. What raises in a kernel stops it",
    "RETURN_GENERATOR": _GENERATOR,
    "IMPORT_NAME": "an import. Write it above the kernel",
}
# After these Python keeps one of its own booleans, of which ``~`` is a number.
_PLAIN_TRUTHS = ("UNARY_NOT", "IS_OP", "CONTAINS_OP")
#: Python's functions that no compiler knows.
ABSENT = {
    name: f"{name}() is not in Numba for a GPU: {cure}"
    for name, cure in {
        "reversed": "count backwards, as in range(n - 1, -1, -1)",
        "sorted": "write a loop, or sort before the kernel",
        **dict.fromkeys(("all", "any"), "write a loop, or `and` and `or`"),
        **dict.fromkeys(("list", "dict", "set"), "take a tuple, or cuda.local.array"),
    }.items()
}


def _names(step: dis.Instruction) -> tuple[Any, ...]:
    """Return the names of an instruction: since Python 3.13, some load or store two."""
    return step.argval if isinstance(step.argval, tuple) else (step.argval,)


@cache
def check(code: CodeType) -> None:
    """Raise a TraceError if a function has what no compiler takes in a kernel."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("EXTENDED_ARG", "CACHE")]
    into_tuple = any("LIST_TO_TUPLE" in step.opname or "LIST_TO_TUPLE" in step.argrepr for step in steps)  # f(1, *two)
    stored = [after for step, after in pairwise(steps) if step.opname in _PLAIN_TRUTHS and "STORE" in after.opname]
    kept = {_names(step)[0] for step in stored}
    lines = [step.positions and step.positions.lineno for step in steps]
    for at, (before, step) in enumerate(pairwise([steps[0], *steps])):
        reason = _REFUSED.get(step.opname)
        # Python does not report a jump of a line to itself, so the limit could not stop such a loop.
        if "JUMP_BACKWARD" in step.opname and all(s.opname == "NOP" for s in steps[:at] if s.offset >= step.argval):
            reason = _NO_END
        if step.opname == "UNARY_INVERT" and (
            before.opname in _PLAIN_TRUTHS or ("LOAD" in before.opname and _names(before)[-1] in kept)
        ):
            reason = _INVERTED
        if reason and not (step.opname == "BUILD_LIST" and into_tuple):
            line = next(filter(None, lines[at:]), code.co_firstlineno)
            source = SourceLine(code.co_filename, line, code.co_name)
            if step.opname == "PUSH_EXC_INFO" and "consteval" in code.co_names + code.co_freevars:
                reason = _CONSTEVAL
            if reason in (_LIST, _GENERATOR, _CONSTEVAL):
                reason = f"not simulated: {reason}"  # numba-cuda-mlir knows them
            elif reason not in (_NO_END, _INVERTED):
                reason = f"no compiler takes it in a kernel: {reason}"
            raise TraceError(f"{reason} ({source})")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            check(constant)


class Refused:
    """What no kernel can use: whoever calls it, or takes a part of it, is told why."""

    def __init__(self, reason: str) -> None:
        vars(self)["reason"] = reason

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Raise a TraceError that says why."""
        raise TraceError(self.reason)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TraceError(self.reason)


def of_the_host(value: Any) -> Any:
    """Return a function, or a generator of random numbers, that a kernel can't use as what says so; or None."""
    owner, name = getattr(value, "__self__", value), getattr(value, "__name__", "")
    if type(owner).__name__ in ("Random", "RandomState", "Generator") and callable(getattr(owner, "random", None)):
        return Refused(
            "no kernel can use Python's or NumPy's random numbers: take those of numba.cuda.random, such as "
            "xoroshiro128p_uniform_float32(states, i)"
        )
    if type(value).__name__ in ("ExternFunction", "_Intrinsic") or (inspect.isfunction(value) and _has_no_body(value)):
        return Refused(f"{name or value.name} has no body in Python, so only a GPU can run it")
    if getattr(value, "__module__", "") == "numba_cuda_mlir.cuda.experimental":
        return Refused(f"{name} is not simulated: only numba-cuda-mlir knows what it does")
    if getattr(value, "__module__", "") == "numba_cuda_mlir.numba_cuda.random":
        return Refused(f"numba-cuda-mlir compiles no random numbers: {name} is numba-cuda's alone")
    if inspect.isfunction(value) and _package_of(value) not in ("numba", "numba_cuda_mlir"):
        if not _is_overloaded(value):
            return Refused(f"{name} is a plain function, which no kernel can call: put @cuda.jit(device=True) above it")
        if _package_of(value) != "numpy":
            return Refused(f"{name} does in a kernel what @overload told the compiler, so only a GPU can run it")
    if not isinstance(value, type | np.ufunc) and callable(value) and getattr(value, "__module__", "") == "numpy":
        return _makes_no_array(value)
    return None


def _has_no_body(function: FunctionType) -> bool:
    """Return whether a function only tells its arguments, as those of libdevice."""
    return all(
        step.opname in ("RESUME", "NOP", "RETURN_VALUE") or ("CONST" in step.opname and step.argval is None)
        for step in dis.get_instructions(function.__code__)
    )


def _package_of(function: object) -> str:
    return (getattr(function, "__module__", None) or "").partition(".")[0]


#: Where compilers keep what ``@overload`` tells them.
_REGISTRIES = {
    "numba.core.typing.templates": "builtin_registry",
    "numba.cuda.typing.templates": "builtin_registry",
    "numba_cuda_mlir.numba_cuda.typing.templates": "builtin_registry",
    "numba_cuda_mlir.extending": "typing_registry",
}


def _is_overloaded(function: object) -> bool:
    """Return whether somebody told a compiler, as by ``@overload``, what a function is in a kernel."""
    registries = [getattr(sys.modules.get(module), name, None) for module, name in _REGISTRIES.items()]
    return any(function is each for registry in registries if registry for each, _ in registry.globals)


def _makes_no_array(function: Any) -> Callable[..., Any]:
    def result(*given: Any, **more: Any) -> Any:
        found = function(*given, **more)
        if isinstance(found, np.ndarray) and found.ndim:
            name = getattr(function, "__name__", "this function")
            raise TraceError(
                f"np.{name} makes an array, which is not simulated: take cuda.local.array((3, 3), np.float32)"
            )
        return found

    return result


# -- Shapes ------------------------------------------------------------------------------------------------------------


def check_shape(code: CodeType, position: object, *, of_kernel: bool) -> None:
    """Raise a TraceError if a call that makes an array gives it a shape that the compiler can't know."""
    shape = _shape_of(code, position)
    if shape and not _is_constant(shape, code, of_kernel):
        raise TraceError(
            f"an array of shape {ast.unparse(shape)}: the compiler must know the shape, so give a number, or a name "
            "that is a number outside of the kernel"
        )


def _shape_of(code: CodeType, position: object) -> ast.expr | None:
    """Return the first argument of the call at some place in the source, or None where there is no source."""
    match position:
        case (int(first), int(last), int(begin), int(end)):
            lines = "".join(linecache.getlines(code.co_filename)[first - 1 : last])
            where = ast.Pass(lineno=1, end_lineno=last - first + 1, col_offset=begin, end_col_offset=end)
            with suppress(SyntaxError, IndexError, UnicodeError):  # the file has changed
                match ast.parse(f"({ast.get_source_segment(lines, where)})", mode="eval").body:
                    case ast.Call(args=args, keywords=named):
                        return next((one.value for one in named if one.arg == "shape"), args[0] if args else None)
    return None


def _is_constant(shape: ast.expr, code: CodeType, of_kernel: bool, seen: tuple[str, ...] = ()) -> bool:
    """Return whether the compiler may know a shape, whatever the kernel's arguments are."""
    match shape:
        case ast.Tuple(elts=sizes):
            return all(_is_constant(size, code, of_kernel, seen) for size in sizes)
        case ast.Name(id=name) if name in code.co_varnames[: code.co_argcount]:
            return not of_kernel  # a device function may be called with a constant
        case ast.Name(id=name) if name in code.co_varnames and name not in seen:
            return all(_is_constant(value, code, of_kernel, (*seen, name)) for value in _values_of(name, code))
        case ast.Constant() | ast.Name() | ast.Attribute(attr="ndim"):
            return True
        case ast.Attribute(attr="blockDim" | "gridDim"):
            return False
        case ast.Attribute(value=ast.Name(id=name)) if name in code.co_varnames:
            return False
        case ast.Attribute(value=owner) | ast.Subscript(value=owner):
            return _is_constant(owner, code, of_kernel, seen)
        case ast.BinOp(left=left, right=right):
            return isinstance(left, ast.Constant) and isinstance(right, ast.Constant)
    return False


def _values_of(name: str, code: CodeType) -> Iterator[ast.expr]:
    """Yield what a function gives to one of its names, as far as a line of it says so."""
    for step in dis.get_instructions(code):
        if "STORE_FAST" in step.opname and name in _names(step) and step.positions and step.positions.lineno:
            line = linecache.getline(code.co_filename, step.positions.lineno).strip()
            with suppress(SyntaxError):
                match ast.parse(line + " pass" * line.endswith(":")).body:
                    case [ast.Assign(value=value)] | [ast.AnnAssign(value=ast.expr() as value)]:
                        yield value
                    case [ast.AugAssign(value=value) | ast.For(iter=value)]:
                        yield ast.BinOp(ast.Name(name), ast.Add(), value)
