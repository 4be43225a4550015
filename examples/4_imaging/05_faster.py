"""
Where does a step of the fit spend its time?
============================================

For anyone whose fit is too slow. A step consists of about a hundred small operations,
and each one reads and writes the whole image. A change to one part can gain no more
than that part's share of the time, so most changes disappoint on their own. What gains
most is to merge the small operations into a few passes over the pixels. If you call
this package's ``fit`` with a ``GriddedNet`` and the usual losses on a CPU or an NVIDIA
GPU, it does so already: there is nothing to type.

**You will learn**

- to divide a step among its parts, forward and backward;
- to predict from a share the most that a change can gain, before you make it;
- why changes that gain little alone can gain much together;
- which of them help a CPU, and which a GPU.

**Time:** 17 minutes. **Needs:** any computer, and :doc:`a fit that you understand
</tutorials/4_imaging/03_first_light>`. With an NVIDIA or AMD GPU, the changes are timed
there, too.
"""

# %%
# Predict
# -------
#
# A step computes an image from its parameters, visibilities from the image by a fast
# Fourier transform (FFT), and a loss from both. The backward pass gives the gradient,
# and *Adam* updates the parameters. At the very least, three numbers per pixel are read
# and written: the parameter and the two moving averages that Adam keeps. In addition
# there are two FFTs of :math:`N` real numbers, each of :math:`2.5\,N \log_2 N`
# operations.

# sphinx_gallery_thumbnail_number = 1
import copy
import math

from firstlight.measure.specs import spec

sides = (180, 512)
for side in sides:
    moved = 2 * 3 * 4 * side**2 / spec("H100 SXM", "bandwidth")
    computed = 5 * side**2 * math.log2(side**2) / spec("H100 SXM", "fp32")
    print(f"H100, {side} pixels: at least {1e6 * max(moved, computed):.1f} µs")

# %%
# That is less than the overhead of launching a single GPU kernel, and a step launches
# many. Write down your guess for a CPU: which part of a step takes the most time, and
# how much faster would the step be if that part cost nothing?
#
# The usual step
# --------------
#
# The sky is that of :doc:`/tutorials/4_imaging/03_first_light`. Its visibilities, fewer
# of them here, are averaged in the cells of three grids: a small one for the checks,
# and two to time.

import torch
from torch.nn.functional import conv2d, softplus

from firstlight import Bench, best_device
from firstlight.imaging import DataAverager, GridCoords, losses
from firstlight.imaging.coordinates import packed_to_sky, sky_to_packed
from firstlight.imaging.simulation import observe, uv_track, with_noise
from firstlight.imaging.skies import protoplanetary_disk

disk = protoplanetary_disk(flux=0.25, size=1.7)
seen = with_noise(observe(disk, uv_track(n_times=60)), 5e-3, seed=1)
measured = (seen.uu, seen.vv, seen.weight, seen.data.real, seen.data.imag)
averages = {}
for side in (30, *sides):
    coords = GridCoords(min(5.4 / side, 0.03), side)
    averages[side] = DataAverager(coords, *measured).to_pytorch_dataset(False)
    print(f"{side} × {side} pixels, {averages[side].index.numel():,} cells with data")

# %%
# MPoL's tutorials have this structure. The parameters are
# *packed*, with the centre of the image at [0, 0], where an FFT expects it. Softplus
# makes them positive. They are shifted to the middle, smoothed by a 3 × 3 convolution,
# and shifted back. The FFT is a complex one, a mask selects the cells with data, and
# for the regularizers the image is put into *sky order*, with north up. Everything is
# ``float64``, because NumPy made the data. For now, read what the code does if
# ``changes`` is empty.


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


def advance(step):
    step.adam.zero_grad()
    loss(step).backward()
    step.adam.step()


