"""
How much faster could it be?
============================

This page is for anyone who knows which step of a program is slow, and asks what can be
gained. Count the bytes and operations that the step cannot do without, and divide them
by the rates of your machine: no program is faster than the longer of the two times. A
*roofline* shows that bound for all steps in one picture. A step far below it can be
improved as it is; a step at it has to move fewer bytes.

**You will learn**

- to count operations and bytes by hand, and why not to leave that to a counter;
- to measure the two ceilings of your machine, and to draw the roofline;
- to choose which step to improve first;
- to predict what batching brings, and to compare that with what it brought.

**Time:** 10 minutes. **Needs:** any computer. With a GPU, the page measures that.
"""

# %%
# Predict
# -------
#
# The program is the one of :doc:`/tutorials/2_devices/10_profile_and_roofline`. Each
# frame of a microscope is tapered and transformed (FFT), its power is taken, and a
# matrix with a row for each of 512 textures multiplies it:

from math import log2

import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.measure.roofs import measured_roof
from firstlight.measure.specs import spec
from firstlight.measure.tables import percent, quantity
from firstlight.measure.timing import measure
from firstlight.widgets import Table

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
# :math:`2.5\,N \log_2 N` operations, a custom of `the makers of FFTW`__. Then
#
# .. math::
#
#     t_\text{least} = \max\left(\frac{\text{bytes}}{\text{bandwidth}},\
#     \frac{\text{operations}}{\text{rate of arithmetic}}\right),
#
# because a processor can at best do both at the same time.
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
rows = []
for step, (operations, moved) in by_hand.items():
    least = max(moved / bandwidth, operations / fp32)
    cells = f"{operations:,.0f}", f"{moved:,}", f"{operations / moved:.2f}"
    rows.append((step, *cells, quantity(least, "s")))
head = "", "operations", "bytes", "operations a byte", "least time, H100"
print(Table("One frame", head, tuple(rows)).text())

# %%
# Half of the spectrum of a real frame mirrors the other half and is left out. The last
# column takes the rates from the H100's data sheet. *Operations a byte* is the
# *arithmetic intensity*. It belongs to the work, not to the machine, and it decides
# which of the two times is the longer one.
#
# Measure
# -------
#
# First, the two ceilings: the rate of memory, by a large copy and a large sum, and the
# rate of arithmetic, by a large matrix product. A frame is small and may fit into a
# cache, which is faster than memory. So copies of one frame are measured as well, and
# the higher rate counts for the steps that work on one frame.

rng = np.random.default_rng(seed=1)
raw = torch.from_numpy(rng.random((batches[-1], side, side), dtype=np.float32))
raw, modes = raw.to(device), side * (side // 2 + 1)
references = torch.from_numpy(rng.random((kinds, modes), dtype=np.float32)).to(device)
taper = torch.outer(*2 * [torch.hann_window(side)]).to(device)

frame = raw[0]
roof = measured_roof(str(device))
small = measure(torch.Tensor.copy_, torch.empty_like(frame), frame, budget=0.3)
small_rate = 2 * frame.nbytes / min(small.values)
ridge = roof.flop_rate / roof.byte_rate
print(f"memory:              {quantity(roof.byte_rate, 'B/s')}")
print(f"copies of one frame: {quantity(small_rate, 'B/s')}")
print(f"float32 arithmetic:  {quantity(roof.flop_rate, 'FLOP/s')}")
print(f"both take as long at {ridge:.1f} operations a byte")

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
    operations, moved = by_hand[label.split(",")[0]]
    size = {"flops": int(operations), "bytes": moved, "device": device}
    bench.time(label, function, *arguments, **size)
bench.show()

# %%
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
# the arithmetic does. `Williams, Waterman and Patterson`__ drew it first.
#
# __ https://doi.org/10.1145/1498765.1498785


def least_seconds(step, frames=1):
    """The roofline's bound, with the rate of memory that the step can have."""
    operations, moved = costs(side, kinds, frames)[step]
    rate = roof.byte_rate if step == "match" else max(small_rate, roof.byte_rate)
    return max(moved / rate, operations / roof.flop_rate)


shares = {step: least_seconds(step) / bench[step].median for step in by_hand}
near, far = (pick(shares, key=shares.get) for pick in (max, min))
best = f"{near} has {percent(shares[near])} of what is possible"
if shares[near] > 1:
    best = f"{near} is above the roof, thanks to a cache"


# %%

# folded: Draw the roofs
import matplotlib.pyplot as plt

BLUE, ORANGE, GRAY, GREEN = "#2f7ed8", "#d9762b", "#808890", "#2f9e77"


def draw_roofs(timings, low=0.03, high=300):
    fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    x = np.geomspace(low, high, 200)
    best = max(small_rate, roof.byte_rate)
    for rate, flops, style, name in (
        (roof.byte_rate, roof.flop_rate, "-", "measured: from memory"),
        (best, roof.flop_rate, ":", "copies of a frame"),
        (bandwidth, fp32, "--", "model: H100, data sheet"),
    ):
        colour = GRAY if style == "--" else BLUE
        ax.plot(x, np.minimum(x * rate, flops), style, color=colour, lw=2)
        end = flops / rate if style == ":" else high
        if style != ":" or best > 1.2 * roof.byte_rate:
            ax.text(end, flops * 1.25, name, ha="right", color=colour, size=10)
    bottom = min(timing.flop_rate for timing in timings) / 6
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, 4 * fp32))
    ax.set(xlabel="operations a byte", ylabel="operations a second")
    ax.yaxis.set_major_formatter(lambda rate, _: quantity(rate, "/s", digits=1))
    ax.xaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}")
    return fig, ax


