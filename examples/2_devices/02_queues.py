"""
Why does printing the loss slow a GPU down?
===========================================

A loop trains a model on a GPU and prints the loss at every step. Take the ``print``
away, and the same loop is often done sooner. `A well-known textbook`__ says why:
reading the loss back "will trigger a global interpreter lock which stalls all GPUs". So
it advises to log rarely. The advice is good. Is the reason right?

__ https://github.com/d2l-ai/d2l-en/blob/02c6a2a15fe79c6e63a0fc58368bfffca94df554/chapter_builders-guide/use-gpu.md

**You will learn**

- what a call to a GPU does at once, and what it leaves for later;
- to predict from two numbers what it costs to read a value at every step;
- which lines wait without saying so, and how to find yours;
- why an error can point at a line that is right.

**Time:** 20 minutes. **Needs:** any computer. Without a GPU, a thread of your CPU plays
its part.
"""

# %%
# Predict
# -------
#
# A GPU is a computer of its own. The program on the CPU, the *host*, does not do the
# GPU's work and does not watch it either. It puts each piece of work into a *queue* and
# goes on. That is called a *launch*. The GPU, the *device*, takes the work out in the
# same order, one piece after the other. CUDA calls such a queue a *stream*.
#
# So one step of a loop takes two times, on two processors: :math:`h`, what the host
# needs for it (Python, preparing data, launching), and :math:`d`, what the device needs
# for the work. Say that :math:`h` is 2 units of time and :math:`d` is 3. Write down how
# long it takes to do 100 of these steps
#
# - if the host launches all of them, and reads one result at the end;
# - if it reads a result after each step, and uses it before the next.
#
# In the first case both work at the same time, and the slower one sets the pace: about
# 300 units. In the second they take turns. The host cannot read what is not computed
# yet, so it waits. The device has an empty queue while the host prepares the next step,
# so it waits, too: 500 units.
#
# What if the host reads after every :math:`k`-th step? It fills the queue with
# :math:`k` steps and then lets it run dry: :math:`h + d + (k - 1) \max(h, d)`. As
# :math:`h + d` is the longer plus the shorter of the two, a step takes
#
# .. math::
#
#     t(k) = \max(h, d) + \frac{\min(h, d)}{k}.
#
# The first term is what the loop takes anyway. The second is the price of reading. It
# makes two promises that you can test. Reading at every step at most doubles the time,
# however many lines wait, because the worst that can happen is to take turns. And
# reading every tenth step costs a tenth of that.
#
# A queue that you can look into
# ------------------------------
#
# A GPU shows little of its queue. So here is a toy: ``ToyStream`` is a queue with a
# thread of its own, on another core of your CPU. What you launch is really computed
# there, later and in order. Only times of a CPU come out of it, but it keeps the rules
# of a GPU's queue, and you can see everything.

from time import perf_counter

import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.measure.toystream import ToyStream

device = best_device()
has_gpu = device.type != "cpu"
where = "GPU" if has_gpu else "toy queue"
print(f"device: {device}; the loop below runs on the {where}")

numbers = np.random.default_rng(seed=1).random(500_000, dtype=np.float32)
stream = ToyStream()


def sort_in_queue():
    return stream.launch(np.sort, numbers)


# %%
# ``launch`` gives back a promise, not a result. ``.item()`` turns the promise into the
# result, as it turns a tensor of PyTorch into a number. Which of the two lines takes
# the time, the call or the reading? The same question for PyTorch:


def sort_with_torch(tensor):
    return torch.sort(tensor).values[-1]


def call_and_read(call, *arguments):
    start = perf_counter()
    result = call(*arguments)
    called = perf_counter()
    result.item()
    return called - start, perf_counter() - called


places = {"toy queue": (sort_in_queue,)}
places["torch, CPU"] = (sort_with_torch, torch.from_numpy(numbers))
if has_gpu:
    places["torch, GPU"] = (sort_with_torch, torch.from_numpy(numbers).to(device))
