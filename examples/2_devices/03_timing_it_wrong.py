"""
Is your number possible?
========================

Three tutorials report six times. `One`__ adds two vectors of 99 million numbers, in 320
milliseconds on a CPU and in 3.1 milliseconds on a GPU. A course notebook multiplies a
matrix of 40 MB by a vector, in 264 and in 10.4 microseconds. Notes on a textbook
multiply two matrices of 10 000 × 10 000 once on a CPU, in 6.007 seconds, and ten times
on a GPU, in 0.001 seconds. Nobody lied. Each author made a mistake that is easy to make
with a clock. Here you make all of them, on purpose.

__ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

**You will learn**

- to catch an impossible number with one multiplication and one division;
- six mistakes that make wrong times, and what each looks like when you can see it;
- which of them a floor catches, which a tool, and which only you.

**Time:** 20 minutes. **Needs:** any computer, and some NumPy. No GPU is needed to make
mistakes; if there is one, you make them there too.
"""

# %%
# Predict
# -------
#
# No program is faster than the bytes that it must move, divided by the *bandwidth*: the
# bytes that memory delivers in a second. That is the *floor*. (It holds when the data
# are too large for the caches. All of these are.) So before you believe a time, count
# bytes. All numbers here are ``float32``, of 4 bytes each:
#
# - The addition reads two vectors and writes one.
# - The matrix and the vector are read once each, and a vector is written.
# - Each of the ten products is a matrix times itself. It reads one matrix and writes
#   one. Counting like this makes the arithmetic free, which is more than generous.
#
# The next cell holds the six reports: what, seconds, bytes, and the cards that the
# tutorial names. A GTX 1650 was sold with two kinds of memory, and the notebook does
# not say which one it had, so both are tried. The textbook's notes name no card at all.
# They get the fastest one that we know of.

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
        print(
            f"    {card}: at least {1e3 * floor:.3f} ms, so {seconds / floor:.2f} of it"
        )

# %%
# Every report from a GPU is below 1 on some card, and three of the four on every card
# that is named. Report 5 loses by more if the arithmetic counts. Ten products of this
# size are 20 million million operations, and the card above does
# :spec:`H200 fp32` in ``float32``:

arithmetic = 10 * 2 * 10_000**3 / spec(fastest, "fp32")
print(f"{fastest}, float32 arithmetic: at least {1e3 * arithmetic:.0f} ms")

limits = {what: list(found.values()) for what, found in floors.items()}
limits["5 ten products, GPU"].append(arithmetic)

# %%
# In the figure, a dot is a report. The dark red zone ends at the lowest floor: nothing
# inside it can be true on any card in question. The light red zone ends at the highest
# floor: that of the slower card, or in row 5 that of the arithmetic.

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(5.6, 4.0), layout="constrained")
for row, (what, (seconds, *_)) in enumerate(reports.items()):
    if limits[what]:
        low, high = min(limits[what]), max(limits[what])
        zone = {"height": 0.8, "color": "#c0392b", "lw": 0}
        ax.barh(row, low, alpha=0.55, label="" if row else "impossible", **zone)
        ax.barh(row, high, alpha=0.22, label="" if row else "impossible on one", **zone)
        ax.plot([low, low], [row - 0.4, row + 0.4], color="#c0392b", lw=2.5)
    else:
        ax.text(1.4e-6, row, "no machine named: no floor", va="center", size=9)
    ax.plot(seconds, row, "o", ms=9, mec="white", color="#2f7ed8", zorder=3)
ax.plot(60.07, 5, "o", ms=9, mfc="none", color="#2f7ed8", label="ten times 6")
ax.set(xscale="log", xlim=(1e-6, 200), ylim=(5.6, -0.6), xlabel="time")
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
# start any kernel, whatever its size.
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
# GPU's*.

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
# it again: a program that times a call makes it many times. The second function is what
# the notebook timed, with ``+=``.


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
# ``add_into`` is right each time. ``add_onto`` is right once. Had you checked only the
# first run and timed the next thousand, you would report the time of a wrong result. It
# also reads ``result``, so it is not even the time of an addition.
#
# Mistake a: not waiting
# ----------------------
#
# ``begin`` empties the queue and its notes, and reads the clock. Then one line is
# missing. Can you see which?


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
# Each lane of the chart shows who was busy when: the host (your program), the queue,
# and the clock. An empty frame means waiting. On the page, a button replays it. The
# clock was stopped before the work had even begun. Its time is that
# of *asking*. ``stream.synchronize()`` belongs above ``stop``; on a GPU it is
# ``torch.accelerator.synchronize()``. This is where report 3 comes from, and
# report 5: ten questions, no answer.
#
# Mistake b: timing the first call
# --------------------------------
#
# Numba translates a function into machine code when it is first called. GPU libraries
# load their code then, too, and the GPU itself has to start. The same call, three
# times:

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
stream.launch(torch.add, a, b, label="new result")
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
# a GPU, PyTorch keeps memory that you no longer need and hands it out again, so there
# this happens mostly in the first call. The CPU is slower by mistake, and the GPU looks
# faster for it.
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
queued = [span for span in stream.spans if span.lane == "queue"]
changing_work = Replay(
    "changing-work", stream.spans, (start, stop), reported=(stop - start) / 5,
    honest=queued[0].end - queued[0].start,
    other={span.label for span in queued[1:]}, note="sorting what is sorted already",
)  # fmt: skip
changing_work.show()

