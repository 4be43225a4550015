"""
Is your number possible?
========================

This page is for everybody who quotes the time of a computation, or is about to publish
one. Divide the bytes that a program must move by the :term:`bandwidth` of the memory.
No program that reads its data from that memory can be faster; a shorter time is wrong.
The board below does the division for your number, and names the mistake to look for
first. It starts from four times that tutorials report for a GPU; three of them are
impossible.

**You will learn**

- to catch an impossible time with one multiplication and one division;
- six mistakes that give wrong times, what each looks like, and what repairs it;
- which of them this division catches, which a careful timer, and which only you.

**Time:** 11 minutes. **Needs:** any computer, and some NumPy. No GPU is needed to make
the mistakes; if there is one, you make some of them there too.
"""

# %%
# Put your own number on the axis
# -------------------------------
#
# Set the bytes, the time and the card of *your* number, or drag the blue point. The
# axis shows the reported time divided by the shortest possible one, the :term:`floor`;
# 1 to 4 are the reports. The :term:`verdict` "impossible" is certain; which mistake it
# names first is only a guess. If your card is not in the menu, take one that has more
# bandwidth and computes faster.

# folded: The four reports, and the cards that they may come from

from firstlight.display import quantity, show_table
from firstlight.lessons.plausibility import Board, Hardware, ReportedTime
from firstlight.timing.specs import SPECS, spec

sheets = [name for name, of in SPECS.items() if of.fp32]
fastest = max(sheets, key=lambda card: spec(card, "bandwidth"))
assert fastest == max(sheets, key=lambda card: spec(card, "fp32"))
matvec, add = 4 * (100_000 * 100 + 100 + 100_000), 4 * 3 * 99_000_000
squares, operations = 10 * 4 * 2 * 10_000**2, 10 * 2 * 10_000**3
reports = {
    "1 PyTorch": (10.4e-6, matvec, None, ("GTX 1650 GDDR6", "GTX 1650")),
    "2 Numba": (264e-6, matvec, None, ("GTX 1650 GDDR6", "GTX 1650")),
    "3 ten products": (1e-3, squares, operations, (fastest,)),
    "4 addition": (3.1e-3, add, None, ("GTX 1080", "GTX 1660 Ti")),
}
on_fastest, floors, rows = [], {}, []
for what, (seconds, moved, flops, named) in reports.items():
    cards = [Hardware.from_spec(card) for card in named]
    each = [ReportedTime(what[2:], seconds, card, moved, flops) for card in cards]
    on_fastest.append(each[0])
    floors[what] = {report.hardware.name: report.floor for report in each}
    for card, floor in floors[what].items():
        times = (quantity(seconds, "s"), quantity(floor, "s"), f"{seconds / floor:.2g}")
        rows.append((f"{what}, {card}", quantity(moved, "B"), *times))
this_cpu = Hardware.from_device("cpu")

# %%

board = Board(on_fastest, hardware=[this_cpu])
board.show()

# %%
# Each report is held against the fastest card that it may come from. Report 3 names no
# card, and gets the fastest of this site's :term:`data sheets <data sheet>`.
#
# What the board computes
# -----------------------
#
# A program has to read its data from memory and write its results there, and memory
# delivers a limited number of bytes in a second, its *bandwidth*. It has to compute,
# too, and a processor does a limited number of operations in a second, its *rate*. The
# longer of the two times is the floor:
#
# .. math::
#
#     t \ge t_\text{floor} = \max\left(\frac{\text{bytes}}{\text{bandwidth}},
#     \frac{\text{operations}}{\text{rate}}\right).
#
# Makers' data sheets have both. All numbers here are ``float32``, of 4 bytes:
#
# - A course notebook multiplies a matrix of 100 000 × 100 by a vector on a GPU, in 10.4
#   microseconds with PyTorch and in 264 with :term:`Numba` (reports 1 and 2). Matrix
#   and vector are read once each, and a vector is written.
# - Notes on a textbook square a matrix of 10 000 × 10 000, then the result, and so on:
#   ten times on a GPU in 0.001 seconds (report 3), and once on a CPU in 6.007 seconds.
#   Each product reads one matrix, writes one, and takes 2 × 10 000³ operations.
# - `An imaging tutorial`__ adds two vectors of 99 million numbers, in 320 milliseconds
#   on a CPU and in 3.1 milliseconds on a GPU (report 4). It reads two and writes one.
#
# (:doc:`/claims` says more about the sources.)
#
# __ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