for place, work in places.items():
    call_and_read(*work)  # the first call may do work that later ones do not
    call, read = call_and_read(*work)
    print(f"{place}: call {1e3 * call:.2f} ms, then reading {1e3 * read:.2f} ms")

# %%
# On the CPU, PyTorch has no queue: the call sorts, and there is nothing left to wait
# for. That is why all this does not show before your first GPU. In a queue the call
# returns at once, and the *reading* takes as long as the sorting. Put your clock around
# the call, and you have timed the launch.
#
# A loop to test
# --------------
#
# A detector answers a signal :math:`x` with :math:`\tanh(2 x)`. You know the signals
# and the answers, but not the 2, its gain. Each step takes a batch of four rows of
# signals, and moves the gain downhill, row by row. ``update`` is the device's part, in
# NumPy or PyTorch.


def update(gain, batch):
    tanh = torch.tanh if torch.is_tensor(batch) else np.tanh
    for signal in batch:
        answer = tanh(gain * signal)
        error = answer - tanh(2 * signal)
        gain = gain - 8 * (error * (1 - answer**2) * signal).mean()
    return gain


# %%
# With the toy queue, the host draws each batch, and launches one piece of work. With a
# GPU, the batches are there already, and the host launches the fifty or so small pieces
# of work of which ``update`` consists there: one for each operation.


class OnToy:
    def __init__(self, size):
        self.shape, self.stream = (4, size), ToyStream()

    def batch(self, number):
        with self.stream.host(f"{number}"):  # to be seen in the picture below
            rng = np.random.default_rng(number)
            return rng.standard_exponential(self.shape, dtype=np.float32)

    def step(self, gain, batch, number):
        return self.stream.launch(update, gain, batch, label=f"{number}")


class OnGpu:
    def __init__(self, size):
        self.batches = torch.randn(2, 4, size, device=device).abs()

    def batch(self, number):
        return self.batches[number % 2]

    def step(self, gain, batch, _):
        return update(gain, batch)


# %%
# The loop is the same for both. ``every`` says how often it reads the gain, and
# ``.item()`` is the line that waits.


def fit(place, every, steps=20):
    gain, log = 1.0, []
    for number in range(1, steps + 1):
        gain = place.step(gain, place.batch(number), number)
        if number % every == 0:
            log.append(gain.item())
    return log


# %%
# Check
# -----
#
# A launch may take a result that is not there yet, as ``gain`` here. Is the result
# still right? The order of the queue says yes: when a step is due, the one before is
# done. Check it against a plain loop in ``float64``, on an odd size, and check that it
# does not depend on how often somebody looks.

make = OnGpu if has_gpu else OnToy
small = make(1003)
exact, exact_log = 1.0, []
for number in range(1, 64):
    batch = torch.as_tensor(small.batch(number)).cpu().numpy().astype(np.float64)
    exact = update(exact, batch)
    exact_log.append(exact)

for every in (1, 7, 63):
    log = fit(small, every, steps=63)
    worst = np.max(np.abs(np.array(log) - exact_log[every - 1 :: every]))
    assert worst < 1e-5, f"wrong by {worst:.1e}"
    print(f"read {len(log):>2} times: gain {log[-1]:.6f}, largest error {worst:.0e}")

# %%
# Why it takes longer
# -------------------
#
# Now watch steps 1 to 8 on the toy queue: once the gain is read after each step, once
# only at the end. The toy notes what the host and the queue do, from when to when. (It
# does this fifteen times, and you see the quickest. Other programs want your cores,
# too.)

toy = OnToy(30_000)


def watch(every):
    toy.stream.spans.clear()
    fit(toy, every, steps=8)
    return toy.stream.spans.copy()


def length(spans):
    return max(s.end for s in spans) - min(s.start for s in spans)


def idle(spans):
    busy = sum(s.end - s.start for s in spans if s.lane == "queue")
    return 1 - busy / length(spans)


