"""
Why does printing the loss slow a GPU down?
===========================================

A loop trains a model on a GPU. At every step it prints the *loss*, a number that says
how wrong the model still is. Take the ``print`` away, and the same loop is often done
sooner. `A well-known textbook`__ says why: reading the loss back "will trigger a global
interpreter lock which stalls all GPUs". So it advises to log rarely. The advice is
good. Is the reason right?

__ https://github.com/d2l-ai/d2l-en/blob/02c6a2a15fe79c6e63a0fc58368bfffca94df554/chapter_builders-guide/use-gpu.md

**You will learn**

- what a call to a GPU does at once, and what it leaves for later;
- to predict from two numbers what it costs to read a value at every step;
- which lines wait without saying so, and how to find yours;
- why an error can point at a line that is right.

**Time:** 20 minutes. **Needs:** any computer. Without a GPU, a thread of your program
plays its part, on another core of your CPU.
"""

# %%
# Predict
# -------
#
# A GPU is a computer of its own. The program on the CPU, the *host*, does not do the
# GPU's work and does not watch it either. It puts each piece of work into a *queue* and
# goes on. That is called a *launch*. The GPU, the *device*, takes the work out in the
# same order, one piece after the other. CUDA, NVIDIA's system for its GPUs, calls such
# a queue a *stream*.
#
# So a step of a loop takes two times, on two processors: :math:`h`, what the host needs
# to prepare it (Python, reading data, launching), and :math:`d`, what the device needs
# for the work. Say that :math:`h` is 2 units of time and :math:`d` is 3. Write down how
# long 100 of these steps take
#
# - if the host launches all of them, and reads one result at the end;
# - if it reads a result after each step, before it prepares the next.
#
# In the first case both work at the same time, and the slower one sets the pace: about
# 300 units. In the second they take turns. The host cannot read what is not computed
# yet, so it waits. The device has an empty queue while the host prepares the next step,
# so it waits, too: 500 units.
#
# What if the host reads after every :math:`k`-th step? Those :math:`k` steps take
# :math:`h` until the device has something to do, then :math:`k - 1` times the longer
# of the two, and :math:`d` for the last one: :math:`h + d + (k - 1) \max(h, d)`. Now
# :math:`h + d` is the longer plus the shorter, so one step takes
#
# .. math::
#
#     t(k) = \max(h, d) + \frac{\min(h, d)}{k}.
#
# The first term is what the loop takes anyway. The second is the price of reading. It
# makes two promises that you can test. Reading at every step at most *doubles* the
# time, because the worst that can happen is to take turns. And reading every tenth step
# costs a tenth of that price.
#
# A queue that you can look into
# ------------------------------
#
# A GPU shows little of its queue. So here is a toy: ``ToyStream`` is a queue with a
# *thread* of its own, a part of your program that runs beside the rest. What you launch
# is really computed there, later and in order. Only times of a CPU come out of it, but
# it keeps the rules of a GPU's queue, and you can see everything.

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

# %%
# ``launch`` gives back a placeholder: the result is not there yet. ``.item()`` asks for
# it, as it asks a *tensor*, PyTorch's array, for its number. Which of the two takes the
# time, the call or the reading? The same question for PyTorch:

calls = {"toy queue": lambda: stream.launch(np.sort, numbers)}
for place in dict.fromkeys(("cpu", device.type)):
    tensor = torch.from_numpy(numbers).to(place)
    calls[f"torch, {place}"] = lambda tensor=tensor: tensor.sort().values[-1]

for name, call in calls.items():
    call().item()  # the first call may do work that later ones do not
    start = perf_counter()
    result = call()
    called = perf_counter()
    result.item()
    read = perf_counter()
    print(f"{name}: call {1e3 * (called - start):.2f} ms, ", end="")
    print(f"then reading {1e3 * (read - called):.2f} ms")

# %%
# Compare within a line, not the lines with each other: the two libraries sort in
# different ways. On the CPU, PyTorch has no queue. The call sorts, and there is nothing
# left to wait for. That is why none of this shows before your first GPU. With a queue
# the call returns at once, and the *reading* waits for the sorting. Put your clock
# around the call, and you have timed the launch.
#
# A loop to test
# --------------
#
# A detector answers a signal :math:`x` with :math:`\tanh(2 x)`. You know the signals
# and the answers, but not the 2, its *gain*. Each step moves a guess of it a little
# towards a smaller error. That is the device's part, written for NumPy and PyTorch:


def update(gain, light, brightness):
    tanh = torch.tanh if torch.is_tensor(light) else np.tanh
    signal = brightness * light
    answer = tanh(gain * signal)
    error = answer - tanh(2 * signal)
    return gain - 8 * (error * (1 - answer**2) * signal).mean()


