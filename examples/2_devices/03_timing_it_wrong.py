"""
Is your number possible?
========================

Here are six measurements from three tutorials. `One tutorial`__ adds two vectors of 99
million numbers, in 320 milliseconds on a CPU and in 3.1 milliseconds on a GPU. A course
notebook multiplies a matrix of 40 MB by a vector on a GPU, in 10.4 microseconds with
PyTorch and in 264 with Numba. Notes on a textbook multiply matrices of 10 000 × 10 000:
ten times on a GPU in 0.001 seconds, and once on a CPU in 6.007 seconds. Nobody lied.
But some of these numbers are impossible, and the others are not what they seem. The
mistakes behind them are easy to make. Here you make six, on purpose.

__ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

**You will learn**

- to catch an impossible number with one multiplication and one division;
- six mistakes that make wrong times, and what each looks like when you can see it;
- which of them arithmetic catches, which a good timer, and which only you.

**Time:** 20 minutes. **Needs:** any computer, and some NumPy. No GPU is needed to make
mistakes; if there is one, you make some there too.
"""

# %%
# Predict
# -------
#
# A program has to read its data from memory and to write its results there. Memory
# delivers only so many bytes in a second: its *bandwidth*. So no program takes less
# time than the bytes that it must move, divided by the bandwidth. That is the *floor*.
# (It holds when the data are too large for the caches, small and fast memory inside the
# processor. All of these are.) Before you believe a time, count bytes. All numbers here
# are ``float32``, of 4 bytes each:
#
# - The addition reads two vectors and writes one.
# - The matrix and the vector are read once each, and a vector is written.
# - Each of the ten products is a matrix times itself. It reads one matrix and writes
#   one. This counts the arithmetic as free, which is more than generous.
#
# The next cell holds the six reports: what, seconds, bytes, and the cards that the
# tutorial names. A GTX 1650 was sold with two kinds of memory, and the notebook does
# not say which one it had, so both are tried. The textbook's notes name no card at all.
# They get the one with the fastest memory in this site's list of data sheets.

from firstlight.measure.possible import cards
from firstlight.measure.specs import spec

fastest = max(cards(), key=lambda card: spec(card, "bandwidth"))
add, matvec = 4 * 3 * 99_000_000, 4 * (100_000 * 100 + 100 + 100_000)
product = 4 * 2 * 10_000**2
reports = {
    "1 add, GPU": (3.1e-3, add, ("GTX 1660 Ti", "GTX 1080")),
    "2 add, CPU": (320e-3, add, ()),
    "3 matrix × vector, PyTorch": (10.4e-6, matvec, ("GTX 1650 GDDR6", "GTX 1650")),
    "4 matrix × vector, Numba": (264e-6, matvec, ("GTX 1650 GDDR6", "GTX 1650")),
    "5 ten products, GPU": (1e-3, 10 * product, (fastest,)),
    "6 one product, CPU": (6.007, product, ()),
}
floors = {
    what: {card: moved / spec(card, "bandwidth") for card in named}
    for what, (_, moved, named) in reports.items()
}
for what, (seconds, moved, _) in reports.items():
    print(f"{what}: {moved / 1e6:,.0f} MB in {1e3 * seconds:,.4g} ms")
    for card, floor in floors[what].items():
        ratio = seconds / floor
        print(f"    {card}: floor {1e3 * floor:.3f} ms, time / floor = {ratio:.2f}")

# %%
# Below 1 is impossible. Every report from a GPU is below 1 on some card, and three of
# the four on every card that was tried. Report 5 is worse if its arithmetic counts. Ten
# products of this size are 20 million million operations, and the card above does
# :spec:`H200 fp32` in ``float32``:

arithmetic = 10 * 2 * 10_000**3 / spec(fastest, "fp32")
print(f"{fastest}, float32 arithmetic: at least {1e3 * arithmetic:.0f} ms")

limits = {what: list(found.values()) for what, found in floors.items()}
limits["5 ten products, GPU"].append(arithmetic)

