"""
How many things does your CPU do at once?
=========================================

This page is for anyone who compares a GPU with a CPU, or was taught that a CPU "can
only process one thing at a time". In fact it works on many at once (here: ``float32``
:term:`multiply-adds <multiply-add>`), in three ways: a core begins new operations
before the last are finished (a *pipeline*), an instruction computes with a whole
*vector* of numbers (:term:`SIMD`), and there are several cores. Take a laptop with 8
cores, each with 2 units for vectors of 8 numbers, and 4 clock cycles to finish an
operation: 8 × 2 × 8 × 4 = 512 are under way at once, if none needs the result of
another. A program that does one at a time makes any GPU look better by that factor. A
GPU needs tens of thousands under way.

**You will learn**

- to tell :term:`latency` from :term:`throughput`, and to predict both;
- how many things your CPU does at once, and why it may be fewer than predicted;
- whether Python and NumPy use all of it, and how your program can;
- how many independent chains a CPU and a GPU need, and when the GPU loses.

**Time:** 14 minutes. **Needs:** any computer, and the terms from
:doc:`/tutorials/1_setup/03_what_is_a_gpu`. With a GPU, the page measures that too.
"""

# %%
# Predict
# -------
#
# Our example: cups of coffee cool in a room. In one small step of time, a cup keeps
# most of its temperature :math:`T` and gains a little from the room:
#
# .. math::
#
#     T_\text{new} = \text{keep} \times T + \text{gain}.
#
# Processors do both as one operation, a *multiply-add*. To follow a cup for 100,000
# steps takes 100,000 of them, *one after the other*, because each needs the result of
# the one before. A second cup is another such chain, and independent of the first.
# Memory hardly matters: a cup is one number. So two numbers describe a processor:
#
# - its *latency*: how long one multiply-add takes, until the next can use its result;
# - its *throughput*: how many of them it finishes in a second.
#
# .. math::
#
#     t_\text{floor} = \text{steps} \times \max\left(\text{latency},
#     \frac{\text{cups}}{\text{throughput}}\right).
#
# For three GPUs, both follow from :term:`data sheets <data sheet>`. Makers print the
# throughput; a multiply-add counts as two operations. Each :term:`lane` (a place for
# one number) of each :term:`multiprocessor` finishes one in each *clock cycle*, so a
# division gives the clock. For the latency, `NVIDIA's guide to its Turing cards`__ says
# 4 cycles, "like Volta", which is the V100. For the other two, 4 is our assumption.
#
# __ https://docs.nvidia.com/cuda/turing-tuning-guide/index.html#instruction-scheduling

from firstlight.display import BLUE, GREEN, GREY, ORANGE, show_table
from firstlight.timing.ceilings import PER_CLOCK
from firstlight.timing.specs import spec

steps, cycles_to_wait = 100_000, 4
chips = {  # multiprocessors, from NVIDIA's whitepapers, and compute capability
    "V100 SXM2": (80, (7, 0)),
    "RTX 4090": (128, (8, 9)),
    "H100 SXM": (132, (9, 0)),
}


def floor(cups, latency, throughput):
    return steps * max(latency, cups / throughput)


models, rows = {}, []
for chip, (multiprocessors, capability) in chips.items():
    throughput = spec(chip, "fp32") / 2
    clock = throughput / (multiprocessors * PER_CLOCK[capability][0])
    models[chip] = cycles_to_wait / clock, throughput
    times = (f"{1e3 * floor(n, *models[chip]):.2f} ms" for n in (1, 1e3, 1e6))
    rows.append((chip, *times))
head = "", "1 cup", "1,000 cups", "1,000,000 cups"
show_table(f"{steps:,} steps (models)", head, rows)

# %%
# On such a card, a thousand cups take as long as one. Guess: how many can *your* CPU
# take before the time grows?
#
# One thing at a time, and more
# -----------------------------
#
# The first way follows a cup to the end, then takes the next. Each multiply-add waits
# for the one before. `Numba <https://numba.pydata.org>`__ compiles the function.
# (``contract`` lets it make one multiply-add of ``*`` and ``+``.)

import numpy as np

from firstlight import Bench, best_device
from firstlight.devices import card
from firstlight.kernels import blocks_for, cuda, simulated
from numba import njit


@njit(fastmath={"contract"})
def one_at_a_time(cups, keep, gain, steps):
    for i in range(cups.size):
        t = cups[i]
        for _ in range(steps):
            t = keep * t + gain
        cups[i] = t


