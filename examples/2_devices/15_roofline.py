"""
How much faster could it be?
============================

This page is for anyone who knows which step of a program is slow, and asks what can be
gained. Count the bytes and operations that the step cannot do without, and divide them
by the rates of your machine, measured where the data lie: the longer of the two times
is the least that the step can take. A :term:`roofline` shows this bound for all steps
in one picture. A step far below its bound may have a better program; a step at its
bound has to move fewer bytes, or to do fewer operations, whichever decides.

**You will learn**

- to count operations and bytes by hand, and why not to leave that to a counter;
- to measure the two ceilings of your machine, and to draw the roofline;
- to choose which step to improve first;
- to predict what batching or another machine brings, before you try.

**Time:** 10 minutes. **Needs:** any computer. With a GPU, the page measures the GPU.
"""

# %%
# Predict
# -------
#
# The program is the one of :doc:`/tutorials/2_devices/14_profile`. Each
# frame of a microscope is tapered (*taper*) and transformed (:term:`FFT`), its power is
# taken (*power*), and a matrix with a row for each of 512 textures multiplies it
# (*match*):

from math import log2

import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.display import BLUE, GREEN, GREY, ORANGE, percent, quantity, show_table
from firstlight.timing.measurement import measure
from firstlight.timing.ceilings import Roof
from firstlight.timing.roofs import measured_roof
from firstlight.timing.specs import spec

device = best_device()
has_gpu = device.type != "cpu"
side, kinds = (512 if has_gpu else 256), 512
batches = (8, 64, 256) if has_gpu else (2, 8, 32)


def power_of(modes):
    return modes.real.square().addcmul_(modes.imag, modes.imag)


def scores_of(frames, taper, references):
    modes = torch.fft.rfft2(frames * taper)
    return references @ power_of(modes).flatten(-2).T


# %%
# For each step, write down the *operations* (additions and multiplications) and the
# *least bytes*: each input is read once and each result is written once. A ``float32``
# has 4 bytes, a complex number 8. An FFT of :math:`N` real numbers counts as
# :math:`2.5\,N \log_2 N` operations, a custom of `the makers of FFTW`__. At best, a
# processor moves bytes and computes at the same time, so
#
# .. math::
#
#     t_\text{least} = \max\left(\frac{\text{bytes}}{\text{bandwidth}},\
#     \frac{\text{operations}}{\text{rate of arithmetic}}\right).
#
# __ http://www.fftw.org/speed/method.html


