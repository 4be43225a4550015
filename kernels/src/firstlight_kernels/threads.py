"""Run a kernel one thread after the other, each until it ends or has to wait: what can't run in lockstep runs here.

It is the executor of a trace without its notes. What would be a finding of a trace, and stops no GPU, stops this: an
index out of bounds, and threads that wait for each other at different barriers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from firstlight_kernels.arguments import on_host
from firstlight_kernels.arithmetic import Int64, convert, typed
from firstlight_kernels.arrays import TracedArray
from firstlight_kernels.executor import Executor, Thread, Wait
from firstlight_kernels.findings import Dim3, LaunchError, OutOfBoundsError, SourceLine, TraceError
from firstlight_kernels.grids import BoundLaunch
from firstlight_kernels.intrinsics import TracedCuda, instrument

#: So often all threads together may give way, with none that ends, reaches a barrier or changes memory.
_MOST_TURNS = 3_000_000
_WHOLE = {Int64}  # of what a quick index consists


def run(launch: BoundLaunch, *, backwards: bool = False) -> None:
    """Run a kernel, which writes into its arguments; backwards, the last block and the last thread come first.

    Raises
    ------
    LaunchError
        If the kernel is wrong, or has something that isn't simulated; the message names the thread and the line.
    """
    player = _Player(launch, backwards=backwards)
    try:
        copy = instrument(launch.function, TracedCuda(player, shared_may_vary=True), player.codes)
        player.run(copy, on_host(player.argument, launch)[0])
    except TraceError as error:
        raise LaunchError(str(error)) from None


class _Array(TracedArray):
    """An array that knows its bounds, and keeps no record of who comes."""

    _executor: _Player

    def __init__(self, data: np.ndarray, number: int, start: int, executor: Any, _: object = None) -> None:
        super().__init__(data, number, start, executor)
        plain = not self.dtype.names and self.ndim > 0
        vars(self).update(
            _own=type(typed(data.dtype.type())) if plain else None,
            _writable=plain and executor.arrays[number].space != "constant",
        )

    def __getitem__(self, index: Any) -> Any:
        if self._own and (found := self._quick(index)) is not None:
            return self._own(found)
        return self._at(index, sys._getframe(1))

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._writable and self._quick(index) is not None:
            self._data[index] = value if type(value) is self._own else convert(value, self.dtype)
            self._executor.changed = True
        else:
            self._put(index, value, sys._getframe(1))

    def _quick(self, index: Any) -> Any:
        """Return the element at an index of the usual kind that is inside of the array, or None."""
        if type(index) is Int64:
            inside = self.ndim == 1 and int(index) >= 0
        else:
            inside = type(index) is tuple and len(index) == self.ndim and _WHOLE.issuperset(map(type, index))
            inside = inside and min(map(int, index)) >= 0
        try:
            return self._data[index] if inside else None
        except IndexError:
            return None


class _Player(Executor):
    """Runs a grid, and records nothing."""

    def __init__(self, launch: BoundLaunch, *, backwards: bool) -> None:
        super().__init__(launch, 0)
        self.backwards = backwards
        self.changed = False  # memory, since threads gave way
        self._turns = 0

    # -- What is not recorded ------------------------------------------------------------------------------------------

    def trace_array(self, data: np.ndarray, name: str, space: str, instruction: int = -1) -> TracedArray:
        traced = super().trace_array(data, name, space, instruction)
        return _Array(data, traced._number, traced._start, self)

    def record_access(self, number: int, offset: int, size: int, kind: int, frame: FrameType, unwritten: bool) -> None:
        pass

    def record_out_of_bounds(self, traced: TracedArray, index: tuple[int, ...], kind: int, frame: FrameType) -> None:
        super().record_out_of_bounds(traced, index, kind, frame)
        raise OutOfBoundsError(str(next(iter(self.out_of_bounds.values()))))

    def _record_divergence(self, group: list[Wait], missing: list[Thread]) -> None:
        if group[0].mask is None and all(thread.done for thread in missing):
            return  # GPUs since Volta wait only for those that are left
        super()._record_divergence(group, missing)
        raise LaunchError(str(next(iter(self.divergent_barriers.values()))))

    def synchronize(self, number: int, offset: int, *, wrote: bool) -> None:  # noqa: ARG002
        self.changed |= wrote

    def _order(self, group: list[Thread]) -> None:
        pass

    # -- Running -------------------------------------------------------------------------------------------------------

    def _run_block(self, number: int, block: Dim3, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        if self.backwards:
            block = Dim3(*(size - 1 - at for size, at in zip(self.blocks, block, strict=True)))
        super()._run_block(number, block, function, arguments)

    def _advance(self, threads: list[Thread], work: Callable[[], None]) -> list[Thread]:
        before = {thread.rank for thread in threads if thread.barrier or thread.done}
        left = super()._advance(threads[::-1] if self.backwards else threads, work)
        left.sort(key=lambda thread: thread.rank)
        spinning = sum(not thread.barrier for thread in left)
        progress = self.changed or len(threads) - spinning > len(before)
        self._turns, self.changed = 0 if progress else self._turns + spinning, False
        if self._turns > _MOST_TURNS:
            thread = next(thread for thread in left if not thread.barrier)
            source = SourceLine(self.kernel.co_filename, thread.line, self.kernel.co_name)
            raise LaunchError(
                f"{thread} waits for something that no thread of its block does, in {source}: no GPU promises that "
                "a later block runs meanwhile"
            )
        return left

    def _resume_count(self) -> None:
        """Find the frame of the kernel in a thread that begins: it knows the line even when it has returned."""
        if not self.current.frame:
            sys.settrace(self._begin)

    def _begin(self, frame: FrameType, event: str, _: object) -> None:  # noqa: ARG002
        if frame.f_code is self.kernel:
            self.current.frame = frame
            sys.settrace(None)

    def _located(self, error: Exception) -> Exception:
        return error if isinstance(error, LaunchError) else super()._located(error)