# %%
# Six changes
# -----------
#
# *1. Index.* The mask is searched in every step although it never changes. Find the
# cells once, and select them by index.
#
# *2. Sky order.* Store the parameters in the order of the map. A shift of the image
# before the FFT is a phase factor after it, so multiply the data by the opposite phase
# instead, once.
#
# *3. Slices.* The kernel is the product of (1, 2, 1)/4 along columns and along rows, so
# that the convolution is a sum of shifted slices. Because it is symmetric, the backward
# pass is the same operation. To tell ``autograd`` so, write a ``Function`` with its own
# ``backward``.


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
# *4. Real FFT.* The image is real, so :math:`V(-u, -v)` is the conjugate of :math:`V(u,
# v)`, and half of the plane is enough. Fold the data into that half. (Two cells may
# coincide, so this requires change 1.)
#
# *5. float32*, for the data too. If the data stay in ``float64``, everything after them
# is computed in ``float64``, without a warning.
#
# *6. Fused Adam.* By default an update by Adam is a dozen operations. With
# ``fused=True`` it is one.
#
# Changes 2 and 4 alter where the data lie:


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
# Check
# -----
#
# The fit is still the same if its gradient is. Check the changes one after another,
# cumulatively, and each of them alone, on a random image of 30 × 30 pixels, half of
# which is odd. The regularizers get a strength of 1, so that the data cannot hide an
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


right = gradient(Step(30, strength=1.0))
for name, changes in (rungs | alone).items():
    off = error(gradient(Step(30, *changes, strength=1.0)))
    assert off < (1e-5 if "float32" in changes else 1e-12), (name, off)
    print(f"{name:<16} gradient off by {off:.0e}")

# %%
# The profile
# -----------
#
# The profiler (:doc:`/tutorials/2_devices/10_profile_and_roofline`) records every
# operation and its caller. Classify them by name: ``aten::roll`` belongs to the order
# of the pixels, ``ConvolutionBackward0`` to the smoothing, and an operation with no
# such name belongs to its caller. Everything else is the *rest*: softplus,
# regularizers, sums, and Python.

import os
import re
from collections import Counter

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # no message when it starts
from torch.profiler import ProfilerActivity, profile, record_function

PARTS = {  # patterns in its names, and how to draw it
    "order": ("shift|roll|flip", "#d9762b", "//"),
    "smoothing": ("conv|smooth", "#2f7ed8", ""),
    "FFT": ("fft", "#2f9e77", ".."),
    "cells": ("mask|index", "#c2559d", "xx"),
    "Adam": ("optimizer", "#c9a227", "\\\\"),
    "rest": ("", "#9aa2aa", ""),
}

# %%


def part_of(event):
    name = event.name.lower()
    part = next(part for part, look in PARTS.items() if re.search(look[0], name))
    return part_of(event.cpu_parent) if part == "rest" and event.cpu_parent else part


def watch(function, *arguments, times=3):
    """Profile some calls; give the shares of the parts, and one call."""
    function(*arguments)
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        for _ in range(times):
            with record_function("step"):
                function(*arguments)
    spent = Counter()
    for event in prof.events():
        spent[part_of(event)] += event.self_cpu_time_total
    shares = {part: spent[part] / spent.total() for part in PARTS}
    return shares, next(event for event in prof.events() if event.name == "step")


# %%
# Now predict. If a part takes the fraction :math:`s` of the time and becomes :math:`g`
# times as fast, the whole becomes :math:`1 / (1 - s + s / g)` times as fast. This is
# *Amdahl's law*. Even if the part cost nothing, the gain is at most :math:`1 / (1 -
# s)`.

watch(advance, Step(30))  # the first profile loads what it needs
steps = {side: {n: Step(side, *c) for n, c in rungs.items()} for side in sides}
shares, call = {}, {}
for side in sides:
    for name, step in steps[side].items():
        shares[side, name], call[side, name] = watch(advance, step)

print("part          180 px   at most    512 px   at most")
for part in PARTS:
    print(f"{part:<12}", end="")
    for side in sides:
        share = shares[side, "as usual"][part]
        print(f"{share:8.0%} {1 / (1 - share):7.2f} ×", end="  ")
    print()