runs = {
    title: min((watch(every) for _ in range(15)), key=length)
    for title, every in (("read after each step", 1), ("read at the end", 8))
}

# %%
# A lane for each, time from left to right, and a bar for each thing that was done:

import matplotlib.pyplot as plt

HOST, QUEUE, MODEL = "#2f7ed8", "#d9762b", "#808890"
WAIT = {"fill": False, "hatch": "////", "ec": "black", "lw": 0.8}
NUMBER = {"ha": "center", "va": "center", "color": "#fefefe", "size": 9}


def draw_lanes(ax, spans):
    zero = min(s.start for s in spans)
    for s in spans:
        row = ["host", "queue"].index(s.lane)
        start, wide = 1e3 * (s.start - zero), 1e3 * (s.end - s.start)
        style = WAIT if s.label == "wait" else {"fc": (HOST, QUEUE)[row], "ec": "white"}
        ax.barh(row, wide, left=start, height=0.7, **style)
        if s.label.isdigit() and wide > 30 * length(spans):
            ax.text(start + wide / 2, row, s.label, **NUMBER)
    ax.set_yticks([0, 1], ["host", "queue"])
    ax.invert_yaxis()


# %%

fig, axes = plt.subplots(2, figsize=(5.6, 3.6), sharex=True, layout="constrained")
for ax, (title, spans) in zip(axes, runs.items(), strict=True):
    draw_lanes(ax, spans)
    ax.set_title(f"{title}: queue idle {idle(spans):.0%} of the time", size=11)
axes[1].set_xlabel("milliseconds on this CPU (hatched: the host waits)")
each, end = map(idle, runs.values())
fig.set_label(
    "Two pairs of lanes, host and queue, over time; bars are numbered by step. Read "
    "after each step, host and queue take turns, with a gap in the queue before each "
    f"step, and the queue is idle {each:.0%} of the time. Read at the end, the host "
    f"prepares later steps while the queue works, and the queue is idle {end:.0%}."
)
plt.show()

# %%
# Blue is the host, drawing the batch of a step. Orange is the queue, computing it.
# Above, they take turns, and each gap in the orange lane is a *bubble*: a device that
# waits for the host. Below, the host draws step 3 while the queue computes an earlier
# one. Both do the same work. Only the waits are gone.
#
# Measure
# -------
#
# The prediction needs two numbers. For :math:`h`, the host does all of its part, but
# the queue gets rows of one element, so that there is next to nothing to compute.
# For :math:`d`, one and the same batch is launched again and again, so that the host
# has next to nothing to do.


def host_alone(place, steps=20):
    gain = 1.0
    for number in range(1, steps + 1):
        gain = place.step(gain, place.batch(number)[:, :1], number)
    gain.item()


def device_alone(place, steps=20):
    gain, batch = 1.0, place.batch(1)
    for number in range(1, steps + 1):
        gain = place.step(gain, batch, number)
    gain.item()


place, steps = make(2**22 if has_gpu else 30_000), 20
bench = Bench("queues")
host = bench.time(f"{where}, host alone", host_alone, place, device=device)
work = bench.time(f"{where}, device alone", device_alone, place, device=device)

# %%
# On a CUDA GPU, ``Bench`` also has the device itself tell how long it worked, without
# the gaps. That is the better number for :math:`d`. (Elsewhere it cannot come out
# smaller than the launches allow.) With the two, you can predict:

h = host.median / steps
d = (work.device_seconds or work.median) / steps


def predict(every):
    return max(h, d) + min(h, d) / every


reads = {1: "each step", 2: "each 2nd step", 5: "each 5th step", 10: "each 10th step"}
reads[steps] = "at the end"
print(f"host {1e3 * h:.3f} ms, device {1e3 * d:.3f} ms a step")
for every, when in reads.items():
    print(f"read {when}: {1e3 * steps * predict(every):.2f} ms for {steps} steps")

# %%
# Only now comes the loop itself. A row is one call of ``fit``, with all of its steps.

