"""Time one call honestly: the first call apart, warm-up dropped, long blocks, and a wait for every device in use."""

from __future__ import annotations

import math
import os
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from io import IOBase
from itertools import chain, islice, repeat
from pathlib import Path
from types import CoroutineType
from typing import Any

from firstlight.timing.gpu_state import GpuState, gpu_state
from firstlight.timing.result import MIN_VALUES, Timing
from firstlight.timing.verdicts import MIN_BLOCKS, verdicts_of

MIN_BLOCK_SECONDS = 5e-3
MIN_BLOCK_WAITS = 50  # a block lasts this many waits, so that the wait adds at most 2 % to a call
MAX_BLOCKS = 25
MAX_LOOPS = 1_000_000
STEADY = 0.05  # a first block that is this much off the others belongs to the warm-up
GRACE_SECONDS = 0.75  # beyond the budget, for MIN_VALUES
QUIET_IQR = 0.02  # below this, MIN_BLOCKS are enough
LONG_WAIT_NS = 500_000  # a thread that is only woken up waits for some microseconds, one behind a busy program for ms

# By an attribute of what a call may return before its work is done: Futures, Dask, Polars, JAX, threads and processes,
# subprocess, torch.distributed, pools of multiprocessing.
CURES = {"__await__": "lambda: asyncio.run(...)", "add_done_callback": "lambda: submit(...).result()"} | {
    "__dask_graph__": "lambda: (...).compute()", "collect_async": "lambda: (...).collect()",
    "block_until_ready": "lambda: (...).block_until_ready()", "is_alive": "one that joins it",
    "communicate": "lambda: (...).wait()", "is_completed": "lambda: (...).wait()",
    "successful": "lambda: apply_async(...).get()",
}  # fmt: skip


