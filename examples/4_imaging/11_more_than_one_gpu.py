"""
Do four GPUs image four times as fast?
======================================

Nearly, if you give each GPU several large, independent fits:
:term:`channels <channel>`, :term:`folds <fold>` of a :term:`cross-validation`, or
strengths of a :term:`regularizer`. With few or small fits the gain is less. One image
divided among four GPUs gains less, and nothing if it is small, because its parts must
be exchanged in each step. The figure has the numbers, by a model; what the page runs is
the program that you would start, with two :term:`processes <process>` on two CPU cores.
Often four separate programs are the best answer.

**You will learn**

- what to divide, and what not;
- how to start fits on four GPUs, and finish them with fewer;
- how to predict the gain, and how many GPUs are too many;
- what goes wrong, and what it looks like.

**Time:** 11 minutes. **Needs:** any computer with two cores.
"""

# %%
# Start it
# --------
#
# The program :doc:`distributed_fit.py </tutorials/4_imaging/distributed_fit>` fits a
# simulated :term:`cube` of many channels. ``torchrun``, which comes with PyTorch,
# starts as many copies as you want. With four GPUs in one computer:
#
# .. code-block:: bash
#
#    torchrun --standalone --nproc-per-node 4 distributed_fit.py \
#        --npix 1024 --channels 200 --together 10 --checkpoint fit.pt
#
# Each *process* takes the GPU of its own number. It fits ``--together`` channels at
# once: enough to fill the GPU, few enough for its memory. It computes in
# :term:`float64`: change ``dtype`` for float32. For your data, replace the simulated
# ``u``, ``v``, ``data`` and ``weight``. To measure what your GPUs gain, put ``time``
# before the command, and start it with four processes and with one, without
# ``--checkpoint``.
#
# The next cell fits a small cube with two processes.

# folded: Start it from Python
# sphinx_gallery_thumbnail_number = 1
import os
import subprocess
import sys
import tempfile
from pathlib import Path

script = Path(globals().get("__file__", "")).parent / "distributed_fit.py"
scratch = tempfile.TemporaryDirectory()
small = ["--npix", "96", "--channels", "8", "--together", "4", "--timeout", "300"]
plain = os.environ | {"OMP_NUM_THREADS": "1", "FIRSTLIGHT_DEVICE": "cpu"}
torchrun = [sys.executable, "-m", "torch.distributed.run"]  # what torchrun is short for
torchrun += ["--standalone", "--nproc-per-node", "2", str(script), *small]


def files(report, checkpoint):
    """Name the file that a run writes at the end, and those that keep its fits."""
    names = Path(scratch.name, f"{report}.json"), Path(scratch.name, f"{checkpoint}.pt")
    return ["--json", str(names[0]), "--checkpoint", str(names[1])]


