"""Run a kernel thread by thread in plain Python, and record what each does, and what orders it.

Each thread of a block is a greenlet, which runs until it ends or waits for others: the order is always the same.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from types import CodeType, FrameType
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet

from firstlight_kernels.arithmetic import compute_as, typed
from firstlight_kernels.arrays import KINDS, ArrayInfo, TracedArray, address_of
from firstlight_kernels.findings import Dim3, DivergentBarrier, OutOfBounds, SourceLine, TraceError, count, line_of
from firstlight_kernels.grids import WARP, BoundLaunch, unravelled

#: As the mask of a warp: it names nobody, so that who comes to the same line waits for no one.
WHOEVER = 2**WARP
#: Those to whom a fence shows what came before it.
ALL_BLOCKS, OWN_BLOCK = range(2)


class TooLongError(TraceError):
    """A trace that has reached its limit."""


@dataclass
class Wait:
    """A thread's wait at a barrier of its block, or of the lanes of its warp that a mask names."""

    thread: Thread
    stack: tuple[object, ...]  # instructions of the calls, the innermost first: they tell barriers apart
    line: int  # of the kernel
    source: SourceLine
    mask: int | None = None  # None at a barrier of the block
    value: Any = None  # what a vote or a shuffle is given
    result_of: Callable[[dict[int, Any], int], Any] | None = None  # all values, and the lane, to what it returns
    read_by: Callable[[int], int] | None = None  # the lane of which a lane's shuffle reads the value
    orders: bool = True  # memory: not so shuffles and votes of a warp


#: The arrays that instructions made, with the calls that they belong to; a shared array belongs to none.
OwnedArrays = dict[int, tuple[FrameType | None, TracedArray]]

#: A vector clock, what a thread knows of others, by block: of each thread the epochs that came before.
VectorClock = dict[int, np.ndarray]


def _joined(clocks: Iterable[VectorClock]) -> VectorClock:
    """Return what several clocks know together."""
    known: VectorClock = {}
    for clock in clocks:
        for block, epochs in clock.items():
            known[block] = np.maximum(known[block], epochs) if block in known else epochs
    return known


@dataclass
class Thread:
    """The state of one thread."""

    number: int  # in the grid, block by block
    rank: int  # in its block; 32 in a row are a warp
    index: Dim3
    block: Dim3
    executions: dict[tuple[int, int], int] = field(default_factory=dict)  # of each instruction and call
    local_arrays: OwnedArrays = field(default_factory=dict)
    epoch: int = 0
    clock: int = 0  # in the executor's clocks
    acquired: VectorClock = field(default_factory=dict)  # from atomic operations; its next fence makes it known
    # For its atomic operations to tell: clock and epoch at its last fence of any kind, and at the last for all blocks.
    released: dict[int, tuple[int, int]] = field(default_factory=dict)
    frame: FrameType | None = None  # of the kernel, from when it begins
    barrier: Wait | None = None  # where it waits
    result: Any = None  # of its last vote or shuffle
    greenlet: greenlet | None = None

    @property
    def line(self) -> int:
        """The line of the kernel where it is, or where it has returned."""
        return self.frame.f_lineno if self.frame else 0

    @property
    def done(self) -> bool:
        """Whether it has run to its end."""
        return self.greenlet is not None and self.greenlet.dead

    def __str__(self) -> str:
        return f"thread {self.index} of block {self.block}"


