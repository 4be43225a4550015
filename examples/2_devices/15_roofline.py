"""
How much faster could it be?
============================

You know which step of your program is slow. You could spend a week on a better version
of it. But what if it's already as fast as your GPU allows?

A step of ours multiplies a matrix by a vector. On an H100 it takes :timing:`roofline
median match @nvidia-h100-80gb-hbm3`. **Is that good? Write down how much faster you
think a perfect program could be.** By the end you'll be able to answer that for a step
of your own, on any machine, before you write a line.

**Needs:** :doc:`/tutorials/2_devices/14_profile` is helpful. You measure your GPU, or
your CPU.
"""

# %%
# Try it
# ------
#
# The GPU has to fetch the matrix from its memory, and it has to multiply. The matrix
# has 512 rows of 131,584 numbers, and each number has 4 bytes and takes part in one
# product and one sum. By its :term:`data sheet`, the H100's memory delivers :spec:`H100
# SXM bandwidth`, and it computes :spec:`H100 SXM fp32`.

numbers = 512 * 131_584
fetching = 4 * numbers / 3.35e12
multiplying = 2 * numbers / 67e12
print(f"fetching:    {1e6 * fetching:4.1f} µs at least")
print(f"multiplying: {1e6 * multiplying:4.1f} µs at least")

# %%
# It can do both at the same time, so the *longer* of the two is the least that the step
# can take, its :doc:`floor <03_is_it_possible>`. The best program in the world couldn't
# be a quarter faster! The H100 computes for a fortieth of the time, and for the rest of
# it, it waits for the matrix to arrive.
#
# .. holds::
#
#    one = median("roofline/match")
#    one < 1.25 * 4 * 512 * 131_584 / spec("H100 SXM", "bandwidth")
#
# If your waiter is the bottleneck, don't buy a faster stove.
#
# Count a step
# ------------
#
# So for any step you need two counts: the *operations*, which are additions and
# multiplications, and the *least bytes*, if each input is read once and each result is
# written once. Let's count a whole program, the microscope analysis of :doc:`the page
# before </tutorials/2_devices/14_profile>`. Each frame is faded out towards its edges
# (*taper*) and transformed (:term:`FFT`). We take the *power* of the result, and
# *match* it with 512 textures, which is the product above.

# folded: The imports, and the program
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


