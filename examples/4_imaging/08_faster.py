"""
Where does a step of the fit spend its time?
============================================

Your fit is right, and it takes all night. How much faster is it on a GPU, and what do
you have to change for that? Each step makes two Fourier transforms of a large image,
which everybody says are slow. **Write down a guess: which fraction of a step goes into
them?**

**Needs:** any computer, and :doc:`a fit that you understand
</tutorials/4_imaging/01_first_light>`. :doc:`Many channels
</tutorials/4_imaging/09_many_channels>` have a page of their own.
"""

# %%
# Copy this
# ---------
#
# To move a fit to the GPU you add two lines, just before you make the
# :term:`optimizer`, Adam:
#
# .. code-block:: python
#
#    model = model.to("cuda")
#    data = data.to("cuda")
#
# If your model is a ``GriddedNet``, you can let our ``fit`` make the steps. It merges
# about a hundred small operations into a dozen, which the table calls *few passes*:
#
# .. code-block:: python
#
#    from firstlight_imaging import fit
#    from firstlight_imaging.model import losses
#
#    terms = {"TV": (1e-4, losses.TV_image), "sparsity": (1e-4, losses.sparsity)}
#    fit(model, data, losses=terms)
#
# Here is what that brings:
#
# .. list-table:: A step with 512 × 512 pixels, on an H100 and on a core of its Xeon
#    :header-rows: 1
#    :widths: 70 30
#
#    * - way
#      - time
#    * - one core, as usual
#      - :timing:`faster-step median "CPU, as usual" @nvidia-h100-80gb-hbm3`
#    * - one core, in few passes (``fit``)
#      - :timing:`faster-step median "CPU, package" @nvidia-h100-80gb-hbm3`
#    * - the H100, as usual (those two lines)
#      - :timing:`faster-step median "GPU, as usual" @nvidia-h100-80gb-hbm3`
#    * - captured as a CUDA graph (below)
#      - :timing:`faster-step median "GPU, index, captured" @nvidia-h100-80gb-hbm3`
#    * - captured, with the six changes below
#      - :timing:`faster-step median "GPU, fused Adam, captured" @nvidia-h100-80gb-hbm3`
#    * - the H100, in few passes (``fit``)
#      - :timing:`faster-step median "GPU, package" @nvidia-h100-80gb-hbm3`
#
# If your fit makes a thousand steps, a millisecond for a step is a second for the fit.
# *As usual* means in ``float64``, the usual type of NumPy's data. The few passes are in
# ``float32``, and their gradient is the same to five digits. For one image of 180 × 180
# pixels, :doc:`stay on the CPU </tutorials/4_imaging/01_first_light>`.
#
# So the two lines gain :timing:`faster-step speedup "GPU, as usual"/"CPU, as usual"
# @nvidia-h100-80gb-hbm3`, and few passes another :timing:`faster-step speedup "GPU,
# package"/"GPU, as usual" @nvidia-h100-80gb-hbm3`. But look at the second row: in few
# passes, *one core* took no longer than the H100 as usual! Let's find out why.
#
# .. holds::
#
#    median("faster-step/CPU, package") < median("faster-step/GPU, as usual")

# folded: The data: a disk, seen on two grids, one to check with and one to time
import copy
import math
import os
import random
import re
from collections import Counter
from functools import partial
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.nn.functional import conv2d, softplus

from firstlight import Bench, best_device
from firstlight_imaging import DataAverager, GridCoords, GriddedNet
from firstlight_imaging.coordinates import packed_to_sky, sky_to_packed
from firstlight_imaging.fitting import Adam, FusedStep, Objective, has_fused_step
from firstlight_imaging.model import losses
from firstlight_imaging.simulate import observe, protoplanetary_disk, uv_track
from firstlight_imaging.simulate import with_noise
from firstlight.timing.specs import spec

