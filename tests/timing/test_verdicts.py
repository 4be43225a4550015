from dataclasses import replace

import pytest
from samples import GPU as H200

from firstlight.devices import Card
from firstlight.timing.ceilings import Ceilings, Roof, ceilings
from firstlight.timing.gpu_state import GpuState
from firstlight.timing.result import Timing
from firstlight.timing.verdicts import fraction_of_roof, verdicts_of, with_verdicts, with_verdicts_of_series

LIMITS = Ceilings(byte_rate=1e12, flop_rate=1e15, cache_bytes=10**7)


def test_ceilings_of_an_h200_agree_with_its_data_sheet() -> None:
    found = ceilings(H200)
    assert found.byte_rate == pytest.approx(4.8e12, rel=0.03)
    assert found.float32_rate == pytest.approx(67e12, rel=0.01)
    assert found.flop_rate == pytest.approx(1979e12, rel=0.1)  # with 8-bit numbers


def test_what_the_driver_does_not_tell_is_no_ceiling() -> None:
    unknown = ceilings(replace(H200, memory_clock_hz=None, clock_hz=None))
    assert (unknown.byte_rate, unknown.flop_rate) == (None, None)
    assert ceilings(replace(H200, capability=(99, 0))).flop_rate is None
    assert ceilings(replace(H200, kind="rocm")).flop_rate is None
    assert ceilings(Card(name="some CPU", kind="cpu")) == Ceilings()


@pytest.mark.parametrize("amount", [{"bytes": 10**9}, {"bytes": 10**6}, {"flops": 10**12}])
@pytest.mark.parametrize("verdicts", [(), ("cpu-contended",)])
def test_a_call_that_does_nothing_is_impossible_on_a_cpu_too(amount: dict, verdicts: tuple[str, ...]) -> None:
    limits = ceilings(Card(name="some CPU", kind="cpu", cores=8, cache_bytes=2**25))
    at_once = Timing(label="x", device="cpu", first=1.0, values=(2e-8,) * 9, verdicts=verdicts, **amount)
    assert with_verdicts(at_once, limits).verdict == "impossible"
    assert with_verdicts(replace(at_once, values=(1.0,) * 9), limits).verdicts == verdicts


def timing(**changes) -> Timing:
    return Timing(**{"label": "x", "device": "cuda:0", "first": 1.0, "values": (1e-3,) * 9, **changes})


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"bytes": 9 * 10**8}, "ok"),
        ({"bytes": 109 * 10**7}, "ok"),  # clocks may run a little above what the driver says
        ({"bytes": 12 * 10**8}, "impossible"),
        ({"bytes": 12 * 10**8, "verdicts": ("noisy",)}, "impossible"),
        ({"bytes": 9 * 10**8, "verdicts": ("noisy",)}, "noisy"),
        ({"bytes": 9 * 10**6, "values": (1e-6,) * 9}, "in-cache"),
        ({"bytes": 9 * 10**6, "values": (1e-6,) * 9, "verdicts": ("noisy",)}, "noisy, in-cache"),
        ({"bytes": 4 * 10**7, "values": (1e-6,) * 9}, "impossible"),  # three of four caches must come from memory
        ({"bytes": 4 * 10**7, "values": (3e-5,) * 9}, "in-cache"),  # and may take no longer than this
        ({"flops": 12 * 10**11}, "impossible"),
        ({"flops": 12 * 10**11, "bytes": 10}, "impossible"),
        ({"values": (), "verdicts": ("simulated",), "bytes": 10**15}, "simulated"),
        ({}, "ok"),
    ],
)
def test_verdicts_by_theory(changes: dict, verdict: str) -> None:
    assert with_verdicts(timing(**changes), LIMITS).verdict_text == verdict


def test_a_measured_roof_never_says_impossible() -> None:
    roof = Roof(byte_rate=1e10, flop_rate=1e10)
    no_theory = Ceilings(cache_bytes=10**7)
    assert with_verdicts(timing(bytes=10**12), no_theory, roof).verdict == "above-roof"
    assert with_verdicts(timing(flops=10**12), no_theory, roof).verdict == "above-roof"
    assert with_verdicts(timing(bytes=2 * 10**7), replace(no_theory, cache_bytes=10**8), roof).verdict == "in-cache"
    assert with_verdicts(timing(bytes=10**7), no_theory, roof).verdict == "ok"
    assert with_verdicts(timing(bytes=2 * 10**7), no_theory, roof).verdict == "in-cache"
    assert with_verdicts(timing(bytes=3 * 10**7), no_theory, roof).verdict == "above-roof"


def test_fraction_is_that_of_the_nearer_roof() -> None:
    roof = Roof(byte_rate=1e12, flop_rate=1e13)
    assert fraction_of_roof(timing(bytes=5 * 10**8, flops=10**9), roof) == pytest.approx(0.5)
    assert fraction_of_roof(timing(bytes=10**6, flops=9 * 10**9), roof) == pytest.approx(0.9)
    assert fraction_of_roof(timing(), roof) is None