# %%
# In the figure, a dot is a report. The dark red zone ends at the lowest floor: what
# lies in it is impossible on every card that was tried. The light red zone ends at the
# highest floor: that of the card with the slower memory, or in row 5 that of the
# arithmetic.

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(5.6, 4.0), layout="constrained")
for row, (what, (seconds, *_)) in enumerate(reports.items()):
    if limits[what]:
        low, high = min(limits[what]), max(limits[what])
        zone = {"height": 0.8, "color": "#c0392b", "lw": 0}
        ax.barh(row, low, alpha=0.55, label="" if row else "below all floors", **zone)
        ax.barh(row, high, alpha=0.22, label="" if row else "below one", **zone)
        ax.plot([low, low], [row - 0.4, row + 0.4], color="#c0392b", lw=2.5)
    else:
        ax.text(1.4e-6, row, "no machine named: no floor", va="center", size=9)
    label = "" if row else "reported"
    ax.plot(seconds, row, "o", ms=9, mec="white", color="#2f7ed8", label=label)
ax.set(xscale="log", xlim=(1e-6, 200), ylim=(5.6, -0.6), xlabel="time of all calls")
ax.set_xticks([1e-6, 1e-4, 1e-2, 1, 100], ["1 µs", "100 µs", "10 ms", "1 s", "100 s"])
ax.set_yticks(range(6), [what.replace(" × vector", "\n  × vector") for what in reports])
fig.legend(loc="outside lower left", frameon=False, fontsize=9, ncols=3)
fig.set_label(
    "Six reported times on a logarithmic axis, each against a red zone that ends at "
    "the floor of the cards in question. All four reports from GPUs lie in red, three "
    "of them in the part that is impossible on every card. The two from CPUs have no "
    "floor, because no machine is named."
)
plt.show()

# %%
# There is a second witness against report 4: the notebook itself. There, Numba adds two
# vectors in 304 microseconds. That moves 25 times fewer bytes than the matrix does, and
# takes *longer*. So neither number is about bytes. Numba needed `about as long`__ to
# start any kernel (a program on the GPU), however small it was.
#
# __ https://github.com/numba/numba/issues/3003
#
# A queue to make mistakes on
# ---------------------------
#
# A GPU has a queue. Your program only puts work into it, and goes on while the GPU
# takes one piece after the other. Most mistakes with the clock come from that. You can
# see them without a GPU on a ``ToyStream``: a queue whose worker is a second thread of
# the CPU. ``launch`` puts work into it and returns. ``synchronize`` waits until all of
# it is done. The work is real and so are its times, but *they are a CPU's times, not a
# GPU's*. (:doc:`/tutorials/2_devices/02_queues` explains it slowly.)

from time import perf_counter

import numpy as np
import torch

from firstlight import Bench, best_device
from firstlight.measure.replay import Replay
from firstlight.measure.toystream import ToyStream

device = best_device()
has_gpu = device.type != "cpu"
n = 40_000_003 if has_gpu else 20_000_003
moved = 4 * 3 * n
rng = np.random.default_rng(seed=1)
a, b = (torch.from_numpy(rng.standard_normal(n, dtype=np.float32)) for _ in range(2))
out = torch.zeros_like(a)


def add_into(x, y, result):
    torch.add(x, y, out=result)


# %%
# Check
# -----
#
# First the result, then the time. The sum goes through the queue, into memory full of
# *not a number*, and is compared with ``float64`` on an odd size. Then the queue does
# it again: who times a call makes it many times. The second function adds with ``+=``,
# as the notebook's kernel does.


def add_onto(x, y, result):
    result += x + y


stream = ToyStream()
x, y = a[:1_000_003], b[:1_000_003]
exact = x.double() + y.double()
for function, start_value in ((add_into, torch.nan), (add_onto, 0.0)):
    result = torch.full_like(x, start_value)
    for run in (1, 2, 3):
        stream.launch(function, x, y, result)
        stream.synchronize()
        worst = ((result - exact).abs() / exact.abs()).max().item()
        verdict = "right" if worst <= 2**-24 else "WRONG"
        print(f"{function.__name__}, run {run}: error {worst:.0e}, {verdict}")

# %%
# ``add_into`` is right each time. ``add_onto`` is right once. Check only the first run
# and time the next thousand, and you report the time of a wrong result.
#
# Mistake a: not waiting
# ----------------------
#
# ``begin`` empties the queue, and reads the clock. The queue keeps notes of who did
# what and when (``spans``), and a ``Replay`` draws them. Between ``start`` and ``stop``
# one line is missing. Can you see which?