# %%
# The rows give the most that changes 2, 3, 4, 1 and 6 can gain, in this order; none of
# them touches the rest. ``float32`` has no row, because it halves the bytes of every
# part, and so the time at best.
#
# Measure
# -------
#
# The last row below is the step of this package's ``fit``. Its whole gradient is
# written by hand, as in change 3. The real FFT and its inverse come from a library.
# Everything else, Adam included, is done in six *passes* over the pixels, each of which
# replaces a dozen small operations. A pass is a plain function of two loops, written
# once: on a CPU, Numba divides its rows among threads; on a GPU, a row becomes a block
# and a column a thread. (It is compiled at its first use and cached. ``make`` has done
# so in a clone of this project; otherwise the next cell takes *some seconds longer,
# once*.)

from functools import partial

from firstlight.imaging import GriddedNet
from firstlight.imaging.objective import Objective
from firstlight.imaging.optimizers import Adam
from firstlight.imaging.step import Step as Written

PASSES = ("brighten", "smooth", "compare", "regularize", "descend", "update")


def package(side, real=torch.float32, strength=1e-4, device="cpu"):
    start = Step(side).parameters.detach().to(device, real)
    model = GriddedNet(averages[side].coords, base_cube=start)
    terms = {"sparsity": losses.sparsity, "TV": losses.TV_image}
    terms["entropy"] = partial(losses.entropy, prior=0.02)
    terms = {name: (strength, term) for name, term in terms.items()}
    data = copy.deepcopy(averages[side]).to(device)
    objective = Objective(model, data, terms, "gridded")
    objective.step = Written(objective)
    return objective, Adam(model, lr=1e-3)


# %%

kinds = [(torch.float64, 1e-12, "cpu"), (torch.float32, 1e-5, "cpu")]
device = best_device()
has_gpu = device.type == "cuda"  # as PyTorch calls AMD's cards, too
on_nvidia = has_gpu and torch.version.hip is None  # where Numba's kernels run
if on_nvidia:
    kinds.append((torch.float32, 1e-5, device))
for real, allowed, place in kinds:
    objective, _ = package(30, real, strength=1.0, device=place)
    objective.differentiate()
    gradient_of_it = objective.model.bcube.base_cube.grad.double().cpu()
    off = error(packed_to_sky(gradient_of_it))
    assert off < allowed, off
    print(f"the package, {real}, {place}: gradient off by {off:.0e}")

# %%
# Now the times, all in one ``Bench``. The range of a speed-up follows from the
# quartiles of both times.

bench = Bench("faster-step", budget=8 if has_gpu else 2.5)
for side in sides:
    for name, changes in (rungs | alone).items():
        step = steps[side].get(name) or Step(side, *changes)
        bench.time(f"{name}, {side}", advance, step, n=side**2)
    objective, method = package(side)
    shares[side, "package"], call[side, "package"] = watch(method.steps, objective, 1)
    bench.time(f"package, {side}", method.steps, objective, 1, n=side**2)


def faster(name, side, than="as usual"):
    new, old = bench[f"{name}, {side}"], bench[f"{than}, {side}"]
    low, high = old.quartiles[0] / new.quartiles[1], old.quartiles[1] / new.quartiles[0]
    return old.median / new.median, low, high


# %%
# First each change alone. If its range includes 1, you cannot tell the gain from noise.
# The last column is the *same* change added to those before it. Both depend on the
# machine, on how busy it is, and on the size of the image.

for side in sides:
    print(f"{side} pixels   alone (range)       after the others")
    for change, before in zip(ladder, rungs, strict=False):
        single = change if change == "index" else f"only {change}"
        gain, low, high = faster(single, side)
        there = faster(change, side, than=before)[0]
        print(f"{change:<12}{gain:4.2f} × ({low:.2f} to {high:.2f}){there:12.2f} ×")
    six, best = (faster(name, side)[0] for name in ("fused Adam", "package"))
    rest = shares[side, "fused Adam"]["rest"]
    print(f"all six {six:8.2f} ×, then the rest is {rest:.0%} of a step;")
    print(f"the package {best:.1f} ×\n")