side = 512
threads = torch.get_num_threads()
torch.set_num_threads(1)  # so that the profile sees all of the work
disk = protoplanetary_disk(flux=0.25, size=1.7)
seen = with_noise(observe(disk, uv_track(n_times=60)), 5e-3, seed=1)
measured = (seen.uu, seen.vv, seen.weight, seen.data.real, seen.data.imag)
averages = {}
for n in (30, side):
    coords = GridCoords(min(5.4 / n, 0.03), n)
    averages[n] = DataAverager(coords, *measured).to_pytorch_dataset(False)
    print(f"{n} × {n} pixels, {averages[n].index.numel():,} cells with data")

# %%
# The step
# --------
#
# As in :term:`MPoL`'s tutorials, the parameters become an image, which is smoothed a
# little. A Fourier transform (FFT) predicts what the telescope would have measured,
# ``mask`` picks the cells of the grid that have data, and the :term:`loss` compares.
# Three penalties say what kind of image we'd rather have.


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
# ``loss`` is ``usual_loss`` with a switch for each change that we'll try. We begin on
# one core of a CPU.


# folded: The switches: smooth in slices, and where the data lie
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


# folded: The switches: what a step holds, and its loss
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

# folded: With every switch, and with all of them, the gradient stays the same
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


plain = Step(30, strength=1.0)
assert loss(plain) == usual_loss(plain)
right = gradient(plain)
for name, changes in (rungs | alone).items():
    off = error(gradient(Step(30, *changes, strength=1.0)))
    assert off < (1e-5 if "float32" in changes else 1e-12), (name, off)
    print(f"{name:<16} gradient off by {off:.0e}")

# %%
# Where does it go?
# -----------------
#
# PyTorch's :term:`profiler <profile>` records each operation and how long it took. We
# sort them by name into seven parts. The seventh is what's left: the penalties, also
# called :term:`regularizers <regularizer>`.

# folded: Which operation belongs to which part

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


def part_of(event):
    name = event.name.lower()
    part = next(part for part, look in PARTS.items() if re.search(look, name))
    return part if PARTS[part] or not event.cpu_parent else part_of(event.cpu_parent)


# %%


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


watch(advance, Step(30))  # the first profile loads what it needs
steps = {name: Step(side, *c) for name, c in (rungs | alone).items()}
shares = {name: watch(advance, steps[name]) for name in rungs}
usual = shares["as usual"]
for what in sorted(usual, key=usual.get, reverse=True):
    print(f"{what:<14}{usual[what]:4.0%}")

# %%
# What was your guess? On an EPYC, and on the Xeon beside the H100, the FFTs took about
# a seventh of the step. Smoothing the image with nine numbers took about twice as much.
# The penalties are the largest part, or nearly so. Each consists of a dozen operations,
# and every one reads a whole image from memory, and writes another one.
#
# .. holds::
#
#    machines = "nvidia-h100-80gb-hbm3", "cpu-amd-epyc"
#    share = lambda part, on: printed(rf"^{part} +(\d+)%$", on)[0]
#    all(6 < 100 / share("FFT", on) < 8 for on in machines)
#    all(near(share("smoothing", on), 2 * share("FFT", on), 0.1) for on in machines)
#
# To watch a step of your own, put the names of your parts into ``PARTS``, with the
# empty pattern last, and call ``watch`` with a function that makes one step. On a GPU,
# take :doc:`these lines </tutorials/2_devices/14_profile>`.
#
# Say that you find an FFT that costs nothing at all. A seventh of the time is gone, so
# a week's work has bought you a factor of :math:`7/6 = 1.17`. By :doc:`Amdahl's law
# </tutorials/2_devices/12_port_your_numpy>`, a part with the share :math:`p` can gain
# :math:`1/(1 - p)` at most. For the largest that's about one and a half.
#
# .. holds::
#
#    limits = [printed(r"at most ([\d.]+) ×", on) for on in machines]
#    all(1.4 < max(each) < 1.6 for each in limits)

# folded: The most that each part can give

# Changing float32 makes the penalties faster, too, so six changes can gain more than
# the last line says.


def limit(*parts):
    return 1 / (1 - sum(usual[part] for part in parts))


for what in sorted(usual, key=usual.get, reverse=True):
    print(f"{what:<14} at most {limit(what):.2f} ×")
print(f"all but the penalties and softplus: {limit(*list(PARTS)[:5]):.2f} ×")

