"""Launch a kernel where there is no GPU, of whichever compiler it is.

``kernel[blocks, threads](...)`` then runs the whole grid in lockstep, or, what can't run so, thread by thread. Where
there is a GPU, nothing is changed.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from firstlight_kernels import lockstep
from firstlight_kernels import threads as one_by_one
from firstlight_kernels.arguments import host_array, on_a_gpu, rebuilt
from firstlight_kernels.arithmetic import convert
from firstlight_kernels.compilers import MODULES, Compiler, compiler_of, dtype_of, imported, is_jitted, python_function
from firstlight_kernels.copies import outer_names
from firstlight_kernels.driver import cuda_device_count
from firstlight_kernels.findings import LaunchError
from firstlight_kernels.grids import BoundLaunch, blocks_for, size_of
from firstlight_kernels.host import HOST_API

__all__ = ["LaunchError", "blocks_for", "launch", "simulate", "simulated"]


def launch(
    kernel: object,
    blocks: int | Sequence[int],
    threads: int | Sequence[int],
    arguments: Sequence[Any] = (),
    shared_bytes: int = 0,
) -> None:
    """Run a kernel without a GPU.

    Parameters
    ----------
    kernel : object
        A function under ``@cuda.jit``.
    blocks, threads : int or tuple of int
        As in ``kernel[blocks, threads]``.
    arguments : list or tuple
        The kernel's arguments. The kernel writes into those that are arrays.
    shared_bytes : int
        The size of shared arrays of shape 0, as in ``kernel[blocks, threads, stream, shared_bytes]``.

    Raises
    ------
    TypeError, ValueError
        If it is no kernel, its arguments do not fit, or CUDA has no such grid.
    LaunchError
        If the kernel leaves an array, if part of a block misses a barrier, or if it has what isn't simulated. The
        message names the line, and the thread if there is one.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cuda
    >>> from firstlight_kernels.launch import launch
    >>> @cuda.jit
    ... def double(x):
    ...     x[cuda.grid(1)] *= 2
    >>> x = np.arange(4.0)
    >>> launch(double, 2, 2, [x])
    >>> x.tolist()
    [0.0, 2.0, 4.0, 6.0]
    """
    made = bound(kernel, blocks, threads, arguments, shared_bytes)
    _check_constants(kernel, set())
    try:
        lockstep.run(made)
    except lockstep.Unsupported:
        one_by_one.run(made)


def bound(kernel: Any, blocks: Any, threads: Any, arguments: Sequence[Any] = (), shared_bytes: int = 0) -> BoundLaunch:
    """Return a launch, or raise a TypeError or a ValueError if there is no such one."""
    function, rules = python_function(kernel), compiler_of(kernel).typing
    grid = size_of("blocks", blocks), size_of("threads", threads)
    return BoundLaunch(function, *grid, _arguments(kernel, function, tuple(arguments)), shared_bytes, rules)


def _arguments(kernel: Any, function: FunctionType, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a kernel's arguments, with its defaults, and of the types that its signatures ask for."""
    if len(given) != function.__code__.co_argcount or function.__kwdefaults__:
        given = _with_defaults(function, given)
    if getattr(kernel, "extensions", None):
        raise TypeError(
            f"extensions= of {function.__name__} may change its arguments, and only a GPU's launch asks them"
        )
    if not (signatures := _signatures(kernel)):
        return given
    own = types_of(kernel, given)
    kernel.typingctx.refresh()
    cases = [SimpleNamespace(args=types) for types in signatures]
    found = kernel.typingctx.resolve_overload(
        function.__name__, cases, own, {}, unsafe_casting=True, exact_match_required=False
    )
    if found is None:
        known, got = (" or ".join(f"({', '.join(map(str, types))})" for types in each) for each in (signatures, [own]))
        raise TypeError(
            f"{function.__name__} is compiled for {known} alone, and got {got}: give it such arrays, or leave its "
            "signature out"
        )
    kinds = map(dtype_of, found.args)
    return tuple(convert(value, kind) if kind else value for value, kind in zip(given, kinds, strict=True))


