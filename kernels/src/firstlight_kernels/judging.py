"""Judge a launch: run it in several orders and compare, then trace it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from firstlight_kernels import lockstep, threads
from firstlight_kernels.arguments import on_host
from firstlight_kernels.arrays import LOAD
from firstlight_kernels.executor import TooLongError
from firstlight_kernels.findings import LaunchError, SourceLine, TraceError, element_name
from firstlight_kernels.launch import bound
from firstlight_kernels.tracing import Trace, trace

#: Lines that a trace may run, all threads together: a test has seconds, not minutes.
_LIMIT = 100_000


def problems_of(
    kernel: Any, blocks: Any, threads_: Any, arguments: Sequence[Any], shared_bytes: int, outputs: Iterable[str]
) -> list[str]:
    """Return what is wrong with a launch, which leaves its arrays as they were.

    Parameters
    ----------
    kernel, blocks, threads_, arguments, shared_bytes
        As for ``launch``.
    outputs : iterable of str
        The arguments of which each element must be written.

    Returns
    -------
    list of str
        A sentence for each problem; empty if none was found.
    """
    launch = bound(kernel, blocks, threads_, arguments, shared_bytes)
    arrays: dict[str, np.ndarray] = {}

    def collected(value: Any, data: np.ndarray | None, name: str) -> Any:
        return value if data is None else arrays.setdefault(name, data)

    launch = replace(launch, arguments=on_host(collected, launch)[0])
    before = {name: data.copy() for name, data in arrays.items()}

    def after(run: Callable[[], object]) -> dict[str, np.ndarray]:
        try:
            run()
            return {name: data.copy() for name, data in arrays.items()}
        finally:
            for name, data in arrays.items():
                data[...] = before[name]

    orders: dict[str, Callable[[], object]] = {
        "all threads at once": lambda: lockstep.run(launch),
        "one after the other": lambda: threads.run(launch),
        "from the last one back": lambda: threads.run(launch, backwards=True),
    }
    results, traced, stopped, more = {}, [], "", {"shared_bytes": shared_bytes, "limit": _LIMIT}
    for order, run in orders.items():
        try:
            results[order] = after(run)
        except lockstep.Unsupported:
            continue
        except LaunchError as error:
            stopped = stopped or str(error)
    try:
        after(lambda: traced.append(trace(kernel, blocks, threads_, *launch.arguments, **more)))
    except TooLongError:
        # The order of atomic operations may be seen in a right result.
        code = launch.function.__code__
        differ = _difference(results) if "atomic" not in code.co_names else None
        line = SourceLine(code.co_filename, code.co_firstlineno, code.co_name)
        return [each for each in (stopped, differ and f"{differ}; {line}") if each]
    except TraceError as error:
        return [stopped or str(error)]
    problems = list(map(str, traced[0].problems))
    return problems or [*([stopped] if stopped else []), *_unwritten(traced[0], outputs)]


def _difference(results: dict[str, dict[str, np.ndarray]]) -> str | None:
    """Return where the results of two orders differ by more than rounding, in words."""
    (first, expected), *others = results.items()
    for order, found in others:
        for name, data in found.items():
            other = expected[name]
            if data.dtype.kind in "fc":
                exact = np.finfo(data.dtype).eps ** 0.5
                equal = np.isclose(data, other, rtol=exact, atol=exact * np.abs(other).max(initial=0), equal_nan=True)
            else:
                equal = data == other
            if not np.all(equal):
                at = tuple(map(int, np.argwhere(~equal)[0]))
                return (
                    f"{element_name(name, at)} depends on the order of the threads: {other[at]} with {first}, "
                    f"{data[at]} with {order}. The launch is too large for a trace: a smaller one names the line"
                )
    return None


def _unwritten(traced: Trace, outputs: Iterable[str]) -> list[str]:
    """Return the outputs of which an element was not written, in words."""
    found = []
    for number, array in enumerate(traced.arrays):
        if array.space != "global" or array.name not in outputs:
            continue
        rows = traced.accesses[(traced.accesses["array"] == number) & (traced.accesses["kind"] != LOAD)]
        written = {array.index(int(offset)) for offset in np.unique(rows["offset"])}
        missed = [at for at in np.ndindex(array.shape) if at not in written]
        if missed:
            more = f" (and {len(missed) - 1} more)" if len(missed) > 1 else ""
            found.append(f"{element_name(array.name, missed[0])}{more} was written by no thread")
    return found
