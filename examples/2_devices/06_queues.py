"""
Why does printing the loss slow a GPU down?
===========================================

Your loop prints the loss after each step, because you like to see it fall. Then
somebody tells you to print only every tenth one, and the loop runs noticeably faster.
How can that be? A loss is a single number.

**Write down a guess:** if you stop printing at every step, what's the most that you can
gain: a few percent, a half of the time, or nine tenths of it? By the end you'll be able
to predict it, and you'll know what to write instead.

**Needs:** any computer, and some PyTorch. Without a GPU, you'll see what an NVIDIA H100
did.
"""

# %%
# Copy this: a loop that logs the loss and doesn't wait
# -----------------------------------------------------
#
# Keep the loss itself, not its ``.item()``, and read a hundred of them at once:

import torch

gpu = torch.device("cuda" if torch.cuda.is_available() else "cpu")
losses, history = [], []
for count in range(1, 201):
    loss = torch.rand(1003, device=gpu).square().mean()  # in place of your step
    losses.append(loss.detach())  # does not wait
    if count % 100 == 0:
        history += torch.stack(losses).tolist()  # waits, once for all
        losses.clear()
print(f"{len(history)} losses, the last one {history[-1]:.3f}")

# %%
# ``detach()`` matters. Without it, a loss that never sees ``backward()``, as in
# validation, keeps all that its gradient would need, and :doc:`your memory fills up
# <10_memory>`.
#
# Try it
# ------
#
# We give the GPU something long to do: it has to sort 50 million numbers. We look at
# the clock twice, when the call returns, and when we've read one number of the result.
# **Which of the two will take longer?**
#
# Without a GPU, a second thread of your program takes the orders and carries them out
# later. It sorts half a million numbers.

# folded: The imports, and the helper for computers without a GPU

from time import perf_counter, sleep

import numpy as np

from firstlight import Bench, best_device
from firstlight.display import BLUE, GREY, ORANGE, quantity, show_table
from firstlight.timing.toy_stream import ToyStream

device = best_device()
has_gpu = device.type != "cpu"
where = "GPU" if has_gpu else "toy"
stream = ToyStream("stream")

# %%

size = 50_000_000 if has_gpu else 500_000
many = torch.rand(size, device=device)


def largest(tensor):
    return tensor.sort().values[-1]


def start_sorting():
    return largest(many) if has_gpu else stream.launch(largest, many)


start_sorting().item()  # the first call may do work that later ones do not
start = perf_counter()
result = start_sorting()
called = perf_counter()
value = result.item()
read = perf_counter()
print(f"the call:    {quantity(called - start, 's')}")
print(f"the reading: {quantity(read - called, 's')}")

# %%
# The call to sort all these numbers was over almost at once. Then ``.item()``, which
# reads a single one, took far longer. If you have no GPU, you saw the *toy*: its times
# aren't those of a GPU, but its manners are. When you ask a GPU for something, PyTorch
# only writes the job on a list, and your program goes on. We say that it
# :term:`launches <launch>` the job. The list is called a :term:`stream`, and the GPU
# works through it in order. With ``.item()`` you ask for a number that doesn't exist
# yet, so your program has to stand still until the GPU has got there. And
# ``print(loss)`` does the same. On a CPU you'll never see this, because there a call
# does the work itself.
#
# Which lines make you wait? All those for which Python must know a *value*, such as
# ``if loss < best``, or a *size*, such as ``x[mask]``. For example, ``torch.maximum(a,
# b)`` of two tensors goes on, and Python's own ``max(a, b)`` waits. Other lines you can
# :doc:`look up </copies_and_waits>`. To find those of your own program, write
# ``torch.cuda.set_sync_debug_mode("warn")`` at its beginning. On an NVIDIA GPU, you
# then get a warning for most lines that wait.
#
# A cook and a waiter
# -------------------
#
# But the work has to be done anyway! Why should it cost anything to wait for it?
#
# Think of a restaurant with a cook and a waiter. The waiter is your program, on the
# CPU, which we call the :term:`host`. He writes orders on the list. The cook is the
# GPU, the :term:`device`, who works through them. As long as there's another order on
# the list, the cook never stops.
#
# Now let the waiter stand at the hatch after each order until the dish is ready. While
# the cook works, the waiter does nothing, and while the waiter takes the next order,
# the cook does nothing. Nobody works any slower, and yet dinner takes longer.
#
# In the figure, the host needs 2 units of time for a step, and the device needs 3.
# **Before you look: how long will six steps take, if the waiter waits each time?**

