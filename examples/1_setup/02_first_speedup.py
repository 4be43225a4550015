"""
How much faster is a GPU at adding two vectors?
===============================================

You've been told that your program would run much faster on a GPU. How much faster?
`An early tutorial of MPoL`__, a package that makes images from radio telescopes, adds
two vectors of 99 million numbers. It reports 320 milliseconds on a CPU and 3.1
milliseconds on a GPU, and promises that GPUs are "up to 100x" faster.

**Write down a guess: how many times as fast is a GPU?** By the end you'll know which
two times to divide, and how fast *any* card can be at most. And one of the numbers
above can't be true of the cards that the tutorial names: you'll find it.

__ https://github.com/MPoL-dev/MPoL/blob/424929a421a126dce7a20f67d62154d79109be7a/docs/ci-tutorials/gpu_setup.rst

**Needs:** any computer. Without a GPU, you'll see what an NVIDIA
H100 did.
"""

# %%
# Try it
# ------
#
# First the CPU, as MPoL's tutorial does it: look at the clock, add, and look again.

from time import perf_counter

import torch

from firstlight import Bench, best_device

n_then = 99_000_000
device = best_device()
has_gpu = device.type != "cpu"
n = n_then if has_gpu else 20_000_000

A = torch.ones(n)
B = torch.ones(n)

start = perf_counter()
C = A + B
cpu_ms = 1e3 * (perf_counter() - start)
print(f"CPU: {cpu_ms:.1f} ms to add {n:,} numbers")

# %%
# Then the GPU. There, PyTorch adds only what lies in the GPU's memory, so we send both
# vectors there before the clock starts. And while it works, Python goes on, so we have
# to *wait* before we look at the clock. Here it's the GPU's own clock, which notes the
# time at ``begin`` and at ``end``.

if device.type == "cuda":  # a GPU from NVIDIA or AMD
    A = A.to(device)
    B = B.to(device)
    C = A + B  # the first time, a GPU also has to get ready

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    C = A + B
    end.record()
    # Wait until the GPU has passed the second mark.
    end.synchronize()
    gpu_ms = begin.elapsed_time(end)
    print(f"GPU: {gpu_ms:.2f} ms, so {cpu_ms / gpu_ms:.0f} times as fast")

del A, B, C  # they fill more than a gigabyte

# %%
# If you don't have such a GPU, nothing is printed, but the tab shows what an NVIDIA
# H100 did.
#
# One try can be far off, so we repeated both additions and took the time in the middle.
# On the H100's computer, ``A + B`` took :timing:`vector-add median "torch, new result"
# @nvidia-h100-80gb-hbm3` on sixteen CPU cores and :timing:`vector-add median "GPU, new
# result" @nvidia-h100-80gb-hbm3` on the GPU, which is :timing:`vector-add speedup "GPU,
# new result"/"torch, new result" @nvidia-h100-80gb-hbm3` as fast. That computer was
# rented, and its sixteen cores are :term:`virtual CPUs <virtual CPU>`.
#
# .. holds::
#
#    # The one try gave a ratio of only a third.
#    slow = median("vector-add/torch, new result")
#    fast = median("vector-add/GPU, new result")
#    near(printed(r"so (\d+) times as fast")[0], slow / fast / 3, 0.05)
#
# So the promise is kept! Many people stop here.
#
# Faster than what?
# -----------------
#
# Let's change one thing on the CPU. ``A + B`` makes a *new* vector for the result. If
# we have one already, PyTorch can write the sum there:
#
# .. code-block:: python
#
#    C = A + B  # makes a new vector for the sum
#    torch.add(A, B, out=C)  # writes the sum into a vector that we have
#
# **Does it matter where the sum goes? Guess before you read on:** how many times as
# fast is the second line?
#
# It matters a lot! Here is what the H100's computer needed:
#
# .. list-table:: 99 million additions
#    :header-rows: 1
#
#    * - where the sum goes
#      - sixteen CPU cores
#      - H100
#      - the H100 is
#    * - a new vector
#      - :timing:`vector-add median "torch, new result" @nvidia-h100-80gb-hbm3`
#      - :timing:`vector-add median "GPU, new result" @nvidia-h100-80gb-hbm3`
#      - :timing:`vector-add speedup "GPU, new result"/"torch, new result"
#        @nvidia-h100-80gb-hbm3` as fast
#    * - a vector that we have
#      - :timing:`vector-add median "torch, same result" @nvidia-h100-80gb-hbm3`
#      - :timing:`vector-add median "GPU, same result" @nvidia-h100-80gb-hbm3`
#      - :timing:`vector-add speedup "GPU, same result"/"torch, same result"
#        @nvidia-h100-80gb-hbm3` as fast
#
# On the sixteen cores, the second line was :timing:`vector-add speedup "torch, same
# result"/"torch, new result" @nvidia-h100-80gb-hbm3` as fast, because the operating
# system has to find memory for each new result and clear it. On a GPU, PyTorch keeps
# that memory, so the GPU's time hardly changed, and its lead shrank.
#
# Only one of the ratios answers your question: the one where both sides do the same
# work, each as well as it can. It's called the :term:`speed-up`. For the H100 and its
# sixteen cores, that's :timing:`vector-add speedup "GPU, same result"/"torch, same
# result" @nvidia-h100-80gb-hbm3`.