# %%
# The host's part stands for what hosts do between two launches: it prepares. In each
# step the lamp is a little brighter or darker, and the host finds out how bright, by
# drawing random numbers and averaging them. With the toy queue a step is one launch.
# With PyTorch on a GPU, each of the dozen operations in ``update`` is a launch.


class Experiment:
    def __init__(self, size, on_gpu=has_gpu):
        self.stream = ToyStream()  # also notes what the host does, for the picture
        self.light = np.random.default_rng(0).standard_exponential(size, np.float32)
        self.on_gpu = on_gpu
        if on_gpu:
            self.light = torch.from_numpy(self.light).to(device)

    def prepare(self, number):
        with self.stream.host(f"{number}"):
            rng = np.random.default_rng(number)
            return float(rng.standard_exponential(60_000, np.float32).mean())

    def step(self, gain, brightness, number):
        if self.on_gpu:
            return update(gain, self.light, brightness)
        work = (update, gain, self.light, brightness)
        return self.stream.launch(*work, label=f"{number}")


# %%
# The loop is the same for both. ``every`` says how often it reads the gain, and
# ``.item()`` is the line that waits.


def fit(place, every, steps=20):
    gain, log = 1.0, []
    for number in range(1, steps + 1):
        gain = place.step(gain, place.prepare(number), number)
        if number % every == 0:
            log.append(gain.item())
    return log


# %%
# Check
# -----
#
# ``gain`` goes into the next launch before anybody has computed it. Is the result still
# right? The order of the queue says yes: when a step is due, the one before is done.
# Check it against a plain loop in ``float64``, on an odd size, and check that it does
# not depend on how often somebody looks.

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
# Why it takes longer
# -------------------
#
# Now watch steps 1 to 8 on the toy queue: once the gain is read after each step, once
# only at the end. The toy notes what the host and the queue do, from when to when. (It
# does this forty times, and you see the quickest. Other programs want your cores,
# too.)

toy = Experiment(60_000, on_gpu=False)


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
    title: min((watch(every) for _ in range(40)), key=length)
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
# Blue is the host, preparing a step. Orange is the queue, computing it. Above, they
# take turns, and each gap in the orange lane is a *bubble*: a device that waits for the
# host. Below, the host goes on without waiting, until it reads at the end. Both do the
# same work. Only the waits between the steps are gone.
#
# Measure
# -------
#
# The prediction needs two numbers. For :math:`h`, the loop gets a light of one single
# value, so that there is next to nothing to compute. For :math:`d`, the steps are
# launched without being prepared, so that the host has next to nothing to do.


def device_alone(place, steps=20):
    gain = 1.0
    for number in range(steps):
        gain = place.step(gain, 1.0, number)
    gain.item()


steps = 20
place, tiny = Experiment(2**25 if has_gpu else 60_000), Experiment(1)
reads = {1: "each step", 2: "each 2nd step", 5: "each 5th step", 10: "each 10th step"}
reads[steps] = "at the end"

bench = Bench("queues")
bench.time(f"{where}, host alone", fit, tiny, steps, device=device)
bench.time(f"{where}, device alone", device_alone, place, device=device)
for every, when in reads.items():
    bench.time(f"{where}, read {when}", fit, place, every, device=device)
bench.show()

# %%
# A row is one run of the loop, all 20 steps of it. Where the labels say *toy queue*,
# these are times of a CPU, which plays both parts. The column *cores* shows it, if
# nobody else uses them: one while the two take turns, more while both work. On a GPU,
# the verdict *launch-bound* means that the device waited for the host, as it shall for
# *host alone*.
#
# Now the test. The first two rows give :math:`h` and :math:`d`, and these give the
# rest. Other programs can only make a run longer, so compare the fastest runs:


def fastest(label):
    return min(bench[f"{where}, {label}"].values) / steps


h, d = fastest("host alone"), fastest("device alone")
measured = np.array([fastest(f"read {when}") for when in reads.values()])


def predict(every):
    return max(h, d) + min(h, d) / every


ratios = measured / [predict(every) for every in reads]
print(f"h = {1e3 * h:.3f} ms, d = {1e3 * d:.3f} ms")
for (every, when), ratio in zip(reads.items(), ratios, strict=True):
    t = 1e3 * predict(every)
    print(f"read {when}: predicted {t:.2f} ms a step; measured {ratio:.2f} times that")

cores = bench[f"{where}, read at the end"].cores
free = has_gpu or cores > 1.2
if not free:
    print(f"Only {cores:.1f} cores were to be had. Two are needed: this is no test.")

# %%
# As a picture. The curve is not fitted to the points: it comes from the first two rows
# alone. A thin line goes up from each point to what three quarters of the runs stayed
# under.

