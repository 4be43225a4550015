"""What a row says against its own number. A timing gets the first verdict of this list that holds.

``impossible``
    It moves bytes or computes faster than the device's ceiling allows; the number is never shown.
``simulated``
    A simulator ran the kernel, and its time says nothing about a GPU.
``launch-bound``
    The call takes longer than the device needs for its work: the device waits for the host, mostly for launches. If the
    host copies or converts the numbers first, it waits for that.
``cpu-contended``
    A row of the CPU that had less than a core: other programs ran meanwhile, or the call slept.
``few``
    The budget was spent before there were nine blocks.
``noisy``
    Half of the blocks are spread over more than a tenth of the median.
``in-cache``
    Faster than memory, because the data fit into a cache.
``above-roof``
    Faster than the plain calls that measured the roof.
``ok``
    Nothing speaks against it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from firstlight.timing.ceilings import Ceilings, Roof, uncached
from firstlight.timing.result import Timing

MIN_BLOCKS = 9
MAX_IQR = 0.1  # of the median; what is spread wider is noisy
MAX_WALL_TO_DEVICE = 1.2  # a call that takes this many times as long as its work on the device is launch-bound
MIN_CORES = 0.8
TOLERANCE = 1.1  # clocks may run a little above what the driver reports
CACHES = 4  # work on less than this many last-level caches may never reach memory


def verdict_of(timing: Timing) -> str:
    """Return what the measurement itself says against its own result, whatever the hardware can do.

    Examples
    --------
    >>> verdict_of(Timing(label="add", device="cpu", first=1.0, values=(1.0,) * 8))
    'few'
    """
    if timing.device_seconds and timing.median > MAX_WALL_TO_DEVICE * timing.device_seconds:
        return "launch-bound"
    if timing.device == "cpu" and timing.cores is not None and timing.cores < MIN_CORES:
        return "cpu-contended"
    if len(timing.values) < MIN_BLOCKS:
        return "few"
    return "noisy" if timing.relative_iqr > MAX_IQR else "ok"


def with_verdict(timing: Timing, limits: Ceilings, roof: Roof | None = None) -> Timing:
    """Return a timing with the verdict of its rates; only a ceiling, never a measured roof, says ``impossible``.

    Examples
    --------
    >>> t = Timing(label="add", device="cuda:0", first=1.0, values=(1e-6,) * 9, bytes=10**9)
    >>> with_verdict(t, Ceilings(byte_rate=5e12, cache_bytes=60 * 2**20)).verdict
    'impossible'
    """
    if not timing.values:
        return timing
    cache, touched = limits.cache_bytes or 0, min(timing.bytes or 0, timing.footprint or math.inf)
    fetched = uncached(touched, cache) / timing.median  # bytes a second that memory must have delivered
    if roof and (touched >= CACHES * cache or timing.flops):  # of memory's roof, work in a cache has no fraction
        timing = replace(timing, of_roof=fraction_of_roof(timing, roof))
    flop_limit = limits.flop_rate if timing.tensor_cores else limits.float32_rate or limits.flop_rate
    too_fast = _exceeds(fetched, limits.byte_rate)
    too_fast |= _exceeds(timing.byte_rate, limits.cache_rate) or _exceeds(timing.flop_rate, flop_limit)
    if too_fast:
        return replace(timing, verdict="impossible")
    if timing.verdict != "ok":
        return timing
    most = roof or Roof(math.inf, math.inf)
    above = _exceeds(timing.byte_rate, most.byte_rate)
    if (above and not _exceeds(fetched, most.byte_rate)) or _exceeds(timing.byte_rate, limits.byte_rate):
        return replace(timing, verdict="in-cache")
    if above or _exceeds(timing.flop_rate, most.flop_rate):
        return replace(timing, verdict="above-roof")
    return timing


def _exceeds(rate: float | None, limit: float | None) -> bool:
    """Return whether a rate is clearly above a limit, where both are known."""
    return rate is not None and limit is not None and rate > TOLERANCE * limit


def fraction_of_roof(timing: Timing, roof: Roof) -> float | None:
    """Return how near a timing comes to the roof that binds it: the memory's or the arithmetic's, whichever is nearer.

    Examples
    --------
    >>> add = Timing(label="add", device="cuda:0", first=1.0, values=(4e-6,) * 9, bytes=12_000_000)
    >>> fraction_of_roof(add, Roof(byte_rate=4e12, flop_rate=50e12))
    0.75
    """
    rates = ((timing.byte_rate, roof.byte_rate), (timing.flop_rate, roof.flop_rate))
    return max((rate / limit for rate, limit in rates if rate is not None), default=None)
