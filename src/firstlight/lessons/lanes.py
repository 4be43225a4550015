"""The memory requests of the 32 lanes of a warp: counted, and on a page to step through.

A request is what one warp asks with one instruction. All comes from a trace, so from the kernel itself. Arrays are
taken to begin at a multiple of 128 bytes, as those that CUDA allocates do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from firstlight.display import Table, Widget
from firstlight.lessons.svg import board
from firstlight_kernels.tracing import CACHE_LINE, LOAD, SECTOR, WARP, Trace

_MAX_REQUESTS = 64  # of an access, that a page can step through
_HEAD = ("", "requests", "sectors each", "L1 wavefronts", "L2 sectors", "DRAM bytes", "useful bytes")


@dataclass(frozen=True)
class Request:
    """What the lanes of a warp access with one instruction: the first byte for each.

    Examples
    --------
    >>> Request(block=0, lanes={lane: 8 * lane for lane in range(32)}).segments(size=32, width=4)  # every second float
    {0, 1, 2, 3, 4, 5, 6, 7}
    """

    block: int
    lanes: Mapping[int, int]

    def segments(self, size: int, width: int) -> set[int]:
        """Return which segments of memory the elements lie in, numbered from the beginning of the array."""
        ends = (offset + end for offset in self.lanes.values() for end in (0, width - 1))
        return {end // size for end in ends}


@dataclass(frozen=True)
class Access:
    """All requests of a kernel that read an array, or that write it: block by block, one warp after the other.

    Examples
    --------
    >>> together = Request(block=0, lanes={lane: 4 * lane for lane in range(32)})
    >>> Access("x", loads=True, width=4, requests=(together,)).levels()["L2 sectors"]
    4
    """

    name: str
    loads: bool
    width: int  # of an element, in bytes
    requests: tuple[Request, ...]

    def levels(self, count: int | None = None) -> dict[str, int]:
        """Return what three levels of memory have to move for the first requests, or for all.

        The assumptions are those of :class:`~firstlight_kernels.tracing.Traffic`: a block asks the L2 cache once for
        a sector that it reads, and each time for one that it writes; memory moves each sector once.
        """
        wavefronts, l2_sectors, seen, useful = 0, 0, set[tuple[int, int]](), set[int]()
        for request in self.requests[:count]:
            sectors = {(request.block, sector) for sector in request.segments(SECTOR, self.width)}
            wavefronts += len(request.segments(CACHE_LINE, self.width))
            l2_sectors += len(sectors - seen) if self.loads else len(sectors)
            seen |= sectors
            useful |= set(request.lanes.values())
        moved = len({sector for _, sector in seen})
        return {
            "L1 wavefronts": wavefronts,
            "L2 sectors": l2_sectors,
            "DRAM bytes": SECTOR * moved,
            "useful bytes": self.width * len(useful),
        }

    @property
    def sectors_each(self) -> float:
        """Sectors that a request touches, on average."""
        return sum(len(each.segments(SECTOR, self.width)) for each in self.requests) / len(self.requests)

    def row(self) -> tuple[str, ...]:
        """Return the cells of a table, in the order of ``_HEAD``."""
        counts = (f"{count:,}" for count in self.levels().values())
        return (self.name, f"{len(self.requests):,}", f"{self.sectors_each:.3g}", *counts)


class Lanes(Widget):
    """The requests of some kernels, to compare.

    Parameters
    ----------
    traces
        A trace under each title.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cuda
    >>> from firstlight_kernels import trace
    >>> @cuda.jit
    ... def every_other(x, out):
    ...     i = cuda.grid(1)
    ...     out[i] = x[2 * i]
    >>> x, out = np.ones(64, np.float32), np.zeros(32, np.float32)
    >>> lanes = Lanes({"stride 2": trace(every_other, 1, 32, x, out)})
    >>> lanes["stride 2: reads x"].sectors_each, lanes["stride 2: writes out"].sectors_each
    (8.0, 4.0)
    """

    def __init__(self, traces: Mapping[str, Trace]) -> None:
        if not traces or not all(isinstance(each, Trace) for each in traces.values()):
            raise TypeError('give at least one trace under a title: Lanes({"mine": trace(kernel, 1, 32, x, out)})')
        self.accesses = [access for title, each in traces.items() for access in _accesses(title, each)]

    def __getitem__(self, name: str) -> Access:
        """Return the access with this name."""
        for access in self.accesses:
            if access.name == name:
                return access
        raise KeyError(f"no access is called {name!r}; there are: {', '.join(each.name for each in self.accesses)}")

    def __str__(self) -> str:
        return str(self.table())

    def table(self) -> Table:
        """Return all requests, counted."""
        return Table("All requests", _HEAD, tuple(access.row() for access in self.accesses))

    def _repr_html_(self) -> str:
        """Return the requests, which a page's script draws and steps through, and the table."""
        told = [
            {
                "name": one.name,
                "loads": one.loads,
                "width": one.width,
                "requests": [[each.block, *_runs(each.lanes)] for each in one.requests[:_MAX_REQUESTS]],
            }
            for one in self.accesses
        ]
        table = f"<details open><summary>All requests, counted</summary>{self.table().html()}</details>"
        return board("lanes", told, table)


def _accesses(title: str, trace: Trace) -> Iterator[Access]:
    """Return the requests of a trace to each array in global memory, loads and stores apart."""
    for number, array in enumerate(trace.arrays):
        for loads in (True, False):
            mine = (trace.accesses["array"] == number) & ((trace.accesses["kind"] == LOAD) == loads)
            if array.space == "global" and mine.any():
                name = f"{title}: {'reads' if loads else 'writes'} {array.name}"
                yield Access(name, loads, array.itemsize, tuple(_requests(trace, trace.accesses[mine])))


def _requests(trace: Trace, rows: np.ndarray) -> Iterator[Request]:
    """Group accesses by requests."""
    threads = prod(trace.threads)
    for group in trace.requests(rows):
        lanes = group["thread"] % threads % WARP
        offsets = dict(zip(lanes.tolist(), group["offset"].tolist(), strict=True))
        yield Request(int(group["thread"][0]) // threads, offsets)


def _runs(lanes: Mapping[int, int]) -> list[list[int]]:
    """Return the lanes' bytes in runs: the first lane, its byte, the step from lane to lane, how many lanes.

    Examples
    --------
    >>> _runs({0: 0, 1: 8, 2: 16, 5: 4})
    [[0, 0, 8, 3], [5, 4, 0, 1]]
    """
    found: list[list[int]] = []
    for lane, byte in sorted(lanes.items()):
        if found:
            first, start, step, count = found[-1]
            if lane == first + count and (count == 1 or byte == start + step * count):
                found[-1] = [first, start, byte - start if count == 1 else step, count + 1]
                continue
        found.append([lane, byte, 0, 1])
    return found