# %%
# By Amdahl's law a change can gain more after the others than alone: they have
# shortened everything else, so the part that it improves has a larger share.
#
# The *rest* consists of dozens of small operations, none of which is slow. Each reads
# the whole image and writes another one for the next to read. To save that traffic they
# must be *merged*, as in the package, or by ``torch.compile``
# (:doc:`/tutorials/2_devices/11_fewer_launches` measures what that costs).
#
# What a GPU changes
# ------------------
#
# On a GPU each of these operations takes very little time, but has to be launched. To
# estimate the launch overhead, count the operations in the profile that call no others
# and do more than make a view or allocate memory.

FREE = "aten::(_?empty|_?reshape|.*view|as_str|slice$|select$|squeeze|unsq|expand|perm"
FREE += "|narrow|detach|alias|resize|result|to$|_nnpack|_local|_?conj$|real|lift)"


def starts(event):
    below = sum(map(starts, event.cpu_children))
    mine = event.name.startswith("aten::") and not re.match(FREE, event.name)
    return below or int(mine)


names = [*rungs, "package"]
labels = ["as usual", *(f"+ {change}" for change in ladder), "package"]
count = {name: starts(call[180, name]) for name in names}
count["package"] += len(PASSES)
for label, name in zip(labels, names, strict=True):
    print(f"{label:<12}{count[name]:5} operations")
assert count["package"] <= 20

# %%
# The six changes hardly lower that number, and slices even raise it. In the *model*,
# each operation costs its launch overhead
# (:doc:`/tutorials/2_devices/11_fewer_launches`), or the time to read two images and
# write one if that is longer. So the six changes gain a GPU little, and the package's
# few passes gain it much.
#
# If a step is *captured* as a CUDA graph, it is launched once, and an operation costs
# the shortest time of a kernel. But a step that synchronizes cannot be captured, and a
# mask does: how many cells it selects is known only on the GPU, so your program has to
# wait (:doc:`/tutorials/2_devices/02_queues`). A GPU therefore needs change 1 first,
# however little it gains on a CPU.


launch = spec("PyTorch operation", "seconds")
node = spec("graph node", "seconds")


def model_ms(name, side, start):
    image = (4 if "float32" in rungs.get(name, ladder) else 8) * side**2
    return 1e3 * count[name] * max(start, 3 * image / spec("H100 SXM", "bandwidth"))


if has_gpu:
    assert error(gradient(Step(30, *ladder, strength=1.0, device=device))) < 1e-5
    for side in sides:
        for name, changes in rungs.items():
            step = Step(side, *changes, device=device)
            bench.time(f"GPU, {name}, {side}", advance, step, n=side**2, device=device)
        if on_nvidia:
            objective, method = package(side, device=device)
            job = method.steps, objective, 1
            bench.time(f"GPU, package, {side}", *job, n=side**2, device=device)

# %%
# The length of a bar is the time of a step on the CPU, divided in
# proportion to the profile. The lines are the model of a GPU.

import matplotlib.pyplot as plt
from matplotlib.patheffects import withStroke

edge = [withStroke(linewidth=4, foreground="white")]
RED = {"color": "#c00000", "lw": 2, "path_effects": edge}


def draw(ax, side):
    for y, name in enumerate(names):
        took, left = 1e3 * bench[f"{name}, {side}"].median, 0.0
        for part, (_, colour, hatch) in PARTS.items():
            wide = took * shares[side, name][part]
            style = {"fc": colour, "hatch": hatch, "ec": "#222222", "lw": 0.6}
            ax.barh(y, wide, 0.7, left, label=part if y == 0 else None, **style)
            left += wide
        ax.text(took, y, f"  {faster(name, side)[0]:.1f} ×", va="center")
    launched = [model_ms(name, side, launch) for name in rungs]
    ax.plot(launched, range(7), "--", label="model: H100, launch by launch", **RED)
    captured = [model_ms(name, side, node) for name in (*ladder, "package")]
    ax.plot(captured, range(1, 8), ":", label="model, captured", **RED)
    if has_gpu:
        ran = names if on_nvidia else list(rungs)
        times = [1e3 * bench[f"GPU, {name}, {side}"].median for name in ran]
        ax.plot(times, range(len(ran)), "s", mec="w", label="this GPU", **RED)


