"""
How do you time a call so that you can trust the number?
========================================================

This page is for everybody who times code, on a GPU or without one. Time the first call
apart. Then time blocks of many calls, and wait for the :term:`device` at the end of
each block, before you read the clock. Take at least nine blocks, and report their
:term:`median` and quartiles. The function below does this in twenty lines that you can
copy; the rest of the page measures how wrong the answer is without them.

**You will learn**

- what each line of a good timer is for, and how large the mistake is without it;
- which number to report: not the mean, not the minimum;
- why one call has several right times, and what to write beside yours;
- where a good timer still misleads you.

**Time:** 13 minutes. **Needs:** any computer. With a GPU, the same code times that.
"""

# %%
# Twenty lines
# ------------
#
# ``finish`` waits for the GPU, if there is one; in older code it is
# ``torch.cuda.synchronize()``. ``block`` makes many calls and waits once:

from math import ceil
from statistics import median
from time import perf_counter

import numpy as np
import torch

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
# The timer keeps the first call apart, makes the block long enough, and drops
# :term:`warm-up`:


def time_call(call, wait=finish):
    wait()  # for what was launched before
    first = block(call, 1, wait)

    idle = median(block(lambda: None, 1, wait) for _ in range(5))
    enough = max(5e-3, 50 * idle)  # seconds: the wait adds 2 percent at most
    loops = 1
    while (took := loops * min(block(call, loops, wait) for _ in range(2))) < enough:
        loops = ceil(loops * min(10, 1.2 * enough / took))

    samples = [block(call, loops, wait) for _ in range(25)]
    while len(samples) > 9 and samples[0] > 1.05 * median(samples[1:]):
        del samples[0]  # warm-up
    return first, loops, samples


# %%
# Here it times the addition of two vectors, which together with the result fill at most
# a third of the :term:`cache`, fast memory in the processor that keeps what was used
# last. (PyTorch gets one core of the CPU on this page: one is disturbed less than all.)

from firstlight.devices import card
from firstlight.display import quantity

