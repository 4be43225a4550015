"""What can be wrong with a kernel: out-of-bounds accesses, races, divergent barriers, bank conflicts; and where."""

from __future__ import annotations

import linecache
from dataclasses import dataclass, replace
from typing import Any, NamedTuple


class Dim3(NamedTuple):
    """The index of a thread or a block, or the size of a block or a grid; x counts fastest.

    Examples
    --------
    >>> str(Dim3(3, 1, 0))
    '(3, 1)'
    """

    x: int
    y: int
    z: int

    def __str__(self) -> str:
        axes = next((count for count in (1, 2) if not any(self[count:])), 3)
        return str(self.x) if axes == 1 else str(self[:axes])


class TraceError(RuntimeError):
    """A kernel that cannot be run to its end; the message names the thread and the line.

    Examples
    --------
    >>> from numba import cuda
    >>> from firstlight_kernels import trace
    >>> @cuda.jit
    ... def forever():
    ...     while True:
    ...         pass
    >>> try:
    ...     trace(forever, 1, 1, limit=100)
    ... except TraceError as problem:
    ...     print(problem)
    a loop that does nothing has no end (line 3: while True:)
    """


class LaunchError(RuntimeError):
    """A launch that a mistake in the kernel stops; the message names the thread and the line.

    Where a thread leaves an array, it is an ``IndexError``, too.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cuda
    >>> from firstlight_kernels.launch import launch
    >>> @cuda.jit
    ... def fill(out):
    ...     out[cuda.grid(1)] = 1
    >>> try:
    ...     launch(fill, 1, 32, [np.zeros(30)])
    ... except IndexError as error:
    ...     print(error)
    thread 30 of block 0: store of out[30], where the shape is (30,); line 3: out[cuda.grid(1)] = 1
    """


class OutOfBoundsError(LaunchError, IndexError):
    """A launch in which a thread leaves an array."""