for every, when in reads.items():
    bench.time(f"{where}, read {when}", fit, place, every, device=device)
one = torch.ones(1, device=device)
ask = bench.time("torch, add one number", torch.add, one, one)
bench.show()

# %%
# Where the labels say *toy queue*, these are times of a CPU: it plays both parts. The
# number of *cores* shows it: one while the two take turns, nearly two while they work
# at the same time. Where the labels say *GPU*, the verdict *launch-bound* says that the
# device waited for the host. For *host alone* that was the purpose.
#
# Now compare with the prediction. On the toy queue it needs two free cores. If the last
# line below says one, other programs had the second. Then nothing could overlap, and
# the prediction has to fail.

measured = [bench[f"{where}, read {when}"] for when in reads.values()]
quarters = [(t.quartiles[0], t.median, t.quartiles[1]) for t in measured]
low, middle, high = np.transpose(quarters) / steps
ratios = middle / [predict(every) for every in reads]

for when, ratio in zip(reads.values(), ratios, strict=True):
    print(f"read {when}: measured / predicted = {ratio:.2f}")
if not has_gpu:
    print(f"cores in use, reading at the end: {measured[-1].cores:.1f} (it takes two)")

# %%
# As a picture. The curve is not fitted to the points. It was known from two numbers
# before the loop ran.

fig, ax = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
curve = np.geomspace(1, steps)
ax.plot(curve, 1e3 * predict(curve), "--", color=MODEL, lw=2, label="model: t(k)")
bars = [1e3 * (middle - low), 1e3 * (high - middle)]
style = {"fmt": "o", "color": HOST, "capsize": 3, "label": "measured"}
ax.errorbar([*reads], 1e3 * middle, bars, **style)
for level in (h + d, max(h, d)):
    ax.axhline(1e3 * level, color=QUEUE, lw=1.5, ls=":")
ax.text(steps, 1e3 * (h + d), "host + device", ha="right", va="bottom")
ax.text(1, 1e3 * max(h, d), "the longer of the two", va="top")
ax.set(xscale="log", xlabel="steps from one reading to the next, k")
ax.set(ylabel=f"ms a step, {where}", ylim=(0, 1.15e3 * max(h + d, *high)))
ax.set_xticks([*reads], [*map(str, reads)])
ax.minorticks_off()
ax.legend(loc="lower left", frameon=False)
fig.set_label(
    f"Time of a step over the steps from one reading to the next, {where}. The "
    "model's curve falls from host plus device to the longer of the two. The measured "
    f"points are {min(ratios):.2f} to {max(ratios):.2f} times as high as the curve."
)
plt.show()

# %%
# A point above the curve is what the model leaves out: a wait costs something itself,
# even if there is little left to wait for, because a sleeping thread has to be woken.
# On the newest GPU on record, the speed-up of reading at the end over reading each step
# is :timing:`queues speedup "GPU, read at the end"/"GPU, read each step" @gpu`.
#
# Is your host fast enough?
# -------------------------
#
# If :math:`h` is longer than :math:`d`, the queue is empty whatever you do, and the GPU
# waits for Python. The last row of the table is the time to ask PyTorch for a single
# addition. In that time, a card could already have added this many numbers (12 bytes
# for each, as in :doc:`/tutorials/1_setup/02_first_speedup`):

from firstlight.measure.specs import spec

for card in ("GTX 1080", "RTX 4090", "H100 SXM"):
    elements = ask.median * spec(card, "bandwidth") / 12
    print(f"model, {card:>8}: {elements:>9,.0f} numbers while the host asks once")

# %%
# With smaller arrays the host is the slow one. This is a model, and a kind one where
# the page was built without a GPU: a launch asks the driver as well, and takes longer
# than a call on the CPU. The faster the card, the more you have to give it at once.
#
# What waits, and why
# -------------------
#
# ``.item()`` is only the plainest wait. Any operation has to wait if Python must know a
# *number* before it can go on. How do you find out which ones do? PyTorch has a device
# called ``meta``, on every computer. Its tensors have a shape, but no numbers. What
# works on ``meta`` needs no numbers, so it can be queued. What fails there needs some.