def begin():
    stream.synchronize()
    stream.spans.clear()
    return perf_counter()


start = begin()
stream.launch(add_into, a, b, out, label="add")
stop = perf_counter()

stream.synchronize()
waited = perf_counter() - start

not_waiting = Replay(
    "not-waiting", stream.spans, (start, stop), reported=stop - start, honest=waited
)
not_waiting.show()

# %%
# Each lane of the chart shows who was busy when: the *host*, which is your program, the
# queue, and the clock. An empty frame means waiting. On the page, a button
# replays it. The clock
# stopped when the host had *asked*, long before the work was done.
# ``stream.synchronize()`` belongs above ``stop``; on a GPU it is
# ``torch.accelerator.synchronize()``. Reports 3 and 5 were taken like this: their
# programs never wait.
#
# Mistake b: timing the first call
# --------------------------------
#
# Numba *compiles* a function, which means to translate it into machine code, when it is
# first called. GPU libraries load their code then, and the GPU itself has to start. The
# same call, three times:

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

first_call = Replay(
    "first-call", stream.spans, (start, stop), reported=stop - start, honest=again,
    other={"first call"}, note="the call that compiles, too",
)  # fmt: skip
first_call.show()

# %%
# Both times are true, and they answer two questions. If your program makes the call
# once, the first one is what you wait for. If it makes the call a million times, the
# first one does not matter. Report both, and never their mean.
#
# Mistake c: timing the search for memory
# ---------------------------------------
#
# ``torch.add(a, b)`` makes a new vector for the result. Memory that a program asks for
# is only a promise. The operating system finds the real memory, page by page, when the
# page is first written: a *page fault*. With ``out=``, the memory is there already.

start = begin()
kept = stream.launch(torch.add, a, b, label="new result")
stream.synchronize()
stop = perf_counter()
stream.launch(add_into, a, b, out, label="same result")
stream.synchronize()
reused = perf_counter() - stop

fresh_memory = Replay(
    "fresh-memory", stream.spans, (start, stop), reported=stop - start, honest=reused,
    other={"new result"}, note="the addition that has to find memory for its result",
)  # fmt: skip
fresh_memory.show()

# %%
# Same numbers, same sum. Report 2 was taken like this: one call, with a new result. On
# a GPU, PyTorch keeps memory that you no longer need and hands it out again
# (:doc:`/tutorials/2_devices/06_memory`), so there it happens mostly in the first call.
# A CPU that is timed like this and a GPU that is not: that is how a speed-up grows.
#
# Mistake d: work that changes from run to run
# --------------------------------------------
#
# A loop of five runs, and their mean. What could be more careful?

from functools import partial

numbers = rng.random(500_003, dtype=np.float32)
sort = partial(numbers.sort, kind="stable")

start = begin()
for run in range(1, 6):
    stream.launch(sort, label=f"sort {run}")
stream.synchronize()
stop = perf_counter()

assert np.all(numbers[1:] >= numbers[:-1])
lasted = [span.end - span.start for span in stream.spans if span.lane == "queue"]
changing_work = Replay(
    "changing-work", stream.spans, (start, stop), reported=(stop - start) / 5,
    honest=lasted[0], other={f"sort {run}" for run in range(2, 6)},
    note="sorting what is sorted already",
)  # fmt: skip
changing_work.show()

# %%
# The first run sorts. The others find their work done. The more runs, the smaller the
# mean. And the check passes: the numbers *are* sorted. Whatever changes its input can
# do this: an optimiser that has converged, a list that grows, a sum by ``+=``.
#
# Mistake e: not checking the result
# ----------------------------------
#
# The textbook's notes multiply a matrix by itself, and the result by itself, ten times.
# Its elements are between 0 and 1 to begin with. Here are smaller matrices, with the
# same loop:

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
first_bad = finite.index(False) + 1
print(f"product {first_bad} is the first with elements that are not finite")

# %%
# Each product is larger by a factor that itself grows, until ``float32`` cannot hold
# the numbers. They become infinite, and all that is made of them is infinite, too.