# %%

# folded: Draw a point


def draw_point(ax, timing, marker, colour, name, shift):
    x, y = timing.flops / timing.bytes, timing.flop_rate
    slow, fast = (timing.flops / side for side in reversed(timing.quartiles))
    bars = {"yerr": [[y - slow], [fast - y]], "capsize": 4}
    ax.errorbar(x, y, fmt=marker, color=colour, ms=8, **bars)
    ha = "left" if shift[0] > 5 else "right" if shift[0] < -5 else "center"
    style = {"textcoords": "offset points", "size": 10, "ha": ha, "va": "center"}
    ax.annotate(name, (x, y), shift, **style)


# %%

# measured figure
# sphinx_gallery_thumbnail_number = 1
looks = {
    "taper": ("o", GREEN, (0, 14)),
    "FFT": ("s", GREEN, (10, -4)),
    "power": ("^", GREEN, (-9, 6)),
    "match": ("D", GREEN, (11, -3)),
    "power, abs": ("v", ORANGE, (0, -14)),
    "match, converting": ("X", ORANGE, (10, 0)),
}
fig, ax = draw_roofs(bench.timings)
for label, (marker, colour, shift) in looks.items():
    draw_point(ax, bench[label], marker, colour, label, shift)
for step, old in (("power", "power, abs"), ("match", "match, converting")):
    x = bench[old].flops / bench[old].bytes
    ends = (x, bench[step].flop_rate), (x, bench[old].flop_rate)
    ax.annotate("", *ends, arrowprops={"arrowstyle": "->", "color": GRAY})
fig.suptitle(f"{best}; {far} has {percent(shares[far])}", size=13)
fig.set_label(
    f"A roofline on logarithmic axes, with a point for each step. {near} is nearest to "
    f"its bound, {far} farthest below. Arrows straight up or down lead from power with "
    "abs to power without, and from match that converts to match."
)
plt.show()

# %%
# An arrow leads from a step as people often write it to the way of this page. It is
# vertical, because the intensity counts the *least* bytes, the same for both. If a
# point lies above the roof, its bytes came from a faster place than those of the roof:
# a matrix that fits into the last cache need not come from memory.
#
# What should you improve first?
# ------------------------------
#
# A step can gain at most its distance to the roof, and the whole can gain at most that
# step's share of the time. The table puts both together, and its advice follows from
# three rules: a small share is not worth your time; if launch overhead decides, you
# need fewer launches; and a step near its bound needs fewer bytes.

whole = sum(bench[step].median for step in by_hand)
saved, advice, rows = {}, {}, []
for step in by_hand:
    share = bench[step].median / whole
    saved[step] = share * max(0, 1 - shares[step])
    if share < 0.1:
        advice[step] = "leave it: small share"
    elif bench[step].verdict == "launch-bound":
        advice[step] = "fewer launches"
    else:
        advice[step] = "fewer bytes" if shares[step] > 0.5 else "a better program"
    reached = percent(shares[step]) if shares[step] <= 1 else "above: cached"
    cells = percent(share), reached, percent(saved[step])
    rows.append((step, *cells, advice[step]))
head = "", "share of time", "of possible rate", "can save at most", "try"
print(Table("What each step can save of the whole", head, tuple(rows)).text())
first = max(by_hand, key=lambda step: bench[step].median)
print(f"{first} has the largest share: try {advice[first]}.")

# %%
# The bound of the FFT is a hard one to reach, because an FFT goes through its numbers
# in several passes, which the least bytes do not count. It is also the work of a
# library that is probably better than what you would write instead.
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
met = {1: bench["match"].median}
for many in batches:
    operations, least = costs(side, kinds, many)["match"]
    size = {"flops": operations, "bytes": least, "device": device}
    some = spectra[:many].T
    label = f"match, {many} frames"
    met[many] = moved.time(label, torch.matmul, references, some, **size).median / many