# %%

# figure
fig, axes = plt.subplots(2, figsize=(7.6, 6.6), layout="constrained")
for ax, side in zip(axes, sides, strict=True):
    draw(ax, side)
    ax.set_yticks(range(8), labels)
    ax.set(title=f"{side} × {side} pixels", xlabel="ms per step")
    ax.margins(x=0.12)
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
legend = axes[0].get_legend_handles_labels()
fig.legend(*legend, loc="outside lower center", ncols=3, frameon=False)
title = f"512 pixels: six changes gain {six:.1f} ×, a few merged passes {best:.1f} ×"
fig.suptitle(title, size=13)
fig.set_label(
    "Time of a step, change by change, divided among its parts, at two sizes. All six "
    f"together make a step at 512 pixels {six:.1f} times as fast, the package, which "
    f"merges the rest, too, {best:.1f} times. The model of a GPU is a nearly vertical "
    f"line until the package, captured, which has {count['package']} operations "
    f"instead of {count['as usual']}."
)
plt.show()

# %%
# The lines of the model follow the number of launches, so the six changes hardly move
# them, and the package does.

for side in sides:
    ours = f"{1e3 * bench[f'package, {side}'].median:.2f} ms on this CPU"
    usual, few = model_ms("as usual", side, launch), model_ms("package", side, node)
    print(f"{side} pixels: the package {ours}")
    print(f"    model of an H100: {usual:.2f} ms as usual, {few:.3f} ms the package")

# %%
# For a GPU the order of work is: *remove synchronization, capture, merge operations*,
# and save bytes last.
#
# On the newest GPU on record, the six changes give :timing:`faster-step speedup "GPU,
# fused Adam, 180"/"GPU, as usual, 180" @gpu` at 180 pixels. The package's step,
# captured, gives :timing:`faster-step speedup "GPU, package, 180"/"GPU, as usual, 180"
# @gpu`.

# %%

# folded: All times
bench.show()

# %%
# Where this stops being true
# ---------------------------
#
# - *Another computer.* The shares are those of this library on this processor. Profile
#   your own step, then choose, and ignore small differences if the machine is busy.
# - *Large images, many channels.* There a GPU computes for longer than the launches
#   take, so that saving bytes helps it, too.
# - *High signal to noise.* ``float32`` has too few digits for the :math:`\chi^2` of a
#   strong signal. The exact likelihood avoids the problem:
#   :doc:`/tutorials/4_imaging/07_off_the_grid`.
# - *Your own losses.* The package's passes cover the usual ones. With others, or on
#   GPUs not made by NVIDIA, ``fit`` uses ``autograd``.
#
# Exercise
# --------
#
# You plan several changes at once. Write a function that takes the shares of some parts
# and the factors by which each becomes faster, and returns the factor by which the
# whole does. A gain may be infinite: that part then costs nothing.


def speedup(shares, gains): ...


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
            got = float(answer(list(parts), list(gains)))
        except Exception as error:
            return f"{call} has to give a number; {type(error).__name__}: {error}"
        if not abs(got / right - 1) < 1e-6:
            return f"{call} is {got:.3g}, and should be {right:.3g}. Hint: {hint}."
    return "Right: you know what a plan is worth before you carry it out."


print(check(speedup))

# %%

# solution


def speedup_solution(shares, gains):
    new = 1 - sum(shares)
    for share, gain in zip(shares, gains, strict=True):
        new += share / gain
    return 1 / new


print(check(speedup_solution))

# %%
# Three lines to remember
# -----------------------

# remember
most = max(faster(f"only {change}", 512)[0] for change in ladder[1:])
print("1. A part's share of the time limits what a change to it can gain, so profile")
print("   before you change anything.")
print(f"2. At 512 pixels the best change alone gave {most:.1f} ×, all six {six:.1f} ×,")
print(f"   and merging everything into a few passes {best:.1f} ×.")
all_six = count["fused Adam"]
print(f"3. A GPU pays for launches: {count['as usual']} at first, {all_six} after all")
print(f"   six, {count['package']} in passes. Remove waits first, then capture.")
