"""Go through visibilities in chunks: with a bar, and in smaller ones where a device has no memory for them."""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

PATIENCE = 1.0  # seconds before there is a bar: most data sets are read by then


def stream(total: int, chunk: int, work: Callable[[slice], object], done: Callable[[int], object] = int) -> int:
    """Call ``work`` on one slice after another; an empty range is one empty slice.

    Where memory runs out, the slice that it ran out in is begun anew at half of its length; ``work`` must therefore
    keep nothing of what it has not finished. The length that went well comes back, for the next time.

    Parameters
    ----------
    total
        How long the range is.
    chunk
        How long a slice may be.
    work, done
        What to do with each slice, and whom to tell its length thereafter.

    Examples
    --------
    >>> stream(5, 2, print)
    slice(0, 2, None)
    slice(2, 4, None)
    slice(4, 5, None)
    2
    """
    size = min(check_chunk(chunk), max(total, 1))
    start, told = 0, size
    while True:
        at = slice(start, min(start + size, total))
        try:
            work(at)
        except (torch.OutOfMemoryError, MemoryError):
            if size == 1:
                raise
            size = -(-size // 2)
        else:
            if size < told:
                told = chunk = size
                warnings.warn(
                    f"memory ran out; going on with {size} visibilities at once. chunk={size} would begin so, and "
                    "firstlight.imaging.plan tells what needs memory",
                    RuntimeWarning,
                    stacklevel=2,
                )
            done(at.stop - at.start)
            start = at.stop
            if start >= total:
                return chunk
            continue
        torch.cuda.empty_cache()  # cufinufft has no part in what torch keeps for itself


def chunks(total: int, size: int) -> Iterator[slice]:
    """Cut a range into slices; an empty one gives one empty slice, so that the result has its shape and type."""
    for start in range(0, max(total, 1), check_chunk(size)):
        yield slice(start, min(start + size, total))


def check_chunk(size: int) -> int:
    """Refuse slices of nothing, which would never come to an end."""
    if size < 1:
        raise ValueError(f"chunk is {size}, and should be at least 1.")
    return size


def bar(what: str, total: int, shown: bool | None) -> tqdm[Any]:
    """Count visibilities on stderr, by default in a terminal only, once it has taken a while."""
    delay = 0.0 if shown else PATIENCE
    disable = None if shown is None else not shown
    return tqdm(total=total, desc=what, unit="vis", unit_scale=True, delay=delay, leave=False, disable=disable)


def let_go(values: np.ndarray[Any, Any]) -> None:
    """Let the system have the pages back that were read of a file, and count them no longer as memory of ours.

    They stay in its cache. Of a map whose pages may have been changed for this process alone (mode ``c``), none go.
    """
    mode: str | None = None
    base: object = values
    while isinstance(base, np.ndarray):
        mode = base.mode if isinstance(base, np.memmap) else mode
        base = base.base
    if isinstance(base, mmap.mmap) and mode in ("r", "r+", "w+") and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