# folded: What we timed, and whether all of the sums are right

# Two vectors and their sum, of 4 bytes a number: a Bench makes a rate of it.
least_bytes = 12 * n


def new_result(x, y):
    return x + y


def same_result(x, y, out):
    torch.add(x, y, out=out)


def there_and_back(x, y):
    return (x.to(device) + y.to(device)).cpu()


def back_to_same(x, y, out):
    out.copy_(x.to(device) + y.to(device))


import numpy as np

rng = np.random.default_rng(seed=1)

# Compare each sum with float64, at an odd size.
x, y = (rng.standard_normal(1_000_003).astype(np.float32) for _ in range(2))
exact = x.astype(np.float64) + y
tx, ty, reused = torch.from_numpy(x), torch.from_numpy(y), torch.zeros(x.size)
same_result(tx, ty, reused)

sums = {"NumPy": np.add(x, y), "torch": new_result(tx, ty), "torch, same": reused}
if has_gpu:
    sums["GPU, there and back"] = there_and_back(tx, ty)
    fetched = torch.zeros(x.size)
    back_to_same(tx, ty, fetched)
    sums["GPU, there and back, same"] = fetched
for way, total in sums.items():
    worst = np.max(np.abs(np.asarray(total) - exact) / np.abs(exact))
    assert worst <= 2**-24, f"{way} is wrong by {worst:.1e}"
print(f"{'; '.join(sums)}: the exact sum, rounded once")

# %%

# folded: All of the times, and those of your own computer
# A Bench calls a function many times, waits for the GPU, and keeps the median time.
# NumPy adds on one core of the CPU, and PyTorch on all of them.

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
    back = back_to_same, ta, tb, tout
    bench.time("GPU, there and back, same", *back, n=n, device=device)
for timing in bench.timings:
    print(f"{timing.label:25} {1e3 * timing.median:8.2f} ms for {n:,} numbers")
bench.show()

# %%
# How fast can it be?
# -------------------
#
# Count bytes. For each element, the computer reads 4 bytes of ``A`` and 4 bytes of
# ``B``, and writes 4 bytes of the result. That makes 12 bytes for one addition.
#
# Any processor can add numbers much faster than its memory delivers them. How many
# bytes a memory delivers in a second is its :term:`bandwidth`, and makers print it on
# the :term:`data sheet` of a card. So if the vectors are too large for a card's caches,
# it can't add them in less than
#
# .. math::
#
#     t_\text{floor} = \frac{12\ \text{bytes} \times n}{\text{bandwidth}}.
#
# We call this time the :term:`floor`. Here it is for three cards, the first two of
# which MPoL's tutorial names. **Before you read on, compare them with its 3.1
# milliseconds.**

