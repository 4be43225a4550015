"""
Where does the time go?
=======================

This page is for anyone whose PyTorch program is slow and who does not know why. Run it
under PyTorch's :term:`profiler`, sort the table by *self time*, and ask which line
called the :term:`operation` at the top. In the program below, that is a copy hidden in
``references.float()``: one matrix is converted again for every frame. The picture shows
one frame before and after the conversion was moved out of the loop.

**You will learn**

- to profile a program in four lines, on a CPU or a GPU;
- to read the result: self and total time, number of calls, :term:`host` and device;
- to find out on a timeline which of your functions called an operation;
- why a share of the time does not tell what a cure gains;
- what the profiler cannot see, and what it costs.

**Time:** 9 minutes. **Needs:** any computer. With a GPU of NVIDIA, AMD or Intel, the
page profiles that. Of Apple's GPUs, this profiler sees only the CPU's side.
"""

# %%
# The four lines
# --------------
#
# ::
#
#    from torch.profiler import profile
#
#    with profile() as prof:
#        your_program()
#    print(prof.key_averages().table(sort_by="self_cpu_time_total"))
#
# With a GPU, sort by ``self_device_time_total`` as well. The rest of the page says how
# to read what is printed.
#
# A program that is slower than it should be
# ------------------------------------------
#
# You take frames with a microscope, and compare the *power spectrum* of each frame with
# those of 512 known textures. A frame is tapered towards its edges and transformed
# (:term:`FFT`), the squared magnitudes are taken, and a matrix with one row for each
# texture multiplies them, which gives one score per texture. The matrix comes from
# NumPy, so it is ``float64``; the loop converts it to what it needs.
# ``record_function`` gives a part of the program a name in the profile, and changes no
# result.

import os

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # no messages from the profiler

import numpy as np
import torch
from torch.profiler import profile, record_function

from firstlight import Bench, best_device
from firstlight.display import BLUE, GREEN, GREY, ORANGE, quantity, show_table

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
# on the CPU and, if there is a GPU, each kernel and copy on it. The first profile of a
# program also pays for loading and :term:`warm-up`, so make a short one and throw it
# away. A GPU works after the call has returned: the profiler waits for it at the end,
# and a wait of your own *inside* the ``with`` shows how long that takes.


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
found = profiled(best_scores, raw, references, taper)

# %%
# The printed table has one row for each name, and many columns. These are the rows and
# columns that you need first, for one frame:


def rows_of(prof, place="cpu", count=6):
    rows = [row for row in prof.key_averages() if row.device_type.name == "CPU"]
    own, total = f"self_{place}_time_total", f"{place}_time_total"  # in µs
    rows.sort(key=lambda row: -getattr(row, own))
    for row in rows[:count]:
        both = (f"{getattr(row, of) / 1e3 / frames:.2f}" for of in (own, total))
        yield row.key, f"{row.count / frames:g}", *both


head = "", "calls", "self, ms", "total, ms"
show_table("One frame, on the CPU", head, rows_of(found))
if any(row.self_device_time_total for row in found.key_averages()):
    show_table("One frame, on the GPU", head, rows_of(found, "device"))

# %%
# How to read it:
#
# - *Self* is the time in the operation itself; *total* includes everything that it
#   called. Sort by *self* to find the operation that does the work, and by *total* to
#   find the part of your program that asks for it.
# - Names with ``aten::`` are PyTorch's own operations. Your ``@`` is ``aten::matmul``,
#   which calls ``aten::mv``, which calls ``aten::addmv_``. Your names have a self time
#   too: what was spent in Python, in NumPy, or in freeing memory. For ``match``, it is
#   the freeing of the converted matrix.
# - *Calls* check what you believe. If you cannot explain a number, look into it.
#   ``aten::abs`` has two, because it calls itself once more, with an array for the
#   result. But no line of the program says "copy".
#
# The table does not say who called the copies. For that you need to see which operation
# ran inside which.
#
# One frame as a timeline
# -----------------------
#
# ``prof.export_chrome_trace("trace.json")`` writes the name, start and length of every
# event to a file. Open it at https://ui.perfetto.dev, where it stays in your browser,
# and move with the keys W, A, S and D. (The file has your computer's name in it, so
# look into it before you share it.) Each bar is an operation, below the one that called
# it. ``profile(with_stack=True)`` adds your own functions, each with its file and line.
# What is above the longest copy?

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