infinite = {f"product {number}" for number in range(first_bad, 11)}
lasted = [span.end - span.start for span in stream.spans if span.lane == "queue"]
not_checked = Replay(
    "not-checked", stream.spans, (start, stop), reported=(stop - start) / 10,
    honest=sum(lasted[: first_bad - 1]) / (first_bad - 1),
    other=infinite, note="multiplying infinities",
)  # fmt: skip
not_checked.show()

# %%
# Without the hatching, could you tell which products are wrong? Multiplying infinities
# is as much work as multiplying numbers, so no clock sees it. (On a GPU it can even be
# `faster`__: bits that do not change need less power, and the processor's clock may run
# higher.) The textbook's own, larger matrices overflow in the fourth product as well.
#
# __ https://www.thonking.ai/p/strangely-matrix-multiplications
#
# Mistake f: unequal work
# -----------------------
#
# The notes set those ten products beside *one* on the CPU. Here the host multiplies
# once and the queue ten times:

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

unequal_work = Replay(
    "unequal-work", stream.spans, (start, stop), reported=stop - start, honest=ten,
    other={"1 product"}, note="one product, reported beside ten",
)  # fmt: skip
unequal_work.show()

# %%
# Unequal work hides in many places: a CPU that was given one of its cores, ``float64``
# on one side, a copy to the GPU that one side leaves out. And it hides in the *name* of
# the machine. Report 1 did wait for the GPU, and it is still too fast for both cards
# that its tutorial names. Most likely it came from another. (Ratios go wrong, too. The
# notebook calls 1.25 milliseconds against 264 microseconds "about 9X". Divide them.)
#
# The same on a GPU
# -----------------
#
# If there is a GPU, here are the first three mistakes on it. Each time of *asking* is
# held against the card's floor.

from firstlight.measure.possible import Claim, place_here


def asked_and_done(work):
    torch.accelerator.synchronize()
    start = perf_counter()
    work()
    asked = perf_counter() - start
    torch.accelerator.synchronize()
    return asked, perf_counter() - start


if has_gpu:
    ga, gb, gout = (vector.to(device) for vector in (a, b, out))
    calls = [asked_and_done(partial(add_into, ga, gb, gout)) for _ in range(3)]
    there = place_here(device)
    for number, (asked, done) in enumerate(calls, start=1):
        claim = Claim("asked", asked, there, bytes=moved)
        print(f"call {number}: asked in {1e3 * asked:.3f} ms, {claim.kind};", end="")
        print(f" done after {1e3 * done:.3f} ms")
    for kind in ("first", "second"):
        _, done = asked_and_done(lambda: ga + gb)
        print(f"{kind} new result: done after {1e3 * done:.3f} ms")
else:
    print("There is no GPU here: the charts above are the toy queue's alone.")

# %%
# Measure
# -------
#
# Now with care. A ``Bench`` waits for the device before it stops the clock, keeps the
# first call apart, repeats, and compares each row with the best that plain calls
# reached on this machine, its *roof*. (:doc:`/tutorials/2_devices/04_timing_it_right`
# builds such a timer, line by line.) Two ways to add, and two to sort:

A, B, C = arrays
few = 30_001
bench = Bench("timing-wrong", budget=4)
size = {"n": n, "bytes": moved}
bench.time("add", add_into, a, b, out, **size)
small = {"n": few, "bytes": 4 * 3 * few}
bench.time("add, few numbers", np.add, A[:few], B[:few], C[:few], **small)

numbers = rng.random(500_003, dtype=np.float32)
sorting = {"n": numbers.size, "bytes": 4 * 2 * numbers.size}
bench.time("sort in place", partial(numbers.sort, kind="stable"), **sorting)
shuffled = rng.permutation(numbers)
bench.time("sort a copy", partial(np.sort, shuffled, kind="stable"), **sorting)
if has_gpu:
    bench.time("add, GPU", add_into, ga, gb, gout, **size)
bench.show()

