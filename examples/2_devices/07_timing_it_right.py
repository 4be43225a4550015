"""
How do you time a call so that you can trust the number?
========================================================

You've rewritten a function. You time the old version and the new one, once each, and
the new one is a tenth faster. To be sure, you run your script again. Now it's slower.
Which of the two do you report?

**Take a guess:** if you time one and the same call ten times, how far apart are the
shortest and the longest time? By the end you'll have a timer of twenty lines, and
you'll be able to say which of two versions is faster and by how much, give or take.

**Needs:** any computer.
"""

# %%
# Copy this: time a call on the GPU, and wait for it
# --------------------------------------------------
#
# On a GPU you have to *wait* for the result before you look at the clock, because a
# call only asks the GPU to work:
#
# .. code-block:: python
#
#    start = perf_counter()
#    y = x @ x
#    asked = perf_counter() - start  # wrong: the GPU has only been asked
#    torch.accelerator.synchronize()  # waits until it is done
#    done = perf_counter() - start  # right
#
# On our H100 the call for a product of two large matrices returned after a
# two-hundredth of the time that the product took. So if you see a speed-up of hundreds,
# look for this wait. To catch such a mistake, divide your call's bytes or operations by
# what the card can do in a second: :doc:`no call can take less
# </tutorials/2_devices/03_is_it_possible>`.
#
# .. holds::
#
#    ten = "2_devices/03_is_it_possible"
#    asked, done = printed(r"asked after (\d+) µs, done after (\d+),", page=ten)
#    near(1000 * done / asked, 200, 0.1)
#
# PyTorch comes with a timer that waits, makes many calls, and gives you the
# :term:`median`:

import torch
from torch.utils.benchmark import Timer

gpu = (
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else None
)
matrix = torch.rand(1_000, 1_000, device=gpu)

threads = torch.get_num_threads()
timer = Timer("matrix @ matrix", globals={"matrix": matrix}, num_threads=threads)
timer.timeit(1)  # the first call does more than all others, so it doesn't count
took = timer.blocked_autorange()
print(f"{1e6 * took.median:.0f} µs, middle half within {1e6 * took.iqr:.0f} µs")

# %%
# The second number says how far apart the middle half of the times lie. Our CPU, an AMD
# EPYC, had other work to do, and there the second number is a sixth of the first. Then
# the first isn't worth much.
#
# .. holds::
#
#    median, within = printed(r"^(\d+) µs, middle half within (\d+)", "cpu-amd-epyc")
#    near(median / within, 6, 0.03)
#
# Without ``num_threads=``, the timer gives the CPU a single thread, which makes any GPU
# look good. Keep ``timer.timeit(1)``, too. The timer waits once for a whole block of
# calls. To choose the size of the block, it first tries a single call. If that one is
# slow, each block is one call, and all times include the wait. For many versions,
# collect the results of ``blocked_autorange`` in a list, and
# ``torch.utils.benchmark.Compare(results).print()`` makes a table of them.
#
# Try it
# ------
#
# To see what such a timer has to deal with, let's time one call ten times by hand. The
# call adds two vectors. ``finish`` waits for the GPU, if there is one.

from time import perf_counter

from firstlight import Bench, best_device

device = best_device()
has_gpu = device.type != "cpu"


def finish():
    if has_gpu:
        torch.accelerator.synchronize()  # CUDA, ROCm, Apple, Intel


def block(call, loops, wait=finish):
    start = perf_counter()
    for _ in range(loops):
        call()
    wait()
    return (perf_counter() - start) / loops


# %%

# folded: The vectors

import numpy as np

from firstlight.devices import card
from firstlight.display import quantity

