"""What each process does in the tests of several: run as ``ranks.py TASK FOLDER``, with the variables of torchrun.

Its second process dies in ``die``, and stands still in ``sleep``.
"""

import os
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from firstlight.imaging import DataAverager, GridCoords, GriddedNet, ShardedDataset, ShardedLikelihood, fit, processes
from firstlight.imaging.crossval import stack_folds
from firstlight.imaging.losses import TV_channel, TV_image, entropy, sparsity
from firstlight.imaging.objective import Objective
from firstlight.imaging.skies import Ring

COORDS = GridCoords(cell_size=0.1, npix=16)
LOSSES = {"tv": (1e-3, TV_image), "sparsity": (1e-4, sparsity)}
RELAYS = ("adam relay", "lbfgs relay")
BRIEF = {"progress": False, "tolerance": None, "check_every": 10}


def observed(nchan, *, shared=False, sigma=0.05):
    """A source that moves and brightens from channel to channel; some flagged, a beam, a gain for each visibility."""
    rng = np.random.default_rng(nchan)
    nvis = 401
    u, v = rng.normal(scale=2.5e5, size=(2, nvis) if shared else (2, nchan, nvis))
    rings = [Ring(0.3 + 0.1 * c, 0.4, 0.15, 40, 30, 0.1 * c - 0.3, 0.2) for c in range(nchan)]
    data = np.stack([r.visibilities(u if shared else u[c], v if shared else v[c]) for c, r in enumerate(rings)])
    data = data + sigma * (rng.normal(size=data.shape) + 1j * rng.normal(size=data.shape))
    weight = np.where(rng.random(u.shape) < 0.1, 0, sigma**-2)
    return {"u": u, "v": v, "data": data, "weight": weight, "cell_size": COORDS.cell_size, "npix": COORDS.npix}


def sharded(group, nchan, dtype=torch.float64, **how):
    extras = {}
    if not how.get("shared"):
        rng = np.random.default_rng(9)
        extras["factor"] = np.exp(1j * rng.normal(scale=0.1, size=401))
        extras["beam"] = 0.5 + 0.5 * rng.random((nchan, COORDS.npix, COORDS.npix))
    return ShardedLikelihood(group, **observed(nchan, **how), **extras, dtype=dtype)


def model(data, start=None, dtype=torch.float64):
    shape = (data.nchan, COORDS.npix, COORDS.npix)
    return GriddedNet(COORDS, data.nchan, base_cube=torch.full(shape, -2.0, dtype=dtype) if start is None else start)


def noise(nchan):
    return torch.randn(nchan, COORDS.npix, COORDS.npix, generator=torch.Generator().manual_seed(4)).double()


def folds(group):
    """Three folds, each with two λ."""
    one = {name: part for name, part in observed(1).items() if name not in ("cell_size", "npix", "data")}
    data = observed(1)["data"]
    cells = DataAverager(COORDS, one["u"], one["v"], one["weight"], data.real, data.imag)
    dataset = cells.to_pytorch_dataset(check_visibility_scatter=False)
    return ShardedDataset(group, stack_folds(stack_folds(dataset, k=3, seed=1)[0], k=2, seed=2)[0])


def at_a_fixed_image(group, data, losses=LOSSES, separate=False):
    net = model(data, noise(group.whole(torch.zeros(data.nchan)).numel())[data.mine])
    objective = Objective(net, data, losses, "gridded", separate)
    loss, _ = objective.loss_and_row()
    loss.backward()
    return {"terms": objective.numbers(), "gradient": group.whole(net.bcube.base_cube.grad)}


def refused(task):
    try:
        task()
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def everything(group):
    """Objectives and fits, whole."""
    cube, few, one = sharded(group, 5), sharded(group, 3, shared=True), sharded(group, 1)
    cells, lambdas = folds(group), {"tv": (np.geomspace(1e-4, 1e-2, 6), TV_image)}
    out = {
        "kernel": group.whole(cube.kernel),
        "dirty": group.whole(cube.dirty),
        "cube": at_a_fixed_image(group, cube, LOSSES | {"order": (1e-3, partial(entropy, prior=0.1))}),
        "more processes than channels": at_a_fixed_image(group, one),
        "folds": at_a_fixed_image(group, cells, lambdas, separate=True),
        "cells together": at_a_fixed_image(group, cells),
    }
    out["residuals"] = torch.cat(group.collect(cube.residuals()), dim=-1)
    cube.replace(data=2 * observed(5)["data"], factor=np.exp(1j * np.linspace(0, 9, 401)))
    out["replaced"] = at_a_fixed_image(group, cube)
    out["adam"] = fit(model(few), few, losses=LOSSES, max_iter=15, **BRIEF)
    out["one channel"] = fit(model(one), one, losses=LOSSES, max_iter=15, **BRIEF)
    sharp, centred = sharded(group, 5, sigma=1e-3), []
    recentre, sharp.recentre = sharp.recentre, lambda image: (centred.append(len(image)), recentre(image))
    options = BRIEF | {"optimizer": "lbfgs", "max_iter": 12, "check_every": 4}
    out["lbfgs"] = fit(model(sharp), sharp, losses=LOSSES, **options)
    out["centred"] = len(centred)
    out["sweep"] = fit(model(cells), cells, losses=lambdas, separate=True, max_iter=15, **BRIEF)
    out["sweep by lbfgs"] = fit(model(cells), cells, losses=lambdas, separate=True, **options | {"max_iter": 5})
    return out


def refusals(group):
    cube = sharded(group, 4)
    shared = model(cube)
    shared.register_buffer("scale", torch.ones(7))
    two = model(cube)
    two.register_parameter("other", torch.nn.Parameter(torch.zeros(cube.nchan)))
    return {
        "couples": refused(lambda: fit(model(cube), cube, losses={"tv": (1.0, TV_channel)})),
        "mean": refused(lambda: fit(model(cube), cube, losses={"mean": (1.0, torch.mean)})),
        "shared": refused(lambda: fit(shared, cube)),
        "two": refused(lambda: fit(two, cube, optimizer="lbfgs")),
        "lengths": refused(lambda: ShardedLikelihood(group, **observed(4) | {"weight": np.ones(7)})),
    }


def relay(group, path, name, to):
    few = sharded(group, 3, shared=True)
    options = BRIEF | {"optimizer": name.removesuffix(" relay"), "max_iter": to, "check_every": 5}
    return fit(model(few), few, losses=LOSSES, checkpoint=path, resume=True, **options)


def pair(folder):
    """What two processes find; and they go on where one has stopped."""
    with processes(timeout=120) as group:
        out = everything(group) | {"refused": refusals(group)}
        return out | {name: relay(group, folder / f"{name}.pt", name, 10) for name in RELAYS}


def faulty(folder, fault):
    """Let the second process fail in the middle of a fit."""
    calls = 0

    def regularizer(sky):
        nonlocal calls
        calls += 1
        if calls == 45 and group.rank == 1:
            fault()
        return sky.sum()

    with processes(timeout=60) as joined:
        group = replace(joined, timeout=4.0)
        few = sharded(group, 3, shared=True)
        fit(model(few), few, losses={"odd": (1e-4, regularizer)}, checkpoint=folder / "fit.pt", max_iter=90, **BRIEF)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def sleep():
    time.sleep(300)


if __name__ == "__main__":
    torch.set_num_threads(1)
    task, folder = sys.argv[1], Path(sys.argv[2])
    if task == "pair":
        pair(folder)
    else:
        faulty(folder, {"die": die, "sleep": sleep}[task])
