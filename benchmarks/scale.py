"""Time and memory to set up an exact likelihood, from 1e5 to 1e8 visibilities, and how many images a fit holds.

    nox -s bench -- scale                   all of it: 4 GB of disk in the folder for temporary files, some minutes
    nox -s bench -- scale --most 1e6        no more visibilities than this
    nox -s bench -- scale --json FILE       every number, too
    nox -s bench -- scale --only memory     the peak memory of fits, over sizes and types, in images of a channel

The visibilities are streamed from a file. Each line is measured in a process of its own, whose highest resident memory
is taken beyond what it had before, with a C allocator that hands back what is freed (``MALLOC_MMAP_THRESHOLD_``), or as
it comes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from firstlight.display import show_table
from firstlight_imaging import ExactLikelihood, GridCoords, GriddedNet, fit
from firstlight_imaging.model.losses import TV_image, entropy, sparsity

FIELD = 5.4  # arcsec
NOISE = 0.03  # Jy
PIECE = 1 << 20  # visibilities that are made at once
RECORD = 40  # bytes of a visibility in a file
ALLOCATORS = {"handing back": {"MALLOC_MMAP_THRESHOLD_": "131072"}, "usual": {}}
LOSSES = {
    "sparsity": (1e-4, sparsity),
    "tv": (1e-3, TV_image),
    "entropy": (1e-3, partial(entropy, prior=0.02, tot_flux=10.0)),
}
CASES = [  # npix, nchan, nvis, dtype, shared
    (256, 1, 100_000, "float32", False),
    (256, 16, 1_000_000, "float64", False),
    (256, 16, 100_000, "float32", True),
    (512, 4, 1_000_000, "float32", False),
    (512, 1, 10_000_000, "float64", False),
    (1024, 1, 10_000_000, "float32", False),
    (1024, 4, 100_000, "float64", True),
    (1024, 16, 100_000, "float32", False),
    (2048, 1, 1_000_000, "float32", False),
    (2048, 1, 100_000, "float64", False),
]
"""Sizes of fits."""


def write(folder: Path, npix: int, nchan: int, nvis: int, shared: bool) -> None:
    """Write noise seen by baselines that crowd at the centre of the grid, as an array's do, piece by piece."""
    coords, rng = GridCoords(FIELD / npix, npix), np.random.default_rng(npix)
    shape = (1 if shared else nchan, nvis)
    u, v, weight = (np.lib.format.open_memmap(folder / f"{k}.npy", "w+", float, shape) for k in ("u", "v", "weight"))
    data = np.lib.format.open_memmap(folder / "data.npy", "w+", complex, (nchan, nvis))
    for row in range(nchan):
        for start in range(0, nvis, PIECE):
            at = slice(start, min(start + PIECE, nvis))
            n = at.stop - at.start
            if row < shape[0]:
                length, angle = coords.uv_limit * rng.random(n) ** 2, 2 * np.pi * rng.random(n)
                u[row, at], v[row, at], weight[row, at] = length * np.cos(angle), length * np.sin(angle), NOISE**-2
            data[row, at] = NOISE * (rng.normal(size=n) + 1j * rng.normal(size=n))


def mapped(folder: Path, shared: bool) -> list[np.ndarray]:
    """Map what was written."""
    arrays = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("u", "v", "data", "weight")]
    return [a[0] if shared and a.shape[0] == 1 and name != 2 else a for name, a in enumerate(arrays)]


def likelihood(folder: Path, npix: int, dtype: torch.dtype, shared: bool, **options: Any) -> ExactLikelihood:
    """Set up."""
    u, v, data, weight = mapped(folder, shared)
    return ExactLikelihood(u, v, data, weight, FIELD / npix, npix, dtype=dtype, progress=False, **options)


def steps(data: ExactLikelihood) -> float:
    """Fit a little, with checks; return the time of a step."""
    start = torch.full_like(data.reference, -3.0)
    model = GriddedNet(GridCoords(data.cell_size, data.npix), len(start), start)
    began = time.perf_counter()
    fit(model, data, losses=LOSSES, lambdas="exact", max_iter=4, check_every=2, tolerance=None, progress=False)
    return (time.perf_counter() - began) / 4


