"""
Where does the time go, and how much can you win?
=================================================

A program is slow, and you want to mend it. Two questions come before any cure. *Where*
does the time go? A *profile* answers that: a record of what ran when. And how fast
*could* it be? No profile answers that. You need to know what the work costs at the
least, and a picture called a *roofline*. On this page you take a loop as one finds
them, answer both questions, and then speed it up to where you said it would be.

**You will learn**

- to read a profile: self and total, calls, CPU and device, and what profiling costs;
- to count operations and bytes by hand, and why you cannot leave that to a counter;
- to draw a roofline from ceilings that you measured, and read off what can be won;
- to move a point of it on purpose, and to land where you predicted.

**Time:** 25 minutes. **Needs:** any computer. With a GPU, the page measures that.
"""

# %%
# Predict
# -------
#
# You take frames with a microscope, and look at their textures. Of each frame you want
# the *power spectrum*, which says how strong each spatial frequency is. Then you
# compare the spectrum with 512 reference spectra: one score each. The steps are
#
# 1. *taper*: multiply the frame by a mask that falls to zero at the edges;
# 2. *FFT*: the two-dimensional Fourier transform of the frame;
# 3. *power*: the squared magnitude of each complex number;
# 4. *match*: a matrix, a row for each reference, times the spectrum as a vector.
#
# For each step, count two things by hand: the *operations* (additions and
# multiplications) and the *least bytes* (each input read once, each result written
# once). A ``float32`` number has 4 bytes, a complex one 8. An FFT of :math:`N` real
# numbers is counted as :math:`2.5\,N \log_2 N` operations: `the makers of FFTW`__ began
# this custom. If the bytes come from memory, no machine does a step faster than
#
# .. math::
#
#     t_\text{floor} = \max\left(\frac{\text{bytes}}{\text{bandwidth}},\
#     \frac{\text{operations}}{\text{rate of arithmetic}}\right),
#
# since it can at best move bytes and compute at the same time.
#
# __ http://www.fftw.org/speed/method.html

from math import log2

import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.measure.specs import spec
from firstlight.measure.tables import quantity

device = best_device()
has_gpu = device.type != "cpu"
side, kinds = (512 if has_gpu else 256), 512


