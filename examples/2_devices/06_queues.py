"""
Why does printing the loss slow a GPU down?
===========================================

This page is for everybody whose loop prints or logs a number while a GPU works. A call
to a GPU puts work into a :term:`queue`, the *:term:`CUDA` stream*, and returns before
the work is done. A line that needs a number has to wait for it, and then the GPU has to
wait for more work. So reading at every step adds the shorter of two times to each step,
the program's and the GPU's; reading at every tenth step adds a tenth of that. Keep the
:term:`losses <loss>` on the GPU, and read many at once.

**You will learn**

- which lines wait without saying so, and how to find yours;
- what it costs to read a value at every step, and what to write instead;
- what :term:`events <event>` are, and why an error can point at a line that is right.

**Time:** 13 minutes. **Needs:** any computer. Without a GPU, a thread of your program
plays its part.
"""

# %%
# The call returns, the reading waits
# -----------------------------------
#
# The program on the CPU, the :term:`host`, puts each piece of work for the GPU, the
# :term:`device`, into a stream and goes on. This is called a :term:`launch`. The device
# takes the pieces out in the same order.
#
# A GPU shows little of its stream, so here is a toy: ``ToyStream`` is a queue with a
# *thread* of its own, a part of your program that runs beside the rest. What you launch
# is computed there, later and in order. Its times are a CPU's, but its rules are those
# of a CUDA stream.

from functools import partial
from time import perf_counter, sleep

import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.display import BLUE, GREY, ORANGE, quantity, show_table
from firstlight.timing.toy_stream import ToyStream

device = best_device()
has_gpu = device.type != "cpu"
where = "GPU" if has_gpu else "toy"
numbers = np.random.default_rng(seed=1).random(500_000, dtype=np.float32)
stream = ToyStream("stream")

# %%
# ``launch`` gives back a placeholder, and ``.item()`` asks for the number in it, as it
# does with a PyTorch :term:`tensor`. Which of the two takes the time?


def largest(tensor):
    return tensor.sort().values[-1]


calls = {"toy": lambda: stream.launch(largest, torch.from_numpy(numbers))}
for place in dict.fromkeys(("cpu", device.type)):
    calls[place] = partial(largest, torch.from_numpy(numbers).to(place))

rows = []
for name, call in calls.items():
    call().item()  # the first call may do work that later ones do not
    start = perf_counter()
    result = call()
    called = perf_counter()
    result.item()
    times = called - start, perf_counter() - called
    rows.append((name, *(quantity(seconds, "s") for seconds in times)))
show_table(f"Sorting {len(numbers):,} numbers", ("", "call", "reading"), rows)

# %%
# On the CPU, PyTorch has no stream, so the call itself sorts. That is why you never see
# this on a CPU. With a stream the call returns, and the *reading* waits for the
# sorting. A clock around the call alone times only the launch.
#
# Which lines wait
# ----------------
#
# A line has to wait if Python must know a *number* before it can go on. On any computer
# you can find out which ones do, with PyTorch's device ``meta``: tensors there have a
# shape, but no numbers, so a line that fails there needs some. Below, ``x`` is a
# tensor, and ``mask`` says where it is above a half. Guess first:

lines = """x + 1; x.sum(); torch.maximum(x[0], x[1]); torch.where(mask, x, 0.0)
x[0].item(); float(x[0]); f"{x[0]:.3f}"; str(x); x.tolist(); x.cpu()
1 if x[0] > x[1] else 2; max(x[0], x[1]); torch.allclose(x, x)
x[x.argmax()]; x[mask]; torch.nonzero(mask); torch.unique(x)"""
lines = [line.strip() for line in lines.replace("\n", ";").split(";")]


def names_on(device):
    x = torch.rand(1003, device=device)
    return {"x": x, "mask": x > 0.5, "torch": torch}


def needs_numbers(line):
    try:
        result = eval(line, names_on("meta"))
    except Exception:
        return True
    return isinstance(result, str) and "..." in result  # dots in place of numbers


waiting = [line for line in lines if needs_numbers(line)]
rows = [(line, "WAITS" if line in waiting else "goes on") for line in lines]
show_table("On a GPU", ("line", "the program"), rows)