class Device:
    """Where a call runs: its name, the clocks that time the call there, and how to wait for it."""

    tick = staticmethod(time.perf_counter)
    cpu_seconds = staticmethod(time.process_time)

    def __init__(self, name: str) -> None:
        self.name = name

    def settle(self) -> None:
        """Block until all devices in use have finished; this imports nothing that is not loaded already."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.accelerator.is_available():
            started = not torch.cuda.is_available() or torch.cuda.is_initialized()
            if started:
                torch.accelerator.synchronize(*([self.name] if self.name != "cpu" else []))
            if started and torch.cuda.is_available():
                return  # this waited for the whole CUDA device, Numba's kernels too
        for library in ("numba.cuda", "numba_cuda_mlir.cuda", "cupy.cuda"):
            cuda = sys.modules.get(library)
            if cuda is not None and cuda.is_available():
                (cuda.Device() if library == "cupy.cuda" else cuda).synchronize()

    def state(self) -> GpuState | None:
        """Return the clock, power and temperature, and what slows the GPU down; None where nobody tells."""
        return gpu_state(self.name)

    def queues(self) -> dict[str, tuple[int, int]]:
        """Return how long each thread was ready to run and waited for a CPU, in ns, and how often it ran (Linux)."""
        found = {}
        for file in Path("/proc/self/task").glob("*/schedstat"):
            with suppress(OSError):  # the thread has ended
                _, waited, times = map(int, file.read_text().split())
                found[file.parent.name] = waited, times
        return found

    def seconds_of(self, call: Callable[[], object], call_seconds: float) -> float | None:
        """Return seconds that the device itself needs for a call, by events, with no gaps between them (CUDA only).

        Around calls that the device has to wait for, events would count the waiting. So the queue is first plugged
        with work that lasts longer than the host needs to ask for all the calls; they then run back to back.
        What a call does on other streams counts only if it makes the current one wait for them.
        """
        torch = sys.modules.get("torch")
        if torch is None or not self.name.startswith("cuda") or not torch.cuda.is_available():
            return None
        calls = max(1, min(100, int(3e-3 / call_seconds)))
        times: list[float] = []
        with torch.cuda.device(self.name):
            for _ in range(5):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda._sleep(int(2e9 * min(1.5 * calls * call_seconds, 20e-3)))
                start.record()
                for _ in repeat(None, calls):
                    call()
                end.record()
                end.synchronize()
                times.append(start.elapsed_time(end) * 1e-3 / calls)
        return statistics.median(times)


def measure(
    fn: Callable[..., object],
    *args: Any,
    label: str = "",
    n: int | None = None,
    bytes: int | None = None,
    flops: int | None = None,
    footprint: int | None = None,
    tensor_cores: bool | None = None,
    device: object = None,
    budget: float = 1.0,
    setup: Callable[[], object] | None = None,
    blocks: int | None = None,
) -> Timing:
    """Time ``fn(*args)``.

    Calls are made in blocks, and the clock is stopped only when every device has finished. Blocks are long against the
    clock and the wait, and those at the start that are slower or faster than the rest are warm-up and do not count. At
    least nine make a result, more where they scatter.

    Parameters
    ----------
    fn, args
        The function and its arguments. Hand over the function, not its result. For keyword arguments, hand over a
        lambda: ``lambda: np.add(a, b, out=out)``.
    label
        What to call this row.
    n
        The size of the problem.
    bytes, flops
        The least that one call must move (each input read once, each result written once) and compute.
    footprint
        The bytes of memory that it touches, if it moves some of them again and again.
    tensor_cores
        True if tensor cores may do the arithmetic; else a GPU's limit is that of its ordinary float32.
    device
        Where the work is done; by default where the arguments are.
    budget
        Seconds to spend after the first call; for the third value, a little more.
    setup
        What to do before each call, and not to time: shuffle again what the call sorts in place. Each block is then one
        call, which has to be long against the clock and the wait: ten microseconds on a CPU, a millisecond on a GPU.
    blocks
        How many values to take, however long that lasts; by default nine, more if they scatter, within the budget.

    Returns
    -------
    Timing
        With all verdicts that need no knowledge of what the hardware can do.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.ones(10_001)
    >>> t = measure(np.add, a, a, bytes=3 * a.nbytes)
    >>> t.device, len(t.values) >= 1, t.first > 0
    ('cpu', True, True)
    """
    work: dict[str, Any] = {"n": n, "bytes": bytes, "flops": flops, "footprint": footprint}
    _check_request(fn, args, label, {**work, "blocks": blocks}, budget)
    name = str(device) if device is not None else device_of(args)
    row = Timing(label, name, first=math.nan, values=(), **work, tensor_cores=tensor_cores, verdicts=("simulated",))
    try:
        return _timed(partial(fn, *args) if args else fn, row, Device(name), budget, setup, blocks)
    except Exception as error:
        with suppress(Exception):  # some refuse notes, and some functions have no repr
            error.add_note(f"raised by the call that was being timed as {label or getattr(fn, '__name__', fn)!r}")
        raise


def _timed(
    call: Callable[[], object],
    row: Timing,
    on: Device,
    budget: float,
    setup: Callable[[], object] | None,
    blocks: int | None,
) -> Timing:
    """Return a row, which says what is known of a call, with the times of the call on a device."""
    prepare = setup or (lambda: None)
    prepare()
    on.settle()
    running, before = _running(), on.state()
    with _simulated_launches() as simulated:
        start = on.tick()
        result = call()
        on.settle()
        first = on.tick() - start
    _check_result(result)
    if simulated:
        return row
    _check_left(call, running)
    _check_not_cached(call, prepare)
    queues, start = on.queues(), on.tick()
    loops, values, cores = _steady_blocks(call, on, budget, setup, blocks)
    queued = _queued(queues, on.queues(), on.tick() - start)
    prepare()
    after = None if on.name == "cpu" else _state_at_work(call, on, loops)
    timing = replace(row, first=first, values=tuple(values), loops=loops, cores=cores, queued=queued)
    alone = None if setup else on.seconds_of(call, timing.median)  # for which calls follow each other
    timing = replace(timing, device_seconds=alone, before=before, after=after)
    return replace(timing, verdicts=verdicts_of(timing))


def _queued(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]], wall: float) -> float | None:
    """Return the seconds a second that threads waited for a CPU, for longer than it takes to wake one up."""
    if not after:
        return None
    long = 0
    for thread, (waited, times) in after.items():
        waited_before, times_before = before.get(thread, (0, 0))
        if waited - waited_before > LONG_WAIT_NS * (times - times_before):
            long += waited - waited_before
    return long / (1e9 * wall)


def _state_at_work(call: Callable[[], object], on: Device, loops: int) -> GpuState | None:
    """Return the GPU's state while calls are in its queue: as soon as it is idle, nothing slows it down."""
    for _ in repeat(None, loops):
        call()
    state = on.state()
    on.settle()
    return state


def _check_request(fn: object, args: tuple[object, ...], label: str, work: dict[str, Any], budget: float) -> None:
    """Refuse what cannot be measured before anything runs."""
    if not callable(fn):
        raise TypeError(
            f"to time {label or 'something'!r}, give a function and its arguments: measure(np.add, a, b), not "
            f"measure(np.add(a, b)). Got {type(fn).__name__}, which cannot be called."
        )
    if fn is not next and (used := [type(arg).__name__ for arg in args if _is_iterator(arg)]):
        raise TypeError(f"the first call would use up its {used[0]}: give a list, or time a lambda if it has no end")
    for name, value in work.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a positive number for one call, or None if unknown; got {value!r}")
    if not budget > 0:
        raise ValueError(f"budget must be a positive number of seconds; got {budget!r}")


def _check_result(result: object) -> None:
    """Refuse what a call returns without having done its work."""
    for part in _parts(result):
        if isinstance(part, CoroutineType):
            part.close()  # else Python warns that nobody awaited it
        cure = next((cure for name, cure in CURES.items() if hasattr(type(part), name)), "")
        if cure or _is_iterator(part):
            raise TypeError(
                f"the call returned a {type(part).__name__}, and its work is not done yet: time a function that waits "
                f"until it is, such as {cure or 'lambda: list(...)'}"
            )