from firstlight.timing.specs import spec

cards = ("GTX 1080", "GTX 1660 Ti", "H100 SXM")
bandwidths = {card: spec(card, "bandwidth") for card in cards}  # bytes in a second

for card, bandwidth in bandwidths.items():
    floor_ms = 1e3 * 12 * n_then / bandwidth
    print(f"{card}: {bandwidth / 1e9:,.0f} GB/s, so at least {floor_ms:.2f} ms")

# %%
# But 3.1 milliseconds is *less* than either of the tutorial's cards needs. On these two
# it's impossible, for any program. The tutorial's code does wait for the GPU. But the
# text names the two cards where it tells how to install PyTorch, not beside the time.
# Perhaps the time came from a faster card. We can't know.
#
# Could a better program halve the H100's time? It took :timing:`vector-add median "GPU,
# same result" @nvidia-h100-80gb-hbm3`, which is above its floor, but not by much. It
# moved :timing:`vector-add rate "GPU, same result" @nvidia-h100-80gb-hbm3`, and its
# data sheet promises :spec:`H100 SXM bandwidth`. So no program can make this addition
# much faster there.
#
# .. holds::
#
#    least = 12 * 99e6 / spec("H100 SXM", "bandwidth")
#    least < median("vector-add/GPU, same result") < 1.2 * least
#
# **Now your own card.** Work out its floor from the data sheet, and compare it with
# your time above. For example, a T4 has :spec:`T4 bandwidth`, and an RTX 4090
# :spec:`RTX 4090 bandwidth`. Or :doc:`measure yours in the browser </your_gpu>`.
#
# When the GPU loses
# ------------------
#
# So far the vectors were on the GPU already. Yours may come from a file, so they lie in
# the CPU's memory, and you want the sum there, too. **Does the GPU still win? Guess
# before you read on.**
#
# It doesn't. Two vectors have to cross the link between CPU and GPU, and then one has
# to come back. This is called the *transfer*. There and back, with the addition, took
# the H100's computer :timing:`vector-add median "GPU, there and back, same"
# @nvidia-h100-80gb-hbm3`. Its CPU alone was done in :timing:`vector-add median "torch,
# same result" @nvidia-h100-80gb-hbm3`, so this time the *CPU* was :timing:`vector-add
# speedup "torch, same result"/"GPU, there and back, same" @nvidia-h100-80gb-hbm3` as
# fast. It's like driving to another town because the bread costs a cent less there.
#
# .. holds::
#
#    cores = median("vector-add/torch, same result")
#    median("vector-add/GPU, there and back") > 10 * cores
#    # Two thirds of the floor of the transfer, in the fold below.
#    near(12 * 99e6 / spec("PCIe 5 x16", "bandwidth"), 1.5 * cores, 0.05)
#    # There, too: the pipeline of 09_copy_and_compute, each way, for two vectors.
#    each_way = 2**28 / median("copy-and-compute/pipeline/cuda:0/n=16")
#    near(8 * 99e6 / each_way, 1.5 * cores, 0.05)
#    4 * 99e6 * 2 / spec("NVLink-C2C", "bandwidth") < cores / 5
#
# It's better to do more with the data while they are there. If your program adds,
# multiplies and transforms the same vectors a hundred times, you pay for the transfer
# once. And some GPUs share the CPU's memory, Apple's for example. :doc:`There
# </cards>`, a GPU can read the vectors where they are, although PyTorch's ``.to`` still
# copies them.
#
# *Small* vectors lose, too, even if they are on the GPU already, because asking a GPU
# for anything takes some microseconds. We let PyTorch add 10 thousand numbers again and
# again. On the H100, it began a new addition every :timing:`wins-add median
# "GPU/cuda:0/n=10000" @nvidia-h100-80gb-hbm3`. On its CPU, each was done in
# :timing:`wins-add median "CPU/cpu/n=10000" @nvidia-h100-80gb-hbm3`. Where does it
# break even? :doc:`Find out for your own </tutorials/2_devices/11_when_the_gpu_wins>`.
#
# All of it in one figure
# -----------------------
#
# Points are times, and bars are floors. The hollow points were measured by others.
# **Find the tutorial's GPU, and the floors of its two cards. Then find the way there
# and back.**