# %%
# The second way follows eight cups through the same loop. It is still one thread on one
# core, with single numbers.


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
# The third way takes all cups eight steps further, then the next eight (``steps`` has
# to be a multiple of 8). Now the compiler sees that neighbours in memory want the same
# operation. It puts several of them into one *vector*, and uses instructions that
# compute with all its numbers at once: SIMD, *single instruction, multiple data* (SSE,
# AVX, Neon). The places in a vector are its *lanes*.


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

# folded: Two ways without a compiler, for comparison: a loop in Python, and NumPy


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

# folded: The same on a GPU, as a kernel with a thread for each cup


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
# After :math:`k` steps, the difference from the room's temperature has become
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
# The compiled code shows how many lanes :term:`Numba`'s vectors have: it is full of
# ``<8 x float>``, or another number. (Numba may use 8 on a CPU that has instructions
# for 16; such a CPU can do more than we predict.) A core has two *units* for
# multiply-adds (most do; that is our assumption). Each can begin a new one in every
# clock cycle, though it takes 4 cycles to finish it (`on most CPUs`__; some need 5):
# like a car factory with 4 stations, from which a finished car rolls out every cycle.
# So the number of multiply-adds under way is at most
#
# .. math::
#
#     \text{cycles} \times \text{units} \times \text{lanes} \times \text{cores}.
#
# __ https://www.agner.org/optimize/instruction_tables.pdf

import re

from llvmlite import binding

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
widest = 16 if binding.get_host_cpu_features().get("avx512f") else lanes
print(f"{cycles_to_wait} cycles × {units} units × {lanes} lanes × {cpu_cores} cores")
print(f"(this CPU has instructions for {widest} lanes)")

# %%
# Measure
# -------
#
# Each way gets as many cups as it needs to show what it can do: *n* in the table (some
# get several, for a test below). Python and NumPy do fewer steps: compare the rates,
# not the times.

import torch

device = best_device()
has_gpu = device.type != "cpu"
has_kernel = device.type == "cuda" and not simulated()
keep, gain = np.float32(1 - 1e-5), np.float32(2e-4)

bench = Bench("count-your-cpu")
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
# A multiply-add counts as two :term:`FLOP`. The percentage is of what a large matrix
# product reaches on *all* cores, so one thread shows only its core's share. It can
# exceed 100: such a row is marked *above-roof*.
#
# One chain has one multiply-add under way, so a way that finishes 10 times as many in
# the same time has about 10. So divide by *one at a time*, using each way's shortest
# time, the one least disturbed by other programs:

works = {
    "Python loop": "mostly the interpreter",
    "NumPy": "vectors, but each step goes to the cache",
    "one at a time": "one station of one unit",
    "eight at a time": "all stations, with single numbers",
    "SIMD, one thread": "all stations, with vectors",
    "SIMD, all cores": "the same on every core",
}


def per_second(label):
    timing = list(cooling[label].values())[-1]
    return timing.flops / 2 / min(timing.values)


slow, best = per_second("one at a time"), per_second("SIMD, all cores")
bars = {label: per_second(label) / slow for label in ways}
bars |= {f"model: {name}": model[1] / slow for name, model in models.items()}
at_once, most = bars["SIMD, all cores"], at_most["SIMD, all cores"]

counts = [
    (way, f"{at_most.get(way, '–')}", f"{bars[way]:.3g}", what)
    for way, what in works.items()
]
head = "", "at most", "measured", "what is busy"
show_table("Speed (one at a time is 1)", head, counts)

# %%

# measured figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
for row, (label, ratio) in enumerate(bars.items()):
    is_model = label.startswith("model")
    colour = ORANGE if "GPU" in label or is_model else BLUE
    style = {"fill": False, "ls": "--"} if is_model else {"fc": colour}
    ax.barh(row, ratio - 1, 0.62, left=1, ec=colour, **style)
    text = f"{ratio:,.0f} ×" if ratio > 9.5 else f"{ratio:.2g} ×"
    ax.text(1.4 * max(ratio, at_most.get(label, 1)), row, text, va="center")
    if label in at_most:
        ax.plot([at_most[label]] * 2, [row - 0.42, row + 0.42], color="black", lw=2)
ax.set_yticks(range(len(bars)), bars)
ax.invert_yaxis()
ax.set(xscale="log", xlim=(5e-3, 2e7))
ax.set_xlabel("times as fast as one at a time (upright mark: predicted, at most)")
title = f"This CPU does {at_once:.0f} × as many multiply-adds as one chain allows"
fig.suptitle(title)
slowest, fastest = (pick(m[1] for m in models.values()) / slow for pick in (min, max))
fig.set_label(
    "Bars of speed, one at a time being 1; slower ways go to the left. "
    f"{bars['Python loop']:.2g} in a Python loop, {bars['eight at a time']:.2g} with "
    f"eight at a time, {bars['SIMD, one thread']:.0f} with SIMD, "
    f"{at_once:.0f} on all cores, where at most {most} were predicted; "
    f"models of three GPUs: {slowest:,.0f} to {fastest:,.0f}."
)
plt.show()

