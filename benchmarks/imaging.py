"""How fast is an iteration of a fit, ours against MPoL 0.3.1's? Both in one process, in turn, on the same data.

    nox -s bench -- imaging                       all sizes, several processes with each setting of the allocator
    nox -s bench -- imaging --json FILE           the same, and every ratio with its spread as JSON
    nox -s bench -- imaging --quick               two small sizes, one process
    nox -s bench -- imaging --only others         gridding, NUFFT, compilation, sweep and memory; steps: the table
    nox -s bench -- imaging --only gpu            iterations on this machine's GPU; --json writes what the site shows

An iteration is the image, its visibilities, chi², sparsity, total variation and entropy, their gradient, and Adam.
Half of MPoL's time can be page faults: glibc hands large blocks back to the system, and MPoL asks for new ones in every
iteration. Goals are held to a C allocator that is told not to (``tuned``); the usual one is reported beside it.

The peers are no dependency: they are fetched into build/peers, without what they depend on (an ordinary installation
of MPoL on Python 3.11 gets 0.2 and replaces torch).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from firstlight.devices import best_device, card
from firstlight.display import show_table
from firstlight.timing.measurement import measure
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.datasets import GriddedDataset
from firstlight_imaging.data.gridding import DataAverager
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.fitting.fused_step import FusedStep
from firstlight_imaging.fitting.objective import Objective
from firstlight_imaging.fitting.optimizers import Adam
from firstlight_imaging.fourier.nufft import visibilities
from firstlight_imaging.model.gridded_net import GriddedNet
from firstlight_imaging.model.losses import TV_image, entropy, sparsity

PEERS = Path("build/peers")
PEER = "MPoL==0.3.1"
NEEDED = ("torchkbnufft==1.5.2", "fast-histogram", "scipy")
TUNED = {"MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "4000000000"}
FIELD = 5.4  # arcsec
NVIS = 300_000
LOSSES = {
    "sparsity": (1e-4, sparsity),
    "tv": (1e-3, TV_image),
    "entropy": (1e-3, partial(entropy, prior=0.02, tot_flux=10.0)),
}
SIZES = {"180": (180, 1), "512": (512, 1), "1024": (1024, 1), "8 x 256": (256, 8)}
KINDS = [(kind, dtype) for kind in ("gridded", "exact") for dtype in ("float32", "float64")]
FLOOR = "gridded float32 / rFFT pair"
GOALS = {
    "gridded float32": (9, 8, 7, 6),
    "exact float32": (6, 4.5, 3.5, 3.5),
    FLOOR: (2.5, 2.5, 2.5, 2.5),  # at most
}


def fetch_peers() -> None:
    """Install the peers into a folder of their own, once, and put it last on the path."""
    if not (PEERS / "mpol").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(PEERS)]
        subprocess.run([*pip, *NEEDED], check=True)
        subprocess.run([*pip, "--ignore-requires-python", PEER], check=True)  # it runs on Python 3.11, too
    sys.path.append(str(PEERS))


def observed(npix: int, nchan: int, nvis: int = NVIS) -> tuple[GridCoords, list[np.ndarray]]:
    """Baselines that reach to the edge of the grid and crowd at its centre, as an array's do; data are noise."""
    rng = np.random.default_rng(npix)
    coords = GridCoords(FIELD / npix, npix)
    length = coords.uv_limit * rng.uniform(0, 1, (nchan, nvis)) ** 2
    angle = rng.uniform(0, 2 * np.pi, (nchan, nvis))
    data = 0.03 * (rng.normal(size=length.shape) + 1j * rng.normal(size=length.shape))
    weight = np.full(length.shape, 0.03**-2)
    return coords, [length * np.cos(angle), length * np.sin(angle), weight, data.real, data.imag]


def start(npix: int, nchan: int, dtype: torch.dtype) -> torch.Tensor:
    """Begin with an image that has edges everywhere."""
    noise = torch.randn(nchan, npix, npix, generator=torch.manual_seed(0))
    return (0.1 * noise - 3).to(dtype)


def our_step(dtype: torch.dtype, npix: int, nchan: int, data: Any, device: str = "cpu") -> Callable[[], object]:
    """Make an iteration of `fit`'s, with Adam."""
    coords = GridCoords(FIELD / npix, npix)
    model = GriddedNet(coords, nchan, base_cube=start(npix, nchan, dtype)).to(device)
    objective, method = Objective(model, data, LOSSES, "gridded"), Adam(model, lr=1e-3)
    objective.fused_step = FusedStep(objective)
    return lambda: method.steps(objective, 1)