# measured figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREY, ORANGE

told_ms = {"MPoL's tutorial, CPU": 320, "MPoL's tutorial, GPU": 3.1}  # linked above
ours_ms = {t.label: 1e3 * t.median * n_then / n for t in bench.timings}
floors = {f"{card}: floor": 1e3 * 12 * n_then / bandwidths[card] for card in cards}
others_ms = {  # seconds and additions, measured by others; the sources are in the box
    "RTX 3060 (R100001)": 1e3 * 0.00239609 * n_then / 2**26,
    "A100 (infra-practices)": 1e3 * 0.000151 * n_then / 2**24,
}
points = [(name, GREY, time) for name, time in (told_ms | others_ms).items()]
points += [(name, (BLUE, ORANGE)["GPU" in name], t) for name, t in ours_ms.items()]
points.sort(key=lambda point: -point[2])

fig, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
for row, (name, colour, time) in enumerate(points):
    fill = "none" if name in others_ms else colour
    ax.plot(time, row, "o", ms=9, color=colour, mfc=fill, mew=2)
for row, time in enumerate(floors.values(), len(points)):
    ax.plot([time, time], [row - 0.35, row + 0.35], lw=4, color=ORANGE)
names = [*(name for name, *_ in points), *floors]
ax.set_yticks(range(len(names)), names)
ax.set(xscale="log", xlabel="milliseconds for 99 million additions")
ax.xaxis.set_major_formatter("{x:g}")
ax.invert_yaxis()
ax.grid(axis="x", alpha=0.3)
fig.suptitle("Points: measured or reported; bars: floors from data sheets")
fig.set_label(
    "Milliseconds for 99 million additions, on a logarithmic axis. Measured: "
    + "; ".join(f"{name}, {time:.2g}" for name, _, time in points)
    + ". Floors from data sheets: "
    + "; ".join(f"{name}, {time:.2g}" for name, time in floors.items())
)
plt.show()

# %%
# Our times on a CPU are blue, and those on a GPU orange, like the floors. The
# tutorial's GPU lies left of both floors, where neither card can be. The way there and
# back lies far to the right.

# folded: The transfer has a floor, too
# An H100's link has a rate, too. Even at its full rate, with one vector after the other
# as in (A.to(device) + B.to(device)).cpu(), the transfer alone would take longer than
# the sixteen cores need for the whole addition: they are done in two thirds of it.

link = spec("PCIe 5 x16", "bandwidth")
link_ms = 1e3 * 12 * n_then / link
print(f"The link: {link / 1e9:.0f} GB/s, so at least {link_ms:.0f} ms for the transfer")

