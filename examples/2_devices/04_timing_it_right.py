"""
How do you time a call so that you may believe it?
==================================================

Read a clock, make the call, read the clock again, subtract. Most times that you will
ever read were taken like that. What can be wrong with it? On this page you start from
that pair of readings, measure what is wrong with it, mend that, and measure again. You
end with twenty lines that you may believe.

**You will learn**

- which parts of a good timer mend which flaw, and how large each flaw is *here*;
- which number to report: not the mean, not the minimum;
- why one call has several right times, and what to write beside yours;
- where a good timer still misleads you.

**Time:** 20 minutes. **Needs:** any computer. With a GPU, the same code times that.
"""

# %%
# Predict
# -------
#
# The call to be timed is small and plain: add two vectors of ``float32`` numbers into a
# third that is there already. For each element, the processor reads 8 bytes and writes
# 4. If these bytes come from memory, the call takes at least
#
# .. math::
#
#     t_\text{floor} = \frac{12\ \text{bytes} \times n}{\text{memory bandwidth}}.
#
# This time the vectors are short enough to stay in the *cache*: fast memory in the
# processor, which keeps what was used last. All three together take a third of it.

import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.devices import card
from firstlight.measure.specs import spec

device = best_device()
has_gpu = device.type != "cpu"
cache = card(str(device)).cache_bytes or 8 * 2**20  # a guess where nobody says
n = min(cache // 3 // 12, 4_000_000) | 1  # an odd number

print(f"device: {device}, last cache {cache / 2**20:.0f} MiB")
print(f"{n:,} elements, {12 * n / 1e6:.1f} MB")
for name in ("GTX 1080", "RTX 4090", "H100 SXM"):
    floor = 12 * n / spec(name, "bandwidth")
    print(f"{name}: from memory, at least {1e6 * floor:.1f} µs")

# %%
# A good measurement repeats within a few percent. So guess: by which *factor* does the
# answer change, if
#
# - you time the first call,
# - you stop the clock before the work is done,
# - you wait for each result before you ask for the next,
# - the vectors are in memory, not in the cache,
# - PyTorch may use only one of the CPU's cores,
# - the call is so short that reading the clock takes a part of it?
#
# The last figure of this page has the answers.
#
# A pair of readings
# ------------------
#
# A first call can only be had once, so you time it before anything else. Then three
# more calls, which do exactly the same. PyTorch usually spreads an addition over all
# cores of the CPU, with a *thread* for each. For now it gets one thread, to keep things
# simple.

from time import perf_counter

threads = torch.get_num_threads()
torch.set_num_threads(1)
rng = np.random.default_rng(seed=1)
host_x, host_y = (torch.from_numpy(rng.random(n, dtype=np.float32)) for _ in range(2))
x, y = host_x.to(device), host_y.to(device)
out = torch.empty_like(x)


def add():
    torch.add(x, y, out=out)


def timed(call):
    start = perf_counter()
    call()
    return perf_counter() - start


first, *others = (timed(add) for _ in range(4))
print(f"first call: {1e6 * first:,.0f} µs")
print("the others:", ", ".join(f"{1e6 * other:,.0f} µs" for other in others))

# %%
# (``perf_counter`` is the clock for this. ``time.time`` tells the time of the day,
# which may be set back while you measure.)
#
# **The first flaw: a first call does things that are done once.** The operating system
# finds memory for ``out`` when it is first written. A library loads what it needs, and
# a GPU its code. All that is real, and you pay it once, not with every call. So keep
# the first call, and keep it *apart*.
#
# Check
# -----
#
# No time above is worth anything if the sum is wrong. ``n`` is odd, so code that counts
# in blocks would show. The result has to be the exact sum, rounded once: a relative
# error of at most :math:`2^{-24}`.
#
# Your own machine's floor follows from the best rate that plain copies and sums reach
# on it now, with all cores. You need it below.

from firstlight.measure.roofs import measured_roof


def worst_error():
    exact = host_x.double() + host_y.double()  # on the CPU: not all GPUs have float64
    return torch.max(torch.abs(out.cpu().double() - exact) / exact).item()


assert n % 2 == 1
assert worst_error() <= 2**-24
print(f"largest relative error: {worst_error():.1e}")

torch.set_num_threads(threads)
floor = 12 * n / measured_roof(str(device)).byte_rate
torch.set_num_threads(1)
print(f"floor of this machine: {1e6 * floor:,.0f} µs")

# %%
# Is the work done when the clock stops?
# --------------------------------------
#
# **The second flaw: the clock may stop too early.** A GPU works through a *queue*: your
# call puts the work into it, and returns. Who reads the clock then has timed the asking
# (:doc:`03_timing_it_wrong` shows it as a picture). So wait until the queue is empty,
# and stop the clock after that.
#
# With a GPU, the cells below use it. Without one, the queue is a *toy*: a second thread
# of your CPU, which really adds vectors, but later. Its times are not a GPU's. What it
# shares with a GPU is when calls return.

from firstlight.measure.toystream import ToyStream

toy = ToyStream()
a, b = (rng.random(100_003, dtype=np.float32) for _ in range(2))
a_plus_b = np.zeros_like(a)


def toy_add():
    toy.launch(np.add, a, b, a_plus_b)


def finish():
    if has_gpu:
        torch.accelerator.synchronize()  # CUDA, ROCm, Apple, Intel


launch, wait = (add, finish) if has_gpu else (toy_add, toy.synchronize)


def block(call, loops, wait=finish):
    start = perf_counter()
    for _ in range(loops):
        call()
    wait()
    return (perf_counter() - start) / loops


# %%
# There is a second way to learn when the work was done. An *event* is a mark in the
# queue. The device notes the time when it gets there, so your program needs no clock.


def mark():
    if device.type == "cuda":
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event
    if not has_gpu:
        return toy.record()
    finish()  # for other GPUs, this page takes the clock
    return perf_counter()


def between(begin, end):
    if isinstance(begin, float):
        return end - begin
    return 1e-3 * begin.elapsed_time(end)  # events count milliseconds


# %%
# Here are four ways to time the same addition in a queue. Each is repeated, and you see
# the *median*: half of the values were smaller, half larger.

from statistics import median

calls, repeats = 100, 21


def by_events():
    begin = mark()
    for _ in range(calls):
        launch()
    end = mark()
    wait()
    return between(begin, end) / calls


ways = {
    "no wait": lambda: timed(launch),
    "a wait after each call": lambda: block(launch, 1, wait),
    f"one wait for {calls} calls": lambda: block(launch, calls, wait),
    f"events around {calls} calls": by_events,
}
queued = {way: [] for way in ways}
for way, seconds in ways.items():
    for _ in range(repeats):
        wait()  # begin with an empty queue
        queued[way].append(seconds())
    print(f"{way:<24} {1e6 * median(queued[way]):7.1f} µs a call")
no_wait, wait_each, wait_once, _ = queued.values()

# %%
# - *No wait* is wrong. It is the price of asking, whatever you ask for. Python's
#   ``timeit`` and IPython's ``%timeit`` know of no device. They time that, until the
#   queue is full and asking has to wait.
# - *A wait after each call* is right. It is how long you wait for one result:
#   *latency*.
# - *One wait for many calls* is right, too. It is how long a call takes in a row of
#   calls: one divided by their *throughput*. While the device works on one call, you
#   already ask for the next. And the wait is paid once.
# - *Events* leave out the wait at the end. But they count all time between the marks,
#   also while the device has nothing to do because you do not ask fast enough. Around a
#   *single* call into an empty queue they count your asking, again.
#
# Latency and throughput answer two questions. Must your program see each result before
# it knows what to ask next? Then latency. Does it ask for much, and look at the end?
# Then throughput. Write down which one you report, and never divide one by the other.
#
# Which sample do you report?
# ---------------------------
#
# The timer now waits. You call it 300 times, and get 300 answers: *samples*.

singles = [block(add, 1) for _ in range(300)]

print("             smallest      mean    median")
for count in (10, 300):
    some = singles[:count]
    row = min(some), sum(some) / count, median(some)
    print(f"{count:>4} samples", *(f"{1e6 * value:6.1f} µs" for value in row))

slowest = singles.index(max(singles))
rest = singles[:slowest] + singles[slowest + 1 :]
mean_moved = 1 - sum(rest) / len(rest) / (sum(singles) / len(singles))
median_moved = 1 - median(rest) / median(singles)
print("Without the slowest sample, they fall:")
print(f"the mean by {mean_moved:.2%}, the median by {median_moved:.2%}.")

# %%
# **The third flaw: one sample is one opinion.** Your process shares the computer. It
# is interrupted, so some samples are too long, and a few are far too long. None is too
# short by as much. For such a lopsided crowd
#
# - the *mean* follows the few long ones. One interruption moves it;
# - the *minimum* only ever falls as you take more samples. Who measures for longer
#   reports a faster program. And it is the one call in which nothing went wrong.
#   `Python's timeit recommends it`__ as a lower bound, and it is one. It does not tell
#   you what to expect;
# - the *median* hardly minds a few wild samples, on either side. The *quartiles*, which
#   enclose the middle half, say how far samples lie apart.
#
# Leave no sample out because you dislike it. The median can live with it.
#
# How many samples? The true median is the value that half of *all* calls would stay
# under. If samples are independent, each falls on either side of it as a coin does.
#
# __ https://docs.python.org/3/library/timeit.html#timeit.Timer.repeat

from math import comb

print("chance that the true median is")
for count in (1, 3, 5, 9):
    print(f"outside of all {count} samples: {2 / 2**count:7.2%}")

inside = sum(comb(9, below) for below in range(3, 7)) / 2**9
print(f"between the quartiles of 9: {inside:.0%}")

# %%
# One sample has no quartiles, and is certain to lie on one side. Of nine, the third and
# the seventh in size are the quartiles. That is a modest promise, and nine is the least
# that this site accepts.
#
# The clock is not free
# ---------------------
#
# Now a call that is very short: one square root.

from functools import partial
from math import sqrt

tiny = partial(sqrt, 2.0)
tiny_singles = [timed(tiny) for _ in range(999)]
tiny_blocks = [block(tiny, 10_000) for _ in range(9)]
print(f"two readings, one call:     {1e9 * median(tiny_singles):4.0f} ns")
print(f"two readings, 10 000 calls: {1e9 * median(tiny_blocks):4.0f} ns a call")

# %%
# **The fourth flaw: the timer times itself.** Reading a clock takes time, and a clock
# goes in steps. If the call is long against both, that is nothing. If it is not, you
# report your clock. The wait has a price as well, and often a far higher one. So read
# the clock, and wait, once for a *block* of many calls: as many as make the block long
# against the clock and against the wait. You cannot know how many beforehand, so let
# the block grow until it is long. (Its loop takes time, too. Work in Python that you
# would not do without the timer stays in the answer.)
#
# Twenty lines
# ------------
#
# That is all. Here is everything in one function:

from math import ceil


def time_call(call, wait=finish):
    wait()  # for what was asked before
    first = block(call, 1, wait)

    idle = median(timed(wait) for _ in range(5))
    enough = max(5e-3, 50 * idle)  # seconds: the wait adds 2 percent at most
    loops = 1
    while (took := loops * min(block(call, loops, wait) for _ in range(2))) < enough:
        loops = ceil(loops * min(10, 1.2 * enough / took))

    samples = [block(call, loops, wait) for _ in range(25)]
    while len(samples) > 9 and samples[0] > 1.05 * median(samples[1:]):
        del samples[0]  # warm-up
    return first, loops, samples


def quartiles(samples):
    return np.quantile(samples, (0.25, 0.5, 0.75))


# %%
# Two things are new. The shorter of two blocks decides whether it is long enough, or
# one interruption would end the growth. And there is a rule for *warm-up*. A processor
# that rests lowers its clock, and needs a while, not one call, to raise it. So blocks
# at the head are dropped while they are slower than the rest. Note how that differs
# from dropping samples that you dislike: only the head may go, the rule was fixed
# before, and enough samples must be left.
#
# Does anybody else agree?
# ------------------------
#
# A timer is an instrument. You compare it with others before you use it. This site's
# ``Bench`` works in the same way; :doc:`/how_we_measure` has the details. PyTorch
# brings a timer of its own, ``torch.utils.benchmark``.

from torch.utils.benchmark import Timer

bench = Bench("timing-it-right")
size = {"n": n, "bytes": 12 * n}
label = "GPU, one wait" if has_gpu else "CPU, one thread"
ours = bench.time(label, add, device=device, **size)
_, own_loops, own = time_call(add)
peer = Timer("add()", globals={"add": add}).blocked_autorange()

timers = {
    "yours": (own, own_loops),
    "Bench": (ours.values, ours.loops),
    "torch": (peer.times, peer.number_per_run),
}
print("median (quartiles), blocks × calls")
for name, (samples, loops) in timers.items():
    low, middle, high = 1e6 * quartiles(samples)
    print(f"{name} {middle:.1f} µs ({low:.1f}–{high:.1f}), {len(samples)} × {loops}")

# %%
# If the three differ by more than their quartiles, either the computer did something
# else meanwhile, or one of the timers is wrong. If they agree, the number does not
# depend on whose timer you took.
#
# Three rules that may surprise you
# ---------------------------------
#
# PyTorch's timer is a good one, and its rules are written down. Three of them mislead
# those who do not know them. Here is each with a call made for it. The first call asks
# PyTorch how many threads it may use. The other two call a function that Numba compiles
# (translates into machine code) when it is first called.

from numba import njit


def total(vector):
    result = 0.0
    for value in vector:
        result += value
    return result


torch.set_num_threads(threads)
seen = set()
Timer("seen.add(torch.get_num_threads())", globals={"seen": seen}).timeit(1)
print(f"threads: {threads} before, {seen.pop()} inside the timer")

names = {"total": njit(total), "vector": rng.random(101)}
compiles = Timer("total(vector)", globals=names).blocked_autorange()
compiled = Timer("total(vector)", globals=names).blocked_autorange()
for name, result in {"compiles": compiles, "compiled": compiled}.items():
    blocks = f"{len(result.times):,} blocks of {result.number_per_run:,}"
    print(f"{name}: {1e9 * result.median:.0f} ns, {blocks}")

single = Timer("total(vector)", globals=names).timeit(1000)
print(f"one block: IQR {single.iqr:.0f}, warning: {single.has_warnings}")

# %%
# - *Threads.* The timer sets their number to 1 if you do not ask for more with
#   ``num_threads=``. That is good for comparing two versions of an operator. In a
#   comparison with a GPU, it makes the GPU look better by all the cores that stood
#   idle.
# - *Compiles.* The timer grows its block until it is long. It begins with one call.
#   That one compiled, so it was long. The timer keeps blocks of one call, and you are
#   back at two readings for each. Call the function once before you give it to this
#   timer.
# - *One block.* ``timeit`` takes a single sample. The distance of its quartiles (*IQR*,
#   the interquartile range) is zero, and so nothing warns you. Zero here means
#   *unknown*.
#
# What do the threads cost? ``Bench`` leaves them as they are, and its table says how
# many *cores* a row really used.

host_out = torch.zeros_like(host_x)


def host_add():
    torch.add(host_x, host_y, out=host_out)


def add_and_wait():
    add()
    finish()


all_cores = bench.time("CPU, all cores", host_add, **size)
torch.set_num_threads(1)
if has_gpu:
    bench.time("CPU, one thread", host_add, **size)
    bench.time("GPU, a wait each", add_and_wait, device=device, **size)
one_core = bench["CPU, one thread"]
bench.show()

# %%
# A verdict ``in-cache`` says that a row is faster than memory could be;
# ``launch-bound``, that the GPU waited for you to ask, and not you for the GPU;
# ``cpu-contended``, that something else used the CPU.
#
# Where are the data?
# -------------------
#
# Call ``add`` again and again, and its vectors stay in the cache: they are *warm*. In
# your program, other data may pass between two calls and push them out. Then they come
# from memory: they are *cold*. To measure that, touch much more than the cache holds
# before each call. This is called a *flush*.

from itertools import pairwise

most = max(4 * cache, 2**28 * has_gpu)  # the GPU shall be busy for a while
flush = torch.ones(min(most, 2**29) // 4, device=device)
stamp = mark if has_gpu else perf_counter
rounds = []
for _ in range(100):
    flush.add_(1)
    stamps = [stamp()]
    for _ in range(5):
        add()
        stamps.append(stamp())
    finish()
    rounds.append([between(*pair) for pair in pairwise(stamps)])

cold, *between_them, warm = zip(*rounds, strict=True)
for number, samples in enumerate((cold, *between_them, warm), start=1):
    print(f"call {number} after the flush: {1e6 * median(samples):6.1f} µs")

# %%
# The first call of a round finds its vectors in memory: it is *cold*. The fifth finds
# them where the four before left them: it is *warm*. (With CUDA and ROCm the stamps are
# events. While the GPU is busy with the flush, you ask for all the rest, so the events
# do not count your asking. So that it is busy for long enough, also a GPU with a small
# cache gets 256 MiB.)
#
# Here are all samples, in the order in which they were taken. None is left out. The
# solid lines are the medians, the bands hold the middle half. The dashed line is a
# *model*: the floor that memory sets, 12 bytes an element at the best rate that plain
# copies and sums reached on this device.

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

states = {"cold": (cold, "#d9762b", "s"), "warm": (warm, "#2f7ed8", "o")}

fig, ax = plt.subplots(figsize=(5.6, 3.9), layout="constrained")
for state, (samples, colour, marker) in states.items():
    low, middle, high = 1e6 * quartiles(samples)
    ax.plot(1e6 * np.array(samples), marker, color=colour, ms=4, label=state)
    ax.axhspan(low, high, color=colour, alpha=0.3, lw=0)
    ax.axhline(middle, color=colour, lw=2)
ax.axhline(1e6 * floor, color="#808890", ls="--", lw=2, label="model: memory's floor")
ax.set_yscale("log")
ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
ax.yaxis.set_minor_formatter(NullFormatter())
ax.set(xlabel="round, in the order taken", ylabel="time of one call (µs)")
fig.legend(loc="outside lower center", ncols=3, frameon=False)
fig.set_label(
    "Time of one call over the order of the samples, in two strips. With cold vectors "
    f"the median is {median(cold) / median(warm):.1f} times that with warm ones. A "
    f"dashed line, the floor of memory, is at {floor / median(warm):.1f} times the "
    "median of the warm strip."
)
plt.show()

# %%
# Look for three things:
#
# - *The strips.* They are samples of one call, on one machine. Which of them is "the
#   time" depends on where your data are. Mix them, and the mean is a time that no call
#   ever took.
# - *The floor.* Cold samples should stay above it. Warm ones may lie below, and are
#   still possible: their bytes do not come from memory. A floor is only as good as the
#   assumption behind it.
# - *The order.* A strip that drifts, or one with a step, says that something changed
#   while you measured. A median does not show that. So look at the samples before you
#   sum them up.
#
# ``Bench``, your twenty lines and PyTorch's timer all measure warm. If your data are
# many times larger than the cache, they are cold in any case.
#
# What the shortcuts cost
# -----------------------
#
# Now look up your guesses. Each line below divides an answer from this page by the
# right one, for the same call.

toys = "" if has_gpu else ", toy queue"
rows = {
    "the first call": ([first], own),
    f"no wait{toys}": (no_wait, wait_once),
    "two readings a call": (tiny_singles, tiny_blocks),
    "compiled in the first block": (compiles.times, compiled.times),
    "one thread": (one_core.values, all_cores.values),
    "cold data": (cold, warm),
    f"a wait each{toys}": (wait_each, wait_once),
}
answers, rights = {}, {}
for row, (samples, right) in rows.items():
    answers[row] = quartiles(samples) / median(right)
    rights[row] = quartiles(right) / median(right)
    print(f"{row:<27} {answers[row][1]:6.2f} ×")


def stays_inside(row):
    low, _, high = rights[row]
    return low <= answers[row][1] <= high


outside = [row for row in rows if not stays_inside(row)]
print(f"{len(outside)} of {len(rows)} lie outside the spread of the right answer")

# %%
# Here they are as a picture. Filled circles are mistakes. Hollow diamonds are right
# answers to *another* question. The thin lines are their quartiles (a first call has
# none). A grey bar holds the quartiles of the right answer: the spread that you would
# report.

fig, ax = plt.subplots(figsize=(5.6, 4.0), layout="constrained")
for place, (row, (low, factor, high)) in enumerate(answers.items()):
    ax.barh(place, np.ptp(rights[row]), 0.45, rights[row][0], color="#808890")
    style = {"fmt": "o", "color": "#d9762b"}
    if place > 3:
        style = {"fmt": "D", "color": "#2f7ed8", "fillstyle": "none", "mew": 2}
    spread = [[factor - low], [high - factor]]
    ax.errorbar(factor, place, xerr=spread, ms=8, capsize=4, **style)
    ax.annotate(f"{factor:.2g} ×", (factor, place - 0.28), ha="center", va="bottom")
ax.axvline(1, color="#808890", lw=1)
ends = np.array([*answers.values(), *rights.values()])
ax.set(xscale="log", xlim=(ends.min() / 1.7, ends.max() * 1.7))
ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
ax.xaxis.set_minor_formatter(NullFormatter())
ax.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
ax.set_yticks(range(len(answers)), answers)
ax.set_ylim(len(answers) - 0.5, -0.9)
ax.set_xlabel("answer, divided by the right one")
fig.set_label(
    "Seven answers, each divided by the right one, on a logarithmic axis. "
    f"{len(outside)} of the 7 lie outside the spread of the right one, a bar around 1."
)
plt.show()

assert worst_error() <= 2**-24  # what was timed is still right
torch.set_num_threads(threads)  # as it was

# %%
# **A dot outside its bar is a choice that changed the answer by more than the spread
# that you would report.** And a wrong answer has quartiles, too, which may lie as close
# together as those of the right one. A spread tells how well you *repeated* your
# measurement. It does not tell whether you measured what you meant. (On a busy computer
# the bars are long, and a dot may hide in one. Then the computer was not fit for
# measuring. That much a spread does tell.)
#
# So write beside the median: the quartiles, the number of samples, the first call, warm
# or cold, how many threads, one wait or many, and the machine.
#
# Where this stops being true
# ---------------------------
#
# - *Queues that nobody knows.* A timer waits only for queues that it knows. PyTorch's
#   waits for PyTorch's, ``Bench`` also for Numba's. Where kernels come from another
#   library, both time the asking and say nothing. A time shorter than the floor is then
#   the only alarm that you have.
# - *Calls that change their input.* A timer repeats, so the call has to do the same
#   work each time. Check the result after timing, as above.
# - *Busy computers.* A block is itself a mean: an interruption in it is spread over its
#   calls. Blocks much longer than needed make a spread look small. And a call on all
#   cores waits for the one core that is busy elsewhere. ``Bench`` says so then:
#   ``cpu-contended``.
# - *Another run, another day.* All samples come from one process. Samples in a row are
#   not independent, and interruptions come in bursts. Even `the size of the environment
#   variables`__ has changed results, because it shifts addresses in memory. For a
#   difference of a few percent, start the program several times.
# - *A hot device.* Under minutes of heavy work, a card lowers its clock to stay within
#   its limits of power and temperature. What you measure in a second is then too good.
# - *Very long calls.* If one call takes minutes, you will not make nine. Make three,
#   say three, and give all of them instead of quartiles.
#
# __ https://doi.org/10.1145/1508244.1508284
#
# Exercise
# --------
#
# Write what comes after the timer. ``report`` gets all samples in the order taken, in
# seconds, with the first call at the head, and a floor: no call can be faster. It
# returns a dictionary with ``first``, ``median``, ``low`` and ``high`` (the quartiles)
# and ``count``, the number of samples behind them. Where there is nothing that you
# would stand up for, it returns ``None``. One such case is that fewer than nine samples
# follow the first. What is the other?


def report(samples, floor): ...


# %%
# These are the samples that ``check`` begins with. Two are interruptions.

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
# There are several rules for quartiles. Each puts them near the same neighbours. The
# first sentence below that is true is the answer.


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
# And these are the cases. One of them is a fast first call. It is still the first.


def check(answer):
    cases = [
        ("the list RAW", RAW, 0.5),
        ("RAW, with a fast first call", (1.0, *RAW[1:]), 0.5),
        ("the first nine of RAW", RAW[:9], 0.5),
        ("the first ten of RAW", RAW[:10], 0.5),
        ("RAW, with one sample under the floor", (*RAW, 0.4), 0.5),
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


print(check(report))

# %%

# solution


def report_solution(samples, floor):
    first, *rest = samples
    if len(rest) < 9 or min(samples) < floor:
        return None
    low, middle, high = np.quantile(rest, (0.25, 0.5, 0.75))
    numbers = {"first": first, "median": middle, "low": low, "high": high}
    return numbers | {"count": len(rest)}


print(check(report_solution))

# %%
# A sample under the floor is not left out, as an outlier. It proves that the clock
# stopped too early at least once, and you do not know how often it did without going
# under.
#
# Three lines to remember
# -----------------------

low, middle, high = 1e6 * quartiles(ours.values)
print("1. First call apart, blocks of calls, one wait each, at least nine of them.")
print(f"   Here: {1e6 * first:,.0f} µs for the first call, then {middle:,.1f} µs.")
print(f"2. Median and quartiles ({low:,.1f} to {high:,.1f} µs), not mean, not minimum.")
print("3. A small spread is no proof. Say: warm or cold, how many cores, which wait.")
print(f"   Here {len(outside)} of {len(answers)} changes moved it out of its spread.")
