"""Run a kernel thread by thread in plain Python, and write down every access to memory.

Each thread of a block is a greenlet: it runs until it is done or waits for others, so the order is always the same.
"""

from __future__ import annotations

import dis
import operator
import sys
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet

from firstlight.kernels.findings import DivergentBarrier, OutOfBounds, Place, Site, TraceError, place_name

WARP = 32
#: A kind of access, in the column ``KIND`` of ``Trace.notes``.
LOAD, STORE, ATOMIC = range(3)
KINDS = ("load", "store", "atomic")


@dataclass(frozen=True)
class ArrayOf:
    """An array that a kernel touched: its name, where it lives, and its layout."""

    name: str
    space: str  # "global", "shared", "local"
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    start: int  # bytes from the beginning of the memory that it is a part of

    def index(self, offset: int) -> tuple[int, ...]:
        """Return the element that begins at some byte."""
        rest, found = offset - self.start, [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda axis: -abs(self.strides[axis])):
            if self.strides[axis] and self.shape[axis] > 1:
                found[axis], rest = divmod(rest, self.strides[axis])
        return tuple(found)


class Watched:
    """An array that tells of each access; what numba.cuda does with an array in a kernel, this does."""

    def __init__(self, data: np.ndarray, number: int, start: int, run: Executor) -> None:
        self._data, self._number, self._start, self._run = data, number, start, run
        self.shape, self.size, self.ndim = data.shape, data.size, data.ndim
        self.strides, self.dtype, self.itemsize, self.nbytes = data.strides, data.dtype, data.itemsize, data.nbytes

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    @property
    def T(self) -> Watched:
        """The same memory with its axes the other way round."""
        return Watched(self._data.T, self._number, self._start, self._run)

    def __getitem__(self, index: Any) -> Any:
        key = index if isinstance(index, tuple) else (index,)
        if len(key) < self.ndim or (len(key) == self.ndim and slice in map(type, key)):
            return self._view(key, sys._getframe(1))
        at = self._touch(key, LOAD, sys._getframe(1))
        return garbage(self.dtype) if at is None else self._data[at]

    def __setitem__(self, index: Any, value: Any) -> None:
        key = index if isinstance(index, tuple) else (index,)
        if len(key) < self.ndim or slice in map(type, key):
            raise TraceError(f"{self._name} has {axes(self.ndim)}: a thread can only write one element of it at a time")
        at = self._touch(key, STORE, sys._getframe(1))
        if at is not None:
            self._data[at] = value

    def change(self, index: Any, new: Callable[[Any], Any], frame: FrameType) -> Any:
        """Replace an element by what a function makes of it, in one piece, and return the old one."""
        key = index if isinstance(index, tuple) else (index,)
        at = self._touch(key, ATOMIC, frame)
        if at is None:
            return garbage(self.dtype)
        old = self._data[at]
        self._data[at] = new(old)
        return old

    @property
    def _name(self) -> str:
        return self._run.arrays[self._number].name

    def _view(self, key: tuple[Any, ...], frame: FrameType) -> Watched:
        whole = []
        for part, length in zip(key, self.shape, strict=False):
            if not isinstance(part, slice):
                part = operator.index(part)
                if not 0 <= part < length:
                    self._run.leaves(self, (part,), LOAD, frame)
                    part %= max(length, 1)
            whole.append(part)
        view = self._data[tuple(whole)]
        start = self._start + address(view) - address(self._data) if view.size else self._start
        return Watched(view, self._number, start, self._run)

    def _touch(self, key: tuple[Any, ...], kind: int, frame: FrameType) -> tuple[int, ...] | None:
        if len(key) != self.ndim:
            raise TraceError(f"{self._name} has {axes(self.ndim)} and is indexed with {len(key)}")
        at = tuple(map(operator.index, key))
        if min(at, default=0) < 0 or not all(map(operator.lt, at, self.shape)):
            self._run.leaves(self, at, kind, frame)
            if any(not -n <= i < n for i, n in zip(at, self.shape, strict=True)):
                return None
            at = tuple(i % n for i, n in zip(at, self.shape, strict=True))
        offset = self._start + sum(map(operator.mul, at, self.strides))
        self._run.note(self._number, offset, kind, frame)
        return at


def axes(count: int) -> str:
    """Write a number of axes."""
    return f"{count} axis" if count == 1 else f"{count} axes"


def address(data: np.ndarray) -> int:
    """Return where an array's first element is."""
    return int(data.__array_interface__["data"][0])


def garbage(dtype: np.dtype) -> Any:
    """Return what a thread finds outside of an array: nothing that could be mistaken for a result."""
    if dtype.kind in "fc":
        return dtype.type(np.nan)
    return dtype.type(np.iinfo(dtype).max) if dtype.kind in "iu" else dtype.type(0)


@dataclass
class Wait:
    """What a thread waits for: its whole block, or the lanes of its warp that a mask names."""

    where: tuple[tuple[int, int], ...]  # of the calls, the innermost first: one barrier of one loop
    site: Site
    mask: int | None = None
    value: Any = None
    answer: Callable[[dict[int, Any], int], Any] | None = None