def costs(side, kinds, frames=1):
    pixels, modes = side * side, side * (side // 2 + 1)
    match = 4 * (kinds * modes + frames * modes + frames * kinds)
    return {
        "taper": (pixels, 12 * pixels),
        "FFT": (2.5 * pixels * log2(pixels), 4 * pixels + 8 * modes),
        "power": (3 * modes, 8 * modes + 4 * modes),
        "match": (2 * kinds * modes * frames, match),
    }


peak, bandwidth = (spec("H100 SXM", what) for what in ("fp32", "bandwidth"))
by_hand = costs(side, kinds)
print("a frame operations      bytes a byte    H100")
for step, (operations, moved) in by_hand.items():
    floor = quantity(max(moved / bandwidth, operations / peak), "s")
    print(f"{step:<6}{operations:12,.0f}{moved:11,}", end="")
    print(f"{operations / moved:7.2f}{floor:>8}")

# %%
# (Half of the spectrum of a real frame is the mirror image of the other half, and is
# left out. The last column is the floor of an H100, from its data sheet.) The column *a
# byte* is the *arithmetic intensity*: operations for each byte. It belongs to the work,
# not to the machine, and it decides what can be won.
#
# Now guess: which step takes the most time, and what would you do about it?
#
# The loop
# --------
#
# Here is the program as one finds it. NumPy made the references, so they are
# ``float64``; the loop turns them into what it needs. At the end of each frame it keeps
# the best score as a number, to print or plot. ``record_function`` gives a name to a
# part of the program; it does nothing else.

import os

# PyTorch's profiler tells the terminal that it begins and ends. It need not.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")

from torch.profiler import profile, record_function

rng = np.random.default_rng(seed=1)
frames = 256 if has_gpu else 32
raw = rng.random((frames, side, side), dtype=np.float32)
references = torch.from_numpy(rng.random((kinds, side * (side // 2 + 1))))


def hann(side):
    return torch.outer(*2 * [torch.hann_window(side)]).to(device)


def scores_of(frame, taper, references):
    with record_function("taper"):
        tapered = frame * taper
    with record_function("FFT"):
        modes = torch.fft.rfft2(tapered)
    with record_function("power"):
        power = modes.abs().square()
    with record_function("match"):
        return references.float().to(device) @ power.flatten()


def best_scores(raw, references, taper):
    best = []
    for pixels in raw:
        with record_function("frame"):
            frame = torch.from_numpy(pixels).to(device)
            best.append(scores_of(frame, taper, references).max().item())
    return best


# %%
# Check
# -----
#
# An odd size, and NumPy in ``float64`` beside it. All terms are positive, so the scores
# must agree to a few roundings of ``float32``.


def check_against_numpy(function, side=101, kinds=7, count=3):
    raw = rng.random((count, side, side), dtype=np.float32)
    references = rng.random((kinds, side * (side // 2 + 1)))
    got = function(raw, torch.from_numpy(references), hann(side))
    window = hann(side).cpu().double().numpy()
    power = np.abs(np.fft.rfft2(raw * window)) ** 2
    exact = (power.reshape(count, -1) @ references.T).max(axis=1)
    error = np.max(np.abs(np.array(got) / exact - 1))
    assert error < 1e-5, f"wrong by {error:.1e}"
    return error


print(f"largest relative error {check_against_numpy(best_scores):.1e}")

# %%
# The profile
# -----------
#
# ``with profile()`` records every operation of PyTorch, on the CPU and on a GPU, with
# its beginning and end. A first profile loads what it needs, and so does a first run.
# So make a short one first, and throw it away. The second one gets eight frames.
#
# ``profile.key_averages()`` adds up what has the same name. Its ``table()`` prints it
# with many columns. Here are those that you need, the largest rows first:

taper = hann(side)


def finish():
    if has_gpu:
        torch.accelerator.synchronize()


def profiled(function, *arguments):
    with profile() as prof:
        function(*arguments)
        finish()  # what the profile is to see has to end before it does
    return prof


def show(prof, count=6):
    rows = [row for row in prof.key_averages() if row.device_type.name == "CPU"]
    for place in ("cpu", "device"):
        own, total = f"self_{place}_time_total", f"{place}_time_total"  # in µs
        if any(getattr(row, own) for row in rows):
            print(f"{place + ', ms':<16} calls     self    total")
            for row in sorted(rows, key=lambda row: -getattr(row, own))[:count]:
                mine, both = getattr(row, own) / 1e3, getattr(row, total) / 1e3
                print(f"{row.key[:16]:<16} {row.count:5} {mine:8.2f} {both:8.2f}")


profiled(best_scores, raw[:2], references, taper)
found = profiled(best_scores, raw[:8], references, taper)
show(found)

# %%
# How to read it:
#
# - *calls*: 8 frames. A row with 8 is called once a frame. Other numbers deserve a
#   question.
# - *self* is the time in the operation itself, *total* includes all that it calls. Sort
#   by *self* to find who works, and by *total* to find who sends them. The self time of
#   a name of yours, such as ``match``, is what was no operation of PyTorch: Python,
#   NumPy, or memory that was given back.
# - Names with ``aten::`` are PyTorch's own operations. Your ``@`` is ``aten::matmul``,
#   which calls ``aten::mv``, which calls ``aten::addmv_``. Most of what you see has
#   other names than what you wrote.
# - With a GPU there are two tables. *Time on the CPU* is asking and waiting. *Time on
#   the device* is work, and for ``aten::copy_`` it is moving data: nobody needs to
#   guess that share from a batch size. A large ``cudaStreamSynchronize`` on the CPU is
#   a wait: ``.item()`` needs the score before it can go on. So does a loss that is
#   written to a log at every step (:doc:`/tutorials/2_devices/02_queues`). Without a
#   GPU there is nothing to wait for, and no such row.
#
# Now the finding. The row on top is ``aten::copy_``, and *nowhere in the program is
# there a copy*. Who calls it? For that, you want to see who is inside of whom.
#
# A picture of one frame
# ----------------------
#
# ``export_chrome_trace`` writes the profile as a *trace*: a file with a name, a
# beginning and a length for each event. Open it at https://ui.perfetto.dev (it stays in
# your browser) and move around with the keys W, A, S and D. The page puts it into a
# temporary folder, which is deleted. To keep yours, give it another path. And look into
# it before you send it to anybody: your computer's name is in it.

import json
import tempfile
from pathlib import Path


def trace(prof):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        prof.export_chrome_trace(str(file))
        return json.loads(file.read_text(encoding="utf-8"))


def last_frame(trace):
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    mine = [event for event in events if event.get("cat") == "user_annotation"]
    frame = [event for event in mine if event["name"] == "frame"][-1]
    start, stop = frame["ts"], frame["ts"] + frame["dur"]
    events = [event for event in events if event["tid"] == frame["tid"]]
    inside = [e for e in events if start <= e["ts"] and e["ts"] + e["dur"] <= stop]
    return sorted(inside, key=lambda e: (e["ts"], -e["dur"]))


trace_found = trace(found)
print("in the file:", ", ".join(trace_found))
longest = max(last_frame(trace_found)[1:], key=lambda event: event["dur"])
print("an event:", {key: longest[key] for key in ("name", "cat", "ts", "dur")})

# %%
# Drawn here in the same way: each bar is an event, below the one that called it.

import matplotlib.pyplot as plt

BLUE, ORANGE, GRAY, GREEN = "#2f7ed8", "#d9762b", "#808890", "#2f9e77"


def draw_frame(ax, trace):
    events = last_frame(trace)
    ends, start, length = [], events[0]["ts"], events[0]["dur"]
    for event in events:
        while ends and event["ts"] >= ends[-1]:
            ends.pop()
        depth, wide = len(ends), event["dur"]
        ends.append(event["ts"] + wide)
        if depth > 4 or wide < length / 500:
            continue
        name, left = event["name"].removeprefix("aten::"), (event["ts"] - start) / 1e3
        colour = GRAY if name == event["name"] else ORANGE if name == "copy_" else BLUE
        style = {"fc": colour, "ec": "white", "hatch": "//" if name == "copy_" else ""}
        ax.barh(depth, wide / 1e3, 0.9, left, lw=0.5, **style)
        if wide > length * 0.022 * len(name):
            text = {"ha": "center", "va": "center", "color": "#111111", "size": 9}
            text["bbox"] = {"fc": colour, "ec": "none", "pad": 1}
            ax.text(left + wide / 2e3, depth, name, **text)
    ax.set(yticks=[], xlim=(0, length / 1e3))
    ax.invert_yaxis()


here = references.float().to(device)  # once, before the loop
mended = profiled(best_scores, raw[:8], here, taper)

# %%
# The copy hangs below ``match``, under ``aten::to``. It is ``references.float()``. A
# cast makes a new matrix, and this loop makes the same one for every frame. (On a GPU,
# ``.to(device)`` also sends it through the slot each time:
# :doc:`/tutorials/2_devices/05_transfers`.) The cure is to do it once before the loop:
# ``.float()`` and ``.to(device)`` hand back the tensor itself where there is nothing to
# do. The loop need not change.

fig, axes = plt.subplots(2, figsize=(5.6, 4.4), layout="constrained")
draw_frame(axes[0], trace_found)
draw_frame(axes[1], trace(mended))
axes[0].set_title("one frame, as found", loc="left", size=11)
axes[1].set_title("one frame, references cast once", loc="left", size=11)
axes[1].set_xlabel("ms on the CPU (the two axes differ)")
fig.set_label(
    "Two timelines of one frame, bars below those that called them. As found, nearly "
    "all of it is a copy inside match. With the references cast once, the copy is gone."
)
plt.show()

# %%
show(mended)

for name, prof in {"as found": found, "cast once": mended}.items():
    copies = [row.count for row in prof.key_averages() if row.key == "aten::copy_"]
    print(f"{name}: {sum(copies) / 8:g} copies a frame")

# %%
# A bottleneck casts a shadow: only now can you see the rest. There is one more surprise
# in it: not all copies are gone. One of them belongs to ``abs``. For complex numbers,
# PyTorch computes a complex result first, and copies its real part. You would not find
# that by reading your program either.
#
# What does the profile itself cost? Compare with the clock: for this loop, and for a
# loop of tiny additions.

from statistics import median
from time import perf_counter

little = torch.ones(8, device=device)


def tiny(times=2000):
    for _ in range(times):
        little.add_(1)


def seconds(function, *arguments):
    start = perf_counter()
    function(*arguments)
    finish()
    return perf_counter() - start


for name, job in {"loop": (best_scores, raw[:4], here, taper), "tiny": (tiny,)}.items():
    plain = median(seconds(*job) for _ in range(5))
    with profile() as prof:
        watched = median(seconds(*job) for _ in range(3))
    ratio = watched / plain
    print(f"{name}: {quantity(plain, 's')}, when profiled {ratio:.2f} × as long")
each = (watched - plain) / len(prof.events()) * 3
print(f"an event of the tiny loop costs {quantity(each, 's')}")

# %%
# Each recorded event costs time, so a profile makes many small operations look worse
# than they are. (If the loop's figure is below 1, the difference is less than what your
# computer does on the side.) *Take shares from a profile, and times from a timer.*
# ``record_shapes`` and ``with_stack`` tell you more, and cost more. For a long run,
# profile some steps in the middle, with ``schedule=``.
#
# Can you leave counting to a counter?
# ------------------------------------
#
# The largest row is now the product. Is it slow? You need its operations, and PyTorch
# has two counters for them: ``torch.utils.flop_counter``, and the profiler with
# ``with_flops=True``. Ask both about every step, and about the product written in a
# second way, as a matrix times a matrix of one column:

from torch.utils.flop_counter import FlopCounterMode

frame = torch.from_numpy(raw[0]).to(device)
tapered = frame * taper
modes = torch.fft.rfft2(tapered)
power = modes.abs().square().flatten()

ways = {
    "taper": (torch.mul, frame, taper),
    "FFT": (torch.fft.rfft2, tapered),
    "power": (lambda z: z.abs().square(), modes),
    "match": (torch.matmul, here, power),
    "column": (torch.matmul, here, power[:, None]),
}
counted = {}
print("              by hand  FlopCount   profiler")
for way, (function, *arguments) in ways.items():
    with FlopCounterMode(display=False) as counter:
        function(*arguments)
    with profile(with_flops=True) as prof:
        function(*arguments)
    flops = sum(row.flops for row in prof.key_averages())
    counted[way] = counter.get_total_flops(), flops
    hand = by_hand["match" if way == "column" else way][0]
    print(f"{way:<10}{hand:11,.0f}{counted[way][0]:11,}{flops:11,}")

# %%
# The same product is worth nothing, or everything, depending on how you write it. These
# counters know matrix times matrix, convolutions and attention. Of the rest the first
# knows nothing, and the second knows ``add`` and ``mul``. *An operation that a counter
# does not know is counted as 0, without a word.* They are made for neural networks, and
# good there.
#
# So count by hand, and test it. For the product, the last row is the test. For the FFT,
# write the textbook's and count along: a complex addition takes 2 operations, a
# multiplication 6. The least bytes need no counter: ask the tensors how large they are.


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
print(f"FFT of 256: {done:,} operations; 5 N log2 N: {5 * 256 * log2(256):,.0f}")

for step, (_, moved) in by_hand.items():
    function, *inputs = ways[step]
    tensors = *inputs, function(*inputs)
    assert moved == sum(tensor.nbytes for tensor in tensors), step
print("least bytes: as counted by hand, for", ", ".join(by_hand))

# %%
# For real input it is half of that. (Libraries know tricks, and do fewer. The custom
# gives all of them the same work, so a rate in it is a rate of *useful* operations.)
#
# Measure
# -------
#
# First the ceilings. ``measured_roof`` takes the best of a big copy and a big sum, and
# a big matrix product. A frame is small. It may fit into the *cache*, fast memory in
# the processor, so its ceiling may be higher. And starting an operation takes time, so
# it may be lower. So measure copies of one frame, too.

from firstlight.measure.roofs import measured_roof
from firstlight.measure.timing import measure

roof = measured_roof(str(device))
small = measure(torch.Tensor.copy_, torch.empty_like(frame), frame, budget=0.3)
small_rate = 2 * frame.nbytes / min(small.values)
print(f"memory: {quantity(roof.byte_rate, 'B/s')}; ", end="")
print(f"copies of one frame: {quantity(small_rate, 'B/s')}")
print(f"arithmetic, float32: {quantity(roof.flop_rate, 'FLOP/s')}")
print(
    f"intensity where both take as long: {roof.flop_rate / roof.byte_rate:.1f} a byte"
)

# %%
# Then the steps. Two are there twice: *match, casting* is the one as found, and *power,
# by parts* avoids ``abs``. (``Bench`` is what
# :doc:`/tutorials/2_devices/04_timing_it_right` ends with. The second one is for
# later.)

bench, after = Bench("roofline"), Bench("roofline-moved")


def time(label, step, function, *arguments, frames=1):
    operations, moved = costs(side, kinds, frames)[step]
    size = {"flops": int(operations), "bytes": moved, "device": device}
    chosen = bench if frames == 1 else after
    return chosen.time(label, function, *arguments, **size)


def by_parts(modes):
    return modes.real.square().addcmul_(modes.imag, modes.imag)


assert torch.allclose(by_parts(modes).flatten(), power, rtol=1e-5)
for step in by_hand:
    time(step, step, *ways[step])
time("power, by parts", "power", by_parts, modes)
time("match, casting", "match", lambda: references.float().to(device) @ power)
loop = after.time("loop, cast once", best_scores, raw, here, taper, device=device)
bench.show()

# %%
# The roofline
# ------------
#
# Divide the operations by the time, and you have a rate. Divide the floor's formula in
# the same way. With the intensity :math:`I`, operations a byte, no rate can exceed
#
# .. math::
#
#     \min\,(I \times \text{bandwidth},\ \text{rate of arithmetic}).
#
# On logarithmic axes this looks like a roof: a slope, where the bytes decide, and a
# flat part, where the arithmetic does. `Williams, Waterman and Patterson`__ drew it
# first. The corner is the *ridge*. Each step is a point below it; bars are quartiles.
#
# __ https://doi.org/10.1145/1498765.1498785


def draw_roofs(ax, low=0.03, high=300):
    x = np.geomspace(low, high, 200)
    solid = np.minimum(x * roof.byte_rate, roof.flop_rate)
    ax.plot(x, solid, color=BLUE, lw=2.5, label="measured here")
    near = np.minimum(x * small_rate, roof.flop_rate)
    ax.plot(x, near, ":", color=BLUE, lw=1.8, label="copies of one frame")
    sheet = np.minimum(x * bandwidth, peak)
    ax.plot(x, sheet, "--", color=GRAY, label="model: H100 SXM, data sheet")
    ax.set(xscale="log", yscale="log", xlabel="intensity: operations a byte")
    ax.set_ylabel("operations a second")
    ax.yaxis.set_major_formatter(lambda rate, _: quantity(rate, "/s", digits=1))
    ax.xaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}")
    ax.figure.legend(loc="outside lower left", frameon=False, fontsize=9, ncols=2)


def draw_point(ax, timing, marker, colour, name, shift):
    x, y = timing.flops / timing.bytes, timing.flop_rate
    slow, fast = (timing.flops / side for side in reversed(timing.quartiles))
    bars = {"yerr": [[y - slow], [fast - y]], "capsize": 4}
    ax.errorbar(x, y, fmt=marker, color=colour, ms=8, **bars)
    ha = "left" if shift[0] > 5 else "right" if shift[0] < -5 else "center"
    style = {"textcoords": "offset points", "size": 9, "ha": ha, "va": "center"}
    ax.annotate(name, (x, y), shift, **style)


# %%
# An arrow leads from a step as found to a better way of doing it: *match* without the
# cast, and *power* by parts. Both ends have the same intensity, since that is counted
# from the *least* bytes. So a better program of the same step moves straight up.

fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
looks = {
    "taper": ("o", GREEN, (-9, 8)),
    "FFT": ("s", GREEN, (10, -4)),
    "power": ("v", ORANGE, (0, -16)),
    "power, by parts": ("^", GREEN, (0, 0)),
    "match": ("D", GREEN, (11, -5)),
    "match, casting": ("X", ORANGE, (10, 0)),
}
draw_roofs(ax)
for label, (marker, colour, shift) in looks.items():
    name = label if label != "power, by parts" else ""
    draw_point(ax, bench[label], marker, colour, name, shift)
ax.set_ylim(min(bench[label].flop_rate for label in looks) / 6)
for old, new in (("power", "power, by parts"), ("match, casting", "match")):
    x = bench[old].flops / bench[old].bytes
    ends = (x, bench[new].flop_rate), (x, bench[old].flop_rate)
    ax.annotate("", *ends, arrowprops={"arrowstyle": "->", "color": GRAY})
fig.set_label(
    "A roofline on logarithmic axes. Two arrows point straight up: from match with a "
    "cast to match without, which is near the sloping roof, and from power to power by "
    "parts. The FFT lies below the corner of the roof."
)
plt.show()

# %%
# What can be won?
# ----------------
#
# The distance to the roof is the most that a step can gain *as long as its bytes and
# operations stay*. Steps that work on one frame get the roof of such copies. And a step
# can save no more than its share of the loop:

each = loop.median / frames
print("step    share   at most   the loop")
gains = {}
for step in by_hand:
    timing = bench[step]
    rate = roof.byte_rate if step == "match" else small_rate
    floor = max(timing.bytes / rate, timing.flops / roof.flop_rate)
    gains[step] = max(1.0, timing.median / floor)
    saved = timing.median - timing.median / gains[step]
    whole = f"{each / (each - saved):.2f} ×" if saved < each else "–"
    share = timing.median / each
    print(f"{step:<6} {share:6.0%}   {gains[step]:5.1f} ×   {whole:>8}")

# %%
# Read it as a list of jobs.
#
# - *Far below the roof*, and a small share: tempting, and hardly worth it. The FFT goes
#   through its numbers in several passes, which the least bytes do not count. Its
#   library is better than what you would write.
# - *At the roof* (as *match* is, or nearly) and a large share: the step is as good as
#   it gets. A cleverer kernel would gain next to nothing. It can only be done with
#   *fewer bytes*. On the picture: go to the right.
#
# A point above its roof is no miracle. Its bytes came from a faster place: if the
# matrix fits into a large last cache, it need not come from memory.
#
# To the right
# ------------
#
# *Match* reads the whole matrix for one frame. With the spectra of :math:`K` frames
# side by side it reads it once for all of them: matrix times matrix. The operations
# grow with :math:`K`, and the bytes hardly. So predict the time of a frame, from the
# two ceilings alone:

batches = (8, 64, 256) if has_gpu else (2, 8, 32)
spectra = by_parts(torch.fft.rfft2(torch.from_numpy(raw).to(device) * taper)).flatten(1)
one = bench["match"].median
climb = {1: (by_hand["match"][1] / roof.byte_rate, one)}
for many in batches:
    operations, moved = costs(side, kinds, many)["match"]
    floor = max(moved / roof.byte_rate, operations / roof.flop_rate)
    label = f"match, {many} frames"
    some = spectra[:many].T
    met = time(label, "match", torch.matmul, here, some, frames=many).median
    climb[many] = floor, met

print("frames  a byte  predicted      met    gain")
for many, (floor, met) in climb.items():
    operations, moved = costs(side, kinds, many)["match"]
    least, took = (quantity(time / many, "s") for time in (floor, met))
    print(f"{many:6}{operations / moved:8.1f}{least:>11}{took:>9}", end="")
    print(f"{one * many / met:6.1f} ×")

# %%
# In the picture, circles are where the roof said that the points would be.

fig, ax = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
draw_roofs(ax)
for many, (floor, _) in climb.items():
    operations, moved = costs(side, kinds, many)["match"]
    ax.plot(operations / moved, operations / floor, "o", mfc="none", mec=GRAY, ms=13)
    timing = bench["match"] if many == 1 else after[f"match, {many} frames"]
    draw_point(ax, timing, "D", GREEN, f"{many}", (0, -16))
fig.set_label(
    "The same roofline with match for growing numbers of frames at once. The points "
    "climb along the slope to the right, and end under the flat part."
)
plt.show()

# %%
# The points climb along the slope. Beyond the ridge, more frames at once gain little:
# there the arithmetic decides, and only fewer or cheaper operations would help. A point
# well below its circle is a product of a shape that the library does less well. (With
# few columns that happens. The roof says what is possible, not what you get.)
#
# Put it together: all frames at once, no ``abs``, and one wait at the end. Predict the
# whole loop from the steps, then meet it.


def best_scores_batched(raw, references, taper):
    modes = torch.fft.rfft2(torch.from_numpy(raw).to(device) * taper)
    scores = references.float().to(device) @ by_parts(modes).flatten(1).T
    return scores.max(0).values.tolist()


check_against_numpy(best_scores_batched)
steps = ("taper", "FFT", "power, by parts")
expected = frames * sum(bench[step].median for step in steps)
expected += after[f"match, {frames} frames"].median
data = raw, here, taper
batched = after.time("loop, batched", best_scores_batched, *data, device=device)
worth, worth_met = loop.median / expected, loop.median / batched.median
print(f"the loop: predicted {worth:.1f} × as fast, met {worth_met:.1f} ×")
after.show()

# %%
# The prediction adds up the times of the new steps, one frame at a time except for
# *match*. Doing the others for all frames at once may change them, in either direction.
# Where they are many small operations, as on a GPU, it saves starting them. Where one
# frame fitted into the cache and all frames do not, their bytes now come from memory.
# Their intensity is the same in any batch.
#
# Where this stops being true
# ---------------------------
#
# - *Time that is no work.* A roofline knows bytes and operations. Waiting for a disk,
#   for Python, or for a GPU to be told what to do is in neither. Many small operations
#   lie far below every roof. Then read the trace and look for gaps, and go on with
#   :doc:`/tutorials/2_devices/11_fewer_launches`.
# - *Other arithmetic, other roofs.* ``float64``, ``bfloat16`` and tensor cores have
#   rates of their own. A square root costs far more than an addition. The flat roof
#   here is a ``float32`` matrix product.
# - *A step without operations*, such as a copy, has no place on logarithmic axes. It
#   still takes bytes, and time.
# - *What the profiler sees.* Work in NumPy, or of other processes, shows up as the self
#   time of your own names, or as a gap.
#
# Exercise
# --------
#
# A colleague plans a step and knows its ``operations`` and ``bytes``. Write a function
# that says which roof binds, ``"memory"`` or ``"arithmetic"``, and the least time in
# seconds, on a machine with a given rate of arithmetic and bandwidth.


def least_time(operations, bytes, rate, bandwidth): ...


BYTES, OPERATIONS = "memory", "arithmetic"
cases = [
    ((1e9, 1e9, 67e12, 3.35e12), BYTES, "Which of the two takes longer?"),
    ((1e12, 1e9, 67e12, 3.35e12), OPERATIONS, "Which of the two takes longer?"),
    ((1e10, 1e9, 67e12, 3.35e12), BYTES, "Compare times, not numbers: rates differ."),
    ((6e9, 1e9, 2e11, 4e10), OPERATIONS, "The ridge is the machine's own: 5 here."),
    ((0, 8e9, 2e11, 4e10), BYTES, "A copy has no operations. Divide by rates only."),
]

# %%
# ``check`` tries it on an H100's data sheet and on a small CPU. The last step is a
# copy.


def check(answer):
    for (operations, moved, rate, bandwidth), roof, hint in cases:
        call = f"least_time({operations:g}, {moved:g}, {rate:g}, {bandwidth:g})"
        times = {BYTES: moved / bandwidth, OPERATIONS: operations / rate}
        try:
            named, took = answer(operations, moved, rate, bandwidth)
            took = float(took)
        except Exception as error:
            return (
                f"{call} has to give a name and a time; {type(error).__name__}: {error}"
            )
        if named != roof:
            return f"{call} says {named!r} binds.\nHint: {hint}"
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
    roof = max(times, key=times.get)
    return roof, times[roof]


print(check(least_time_solution))

# %%
# Three lines to remember
# -----------------------

removed = bench["match, casting"].median / one
print("1. A profile says where the time is: sort by self, then ask who calls it.")
print(f"   One cast that nobody saw made a step {removed:.0f} × as long.")
print("2. A roofline says what can be won. Count by hand:")
print(f"   a counter saw {counted['match'][0]} of {by_hand['match'][0]:,} operations.")
print("3. Below the roof, go up. At the roof, go right: fewer bytes.")
print(f"   Predicted {worth:.1f} × as fast, met {worth_met:.1f} ×.")