def peak() -> int:
    """Ask for the highest resident memory so far, in bytes."""
    if sys.platform == "linux":  # where ru_maxrss begins with that of the process that started this one
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def case(folder: str, npix: str, dtype: str, shared: str, fitted: str) -> dict[str, float]:
    """Set up and, if asked, fit a little; measure both."""
    kind, alike = getattr(torch, dtype), shared == "True"
    with tempfile.TemporaryDirectory() as small:  # libraries, compiled loops and threads are there before it counts
        write(Path(small), 32, 2, 20_000, alike)
        warm = likelihood(Path(small), 32, kind, alike)
        if fitted == "True":
            steps(warm)
        del warm
    gc.collect()
    before, began = peak(), time.perf_counter()
    data = likelihood(Path(folder), int(npix), kind, alike)
    seconds, setup = time.perf_counter() - began, peak() - before
    step = steps(data) if fitted == "True" else 0.0
    return {"seconds": seconds, "setup": setup, "step": step, "peak": peak() - before}


def in_process(*request: object, **environment: str) -> Any:
    """Run `case` in a process of its own; take what it prints last for JSON."""
    command = [sys.executable, __file__, "--child", *map(str, request)]
    done = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def scale(most: float, npix: int = 512) -> list[dict[str, float]]:
    """Measure one channel from 1e5 visibilities on; print the table."""
    found, rows = [], []
    for exponent in range(5, 9):
        nvis = 10**exponent
        if nvis > most:
            break
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), npix, 1, nvis, shared=False)
            result = in_process(folder, npix, "float32", False, False, **ALLOCATORS["handing back"])
        found.append(result | {"nvis": nvis})
        rows.append(
            (
                f"1e{exponent}",
                f"{RECORD * nvis / 1e6:.0f}",
                f"{result['seconds']:.2f}",
                f"{1e9 * result['seconds'] / nvis:.0f}",
                f"{result['setup'] / 1e6:.0f}",
            )
        )
        print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    head = ("visibilities", "file, MB", "set-up, s", "ns each", "peak, MB")
    show_table(f"exact likelihood of {npix} x {npix} pixels, float32, from a file", head, rows)
    return found


def memory(most: float, cases: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Measure the peak memory of the set-up and of a fit, in bytes and in images of all channels; print the table."""
    found, rows = [], []
    for npix, nchan, nvis, dtype, shared in cases:
        if nvis > most:
            continue
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), npix, nchan, nvis, shared)
            results = {
                name: in_process(folder, npix, dtype, shared, True, **environment)
                for name, environment in ALLOCATORS.items()
            }
        result, cube = results["handing back"], nchan * npix**2 * getattr(torch, dtype).itemsize
        found.append({"case": [npix, nchan, nvis, dtype, shared], "images": result["peak"] / cube} | results)
        rows.append(
            (
                f"{nchan} x {npix}",
                f"{nvis:.0e}".replace("+0", ""),
                dtype,
                "shared" if shared else "own",
                f"{result['setup'] / 1e6:.0f}",
                f"{result['peak'] / 1e6:.0f}",
                f"{result['peak'] / cube:.1f}",
                f"{results['usual']['peak'] / 1e6:.0f}",
            )
        )
        print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    head = ("pixels", "visibilities", "", "u, v", "set-up, MB", "with a fit, MB", "in images", "usual, MB")
    show_table("peak memory", head, rows)
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=float, default=1e8, help="visibilities, at the most")
    parser.add_argument("--only", choices=("scale", "memory"), help="a part of it")
    parser.add_argument("--case", type=int, help="one line of the table of memory, from 1")
    parser.add_argument("--json", type=Path, help="a file to write every number to")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(case(*options.child)))
        return
    found = {}
    if options.only != "memory":
        found["scale"] = scale(options.most)
    if options.only != "scale":
        found["memory"] = memory(options.most, CASES[options.case - 1 :][:1] if options.case else CASES)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
