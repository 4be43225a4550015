"""
Where does the time go?
=======================

This page is for anyone whose PyTorch program is slow and who does not know why. Run it
under PyTorch's *profiler*, sort the table by *self time*, and ask which line called the
operation at the top. In the program below, that operation is a copy which no line of
the text mentions: one matrix is converted again for every frame. The picture shows one
frame before and after the conversion was moved out of the loop.

**You will learn**

- to profile a program in four lines, on a CPU or a GPU;
- to read the result: self and total time, number of calls, host and device;
- to open a timeline of it, and to find the caller of an operation in it;
- what the profiler cannot see, and what it costs.

**Time:** 8 minutes. **Needs:** any computer. With a GPU, the page profiles that.
"""

# %%
# A program that is slower than it should be
# ------------------------------------------
#
# You take frames with a microscope, and compare the *power spectrum* of each frame with
# those of 512 known textures. A frame is tapered towards its edges and transformed
# (FFT), the squared magnitudes are taken, and a matrix with one row for each texture
# multiplies them, which gives one score a texture. The matrix comes from NumPy, so it
# is ``float64``; the loop converts it to what it needs. ``record_function`` gives a
# part of the program a name in the profile, and does nothing else.

import os

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # no messages from the profiler

import numpy as np
import torch
from torch.profiler import profile, record_function

from firstlight import Bench, best_device
from firstlight.measure.tables import quantity
from firstlight.widgets import Table

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
# Before you read on, guess: which of the four steps takes most of the time, and what
# would you do about it?

# %%

# folded: Check the program against NumPy in float64, on frames of an odd size


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
# Everything that runs inside ``with profile()`` is recorded: each operation of PyTorch
# on the CPU and, if there is a GPU, each kernel and copy on it. Two things are easy to
# forget. The first profile of a program also pays for loading and warm-up, so make a
# short one and throw it away. And a GPU works after the call has returned, so wait for
# it *inside* of the ``with``.


def finish():
    if has_gpu:
        torch.accelerator.synchronize()


def profiled(function, *arguments):
    with profile() as prof:
        function(*arguments)
        finish()
    return prof


taper = hann(side)
profiled(best_scores, raw[:2], references, taper)
found = profiled(best_scores, raw, references, taper)

# %%
# ``print(found.key_averages().table(sort_by="self_cpu_time_total"))`` shows all that
# was recorded, one row for each name. These are the rows and columns that you need
# first:


def rows_of(prof, place="cpu", count=6):
    rows = [row for row in prof.key_averages() if row.device_type.name == "CPU"]
    own, total = f"self_{place}_time_total", f"{place}_time_total"  # in µs
    rows.sort(key=lambda row: -getattr(row, own))
    for row in rows[:count]:
        mine, both = (f"{getattr(row, time) / 1e3:.2f}" for time in (own, total))
        yield row.key, f"{row.count / frames:g}", mine, both


head = "", "calls a frame", "self, ms", "total, ms"
print(Table("Time on the CPU, 8 frames", head, tuple(rows_of(found))).text())
if any(row.self_device_time_total for row in found.key_averages()):
    print(Table("Time on the GPU", head, tuple(rows_of(found, "device"))).text())

# %%
# How to read it:
#
# - *Self* is the time in the operation itself; *total* includes everything that it
#   called. Sort by *self* to find the operation that does the work, and by *total* to
#   find the part of your program that asks for it.
# - Names with ``aten::`` are PyTorch's own operations. Your ``@`` is ``aten::matmul``,
#   which calls ``aten::mv``, which calls ``aten::addmv_``. Your names have a self time
#   too: what was spent in Python, in NumPy, or in freeing memory.
# - *Calls a frame* is a check of what you believe. A number that you cannot explain
#   deserves a question, as the copies do here: no line of the program says "copy".
# - On a GPU, the time *on the CPU* is launch overhead and waiting, and the time *on the
#   GPU* is work. The row ``aten::copy_`` of the second table is the time of the
#   host-device transfers, measured. A large ``cudaStreamSynchronize`` on the CPU is a
#   wait. Here it comes from ``.item()``, which needs the score
#   (:doc:`/tutorials/2_devices/02_queues`).
#
# The table does not say who called the copies. For that you need to see which operation
# ran inside of which.
#
# One frame as a timeline
# -----------------------
#
# ``prof.export_chrome_trace("trace.json")`` writes the name, start and length of every
# event to a file. Open it at https://ui.perfetto.dev, where it stays in your browser,
# and move with the keys W, A, S and D. (The file has your computer's name in it, so
# look into it before you share it.) The figure draws one frame from the same file: each
# bar is an operation, below the one that called it.

