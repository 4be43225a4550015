"""What a device can at most do: ceilings from its properties, roofs measured on it, and judging a timing by both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from firstlight.devices import Card, card
from firstlight.timing.measurement import Timing, measure

#: What a multiprocessor does in one clock, by compute capability. The numbers are its float32 lanes; operations of
#: its matrix units (a multiply-add is two, no sparsity) with 16-bit numbers; and with the narrowest numbers they take.
#: From NVIDIA's architecture papers, because Triton's formula gives half of what an honest matmul reaches on an H200.
#:
#: :meta hide-value:
PER_CLOCK = {
    (7, 0): (64, 1024, 1024),
    (7, 2): (64, 1024, 2048),
    (7, 5): (64, 1024, 4096),
    (8, 0): (64, 2048, 8192),
    (8, 6): (128, 1024, 4096),
    (8, 7): (128, 2048, 8192),
    (8, 9): (128, 1024, 4096),
    (9, 0): (128, 4096, 8192),
    (10, 0): (128, 8192, 32768),
    (10, 3): (128, 8192, 49152),
    (12, 0): (128, 1024, 4096),
    (12, 1): (128, 1024, 4096),
}
TOLERANCE = 1.1  # clocks may run a little above what the driver reports
CACHES = 4  # work on less than this many last-level caches may never reach memory


@dataclass(frozen=True)
class Ceilings:
    """What no program can exceed: bytes and operations a second; ``None`` where the device does not tell.

    Examples
    --------
    >>> Ceilings(byte_rate=4.8e12).flop_rate is None
    True
    """

    byte_rate: float | None = None
    float32_rate: float | None = None
    matrix16_rate: float | None = None
    flop_rate: float | None = None
    cache_bytes: int | None = None


def ceilings(of: Card) -> Ceilings:
    """Work out the ceilings from the properties on a card.

    Examples
    --------
    >>> h200 = Card(name="NVIDIA H200", kind="cuda", capability=(9, 0), multiprocessors=132, clock_hz=1.98e9,
    ...             memory_clock_hz=3.201e9, bus_bits=6144, cache_bytes=60 * 2**20)
    >>> f"{ceilings(h200).byte_rate:.3g}"
    '4.92e+12'
    """
    known = of.kind == "cuda" and of.capability in PER_CLOCK
    lanes, matrix16, fastest = PER_CLOCK[of.capability] if known and of.capability else (0, 0, 0)
    clocks = (of.multiprocessors or 0) * (of.clock_hz or 0)
    memory = 2 * (of.memory_clock_hz or 0) * (of.bus_bits or 0) / 8  # two transfers a clock: "double data rate"
    by_lanes, by_matrices, at_most = 2 * lanes * clocks or None, matrix16 * clocks or None, fastest * clocks or None
    return Ceilings(memory or None, by_lanes, by_matrices, at_most, of.cache_bytes)


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


@cache
def measured_roof(device: str) -> Roof:
    """Measure, once a run, what a big copy, a big sum and a big float32 matmul reach on a device, on all its cores.

    Examples
    --------
    >>> measured_roof("cpu").byte_rate > 0
    True
    """
    import torch

    facts = card(device)
    size = min(max(CACHES * (facts.cache_bytes or 0), 2**25), 2**28) // 4
    a, b, out = (torch.rand(size, device=device) for _ in range(3))

    def rate(fn: Callable[[], object], bytes: int) -> float:
        timing = measure(fn, bytes=bytes, device=device, budget=0.3)
        return bytes / min(timing.values)

    byte_rate = max(rate(lambda: out.copy_(a), 8 * size), rate(lambda: torch.add(a, b, out=out), 12 * size))
    side = 1024 if device == "cpu" else 4096
    left, right = (torch.rand(side, side, device=device) for _ in range(2))
    product = torch.empty_like(left)
    timing = measure(lambda: torch.matmul(left, right, out=product), device=device, budget=0.3)
    return Roof(byte_rate, 2 * side**3 / min(timing.values))


def judge(timing: Timing, limits: Ceilings, roof: Roof | None = None) -> Timing:
    """Return a timing with the verdict of its rates; only a ceiling, never a measured roof, says ``impossible``.

    Examples
    --------
    >>> t = Timing(label="add", device="cuda:0", first=1.0, values=(1e-6,) * 9, bytes=10**9)
    >>> judge(t, Ceilings(byte_rate=5e12, cache_bytes=60 * 2**20)).verdict
    'impossible'
    """
    if not timing.values:
        return timing
    from_memory = not limits.cache_bytes or (timing.bytes or 0) >= CACHES * limits.cache_bytes
    if roof and (from_memory or timing.flops):  # of memory's roof, work in a cache has no fraction
        timing = replace(timing, of_roof=fraction_of_roof(timing, roof))
    if exceeds(timing.flop_rate, limits.flop_rate) or (from_memory and exceeds(timing.byte_rate, limits.byte_rate)):
        return replace(timing, verdict="impossible")
    if timing.verdict != "ok":
        return timing
    above = roof and exceeds(timing.byte_rate, roof.byte_rate)
    if not from_memory and (above or exceeds(timing.byte_rate, limits.byte_rate)):
        return replace(timing, verdict="in-cache")
    if above or (roof and exceeds(timing.flop_rate, roof.flop_rate)):
        return replace(timing, verdict="above-roof")
    return timing


def exceeds(rate: float | None, limit: float | None) -> bool:
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
