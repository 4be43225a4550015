"""
Do four GPUs image four times as fast?
======================================

For anyone with more than one GPU. Yes, almost, if you divide channels, folds of a
cross-validation, or strengths of a regularizer among them, and if each GPU keeps enough
to do, because those are independent fits. One image of a usual size hardly gains,
because its parts must be exchanged in each step. Here two processes fit a cube on two
CPU cores, by a program that also runs on GPUs, and a model predicts how it scales to a
thousand. Often four separate programs are the best answer.

**You will learn**

- what to divide: channels, folds, strengths of regularizers, visibilities, the image;
- to start a fit with ``torchrun``, to stop it, and to continue with fewer processes;
- to predict how much faster four GPUs are, and how many are too many;
- what goes wrong, what it looks like, and when four programs are better than one.

**Time:** 13 minutes. **Needs:** any computer with two cores.
"""

# %%
# Start it
# --------
#
# :doc:`/tutorials/4_imaging/distributed_fit` is a short program that fits a simulated
# cube: many channels, each an image of its own. ``torchrun``, which comes with PyTorch,
# starts as many copies of it as you want. Each *process* is a running program with its
# own memory and, if there are any, its own GPU. Here there are two, each on one CPU
# core:
#
# .. code-block:: bash
#
#    torchrun --standalone --nproc-per-node 2 distributed_fit.py --channels 8
#
# This cell starts exactly that, and does not wait. Download the program into this
# script's folder.

# sphinx_gallery_thumbnail_number = 1
import os
import subprocess
import sys
import tempfile
from pathlib import Path

script = Path(globals().get("__file__", "")).parent / "distributed_fit.py"
scratch = tempfile.TemporaryDirectory()
small = ["--npix", "64", "--channels", "8", "--together", "4", "--timeout", "300"]
plain = os.environ | {"OMP_NUM_THREADS": "1", "FIRSTLIGHT_DEVICE": "cpu"}
torchrun = [sys.executable, "-m", "torch.distributed.run"]  # what torchrun is short for
torchrun += ["--standalone", "--nproc-per-node", "2", str(script), *small]


def files(report, checkpoint):
    """Name the file that a run writes at the end, and those that it goes on from."""
    names = Path(scratch.name, f"{report}.json"), Path(scratch.name, f"{checkpoint}.pt")
    return ["--json", str(names[0]), "--checkpoint", str(names[1])]


