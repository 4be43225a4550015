"""What a traced kernel finds under the name ``cuda``: places, memory that is watched, barriers that wait."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from firstlight.kernels.executor import WARP, Executor
from firstlight.kernels.findings import Place, TraceError
from firstlight.kernels.watched import Watched, garbage

FULL = 0xFFFFFFFF


def dims(place: Place) -> SimpleNamespace:
    """Give three numbers the names x, y and z."""
    return SimpleNamespace(**dict(zip("xyz", place, strict=True)))


class Cuda:
    """The part of ``numba.cuda`` that a kernel uses while it runs."""

    warpsize = WARP

    def __init__(self, run: Executor) -> None:
        self._run = run
        self.blockDim, self.gridDim = dims(run.threads), dims(run.blocks)
        self.shared = SimpleNamespace(array=self._shared_array)
        self.local = SimpleNamespace(array=self._local_array)
        self.const = SimpleNamespace(array_like=self._constant)
        self.atomic = SimpleNamespace(**{name: partial(self._atomic, change) for name, change in ATOMICS.items()})
        self.atomic.compare_and_swap = self._compare_and_swap
        self.atomic.cas = self._cas

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

    def _shared_array(self, shape: Any, dtype: Any) -> Watched:
        frame = sys._getframe(1)
        site = self._run.site(frame)
        if site not in self._run.shared:
            name = assigned(self._run.sites[site].source) or "shared"
            self._run.shared[site] = self._new(shape, dtype, name, "shared", site)
        return self._run.shared[site]

    def _local_array(self, shape: Any, dtype: Any) -> Watched:
        site = self._run.site(sys._getframe(1))
        mine: dict[int, Watched] = self._run.now.locals
        if site not in mine:
            mine[site] = self._new(shape, dtype, assigned(self._run.sites[site].source) or "local", "local", site)
        return mine[site]

    def _new(self, shape: Any, dtype: Any, name: str, space: str, site: int) -> Watched:
        sizes = shape if isinstance(shape, tuple) else (shape,)
        if not all(isinstance(size, int | np.integer) and size > 0 for size in sizes):
            raise TraceError(f"an array of shape {shape!r}: give whole numbers that are known before the kernel runs")
        kind = np.dtype(dtype_name(dtype))
        return self._run.watch(np.full(sizes, garbage(kind)), name, space, site)

    def _constant(self, data: np.ndarray) -> np.ndarray:
        return np.asarray(data)

    # -- Atomics -------------------------------------------------------------------------------------------------------

    def _atomic(self, change: Callable[[Any, Any], Any], target: Watched, index: Any, value: Any) -> Any:
        return watched(target).change(index, lambda old: change(old, value), sys._getframe(1))

    def _compare_and_swap(self, target: Watched, old: Any, value: Any) -> Any:
        return watched(target).change(0, lambda now: value if now == old else now, sys._getframe(1))

    def _cas(self, target: Watched, index: Any, old: Any, value: Any) -> Any:
        return watched(target).change(index, lambda now: value if now == old else now, sys._getframe(1))

    # -- Waiting for others --------------------------------------------------------------------------------------------

    def syncthreads(self) -> None:
        self._run.wait(sys._getframe(1))

    def syncthreads_count(self, predicate: Any) -> int:
        return self._all(predicate, lambda values, _: sum(map(bool, values.values())), sys._getframe(1))

    def syncthreads_and(self, predicate: Any) -> int:
        return self._all(predicate, lambda values, _: int(all(values.values())), sys._getframe(1))

    def syncthreads_or(self, predicate: Any) -> int:
        return self._all(predicate, lambda values, _: int(any(values.values())), sys._getframe(1))

    def _all(self, value: Any, answer: Callable[[dict[int, Any], int], int], frame: Any) -> int:
        return int(self._run.wait(frame, None, value, answer))

    def syncwarp(self, mask: int = FULL) -> None:
        self._run.wait(sys._getframe(1), int(mask))

    def shfl_sync(self, mask: int, value: Any, src_lane: int) -> Any:
        return self._from_lane(mask, value, lambda _: int(src_lane) % WARP, sys._getframe(1))

    def shfl_up_sync(self, mask: int, value: Any, delta: int) -> Any:
        return self._from_lane(mask, value, lambda lane: lane - int(delta), sys._getframe(1))

    def shfl_down_sync(self, mask: int, value: Any, delta: int) -> Any:
        return self._from_lane(mask, value, lambda lane: lane + int(delta), sys._getframe(1))

    def shfl_xor_sync(self, mask: int, value: Any, lane_mask: int) -> Any:
        return self._from_lane(mask, value, lambda lane: lane ^ int(lane_mask), sys._getframe(1))

    def _from_lane(self, mask: int, value: Any, source: Callable[[int], int], frame: Any) -> Any:
        def answer(values: dict[int, Any], lane: int) -> Any:
            other = source(lane)
            # A lane outside the warp gives nothing; one that takes no part gives something that nobody knows.
            return values.get(other, garbage(np.asarray(value).dtype)) if 0 <= other < WARP else value

        return self._run.wait(frame, int(mask), value, answer)

    def all_sync(self, mask: int, predicate: Any) -> bool:
        return bool(self._run.wait(sys._getframe(1), int(mask), predicate, lambda v, _: all(v.values())))

    def any_sync(self, mask: int, predicate: Any) -> bool:
        return bool(self._run.wait(sys._getframe(1), int(mask), predicate, lambda v, _: any(v.values())))

    def eq_sync(self, mask: int, value: Any) -> bool:
        return bool(self._run.wait(sys._getframe(1), int(mask), value, lambda v, _: len(set(v.values())) == 1))

    def ballot_sync(self, mask: int, predicate: Any) -> int:
        return int(
            self._run.wait(
                sys._getframe(1), int(mask), predicate, lambda v, _: sum(1 << lane for lane, on in v.items() if on)
            )
        )

    # -- Arithmetic ----------------------------------------------------------------------------------------------------

    def threadfence(self) -> None: ...
    def threadfence_block(self) -> None: ...
    def threadfence_system(self) -> None: ...
    def nanosleep(self, _: int) -> None: ...

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return a * b + c

    def cbrt(self, a: Any) -> Any:
        return np.cbrt(a)

    def rsqrt(self, a: Any) -> Any:
        return 1 / np.sqrt(a)

    def selp(self, condition: Any, a: Any, b: Any) -> Any:
        return a if condition else b

    def popc(self, a: int) -> int:
        return int(a & FULL if a < 0 else a).bit_count()

    def brev(self, a: int) -> int:
        return int(f"{int(a) & FULL:032b}"[::-1], 2)

    def clz(self, a: int) -> int:
        return WARP - (int(a) & FULL).bit_length()

    def ffs(self, a: int) -> int:
        return (int(a) & -int(a)).bit_length()


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
