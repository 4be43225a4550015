"""
Where does a step of the fit spend its time?
============================================

In about a hundred small operations, each of which reads and writes an image. The
Fourier transforms take the smaller part of its time; the first bar of the figure shows
what takes the rest. :term:`Profile <profile>` before you change anything: however fast
you make a part, you save no more than its share of the time. What gains most is to
*merge* the small operations into a few passes over the pixels, and on a GPU to launch
them all at once.

If you call this package's ``fit`` for a ``GriddedNet`` with the :term:`losses <loss>`
``sparsity``, ``TV_image`` and ``entropy``, on a CPU or an NVIDIA GPU, that is done for
you. Read on if you write your own loop or losses.

**You will learn**

- to divide a step among its parts, also your own;
- to predict the most that a change can gain, and to measure it;
- in which order to make changes for a GPU.

**Time:** 14 minutes. **Needs:** any computer, and :doc:`a fit that you understand
</tutorials/4_imaging/01_first_light>`.
"""

# %%
# Predict
# -------
#
# A step computes an image from its parameters, :term:`visibilities <visibility>` from
# the image by a :term:`fast Fourier transform` (FFT), and a loss from both. The
# backward pass gives the :term:`gradient`, and :term:`Adam` updates the parameters. At
# least three numbers per pixel are read and written, the parameter and Adam's two
# moving averages, and there are two FFTs of :math:`N` real numbers, each of
# :math:`2.5\,N \log_2 N` operations.

# sphinx_gallery_thumbnail_number = 1
import copy
import math

from firstlight.timing.specs import spec

side = 512
rate, launch = spec("H100 SXM", "bandwidth"), spec("PyTorch operation", "seconds")
moved = 2 * 3 * 4 * side**2 / rate
computed = 5 * side**2 * math.log2(side**2) / spec("H100 SXM", "fp32")
print(f"H100, {side} × {side} pixels: at least {1e6 * max(moved, computed):.1f} µs")
print(f"to launch a single operation on a GPU: {1e6 * launch:.1f} µs")

# %%
# So a GPU spends a step of many operations on launching them. Guess for a CPU: which
# part takes the most time, and how much faster would the step be if it cost nothing?
#
# The usual step
# --------------
#
# The sky is that of :doc:`/tutorials/4_imaging/01_first_light`. Its visibilities are
# averaged in the cells of two grids: a small one for the checks, and one to time. The
# CPU uses *one thread*: then the profile sees all of the work, and other programs
# disturb it less.

import torch
from torch.nn.functional import conv2d, softplus

from firstlight import Bench, best_device
from firstlight.imaging import DataAverager, GridCoords
from firstlight.imaging.model import losses
from firstlight.imaging.coordinates import packed_to_sky, sky_to_packed
from firstlight.imaging.simulate import observe, protoplanetary_disk, uv_track
from firstlight.imaging.simulate import with_noise

threads = torch.get_num_threads()
torch.set_num_threads(1)
disk = protoplanetary_disk(flux=0.25, size=1.7)
seen = with_noise(observe(disk, uv_track(n_times=60)), 5e-3, seed=1)
measured = (seen.uu, seen.vv, seen.weight, seen.data.real, seen.data.imag)
averages = {}
for n in (30, side):
    coords = GridCoords(min(5.4 / n, 0.03), n)
    averages[n] = DataAverager(coords, *measured).to_pytorch_dataset(False)
    print(f"{n} × {n} pixels, {averages[n].index.numel():,} cells with data")

# %%
# The step below has the structure of :term:`MPoL`'s tutorials. The parameters are
# :term:`packed`, with the centre of the image at [0, 0], where an FFT expects it.
# Softplus makes them positive. They are shifted to the middle, smoothed by a 3 × 3
# convolution, and shifted back. The FFT is complex, a mask selects the cells with data,
# and the :term:`regularizers <regularizer>` get the image in *sky order*, with north
# up. All is ``float64``, as NumPy made the data.


