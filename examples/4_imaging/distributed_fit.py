"""
A script that fits on several GPUs
==================================

This script divides the :term:`channels <channel>` of a :term:`cube` among several GPUs,
one process for each. The channels do not depend on each other: a process fits its own,
a few at a time. If there's no GPU, or if you set ``FIRSTLIGHT_DEVICE=cpu``, the
processes run on the CPU. If you start several, each of them uses one core, unless you
set ``OMP_NUM_THREADS``. ``torchrun``, which comes with PyTorch, starts them:

.. code-block:: bash

    python distributed_fit.py --json one.json
    torchrun --standalone --nproc-per-node 2 distributed_fit.py --json two.json

Both files should hold the same numbers: :math:`\\chi^2` and the norm of its
:term:`gradient` at the start of the fit, and :math:`\\chi^2` and the :term:`fluxes
<flux>` at its end. Only the times, under ``seconds``, differ: how long each process
takes for a gradient, and how long it takes all of them to exchange a number. With
``--checkpoint fit.pt`` each fit is saved when it is finished. If the job was stopped,
or lost a process, launch it again, with any number of processes but otherwise the same
options, and it makes the missing fits. ``--help`` lists all the options.

``--standalone`` is for one computer. If you have two with four GPUs each, run this
command on both, with the name of one of them in place of ``NAME``:

.. code-block:: bash

    torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d \\
        --rdzv-endpoint NAME:29400 distributed_fit.py --channels 16

This starts eight processes. Each fits two channels at a time, so 16 channels keep all
eight busy. """

import argparse
import json
import os
from datetime import timedelta
from pathlib import Path
from time import perf_counter

import torch
import torch.distributed as dist

from firstlight import best_device
from firstlight_imaging import ExactLikelihood, GridCoords, GriddedNet, fit
from firstlight_imaging.model.losses import TV_image, sparsity
from firstlight_imaging.simulate import channels, observe, protoplanetary_disk, uv_track
from firstlight_imaging.simulate import with_noise


def writable(name):
    """Refuse a file that cannot be written, before anything is computed."""
    try:
        Path(name).open("a").close()
    except OSError as error:
        message = f"cannot write {name}: {error.strerror}"
        raise argparse.ArgumentTypeError(message) from None
    return Path(name)


def own_device(local_rank):
    """Return a GPU of its own for each process of this computer, or the CPU."""
    device = best_device()
    if device.type != "cuda":
        return torch.device("cpu") if size > 1 else device
    gpus = torch.cuda.device_count()
    if local_rank >= gpus:
        raise RuntimeError(
            f"this is process {local_rank + 1} on this computer, which has {gpus} GPUs:"
            f" give torchrun --nproc-per-node {gpus}, or set FIRSTLIGHT_DEVICE=cpu"
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def collect(value):
    """Return what each process has, to all, in their order; whoever is early waits."""
    if size == 1:
        return [value]
    values = [None] * size
    try:
        dist.all_gather_object(values, value)
    except RuntimeError as error:
        raise RuntimeError(
            f"process {rank} of {size} has lost another one, which died or kept it "
            "waiting for too long: see what the others say, and start the job again"
        ) from error
    return values


def seconds(task):
    """Time nine calls, after one that does not count."""
    times = []
    for _ in range(10):
        began = perf_counter()
        task()  # ends with a number on the host, so it waits for a GPU
        times.append(perf_counter() - began)
    return times[1:]


parser = argparse.ArgumentParser(
    description="Fit a simulated cube, by one process or, with torchrun, by several."
)
parser.add_argument("--json", type=writable, help="where to write the numbers")
parser.add_argument("--channels", type=int, default=4, help="how many (4)")
parser.add_argument("--together", type=int, default=2, help="channels of a fit (2)")
parser.add_argument("--npix", type=int, default=96, help="pixels on a side (96)")
parser.add_argument("--iterations", type=int, default=200, help="at most (200)")
parser.add_argument("--checkpoint", type=Path, help="where to keep fits: fit.pt")
parser.add_argument("--timeout", type=float, default=3600, help="wait so long (1 h)")
parser.add_argument("--float32", action="store_true", help="half the bytes (float64)")
options = parser.parse_args()

# torchrun tells each process its number, and how many there are.
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))

