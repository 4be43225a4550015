"""
How much faster is a GPU at adding two vectors?
===============================================

This page is for anyone who wonders what a GPU would bring. An addition is so little
work that memory decides its time. A GPU that already has the data wins by about the
ratio of the two memories' :term:`bandwidths <bandwidth>`: see the framed row. If the
data cross PCIe, the link between CPU and GPU, each time, the GPU rarely wins: the
copies read and write as many bytes of the CPU's memory as the CPU would to add them
itself, and PCIe is usually slower than that memory. `An early tutorial of MPoL`__, a
package that makes images from radio telescopes, reports 320 milliseconds on a CPU and
3.1 milliseconds on a GPU for 99 million numbers, and calls GPUs "up to 100x" faster.
Such a ratio says as much about how the CPU was used as about the GPU.

__ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

**You will learn**

- to predict how long an operation takes from the bytes that it moves;
- why the same addition takes many different times, all measured correctly;
- which two of them to divide, so that the ratio deserves the name :term:`speed-up`.

**Time:** 9 minutes. **Needs:** any computer. With a GPU, the page measures that too.
"""

# %%
# Predict
# -------
#
# To add two vectors of ``float32`` numbers, the computer reads 4 bytes of ``a`` and 4
# bytes of ``b`` for each element, adds them, and writes 4 bytes of the result: 12 bytes
# for a single addition. Every processor, CPU or GPU, can add far faster than its memory
# can deliver numbers. So as long as the vectors are far too large for the
# :term:`caches <cache>` (small, fast memory inside the processor), no machine can be
# faster than
#
# .. math::
#
#     t_\text{floor} = \frac{12\ \text{bytes} \times n}{\text{memory bandwidth}}.
#
# *Bandwidth* is the number of bytes that memory can deliver in a second. Makers print
# it on the :term:`data sheet` of a card. :term:`MPoL`'s tutorial names two cards, a GTX
# 1080 and a GTX 1660 Ti. Here are their :term:`floors <floor>`, beside that of a card
# for data centres:

from firstlight.display import BLUE, show_table
from firstlight.timing.specs import spec, spec_of

n_then = 99_000_000
cards = ("GTX 1080", "GTX 1660 Ti", "H100 SXM")
bandwidths = {card: spec(card, "bandwidth") for card in cards}

rows = [
    (card, spec_of(card).text("bandwidth"), f"{12e3 * n_then / bandwidth:.2f} ms")
    for card, bandwidth in bandwidths.items()
]
head = ("", "bandwidth", "at least")
show_table(f"To add {n_then:,} numbers", head, rows)

# %%
# The tutorial reports 3.1 milliseconds. *Neither of its two cards can be that fast*
# with ``float32`` numbers, which its code adds. That code waits for the GPU, so a clock
# stopped too early is not the reason. Most likely the time is of a faster card. One
# multiplication and one division have caught an impossible number, before you measured
# anything. Now the other half of the claim: faster than *what*?
#
# The device
# ----------
#
# Most programs with PyTorch choose their device in one line:
#
# .. code-block:: python
#
#    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
#
# It takes a GPU of NVIDIA or AMD, since PyTorch calls both ``cuda``, and the CPU where
# there is none. It passes over the GPUs of Apple (``mps``) and Intel (``xpu``).
# The pages of this site use ``best_device()``, which finds those, too. Without a GPU,
# the vectors here are shorter, to save time.

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
# The ways to add
# ---------------
#
# People write this addition in two ways that look like a matter of style. ``a + b``
# makes a *new* vector for the result, each time. With ``out=`` the result goes into a
# vector that is there already. You can do either with NumPy, which adds on one core of
# the CPU, with PyTorch, which can use all cores, or on the GPU.
#
# If your data start in the computer's own memory, there is a third way: copy both
# vectors to the GPU, add, and copy the result back (*host-device transfers*).


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
# Compare with the sum in ``float64``, at an odd size, on which code that counts in
# blocks tends to fail. The result has to be the exact sum, rounded once: a relative
# error of at most :math:`2^{-24}`.