@pytest.mark.parametrize(
    ("changes", "verdicts"),
    [
        ({}, "ok"),
        ({"device_seconds": 0.95e-3}, "ok"),
        ({"device_seconds": 0.5e-3}, "launch-bound"),
        ({"device_seconds": 0.5e-3, "values": (1e-3, 1e-3, 2e-3)}, "launch-bound, few, noisy"),
        ({"device_seconds": 0.5e-3, "queued": 0.5}, "launch-bound, cpu-contended"),
        ({"queued": 0.5}, "ok"),  # the GPU is busy all the same
        ({"cores": 0.01}, "ok"),  # the host of a GPU may well sleep
        ({"values": (1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1.5e-3, 1.5e-3, 1.5e-3, 1.5e-3)}, "noisy"),
        ({"after": GpuState(1.4e9, 700.0, 60, "power")}, "throttled"),
        ({"after": GpuState(1.98e9, 500.0, 60, "nothing")}, "ok"),
        ({"after": GpuState(1.98e9)}, "ok"),  # its driver doesn't tell
        ({"before": GpuState(0.3e9, 70.0, 30, "heat"), "after": GpuState(1.98e9, slowed_by="nothing")}, "ok"),
        ({"device": "cpu", "cores": 2.0}, "ok"),
        ({"device": "cpu", "cores": 2.0, "queued": 0.05}, "ok"),
        ({"device": "cpu", "cores": 15.1, "queued": 0.9}, "cpu-contended"),
        ({"device": "cpu", "cores": 0.5, "queued": 0.5}, "cpu-contended"),
        ({"device": "cpu", "cores": 0.1, "queued": 0.0}, "waiting"),
        ({"device": "cpu", "cores": 0.1}, "cpu-contended"),  # the system doesn't tell which
    ],
)
def test_verdicts_of_the_engine(changes: dict, verdicts: str) -> None:
    assert replace(timing(), verdicts=verdicts_of(timing(**changes))).verdict_text == verdicts


def in_series(*rows: dict) -> list[str]:
    return [row.verdict_text for row in with_verdicts_of_series([timing(device="cpu", **row) for row in rows])]


def test_a_row_that_takes_longer_than_a_larger_one_is_flagged() -> None:
    large, small = {"n": 9, "bytes": 9000, "values": (1e-3,) * 9}, {"n": 3, "bytes": 3000, "values": (2e-3,) * 9}
    assert in_series(large, small) == ["ok", "non-monotonic"]
    assert in_series(large, {**small, "values": (1.2e-3,) * 9}) == ["ok", "ok"]
    assert in_series(large, {**small, "label": "another way"}) == ["ok", "ok"]
    assert in_series(large, {**small, "bytes": 9000}) == ["ok", "ok"]  # in smaller pieces, not less of it
    assert in_series({**large, "flops": 10}, {**small, "flops": 20}) == ["ok", "ok"]
    assert in_series({**large, "bytes": None}, small) == ["ok", "ok"]
    assert in_series({**large, "verdicts": ("impossible",)}, small) == ["impossible", "ok"]
    assert in_series({**large, "values": (), "verdicts": ("simulated",)}, small) == ["simulated", "ok"]


@pytest.mark.parametrize(
    ("seconds", "cores", "verdict"),
    [
        ((7.971e-3, 7.968e-3, 7.942e-3), 15.1, "cpu-contended"),  # as on an H200's machine, of 256 kB, 4 and 64 MB
        ((3.99e-3, 4.01e-3, 4.02e-3), 15.1, "cpu-contended"),
        ((7.971e-3, 7.968e-3, 7.942e-3), 1.0, "ok"),
        ((0.1e-3, 0.5e-3, 7.94e-3), 15.1, "ok"),  # one may happen to take 8 ms
        ((6.02e-3, 6.01e-3, 6.02e-3), 15.1, "ok"),
    ],
)
def test_a_neighbour_is_seen_by_the_ticks_of_the_scheduler(seconds: tuple, cores: float, verdict: str) -> None:
    rows = [{"n": n, "cores": cores, "values": (t,) * 9} for n, t in zip((2**18, 2**22, 2**26), seconds, strict=True)]
    assert in_series(*rows) == [verdict] * 3


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        # A product of 4096 in float32, 29 times as fast as its cores can multiply and add.
        ({"flops": 2 * 4096**3, "values": (70e-6,) * 9}, "impossible"),
        ({"flops": 2 * 4096**3, "values": (70e-6,) * 9, "tensor_cores": True}, "ok"),
        ({"flops": 2 * 4096**3, "values": (40e-6,) * 9, "tensor_cores": True}, "impossible"),
        # 190 MB don't lie in 60 MiB.
        ({"bytes": 190 * 10**6, "values": (190e6 / 31e12,) * 9}, "impossible"),
        # 16 MiB read 256 times do, and no cache is infinitely fast.
        ({"bytes": 2**32, "footprint": 2**24, "values": (2**32 / 6e12,) * 9}, "in-cache"),
        ({"bytes": 2**32, "footprint": 2**24, "values": (2**32 / 60e12,) * 9}, "impossible"),
        ({"bytes": 2**32, "footprint": 2**30, "values": (2**32 / 60e12,) * 9}, "impossible"),
        ({"bytes": 2**32, "values": (2**32 / 6e12,) * 9}, "impossible"),
        ({"bytes": 10**6, "values": (1e-9,) * 9}, "impossible"),
    ],
)
def test_verdicts_on_an_h200(changes: dict, verdict: str) -> None:
    assert with_verdicts(timing(**changes), ceilings(H200)).verdict == verdict