def callers(events, name):
    """Return what ran when the longest event of a name did, outermost first."""
    longest = max((e for e in events if e["name"] == name), key=lambda e: e["dur"])
    start, stop = longest["ts"], longest["ts"] + longest["dur"]
    return [
        event["name"].split(": ")[-1].split(" object")[0].lstrip("<")  # without path
        for event in events
        if event["ts"] <= start and stop <= event["ts"] + event["dur"]
    ]


stacked = profiled(best_scores, raw, references, taper, with_stack=True)
for depth, name in enumerate(callers(shortest_frame(stacked), "aten::copy_")):
    print("  " * depth + name)

# %%
# It is ``references.float()``, in ``scores_of``. A conversion makes a new matrix, and
# this loop makes the same one for every frame. (On a GPU, ``.to(device)`` also sends it
# over :term:`PCIe` each time: :doc:`/tutorials/2_devices/04_small_copies`.) The cure is
# one line before the loop. The loop itself need not change, because ``.float()`` and
# ``.to(device)`` return the tensor itself if there is nothing to do.

converted = references.float().to(device)
cured = profiled(best_scores, raw, converted, taper)


def ms_of(prof, column="self_cpu_time_total"):
    rows = [row for row in prof.key_averages() if row.device_type.name == "CPU"]
    return {row.key: getattr(row, column) / 1e3 / frames for row in rows}


total = ms_of(found, "cpu_time_total")
share = total["aten::copy_"] / total["frame"]
print(f"copies took {share:.0%} of the time as found")

# %%

# folded: Draw a frame
import matplotlib.pyplot as plt


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
        colour = GREY if name == event["name"] else ORANGE if name == "copy_" else BLUE
        ax.barh(depth, wide / 1e3, 0.9, left, lw=0.5, fc=colour, ec="white")
        if wide > length * 0.013 * len(name):
            text = {"ha": "center", "va": "center", "color": "#111111", "size": 9}
            ax.text(left + wide / 2e3, depth, name, **text)
    ax.set(yticks=[], xlim=(0, length / 1e3), xlabel="ms on the CPU")
    ax.set_title(f"{title}: {length / 1e3:.1f} ms", loc="left", size=11)
    ax.invert_yaxis()


# %%

# measured figure
# sphinx_gallery_thumbnail_number = 1
before, after = shortest_frame(found), shortest_frame(cured)
fig, axes = plt.subplots(2, figsize=(7.2, 4.8), layout="constrained")
fig.suptitle(f"Copies take {share:.0%} of the time: one hides in .float()", size=13)
draw_frame(axes[0], before, "The shortest frame as found")
draw_frame(axes[1], after, "With the matrix converted before the loop (other scale)")
kinds_of = {"named in the program": GREY, "PyTorch": BLUE, "a copy": ORANGE}
patches = [plt.Rectangle((0, 0), 1, 1, fc=colour) for colour in kinds_of.values()]
fig.legend(patches, kinds_of, loc="outside lower center", ncols=3, frameon=False)
fig.set_label(
    "Two timelines of a frame, each bar below the one that called it. As found, there "
    f"is a long copy inside match; copies take {share:.0%} of the time. With the "
    "matrix converted before the loop, the copy inside match is gone."
)
plt.show()

# %%
# The empty end of ``match`` as found is its self time, the freeing. Profile again after
# each cure, because a bottleneck hides what lies behind it, and compare:

was, now = ms_of(found), ms_of(cured)
names = sorted(was, key=was.get, reverse=True)[:5]
rows = [(name, f"{was[name]:.2f}", f"{now.get(name, 0):.2f}") for name in names]
rows.append(("all", f"{sum(was.values()):.2f}", f"{sum(now.values()):.2f}"))
head = "", "as found", "converted once"
show_table("One frame, self time on the CPU in ms", head, rows)

# %%
# More than the copies changed. Nothing is left to free in ``match``; and an operation
# can take longer because of what the one before it left in :term:`caches <cache>` and
# memory. So a share of the time says what an operation took, not what its removal
# gains.
#
# The copy that is left belongs to ``abs``: PyTorch computes a complex result first and
# copies its real part. You would not find that by reading your program either. (On a
# GPU, the transfer of the frame is a copy, too.)
#
# Measure
# -------
#
# Recording costs time as well, so what a cure gained is for a timer to say
# (:doc:`/tutorials/2_devices/07_timing_it_right`). This is one frame without the
# profiler:

bench = Bench("profile")
for label, matrix in {"as found": references, "converted once": converted}.items():
    bench.time(label, best_scores, raw[:1], matrix, taper, device=device)
bench.show()

# %%

gain = bench.timings[0].median / bench.timings[1].median
print(f"the share of the copies would allow {1 / (1 - share):.1f} × at most;")
print(f"the cure made the program {gain:.1f} × as fast")

