"""Trace a kernel: which thread accesses which element in which line, what is wrong, and what it costs.

The kernel runs thread by thread in Python, so it needs no GPU and the result is always the same. The accesses are those
of the source. A compiler may merge some, or move them out of a loop; :mod:`firstlight_kernels.ptx` shows what it made.

Numbers are those of a GPU, where Numba widens integers to 64 bits and makes ``float32`` times a constant ``float64``;
dividing by zero, or storing what doesn't fit, raises nothing. One thing differs. Numba gives a variable one type where
branches, or turns of a loop, meet, and here it has that of its last value. So what is ``uint64`` in one branch and
``int64`` in the other is ``float64`` on a GPU: it is rounded beyond 2**53, and Numba compiles no shift of it, and no
index. :func:`firstlight_kernels.ptx.compile` names the line of those. And a boolean in one branch that is an integer
in the other is an integer on a GPU, so that its ``~`` is never "not".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from firstlight_kernels.arguments import on_host
from firstlight_kernels.arrays import ACCESS, ATOMIC, KINDS, LOAD, STORE, ArrayInfo
from firstlight_kernels.compilers import python_function
from firstlight_kernels.executor import Executor
from firstlight_kernels.findings import (
    BankConflict,
    Dim3,
    DivergentBarrier,
    OutOfBounds,
    Race,
    RacingAccess,
    TraceError,
    Uninitialized,
    count,
    element_name,
)
from firstlight_kernels.grids import WARP, unravelled
from firstlight_kernels.intrinsics import TracedCuda, instrument
from firstlight_kernels.launch import bound, types_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from firstlight_kernels.ptx import Compiled

__all__ = ["CACHE_LINE", "LOAD", "SECTOR", "STORE", "WARP", "WORD", "Trace", "TraceError", "Traffic", "trace"]

#: Bytes of a sector, of a line of a cache, and of a word of a bank of shared memory.
SECTOR, CACHE_LINE, WORD = 32, 128, 4
BANKS = 32  # of shared memory
_HEAD = ("line", "does", "in", "to", "accesses", "by warps", "sectors each", "source")
_NUMBERS = range(4, 7)  # its columns that are aligned to the right


@dataclass(frozen=True)
class Traffic:
    """The traffic that a kernel causes in three levels of memory, if each level keeps all that it has once seen.

    Attributes
    ----------
    l1_wavefronts : int
        Passes through the L1 cache: one for each line of 128 bytes that a request of a warp touches.
    l2_sectors : int
        Sectors of 32 bytes that blocks request from the L2 cache: each once a block, and each that is written.
    dram_bytes : int
        Bytes between the card's memory and its caches: each sector read once, and written once.
    useful_bytes : int
        Bytes of the elements that are read, and of those that are written, each counted once.

    Examples
    --------
    >>> from numba import cuda
    >>> from firstlight_kernels import trace
    >>> @cuda.jit
    ... def copy(x, out):
    ...     i = cuda.grid(1)
    ...     out[i] = x[i]
    >>> trace(copy, 2, 32, np.ones(64, np.float32), np.zeros(64, np.float32)).traffic
    Traffic(l1_wavefronts=4, l2_sectors=16, dram_bytes=512, useful_bytes=512)
    """

    l1_wavefronts: int
    l2_sectors: int
    dram_bytes: int
    useful_bytes: int


def trace(
    kernel: object,
    blocks: int | Sequence[int],
    threads: int | Sequence[int],
    *arrays: Any,
    limit: int = 1_000_000,
    shared_bytes: int = 0,
) -> Trace:
    """Run a kernel on small inputs, and return every access to memory.

    Parameters
    ----------
    kernel : object
        A function under ``@cuda.jit``, as you would launch it.
    blocks, threads : int or tuple of int
        As in ``kernel[blocks, threads]``.
    *arrays
        The kernel's arguments. As in a launch, the kernel writes into the arrays.
    limit : int
        Lines of the kernel that all threads together may run, so that no loop goes on for ever.
    shared_bytes : int
        The size of shared arrays of shape 0, as in ``kernel[blocks, threads, stream, shared_bytes]``.

    Returns
    -------
    Trace

    Raises
    ------
    TypeError, ValueError
        If it is no kernel, its arguments do not fit, or CUDA has no such grid.
    TraceError
        If a thread raises something, or the limit is reached. The message names the thread and the line.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cuda
    >>> from firstlight_kernels import trace
    >>> @cuda.jit
    ... def double(x, out):
    ...     i = cuda.grid(1)
    ...     out[i] = 2 * x[i]
    >>> t = trace(double, 2, 32, np.ones(64, np.float32), np.zeros(64, np.float32))
    >>> t.sectors_per_load["x"], t.races, t.out_of_bounds
    (4.0, [], [])
    """
    launch = bound(kernel, blocks, threads, arrays, shared_bytes)
    executor = Executor(launch, limit)
    given, copies = on_host(executor.argument, launch)
    traced_cuda = TracedCuda(executor, shared_may_vary=launch.rules == "mlir")  # its launch's shared memory is of it
    executor.run(instrument(launch.function, traced_cuda, executor.codes), given)
    for value, data in copies:
        value.copy_to_device(data)
    return Trace(kernel, launch.arguments, executor)


class Trace:
    """The accesses of a kernel to memory, what is wrong with them, and what they cost.

    Attributes
    ----------
    accesses : numpy.ndarray
        A row for each access, with the fields ``array`` (its number in ``arrays``), ``offset`` and ``size`` (in
        bytes), ``kind`` (0 for a load, 1 for a store, 2 for an atomic operation), ``thread`` (in the grid, block by
        block), ``instruction``, ``call`` (of the device function that it is in), ``execution`` (how often the thread
        has executed the instruction there before), ``epoch`` (barriers and fences that the thread has passed),
        ``clock`` (what it knows of other threads) and ``unwritten`` (1 if it reads what nobody has written).
    arrays : list
        The arrays, each with its ``name``, ``space`` ("global", "constant", "shared" or "local"), ``shape`` and
        ``itemsize``.
    out_of_bounds : list of OutOfBounds
        Accesses outside of their array.
    divergent_barriers : list of DivergentBarrier
        Barriers that some threads reached and others went past.

    Examples
    --------
    >>> from numba import cuda
    >>> from firstlight_kernels import trace
    >>> @cuda.jit
    ... def copy(x, out):
    ...     i = cuda.grid(1)
    ...     out[i] = x[i]
    >>> t = trace(copy, 2, 32, np.ones(48, np.float32), np.zeros(48, np.float32))
    >>> [(found.kind, found.index, found.times) for found in t.problems]
    [('load', (48,), 16), ('store', (48,), 16)]
    >>> t.accesses["offset"][t.accesses["thread"] == 3].tolist()
    [12, 12]
    """

    def __init__(self, kernel: object, arguments: tuple[Any, ...], executor: Executor) -> None:
        self._kernel, self._arguments, self.name = kernel, arguments, python_function(kernel).__name__
        self.blocks, self.threads = executor.blocks, executor.threads
        self.arrays, self.instructions = executor.arrays, executor.instructions
        self.accesses = np.frombuffer(executor.accesses, ACCESS) if executor.accesses else np.zeros(0, ACCESS)
        self._clocks = executor.clocks
        self.out_of_bounds: list[OutOfBounds] = list(executor.out_of_bounds.values())
        self.divergent_barriers: list[DivergentBarrier] = list(executor.divergent_barriers.values())

    # -- What is wrong -------------------------------------------------------------------------------------------------

    @cached_property
    def races(self) -> list[Race]:
        """Elements that two threads access in no order, one of them writing; one example for two lines."""
        found: dict[object, Race] = {}
        for group in self._by_element(self.accesses[self.in_space("global", "shared")]):
            if pair := self._unordered(group):
                first, second = (group[at] for at in pair)
                key = first["array"], frozenset((row["instruction"], row["kind"]) for row in (first, second))
                count(found, key, self._race(first, second))
        return list(found.values())

    @cached_property
    def uninitialized(self) -> list[Uninitialized]:
        """Reads of shared or local memory that nobody has written; not where it is a race who comes first."""
        found: dict[object, Uninitialized] = {}
        for group in self._by_element(self.accesses[self.in_space("shared", "local")]):
            reads = group[group["unwritten"] == 1]
            if not len(reads) or self._unordered(group):
                continue
            array = self.arrays[reads[0]["array"]]
            for read in reads:
                index, (thread, block) = array.index(int(read["offset"])), self.index_of(read["thread"])
                source = self.instructions[read["instruction"]]
                new = Uninitialized(array.name, index, thread, source=source, block=block)
                count(found, (read["array"], read["instruction"]), new)
        return list(found.values())

    @cached_property
    def bank_conflicts(self) -> list[BankConflict]:
        """Accesses of a warp to shared memory that need several passes; the worst example a line."""
        found: dict[tuple[int, int], BankConflict] = {}
        rows = self.accesses[self.in_space("shared")]
        # Of elements of 8 bytes, shared memory serves half a warp at a time.
        for request in self.requests(rows, WARP // np.maximum(rows["size"] // WORD, 1)):
            words_of_bank: dict[int, dict[int, int]] = {}
            for lane, word in enumerate(request["offset"] // WORD):
                words_of_bank.setdefault(word % BANKS, {}).setdefault(word, lane)
            lanes = max(words_of_bank.values(), key=len)
            if len(lanes) < 2:
                continue
            first = request[next(iter(lanes.values()))]
            key = (int(first["array"]), int(first["instruction"]))
            old = found.get(key)
            if old and old.ways >= len(lanes):
                count(found, key, None)
                continue
            array, source = self.arrays[first["array"]], self.instructions[first["instruction"]]
            threads = tuple(self.index_of(request[lane]["thread"])[0] for lane in lanes.values())
            block, times = self.index_of(first["thread"])[1], old.times + 1 if old else 1
            index = array.index(first["offset"])
            found[key] = BankConflict(array.name, index, len(lanes), threads, source=source, block=block, times=times)
        return list(found.values())

    @property
    def problems(self) -> list[OutOfBounds | Race | DivergentBarrier | Uninitialized]:
        """All that makes a kernel wrong; bank conflicts only make it slow."""
        return [*self.out_of_bounds, *self.races, *self.divergent_barriers, *self.uninitialized]

    # -- What it costs -------------------------------------------------------------------------------------------------

    @cached_property
    def sectors_per_load(self) -> dict[str, float]:
        """Sectors of 32 bytes that a warp's load touches, on average, by array; 4 is the least for 32 ``float32``."""
        return self._sectors_by_array(LOAD)

    @cached_property
    def sectors_per_store(self) -> dict[str, float]:
        """The same for stores."""
        return self._sectors_by_array(STORE)

    @cached_property
    def traffic(self) -> Traffic:
        """What three levels of memory have to move."""
        rows = self.accesses[self.in_space("global")]
        lines, line = self._segments(rows, CACHE_LINE)
        moved, sector = self._segments(rows, SECTOR)
        loads, stores = moved["kind"] != STORE, moved["kind"] != LOAD
        block = moved["thread"] // prod(self.threads)
        memory = self._of_array("address", moved)
        read = _count_distinct(block[loads], memory[loads], sector[loads])
        written = _count_distinct(*(key[stores] for key in self.request_of(moved)), sector[stores])
        useful = 0
        for changed in (rows[rows["kind"] != STORE], rows[rows["kind"] != LOAD]):
            place = self._of_array("address", changed) + changed["offset"]
            useful += int(np.unique(np.column_stack([place, changed["size"]]), axis=0)[:, 1].sum())
        return Traffic(
            l1_wavefronts=_count_distinct(*self.request_of(lines), self._of_array("address", lines), line),
            l2_sectors=read + written,
            dram_bytes=SECTOR * sum(_count_distinct(memory[of], sector[of]) for of in (loads, stores)),
            useful_bytes=useful,
        )

    def counts(self, kind: str = "load", space: str = "global", array: str | None = None) -> np.ndarray:
        """Return the number of accesses of each thread, in the order of the grid.

        Examples
        --------
        >>> import numpy as np
        >>> from numba import cuda
        >>> from firstlight_kernels import trace
        >>> @cuda.jit
        ... def first(x, out):
        ...     if cuda.grid(1) == 0:
        ...         out[0] = x[0]
        >>> trace(first, 1, 4, np.ones(4), np.zeros(4)).counts("load").tolist()
        [1, 0, 0, 0]
        """
        rows = self.accesses[self.in_space(space, array=array) & (self.accesses["kind"] == KINDS.index(kind))]
        return np.bincount(rows["thread"], minlength=prod(self.blocks) * prod(self.threads))

    def __str__(self) -> str:
        """Return a table with a row for each instruction that accesses memory, and what is wrong."""
        cells = [_HEAD]
        for rows in group_rows(self.accesses, *(self.accesses[key] for key in ("array", "instruction", "kind"))):
            source, array = self.instructions[rows["instruction"][0]], self.arrays[rows["array"][0]]
            requests = _count_distinct(*self.request_of(rows))
            sectors = f"{self.sectors_of(rows):.2f}" if array.space == "global" else ""
            counts = (f"{len(rows):,}", f"{requests:,}", sectors)
            cells.append((str(source.line), KINDS[rows["kind"][0]], array.space, array.name, *counts, source.text))
        launch = f"{self.name}[{_size_text(self.blocks)}, {_size_text(self.threads)}]"
        lines = [launch, *_aligned(cells)]
        for title in ("out_of_bounds", "races", "divergent_barriers", "uninitialized", "bank_conflicts"):
            found = getattr(self, title)
            lines.append(f"{title.replace('_', ' ')}: {'none' if not found else ''}".rstrip())
            lines += [f"  {each}" for each in found]
        if not self.problems:
            lines.append("compiles: not asked; .compile() asks")
        return "\n".join(lines)

    def compile(self, cc: tuple[int, int] = (9, 0)) -> Compiled:
        """Ask NVIDIA's compiler whether it takes the kernel, with arguments of the types that were traced.

        A trace runs Python, which does more than a GPU. So a kernel without problems is not right before this is asked.

        Parameters
        ----------
        cc
            The compute capability of the GPU to compile for.

        Returns
        -------
        Compiled
            What the compiler made of it.

        Raises
        ------
        CompileError
            If the compiler refuses the kernel; the message names the line.
        NoCompilerError
            If no compiler is installed.

        Examples
        --------
        >>> import numpy as np
        >>> from numba import cuda
        >>> from firstlight_kernels import trace
        >>> @cuda.jit
        ... def double(x, out):
        ...     i = cuda.grid(1)
        ...     out[i] = 2 * x[i]
        >>> t = trace(double, 2, 32, np.ones(64, np.float32), np.zeros(64, np.float32))
        >>> assert not t.problems and t.compile()  # doctest: +SKIP
        """
        from firstlight_kernels import ptx

        return ptx.compile(self._kernel, types_of(self._kernel, self._arguments), cc)

    def plot(self, array: str | None = None) -> Figure:
        """Draw the elements of an array with the threads that accessed them.

        Parameters
        ----------
        array : str, optional
            Its name in the kernel; all global and shared ones if it is not given.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from firstlight_kernels.drawing import draw

        return draw(self.name, prod(self.threads), self.arrays, self.accesses, array)

    # -- Groups of accesses --------------------------------------------------------------------------------------------

    def index_of(self, thread: int) -> tuple[Dim3, Dim3]:
        """Return the index of a thread in its block, and of its block in the grid."""
        block, rank = divmod(int(thread), prod(self.threads))
        return unravelled(rank, self.threads), unravelled(block, self.blocks)

    def in_space(self, *spaces: str, array: str | None = None) -> np.ndarray:
        """Return which accesses are to arrays in some memory spaces, and of one name."""
        known = [each.space in spaces and array in (None, each.name) for each in self.arrays]
        chosen: np.ndarray = np.array(known or [False])[self.accesses["array"]]
        return chosen

    def requests(self, rows: np.ndarray, lanes_at_once: np.ndarray | int = WARP) -> list[np.ndarray]:
        """Return the accesses of each request, in the order in which they were made."""
        return group_rows(rows, *self.request_of(rows, lanes_at_once))

    def request_of(self, rows: np.ndarray, lanes_at_once: np.ndarray | int = WARP) -> tuple[np.ndarray, ...]:
        """Return keys that are equal for the accesses of one request: the lanes' n-th executions of an instruction."""
        block, rank = np.divmod(rows["thread"], prod(self.threads))
        warp = block * -(-prod(self.threads) // WARP) + rank // WARP  # a block's last one may have fewer threads
        return warp, rows["instruction"], rows["call"], rows["execution"], rank % WARP // lanes_at_once

    def sectors_of(self, rows: np.ndarray) -> float:
        """Return how many sectors a request touches, on average over some accesses."""
        touching, sector = self._segments(rows, SECTOR)
        sectors = _count_distinct(*self.request_of(touching), touching["array"], sector)
        return sectors / _count_distinct(*self.request_of(rows))

    def _of_array(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Return an attribute of the array of each access."""
        values: np.ndarray = np.array([getattr(array, name) for array in self.arrays] or [0])[rows["array"]]
        return values

    def _segments(self, rows: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the segment of memory that each access touches, with an access once for each that it touches."""
        first = rows["offset"] // size
        count = (rows["offset"] + rows["size"] - 1) // size - first + 1
        begin = np.cumsum(count) - count
        return np.repeat(rows, count), np.arange(count.sum()) + np.repeat(first - begin, count)

    def _sectors_by_array(self, kind: int) -> dict[str, float]:
        rows = self.accesses[self.in_space("global") & (self.accesses["kind"] == kind)]
        return {
            self.arrays[group["array"][0]].name: self.sectors_of(group) for group in group_rows(rows, rows["array"])
        }

    def _by_element(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return the accesses to each element, of whatever array; those to overlapping elements together."""
        if not len(rows):
            return []
        first = self._of_array("address", rows) + rows["offset"]
        owner = np.select(  # of its memory: the grid, a block, or a thread
            [self._of_array("space", rows) == "global", self._of_array("space", rows) == "shared"],
            [0, rows["thread"] // prod(self.threads)],
            rows["thread"],
        )
        bounds, place = np.unique(np.concatenate([first, first + rows["size"]]), return_inverse=True)
        begin, end = place.reshape(2, -1) + owner * len(bounds)
        order = np.argsort(begin, kind="stable")
        element = np.zeros(len(rows), np.int64)
        element[order[1:]] = np.cumsum(begin[order[1:]] >= np.maximum.accumulate(end[order])[:-1])
        return group_rows(rows, element)

    def _unordered(self, group: np.ndarray) -> tuple[int, int] | None:
        """Return two accesses of different threads to one element, one of them writing, that nothing orders."""
        kind, epoch, thread = group["kind"], group["epoch"], group["thread"]
        if kind.max() == LOAD or kind.min() == ATOMIC or thread.min() == thread.max():
            return None
        begin = self._of_array("address", group) + group["offset"]
        end = begin + group["size"]
        clocks, clock = np.unique(group["clock"], return_inverse=True)
        threads, who = np.unique(thread, return_inverse=True)
        known = np.array([[self._known(c, t) for t in threads] for c in clocks])  # by clock, of thread: epochs
        for at in np.flatnonzero(kind != LOAD):
            before = (known[clock[at], who] > epoch) | (known[clock, who[at]] > epoch[at])  # or after
            unordered = (thread != thread[at]) & ~before & ((kind != ATOMIC) | (kind[at] != ATOMIC))
            unordered &= (begin < end[at]) & (begin[at] < end)
            if unordered.any():
                other = int(np.argmax(unordered))
                return min(int(at), other), max(int(at), other)
        return None

    def _known(self, clock: int, thread: int) -> int:
        """Return how many epochs of a thread came before an access of another with some clock."""
        block, rank = divmod(int(thread), prod(self.threads))
        epochs = self._clocks[clock].get(block)
        return 0 if epochs is None else int(epochs[rank])

    def _race(self, first: np.void, second: np.void) -> Race:
        array: ArrayInfo = self.arrays[first["array"]]
        one, other = (
            RacingAccess(KINDS[row["kind"]], *self.index_of(row["thread"]), self.instructions[row["instruction"]])
            for row in (first, second)
        )
        found, alias = array.index(int(first["offset"])), self.arrays[second["array"]]
        also = "" if alias is array else element_name(alias.name, alias.index(int(second["offset"])))
        return Race(array.name, found, one, other, also=also)


def _count_distinct(*keys: np.ndarray) -> int:
    """Return how many combinations of keys there are."""
    return len(np.unique(np.column_stack(keys), axis=0)) if len(keys[0]) else 0


def group_rows(rows: np.ndarray, *keys: np.ndarray) -> list[np.ndarray]:
    """Return rows with the same keys together, each group in its old order, groups in that of their first rows."""
    if not len(rows):
        return []
    order = np.lexsort(keys[::-1])
    borders = np.flatnonzero(np.any([np.diff(key[order]) for key in keys], axis=0)) + 1
    groups = np.split(order, borders)
    return [rows[group] for group in sorted(groups, key=lambda group: int(group[0]))]


def _aligned(cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, of which the first row is the head."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in (cells[0], ["-" * width for width in widths], *cells[1:]):
        places = enumerate(zip(row, widths, strict=True))
        yield "  ".join(c.rjust(n) if i in _NUMBERS else c.ljust(n) for i, (c, n) in places).rstrip()


def _size_text(size: Dim3) -> str:
    """Return the size of a grid or a block with as few axes as tell it."""
    kept = next((count for count in (1, 2) if prod(size[count:]) == 1), 3)
    return str(size.x) if kept == 1 else str(size[:kept])