# %%
# There are two kinds of numbers that Python may need:
#
# - *A value*, for ``.item()``, ``float()``, an ``f"…"`` with the loss in it, every
#   ``print``, and every ``if`` on a tensor. Python's own ``min`` and ``max`` hide an
#   ``if``, too; ``torch.maximum`` decides on the device.
# - *A size.* How many elements ``x[mask]`` has is not known before the mask is
#   computed, and PyTorch needs memory for them. ``torch.where`` keeps the size.
#
# Two more reasons do not show on ``meta``: ``torch.linalg.inv`` looks whether the
# matrix has an inverse (`inv_ex`__ does not), and ``x.to("cuda")`` has to read ``x``
# before your next line changes it.
#
# In your own program, ``torch.cuda.set_sync_debug_mode("warn")`` makes PyTorch warn at
# each wait that it knows of, and name the line; ``"error"`` stops there. The mode is
# `experimental`__, and for NVIDIA and AMD cards; for other GPUs use a :term:`profiler`.
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.linalg.inv.html
# __ https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html

# folded: On a GPU: the same lines, asked of an NVIDIA or AMD card

import warnings


def sync_warnings(line):
    names = names_on(device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        caught.clear()  # it also warns of itself
        try:
            eval(line, names)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return [str(w.message) for w in caught if "synchroniz" in str(w.message)]


if device.type == "cuda":
    found = {line: sync_warnings(line) for line in lines}
    print("x[0].item():", *found["x[0].item()"])
    differ = [line for line in lines if bool(found[line]) != (line in waiting)]
    print("another answer than on meta:", ", ".join(differ) or "none")
else:
    print("PyTorch finds no such card on this machine.")

# %%
# What a wait costs
# -----------------
#
# A step of a loop takes two times, on two processors: :math:`h`, what the host needs to
# prepare it (Python, reading data, launching), and :math:`d`, what the device needs to
# compute it. If nobody reads, both work at the same time, and the slower one sets the
# pace. If the host reads after each step, they take turns.
#
# From one reading to the next, :math:`k` steps take :math:`h` until the device has
# something to do, then :math:`k - 1` times the longer of the two, then :math:`d` for
# the last step. Since :math:`h + d` is the longer plus the shorter, one step takes
#
# .. math::
#
#     t(k) = \max(h, d) + \frac{\min(h, d)}{k}.
#
# The second term is the price of reading. Read once a step, it at most *doubles* the
# time. To test this, take a detector that answers a signal :math:`x`, a lamp's light,
# with :math:`\tanh(2 x)`. You know the signals and the answers; the *gain*, 2, is to be
# found. Each step moves a guess of it towards a smaller error. That is the device's
# part:


def update(gain, light, brightness):
    tanh = torch.tanh if torch.is_tensor(light) else np.tanh
    signal = brightness * light
    answer = tanh(gain * signal)
    error = answer - tanh(2 * signal)
    return gain - 8 * (error * (1 - answer**2) * signal).mean()


# %%
# The host prepares: before each step it waits for the lamp's next brightness, as if it
# came from a disk. On a GPU, each of the dozen operations in ``update`` is a launch;
# with the toy the whole step is one. A GPU does not use the host's cores, so the toy
# computes a small step and then sleeps until ``pace`` seconds have passed.


class Experiment:
    def __init__(self, size, on_gpu=has_gpu, pace=6e-4):
        self.stream = ToyStream("stream")  # also notes what the host does
        self.light = np.random.default_rng(0).standard_exponential(size, np.float32)
        self.on_gpu, self.pace = on_gpu, pace
        if on_gpu:
            self.light = torch.from_numpy(self.light).to(device)

    def prepare(self, number):
        with self.stream.host(f"{number}"):
            sleep(4e-4)
            return 0.9 + 0.2 * np.random.default_rng(number).random()

    def paced(self, *work):
        end = perf_counter() + self.pace
        gain = update(*work)
        sleep(max(0, end - perf_counter()))
        return gain

    def step(self, *work, number):
        if self.on_gpu:
            return update(*work)
        return self.stream.launch(self.paced, *work, label=f"{number}")


# %%
# The loop is the same for both:


def fit(place, every, steps=20):
    gain, log = 1.0, []
    for number in range(1, steps + 1):
        brightness = place.prepare(number)
        gain = place.step(gain, place.light, brightness, number=number)
        if number % every == 0:
            log.append(gain.item())  # the line that waits
    return log


# %%
# Now watch eight steps on the toy, with the gain read after each step, and only at the
# end:

# folded: What the toy notes of its own, the quickest of forty times

toy = Experiment(10_000, on_gpu=False)


def watch(every):
    toy.stream.spans.clear()
    fit(toy, every, steps=8)
    return toy.stream.spans.copy()


def length(spans):
    return max(s.end for s in spans) - min(s.start for s in spans)


def idle(spans):
    busy = sum(s.end - s.start for s in spans if s.lane == "stream")
    return 1 - busy / length(spans)


kinds = {"read after each step": 1, "read at the end": 8}
runs = {
    title: min((watch(every) for _ in range(40)), key=length)
    for title, every in kinds.items()
}

# %%

# measured figure
# sphinx_gallery_thumbnail_number = 1

import matplotlib.pyplot as plt

HOST, DEVICE, WAIT = {"fc": BLUE}, {"fc": ORANGE}, {"fill": False, "lw": 0.8}
WAIT |= {"hatch": "////", "ec": "black"}
fig, axes = plt.subplots(2, figsize=(7.2, 3.8), sharex=True, layout="constrained")
for ax, (title, spans) in zip(axes, runs.items(), strict=True):
    zero = min(s.start for s in spans)
    for s in spans:
        row, wide = ["host", "stream"].index(s.lane), 1e3 * (s.end - s.start)
        style = WAIT if s.label == "wait" else {**(HOST, DEVICE)[row], "ec": "white"}
        ax.barh(row, wide, left=1e3 * (s.start - zero), height=0.7, **style)
        if s.label.isdigit() and wide > 30 * length(spans):
            ink = {"ha": "center", "va": "center", "color": "#fefefe", "size": 11}
            ax.text(1e3 * (s.start - zero) + wide / 2, row, s.label, **ink)
    ax.set_yticks([0, 1], ["host", "device"])
    ax.invert_yaxis()
    ax.set_title(f"{title}: the device is idle {idle(spans):.0%} of the time")
axes[1].set_xlabel("milliseconds, on the toy (hatched: the host waits)")
words = "; ".join(f"{title}, {idle(spans):.0%}" for title, spans in runs.items())
fig.set_label(
    "Two pairs of lanes, host and device, over time, with numbered steps. Read after "
    "each step, the lanes take turns; read at the end, the host prepares later steps "
    f"while the device works. Share of time in which the device is idle: {words}."
)
plt.show()

# %%
# Blue is the host, preparing a step, and orange is the device (here the toy), computing
# it. A gap in the orange lane is called a *bubble*: a device that waits for the host.
#
# How long is a wait on a real GPU? Here is what other people found on cards of their
# own. None of these numbers is ours.
#
# .. measured-by-others:: wait-rtx5090 wait-mi300x trip-rtx5060 trip-m1pro
#
# Check
# -----
#
# ``gain`` goes into the next launch before it is computed. Compare with a loop in
# ``float64``, on an odd size:

small = Experiment(1003)
light = torch.as_tensor(small.light).cpu().numpy().astype(np.float64)
exact, exact_log = 1.0, []
for number in range(1, 64):
    exact = update(exact, light, small.prepare(number))
    exact_log.append(exact)

for every in (1, 7, 63):
    log = fit(small, every, steps=63)
    worst = np.max(np.abs(np.array(log) - exact_log[every - 1 :: every]))
    assert worst < 1e-5, f"wrong by {worst:.1e}"
    print(f"read {len(log):>2} times: gain {log[-1]:.6f}, largest error {worst:.0e}")

# %%
# Measure
# -------
#
# To measure :math:`h`, run the loop on an array of length 1, so that there is next to
# nothing to compute; to measure :math:`d`, launch the steps without preparing them.
# (``sleep`` oversleeps, so both exceed the times in the code.) Each run has 20 steps.


def device_alone(place, steps=20):
    gain = 1.0
    for number in range(steps):
        gain = place.step(gain, place.light, 1.0, number=number)
    gain.item()


steps = 20
place, tiny = Experiment(2**25 if has_gpu else 10_000), Experiment(1, pace=0)
reads = {1: "each step", 2: "each 2nd step", 5: "each 5th step", 10: "each 10th step"}
reads[steps] = "at the end"
jobs = {"host alone": (fit, tiny, steps), "device alone": (device_alone, place)}
jobs |= {f"read {when}": (fit, place, every) for every, when in reads.items()}

# %%
# Other programs on the machine can only make a run longer, so compare the fastest runs.
# From the first two, the formula predicts the others:


def seconds(function, *arguments):
    start = perf_counter()
    function(*arguments)
    return perf_counter() - start


if has_gpu:
    bench = Bench("queues")
    times = {
        label: bench.time(f"GPU, {label}", *job, device=device).values
        for label, job in jobs.items()
    }
else:
    rounds = [{label: seconds(*job) for label, job in jobs.items()} for _ in range(20)]
    times = {label: [each[label] for each in rounds] for label in jobs}
h, d, *measured = (min(values) / steps for values in times.values())
measured = np.array(measured)

# %%


def predict(every):
    return max(h, d) + min(h, d) / every


predicted = np.array([predict(every) for every in reads])
rows = [
    (f"read {when}", quantity(p, "s"), quantity(m, "s"), f"{m / p:.2f}")
    for when, p, m in zip(reads.values(), predicted, measured, strict=True)
]
head = ("", "predicted", "measured", "ratio")
title = f"A step, h = {quantity(h, 's')} and d = {quantity(d, 's')}"
show_table(title, head, rows)

# %%

# measured figure

gain, foreseen = measured[0] / measured[-1], predicted[0] / predicted[-1]
fig, ax = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
curve = np.geomspace(1, steps)
ax.plot(curve, 1e3 * predict(curve), "--", color=GREY, lw=2)
ax.plot([*reads], 1e3 * measured, "o", color=BLUE)
for level in (h + d, max(h, d)):
    ax.axhline(1e3 * level, color=ORANGE, lw=1.5, ls=":")
beside = {"textcoords": "offset points", "va": "center"}
ax.annotate("measured", (2, 1e3 * measured[1]), (10, 4), **beside)
ax.annotate("model t(k)", (3, 1e3 * predict(3)), (8, 6), color=GREY, **beside)
ax.annotate("host + device", (steps, 1e3 * (h + d)), (0, 8), ha="right", **beside)
ax.annotate("the longer of the two", (1, 1e3 * max(h, d)), (0, -9), **beside)
ax.set(xscale="log", xlabel="steps from one reading to the next, k")
low, high = 0.8 * min(max(h, d), *measured), 1.15 * max(h + d, *measured)
ax.set(ylabel=f"ms a step, {where}", ylim=(1e3 * low, 1e3 * high))
ax.set_xticks([*reads], [*map(str, reads)])
ax.minorticks_off()
ax.set_title(
    f"Reading each step takes {gain:.2f} × the time of reading at the end;\n"
    f"the model predicts {foreseen:.2f} ×"
)
fig.set_label(f"{ax.get_title()}. The model falls from host plus device to the longer.")
plt.show()

# %%
# The curve is not fitted: :math:`h` and :math:`d` determine it.
#
# On an H100, the speed-up of reading at the end over reading each step is
# :timing:`queues speedup "GPU, read at the end"/"GPU, read each step"
# @nvidia-h100-80gb-hbm3`, and none of the five predictions was off by more than a
# twentieth.
#
# To find the price in your own loop, time it once with a reading at each step, and once
# with one at the end: the difference, for a step, is about :math:`\min(h, d)`.
#
# What to write instead
# ---------------------
#
# Append the loss itself, not its ``.item()``, and read a hundred at once:

losses, log = [], []
for number in range(1, 201):
    loss = torch.rand(1003, device=device).square().mean()  # in place of your step
    losses.append(loss.detach())  # does not wait
    if number % 100 == 0:
        log += torch.stack(losses).tolist()  # waits, once for all
        losses.clear()
print(f"{len(log)} losses, the last one {log[-1]:.3f}")

# %%
# Without ``detach()``, each loss keeps its :term:`autograd` graph in memory.
#
# Is it Python's lock?
# --------------------
#
# `A well-known textbook`__ says that reading the loss back "will trigger a global
# interpreter lock which stalls all GPUs". This lock, the GIL, lets one thread at a time
# run Python code. But PyTorch's ``.item()`` `gives it back`__ before it waits, and the
# GPU runs no Python. So the textbook's advice, to log rarely, is right for another
# reason: the reader waits for its own stream, which then runs out of work. Removing the
# GIL would not help.
#
# The toy gives the lock back, too. The fold shows how many jobs a second thread, with a
# second stream, gets done meanwhile. Sorting a *list* keeps the lock.
#
# __ https://github.com/d2l-ai/d2l-en/blob/02c6a2a15fe79c6e63a0fc58368bfffca94df554/chapter_builders-guide/use-gpu.md
# __ https://github.com/pytorch/pytorch/blob/v2.6.0/tools/autograd/templates/python_variable_methods.cpp

# folded: What another thread gets done while somebody reads

import threading

second = ToyStream("second stream")


def others_while(read):
    moments, stop = [], threading.Event()

    def work():
        while not stop.wait(0.001):
            second.launch(abs, -1).item()
            moments.append(perf_counter())

    thread = threading.Thread(target=work)
    thread.start()
    start = perf_counter()
    read()
    end = perf_counter()
    stop.set()
    thread.join()
    inside = [start, *(m for m in moments if start < m < end), end]
    return end - start, len(inside) - 2, max(np.diff(inside))


def read_toy():
    for _ in range(20):
        result = stream.launch(np.sort, numbers)
    result.item()


def read_gpu():
    for _ in range(30):
        result = matrix @ matrix
    result[0, 0].item()


a_list = numbers.tolist()
readers = {"read the toy": read_toy, "sort a list": lambda: sorted(a_list)}
if has_gpu:
    matrix = torch.rand(4096, 4096, device=device)
    readers["read the GPU"] = read_gpu
rows = []
for name, read in readers.items():
    took, jobs, pause = others_while(read)
    rows.append((name, quantity(took, "s"), f"{jobs}", f"{pause / took:.0%}"))
show_table("Meanwhile", ("", "took", "jobs", "longest pause"), rows)

# %%
# Events: a mark in the stream
# ----------------------------
#
# An *event* is a mark in a stream. The device notes the time when it gets there.
# ``query()`` asks without waiting whether it has, and ``synchronize()`` waits for this
# mark, but not for what was launched after it:

before = stream.record()
stream.launch(np.sort, numbers)
after = stream.record()
stream.launch(np.sort, numbers)
last = stream.record()
print(f"just launched:       first sort done: {after.query()}")
after.synchronize()
print(f"waited for its mark: first sort done: {after.query()}, all: {last.query()}")
print(f"the stream spent {before.elapsed_time(after):.2f} ms on the first sort")
stream.synchronize()

# %%
# The device's own clock is ``torch.cuda.Event(enable_timing=True)``, and likewise
# ``torch.xpu.Event`` (Intel) and ``torch.mps.event.Event`` (Apple).
#
# Errors come out later
# ---------------------
#
# A call that returns before the work is done also returns before the work *fails*. Of
# these three jobs the second cannot be done: a matrix of zeros has no inverse.

product = stream.launch(np.multiply, 2.0, 3.0)
inverse = stream.launch(np.linalg.inv, np.zeros((3, 3)))
total = stream.launch(np.add, 1.0, 1.0)
print("all three are launched")
failure = "none"
try:
    total.item()
except RuntimeError as error:
    failure = str(error)
print("the error at total.item():", failure)

# %%
# The error comes out at a line that is right; the fault is somewhere before it. `A GPU
# does the same`__. To find the fault, set ``CUDA_LAUNCH_BLOCKING=1`` (AMD:
# ``AMD_SERIALIZE_KERNEL=3``) before the program starts. Then every launch waits: use it
# only for finding faults.
#
# __ https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
#
# Where this stops being true
# ---------------------------
#
# - *One of the two is much longer.* The price of reading is the *shorter* time. If a
#   step keeps the device busy for long, read the loss at every step. If the host is
#   much slower, you need fewer launches, not fewer readings.
# - *Many launches in a step.* The device starts with the first one while the host is at
#   the next, so the formula is then an upper bound.
# - *More than one stream.* ``.item()`` waits for its own, ``torch.cuda.synchronize()``
#   for all on one device. `Between two`__ there is no order, unless one waits for an
#   event of the other.
#
# __ https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams
#
# Exercise
# --------
#
# This loop keeps the lowest loss, and logs every tenth. Two of its lines wait. Write
# one that never waits, and returns three tensors: the gain, ``best`` with one number,
# and ``log`` with every tenth loss.

import math


def fit_and_log(step, gain, batches):
    best, log = math.inf, []
    for number, batch in enumerate(batches, start=1):
        gain, loss = step(gain, batch)
        best = min(best, loss)
        if number % 10 == 0:
            log.append(loss.item())
    return gain, best, torch.tensor(log)


# %%

# folded: The checker compares results on the CPU, and runs your loop on meta

import traceback


def step(gain, signal):
    answer = torch.tanh(gain * signal)
    error = answer - torch.tanh(2 * signal)
    return gain - (error * (1 - answer**2) * signal).mean(), (error**2).mean()


def run(answer, device, count):
    generator = torch.Generator().manual_seed(count)
    sizes = 2 * torch.rand(count, 1, generator=generator)
    batches = (sizes * torch.randn(count, 101, generator=generator)).to(device)
    return answer(step, torch.ones((), device=device), list(batches))


def explain(answer, count):
    right, result = run(fit_and_log, "cpu", count), run(answer, "cpu", count)
    if not isinstance(result, tuple) or len(result) != 3:
        return "it has to return three things: gain, best, log."
    names = ("gain", "best", "log")
    for name, value, expected in zip(names, result, right, strict=True):
        if not torch.is_tensor(value):
            return f"{name} is a {type(value).__name__}, and has to be one tensor."
        value, expected = value.tolist(), expected.tolist()
        same_shape = np.shape(value) == np.shape(expected)
        if not same_shape or not np.allclose(value, expected, rtol=1e-4, atol=0):
            return f"{name} is {value}, and should be {expected}."
    try:
        run(answer, "meta", count)
    except Exception as error:
        own = traceback.extract_tb(error.__traceback__)[2:3]  # below explain and run
        line = (own and own[0].line) or "unknown"
        return f"a line waits: {line}\nOn a device without numbers it says:\n{error}"
    return ""


def check(answer):
    for count in (37, 9, 10):
        try:
            problem = explain(answer, count)
        except Exception as error:
            problem = f"it raised {type(error).__name__}: {error}"
        if problem:
            return f"Not yet. With {count} steps, {problem}"
    return "Right: the same results, and no line waits."


# %%

print(check(fit_and_log))

# %%

# solution


def fit_and_log_solution(step, gain, batches):
    losses = []
    for batch in batches:
        gain, loss = step(gain, batch)
        losses.append(loss)
    losses = torch.stack(losses)
    return gain, losses.min(), losses[9::10]


print(check(fit_and_log_solution))

# %%
# Three lines to remember
# -----------------------

# remember

each, end = quantity(measured[0], "s"), quantity(measured[-1], "s")
print(f"""\
1. A launch returns at once. Mostly a line waits because Python needs a number: a value,
   or a size.
2. A step takes max(host, device) + min(host, device) / k, if you read each k-th: here
   ({where}) {each} reading each step and {end} reading at the end, where
   {quantity(predict(1), "s")} and {quantity(predict(steps), "s")} were predicted.
3. The wait is for the CUDA stream, not for Python's lock. Keep the losses on the GPU,
   and read many at once.""")