class Executor:
    """Runs a grid, one thread after the other, and records what each does."""

    def __init__(self, launch: BoundLaunch, limit: int) -> None:
        self.blocks, self.threads, self.rules, self.limit = launch.blocks, launch.threads, launch.rules, limit
        compute_as(launch.rules)
        self.dynamic_shared = np.zeros(launch.shared_bytes, np.uint8)
        self.clocks: list[VectorClock] = [{}]
        self.arrays: list[ArrayInfo] = []
        self.instructions: list[SourceLine] = []
        self.accesses = array("q")  # the fields of ACCESS, one access after the other
        self.out_of_bounds: dict[tuple[int, int], OutOfBounds] = {}
        self.divergent_barriers: dict[object, DivergentBarrier] = {}
        self.current: Thread
        self.shared_arrays: OwnedArrays = {}
        self.codes: set[int] = set()  # of the kernel and its device functions
        self._told: dict[object, VectorClock] = {}  # by atomic operations, at a place, to one block or to all
        self._calls: dict[object, int] = {(): 0}
        self._instruction_numbers: dict[object, int] = {}
        self._positions: dict[int, list[tuple[int | None, ...]]] = {}  # of each instruction of a function
        self._arrays_made: dict[int, int] = {}
        self._lines_run = 0

    # -- Recording -----------------------------------------------------------------------------------------------------

    def trace_array(self, data: np.ndarray, name: str, space: str, instruction: int = -1) -> TracedArray:
        """Return an array that records its accesses.

        A shared or local array is the same in all blocks and threads, if one instruction makes it.
        """
        whole: Any = data
        while hasattr(whole.base, "__array_interface__"):
            whole = whole.base
        # A view keeps its alignment to sectors: offsets count from the beginning of the whole array.
        start = address_of(data) - address_of(whole) if data.size else 0
        number, dynamic = self._arrays_made.get(instruction), whole is self.dynamic_shared
        if number is None:
            number = len(self.arrays)
            address = address_of(whole) if space == "global" else -(1 if dynamic else number + 2) << 40
            self.arrays.append(ArrayInfo(name, space, data.shape, data.strides, data.itemsize, start, address))
            if instruction >= 0:
                self._arrays_made[instruction] = number
        written = np.zeros(whole.nbytes, np.bool_) if space in ("shared", "local") else None
        return TracedArray(data, number, start, self, self._dynamic_written if dynamic else written)

    def argument(self, value: Any, data: np.ndarray | None, name: str) -> Any:
        """Return an argument as a kernel has it: an array that records its accesses, or a number."""
        return typed(value) if data is None else self.trace_array(data, name, "global")

    def instruction(self, frame: FrameType, kind: int | None = None) -> int:
        """Return the number of the instruction that a frame executes."""
        here = id(frame.f_code), frame.f_lasti, kind
        if (known := self._instruction_numbers.get(here)) is not None:
            return known
        key = id(frame.f_code), (self.position(frame),), kind
        if key not in self._instruction_numbers:
            self._instruction_numbers[key] = len(self.instructions)
            self.instructions.append(SourceLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        found = self._instruction_numbers[here] = self._instruction_numbers[key]
        return found

    def position(self, frame: FrameType) -> object:
        """Return where in the source a frame is: a specialized instruction and its cache are at one place."""
        positions = self._positions.get(id(frame.f_code))
        if positions is None:
            positions = self._positions[id(frame.f_code)] = list(frame.f_code.co_positions())
        position = positions[frame.f_lasti // 2]
        return frame.f_lasti if None in position else position

    def _stack(self, frame: FrameType | None) -> tuple[object, ...]:
        """Return where a frame is, and where it was called from, up to the kernel."""
        stack: tuple[object, ...] = ()
        while frame and id(frame.f_code) in self.codes:
            stack, frame = (*stack, id(frame.f_code), self.position(frame)), frame.f_back
        return stack

    def record_access(self, number: int, offset: int, size: int, kind: int, frame: FrameType, unwritten: bool) -> None:
        """Record an access of the current thread."""
        instruction, thread = self.instruction(frame, kind), self.current
        call = self._calls.setdefault(self._stack(frame.f_back), len(self._calls))
        execution = thread.executions[instruction, call] = thread.executions.get((instruction, call), -1) + 1
        who, when = (kind, thread.number, instruction, call, execution), (thread.epoch, thread.clock, unwritten)
        self.accesses.extend((number, offset, size, *who, *when))

    def record_out_of_bounds(self, traced: TracedArray, index: tuple[int, ...], kind: int, frame: FrameType) -> None:
        """Record that the current thread leaves an array: one example an instruction, and how often."""
        thread, instruction = self.current, self.instruction(frame)
        example, source = (traced.name, index, traced.shape, KINDS[kind], thread.index), self.instructions[instruction]
        new = OutOfBounds(*example, source=source, block=thread.block)
        count(self.out_of_bounds, (traced._number, instruction), new)

    # -- Running -------------------------------------------------------------------------------------------------------

    def run(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Run the whole grid, block after block."""
        outer, self.kernel = sys.gettrace(), function.__code__
        try:
            for number in range(prod(self.blocks)):
                self._run_block(number, unravelled(number, self.blocks), function, arguments)
        finally:
            sys.settrace(outer)

    def _run_block(self, number: int, block: Dim3, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.shared_arrays.clear()
        self.dynamic_shared = np.full_like(self.dynamic_shared, 0xFF)  # NaN, if it holds floats
        self._dynamic_written = np.zeros(self.dynamic_shared.nbytes, np.bool_)
        ranks, first = range(prod(self.threads)), number * prod(self.threads)
        threads = [Thread(first + rank, rank, unravelled(rank, self.threads), block) for rank in ranks]

        def work() -> None:
            self._resume_count()
            with np.errstate(all="ignore"):  # each greenlet has a context of its own
                returned = function(*arguments)
            if returned is not None:
                line = SourceLine(self.kernel.co_filename, self.current.line, self.kernel.co_name)
                raise TraceError(
                    f"a kernel returns nothing: write the result into an array. Here it returns one ({line})"
                )

        self._run_threads(threads, work)

    def _run_threads(self, threads: list[Thread], work: Callable[[], None]) -> None:
        """Run the threads of a block, all to their ends."""
        while left := self._advance(threads, work):
            waiting = [thread.barrier for thread in left if thread.barrier]
            spinning = len(waiting) < len(left)
            if not self._release_warps(threads, waiting, spinning) and not spinning:
                self._release_block(threads, waiting)

    def _advance(self, threads: list[Thread], work: Callable[[], None]) -> list[Thread]:
        """Let every thread run until it ends, waits or gives way, and return those that have not ended."""
        for thread in threads:
            if thread.barrier or thread.done:
                continue
            self.current = thread
            thread.greenlet = thread.greenlet or greenlet(work)
            try:
                thread.greenlet.switch()
            except Exception as error:
                raise self._located(error) from error
        return [thread for thread in threads if not thread.done]

    def _resume_count(self) -> None:
        """Count lines from here on: a trace function belongs to the thread of the system, not to the greenlet."""
        sys.settrace(self._count_lines)

    def _count_lines(self, frame: FrameType, event: str, _: object) -> Any:
        """Count the lines that run, so that no loop goes on for ever."""
        if id(frame.f_code) not in self.codes:
            return None
        if event == "call" and not self.current.frame:
            self.current.frame = frame
        if event == "line":
            self._lines_run += 1
            if self._lines_run > self.limit:
                raise TooLongError(
                    f"after {self.limit:,} lines the kernel still runs. Either a loop has no end, or a thread waits "
                    "for a later block, or without an atomic operation, or there is too much work to trace: take "
                    f"smaller arrays{''.join(f'. Before that, {each}' for each in [*self.out_of_bounds.values()][:1])}"
                )
        return self._count_lines

    def _located(self, error: Exception) -> Exception:
        """Return an error that names the thread and the line in which another one was raised."""
        message = str(error) if isinstance(error, TraceError) else f"{type(error).__name__}: {error}"
        message = message.replace("TracedCuda.", "cuda.").replace("TracedArray", "array")
        kind = TooLongError if isinstance(error, TooLongError) else TraceError
        return kind(f"{message} ({self.current}, {line_of(error, self.codes) or 'in the call of the kernel'})")

    # -- Barriers ------------------------------------------------------------------------------------------------------

    def wait(self, frame: FrameType, mask: int | None = None, **more: Any) -> Any:
        """Let the current thread wait for its block, or for the lanes of its warp in a mask."""
        thread, (stack, source) = self.current, self.where(frame)
        thread.barrier = Wait(thread, stack, thread.line, source, mask, **more)
        self.give_way()
        return thread.result

    def where(self, frame: FrameType) -> tuple[tuple[object, ...], SourceLine]:
        """Return where a frame is, and was called from, and its line."""
        return self._stack(frame), self.instructions[self.instruction(frame)]

    def give_way(self) -> None:
        """Let the other threads of the block run before the current one goes on: it may spin until one of them acts."""
        getcurrent().parent.switch()
        self._resume_count()

    def _release_warps(self, threads: list[Thread], waiting: list[Wait], spinning: bool) -> bool:
        """Release the lanes whose barrier of the warp is complete; if none is, and nobody spins, those stuck at one."""
        stuck, released = [], False
        for group in _by_barrier(waiting):
            if (mask := group[0].mask) is None:
                continue
            lanes = {wait.thread.rank for wait in group}
            warp = threads[group[0].thread.rank // WARP * WARP :][:WARP]
            absent = [thread for thread in warp if mask >> thread.rank % WARP & 1 and thread.rank not in lanes]
            missing = [thread for thread in absent if _is_missed(thread, group)]
            if missing:
                stuck.append((group, missing))
                continue
            if read_by := group[0].read_by:
                read = {read_by(lane % WARP) for lane in lanes}
                absent += self._never_started(warp, mask)
                if unread := [thread for thread in absent if thread.rank % WARP in read]:
                    self._record_divergence(group, unread)
            released = True
            self._release(group)
        if stuck and not released and not spinning:
            for group, missing in stuck:
                self._record_divergence(group, missing)
                self._release(group)
        return released or bool(stuck)

    def _never_started(self, warp: list[Thread], mask: int) -> list[Thread]:
        """Return the threads that a mask names, and that the last warp lacks because its block has no more."""
        if len(warp) == WARP:
            return []
        axis = max((axis for axis in range(3) if self.threads[axis] > 1), default=0)
        grown = self.threads._replace(**{"xyz"[axis]: self.threads[axis] + WARP})
        lanes, first = (lane for lane in range(len(warp), WARP) if mask >> lane & 1), warp[0]
        return [replace(first, rank=lane, index=unravelled(first.rank + lane, grown), greenlet=None) for lane in lanes]

    def _release_block(self, threads: list[Thread], waiting: list[Wait]) -> None:
        """Release the barrier at which most threads wait, and record if others are missed."""
        group = max(_by_barrier(waiting), key=len)
        inside = {id(wait.thread) for wait in group}
        if missing := [thread for thread in threads if id(thread) not in inside and _is_missed(thread, group)]:
            self._record_divergence(group, missing)
        self._release(group)

    def _release(self, group: list[Wait]) -> None:
        """Let threads pass their barrier, each with the result of its vote or shuffle."""
        of_block = (mask := group[0].mask) is None
        if mask not in (None, WHOEVER) and (strangers := [w for w in group if not mask >> w.thread.rank % WARP & 1]):
            waiting = tuple(wait.thread.index for wait in strangers)
            why = f"gives the mask {mask:#010x}, which lacks its own lane"
            new = DivergentBarrier(waiting, (), why, source=group[0].source, block=group[0].thread.block)
            count(self.divergent_barriers, (group[0].stack, why), new)
        values = {wait.thread.rank if of_block else wait.thread.rank % WARP: wait.value for wait in group}
        for wait in group:
            if wait.result_of:
                wait.thread.result = wait.result_of(values, wait.thread.rank % WARP)
            wait.thread.barrier = None
        if group[0].orders:
            self._order([wait.thread for wait in group])

    def _order(self, group: list[Thread]) -> None:
        """Let each of some threads know what all of them know, and what all have done."""
        block = group[0].number // prod(self.threads)
        known = _joined(
            [*(self.clocks[clock] for clock in {each.clock: 0 for each in group}), *(each.acquired for each in group)]
        )
        known[block] = known[block].copy() if block in known else np.zeros(prod(self.threads), np.int64)
        for thread in group:
            thread.epoch += 1
            known[block][thread.rank] = thread.epoch
            thread.clock, thread.acquired = len(self.clocks), {}
        self.clocks.append(known)

    def fence(self, to: int = ALL_BLOCKS) -> None:
        """Order what the current thread does around a fence, for those that meet it in an atomic operation."""
        thread = self.current
        if thread.acquired:
            self._order([thread])
        else:
            thread.epoch += 1
        thread.released |= dict.fromkeys((to, OWN_BLOCK), (thread.clock, thread.epoch))

    def synchronize(self, number: int, offset: int, *, wrote: bool) -> None:
        """Let the current thread's atomic operation tell what came before its last fence, and hear what others told."""
        thread, array = self.current, self.arrays[number]
        block = thread.number // prod(self.threads)
        place = array.address + offset, 0 if array.space == "global" else block + 1
        for to, whom in ((ALL_BLOCKS, None), (OWN_BLOCK, block)):
            if told := self._told.get((place, whom)):
                thread.acquired = _joined((thread.acquired, told))
            if wrote and to in thread.released:
                clock, epoch = thread.released[to]
                own = np.zeros(prod(self.threads), np.int64)
                own[thread.rank] = epoch
                self._told[place, whom] = _joined((told or {}, self.clocks[clock], {block: own}))

    def _record_divergence(self, group: list[Wait], missing: list[Thread]) -> None:
        other, wait = missing[0], group[0]
        elsewhere = f"waits elsewhere, in {other.barrier.source}" if other.barrier else "is elsewhere"
        returned = "went past it" if other.line > wait.line else "has returned"
        why = "does not exist" if other.greenlet is None else returned if other.done else elsewhere
        waiting, lacking = tuple(each.thread.index for each in group), tuple(thread.index for thread in missing)
        new = DivergentBarrier(waiting, lacking, why, source=wait.source, block=wait.thread.block)
        count(self.divergent_barriers, wait.stack, new)

    def record_stranger(self, thread: Thread, lane: int, mask: int, where: tuple[object, SourceLine]) -> None:
        """Record that a thread keeps what a shuffle gave it of a lane that the mask lacks."""
        why = f"reads lane {lane}, which the mask {mask:#010x} lacks, and keeps what it gets, which is undefined"
        new = DivergentBarrier((thread.index,), (), why, source=where[1], block=thread.block)
        count(self.divergent_barriers, (where[0], "stranger"), new)


def _is_missed(thread: Thread, group: list[Wait]) -> bool:
    """Return whether a barrier should wait for a thread: not if it has returned before it; GPUs since Volta do not."""
    return not thread.done or thread.line > group[0].line


def _by_barrier(waiting: Iterable[Wait]) -> Iterable[list[Wait]]:
    """Group waits by their barrier: of one warp, if it is a barrier of the warp."""
    groups: dict[object, list[Wait]] = {}
    for wait in waiting:
        warp = None if wait.mask is None else (wait.thread.rank // WARP, wait.mask)
        groups.setdefault((wait.stack, warp), []).append(wait)
    return groups.values()


def codes_of(code: CodeType) -> Iterator[int]:
    """Return the ids of a function's code and of the code inside it."""
    yield id(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)