def types_of(kernel: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the types that a kernel's compiler gives to arguments."""

    def known(value: Any, _: str) -> Any:
        data = None if on_a_gpu(value) else host_array(value)
        return value if data is None else data

    return tuple(map(kernel.typeof_pyval, rebuilt(known, arguments, "")))


def _with_defaults(function: FunctionType, given: tuple[Any, ...]) -> tuple[Any, ...]:
    signature = inspect.signature(function)
    if function.__code__.co_flags & inspect.CO_VARARGS:
        raise TypeError(f"{function.__name__}{signature} is not simulated: give each argument a name")
    try:
        call = signature.bind(*given)
    except TypeError as error:
        raise TypeError(f"{function.__name__}{signature} got {len(given)} arguments: {error}") from None
    call.apply_defaults()
    return call.args


def _signatures(kernel: Any) -> tuple[Any, ...]:
    """Return the types of arguments for which alone a kernel is compiled; none if it is compiled for any."""
    if vars(kernel).get("_closed"):  # without a GPU
        return tuple(vars(kernel).get("_wanted", ()))
    return () if getattr(kernel, "_can_compile", True) else tuple(kernel.overloads)


_CONSTANTS = (int, float, complex, np.generic, np.ndarray)


def _check_constants(kernel: Any, seen: set[object]) -> None:
    """Raise a LaunchError if a number or an array from outside of a kernel, or of what it calls, has changed."""
    seen.add(kernel)
    function, first = kernel.py_func, vars(kernel).setdefault("_constants", {})
    for name, value in outer_names(function).items():
        if is_jitted(value) and value not in seen:
            _check_constants(value, seen)
        if not isinstance(value, _CONSTANTS):
            continue
        now = value.tobytes() if isinstance(value, np.ndarray) else value
        if first.setdefault(name, now) != now and now == now:
            raise LaunchError(
                f"{name} has changed since {function.__name__} was first launched. The compiler made a constant of "
                "it, which stays what it was for arguments of the same types: make it an argument"
            )


# -- In the compilers' place -------------------------------------------------------------------------------------------


@cache
def simulated() -> bool:
    """Return whether there is no GPU for CUDA, so that launches are simulated (``cuda.is_available()`` is false then).

    Returns
    -------
    bool
        True where a kernel is run by Python: its results can be trusted, its times mean nothing.

    Examples
    --------
    >>> from firstlight_kernels import simulated
    >>> n = 1_000 if simulated() else 10_000_000
    """
    return not cuda_device_count()


def simulate() -> None:
    """Simulate launches if there is no GPU, with the compilers that are imported and those that will be.

    Importing anything from ``firstlight_kernels`` itself, such as ``trace``, does that, too. A program that takes
    nothing else from it calls this once, before it makes or copies arrays.

    Examples
    --------
    >>> import firstlight_kernels
    >>> firstlight_kernels.simulate()
    >>> from numba import cuda
    >>> cuda.to_device([1.0, 2.0]).copy_to_host()
    array([1., 2.])
    """
    when_imported(_replace if simulated() else _silence)


_watching: list[list[object]] = []


@contextmanager
def launches_seen() -> Iterator[list[object]]:
    """Collect the kernels whose launches are simulated meanwhile: how long that takes says nothing about a GPU."""
    seen: list[object] = []
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching[:] = [each for each in _watching if each is not seen]


def _configure(
    kernel: Any,
    griddim: Any,
    blockdim: Any,
    stream: object = 0,  # noqa: ARG001
    sharedmem: int | None = 0,
    cluster: object = None,  # noqa: ARG001
) -> Callable[..., None]:
    """Return a kernel with the size of its grid, which a call runs."""

    def launched(*arguments: Any) -> None:
        for seen in _watching:
            seen.append(kernel)
        launch(kernel, griddim, blockdim, arguments, sharedmem or 0)

    return launched


def _for_all(kernel: Any, ntasks: int, tpb: int = 0, stream: object = 0, sharedmem: int = 0) -> Callable[..., None]:
    """Return a kernel with a thread for each task."""
    threads = tpb or 128
    if not ntasks:
        return lambda *_: None
    configured: Callable[..., None] = kernel[-(-ntasks // threads), threads, stream, sharedmem]
    return configured


def _replace(compiler: Compiler) -> None:
    """Let the kernels of a compiler run here, and what surrounds them live in the host's memory."""
    cuda, dispatcher = compiler.cuda, compiler.dispatcher
    if not hasattr(dispatcher, "configure"):  # NUMBA_ENABLE_CUDASIM asks for Numba's own simulator
        return
    members: dict[str, Any] = {"configure": _configure, "forall": _for_all, "disable_compile": _close}
    for name in ("compile", "compile_device"):
        if hasattr(dispatcher, name):
            members[name] = _without_device(getattr(dispatcher, name))
    for name, value in members.items():
        setattr(dispatcher, name, value)
    vars(cuda).update({name: value for name, value in HOST_API.items() if name in vars(cuda)})


def _close(kernel: Any, val: bool = True) -> None:
    """Compile for no other types than those of a kernel's signatures."""
    vars(kernel)["_closed"] = val


def _silence(compiler: Compiler) -> None:
    """Let a compiler say nothing of small grids, which are small on purpose; the variable brings the warning back."""
    if "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS" not in os.environ:
        module = vars(sys.modules[compiler.dispatcher.__module__])
        (module.get("cuda_config") or module["config"]).CUDA_LOW_OCCUPANCY_WARNINGS = 0


def _without_device(compile_now: Callable[..., Any]) -> Callable[..., Any]:
    """Return what compiles for signatures, and leaves that until there is a device to compile for."""

    def compiled(self: Any, given: Any, *more: Any, **options: Any) -> Any:
        if isinstance(given, tuple):
            vars(self)["_wanted"] = (*vars(self).get("_wanted", ()), given)
        try:
            return compile_now(self, given, *more, **options)
        except Exception as error:
            if type(error).__name__ != "CudaSupportError":
                raise
            return None

    return compiled


# -- Compilers that are imported later ---------------------------------------------------------------------------------

_WHEN_IMPORTED: list[Callable[[Compiler], None]] = []
_DONE: set[tuple[object, Compiler]] = set()


def when_imported(act: Callable[[Compiler], None]) -> None:
    """Do something with each compiler: those that are imported, now; the others when they are."""
    if act in _WHEN_IMPORTED:
        return
    if not _WHEN_IMPORTED:
        sys.meta_path.insert(0, _Finder())
    _WHEN_IMPORTED.append(act)
    _act()


def _act() -> None:
    """Do what is to be done with each compiler that is imported, once."""
    for compiler in imported():
        for act in _WHEN_IMPORTED:
            if (act, compiler) not in _DONE:
                _DONE.add((act, compiler))
                act(compiler)


class _Finder(MetaPathFinder):
    """Finds a compiler as the others find it, to act when it has been imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in MODULES:
            return None
        others = (each for each in sys.meta_path if each is not self)
        spec = next((found for each in others if (found := each.find_spec(fullname, path, target))), None)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _act()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


simulate()  # who asks for any name of this module has kernels to launch
