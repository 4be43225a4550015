"""
How much faster is a GPU at adding two vectors?
===============================================

`An early tutorial of MPoL`__, a package that makes images from radio telescopes, adds
two vectors of 99 million numbers. It reports 320 milliseconds on a CPU and 3.1
milliseconds on a GPU, and says that GPUs compute "up to 100x" faster. Is that true?
Here you do the same addition, in every way that people do it.

__ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

**You will learn**

- to predict how long an operation takes from the bytes that it moves;
- why one addition has many times, all of them measured correctly;
- which two of them to divide, so that the ratio deserves the name *speed-up*.

**Time:** 10 minutes. **Needs:** any computer. With a GPU, the page measures that too.
"""

# %%
# Predict
# -------
#
# Before you measure, work out what to expect. To add two vectors of ``float32``
# numbers, the computer reads 4 bytes of ``a`` and 4 bytes of ``b`` for each element,
# adds them, and writes 4 bytes of the result. That is 12 bytes for a single addition.
# Every processor, CPU or GPU, can add far faster than its memory can deliver numbers.
# So the memory decides. As long as the vectors are far too large for the caches (small,
# fast memory inside the processor), no machine can be faster than
#
# .. math::
#
#     t_\text{floor} = \frac{12\ \text{bytes} \times n}{\text{memory bandwidth}}.
#
# *Bandwidth* is the number of bytes that memory can deliver in a second. Makers print
# it on the data sheet of a card. The old tutorial names two cards, a GTX 1080 and a GTX
# 1660 Ti. Here are their bandwidths, that of a large card of today, and the floors that
# follow:

from firstlight.measure.specs import spec

n_then = 99_000_000
cards = ("GTX 1080", "GTX 1660 Ti", "H100 SXM")
bandwidths = {card: spec(card, "bandwidth") for card in cards}

for card, bandwidth in bandwidths.items():
    floor = 12 * n_then / bandwidth
    print(f"{card:>11}: never under {1e3 * floor:.2f} ms")

# %%
# Look at the first two lines again. The tutorial reports 3.1 milliseconds. *Neither of
# its two cards can be that fast.* You have found an impossible number, before you
# measured anything, with one multiplication and one division. Keep the trick: there is
# an exercise on it below. First comes the other half of the claim: faster than *what*?
#
# The ways to add
# ---------------
#
# Your computer decides how large the vectors are: 99 million numbers if there is a GPU,
# fewer if there is none, so that the page stays quick.

import numpy as np
import torch

from firstlight import Bench, best_device

device = best_device()
has_gpu = device.type != "cpu"
n = n_then if has_gpu else 20_000_000
least_bytes = 12 * n

print(f"device: {device}")
print(f"{n:,} elements; one sum moves at least {least_bytes / 1e6:,.0f} MB")

# %%
# People write this addition in two ways, and the difference looks like a matter of
# style. ``a + b`` makes a *new* vector for the result, each time. With ``out=`` the
# result goes into a vector that is there already. You can do either with NumPy, which
# uses one core of the CPU for it, or with PyTorch, which uses all of them, or on the
# GPU.
#
# One way more matters if your data start in the computer's own memory, as data do:
# bring both vectors to the GPU, add, and bring the result back.


def new_result(x, y):
    return x + y


def same_result(x, y, out):
    torch.add(x, y, out=out)


def there_and_back(x, y):
    return (x.to(device) + y.to(device)).cpu()


# %%
# Check
# -----
#
# A fast wrong answer is worth nothing, so check before you time. Take an odd size, on
# which code that counts in blocks tends to fail, and compare with the same sum in
# ``float64``. The result has to be the exact sum, rounded once: a relative error of at
# most :math:`2^{-24}`.

rng = np.random.default_rng(seed=1)
x, y = (rng.standard_normal(1_000_003).astype(np.float32) for _ in range(2))
exact = x.astype(np.float64) + y
reused = torch.full((x.size,), torch.nan)
same_result(torch.from_numpy(x), torch.from_numpy(y), reused)

sums = {
    "NumPy": np.add(x, y),
    "torch, new result": new_result(torch.from_numpy(x), torch.from_numpy(y)),
    "torch, same result": reused,
}
if has_gpu:
    travelled = there_and_back(torch.from_numpy(x), torch.from_numpy(y))
    sums["GPU, there and back"] = travelled
for way, total in sums.items():
    worst = np.max(np.abs(np.asarray(total) - exact) / np.abs(exact))
    assert worst <= 2**-24, f"{way} is wrong by {worst:.1e}"
    print(f"{way:<23} largest relative error {worst:.1e}")

