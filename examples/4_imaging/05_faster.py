"""
Where does a step of the fit spend its time?
============================================

You want your fit faster. You mend a slow part, and a step takes hardly less time. You
mend another one: the same. Here you mend six, one at a time, each checked and timed.
Alone, most of them hardly show. Together they do. Then a seventh way does more than all
of them, because it mends no part at all.

**You will learn**

- to divide a step among its parts, on the way there and on the way back;
- to predict from a share what a change can win at most, before you make it;
- why changes that win little alone can win much together;
- which of them help a CPU, which a GPU, and which neither.

**Time:** 20 minutes. **Needs:** any computer, and :doc:`a fit that you understand
</tutorials/4_imaging/03_first_light>`. On an NVIDIA or AMD GPU, the six are timed, too.
"""

# %%
# Predict
# -------
#
# A step makes an image from its parameters, visibilities from the image by a fast
# Fourier transform (FFT), and a loss from both. It goes back through all that for the
# gradient, and *Adam* moves the parameters. At the least, three numbers a pixel are
# read and written: the parameter, and two averages that Adam keeps. And there are two
# FFTs of :math:`N` real numbers, of :math:`2.5\,N \log_2 N` operations each.

import copy
import math

from firstlight.measure.specs import spec

sides = (180, 512)
for side in sides:
    moved = 2 * 3 * 4 * side**2 / spec("H100 SXM", "bandwidth")
    computed = 5 * side**2 * math.log2(side**2) / spec("H100 SXM", "fp32")
    print(f"H100, {side} pixels: at least {1e6 * max(moved, computed):.1f} µs")

# %%
# That is less than a GPU needs to *start* one kernel, and a step starts many. Write
# down your guess for a CPU: which part of a step takes the most time, and how much
# faster would the step be if that part cost nothing?
#
# The step as usual
# -----------------
#
# The sky of :doc:`/tutorials/4_imaging/03_first_light`, with fewer visibilities, is
# averaged in the cells of three grids: a small one to check with, and two to time.

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
# MPoL's tutorials, and many fits like them, have this shape. The parameters lie
# *packed*, with the centre of the image at [0, 0], where an FFT has it. Softplus makes
# them positive. They are shifted to the middle, smoothed by a 3 × 3 convolution, and
# shifted back. The FFT is one of complex numbers. A mask picks the cells with data. For
# the regularizers, the image is turned into *sky order*, as a map is read. All is
# ``float64``, since NumPy made the data. Here it is, with a place for each of six
# changes. For now, read what is done if ``changes`` is empty.


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
    wishes = losses.sparsity(sky) + losses.TV_image(sky) + losses.entropy(sky, 0.02)
    return chi2 + step.strength * wishes


def advance(step):
    step.adam.zero_grad()
    loss(step).backward()
    step.adam.step()


# %%
# Six changes
# -----------
#
# *1. Index.* The mask is searched in each step, and it is always the same. Look the
# cells up once, and take them by their numbers.
#
# *2. Sky order.* Keep the parameters as a map is read. To shift an image before an FFT
# is to turn the phases after it. Turn those of the data instead, once, the other way.
#
# *3. Slices.* The kernel is (1, 2, 1)/4 down the columns, times the same along the
# rows: additions of shifted slices. It is symmetric, so the way back is the way there.
# To tell ``autograd`` so, write a ``Function`` with a ``backward`` of your own.


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
# *4. Real FFT.* The image is real, so :math:`V(-u, -v)` is the conjugate of
# :math:`V(u, v)`, and half of the plane is enough. Fold the data into that half. (Two
# cells may fall on one, so this needs change 1.)
#
# *5. float32*, the data too. If they stay behind, nothing tells you, and from there on
# all is computed in the wider type.
#
# *6. Fused Adam.* As a rule Adam is a dozen operations. With ``fused=True`` it is one.
#
# The second and the fourth are a matter of where the data lie:


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
# Is it still the same fit? Then the gradient is the same. Check every rung of the
# ladder, and every change alone, on a random image of 30 × 30 pixels, half of which is
# odd. The regularizers get a strength of 1, lest an error hide behind the data.

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
# operation, and who called it. Sort them by name: ``aten::roll`` belongs to the order
# of the pixels, ``ConvolutionBackward0`` to the smoothing, and what has no such name to
# its caller. What is left is the *rest*: softplus, regularizers, sums, and Python.

