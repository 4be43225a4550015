"""See what a kernel does with memory: which thread touches what, in which line, what is wrong with it, what it costs.

The kernel runs thread by thread in Python, so it needs no GPU and is always the same. What is counted are the accesses
that the source asks for. A compiler may merge some of them, or move them out of a loop; what it really made,
:mod:`firstlight.kernels.ptx` shows.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from firstlight.display import Table
from firstlight.kernels.backend import MAX_THREADS, all_whole, python_function
from firstlight.kernels.executor import ATOMIC, KINDS, LOAD, STORE, WARP, ArrayOf, Executor
from firstlight.kernels.findings import BankConflict, DivergentBarrier, OutOfBounds, Place, Race, Side, TraceError
from firstlight.kernels.intrinsics import Cuda, instrument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Trace", "TraceError", "Traffic", "trace"]

#: A column of ``Trace.notes``, which has a row for each access.
ARRAY, OFFSET, KIND, THREAD, SITE, TURN, EPOCH, WARP_EPOCH = range(8)  # columns of the notes
SECTOR, LINE, BANKS, WORD = 32, 128, 32, 4  # bytes, bytes, banks of shared memory, bytes
HEAD = ("line", "does", "in", "to", "accesses", "by warps", "sectors each", "source")
DEEPEST = 64  # threads of a block along z


@dataclass(frozen=True)
class Traffic:
    """What a kernel asks of three levels of memory, if each level keeps all that it has once seen.

    Attributes
    ----------
    l1_wavefronts : int
        Passes through the L1 cache: one for each 128 bytes that the lanes of a warp touch in one instruction.
    l2_sectors : int
        Pieces of 32 bytes that blocks ask of the L2 cache: each piece once a block, and each piece written.
    dram_bytes : int
        Bytes between the card's memory and its caches: each piece read once, and written once.
    useful_bytes : int
        Bytes of the elements that were read or written, each counted once for each.

    Examples
    --------
    >>> from firstlight.kernels import cuda, trace
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
    kernel: object, blocks: int | Sequence[int], threads: int | Sequence[int], *arrays: Any, limit: int = 1_000_000
) -> Trace:
    """Run a kernel on small inputs, and see every access to memory.

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
    >>> from firstlight.kernels import cuda, trace
    >>> @cuda.jit
    ... def double(x, out):
    ...     i = cuda.grid(1)
    ...     out[i] = 2 * x[i]
    >>> t = trace(double, 2, 32, np.ones(64, np.float32), np.zeros(64, np.float32))
    >>> t.sectors_per_load["x"], t.races, t.out_of_bounds
    (4.0, [], [])
    """
    function = python_function(kernel)
    run = Executor(sizes("blocks", blocks), sizes("threads", threads), limit)
    try:
        given = inspect.signature(function).bind(*arrays).arguments
    except TypeError as error:
        raise TypeError(
            f"{function.__name__}{inspect.signature(function)} got {len(arrays)} arguments: {error}"
        ) from None
    watched, copies = [], []
    for name, value in given.items():
        data = host_array(value)
        if data is not None and data is not value and hasattr(value, "copy_to_device"):
            copies.append((value, data))
        watched.append(run.watch(data, name, "global") if data is not None else value)
    run.run(instrument(function, Cuda(run), run.codes), tuple(watched))
    for device, data in copies:
        device.copy_to_device(data)
    return Trace(function.__name__, run)


