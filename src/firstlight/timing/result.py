"""What was measured of one call, and the name of the row that it makes."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from firstlight.display import quantity
from firstlight.timing.gpu_state import GpuState

MIN_VALUES = 3  # fewer have no quartiles
_NAME = re.compile(r"([^/]*)/(.*?)(?:/([^/]*))?(?:/n=(\d+(?:\.\d+)?(?:e\+\d+)?))?", re.DOTALL)


@dataclass(frozen=True)
class RowName:
    """The name of a row: its experiment, and there its label, its device and its size. Labels may have slashes.

    Examples
    --------
    >>> name = RowName.parse("vector-add/copy/host to device/cuda:0/n=1000")
    >>> name.label, name.device, name.n
    ('copy/host to device', 'cuda:0', 1000)
    >>> str(name), name.in_bench
    ('vector-add/copy/host to device/cuda:0/n=1000', 'copy/host to device/cuda:0/n=1000')
    """

    bench: str
    label: str
    device: str = ""  # none of an experiment that is not for this machine
    n: float | None = None

    @property
    def in_bench(self) -> str:
        """The name within its experiment."""
        return "/".join(filter(None, [self.label, self.device, f"n={self.n}" if self.n else ""]))

    def __str__(self) -> str:
        return f"{self.bench}/{self.in_bench}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take apart what ``str`` has written."""
        found = _NAME.fullmatch(text)
        bench, label, device, n = found.groups() if found else (text, "", "", None)
        return cls(bench, label, device or "", (int(n) if n.isdecimal() else float(n)) if n else None)


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
    footprint: int | None = None
    tensor_cores: bool | None = None
    loops: int = 1
    cores: float | None = None
    device_seconds: float | None = None
    queued: float | None = None
    of_roof: float | None = None
    before: GpuState | None = None
    after: GpuState | None = None
    verdicts: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict that weighs most; "ok" if there is none."""
        return self.verdicts[0] if self.verdicts else "ok"

    @property
    def verdict_text(self) -> str:
        """All verdicts, with commas between them; "ok" if there is none."""
        return ", ".join(self.verdicts) or "ok"

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
    def relative_iqr(self) -> float:
        """The interquartile range as a fraction of the median."""
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

    def speedup_over(self, slower: Timing) -> tuple[float, float]:
        """Return between which two numbers lies how many times as fast this is: from quartile to opposite quartile.

        Fewer than three values have no quartiles: zero to infinity.

        Examples
        --------
        >>> one, other = (Timing("add", "cpu", 1.0, values) for values in ((1.0, 1.0, 1.1), (2.0, 2.1, 2.1)))
        >>> "{:.2f} to {:.2f} times".format(*one.speedup_over(other))
        '1.95 to 2.10 times'
        """
        if min(len(self.values), len(slower.values)) < MIN_VALUES:
            return 0.0, math.inf
        (low, high), (slower_low, slower_high) = self.quartiles, slower.quartiles
        return slower_low / high, slower_high / low

    @property
    def rate_text(self) -> str:
        """The bytes, or else the operations, that it did in a second; empty if neither is known."""
        rate, unit = (self.byte_rate, "B/s") if self.byte_rate else (self.flop_rate, "FLOP/s")
        return quantity(rate, unit) if rate else ""
