"""
Is your number possible?
========================

Your group has bought a GPU. You multiply a matrix of 10,000 × 10,000 by itself on the
CPU, then ten times on the GPU, and look at the clock. Somebody who worked through a
textbook's chapter on GPUs did just that, and noted 6.007 seconds for the CPU and
0.001 seconds for the GPU.

**Would you believe it? Write down yes or no, and why.** By the end, one division will
tell you whether a number can be true, your own included. If you want the right way at
once, it's under *Copy this*.

**Needs:** any computer. Without a GPU, you'll see what an NVIDIA
H100 did.
"""

# %%
# Try it
# ------
#
# Here is the check, nearly as it was done. If you have no GPU, both halves run on the
# CPU, with a smaller matrix.

from time import perf_counter

import torch

from firstlight import best_device

device = best_device()
has_gpu = device.type != "cpu"
side = 10_000 if has_gpu else 1_000

x_cpu = torch.rand(side, side)
x_gpu = x_cpu.to(device)
first = x_gpu @ x_gpu  # not timed, because it also loads a library

start = perf_counter()
x_cpu = x_cpu @ x_cpu
print(f"one product on the CPU: {perf_counter() - start:.3f} s")

start = perf_counter()
for _ in range(10):
    x_gpu = x_gpu @ x_gpu
print(f"ten products on {device}: {perf_counter() - start:.3f} s")

# %%
# On a GPU, you'll probably see a time as strange as the one in the notes. Our H100
# printed the very same number. And one thing is odd without a GPU, too, because the
# check compares *one* product with *ten*.
#
# .. holds::
#
#    printed(r"ten products on cuda:0: ([\d.]+) s") == [0.001]
#
# Count before you believe
# ------------------------
#
# Let's count how long ten such products must take at least. Each number of the result
# is a sum of 10,000 terms, which takes 10,000 multiplications and 10,000 additions. The
# result has 10,000 × 10,000 numbers. So one product, as libraries compute it, takes
# :math:`2 \times 10\,000^3` operations, and ten products take ten times that.
#
# A card's data sheet says how many operations it can do in a second, in TFLOP/s. One
# TFLOP/s is :math:`10^{12}` operations a second. Divide, and you have the least time.
# The next cell does it for the fastest card whose data sheet we have, and the figure
# for all of them.

from firstlight.timing.specs import SPECS, spec

operations = 10 * 2 * 10_000**3
least = {card: operations / spec(card, "fp32") for card, of in SPECS.items() if of.fp32}
fastest = min(least, key=least.get)
print(f"{fastest}: at least {least[fastest]:.3f} s, and the notes say 0.001 s")

# %%

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

from firstlight.display import BLUE, RED

cards = sorted(least, key=least.get)
fig, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
ax.plot([least[card] for card in cards], cards, "o", color=BLUE)
ax.axvline(1e-3, color=RED, lw=2)
between = len(cards) // 2 - 0.5  # two lines of the grid
ax.text(1.15e-3, between, "the notes", size=12, va="center")
ax.grid(axis="y", alpha=0.3)
ax.set(xscale="log", xlim=(5e-4, 10), xlabel="seconds for ten products, at least")
ax.invert_yaxis()
fig.suptitle("Ten products: the least time of each card")
fig.set_label(
    "The least time of ten products for each card, on a logarithmic axis: "
    + "; ".join(f"{card}, {least[card]:.2g} s" for card in cards)
    + ". A line marks the 0.001 s of the notes, far below all of them."
)
plt.show()

# %%
# Even the fastest card would need far longer than the notes say. We don't have to find
# the mistake to know that there is one. Such a limit is called the :term:`floor`. When
# you :doc:`added two vectors </tutorials/1_setup/02_first_speedup>`, it came from the
# bytes that have to be moved, and here it comes from the arithmetic. A program needs
# both, so the floor is the longer of the two times:
#
# .. math::
#
#     t_\text{floor} = \max\left(\frac{\text{bytes}}{\text{bandwidth}},
#     \frac{\text{operations}}{\text{operations a second}}\right).
#
# If your card isn't on our list, its maker's data sheet has both rates, as *memory
# bandwidth* and *FP32*. For some chips, such as Apple's, it has only the first, which
# is enough for the time of the bytes. If the data have to travel to the GPU, there's a
# third time to compare with: their bytes, divided by the rate of the link. For example,
# :term:`PCIe` 4, a common slot for a GPU, carries :spec:`PCIe 4 x16 bandwidth`. So 10
# GB take nearly a third of a second at best, whatever the GPU.
#
# The board below works out the floor. **Choose report 1, and drag the blue point to the
# right. How often does the verdict change, and why?** Then type a number of your own,
# such as ``1.2 GB, 3.1 ms``, and choose your card.

# folded: The three reports on the board

from firstlight.lessons.plausibility import Board, Hardware, ReportedTime

