"""What a row says against its own number. All that hold of this list are its verdicts, and the first weighs most.

``impossible``
    It moves bytes or computes faster than the device's ceiling allows; the number is never shown.
``simulated``
    A simulator ran the kernel, and its time says nothing about a GPU.
``launch-bound``
    The call takes longer than the device needs for its work: the device waits for the host, mostly for launches. If the
    host copies or converts the numbers first, it waits for that.
``throttled``
    The GPU's driver had lowered its clock, for power or for heat.
``cpu-contended``
    Threads were ready to run and waited for a CPU, because other programs or too many threads of its own were there. Or
    a row of the CPU had less than a core, on a system that doesn't tell why.
``waiting``
    A row of the CPU that had less than a core and asked for no more: it slept, or waited for a disk or a server.
``few``
    The budget was spent before there were nine blocks.
``noisy``
    Half of the blocks are spread over more than a tenth of the median.
``in-cache``
    Faster than memory, because the data fit into a cache.
``above-roof``
    Faster than the plain calls that measured the roof.
``non-monotonic``
    It takes longer than a row of the same name that does more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from firstlight.timing.ceilings import Ceilings, Roof, uncached
from firstlight.timing.result import Timing

NEVER_SHOWN = ("impossible", "simulated")
MIN_BLOCKS = 9
MAX_IQR = 0.1  # of the median; what is spread wider is noisy
MAX_WALL_TO_DEVICE = 1.2  # a call that takes this many times as long as its work on the device is launch-bound
MIN_CORES = 0.8
MAX_QUEUED = 0.1  # of the time
TOLERANCE = 1.1  # clocks may run a little above what the driver reports
CACHES = 4  # work on less than this many last-level caches may never reach memory
MAX_BUMP = 1.3  # a row that takes this many times as long as one that does more is wrong, or the other is
TICK = 4e-3  # Linux lets a busy program run for one or two of these before another has its turn


def verdicts_of(timing: Timing) -> tuple[str, ...]:
    """Return what the measurement itself says against its own result, whatever the hardware can do.

    Examples
    --------
    >>> verdicts_of(Timing(label="add", device="cpu", first=1.0, values=(1.0,) * 8))
    ('few',)
    """
    on_cpu = timing.device == "cpu"
    launch_bound = bool(timing.device_seconds and timing.median > MAX_WALL_TO_DEVICE * timing.device_seconds)
    idle = on_cpu and timing.cores is not None and timing.cores < MIN_CORES
    queued = (on_cpu or launch_bound) and (timing.queued or 0) > MAX_QUEUED
    found = {
        "launch-bound": launch_bound,
        "throttled": bool(timing.after and timing.after.slowed_by not in (None, "nothing")),
        "cpu-contended": queued or (idle and timing.queued is None),
        "waiting": idle and timing.queued is not None and not queued,
        "few": len(timing.values) < MIN_BLOCKS,
        "noisy": timing.relative_iqr > MAX_IQR,
    }
    return tuple(verdict for verdict, holds in found.items() if holds)


def with_verdicts(timing: Timing, limits: Ceilings, roof: Roof | None = None) -> Timing:
    """Return a timing with the verdicts of its rates, too; only a ceiling, never a measured roof, says ``impossible``.

    Examples
    --------
    >>> t = Timing(label="add", device="cuda:0", first=1.0, values=(1e-6,) * 9, bytes=10**9)
    >>> with_verdicts(t, Ceilings(byte_rate=5e12, cache_bytes=60 * 2**20)).verdict
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
        return replace(timing, verdicts=("impossible",))
    most = roof or Roof(math.inf, math.inf)
    above = _exceeds(timing.byte_rate, most.byte_rate)
    if (above and not _exceeds(fetched, most.byte_rate)) or _exceeds(timing.byte_rate, limits.byte_rate):
        return _and(timing, "in-cache")
    if above or _exceeds(timing.flop_rate, most.flop_rate):
        return _and(timing, "above-roof")
    return timing


def with_verdicts_of_series(timings: Sequence[Timing]) -> list[Timing]:
    """Return timings with what rows of the same label and device say against each other, by the work that they state.

    Rows of several cores that take one or two ticks of the scheduler, whatever their size, wait for another program.

    Examples
    --------
    >>> rows = [Timing("sum", "cpu", 1.0, (seconds,) * 9, bytes=n) for n, seconds in ((4000, 6e-3), (40_000, 2e-5))]
    >>> [row.verdict for row in with_verdicts_of_series(rows)]
    ['non-monotonic', 'ok']
    """
    found = list(timings)
    shown = [place for place, timing in enumerate(timings) if timing.values and timing.verdict not in NEVER_SHOWN]
    for one, other in permutations(shown, 2):
        small, large = timings[one], timings[other]
        if (small.label, small.device) != (large.label, large.device):
            continue
        if _does_more(large, small) and small.median > MAX_BUMP * large.median:
            found[one] = _and(found[one], "non-monotonic")
        if small.n != large.n and (ticks := _ticks(small)) and ticks == _ticks(large):
            found[one] = _and(found[one], "cpu-contended")
    return found


def _and(timing: Timing, verdict: str) -> Timing:
    """Return a timing with one more verdict."""
    return timing if verdict in timing.verdicts else replace(timing, verdicts=(*timing.verdicts, verdict))


def _does_more(large: Timing, small: Timing) -> bool:
    """Return whether one moves more bytes or computes more than another, as far as both say."""
    known = [(a, b) for a, b in ((large.bytes, small.bytes), (large.flops, small.flops)) if a and b]
    return bool(known) and all(a >= b for a, b in known) and any(a > b for a, b in known)


def _ticks(timing: Timing) -> int:
    """Return how many ticks a row on several cores takes, if one or two, as when one of its threads waits; else 0."""
    ticks = round(timing.median / TICK)
    several = timing.device == "cpu" and (timing.cores or 0) > 2 * MIN_CORES
    return ticks if several and ticks in (1, 2) and abs(timing.median / TICK - ticks) < 0.015 * ticks else 0


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