def usual_loss(step):
    image = torch.fft.fftshift(softplus(step.parameters), dim=(-2, -1))
    image = conv2d(image[:, None], step.kernel, padding=1)[:, 0]
    image = torch.fft.ifftshift(image, dim=(-2, -1))
    model = step.area * torch.fft.fft2(image).masked_select(step.mask)
    chi2 = (step.weight * (step.data - model).abs() ** 2).sum()
    sky = packed_to_sky(image)
    penalties = losses.sparsity(sky) + losses.TV_image(sky) + losses.entropy(sky, 0.02)
    return chi2 + step.strength * penalties


def advance(step):
    step.adam.zero_grad()
    loss(step).backward()
    step.adam.step()


# %%
# Six changes
# -----------
#
# *1. Index.* The mask never changes. Find its cells once, and select them by index.
#
# *2. Sky order.* Store the parameters in the order of the map. A shift of the image
# is a phase factor after the FFT, so multiply the data by the opposite phase, once.
#
# *3. Slices.* The :term:`kernel` is the product of (1, 2, 1)/4 along columns and along
# rows, so the convolution is a sum of shifted slices. Because it is symmetric, the
# backward pass is the same operation; a ``Function`` with its own ``backward`` says so.
#
# *4. Real FFT.* The image is real, so :math:`V(-u, -v)` is the conjugate of :math:`V(u,
# v)`, and half of the plane is enough. Fold the data into that half. (Two cells may
# coincide, so this requires change 1.)
#
# *5. float32*, for the data too: otherwise everything after them is computed in
# ``float64``, without a warning.
#
# *6. Fused Adam.* By default an update by Adam is about ten operations. With
# ``fused=True`` one does nearly all.


# folded: Change 3, the smoothing in slices
def smooth(image):
    rows = 2 * image
    rows[..., 1:, :].add_(image[..., :-1, :])
    rows[..., :-1, :].add_(image[..., 1:, :])
    both = 2 * rows
    both[..., 1:].add_(rows[..., :-1])
    both[..., :-1].add_(rows[..., 1:])
    return both.div_(16)


class Smooth(torch.autograd.Function):
    @staticmethod
    def forward(_, image):
        return smooth(image)

    @staticmethod
    def backward(_, slope):
        return smooth(slope)


# %%


# folded: Changes 2 and 4, where the data lie
def place_cells(averages, changes):
    """Where the FFT of the image has the filled cells; their data, and weights."""
    side, data = averages.coords.npix, averages.vis_indexed
    row, column = averages.index // side, averages.index % side
    width, half = side, side // 2
    if "sky order" in changes:  # columns run west, and the centre is in the middle
        turns = (column * (half - 1) - row * half).double() / side
        data = data * torch.exp(2j * math.pi * turns)
        column = -column % side
    if "real FFT" in changes:
        width = half + 1
        mirror = column > half
        row = torch.where(mirror, -row % side, row)
        column = torch.where(mirror, side - column, column)
        data = torch.where(mirror, data.conj(), data)
    order = (row * width + column).argsort()
    index = (row * width + column)[order]
    return index, data[order], averages.weight_indexed[order], (1, side, width)


# %%


# folded: The step, with a switch for each change
class Step:
    def __init__(self, side, *changes, strength=1e-4, device="cpu"):
        self.changes, self.strength = set(changes), strength
        self.area = averages[side].coords.cell_size ** 2
        index, data, weight, shape = place_cells(averages[side], changes)
        real = torch.float32 if "float32" in changes else torch.float64
        mask = torch.zeros(shape, dtype=torch.bool)
        mask.view(-1)[index] = True
        self.index, self.mask = index.to(device), mask.to(device)
        self.data = data.to(device, real.to_complex())
        self.weight = weight.to(device, real) / (2 * data.numel())
        hann = torch.tensor([1, 2, 1], dtype=real, device=device) / 4
        self.kernel = torch.outer(hann, hann)[None, None]
        start = torch.randn(1, side, side, generator=torch.manual_seed(1)) / 2 - 2
        start = start if "sky order" in changes else sky_to_packed(start)
        self.parameters = start.to(device, real).clone().requires_grad_()
        fused = True if "fused Adam" in changes else None
        self.adam = torch.optim.Adam([self.parameters], lr=1e-3, fused=fused)


