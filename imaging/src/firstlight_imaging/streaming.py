"""Go through visibilities in chunks, with a progress bar, and let go of the memory of what was read of a file."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

_BAR_DELAY = 1.0  # seconds before there is a bar: most data sets are read by then


def chunks(total: int, size: int) -> Iterator[slice]:
    """Return slices that cut a range; an empty one gives one empty slice, so that the result has its shape and type.

    Examples
    --------
    >>> list(chunks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    if size < 1:
        raise ValueError(f"chunk is {size}, and should be at least 1.")
    for start in range(0, max(total, 1), size):
        yield slice(start, min(start + size, total))


def progress_bar(what: str, total: int, shown: bool | None) -> tqdm[Any]:
    """Return a bar that counts visibilities on stderr, by default in a terminal only, once it has taken a while."""
    delay = 0.0 if shown else _BAR_DELAY
    disable = None if shown is None else not shown
    return tqdm(total=total, desc=what, unit="vis", unit_scale=True, delay=delay, leave=False, disable=disable)


def release_pages(values: np.ndarray[Any, Any]) -> None:
    """Give the pages that were read of a file back to the system, so that they do not count as memory of this process.

    They stay in its cache. Of a map whose pages may have been changed for this process alone (mode ``c``), none go.
    """
    mode: str | None = None
    base: object = values
    while isinstance(base, np.ndarray):
        mode = base.mode if isinstance(base, np.memmap) else mode
        base = base.base
    if isinstance(base, mmap.mmap) and mode in ("r", "r+", "w+") and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