# %%

# folded: What recording costs: a loop of tiny additions, the worst case
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
# How near do real cards come to their roofs, and how long are a program's gaps? The
# numbers are those of the authors named below.
#
# .. measured-by-others:: product-a100 read-rtx4090 frame-rtx4090 dalle-h100
#
# What a GPU adds
# ---------------
#
# With a GPU, the script prints a second table, and the timeline has one more row, for
# its kernels and copies. In the picture, six operations, each of which reads and writes
# a frame in VRAM, run on a small and on a large frame, by an RTX 4090's
# :term:`data sheet` and what others measured for a :term:`launch`.

# figure
from firstlight.timing.specs import spec

LAUNCH, RATE = spec("PyTorch operation", "seconds"), spec("RTX 4090", "bandwidth")


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
draw_model(axes[0], 512, "Gaps on the GPU: save launches")
draw_model(axes[1], 2048, "No gaps: make the kernels faster")
axes[1].set_xlabel("µs (a model)")
fig.suptitle("A GPU's row tells what to improve", size=13)
fig.set_label(
    "A model of two timelines, each with a row for the CPU and one for the GPU. Small "
    "frame: each kernel is far shorter than its launch, and the GPU is mostly idle. "
    "Large frame: the kernels follow each other without a gap, and the CPU waits."
)
plt.show()

# %%
# - *Gaps* in the GPU's row: its kernels are not the problem. It waits for launches
#   (:doc:`/tutorials/2_devices/16_fewer_launches`) or for the CPU's own work.
# - *Time on the CPU*, of an operation that runs on the GPU, is launch overhead and
#   waiting. A large ``cudaStreamSynchronize`` is a wait: here for the score, which
#   ``.item()`` reads, and for the transfers of ``.to(device)``
#   (:doc:`/tutorials/2_devices/06_queues`).
# - *Time on the GPU* is work. In this program, its row ``aten::copy_`` is mostly the
#   host–device transfers.
#
# Where this stops being true
# ---------------------------
#
# - *Long runs.* Record a few steps in the middle of a training loop, and call
#   ``prof.step()`` after each one::
#
#       from torch.profiler import profile, schedule
#
#       few = schedule(wait=10, warmup=2, active=3, repeat=1)
#       with profile(schedule=few) as prof:
#           for batch in batches:
#               train(batch)
#               prof.step()
#
# - *Work that is not PyTorch's.* NumPy, file reading and other processes show up as
#   self time of your own names, or as gaps. For :term:`Numba`'s kernels and for all
#   libraries on an NVIDIA GPU, use Nsight Systems: ``nsys profile python program.py``.
# - *Inside a kernel.* A profile says how long a kernel ran, not why. Nsight Compute
#   (``ncu``) reads the GPU's counters: ``dram__bytes.sum``, for example, is the number
#   of bytes that went through VRAM.
# - *How fast it could be.* No profile answers that, see
#   :doc:`/tutorials/2_devices/15_roofline`.
#
# Exercise
# --------
#
# You have the events of one thread as ``(name, start, end)``. An event that lies within
# another was called by it. Write a function that returns the self time of each name.


def self_times(events): ...


# %%

# folded: The checker
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


def check(answer):
    for events, right in CASES:
        call = f"self_times({events})"
        try:
            got = {name: float(time) for name, time in answer(list(events)).items()}
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            return f"{call} has to give a dictionary of times; {reason}"
        if got == right:
            continue
        if got == total_times(events):
            return f"{call}: these are total times.\nHint: take off what it called."
        if got.keys() != right.keys():
            return f"{call}: it needs the names {', '.join(right)}, and no others."
        name = next(name for name in right if got[name] != right[name])
        if got[name] < right[name] and sum(name == e[0] for e in events) == 1:
            hint = "take off direct callees only: theirs are inside them"
        else:
            hint = "add up all events of a name, less what each of them called"
        return f"{call}: {name} has {right[name]}, not {got[name]:g}.\nHint: {hint}."
    return "Right: that is the column to sort by."


# %%

print(check(self_times))

# %%
# Three lines to remember
# -----------------------

# remember
print(f"""1. Sort a profile by self time, then look for the caller on the timeline.
   Here copies took {share:.0%} of the time: one hid in .float().
2. Count the calls: if you cannot explain a number, look into it.
3. A share is not a gain. Time before and after: that share would allow
   {1 / (1 - share):.1f} ×, and the cure gained {gain:.1f} ×.""")

# %%
# Solution
# --------

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


print(f"Our solution: {check(self_times_solution)}")
