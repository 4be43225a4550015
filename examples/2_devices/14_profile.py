"""
Where does the time go?
=======================

Your program is slow, and you have an idea which line it is. You rewrite that line. An
evening later, the line is fast, and the program takes as long as before. So guess, and
then look. PyTorch comes with a :term:`profiler`, a tool that notes every operation of
your program and how long it took. By the end you'll be able to read what it prints, to
find the line of *your* program that is to blame, and say whether your GPU is working or
waiting.

**Needs:** any computer, and some PyTorch. If you have a GPU of NVIDIA, AMD or Intel,
you profile that. Without one, you profile the CPU, and we tell you what an H100 did.
"""

# %%
# Copy this: profile your loop
# ----------------------------
#
# Put your own program, or a few steps of its loop, in place of ``your_program``:
#
# .. code-block:: python
#
#    import torch
#    from torch.profiler import profile
#
#    your_program()  # once before, because the first time is always slow
#    with profile() as prof:
#        your_program()
#        torch.accelerator.synchronize()  # with a GPU only: wait until it has finished
#    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
#    print(prof.key_averages().table(sort_by="self_device_time_total", row_limit=10))
#
#    prof.export_chrome_trace("trace.json")  # to look at it, see below
#
# The second table is the GPU's. If your training runs for hours, profile a few steps
# from its middle. Here the profiler leaves out ten steps, warms up for two, notes
# three, and is done:
#
# .. code-block:: python
#
#    from torch.profiler import schedule
#
#    with profile(schedule=schedule(wait=10, warmup=2, active=3, repeat=1)) as prof:
#        for batch in loader:
#            train(batch)
#            prof.step()  # tells the profiler that a step is over
#    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
#
# For memory, take ``profile(profile_memory=True)``, and sort by
# ``"self_device_memory_usage"``, or by ``"self_cpu_memory_usage"`` without a GPU.
#
# Try it
# ------
#
# Here is a program that is slower than it should be. A microscope takes pictures, and
# each of these *frames* is compared with 512 known textures. We fade a frame out
# towards its edges, transform it (:term:`FFT`), take the squared magnitudes, and
# multiply them by a matrix that has one row for each texture. ``record_function`` gives
# a part of the program a name in the profile, and does nothing else.

# folded: The imports, the frames, and the textures
import os

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # no messages from the profiler

import numpy as np
import torch
from torch.profiler import profile, record_function

from firstlight import Bench, best_device
from firstlight.display import BLUE, GREEN, GREY, ORANGE

device = best_device()
has_gpu = device.type != "cpu"
side, kinds, frames = (512 if has_gpu else 256), 512, 8