# figure

import matplotlib.pyplot as plt

ways, ends = {"read after each step": 1, "read at the end": 6}, []
fig, axes = plt.subplots(2, figsize=(7.2, 3.8), sharex=True, layout="constrained")
for ax, (title, every) in zip(axes, ways.items(), strict=True):
    host = end = 0
    for number in range(1, 7):
        begin = max(host + 2, end)  # the device needs the order, and its hands free
        for row, left, wide in ((0, host, 2), (1, begin, 3)):
            style = {"fc": (BLUE, ORANGE)[row], "ec": "white", "height": 0.7}
            ax.barh(row, wide, left=left, **style)
            ink = {"ha": "center", "va": "center", "color": "#fefefe", "size": 11}
            ax.text(left + wide / 2, row, number, **ink)
        host, end = host + 2, begin + 3
        if number % every == 0:  # the host waits for the device
            ax.barh(0, end - host, left=host, height=0.7, fill=False, hatch="////")
            host = end
    ends.append(end)
    ax.set_yticks([0, 1], ["host", "device"])
    ax.invert_yaxis()
    ax.set_title(f"{title}: {end} units, the device idle for {1 - 18 / end:.0%}")
axes[1].set_xlabel("units of time, in a model (hatched: the host waits)")
fig.set_label(
    "Two pairs of lanes, host and device, over time, with six numbered steps. Read "
    f"after each step, the lanes take turns: {ends[0]} units. At the end, "
    f"the host prepares later steps while the device works: {ends[1]} units."
)
plt.show()

# %%
# In the upper half the two take turns, so each step costs the sum of both times, and
# six steps cost 30. In the lower half only the slower of the two counts: 6 × 3 units,
# and 2 more until the first order has arrived. The gaps in the orange lane are called
# *bubbles*. So printing costs you bubbles, and not the bytes of a number.
#
# Predict your own loop
# ---------------------
#
# A step takes :math:`h` on the host before its first launch, for loading and Python,
# and :math:`d` on the device. Launches themselves hardly count if there are many in a
# step, because the device is at work on the first while the host launches the next.
# If nobody reads, a step costs the longer of the two. If you read after
# every :math:`k` steps, you pay for the shorter one as well, once in :math:`k` steps:
#
# .. math::
#
#     t(k) = \max(h, d) + \frac{\min(h, d)}{k}.
#
# So reading can at most double the time of your loop, and it does so if host and device
# are equally busy. Was your guess higher? You may still be right if your steps are very
# short, because the model leaves out what the wait itself costs.
#
# Let's test it on a loop that looks like training. A detector answers light :math:`x`
# with :math:`\tanh(2 x)`, and the *gain*, 2, is to be found. In place of loading data,
# our host takes a nap in ``prepare``:


def fit(place, every, steps=20):
    gain, log = 1.0, []
    for number in range(1, steps + 1):
        brightness = place.prepare(number)
        gain = place.step(gain, place.light, brightness, number=number)
        if number % every == 0:
            log.append(gain.item())  # the line that waits
    return log


# %%

# folded: The step of this loop, on a GPU and on the toy

# On a GPU, each operation in ``update`` is a launch; with the toy, the whole step is
# one. The host waits for the lamp's next brightness, as if it came from a disk. A GPU
# does not use the host's cores, so the toy sleeps until ``pace`` seconds have passed.