# %%
# *Eight at a time* uses no more hardware than *one at a time*. It gains by filling the
# stations that one chain leaves empty; the core finds out by itself which multiply-adds
# do not wait for each other. With SIMD, each station holds a whole vector.
#
# And a GPU? A chain is as slow there, and full lanes are as fast as the sheet says.
# Others measured these; the last line is a CPU's, and its owner did not name it.
#
# .. measured-by-others:: chain-rtx3090 fma-v100 fma-rtx4090 notes-cpu
#
# Did your CPU reach the prediction?
# ----------------------------------

one_thread = per_second("SIMD, one thread")
share = one_thread / slow / at_most["SIMD, one thread"]
by_cores = best / one_thread
verdicts = {
    0.4: "less than half",
    0.6: "half",
    0.8: "less",
    1.2: "as predicted",
    np.inf: "more",
}
reached = next(text for limit, text in verdicts.items() if share < limit)
print(f"If a multiply-add takes {cycles_to_wait} cycles, a core finishes")
print(f"{share * units:.1f} vectors of {lanes} numbers in a cycle;")
print(f"predicted: {units} ({reached}).")
print(f"{cpu_cores} cores finish {by_cores:.1f} × as many as one.")

# %%
# - *Half* means one vector a cycle in place of two. Either a core has one unit of this
#   width, or its units are half as wide and take each vector in two goes, as `AMD's Zen
#   4`__ does with 16 numbers.
# - *More* means more units than two, or 5 cycles in place of 4: then one chain is
#   slower, and we divide by it. *Less*: other programs ran.
# - If the cores gain clearly less than their number, other programs ran, two "cores"
#   share one (*hyper-threading*), or the clock is lower when all are busy.
#
# __ https://www.agner.org/optimize/microarchitecture.pdf
#
# Does your program use it?
# -------------------------

h100, laptop = models["H100 SXM"][1], 512 * slow  # the laptop of the beginning
numpy_rate, python_rate = per_second("NumPy"), per_second("Python loop")
print(f"SIMD, one thread, is {one_thread / numpy_rate:,.0f} × as fast as NumPy,")
print(f"and {one_thread / python_rate:,.0f} × as fast as a loop in Python")
print(f"an H100 (model) is {h100 / slow:,.0f} × as fast as one chain here,")
print(f"{h100 / best:,.0f} × as fast as SIMD on this CPU's {cpu_cores} cores,")
print(f"and {h100 / laptop:,.0f} × as fast as the laptop above (model, same clock)")

# %%
# The last three lines compare the same whole H100 with ever more of a CPU.
#
# In a loop in Python, the interpreter takes most of the time. NumPy uses vectors,
# but does one step with all cups, then the next, so each number travels to the
# :term:`cache` and back in each step. (Its products of matrices, ``@``, use vectors and
# all cores.) To use all of your CPU:
#
# 1. make the inner loop one over *independent* things that are neighbours in memory;
# 2. do several steps with each before you store it, as ``side_by_side`` does;
# 3. compile it with Numba, and give each core a part.
#
# How much more work costs no more time?
# --------------------------------------
#
# Without pipelines, one cup for each lane of each unit would keep a processor busy.
# With 4 stations in each pipeline, up to *four* times as many should take no longer.
# The model from the beginning of the page, with the latency and throughput inferred
# above, says when the GPU wins. It leaves out the launch of the kernel. (The GPU
# is an H100, or yours if its lanes and clock are known.)

gpu, gpu_name = models["H100 SXM"], "H100"
facts = card(device)
if has_kernel and facts.capability in PER_CLOCK and facts.clock_hz:
    gpu_lanes = facts.multiprocessors * PER_CLOCK[facts.capability][0]
    gpu = cycles_to_wait / facts.clock_hz, gpu_lanes * facts.clock_hz
    gpu_name = facts.name
one_core, all_cores = (1 / slow, one_thread), (1 / slow, best)
longer, full, even = gpu[0] * slow, gpu[0] * gpu[1], gpu[0] * all_cores[1]

print(f"On the {gpu_name} (model), a step takes {longer:.1f} × as long as on this CPU,")
print(f"and {full:,.0f} cups take as long as one; on this CPU, about {at_once:.0f}.")

if longer > 1 and gpu[1] > all_cores[1]:
    winner = f"Up to {even:,.0f} cups the CPU is faster, above them the GPU"