def peer_step(npix: int, nchan: int, data: GriddedDataset, device: str = "cpu") -> Callable[[], object]:
    """Make an iteration of MPoL's, with its defaults."""
    from mpol import coordinates, datasets, losses, precomposed

    coords = coordinates.GridCoords(cell_size=FIELD / npix, npix=npix)
    cube = torch.zeros(nchan, npix, npix)
    vis, weight = cube.to(torch.complex128), cube.double()
    vis[data.mask], weight[data.mask] = data.vis_indexed, data.weight_indexed
    theirs = datasets.GriddedDataset(coords=coords, vis_gridded=vis, weight_gridded=weight, mask=data.mask, nchan=nchan)
    model = precomposed.GriddedNet(coords=coords, nchan=nchan, base_cube=start(npix, nchan, torch.float32))
    theirs, model = theirs.to(device), model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    prior = torch.tensor(0.02, device=device)

    def step() -> None:
        optimizer.zero_grad()
        chi2 = losses.r_chi_squared_gridded(model(), theirs)
        sky = model.icube.sky_cube
        rest = 1e-4 * losses.sparsity(sky) + 1e-3 * losses.TV_image(sky) + 1e-3 * losses.entropy(sky, prior, 10.0)
        (chi2 + rest).backward()
        optimizer.step()

    return step


def fft_pair(npix: int, nchan: int) -> Callable[[], object]:
    """Make the floor: a real FFT and its inverse in float32, into buffers that are there."""
    image = torch.rand(nchan, npix, npix)
    vis = torch.fft.rfft2(image)

    def pair() -> None:
        torch.fft.rfft2(image, out=vis)
        torch.fft.irfft2(vis, s=(npix, npix), out=image)

    return pair


def interleaved(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Time calls in turn, each in the state that the others leave behind; give the medians."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 5:
        for name, call in calls.items():
            call()  # its data come into the cache
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(found) for name, found in times.items()}


def one_size(size: str, seconds: float) -> dict[str, float]:
    """Time one size, in this process."""
    npix, nchan = SIZES[size]
    coords, arrays = observed(npix, nchan)
    gridded = DataAverager(coords, *arrays).to_pytorch_dataset(check_visibility_scatter=False)
    calls = {"MPoL": peer_step(npix, nchan, gridded), "rFFT pair": fft_pair(npix, nchan)}
    u, v, weight, re, im = arrays
    for kind, name in KINDS:
        dtype = getattr(torch, name)
        data = gridded if kind == "gridded" else ExactLikelihood(
            u, v, re + 1j * im, weight, coords.cell_size, npix, dtype=dtype
        )  # fmt: skip
        calls[f"{kind} {name}"] = our_step(dtype, npix, nchan, data)
    return interleaved(calls, seconds)


def in_process(*request: str, **environment: str) -> Any:
    """Run a part of this file in a process of its own; take what it prints last for JSON."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", *request],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def spread(values: list[float]) -> dict[str, float]:
    """Summarize."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def ratios(rounds: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Divide within each process."""
    found = {}
    for name in GOALS:
        if name == FLOOR:
            values = [times["gridded float32"] / times["rFFT pair"] for times in rounds]
        else:
            values = [times["MPoL"] / times[name] for times in rounds]
        found[name] = spread(values)
    return found


def steps(sizes: list[str], processes: int, seconds: float) -> dict[str, Any]:
    """Time the iterations; print the table beside the goals."""
    found: dict[str, Any] = {}
    for allocator, environment in (("tuned", TUNED), ("usual", {})):
        rows = []
        for size in sizes:
            rounds = [in_process("one_size", size, str(seconds), **environment) for _ in range(processes)]
            result = {
                "ratios": ratios(rounds),
                "milliseconds": {name: 1e3 * spread([r[name] for r in rounds])["median"] for name in rounds[0]},
            }
            found.setdefault(allocator, {})[size] = result
            for name, ratio in result["ratios"].items():
                goal = GOALS[name][list(SIZES).index(size)]
                met = ratio["median"] <= goal if name == FLOOR else ratio["median"] >= goal
                sign = "≤" if name == FLOOR else "≥"
                milliseconds = result["milliseconds"]["gridded float32" if name == FLOOR else name]
                rows.append(
                    (
                        size,
                        name,
                        f"{ratio['median']:.1f}",
                        f"{ratio['least']:.1f} to {ratio['most']:.1f}",
                        f"{sign} {goal}" + ("" if met else "  missed"),
                        f"{milliseconds:.3g}",
                        f"{result['milliseconds']['MPoL']:.3g}",
                    )
                )
        title = f"times faster than MPoL 0.3.1's gridded step; {allocator} allocator, {processes} processes"
        show_table(title, ("npix", "", "ratio", "range", "goal", "ours, ms", "MPoL, ms"), rows)
    return found