head = ("report and card", "moves", "reported", "floor", "ratio")
show_table("Four reports", head, rows)

# %%
# A ratio below 1 is impossible. For report 3 the arithmetic takes longer than the
# memory; each alone forbids it. Report 2 is possible with one of the two kinds of
# memory that a GTX 1650 was sold with. But in the same notebook, Numba adds two vectors
# in 304 microseconds, which moves 25 times fewer bytes and takes *longer*. So both
# times are mostly the *:term:`launch` overhead* of Numba, the time to start a
# :term:`kernel` (a program on the GPU), which others found to be `about as long`__.
#
# __ https://github.com/numba/numba/issues/3003
#
# The same four reports once more, beside what we make of each. The numbers are their
# authors', and so are the mistakes.
#
# .. measured-by-others:: notes-gpu mpol-gpu course-pytorch course-numba
#
# A stream to make mistakes on
# ----------------------------
#
# A GPU takes its work from a :term:`queue`, called a *stream*. Your program only adds
# work to it, and continues while the GPU does one piece after the other. A
# ``ToyStream`` shows this without a GPU: its worker is a second thread of the CPU.
# ``launch`` adds work and returns; ``synchronize`` waits until all of it is done. *Its
# times are a CPU's, not a GPU's*.

# folded: Libraries, two large vectors, and how a chart is drawn

from functools import partial
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.display import BLUE, GREY, ORANGE, RED
from firstlight.lessons.plausibility import MISTAKES, format_ratio
from firstlight.timing.toy_stream import Span, ToyStream

device = best_device()
has_gpu = device.type != "cpu"
n = 40_000_003 if has_gpu else 20_000_003
moved = 4 * 3 * n
rng = np.random.default_rng(seed=1)
a, b = (torch.from_numpy(rng.standard_normal(n, dtype=np.float32)) for _ in range(2))
out = torch.zeros_like(a)
stream, measured = ToyStream(), {}
lanes = {"host": BLUE, "queue": ORANGE, "clock": GREY}


def draw(mistake, reported, true, other=(), note=""):
    """Draw what the stream noted since ``begin``, and when the clock ran."""
    measured[mistake] = reported, true
    fig, ax = plt.subplots(figsize=(7.2, 2.0), layout="constrained")
    for span in (*stream.spans, Span("clock", "clock", start, stop)):
        bar = (1e3 * (span.start - start), 1e3 * (span.end - span.start))
        look = {"fc": "none" if span.label == "wait" else lanes[span.lane]}
        look |= {"ec": "black", "hatch": "////" if span.label in other else None}
        ax.broken_barh([bar], (list(lanes).index(span.lane) - 0.35, 0.7), **look)
    ax.axvline(1e3 * (stop - start), color=RED, lw=2, ls="--")
    ax.set_yticks(range(len(lanes)), lanes)
    ax.invert_yaxis()
    ax.set_xlabel("ms" + f" (hatched: {note})" * bool(note))
    title = f"{MISTAKES[mistake].title}: reported {quantity(reported, 's')}, should be "
    title += f"{quantity(true, 's')}; ratio {format_ratio(reported / true)}"
    ax.set_title(title.capitalize(), loc="left", size=10)
    fig.set_label(f"When the host, the queue and the clock were busy. {title}.")
    plt.show()


# %%