# %%


# folded: Its loss
def loss(step):
    does, image = step.changes, softplus(step.parameters)
    if "sky order" not in does:
        image = torch.fft.fftshift(image, dim=(-2, -1))
    if "slices" in does:
        image = Smooth.apply(image)
    else:
        image = conv2d(image[:, None], step.kernel, padding=1)[:, 0]
    sky = image
    if "sky order" not in does:
        image = torch.fft.ifftshift(image, dim=(-2, -1))
        sky = packed_to_sky(image)
    vis = torch.fft.rfft2(image) if "real FFT" in does else torch.fft.fft2(image)
    if "index" in does:
        model = vis.view(-1).index_select(0, step.index)
    else:
        model = vis.masked_select(step.mask)
    residual = step.data - step.area * model
    chi2 = (step.weight * residual.abs() ** 2).sum()
    penalties = losses.sparsity(sky) + losses.TV_image(sky) + losses.entropy(sky, 0.02)
    return chi2 + step.strength * penalties


# %%
# Check
# -----
#
# The fit is still the same if its gradient is. Check the changes cumulatively and each
# alone, on a random image of 30 × 30 pixels: 15, its half, is odd, which reveals errors
# of one pixel. The regularizers get a strength of 1, so that the data cannot hide an
# error in them.

ladder = ["index", "sky order", "slices", "real FFT", "float32", "fused Adam"]
rungs = {"as usual": ()} | {c: tuple(ladder[: i + 1]) for i, c in enumerate(ladder)}
alone = {f"only {change}": (change,) for change in ladder[1:]}
alone["only real FFT"] = ("index", "real FFT")


def gradient(step):
    loss(step).backward()
    found = step.parameters.grad.double().cpu()
    return found if "sky order" in step.changes else packed_to_sky(found)


def error(found):
    return ((found - right).norm() / right.norm()).item()


# %%

# folded: The gradients agree
plain = Step(30, strength=1.0)
assert loss(plain) == usual_loss(plain)
right = gradient(plain)
for name, changes in (rungs | alone).items():
    off = error(gradient(Step(30, *changes, strength=1.0)))
    assert off < (1e-5 if "float32" in changes else 1e-12), (name, off)
    print(f"{name:<16} gradient off by {off:.0e}")

# %%
# The profile
# -----------
#
# The profiler (:doc:`/tutorials/2_devices/14_profile`) records every
# operation and its caller. Classify them by name: ``aten::roll`` belongs to the order
# of the pixels, ``ConvolutionBackward0`` to the smoothing, and an operation with no
# such name to its caller. What is left belongs to the regularizers, apart from a little
# for :math:`\chi^2` and for Python.

import os
import re
from collections import Counter

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # no message when it starts
from torch.profiler import ProfilerActivity, profile, record_function

PARTS = {  # patterns in the names of operations
    "order": "shift|roll|flip",
    "smoothing": "conv|smooth",
    "FFT": "fft",
    "cells": "mask|index",
    "Adam": "optimizer",
    "softplus": "softplus",
    "regularizers": "",  # what is left
}

# %%


def part_of(event):
    name = event.name.lower()
    part = next(part for part, look in PARTS.items() if re.search(look, name))
    return part if PARTS[part] or not event.cpu_parent else part_of(event.cpu_parent)


def watch(function, *arguments, times=5):
    """Profile some calls; give the shares of the parts."""
    function(*arguments)
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        for _ in range(times):
            with record_function("step"):
                function(*arguments)
    spent = Counter()
    for event in prof.events():
        spent[part_of(event)] += event.self_cpu_time_total
    return {part: spent[part] / spent.total() for part in PARTS}


# %%
# Your own step
# -------------
#
# Put the names of your parts into ``PARTS``, with the empty pattern last, and call
# ``watch(make_a_step)`` with a function that makes one step.
#
# Predict the gains
# -----------------
#
# If a part takes the fraction :math:`s` of the time and becomes :math:`g` times as
# fast, the whole becomes :math:`1 / (1 - s + s / g)` times as fast. This is *Amdahl's
# law*. Even if the part cost nothing, the gain is at most :math:`1 / (1 - s)`.

