"""What can be wrong with a kernel's accesses, each with its thread, its array and its line."""

from __future__ import annotations

import linecache
from dataclasses import dataclass

Place = tuple[int, int, int]  # x, y, z


class TraceError(RuntimeError):
    """A kernel that cannot be run to its end; the message names the thread and the line.

    Examples
    --------
    >>> from firstlight.kernels import cuda, trace
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


@dataclass(frozen=True)
class Site:
    """A place in the source at which a thread touches memory or waits.

    Examples
    --------
    >>> import numpy as np
    >>> from firstlight.kernels import cuda, trace
    >>> @cuda.jit
    ... def fill(out):
    ...     out[cuda.grid(1)] = 1
    >>> print(trace(fill, 1, 32, np.zeros(30)).out_of_bounds[0].site)
    line 3: out[cuda.grid(1)] = 1
    """

    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """The text of the line."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"line {self.line}" + (f": {self.source}" if self.source else f" of {self.function}")


def place_name(place: Place) -> str:
    """Write a place with as few axes as tell it."""
    axes = next((count for count in (1, 2) if not any(place[count:])), 3)
    return str(place[0]) if axes == 1 else str(place[:axes])


class Defect:
    """What is wrong at one place in the source."""

    site: Site

    @property
    def line(self) -> int:
        """The number of the line in its file."""
        return self.site.line


@dataclass(frozen=True)
class OutOfBounds(Defect):
    """An index that its array does not have.

    Examples
    --------
    >>> import numpy as np
    >>> from firstlight.kernels import cuda, trace
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
    thread: Place
    block: Place
    site: Site
    times: int = 1

    def __str__(self) -> str:
        negative = any(-n <= i < 0 for i, n in zip(self.index, self.shape, strict=False))
        more = f" (and {self.times - 1} more there)" if self.times > 1 else ""
        return (
            f"thread {place_name(self.thread)} of block {place_name(self.block)}: {self.kind} of "
            f"{element(self.array, self.index)}, where the shape is {self.shape}"
            f"{', and Numba counts from its end' if negative else ''}; {self.site}{more}"
        )


@dataclass(frozen=True)
class DivergentBarrier(Defect):
    """A barrier that some threads reached and others did not.

    Examples
    --------
    >>> from firstlight.kernels import cuda, trace
    >>> @cuda.jit
    ... def half():
    ...     if cuda.threadIdx.x < 16:
    ...         cuda.syncthreads()
    >>> found = trace(half, 1, 32).divergent_barriers[0]
    >>> len(found.waiting), len(found.missing), found.line
    (16, 16, 4)
    """

    site: Site
    waiting: tuple[Place, ...]
    missing: tuple[Place, ...]
    why: str
    block: Place
    times: int = 1  # in other blocks, or when it came by again

    def __str__(self) -> str:
        more = f" (and {self.times - 1} more such waits)" if self.times > 1 else ""
        return (
            f"block {place_name(self.block)}: {some(self.waiting)} waits, {some(self.missing)} {self.why}; "
            f"{self.site}{more}"
        )


def some(places: tuple[Place, ...]) -> str:
    """Name the first of some threads."""
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    return f"thread {place_name(places[0])}{more}"


@dataclass(frozen=True)
class Side:
    """One side of a race: an access of one thread.

    Examples
    --------
    >>> import numpy as np
    >>> from firstlight.kernels import cuda, trace
    >>> @cuda.jit
    ... def count(total):
    ...     total[0] += 1
    >>> race = trace(count, 1, 32, np.zeros(1)).races[0]
    >>> print(race.first)
    store by thread 0 of block 0 in line 3: total[0] += 1
    """

    kind: str
    thread: Place
    block: Place
    site: Site

    def __str__(self) -> str:
        return f"{self.kind} by thread {place_name(self.thread)} of block {place_name(self.block)} in {self.site}"


@dataclass(frozen=True)
class Race:
    """Two threads touch one element with nothing that orders them, and at least one of them writes.

    Examples
    --------
    >>> import numpy as np
    >>> from firstlight.kernels import cuda, trace
    >>> @cuda.jit
    ... def count(total):
    ...     total[0] += 1
    >>> race = trace(count, 1, 32, np.zeros(1)).races[0]
    >>> race.array, race.index, race.threads
    ('total', (0,), ((0, 0, 0), (1, 0, 0)))
    """

    array: str
    index: tuple[int, ...]
    first: Side
    second: Side
    times: int = 1  # elements for which these two lines meet

    @property
    def line(self) -> int:
        """The later of the two lines."""
        return max(self.first.site.line, self.second.site.line)

    @property
    def threads(self) -> tuple[Place, Place]:
        """Both threads, each as its place in its block."""
        return self.first.thread, self.second.thread

    def __str__(self) -> str:
        more = f" (and {self.times - 1} more element{'s' * (self.times > 2)})" if self.times > 1 else ""
        return f"{element(self.array, self.index)}: {self.first}, and {self.second}{more}"


@dataclass(frozen=True)
class BankConflict(Defect):
    """Lanes of one warp that want different words of one bank of shared memory, so that they go one after the other.

    Examples
    --------
    >>> import numba
    >>> from firstlight.kernels import cuda, trace
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
    ways: int  # how many words the busiest bank is asked for
    threads: tuple[Place, ...]  # that want them
    block: Place
    site: Site
    times: int = 1

    def __str__(self) -> str:
        more = f", {self.times} times" if self.times > 1 else ""
        return (
            f"{element(self.array, self.index)}: {self.ways} words of one bank, for threads "
            f"{', '.join(map(place_name, self.threads[:4]))}{' …' if len(self.threads) > 4 else ''}{more}; {self.site}"
        )


def element(array: str, index: tuple[int, ...]) -> str:
    """Write one element of an array."""
    return f"{array}[{', '.join(map(str, index))}]"