lines = """x + 1; x.sum(); x.argmax(); x.sort(); len(x)
torch.maximum(x[0], x[1]); torch.where(mask, x, 0.0); x.masked_fill(mask, 0.0)
x[0].item(); float(x[0]); int(x[0]); f"{x[0]:.3f}"; str(x); x.tolist(); x.cpu()
1 if x[0] > x[1] else 2; max(x[0], x[1]); torch.allclose(x, x)
range(x.argmax()); x[x.argmax()]
x[mask]; torch.nonzero(mask); torch.unique(x)"""
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
for line in lines:
    print(f"{line:<26} {'WAITS' if line in waiting else 'no wait'}")

# %%
# There are two kinds of numbers that Python may need:
#
# - *A value.* ``.item()``, ``float()``, an ``f"…"`` with the loss in it, ``.cpu()``, a
#   ``print``. Every ``if`` on a tensor. Python's own ``max`` hides an ``if``, too;
#   ``torch.maximum`` decides on the device. A tensor as an index becomes a number.
# - *A size.* How many elements does ``x[mask]`` have? Nobody knows before the mask is
#   computed, and PyTorch must know to find memory for the result. ``torch.where`` and
#   ``masked_fill`` do the same work with a size that is known.
#
# Two more reasons do not show on ``meta``:
#
# - *A verdict.* ``torch.linalg.inv`` raises an error if the matrix has no inverse, so
#   it has to look; its `documentation`__ says that it waits, and names ``inv_ex``,
#   which does not.
# - *Your memory.* ``x.to("cuda")`` returns when it has read ``x``, because you may
#   change ``x`` on the next line. A later page of this chapter is about such copies.
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.linalg.inv.html
#
# In your own program, do not guess. With CUDA or ROCm, ``set_sync_debug_mode("warn")``
# makes PyTorch warn at each wait that it knows of, with the line. Where there is such a
# GPU, this asks it about the same lines, and says where it does not agree with
# ``meta``:

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
    print("No CUDA here, so nobody to ask.")

# %%
# With ``"error"`` in place of ``"warn"``, the first hidden wait in your loop stops it.
# The documentation__ says that the mode is experimental and does not see every wait.
# MPS and XPU have queues and the same waits, but not this mode; there, look for them in
# a profile.
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html
#
# Is it Python's lock?
# --------------------
#
# Back to the textbook. Python's *global interpreter lock*, the GIL, lets one thread at
# a time run Python code. If reading a value took this lock and kept it, then all other
# threads would stand still until the value is there. That can be tested: let one thread
# read, while another one works with a *second* queue, launching and reading small jobs.

import threading

second = ToyStream("second queue")


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


# %%
# An experiment that can only say yes proves nothing. So the last case is one in which a
# thread really keeps the lock: sorting a *list* of Python, which is one long call that
# never lets go of it.


def read_toy():
    for _ in range(20):
        result = stream.launch(np.sort, numbers)
    result.item()


def read_gpu():
    for _ in range(30):
        result = matrix @ matrix
    result[0, 0].item()


readers = {"read from the toy queue": read_toy}
if has_gpu:
    matrix = torch.rand(4096, 4096, device=device)
    readers["read from the GPU"] = read_gpu
a_list = numbers.tolist()
readers["sort a list: keeps the lock"] = lambda: sorted(a_list)
pauses = {}
for name, read in readers.items():
    took, jobs, pause = others_while(read)
    pauses[name] = pause / took
    print(f"{name}: took {1e3 * took:.0f} ms; meanwhile the other thread")
    print(f"   did {jobs} jobs; its longest pause was {pauses[name]:.0%} of that time")

