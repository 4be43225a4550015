"""
How many things does your CPU do at once?
=========================================

This page is for anyone who compares a GPU with a CPU, or who has read, as in a course,
that a CPU "can only process one thing at a time". It does three kinds of things at
once: a core begins new operations before the last are finished, each instruction can
compute with a whole vector of numbers, and there are several cores. Multiply the three,
and you have the number of independent results that your program needs before all of
the CPU has work. A GPU is filled in the same way, and needs far more of them.

**You will learn**

- to tell *latency* from *throughput*, and to predict both;
- how many things your CPU does at once, thanks to pipelines, SIMD and cores;
- how many independent results fill a processor, and when a GPU loses.

**Time:** 12 minutes. **Needs:** any computer, and the words of
:doc:`/tutorials/1_setup/03_what_is_a_gpu`. With a GPU, the page measures that too.
"""

# %%
# Predict
# -------
#
# The job: cups of coffee cool in a room. In one small step of time, a cup keeps most of
# its temperature :math:`T` and gains a little from the room:
#
# .. math::
#
#     T_\text{new} = \text{keep} \times T + \text{gain}.
#
# Processors do this multiplication and this addition as one operation, a
# *multiply-add*. To follow a cup for 100 000 steps takes 100 000 of them, *one after
# the other*, because each needs the result of the one before. A second cup is another
# such chain, and has nothing to do with the first. Memory hardly matters: a cup is one
# number, read once and written once. So two numbers describe a processor:
#
# - its *latency*: how long one multiply-add takes, until the next can use its result;
# - its *throughput*: how many of them it finishes in a second, all together.
#
# .. math::
#
#     t_\text{floor} = \text{steps} \times \max\left(\text{latency},
#     \frac{\text{cups}}{\text{throughput}}\right).
#
# For three GPUs, both follow from data sheets. Makers print the throughput; a
# multiply-add counts as two operations. Each lane of each multiprocessor finishes one
# in each *clock cycle*, so a division gives the clock. For the latency, `NVIDIA's guide
# to its Turing cards`__ says 4 cycles, "like Volta", which is the V100. For the other
# two, 4 is our assumption.
#
# __ https://docs.nvidia.com/cuda/turing-tuning-guide/index.html#instruction-scheduling

from firstlight.measure.roofs import PER_CLOCK
from firstlight.measure.specs import spec

steps, cycles_to_wait = 100_000, 4
chips = {  # multiprocessors, from NVIDIA's whitepapers, and compute capability
    "V100 SXM2": (80, (7, 0)),
    "RTX 4090": (128, (8, 9)),
    "H100 SXM": (132, (9, 0)),
}


def floor(cups, latency, throughput):
    return steps * max(latency, cups / throughput)


models = {}
for chip, (multiprocessors, capability) in chips.items():
    throughput = spec(chip, "fp32") / 2
    clock = throughput / (multiprocessors * PER_CLOCK[capability][0])
    models[chip] = cycles_to_wait / clock, throughput
    one, thousand, million = (1e3 * floor(n, *models[chip]) for n in (1, 1e3, 1e6))
    print(f"{chip:<9}: 1 cup {one:.2f} ms, 1,000 {thousand:.2f}, 10⁶ {million:.2f}")

# %%
# On such a card, a thousand cups take as long as one. And on *your* CPU? Write down a
# guess: how many cups can it take before the time grows?
#
# One thing at a time, and more
# -----------------------------
#
# The first way follows a cup to the end, then takes the next. Each multiply-add waits
# for the one before. `Numba <https://numba.pydata.org>`__ turns the function into
# instructions of the CPU. (``contract`` lets it make one multiply-add of ``*`` and
# ``+``.)

import numpy as np

from firstlight import Bench, best_device
from firstlight.devices import card
from firstlight.kernels import blocks_for, cuda, simulated  # before any import of numba
from numba import njit


@njit(fastmath={"contract"})
def one_at_a_time(cups, keep, gain, steps):
    for i in range(cups.size):
        t = cups[i]
        for _ in range(steps):
            t = keep * t + gain
        cups[i] = t


# %%
# The second way follows eight cups through the same loop. It is still one *thread* (a
# sequence of instructions) on one *core*, and it still computes with single numbers.