threads = torch.get_num_threads()
torch.set_num_threads(1)
cache = card(str(device)).cache_bytes or 8 * 2**20  # a guess where nobody says
n = min(cache // 3 // 12, 4_000_000) | 1  # an odd number
rng = np.random.default_rng(seed=1)
host_x, host_y = (torch.from_numpy(rng.random(n, dtype=np.float32)) for _ in range(2))
x, y = host_x.to(device), host_y.to(device)
out = torch.empty_like(x)


def add():
    torch.add(x, y, out=out)


first, loops, samples = time_call(add)
low, middle, high = (quantity(t, "s") for t in np.quantile(samples, (0.25, 0.5, 0.75)))
print(f"{n:,} elements, {device}: first call {quantity(first, 's')}, then {middle}")
print(f"(quartiles {low} and {high}, {len(samples)} blocks of {loops} calls)")

# %%
# What the lines are for:
#
# - *The first call* does what is done only once: the operating system finds memory for
#   ``out``, a library loads code, a GPU starts. So report it apart.
# - *A block of calls.* Reading the clock and waiting take time, too, which is
#   negligible in a long block. The number of calls grows until the shorter of two
#   blocks is long enough, so one interruption cannot fake a long block.
# - *Warm-up.* A processor raises its clock rate only under load. Blocks at the head are
#   dropped while they are slower than the rest, by a rule fixed in advance.
# - *Nine blocks.* If they are independent, all nine lie on one side of the true median
#   in 1 of 256 cases; a single one always does.
# - ``perf_counter`` is the clock for this. ``time.time`` gives the time of day, which
#   may be set back while you measure.
#
# Predict
# -------
#
# Guess by which factor the answer changes if you
#
# - read the clock before the work is done;
# - time the first call;
# - give a timer a function that is not compiled yet;
# - have the vectors in memory, not in the cache.
#
# The figure on this page has the answers.
#
# Check
# -----
#
# No time is worth anything if the result is wrong. It has to be the exact sum, rounded
# once, also for an odd ``n``.


def worst_error():
    exact = host_x.double() + host_y.double()  # on the CPU: not all GPUs have float64
    return torch.max(torch.abs(out.cpu().double() - exact) / exact).item()


assert n % 2 == 1
assert worst_error() <= 2**-24
print(f"largest relative error: {worst_error():.1e}")

# %%
# Is the work done when the clock stops?
# --------------------------------------
#
# A GPU takes its work from a :term:`queue`, a *stream*: your call adds the work to it
# and returns. If you read the clock then, you have timed the :term:`launch`, whatever
# was launched (:doc:`06_queues` shows it as a picture).
#
# Without a GPU, a *toy stream* takes its place below: a second thread of your CPU,
# which really adds vectors, but later. Its times are not a GPU's, but its calls return
# as a GPU's do.

from functools import partial

from firstlight.timing.toy_stream import ToyStream

large = 2**25 if has_gpu else 2**20
a, b, a_plus_b = (torch.rand(large, device=device) for _ in range(3))
toy = ToyStream()
if has_gpu:
    launch, wait = partial(torch.add, a, b, out=a_plus_b), finish
else:
    launch = partial(toy.launch, np.add, a.numpy(), b.numpy(), a_plus_b.numpy())
    wait = toy.synchronize

# %%
# There is a second way to learn when the work was done. An :term:`event` is a mark in
# the stream. The device notes the time when it gets there.

# folded: How to set a mark in the stream and read the time between two


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
# Four ways to time the same addition:

from firstlight.display import BLUE, GREY, ORANGE, show_table

calls, repeats = 10, 9


def by_events():
    begin = mark()
    for _ in range(calls):
        launch()
    end = mark()
    wait()
    return between(begin, end) / calls


ways = {
    "no wait": lambda: block(launch, 1, lambda: None),
    "a wait after each call": lambda: block(launch, 1, wait),
    f"one wait for {calls} calls": lambda: block(launch, calls, wait),
    f"events around {calls} calls": by_events,
}

# %%

queued = {way: [] for way in ways}
for _ in range(repeats):
    for way, seconds in ways.items():
        wait()  # begin with an empty stream
        queued[way].append(seconds())

no_wait, wait_each, wait_once, _ = queued.values()
rows = [
    (way, quantity(median(got), "s"), f"{median(got) / median(wait_once):.2g} ×")
    for way, got in queued.items()
]
where = str(device) if has_gpu else "a toy stream"
head = ("way", "median", "relative to one wait")
show_table(f"One addition of {large:,} numbers on {where}", head, rows)

# %%
# - *No wait* is wrong: it is the time of a launch. Python's ``timeit`` and IPython's
#   ``%timeit`` do not wait, and report this until the stream is full.
# - *A wait after each call* is right: it is how long you wait for one result, the
#   :term:`latency`.
# - *One wait for many calls* is right, too: it is what a call takes in a row of calls,
#   the inverse of the :term:`throughput`. While the device works, you launch the next.
# - *Events* leave out the final wait. But they count all time between the marks, also
#   while the device is idle because you launch too slowly. So around a *single* call
#   into an empty stream they count the launch, too.
#
# If your program needs each result before the next call, report the latency, otherwise
# the throughput. Say which one it is.
#
# Which number do you report?
# ---------------------------
#
# ``block`` with one call, made 300 times, gives 300 samples:

singles = [block(add, 1) for _ in range(300)]


def three(some):
    return min(some), sum(some) / len(some), median(some)


rows = [
    (f"{len(some)} samples", *(quantity(value, "s") for value in three(some)))
    for some in (singles[:10], singles)
]
rest = sorted(singles)[:-1]
changes = (1 - b / a for a, b in zip(three(singles), three(rest), strict=True))
rows.append(("without the slowest one", *(f"{0 - change:.2%}" for change in changes)))
head = ("", "minimum", "mean", "median")
show_table("One call, many samples", head, rows)

# %%
# Other programs interrupt yours, so some samples are too long, and a few far too long,
# but, if you waited, none is too short by as much. Therefore
#
# - the *mean* follows the few long samples: one interruption moves it;
# - the *minimum* can only fall as you take more samples, so that whoever measures
#   longer reports a faster program. It can test a model of the undisturbed machine, and
#   `Python's timeit recommends it`__ as a lower bound; but your program will rarely run
#   that fast;
# - the *median* hardly changes with a few wild samples, on either side. The
#   *quartiles*, which enclose the middle half, say how far samples lie apart.
#
# __ https://docs.python.org/3/library/timeit.html#timeit.Timer.repeat
#
# Measure
# -------
#
# A timer is an instrument, so compare it with others: this site's ``Bench``
# (:doc:`/how_we_measure`) and PyTorch's ``torch.utils.benchmark``.

from torch.utils.benchmark import Timer

bench = Bench("timing-it-right")
size = {"n": n, "bytes": 12 * n}
label = "GPU, one wait" if has_gpu else "CPU, one thread"
ours = bench.time(label, add, device=device, **size)
peer = Timer("add()", globals={"add": add}).blocked_autorange()

timers = {
    "the twenty lines": (samples, loops),
    "Bench": (ours.values, ours.loops),
    "PyTorch's Timer": (peer.times, peer.number_per_run),
}
rows = [
    (name, *(quantity(t, "s") for t in np.quantile(got, (0.5, 0.25, 0.75))), f"{each}")
    for name, (got, each) in timers.items()
]
head = ("timer", "median", "lower quartile", "upper", "calls in a block")
show_table("Three timers, one call", head, rows)
each = [np.quantile(got, (0.25, 0.5, 0.75)) for got, _ in timers.values()]
lows, middles, highs = zip(*each, strict=True)
print(f"medians: within {max(middles) / min(middles) - 1:.0%} of each other;")
print(f"quartile ranges: {'overlap' if max(lows) <= min(highs) else 'lie apart'}")

# %%
# The three ran one after the other. Where the ranges from quartile to quartile overlap,
# their medians differ by no more than the samples scatter: quote no digits beyond
# that. Where they lie apart, the computer changed meanwhile, or a timer is wrong.
#
# PyTorch's timer is a good one, but three of its rules can mislead you:
#
# - It sets the number of *threads* to 1, unless you ask for more with ``num_threads=``.
#   In a comparison with a GPU, the CPU's other cores are then idle.
# - Its block begins with one call. If that call *compiles*, it is long, and the block
#   stays at one call, so each sample holds the timer's overhead. Call the function
#   once before.
# - ``timeit`` takes a single sample. The distance of its quartiles (IQR) is then given
#   as zero, which means *unknown*.

# folded: The three rules, shown

from numba import njit


def total(vector):
    result = 0.0
    for value in vector:
        result += value
    return result


torch.set_num_threads(threads)
seen = set()
Timer("seen.add(torch.get_num_threads())", globals={"seen": seen}).timeit(1)
torch.set_num_threads(1)
print(f"threads: {threads} before, {seen.pop()} inside the timer")

names = {"total": njit(total), "vector": rng.random(101)}
compiles = Timer("total(vector)", globals=names).blocked_autorange()
compiled = Timer("total(vector)", globals=names).blocked_autorange()
for name, result in {"compiles": compiles, "compiled": compiled}.items():
    print(
        f"{name}: {quantity(result.median, 's')}, blocks of {result.number_per_run:,}"
    )
single = Timer("total(vector)", globals=names).timeit(1000)
print(f"one block: IQR {single.iqr:.0f}, warning: {single.has_warnings}")

# %%

host_out = torch.zeros_like(host_x)
if has_gpu:
    host_add = partial(torch.add, host_x, host_y, out=host_out)
    bench.time("CPU, one thread", host_add, **size)
    add_and_wait = partial(block, add, 1)
    bench.time("GPU, a wait each", add_and_wait, device=device, **size)
bench.show()

# %%
# The :term:`verdict` ``in-cache`` says that a row is faster than memory could be, and
# its data few enough to stay in the cache. (The *first call* is the first by
# ``Bench``.)
#
# Other people timed the same kind of work on their cards. Three of them waited for the
# GPU; the last did not.
#
# .. measured-by-others:: add-a100 read-gtx1080 read-h200 course-nine
#
# Where are the data?
# -------------------
#
# All three timers call ``add`` again and again, so that its vectors stay in the cache:
# they are *warm*. In your program, other data may push them out between two calls. Then
# they are *cold* and come from memory. To measure that, touch other data before the
# call, if possible several times what the cache holds (a *flush*, here of at most
# 512 MiB).

from itertools import pairwise

most = min(max(4 * cache, 2**29 if has_gpu else 0), 2**29)
flush = torch.ones(most // 4, device=device)
stamp = mark if has_gpu else perf_counter
rounds, late = [], 0
for _ in range(40):
    flush.add_(1)
    stamps = [stamp()]
    for _ in range(5):
        add()
        stamps.append(stamp())
    late += device.type == "cuda" and stamps[0].query()
    finish()
    rounds.append([between(*pair) for pair in pairwise(stamps)])

cold, *_, warm = zip(*rounds, strict=True)
for number, got in enumerate(zip(*rounds, strict=True), start=1):
    print(f"call {number} after the flush: {quantity(median(got), 's')}")
if late:
    print(f"In {late} of 40 rounds the flush ended too early: these count launches.")

# %%
# The first call finds its vectors in memory, the fifth mostly in the cache. Where the
# times fall slowly in between, the cache did not take in all of the vectors at once: it
# kept some of the flush. (With CUDA and :term:`ROCm` the stamps are events. They leave
# out the launches only if the flush lasts until all calls are launched. ``query`` says
# whether it did, and the last line appears if it did not.)
#
# What the shortcuts cost
# -----------------------
#
# Each answer is divided by the right one for the same call.

rows = {
    "no wait" if has_gpu else "no wait (toy stream)": (no_wait, wait_once),
    "the first call": ([first], samples),
    "compiled in the block": (compiles.times, compiled.times),
    "cold data": (cold, warm),
}
if has_gpu:
    rows["a wait each"] = (wait_each, wait_once)
quarters = (0.25, 0.5, 0.75)
answers = {
    row: np.quantile(got, quarters) / median(of) for row, (got, of) in rows.items()
}
rights = {row: np.quantile(of, quarters) / median(of) for row, (_, of) in rows.items()}
mistakes = list(rows)[:3]  # the other rows are right answers, to other questions
outside = [
    row for row in mistakes if not rights[row][0] <= answers[row][1] <= rights[row][2]
]

assert worst_error() <= 2**-24  # what was timed is still right
torch.set_num_threads(threads)  # as it was

# %%

# measured figure
# sphinx_gallery_thumbnail_number = 1

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 4), layout="constrained")
for place, (row, (low, factor, high)) in enumerate(answers.items()):
    ax.barh(place, np.ptp(rights[row]), 0.5, rights[row][0], color=GREY)
    look = {"fmt": "o", "color": ORANGE}
    if row not in mistakes:
        look = {"fmt": "D", "color": BLUE, "mfc": "none", "mew": 2}
    spread = [[factor - low], [high - factor]]
    ax.errorbar(factor, place, xerr=spread, ms=6, capsize=5, **look)
    ax.annotate(f"{factor:.2g} ×", (factor, place - 0.2), ha="center", va="bottom")