# %%
# While one thread waits for its queue, the other goes on, and so does the second queue.
# Only a thread that *keeps* the lock stops it. PyTorch gives the lock back before it
# waits: the function behind ``.item()`` `begins with that`__. And a GPU does not know
# of the lock at all.
#
# __ https://github.com/pytorch/pytorch/blob/v2.6.0/tools/autograd/templates/python_variable_methods.cpp
#
# So the wait is not the lock's doing. A thread that reads waits *for its own queue*,
# because the value is not there yet. Then that queue is empty, and no other. The
# difference matters. If it were the lock, a Python without it would be the cure, and a
# second GPU would suffer with the first. As it is, the cure is to read less often.
#
# A queue has an end
# ------------------
#
# The host cannot run ahead without limit. A queue holds so many launches, and then the
# next one waits for a place. Here is a toy queue with room for three:

short = ToyStream(depth=3)
took = []
for _ in range(8):
    start = perf_counter()
    short.launch(np.sort, numbers)
    took.append(1e3 * (perf_counter() - start))
short.synchronize()
print("ms for each launch:", "  ".join(f"{ms:.2f}" for ms in took))

# %%
# One piece is being worked on, three wait, and from then on a launch takes as long as
# the *work* of an earlier one. A GPU's queue is longer; somebody who `counted`__ found
# room for about a thousand launches. So if a launch seems slow in a profile, look at
# what is in the queue, not at that line.
#
# __ https://forums.developer.nvidia.com/t/cuda-stream-are-blocked-when-luanch-lots-of-kernels-1000/68937
#
# Marks in the queue
# ------------------
#
# An *event* is a mark that you put into the queue. When the queue comes to it, it notes
# the time. ``query()`` asks without waiting whether that has happened,
# ``synchronize()`` waits for this mark only, and not for what was launched after it.

before = stream.record()
stream.launch(np.sort, numbers)
after = stream.record()
stream.launch(np.sort, numbers)
last = stream.record()
print(f"just launched:       first sort done: {after.query()}")
after.synchronize()
print(f"waited for its mark: first sort done: {after.query()}, all: {last.query()}")
print(f"the queue spent {before.elapsed_time(after):.2f} ms on the first sort")
stream.synchronize()

# %%
# So an event is the clock of the device. With it you can also wait for *one* value, a
# few steps old, while the queue has newer work to do. In PyTorch they are called
# ``torch.cuda.Event``, ``torch.xpu.Event`` and ``torch.mps.event.Event``.
#
# Marks also keep two queues in order. Each of them is in order by itself. Between them,
# nobody promises anything. Let one queue fill an array with ones, and another add them
# up:


def total(wait_for_it):
    copies, sums = ToyStream("copies"), ToyStream("sums")
    inbox = np.zeros(1000)
    copies.launch(np.sort, numbers)  # so that there is something to wait for
    copies.launch(np.copyto, inbox, 1.0)
    arrived = copies.record()
    if wait_for_it:
        sums.wait_event(arrived)  # the queue waits, the host goes on
    return sums.launch(np.sum, inbox).item()


print(f"no event between them: the sum is {total(wait_for_it=False):.0f}")
print(f"an event between them: the sum is {total(wait_for_it=True):.0f}")

# %%
# Without the event, the sum is of whatever was there: most often nothing yet. The host
# launched both in the right order, and that was not enough. ``wait_event`` mends it,
# and no line of the host has to wait.
#
# Errors come out later, and elsewhere
# ------------------------------------
#
# If a call returns before the work is done, it also returns before the work *fails*.
# Three jobs: the second one cannot be done, because a matrix of zeros has no inverse.

jobs = {
    "double": (np.multiply, 2.0, 3.0),
    "invert": (np.linalg.inv, np.zeros((3, 3))),
    "add": (np.add, 1.0, 1.0),
}


def where_it_fails(blocking):
    line = "nowhere"
    try:
        for name, job in jobs.items():
            line = f"at the launch of '{name}'"
            result = stream.launch(*job)
            if blocking:
                stream.synchronize()
        line = "when the result of 'add' was read"
        result.item()
    except RuntimeError as error:
        return f"{line}:\n   {error}"