@njit(fastmath={"contract"})
def eight_at_a_time(cups, keep, gain, steps):
    full = cups.size // 8 * 8
    for i in range(0, full, 8):
        a, b, c, d = cups[i], cups[i + 1], cups[i + 2], cups[i + 3]
        e, f, g, h = cups[i + 4], cups[i + 5], cups[i + 6], cups[i + 7]
        for _ in range(steps):
            a, b = keep * a + gain, keep * b + gain
            c, d = keep * c + gain, keep * d + gain
            e, f = keep * e + gain, keep * f + gain
            g, h = keep * g + gain, keep * h + gain
        cups[i], cups[i + 1], cups[i + 2], cups[i + 3] = a, b, c, d
        cups[i + 4], cups[i + 5], cups[i + 6], cups[i + 7] = e, f, g, h
    one_at_a_time(cups[full:], keep, gain, steps)


# %%
# The third way takes all cups a few steps further, then again. Now the compiler sees
# that neighbours in memory want the same operation. It puts several of them into one
# *vector*, and uses instructions that compute with all its numbers at once. That is
# SIMD: *single instruction, multiple data*. (SSE, AVX and Neon are names of such
# instructions.) The places in a vector are its *lanes*.


@njit(fastmath={"contract"}, nogil=True)
def side_by_side(cups, keep, gain, steps):
    for _ in range(0, steps, 8):
        for i in range(cups.size):
            t = cups[i]
            for _ in range(8):
                t = keep * t + gain
            cups[i] = t


# %%
# The fourth does the same with a thread for each core. (``nogil`` lets Python's threads
# run at the same time.)

from concurrent.futures import ThreadPoolExecutor

cpu_cores = card("cpu").cores or 1
pool = ThreadPoolExecutor(cpu_cores)


def on_all_cores(cups, keep, gain, steps):
    def cool(part):
        side_by_side(part, keep, gain, steps)

    list(pool.map(cool, np.array_split(cups, cpu_cores)))


# %%

# folded: two ways without a compiler, for comparison: a loop in Python, and NumPy


def python_loop(cups, keep, gain, steps):
    keep, gain = float(keep), float(gain)
    for i, t in enumerate(cups.tolist()):
        for _ in range(steps):
            t = keep * t + gain
        cups[i] = t


def whole_array(cups, keep, gain, steps):
    keep, gain = float(keep), float(gain)
    for _ in range(steps):
        cups *= keep
        cups += gain


# %%

# folded: the same on a GPU, as a kernel with a thread for each cup


@cuda.jit
def thread_per_cup(cups, keep, gain, steps):
    i = cuda.grid(1)
    if i < cups.size:
        t = cups[i]
        for _ in range(0, steps, 32):  # so that counting steps costs next to nothing
            for _ in range(32):
                t = keep * t + gain
        cups[i] = t


def launch(cups, keep, gain, steps):
    thread_per_cup[blocks_for(cups.size, 128), 128](cups, keep, gain, steps)


def kernel(cups, keep, gain, steps):
    on_device = cuda.to_device(cups)
    launch(on_device, keep, gain, steps)
    on_device.copy_to_host(cups)


# %%
# Check
# -----
#
# After :math:`k` steps, the difference to the room's temperature has become
# :math:`\text{keep}^k` times as large. Compare with that formula, in ``float64``, for
# odd numbers of cups. They cool fast here, so that one step too many would show.


def exact(cups, keep, gain, steps):
    room = float(gain) / (1 - float(keep))
    return room + (cups.astype(np.float64) - room) * float(keep) ** steps


keep, gain = np.float32(0.99), np.float32(0.2)
compiled = (one_at_a_time, eight_at_a_time, side_by_side, on_all_cores)
worst = 0.0
for way in (python_loop, whole_array, *compiled, kernel):
    for n in (1, 9, 33, 101):
        hot = np.linspace(60, 95, n, dtype=np.float32)
        cups = hot.copy()
        way(cups, keep, gain, 96)
        worst = max(worst, np.abs(cups - exact(hot, keep, gain, 96)).max())
        assert worst < 1e-3, f"{way.__name__} is wrong by {worst:.1e} degrees"

one_more = exact(hot, keep, gain, 97) - exact(hot, keep, gain, 96)
print(f"all ways: wrong by {worst:.0e} degrees at most")
print(f"a step too many: {np.abs(one_more).min():.0e} degrees")