matrices = 10 * 4 * 2 * 10_000**2  # each product reads one matrix and writes one
addition = 3 * 4 * 99_000_000
times_vector = 4 * (100_000 * 100 + 100 + 100_000)
reports = [
    ReportedTime(
        "ten products", 1e-3, Hardware.from_spec(fastest), matrices, operations
    ),
    ReportedTime("addition", 3.1e-3, Hardware.from_spec("GTX 1080"), addition),
    ReportedTime(
        "matrix times vector",
        10.4e-6,
        Hardware.from_spec("GTX 1650 GDDR6"),
        times_vector,
    ),
]

# %%

board = Board(reports, hardware=[Hardware.from_device("cpu")])
board.show()

# %%
# On the way to the right, you first pass the time that the memory needs, then that of
# the arithmetic. Report 2 is MPoL's addition from :doc:`a first speed-up
# </tutorials/1_setup/02_first_speedup>`. Its 3.1 milliseconds are too short for either
# of the two cards that the tutorial names. Report 3, from a course notebook, is a
# product of a matrix and a vector in 10.4 microseconds. Most likely it has the same
# fault as report 1.
#
# What went wrong?
# ----------------
#
# **The clock didn't wait.** Python doesn't multiply anything on a GPU. It *asks* the
# GPU to multiply, which we call a :term:`launch`, and goes on at once. So the notes
# timed how long it takes to ask ten times. The remedy is
# ``torch.accelerator.synchronize()``, which waits until the GPU has done all that it
# was asked for. In older code you'll find ``torch.cuda.synchronize()``.

if has_gpu:
    x_gpu = torch.rand(side, side, device=device)
    torch.accelerator.synchronize()
    start = perf_counter()
    y = x_gpu @ x_gpu
    asked = perf_counter() - start
    torch.accelerator.synchronize()
    done = perf_counter() - start
    print(f"asked after {1e6 * asked:,.0f} µs, done after {1e6 * done:,.0f} µs")

# %%
# On the H100, the first of the two times is that of a single call, in which PyTorch may
# also have to ask the :term:`driver` for memory. If you launch again and again, a call
# takes much less. For example, a product of two tiny matrices, 8 × 8, takes
# :timing:`wins-matrix-matrix median "GPU/cuda:0/n=8" @nvidia-h100-80gb-hbm3` there, and
# nearly all of that is the launch.
#
# **The result is infinite.** The loop multiplies the product by itself, again and
# again. **Guess first: after how many products does something break?**

x = torch.rand(1_000, 1_000)
for number in range(1, 6):
    x = x @ x
    print(f"product {number}: the largest element is {x.max():.2g}")

# %%
# The elements grow so fast that ``float32``, which ends near :math:`3 \times 10^{38}`,
# can't hold them any more. A GPU multiplies infinities at least as fast as numbers, so
# no clock will warn you. You have to look at the result.
#
# **The work wasn't the same.** The 6.007 seconds are for one product, and the 0.001
# seconds for ten. Here the mistake made the GPU look slower. More often the GPU looks
# too fast, for example because the CPU may use only one of its cores.
#
# Copy this
# ---------
#
# To get it right, wait for the GPU before each look at the clock, make the same product
# every time, and see that the result is finite.

from time import perf_counter

import torch

has_gpu = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if has_gpu else torch.device("cpu")


def wait(device):
    if torch.device(device).type != "cpu":
        torch.accelerator.synchronize()


def seconds_for_one(device, side, calls=10):
    x = torch.rand(side, side, device=device)
    y = x @ x  # before the clock starts, since it also loads a library
    wait(device)
    start = perf_counter()
    for _ in range(calls):
        y = x @ x
    wait(device)
    seconds = (perf_counter() - start) / calls
    assert torch.isfinite(y).all()
    return seconds


same_side = 4_096 if has_gpu else 1_000
on_cpu = seconds_for_one("cpu", same_side)
on_device = seconds_for_one(device, same_side)
print(f"CPU: {1e3 * on_cpu:.1f} ms")
if has_gpu:
    ratio = on_cpu / on_device
    print(f"{device}: {1e3 * on_device:.1f} ms, {ratio:.1f} times as fast")

# %%
# With matrices of 4,096 × 4,096, the H100's computer took :timing:`wins-matrix-matrix
# median "CPU/cpu/n=4096" @nvidia-h100-80gb-hbm3` on its sixteen :term:`virtual CPUs
# <virtual CPU>` and :timing:`wins-matrix-matrix median "GPU/cuda:0/n=4096"
# @nvidia-h100-80gb-hbm3` on the GPU. So the GPU *is* faster:
# :timing:`wins-matrix-matrix speedup "GPU/cuda:0/n=4096"/"CPU/cpu/n=4096"
# @nvidia-h100-80gb-hbm3`. It's far from thousands, though. In the H100's tab, the check
# printed a larger ratio, because the CPU took longer in that one run. So :doc:`repeat
# it <07_timing_it_right>` before you report it.
#
# .. holds::
#
#    cpu = median("wins-matrix-matrix/CPU/cpu/n=4096")
#    gpu = median("wins-matrix-matrix/GPU/cuda:0/n=4096")
#    printed(r"ms, ([\d.]+) times as fast")[0] > 1.1 * cpu / gpu
#
# Is the GPU's time possible? It did :timing:`wins-matrix-matrix rate
# "GPU/cuda:0/n=4096" @nvidia-h100-80gb-hbm3`, and its data sheet allows :spec:`H100 SXM
# fp32`, so it is. Here is the same test for the time in the notes:
#
# .. measured-by-others:: notes-gpu
#
# Possible isn't true
# -------------------
#
# The floor can't catch everything. For example, let's sort half a million numbers in
# place, again and again, and take the middle of all times. On one core of an AMD EPYC,
# that took :timing:`timing-wrong median "sort in place" @cpu-amd-epyc`. When we let
# each call sort a fresh copy of the same numbers, a call took :timing:`timing-wrong
# median "sort a copy" @cpu-amd-epyc`. **Why is the first so much faster? Think before
# you read on.**