def add_into(x, y, result):
    torch.add(x, y, out=result)


def begin():
    stream.synchronize()  # nothing is left to do
    stream.spans.clear()
    return perf_counter()


# %%
# Check the result before you time anything, and again after several calls, because a
# timer makes many. ``result += x + y``, as in the notebook's kernel, is right only
# once: if you check the first run and time the next thousand, you time a wrong result.

# folded: Check both additions, twice, against float64


def add_onto(x, y, result):
    result += x + y


x, y = a[:1_000_003], b[:1_000_003]
exact = x.double() + y.double()
for function, start_value in ((add_into, torch.nan), (add_onto, 0.0)):
    result = torch.full_like(x, start_value)
    for run in (1, 2):
        stream.launch(function, x, y, result)
        stream.synchronize()
        worst = ((result - exact).abs() / exact.abs()).max().item()
        verdict = "right" if worst <= 2**-24 else "WRONG"
        assert (verdict == "right") == (function is add_into or run == 1)
        print(f"{function.__name__}, run {run}: error {worst:.0e}, {verdict}")

# %%
# Mistake a: not waiting
# ----------------------
#
# Which line is missing between ``start`` and ``stop``?

start = begin()
stream.launch(add_into, a, b, out, label="add")
stop = perf_counter()

stream.synchronize()
waited = perf_counter() - start
draw("not-waiting", stop - start, waited)

# %%
# The lanes show when the :term:`host` (your program), the stream and the clock were
# busy. An empty frame means waiting, and the dashed line is where the clock stopped.
# (These charts are of the run that built this page. The figure below them and the last
# three lines are of the recorded machine, where the factors differ.)
#
# The clock stopped after the launch, before the work was done.
# ``stream.synchronize()`` belongs above ``stop``; on a GPU it is
# ``torch.accelerator.synchronize()``, or ``torch.cuda.synchronize()`` in older code.
# Reports 1 and 3 come from ``%timeit`` and ``time.time()``, which do not wait.
#
# Mistake b: timing the first call
# --------------------------------
#
# Numba *compiles* a function, that is, translates it into machine code, when it is
# first called. GPU libraries load their code then, and the GPU itself has to start.

from numba import njit


@njit
def add_in_a_loop(x, y, result):
    for i in range(x.size):
        result[i] = x[i] + y[i]


arrays = a.numpy(), b.numpy(), out.numpy()
start = begin()
stream.launch(add_in_a_loop, *arrays, label="first call")
stream.synchronize()
stop = perf_counter()

for call in ("second call", "third call"):
    stream.launch(add_in_a_loop, *arrays, label=call)
stream.synchronize()
again = (perf_counter() - stop) / 2
draw("first-call", stop - start, again, {"first call"}, "the call that compiles, too")

# %%
# The first time is not false, but it answers another question: what a program that
# makes the call once waits for. Report both, and never their mean.
#
# Mistake c: timing the allocation
# ---------------------------------
#
# ``torch.add(a, b)`` *allocates* a new vector for the result. The operating system
# finds the memory for it, page by page, when each page is first written (a
# :term:`page fault`). With ``out=``, the memory is there already.

start = begin()
kept = stream.launch(torch.add, a, b, label="new result")
stream.synchronize()
stop = perf_counter()

stream.launch(add_into, a, b, out, label="same result")
stream.synchronize()
reused = perf_counter() - stop
note = "the addition that has to find memory for its result"
draw("fresh-memory", stop - start, reused, {"new result"}, note)

# %%
# The imaging tutorial's time for a CPU is of one call with a new result. On a GPU,
# PyTorch keeps memory that you no longer need (:doc:`/tutorials/2_devices/10_memory`),
# so that mostly the first call allocates. If only the CPU is timed like this, the GPU's
# :term:`speed-up` is exaggerated.
#
# Mistake d: work that changes from run to run
# --------------------------------------------
#
# Sort the same array five times, and report the mean of the five runs:

numbers = rng.random(500_003, dtype=np.float32)
sort = partial(numbers.sort, kind="stable")

start = begin()
for run in range(1, 6):
    stream.launch(sort, label=f"sort {run}")
stream.synchronize()
stop = perf_counter()

assert np.all(numbers[1:] >= numbers[:-1])
first = next(span for span in stream.spans if span.label == "sort 1")
later = {f"sort {run}" for run in range(2, 6)}
note = "sorting what is sorted already"
draw("changing-work", (stop - start) / 5, first.end - first.start, later, note)

# %%
# Only the first run sorts, so the mean depends on the number of runs, and a check of
# the result passes. Whatever changes its input can do this: an :term:`optimizer` that
# has converged, a list that grows, a sum by ``+=``. Sort a copy each time.
#
# Mistake e: not checking the result
# ----------------------------------
#
# Here are smaller matrices in the loop of the textbook's notes:

side = 900
matrix = torch.rand(side, side)
products = []
stream.launch(torch.matmul, matrix, matrix)

start = begin()
for number in range(1, 11):
    matrix = stream.launch(torch.matmul, matrix, matrix, label=f"product {number}")
    products.append(matrix)
stream.synchronize()
stop = perf_counter()

finite = [bool(torch.isfinite(product.value).all()) for product in products]
infinite = {f"product {run}" for run, fine in enumerate(finite, 1) if not fine}
each = (stop - start) / 10
draw("not-checked", each, each, infinite, "products with infinite elements")

# %%
# The time of a product is true, but the result is not: the elements grow until
# ``float32`` cannot hold them and they become infinite. Multiplying infinities is as
# much work as multiplying numbers, so no clock detects it. The notes' larger matrices
# overflow in the fourth product, too.
#
# Mistake f: unequal work
# -----------------------
#
# The notes compare those ten products with *one* on the CPU. Here the host multiplies
# once and the stream ten times:

left, result = torch.rand(side, side), torch.empty(side, side)
multiply = partial(torch.matmul, left, left, out=result)
multiply()

start = begin()
with stream.host("1 product"):
    multiply()
stop = perf_counter()

for number in range(1, 11):
    stream.launch(multiply, label=f"product {number}")
stream.synchronize()
ten = perf_counter() - stop
draw("unequal-work", stop - start, ten, {"1 product"}, "one product, not ten")

# %%
# Unequal work has many forms: a CPU that may use one of its cores only, ``float64`` on
# one side, a host–device transfer that one side leaves out, or the wrong *name* of the
# machine. The program of report 4 did wait, and its time is still too short for both
# cards that the tutorial names. Most likely it came from a faster card.

# folded: On a GPU: mistakes a, b and c, held against the card's floor


def launched_and_done(work):
    torch.accelerator.synchronize()
    start = perf_counter()
    work()
    launched = perf_counter() - start
    torch.accelerator.synchronize()
    return launched, perf_counter() - start


if has_gpu:
    ga, gb, gout = (vector.to(device) for vector in (a, b, out))
    this_gpu = Hardware.from_device(device)
    for number in (1, 2, 3):
        launched, done = launched_and_done(partial(add_into, ga, gb, gout))
        launch = ReportedTime("launched", launched, this_gpu, bytes=moved)
        print(f"call {number}: launched in {quantity(launched, 's')}", end=" ")
        print(f"({launch.verdict}), done after {quantity(done, 's')}")
    for kind in ("first", "second"):
        _, done = launched_and_done(lambda: ga + gb)
        print(f"{kind} new result: done after {quantity(done, 's')}")
else:
    print("There is no GPU here: all times on this page are a CPU's.")

# %%
# Measure
# -------
#
# A ``Bench`` waits for the device, keeps the first call apart, and repeats.
# (:doc:`/tutorials/2_devices/07_timing_it_right` builds such a timer.) Does it catch
# mistake d?