@dataclass(frozen=True)
class SourceLine:
    """The line of the source where a thread accesses memory or waits.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cuda
    >>> from firstlight_kernels import trace
    >>> @cuda.jit
    ... def fill(out):
    ...     out[cuda.grid(1)] = 1
    >>> print(trace(fill, 1, 32, np.zeros(30)).out_of_bounds[0].source)
    line 3: out[cuda.grid(1)] = 1
    """

    file: str
    line: int
    function: str

    @property
    def text(self) -> str:
        """The text of the line."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"line {self.line}" + (f": {self.text}" if self.text else f" of {self.function}")


def line_of(error: BaseException, codes: set[int]) -> SourceLine | None:
    """Return the last line of some functions, given the ids of their code, in which an error was raised."""
    found, trail = None, error.__traceback__
    while trail:
        code = trail.tb_frame.f_code
        if id(code) in codes:
            found = SourceLine(code.co_filename, trail.tb_lineno, code.co_name)
        trail = trail.tb_next
    return found


@dataclass(frozen=True, kw_only=True)
class _Finding:
    """Something to report of one line of the source: an example in one block, and how often it occurs."""

    source: SourceLine
    block: Dim3
    times: int = 1

    @property
    def line(self) -> int:
        """The number of the line in its file."""
        return self.source.line

    @property
    def _more(self) -> str:
        return f" (and {self.times - 1} more there)" if self.times > 1 else ""


@dataclass(frozen=True)
class OutOfBounds(_Finding):
    """An access to an element that its array does not have.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cuda
    >>> from firstlight_kernels import trace
    >>> @cuda.jit
    ... def fill(out):
    ...     out[cuda.grid(1)] = 1
    >>> found = trace(fill, 1, 32, np.zeros(30)).out_of_bounds[0]
    >>> found.index, found.shape, found.kind, found.times
    ((30,), (30,), 'store', 2)
    """

    array: str
    index: tuple[int, ...]
    shape: tuple[int, ...]
    kind: str
    thread: Dim3

    def __str__(self) -> str:
        negative = any(-n <= i < 0 for i, n in zip(self.index, self.shape, strict=False))
        return (
            f"thread {self.thread} of block {self.block}: {self.kind} of "
            f"{element_name(self.array, self.index)}, where the shape is {self.shape}"
            f"{', and Numba counts from its end' if negative else ''}; {self.source}{self._more}"
        )


@dataclass(frozen=True)
class DivergentBarrier(_Finding):
    """A barrier that some threads reached, and that others went past, or have not reached.

    A thread that has returned before the barrier is no problem: GPUs since Volta wait for the others only. A shuffle
    that asks for the value of such a thread is one, or of a thread that a block's last warp doesn't have. So is a warp
    function whose mask lacks the caller, and a shuffle from a lane that the mask lacks, if the value is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cuda
    >>> from firstlight_kernels import trace
    >>> @cuda.jit
    ... def half(out):
    ...     if cuda.threadIdx.x < 16:
    ...         cuda.syncthreads()
    ...     out[cuda.threadIdx.x] = 1
    >>> found = trace(half, 1, 32, np.zeros(32)).divergent_barriers[0]
    >>> len(found.waiting), len(found.missing), found.line
    (16, 16, 4)
    """

    waiting: tuple[Dim3, ...]
    missing: tuple[Dim3, ...]
    why: str

    def __str__(self) -> str:
        more = f" (and {self.times - 1} more such waits)" if self.times > 1 else ""
        said = f"waits, {_threads(self.missing)} {self.why}" if self.missing else self.why
        return f"block {self.block}: {_threads(self.waiting)} {said}; {self.source}{more}"


def _threads(indices: tuple[Dim3, ...]) -> str:
    """Return the first of some threads in words, and how many more there are."""
    more = f" (and {len(indices) - 1} more)" if len(indices) > 1 else ""
    return f"thread {indices[0]}{more}"


@dataclass(frozen=True)
class RacingAccess:
    """One of the two accesses of a race.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cuda
    >>> from firstlight_kernels import trace
    >>> @cuda.jit
    ... def count(total):
    ...     total[0] += 1
    >>> race = trace(count, 1, 32, np.zeros(1)).races[0]
    >>> print(race.first)
    store by thread 0 of block 0 in line 3: total[0] += 1
    """

    kind: str
    thread: Dim3
    block: Dim3
    source: SourceLine

    def __str__(self) -> str:
        return f"{self.kind} by thread {self.thread} of block {self.block} in {self.source}"


@dataclass(frozen=True)
class Race:
    """Two accesses of different threads to one element, at least one a write, with nothing that orders them.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cuda
    >>> from firstlight_kernels import trace
    >>> @cuda.jit
    ... def count(total):
    ...     total[0] += 1
    >>> race = trace(count, 1, 32, np.zeros(1)).races[0]
    >>> race.array, race.index, [thread.x for thread in race.threads]
    ('total', (0,), [0, 1])
    """

    array: str
    index: tuple[int, ...]
    first: RacingAccess
    second: RacingAccess
    times: int = 1  # elements of which these two lines race
    also: str = ""  # how the second access names the element, if through another array

    @property
    def line(self) -> int:
        """The later of the two lines."""
        return max(self.first.source.line, self.second.source.line)

    @property
    def threads(self) -> tuple[Dim3, Dim3]:
        """The indices of both threads in their blocks."""
        return self.first.thread, self.second.thread

    def __str__(self) -> str:
        more = f" (and {self.times - 1} more element{'s' * (self.times > 2)})" if self.times > 1 else ""
        also = f", which is {self.also}" if self.also else ""
        return f"{element_name(self.array, self.index)}{also}: {self.first}, and {self.second}{more}"


@dataclass(frozen=True)
class Uninitialized(_Finding):
    """A read of shared or local memory that nobody has written: it holds whatever was there.

    Examples
    --------
    >>> import numba
    >>> import numpy as np
    >>> from numba import cuda
    >>> from firstlight_kernels import trace
    >>> @cuda.jit
    ... def half(out):
    ...     s = cuda.shared.array(32, numba.float32)
    ...     t = cuda.threadIdx.x
    ...     if t < 16:
    ...         s[t] = 1
    ...     cuda.syncthreads()
    ...     out[t] = s[t]
    >>> found = trace(half, 1, 32, np.zeros(32, np.float32)).uninitialized[0]
    >>> found.array, found.index, found.times
    ('s', (16,), 16)
    """

    array: str
    index: tuple[int, ...]
    thread: Dim3

    def __str__(self) -> str:
        return (
            f"thread {self.thread} of block {self.block}: load of {element_name(self.array, self.index)}, which nobody "
            f"has written; {self.source}{self._more}"
        )


@dataclass(frozen=True)
class BankConflict(_Finding):
    """Lanes of a warp that access different words of one bank of shared memory, and so are served one after the other.

    Examples
    --------
    >>> import numba
    >>> from numba import cuda
    >>> from firstlight_kernels import trace
    >>> @cuda.jit
    ... def column():
    ...     tile = cuda.shared.array((32, 32), numba.float32)
    ...     tile[cuda.threadIdx.x, 0] = 1
    >>> found = trace(column, 1, 32).bank_conflicts[0]
    >>> found.array, found.ways
    ('tile', 32)
    """

    array: str
    index: tuple[int, ...]
    ways: int  # words of the busiest bank
    threads: tuple[Dim3, ...]  # that access them

    def __str__(self) -> str:
        more = f", {self.times} times" if self.times > 1 else ""
        return (
            f"{element_name(self.array, self.index)}: {self.ways} words of one bank, for threads "
            f"{', '.join(map(str, self.threads[:4]))}{' …' if len(self.threads) > 4 else ''}{more}; {self.source}"
        )


def count(found: dict[Any, Any], key: object, new: object) -> None:
    """Keep a finding by its key, or count it where there is one."""
    old = found.get(key)
    found[key] = replace(old, times=old.times + 1) if old else new


def element_name(array: str, index: tuple[int, ...]) -> str:
    """Return an element of an array as it is written in the source."""
    return f"{array}[{', '.join(map(str, index))}]"
