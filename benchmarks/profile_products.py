"""Let Nsight Compute watch each product of 3_kernels/07, and print what the page shows of its report.

On a machine with a GPU, from the root of the repository::

    ncu --section SpeedOfLight --section SchedulerStats --section WarpStateStats --section MemoryWorkloadAnalysis \
        -o products python benchmarks/profile_products.py
    ncu --import products.ncu-rep --page raw --csv >products.csv
    python benchmarks/profile_products.py products.csv
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

from firstlight.records.runner import split

PAGE = Path(__file__).parents[1] / "examples" / "3_kernels" / "07_shared_memory.py"
TIMED = "bench ="  # the page measures from there on
STEPS = ("row along x", "first try", "column along x", "tile", "4 x 4 each", "8 x 8 each", "8 x 8 each, 128 registers")
SIDE = 4096
SHOWN = {
    "time_duration": "gpu__time_duration.sum",
    "inst_executed": "inst_executed",
    "issue_active": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "lsu_wavefronts": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "dram_throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_hit_rate": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_rate": "lts__t_sector_hit_rate.pct",
    "registers": "launch__registers_per_thread",
    "spilling_requests": "derived__local_spilling_requests",
    "warp_latency": "smsp__average_warps_active_per_inst_executed.ratio",
}
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = (
    "long_scoreboard",
    "lg_throttle",
    "mio_throttle",
    "short_scoreboard",
    "math_pipe_throttle",
    "wait",
    "barrier",
    "not_selected",
)


def launch_all() -> None:
    """Launch each step once, and the library's product."""
    import numpy as np
    import torch
    from numba import cuda

    page: dict[str, Any] = {"__name__": "page"}
    for block in split(PAGE.read_text(encoding="utf-8")):
        if block.kind == "code":
            exec(compile(block.text.split(TIMED)[0], str(PAGE), "exec"), page)
            if TIMED in block.text:
                break
    climbed, launch = page["climbed"], page["launch"]
    rng = np.random.default_rng(seed=1)
    a, b = (cuda.to_device(rng.random((SIDE, SIDE), dtype=np.float32)) for _ in range(2))
    c = cuda.device_array_like(a)
    for name in (*STEPS, "wide loads"):
        launch(climbed[name], a, b, c)
    cuda.synchronize()
    torch.matmul(*(torch.as_tensor(array, device="cuda") for array in (a, b)))
    torch.cuda.synchronize()


def show(report: Path) -> None:
    """Print a line for each metric: its name, and a value for each kernel."""
    lines = csv.reader(report.read_text(encoding="utf-8").splitlines())
    head, _, *kernels = [line for line in lines if len(line) > len(SHOWN)]
    for name, metric in (SHOWN | {f"stalled_{stall}": STALL.format(stall) for stall in STALLS}).items():
        values = [float(kernel[head.index(metric)].replace(",", "")) for kernel in kernels]
        print(name, *(f"{round(value, 2):.3g}".replace("e+", "e") for value in values))


if __name__ == "__main__":
    show(Path(sys.argv[1])) if len(sys.argv) > 1 else launch_all()