# folded: Read the shortest frame of a trace
import json
import tempfile
from pathlib import Path


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
    events = [event for event in events if event["tid"] == frame["tid"]]
    inside = [e for e in events if start <= e["ts"] and e["ts"] + e["dur"] <= stop]
    return sorted(inside, key=lambda e: (e["ts"], -e["dur"]))


# %%

# folded: Draw it
import matplotlib.pyplot as plt

BLUE, ORANGE, GRAY = "#2f7ed8", "#d9762b", "#808890"


def draw_frame(ax, events, title):
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
        if wide > length * 0.018 * len(name):
            text = {"ha": "center", "va": "center", "color": "#111111", "size": 9}
            text["bbox"] = {"fc": colour, "ec": "none", "pad": 1}
            ax.text(left + wide / 2e3, depth, name, **text)
    ax.set(yticks=[], xlim=(0, length / 1e3), xlabel="ms on the CPU (each its scale)")
    ax.set_title(title, loc="left", size=11)
    ax.invert_yaxis()


# %%
# The long copy hangs below ``match``, under ``aten::to``: it is
# ``references.float()``. A conversion makes a new matrix, and this loop makes the same
# one for every frame. (On a GPU, ``.to(device)`` also sends it over PCIe each time, see
# :doc:`/tutorials/2_devices/05_transfers`.) The cure is one line before the loop. The
# loop itself need not change, because ``.float()`` and ``.to(device)`` return the
# tensor itself if there is nothing to do.

converted = references.float().to(device)
cured = profiled(best_scores, raw, converted, taper)

before, after = shortest_frame(found), shortest_frame(cured)
copying = sum(e["dur"] for e in before if e["name"] == "aten::copy_")
share = copying / before[0]["dur"]
print(f"copies take {share:.0%} of the frame as found")

# %%

# figure
# sphinx_gallery_thumbnail_number = 1
fig, axes = plt.subplots(2, figsize=(7.2, 4.4), layout="constrained")
says = f"Copies that no line mentions take {share:.0%} of a frame"
fig.suptitle(says, size=13)
draw_frame(axes[0], before, "a frame as found")
draw_frame(axes[1], after, "a frame with the matrix converted before the loop")
fig.set_label(
    "Two timelines of a frame, each bar below the one that called it. As found, there "
    f"is a long copy inside of match; copies take {share:.0%} of the frame. With the "
    "matrix converted before the loop, the copy inside of match is gone."
)
plt.show()

# %%
# Profile again after each cure: a bottleneck hides what lies behind it.

print(Table("Converted once: time on the CPU", head, tuple(rows_of(cured))).text())


def copies_a_frame(prof):
    found = [row.count for row in prof.key_averages() if row.key == "aten::copy_"]
    return sum(found) / frames


each, left = copies_a_frame(found), copies_a_frame(cured)
print(f"copies a frame: {each:g} as found, {left:g} now")

# %%
# A copy that is left on a CPU belongs to ``abs``: PyTorch computes a complex result
# first and copies its real part. You would not find that by reading your program
# either. (On a GPU, what is left is the transfer of the frame.)
#
# Measure
# -------
#
# A profile is for *shares*. Times come from a timer
# (:doc:`/tutorials/2_devices/04_timing_it_right`), because recording costs time as
# well. This is the whole loop without the profiler:

bench = Bench("profile")
for label, matrix in {"as found": references, "converted once": converted}.items():
    data = raw, matrix, taper
    bench.time(label, best_scores, *data, n=frames, device=device)
bench.show()

# %%
# And this is what recording costs: for a loop of tiny additions, which is the worst
# case, because each of them is an event.

from time import perf_counter

little = torch.ones(8, device=device)


def tiny(times=2000):
    start = perf_counter()
    for _ in range(times):
        little.add_(1)
    finish()
    return perf_counter() - start


