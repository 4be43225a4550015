"""Does `measure` agree with torch.utils.benchmark? The same calls, timed by both in turn, as ratios.

    nox -s bench -- timing

A ratio of 1 is agreement. The last row is a call whose first run is slow, as one that compiles: torch's timer then
takes blocks of a single call, and counts its own cost to them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.utils.benchmark import Timer

from firstlight.display import quantity, show_table
from firstlight.timing.measurement import measure

ROUNDS = 5


def compiles_first(seconds: float = 0.3) -> Callable[[], None]:
    """Make a short call whose first run takes long."""
    ready = False

    def call() -> None:
        nonlocal ready
        if not ready:
            time.sleep(seconds)
            ready = True
        np.add(small, small, out=small_out)

    return call


small, small_out = np.ones(1001), np.empty(1001)
large, large_out = np.ones(4_000_001), np.zeros(4_000_001)
square, product = torch.rand(512, 512), torch.empty(512, 512)

CALLS: dict[str, Callable[[], Callable[[], object]]] = {
    "add 1 001 doubles": lambda: lambda: np.add(small, small, out=small_out),
    "add 4 000 001 doubles": lambda: lambda: np.add(large, large, out=large_out),
    "matmul 512, torch": lambda: lambda: torch.matmul(square, square, out=product),
    "slow first call": compiles_first,
}


def main() -> None:
    """Print one row a call: both medians, and the ratio with its range over the rounds."""
    threads = torch.get_num_threads()  # torch's timer takes one if it is not told
    rows = []
    for name, make in CALLS.items():
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(measure(make()).median)
            timer = Timer("call()", globals={"call": make()}, num_threads=threads)
            theirs.append(timer.blocked_autorange(min_run_time=1.0).median)
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        rows.append(
            (
                name,
                quantity(statistics.median(ours), "s"),
                quantity(statistics.median(theirs), "s"),
                f"{statistics.median(ratios):.3f}",
                f"{min(ratios):.3f} to {max(ratios):.3f}",
            )
        )
    show_table(f"{threads} threads, {ROUNDS} rounds", ("", "measure", "torch", "ratio", "range"), rows)


if __name__ == "__main__":
    main()
