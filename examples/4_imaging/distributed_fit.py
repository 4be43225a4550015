"""
A fit on several devices, to launch as it is
============================================

One process for each GPU, or for a few cores of a CPU: each has its own channels of the
image, and its own part of the visibilities. ``torchrun``, which comes with PyTorch,
starts them:

.. code-block:: bash

    python distributed_fit.py --json one.json
    torchrun --standalone --nproc-per-node 2 distributed_fit.py --json two.json

Both files say the same: :math:`\\chi^2` and the length of the gradient at the image
that the fit starts from, and :math:`\\chi^2` and the fluxes that it ends with. Their
``seconds`` differ: what a gradient takes in each process, what it takes all to exchange
a number, and to add up 8 MB. :doc:`/tutorials/4_imaging/08_more_than_one_gpu` makes a
prediction of them. With ``--checkpoint fit.pt`` a fit that was stopped, or lost a
process, goes on when you launch it again, with any number of processes. ``--help``
lists the rest.

``--standalone`` is for one computer, and finds a free port. On two, run this on each,
with the name of one of them: ``torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend
c10d --rdzv-endpoint NAME:29400 distributed_fit.py``.
"""

import argparse
import json
from pathlib import Path
from time import perf_counter

import torch

from firstlight.imaging import GriddedNet, GridCoords, ShardedLikelihood, fit, processes
from firstlight.imaging.losses import TV_image, sparsity
from firstlight.imaging.observe import channels, observe, uv_track, with_noise
from firstlight.imaging.skies import protoplanetary_disk


def writable(name):
    """Refuse a file that cannot be written, before anything is computed."""
    try:
        Path(name).open("a").close()
    except OSError as error:
        message = f"cannot write {name}: {error.strerror}"
        raise argparse.ArgumentTypeError(message) from None
    return Path(name)


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
parser.add_argument("--npix", type=int, default=96, help="pixels on a side (96)")
parser.add_argument("--iterations", type=int, default=200, help="at most (200)")
parser.add_argument("--checkpoint", type=Path, help="a file to go on from")
parser.add_argument("--timeout", type=float, default=600, help="wait so long (600 s)")
options = parser.parse_args()

# A disk whose channels differ; each process knows where all visibilities are, and reads
# its own. Of your own data, pass maps of files: numpy.load(name, mmap_mode="r").
coords = GridCoords(cell_size=0.04, npix=options.npix)
seen = with_noise(
    observe(
        lambda frequency: protoplanetary_disk(0.25 * (frequency / 230e9) ** 3),
        uv_track(n_times=20),
        channels(230e9, 5e9, options.channels),
    ),
    5e-3,
    seed=1,
)

with processes(timeout=options.timeout) as group:
    # Apple's GPUs have no float64; elsewhere it shows that the numbers are the same.
    dtype = torch.float32 if group.device.type == "mps" else torch.float64
    likelihood = ShardedLikelihood(
        group,
        *(seen.uu, seen.vv, seen.data, seen.weight),
        *(coords.cell_size, coords.npix),
        dtype=dtype,
    )
    start = torch.full((likelihood.nchan, coords.npix, coords.npix), -3.0, dtype=dtype)
    model = GriddedNet(coords, likelihood.nchan, start).to(group.device)

    def gradient():
        """Take chi² and its gradient: of this process's channels."""
        model.zero_grad()
        model()
        chi2 = likelihood(model.icube.sky_cube)
        chi2.backward()
        return chi2.item()

    chi2 = torch.tensor(gradient(), dtype=dtype)
    squares = model.bcube.base_cube.grad.square().sum()
    found = {
        "processes": group.size,
        "visibilities": seen.data.size,
        "start": {
            "chi2": group.sum(chi2).item() / (2 * seen.data.size),
            "gradient": group.sum(squares).sqrt().item() / (2 * seen.data.size),
        },
    }

    fitted = fit(
        model,
        likelihood,
        losses={"sparsity": (1e-4, sparsity), "tv": (1e-4, TV_image)},
        max_iter=options.iterations,
        checkpoint=options.checkpoint,
        resume=options.checkpoint is not None,
    )
    flux = fitted.image.sum((1, 2)) * coords.cell_size**2  # of all channels
    found["end"] = {"chi2": fitted.terms["chi2"], "flux": flux.tolist()}
    found["iterations"] = fitted.iterations

    megabytes = torch.zeros(2**21, device=group.device)
    found["seconds"] = {
        "gradient": group.collect(seconds(gradient)),
        "exchange": seconds(lambda: group.collect(0.0)),
        "sum of 8 MB": seconds(lambda: group.sum(megabytes)[0].item()),
    }
    if group.first:
        print(fitted.message, f"chi² {fitted.terms['chi2']:.4f}, {flux.sum():.4f} Jy")
        if options.json:
            options.json.write_text(json.dumps(found, indent=2) + "\n")