live = script.exists() and sys.platform != "win32"
if live:
    torchrun += ["--iterations", "30", *files("two", "two")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(torchrun, env=plain, text=True, encoding="utf-8", **pipes)
    live = done.returncode == 0
    last = done.stdout.strip().splitlines()[-1] if live else ""
    print(f"8 channels in {last}" if live else done.stdout[-800:])
else:
    print("Not started: distributed_fit.py is not here, or this is Windows.")

# %%
# Predict
# -------
#
# What must one GPU know of another's work in each step of the fit?
#
# - *Channels:* nothing. Each GPU takes some, and sends its images at the end.
# - *Folds and strengths:* nothing. Five folds of a cross-validation with five strengths
#   :math:`\lambda` of a regularizer are 25 independent fits.
# - *Visibilities:* nothing, for the exact likelihood reads them once, in its set-up
#   (:doc:`/tutorials/4_imaging/10_off_the_grid`).
# - *One image:* much. Cut into strips, one for each GPU, it must be transposed twice in
#   each step, because of its Fourier transforms: an *all-to-all* of 8 bytes per pixel,
#   in which each GPU sends a part of its strip to every other.
#
# Count the operations of a step of the package's ``fit``, and the bytes that each of
# them reads and writes, as :doc:`/tutorials/4_imaging/08_faster` does.

# folded: Count operations and their bytes
import re

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Tally(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.moved = []  # bytes of each operation

    def note(self, *things):
        self.moved.append(sum(x.nbytes for x in things if torch.is_tensor(x)))

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not (function.is_view or re.search("empty|unsafe_view", function.name())):
            self.note(*tree_leaves((args, kwargs, result)))
        return result


# %%

# folded: A fit, and its step counted
from firstlight import Bench, best_device
from firstlight.imaging import ExactLikelihood, GridCoords, GriddedNet
from firstlight.imaging.fitting import Adam, FusedStep, Objective
from firstlight.imaging.model import losses
from firstlight.timing.specs import spec

grid = GridCoords(cell_size=0.04, npix=96)  # as in the program


def make_fit(nchan, kind=torch.float32, on="cpu"):
    """Give the parts of a fit: a model, and its likelihood."""
    u, v = np.random.default_rng(1).normal(scale=3e5, size=(2, nchan, 999))
    data = np.ones_like(u, dtype=complex), np.ones_like(u)
    sizes = grid.cell_size, grid.npix
    exact = ExactLikelihood(u, v, *data, *sizes, dtype=kind, device=on)
    blank = torch.full((nchan, grid.npix, grid.npix), -3.0, dtype=kind)
    return GriddedNet(grid, nchan, blank).to(on), exact


class CountedStep(FusedStep):
    """The package's step, whose kernels are counted, too."""

    def bind(self, name, *arrays):
        run = super().bind(name, *arrays)
        return lambda *more: (tally.note(*arrays, *more), run(*more))


# %%

# folded: Count one step


def count(step=None):
    """Give the bytes per pixel of each operation of a step of one channel."""
    global tally
    model, exact = make_fit(1)
    terms = {"sparsity": (1e-4, losses.sparsity), "tv": (1e-4, losses.TV_image)}
    objective, adam = Objective(model, exact, terms, "gridded"), Adam(model, lr=0.1)
    objective.fused_step = step and step(objective)
    for _ in range(2):  # Adam's first step is another
        with Tally() as tally:
            adam.steps(objective, 1)
    return np.array(tally.moved) / grid.npix**2


# %%

fast, slow = count(CountedStep), count()
channels, fits, npix = 200, 5 * 5, 1024
memory, rate = (spec("H100 SXM", what) for what in ("memory", "bandwidth"))
links = {name: spec(name, "bandwidth") for name in ("NVLink 4", "InfiniBand NDR")}
print(f"package: {len(fast)} operations, {fast.sum():.0f} bytes per pixel")
print(f"autograd: {len(slow)} operations, {slow.sum():.0f} bytes per pixel")
one_channel = fast.sum() * npix**2 / rate
print(f"one channel of {npix}² pixels on an H100, float32: {1e6 * one_channel:.0f} µs")
for name, rate_of_link in links.items():
    time = 2 * 8 * npix**2 / 4 * 3 / 4 / rate_of_link
    print(f"two transposes by four GPUs over {name}: {1e6 * time:.0f} µs, and messages")

# %%
# The prediction: *channels, folds and strengths gain up to a factor of four from four
# GPUs, and one image gains less.* Even where its bytes take little time, each message
# has a latency, and launching is not divided.
#
# Check
# -----
#
# Do two processes compute what one computes? Run the program in this process, too, and
# compare :math:`\chi^2` and the norm of its gradient at the start.

# folded: Run the program in this process
import contextlib
import io
import json
import runpy
from unittest import mock

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
    one = run_here(30, "one", "one")
    two = json.loads(Path(files("two", "two")[1]).read_text())
    for name, value in one["start"].items():
        difference = off(two["start"][name], value)
        print(f"{name}: {value:.6f}; that of two processes differs by {difference:.0e}")
        assert difference < 1e-12

# %%
# The program cuts the cube into *parts*, here slices of ``--together`` channels. Each
# process takes every *n*-th part, ``parts[rank::size]``, and makes an ordinary ``fit``
# of each, with ``separate=True``: every channel has its own loss. At the end
# ``dist.all_gather_object`` brings the results together, through PyTorch's
# :term:`gloo`. With ``--together 10``, 200 channels are 20 parts, which cannot use a
# 21st GPU.
#
# Stop, and finish with fewer
# ---------------------------
#
# With ``--checkpoint`` each part is saved to a file of its own, a :term:`checkpoint`,
# as soon as it is finished: its report, and ``model.state_dict()``. Suppose that the
# job was stopped before the second part was. Any number of processes can do the rest.
# One process finds the first file, and fits the second part. Does it reach the result
# of one from the start?

if live:
    Path(scratch.name, "two.4.pt").unlink()  # the part that begins with channel 4
    relay = run_here(30, "relay", "two")
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
# How much more do two processes do on two CPU cores? Each process of the program times
# the gradient of its four channels: the two did so beside each other, the one here
# alone. :term:`Weak scaling <weak scaling>` is the efficiency with twice the work on
# twice the cores; *strong scaling* is the speed-up of the same work, here of all eight
# channels.
#
# Are two cores twice one core? Ask two loops in plain Python, which share nothing.

# folded: Two loops that share nothing
from statistics import median

LOOP = """
from time import perf_counter
times = []
for _ in range(9):
    began = perf_counter()
    sum(range(10**6))
    times.append(perf_counter() - began)
print(min(times))
"""


def loops(count):
    """Time that many loops at once, in seconds; the slower counts."""
    call, pipe = [sys.executable, "-c", LOOP], {"stdout": subprocess.PIPE}
    running = [subprocess.Popen(call, text=True, **pipe) for _ in range(count)]
    return max(float(each.communicate()[0]) for each in running)


# %%

cores = median(2 * loops(1) / loops(2) for _ in range(3))
print(f"two loops that share nothing: {cores:.2f} times the work of one")
if live:
    alone = median(one["seconds"]["gradient"][0])
    beside = max(median(values) for values in two["seconds"]["gradient"])
    print(f"four channels alone: {1e3 * alone:.1f} ms,")
    print(f"   beside another four: {1e3 * beside:.1f} ms")
    print(f"weak scaling: {alone / beside:.0%}")
    print(f"strong scaling: {2 * alone / beside:.2f} times as fast as one process")
    if cores > 1.2:  # with less, there are no two cores to compare with
        print(f"of what the two cores give: {2 * alone / beside / cores:.0%}")

# %%
# If the loops do much less than twice the work of one, the machine has no two whole
# cores to give: they are two threads of one core, or other programs use them. If the
# last line is well below 100%, the rest may be lost to what the processes share: cache,
# memory, or the clock rate. If the table below gives four channels less time, the
# program probably spent the rest getting memory from the operating system, anew for
# each gradient; the scaling includes that.
#
# On one device, the *overhead* of a step is the same for one channel as for many. How
# much longer do many take?

bench = Bench("more-than-one-gpu", budget=0.9)


def gradient(model, exact):
    model.zero_grad()
    model()
    chi2 = exact(model.icube.sky_cube)
    chi2.backward()
    return chi2.item()


for nchan in (1, 4):
    parts = make_fit(nchan, torch.float64)
    bench.time(f"CPU, channels: {nchan}", gradient, *parts, n=nchan)
if device.type != "cpu":
    for nchan in (1, 8, 64):
        parts = make_fit(nchan, on=device)
        name = f"GPU, channels: {nchan}"
        bench.time(name, gradient, *parts, n=nchan, device=device)
torch.set_num_threads(threads)
bench.show()

# %%

where = "CPU" if device.type == "cpu" else "GPU"
one_of, many_of = bench[f"{where}, channels: 1"], bench[f"{where}, channels: {nchan}"]
ratio = many_of.median / one_of.median
print(f"{where}: {nchan} channels take {ratio:.1f} times as long as one")

# %%
# The less that is, the more of one channel's time is overhead. On a GPU, where each
# operation has to be launched, it counts most. So *fill one GPU first*.
#
# From 1 to 1024: a model
# -----------------------
#
# Of :math:`C` channels on :math:`P` GPUs, the busiest GPU has :math:`\lceil C / P
# \rceil`, rounded *up*, and all wait for it at the end. On an NVIDIA GPU ``fit``
# captures its step and launches it at once, in the time :math:`r` of a replay
# (:doc:`/tutorials/2_devices/16_fewer_launches`). Each operation then takes the time
# :math:`t` of a node of the graph, or that of its bytes :math:`b_i` for each channel at
# the memory's rate :math:`B`, if that is longer:
#
# .. math::
#
#     T(P) = r + \sum_i \max\left(t, \lceil C / P \rceil \, b_i / B\right)
#
# Set-up, reading, collecting and the edges of strips are left out. A strip of one image
# has its part of the bytes, and two transposes. For the *latency* of their messages we
# take the smallest values by which NVIDIA's library NCCL `predicts its own times`__: a
# base, and more for each hop. Nothing in the model was measured here.
#
# __ https://github.com/NVIDIA/nccl/blob/01afd20/src/graph/tuning.cc

from functools import partial
from math import ceil, log2

replay, node = spec("graph replay", "seconds"), spec("graph node", "seconds")
print(f"r = {1e6 * replay:.0f} µs, t = {1e6 * node:.2f} µs, B = {rate / 1e12:.2f} TB/s")
busy = (replay + node * len(fast)) * rate / fast.sum()
print(f"r and all t take as long as the bytes of {busy:,.0f} pixels")
begin, hop = 3.6e-6, {"NVLink 4": 0.47e-6, "InfiniBand NDR": 2.7e-6}  # s: by NCCL
per_node = 8  # GPUs that share NVLink; beyond, InfiniBand, one adapter for each GPU


def step_of(channels, gpus, npix=npix):
    """Model a step of many channels, or fits."""
    times = ceil(channels / gpus) * npix**2 * fast / rate
    return replay + np.maximum(node, times).sum()


def step_of_one_image(gpus, npix=npix):
    """Model a step of one image in strips."""
    if gpus == 1:
        return step_of(1, 1, npix)
    link = "NVLink 4" if gpus <= per_node else "InfiniBand NDR"
    sent = 8 * npix**2 * (gpus - 1) / gpus**2 / links[link]
    work = np.maximum(node, npix**2 / gpus * fast / rate).sum()
    return replay + work + 2 * (sent + begin + hop[link] * log2(gpus))


# %%
# So give each GPU many times that many pixels, in all its channels together. Next, what
# four GPUs gain with three sizes of image, if each makes all its fits at once.


def gain(step, gpus, **at):
    return step(gpus=1, **at) / step(gpus=gpus, **at)


print("speed-up by four GPUs (model)")
print("pixels  200 channels  25 fits  one image")
for side in (256, 1024, 4096):
    many, some = (gain(partial(step_of, c), 4, npix=side) for c in (channels, fits))
    single = gain(step_of_one_image, 4, npix=side)
    print(f"{side:>5}² {many:>13.1f} {some:>8.1f} {single:>10.1f}")
print(f"25 fits one after the other: {fits / ceil(fits / 4):.1f} at any size")
longer = 5 * step_of(10, 1) / step_of(50, 1) - 1
print(f"five groups of 10 channels, not 50 at once, {npix}²: {longer:.1%} longer")

# %%

# figure
import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREY, ORANGE, PURPLE

counts = np.arange(1, 1025)
lines = {
    "200 channels": partial(step_of, channels),
    "25 fits": partial(step_of, fits),
    "one image": step_of_one_image,
}
colours = dict(zip(lines, (BLUE, ORANGE, PURPLE), strict=True))
fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
ax.plot(counts, counts, color=GREY, lw=1)
ax.text(40, 58, "ideal", ha="right", color=GREY)
four, most = {}, {}
for (name, step), dashes in zip(lines.items(), (6, 3, 1.5), strict=True):
    gains = np.array([gain(step, int(gpus)) for gpus in counts])
    style = {"color": colours[name], "lw": 2, "ls": (0, (dashes, 1.5))}
    ax.plot(counts, gains, drawstyle="steps-post", **style)
    four[name], most[name] = gain(step, 4), gains.max()
    ax.plot(4, four[name], "o", color=colours[name], mec="black", zorder=3)
    ax.text(1100, gains[-1], name, color=colours[name], va="center")
ax.set(xscale="log", yscale="log", xlabel="GPUs", ylabel="times as fast as one")
ax.set_ylim(0.5, 300)
powers = [4**k for k in range(6)]
ax.set_xticks(powers, powers)
ax.set_yticks(powers[:-1], powers[:-1])
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
values = ", ".join(f"{name} {gain:.1f} ×" for name, gain in four.items())
fig.suptitle(f"Four GPUs, {npix}² pixels (model):\n{values}")
fig.set_label(
    "Models of how many times faster a step gets, against the number of GPUs, with "
    f"{npix} × {npix} pixels. With four GPUs: {values}. "
    + " ".join(f"{name}: {gain:.1f} at best." for name, gain in most.items())
)
plt.show()

# %%
# For channels and fits the curve has *steps*: of 200 channels, each of 100 GPUs has
# two, and so has the busiest of 199. 25 fits cannot use a 26th GPU. One image gains up
# to the eight GPUs that share :term:`NVLink`; beyond, strips are sent between
# computers.
#
# What did others measure between real GPUs? Stas Bekman's book, Lambda and a user of
# NCCL published these.
#
# .. measured-by-others:: nvlink-h200 four-v100 message-h100
#
# One image on many GPUs
# ----------------------
#
# From which size does the model use at least half of the GPUs' time?

half = {}
for gpus in (4, 8, 16):
    sides = range(128, 16385, 128)
    good = (n for n in sides if gain(step_of_one_image, gpus, npix=n) > gpus / 2)
    half[gpus] = next(good, None)
    where = f"from {half[gpus]} pixels on a side" if half[gpus] else "not up to 16384"
    print(f"{gpus:>2} GPUs, at least half of their time used: {where}")
in_fit = 30 * 4  # bytes per pixel: about 30 images in float32 (the page on channels)
in_set_up = 350  # most of it a NUFFT's grid of 4 × 4 as many complex numbers
needs = max(in_fit, in_set_up) * 4096**2 / 2**30
print(
    f"an image of 4096² pixels needs {needs:.1f} of one GPU's {memory / 2**30:.0f} GiB"
)

# %%
# From those sizes on it may pay for a single image. This package does not support it.
#
# On a cluster
# ------------
#
# For two computers with four GPUs each, by SLURM: each runs one ``torchrun``, which
# starts four processes. All meet at the first.
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
#
#    first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
#    port=$((20000 + SLURM_JOB_ID % 20000))
#    export OMP_NUM_THREADS=8
#    srun --cpus-per-task="$SLURM_CPUS_PER_TASK" torchrun \
#        --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node=4 \
#        --rdzv-id="$SLURM_JOB_ID" --rdzv-backend=c10d \
#        --rdzv-endpoint="$first:$port" \
#        distributed_fit.py --npix 1024 --channels 200 --together 5 \
#        --checkpoint fit.pt
#
# With ``--requeue`` SLURM restarts the job if a computer fails, and it makes the fits
# that have no checkpoint yet, which must lie on a disk that both computers share. After
# its time limit, submit it again, with as many GPUs as you get.
#
# When four programs are better
# -----------------------------
#
# Start your own program four times, each with a quarter of the channels and one
# visible GPU.
#
# .. code-block:: bash
#
#    for gpu in 0 1 2 3; do
#        CUDA_VISIBLE_DEVICES=$gpu python my_fit.py --first $((50 * gpu)) --count 50 &
#    done
#    wait
#
# If one dies, three finish. On a cluster a job array does the same (``--array=0-3``,
# and ``--first $((50 * SLURM_ARRAY_TASK_ID))``): each part starts when a GPU is free.
#
# What goes wrong
# ---------------
#
# A process died, or kept the others waiting for longer than ``--timeout``:
#
# .. code-block:: text
#
#    RuntimeError: process 0 of 4 has lost another one, which died or kept it waiting
#    for too long: see what the others say, and start the job again.
#
# Finished fits have their checkpoint, so start the same command again. The cause is far
# above, where that process died. It may be this:
#
# .. code-block:: text
#
#    torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
#
# Then start again with a smaller ``--together`` and another ``--checkpoint``.
#
# .. code-block:: text
#
#    The server socket has failed to listen on any local network address.
#    port: 29500, [...] name: EADDRINUSE, message: address already in use
#
# Another job on the computer has the port; ``--standalone`` finds a free one.
#
# Where this stops being true
# ---------------------------
#
# - *Coupled channels*, such as by a regularizer across them, belong in one part, on one
#   GPU.
# - *On other GPUs than NVIDIA's, and with your own losses*, ``fit`` uses autograd and
#   launches its operations one by one, so small images gain less.
# - *Real links.* :term:`Data sheets <data sheet>` give the best case.
#
# Exercise
# --------
#
# A proposal for GPU hours must say how much of them you will use. What fraction of the
# time, from 0 to 1, do the GPUs work, when ``channels`` equal channels run on ``gpus``
# GPUs? All are allocated to you until the last channel is done.


def used(channels, gpus): ...


# %%


# folded: The checker
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


# %%

print(check(used))

# %%
# Three lines to remember
# -----------------------

# remember
many, some, single = four.values()
print("1. Divide channels, folds and strengths, because they exchange nothing. By the")
print(
    f"   model, four GPUs make 200 channels of {npix} × {npix} pixels {many:.1f} times"
)
print(f"   as fast, and 25 fits {some:.1f} times.")
print(
    f"2. One such image becomes {single:.1f} times as fast on four. Fill one GPU first."
)
print("3. Save each fit when it is finished, because any number of processes can make")
print("   the others, and consider whether four separate programs would do.")

# %%
# Solution
# --------

# solution


def used_solution(channels, gpus):
    rounds = -(-channels // gpus)  # rounded up
    return channels / (gpus * rounds) if rounds else 0.0


print(f"Our solution: {check(used_solution)}")