rng = np.random.default_rng(seed=1)
x, y = (rng.standard_normal(1_000_003).astype(np.float32) for _ in range(2))
exact = x.astype(np.float64) + y
tx, ty, reused = torch.from_numpy(x), torch.from_numpy(y), torch.zeros(x.size)
same_result(tx, ty, reused)

sums = {"NumPy": np.add(x, y), "torch": new_result(tx, ty), "torch, same": reused}
if has_gpu:
    sums["GPU, there and back"] = there_and_back(tx, ty)
for way, total in sums.items():
    worst = np.max(np.abs(np.asarray(total) - exact) / np.abs(exact))
    assert worst <= 2**-24, f"{way} is wrong by {worst:.1e}"
print(f"{'; '.join(sums)}: the exact sum, rounded once")

# %%
# Measure
# -------
#
# A ``Bench`` keeps the first call apart, repeats the others until they agree, and waits
# for the GPU before it stops the clock (:doc:`/how_we_measure`).

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
# - ± is half the range of the middle half of the measured values, in percent of the
#   :term:`median`. (A terminal shows the whole range, as *spread*.)
# - *first call*: where it is much longer than the median, something was done once.
# - *new* and *same*: the operating system provides memory page by page, when a program
#   first writes to it. A large vector returns to the system when it is deleted, so
#   each *new* result pays for its pages again. On Linux, NumPy asks for `huge pages
#   <https://numpy.org/doc/stable/reference/global_state.html>`__, which are fewer and
#   cost much less in all, though the first of them can be slow to come. PyTorch asks
#   for them only if you set ``THP_MEM_ALLOC_ENABLE=1``: try it where *torch, new
#   result* is slow.
# - *rate*: the least bytes, divided by the median. In brackets, or under *of roof*, is
#   its part of the best rate that plain copies and sums reached here. That is measured,
#   and is no law, so a row can exceed 100%.
# - *cores*: how many cores of the CPU were busy.
#
# Others have put the same floor to the test. The numbers in this box are theirs, each
# from the person or project that its line names; only the predictions are ours. The
# last two are of the tutorial at the top of the page, on a GPU and on a CPU.
#
# .. measured-by-others:: add-a100 add-rtx2060 mpol-gpu mpol-cpu
#
# Which ratio is "the speed-up"?
# ------------------------------
#
# Every row above is a correct time for "adding two vectors on the CPU", and so is the
# slowest first call. Somebody who announces a speed-up can divide any of them. Here
# they are in rows, the slowest first. The columns are the CPU's own best time, three
# *models*, and the GPU of your computer if there is one. Each cell is the row's time
# divided by the column's: how many times as fast the column is. The rows are
# measured; a model is the floor that a card's data sheet sets, so that card takes
# longer, and its real ratio is smaller. The third model also copies the vectors to the
# card and the result back, one copy after the other, over PCIe 3 with 16 lanes, which
# carries :spec:`PCIe 3 x16 bandwidth` each way.

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
transfers = least_bytes / spec("PCIe 3 x16", "bandwidth")
contenders["model:\n1080 with\ntransfers"] = transfers + contenders["model:\nGTX 1080"]
if has_gpu:
    contenders["this GPU,\nsame\nresult"] = bench["GPU, same result"].median
    contenders["this GPU,\nwith\ntransfers"] = bench["GPU, there and back"].median

ratios = np.divide.outer(list(baselines.values()), list(contenders.values()))


def times(ratio):
    return f"{ratio:.1f} ×" if ratio < 9.95 else f"{ratio:,.0f} ×"


cells = (0, 1), (-1, 1), (-1, 3)
most, least, with_transfers = (times(ratios[cell]) for cell in cells)

# %%

# measured figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
largest, fair = np.abs(np.log10(ratios)).max(), len(baselines) - 1
look = {"cmap": "PuOr", "vmin": -largest, "vmax": largest, "aspect": "auto"}
ax.imshow(np.log10(ratios), **look)
for (row, column), ratio in np.ndenumerate(ratios):
    colour = "#111111" if abs(np.log10(ratio)) < 0.6 * largest else "#fefefe"
    ax.text(column, row, times(ratio), ha="center", va="center", color=colour)