# folded: The measurement, and its table

from functools import partial

import numpy as np

from firstlight import Bench

rng = np.random.default_rng(seed=1)
bench = Bench("timing-wrong", budget=4)
numbers = rng.random(500_003, dtype=np.float32)
sorting = {"n": numbers.size, "bytes": 4 * 2 * numbers.size}
bench.time("sort in place", partial(numbers.sort, kind="stable"), **sorting)
shuffled = rng.permutation(numbers)
bench.time("sort a copy", partial(np.sort, shuffled, kind="stable"), **sorting)
bench.show()

# %%
# The first call sorts the array. All others sort an array that's sorted already! Both
# times are possible, and both results are right. If you print the time of each call,
# the first one stands out.
#
# A floor of arithmetic also holds for one kind of number only, and GPUs have special
# units that multiply matrices of shorter numbers. For example, an H100 that was allowed
# to round to TF32, a format of 19 bits, did a product :timing:`precision speedup "GPU,
# matmul, tf32"/"GPU, matmul, float32" @nvidia-h100-80gb-hbm3` as fast as in
# ``float32``. So count with the rate of the :doc:`format that you use
# </tutorials/2_devices/13_precision>`. But that doesn't save report 1. Even with the
# :spec:`B200 tf32` of a B200's matrix units, ten products need more than seventeen
# times what the notes say.
#
# .. holds::
#
#    17 < 10 * 2 * 10_000**3 / spec("B200", "tf32") / 0.001 < 18
#
# And a floor of bytes counts only what comes from memory. Arrays that fit into a GPU's
# last and largest :term:`cache` may stay in it. For example, an H100 took the mean of
# small images, 33 MB in all, at :timing:`wins-stack rate "GPU/cuda:0/n=512"
# @nvidia-h100-80gb-hbm3`, while its memory has :spec:`H100 SXM bandwidth`. That cache
# has :spec:`H100 SXM L2 size` on an H100, :spec:`RTX 4090 L2 size` on an RTX 4090, and
# only :spec:`T4 L2 size` on a T4.
#
# .. holds::
#
#    small = row("wins-stack/GPU/cuda:0/n=512")
#    near(small.bytes, 33e6, 0.02) and small.bytes < spec("H100 SXM L2", "size")
#    small.byte_rate > 1.2 * spec("H100 SXM", "bandwidth")
#
# Your turn
# ---------
#
# Write the function that says which floor forbids each of these five reports:
# ``"memory"``, ``"arithmetic"`` or ``"nothing"``. ``spec(card, "bandwidth")`` and
# ``spec(card, "fp32")`` give you the rates of a card. All products and sums are in full
# ``float32``, except the last, where only the bytes matter. Put your answer where the
# dots are, and run ``firstlight try 03_is_it_possible.py``.

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


# %%

print(check(what_forbids))

# %%
# Three lines to remember
# -----------------------
#
# Some libraries, such as NVIDIA's cuBLAS on a B200, can put a ``float32`` product
# together from products of shorter numbers. Then count with the rate of the shorter
# ones. And a card for games may beat its floor of arithmetic by a fifth, but not that
# of bytes.

# remember

print("""\
1. Divide bytes by bandwidth, and operations by operations a second, for your format of
   numbers. A time well below the longer of the two is wrong. (A card for games can be a
   fifth below, because its clock may exceed the data sheet's; and arrays that fit into
   the last cache, of tens or hundreds of megabytes, far below.)
2. Wait for the GPU before each look at the clock, give both sides the same work, and
   look at the result.
3. Possible isn't true: sorting what is sorted already looks fast, and no floor
   objects.""")

# %%
# Solution
# --------

# solution


def what_forbids_solution(report):
    numbers = report.calls * (report.read + report.written)
    memory = numbers * report.size / spec(report.card, "bandwidth")
    arithmetic = report.calls * report.operations / spec(report.card, "fp32")
    if report.seconds < memory:
        return "memory"
    return "arithmetic" if report.seconds < arithmetic else "nothing"


print(f"Our solution: {check(what_forbids_solution)}")