# %%
# Six changes
# -----------
#
# None of the parts gives much by itself, so let's change six things, one after the
# other:
#
# 1. *Index.* The mask never changes, so find its cells once, and pick them by number.
# 2. *Sky order.* A shift of the image is a phase after the FFT. Multiply the data by
#    the opposite phase, once, and no image has to be shifted any more.
# 3. *Slices.* The nine numbers are the product of (1, 2, 1)/4 along the rows and the
#    same along the columns. So double the image and add it twice more, shifted by a
#    pixel to either side, first one way and then the other.
# 4. *Real FFT.* The image is real, so half of its Fourier plane is enough.
# 5. *float32* has half the bytes. Convert the data as well, or everything that meets
#    them becomes ``float64`` again, and nobody warns you.
# 6. *Fused Adam.* With ``fused=True``, one operation does the work of ten.
#
# Each bar of the figure adds a change to those above it. The last one, *few passes*, is
# the step inside our ``fit``. It leaves the FFTs to a library, and merges everything
# else into six passes over the pixels, written by hand and compiled by Numba.


# folded: How the steps take turns, and the step of fit
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

# folded: Take turns, and draw a bar

# The steps take turns, in random order, so that a busy moment of the computer can't hit
# only one of them.
objective, method = package(side)
jobs = {name: partial(advance, step) for name, step in steps.items()}
jobs["package"] = partial(method.steps, objective, 1)
shares["package"] = watch(jobs["package"])
shares["package"]["passes"] = shares["package"].pop("regularizers")
times = take_turns(jobs)
six, best = (gain(name)[1] for name in ("fused Adam", "package"))

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
# All of these steps have the same gradient, which the folds check. In the first table,
# few passes gain more than in this figure. There each step was timed by itself, and
# here they take turns. We don't know why that makes a difference, but it did on both
# computers. How much you gain also depends on your CPU, as the tabs show.
#
# .. holds::
#
#    # The fold of all times says that each gained more by itself than in turns.
#    said = r"changes gained ([\d.]+) ×", r"few passes ([\d.]+) ×"
#    cpu = lambda way, on: median(f"faster-step/CPU, {way}", on)
#    alone = lambda way, on: cpu("as usual", on) / cpu(way, on)
#    ways = zip(said, ("fused Adam", "package"), strict=True)
#    pairs = [(*way, on) for way in ways for on in machines]
#    all(printed(line, on)[0] < alone(way, on) for line, way, on in pairs)
#
# And on a GPU?
# -------------
#
# On the H100, the six changes brought less than nothing: :timing:`faster-step median
# "GPU, as usual" @nvidia-h100-80gb-hbm3` became :timing:`faster-step median "GPU, fused
# Adam" @nvidia-h100-80gb-hbm3`. **Why?**
#
# .. holds::
#
#    usual = median("faster-step/GPU, as usual")
#    usual < median("faster-step/GPU, fused Adam") < 1.3 * usual
#
# The six changes save bytes. Let's count the operations of a step and the bytes that
# they move, and work out how long the H100 needs for those bytes.

# folded: A counter of operations
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


def count(job):
    global tally
    for _ in range(2):  # Adam's first step is another
        with Tally() as tally:
            job()
    return tally.moved


objective, method = package(side, step=CountedStep)
moved = {name: count(jobs[name]) for name in ("as usual", "index", "fused Adam")}
moved["package"] = count(partial(method.steps, objective, 1))

# %%

# folded: The timing, on the CPU and on a GPU

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

for what, label in (
    ("as usual", "as usual"),
    ("all six", "fused Adam"),
    ("few passes", "package"),
):
    megabytes = sum(moved[label]) / 1e6
    least = 1e12 * megabytes / spec("H100 SXM", "bandwidth")
    print(f"{what:<12}{len(moved[label]):3} operations", end=" ")
    print(f"{megabytes:5.0f} MB, on an H100 at least {least:4.0f} µs")