fig, ax = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
curve = np.geomspace(1, steps)
ax.plot(curve, 1e3 * predict(curve), "--", color=MODEL, lw=2, label="model: t(k)")
slow = [bench[f"{where}, read {when}"].quartiles[1] / steps for when in reads.values()]
up = [0 * measured, 1e3 * np.maximum(slow - measured, 0)]
style = {"fmt": "o", "color": HOST, "capsize": 3, "label": "measured"}
ax.errorbar([*reads], 1e3 * measured, up, **style)
for level in (h + d, max(h, d)):
    ax.axhline(1e3 * level, color=QUEUE, lw=1.5, ls=":")
ax.text(steps, 1e3 * (h + d), "host + device", ha="right", va="bottom")
ax.text(1, 0.98e3 * max(h, d), "the longer of the two", va="top")
ax.set(xscale="log", xlabel="steps from one reading to the next, k")
ax.set(ylabel=f"ms a step, {where}", ylim=(0, 1.15e3 * max(h + d, *measured)))
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
# Two things lift points above the curve. A wait costs something itself, because a
# sleeping thread has to be woken; for very short steps that counts. And the toy needs
# two cores: where other programs had one of them, host and queue could not work at the
# same time, and the points stay up.
# On the newest GPU on record, the speed-up of reading at the end over reading each step
# is :timing:`queues speedup "GPU, read at the end"/"GPU, read each step" @gpu`.
#
# What waits, and why
# -------------------
#
# ``.item()`` is only the plainest wait. Any operation has to wait if Python must know a
# *number* before it can go on. How do you find out which ones do? PyTorch has a device
# called ``meta``, on every computer. Its tensors have a shape, but no numbers. A line
# that works on ``meta`` needs no numbers, so it can be queued. A line that fails there
# needs some. Here ``x`` is a tensor, and ``mask`` says where it is above a half. Guess
# first:

lines = """x + 1; x.sum(); x.argmax(); len(x)
torch.maximum(x[0], x[1]); torch.where(mask, x, 0.0)
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
for line in lines:
    print(f"{line:<26} {'WAITS' if line in waiting else 'no wait'}")

# %%
# There are two kinds of numbers that Python may need:
#
# - *A value.* ``.item()``, ``float()``, an ``f"…"`` with the loss in it, ``str``, which
#   every ``print`` calls. Every ``if`` on a tensor. Python's own ``max`` hides an
#   ``if``, too; ``torch.maximum`` decides on the device.
# - *A size.* How many elements does ``x[mask]`` have? Nobody knows before the mask is
#   computed, and PyTorch must know to find memory for the result. ``torch.where`` keeps
#   the size, and puts zeros where the mask says no.
#
# Two reasons more do not show on ``meta``. ``torch.linalg.inv`` raises an error if a
# matrix has no inverse, so it has to look; its documentation__ names ``inv_ex``, which
# need not. And ``x.to("cuda")`` has to read ``x`` before you change it on the next
# line (:doc:`/tutorials/2_devices/05_transfers` is about such copies).
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.linalg.inv.html
#
# In your own program, do not guess. With NVIDIA and AMD cards,
# ``torch.cuda.set_sync_debug_mode("warn")`` makes PyTorch warn at each wait that it
# knows of, and the warning names the line. Where there is such a card, the next cell
# asks it about the same lines, and says where it does not agree with ``meta``.

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
    print("This PyTorch has no such card to ask.")

# %%
# With ``"error"`` in place of ``"warn"``, the first hidden wait in your loop stops it.
# The documentation__ says that the mode is experimental and does not see every wait.
# On the GPUs of Apple and Intel there is no such mode. Look for the waits in a
# *profile* there, a record of what ran when.
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html
#
# Is it Python's lock?
# --------------------
#
# Back to the textbook. Python's *global interpreter lock*, the GIL, lets only one
# thread at a time run Python code. If reading a value took this lock and kept it, all
# other threads would stand still until the value is there. So let one thread read,
# while another one works with a *second* queue, and note when it gets a job done.

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
# A test that can only acquit proves nothing. So the last case really keeps the lock:
# sorting a *list* of Python is one long call that never lets go of it.


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
readers["sort a list"] = lambda: sorted(a_list)
for name, read in readers.items():
    took, jobs, pause = others_while(read)
    print(f"{name}: {1e3 * took:.0f} ms; meanwhile the other thread did {jobs} jobs,")
    print(f"   and its longest pause was {pause / took:.0%} of that time")

# %%
# Compare the pauses. The list stops the other thread for nearly all of its time. If a
# wait for a queue kept the lock, its pause would be as long.
#
# Be strict with this test, too. The toy gives the lock back while it waits because it
# was written so. What about PyTorch? With a GPU, its own line above answers. Without
# one, read its source: the functions behind ``.item()`` `give the lock back`__ before
# they do anything else. And the GPU itself runs no Python, so it knows of no lock.
#
# __ https://github.com/pytorch/pytorch/blob/v2.6.0/tools/autograd/templates/python_variable_methods.cpp
#
# So the textbook's advice stands, and its reason does not. Who reads waits for *one
# queue*, because the value is not there yet. That queue runs dry. No other does. The
# difference matters: if it were the lock, a Python without it would be the cure, and a
# second GPU would suffer with the first. As it is, the cure is to read less often.
#
# A mark in the queue
# -------------------
#
# Can you wait for less than the whole queue? An *event* is a mark that you put into it.
# When the queue comes to the mark, it notes the time. ``query()`` asks without waiting
# whether that has happened. ``synchronize()`` waits for this mark, and not for what was
# launched after it.

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
# So an event is also the clock of the device: it is read where the work is done. In
# PyTorch, events are called ``torch.cuda.Event``, ``torch.xpu.Event`` (Intel) and
# ``torch.mps.event.Event`` (Apple).
#
# Errors come out later, and elsewhere
# ------------------------------------
#
# If a call returns before the work is done, it also returns before the work *fails*.
# Three jobs: the second one cannot be done, because a matrix of zeros has no inverse.

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
# The error comes out at a line that is right. The fault lies before it, and how far
# before, it does not say. `A GPU does the same`__. There the remedy is to set
# ``CUDA_LAUNCH_BLOCKING=1`` (AMD: ``AMD_SERIALIZE_KERNEL=3``) before the program
# starts. Then every launch waits for its work, and the error points at its own line.
# That is for finding faults, not for every day: you now know what it costs.
#
# __ https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
#
# Where this stops being true
# ---------------------------
#
# - *One of the two is much longer.* The price of reading is the *shorter* time. If a
#   step keeps the device busy for long, read the loss at every step and be happy. If
#   the host is the slow one, the device is idle anyway, and you need fewer launches
#   rather than fewer readings.
# - *Many launches in a step.* The device starts with the first launch, while the host
#   is at the next ones. Then reading costs only what the host does between the reading
#   and that first launch. The model's price is the most that it can be.
# - *A queue has an end.* Somebody who `counted`__ found room for about a thousand
#   launches. When it is full, a launch waits as well, and looks slow in a profile.
# - *More than one queue.* ``.item()`` waits for the queue that it was asked in.
#   ``torch.cuda.synchronize()`` waits for all of them on one device. Each queue is in
#   order, but `between two of them`__ nobody promises any order, unless one waits for
#   an event of the other.
#
# __ https://forums.developer.nvidia.com/t/cuda-stream-are-blocked-when-luanch-lots-of-kernels-1000/68937
# __ https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams
#
# Exercise
# --------
#
# This loop keeps the lowest loss, and logs every tenth. Two of its lines wait. Write
# one that never waits, and returns three tensors: the gain, ``best`` with one number,
# and ``log`` with every tenth loss. Whoever calls it can read them together, once.

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
# ``run`` gives your loop some steps to do, on any device.


def step(gain, signal):
    answer = torch.tanh(gain * signal)
    error = answer - torch.tanh(2 * signal)
    return gain - (error * (1 - answer**2) * signal).mean(), (error**2).mean()


def run(answer, device, count):
    generator = torch.Generator().manual_seed(count)
    sizes = 2 * torch.rand(count, 1, generator=generator)
    batches = (sizes * torch.randn(count, 101, generator=generator)).to(device)
    return answer(step, torch.ones((), device=device), list(batches))


# %%
# ``explain`` compares the results on the CPU, where nothing waits. Then it runs your
# loop on ``meta``, where a line that needs a number fails.


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
        return f"a line waits. On a device without numbers it says: {error}"
    return ""


# %%
# ``check`` also tries fewer than ten steps, and exactly ten. (A ``print`` in the loop
# gets past it, as ``meta`` prints dots in place of numbers.)


def check(answer):
    for count in (37, 9, 10):
        try:
            problem = explain(answer, count)
        except Exception as error:
            problem = f"it raised {type(error).__name__}: {error}"
        if problem:
            return f"Not yet. With {count} steps, {problem}"
    return "Right: the same results, and no line waits."


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
# The losses stay on the device, one number each, and the device finds the lowest. If
# yours have gradients, keep ``loss.detach()``: otherwise each one also keeps all that
# is needed to compute them.
#
# Three lines to remember
# -----------------------

each, end = 1e3 * measured[0], 1e3 * measured[-1]
busy = "" if free else ", on cores that were not free"
print("1. A launch returns at once. Who needs a number waits: a value or a size.")
print("2. A step takes max(host, device) + min(host, device) / k, reading each k-th.")
print(f"   Here ({where}{busy}): {each:.2f} ms reading each step,")
print(f"   {end:.2f} ms reading at the end; predicted were {1e3 * predict(1):.2f} and")
print(f"   {1e3 * predict(steps):.2f} ms.")
print("3. The wait is for the queue, not for Python's lock. Read late and together.")