class Trace:
    """What a kernel did; lists of what is wrong are empty when nothing is.

    Examples
    --------
    >>> from firstlight.kernels import cuda, trace
    >>> @cuda.jit
    ... def copy(x, out):
    ...     i = cuda.grid(1)
    ...     out[i] = x[i]
    >>> t = trace(copy, 2, 32, np.ones(48, np.float32), np.zeros(48, np.float32))
    >>> [(found.kind, found.index, found.times) for found in t.problems]
    [('load', (48,), 16), ('store', (48,), 16)]
    """

    def __init__(self, name: str, run: Executor) -> None:
        self.name, self.blocks, self.threads = name, run.blocks, run.threads
        self.arrays, self.sites = run.arrays, run.sites
        self.notes = np.frombuffer(run.notes, dtype=np.int64).reshape(-1, 8) if run.notes else np.zeros((0, 8), int)
        self.out_of_bounds: list[OutOfBounds] = list(run.outside.values())
        self.divergent_barriers: list[DivergentBarrier] = list(run.divergent.values())

    # -- What is wrong -------------------------------------------------------------------------------------------------

    @cached_property
    def races(self) -> list[Race]:
        """Elements that two threads touch in no order, one of them writing; one example for two lines."""
        kept = self.notes[self._in("global", "shared")]
        found: dict[object, Race] = {}
        for group in self._shared_elements(kept):
            if pair := self._unordered(group):
                first, second = (group[at] for at in pair)
                key = first[ARRAY], frozenset((row[SITE], row[KIND]) for row in (first, second))
                old = found.get(key)
                found[key] = replace(old, times=old.times + 1) if old else self._race(first, second)
        return list(found.values())

    @cached_property
    def bank_conflicts(self) -> list[BankConflict]:
        """Accesses to shared memory that a warp cannot make in one go; the worst example a line."""
        found: dict[tuple[int, int], BankConflict] = {}
        rows = self.notes[self._in("shared")]
        sizes_of = np.array([array.itemsize for array in self.arrays] or [WORD])[rows[:, ARRAY]]
        # Of elements of 8 bytes, shared memory serves half a warp at a time.
        for request in split(rows, self._requests(rows, WARP // np.maximum(sizes_of // WORD, 1))):
            words = request[:, OFFSET] // WORD
            wanted: dict[int, dict[int, int]] = {}
            for at, word in enumerate(words):
                wanted.setdefault(word % BANKS, {}).setdefault(word, at)
            lanes = max(wanted.values(), key=len)
            if len(lanes) < 2:
                continue
            first = request[next(iter(lanes.values()))]
            key = (int(first[ARRAY]), int(first[SITE]))
            old = found.get(key)
            if old and old.ways >= len(lanes):
                found[key] = replace(old, times=old.times + 1)
                continue
            array, site, block = self.arrays[first[ARRAY]], self.sites[first[SITE]], self.place(first[THREAD])[1]
            threads = tuple(self.place(request[at][THREAD])[0] for at in lanes.values())
            times, index = old.times + 1 if old else 1, array.index(first[OFFSET])
            found[key] = BankConflict(array.name, index, len(lanes), threads, block, site, times)
        return list(found.values())

    @property
    def problems(self) -> list[OutOfBounds | Race | DivergentBarrier]:
        """All that makes a kernel wrong; bank conflicts only make it slow."""
        return [*self.out_of_bounds, *self.races, *self.divergent_barriers]

    # -- What it costs -------------------------------------------------------------------------------------------------

    @cached_property
    def sectors_per_load(self) -> dict[str, float]:
        """Pieces of 32 bytes that a warp's load touches, on average, by array; 4 is the least for 32 ``float32``."""
        return self._sectors_each(LOAD)

    @cached_property
    def sectors_per_store(self) -> dict[str, float]:
        """The same for stores."""
        return self._sectors_each(STORE)

    @property
    def loads_per_output(self) -> float:
        """Elements read from global memory, for each element written there."""
        rows = self.notes[self._in("global")]
        written = rows[rows[:, KIND] != LOAD]
        loads = int((rows[:, KIND] != STORE).sum())
        return loads / max(len(np.unique(written[:, [ARRAY, OFFSET]], axis=0)), 1)

    @cached_property
    def traffic(self) -> Traffic:
        """What three levels of memory have to move."""
        rows = self.notes[self._in("global")]
        rows = np.concatenate([self._pieces(rows, LINE), self._pieces(rows, SECTOR)[:, [8]]], axis=1)
        loads, changes = rows[rows[:, KIND] != STORE], rows[rows[:, KIND] != LOAD]
        block = (loads[:, THREAD] // prod(self.threads))[:, None]
        asked = len(unique(np.concatenate([block, loads[:, [ARRAY, 9]]], axis=1)))
        written = len(unique(np.column_stack([self._requests(changes), changes[:, 9]])))
        once = [rows_of[:, [ARRAY, 9]] for rows_of in (loads, changes)]
        elements = [rows_of[:, [ARRAY, OFFSET]] for rows_of in (loads, changes)]
        sizes_of = np.array([array.itemsize for array in self.arrays] or [0])
        return Traffic(
            len(unique(np.column_stack([self._requests(rows), rows[:, [ARRAY, 8]]]))),
            asked + written,
            SECTOR * sum(len(unique(pieces)) for pieces in once),
            sum(int(sizes_of[unique(each)[:, 0]].sum()) for each in elements if len(each)),
        )

    def counts(self, kind: str = "load", space: str = "global", array: str | None = None) -> np.ndarray:
        """Count the accesses of each thread, in the order of the grid.

        Examples
        --------
        >>> import numpy as np
        >>> from firstlight.kernels import cuda, trace
        >>> @cuda.jit
        ... def first(x, out):
        ...     if cuda.grid(1) == 0:
        ...         out[0] = x[0]
        >>> trace(first, 1, 4, np.ones(4), np.zeros(4)).counts("load").tolist()
        [1, 0, 0, 0]
        """
        rows = self.notes[self._in(space, array=array) & (self.notes[:, KIND] == KINDS.index(kind))]
        counts: np.ndarray = np.bincount(rows[:, THREAD], minlength=prod(self.blocks) * prod(self.threads))
        return counts

    def __str__(self) -> str:
        """Return a table with one line for each place in the source that touches memory, and what is wrong."""
        rows = []
        for notes in split(self.notes, self.notes[:, [ARRAY, SITE, KIND]]):
            site, array = self.sites[notes[0, SITE]], self.arrays[notes[0, ARRAY]]
            requests = len(unique(self._requests(notes)))
            sectors = f"{self.sectors_of(notes):.2f}" if array.space == "global" else ""
            does = KINDS[notes[0, KIND]]
            counts = (f"{len(notes):,}", f"{requests:,}", sectors)
            rows.append((str(site.line), does, array.space, array.name, *counts, site.source))
        lines = [Table(f"{self.name}[{short(self.blocks)}, {short(self.threads)}]", HEAD, tuple(rows)).text()]
        for title in ("out_of_bounds", "races", "divergent_barriers", "bank_conflicts"):
            found = getattr(self, title)
            lines.append(f"{title.replace('_', ' ')}: {'none' if not found else ''}".rstrip())
            lines += [f"  {each}" for each in found]
        return "\n".join(lines)

    def plot(self, array: str | None = None) -> Figure:
        """Draw the elements of an array with the threads that touched them.

        Parameters
        ----------
        array : str, optional
            Its name in the kernel; all global and shared ones if it is not given.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from firstlight.kernels.drawing import draw

        return draw(self, array)

    # -- Groups of notes -----------------------------------------------------------------------------------------------

    def place(self, number: int) -> tuple[Place, Place]:
        """Return where a thread is in its block, and its block in the grid."""
        block, rank = divmod(int(number), prod(self.threads))
        return unravel(rank, self.threads), unravel(block, self.blocks)

    def _in(self, *spaces: str, array: str | None = None) -> np.ndarray:
        """Return which notes are of arrays in some spaces, and of one name."""
        known = [each.space in spaces and array in (None, each.name) for each in self.arrays]
        chosen: np.ndarray = np.array(known or [False])[self.notes[:, ARRAY]]
        return chosen

    def _warp(self, threads: np.ndarray) -> np.ndarray:
        """Number the warps: a block's last one may have fewer threads."""
        block, rank = np.divmod(threads, prod(self.threads))
        number: np.ndarray = block * -(-prod(self.threads) // WARP) + rank // WARP
        return number

    def _requests(self, rows: np.ndarray, lanes_at_once: np.ndarray | int = WARP) -> np.ndarray:
        """Return which accesses one warp makes with one instruction: those of one site, each lane's n-th there."""
        lane = rows[:, THREAD] % prod(self.threads) % WARP
        return np.column_stack([self._warp(rows[:, THREAD]), rows[:, SITE], rows[:, TURN], lane // lanes_at_once])

    def _pieces(self, rows: np.ndarray, size: int) -> np.ndarray:
        """Add a column with the piece of memory that each access touches, and a row where it touches two."""
        last = rows[:, OFFSET] + np.array([array.itemsize - 1 for array in self.arrays] or [0])[rows[:, ARRAY]]
        ends = [np.column_stack([rows, offset // size]) for offset in (rows[:, OFFSET], last)]
        return np.concatenate([ends[0], ends[1][ends[0][:, -1] != ends[1][:, -1]]])

    def sectors_of(self, rows: np.ndarray) -> float:
        """Return how many sectors a warp touches at a time, on average over some notes."""
        pieces = self._pieces(rows, SECTOR)
        sectors = len(unique(np.column_stack([self._requests(pieces), pieces[:, [ARRAY, -1]]])))
        return sectors / len(unique(self._requests(rows)))

    def _sectors_each(self, kind: int) -> dict[str, float]:
        rows = self.notes[self._in("global") & (self.notes[:, KIND] == kind)]
        return {self.arrays[each[0, ARRAY]].name: self.sectors_of(each) for each in split(rows, rows[:, [ARRAY]])}

    def _shared_elements(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return the accesses to each element that several threads touch, if one writes, and not all by atomics."""
        shared = np.array([array.space == "shared" for array in self.arrays] or [False])[rows[:, ARRAY]]
        block = np.where(shared, rows[:, THREAD] // prod(self.threads), -1)
        return [
            group
            for group in split(rows, np.column_stack([rows[:, [ARRAY, OFFSET]], block]))
            if group[:, KIND].max() > LOAD
            and group[:, KIND].min() < ATOMIC
            and group[:, THREAD].min() != group[:, THREAD].max()
        ]

    def _unordered(self, group: np.ndarray) -> tuple[int, int] | None:
        """Find two accesses to one element that nothing orders: no barrier of their block, nor of their warp."""
        block, warp = group[:, THREAD] // prod(self.threads), self._warp(group[:, THREAD])
        for at in np.flatnonzero(group[:, KIND] != LOAD):
            one = group[at]
            apart = (group[:, THREAD] != one[THREAD]) & ~((group[:, KIND] == ATOMIC) & (one[KIND] == ATOMIC))
            apart &= (block != block[at]) | (group[:, EPOCH] == one[EPOCH])
            apart &= (warp != warp[at]) | (group[:, WARP_EPOCH] == one[WARP_EPOCH])
            if apart.any():
                other = int(np.argmax(apart))
                return min(int(at), other), max(int(at), other)
        return None

    def _race(self, first: np.ndarray, second: np.ndarray) -> Race:
        array: ArrayOf = self.arrays[first[ARRAY]]
        one, other = (
            Side(KINDS[row[KIND]], *self.place(row[THREAD]), self.sites[row[SITE]]) for row in (first, second)
        )
        return Race(array.name, array.index(int(first[OFFSET])), one, other)


def unique(rows: np.ndarray) -> np.ndarray:
    """Return the distinct rows."""
    return np.unique(rows, axis=0) if len(rows) else rows


def split(rows: np.ndarray, keys: np.ndarray) -> list[np.ndarray]:
    """Put rows with the same key together, each group in its old order, groups as they first come."""
    if not len(rows):
        return []
    order = np.lexsort(keys.T[::-1])
    borders = np.flatnonzero(np.any(np.diff(keys[order], axis=0), axis=1)) + 1
    groups = np.split(order, borders)
    return [rows[group] for group in sorted(groups, key=lambda group: int(group[0]))]


def unravel(number: int, shape: Place) -> Place:
    """Return the place with a number, where x counts fastest."""
    return number % shape[0], number // shape[0] % shape[1], number // (shape[0] * shape[1])


def short(place: Place) -> str:
    """Write the sizes of a grid with as few axes as tell them."""
    kept = next((count for count in (1, 2) if prod(place[count:]) == 1), 3)
    return str(place[0]) if kept == 1 else str(place[:kept])


def sizes(name: str, given: int | Sequence[int]) -> Place:
    """Return three sizes, or say what CUDA allows."""
    axes = tuple(given) if isinstance(given, Sequence) else (given,)
    if not 1 <= len(axes) <= 3 or not all_whole(axes, least=1):
        raise ValueError(f"{name}={given!r}: give one to three whole numbers of at least 1")
    place = tuple(map(int, (*axes, 1, 1)))[:3]
    if name == "threads" and (prod(place) > MAX_THREADS or place[2] > DEEPEST):
        raise ValueError(
            f"threads={given!r}: CUDA allows {MAX_THREADS} threads in a block, all axes multiplied, and {DEEPEST} "
            "along z"
        )
    return place[0], place[1], place[2]


def host_array(value: Any) -> np.ndarray | None:
    """Return an argument's elements as NumPy has them, or None if it is no array."""
    if isinstance(value, np.ndarray):
        return value if value.ndim else None
    if hasattr(value, "copy_to_host"):
        return np.asarray(value.copy_to_host())
    if hasattr(value, "__array__") and hasattr(value, "detach"):  # a tensor of PyTorch, on the CPU
        return np.asarray(value.detach())
    return None