print("as usual,", where_it_fails(blocking=False))
print("blocking,", where_it_fails(blocking=True))

# %%
# The first message names a line that is right. The fault lies before it, and how far
# before, it does not say. `A GPU does the same`__. There the remedy is to set
# ``CUDA_LAUNCH_BLOCKING=1`` (AMD: ``AMD_SERIALIZE_KERNEL=3``) before the program
# starts. Then every launch waits, as in the second case, and the error points at its
# own line. That is for finding faults, not for every day: you now know what it costs.
#
# __ https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
#
# In one thing the toy is kinder. After an index out of bounds on an NVIDIA GPU, all
# CUDA calls of that process fail from then on, and NVIDIA's `list of errors`__ says
# what is left: end the program and start it anew.
#
# __ https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html
#
# Where this stops being true
# ---------------------------
#
# - *One of the two is much longer.* The price of reading is the *shorter* time. If a
#   step keeps the device busy for long, read the loss at every step and be happy. If
#   the host is the slow one, the device is idle anyway, and you need fewer launches
#   rather than fewer readings.
# - *A wait is not free by itself.* The model says nothing of the time to wake up. For
#   very short steps it counts.
# - *The toy and the lock.* The toy's thread runs NumPy, and needs the GIL for a moment
#   between two calls of it. A GPU never does. And on a single core nothing overlaps.
# - *More than one queue.* ``.item()`` waits for the queue that it was asked in.
#   ``torch.cuda.synchronize()``, ``torch.mps.synchronize()`` and
#   ``torch.xpu.synchronize()`` wait for all queues of one device.
# - *Other libraries.* CuPy, JAX and Numba queue their work, too. NumPy and PyTorch on
#   the CPU do not.
#
# Exercise
# --------
#
# This loop keeps the lowest loss and logs every tenth. Three of its lines wait. Write
# one that returns the same three things and waits *once*, however many steps there are.
# ``gain`` may stay a tensor. ``best`` and the losses in ``log`` have to be numbers.

import math


def fit_and_log(step, gain, batches):
    best, log = math.inf, []
    for number, batch in enumerate(batches, start=1):
        gain, error = step(gain, batch)
        loss = (error**2).mean()
        if loss < best:
            best = loss.item()
        if number % 10 == 0:
            log.append((number, float(loss)))
    return gain, best, log


# %%
# How can a check count waits without a GPU? A ``TorchFunctionMode`` is asked at every
# call of PyTorch. This one notes the calls that hand numbers to Python. For it, your
# batches are on a device. What came over with ``.cpu()``, or was made without
# ``device=``, is on the host: to read that is no wait, to write a result into it is
# one. It also notes which large results somebody still holds.

import weakref

from torch.overrides import TorchFunctionMode

READS = {"item", "tolist", "numpy", "cpu", "tensor", "nonzero", "equal", "allclose"}
READS |= {"__bool__", "__float__", "__int__", "__index__", "__array__", "__format__"}
READS |= {"__repr__", "__contains__", "masked_select", "unique"}
WRITES = {"__setitem__", "copy_", "fill_"}


def tensors_in(args):
    flat = [
        x for arg in args for x in (arg if isinstance(arg, (list, tuple)) else [arg])
    ]
    return [x for x in flat if torch.is_tensor(x)]


# %%


