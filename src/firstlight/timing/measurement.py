"""Time one call honestly: the first call apart, warm-up, long blocks, spread, and a wait for every device in use."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import repeat
from typing import Any

MIN_BLOCK_SECONDS = 5e-3
MIN_BLOCK_WAITS = 50  # a block lasts this many waits, so that the wait adds at most 2 % to a call
MIN_BLOCKS, MAX_BLOCKS = 9, 25
MAX_LOOPS = 1_000_000
STEADY = 0.05  # a first block that is this much above the median of the others belongs to the warm-up
FEWEST, EXTRA = 3, 0.75  # values without which there is no spread, and the seconds beyond its budget that they may take
QUIET = 0.02  # a spread below this needs no more than MIN_BLOCKS

Clock = Callable[[], float]
Wait = Callable[[], None]


@dataclass(frozen=True)
class Timing:
    """What was measured of one call; times are in seconds, one value a block of calls.

    Examples
    --------
    >>> t = Timing(label="add", device="cpu", first=0.5, values=(0.2, 0.1, 0.3), bytes=100)
    >>> t.median, t.byte_rate
    (0.2, 500.0)
    """

    label: str
    device: str
    first: float
    values: tuple[float, ...]
    n: int | None = None
    bytes: int | None = None
    flops: int | None = None
    loops: int = 1
    cores: float | None = None
    device_seconds: float | None = None
    of_roof: float | None = None
    verdict: str = "ok"

    @cached_property
    def median(self) -> float:
        """What half of the blocks were faster than; NaN if nothing was timed."""
        return statistics.median(self.values) if self.values else math.nan

    @cached_property
    def quartiles(self) -> tuple[float, float]:
        """A quarter of the blocks was faster than the first, a quarter slower than the second."""
        if len(self.values) < 2:
            return self.median, self.median
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high

    @property
    def spread(self) -> float:
        """The distance of the quartiles as a fraction of the median."""
        low, high = self.quartiles
        return (high - low) / self.median if self.median else 0.0

    @property
    def byte_rate(self) -> float | None:
        """Bytes a second, of the bytes that the call must move at the least."""
        return self.bytes / self.median if self.bytes and self.values else None

    @property
    def flop_rate(self) -> float | None:
        """Floating-point operations a second."""
        return self.flops / self.median if self.flops and self.values else None


def measure(
    fn: Callable[..., object],
    *args: Any,
    label: str = "",
    n: int | None = None,
    bytes: int | None = None,
    flops: int | None = None,
    device: object = None,
    budget: float = 1.0,
    clock: Clock | None = None,
    wait: Wait | None = None,
) -> Timing:
    """Time ``fn(*args)``.

    Calls are made in blocks, and the clock is stopped only when every device has finished. Blocks are long against the
    clock and the wait, and those at the start that are slower than the rest are warm-up and do not count. At least nine
    make a result, more where they scatter.

    Parameters
    ----------
    fn, args
        The function and its arguments. Hand over the function, not its result.
    label
        What to call this row.
    n
        The size of the problem.
    bytes, flops
        The least that one call must move (each input read once, each result written once) and compute.
    device
        Where the work is done; by default where the arguments are.
    budget
        Seconds to spend after the first call; for the third value, a little more.
    clock, wait
        For tests: a clock, and what blocks until the device has finished.

    Returns
    -------
    Timing
        With verdict ``ok``, ``noisy``, ``few``, ``launch-bound``, ``cpu-contended`` or ``simulated``.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.ones(10_001)
    >>> t = measure(np.add, a, a, bytes=3 * a.nbytes)
    >>> t.device, len(t.values) >= 1, t.first > 0
    ('cpu', True, True)
    """
    check_request(fn, label, n, bytes, flops, budget)
    place = str(device) if device is not None else device_of(args)
    tick, settle = clock or time.perf_counter, wait or waiter(place)
    timing = Timing(label, place, first=math.nan, values=(), n=n, bytes=bytes, flops=flops, verdict="simulated")
    try:
        settle()
        with launches_in_simulator() as simulated:
            start = tick()
            fn(*args)
            settle()
            first = tick() - start
        if simulated:
            return timing
        loops, values, cores = steady_blocks(partial(fn, *args) if args else fn, tick, settle, budget)
        timing = replace(timing, first=first, values=tuple(values), loops=loops)
        if clock is None and wait is None:
            timing = replace(timing, cores=cores, device_seconds=seconds_on_device(fn, args, place, timing.median))
    except Exception as error:
        error.add_note(f"raised by the call that was being timed as {label or getattr(fn, '__name__', fn)!r}")
        raise
    return replace(timing, verdict=engine_verdict(timing))


def check_request(fn: object, label: str, n: int | None, bytes: int | None, flops: int | None, budget: float) -> None:
    """Refuse what cannot be measured before anything runs."""
    if not callable(fn):
        raise TypeError(
            f"to time {label or 'something'!r}, give a function and its arguments: measure(np.add, a, b), not "
            f"measure(np.add(a, b)). Got {type(fn).__name__}, which cannot be called."
        )
    for name, value in (("n", n), ("bytes", bytes), ("flops", flops)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a positive number for one call, or None if unknown; got {value!r}")
    if not budget > 0:
        raise ValueError(f"budget must be a positive number of seconds; got {budget!r}")


def steady_blocks(
    call: Callable[[], object], tick: Clock, settle: Wait, budget: float
) -> tuple[int, list[float], float]:
    """Grow a block until it is long, then collect blocks without the warm-up: loops, seconds a call, cores."""
    cpu_seconds: list[float] = []

    def block(loops: int) -> float:
        cpu, start = time.process_time(), tick()
        for _ in repeat(None, loops):
            call()
        settle()
        seconds = tick() - start
        cpu_seconds.append((time.process_time() - cpu) / loops)
        return seconds / loops

    long_enough = max(MIN_BLOCK_SECONDS, MIN_BLOCK_WAITS * idle_wait(tick, settle))
    began, loops = tick(), 1
    values = [block(loops)]
    while values[-1] * loops < long_enough and loops < MAX_LOOPS and tick() - began < budget:
        loops = math.ceil(loops * min(10, 1.2 * long_enough / max(values[-1] * loops, 1e-9)))
        values = [block(loops)]

    cpu_seconds = cpu_seconds[-1:]
    while tick() - began < budget + (EXTRA if len(values) < FEWEST else 0) and len(values) < MAX_BLOCKS:
        if len(values) >= MIN_BLOCKS and Timing("", "", 0, tuple(values)).spread < QUIET:
            break
        values.append(block(loops))
        # Clocks rise and caches fill over many calls: the head of the list is warm-up while it is above the rest.
        while len(values) > 1 and values[0] > (1 + STEADY) * statistics.median(values[1:]):
            del values[0], cpu_seconds[0]
    wall = sum(values)
    return loops, values, sum(cpu_seconds) / wall if wall else 0.0


def idle_wait(tick: Clock, settle: Wait) -> float:
    """Return seconds that the wait and the clock cost when there is nothing to wait for."""
    costs = []
    for _ in range(5):
        start = tick()
        settle()
        costs.append(tick() - start)
    return statistics.median(costs)


def engine_verdict(timing: Timing) -> str:
    """Return what the measurement itself says against its own result."""
    if timing.device_seconds and timing.median > 1.2 * timing.device_seconds:
        return "launch-bound"
    if timing.device == "cpu" and timing.cores is not None and timing.cores < 0.8:
        return "cpu-contended"
    if len(timing.values) < MIN_BLOCKS:
        return "few"
    return "noisy" if timing.spread > 0.1 else "ok"


def device_of(args: tuple[Any, ...]) -> str:
    """Return where the arguments are: the first accelerator among them, else the CPU."""
    places = [str(getattr(arg, "device", "cpu")) for arg in args]
    return next((place for place in places if place.split(":")[0] in ("cuda", "xpu", "mps")), "cpu")


def waiter(place: str) -> Wait:
    """Make what blocks until all devices in use have finished; it imports nothing that is not loaded already."""

    def settle() -> None:
        torch = sys.modules.get("torch")
        if torch is not None and torch.accelerator.is_available():
            started = not torch.cuda.is_available() or torch.cuda.is_initialized()
            if started:
                torch.accelerator.synchronize(*([place] if place != "cpu" else []))
            if started and torch.cuda.is_available():
                return  # this waited for the whole CUDA device, Numba's kernels too
        cuda = sys.modules.get("numba.cuda")
        if cuda is not None and not sys.modules["numba"].config.ENABLE_CUDASIM and cuda.is_available():
            cuda.synchronize()

    return settle


@contextmanager
def launches_in_simulator() -> Iterator[list[object]]:
    """Collect the kernels that Numba's simulator runs meanwhile: what it takes says nothing about a GPU."""
    seen: list[object] = []
    simulator = sys.modules.get("numba.cuda.simulator.kernel")
    if simulator is None:
        yield seen
        return
    kernel = simulator.FakeCUDAKernel
    original = kernel.__call__

    def watched(self: object, *args: Any) -> Any:
        seen.append(self)
        return original(self, *args)

    kernel.__call__ = watched
    try:
        yield seen
    finally:
        kernel.__call__ = original


def seconds_on_device(
    fn: Callable[..., object], args: tuple[Any, ...], place: str, call_seconds: float
) -> float | None:
    """Return seconds that the device itself needs for a call, by events, with no gaps between the calls (CUDA only).

    Around calls that the device has to wait for, events would count the waiting. So the queue is first plugged
    with work that lasts longer than the host needs to ask for all the calls; they then run back to back.
    What a call does on other streams counts only if it makes the current one wait for them.
    """
    torch = sys.modules.get("torch")
    if torch is None or not place.startswith("cuda") or not torch.cuda.is_available():
        return None
    calls = max(1, min(100, int(3e-3 / call_seconds)))
    times: list[float] = []
    with torch.cuda.device(place):
        for _ in range(5):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(int(2e9 * min(1.5 * calls * call_seconds, 20e-3)))
            start.record()
            for _ in repeat(None, calls):
                fn(*args)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e-3 / calls)
    return statistics.median(times)