# A disk whose channels differ, within 40 GHz. Every process simulates all of them and
# fits its own. Open your own data as memory maps: numpy.load(name, mmap_mode="r").
coords = GridCoords(cell_size=0.04, npix=options.npix)
seen = with_noise(
    observe(
        lambda frequency: protoplanetary_disk(0.25 * (frequency / 230e9) ** 3),
        uv_track(n_times=20),
        channels(230e9, min(5e9, 40e9 / options.channels), options.channels),
    ),
    5e-3,
    seed=1,
)

firsts = range(0, options.channels, options.together)
parts = [slice(first, first + options.together) for first in firsts]


def gradient(model, likelihood):
    """Take chi² and its gradient."""
    model.zero_grad()
    model()
    chi2 = likelihood(model.icube.sky_cube)
    chi2.backward()
    return chi2.item()


def fit_part(part, device, quiet):
    """Fit some channels, each with a chi² of its own, and report."""
    file = options.checkpoint
    file = file and file.with_stem(f"{file.stem}.{part.start}")
    if file and file.exists():
        return torch.load(file)["report"]
    # Apple's GPUs have no float64; elsewhere it shows that the numbers are the same.
    short = options.float32 or device.type == "mps"
    dtype = torch.float32 if short else torch.float64
    arrays = [array[part] for array in (seen.uu, seen.vv, seen.data, seen.weight)]
    grid = coords.cell_size, coords.npix
    likelihood = ExactLikelihood(*arrays, *grid, dtype=dtype, device=device)
    start = torch.full_like(likelihood.reference, -3.0)
    model = GriddedNet(coords, len(start), start).to(device)
    report = {"first": part.start, "chi2 at start": gradient(model, likelihood)}
    report["squares"] = model.bcube.base_cube.grad.square().sum().item()
    report["seconds"] = seconds(lambda: gradient(model, likelihood))
    fitted = fit(
        model,
        likelihood,
        losses={"sparsity": (1e-4, sparsity), "tv": (1e-4, TV_image)},
        max_iter=options.iterations,
        separate=True,
        progress=False if quiet else None,
    )
    report["flux"] = (fitted.image.sum((1, 2)) * coords.cell_size**2).tolist()
    report["chi2"] = len(start) * fitted.terms["chi2"]
    report["iterations"] = fitted.iterations
    if file:  # written under another name until it is whole
        half = file.with_name(file.name + ".part")
        torch.save({"report": report, "model": model.state_dict()}, half)
        half.replace(file)
    return report


if size > 1:
    wait = timedelta(seconds=options.timeout)
    dist.init_process_group("gloo", timeout=wait)  # no fit sends anything to another
device = own_device(int(os.environ.get("LOCAL_RANK", 0)))
mine = [fit_part(part, device, rank > 0) for part in parts[rank::size]]
together = collect(mine)
exchange = seconds(lambda: collect(0.0))

if rank == 0:  # the first speaks and writes for all
    fits = [one for own in together for one in own]
    fits.sort(key=lambda one: one["first"])
    flux = [each for one in fits for each in one["flux"]]
    chi2 = sum(one["chi2"] for one in fits) / options.channels
    numbers = 2 * seen.data.size
    start = {"chi2": sum(one["chi2 at start"] for one in fits)}
    start["gradient"] = sum(one["squares"] for one in fits) ** 0.5
    report = {
        "processes": size,
        "visibilities": seen.data.size,
        "start": {name: value / numbers for name, value in start.items()},
        "end": {"chi2": chi2, "flux": flux},
        "iterations": max(one["iterations"] for one in fits),
        "seconds": {
            "gradient": [own[0]["seconds"] for own in together if own],
            "exchange": exchange,
        },
    }
    print(f"{len(fits)} fits: chi² {chi2:.4f}, {sum(flux):.4f} Jy")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")

if size > 1:
    dist.destroy_process_group()