def costs(side, kinds, frames=1):
    pixels, modes = side * side, side * (side // 2 + 1)
    match = 4 * (kinds * modes + frames * modes + frames * kinds)
    return {
        "taper": (pixels, 12 * pixels),
        "FFT": (2.5 * pixels * log2(pixels), 4 * pixels + 8 * modes),
        "power": (3 * modes, 8 * modes + 4 * modes),
        "match": (2 * kinds * modes * frames, match),
    }


# %%
# A ``float32`` has 4 bytes, and a complex number 8. *taper* multiplies each pixel once,
# and reads two numbers and writes one. For an FFT of :math:`N` real numbers one counts
# :math:`2.5\,N \log_2 N` operations, a custom of `the makers of FFTW`__. **Before you
# look: which of the four steps do you expect to wait for the arithmetic?**
#
# __ http://www.fftw.org/speed/method.html

# folded code: The counts, and the least times by the data sheet of an H100
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
# None of them. The column *operations a byte* is called the :term:`arithmetic
# intensity`. For each byte that it gets, *match* does half an operation, while an H100
# could do twenty. So it waits. How many operations a byte would keep a machine's
# arithmetic busy? Divide its rate of arithmetic by its bandwidth. This is called the
# :term:`ridge`:

# folded code: The ridges of some cards
from firstlight.timing.specs import spec_of


def ridges_of(card):
    of = spec_of(card)
    return [
        f"{(of.fp32 if bits == 32 else of.bf16) / of.bandwidth:.0f}"
        for bits in (32, 16)
    ]


cards = "RTX 4090", "A100 40GB", "H100 SXM", "H200", "MI300X"
ridges = [(card, *ridges_of(card)) for card in cards]
show_table("Operations a byte, at the ridge", ("", "float32", "bfloat16"), ridges)

# %%
# The last column is for :term:`tensor cores <tensor core>`, which only do
# :doc:`products of matrices </tutorials/2_devices/13_precision>`. And what intensity do
# the usual steps have, in ``float32``?
#
# .. list-table:: Operations a byte
#    :header-rows: 1
#
#    * - step
#      - operations a byte
#    * - an addition of two vectors
#      - 1/12
#    * - a sum of a vector
#      - 1/4
#    * - a matrix times a vector
#      - 1/2
#    * - an FFT of :math:`N` real numbers
#      - :math:`0.3 \log_2 N`
#    * - a product of :math:`N \times N` matrices
#      - :math:`N / 6`
#
# So on an H100 only the last one can wait for the arithmetic, if :math:`N` is larger
# than 120, because then :math:`N / 6` is above the ridge. A small product waits for its
# launch instead. On a CPU, whose ridge may be below 5, an FFT can wait for the
# arithmetic, too.
#
# .. holds::
#
#    rates = r"^memory, for a frame: +(\d+) GB/s\nfloat32 arithmetic: +(\d+) GFLOP/s"
#    frame_there, arithmetic_there = printed(rates, "cpu-amd-epyc")
#    (fft,) = printed(r"^FFT +[\d,]+ +[\d,]+ +(\d\.\d+) ", "cpu-amd-epyc")
#    arithmetic_there / frame_there < fft < 5
#
# Draw the roof
# -------------
#
# A data sheet only promises, so let's measure both rates. How fast is the memory? Read,
# copy and add arrays of the size of the matrix and of a frame, and take the best rate.
# How fast is the arithmetic? Multiply two large square matrices.

# folded: The data
rng = np.random.default_rng(seed=1)
raw = torch.from_numpy(rng.random((batches[-1], side, side), dtype=np.float32))
raw, modes = raw.to(device), side * (side // 2 + 1)
references = torch.from_numpy(rng.random((kinds, modes), dtype=np.float32)).to(device)
taper = torch.outer(*2 * [torch.hann_window(side)]).to(device)

# %%


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
# The H100 reaches nine tenths of the bandwidth on its sheet, and nearly eight tenths of
# the arithmetic.
#
# .. holds::
#
#    roofs = [1e12 * roof for roof in printed(r"^(?:memory|float32).*: +([\d.]+) T")]
#    memory, frame, arithmetic = roofs
#    0.88 < memory / spec("H100 SXM", "bandwidth") < 0.92
#    0.76 < arithmetic / spec("H100 SXM", "fp32") < 0.8

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
# Two of the steps are also timed as people often write them: *power* with ``abs()``,
# and *match* with a matrix that is converted from ``float64`` at each call.

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


# folded: Compare with the least times
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
    style["bbox"] = {"fc": "white", "ec": "none", "pad": 0.5}  # over the lines
    ax.annotate(name, (x, y), shift, **style)
    return x, y


# %%
# Put your steps under it
# -----------------------
#
# Divide the operations of each step by the time it took. That's the rate that it
# reached. With the intensity :math:`I`, no rate can exceed
#
# .. math::
#
#     \min\,(I \times \text{bandwidth},\ \text{rate of arithmetic}),
#
# and on logarithmic axes, it looks like the roof of a house: a slope, where the bytes
# decide, and a flat part, where the arithmetic does. They meet at the ridge.

# measured figure
marks = {
    "taper": ("o", GREEN, (-9, 7)),
    "FFT": ("s", GREEN, (10, -4)),
    "power": ("^", GREEN, (0, 13)),
    "match": ("D", GREEN, (11, -7)),
    "power, abs": ("v", ORANGE, (0, -14)),
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
# People call this picture, first drawn by `Williams, Waterman and Patterson`__, a
# :term:`roofline`. Find *match*. How far is it below the solid line? That is all that a
# better program could gain. Each arrow leads from the way that people often write a
# step to ours. The dotted roof is for the other steps, whose frames may come from a
# faster memory, a :term:`cache`. On the H100, a launch takes longer than the cache
# needs for a frame, so there the two roofs are one. The roofs are measured, too. If a
# point lies above its own, other programs most likely slowed the roof's measurement.
#
# .. holds::
#
#    frame == memory
#
# __ https://doi.org/10.1145/1498765.1498785
#
# On the H100, *match* took :timing:`roofline median match @nvidia-h100-80gb-hbm3`, and
# reached more than nine tenths of its roof. With the conversion in it, it took
# :timing:`roofline median "match, converting" @nvidia-h100-80gb-hbm3`, because the CPU
# had to convert the matrix and copy it. Without the conversion, the step is
# :timing:`roofline speedup match/"match, converting" @nvidia-h100-80gb-hbm3` as fast,
# and no better card would have helped.
#
# .. holds::
#
#    def least(frames, modes=131_584):
#        moved, done = 4 * modes * (512 + frames), 2 * 512 * modes * frames
#        return max(moved / memory, done / arithmetic)
#
#    least(1) > 0.9 * one
#
# The other three don't come near any roof. The taper took :timing:`roofline median
# taper @nvidia-h100-80gb-hbm3`, the FFT :timing:`roofline median FFT
# @nvidia-h100-80gb-hbm3`, and *power* :timing:`roofline median power
# @nvidia-h100-80gb-hbm3`, although none of them has work for much more than a
# microsecond. They're waiting for their :term:`launch`: for two thirds of the time, or
# more, the GPU had nothing to do. So our better *power* gains nothing on this card:
# with ``abs()`` it took :timing:`roofline median "power, abs" @nvidia-h100-80gb-hbm3`.
# The roofline knows bytes and operations, and nothing of waiting. Nor does it know that
# such small kernels don't fill a card. Even without their launches they'd need far
# longer than it says, so you'd save less than the table below promises.
#
# .. holds::
#
#    others = [median(f"roofline/{step}") for step in ("taper", "FFT", "power")]
#    min(others) > 5 * 12 * 2**18 / memory
#    near(median("roofline/power"), median("roofline/power, abs"), 0.1)
#    three = (row(f"roofline/{step}") for step in ("taper", "FFT", "power"))
#    busy = [step.device_seconds for step in three]
#    all(part < whole / 3 for part, whole in zip(busy, others, strict=True))
#    min(busy) > 2 * 12 * 2**18 / memory
#
# Others measured their cards' roofs, and an FFT below them. A small card under load
# can't keep the clock of its data sheet:
#
# .. measured-by-others:: product-a100-rate read-rtx4090 product-l4
#    fft-titanv
#
# What should you do next?
# ------------------------
#
# For each step, look at its share of the time and at the distance from its roof:
#
# - *Less than a tenth of the time?* Leave it.
# - *It waits for launches?* Give it more work in each
#   (:doc:`/tutorials/2_devices/16_fewer_launches`).
# - *Above half of its roof?* Then a better program of the same kind can't even double
#   the speed. Move fewer bytes, or do fewer operations, whichever decides.
# - *Below half?* Look for a better program, in a library first.

# folded: Apply these rules to our steps
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

# folded: How fast would an H100 be, by a model?

# The launch is what somebody measured on an A100. That's typical, and no bound: it
# depends on the CPU, and a step like power consists of several.
launch = spec("PyTorch operation", "seconds")
for step, least in on_h100.items():
    least = max(least, launch)
    gain = f"{bench[step].median / least:,.1f} × as fast as measured here"
    print(f"{step:5}  about {quantity(least, 's')}, {gain}")

# %%
# Fewer bytes: predict, then measure
# ----------------------------------
#
# By the table, fewer launches in *power* and *FFT* save most. But the table asks what a
# better program *of the same kind* saves. On the H100 *match* takes more than half of
# the time, and it's at its roof, so there only fewer bytes help. How, if it has to read
# the whole matrix? By reading it once for *many* frames. Put the spectra of 256 frames
# side by side, and multiply the matrix by all of them at once. The operations grow 256
# times, and the bytes by a half. **What will you gain for each frame, 256 times, or
# less?**
#
# .. holds::
#
#    share, of_roof, saves = printed(r"^match +(\d+)% +(\d+)% +(\d+)%")
#    share > 50 and of_roof > 90
#    min(printed(r"^(?:FFT|power) +\d+% +\d+% +(\d+)%")) > 3 * saves

predicted = {many: least_seconds("match", many) / many for many in (1, *batches)}
spectra = power_of(torch.fft.rfft2(raw * taper)).flatten(1)
moved = Bench("roofline-moved")
measured = {1: bench["match"].median}
for many in batches:
    some, label = spectra[:many].T, f"match, {many} frames"
    timing = moved.time(label, torch.matmul, references, some, device=device)
    measured[many] = timing.median / many

# %%

# folded: Least and measured, for each frame
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

# measured figure
batched = {many: costs(side, kinds, many)["match"] for many in predicted}
fig, ax = draw_roofs(min(batched[1][0] / measured[many] for many in measured), lines=1)
for many, seconds in predicted.items():
    operations, least = batched[many]
    place = operations / least, operations / (many * seconds)
    about = "predicted: on the roof" if many == 1 else None
    ax.plot(*place, "o", mfc="none", mec=GREY, ms=13, label=about)
    timing = bench["match"] if many == 1 else moved[f"match, {many} frames"]
    draw_point(ax, timing, batched[many], "D", GREEN, f"{many}", (0, -18))
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
# With more frames, the step climbs the slope, and at the ridge it has to stop. From
# there on the arithmetic decides.
#
# On the H100, one frame took :timing:`roofline median match @nvidia-h100-80gb-hbm3`,
# and 256 frames together took :timing:`roofline-moved median "match, 256 frames"
# @nvidia-h100-80gb-hbm3`. So a frame costs less than a thirtieth of what it did, nearly
# all that the roofline allows. But with 8 frames, which took :timing:`roofline-moved
# median "match, 8 frames" @nvidia-h100-80gb-hbm3`, we got only a little more than half
# of the speed that it allows. A roofline says what is possible, and the library may
# have no good routine for your shape. So try several numbers of frames.
#
# .. holds::
#
#    many = median("roofline-moved/match, 256 frames")
#    many / 256 < one / 30
#    least(256) > 0.95 * many
#    0.5 < least(8) / median("roofline-moved/match, 8 frames") < 0.65

# folded: All times of the batches
moved.show()

# %%
# Can't a counter do the counting? PyTorch has two, ``torch.utils.flop_counter`` and the
# :term:`profiler` with ``with_flops=True``. On *match*, both count *zero* operations,
# because they know products of two matrices, and ours is one of a matrix and a vector.
# **What a counter doesn't know counts as 0, without a warning.** So count by hand.

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
# Your turn
# ---------
#
# A colleague plans a step and knows its ``operations`` and ``bytes``, and the machine's
# ``rate`` of arithmetic and its ``bandwidth``. Write the function that says which of
# the two decides, ``"memory"`` or ``"arithmetic"``, and the least time in seconds. Put
# it where the dots are, and run ``firstlight try 15_roofline.py``.


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
#
# The bytes in the first line are those that come from memory. If *match* did better
# than its roof allows, that was most likely measured on a busy computer.

# remember
hand, saw = by_hand["match"][0], counted["match"][0]
print(f"""\
1. A step takes at least bytes / bandwidth, and at least operations / rate.
   On this {"GPU" if has_gpu else "CPU"}, {reached}.
2. Count by hand: of {hand:,} operations, a counter saw {saw}.
3. Far below the roof, look for a better program, or for launches. At the roof, move
   fewer bytes: {most} frames at once could bring {at_most:.1f} ×, and brought
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
