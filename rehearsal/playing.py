"""What a kernel's launch would do, done by Python: as `firstlight_kernels.trace` does it, without notes.

A thread outside of an array is an error, where a card would read or write what lies there. Numba counts negative
indices from the end; so does this.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from types import FunctionType
from typing import Any

import numpy as np

from firstlight_kernels.copies import looked_up_names
from firstlight_kernels.executor import Executor, Thread
from firstlight_kernels.findings import Dim3
from firstlight_kernels.grids import BoundLaunch, unravelled
from firstlight_kernels.intrinsics import _ATOMICS, BLOCK_VOTES, SHUFFLES, VOTES, TracedCuda, instrument

LIMIT = int(os.environ.get("REHEARSAL_THREADS", 100_000))  # threads of a launch
FEW = 2_000  # threads of a pass over pixels, of which no more are played
Launch = Callable[[], None]
WAITING = {"syncthreads", "syncwarp", *BLOCK_VOTES, *SHUFFLES, *VOTES}


class Names(TracedCuda):
    """What a kernel finds under the name `cuda`; arrays are NumPy's."""

    def grid(self, ndim: int) -> Any:
        thread, sizes = self._executor.current, self._executor.threads
        x = thread.block.x * sizes.x + thread.index.x
        return x if ndim == 1 else (x, *super().grid(3)[1:ndim])

    def _atomic(self, name: str, target: np.ndarray, index: Any, *values: Any) -> Any:
        if name == "compare_and_swap":
            index, values = 0, (index, *values)
        old = target[index]
        target[index] = _ATOMICS[name](old, *values)
        return old


class Player(Executor):
    """Plays one kernel, made again with a `cuda` of its own and the globals of its first launch, as Numba does."""

    def __init__(self, kernel: FunctionType) -> None:
        super().__init__(BoundLaunch(kernel, Dim3(1, 1, 1), Dim3(1, 1, 1), ()), 0)
        self.cuda, made = Names(self), {}
        self.function = instrument(kernel, self.cuda, self.codes, made)
        self.kernel = self.function.__code__
        used = [looked_up_names(one.__code__) for one in made.values() if isinstance(one, FunctionType)]
        self.waits = any(WAITING & {name, *taken} for names in used for name, taken in names.items())

    def play(self, blocks: Dim3, threads: Dim3, arguments: Sequence[Any]) -> None:
        """Run the whole grid, block after block."""
        self.blocks, self.threads = blocks, threads
        self.cuda.blockDim, self.cuda.gridDim = threads, blocks
        everywhere = [unravelled(rank, threads) for rank in range(prod(threads))]
        for number in range(prod(blocks)):
            self.shared_arrays.clear()
            (self._together if self.waits else self._alone)(unravelled(number, blocks), everywhere, arguments)

    def _alone(self, block: Dim3, everywhere: list[Dim3], arguments: Sequence[Any]) -> None:
        """Run a block of threads that never wait, one after the other."""
        self.current = Thread(0, 0, everywhere[0], block)
        with np.errstate(all="ignore"):
            for self.current.rank, self.current.index in enumerate(everywhere):
                self.current.local_arrays.clear()
                try:
                    self.function(*arguments)
                except Exception as error:
                    raise self._located(error) from error

    def _together(self, block: Dim3, everywhere: list[Dim3], arguments: Sequence[Any]) -> None:
        """Run a block of threads that wait for each other, each until it has to."""
        threads = [Thread(rank, rank, index, block) for rank, index in enumerate(everywhere)]

        def work() -> None:
            with np.errstate(all="ignore"):  # each greenlet has a context of its own
                self.function(*arguments)

        self._run_threads(threads, work)

    def _resume_count(self) -> None:
        """Count no lines."""

    def _located(self, error: Exception) -> Exception:
        return type(error)(f"{self.function.__name__}: {super()._located(error)}")

    def trace_array(self, data: np.ndarray, *_: object) -> Any:
        """Let an array be one of NumPy's."""
        return data


@cache
def made_again(kernel: FunctionType) -> Player:
    """Return what plays a kernel."""
    return Player(kernel)


def player(kernel: FunctionType, blocks: Sequence[int], threads: Sequence[int], given: Sequence[Any]) -> Launch:
    """Return what does the work of a launch."""
    count, arguments = prod(blocks) * prod(threads), [in_kernel(each) for each in given]
    if count > FEW and (same := on_processor().get(kernel.__code__)):
        return lambda: same(*arguments)
    if count > LIMIT:
        raise NotImplementedError(f"{kernel.__name__}: {count:,} threads in a launch, and at most {LIMIT:,} are played")
    return lambda: made_again(kernel).play(Dim3(*blocks), Dim3(*threads), arguments)


def on_processor() -> dict[Any, Any]:
    """Find the fused kernels as they are compiled for a CPU: the same functions, with a loop for a row's threads.

    It sums up in the first thread's place, and leaves the zeros in those of the others.
    """
    fused = sys.modules.get("firstlight_imaging.fitting.fused_kernels")
    return {each.py_func.__code__: each for each in fused.CPU_KERNELS.values()} if fused else {}


def in_kernel(argument: Any) -> Any:
    """Return what a kernel gets: the memory of an array, and a float as Numba types it."""
    if hasattr(argument, "__cuda_array_interface__"):
        return on_host(argument)
    return np.float64(argument) if type(argument) is float else argument


def on_host(array: Any) -> np.ndarray:
    """Return an array in the same memory as one on a card."""
    facts = array.__cuda_array_interface__
    kind, shape = np.dtype(facts["typestr"]), facts["shape"]
    if 0 in shape:
        return np.empty(shape, kind)
    strides = facts.get("strides") or [kind.itemsize * prod(shape[axis + 1 :]) for axis in range(len(shape))]
    size = kind.itemsize + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    memory = (ctypes.c_char * size).from_address(facts["data"][0])
    memory.owner = array
    return np.ndarray(shape, kind, memory, strides=strides)