# %%
# The first run sorts. The others find their work done. With a hundred runs the mean
# would be nearer still to nothing. The check passes: the numbers *are* sorted. Whatever
# works in place does this, one way or the other: an optimiser that has converged, a
# list that grows, ``x *= 0.5`` until the numbers are so small that the processor slows
# down. And ``+=``, as in the notebook's addition.
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
queued = [span for span in stream.spans if span.lane == "queue"]
good = [span.end - span.start for span in queued if span.label not in infinite]
not_checked = Replay(
    "not-checked", stream.spans, (start, stop), reported=(stop - start) / 10,
    honest=sum(good) / len(good), other=infinite, note="multiplying infinities",
)  # fmt: skip
not_checked.show()

# %%
# The clock does not see it. Multiplying infinities takes about as long as multiplying
# numbers, so no floor and no tool that times can find it. (On a GPU it can even be
# `faster`__: bits that do not change need less power, and the processor's clock may run
# higher.) The textbook's own, larger matrices overflow in the fourth product as well.
#
# __ https://www.thonking.ai/p/strangely-matrix-multiplications
#
# Mistake f: unequal work
# -----------------------
#
# The notes compare those ten products with *one* on the CPU. Here the host multiplies
# once and the queue ten times, and both use the same cores:

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
# that its tutorial names. Most likely it came from another. (The notebook has a slip:
# it calls 1.25 milliseconds against 264 microseconds "about 9X". Divide them.)
#
# The same on a GPU
# -----------------
#
# If there is a GPU, here are the six again, on it. The first is judged by what the
# card's driver says that it can at most do, or else by the best that plain copies
# reached.

from firstlight.measure.possible import Claim, place_here


def asked_and_done(work, calls=1):
    torch.accelerator.synchronize()
    start = perf_counter()
    for _ in range(calls):
        work()
    asked = perf_counter() - start
    torch.accelerator.synchronize()
    return asked, perf_counter() - start


if has_gpu:
    there = place_here(device)
    ga, gb, gout = (vector.to(device) for vector in (a, b, out))
    add_into(ga, gb, gout)
    times = asked_and_done(partial(add_into, ga, gb, gout))
    for how, seconds in zip(("not waiting", "waiting"), times, strict=True):
        claim = Claim(how, seconds, there, bytes=moved)
        print(f"a {how}: {claim.ratio:.3f} of the floor, {claim.verdict}")
else:
    print("There is no GPU here: the charts above are the toy queue's alone.")

# %%
# The others, in the order of above: the first product of matrices against a later one,
# the first new result against a later one, three runs of ``+=``, ten products in a row,
# and one product beside ten.

if has_gpu:
    square = torch.rand(4096, 4096, device=device)
    results = torch.empty_like(square)
    multiply_there = partial(torch.matmul, square, square, out=results)
    first, later = (1e3 * asked_and_done(multiply_there)[1] for _ in range(2))
    print(f"b product: {first:.2f} ms at first, then {later:.2f} ms")
    first, later = (1e3 * asked_and_done(lambda: ga + gb)[1] for _ in range(2))
    print(f"c new result: {first:.2f} ms at first, then {later:.2f} ms")
    total = torch.zeros_like(ga)
    asked_and_done(partial(add_onto, ga, gb, total), calls=3)
    print(f"d after three runs: {(total / gout).median().item():.1f} times the sum")
    power = square
    for _ in range(10):
        power = power @ power
    print(f"e finite after ten products: {torch.isfinite(power).all().item()}")
    one, ten = (1e3 * asked_and_done(multiply_there, calls)[1] for calls in (1, 10))
    print(f"f one product {one:.2f} ms, ten {ten:.2f} ms")