watch(advance, Step(30))  # the first profile loads what it needs
steps = {name: Step(side, *c) for name, c in (rungs | alone).items()}
shares = {name: watch(advance, steps[name]) for name in rungs}
usual = shares["as usual"]
assert usual["FFT"] < 0.5  # as the introduction says


def limit(*parts):
    return 1 / (1 - sum(usual[part] for part in parts))


changed = dict(
    zip(ladder, ("cells", "order", "smoothing", "FFT", "", "Adam"), strict=True)
)
parts = [part for part in changed.values() if part]
print("part            share    change        it gains at most")
for part in sorted(PARTS, key=usual.get, reverse=True):
    change = next((c for c in ladder if changed[c] == part), "none")
    print(f"{part:<14}{usual[part]:7.0%}    {change:<14}{limit(part):.2f} ×")
print(f"five parts together: at most {limit(*parts):.2f} ×")
print(f"the product of their limits: {math.prod(map(limit, parts)):.2f} ×")

# %%
# Together, changes can gain more than the product of their limits, because each
# shortens the step and so enlarges the shares of all other parts.
#
# ``float32`` has no row because it changes all parts. It halves their bytes, so a part
# takes half the time if its bytes decide.
#
# Measure
# -------
#
# If you timed one change after the other, you would compare a quiet moment with a busy
# one. So they take turns: in each round every step is made once, in random order. A
# gain is the median of the rounds' ratios, and its range holds the middle half of them.

import random
from functools import partial
from time import perf_counter

import numpy as np


def take_turns(jobs, rounds=15):
    times, order = {name: [] for name in jobs}, random.Random(1)
    for _ in range(1 + rounds):
        for name in order.sample(list(jobs), len(jobs)):
            began = perf_counter()
            jobs[name]()
            times[name].append(perf_counter() - began)
    return {name: np.array(values[1:]) for name, values in times.items()}


def gain(name, than="as usual"):
    """Low, median and high."""
    return np.quantile(times[than] / times[name], (0.25, 0.5, 0.75))


# %%
# The last bar of the figure is the step of this package's ``fit``. Its gradient is
# written by hand, as in change 3. The FFTs come from a library. Everything else, Adam
# included, is done in six *fused kernels*, passes over the pixels, each of which
# replaces a dozen small operations. Such a kernel is a plain function of two loops,
# compiled by Numba: on a CPU its rows are divided among threads; on a GPU a row becomes
# a block and a column a thread. ``has_fused_step`` tells whether ``fit`` has such a
# step for your model, data and losses.

from firstlight.imaging import GriddedNet
from firstlight.imaging.fitting import Adam, FusedStep, Objective, has_fused_step


def package(side, real=torch.float32, strength=1e-4, device="cpu", step=FusedStep):
    start = Step(side).parameters.detach().to(device, real)
    model = GriddedNet(averages[side].coords, base_cube=start)
    terms = {"sparsity": losses.sparsity, "TV": losses.TV_image}
    terms["entropy"] = partial(losses.entropy, prior=0.02)
    terms = {name: (strength, term) for name, term in terms.items()}
    data = copy.deepcopy(averages[side]).to(device)
    objective = Objective(model, data, terms, "gridded")
    assert has_fused_step(objective)
    objective.fused_step = step(objective)
    return objective, Adam(model, lr=1e-3)


# %%

# folded: Its gradient is right, too
kinds = [(torch.float64, 1e-12, "cpu"), (torch.float32, 1e-5, "cpu")]
device = best_device()
has_gpu = device.type == "cuda"  # as PyTorch calls AMD's cards, too
on_nvidia = has_gpu and torch.version.hip is None  # where Numba's kernels run
if on_nvidia:
    kinds.append((torch.float32, 1e-5, device))
for real, allowed, place in kinds:
    objective, _ = package(30, real, strength=1.0, device=place)
    objective.value_and_grad()
    gradient_of_it = objective.model.bcube.base_cube.grad.double().cpu()
    off = error(packed_to_sky(gradient_of_it))
    assert off < allowed, off
    print(f"the package, {real}, {place}: gradient off by {off:.0e}")