class Waits(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls, self.large, self.here = [], [], []

    def is_here(self, x):
        places = [tensor.untyped_storage().data_ptr() for tensor in self.here]
        return x.untyped_storage().data_ptr() in places

    def __torch_function__(self, call, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        here = [self.is_here(x) for x in tensors_in(args)]
        result, name = call(*args, **kwargs), getattr(call, "__name__", "")
        if name == "to" and "cpu" in map(str, [*args[1:], *kwargs.values()]):
            name = "cpu"
        if not all(here) and (name in READS or (name in WRITES and here[0])):
            self.calls.append(name)
        if torch.is_tensor(result):
            result = result.clone() if name == "cpu" else result
            made_here = (all(here) or name == "tensor") and "device" not in kwargs
            self.here += [result] if name == "cpu" or made_here else []
            self.large += [weakref.ref(result)] if result.numel() > 1 else []
        return result


# %%
# ``run`` gives your loop some batches, and counts what it holds on to.


def run(answer, batches):
    alive = []

    def step(gain, signal):
        alive.append(sum(result() is not None for result in waits.large))
        answer = torch.tanh(gain * signal)
        error = answer - torch.tanh(2 * signal)
        return gain - 8 * (error * (1 - answer**2) * signal).mean(), error

    with Waits() as waits:
        result = answer(step, torch.ones(()), batches)
    return result, waits.calls, max(alive, default=0)


# %%
# ``explain`` compares what comes out with what the loop above gives.


def explain(result, right, calls, alive):
    if not isinstance(result, tuple) or len(result) != 3:
        return "it has to return three things: gain, best, log."
    (gain, best, log), (right_gain, right_best, right_log) = result, right
    if not math.isclose(gain, right_gain, rel_tol=1e-6):
        return "the gain is another one. Do every step."
    numbers, right_numbers = ([n for n, _ in entries] for entries in (log, right_log))
    if numbers != right_numbers:
        return f"the log has the steps {numbers}, and should have {right_numbers}."
    values = {"best": best} | {f"the loss of step {n}": loss for n, loss in log}
    rights = [right_best, *(loss for _, loss in right_log)]
    for (name, value), right_value in zip(values.items(), rights, strict=True):
        if not isinstance(value, float):
            return f"{name} is no number of Python. Whoever prints it will wait."
        if not math.isclose(value, right_value, rel_tol=1e-6):
            return f"{name} is {value:.6f}, and should be {right_value:.6f}."
    if alive > 5:
        return (
            f"it keeps {alive} large results. Keep losses, not what they are made of."
        )
    if len(calls) > 1:
        return f"it waits {len(calls)} times, by {', '.join(sorted(set(calls)))}."
    return ""


# %%
# ``check`` tries numbers of steps that are no multiple of ten, and fewer than ten.


def check(answer):
    for count in (37, 9, 10):
        generator = torch.Generator().manual_seed(count)
        batches = [torch.randn(101, generator=generator) for _ in range(count)]
        right, _, _ = run(fit_and_log, batches)
        try:
            result, calls, alive = run(answer, batches)
            problem = explain(result, right, calls, alive)
        except Exception as error:
            problem = f"it raised {type(error).__name__}: {error}"
        if problem:
            return f"Not yet. With {count} steps, {problem}"
    return "Right: the same log, the same result, and one wait."


print(check(fit_and_log))

# %%

# solution


def fit_and_log_solution(step, gain, batches):
    best, numbers, losses = None, [], []
    for number, batch in enumerate(batches, start=1):
        gain, error = step(gain, batch)
        loss = (error**2).mean()
        best = loss if best is None else torch.minimum(best, loss)
        if number % 10 == 0:
            numbers.append(number)
            losses.append(loss)
    best, *losses = torch.stack([best, *losses]).tolist()  # the only wait
    return gain, best, list(zip(numbers, losses, strict=True))


print(check(fit_and_log_solution))

# %%
# ``torch.minimum`` decides on the device. The logged losses stay there, too, one number
# each, and come over together. If your loss has gradients, keep ``loss.detach()``:
# otherwise each entry also keeps what is needed to compute them.
#
# Three lines to remember
# -----------------------

each, end = bench[f"{where}, read each step"], bench[f"{where}, read at the end"]
print("1. A launch returns at once. Who needs a number waits: a value or a size.")
print("2. A step takes max(host, device) + min(host, device) / k, reading each k-th.")
print(
    f"   k = 1 took {each.median / end.median:.2f} times as long as reading at the end"
)
print(f"   here ({where}). The model allows 2 at most.")
print("3. The wait is for the queue, not for Python's lock. Read late and together.")