def update(gain, light, brightness):
    tanh = torch.tanh if torch.is_tensor(light) else np.tanh
    signal = brightness * light
    answer = tanh(gain * signal)
    error = answer - tanh(2 * signal)
    return gain - 8 * (error * (1 - answer**2) * signal).mean()


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

# folded: The same gain, however often you look, on an odd size

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
# How do you measure :math:`h` and :math:`d` of a loop? For :math:`h`, run it on next to
# no data, here on an array of length 1. That counts the launches, too, so you get
# :math:`h` or a little more. For :math:`d`, launch the steps without preparing anything
# for them, and wait at the end. That's right if launching a step takes less than
# :math:`d`. If not, add up the times of its kernels in a :doc:`profile <14_profile>`.
#
# On an H100, twenty steps of the host alone took :timing:`queues median "GPU, host
# alone" @nvidia-h100-80gb-hbm3`, half of it asleep, and twenty of the GPU alone took
# :timing:`queues median "GPU, device alone" @nvidia-h100-80gb-hbm3`. **Take a minute
# now, and predict two times: twenty steps with a reading in each, and with one reading
# at the end.**
#
# .. holds::
#
#    host = min(row("queues/GPU, host alone").values) / 20
#    near(4e-4 / host, 0.5, 0.14)  # the script sleeps for 0.4 ms a step

# folded: The measurement: the host alone, the device alone, and five ways to read


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

# folded: Other programs can only make a run longer, so the fastest runs count


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

# folded: Predicted and measured, as a table


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
# Did you predict the sum, and the longer of the two? With a reading in each step, the
# H100 took a little less than the sum, :timing:`queues median "GPU, read each step"
# @nvidia-h100-80gb-hbm3`. With one at the end it took :timing:`queues median "GPU, read
# at the end" @nvidia-h100-80gb-hbm3`, and was :timing:`queues speedup "GPU, read at the
# end"/"GPU, read each step" @nvidia-h100-80gb-hbm3` as fast. Reading only every tenth
# took :timing:`queues median "GPU, read each 10th step" @nvidia-h100-80gb-hbm3`, which
# is nearly as good as never, because nine of ten bubbles are gone.
#
# .. holds::
#
#    device = min(row("queues/GPU, device alone").values) / 20
#    fastest = lambda when: min(row(f"queues/GPU, read {when}").values) / 20
#    reads = {1: "each step", 2: "each 2nd step", 5: "each 5th step"}
#    reads |= {10: "each 10th step", 20: "at the end"}
#    all(near(fastest(reads[n]), device + host / n, 0.06) for n in reads)
#
# And the wait itself? The authors of Torch-FL measured :spec:`PyTorch operation
# seconds` for a launch on an A100, and :spec:`wait for a GPU seconds` more if you wait
# for it. The table has these as its model, beside what others found:
#
# .. measured-by-others:: wait-rtx5090 wait-mi300x trip-rtx5060 trip-m1pro
#
# So if a step is as short as that, waiting can more than double its time. An
# :doc:`addition of two vectors <07_timing_it_right>` on the H100 was
# :timing:`timing-it-right speedup "GPU, one wait"/"GPU, a wait each"
# @nvidia-h100-80gb-hbm3` as fast if we waited once for many.
#
# If a step keeps the device busy for seconds, and the host for much less, read the loss
# at every step. And if the host is far slower than the device, you need :doc:`fewer
# launches </tutorials/2_devices/16_fewer_launches>` rather than fewer readings. Copies
# can go on without a wait as well, with :doc:`non_blocking=True <08_pinned_memory>` and
# :doc:`several streams <09_copy_and_compute>`.
#
# .. holds::
#
#    once, each = (f"timing-it-right/GPU, {how}" for how in ("one wait", "a wait each"))
#    median(each) > 2 * median(once)
#
# Is it Python's lock?
# --------------------
#
# `A well-known textbook`__ says that printing the loss "will trigger a global
# interpreter lock which stalls all GPUs". Its advice to log rarely is right, but the
# lock isn't the reason. It lets only one thread at a time run Python code, and
# ``.item()`` `gives it back`__ before it waits. So other threads go on, and so do other
# streams and other GPUs. We let a thread do small jobs meanwhile, and only sorting a
# list, which keeps the lock, holds it up:
#
# __ https://github.com/d2l-ai/d2l-en/blob/02c6a2a15fe79c6e63a0fc58368bfffca94df554/chapter_builders-guide/use-gpu.md
# __ https://github.com/pytorch/pytorch/blob/v2.6.0/tools/autograd/templates/python_variable_methods.cpp