# %%

objective, method = package(side)
jobs = {name: partial(advance, step) for name, step in steps.items()}
jobs["package"] = partial(method.steps, objective, 1)
shares["package"] = watch(jobs["package"])
shares["package"]["passes"] = shares["package"].pop("regularizers")
times = take_turns(jobs)

print("change      its part    at most   alone (range)         after those above")
above = []
for change, before in zip(ladder, rungs, strict=False):
    part, single = changed[change], change if change == "index" else f"only {change}"
    low, middle, high = gain(single, "index" if change == "real FFT" else "as usual")
    most = f"{limit(part):.2f} ×" if part else ""
    there = gain(change, than=before)[1]
    print(f"{change:<12}{part or 'all':<12}{most:<10}", end="")
    print(f"{middle:.2f} × ({low:.2f} to {high:.2f}){there:12.2f} ×")
    if part and low > 1.02 * limit(part):
        above.append(change)
six, best = (gain(name)[1] for name in ("fused Adam", "package"))
print(f"all six: {six:.1f} ×; the package's few passes: {best:.1f} ×")
print("clearly above their limits:", ", ".join(above) or "none")

# %%
# (*Real FFT* needs *index*, and is compared with a step that has it.) If the range
# includes 1, you cannot tell the gain from noise. A change clearly above its limit
# would show that parts influence each other, by the cache for example.
#
# What ``float32`` alone gains in two parts:

only_float32 = watch(advance, steps["only float32"])
for part in ("smoothing", "regularizers"):
    double = 1e3 * np.median(times["as usual"]) * usual[part]
    single = 1e3 * np.median(times["only float32"]) * only_float32[part]
    print(
        f"{part:<12} {double:5.1f} ms in float64, {single:5.1f} ms in float32:", end=""
    )
    print(f" {double / single:.1f} × as fast")

# %%
# A factor well below two means that something else than the bytes decides. ``conv2d``
# is made for many channels, and has only one here: in ``float32`` it can even be slower
# than in ``float64``. So judge ``float32`` by its gain after the slices have replaced
# ``conv2d``, in the last column above.
#
# On a CPU, begin with the change that gains most, and time the others again after it.
# The *regularizers* are dozens of small operations, none of them slow: each reads an
# image and writes another. To save that traffic they must be *merged*, as in the
# package, or by ``torch.compile`` (:doc:`/tutorials/2_devices/16_fewer_launches`
# measures what that costs).

# folded: What draws the bars
import matplotlib.pyplot as plt

COLOURS = "#b85c14", "#2f7ed8", "#1d7a5b", "#b0417a", "#a87f00", "#7a5cc0", "#6c757d"
look = dict(zip(PARTS, COLOURS, strict=True)) | {"passes": "#8c564b"}


def draw_bar(ax, y, name):
    took, left = 1e3 * np.median(times["as usual"]) / gain(name)[1], 0.0
    for part, share in shares[name].items():
        label = part if y == 0 or part == "passes" else None
        ax.barh(y, took * share, 0.75, left, color=look[part], label=label)
        if y == 0 and share > 0.09:
            style = {"color": "#fefefe", "ha": "center", "va": "center"}
            ax.text(left + took * share / 2, y, f"{share:.0%}", **style)
        left += took * share
    style = {"textcoords": "offset points", "va": "center"}
    ax.annotate(f"{gain(name)[1]:.1f} ×", (took, y), (5, 0), **style)


# %%

# measured figure
fig, ax = plt.subplots(figsize=(5.6, 5), layout="constrained")
for y, name in enumerate(shares):
    draw_bar(ax, y, name)
ax.set_yticks(range(8), ["as usual", *(f"+ {c}" for c in ladder), "few passes"])
ax.set_xlim(0, 1.15e3 * np.median(times["as usual"]))
ax.set_xlabel("ms per step, on one thread")
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)
fig.legend(loc="outside lower center", ncols=3, frameon=False)
gained = f"six changes gain {six:.1f} ×, merged passes {best:.1f} ×"
fig.suptitle(f"On one thread, {gained}")
named = ", ".join(f"{part} {share:.0%}" for part, share in usual.items())
fig.set_label(
    f"Time of a step of {side} × {side} pixels on a CPU, divided among its parts, as "
    f"each change is added to those above it. As usual: {named}. All six together make "
    f"it {six:.1f} times as fast, the package's few passes {best:.1f} times."
)
plt.show()