import os
import re
from collections import Counter

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # it need not tell when it begins
from torch.profiler import ProfilerActivity, profile, record_function

PARTS = {  # what its names have in them, and how to draw it
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
    """Record some calls; give the shares of the parts, and one call."""
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
# Now predict. If a part has the share :math:`s` of the time and becomes :math:`g` times
# as fast, the whole becomes :math:`1 / (1 - s + s / g)` times as fast. This is
# *Amdahl's law*. Even if the part cost nothing, it is at most :math:`1 / (1 - s)`.

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
# The rows are what changes 2, 3, 4, 1 and 6 can win, and the rest is what none of them
# touches. ``float32`` has no row. It halves the bytes of every part, and so the time at
# best.
#
# Measure
# -------
#
# The last rung is new: the step by which this package's ``fit`` goes. Its gradient is
# written down, as in change 3, but that of everything. A real FFT to the visibilities
# and one back are the library's. All else, Adam too, is in six *passes* over the
# pixels, each of which does at once what a dozen small operations did. A pass is a
# plain function of two loops, and is written only once: for a CPU, Numba shares its
# rows out among threads; for a GPU, a row becomes a block and a column a thread. (It is
# compiled at its first use, and kept. ``make`` has done it in a copy of this project.
# Otherwise the next cell takes *some seconds more, once*.)

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
# Now the times, all in one ``Bench``. A speed-up gets the range that the quartiles of
# both times leave it.

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
# First each change alone. A range with 1 in it is no gain that you could see. Beside it
# stands what the *same* change gives in its place on the ladder, over the rung before.

for side in sides:
    print(f"{side} pixels   alone (range)          in its place")
    for change, before in zip(ladder, rungs, strict=False):
        single = change if change == "index" else f"only {change}"
        gain, low, high = faster(single, side)
        there = faster(change, side, than=before)[0]
        print(f"{change:<12}{gain:4.2f} × ({low:.2f} to {high:.2f}){there:12.2f} ×")
    six, best = (faster(name, side)[0] for name in ("fused Adam", "package"))
    print(f"all six {six:8.2f} ×, the package {best:.1f} ×\n")

# %%
# Most of the first column would make a poor report. Yet all six are no small gain.
# Amdahl's law holds backwards, too: what the others have taken away no longer dilutes a
# gain, so the same change can be worth more at the end than at the beginning. Look at
# ``float32`` in both columns.
#
# After all six, most of what is left is the *rest*: dozens of small operations, none of
# them slow. Each goes through the whole image, and writes another one for the next to
# read. They can only be *merged*, as the package does, and as ``torch.compile`` does
# (:doc:`/tutorials/2_devices/11_fewer_launches` tells what that costs).
#
# What a GPU changes
# ------------------
#
# A GPU does each of these operations in no time, but has to be asked for each. How
# often? Count those in the profile that call no other and are more than a view or new
# memory.

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
# The six changes hardly lower that number; slices even raise it, and here help a CPU
# only. So for a GPU they change little, says a *model*, and the package's few passes
# change much: each operation costs its start, as
# :doc:`/tutorials/2_devices/11_fewer_launches` assumes it, or the time to read two
# images and write one, if that is longer. If a step is *captured* as a CUDA graph, it
# is asked for once, and an operation costs the shortest time of a kernel. But capturing
# forbids waits. How many cells does a mask pick? To know, a GPU has to look, and your
# program waits (:doc:`/tutorials/2_devices/02_queues`). So change 1, which hardly shows
# on a CPU, is the one that a GPU needs first.


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
# All in one picture. The length of a bar is the time of a step on the CPU, divided as
# the profile says. The lines are the model of a GPU.

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
    asked = [model_ms(name, side, 5e-6) for name in rungs]
    ax.plot(asked, range(7), "--", label="model: H100", **RED)
    captured = [model_ms(name, side, 1.5e-6) for name in (*ladder, "package")]
    ax.plot(captured, range(1, 8), ":", label="… captured", **RED)
    if has_gpu:
        ran = names if on_nvidia else list(rungs)
        times = [1e3 * bench[f"GPU, {name}, {side}"].median for name in ran]
        ax.plot(times, range(len(ran)), "s", mec="w", label="this GPU", **RED)


# %%

fig, axes = plt.subplots(2, figsize=(5.6, 6.4), layout="constrained")
for ax, side in zip(axes, sides, strict=True):
    draw(ax, side)
    ax.set_yticks(range(8), labels)
    ax.set(title=f"{side} × {side} pixels", xlabel="ms a step")
    ax.margins(x=0.12)
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
legend = axes[0].get_legend_handles_labels()
fig.legend(*legend, loc="outside lower center", ncols=3, frameon=False)
fig.set_label(
    "Time of a step, rung by rung, divided among its parts, at two sizes. Each rung "
    f"takes away a little. All six together make a step at 512 pixels {six:.1f} times "
    f"as fast. The package makes it {best:.1f} times as fast: it cuts the rest, too. "
    "The model of a GPU is a nearly upright line, the same at both sizes, until the "
    "package, captured, starts a tenth as much."
)
plt.show()

# %%
# The changes shorten the bars, and leave the model's lines where they are. The package
# moves both.

for side in sides:
    ours = f"{1e3 * bench[f'package, {side}'].median:.2f} ms on this CPU"
    asked, few = model_ms("as usual", side, 5e-6), model_ms("package", side, 1.5e-6)
    print(f"{side} pixels: the package {ours}")
    print(f"    model of an H100: {asked:.2f} ms as usual, {few:.3f} ms the package")

# %%
# A GPU's own list is another one: *no waits, then capture*, then merge, and bytes last.
# On the newest GPU on record, the six changes give
# :timing:`faster-step speedup "GPU, fused Adam, 180"/"GPU, as usual, 180" @gpu` at 180
# pixels. The package's step, captured, gives
# :timing:`faster-step speedup "GPU, package, 180"/"GPU, as usual, 180" @gpu`.

# %%

# folded: All times
bench.show()

# %%
# Where this stops being true
# ---------------------------
#
# - *Another computer.* The shares are those of this library on this processor. Profile
#   yours, then choose. On a busy one, compare nothing that differs by little.
# - *Large images, many channels.* There the work of a GPU outlasts its starts, and what
#   saves bytes helps it, too.
# - *High signal to noise.* ``float32`` has not digits enough for every :math:`\chi^2`.
#   The exact likelihood mends that: :doc:`/tutorials/4_imaging/03_first_light`.
# - *Your own losses.* The package's passes know the usual ones. With others, and on
#   other GPUs than NVIDIA's, ``fit`` goes by ``autograd``.
#
# Exercise
# --------
#
# You plan several changes at once. Write a function of the shares of some parts, and of
# how many times as fast each becomes. It gives how many times as fast the whole
# becomes. A gain may be infinite: then the part costs nothing any more.


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

most = max(faster(f"only {change}", 512)[0] for change in ladder[1:])
print("1. A share says what a change can win at most, before you make it.")
print(
    f"2. The best change alone gives {most:.1f} × at 512 pixels, all six {six:.1f} ×,"
)
print(f"   and merging them and the rest into a few passes {best:.1f} ×.")
print(
    f"3. A GPU counts starts: {count['as usual']}, and {count['fused Adam']} after all"
)
print(f"   six; in passes {count['package']}. There, remove waits first, then capture.")
