"""Measure the roofs of a device: what plain calls reach on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from firstlight.devices import card, load_torch
from firstlight.timing.ceilings import Roof
from firstlight.timing.measurement import measure
from firstlight.timing.verdicts import CACHES


@cache
def measured_roof(device: str) -> Roof:
    """Measure, once a run, what a big copy, a big sum and a big float32 matmul reach on a device, on all its cores.

    Examples
    --------
    >>> measured_roof("cpu").byte_rate > 0
    True
    """
    torch = load_torch()
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