bench = Bench("timing-wrong", budget=4)
size = {"n": n, "bytes": moved}
bench.time("add", add_into, a, b, out, **size)

numbers = rng.random(500_003, dtype=np.float32)
sorting = {"n": numbers.size, "bytes": 4 * 2 * numbers.size}
bench.time("sort in place", partial(numbers.sort, kind="stable"), **sorting)
shuffled = rng.permutation(numbers)
bench.time("sort a copy", partial(np.sort, shuffled, kind="stable"), **sorting)
if has_gpu:
    bench.time("add, GPU", add_into, ga, gb, gout, **size)
bench.show()

# %%
# It does not: no timer can know that *sort in place* needs its data back. Its first
# call, kept apart, is the only hint. *sort a copy* is right.
#
# Which of the six times does a floor catch? A CPU has no data sheet that programs can
# read, so its floor is *measured*, from the best rate that plain calls reached here. A
# program may exceed that, so a shorter time is only *doubtful*. Only a data sheet can
# say *impossible*.

# folded: Hold the six times against this machine

from dataclasses import replace

times = [span.end - span.start for span in stream.spans if span.lane == "queue"]
this_cpu = replace(
    this_cpu,
    byte_rate=max(this_cpu.byte_rate, moved / min(bench["add"].values)),
    flop_rate=max(this_cpu.flop_rate, 2 * side**3 / min(times)),
)
addition, one = {"bytes": moved}, {"bytes": 4 * 2 * side**2, "flops": 2 * side**3}
ten_products = {what: 10 * count for what, count in one.items()}
work = (addition, addition, addition, {"bytes": sorting["bytes"]}, one, ten_products)
titles = [MISTAKES[mistake].title for mistake in measured]
ratios = [reported / true for reported, true in measured.values()]
six = [
    ReportedTime(title, reported, this_cpu, **least)
    for title, (reported, _), least in zip(titles, measured.values(), work, strict=True)
]
doubted = [time.name for time in six if time.verdict not in ("possible", "at-floor")]

# %%

repairs = (
    ("timer", "wait above stop"),
    ("timer", "time the second call, too"),
    ("you", "out="),
    ("you", "sort a copy"),
    ("you", "torch.isfinite(result)"),
    ("you", "same calls, cores, format"),
)
rows = [
    (f"{letter} {title}", "floor, " * (title in doubted) + finder, repair)
    for letter, title, (finder, repair) in zip("abcdef", titles, repairs, strict=True)
]
show_table("Six mistakes", ("mistake", "found by", "repair"), rows)

# %%
# A floor catches only what is faster than memory and arithmetic allow. A time that is
# too long makes a slow baseline, and so a large speed-up, which nobody doubts because
# it is possible.

# measured figure

shortest, *_, longest = sorted(ratios)
fig, ax = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
for row, (title, ratio) in enumerate(zip(titles, ratios, strict=True)):
    found = title in doubted
    ax.plot([1, ratio], [row, row], color=GREY, lw=1.5)
    ax.plot(ratio, row, "os"[found], ms=9, color=(BLUE, RED)[found])
    words = f"{ratio:.2g} ×" + ", doubtful" * found
    right = (max(ratio, 1), row)
    ax.annotate(words, right, (10, 0), textcoords="offset points", va="center")
ax.axvline(1, color=GREY, lw=1)
ax.set(
    xscale="log", xlim=(shortest / 2, longest * 30), xlabel="reported time / true time"
)
ax.set_yticks(range(6), titles)
ax.set_ylim(5.6, -0.6)
fig.suptitle(
    f"A floor makes {len(doubted)} of 6 mistakes doubtful; the rest look possible"
)
fig.set_label(
    "Reported time over true time of each mistake, on a logarithmic axis: "
    + "; ".join(f"{title}, {r:.2g}" for title, r in zip(titles, ratios, strict=True))
    + f". Doubtful by the floor: {', '.join(doubted) or 'none'}."
)
plt.show()