# %%
# The bytes take a tiny part of the milliseconds that we measured, so saving them gains
# nothing. And the slices add about as many operations as the others save. For each
# operation, Python and the driver take longer than the GPU does. In other people's
# programs it was about :spec:`kernel of a program seconds` per operation. A hundred of
# those make four fifths of what our H100 took. We call such a step
# :term:`launch-bound`.
#
# .. holds::
#
#    near(97 * 25e-6, 0.8 * usual, 0.05)
#
# So on a GPU, go in this order:
#
# 1. *Remove what waits.* ``masked_select`` can't know how long its result is before the
#    GPU has counted, so Python stands still until it has. :doc:`.item() and if
#    </tutorials/2_devices/06_queues>` make Python wait in the same way.
# 2. *Capture.* A step that never waits can be recorded as a CUDA graph, and launched as
#    a whole. The function ``capture`` below does it.
# 3. *Merge*, by hand as in ``fit``, or with :doc:`torch.compile
#    </tutorials/2_devices/16_fewer_launches>`, which we haven't timed.
# 4. Save bytes last.


def capture(step):
    step.adam = torch.optim.Adam([step.parameters], 1e-3, fused=True, capturable=True)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):  # Adam has its state before the capture
            advance(step)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        advance(step)  # recorded, and not yet run
    return graph


# %%
# From then on, ``graph.replay()`` makes a step.

# folded: On an NVIDIA or AMD card: check the replay, and time it
if has_gpu:
    step, plain = (Step(30, *ladder, device=device) for _ in range(2))
    capture(step).replay()
    for _ in range(4):
        advance(plain)
    off = (step.parameters - plain.parameters).abs().max().item()
    assert off < 1e-4, off  # of four steps of 1e-3 each
    for name in ("index", "fused Adam"):
        replay = capture(Step(side, *rungs[name], device=device)).replay
        bench.time(f"GPU, {name}, captured", replay, n=side**2, device=device)
else:
    print("No card here can capture.")

# %%

# folded: All of these times

# Each change is added to those before it, so "fused Adam" has all six. "package" is the
# few passes. Here each row is timed by itself, and not in turns as in the figure. On
# both computers, changes and passes gained more this way, and we don't know why.
bench.show()

# %%
# **What are the six changes worth now?** A step can only be captured with the index and
# the fused Adam. With all six changes, the captured step is :timing:`faster-step
# speedup "GPU, fused Adam, captured"/"GPU, index, captured" @nvidia-h100-80gb-hbm3` as
# fast as with those two alone. ``fit`` does all of this: its step never waits, is
# captured, and has twelve operations in place of 97.
#
# .. holds::
#
#    [int(found) for found in printed(r"^few passes +(\d+) operations")] == [12]
#    [int(found) for found in printed(r"^as usual +(\d+) operations")] == [97]
#
# With larger images, or many of them at once, the GPU computes for longer than the
# launches take. Then :doc:`bytes count there, too
# </tutorials/4_imaging/09_many_channels>`.
#
# .. dropdown:: Others have captured, too
#
#    These are other people's programs. Capturing gained them much less than us wherever
#    the GPU had real work to do:
#
#    .. measured-by-others:: sam-a6000 sam-a6000-graph music-h200 music-h200-graph
#
#    Others have measured :spec:`PyTorch operation seconds` for a single addition on an
#    A100. Ours take longer, because they also pass through more Python and autograd.
#
# Your turn
# ---------
#
# Fix this loop. It follows the gradient downhill, and remembers the lowest loss that it
# saw. In each round it makes the CPU wait for the GPU, up to three times.


def descend_as_usual(image, mask, data, weight, rate, rounds):
    lowest = math.inf
    for _ in range(rounds):
        image = image.detach().requires_grad_()
        model = torch.fft.fft2(image).masked_select(mask)
        loss = (weight * (data - model).abs() ** 2).sum()
        if loss < lowest:
            lowest = loss.item()
        loss.backward()
        image = image - rate * image.grad
    return image.detach(), lowest


# %%
# Write ``descend``, which returns the same image and the same number (as a tensor, if
# you like), and in which no *round* waits. Before the first round it may wait as often
# as it wants. Put your answer where the dots are, and run ``firstlight try
# 08_faster.py``.


