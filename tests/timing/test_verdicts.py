from dataclasses import replace

import pytest
from samples import GPU as H200

from firstlight.devices import Card
from firstlight.timing.ceilings import Ceilings, Roof, ceilings
from firstlight.timing.result import Timing
from firstlight.timing.verdicts import fraction_of_roof, verdict_of, with_verdict

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
@pytest.mark.parametrize("verdict", ["ok", "cpu-contended"])
def test_a_call_that_does_nothing_is_impossible_on_a_cpu_too(amount: dict, verdict: str) -> None:
    limits = ceilings(Card(name="some CPU", kind="cpu", cores=8, cache_bytes=2**25))
    at_once = Timing(label="x", device="cpu", first=1.0, values=(2e-8,) * 9, verdict=verdict, **amount)
    assert with_verdict(at_once, limits).verdict == "impossible"
    assert with_verdict(replace(at_once, values=(1.0,) * 9), limits).verdict == verdict


def timing(**changes) -> Timing:
    return Timing(**{"label": "x", "device": "cuda:0", "first": 1.0, "values": (1e-3,) * 9, **changes})


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"bytes": 9 * 10**8}, "ok"),
        ({"bytes": 109 * 10**7}, "ok"),  # clocks may run a little above what the driver says
        ({"bytes": 12 * 10**8}, "impossible"),
        ({"bytes": 12 * 10**8, "verdict": "noisy"}, "impossible"),
        ({"bytes": 9 * 10**8, "verdict": "noisy"}, "noisy"),
        ({"bytes": 9 * 10**6, "values": (1e-6,) * 9}, "in-cache"),
        ({"bytes": 4 * 10**7, "values": (1e-6,) * 9}, "impossible"),  # three of four caches must come from memory
        ({"bytes": 4 * 10**7, "values": (3e-5,) * 9}, "in-cache"),  # and may take no longer than this
        ({"flops": 12 * 10**11}, "impossible"),
        ({"flops": 12 * 10**11, "bytes": 10}, "impossible"),
        ({"values": (), "verdict": "simulated", "bytes": 10**15}, "simulated"),
        ({}, "ok"),
    ],
)
def test_verdicts_by_theory(changes: dict, verdict: str) -> None:
    assert with_verdict(timing(**changes), LIMITS).verdict == verdict


def test_a_measured_roof_never_says_impossible() -> None:
    roof = Roof(byte_rate=1e10, flop_rate=1e10)
    no_theory = Ceilings(cache_bytes=10**7)
    assert with_verdict(timing(bytes=10**12), no_theory, roof).verdict == "above-roof"
    assert with_verdict(timing(flops=10**12), no_theory, roof).verdict == "above-roof"
    assert with_verdict(timing(bytes=2 * 10**7), replace(no_theory, cache_bytes=10**8), roof).verdict == "in-cache"
    assert with_verdict(timing(bytes=10**7), no_theory, roof).verdict == "ok"
    assert with_verdict(timing(bytes=2 * 10**7), no_theory, roof).verdict == "in-cache"
    assert with_verdict(timing(bytes=3 * 10**7), no_theory, roof).verdict == "above-roof"


def test_fraction_is_that_of_the_nearer_roof() -> None:
    roof = Roof(byte_rate=1e12, flop_rate=1e13)
    assert fraction_of_roof(timing(bytes=5 * 10**8, flops=10**9), roof) == pytest.approx(0.5)
    assert fraction_of_roof(timing(bytes=10**6, flops=9 * 10**9), roof) == pytest.approx(0.9)
    assert fraction_of_roof(timing(), roof) is None


def test_verdicts_of_the_engine() -> None:
    assert verdict_of(timing()) == "ok"
    assert verdict_of(timing(device_seconds=0.5e-3)) == "launch-bound"
    assert verdict_of(timing(device_seconds=0.95e-3)) == "ok"
    assert verdict_of(timing(device="cpu", cores=0.5)) == "cpu-contended"
    assert verdict_of(timing(device="cpu", cores=2.0)) == "ok"
    assert verdict_of(timing(cores=0.01)) == "ok"  # the host of a GPU may well sleep
    assert verdict_of(timing(values=(1.0,) * 8)) == "few"
    assert verdict_of(timing(values=(1.0, 1.0, 1.0, 1.0, 1.0, 1.5, 1.5, 1.5, 1.5))) == "noisy"


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
    assert with_verdict(timing(**changes), ceilings(H200)).verdict == verdict