torch.set_num_threads(1)  # one core of the CPU is disturbed less than all of them
cache = card(str(device)).cache_bytes or 8 * 2**20  # a guess where nobody says
n = min(cache // 3 // 12, 4_000_000) | 1  # an odd number
rng = np.random.default_rng(seed=1)
host_x, host_y = (torch.from_numpy(rng.random(n, dtype=np.float32)) for _ in range(2))
x, y = host_x.to(device), host_y.to(device)
out = torch.empty_like(x)

# %%


def add():
    torch.add(x, y, out=out)


finish()
ten = [block(add, 1) for _ in range(10)]
print(", ".join(quantity(seconds, "s") for seconds in ten))

# %%
# The first time stands out. In a first call, something is done that's never done again:
# the operating system has to find memory for ``out``, or a library has to be loaded, or
# a GPU has to wake up. So its time answers another question, and we keep it apart.
#
# The other nine aren't equal, either, because your computer has other things to do.
# Let's time 300 more calls. **Where would you draw a line, and say: that's how long it
# takes?**

from statistics import median

singles = [block(add, 1) for _ in range(300)]

# %%

# measured figure

import matplotlib.pyplot as plt
from matplotlib.ticker import LogFormatter

from firstlight.display import BLUE, GREY, ORANGE

marks = {
    "mean": (np.mean(singles), ORANGE, "--"),
    "median": (median(singles), "black", "-"),
    "minimum": (min(singles), GREY, ":"),
}
fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
ax.plot(1e6 * np.array(singles), ".", color=BLUE, ms=4)
for name, (seconds, colour, dashes) in marks.items():
    text = f"{name}, {quantity(seconds, 's')}"
    ax.axhline(1e6 * seconds, color=colour, lw=1.8, ls=dashes, label=text)
ax.set(yscale="log", xlabel="number of the call", ylabel="µs, one call")
ax.yaxis.set_major_formatter(LogFormatter())
ax.yaxis.set_minor_formatter(LogFormatter())
fig.legend(loc="outside lower center", ncols=3, frameon=False)
ratio = max(singles) / min(singles)
fig.suptitle(f"One call, 300 times: the longest took {ratio:.1f} × the shortest")
fig.set_label(
    "The times of 300 calls as dots, on a logarithmic axis. Most lie in a narrow band, "
    "some above it. Lines: "
    + "; ".join(f"{name}, {quantity(m[0], 's')}" for name, m in marks.items())
)
plt.show()

# %%
# Most calls lie in a narrow band, a few far above it, and nothing far below, because an
# interruption can make a call longer, but nothing can make it shorter than the work.
#
# - The *mean* follows the few dots at the top. One interruption moves it.
# - The *minimum* can only fall as you go on measuring, so whoever measures longer
#   reports a faster program. `Python's timeit recommends it`__ as a lower bound: your
#   program will rarely run that fast.
# - The *median* has half of the dots below it and half above. A few interruptions
#   hardly move it.
#
# So report the median, and beside it the *quartiles*, between which the middle half of
# the dots lie.
#
# __ https://docs.python.org/3/library/timeit.html#timeit.Timer.repeat
#
# Two right answers
# -----------------
#
# Do you wait after each call, or once after many? The H100 added two vectors of
# 1,456,355 numbers in :timing:`timing-it-right median "GPU, a wait each"
# @nvidia-h100-80gb-hbm3`, if we waited for each result. If we made many calls and
# waited once, a call took :timing:`timing-it-right median "GPU, one wait"
# @nvidia-h100-80gb-hbm3`. **Which of the two is right?**
#
# Both are. The first is the :term:`latency`: how long *you* wait for one result. The
# second is shorter because the GPU works on one call while your program launches the
# next, and because waiting takes time itself. It tells you how many results you get in
# a second, the :term:`throughput`. Report the one that your program needs, and say
# which.
#
# .. holds::
#
#    once = row("timing-it-right/GPU, one wait")
#    each = row("timing-it-right/GPU, a wait each")
#    each.median - once.median > once.device_seconds + 3e-6
#
# A timer of twenty lines
# -----------------------
#
# It takes time to read the clock, too, and to wait. If you had to weigh a letter on a
# bathroom scale, you'd weigh a hundred of them together, and divide. So we make a
# *block* of many calls, wait once, and divide by their number.

from math import ceil


def time_call(call, wait=finish):
    wait()  # for what was launched before
    first = block(call, 1, wait)

    idle = median(block(lambda: None, 1, wait) for _ in range(5))
    enough = max(5e-3, 50 * idle)  # seconds: the wait adds 2 percent at most
    loops = 1  # calls in a block: more, until the shorter of two blocks is long enough
    while (took := loops * min(block(call, loops, wait) for _ in range(2))) < enough:
        loops = ceil(loops * min(10, 1.2 * enough / took))

    samples = [block(call, loops, wait) for _ in range(25)]
    while len(samples) > 9 and samples[0] > 1.05 * median(samples[1:]):
        del samples[0]  # warm-up
    return first, loops, samples


first, loops, samples = time_call(add)
low, middle, high = (quantity(t, "s") for t in np.quantile(samples, (0.25, 0.5, 0.75)))
print(f"{n:,} pairs on {device}: {middle} (quartiles {low} and {high})")

# %%
# Our timer keeps the first call apart. Then it measures how long a wait takes when
# there's nothing to wait for, and makes its blocks longer, step by step, until that
# wait hardly counts. A processor raises its clock rate only when it has work to do, so
# the first blocks may be slow, which is called :term:`warm-up`. The timer drops a block
# at the beginning if it's more than a twentieth slower than the rest. But it keeps at
# least nine, because a median of two or three says little.
#
# Let's compare our timer with PyTorch's, and with ``Bench``, which :doc:`measures
# everything on this site </how_we_measure>`.

bench = Bench("timing-it-right")
size = {"n": n, "bytes": 12 * n}
label = "GPU, one wait" if has_gpu else "CPU, one thread"
ours = bench.time(label, add, device=device, **size)
peer = Timer("add()", globals={"add": add}).blocked_autorange()

three = {"twenty lines": samples, "Bench": ours.values, "PyTorch": peer.times}
for name, values in three.items():
    low, middle, high = (
        quantity(t, "s") for t in np.quantile(values, (0.25, 0.5, 0.75))
    )
    print(f"{name:12}  {middle}, quartiles {low} and {high}")

# %%
# You'd expect the three to agree within their quartiles. **Do they?** On an H100 they
# nearly do. The medians were within two percent of each other, but the quartiles of
# ``Bench`` hardly overlapped with those of the other two. On one core of the EPYC,
# PyTorch's median was even a sixth below the others. We don't know why.
#
# .. holds::
#
#    epyc = printed(r"^(?:twenty lines|Bench|PyTorch) +([\d.]+) µs", "cpu-amd-epyc")
#    near(epyc[2] / min(epyc[:2]), 5 / 6, 0.02)
#
# .. holds::
#
#    said = r" +([\d.]+) µs, quartiles ([\d.]+) µs and ([\d.]+) µs"
#    ours, our_low, _ = printed("^twenty lines" + said)
#    bench, low, high = printed("^Bench" + said)
#    torch, torch_low, _ = printed("^PyTorch" + said)
#    max(ours, bench, torch) < 1.02 * min(ours, bench, torch)
#    high - min(our_low, torch_low) < 0.1 * (high - low)
#
# Quartiles can't tell you which of the three is right. They say how well a timer
# repeats *itself*, within one short run, with the same arrays at the same place in
# memory, at the same clock rate. Even `the size of the environment variables`__ has
# changed results. Something like that may have made your new version faster in one run,
# and slower in the next.
#
# __ https://doi.org/10.1145/1508244.1508284
#
# Is the new version faster?
# --------------------------
#
# You can't help it if the computer changes while you measure. But you can let both
# versions take turns, so that they suffer alike. Each pair gives you a ratio. Our new
# version is ``add``, which writes each result into the same memory. We compare it with
# two older ones, but first with itself. **What should the three ratios be?**


def compare(old, new, rounds=25):
    loops = max(time_call(call)[1] for call in (old, new))
    ratios = [block(old, loops) / block(new, loops) for _ in range(rounds)]
    return np.quantile(ratios, (0.25, 0.5, 0.75))


def add_anew():
    return x + y


def stack_and_sum():
    return torch.stack((x, y)).sum(0)


for old in (add, add_anew, stack_and_sum):
    low, middle, high = compare(old, add)
    print(f"{old.__name__:13} {middle:.3f} (quartiles {low:.3f} and {high:.3f})")

# %%
# In the first line, the ratio should be 1. How far yours is from 1, and how far apart
# its quartiles are, tells you how small a difference you can see on your computer
# today. The last line is far away from 1, so you may say that ``add`` is faster, and by
# what factor. The second line depends on the computer: on the H100 ``add_anew`` lost
# clearly, and with one thread on an EPYC it even won a little. If your second ratio is
# as close to 1 as the first, say "no difference that I can measure".
#
# The GPU's own clock
# -------------------
#
# We measured the two right answers above like this:

# folded: A wait each time, a wait once, and one thread of the CPU

from functools import partial

host_out = torch.zeros_like(host_x)
if has_gpu:
    host_add = partial(torch.add, host_x, host_y, out=host_out)
    bench.time("CPU, one thread", host_add, **size)
    add_and_wait = partial(block, add, 1)
    bench.time("GPU, a wait each", add_and_wait, device=device, **size)
bench.show()

# %%
# A third way is to ask the GPU's own clock. You put two marks, called :term:`events
# <event>`, into its list of jobs, and the GPU notes the time when it gets there. On
# NVIDIA's and AMD's GPUs it goes like this:

if device.type == "cuda":
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(1_000):
        add()
    end.record()
    end.synchronize()  # waits for this mark; end.query() would only ask
    milliseconds = begin.elapsed_time(end) / 1_000
    print(f"by the GPU's clock, a call takes {quantity(1e-3 * milliseconds, 's')}")

# %%
# If you put events around many calls, the events themselves take hardly any time. But
# they count the GPU's idle time, too, if your program can't launch as fast as the GPU
# works, as here on the H100. A :term:`profiler` leaves the idle time out.
#
# When it fails: every run gives another time
# -------------------------------------------
#
# - *The data are warm.* We call ``add`` again and again with the same vectors, so they
#   stay in the :term:`cache`, a small and fast memory. In your program they may be
#   *cold* and take longer. Time with arrays as large as yours, or write to a large
#   array before each call.
# - *The file is warm.* What you have just written or read is still in the computer's
#   memory, and the next read takes it from there. So plain reading may seem faster than
#   KvikIO, which uses GPUDirect Storage to move the data from the disk straight to the
#   GPU. Leave out the first read, because the library is still being loaded. Before
#   each other read, make the computer forget the file: ``sync; echo 1 | sudo tee
#   /proc/sys/vm/drop_caches``.
# - *The timer doesn't wait.* IPython's ``%timeit`` doesn't know of your GPU. It times
#   only the launches, and once the GPU's queue is full, a mixture of launching and
#   waiting. PyTorch's ``Timer`` waits for PyTorch's device, but not for a second GPU.
# - *Each launch waits.* With ``CUDA_LAUNCH_BLOCKING=1`` your program waits after every
#   kernel, and nothing overlaps, so the sum of such times is too long. Use it to find
#   an error, not for a time measurement.
# - *The card slows down*, because it may draw only so much power. :doc:`Our H100 did so
#   <21_your_card_today>` before a twentieth of a second was over. If it's yours, ``sudo
#   nvidia-smi -lgc 1200`` keeps the clock at 1,200 MHz, until ``sudo nvidia-smi -rgc``
#   lets it go. Choose a clock rate so low that your card never reaches its power limit.
#
#   .. holds::
#
#      products = row("precision/GPU, matmul, tf32")
#      early, late = products.values[:6], products.values[6:]
#      max(early) < 1.02 * min(early) and max(late) < 1.05 * min(late)
#      sum(early) * products.loops < 0.05
#      near(late[0] / (sum(early) / 6), 9 / 8, 0.02)
#      near(max(late) / (sum(early) / 6), 7 / 6, 0.02)
#
# - *Something else uses the card*, or the work itself changes from call to call,
#   because an image is larger, or more objects are found in it. Begin by timing one
#   and the same input, again and again.
# - The time is :doc:`too good to be true <03_is_it_possible>`, most likely because
#   nobody waited, as in :doc:`a course notebook
#   </tutorials/3_kernels/02_matrix_vector>`.
#
# The authors of these two times did wait for their GPU:
#
# .. measured-by-others:: add-a100 read-gtx1080

# folded: Check: what was timed is the exact sum, rounded once


def worst_error():
    exact = host_x.double() + host_y.double()  # on the CPU: not all GPUs have float64
    return torch.max(torch.abs(out.cpu().double() - exact) / exact).item()


assert n % 2 == 1
assert worst_error() <= 2**-24
torch.set_num_threads(threads)  # as it was
print(f"largest relative error: {worst_error():.1e}")

# %%
# Your turn
# ---------
#
# ``report`` gets all samples in the order in which they were taken, in seconds, with
# the first call at the head. It also gets a *floor*, the :doc:`least time that's
# possible <03_is_it_possible>`, and you may rely on it. Return a dictionary with
# ``first``, ``median``, the quartiles ``low`` and ``high``, and ``count``, the number
# of samples behind them. Return ``None`` if you wouldn't report anything. One such case
# is that fewer than nine samples follow the first. What is the other?
#
# Put your answer where the dots are, and run ``firstlight try 07_timing_it_right.py``.


def report(samples, floor): ...


# %%

# folded: What check does: its first samples, two of which were interrupted

RAW = (9.0, 1.30, 1.02, 1.05, 4.90, 1.01, 1.07, 1.03, 1.00, 7.70, 1.04, 1.06, 1.08)


def explain(got, samples, floor):
    first, *rest = samples
    if min(samples) < floor or len(rest) < 9:
        if got is None:
            return ""
        if len(rest) < 9:
            return f"{len(rest)} samples after the first are too few: return None."
        return "one is under the floor. Then the clock is wrong, and all are suspect."
    wanted = {"first", "median", "low", "high", "count"}
    if not isinstance(got, dict) or not set(got) >= wanted:
        return f"it gave {got!r}. It can be reported: return the dictionary."
    return wrong_entry(got, first, rest)


# %%

# folded: What check answers; it allows several rules for quartiles


def wrong_entry(got, first, rest):
    ordered, part = sorted(rest), len(rest) // 4
    middle, count = got["median"], got["count"]
    low_is_good = ordered[part - 1] <= got["low"] <= ordered[part + 1]
    high_is_good = ordered[-part - 2] <= got["high"] <= ordered[-part]
    findings = {
        "first is the first sample, whatever its size.": got["first"] != first,
        "that is the mean. Two interruptions move it.": np.isclose(
            middle, np.mean(rest)
        ),
        "that is the minimum: the luckiest call, not the usual.": middle == ordered[0],
        "the first call is counted as a sample.": count == len(rest) + 1,
        "count them all. Leave no slow ones out.": count != len(rest),
        "that is not the median of the rest.": not np.isclose(middle, median(rest)),
        "low is not the lower quartile.": not low_is_good,
        "high is not the upper quartile.": not high_is_good,
    }
    return next((sentence for sentence, true in findings.items() if true), "")


# %%

# folded: The cases that check tries


def check(answer):
    cases = [
        ("the list RAW", RAW, 0.5),
        ("RAW, with a fast first call", (1.0, *RAW[1:]), 0.5),
        ("the first nine of RAW", RAW[:9], 0.5),
        ("the first ten of RAW", RAW[:10], 0.5),
        ("RAW, with a last sample under the floor", (*RAW, 0.4), 0.5),
        ("RAW, with its third sample under the floor", (*RAW[:2], 0.4, *RAW[3:]), 0.5),
        ("RAW, with its first call under the floor", (0.4, *RAW[1:]), 0.5),
        ("RAW, with one sample exactly on the floor", RAW, 1.00),
    ]
    for name, samples, floor in cases:
        given = list(samples)
        try:
            problem = explain(answer(given, floor), samples, floor)
        except Exception as error:
            problem = f"it raised {type(error).__name__}: {error}"
        if not problem and given != list(samples):
            problem = "your function changed the list. It belongs to the caller."
        if problem:
            return f"Not yet. With {name}: {problem}"
    return "Right: you report what you measured, and refuse what you did not."


# %%

print(check(report))

# %%
# A sample under the floor isn't an outlier that you may leave out. It says that the
# clock stopped too early, or that :doc:`the floor is wrong <03_is_it_possible>`, and
# you don't know how often.
#
# Three lines to remember
# -----------------------

# remember

print("""\
1. Keep the first call apart. Then take nine blocks of calls or more, with one wait
   each, and report their median and quartiles.
2. Quartiles say how well you repeated yourself, not whether you're right. To compare
   two versions, let them take turns, and compare one with itself first.
3. Say what you timed: latency or throughput, warm or cold, on how many cores.""")

# %%
# Solution
# --------

# solution


def report_solution(samples, floor):
    first, *rest = samples
    if len(rest) < 9 or min(samples) < floor:
        return None
    low, middle, high = np.quantile(rest, (0.25, 0.5, 0.75))
    numbers = {"first": first, "median": middle, "low": low, "high": high}
    return numbers | {"count": len(rest)}


print(f"Our solution: {check(report_solution)}")

# %%
# Time CuPy, JAX, Numba and TensorFlow: how each of them waits
# ------------------------------------------------------------
#
# All of them return before the GPU is done, so ``%timeit`` and ``time.time()`` see the
# launch only, or the work of the line before. Call once to compile, and then:
#
# .. code-block:: python
#
#    print(cupyx.profiler.benchmark(f, (x,), n_repeat=20))  # CuPy: CPU and GPU time
#    f(x).block_until_ready()  # JAX; jax.block_until_ready(f(x)) for several
#    kernel[blocks, threads](x), cuda.synchronize()  # Numba
#    f(x).numpy()  # TensorFlow, which copies the result as well
#
# The same wait hides in ``x.get()`` and ``cupy.asnumpy(x)``. If they look slow, it's
# what was launched before (:doc:`/tutorials/2_devices/06_queues`).