# %%
# What a GPU changes
# ------------------
#
# On a GPU each operation takes very little time, but has to be launched. Count what
# PyTorch dispatches, except for views and empty arrays, and the bytes that each
# operation reads and writes. A pass of the package counts as one.

# folded: A counter of operations and their bytes
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
        none = "empty|unsafe_view|profiler"
        if not (function.is_view or re.search(none, function.name())):
            self.note(*tree_leaves((args, kwargs, result)))
        return result


class CountedStep(FusedStep):
    def bind(self, name, *arrays):
        run = super().bind(name, *arrays)
        return lambda *more: (tally.note(*arrays, *more), run(*more))


# %%


def count(job):
    global tally
    for _ in range(2):  # Adam's first step is another
        with Tally() as tally:
            job()
    return tally.moved


objective, method = package(side, step=CountedStep)
moved = {name: count(jobs[name]) for name in ("as usual", "index", "fused Adam")}
moved["package"] = count(partial(method.steps, objective, 1))
assert len(moved["package"]) <= 20

# %%
# In the *model* of an H100 an operation takes its launch overhead, or the time of its
# bytes if that is longer. If the step is *captured* as a CUDA graph
# (:doc:`/tutorials/2_devices/16_fewer_launches`), it is launched once, and an operation
# takes the short time of a node in the graph, or that of its bytes if that is longer.
#
# But a step that waits cannot be captured, and a mask makes it wait: how many cells are
# selected is known only on the GPU (:doc:`/tutorials/2_devices/06_queues`). A GPU
# therefore needs change 1 first, however little that gains on a CPU.

bench = Bench("faster-step", budget=6 if has_gpu else 1.5)
for name in ("as usual", "fused Adam", "package"):
    bench.time(f"CPU, {name}", jobs[name], n=side**2)
if has_gpu:
    assert error(gradient(Step(30, *ladder, strength=1.0, device=device))) < 1e-5
    for name, changes in rungs.items():
        step = Step(side, *changes, device=device)
        bench.time(f"GPU, {name}", advance, step, n=side**2, device=device)
if on_nvidia:
    objective, method = package(side, device=device)
    job = method.steps, objective, 1
    bench.time("GPU, package", *job, n=side**2, device=device)
torch.set_num_threads(threads)

# %%

replay, node = spec("graph replay", "seconds"), spec("graph node", "seconds")


def model_ms(moved, each, once=0.0):
    return 1e3 * (once + sum(max(each, numbers / rate) for numbers in moved))


print("model of an H100   operations   one by one     captured")
rows = {"as usual": "as usual", "+ index": "index", "all six": "fused Adam"}
for label, name in (rows | {"few passes": "package"}).items():
    captured = f"{model_ms(moved[name], node, replay):.3f} ms"
    print(f"{label:<18}{len(moved[name]):11}", end="")
    print(f"{model_ms(moved[name], launch):10.3f} ms", end="")
    print(f"{captured if name != 'as usual' else 'impossible':>13}")
at_once = model_ms(moved["index"], node, replay)
assert at_once < model_ms(moved["fused Adam"], launch)  # as the next paragraph says

# %%
# Launched one by one, the six changes hardly help: the slices add about as many
# operations as the order and Adam save. Capturing helps more than all six, merging
# most. But merging is by far the most work for you, so for a GPU the order is: *remove
# what waits, capture, merge*, and save bytes last. On an NVIDIA GPU the package's
# ``fit`` captures its step by itself.
#
# On the newest GPU on record, the six changes give :timing:`faster-step speedup "GPU,
# fused Adam"/"GPU, as usual" @gpu`. The package's step, captured, gives
# :timing:`faster-step speedup "GPU, package"/"GPU, as usual" @gpu`.
#
# On an H100 the step as usual takes :timing:`faster-step median "GPU, as usual"
# @nvidia-h100-80gb-hbm3`, three times what the model says: its launches are bare ones,
# and each of these passes through Python and autograd. The six changes hardly help
# there. Captured in few passes, the step takes :timing:`faster-step median "GPU,
# package" @nvidia-h100-80gb-hbm3`; one core of the CPU beside it needs
# :timing:`faster-step median "CPU, package" @nvidia-h100-80gb-hbm3`.