@dataclass
class Thread:
    """One thread while it runs."""

    number: int  # in the grid, block by block
    rank: int  # in its block; 32 in a row are a warp
    place: Place
    block: Place
    turns: dict[int, int] = field(default_factory=dict)  # how often it came by each site
    locals: dict[int, Any] = field(default_factory=dict)
    epoch: int = 0  # barriers of the block that it has passed
    warp_epoch: int = 0
    wait: Any = None  # a Wait, while it waits
    answer: Any = None
    runs: greenlet | None = None

    @property
    def done(self) -> bool:
        """Whether it has run to its end."""
        return self.runs is not None and self.runs.dead

    def __str__(self) -> str:
        return f"thread {place_name(self.place)} of block {place_name(self.block)}"


class Executor:
    """Runs a grid of threads one after the other and keeps the notes."""

    def __init__(self, blocks: Place, threads: Place, limit: int) -> None:
        self.blocks, self.threads, self.limit = blocks, threads, limit
        self.arrays: list[ArrayOf] = []
        self.sites: list[Site] = []
        self.notes = array("q")  # COLUMNS numbers an access
        self.outside: dict[tuple[int, int], OutOfBounds] = {}
        self.divergent: dict[object, DivergentBarrier] = {}
        self.now: Thread
        self.shared: dict[int, Watched] = {}
        self.codes: set[int] = set()  # of the kernel and its device functions
        self._numbers: dict[tuple[int, int], int] = {}
        self._made: dict[int, int] = {}
        self._lines = 0

    # -- Notes ---------------------------------------------------------------------------------------------------------

    def watch(self, data: np.ndarray, name: str, space: str, site: int = -1) -> Watched:
        """Let an array tell of each access; one site makes one shared or local array, in every block and thread."""
        base = data
        while isinstance(base.base, np.ndarray):
            base = base.base
        # A part of an array begins where the part begins: memory comes in pieces of the whole.
        start = address(data) - address(base) if data.size else 0
        number = self._made.get(site)
        if number is None:
            number = len(self.arrays)
            self.arrays.append(ArrayOf(name, space, data.shape, data.strides, data.itemsize, start))
            if site >= 0:
                self._made[site] = number
        return Watched(data, number, start, self)

    def site(self, frame: FrameType) -> int:
        """Return the number of the place in the source where a frame is."""
        key = id(frame.f_code), frame.f_lasti
        if key not in self._numbers:
            self._numbers[key] = len(self.sites)
            self.sites.append(Site(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        return self._numbers[key]

    def note(self, number: int, offset: int, kind: int, frame: FrameType) -> None:
        """Write down one access of the thread that runs."""
        site, thread = self.site(frame), self.now
        turn = thread.turns[site] = thread.turns.get(site, -1) + 1
        self.notes.extend((number, offset, kind, thread.number, site, turn, thread.epoch, thread.warp_epoch))

    def leaves(self, watched: Watched, index: tuple[int, ...], kind: int, frame: FrameType) -> None:
        """Write down that the thread that runs leaves an array; one example a site, and how often."""
        key = watched._number, self.site(frame)
        if old := self.outside.get(key):
            self.outside[key] = replace(old, times=old.times + 1)
            return
        thread = self.now
        self.outside[key] = OutOfBounds(
            watched._name, index, watched.shape, KINDS[kind], thread.place, thread.block, self.sites[key[1]]
        )

    # -- Running -------------------------------------------------------------------------------------------------------

    def run(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Run the whole grid, block after block."""
        outer = sys.gettrace()
        try:
            for number, block in enumerate(places(self.blocks)):
                self._run_block(number, block, function, arguments)
        finally:
            sys.settrace(outer)

    def _run_block(
        self, number: int, block: Place, function: Callable[..., object], arguments: tuple[Any, ...]
    ) -> None:
        self.shared.clear()
        first = number * self.threads[0] * self.threads[1] * self.threads[2]
        threads = [Thread(first + rank, rank, place, block) for rank, place in enumerate(places(self.threads))]

        def work() -> None:
            sys.settrace(self._trace)
            try:
                with np.errstate(all="ignore"):  # each greenlet has a context of its own
                    function(*arguments)
            finally:
                sys.settrace(None)

        while waiting := self._advance(threads, work):
            if not self._release_warps(threads, waiting):
                self._release_block(threads, waiting)

    def _advance(self, threads: list[Thread], work: Callable[[], None]) -> list[Thread]:
        """Let every thread run until it is done or waits, and return those that wait."""
        for thread in threads:
            if thread.wait or thread.done:
                continue
            self.now = thread
            thread.runs = thread.runs or greenlet(work)
            try:
                thread.runs.switch()
            except Exception as error:
                raise self._stopped(error) from error
        return [thread for thread in threads if thread.wait]

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        """Count the lines, so that no loop goes on for ever."""
        if id(frame.f_code) not in self.codes:
            return None
        if event == "line":
            self._lines += 1
            if self._lines > self.limit:
                raise TraceError(
                    f"after {self.limit:,} lines the kernel still runs. Either a loop has no end, or a thread waits "
                    "for one that comes after it, or there is too much work to trace: take smaller arrays"
                )
        return self._trace

    def _stopped(self, error: Exception) -> TraceError:
        """Say in which thread and line something was raised."""
        site, trail = None, error.__traceback__
        while trail:
            if id(trail.tb_frame.f_code) in self.codes:
                code = trail.tb_frame.f_code
                site = Site(code.co_filename, trail.tb_lineno, code.co_name)
            trail = trail.tb_next
        said = str(error) if isinstance(error, TraceError) else f"{type(error).__name__}: {error}"
        return TraceError(f"{said} ({self.now}, {site or 'in the call of the kernel'})")

    # -- Waiting -------------------------------------------------------------------------------------------------------

    def wait(
        self,
        frame: FrameType,
        mask: int | None = None,
        value: Any = None,
        answer: Callable[[dict[int, Any], int], Any] | None = None,
    ) -> Any:
        """Let the thread that runs wait for its block, or for the lanes of its warp in a mask."""
        thread, where, caller = self.now, [], frame
        while id(caller.f_code) in self.codes and caller.f_back:
            where.append((id(caller.f_code), caller.f_lasti))
            caller = caller.f_back
        thread.wait = Wait(tuple(where), self.sites[self.site(frame)], mask, value, answer)
        getcurrent().parent.switch()
        return thread.answer

    def _release_warps(self, threads: list[Thread], waiting: list[Thread]) -> bool:
        """Let the lanes go on that wait for nobody else of their warp."""
        stuck, released = [], False
        for group in grouped(thread for thread in waiting if thread.wait.mask is not None):
            lanes, mask = {thread.rank for thread in group}, group[0].wait.mask
            warp = threads[group[0].rank // WARP * WARP :][:WARP]
            missing = [thread for thread in warp if mask >> thread.rank % WARP & 1 and thread.rank not in lanes]
            if missing:
                stuck.append((group, missing))
            else:
                released = True
                self._exchange(group)
        if stuck and not released:
            for group, missing in stuck:
                self._report(group, missing)
                self._exchange(group)
        return released or bool(stuck)

    def _exchange(self, group: list[Thread]) -> None:
        """Hand each thread of a group what it asked of the others, and let it go on."""
        of_block = group[0].wait.mask is None
        values = {thread.rank if of_block else thread.rank % WARP: thread.wait.value for thread in group}
        for thread in group:
            if thread.wait.answer:
                thread.answer = thread.wait.answer(values, thread.rank % WARP)
            thread.epoch += of_block
            thread.warp_epoch += not of_block
            thread.wait = None

    def _release_block(self, threads: list[Thread], waiting: list[Thread]) -> None:
        """Let the block go on; tell of threads that are elsewhere."""
        here = max(grouped(waiting), key=len)
        if len(here) < len(threads):
            inside = set(map(id, here))
            self._report(here, [thread for thread in threads if id(thread) not in inside])
        self._exchange(here)

    def _report(self, group: list[Thread], missing: list[Thread]) -> None:
        other, wait = missing[0], group[0].wait
        why = (
            "has returned" if other.done else f"waits elsewhere, in {other.wait.site}" if other.wait else "is elsewhere"
        )
        if old := self.divergent.get(wait.where):
            self.divergent[wait.where] = replace(old, times=old.times + 1)
        else:
            here, elsewhere = (tuple(thread.place for thread in threads) for threads in (group, missing))
            self.divergent[wait.where] = DivergentBarrier(wait.site, here, elsewhere, why, group[0].block)


def grouped(threads: Any) -> Iterator[list[Thread]]:
    """Put together the threads that wait at one place: of one warp, if they wait for a warp."""
    groups: dict[object, list[Thread]] = {}
    for thread in threads:
        wait = thread.wait
        warp = None if wait.mask is None else (thread.rank // WARP, wait.mask)
        groups.setdefault((wait.where, warp), []).append(thread)
    yield from groups.values()


def places(sizes: Place) -> Iterator[Place]:
    """Count through a grid or a block as CUDA does: x first."""
    return ((x, y, z) for z in range(sizes[2]) for y in range(sizes[1]) for x in range(sizes[0]))


def codes_of(code: CodeType) -> Iterator[int]:
    """Name a function's code and the code inside it."""
    # Python tells nobody of a jump to itself, so the limit could not stop it.
    steps = list(dis.get_instructions(code))
    number = {step.offset: at for at, step in enumerate(steps)}
    for at, step in enumerate(steps):
        if "JUMP_BACKWARD" in step.opname and all(one.opname == "NOP" for one in steps[number[step.argval] : at]):
            line = (step.positions and step.positions.lineno) or code.co_firstlineno
            place = Site(code.co_filename, line, code.co_name)
            raise TraceError(f"a loop that does nothing has no end ({place})")
    yield id(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)