# %%
# - *sort in place* is mistake d, and the Bench fell for it. It calls a function many
#   times; it cannot know that the function needs its data back. Only the first call
#   gives it away. *sort a copy* is right.
# - *add, few numbers* may beat the memory by far, and is honest: its data stay in a
#   cache. The verdict for that is ``in-cache``.
#
# Which of your six wrong times would arithmetic catch? A CPU has no data sheet that
# programs can read, so its floor is *measured*: the best rate of plain copies, sums and
# products, or of what this page has timed, if that was better. A measured rate may be
# exceeded, so what is faster is called ``above-roof``. Only a data sheet may say
# ``impossible``.

from dataclasses import replace

here = place_here("cpu")
here = replace(
    here,
    byte_rate=max(here.byte_rate, moved / min(bench["add"].values)),
    flop_rate=max(here.flop_rate, 2 * side**3 / min(lasted)),
)
one = {"bytes": 4 * 2 * side**2, "flops": 2 * side**3}
as_work = (
    (not_waiting, {"bytes": moved}),
    (first_call, {"bytes": moved}),
    (fresh_memory, {"bytes": moved}),
    (changing_work, {"bytes": sorting["bytes"]}),
    (not_checked, one),
    (unequal_work, {what: 10 * count for what, count in one.items()}),
)
caught = []
for replay, work in as_work:
    claim = Claim(replay.title, replay.reported, here, **work)
    print(f"{claim.name:<34} {claim.ratio:8.3g} of the floor: {claim.kind}")
    if claim.kind not in ("possible", "at-floor"):
        caught.append(replay.title)

# %%
# A floor catches what is *too fast*. That is half of the danger at most. Times that are
# too long make a slow baseline, and a slow baseline makes a large speed-up, which
# nobody doubts because it is possible.
#
# Put your own number on the axis
# -------------------------------
#
# The axis shows reported time over floor. Left of the red line is faster than the
# floor. Set the bytes, the time and the card of *your* number, or drag the blue point.
# You get a verdict, the mistake to look for first, and how to find out whether you made
# it. Which mistake it names is a rule of thumb. What it calls impossible is not.

from firstlight.measure.board import Board
from firstlight.measure.possible import place_of

judged = []
for what, (seconds, count, named) in reports.items():
    if not what.startswith("6"):  # one product on an unknown CPU: nothing to hold it to
        place = place_of(named[-1]) if named else here  # report 2, as if taken here
        flops = 10 * 2 * 10_000**3 if what.startswith("5") else None
        judged.append(Claim(what[2:], seconds, place, count, flops))

replays = [replay for replay, _ in as_work]
board = Board(judged, replays, places=[here])
board.show()

# %%
# Where this stops being true
# ---------------------------
#
# - *Caches.* Data that fit into the last cache need not come from memory, and the cache
#   of a large card of today holds the notebook's whole matrix. The floor holds only for
#   data of several times the cache; below that the verdict is ``in-cache``.
# - *Least bytes are your count.* If a program need not read what you counted, because
#   it is compressed, or constant, or because the compiler saw that nobody uses the
#   result, it is faster than your floor. Then the floor was of other work.
# - *Formats.* Many cards have matrix units, which multiply numbers of fewer bits
#   faster. An arithmetic floor is one for a format. That is why report 5 was held
#   against bytes first.
# - *Above the floor means possible, not true.* A mistake can also hide another: a first
#   call that is not waited for looks quite ordinary.
# - *The toy queue is no GPU.* It shares cores, memory and Python's lock with the host.
#   The order of events is that of a GPU; the lengths are not.
#
# Exercise
# --------
#
# Five reports. Write the function that says what forbids each: ``"memory"``,
# ``"arithmetic"`` or ``"nothing"``. Memory has a floor, arithmetic in ``float32`` has
# one, and a report is forbidden by the floor that it is below (none here is below
# both). ``spec(card, "bandwidth")`` and ``spec(card, "fp32")`` give the rates of a
# card. All data are far larger than the caches.

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
# ``check`` tries your function on the five, and tells you what to look at.


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

shortest, *_, longest = sorted(replay.ratio for replay in replays)
print("1. Bytes / bandwidth, before you believe a time. Below that, it did not happen.")
print(f"2. The six mistakes multiplied the time by {shortest:.2g} to {longest:.2g}.")
print(f"   A floor caught {len(caught)} of them: {', '.join(caught) or 'none'}.")
print(
    "3. For the others: call it again, reuse memory, restore the data, check results,"
)
print("   and do the same work on both sides.")
