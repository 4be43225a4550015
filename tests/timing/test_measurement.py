import functools
import gc
import itertools
import math
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from fakes import FakeDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from new_python import printed_by

from firstlight.timing import measurement
from firstlight.timing.gpu_state import GpuState
from firstlight.timing.measurement import Device, measure
from firstlight.timing.result import Timing


def timed(device: FakeDevice, seconds, **kwargs) -> Timing:
    with mock.patch.object(measurement, "Device", return_value=device):
        return measure(device.call(seconds), **kwargs)


@given(cost=st.floats(2e-6, 0.05), wait=st.floats(0, 100e-6))
@settings(deadline=None)
def test_exact_on_any_device(cost: float, wait: float) -> None:
    t = timed(FakeDevice(wait_cost=wait), cost)
    assert t.median == pytest.approx(cost, rel=0.05)
    assert t.quartiles[0] <= t.median <= t.quartiles[1]


def test_compiling_first_call_stays_out_of_the_median() -> None:
    t = timed(FakeDevice(), lambda call: 1.0 if call == 0 else 20e-6)
    assert t.first == pytest.approx(1.0, rel=0.01)
    assert max(t.values) < 25e-6
    assert t.verdict == "ok"


def test_clock_that_ramps_up_is_waited_for() -> None:
    t = timed(FakeDevice(), lambda call: 20e-6 * (1 + 4 * math.exp(-call / 500)))
    assert t.median == pytest.approx(20e-6, rel=0.05)


@pytest.mark.parametrize("fast", [60, 120, 150])  # the last, until the eighth of nine blocks
def test_a_card_that_reaches_its_power_limit_is_timed_behind_it(fast: int) -> None:
    t = timed(FakeDevice(), lambda call: 328e-6 if call < fast else 371e-6)
    assert (min(t.values), t.median) == pytest.approx((371e-6, 371e-6), rel=0.03)  # one block may have some of each
    assert t.verdict == "ok"  # nobody told why


def test_a_throttled_run_says_so_and_what_the_gpu_did_before_and_after() -> None:
    device, calls, asked_for = FakeDevice("cuda:0"), 0, []

    def cost(call: int) -> float:
        nonlocal calls
        calls = call
        return 328e-6 if call < 120 else 371e-6

    def state() -> GpuState:
        asked_for.append(device.busy_until - device.now)
        slow = calls >= 120 and device.busy_until > device.now  # an idle card is not slowed down
        return GpuState(1.4e9, 699.0, 60, "power") if slow else GpuState(1.98e9, 120.0, 34, "nothing")

    device.state = state
    t = timed(device, cost)
    assert (t.verdicts, t.median) == (("throttled",), pytest.approx(371e-6, rel=0.01))
    assert (t.before.slowed_by, t.after.slowed_by, t.after.clock_hz) == ("nothing", "power", 1.4e9)
    assert asked_for[0] <= 0 < asked_for[1]
    device.state = lambda: GpuState(1.98e9, 120.0, 34, "nothing")
    assert timed(device, 371e-6).verdict == "ok"


def test_a_slow_head_does_not_count() -> None:
    t = timed(FakeDevice(), lambda call: 600e-6 if call < 50 else 371e-6)
    assert max(t.values) == pytest.approx(371e-6, rel=0.01)
    assert t.verdict == "ok"


def test_a_busy_neighbour_is_seen() -> None:
    device = FakeDevice(cores=15.1)

    def beside_a_neighbour(_: int) -> float:
        waited, times = device.waited.get("7", (0, 0))
        device.waited["7"] = waited + 7_900_000, times + 1  # of sixteen threads, this one waits its turn
        return 8e-3

    device.waited["1"] = 4_000_000_000, 10  # long ago
    t = timed(device, beside_a_neighbour, budget=10)
    assert t.verdicts == ("cpu-contended",)
    assert t.queued == pytest.approx(1, abs=0.05)


def test_threads_that_are_only_woken_up_often_wait_for_nobody() -> None:
    device = FakeDevice(cores=15.1)

    def wakes_many(_: int) -> float:
        for thread in map(str, range(16)):
            waited, times = device.waited.get(thread, (0, 0))
            device.waited[thread] = waited + 20_000, times + 1
        return 100e-6

    t = timed(device, wakes_many)
    assert (t.verdict, t.queued) == ("ok", 0)


def test_a_call_that_sleeps_is_waiting_and_more_cores_than_there_are_are_unknown() -> None:
    assert timed(FakeDevice(cores=0.01, waited={"1": (5000, 1)}), 6e-3).verdict == "waiting"
    assert timed(FakeDevice(cores=1e4), 6e-3).cores is None