def _is_iterator(thing: object) -> bool:
    """Whether it gives its numbers only once, and only when asked."""
    return isinstance(thing, (Iterator, AsyncIterator)) and not isinstance(thing, IOBase)


def _parts(result: object, most: int = 1000) -> Iterator[object]:
    """Yield a result and what its containers hold, the first of it, since each of many may be a future."""
    parts = deque([result])
    while parts and (most := most - 1):
        yield (part := parts.popleft())
        if isinstance(part, (list, tuple, set, deque, dict)):
            values = part.values() if isinstance(part, dict) else ()
            parts.extend(islice(chain(part, values), most))


def _running() -> int:
    """Return how many threads and processes of this program run."""
    processes = sys.modules.get("multiprocessing")
    return threading.active_count() + (len(processes.active_children()) if processes else 0)


def _check_left(call: Callable[[], object], before: int) -> None:
    """Refuse a call that leaves threads or processes behind each time; those of a pool are left once."""
    if (left := _running() - before) > 0:
        call()
        if _running() - before > left:
            raise RuntimeError("the call returned, and what it started still runs: time one that waits for it")


def _check_not_cached(call: Callable[[], object], prepare: Callable[[], object]) -> None:
    """Refuse a call that functools.cache answers from then on: to look up an answer is not the work."""
    if info := getattr(getattr(call, "func", call), "cache_info", None):
        hits = info().hits
        prepare()
        call()
        if info().hits > hits:
            raise TypeError("a cache answers all calls but the first: time the function in it, its __wrapped__")


def _steady_blocks(
    call: Callable[[], object], on: Device, budget: float, setup: Callable[[], object] | None, blocks: int | None
) -> tuple[int, list[float], float | None]:
    """Grow a block until it is long, then collect blocks without the warm-up: loops, seconds a call, cores."""
    cpu_seconds: list[float] = []

    def block(loops: int) -> float:
        if setup:
            setup()
            on.settle()
        cpu, start = on.cpu_seconds(), on.tick()
        for _ in repeat(None, loops):
            call()
        on.settle()
        if not (seconds := on.tick() - start) > 0:
            raise RuntimeError(f"the clock stands still or runs backwards: {loops} calls took {seconds} s by it")
        cpu_seconds.append((on.cpu_seconds() - cpu) / loops)
        return seconds / loops

    long_enough = max(MIN_BLOCK_SECONDS, MIN_BLOCK_WAITS * _idle_wait(on))
    began, loops = on.tick(), 1
    values = [block(loops)]
    while not setup and values[-1] * loops < long_enough and loops < MAX_LOOPS and on.tick() - began < budget:
        loops = math.ceil(loops * min(10, 1.2 * long_enough / max(values[-1] * loops, 1e-9)))
        values = [block(loops)]

    cpu_seconds = cpu_seconds[-1:]

    def enough() -> bool:
        if blocks:
            return len(values) >= blocks
        late = on.tick() - began >= budget + (GRACE_SECONDS if len(values) < MIN_VALUES else 0)
        quiet = len(values) >= MIN_BLOCKS and Timing("", "", 0, tuple(values)).relative_iqr < QUIET_IQR
        steady = abs(values[-1] / statistics.median(values) - 1) < STEADY  # or the clock may have changed just now
        return late or (quiet and steady) or len(values) >= MAX_BLOCKS

    while not enough():
        values.append(block(loops))
        while len(values) > 1 and _is_warm_up(values[0], values[1:]):
            del values[0], cpu_seconds[0]
    cores = sum(cpu_seconds) / sum(values)
    # Some systems count processor time in coarse ticks, and then more cores than there are.
    return loops, values, cores if cores < (os.cpu_count() or math.inf) + 0.5 else None


def _is_warm_up(first: float, others: list[float]) -> bool:
    """Whether a first block is slower than the others, because clocks rise and caches fill over many calls.

    Or faster: at full load a GPU reaches its power limit within a tenth of a second, and lowers its clock for good.
    """
    slowest, fastest = (1 + STEADY) * statistics.median(others), (1 - STEADY) * sorted(others)[len(others) // 4]
    return first > slowest or first < fastest


def _idle_wait(on: Device) -> float:
    """Return seconds that the wait and the clock cost when there is nothing to wait for."""
    costs = []
    for _ in range(5):
        start = on.tick()
        on.settle()
        costs.append(on.tick() - start)
    return statistics.median(costs)


def device_of(args: tuple[Any, ...]) -> str:
    """Return where the arguments are: the first accelerator among them, else the CPU."""
    devices = [str(getattr(arg, "device", "cpu")) for arg in args]
    devices = [name.replace("<CUDA Device ", "cuda:").strip(">") for name in devices]  # CuPy's
    return next((device for device in devices if device.split(":")[0] in ("cuda", "xpu", "mps")), "cpu")


def _simulated_launches() -> AbstractContextManager[list[object]]:
    """Collect the kernels whose launches are simulated meanwhile: what that takes says nothing about a GPU."""
    launch = sys.modules.get("firstlight_kernels.launch")
    seen: AbstractContextManager[list[object]] = launch.launches_seen() if launch else nullcontext([])
    return seen
