"""What a traced kernel finds under the name ``cuda``: places, memory that is watched, barriers that wait."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from firstlight.kernels.backend import cuda, empty_copy, fill_copy, is_jitted, python_function
from firstlight.kernels.executor import WARP, Executor, Watched, codes_of, garbage
from firstlight.kernels.findings import Place, TraceError

FULL = 0xFFFFFFFF


def dims(place: Place) -> SimpleNamespace:
    """Return three numbers under the names x, y and z."""
    return SimpleNamespace(**dict(zip("xyz", place, strict=True)))


class Cuda:
    """The part of ``numba.cuda`` that a kernel uses while it runs."""

    warpsize = WARP

    def __init__(self, run: Executor) -> None:
        self._run = run
        self.blockDim, self.gridDim = dims(run.threads), dims(run.blocks)
        self.shared = SimpleNamespace(array=partial(self._array, "shared"))
        self.local = SimpleNamespace(array=partial(self._array, "local"))
        self.const = SimpleNamespace(array_like=np.asarray)
        self.atomic = SimpleNamespace(**{name: partial(self._atomic, change) for name, change in ATOMICS.items()})
        self.atomic.cas = self.atomic.compare_and_swap = self._swap  # the second of an array's first element
        for name, answer in {**VOTES, **COUNTS}.items():
            setattr(self, name, partial(self._vote, answer, name in COUNTS))
        for name, source in SHUFFLES.items():
            setattr(self, name, partial(self._shuffle, source))
        vars(self).update(FUNCTIONS)
        self.names = {*dir(self)}

    def __getattr__(self, name: str) -> Any:
        raise TraceError(f"cuda.{name} cannot be traced: it is not among what the tracer plays through")

    # -- Where a thread is ---------------------------------------------------------------------------------------------

    @property
    def threadIdx(self) -> SimpleNamespace:
        return dims(self._run.now.place)

    @property
    def blockIdx(self) -> SimpleNamespace:
        return dims(self._run.now.block)

    @property
    def laneid(self) -> int:
        return self._run.now.rank % WARP

    def grid(self, ndim: int) -> Any:
        now, sizes = self._run.now, self._run.threads
        at = tuple(b * size + t for b, size, t in zip(now.block, sizes, now.place, strict=True))
        return at[0] if ndim == 1 else at[:ndim]

    def gridsize(self, ndim: int) -> Any:
        sizes = tuple(b * t for b, t in zip(self._run.blocks, self._run.threads, strict=True))
        return sizes[0] if ndim == 1 else sizes[:ndim]

    # -- Memory --------------------------------------------------------------------------------------------------------

    def _array(self, space: str, shape: Any, dtype: Any) -> Watched:
        site = self._run.site(sys._getframe(1))
        kept = self._run.shared if space == "shared" else self._run.now.locals
        if site not in kept:
            sizes = shape if isinstance(shape, tuple) else (shape,)
            if not all(isinstance(size, int | np.integer) and size > 0 for size in sizes):
                raise TraceError(
                    f"an array of shape {shape!r}: give whole numbers that are known before the kernel runs"
                )
            kind = np.dtype(dtype_name(dtype))
            name = assigned(self._run.sites[site].source) or space
            kept[site] = self._run.watch(np.full(sizes, garbage(kind)), name, space, site)
        return kept[site]

    def _atomic(self, change: Callable[[Any, Any], Any], target: Watched, index: Any, value: Any) -> Any:
        return watched(target).change(index, lambda old: change(old, value), sys._getframe(1))

    def _swap(self, target: Watched, *given: Any) -> Any:
        *index, old, value = given
        return watched(target).change(
            index[0] if index else 0, lambda now: value if now == old else now, sys._getframe(1)
        )

    # -- Waiting for others --------------------------------------------------------------------------------------------

    def syncthreads(self) -> None:
        self._run.wait(sys._getframe(1))

    def syncwarp(self, mask: int = FULL) -> None:
        self._run.wait(sys._getframe(1), int(mask))

    def _vote(self, answer: Callable[[dict[int, Any]], Any], of_block: bool, *given: Any) -> Any:
        mask, value = (None, *given) if of_block else given
        return self._run.wait(sys._getframe(1), mask and int(mask), value, lambda values, _: answer(values))

    def _shuffle(self, source: Callable[[int, int], int], mask: int, value: Any, by: int) -> Any:
        def answer(values: dict[int, Any], lane: int) -> Any:
            other = source(lane, int(by))
            # A lane outside the warp gives nothing; one that takes no part gives something that nobody knows.
            return values.get(other, garbage(np.asarray(value).dtype)) if 0 <= other < WARP else value

        return self._run.wait(sys._getframe(1), int(mask), value, answer)


SHUFFLES: dict[str, Callable[[int, int], int]] = {
    "shfl_sync": lambda _, lane: lane % WARP,
    "shfl_up_sync": lambda lane, delta: lane - delta,
    "shfl_down_sync": lambda lane, delta: lane + delta,
    "shfl_xor_sync": lambda lane, mask: lane ^ mask,
}
VOTES: dict[str, Callable[[dict[int, Any]], Any]] = {  # of the lanes of a warp
    "all_sync": lambda values: all(values.values()),
    "any_sync": lambda values: any(values.values()),
    "eq_sync": lambda values: len(set(values.values())) == 1,
    "ballot_sync": lambda values: sum(1 << lane for lane, on in values.items() if on),
}
COUNTS: dict[str, Callable[[dict[int, Any]], int]] = {  # of the threads of a block
    "syncthreads_count": lambda values: sum(map(bool, values.values())),
    "syncthreads_and": lambda values: int(all(values.values())),
    "syncthreads_or": lambda values: int(any(values.values())),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("threadfence", "threadfence_block", "threadfence_system", "nanosleep"), lambda *_: None),
    "fma": lambda a, b, c: a * b + c,
    "cbrt": np.cbrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "selp": lambda condition, a, b: a if condition else b,
    "popc": lambda a: int(a & FULL if a < 0 else a).bit_count(),
    "brev": lambda a: int(f"{int(a) & FULL:032b}"[::-1], 2),
    "clz": lambda a: WARP - (int(a) & FULL).bit_length(),
    "ffs": lambda a: (int(a) & -int(a)).bit_length(),
}
ATOMICS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "max": lambda old, value: old if value != value else max(old, value),
    "min": lambda old, value: old if value != value else min(old, value),
    "nanmax": np.fmax,
    "nanmin": np.fmin,
    "and_": lambda old, value: old & value,
    "or_": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "exch": lambda _, value: value,
    "inc": lambda old, value: 0 if old >= value else old + 1,
    "dec": lambda old, value: value if old == 0 or old > value else old - 1,
}


def watched(target: Any) -> Watched:
    """Return the array of an atomic operation."""
    if not isinstance(target, Watched):
        raise TraceError(f"an atomic operation needs an array, and got {type(target).__name__}: {target!r}")
    return target


def assigned(source: str) -> str | None:
    """Return the name that a line gives to what it makes."""
    found = re.match(r"(\w+)\s*(?::[^=]+)?=[^=]", source)
    return found and found[1]


def dtype_name(dtype: Any) -> Any:
    """Return what NumPy calls a type of Numba's."""
    if isinstance(dtype, type | np.dtype | str):
        return dtype
    return {"boolean": "bool"}.get(name := str(dtype), name)


def instrument(
    function: FunctionType, traced_cuda: Cuda, codes: set[int], made: dict[int, FunctionType] | None = None
) -> FunctionType:
    """Return a copy of a kernel, and of the device functions that it calls, in which ``cuda`` is the traced one."""
    made = {} if made is None else made
    if known := made.get(id(function)):
        return known
    made[id(function)] = copy = empty_copy(function)  # before what it calls, which may be itself
    codes.update(codes_of(function.__code__))

    def translate(value: Any) -> Any:
        if value is cuda:
            return traced_cuda
        name = getattr(value, "__name__", "")
        if name in traced_cuda.names and value is getattr(cuda, name, None):  # imported from numba.cuda by its name
            return getattr(traced_cuda, name)
        return instrument(python_function(value), traced_cuda, codes, made) if is_jitted(value) else value

    fill_copy(copy, function, translate)
    return copy