ax.axvline(1, color=GREY, lw=1)
ends = np.array([*answers.values(), *rights.values()])
ax.set(xscale="log", xlim=(ends.min() / 2, ends.max() * 2))
ax.xaxis.set_major_formatter("{x:g}")
ax.set_yticks(range(len(answers)), answers)
ax.set_ylim(len(answers) - 0.5, -0.8)
ax.set_xlabel("reported time / right time")
key = [
    plt.Line2D([], [], marker="o", ls="", color=ORANGE, label="mistake"),
    plt.Line2D([], [], marker="D", ls="", color=BLUE, mfc="none", mew=2),
    plt.Rectangle((0, 0), 1, 1, color=GREY, label="quartiles of the right time"),
]
key[1].set_label("right answer to another question")
fig.legend(handles=key, loc="outside lower center", ncols=3, frameon=False)
no_wait_factor = answers[next(iter(answers))][1]
fig.suptitle(
    f"A timer that does not wait reports {no_wait_factor:.2g} × the right time"
)
fig.set_label(
    "Reported time over right time, on a logarithmic axis: "
    + "; ".join(f"{row}, {factor:.2g}" for row, (_, factor, _) in answers.items())
)
plt.show()

# %%
# Thin lines are quartiles. Those of a wrong answer may lie as close together as the
# right one's: a spread tells how well you *repeated* a measurement, not whether you
# measured what you meant. So write more beside the median, for example:

low, middle, high = (quantity(t, "s") for t in np.quantile(samples, quarters))
print(
    f"{middle} (quartiles {low} to {high}; {len(samples)} blocks of {loops} calls,\n"
    f"one wait a block, warm, 1 thread; first call {quantity(first, 's')};\n"
    f"{card(str(device)).name}, PyTorch {torch.__version__})"
)

# %%
# Where this stops being true
# ---------------------------
#
# - *Work that a timer does not know.* PyTorch waits for one CUDA device, whichever
#   library launched the work. On another device, or if PyTorch was built without CUDA,
#   its timer times launches and says nothing. Only a time below the floor
#   (:doc:`03_is_it_possible`) tells you.
# - *Calls that change their input.* A timer repeats, so the call has to do the same
#   work each time. Check the result after timing, as above.
# - *Busy computers.* A block is itself a mean: an interruption is spread over its
#   calls, so blocks much longer than needed make a spread look small.
# - *Another run.* All samples come from one process. Even `the size of the environment
#   variables`__ has changed results. To show a small difference, start the program
#   several times.
# - *A hot device.* Under minutes of heavy work, a card may lower its clock rate. What
#   you measure in a second is then too good.
#
# __ https://doi.org/10.1145/1508244.1508284
#
# Exercise
# --------
#
# ``report`` gets all samples in the order taken, in seconds, with the first call at the
# head, and a floor: no call can be faster. Return a dictionary with ``first``,
# ``median``, ``low`` and ``high`` (the quartiles) and ``count``, the number of samples
# behind them, or ``None`` where you would not report anything. One such case is that
# fewer than nine samples follow the first. What is the other?


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


# %%

print(check(report))

# %%
# A sample under the floor is no outlier to leave out. It proves that the clock stopped
# too early at least once, and you do not know how often.
#
# Three lines to remember
# -----------------------

# remember

print(
    "1. First call apart, then at least nine blocks of calls, one wait each.\n"
    f"   Here: {quantity(first, 's')} for the first call, then {middle}.\n"
    f"2. Report median and quartiles ({low} to {high}), not mean, not minimum.\n"
    "3. A small spread is no proof. Say: warm or cold, how many cores, which wait.\n"
    f"   Here {len(outside)} of {len(mistakes)} mistakes gave a time "
    "outside the right one's quartiles."
)

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
