"""A record of a tiny example, and what it was made from; and the records of the repository."""

import json
from pathlib import Path
from typing import Any

from firstlight.devices import Card
from firstlight.records.record import Record, facts_of, installed, read, to_json
from firstlight.timing.gpu_state import GpuState
from firstlight.timing.result import Timing

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*/[0-9][0-9]_*.py"))
RECORDS = sorted((ROOT / "records").glob("*/*/*.json"))
H100 = "nvidia-h100-80gb-hbm3"


def recorded(page: str, machine: str = H100) -> Record:
    """Return what a machine measured and printed of a page."""
    return read(ROOT / "records" / machine / f"{page.removesuffix('.py')}.json")


def medians(page: str, machine: str = H100) -> dict[str, float]:
    """Return the medians of a page by their labels."""
    return {timing.label: timing.median for timing in recorded(page, machine).timings.values()}


CPU = Card(
    "AMD EPYC", "cpu", cores=2, threads_per_core=1, model="family 26, model 2", cache_bytes=2**25,
    libraries=installed(),
)  # fmt: skip
GPU = Card(
    "NVIDIA H200",
    "cuda",
    capability=(9, 0),
    multiprocessors=132,
    memory_bytes=2**37,
    cache_bytes=60 * 2**20,
    clock_hz=1_980_000_000,
    memory_clock_hz=3_201_000_000,
    bus_bits=6144,
    driver="580.159.04",
    libraries={**installed(), "cuda": "13.0"},
)
SOURCE = '''"""
Sums
====
"""

# %%
# Words.

from firstlight import Bench

bench = Bench("sums", budget=0.05)
bench.time("add", abs, -1, n=333, bytes=3996)
print("added")

# %%
# More words.

bench.show()
'''


def timing(label: str = "add", **changes: Any) -> Timing:
    facts = {"label": label, "device": "cuda:0", "first": 0.25, "values": (0.002, 0.003, 0.001), "n": 333, "loops": 7}
    return Timing(**{**facts, **changes})


def scattered(label: str, median: float = 0.01, **changes: Any) -> Timing:
    """Return a timing on one core of the CPU whose values are spread."""
    facts = {"device": "cpu", "first": 0.5, "values": (0.9 * median, median, 1.2 * median) * 3, "cores": 1.0}
    return Timing(**{"label": label, **facts, **changes})


def full_timing() -> Timing:
    before, after = GpuState(1.98e9, 98.5, 34, "nothing"), GpuState(1.395e9, 699.0, 61, "power and heat")
    known = {"cores": 1.5, "queued": 0.01, "device_seconds": 0.0015, "of_roof": 0.75, "before": before, "after": after}
    verdicts = ("launch-bound", "throttled", "few", "noisy")
    return timing(bytes=3996, flops=333, footprint=1332, tensor_cores=True, verdicts=verdicts, **known)


def record_of(
    *timings: Timing, source: str = SOURCE, example: str = "1_setup/01_sums", on: Card = GPU, **facts: Any
) -> Record:
    rows = {f"sums/{t.label}/{t.device}/n={t.n}": t for t in timings or [full_timing()]}
    outputs = {"0123456789abcdef": "added", "1:fedcba9876543210": "two\nlines"}
    return Record({**facts_of(example, source, on, CPU), "left_out": "sums/kernel/cpu/n=9", **facts}, rows, outputs)


def content() -> Any:
    """A record with every key that there is, as JSON."""
    record = record_of()
    record.facts.update(compiler="numba-cuda", code_kernels="0123456789abcdef", carried="2026-11-25")
    return json.loads(to_json(record))