# %%
# Where this stops being true
# ---------------------------
#
# - *Caches.* Data that fit into the last cache, a small and fast memory inside the
#   processor, need not come from memory. For up to several times as much, the board
#   says *perhaps*.
# - *You count the least bytes.* If the program reads fewer bytes than you counted
#   (compressed, or optimised away), your floor is too high.
# - *Formats.* Many cards have matrix units, which multiply numbers of fewer bits
#   faster. A floor of arithmetic holds for one format.
# - *Possible is not true.* Two mistakes can hide each other: a first call that is not
#   waited for looks quite ordinary.
#
# Exercise
# --------
#
# Write the function that says which floor forbids each of five reports: ``"memory"``,
# ``"arithmetic"`` or ``"nothing"``. ``spec(card, "bandwidth")`` and
# ``spec(card, "fp32")`` give the rates of a card. All data are larger than the caches.

from typing import NamedTuple


class Report(NamedTuple):
    what: str
    read: int  # numbers that one call reads
    written: int  # numbers that one call writes
    size: int  # bytes of a number
    operations: int  # of one call
    calls: int
    seconds: float  # for all calls together
    card: str


cube = 8192
five = (
    Report("copy", 10**9, 10**9, 4, 0, 1, 5e-3, "V100 SXM2"),
    Report("product", 2 * cube**2, cube**2, 4, 2 * cube**3, 1, 4e-2, "A100 80GB SXM"),
    Report("ten sums", 2 * 10**8, 10**8, 4, 10**8, 10, 8e-3, "RTX 4090"),
    Report("one sum", 2 * 10**8, 10**8, 4, 10**8, 1, 3.8e-3, "GTX 1080"),
    Report("float16 sum", 4 * 10**9, 1, 2, 4 * 10**9, 1, 6e-3, "A100 40GB"),
)


def what_forbids(report): ...


# %%

# folded: What check does


def check(answer):
    expected = ("memory", "arithmetic", "memory", "nothing", "nothing")
    hints = (
        "a copy writes what it has read, and writing takes bandwidth, too",
        "this one moves few bytes and computes much: arithmetic has its own floor",
        "the seconds are those of all ten calls together",
        "bandwidth counts bytes in a second, not bits, and 4 bytes make a number",
        "the size of a number is 2 bytes here: it is not always 4 or 8",
    )
    for report, right, hint in zip(five, expected, hints, strict=True):
        try:
            got = answer(report)
        except Exception as error:
            return f"{report.what}: it raised {type(error).__name__}: {error}"
        if not isinstance(got, str) or got not in ("memory", "arithmetic", "nothing"):
            return f'{report.what}: {got!r}; say "memory", "arithmetic" or "nothing"'
        if got != right:
            return f"{report.what}: not {got!r}. Hint: {hint}."
    return "Right: three of the five could not have happened."


print(check(what_forbids))

# %%

# solution


def what_forbids_solution(report):
    numbers = report.calls * (report.read + report.written)
    memory = numbers * report.size / spec(report.card, "bandwidth")
    arithmetic = report.calls * report.operations / spec(report.card, "fp32")
    if report.seconds < memory:
        return "memory"
    return "arithmetic" if report.seconds < arithmetic else "nothing"


print(check(what_forbids_solution))

# %%
# Three lines to remember
# -----------------------

# remember

print(
    "1. Before you believe a time, divide bytes by bandwidth, and operations by their\n"
    "   rate: a shorter time is wrong.\n"
    f"2. The six mistakes multiplied the time by {shortest:.2g} to {longest:.2g}.\n"
    f"   A floor raised a doubt about {len(doubted)}: {', '.join(doubted) or 'none'}.\n"
    "3. Whatever it says: wait, call again, reuse memory, restore the data, check the\n"
    "   result, and do the same work on both sides."
)