ax.set_xticks(range(len(contenders)), contenders)
ax.set_yticks(range(len(baselines)), baselines)
ax.xaxis.tick_top()
ax.tick_params(length=0)
ax.axhspan(fair - 0.5, fair + 0.5, fill=False, lw=3, ec=BLUE)
ax.set_xlabel("framed: against the CPU at its best")
title = f"GTX 1080 (model): {least} or {most}, depending on which CPU time you divide"
fig.suptitle(title)
fig.set_label(
    "A table of ratios, rows of CPU times over columns of GPU times. Down each column "
    f"only the CPU's way of adding changes, and the ratio falls from {most} to {least} "
    "in the column of a GTX 1080. A frame marks the CPU at its best."
)
plt.show()

# %%
# Go down any column of a GPU. The GPU and the data do not change. Only the CPU's way of
# adding does, and the "speed-up" falls with it. MPoL's tutorial times one
# call of ``A + B``, with a new result. The first column shows how much of such a ratio
# needs no GPU.
#
# A ratio deserves the name *speed-up* when both sides do the same work, each as well as
# it can, and when both start and end where *your* data do. That is the framed row, and
# one of two columns. If your vectors stay on the GPU from one operation to the next,
# take the column without transfers. If each addition sends them there and back, take
# the column with transfers: a ratio below 1 means that the CPU wins, as it does
# wherever PCIe carries fewer bytes a second than the CPU's own memory.
#
# "The CPU at its best" means the cores that this program may use, which may be a few of
# a large server. Against a CPU whose memory delivers ten times as much, each ratio of a
# GPU is ten times smaller.
#
# An H100 takes :timing:`vector-add median "GPU, same result" @nvidia-h100-80gb-hbm3`
# for the sum, close to its floor in the first table: it is :timing:`vector-add speedup
# "GPU, same result"/"torch, same result" @nvidia-h100-80gb-hbm3` as fast as the sixteen
# cores of the CPU beside it. When the vectors go there and the sum comes back, it takes
# :timing:`vector-add median "GPU, there and back" @nvidia-h100-80gb-hbm3`, and the CPU
# wins by far.
#
# Where this stops being true
# ---------------------------
#
# - *Small vectors.* Below some size the CPU wins, because its cache holds them, and
#   because starting any operation on a GPU takes some microseconds (*dispatch
#   overhead*).
# - *More work for each byte.* An addition does one operation for 12 bytes. The product
#   of two large matrices does hundreds for each byte. There the arithmetic decides, and
#   ratios are larger (:doc:`/tutorials/2_devices/11_when_the_gpu_wins`).
# - *One memory for both.* On Apple's chips, and wherever the GPU is part of the
#   processor, CPU and GPU use the same memory, and nothing crosses PCIe.
# - *Other machines.* A ratio belongs to one pair of processors.
#
# Exercise
# --------
#
# Write the test that caught the tutorial's number: a function that says whether a card
# with a given bandwidth, in bytes a second, *could* add two vectors of ``n``
# ``float32`` numbers in the reported time.


def possible(n, seconds, bandwidth): ...


# %%

# folded: What checks your answer, on cases that a wrong one gets wrong


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


# %%
# Put your function above, and ask:

print(check(possible))

# %%

# solution


def possible_solution(n, seconds, bandwidth):
    return seconds >= 12 * n / bandwidth


print(check(possible_solution))

# %%
# Three lines to remember
# -----------------------

# remember
print(f"""\
1. Bytes set the floor: 12 for each addition, over the bandwidth. Work it out before you
   believe a number, yours too.
2. On this CPU, one addition has correct times a factor of {ratios[0, 0]:.0f} apart.
   Whoever picks one of them picks the "speed-up".
3. Divide the best by the best, including transfers if your data need them. Then a GTX
   1080 (model) is {least} as fast as this CPU, and {with_transfers} with transfers.""")