# %%
# Predict your CPU
# ----------------
#
# How many lanes a vector has, the compiled code tells: it is full of ``<8 x float>``,
# or another number. A core has not one unit for multiply-adds, but two (most do; that
# is our assumption). And each unit can begin a new one in every clock cycle, though it
# takes 4 cycles to finish it (`on most CPUs`__; some need 5): like a car factory with 4
# stations, from which a car comes in every cycle. That is a *pipeline*. So a core has
# room for 4 × 2 vectors of multiply-adds, begun and not finished.
#
# __ https://www.agner.org/optimize/instruction_tables.pdf

import re

code = "".join(side_by_side.inspect_llvm().values())
lanes = max((int(width) for width in re.findall(r"<(\d+) x float>", code)), default=1)
units = 2
room = cycles_to_wait * units
at_most = {
    "one at a time": 1,
    "eight at a time": min(8, room),
    "SIMD, one thread": room * lanes,
    "SIMD, all cores": room * lanes * cpu_cores,
}
print(f"{cycles_to_wait} cycles × {units} units × {lanes} lanes × {cpu_cores} cores")

# %%
# Measure
# -------
#
# Each way gets as many cups as it needs to show what it can do. Some get several
# numbers of cups, for a test below. (The slow ways do fewer steps.)

import torch

device = best_device()
has_gpu = device.type != "cpu"
has_kernel = device.type == "cuda" and not simulated()
keep, gain = np.float32(1 - 1e-5), np.float32(2e-4)

bench = Bench("what-is-a-gpu")
ways = {
    "Python loop": (python_loop, 3_200, [1]),
    "NumPy": (whole_array, 3_200, [4_096]),
    "one at a time": (one_at_a_time, steps, [16]),
    "eight at a time": (eight_at_a_time, steps, [64]),
    "SIMD, one thread": (side_by_side, steps, [1, 16, 64, 256]),
    "SIMD, all cores": (on_all_cores, steps, [4_096, 65_536]),
}
if has_gpu:  # NumPy's way, in PyTorch, which any GPU can run
    ways["GPU, PyTorch"] = whole_array, 320, [2**20]
if has_kernel:
    ways["GPU, kernel"] = launch, steps, [1, 4_096, 65_536, 2**18, 2**20]

# %%

cooling = {label: {} for label in ways}
for label, (way, count, numbers) in ways.items():
    for n in numbers:
        cups, place = np.linspace(60, 95, n, dtype=np.float32), "cpu"
        if way is launch:
            cups, place = cuda.to_device(cups), device
        elif "GPU" in label:
            cups, place = torch.tensor(cups, device=device), device
        work = {"n": n, "flops": 2 * n * count, "device": place}
        cooling[label][n] = bench.time(label, way, cups, keep, gain, count, **work)

bench.show()

# %%
# In this table, *n* is the number of cups, and *rate* counts two operations for a
# multiply-add. One chain alone has one multiply-add under way. A way that finishes 10
# times as many in the same time has 10 under way. So divide by *one at a time*, each
# way at its shortest time, which other programs disturbed least:

from firstlight.widgets import Table


def per_second(label):
    timing = list(cooling[label].values())[-1]
    return timing.flops / 2 / min(timing.values)


slow = per_second("one at a time")
bars = {label: per_second(label) / slow for label in ways}
bars |= {f"model: {name}": model[1] / slow for name, model in models.items()}
at_once, most = bars["SIMD, all cores"], at_most["SIMD, all cores"]

counts = tuple((way, f"{at_most[way]:,}", f"{bars[way]:,.1f}") for way in at_most)
print(Table("At once", ("", "predicted, at most", "counted"), counts).text())

# %%

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
for row, (label, ratio) in enumerate(bars.items()):
    is_model = label.startswith("model")
    colour = "#d9762b" if "GPU" in label or is_model else "#2f7ed8"
    style = {"fill": False, "ls": "--"} if is_model else {"fc": colour}
    ax.barh(row, ratio - 1, 0.62, left=1, ec=colour, **style)
    text = f"{ratio:,.0f} ×" if ratio > 9.5 else f"{ratio:.2g} ×"
    ax.text(1.4 * max(ratio, at_most.get(label, 1)), row, text, va="center")
    if label in at_most:
        ax.plot([at_most[label]] * 2, [row - 0.42, row + 0.42], color="black", lw=2)