# %%
# .. dropdown:: Why did the transfer take so much longer? And is NumPy quicker?
#
#    A copy to the GPU doesn't start from ordinary memory, because the system may move
#    that at any time. So the CPU first copied all the numbers to a place that stays,
#    unless it :doc:`lay in such a place before
#    </tutorials/2_devices/08_pinned_memory>`. The link carries as much each way, so a
#    program that fetches one piece while it sends the next would save a third, and on
#    paper draw level with the CPU. But at the rate of our :doc:`best pipeline
#    </tutorials/2_devices/09_copy_and_compute>` on the same computer, the CPU would
#    still be half as fast again.
#
#    With a new vector for the sum, there and back took :timing:`vector-add median "GPU,
#    there and back" @nvidia-h100-80gb-hbm3`, much longer than a new result cost the
#    sixteen cores above. An operating system clears new memory in *pages*, and most
#    likely a single core saw to them. New with new, the CPU alone was
#    :timing:`vector-add speedup "torch, new result"/"GPU, there and back"
#    @nvidia-h100-80gb-hbm3` as fast.
#
#    On two cores of an AMD EPYC, 20 million additions with a new result took PyTorch
#    :timing:`vector-add median "torch, new result" @cpu-amd-epyc` and NumPy, on one
#    core, :timing:`vector-add median "NumPy, new result" @cpu-amd-epyc`. NumPy asks
#    Linux for *huge* pages, of 2 MB in place of 4 kB. PyTorch does so only if you set
#    ``THP_MEM_ALLOC_ENABLE=1``.
#
# .. dropdown:: How close to their floors did cards of other people come?
#
#    For the two hollow points of the figure, others timed fewer additions, and we
#    scaled their times to 99 million. An A100 would have been fast enough for the
#    tutorial's time, and an RTX 3060 nearly:
#
#    .. measured-by-others:: add-a100 add-rtx3060
#
# Your turn
# ---------
#
# You've caught one impossible number. Now write the function that would have caught it:
# could a card whose memory delivers ``bandwidth`` bytes a second add two vectors of
# ``n`` numbers in ``seconds``? A number has ``itemsize`` bytes: 4 in ``float32``, and 8
# in ``float64``. Put your answer where the dots are, and run ``firstlight try
# 02_first_speedup.py``.


def possible(n, seconds, bandwidth, itemsize=4): ...


# %%

# folded: What checks your answer, on cases that a wrong one gets wrong


def check(answer):
    cases = [  # n, seconds, bandwidth, itemsize; is it possible; a hint
        ((99_000_000, 3.1e-3, 320e9), False, "12 bytes an element: 3.71 ms"),
        ((99_000_000, 3.8e-3, 320e9), True, "12 bytes an element: 3.71 ms"),
        ((99_000_000, 1.0, 320e9), True, "more time than the floor is always possible"),
        ((1_000, 1e-12, 3.35e12), False, "less time than the floor never is"),
        ((1_000_000, 12e-6, 1e12), True, "exactly the floor is possible"),
        ((99_000_000, 5e-3, 320e9, 8), False, "8 bytes a number need twice the time"),
        ((99_000_000, 7.5e-3, 320e9, 8), True, "24 bytes an element: 7.43 ms"),
    ]
    said = []
    for arguments, _, _ in cases:
        try:
            said.append(answer(*arguments))
        except Exception as error:
            return f"possible{arguments} raised {type(error).__name__}: {error}"
        if type(said[-1]).__name__ not in ("bool", "bool_"):
            return f"possible{arguments} gave {said[-1]!r}; expected True or False"
    if said[:4] == [True, False, False, True]:
        return "It's the wrong way round: *more* time than the floor is possible."
    if all(said):
        return "It never says False. The bandwidth is in bytes a second, not in GB/s."
    for got, (arguments, expected, hint) in zip(said, cases, strict=True):
        if got != expected:
            return f"possible{arguments} gave {got}. Hint: {hint}."
    return "Right: you can catch impossible numbers now."


# %%

print(check(possible))

# %%
# Three lines to remember
# -----------------------

# remember
print("""\
1. Bytes set the floor: 12 for each float32 addition, divided by the memory's bandwidth.
   Work it out before you believe a time, yours too.
2. Give the CPU a fair chance first. Only its best time against the GPU's best is a
   speed-up.
3. Count the transfers if your data need them. For a single addition, they usually cost
   more than the GPU saves.""")

# %%
# Solution
# --------

# solution


def possible_solution(n, seconds, bandwidth, itemsize=4):
    return seconds >= 3 * itemsize * n / bandwidth


print(f"Our solution: {check(possible_solution)}")