def test_a_busy_machine_is_seen_by_this_system() -> None:
    if not Device("cpu").queues():
        pytest.skip("no /proc/self/task/*/schedstat")
    code = "import time; end = time.time() + 20; print(flush=True); [0 for _ in iter(lambda: time.time() < end, False)]"
    command = [sys.executable, "-c", code]
    neighbours = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in os.sched_getaffinity(0)]
    try:
        for neighbour in neighbours:
            neighbour.stdout.readline()  # until it runs
        assert "cpu-contended" in measure(np.sqrt, np.ones(1_000_000)).verdicts
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.communicate()


def test_what_is_set_up_before_each_call_is_not_timed() -> None:
    device, done = FakeDevice(), []
    call = device.call(20e-3)

    def setup() -> None:
        device.now += 7.0
        done.append("setup")

    def sort() -> None:
        assert done.pop() == "setup", "each call has a setup of its own"
        call()

    with mock.patch.object(measurement, "Device", return_value=device):
        t = measure(sort, setup=setup, blocks=11)
    assert (t.loops, len(t.values), t.device_seconds) == (1, 11, None)
    assert t.values == pytest.approx([20e-3] * 11, rel=0.01)


def test_as_many_blocks_as_one_asks_for() -> None:
    assert len(timed(FakeDevice(), 2.5, blocks=12).values) == 12  # thirty seconds
    assert len(timed(FakeDevice(), 20e-6, blocks=40).values) == 40
    with pytest.raises(ValueError, match="blocks"):
        timed(FakeDevice(), 20e-6, blocks=0)


def test_slow_call_gets_few_blocks_and_says_so() -> None:
    t = timed(FakeDevice(), 0.4, budget=1.0)
    assert t.verdict == "few"
    assert 1 <= len(t.values) < measurement.MIN_BLOCKS
    assert t.median == pytest.approx(0.4, rel=1e-3)


def test_scatter_takes_more_blocks_and_is_called_noisy() -> None:
    rng = random.Random(0)
    noisy = timed(FakeDevice(), lambda _: rng.uniform(6e-3, 10e-3), budget=10)
    quiet = timed(FakeDevice(), 6e-3, budget=10)
    assert noisy.verdict == "noisy"
    assert len(noisy.values) > len(quiet.values) >= measurement.MIN_BLOCKS


@pytest.mark.parametrize("name", ["bytes", "flops", "n"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_impossible_requests_are_refused_before_the_call(name: str, value: float) -> None:
    calls = []
    with pytest.raises(ValueError, match=name):
        measure(lambda: calls.append(1), **{name: value})
    assert not calls


def test_a_result_in_place_of_a_function_is_refused_and_an_error_names_its_row() -> None:
    with pytest.raises(TypeError, match="ndarray"):
        measure(np.ones(3))
    with pytest.raises(ZeroDivisionError) as caught:
        measure(lambda: 1 / 0, label="my row")
    assert any("my row" in note for note in caught.value.__notes__)


async def awaited() -> None:
    pass


def generated() -> Iterator[int]:
    yield 1


class Counts:
    def __iter__(self) -> "Counts":
        return self

    def __next__(self) -> int:
        return 1


def started() -> threading.Thread:
    thread = threading.Thread(target=abs, args=(-1,))
    thread.start()
    return thread


def applied() -> object:
    with ThreadPool(1) as pool:
        return pool.apply_async(abs, (-1,))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "fn",
    [
        generated,
        awaited,
        Future,
        torch.futures.Future,
        lambda: map(abs, [1]),
        lambda: itertools.accumulate([1, 2]),
        lambda: zip([1], [2], strict=True),
        Counts,
        lambda: [1, Future()],
        lambda: {Future(): "its address"},
        lambda: {"its": [[Future()]]},
        lambda: deque([1.0, generated()]),
        started,
        applied,
        lambda: type("Array", (), {"block_until_ready": 0})(),  # JAX
        lambda: type("Collection", (), {"__dask_graph__": 0})(),
    ],
)
def test_work_that_was_not_done_is_refused_by_name(fn) -> None:
    with pytest.raises(TypeError, match=r"my row|not done"):
        measure(fn, label="my row")
    gc.collect()  # a coroutine that nobody awaited would warn


def test_a_call_that_a_cache_answers_is_refused_unless_its_setup_empties_it() -> None:
    cached = functools.lru_cache(maxsize=2)(abs)
    for fn, args in ((cached, (-1,)), (functools.partial(cached, -1), ())):
        with pytest.raises(TypeError, match="__wrapped__"):
            measure(fn, *args)
        cached.cache_clear()
        assert measure(fn, *args, setup=cached.cache_clear, budget=0.05).values
    assert measure(cached, -1, setup=lambda: cached.cache_clear(), budget=0.05).values
    assert measure(cached.__wrapped__, -1, budget=0.05).values


def test_an_iterator_that_the_first_call_would_use_up_is_refused() -> None:
    for used in (generated(), map(abs, [1]), Counts()):
        with pytest.raises(TypeError, match="use up"):
            measure(sum, used)
    assert measure(next, itertools.count(), budget=0.01).values
    assert measure(sum, range(3), budget=0.01).values


def test_threads_that_each_call_leaves_running_are_refused_and_a_pool_is_not() -> None:
    end = threading.Event()

    def leaves_a_thread() -> None:
        threading.Thread(target=end.wait).start()

    try:
        with pytest.raises(RuntimeError, match="still run"):
            measure(leaves_a_thread, budget=0.1)
    finally:
        end.set()
    with ThreadPoolExecutor(1) as pool:
        assert measure(lambda: pool.submit(abs, -1).result(), budget=0.05).values


def test_processes_that_each_call_leaves_running_are_refused() -> None:
    left = []

    def leaves_a_process() -> None:
        left.append(multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,)))
        left[-1].start()

    with pytest.raises(RuntimeError, match="still run"):
        measure(leaves_a_process, budget=0.1)
    for process in left:
        process.kill()
        process.join()


