"""What a device can at most do: ceilings worked out from its properties, and roofs that plain calls reached."""

from __future__ import annotations

from dataclasses import dataclass

from firstlight.devices import Card

#: What a multiprocessor does in one clock, by compute capability. The numbers are its float32 lanes, and the
#: operations of its matrix units (a multiply-add is two, no sparsity) with the narrowest numbers they take.
#: From NVIDIA's architecture papers, because Triton's formula gives half of what an honest matmul reaches on an H200.
#:
#: :meta hide-value:
PER_CLOCK = {
    (7, 0): (64, 1024),
    (7, 2): (64, 2048),
    (7, 5): (64, 4096),
    (8, 0): (64, 8192),
    (8, 6): (128, 4096),
    (8, 7): (128, 8192),
    (8, 9): (128, 4096),
    (9, 0): (128, 8192),
    (10, 0): (128, 32768),
    (10, 3): (128, 49152),
    (12, 0): (128, 4096),
    (12, 1): (128, 4096),
}

# What no core of a CPU exceeds in one clock: two loads and a store of 64 bytes (AVX-512), and the operations of its
# matrix unit on 8-bit numbers (AMX). No CPU on sale has a faster clock.
_CPU_BYTES, _CPU_OPERATIONS, _CPU_CLOCK_HZ = 192, 4096, 7e9

# What no multiprocessor exceeds in one clock: 128 bytes to or from its L1.
_GPU_CACHE_BYTES = 128


@dataclass(frozen=True)
class Ceilings:
    """What no program can exceed: bytes and operations a second; ``None`` where the device does not tell.

    ``byte_rate`` is that of the memory, and ``cache_rate`` that of the nearest cache. ``float32_rate`` is that of the
    ordinary arithmetic, and ``flop_rate`` that of the matrix units with their narrowest numbers.

    Examples
    --------
    >>> Ceilings(byte_rate=4.8e12).flop_rate is None
    True
    """

    byte_rate: float | None = None
    float32_rate: float | None = None
    flop_rate: float | None = None
    cache_bytes: int | None = None
    cache_rate: float | None = None


def ceilings(of: Card) -> Ceilings:
    """Work out the ceilings from the properties on a card.

    Examples
    --------
    >>> h200 = Card(name="NVIDIA H200", kind="cuda", capability=(9, 0), multiprocessors=132, clock_hz=1.98e9,
    ...             memory_clock_hz=3.201e9, bus_bits=6144, cache_bytes=60 * 2**20)
    >>> f"{ceilings(h200).byte_rate:.3g}"
    '4.92e+12'
    """
    if of.kind == "cpu":
        clocks = (of.cores or 0) * _CPU_CLOCK_HZ
        cache_rate, at_most = _CPU_BYTES * clocks or None, _CPU_OPERATIONS * clocks or None
        return Ceilings(flop_rate=at_most, cache_bytes=of.cache_bytes, cache_rate=cache_rate)
    known = of.kind == "cuda" and of.capability in PER_CLOCK
    lanes, fastest = PER_CLOCK[of.capability] if known and of.capability else (0, 0)
    clocks = (of.multiprocessors or 0) * (of.clock_hz or 0)
    memory = 2 * (of.memory_clock_hz or 0) * (of.bus_bits or 0) / 8  # two transfers a clock: "double data rate"
    return Ceilings(
        byte_rate=memory or None,
        float32_rate=2 * lanes * clocks or None,
        flop_rate=fastest * clocks or None,
        cache_bytes=of.cache_bytes,
        cache_rate=_GPU_CACHE_BYTES * clocks or None,
    )


def uncached(moved: float, cache: float) -> float:
    """Return how many of the bytes that a call moves come from memory at least: what a cache can't have kept.

    Examples
    --------
    >>> uncached(190e6, cache=50e6), uncached(40e6, cache=50e6)
    (140000000.0, 0)
    """
    return max(moved - cache, 0)


@dataclass(frozen=True)
class Roof:
    """The best rates that plain calls reached on this device. A program may exceed them; few do.

    Examples
    --------
    >>> roof = Roof(byte_rate=4e12, flop_rate=50e12)
    >>> f"{1e6 * 12e6 / roof.byte_rate:.0f} µs for 12 MB"
    '3 µs for 12 MB'
    """

    byte_rate: float
    flop_rate: float