# %%
# Measure
# -------
#
# A ``Bench`` times one row at a time. It keeps the first call apart, because a first
# call often does work that later ones do not. It repeats the others until they agree,
# waits for the GPU before it stops the clock, and keeps the spread.
# :doc:`/how_we_measure` tells how.

a, b = (rng.standard_normal(n, dtype=np.float32) for _ in range(2))
out = np.zeros_like(a)
ta, tb, tout = (torch.from_numpy(vector) for vector in (a, b, out))

bench = Bench("vector-add")
size = {"n": n, "bytes": least_bytes}
bench.time("NumPy, new result", np.add, a, b, **size)
bench.time("NumPy, same result", np.add, a, b, out, **size)
bench.time("torch, new result", new_result, ta, tb, **size)
bench.time("torch, same result", same_result, ta, tb, tout, **size)
if has_gpu:
    ga, gb, gout = (vector.to(device) for vector in (ta, tb, tout))
    bench.time("GPU, new result", new_result, ga, gb, **size)
    bench.time("GPU, same result", same_result, ga, gb, gout, **size)
    bench.time("GPU, there and back", there_and_back, ta, tb, n=n, device=device)
bench.show()

# %%
# How to read this table:
#
# - *median*: half of the measured values were smaller, half larger. *spread* is the
#   range of the middle half, in percent of the median.
# - *first call*: where it is much longer than the median, something was done once.
#   Memory that a program just asked for is only a promise: the operating system finds
#   the real memory, page by page, when it is first written. If you time one call of ``a
#   + b``, you time that too.
# - *rate*: the least bytes, divided by the median. *of roof* compares it with the best
#   rate that plain copies and sums reached on this device, just now.
# - *cores*: how many cores the CPU really used. NumPy adds with one. PyTorch spreads a
#   large addition over several.
#
# The same as a picture. The dashed line is the floor: the least bytes, at the best rate
# of this machine.

bench.plot()

# %%
# The new vector's price is not paid only once. Large vectors go back to the operating
# system when they are deleted, so each ``a + b`` may find its memory anew. How much
# that costs depends on the library and on the system:

for library in ("NumPy", "torch"):
    new, same = (bench[f"{library}, {kind} result"].median for kind in ("new", "same"))
    print(
        f"{library}: a new result takes {new / same:.1f} times as long as the same one"
    )

# %%
# Which ratio is "the speed-up"?
# ------------------------------
#
# Every row above is a correct time for "adding two vectors on the CPU", and so is the
# slowest first call. Each of them can stand on top of the fraction when somebody
# announces a speed-up. Here they are, from the slowest to the fastest. Below the line
# stands the GPU: the one in your computer if there is one, and three *models*. A model
# is the floor that a card's data sheet sets, if that card were in your computer. The
# third model also sends the vectors through the card's slot and the result back, one
# copy after the other: PCI Express 3 with 16 lanes, :spec:`PCIe 3 x16 bandwidth` each
# way.

on_cpu = [timing for timing in bench.timings if timing.device == "cpu"]
baselines = {timing.label: timing.median for timing in on_cpu}
coldest = max(on_cpu, key=lambda timing: timing.first)
baselines[f"one call of\n{coldest.label}"] = coldest.first
baselines = dict(sorted(baselines.items(), key=lambda item: -item[1]))

contenders = {
    "the CPU\nat its best": min(baselines.values()),
    "model:\nGTX 1080": least_bytes / bandwidths["GTX 1080"],
    "model:\nH100": least_bytes / bandwidths["H100 SXM"],
}
slot = least_bytes / spec("PCIe 3 x16", "bandwidth")
contenders["GTX 1080,\nthere\nand back"] = contenders["model:\nGTX 1080"] + slot
if has_gpu:
    contenders["this GPU,\nsame\nresult"] = bench["GPU, same result"].median
    contenders["this GPU,\nthere\nand back"] = bench["GPU, there and back"].median

ratios = np.divide.outer(list(baselines.values()), list(contenders.values()))

# %%
# Each cell says how many times faster the column is than the row.

import matplotlib.pyplot as plt

width = 5.6 if len(contenders) < 5 else 7.2
fig, ax = plt.subplots(figsize=(width, 4.4), layout="constrained")
largest = np.abs(np.log10(ratios)).max()
shade = ax.imshow(
    np.log10(ratios), cmap="PuOr", vmin=-largest, vmax=largest, aspect="auto"
)
for (row, column), ratio in np.ndenumerate(ratios):
    colour = "#111111" if abs(np.log10(ratio)) < 0.6 * largest else "#fefefe"
    text = f"{ratio:.1f} ×" if ratio < 9.95 else f"{ratio:.0f} ×"
    ax.text(column, row, text, ha="center", va="center", color=colour)