def gridding(nvis: int) -> dict[str, float]:
    """Average visibilities in cells, as both packages do for a data set, and see what memory that takes."""
    from mpol import coordinates, gridding

    coords, arrays = observed(512, 1, nvis)
    theirs = coordinates.GridCoords(cell_size=coords.cell_size, npix=512)

    def ours() -> object:
        return DataAverager(coords, *arrays).to_pytorch_dataset()

    def peer() -> object:
        u, v, weight, re, im = arrays
        averager = gridding.DataAverager(coords=theirs, uu=u, vv=v, weight=weight, data_re=re, data_im=im)
        return averager.to_pytorch_dataset()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ours()
    more = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    times = interleaved({"ours": ours, "MPoL": peer}, 2.0)
    return times | {"ratio": times["MPoL"] / times["ours"], "memory over input": more / sum(a.nbytes for a in arrays)}


def nufft(nvis: int) -> dict[str, float]:
    """Predict visibilities of an image of 512 pixels in float32, by both; compare with one to 1e-13."""
    import torchkbnufft

    coords, (u, v, *_) = observed(512, 1, nvis)
    sky = torch.rand(1, 512, 512, generator=torch.manual_seed(0))
    kernel = torchkbnufft.KbNufft(im_size=(512, 512))
    points = torch.from_numpy(np.stack([v[0], -u[0]]) * 2 * np.pi * coords.cell_size * np.pi / 648000).float()
    shift = torch.from_numpy(np.exp(2j * np.pi * u[0] * coords.cell_size * np.pi / 648000)).to(torch.complex64)

    def theirs() -> torch.Tensor:
        found: torch.Tensor = kernel(sky[None].to(torch.complex64), points)[0] * coords.cell_size**2
        return found * shift

    def ours() -> torch.Tensor:
        return visibilities(sky, u[0], v[0], coords.cell_size)

    exact = visibilities(sky.double(), u[0], v[0], coords.cell_size, eps=1e-13)
    times = interleaved({"ours": ours, "torchkbnufft": theirs}, 2.0)
    errors = {
        f"error {name}": ((f() - exact).norm() / exact.norm()).item()
        for name, f in (("ours", ours), ("torchkbnufft", theirs))
    }
    return times | {"ratio": times["torchkbnufft"] / times["ours"]} | errors


def first_step() -> dict[str, float]:
    """Make a first step: with an empty cache of Numba's it is compiled before."""
    npix = 180
    coords, arrays = observed(npix, 1)
    data = DataAverager(coords, *arrays).to_pytorch_dataset(check_visibility_scatter=False)
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # torch takes a second to import what this needs
    began = time.perf_counter()
    our_step(torch.float32, npix, 1, data)()
    return {"seconds": time.perf_counter() - began}


def to_one_percent(who: str) -> dict[str, float]:
    """Fit 512 pixels until the loss is within 1 % of what 1000 iterations reach, set-up and compilation included."""
    npix = 512
    coords, arrays = observed(npix, 1)
    began = time.perf_counter()
    data = DataAverager(coords, *arrays).to_pytorch_dataset(check_visibility_scatter=False)
    model = GriddedNet(coords, base_cube=start(npix, 1, torch.float32))
    objective = Objective(model, data, LOSSES, "gridded")
    objective.fused_step, method = FusedStep(objective), Adam(model, lr=0.05)
    losses, times = [], []
    for _ in range(1000):
        losses.append(float(method.steps(objective, 1)[0][0]))
        times.append(time.perf_counter() - began)
    n = next(i for i, loss in enumerate(losses) if loss <= 1.01 * min(losses)) + 1
    if who == "ours":
        return {"iterations": n, "seconds": times[n - 1]}
    began = time.perf_counter()
    step = peer_step(npix, 1, DataAverager(coords, *arrays).to_pytorch_dataset(check_visibility_scatter=False))
    for _ in range(min(n, 50)):
        step()
    return {"iterations": n, "seconds": (time.perf_counter() - began) * n / min(n, 50)}


def cores(threads: str) -> dict[str, float]:
    """Time a gridded step of 512 pixels on some cores."""
    torch.set_num_threads(int(threads))
    coords, arrays = observed(512, 1)
    data = DataAverager(coords, *arrays).to_pytorch_dataset(check_visibility_scatter=False)
    calls = {"ours": our_step(torch.float32, 512, 1, data), "MPoL": peer_step(512, 1, data)}
    return interleaved(calls, 2.0)