rng = np.random.default_rng(seed=1)
raw = rng.random((frames, side, side), dtype=np.float32)
references = torch.from_numpy(rng.random((kinds, side * (side // 2 + 1))))


def hann(side):
    return torch.outer(*2 * [torch.hann_window(side)]).to(device)


# %%


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
# **Which of the four steps takes most of the time?** The FFT? The product? PyTorch's
# table has more columns than a screen has room for, so we leave out its percentages and
# averages.

# folded: The check against NumPy, on frames of an odd size


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

# folded: A helper that profiles a function and waits for the GPU, and a first try


def finish():
    if has_gpu:
        torch.accelerator.synchronize()


def profiled(function, *arguments, **options):
    with profile(**options) as prof:
        function(*arguments)
        finish()
    return prof


taper = hann(side)
profiled(best_scores, raw[:2], references, taper)

# %%

with profile() as found:
    best = best_scores(raw, references, taper)
    finish()

averages = found.key_averages()
narrow = {"row_limit": 8, "max_name_column_width": 30}
print(averages.table(sort_by="self_cpu_time_total", **narrow))
if has_gpu:
    print(averages.table(sort_by="self_device_time_total", **narrow))

# %%
# Its columns say:
#
# - *Name.* What begins with ``aten::`` is an operation of PyTorch. ``match`` and
#   ``frame`` are the names that we gave.
# - *Self CPU.* The time that was spent in this operation itself. The table is sorted by
#   this column.
# - *CPU total.* The same, with everything that the operation called. So ``frame`` has
#   nearly all of the time, because all the rest happens inside it.
# - *# of Calls.* There were eight frames, so 8 is once a frame.
# - *Self CUDA*, *CUDA total.* The same on a GPU. Skip ``frame`` and ``match`` there,
#   which hold pauses, too, as we'll see.
#
# To find the operation that does the work, look at *self*. To find the part of your
# program that asked for it, look at *total*. On a CPU the winner is ``aten::copy_``.
# With a GPU, above it stands ``cudaMemcpyAsync``, which copies to the GPU. But no line
# of our program says "copy". So who is it?
#
# Who called it?
# --------------
#
# An operation that lies within another was called by it. So you can draw each below the
# one that called it. This is one frame:

# folded: Read the shortest frame of a profile
import json
import tempfile
from pathlib import Path

ON_GPU = "kernel", "gpu_memcpy", "gpu_memset"


def shortest_frame(prof):
    """Return the events of a frame, each after the one that called it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        prof.export_chrome_trace(str(file))
        trace = json.loads(file.read_text(encoding="utf-8"))
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    mine = [event for event in events if event.get("cat") == "user_annotation"]
    named = [event for event in mine if event["name"] == "frame"]
    frame = min(named, key=lambda event: event["dur"])
    start, stop = frame["ts"], frame["ts"] + frame["dur"]
    events = [e for e in events if e["tid"] == frame["tid"] or e.get("cat") in ON_GPU]
    inside = [e for e in events if start <= e["ts"] and e["ts"] + e["dur"] <= stop]
    return sorted(inside, key=lambda e: (e["ts"], -e["dur"]))


# %%

# folded: Draw a frame
import matplotlib.pyplot as plt

gpu_row = " The lowest row is the GPU's." if has_gpu else ""


def draw_frame(ax, events, title):
    ends, start, length = [], events[0]["ts"], events[0]["dur"]
    for event in events:
        name, left = event["name"].removeprefix("aten::"), (event["ts"] - start) / 1e3
        copies, wide = name == "copy_" or "Memcpy" in name, event["dur"]
        if event.get("cat") in ON_GPU:
            ax.barh(5.3, wide / 1e3, 0.9, left, fc=ORANGE if copies else GREEN)
            ax.set(yticks=[5.3], yticklabels=["GPU"])
            continue
        while ends and event["ts"] >= ends[-1]:
            ends.pop()
        depth = len(ends)
        ends.append(event["ts"] + wide)
        if depth > 4 or wide < length / 500:
            continue
        named = event.get("cat") == "user_annotation"
        colour = GREY if named else ORANGE if copies else BLUE
        ax.barh(depth, wide / 1e3, 0.9, left, lw=0.5, fc=colour, ec="white")
        if wide > length * 0.013 * len(name):
            text = {"ha": "center", "va": "center", "color": "#111111", "size": 9}
            ax.text(left + wide / 2e3, depth, name, **text)
    ax.set(xlim=(0, length / 1e3), xlabel="ms")
    ax.set_title(f"{title}: {length / 1e3:.1f} ms", loc="left", size=11)
    ax.invert_yaxis()


def draw_frames(drawn, title):
    height = 0.9 + 2 * len(drawn)
    fig, axes = plt.subplots(len(drawn), figsize=(7.2, height), layout="constrained")
    for ax, (name, events) in zip(np.atleast_1d(axes), drawn.items(), strict=True):
        ax.set_yticks([])
        draw_frame(ax, events, name)
    kinds_of = {"named in the program": GREY, "within PyTorch": BLUE, "a copy": ORANGE}
    if has_gpu:
        kinds_of["a kernel"] = GREEN
    patches = [plt.Rectangle((0, 0), 1, 1, fc=colour) for colour in kinds_of.values()]
    fig.legend(patches, kinds_of, loc="outside lower center", ncols=4, frameon=False)
    fig.suptitle(title, weight="bold")
    return fig


# %%

# measured figure
before = shortest_frame(found)
fig = draw_frames({"One frame": before}, "Who called the copy?")
fig.set_label(
    "A timeline of one frame, each bar below the one that called it. Nearly all of the "
    f"frame is match, and nearly all of match is a copy.{gpu_row}"
)
plt.show()

# %%
# In this *timeline*, the long orange bar hangs below *match*. So it isn't the product
# that takes the time in this step, but something before it. The profiler can also note
# the lines of your own program: ``profile(with_stack=True)``. What stands above the
# longest copy?

# folded: Find what ran while the longest event of a name did


def callers(events, name):
    """Return what ran when the longest event of a name did, outermost first."""
    longest = max((e for e in events if e["name"] == name), key=lambda e: e["dur"])
    start, stop = longest["ts"], longest["ts"] + longest["dur"]
    return [
        event["name"].split(": ")[-1].split(" object")[0].lstrip("<")  # without path
        for event in events
        if event["ts"] <= start and stop <= event["ts"] + event["dur"]
    ]


# %%

stacked = profiled(best_scores, raw, references, taper, with_stack=True)
above = callers(shortest_frame(stacked), "aten::copy_")
for depth, name in enumerate(above):
    print("  " * depth + name)

# %%
# There it is, in ``scores_of``: the ``.float()`` or the ``.to(device)`` of
# ``references.float().to(device) @ …``. The textures come from NumPy, so they are
# ``float64``. For each frame, this line makes a new ``float32`` matrix out of them.
# With a GPU, it also sends the matrix there, each time. It's always the same one.
#
# To see your own timeline, open the ``trace.json`` from the top of the page at
# https://ui.perfetto.dev, where it stays within your browser. Move with the keys W, A,
# S and D. The file has your computer's name in it.
#
# Mend it, and time it
# --------------------
#
# The cure is one line before the loop:

converted = references.float().to(device)
cured = profiled(best_scores, raw, converted, taper)

on_cpu = [row for row in averages if row.device_type.name == "CPU"]
total = {row.key: row.cpu_time_total for row in on_cpu}
share = total["aten::copy_"] / total["frame"]
print(f"the copies took {share:.0%} of the time")

# %%
# **Guess how much faster the program is now.** If a share :math:`p` of the time goes
# away, it should be :math:`1/(1-p)` times as fast. We time it without the profiler,
# because taking notes costs time as well.

bench = Bench("profile")
for label, matrix in {"as found": references, "converted once": converted}.items():
    bench.time(label, best_scores, raw[:1], matrix, taper, device=device)

gain = bench["as found"].median / bench["converted once"].median
promised = 1 / (1 - share)
print(f"expected from the share: {promised:.1f} times as fast")
print(f"measured:                {gain:.1f} times as fast")

# %%
# On two cores of an AMD EPYC, a frame took :timing:`profile median "as found"
# @cpu-amd-epyc` before and :timing:`profile median "converted once" @cpu-amd-epyc`
# after.
#
# On an H100, a frame took :timing:`profile median "as found" @nvidia-h100-80gb-hbm3`
# before, and :timing:`profile median "converted once" @nvidia-h100-80gb-hbm3` after we
# had moved that one line out of the loop: it is :timing:`profile speedup "converted
# once"/"as found" @nvidia-h100-80gb-hbm3` as fast. The copies had about four fifths of
# the time there. So we expected a fifth to remain, and only a *hundredth* did!
#
# .. holds::
#
#    found, cured = median("profile/as found"), median("profile/converted once")
#    near(cured / found, 0.01, 0.1)
#
# Look for ``match`` in the first table. It has a lot of self time, although it only
# calls others. On the H100's computer, that was most of the time that the copies didn't
# take. Probably it went into *freeing* the converted matrix after each frame. Take away
# the copies and this self time, and a fiftieth of the frame remains. A profile tells
# you how long an operation *took*. Only a timer tells you what you *gain* without it
# (:doc:`/tutorials/2_devices/07_timing_it_right`).
#
# So profile again, because something else takes most of the time now:

# measured figure
after = shortest_frame(cured)
drawn = {"As found": before, "Converted before the loop (other scale)": after}
title = f"Copies took {share:.0%} of the time: one hid in .float()"
fig = draw_frames(drawn, title)
fig.set_label(
    "Two timelines of a frame, each bar below the one that called it. As found, there "
    f"is a long copy inside match; copies take {share:.0%} of the time. With the "
    f"matrix converted before the loop, the copy inside match is gone.{gpu_row}"
)
plt.show()

# %%
# Now the steps of the program have the time, as they should. One of the short copies
# that are left is inside ``abs``: PyTorch computes a complex result first, and copies
# its real part.
#
# Is the GPU working, or waiting?
# -------------------------------
#
# If you have a GPU, *Self CUDA time total* stands below the table: what all copies and
# all *kernels*, the programs that run on the GPU, took together. Compare this sum with
# the time that your program took. If it's much smaller, the GPU waits. If they are
# about the same, the GPU is busy, but with what? Look at the rows ``Memcpy``. If they
# have most of the sum, send less. If kernels have it, faster or fewer kernels will
# help.
#
# In the H100's second table, the first two rows are larger than that sum, and *frame*
# is more than twice as large! Skip these: they are names of ours, and not in the sum.
# On the GPU, such a row lasts from the start of the first kernel or copy under that
# name to the end of the last one, with all the pauses between. And *match* lies within
# *frame*. So during a frame the GPU had nothing to do for more than half of the time.
# Look for your own names in the first table, and for kernels and copies in the second.
# There you see each of these twice, for example a copy as ``aten::copy_``, which asked
# for it, and as ``Memcpy HtoD``.
#
# .. holds::
#
#    whole = printed(r"^Self CUDA time total: ([\d.]+)ms")[0]
#    on_gpu = r"^ +{} .* 0\.000us +([\d.]+)ms +[\d.]+% ".format
#    near(printed(on_gpu("frame"))[0] / whole, 2.12, 0.005)
#    printed(on_gpu("match"))[0] > whole
#
# What did our H100 do, after the cure? In its profile, the kernels of a frame had less
# than a sixth of the :timing:`profile median "converted once" @nvidia-h100-80gb-hbm3`
# that a frame takes, and nearly all of that was the product, :timing:`roofline median
# match @nvidia-h100-80gb-hbm3`. So this expensive GPU was mostly waiting, for the frame
# to arrive, for Python, and for the CPU to start the next kernel. Here is a model of
# two programs, one whose GPU waits, and one whose GPU doesn't:
#
# .. holds::
#
#    0.12 < median("roofline/match") / cured < 1 / 6

# figure
from firstlight.timing.specs import spec

LAUNCH, RATE = spec("PyTorch operation", "seconds"), spec("GTX 1080", "bandwidth")


def draw_model(ax, side, title):
    """Draw six operations, each of which reads and writes a frame once."""
    launch, work, free = 1e6 * LAUNCH, 1e6 * 8 * side**2 / RATE, 0
    for i in range(6):
        ax.barh(0, launch, 0.8, i * launch, fc=BLUE, ec="white")
        start = max((i + 1) * launch, free)
        ax.barh(1, work, 0.8, start, fc=GREEN, ec="white", lw=0.3)
        free = start + work
    ax.barh(0, free - 6 * launch, 0.8, 6 * launch, fc="none", ec=GREY, ls="--")
    if free > 10 * launch:
        ax.text((free + 6 * launch) / 2, 0, "waits", ha="center", va="center")
    ax.set_yticks([0, 1], ["CPU:\nlaunches", "GPU:\nkernels"])
    ax.set_title(f"{title} ({side} × {side})", loc="left", size=11)
    ax.invert_yaxis()


fig, axes = plt.subplots(2, sharex=True, figsize=(7.2, 3.6), layout="constrained")
draw_model(axes[0], 256, "Gaps on the GPU: save launches")
draw_model(axes[1], 1024, "No gaps: make the kernels faster")
axes[1].set_xlabel("µs (a model)")
fig.suptitle("A GPU's row tells what to improve (a model of a GTX 1080)", size=13)
fig.set_label(
    "A model of two timelines, each with a row for the CPU and one for the GPU. Small "
    "frame: each kernel is far shorter than its launch, and the GPU is mostly idle. "
    "Large frame: the kernels follow each other without a gap, and the CPU waits."
)
plt.show()

# %%
# Gaps in the GPU's row mean that it waits. And what for? These rows of the table tell
# you:
#
# .. list-table:: What the CPU did, if it's much of the time
#    :header-rows: 1
#    :widths: 38 62
#
#    * - row
#      - what it stands for
#    * - ``cudaLaunchKernel``
#      - It started kernels, one by one. With gaps on the GPU, save launches.
#    * - ``cudaMemcpyAsync``
#      - It copied, and waited for copies. Ask who called it, as above.
#    * - ``cudaStreamSynchronize``
#      - A line such as ``.item()`` waited for the GPU. Do that less often.
#    * - ``cudaDeviceSynchronize``
#      - Our own last line waited until all was done. If it's long, the CPU was far
#        ahead, and the GPU is busy: nothing to mend on the CPU's side.
#
# There's :doc:`a longer list </tutorials/2_devices/18_slow_on_the_gpu>`, with what to
# do. The :term:`utilization <GPU utilization>` in ``nvidia-smi`` won't tell you what
# the GPU waits for.
#
# .. dropdown:: Three programs of others: does the GPU wait?
#
#    In the first, with its 1,185 launches, it mostly waits. In the product of two large
#    matrices it doesn't, nor in an operation on a large frame. For each launch, our
#    model takes :spec:`kernel of a program seconds`, a round number that we chose from
#    this program and two others:
#
#    .. measured-by-others:: sam-a6000 product-a100 frame-rtx4090
#
# Three things a profile won't tell you. To learn *which line* started a kernel that
# isn't PyTorch's, such as :term:`Numba`'s, run your program under ``nsys profile
# --python-backtrace=cuda``. For *why* a kernel takes so long, ask ``ncu``, and for how
# fast it *could* be, see the :doc:`next page </tutorials/2_devices/15_roofline>`. On a
# Mac, this profiler records only what happens on the CPU.
#
# Your turn
# ---------
#
# Here is a colleague's loop. From each frame it subtracts ``dark``, what the camera
# shows without light. Then it corrects the frame, and adds up the light. Profile it,
# with three frames and with thirty, and look at the column *# of Calls*: what grows
# with the frames although it need not? Then write ``mended``, which returns the same
# list of numbers, in ``float32``, and leaves the frames as they were.


def as_found(frames, dark, gain):
    light = []
    for frame in frames:
        corrected = (frame - dark) * torch.from_numpy(gain).float()
        light.append(corrected.clamp(min=0).sum().item())
    return light


def shots(count):  # float32 frames, a float64 dark frame, and a gain from NumPy
    random = np.random.default_rng(seed=count)
    pictures = torch.from_numpy(random.random((count, 21, 20), dtype=np.float32))
    dark = torch.from_numpy(random.random((21, 20)) / 2)
    return list(pictures), dark, random.uniform(0.9, 1.1, (21, 20))


# %%
# Run ``firstlight try 14_profile.py``.


def mended(frames, dark, gain): ...


# %%

# folded: The checker, which profiles your function
WASTE = {
    "aten::_to_copy": "conversions to another format",
    "aten::_local_scalar_dense": "reads of a number, as .item() makes them",
}


def calls_of(function, count):
    with profile() as prof:
        function(*shots(count))
    return {row.key: row.count for row in prof.key_averages()}


def find_problem(answer, count):
    frames, dark, gain = shots(count)
    kept, right = [frame.clone() for frame in frames], as_found(*shots(count))
    got = answer(frames, dark, gain)
    if not isinstance(got, list) or not all(isinstance(light, float) for light in got):
        return "it has to return a list of numbers of Python, as as_found does."
    if len(got) != count or not np.allclose(got, right, rtol=1e-4):
        return "the numbers are others than those of as_found."
    if not all(map(torch.equal, frames, kept)):
        return "it changes the frames."
    return ""


# %%

# folded: The checker, second part


def check(answer):
    try:
        for count in (1, 3, 30):
            if problem := find_problem(answer, count):
                return f"Not yet (frames: {count}): {problem}"
        few, many = (calls_of(answer, count) for count in (3, 30))
    except Exception as error:
        return f"Not yet. {type(error).__name__}: {error}"
    for name, what in WASTE.items():
        calls = few.get(name, 0), many.get(name, 0)
        if calls[1] > calls[0]:
            return (
                f"Not yet. {name} has {calls[0]} calls with 3 frames and {calls[1]} "
                f"with 30.\nThey are {what}: do that once."
            )
    if not {"aten::sub", "aten::mul"} & many.keys():
        return "Not yet. Do it with PyTorch, which NumPy can't do for frames on a GPU."
    return "Right: nothing is done anew for each frame that could be done once."


# %%

print(check(mended))

# %%
# Three lines to remember
# -----------------------

# remember
print(f"""\
1. Sort a profile by self time, then look on the timeline for who called it. Here,
   copies took {share:.0%} of the time, and one of them hid in .float().
2. Count the calls. If you can't explain a number, look into it.
3. A share is not a gain, so time before and after. That share promised
   {promised:.1f} ×, and the cure brought {gain:.1f} ×.""")

# %%
# Solution
# --------

# solution


def mended_solution(frames, dark, gain):
    dark, gain = dark.float(), torch.from_numpy(gain).float()
    light = [((frame - dark) * gain).clamp(min=0).sum() for frame in frames]
    return torch.stack(light).tolist()


print(f"Our solution: {check(mended_solution)}")