ax.set_yticks(range(len(bars)), bars)
ax.invert_yaxis()
ax.set(xscale="log", xlim=(5e-3, 2e7))
ax.set_xlabel("times as fast as one thing at a time (black: predicted, at most)")
fig.suptitle(f"This CPU does {at_once:.0f} multiply-adds at once, of {most} predicted")
fig.set_label(
    "Bars of speed, one thing at a time being 1: "
    f"{bars['Python loop']:.2g} in a Python loop, {bars['eight at a time']:.2g} with "
    f"eight at a time, {bars['SIMD, one thread']:.0f} with SIMD, "
    f"{at_once:.0f} on all cores; models of GPUs: tens of thousands."
)
plt.show()

# %%
# *Eight at a time* adds nothing to *one at a time*: one thread, one core, single
# numbers. It gains by filling the stations that one chain leaves empty; the core finds
# out by itself which multiply-adds do not wait for each other. With SIMD, each station
# holds a vector instead of one number. With all cores there are more such stations.
# (NumPy uses SIMD as well. But it does one step with all cups, then the next, so each
# number travels to the cache and back each time.) Did your CPU reach the prediction?

best, h100 = per_second("SIMD, all cores"), models["H100 SXM"][1]
gain_by_cores = best / per_second("SIMD, one thread")
if gain_by_cores > 0.75 * cpu_cores:
    reached = "as they should"
else:
    reached = "not all were free, or two of them share one"

print(f"{cpu_cores} cores gave {gain_by_cores:.1f} × one thread: {reached}")
print(f"H100, model: {h100 / slow:,.0f} × one thing at a time")
print(f"             {h100 / best:,.0f} × this CPU at its best")

# %%
# A program that does one thing at a time wastes the factor in the table, and makes any
# GPU beside it look better by the same factor: the last two lines are one GPU and one
# CPU.
#
# Test it: how many cups are free?
# --------------------------------
#
# If a lane could have only one multiply-add under way, a processor would be full with
# one cup for each lane. If this page is right, the time stays about the same up to
# *four* cups for each lane, and then grows with their number. Marks are the shortest
# times measured. Dashed lines are the model from the beginning of the page, for one
# thread, for all cores, and for a GPU: an H100, or yours if its lanes and clock are
# known.

gpu, gpu_name = models["H100 SXM"], "H100"
facts = card(device)
if has_kernel and facts.capability in PER_CLOCK and facts.clock_hz:
    gpu_lanes = facts.multiprocessors * PER_CLOCK[facts.capability][0]
    gpu = cycles_to_wait / facts.clock_hz, gpu_lanes * facts.clock_hz
    gpu_name = facts.name
one_core = 1 / slow, slow * at_most["SIMD, one thread"]
all_cores = 1 / slow, slow * at_most["SIMD, all cores"]
longer, full, even = gpu[0] * slow, gpu[0] * gpu[1], gpu[0] * all_cores[1]

if longer > 1 and gpu[1] > all_cores[1]:
    winner = f"Up to {even:,.0f} cups the CPU is faster, above them the GPU"
else:
    winner = (
        f"{'The CPU' if longer > 1 else 'The GPU'} is faster at every number of cups"
    )

print(f"{gpu_name} and this CPU, models:")
print(f"a step takes {longer:.1f} × as long on the GPU,")
print(f"and {full:,.0f} cups take as long there as one")

lines = {
    "SIMD, one thread": ("CPU, one thread", one_core, "#2f9e77", "o", 90, "right"),
    "SIMD, all cores": ("CPU, all cores", all_cores, "#2f7ed8", "s", 30, "left"),
    "GPU, kernel": (f"{gpu_name}, model", gpu, "#d9762b", "^", 1, "left"),
}

# %%

# figure
fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
cups = np.geomspace(1, 2**22, 200)
for label, (name, model, colour, marker, ms, side) in lines.items():
    ax.plot(cups, [1e3 * floor(n, *model) for n in cups], "--", color=colour)
    for n, timing in cooling.get(label, {}).items():
        ax.plot(n, 1e3 * min(timing.values), marker, color=colour)
    ax.text(model[1] * ms / 1e3 / steps, ms, f"  {name}  ", ha=side, va="top")
ax.set(xscale="log", yscale="log", xlabel="cups", ylim=(0.05, 300))
ax.set_ylabel(f"milliseconds for {steps:,} steps")
ax.axvline(even, color="#808890", lw=1)
fig.suptitle(f"{winner} (models)")
fig.set_label(
    "Time over the number of cups, both logarithmic; marks are measured, dashed lines "
    "are models. Each line is flat, then rises in proportion. The GPU's begins "
    f"{longer:.1f} times as high as the CPU's and is flat up to {full:,.0f} cups. "
    f"{winner}."
)
plt.show()

