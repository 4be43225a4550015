"""Turn a kernel, and the device functions it uses, into plain data that another Python of the same version can read.

Source text does not always exist, and its lines would shift: so the code objects travel, with the values of the names
that they look up.
"""

from __future__ import annotations

import dis
import marshal
from collections.abc import Iterator
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from firstlight.kernels.cuda import cuda, is_jitted, python_function

OPTIONS = ("fastmath", "opt", "inline", "launch_bounds", "max_registers")
PLAIN = (type(None), bool, int, float, complex, str)
SAME_EVERYWHERE = ("builtins", "cmath", "math", "numba", "numpy", "operator")  # modules that are imported over there
CONSTANT_BYTES = 65536  # CUDA has so much constant memory


class NotShippable(Exception):
    """A name stands for something that no kernel can use."""

    def __init__(self, reason: str, code: CodeType, line: int) -> None:
        super().__init__(reason)
        self.code, self.line = code, line


def is_device(jitted: Any) -> bool:
    """Tell whether it says ``device=True``."""
    return bool(getattr(jitted, "_device", False) or getattr(jitted, "targetoptions", {}).get("device"))


def shipped(kernel: object) -> list[dict[str, Any]]:
    """Describe the kernel and, after it, every device function that can be reached from it.

    Parameters
    ----------
    kernel
        What ``@cuda.jit`` returned.

    Returns
    -------
    list of dict
        ``code``, ``options``, ``defaults`` and ``names`` of each function, to be pickled.

    Raises
    ------
    NotShippable
        If a name stands for something that no kernel can use.

    Examples
    --------
    >>> from firstlight.kernels import cuda
    >>> @cuda.jit
    ... def fill(out):
    ...     out[cuda.grid(1)] = 1
    >>> [sorted(function["names"]) for function in shipped(kernel=fill)]
    [['cuda']]
    """
    queue = [kernel]
    return [_described(jitted, queue) for jitted in queue]  # the queue grows while it is read


def _described(jitted: Any, queue: list[Any]) -> dict[str, Any]:
    function = python_function(jitted)
    code, names = function.__code__, dict[str, Any]()
    known = function.__globals__ | _closure(function)
    for name, attribute, line in _lookups(code):
        if name in known:
            try:
                names[name] = _joined(names.get(name), _sent(known[name], attribute, queue))
            except TypeError as error:
                raise NotShippable(f"{name} is {error}", code, line) from None
    try:
        defaults = _sent(function.__defaults__, None, queue)
    except TypeError as error:
        raise NotShippable(f"a default value is {error}", code, code.co_firstlineno) from None
    return {"code": marshal.dumps(code), "options": _options(jitted), "defaults": defaults, "names": names}


def _closure(function: FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if cell != type(cell)()}  # not those that are still empty


def _options(jitted: Any) -> dict[str, Any]:
    """Return what the decorator was told and the compiler must know; the simulator keeps only one of these."""
    told = getattr(jitted, "targetoptions", None) or {"fastmath": jitted._fastmath}
    return {name: told[name] for name in OPTIONS if told.get(name) is not None}


def _lookups(code: CodeType) -> Iterator[tuple[str, str | None, int]]:
    """Find the names that are looked up outside the function, and which attribute of each is taken at once."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    line = code.co_firstlineno
    for step, after in pairwise(steps):
        line = (step.positions and step.positions.lineno) or line
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
            yield step.argval, after.argval if after.opname in ("LOAD_ATTR", "LOAD_METHOD") else None, line
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lookups(constant)


def _sent(value: Any, attribute: str | None, queue: list[Any]) -> tuple[str, Any]:
    """Describe a value, or raise a TypeError that ends the sentence "the name is ..."."""
    from numba import types  # only here is it sure that the simulator's switch was set before

    if is_jitted(value):
        if not any(value is known for known in queue):
            queue.append(value)
        return "function", next(place for place, known in enumerate(queue) if known is value)
    if isinstance(value, ModuleType):
        return _module(value, attribute, queue)
    if type(value) is tuple:
        return "tuple", [_sent(item, None, queue) for item in value]
    if type(value) in PLAIN or isinstance(value, np.generic | np.dtype | np.ufunc | types.Type):
        return "value", value
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        if value.nbytes <= CONSTANT_BYTES:
            return "value", value
        raise TypeError(f"an array of {value.nbytes} bytes, and a kernel has room for {CONSTANT_BYTES} in its code. "
                        "Pass it as an argument")  # fmt: skip
    for name, own in vars(cuda).items():
        if value is own:
            return "member", ("numba.cuda", name)
    if isinstance(value, type | BuiltinFunctionType) and str(value.__module__).split(".")[0] in SAME_EVERYWHERE:
        return "value", value
    if callable(value) and hasattr(value, "__code__" if isinstance(value, FunctionType) else "py_func"):
        raise TypeError("a plain function, which no kernel can call. Put @cuda.jit(device=True) above it")
    raise TypeError(f"of type {type(value).__name__}, which no kernel can use. Pass its numbers as arguments")


def _module(module: ModuleType, attribute: str | None, queue: list[Any]) -> tuple[str, Any]:
    """Name a module that the other process can import; of any other, which may be the reader's, send what is used."""
    if module.__name__.split(".")[0] in SAME_EVERYWHERE:
        return "module", module.__name__
    used = {}
    if attribute and hasattr(module, attribute):
        used = {attribute: _sent(getattr(module, attribute), None, queue)}
    return "namespace", (module.__name__, used)


def _joined(before: tuple[str, Any] | None, now: tuple[str, Any]) -> tuple[str, Any]:
    """Put together what two lines use of one module."""
    if before and now[0] == "namespace":
        return "namespace", (now[1][0], before[1][1] | now[1][1])
    return now