rows = []
for many in predicted:
    operations, least = costs(side, kinds, many)["match"]
    times = (quantity(seconds, "s") for seconds in (predicted[many], met[many]))
    ratio = met[many] / predicted[many]
    cells = f"{operations / least:.1f}", *times, f"{ratio:.1f} ×"
    rows.append((f"{many}", *cells, f"{met[1] / met[many]:.1f} ×"))
head = "frames", "op. a byte", "least", "measured", "of least", "gain by batching"
print(Table("match, time for each frame", head, tuple(rows)).text())

# %%

most = batches[-1]
hoped, got = met[1] / predicted[most], met[1] / met[most]
print(f"batches of {most}: predicted at most {hoped:.1f} ×, measured {got:.1f} ×")
if got > hoped:
    said = "more than the bound: a ceiling was measured too low, or a cache helped"
elif got > hoped / 2:
    said = "at least half of what the roofline allows"
else:
    said = "less than half of what the roofline allows"
print(f"That is {said}.")

# %%
# A roofline says what is *possible*. A measured time of about the least means that the
# prediction held. A time of several times the least is a finding too: for products with
# few columns, for example, many libraries have no good program. So look at every row:
# if a batch size brings nothing, or makes it worse, use another one.

# measured figure
fig, ax = draw_roofs(moved.timings)
for many, seconds in predicted.items():
    operations, least = costs(side, kinds, many)["match"]
    place = operations / least, operations / (many * seconds)
    ax.plot(*place, "o", mfc="none", mec=GRAY, ms=13)
    timing = bench["match"] if many == 1 else moved[f"match, {many} frames"]
    draw_point(ax, timing, "D", GREEN, f"{many}", (0, -16))
title = f"Batches of {most} frames: {got:.1f} × as fast, at most {hoped:.1f} × possible"
fig.suptitle(title, size=13)
fig.set_label(
    "The same roofline, with match for growing numbers of frames at once. Circles on "
    "the roof are predictions: they climb to the right. Diamonds are what was measured."
)
plt.show()

# %%
# Beyond the corner, which is called the *ridge*, larger batches can gain nothing more,
# because there the arithmetic decides. Then only fewer or cheaper operations help, such
# as those of tensor cores (:doc:`/tutorials/2_devices/09_precision`).

moved.show()

# %%
# Why not leave the counting to a counter?
# ----------------------------------------
#
# PyTorch has two: ``torch.utils.flop_counter``, and the profiler with
# ``with_flops=True``. Ask both about every step, and about the product written in a
# second way, as a matrix times a matrix of one column:

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
print(Table("Three counts of one frame", head, tuple(rows)).text())

# %%
# The same product counts as nothing or as everything, depending on how it is written.
# These counters know matrix times matrix, convolutions and attention; *an operation
# that a counter does not know counts as 0, without a warning*. They are made for neural
# networks, and good there.

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
# - *Time that is no work.* A roofline knows bytes and operations. Waiting for a disk,
#   for Python or for a launch is neither. Many small operations lie far below every
#   roof; see :doc:`/tutorials/2_devices/11_fewer_launches`.
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
# in seconds, on a machine with a given rate of arithmetic and bandwidth.


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
            said = f"{type(error).__name__}: {error}"
            return f"{call} has to give a name and a time; {said}"
        if named != roof:
            return f"{call} says {named!r} decides.\nHint: {hint}"
        if abs(took / sum(times.values()) - 1) < 1e-6 and min(times.values()) > 0:
            return f"{call}: you added. Bytes move while it computes: take the longer."
        if not abs(took / times[roof] - 1) < 1e-6:
            return f"{call} gave {took:g} s.\nHint: it is the time of {roof} alone."
    return "Right: you can say what a step costs before anybody writes it."


print(check(least_time))

# %%

# solution


def least_time_solution(operations, bytes, rate, bandwidth):
    times = {"memory": bytes / bandwidth, "arithmetic": operations / rate}
    decides = max(times, key=times.get)
    return decides, times[decides]


print(check(least_time_solution))

# %%
# Three lines to remember
# -----------------------

# remember
print(f"""1. No program beats the longer of bytes / bandwidth and operations / rate.
   Here {best}.
2. Count by hand: of {by_hand["match"][0]:,} operations, a counter saw
   {counted["match"][0]}.
3. Below the roof, write a better program; at the roof, move fewer bytes.
   Batches of {most} frames were predicted to bring at most {hoped:.1f} ×, and
   brought {got:.1f} ×, {said}.""")