ax.set_xticks(range(len(contenders)), contenders, fontsize=9)
ax.set_yticks(range(len(baselines)), baselines, fontsize=9)
ax.xaxis.tick_top()
fair = len(baselines) - 1
ax.axhspan(fair - 0.5, fair + 0.5, fill=False, lw=3, ec="#2f7ed8")
ax.set_xlabel("framed: against the CPU at its best")
fig.set_label(
    "A table of ratios, rows of CPU times over columns of GPU times. Down each column "
    "only the CPU's way of adding changes, and the ratio falls by a factor of "
    f"{ratios[0, 1] / ratios[-1, 1]:.0f}. A frame marks the CPU at its best."
)
plt.show()

# %%
# Go down any column of a GPU. The GPU does not change. The data do not change. Only the
# CPU's way of adding does, and the "speed-up" falls with it. (The old tutorial timed
# one call of ``A + B`` with a new result: a row like the first, not the framed one.)
# The first column has a speed-up with no GPU:

print(f"a GTX 1080 against the slowest CPU row: {ratios[0, 1]:.0f} × at most")
print(f"a GTX 1080 against the CPU at its best: {ratios[-1, 1]:.0f} × at most")
print(f"the CPU against itself, with no GPU:    {ratios[0, 0]:.0f} ×")

# %%
# A ratio deserves the name *speed-up* when both sides do the same work, each as well as
# it can, and when both start and end where *your* data do. That is the framed row, and
# one of two columns:
#
# - If your vectors stay on the GPU from one operation to the next, take the column
#   without the way there and back.
# - If each addition sends them there and back, take the column with it. A ratio below 1
#   means that the CPU wins. It does wherever the slot delivers fewer bytes a second
#   than the CPU's memory does.
#
# .. note::
#
#    Where the page was built without a GPU, the columns of GPUs are models: the least
#    that the cards' data sheets allow. Real cards take longer, so real ratios are
#    smaller.
#
#    Measured on the newest GPU on record, against the CPU beside it, without the way
#    there and back:
#    :timing:`vector-add speedup "GPU, same result"/"torch, same result" @gpu`.
#
# Where this stops being true
# ---------------------------
#
# - *Small vectors.* When all three fit into the CPU's cache, the CPU need not wait for
#   its memory. And starting any operation on a GPU takes some microseconds, however
#   small it is. Below some size the CPU wins. Which size depends on both.
# - *More work for each byte.* An addition does one operation for 12 bytes. Multiplying
#   two large matrices does hundreds for each byte. There the arithmetic decides, and
#   ratios are larger.
# - *One memory for both.* On Apple's chips, and wherever the GPU is part of the
#   processor, CPU and GPU use the same memory. Then there is no slot to go through.
# - *Other machines.* A ratio belongs to one pair of processors. A laptop's GPU against
#   a server's CPU is another question.
#
# Exercise
# --------
#
# Write the test that caught the tutorial's number: a function that says whether a card
# with a given bandwidth, in bytes a second, *could* add two vectors of ``n``
# ``float32`` numbers in the reported time.


def possible(n, seconds, bandwidth): ...


# %%
# ``check`` tries your function on cases that a wrong one gets wrong, and tells you what
# to look at.


def check(answer):
    cases = [
        (
            (99_000_000, 3.1e-3, 320e9),
            False,
            "12 bytes an element: two are read, one is written",
        ),
        ((99_000_000, 3.8e-3, 320e9), True, "each number has 4 bytes, not 8"),
        ((99_000_000, 1.0, 320e9), True, "more time than the floor is always possible"),
        ((1_000, 1e-12, 3.35e12), False, "less time than the floor never is"),
        ((1_000_000, 12e-6, 1e12), True, "exactly the floor is possible"),
    ]
    for arguments, expected, hint in cases:
        try:
            got = answer(*arguments)
        except Exception as error:
            return f"possible{arguments} raised {type(error).__name__}: {error}"
        if not isinstance(got, (bool, np.bool_)):
            return f"possible{arguments} gave {got!r}; it has to give True or False"
        if got != expected:
            return f"possible{arguments} gave {got}. Hint: {hint}."
    return "Right: you can catch impossible numbers now."


print(check(possible))

# %%

# solution


def possible_solution(n, seconds, bandwidth):
    return seconds >= 12 * n / bandwidth


print(check(possible_solution))

# %%
# Three lines to remember
# -----------------------

share = max(timing.byte_rate for timing in on_cpu) / bandwidths["GTX 1080"]
print("1. Bytes set the floor. Work it out before you believe a number, yours too.")
print(f"   The best row here reached {share:.0%} of a GTX 1080's bandwidth.")
print(f"2. One addition, on one CPU, has times a factor of {ratios[0, 0]:.0f} apart.")
print("3. Divide the best by the best, with the way there and back if you take it.")