else:
    faster = "The CPU" if longer > 1 else "The GPU"
    winner = f"{faster} is faster at every number of cups"
print(f"{winner}.")

# %%

# measured figure
lines = {  # label, model, look, milliseconds at which the label stands
    "SIMD, one thread": ("CPU, one thread", one_core, GREEN, "o", 90, "right"),
    "SIMD, all cores": ("CPU, all cores", all_cores, BLUE, "s", 30, "left"),
    "GPU, kernel": (f"{gpu_name}, model", gpu, ORANGE, "^", 1, "left"),
}
fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
cups = np.geomspace(1, 2**22, 200)
for label, (name, model, colour, marker, ms, side) in lines.items():
    wide = {"lw": 6, "alpha": 0.4} if marker == "o" else {"ls": "--", "lw": 2}
    ax.plot(cups, [1e3 * floor(n, *model) for n in cups], color=colour, **wide)
    for n, timing in cooling.get(label, {}).items():
        ax.plot(n, 1e3 * min(timing.values), marker, color=colour)
    at = model[1] * ms / 1e3 / steps * (0.45 if side == "right" else 1.4)
    ax.text(at, ms, name, ha=side, va="top")
ax.set(xscale="log", yscale="log", ylim=(0.05, 300))
ax.set_xlabel("cups (marks: shortest times measured; lines: model)")
ax.set_ylabel(f"milliseconds for {steps:,} steps")
if longer > 1 and gpu[1] > all_cores[1]:
    ax.axvline(even, color=GREY, lw=1)
    ax.text(1.2 * even, 0.06, f"{even:,.0f} cups", color=GREY)
fig.suptitle(f"{winner} (model)")
fig.set_label(
    "Time over the number of cups, both logarithmic; marks are measured, lines are "
    "models. Each line is flat, then rises in proportion. The GPU's begins "
    f"{longer:.1f} times as high as the CPU's and is flat up to {full:,.0f} cups. "
    f"{winner}."
)
plt.show()

# %%
# The marks of one thread may lie a little above their line, because this way reads and
# writes each cup every eight steps. The line bends where the number of cups equals
#
# .. math::
#
#     \text{under way} = \text{latency} \times \text{throughput}.
#
# This is :term:`Little's law`. With :math:`N` independent chains, you gain a factor of
# :math:`N` up to the bend, and no further. Where a line is flat, *latency* counts,
# which more cores or multiprocessors do not shorten; where it rises, *throughput*.
#
# Measured on the newest GPU on record:
# :timing:`count-your-cpu median "GPU, kernel/cuda:0/n=1" @gpu` for one cup,
# :timing:`count-your-cpu median "GPU, kernel/cuda:0/n=65536" @gpu` for 65,536 cups. All
# cores of the CPU beside it take
# :timing:`count-your-cpu median "SIMD, all cores/cpu/n=65536" @gpu` for those.
#
# On an H100, one cup takes what the model says to within a tenth, and a million take
# :timing:`count-your-cpu median "GPU, kernel/cuda:0/n=1048576" @nvidia-h100-80gb-hbm3`,
# more than twice what it says. The latency was right, and the throughput is half. We
# suspect the registers: a multiply-add with three different ones reads two from the
# same half of the register file. The model knows nothing of it.
#
# Where this stops being true
# ---------------------------
#
# - *One thing after the other.* No processor can take the steps of *one* cup at the
#   same time. If a twentieth of a program is such a chain, the whole gains at most a
#   factor of 20. That is :term:`Amdahl's law`.
# - *Short calls, and data that travel.* Dispatch overhead and transfers are latencies
#   as well (:doc:`/tutorials/2_devices/06_queues`,
#   :doc:`/tutorials/2_devices/04_small_copies`).
# - *Work with more bytes.* Where memory sets the floor, the lanes wait.
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

# folded: What checks your answer; a V100 has four units of 16 lanes of 32 bits

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
# Three lines to remember
# -----------------------

# remember
gain = gpu[1] / best
print(f"""\
1. A CPU does many things at once: cycles × units × lanes × cores. With vectors of
   {lanes}, that is {most} here; the speed shows about {at_once:.0f}.
2. A processor is full when latency × throughput results are under way: {at_once:.0f} on
   this CPU, {full:,.0f} on the {gpu_name} (model).
3. A GPU wins by throughput, not by latency. By the model, it finishes {gain:,.0f} × as
   many multiply-adds as these {cpu_cores} cores, each in {longer:.1f} × the time.""")

# %%
# Solution
# --------

# solution


def chains_needed_solution(cores, units, bits, cycles):
    return cores * units * bits // 32 * cycles


print(f"Our solution: {check(chains_needed_solution)}")