live = script.exists() and sys.platform != "win32"
if live:
    torchrun += ["--iterations", "30", *files("two", "two")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    job = subprocess.Popen(torchrun, env=plain, text=True, encoding="utf-8", **pipes)
else:
    print("Not started: distributed_fit.py is not here, or this is Windows.")

# %%
# Predict
# -------
#
# What must one GPU know of another's work in each step of the fit?
#
# - *Channels.* The image of one does not depend on the others. Each GPU takes some, and
#   sends nothing until it has its images.
# - *Folds and strengths.* Five folds of a cross-validation with five strengths
#   :math:`\lambda` of a regularizer are 25 independent fits.
# - *Visibilities.* The exact likelihood needs them once, for its set-up
#   (:doc:`/tutorials/4_imaging/07_off_the_grid`). Each GPU could sum its part onto the
#   pixels, and an *all-reduce* would add up the pixels of all.
# - *One image.* If it is cut into strips, one for each GPU, it must be transposed twice
#   in each step, because of its Fourier transforms. Each GPU then sends a part of its
#   strip to every other: an *all-to-all* of 8 bytes per pixel.
# - *A neural network* is usually trained *data-parallel*: each GPU has a copy of the
#   model and its own part of each batch, and an all-reduce averages the gradients
#   before each step. PyTorch's ``DistributedDataParallel(model)`` does that during
#   ``backward``. It pays if computing takes longer than sending the gradient.
#
# Count the bytes for 200 channels of 1024 × 1024 pixels, and the least time that they
# take, by the data sheets of memory (``plan`` counts the bytes of the work) and links.

from functools import cache, partial

import torch

from firstlight import Bench, best_device
from firstlight.imaging import ExactLikelihood, GridCoords, GriddedNet, plan
from firstlight.measure.specs import spec

channels, fits, npix = 200, 5 * 5, 1024
memory, memory_rate = (spec("H100 SXM", what) for what in ("memory", "bandwidth"))
links = {name: spec(name, "bandwidth") for name in ("NVLink 4", "InfiniBand NDR")}
pixels = (2 * npix) ** 2 + npix**2  # kernel and dirty image of a channel, in float64


@cache
def work(npix):
    """Return the least time of a step of one channel on an H100."""
    return plan(npix, 1, 1, memory=memory, bandwidth=memory_rate).seconds_step


print(f"set-up, all channels, once: {8 * pixels * channels / 1e9:.1f} GB to add up")
print(f"a step of one channel: {1e6 * work(npix):.0f} µs")
for name, rate in links.items():
    time = 2 * 8 * npix**2 / rate
    print(f"the bytes of its two transposes over {name}: {1e6 * time:.0f} µs")

# %%
# The prediction: *channels, folds and strengths gain up to a factor of four from four
# GPUs, and one image gains little*. Between computers it gains nothing, because the
# transfer takes longer than the step.
#
# Check
# -----
#
# Do two processes compute what one computes? Run the program in this process, too, and
# compare :math:`\chi^2` and the norm of its gradient at the start.

import contextlib
import io
import json
import runpy
from unittest import mock

import numpy as np

device = best_device()
threads = torch.get_num_threads()
torch.set_num_threads(1)  # as in the other two


def run_here(iterations, *names):
    """Run the program in this process: it then is one of one."""
    request = [str(script), *small, "--iterations", str(iterations), *files(*names)]
    with (
        mock.patch.object(sys, "argv", request),
        mock.patch.dict(os.environ, plain),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        runpy.run_path(str(script))
    return json.loads(Path(files(*names)[1]).read_text())


def off(a, b):
    """Give the largest relative difference."""
    return float(np.abs(np.divide(a, b) - 1).max())


# %%

if live:
    one = run_here(45, "one", "one")
    said, _ = job.communicate()
    if job.returncode:
        print(f"The two processes failed. They said:\n{said[-800:]}")
        live = False
if live:
    two = json.loads(Path(files("two", "two")[1]).read_text())
    for name, value in one["start"].items():
        difference = off(two["start"][name], value)
        print(f"{name}: {value:.6f}; that of two processes differs by {difference:.0e}")
        assert difference < 1e-12

# %%
# They agree to the last digits of ``float64``. The program cuts the cube into *parts*
# of a few channels, as many as fill a GPU. A process takes its share of the parts, and
# makes an ordinary fit of each:
#
# .. code-block:: python
#
#    with processes() as group:  # of one, where torchrun has not started it
#        images = {}
#        for part in group.share(parts):  # slices of channels
#            likelihood = ExactLikelihood(u[part], v[part], data[part], weight[part],
#                                         cell_size, npix, device=group.device)
#            model = GriddedNet(coords, len(likelihood.reference)).to(group.device)
#            files = {"checkpoint": f"fit.{part.start}.pt", "resume": True}
#            images[part.start] = fit(model, likelihood, separate=True, **files).image
#        everything = group.collect(images)  # those of each process, for all
#
# The parts could equally be folds, or strengths. The results are collected once, at the
# end, through *gloo*, which comes with PyTorch.
#
# Stop, and continue with fewer
# -----------------------------
#
# Jobs reach time limits, and colleagues need GPUs. At each check, a fit with a
# checkpoint writes a file, here one for each part, and any number of processes can
# continue from these files. The two stopped after 30 steps. One process continues to
# step 45. Does it reach the same result as one process from the start?

if live:
    relay = run_here(45, "relay", "two")
    handed_over = off(relay["end"]["flux"], one["end"]["flux"])
    for who, run in (("alone", one), ("two, then one", relay)):
        print(f"{who:>13}: {run['iterations']} steps, {sum(run['end']['flux']):.6f} Jy")
    print(f"fluxes of {len(one['end']['flux'])} channels: differ by {handed_over:.0e}")
    assert handed_over < 1e-6
scratch.cleanup()

# %%
# Measure
# -------
#
# A step has an *overhead*, whatever the number of channels. Time the gradient of 1, 4
# and 8 channels on one core, and on your GPU if you have one.

grid = GridCoords(cell_size=0.04, npix=64)


def make_gradient(nchan, on):
    kind = torch.float64 if on.type == "cpu" else torch.float32
    u, v = np.random.default_rng(1).normal(scale=3e5, size=(2, nchan, 999))
    data = np.ones_like(u, dtype=complex), np.ones_like(u)
    sizes = grid.cell_size, grid.npix
    exact = ExactLikelihood(u, v, *data, *sizes, dtype=kind, device=on)
    blank = torch.full((nchan, grid.npix, grid.npix), -3.0, dtype=kind)
    model = GriddedNet(grid, nchan, blank).to(on)

    def gradient():
        model.zero_grad()
        model()
        chi2 = exact(model.icube.sky_cube)
        chi2.backward()
        return chi2.item()

    return gradient


# %%

bench = Bench("more-than-one-gpu", budget=0.9)
for nchan in (1, 4, 8):
    one_core = make_gradient(nchan, torch.device("cpu"))
    bench.time(f"CPU, channels: {nchan}", one_core, n=nchan)
if device.type != "cpu":
    for nchan in (1, 8, 64):
        gpu = make_gradient(nchan, device)
        bench.time(f"GPU, channels: {nchan}", gpu, n=nchan, device=device)
torch.set_num_threads(threads)
bench.show()

# %%
# The fewer channels a process has, the more the overhead counts, above all on a GPU,
# where each kernel has to be launched, however small. So *fill one GPU first*.
#
# Each of the two processes timed the gradient of its four channels while the other did
# the same. *Strong scaling* is the speed-up of the same work on twice the cores; *weak
# scaling* is the efficiency with twice the work on twice the cores.

from statistics import median

took = {n: bench[f"CPU, channels: {n}"].median for n in (1, 4, 8)}
if live:
    seconds = two["seconds"]
    slower = max(median(values) for values in seconds["gradient"])
    print(f"strong: 8 channels, 2 processes: {took[8] / slower:.2f} times as fast as 1")
    print(f"weak: 8 by 2 processes: {took[4] / slower:.0%} of the speed of 4 by 1")

# %%
# If *strong* is above 2, compare eight channels with four in the table: four fit better
# into a core's cache, which two processes gain, too.
#
# From 1 to 1024: a model
# -----------------------
#
# Of :math:`C` channels on :math:`P` GPUs, the busiest GPU has :math:`\lceil C / P
# \rceil`, rounded *up*, and all wait for it at the end. With the launch overhead of a
# step, :math:`s`, and the time of a channel, :math:`c`, a step takes
#
# .. math::
#
#     T(P) = s + \lceil C / P \rceil \, c
#
# Nothing is exchanged, because the fits are independent. A strip of one image costs its
# part of the work, and two transposes: their bytes, and the *latency* of each message,
# for which we take the smallest values in the tables by which NVIDIA's library NCCL
# `predicts its own times`__: a base, and each hop. Nothing in it was measured here. Put
# in your own numbers: :doc:`/tutorials/2_devices/11_fewer_launches` measures the launch
# overhead.
#
# __ https://github.com/NVIDIA/nccl/blob/01afd20/src/graph/tuning.cc

from math import ceil, log2

start = 120 * spec("PyTorch operation", "seconds")  # kernels to launch in a step
begin, hop = 3.6e-6, {"NVLink 4": 0.47e-6, "InfiniBand NDR": 2.7e-6}  # s: by NCCL
per_node = 8  # GPUs that share NVLink; beyond, InfiniBand, one adapter for each GPU


def step_of(channels, gpus, npix=npix):
    """Model a step of many channels, or fits."""
    return start + ceil(channels / gpus) * work(npix)


def step_of_one_image(gpus, npix=npix):
    """Model a step of one image in strips."""
    if gpus == 1:
        return step_of(1, 1, npix)
    link = "NVLink 4" if gpus <= per_node else "InfiniBand NDR"
    sent = 8 * npix**2 * (gpus - 1) / gpus**2 / links[link]
    return start + work(npix) / gpus + 2 * (sent + begin + hop[link] * log2(gpus))


print("an H100's memory and its links, as fast as their data sheets say")
print(
    f"{1e3 * start:.1f} ms to launch a step; {1e6 * begin:.1f} µs to begin a transfer"
)

# %%
# The speed-up of the title, for three sizes of image:


def gain(step, gpus, **at):
    return step(gpus=1, **at) / step(gpus=gpus, **at)


print("speed-up by four GPUs (model)")
print("pixels  channels  25 fits  one image")
for side in (256, 1024, 4096):
    many, some = (gain(partial(step_of, c), 4, npix=side) for c in (channels, fits))
    single = gain(step_of_one_image, 4, npix=side)
    print(f"{side:>5}² {many:>9.1f} {some:>8.1f} {single:>10.1f}")

# %%
# The gain is almost fourfold if each GPU has enough to do. With small images the launch
# overhead dominates. What about more GPUs?

import matplotlib.pyplot as plt

counts = np.unique(np.geomspace(1, 1024, 200).round().astype(int))
lines = {
    "200 channels": partial(step_of, channels),
    "25 fits": partial(step_of, fits),
    "one image": step_of_one_image,
}
gains = {
    name: np.array([gain(step, int(gpus)) for gpus in counts])
    for name, step in lines.items()
}

# %%

# figure
fig, ax = plt.subplots(figsize=(7.6, 5.2), layout="constrained")
styles = [(0, (6, 2)), (0, (3, 2)), (0, (1.5, 1.5))]
colours = ["#2e7ab0", "#d9762b", "#b0417a"]
for (name, curve), dashes, colour in zip(gains.items(), styles, colours, strict=True):
    ax.plot(counts, curve, ls=dashes, color=colour, lw=2, label=f"model: {name}")
ax.plot(counts, counts, color="#888888", lw=1)
ax.text(
    28,
    40,
    "ideal: speed-up\nequals GPUs",
    ha="right",
    color="#888888",
)
ax.set(xscale="log", yscale="log", xlabel="GPUs", ylabel="speed-up over one GPU")
ax.set_ylim(0.5, 300)
powers = [4**k for k in range(6)]
ax.set_xticks(powers, powers)
ax.set_yticks(powers[:-1], powers[:-1])
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
four = {name: gain(step, 4) for name, step in lines.items()}
says = f"Four GPUs (model): 200 channels {four['200 channels']:.1f} × as fast"
fig.suptitle(f"{says}, one image {four['one image']:.1f} ×")
fig.legend(loc="outside lower center", frameon=False, ncols=1)
fig.set_label(
    "Models of how many times faster a step gets, against the number of GPUs, with "
    "1024 × 1024 pixels. "
    + " ".join(f"{name}: {curve.max():.1f} at best." for name, curve in gains.items())
)
plt.show()

# %%
# For channels and fits the curve has *steps*: 200 channels take two rounds on 100 GPUs,
# and two on 199. 25 fits cannot use a 26th GPU. One image hardly gets faster.
#
# One image on many GPUs
# ----------------------
#
# At any size? Find the smallest image for which the model gains more than half the
# number of GPUs. Four share NVLink; with 16, strips are sent between computers.

for gpus in (16, 4):
    sides = range(128, 16385, 128)
    good = (n for n in sides if gain(step_of_one_image, gpus, npix=n) > gpus / 2)
    half_used = next(good, None)
    where = f"from {half_used} pixels on a side" if half_used else "not up to 16384"
    print(f"{gpus:>2} GPUs, half of them used: {where}")
needs = plan(half_used, 1, 10**6, memory=memory).peak
print(f"one GPU holds that: it needs {needs / 1e9:.1f} of {memory / 1e9:.0f} GB")

# %%
# Most images of ALMA and the VLA are smaller. So *one image on many GPUs does not pay*,
# and this package does not support it. Almost always you have more than one fit to
# make.
#
# On a cluster
# ------------
#
# For two computers with four GPUs each, by SLURM: each runs one ``torchrun``, which
# starts four processes. All meet at the first computer (``--rdzv-endpoint``).
#
# .. code-block:: bash
#
#    #!/bin/bash
#    #SBATCH --nodes=2
#    #SBATCH --ntasks-per-node=1
#    #SBATCH --gpus-per-node=4
#    #SBATCH --cpus-per-task=32
#    #SBATCH --time=04:00:00
#    #SBATCH --requeue
#    #SBATCH --open-mode=append
#
#    first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
#    port=$((20000 + SLURM_JOB_ID % 20000))
#    export OMP_NUM_THREADS=8
#    srun --cpus-per-task="$SLURM_CPUS_PER_TASK" torchrun \
#        --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node=4 \
#        --rdzv-id="$SLURM_JOB_ID" --rdzv-backend=c10d \
#        --rdzv-endpoint="$first:$port" \
#        distributed_fit.py --checkpoint fit.pt
#
# With ``--requeue`` SLURM restarts the job if a computer fails, and the fit continues
# from ``fit.pt``, which both must see. After its time limit, submit it again, with as
# many GPUs as you get.
#
# When four programs are better
# -----------------------------
#
# Channels that share nothing need not be one job. Start four programs, each with a
# quarter of the channels and one visible GPU. ``my_fit.py`` is yours.
#
# .. code-block:: bash
#
#    for gpu in 0 1 2 3; do
#        CUDA_VISIBLE_DEVICES=$gpu python my_fit.py --first $((50 * gpu)) --count 50 &
#    done
#    wait
#
# No process waits for another, and if one dies, three finish. On a cluster a job array
# (``--array=0-3``) does the same, and each part starts as soon as one GPU is free. Use
# ``torchrun`` if you want one job with one result, and parts shared among whatever GPUs
# you get.
#
# What goes wrong
# ---------------
#
# - *A process has lost another one*: it died, or the time is up (``--timeout``).
#   Restart the job: each fit has its checkpoint.
# - ``EADDRINUSE``: another job has the port; ``--standalone`` finds a free one.
# - *Out of memory* appears far above the other messages, where the process died: fit
#   fewer channels together.
#
# Where this stops being true
# ---------------------------
#
# - *Coupled channels*, such as by a regularizer across them, belong in one part, on one
#   GPU.
# - *Real links.* Data sheets give the best case.
#
# Exercise
# --------
#
# A proposal for GPU hours must say how much of them you will use. What fraction of the
# time, from 0 to 1, do the GPUs work, when ``channels`` equal channels run on ``gpus``
# GPUs? All are allocated to you until the last channel is done.


def used(channels, gpus): ...


# %%
# ``check`` tries cases in which usual mistakes show.


def check(answer):
    cases = [
        ((200, 4), 1.0, "200 channels on 4 GPUs leave none idle"),
        ((200, 128), 200 / 256, "round up: some GPUs have two channels, all wait"),
        ((5, 4), 5 / 8, "round up: the fifth channel needs a second round"),
        ((4, 8), 0.5, "half of the GPUs have no channel, and are yours all the same"),
        ((1, 1), 1.0, "one channel on one GPU uses all of it"),
        ((0, 4), 0.0, "without a channel nothing is used, and nothing may fail"),
    ]
    for arguments, expected, hint in cases:
        try:
            got = float(answer(*arguments))
        except Exception as error:
            return f"used{arguments} raised {type(error).__name__}. Hint: {hint}."
        if not abs(got - expected) < 1e-9:
            return f"used{arguments} gave {got:.4g}. Hint: {hint}."
    return "Right: the committee will believe your number."


print(check(used))

# %%

# solution


def used_solution(channels, gpus):
    rounds = -(-channels // gpus)  # rounded up
    return channels / (gpus * rounds) if rounds else 0.0


print(check(used_solution))

# %%
# Three lines to remember
# -----------------------

# remember
print("1. Divide channels, folds and strengths, because they exchange nothing. By")
print(f"   the model, four GPUs are {four['200 channels']:.1f} times as fast with 200")
print(f"   channels of {npix} × {npix} pixels.")
print("2. One image on many GPUs does not pay: there four make it")
print(f"   {four['one image']:.1f} times as fast. Fill one GPU first.")
print("3. Write a checkpoint, because any number of processes can continue from it,")
print("   and consider whether four separate programs would do.")