plain = min(tiny() for _ in range(5))
with profile():
    watched = min(tiny() for _ in range(5))
ratio, event = watched / plain, (watched - plain) / 2000
cost = "less than the noise of this machine"
if ratio > 1.1:
    cost = f"{ratio:.1f} × the time, {quantity(event, 's')} for each event"
print(f"{quantity(plain, 's')} for 2,000 additions; recording them took {cost}")

# %%
# Where this stops being true
# ---------------------------
#
# - *Long runs.* Record some steps in the middle. In a training loop, call
#   ``prof.step()`` after each step of ::
#
#       with profile(schedule=schedule(wait=10, warmup=2, active=3)) as prof:
#
# - *Work that is not PyTorch's.* NumPy, file reading and other processes show up as
#   self time of your own names, or as gaps. For Numba's kernels and for all libraries
#   on an NVIDIA GPU, use Nsight Systems: ``nsys profile python program.py``.
# - *Inside a kernel.* A profile says how long a kernel ran, not why. Nsight Compute
#   (``ncu``) reads the GPU's counters: ``dram__bytes.sum``, for example, is the number
#   of bytes that went through VRAM.
# - *Gaps.* If the GPU's row of the timeline is mostly empty, no kernel is slow: launch
#   overhead or a wait decides (:doc:`/tutorials/2_devices/11_fewer_launches`).
# - *How fast it could be.* No profile answers that, see
#   :doc:`/tutorials/2_devices/14_roofline`.
#
# Exercise
# --------
#
# You have the events of one thread as ``(name, start, end)``. An event that lies within
# another was called by it. Write a function that returns the self time of each name.


def self_times(events): ...


# %%

# folded: The checker, first part
CASES = [
    ([("mul", 0, 3), ("fft", 3, 7)], {"mul": 3, "fft": 4}),
    ([("match", 0, 10), ("to", 1, 7), ("mv", 7, 9)], {"match": 2, "to": 6, "mv": 2}),
    (
        [("match", 0, 10), ("to", 1, 8), ("copy_", 2, 7), ("mv", 8, 9)],
        {"match": 2, "to": 2, "copy_": 5, "mv": 1},
    ),
    ([("to", 0, 9), ("to", 1, 8), ("copy_", 2, 7)], {"to": 4, "copy_": 5}),
    ([("mul", 0, 3), ("mul", 5, 6)], {"mul": 4}),
]


def total_times(events):
    total = dict.fromkeys((name for name, _, _ in events), 0)
    for name, start, end in events:
        total[name] += end - start
    return total


# %%

# folded: The checker, second part


def check(answer):
    for events, right in CASES:
        call = f"self_times({events})"
        try:
            got = {name: float(time) for name, time in answer(list(events)).items()}
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            return f"{call} has to give a dictionary of times; {said}"
        if got == right:
            continue
        if got == total_times(events):
            return f"{call}: these are total times.\nHint: take off what it called."
        if got.keys() != right.keys():
            return f"{call}: it needs the names {', '.join(right)}, and no others."
        name = next(name for name in right if got[name] != right[name])
        if got[name] < right[name] and sum(name == e[0] for e in events) == 1:
            hint = "take off direct callees only: theirs are inside of them"
        else:
            hint = "add up all events of a name, less what each of them called"
        return f"{call}: {name} has {right[name]}, not {got[name]:g}.\nHint: {hint}."
    return "Right: that is the column to sort by."


print(check(self_times))

# %%

# solution


def self_times_solution(events):
    own, callers = {}, []
    for name, start, end in sorted(events, key=lambda e: (e[1], -e[2])):
        while callers and callers[-1][1] <= start:
            callers.pop()
        own[name] = own.get(name, 0) + end - start
        if callers:
            own[callers[-1][0]] -= end - start
        callers.append((name, end))
    return own


print(check(self_times_solution))

# %%
# Three lines to remember
# -----------------------

# remember
print(f"""1. Sort a profile by self time, then look for the caller on the timeline.
   Here copies that nobody wrote took {share:.0%} of a frame.
2. Count the calls: {each:g} copies a frame are a question, whatever they cost.
3. Take shares from a profile and times from a timer.
   For a loop of tiny operations, recording took {cost}.""")