def costs(side, kinds, frames=1):
    pixels, modes = side * side, side * (side // 2 + 1)
    match = 4 * (kinds * modes + frames * modes + frames * kinds)
    return {
        "taper": (pixels, 12 * pixels),
        "FFT": (2.5 * pixels * log2(pixels), 4 * pixels + 8 * modes),
        "power": (3 * modes, 8 * modes + 4 * modes),
        "match": (2 * kinds * modes * frames, match),
    }


by_hand = costs(side, kinds)
fp32, bandwidth = (spec("H100 SXM", what) for what in ("fp32", "bandwidth"))
rows, on_h100 = [], {}
for step, (operations, moved) in by_hand.items():
    on_h100[step] = max(moved / bandwidth, operations / fp32)
    cells = f"{operations:,.0f}", f"{moved:,}", f"{operations / moved:.2f}"
    rows.append((step, *cells, quantity(on_h100[step], "s")))
head = "", "operations", "bytes", "operations a byte", "least time, H100"
show_table("One frame", head, rows)

# %%
# Half of the spectrum of a real frame mirrors the other half and is left out. The last
# column takes the rates from the H100's :term:`data sheet`. *Operations a byte* is the
# :term:`arithmetic intensity`. It belongs to the work, not to the machine, and it
# decides which of the two times is the longer one.
#
# Measure
# -------
#
# First, the two ceilings. How fast memory is depends on where the data lie: a frame may
# fit into a cache, a matrix may not. And a processor may read faster than it writes. So
# read, copy and add arrays of the matrix's size, and of a frame's, and take the fastest
# of the three. The ceiling of arithmetic is the product of two square matrices, with
# 1,024 rows on a CPU and 4,096 on a GPU.

rng = np.random.default_rng(seed=1)
raw = torch.from_numpy(rng.random((batches[-1], side, side), dtype=np.float32))
raw, modes = raw.to(device), side * (side // 2 + 1)
references = torch.from_numpy(rng.random((kinds, modes), dtype=np.float32)).to(device)
taper = torch.outer(*2 * [torch.hann_window(side)]).to(device)


def memory_rate(*shape):
    a, b, out = (torch.rand(*shape, device=device) for _ in range(3))
    read, copy = lambda: a.sum(1), lambda: out.copy_(a)
    ways = (4, read), (8, copy), (12, lambda: torch.add(a, b, out=out))
    times = [min(measure(way, device=device, budget=0.3).values) for _, way in ways]
    bytes = [each * a.numel() for each, _ in ways]
    return max(np.divide(bytes, times))


arithmetic = measured_roof(str(device)).flop_rate
roof = Roof(byte_rate=memory_rate(kinds, modes), flop_rate=arithmetic)
frame_rate = max(memory_rate(side, side), roof.byte_rate)
print(f"memory, for the matrix: {quantity(roof.byte_rate, 'B/s')}")
print(f"memory, for a frame:    {quantity(frame_rate, 'B/s')}")
print(f"float32 arithmetic:     {quantity(roof.flop_rate, 'FLOP/s')}")

# %%

# folded: Check the whole chain against NumPy in float64, on frames of an odd size


def check_against_numpy(side=101, kinds=7, count=3):
    raw = rng.random((count, side, side), dtype=np.float32)
    references = rng.random((kinds, side * (side // 2 + 1)), dtype=np.float32)
    taper = torch.outer(*2 * [torch.hann_window(side)])
    data = (torch.from_numpy(raw), taper, torch.from_numpy(references))
    got = scores_of(*(each.to(device) for each in data)).cpu().numpy()
    window = taper.double().numpy()
    power = np.abs(np.fft.rfft2(raw * window)) ** 2
    exact = references.astype(float) @ power.reshape(count, -1).T
    error = np.max(np.abs(got / exact - 1))
    assert error < 1e-5, f"wrong by {error:.1e}"
    return error


print(f"largest relative error {check_against_numpy():.1e}")

# %%
# Then the steps, one by one. Two of them are also there as people often write them:
# *power* with ``abs()``, and *match* with a conversion of the matrix from ``float64``
# in each call.

frame = raw[0]
tapered = frame * taper
spectrum = torch.fft.rfft2(tapered)
power = power_of(spectrum).flatten()
doubles = references.cpu().double()

steps = {
    "taper": (torch.mul, frame, taper),
    "FFT": (torch.fft.rfft2, tapered),
    "power": (power_of, spectrum),
    "match": (torch.matmul, references, power),
    "power, abs": (lambda z: z.abs().square(), spectrum),
    "match, converting": (lambda p: doubles.float().to(device) @ p, power),
}
bench = Bench("roofline")
for label, (function, *arguments) in steps.items():
    bench.time(label, function, *arguments, device=device)
bench.show()

# %%
# Roofs, and a transform below them, as others measured them on their own cards. A small
# card under load does not hold its sheet's clock.
#
# .. measured-by-others:: product-a100-rate read-rtx4090 product-l4 fft-titanv
#
# The roofline
# ------------
#
# Divide the operations by the time, and you have a rate. With the intensity :math:`I`,
# no rate can exceed
#
# .. math::
#
#     \min\,(I \times \text{bandwidth},\ \text{rate of arithmetic}).
#
# On logarithmic axes this is a slope, where the bytes decide, and a flat part, where
# the arithmetic does. They meet at the :term:`ridge`.
# `Williams, Waterman and Patterson`__ drew it first.
#
# __ https://doi.org/10.1145/1498765.1498785


def least_seconds(step, frames=1):
    operations, moved = costs(side, kinds, frames)[step]
    rate = roof.byte_rate if step == "match" else frame_rate
    return max(moved / rate, operations / roof.flop_rate)


shares = {step: least_seconds(step) / bench[step].median for step in by_hand}
first = max(by_hand, key=lambda step: bench[step].median)
far = min(shares, key=shares.get)
for old in ("power, abs", "match, converting"):
    step = old.split(",")[0]
    gain = bench[old].median / bench[step].median
    print(f'"{step}" is {gain:.1f} × as fast as "{old}"')

# %%

# folded: Draw the roofs
import matplotlib.pyplot as plt


def draw_roofs(lowest, lines, low=0.03, high=300):
    """The H100's roof as a model, and those of this machine with one, two lines."""
    fig, ax = plt.subplots(figsize=(7.2, 5), layout="constrained")
    x, size = np.geomspace(low, high, 200), quantity(references.nbytes, "B", digits=2)
    measured_roofs = (
        (roof.byte_rate, roof.flop_rate, BLUE, "-", f"measured: a matrix of {size}"),
        (frame_rate, roof.flop_rate, BLUE, ":", "measured: one frame"),
    )[:lines]
    for rate, flops, colour, style, name in (
        *measured_roofs,
        (bandwidth, fp32, GREY, "--", "model: H100, from its data sheet"),
    ):
        ax.plot(x, np.minimum(x * rate, flops), style, color=colour, lw=2, label=name)
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(lowest / 4, 3 * fp32))
    ax.set(xlabel="operations a byte", ylabel="operations a second")
    ax.yaxis.set_major_formatter(lambda rate, _: quantity(rate, "FLOP/s", digits=1))
    ax.xaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}")
    return fig, ax


# %%

# folded: Draw a point


def rates_of(timing, operations):
    """The rate of the median, and how far those of the quartiles are from it."""
    slow, middle, fast = (
        operations / seconds
        for seconds in (timing.quartiles[1], timing.median, timing.quartiles[0])
    )
    return middle, [[middle - slow], [fast - middle]]


def draw_point(ax, timing, counts, marker, colour, name, shift):
    operations, moved = counts
    x, (y, bars) = operations / moved, rates_of(timing, operations)
    ax.errorbar(x, y, yerr=bars, capsize=4, fmt=marker, color=colour, ms=8)
    ha = "left" if shift[0] > 5 else "right" if shift[0] < -5 else "center"
    style = {"textcoords": "offset points", "size": 10, "ha": ha, "va": "center"}
    ax.annotate(name, (x, y), shift, **style)
    return x, y


# %%

# measured figure
# sphinx_gallery_thumbnail_number = 1
marks = {
    "taper": ("o", GREEN, (-9, 7)),
    "FFT": ("s", GREEN, (10, -4)),
    "power": ("^", GREEN, (-10, 5)),
    "match": ("D", GREEN, (11, -7)),
    "power, abs": ("v", ORANGE, (-10, -6)),
    "match, converting": ("X", ORANGE, (10, 0)),
}
counts = {label: by_hand[label.split(",")[0]] for label in marks}
lowest = min(counts[label][0] / bench[label].median for label in marks)
fig, ax = draw_roofs(lowest, lines=2)
at = {}
for label, mark in marks.items():
    at[label] = draw_point(ax, bench[label], counts[label], *mark[:2], label, mark[2])
for step, old in (("power", "power, abs"), ("match", "match, converting")):
    ax.annotate("", at[step], at[old], arrowprops={"arrowstyle": "->", "color": GREY})
fig.legend(loc="outside lower center", ncols=2, fontsize=10, frameon=False)
reached = f"{first} reaches {percent(shares[first])} of its roof"
if far != first:
    reached += f", {far} {percent(shares[far])}"
fig.suptitle(f"Of four steps, {reached}", size=13)
fig.set_label(
    f"A roofline on logarithmic axes, with a point for each step; {reached}. Vertical "
    "arrows lead from power with abs to power without, and from match that converts "
    "the matrix to match that does not."
)
plt.show()

# %%
# Each arrow leads from a common way to write a step to ours. It is vertical, because
# the intensity counts the *least* bytes, the same for both. The solid roof is that of
# *match*, which reads the matrix; the dotted one is that of the other steps. A measured
# roof is what *some* program reached, so a better one can come out slightly above it. A
# point far above a roof has its data in a faster place.
#
# What should you improve first?
# ------------------------------
#
# A better program for a step saves at most the time that the step now spends above its
# least, and the whole program saves no more than that. The advice in the table follows
# from three rules. A step with less than a tenth of the time is not worth yours. If
# :term:`launch` overhead decides, you need fewer launches. A step above half of its
# roof needs fewer bytes, or fewer operations, whichever decides; below half, a better
# program.

whole = sum(bench[step].median for step in by_hand)
saved, advice, rows = {}, {}, []
for step, (operations, _) in by_hand.items():
    share = bench[step].median / whole
    saved[step] = share * max(0, 1 - shares[step])
    computing = operations / roof.flop_rate >= least_seconds(step)
    if share < 0.1:
        advice[step] = "leave it"
    elif bench[step].verdict == "launch-bound":
        advice[step] = "fewer launches"
    elif shares[step] > 0.5:
        advice[step] = "fewer operations" if computing else "fewer bytes"
    else:
        advice[step] = "a better program"
    cells = percent(share), percent(shares[step]), percent(saved[step])
    rows.append((step, *cells, advice[step]))
head = "", "share of time", "of roof", "to save", "try"
show_table("What a better program can save of the whole", head, rows)
print(f"{first} has the largest share: try {advice[first]}.")

# %%
# Why not all of the roof? An FFT goes through its numbers in several passes, which the
# least bytes do not count; and of the pairs of a product and a sum, which a processor
# does as one operation, it has fewer than the matrix product that set the ceiling. A
# library wrote it, and you would hardly write a better one. A matrix times *one* vector
# may keep only one core of a CPU busy: compare the cores in the table of times.
#
# How much faster could another machine be? Take its rates from a data sheet. On a GPU,
# no operation takes less than its dispatch and launch, as others measured them
# (:spec:`PyTorch operation seconds`). For an H100 this *model* gives:

launch = spec("PyTorch operation", "seconds")
for step, least in on_h100.items():
    least = max(least, launch)
    gain = f"{bench[step].median / least:,.1f} × as fast as measured here"
    print(f"{step:5}  {quantity(least, 's')} or more: at most {gain}")

# %%
# Where the launch decides, give a GPU many frames at once.
#
# Fewer bytes: predict, then measure
# ----------------------------------
#
# For one frame, *match* reads the whole matrix. If you give it the spectra of :math:`K`
# frames side by side, it reads the matrix once for all of them: the operations grow
# with :math:`K`, and the bytes hardly. The roofline predicts the least time of a frame
# before anything runs:

predicted = {many: least_seconds("match", many) / many for many in (1, *batches)}
spectra = power_of(torch.fft.rfft2(raw * taper)).flatten(1)
moved = Bench("roofline-moved")
measured = {1: bench["match"].median}
for many in batches:
    some, label = spectra[:many].T, f"match, {many} frames"
    timing = moved.time(label, torch.matmul, references, some, device=device)
    measured[many] = timing.median / many

rows = []
for many, least in predicted.items():
    times = (quantity(seconds, "s") for seconds in (least, measured[many]))
    gain = f"{measured[1] / measured[many]:.1f} ×"
    rows.append((f"{many}", *times, percent(least / measured[many]), gain))
head = "frames", "least", "measured", "of roof", "gain"
show_table("match, time for each frame", head, rows)

most = batches[-1]
at_most, speedup = measured[1] / predicted[most], measured[1] / measured[most]
share = f"{percent(speedup / at_most)} of what the roofline allows"
print(f"batches of {most}: {speedup:.1f} × measured, {share} ({at_most:.1f} ×)")
for many in batches:
    if measured[many] > measured[1]:
        print(f"batches of {many}: slower than one frame at a time")

# %%
# A roofline says what is *possible*. If the time is several times the least, that tells
# you something, too: many libraries, for example, have no good routine for a product
# with few columns. So look at every row, and use a batch size that gains.

# measured figure
batched = {many: costs(side, kinds, many)["match"] for many in predicted}
fig, ax = draw_roofs(min(batched[1][0] / measured[many] for many in measured), lines=1)
for many, seconds in predicted.items():
    operations, least = batched[many]
    place = operations / least, operations / (many * seconds)
    about = "predicted: on the roof" if many == 1 else None
    ax.plot(*place, "o", mfc="none", mec=GREY, ms=13, label=about)
    timing = bench["match"] if many == 1 else moved[f"match, {many} frames"]
    draw_point(ax, timing, batched[many], "D", GREEN, f"{many}", (0, -16))
ax.plot([], [], "D", color=GREEN, ms=8, label="measured, with the number of frames")
fig.legend(loc="outside lower center", ncols=2, fontsize=10, frameon=False)
title = f"Batches of {most} frames: {speedup:.1f} × as fast,"
title += f" at most {at_most:.1f} × possible"
fig.suptitle(title, size=13)
fig.set_label(
    "The same roofline, with match for growing numbers of frames at once. Circles on "
    "the roof are predictions: they climb to the right. Diamonds are what was measured."
)
plt.show()

# %%
# Beyond the ridge the arithmetic decides, and a larger batch no longer lowers the least
# time of a frame; it may still come closer to it. Then only fewer or cheaper operations
# help, such as those of :term:`tensor cores <tensor core>`
# (:doc:`/tutorials/2_devices/13_precision`).

# folded: All times of the batches
moved.show()

# %%
# Why not leave the counting to a counter?
# ----------------------------------------
#
# PyTorch has two: ``torch.utils.flop_counter``, and the :term:`profiler` with
# ``with_flops=True``. Both count 0 operations for *match*, and all of them if the same
# product is written as a matrix times a matrix of one column.

# folded: Three counts: by hand, FlopCounterMode's and the profiler's
import os

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # no messages from the profiler

from torch.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

ways = {step: steps[step] for step in by_hand}
ways["match, one column"] = torch.matmul, references, power[:, None]
counted, rows = {}, []
for way, (function, *arguments) in ways.items():
    with FlopCounterMode(display=False) as counter:
        function(*arguments)
    with profile(with_flops=True) as prof:
        function(*arguments)
    flops = sum(row.flops for row in prof.key_averages())
    counted[way] = counter.get_total_flops(), flops
    hand = by_hand[way.split(",")[0]][0]
    rows.append((way, *(f"{number:,.0f}" for number in (hand, *counted[way]))))
head = "operations", "by hand", "FlopCounterMode", "profiler"
show_table("Three counts of one frame", head, rows)

# %%
# ``FlopCounterMode`` knows products of two matrices, convolutions and attention; the
# profiler also knows sums and products, element by element. *What a counter does not
# know counts as 0, without a warning.* Both are made for neural networks, and good
# there.

# folded: Check the counts by hand: a textbook FFT, and the sizes of the tensors


def counting_fft(x):
    if len(x) == 1:
        return x, 0
    (even, done), (odd, done_too) = counting_fft(x[::2]), counting_fft(x[1::2])
    odd = odd * np.exp(-2j * np.pi * np.arange(len(odd)) / len(x))
    both = np.concatenate([even + odd, even - odd])
    return both, done + done_too + len(odd) * (6 + 2 + 2)


some = rng.random(256)
both, done = counting_fft(some)
assert np.allclose(both, np.fft.fft(some))
custom = 5 * 256 * log2(256)
print(f"complex FFT of 256: {done:,} operations; 5 N log2 N: {custom:,.0f}")
for step, (_, least) in by_hand.items():
    function, *inputs = steps[step]
    tensors = *inputs, function(*inputs)
    assert least == sum(tensor.nbytes for tensor in tensors), step
print("least bytes: as counted by hand, for", ", ".join(by_hand))

# %%
# Where this stops being true
# ---------------------------
#
# - *Waiting.* A roofline knows bytes and operations. Waiting for a disk,
#   for Python or for a launch is neither. Many small operations lie far below every
#   roof; see :doc:`/tutorials/2_devices/16_fewer_launches`.
# - *Other arithmetic, other roofs.* ``float64``, ``bfloat16`` and tensor cores have
#   rates of their own, and a square root costs more than an addition.
# - *The least bytes are a bound.* What a kernel really moved is a profiler metric: on
#   NVIDIA's cards, ``dram__bytes.sum`` of Nsight Compute (``ncu``), which also draws a
#   roofline of its own.
# - *A step without operations*, such as a copy, has no place on logarithmic axes.
#
# Exercise
# --------
#
# A colleague plans a step and knows its ``operations`` and ``bytes``. Write a function
# that says which ceiling decides, ``"memory"`` or ``"arithmetic"``, and the least time
# in seconds, on a machine with a given rate of arithmetic and :term:`bandwidth`.


def least_time(operations, bytes, rate, bandwidth): ...


# %%

# folded: The checker, first part
BYTES, OPERATIONS = "memory", "arithmetic"
CASES = [
    ((1e9, 1e9, 67e12, 3.35e12), BYTES, "Which of the two takes longer?"),
    ((1e12, 1e9, 67e12, 3.35e12), OPERATIONS, "Which of the two takes longer?"),
    ((1e10, 1e9, 67e12, 3.35e12), BYTES, "Compare times, not numbers: rates differ."),
    ((6e9, 1e9, 2e11, 4e10), OPERATIONS, "The ridge is the machine's own: 5 here."),
    ((0, 8e9, 2e11, 4e10), BYTES, "A copy has no operations. Divide by rates only."),
]

# %%

# folded: The checker, second part


def check(answer):
    for (operations, moved, rate, bandwidth), roof, hint in CASES:
        call = f"least_time({operations:g}, {moved:g}, {rate:g}, {bandwidth:g})"
        times = {BYTES: moved / bandwidth, OPERATIONS: operations / rate}
        try:
            named, took = answer(operations, moved, rate, bandwidth)
            took = float(took)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            return f"{call} has to give a name and a time; {reason}"
        if named != roof:
            return f"{call} says {named!r} decides.\nHint: {hint}"
        if abs(took / sum(times.values()) - 1) < 1e-6 and min(times.values()) > 0:
            return f"{call}: you added. Bytes move while it computes: take the longer."
        if not abs(took / times[roof] - 1) < 1e-6:
            return f"{call} gave {took:g} s.\nHint: it is the time of {roof} alone."
    return "Right: you can say what a step costs before anybody writes it."


print(check(least_time))

# %%
# Three lines to remember
# -----------------------

# remember
print(f"""1. A step takes at least bytes / bandwidth, and at least operations / rate.
   Here {reached}.
2. Count by hand: of {by_hand["match"][0]:,} operations, a counter saw
   {counted["match"][0]}.
3. Far below the roof, look for a better program; at the roof, move fewer bytes (or do
   fewer operations). Batches of {most} frames could bring {at_most:.1f} ×, and brought
   {speedup:.1f} ×.""")

# %%
# Solution
# --------

# solution


def least_time_solution(operations, bytes, rate, bandwidth):
    times = {"memory": bytes / bandwidth, "arithmetic": operations / rate}
    decides = max(times, key=times.get)
    return decides, times[decides]


print(f"Our solution: {check(least_time_solution)}")