def descend(image, mask, data, weight, rate, rounds): ...


# %%

# folded: The checker: it counts what waits
from torch.overrides import TorchFunctionMode

WAITS = "masked_select|nonzero|_local_scalar_dense|unique|aten::equal|allclose"
READS = "cpu", "numpy", "tolist", "__array__"  # on a CPU, no operation shows them


class Reading(TorchFunctionMode):
    """Note each call that hands numbers to the CPU."""

    def __init__(self, waited):
        super().__init__()
        self.waited = waited

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = function.__name__
        if name in READS or (name == "to" and "cpu" in map(str, args[1:])):
            self.waited.append(name)
        return function(*args, **(kwargs or {}))


class Waiting(TorchDispatchMode):
    """Note each operation that can't return before the GPU has finished."""

    def __init__(self):
        super().__init__()
        self.waited = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        picks = function.name().startswith(("aten::index.", "aten::index_put"))
        chosen = [x for x in tree_leaves(args) if torch.is_tensor(x)]
        by_mask = picks and any(x.dtype == torch.bool for x in chosen)
        if by_mask or re.search(WAITS, function.name()):
            self.waited.append(function.name().partition("::")[2])
        return function(*args, **(kwargs or {}))


def waits_of(answer, *arguments, rounds):
    with Waiting() as watching, Reading(watching.waited):
        result = answer(*arguments, rounds)
    return result, watching.waited


# %%

# folded: The checker: is the answer right?


def find_problem(answer, rate):
    rng = torch.Generator().manual_seed(5)
    image = torch.rand(12, 10, generator=rng, dtype=torch.float64)
    mask = torch.rand(12, 10, generator=rng) < 0.3
    weight = torch.rand(int(mask.sum()), generator=rng, dtype=torch.float64) + 0.5
    data = torch.randn(len(weight), generator=rng, dtype=torch.complex128)
    given = image, mask, data, weight, rate
    right, lowest = descend_as_usual(image, mask, data, weight, rate, 7)
    found, once = waits_of(answer, *given, rounds=1)
    if found is None:
        return "descend returns nothing yet"
    (sky, least), seven = waits_of(answer, *given, rounds=7)
    if not torch.is_tensor(sky) or not torch.allclose(sky, right):
        return "the image isn't that of descend_as_usual"
    if not math.isclose(float(least), lowest, rel_tol=1e-9):
        return f"the lowest loss is {lowest:.4g}, and you return {float(least):.4g}"
    if len(seven) > len(once):
        return f"a round still waits, in {seven[-1]}"
    return ""


def check(answer):
    for rate in (1e-4, 0.008):  # down all the way, and down and up again
        try:
            problem = find_problem(answer, rate)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            return f"Not yet. With rate={rate}: {problem}."
    return "Right: no round waits, so this loop could be captured."


# %%

print(check(descend))

# %%
# Three lines to remember
# -----------------------

# remember
print("1. Profile before you change anything: a part with the share p of the time can")
print(f"   gain 1/(1 - p) at most. Here the FFTs had {usual['FFT']:.0%} of a step.")
print(
    f"2. On one core of a CPU, save bytes: six changes gained {six:.1f} ×, and merging"
)
print(f"   everything into a few passes {best:.1f} ×.")
print(f"3. A GPU pays for launches: {len(moved['as usual'])} as usual,", end=" ")
print(f"{len(moved['fused Adam'])} after all six,")
print(f"   {len(moved['package'])} in passes. Remove what waits, capture, then merge.")

# %%
# Solution
# --------

# solution


def descend_solution(image, mask, data, weight, rate, rounds):
    cells = mask.flatten().nonzero()[:, 0]  # waits, once
    lowest = torch.full((), math.inf, dtype=weight.dtype, device=image.device)
    for _ in range(rounds):
        image = image.detach().requires_grad_()
        model = torch.fft.fft2(image).flatten()[cells]
        loss = (weight * (data - model).abs() ** 2).sum()
        lowest = torch.minimum(lowest, loss.detach())
        loss.backward()
        image = image - rate * image.grad
    return image.detach(), lowest


print(f"Our solution: {check(descend_solution)}")