# %%

# folded: All times, each step by itself
bench.show()
usual_alone, merged_alone = (bench[f"CPU, {x}"].median for x in ("as usual", "package"))
gained_alone = f"{usual_alone / merged_alone:.1f} ×"
print(
    f"On the CPU in this run, passes gain {best:.1f} × in turns, {gained_alone} alone."
)

# %%
# Others captured a step, too, though not of our program. Both are slower than our model
# says, for reasons that it leaves out.
#
# .. measured-by-others:: sam-a6000 sam-a6000-graph node-a100
#
# Where this stops being true
# ---------------------------
#
# - *Another computer.* Shares differ with library, processor and threads.
# - *Small images.* There an operation's overhead counts on a CPU, too.
# - *Large images, many channels.* There a GPU computes for longer than the launches
#   take, so that saving bytes helps it, too.
# - *High signal to noise.* The step subtracts before it squares, so ``float32`` will do
#   until the noise of a cell is about a millionth of the signal. The exact likelihood
#   squares first, and needs care sooner: :doc:`/tutorials/4_imaging/10_off_the_grid`.
# - *Other losses, and AMD's GPUs.* There ``fit`` uses ``autograd``.
#
# Exercise
# --------
#
# From the shares of some parts and the factor by
# which each becomes faster, return the factor by which the whole does. A gain may be
# infinite: that part then costs nothing.


def speedup(shares, gains): ...


# %%


# folded: The checker
CASES = [
    ([0.4], [2.0], "only the part becomes faster, and the rest stays as it is"),
    ([0.25], [math.inf], "of a part that costs nothing, the rest is left"),
    ([0.3, 0.2], [3.0, 4.0], "add times: speed-ups do not multiply"),
    ([0.5, 0.5], [2.0, 4.0], "add times, and divide at the end: means mislead"),
    ([0.5], [0.5], "a part can become slower, and then the whole does"),
    ([], [], "if nothing changes, nothing becomes faster"),
]


def check(answer):
    for parts, gains, hint in CASES:
        call = f"speedup({parts}, {gains})"
        left = sum(share / gain for share, gain in zip(parts, gains, strict=True))
        right = 1 / (1 - sum(parts) + left)
        try:
            if (got := answer(list(parts), list(gains))) is None:
                return "speedup returns nothing yet."
            got = float(got)
        except Exception as error:
            return f"{call} has to give a number; {type(error).__name__}: {error}"
        if not abs(got / right - 1) < 1e-6:
            return f"{call} is {got:.3g}, and should be {right:.3g}. Hint: {hint}."
    return "Right: you know what a plan is worth before you carry it out."


# %%

print(check(speedup))

# %%
# Three lines to remember
# -----------------------

# remember
largest = max(usual, key=usual.get)
single = max(ladder[1:], key=lambda change: gain(f"only {change}")[1])
most = gain(f"only {single}")[1]
print(
    "1. Profile first: a part's share of the time limits what a change to it can gain."
)
print(f"   Here the largest share is {largest}, {usual[largest]:.0%}.")
print(
    f"2. The best single change was {single}, {most:.1f} ×; all six gave {six:.1f} ×,"
)
print(f"   and merging everything into a few passes {best:.1f} ×.")
print(f"3. A GPU pays for launches: {len(moved['as usual'])} as usual,", end=" ")
print(f"{len(moved['fused Adam'])} after all six,")
print(f"   {len(moved['package'])} in passes. Remove what waits, capture, then merge.")

# %%
# Solution
# --------

# solution


def speedup_solution(shares, gains):
    new = 1 - sum(shares)
    for share, gain in zip(shares, gains, strict=True):
        new += share / gain
    return 1 / new


print(f"Our solution: {check(speedup_solution)}")