def test_an_open_file_and_results_that_are_done_are_timed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    itself: list[object] = []
    itself.append(itself)
    done = [lambda: [np.ones(3)], lambda: (), dict, lambda: {1, 2}, lambda: itself, lambda: [[0.0] * 99] * 999]
    for fn in (lambda: (tmp_path / "file").open().close(), *done):
        assert measure(fn, budget=0.01).values


@pytest.mark.parametrize("step", [0.0, -1e-3])
def test_a_clock_that_stands_still_or_runs_backwards_is_refused(step: float) -> None:
    device, ticks = FakeDevice(), itertools.count(0.0, step)
    device.tick = lambda: next(ticks)
    with pytest.raises(RuntimeError, match="clock"):
        timed(device, 0)


def test_a_clock_that_stops_later_is_refused() -> None:
    device, ticks = FakeDevice(), itertools.chain((1e-3 * i for i in range(20)), itertools.repeat(1.0))
    device.tick = lambda: next(ticks)
    with pytest.raises(RuntimeError, match="clock"):
        timed(device, 0)


class RefusesNotes(Exception):
    def add_note(self, _: str) -> None:
        raise TypeError("no notes")


class HasNoRepr:
    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def __call__(self) -> None:
        raise self.error

    def __repr__(self) -> str:
        raise ValueError("no repr")


@pytest.mark.parametrize(("label", "error"), [("row", RefusesNotes), ("", KeyError)])
def test_the_error_of_the_call_is_never_hidden(label: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        measure(HasNoRepr(error), label=label)


def test_device_is_where_the_arguments_are() -> None:
    class OnGpu:
        device = torch.device("cuda", 1)

    assert measurement.device_of((np.ones(1), 3, OnGpu())) == "cuda:1"

    class OfCuPy:
        device = type("Device", (), {"__str__": lambda _: "<CUDA Device 2>"})()

    assert measurement.device_of((OfCuPy(), np.ones(1))) == "cuda:2"
    assert measurement.device_of((np.ones(1), torch.ones(1), "cuda")) == "cpu"
    assert measurement.device_of(()) == "cpu"


def test_waits_for_the_device_that_was_asked_for_and_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda *device: waited.append(device))
    Device("xpu:1").settle()
    Device("cpu").settle()
    assert waited == [("xpu:1",), ()]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    Device("cpu").settle()
    assert waited == [("xpu:1",), ()]


def test_kernels_of_numba_and_cupy_are_waited_for_where_torch_has_no_gpu() -> None:
    code = """
        import sys, types
        waited = []
        numba = types.ModuleType("numba")
        cuda = types.ModuleType("numba.cuda"); cuda.is_available = lambda: True
        cuda.synchronize = lambda: waited.append(1)
        from firstlight.timing.measurement import measure
        sys.modules |= {"numba": numba, "numba.cuda": cuda}
        measure(abs, -1, budget=0.01)
        by_numba = len(waited)
        cupy = types.ModuleType("cupy.cuda"); cupy.is_available, cupy.Device = cuda.is_available, lambda: cuda
        sys.modules["cupy.cuda"] = cupy
        del sys.modules["numba.cuda"]
        measure(abs, -1, budget=0.01)
        print(bool(by_numba), len(waited) > by_numba, "torch" in sys.modules)
    """
    assert printed_by(code) == "True True False"


def test_simulated_kernel_has_no_time_and_runs_once() -> None:
    code = """
        import numpy as np
        import firstlight_kernels.launch as launch
        from numba import cuda
        from firstlight.timing.measurement import measure
        @cuda.jit
        def add_one(x):
            x[cuda.grid(1)] += 1
        x = np.zeros(4)
        t = measure(lambda: add_one[1, 4](x), label="kernel", n=4)
        print(t.verdict, t.values, t.median, x.tolist(), launch._watching)
        print(measure(abs, -1, budget=0.01).verdict != "simulated")
    """
    said = printed_by(code, {**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert said == "simulated () nan [1.0, 1.0, 1.0, 1.0] []\nTrue"