# %%
# Every flat part is room that was there anyway. By the model, the line bends where the
# cups are as many as
#
# .. math::
#
#     \text{under way} = \text{latency} \times \text{throughput}.
#
# This is *Little's law*, which holds for cars in a factory and people in a shop, too.
# Beyond the bend nothing is free: with :math:`N` independent results, you gain a factor
# of :math:`N` up to the bend, and no further. Where a GPU's line is flat, its *latency*
# counts, which more multiprocessors do not shorten; where it rises, its *throughput*.
#
# Measured on the newest GPU on record:
# :timing:`what-is-a-gpu median "GPU, kernel/cuda:0/n=1" @gpu` for one cup,
# :timing:`what-is-a-gpu median "GPU, kernel/cuda:0/n=65536" @gpu` for 65 536 cups. All
# cores of the CPU beside it take
# :timing:`what-is-a-gpu median "SIMD, all cores/cpu/n=65536" @gpu` for those.
#
# Where this stops being true
# ---------------------------
#
# - *One thing after the other.* No processor can take the steps of *one* cup at the
#   same time. If a twentieth of a program is such a chain, the whole gains at most a
#   factor of 20, however fast the rest becomes. That is *Amdahl's law*.
# - *Short calls, and data that travel.* Launch overhead and transfers are latencies as
#   well (:doc:`/tutorials/2_devices/02_queues`,
#   :doc:`/tutorials/2_devices/05_transfers`).
# - *Work with more bytes.* Most work needs some bytes for each operation. Then memory
#   sets the floor, the lanes wait, and a ratio of lanes means nothing.
# - *Other CPUs.* Some have one unit for multiply-adds, or four, or wait 5 cycles. Some
#   show each core twice (*hyper-threading*), or lower the clock when all cores are
#   busy. The black marks are off by such factors.
#
# Exercise
# --------
#
# One function for both kinds of processors. A CPU core, or a multiprocessor, has some
# ``units``, each for vectors of some ``bits``; a multiply-add takes some ``cycles``.
# How many ``float32`` chains does your program need at least, to keep every lane of all
# ``cores`` busy in every cycle?


def chains_needed(cores, units, bits, cycles): ...


# %%

# folded: what checks your answer; a V100 has four units of 16 lanes of 32 bits

cases = {
    (1, 1, 32, 1): (1, "one lane: count no bits, bytes, operations or warps"),
    (1, 1, 256, 1): (8, "vectors are given in bits, and a float32 has 32 of them"),
    (2, 4, 32, 1): (8, "each of the cores has several units"),
    (1, 1, 32, 5): (5, "a multiply-add takes several cycles: one is at each station"),
    (80, 4, 512, 4): (20_480, "a V100 has 5,120 lanes, and 4 cycles to fill"),
    (64, 2, 256, 4): (4_096, "64 cores have 1,024 lanes, and 4 cycles to fill"),
}


def check(answer):
    for arguments, (expected, hint) in cases.items():
        try:
            got = answer(*arguments)
        except Exception as error:
            return f"chains_needed{arguments} raised {type(error).__name__}: {error}"
        if not isinstance(got, (int, float, np.number)):
            return f"chains_needed{arguments} gave {got!r}; it has to give one number"
        if not abs(got / expected - 1) < 1e-3:
            return f"chains_needed{arguments} gave {got:g}. Hint: {hint}."
    return "Right: you can say how much work a processor needs before you buy it."


# %%
# Put your function above, and ask:

print(check(chains_needed))

# %%

# solution


def chains_needed_solution(cores, units, bits, cycles):
    return cores * units * bits // 32 * cycles


print(check(chains_needed_solution))

# %%
# Three lines to remember
# -----------------------

# remember
print(f"""\
1. A CPU does many things at once: cycles × units × lanes × cores, here {most} at most.
2. A processor is full when latency × throughput results are under way; on this CPU and
   the {gpu_name}, by the model, {all_cores[0] * all_cores[1]:,.0f} and {full:,.0f}.
3. A GPU is throughput, not speed: by the model, one step takes {longer:.1f} × as long
   there as here.""")