def peak(who: str) -> dict[str, float]:
    """Take the peak memory of ten iterations at 1024 pixels beyond that of the data set."""
    coords, arrays = observed(1024, 1)
    data = DataAverager(coords, *arrays).to_pytorch_dataset(check_visibility_scatter=False)
    del arrays
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step = our_step(torch.float32, 1024, 1, data) if who == "ours" else peer_step(1024, 1, data)
    for _ in range(10):
        step()
    return {"MiB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}


def others(quick: bool) -> dict[str, Any]:
    """Report what else a user waits for."""
    found: dict[str, Any] = {}

    def report(name: str, *request: str, **environment: str) -> Any:
        found[name] = in_process(*request, **(TUNED | environment))
        print(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in found[name].items()), flush=True)
        return found[name]

    report("gridding 2e6 visibilities, s", "gridding", "2000000")
    for exponent in (5,) if quick else (5, 6, 7):
        report(f"NUFFT of 1e{exponent} visibilities, s", "nufft", str(10**exponent))
    with tempfile.TemporaryDirectory() as folder:
        for state in ("cold", "warm"):
            report(f"first step, {state} cache", "first_step", NUMBA_CACHE_DIR=folder)
    one, two = (report(f"gridded 512, {n} core(s), s", "cores", str(n)) for n in (1, 2))
    ours, peer = (report(f"to 1 % of the same loss, {who}", "to_one_percent", who) for who in ("ours", "MPoL"))
    # Each fit of a sweep is taken for as long as one to 1 %; MPoL's is counted from 50 iterations.
    for who, fit, step in (("ours", ours, two["ours"]), ("MPoL", peer, two["MPoL"])):
        found[f"5 x 25 sweep at 512, {who}"] = {"minutes": 125 * fit["iterations"] * step / 60}
        print(f"5 folds x 25 λ at 512, {who}: {125 * fit['iterations'] * step / 60:.3g} minutes (estimated)")
    print(f"two cores over one: ours {one['ours'] / two['ours']:.2f}, MPoL {one['MPoL'] / two['MPoL']:.2f}")
    for who in ("ours", "MPoL"):
        report(f"memory of 10 iterations at 1024, {who}", "peak", who)
    return found


def on_gpu() -> dict[str, Any]:
    """Time an iteration of each on the GPU, and say which it is."""
    device = best_device()
    if device.type != "cuda":
        raise SystemExit("this part needs an NVIDIA or AMD GPU, and PyTorch finds none")
    rows = []
    for size, (npix, nchan) in SIZES.items():
        coords, arrays = observed(npix, nchan)
        data = DataAverager(coords, *arrays).to_pytorch_dataset(check_visibility_scatter=False)
        calls = {
            "MPoL": peer_step(npix, nchan, data, str(device)),
            "ours": our_step(torch.float32, npix, nchan, data.to(device), str(device)),
        }
        found = {who: measure(call, device=device, label=who, budget=1.0) for who, call in calls.items()}
        rows.append({"size": size} | {who: timing.median for who, timing in found.items()})
        print(
            f"{size}: " + ", ".join(f"{who} {1e3 * timing.median:.4g} ms" for who, timing in found.items()), flush=True
        )
    versions = {"torch": torch.__version__, "mpol": PEER.partition("==")[2], "date": str(date.today())}
    return {"device": card(device).name, **versions, "iterations": rows}


PARTS: dict[str, Callable[..., Any]] = {
    "one_size": lambda size, seconds: one_size(size, float(seconds)),
    "gridding": lambda nvis: gridding(int(nvis)),
    "nufft": lambda nvis: nufft(int(nvis)),
    "first_step": first_step,
    "to_one_percent": to_one_percent,
    "cores": cores,
    "peak": peak,
}


def main() -> None:
    """Run the parts in processes of their own, so that none warms or fills the memory of another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="a file to write every number to")
    parser.add_argument("--quick", action="store_true", help="two small sizes, one process, short")
    parser.add_argument("--only", choices=("steps", "others", "gpu"), help="a part of it")
    parser.add_argument("--processes", type=int, help="for each size and allocator; 5")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    fetch_peers()
    if options.child:
        print(json.dumps(PARTS[options.child[0]](*options.child[1:])))
        return
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}", flush=True)
    found: dict[str, Any] = on_gpu() if options.only == "gpu" else {}
    if options.only in (None, "steps"):
        sizes = ["180", "8 x 256"] if options.quick else list(SIZES)
        processes = options.processes or (1 if options.quick else 5)
        in_process("one_size", "180", "0")  # compiles what is not compiled
        found["steps"] = steps(sizes, processes, 1.0 if options.quick else 5.0)
    if options.only in (None, "others"):
        found["others"] = others(options.quick)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