# %%
# Measure
# -------
#
# Now with care. A ``Bench`` waits for the device before it stops the clock, keeps the
# first call apart, repeats, and says how many cores the CPU used and how near each row
# came to the best that plain calls reached here. Four ways to add, and two to sort:

A, B, C = arrays
few = 30_001
bench = Bench("timing-wrong", budget=4)
size = {"n": n, "bytes": moved}
bench.time("add, all cores", add_into, a, b, out, **size)
bench.time("add, one core", np.add, A, B, C, **size)
bench.time("add, new result", torch.add, a, b, **size)
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
# - *add, few numbers* may beat the memory by far, and is honest: its data stay in a
#   cache. That is what ``in-cache`` means, and why a floor of memory holds only for
#   data much larger than the caches.
# - *sort in place* is mistake d, and the Bench fell for it. It calls a function many
#   times; it cannot know that the function needs its data back. Only the first call, in
#   its own place, gives it away. *sort a copy* is right.
#
# A ``Bench`` gives each row its verdict by comparing it with a floor. Here is the same
# rule on the reports of others. Report 2 is held against this computer's CPU, as if it
# had been taken here. A CPU has no data sheet that programs can read, so its floor is
# *measured*, by plain copies, sums and products. Only a data sheet may say
# ``impossible``; a measured rate says ``above-roof``.

from firstlight.measure.possible import place_of

here = place_here("cpu")
judged = []
for what, (seconds, count, named) in reports.items():
    if not what.startswith("6"):  # one product on an unknown CPU: nothing to hold it to
        place = place_of(named[-1]) if named else here
        flops = 10 * 2 * 10_000**3 if what.startswith("5") else None
        judged.append(Claim(what[2:], seconds, place, count, flops))
for claim in judged:
    print(f"{claim.name}, {claim.place.name}: {claim.ratio:.2g} of it, {claim.verdict}")

# %%
# And here is the rule on your own six wrong times:

sheet = {"bytes": 4 * 2 * side**2, "flops": 2 * side**3}
ten_sheets = {what: 10 * count for what, count in sheet.items()}
as_work = (
    (not_waiting, {"bytes": moved}),
    (first_call, {"bytes": moved}),
    (fresh_memory, {"bytes": moved}),
    (changing_work, {"bytes": sorting["bytes"]}),
    (not_checked, sheet),
    (unequal_work, ten_sheets),
)
caught = []
for replay, work in as_work:
    claim = Claim(replay.title, replay.reported, here, **work)
    print(f"{claim.name:<34} {claim.ratio:8.3g} of the floor: {claim.verdict}")
    if claim.verdict != "ok":
        caught.append(replay.title)

# %%
# A floor catches what is *too fast*. That is half of the danger at most. Times that are
# too long make a slow baseline, and a slow baseline makes a large speed-up, which
# nobody doubts because it is possible. What helps against each is said below.
#
# Put your own number on the axis
# -------------------------------
#
# The axis shows reported time over floor. Left of the red line is faster than the
# floor. Numbers are reports from above, letters the mistakes that you just measured.
# On the page, set the bytes, the time and the card of *your* number, or drag the blue
# point. The verdict names the mistake to look for first, how to find out whether you
# made it, and shows its chart. What it names is a rule of thumb; what it calls
# impossible is not.

from firstlight.measure.board import Board

replays = [replay for replay, _ in as_work]
board = Board(judged, replays, places=[here])
board.show()

# %%
# Where this stops being true
# ---------------------------
#
# - *Caches.* Data that fit into the last cache need not come from memory, and the cache
#   of a large card of today holds the notebook's whole matrix. The floor is a floor
#   only for data of several times the cache; below that the verdict is ``in-cache``.
# - *Least bytes are your count.* If a program need not read what you counted, because
#   it is compressed, or constant, or because the compiler saw that nobody uses the
#   result, it is faster than your floor. Then the floor was of other work.
# - *Formats.* Matrix units multiply numbers of fewer bits many times faster. An
#   arithmetic floor is one for a format. That is why report 5 was held against bytes
#   first.
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
print(
    f"2. The six mistakes made times {shortest:.2g} to {longest:.2g} of the true one."
)
print(f"   The floor flagged {len(caught)} of them: {', '.join(caught) or 'none'}.")
print(
    "3. For the others: call it again, reuse memory, restore the data, check results,"
)
print("   and do the same work on both sides.")