# folded code: What another thread gets done while somebody reads

import threading

numbers = np.random.default_rng(seed=1).random(500_000, dtype=np.float32)
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
# Break it: an error that comes too late
# --------------------------------------
#
# If a call returns before its work is done, it also returns before the work *fails*. We
# give the toy three jobs. The second can't be done, because a matrix of zeros has no
# inverse. **Which line will raise the error?**

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
# It's ``total.item()``, which has nothing to do with the matrix! `A GPU does the
# same`__. The fault is somewhere before the line that you see, between it and the last
# line that waited.
#
# So if you meet an error in a line that can't be wrong, set ``CUDA_LAUNCH_BLOCKING=1``
# before your program starts, or on AMD ``AMD_SERIALIZE_KERNEL=3``. Then every launch
# waits, and the error comes out where it belongs. Take it away afterwards, because it's
# slow.
#
# __ https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
#
# Your turn
# ---------
#
# This loop keeps the lowest loss, and logs every tenth. Two of its lines wait.

import math


def fit_and_wait(step, gain, batches):
    best, log = math.inf, []
    for number, batch in enumerate(batches, start=1):
        gain, loss = step(gain, batch)
        best = min(best, loss)
        if number % 10 == 0:
            log.append(loss.item())
    return gain, best, torch.tensor(log)


# %%
# Write a loop that never waits. It returns three tensors: the gain, ``best`` with one
# number, and ``log`` with every tenth loss. Put your answer where the dots are, and run
# ``firstlight try 06_queues.py``.


def fit_and_log(step, gain, batches): ...


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
    right, result = run(fit_and_wait, "cpu", count), run(answer, "cpu", count)
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
# Three lines to remember
# -----------------------
#
# The second line is for steps that are long beside the wait itself.

# remember

print("""\
1. A launch returns at once. A line waits if Python needs a number from the GPU: a
   value, or a size.
2. Reading after every k-th step costs max(h, d) + min(h, d) / k a step, for a host that
   needs h and a device that needs d. So it can double the time, and no more.
3. Keep the losses on the GPU, detached, and read a hundred at once.""")

# %%
# Solution
# --------

# solution


def fit_and_log_solution(step, gain, batches):
    losses = []
    for batch in batches:
        gain, loss = step(gain, batch)
        losses.append(loss)
    losses = torch.stack(losses)
    return gain, losses.min(), losses[9::10]


print(f"Our solution: {check(fit_and_log_solution)}")

# %%
# Why do my kernels get slower after about a thousand launches?
# -------------------------------------------------------------
#
# They don't. A queue has room for about a thousand launches, though CUDA promises no
# number. Until it is full, your loop only measures how long it takes to write an order.
# Then it has to wait until the cook has finished one before it can write the next. So
# the time of a call jumps from that of a launch to that of a kernel, which is what it
# took all along. Wait before you stop the clock, and no call will stand out
# (:doc:`/tutorials/2_devices/07_timing_it_right`).
#
# The same trap has another face: inference looks fast, and the next line that touches
# the GPU looks slow, such as ``.cpu()``, ``.item()``, ``print`` or a copy of a new
# tensor. It waits there for the inference.
