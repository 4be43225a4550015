import gc
import itertools
import math
import os
import random
from collections.abc import Iterator
from concurrent.futures import Future
from unittest import mock

import numpy as np
import pytest
import torch
from fakes import FakeDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from new_python import printed_by

from firstlight.timing import measurement
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


def test_a_card_that_reaches_its_power_limit_is_timed_behind_it() -> None:
    t = timed(FakeDevice(), lambda call: 328e-6 if call < 120 else 371e-6)  # 40 ms at the higher clock
    assert t.median == min(t.values) == pytest.approx(371e-6, rel=0.01)


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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("fn", [generated, awaited, Future, torch.futures.Future, lambda: map(abs, [1])])
def test_work_that_was_not_done_is_refused_by_name(fn) -> None:
    with pytest.raises(TypeError, match=r"my row|not done"):
        measure(fn, label="my row")
    gc.collect()  # a coroutine that nobody awaited would warn


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


def test_numba_kernels_are_waited_for_where_torch_has_no_gpu() -> None:
    code = """
        import sys, types
        waited = []
        numba = types.ModuleType("numba")
        cuda = types.ModuleType("numba.cuda"); cuda.is_available = lambda: True
        cuda.synchronize = lambda: waited.append(1)
        from firstlight.timing.measurement import measure
        sys.modules |= {"numba": numba, "numba.cuda": cuda}
        measure(abs, -1, budget=0.01)
        print(bool(waited), "torch" in sys.modules)
    """
    assert printed_by(code) == "True False"


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
