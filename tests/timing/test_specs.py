import math

import pytest

from firstlight.timing.specs import SPECS, UNITS, spec, spec_of


def given():
    return [(name, what) for name, of in SPECS.items() for what in UNITS if getattr(of, what) is not None]


@pytest.mark.parametrize(("name", "what"), given())
def test_every_value_can_be_true_and_is_shown_without_losing_digits(name, what):
    value = spec(name, what)
    low, high = {
        "bandwidth": (3e9, 20e12),
        "memory": (2 * 2**30, 300 * 2**30),
        "size": (64 * 2**10, 256 * 2**20 + 1),
        "fp32": (1e12, 200e12),
        "fp64": (0.1e12, 100e12),
        "fp64_matrix": (1e12, 200e12),
        "tf32": (50e12, 2e15),
        "bf16": (100e12, 3e15),
        "fp16": (50e12, 3e15),
        "fp8": (200e12, 6e15),
        "seconds": (0.1e-6, 100e-6),
    }[what]
    assert low < value < high
    number, unit = spec_of(name).text(what).split(" ")
    assert unit.endswith(UNITS[what])
    scale = {"GB/s": 1e9, "TB/s": 1e12, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15, "GiB": 2**30}
    scale |= {"µs": 1e-6, "ns": 1e-9, "KiB": 2**10, "MiB": 2**20}
    assert math.isclose(float(number) * scale[unit], value, rel_tol=5e-4)


def test_rates_of_formats_are_in_the_ratios_that_the_architectures_have():
    ratios = {"GTX 1080": 32, "RTX 4090": 64, "V100 SXM2": 2, "A100 40GB": 2, "H100 SXM": 2, "H200": 2, "MI300X": 2}
    ratios |= {"T4": 32, "L4": 64, "L40S": 64, "B200": 2, "B300": 60, "RTX 5090": 64, "RTX PRO 6000": 64, "GB10": 64}
    for name, ratio in ratios.items():
        assert spec(name, "fp32") / spec(name, "fp64") == pytest.approx(ratio, rel=0.02)
    for name, of in SPECS.items():
        assert (bool(of.slot) or of.shares_memory) == bool(of.memory or of.fp32 or of.shares_memory), name
        assert not (of.slot and of.shares_memory), name
        assert not of.slot or spec(of.slot, "bandwidth")
        if of.tf32:  # 16 bits go twice as fast through the same units as the 19 of tf32
            assert spec(name, "bf16") == spec(name, "fp16") == pytest.approx(2 * spec(name, "tf32"), rel=0.02)
        if of.fp64_matrix:
            times = 1 if name in ("B200", "B300") else 2
            assert of.fp64_matrix == pytest.approx(times * spec(name, "fp64"), rel=0.02)
        if of.fp8:
            assert of.fp8 == pytest.approx(2 * spec(name, "fp16"), rel=0.02)


def test_float32_is_two_operations_of_each_core_in_each_cycle():
    cores = {
        "GTX 1080": 2560,
        "T4": 2560,
        "V100 SXM2": 5120,
        "A100 40GB": 6912,
        "A100 80GB SXM": 6912,
        "H100 SXM": 16896,
    }
    cores |= {"H200": 16896, "GH200": 16896, "L4": 7424, "L40S": 18176, "RTX 4090": 16384, "RTX 5090": 21760}
    assert cores.keys() == {name for name, of in SPECS.items() if of.clock and of.fp32}
    for name, count in cores.items():
        assert spec(name, "fp32") == pytest.approx(2 * count * (spec_of(name).clock or 0), rel=0.006)
    for name, units in {"MI300X": 304, "MI300A": 228}.items():
        assert spec(name, "fp32") == pytest.approx(256 * units * 2.1e9, rel=0.001)
        assert spec(name, "fp16") == pytest.approx(8 * spec(name, "fp32"), rel=0.001)


def test_no_cache_is_larger_than_the_most_that_its_card_may_have():
    sizes = {name.rpartition(" ")[0]: of.size for name, of in SPECS.items() if name.endswith(("L2", "L3"))}
    assert len(sizes) == 7
    assert all((SPECS[name].cache_at_most or 0) >= size for name, size in sizes.items())


@pytest.mark.parametrize(
    ("name", "what", "told"),
    [
        ("gtx 1080", "bandwidth", "GTX 1080, "),
        ("GTX 1080  Ti", "bandwidth", "GTX 1080, "),
        ("PCIe 3 x16", "source", "PCI Express .*bandwidth"),
        ("PCIe 3 x16", "memory", "PCI Express .*bandwidth"),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(name, what, told):
    with pytest.raises(ValueError, match=told):
        spec(name, what)
