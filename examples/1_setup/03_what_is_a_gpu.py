"""
What is a GPU?
==============

A GPU does many things at once, and a CPU does one after the other. Most explanations
begin like this, and one course says it outright: CPUs "can only process one thing at a
time". Here you count. You give your own CPU one small job in several ways, one of them
truly one thing at a time. Then you know how many things it does at once, and what is
left for a GPU to be better at.

**You will learn**

- to tell *latency* from *throughput*, and to predict both;
- how many things your CPU does at once, thanks to cores, threads and SIMD;
- what a multiprocessor, a warp and a "CUDA core" are, counted on real cards;
- why a GPU wants thousands of threads, and when it loses.

**Time:** 20 minutes. **Needs:** any computer. With a GPU, the page measures that too.
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
# A single cup waits for the latency at every step. Many cups wait for the throughput:
#
# .. math::
#
#     t_\text{floor} = \text{steps} \times \max\left(\text{latency},
#     \frac{\text{cups}}{\text{throughput}}\right).
#
# Makers print the throughput, in operations a second; a multiply-add counts as two.
# They print "CUDA cores", too. Each of them finishes one multiply-add in each *tick* of
# the card's clock, so a division gives the clock. For the latency, `NVIDIA's guide to
# its Turing cards`__ says 4 ticks, "like Volta", which is the V100. For the other two
# cards below, 4 is our assumption.
#
# __ https://docs.nvidia.com/cuda/turing-tuning-guide/index.html#instruction-scheduling

from firstlight.measure.specs import spec

steps, ticks_to_wait = 100_000, 4
cuda_cores = {"V100 SXM2": 5_120, "RTX 4090": 16_384, "H100 SXM": 16_896}


def floor(cups, latency, throughput):
    return steps * max(latency, cups / throughput)


models = {}
for card_name, cores in cuda_cores.items():
    throughput = spec(card_name, "fp32") / 2
    clock = throughput / cores
    models[card_name] = ticks_to_wait / clock, throughput

print("ms for cups      1    1,000  1,000,000")
for card_name, model in models.items():
    one, thousand, million = (1e3 * floor(cups, *model) for cups in (1, 1e3, 1e6))
    print(f"{card_name:<9} {one:8.3f} {thousand:8.3f} {million:10.3f}")

# %%
# A thousand cups take as long as one: on such a card, the other 999 are free. And on
# *your* CPU? Write down a guess: how many cups can it take before the time grows?
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
# The second way follows eight cups through the same loop. It is still one
# *thread* (a list of instructions that is worked off one after the other) on one *core*
# (the part of a chip that works it off). And it still computes with single numbers.


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
# The third way takes all cups a few steps further, then again. Now the compiler
# sees that neighbours in memory want the same operation. It puts several of them into
# one long *vector*, and uses instructions that compute with all its numbers at once.
# That is SIMD: *single instruction, multiple data*. (SSE, AVX and Neon are names of
# such instructions.) The places in a vector are its *lanes*.


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
# run at the same time.) For comparison, there are two ways without a compiler: a loop
# in Python, and whole arrays, one step at a time.

from concurrent.futures import ThreadPoolExecutor

cpu_cores = card("cpu").cores or 1
pool = ThreadPoolExecutor(cpu_cores)


def on_all_cores(cups, keep, gain, steps):
    def cool(part):
        side_by_side(part, keep, gain, steps)

    list(pool.map(cool, np.array_split(cups, cpu_cores)))


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
# Last, a *kernel*: a function that a GPU runs in thousands of threads. Each thread
# finds out its own number, ``i``, and takes that cup.
# :doc:`/tutorials/3_kernels/01_first_kernel` explains every word of it. It runs on
# NVIDIA's GPUs; elsewhere, a simulator runs it in Python, to check it. (The loop goes
# in strides of 32, so that counting the steps costs next to nothing.)


@cuda.jit
def thread_per_cup(cups, keep, gain, steps):
    i = cuda.grid(1)
    if i < cups.size:
        t = cups[i]
        for _ in range(0, steps, 32):
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
for way in (python_loop, whole_array, *compiled, kernel):
    worst = 0.0
    for n in (1, 9, 33, 101):
        hot = np.linspace(60, 95, n, dtype=np.float32)
        cups = hot.copy()
        way(cups, keep, gain, 96)
        worst = max(worst, np.abs(cups - exact(hot, keep, gain, 96)).max())
    assert worst < 1e-3, f"{way.__name__} is wrong by {worst:.1e} degrees"
    print(f"{way.__name__:<16} wrong by {worst:.0e} degrees")

one_more = exact(hot, keep, gain, 97) - exact(hot, keep, gain, 96)
print(f"a step too many: wrong by {np.abs(one_more).min():.0e} degrees")

# %%
# Predict your CPU
# ----------------
#
# How many lanes a vector has, the compiled code tells: it is full of ``<8 x float>``,
# or another number. A core has not one unit for multiply-adds, but two (most do; that
# is our assumption). And each unit can begin a new one in every tick, though it takes 4
# ticks to finish it (`on most CPUs`__; some need 5): like a car factory with 4
# stations, from which a car comes every tick. That is a *pipeline*. So a core has room
# for 4 × 2 vectors of multiply-adds, begun and not finished.
#
# __ https://www.agner.org/optimize/instruction_tables.pdf

import re

code = "".join(side_by_side.inspect_llvm().values())
lanes = max((int(width) for width in re.findall(r"<(\d+) x float>", code)), default=1)
units = 2
room = ticks_to_wait * units
at_most = {
    "one at a time": 1,
    "eight at a time": min(8, room),
    "SIMD, one thread": room * lanes,
    "SIMD, all cores": room * lanes * cpu_cores,
}
print(f"4 ticks × {units} units × {lanes} lanes × {cpu_cores} cores")
for label, count in at_most.items():
    print(f"{label:<16} {count:4} under way, at most")

# %%
# Measure
# -------
#
# Each way gets as many cups as it needs to show what it can do. Two of them get several
# numbers of cups, for a test below. (The ways that need long do fewer steps.)

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
# multiply-add. Now as a picture: how many times as fast as one thing at a time? The
# upright marks are your predictions. Dashed bars are *models*: the most that the cards'
# makers promise, measured by nobody here. The axis is logarithmic.

import matplotlib.pyplot as plt


def per_second(label):
    timing = list(cooling[label].values())[-1]
    return timing.flops / 2 / timing.median


slow = per_second("one at a time")
bars = {label: per_second(label) / slow for label in ways}
bars |= {f"model: {name}": model[1] / slow for name, model in models.items()}

# %%

fig, ax = plt.subplots(figsize=(5.6, 0.9 + 0.34 * len(bars)), layout="constrained")
for row, (label, ratio) in enumerate(bars.items()):
    is_model = label.startswith("model")
    colour = "#d9762b" if "GPU" in label or is_model else "#2f7ed8"
    style = {"fill": False, "ls": "--"} if is_model else {"fc": colour}
    ax.barh(row, ratio - 1, 0.62, left=1, ec=colour, **style)
    most = at_most.get(label, 1)
    if label in at_most:
        (mark,) = ax.plot([most] * 2, [row - 0.42, row + 0.42], color="black", lw=2)
    text = f"{ratio:,.0f} ×" if ratio > 9.5 else f"{ratio:.2g} ×"
    ax.text(1.4 * max(ratio, most), row, text, va="center")
ax.set_yticks(range(len(bars)), bars)
ax.invert_yaxis()
ax.set(xscale="log", xlim=(5e-3, 2e7), xlabel="times as fast as one thing at a time")
ax.legend([mark], ["predicted, at most"], loc="upper right", frameon=False, fontsize=9)
fig.set_label(
    "Bars of speed, one thing at a time being 1: "
    f"{bars['Python loop']:.2g} in a Python loop, {bars['eight at a time']:.2g} with "
    f"eight at a time, {bars['SIMD, one thread']:.0f} with SIMD, "
    f"{bars['SIMD, all cores']:.0f} on all cores; models of GPUs: tens of thousands."
)
plt.show()

# %%
# From *one at a time* to *eight at a time*, nothing was added: one thread, one core,
# single numbers. Eight cups take as long as one, because one cup leaves seven of the
# eight stations empty. The core finds out by itself which multiply-adds do not wait for
# each other. With SIMD, each station holds a vector instead of one number. With all
# cores there are more such stations. (NumPy uses SIMD as well. But it does one step
# with all cups, then the next, so each number travels to the cache and back each time.)
#
# One chain alone has one multiply-add under way. A way that finishes 10 times as many
# in the same time has 10 under way. So how many does this CPU do at once? Compare with
# your guess.

best, h100 = per_second("SIMD, all cores"), models["H100 SXM"][1]
at_once, most = best / slow, at_most["SIMD, all cores"]

print(f"predicted: {most} at once")
print(f"measured:  {at_once:.0f} at once")
print(f"H100, model: {h100 / slow:,.0f} × one thing at a time")
print(f"             {h100 / best:,.0f} × this CPU at its best")

# %%
# "One thing at a time" is wrong by the factor in the second line. A program that leaves
# it at that wastes this factor of its CPU, and makes any GPU beside it look better by
# the same factor: the last two lines are one GPU and one CPU.
# :doc:`/tutorials/1_setup/02_first_speedup` asks which of such ratios is a *speed-up*.
#
# What is in a GPU?
# -----------------
#
# The same things, in other numbers and with other names. A GPU consists of
# *multiprocessors*. Each of those below has four units for multiply-adds, with 16 or 32
# lanes each. So a multiprocessor is the nearest thing to a CPU core that a GPU has. A
# "CUDA core" is *one lane*. It can run no program of its own, no more than a lane of
# your CPU's vectors can.
#
# A *warp* is what a GPU has in place of a vector: 32 threads that get their instruction
# together, each with its own cup. They may even go different ways at an ``if``; while
# some of them go one way, the places of the others stay empty.
#
# Here are some chips, and your CPU counted in the same way. *Cores* are
# multiprocessors, for GPUs. *At once* is lanes times 4 ticks, as before. The last
# column says how many threads a chip can *hold*: begun, not finished, ready to go on.

from firstlight.measure.roofs import PER_CLOCK

# compute capability (NVIDIA's number of a generation), multiprocessors, warps in each
chips = {
    "GTX 1650": ((7, 5), 16, 32),  # the one in laptops
    "V100": ((7, 0), 80, 64),
    "RTX 4090": ((8, 9), 128, 48),
    "H100": ((9, 0), 132, 64),
}
facts = card(device)
if has_kernel and facts.capability in PER_CLOCK:
    hold = torch.cuda.get_device_properties(device).max_threads_per_multi_processor
    chips["this GPU"] = facts.capability, facts.multiprocessors, hold // 32

rows = {"this CPU": (cpu_cores, units * lanes, 1)}
for name, (capability, number, warps) in chips.items():
    rows[name] = number, PER_CLOCK[capability][0], 32 * warps
print("      cores×lanes in all at once threads")
for name, (number, wide, hold) in rows.items():
    in_all = number * wide
    print(f"{name:<9}{f'{number}×{wide}':>8}{in_all:7,}", end="")
    print(f"{ticks_to_wait * in_all:8,}{number * hold:8,}")

# %%
# The lanes *in all* are what NVIDIA prints as "CUDA cores". If the maker of your CPU
# counted like this, the number in the first row would stand on its box.
#
# A course notebook on PyTorch and Numba counts its GTX 1650: 16 multiprocessors, each
# with 32 cores, where "a thread will run on one core" and "only 32 threads will run at
# the same time". Compare with the second row, which has `NVIDIA's numbers`__:
#
# - A multiprocessor of that card has 64 lanes, not 32, in four units of 16.
# - 32 is the number of threads in a *warp*. And 32 *warps* fit into a multiprocessor of
#   that card. So it holds 1024 threads at the same time, not 32.
# - No thread has a lane to itself. Whenever a unit is free, it takes the next
#   instruction of *some* warp that is ready.
#
# __ https://docs.nvidia.com/cuda/turing-tuning-guide/index.html#occupancy
#
# Test it: how many cups are free?
# --------------------------------
#
# If a lane could have only one multiply-add under way, a processor would be full with
# one cup for each lane. With more cups, the time would grow. If this page is right, the
# time stays about the same up to *four* cups for each lane. You have measured it:

print(f"one thread, {units * lanes} lanes")
for n, timing in cooling["SIMD, one thread"].items():
    times = slow * timing.median / steps
    print(f"cups {n:>4}: {times:4.1f} × as long as one alone")

# %%
# (One cup takes a little longer here, since it goes back to the cache after every eight
# steps.) For some time, more cups cost little or nothing. Then the time grows with
# their number. The figure has the same for all cores, and for a GPU: an H100, or yours
# if there is one here whose lanes and clock are known. Marks are measured. Dashed lines
# are the model from the beginning of the page: the larger of the two floors.

gpu, gpu_name = models["H100 SXM"], "H100"
if has_kernel and facts.capability in PER_CLOCK and facts.clock_hz:
    gpu_lanes = facts.multiprocessors * PER_CLOCK[facts.capability][0]
    gpu = ticks_to_wait / facts.clock_hz, gpu_lanes * facts.clock_hz
    gpu_name = facts.name
one_core = 1 / slow, slow * at_most["SIMD, one thread"]
all_cores = 1 / slow, slow * at_most["SIMD, all cores"]
longer, full, even = gpu[0] * slow, gpu[0] * gpu[1], gpu[0] * all_cores[1]

print(f"{gpu_name} and this CPU, models")
print(f"a step takes {longer:.1f} × as long")
print(f"{full:,.0f} cups take as long as one")
print(f"{even:,.0f} cups take as long as on all cores")

lines = {
    "SIMD, one thread": ("one thread", one_core, "#2f9e77", "o"),
    "SIMD, all cores": ("all cores", all_cores, "#2f7ed8", "s"),
    "GPU, kernel": (f"{gpu_name}, model", gpu, "#d9762b", "^"),
}

# %%

fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
cups = np.geomspace(1, 2**20, 200)
for label, (name, model, colour, marker) in lines.items():
    ax.plot(cups, [1e3 * floor(n, *model) for n in cups], "--", color=colour)
    for n, timing in cooling.get(label, {}).items():
        ax.plot(n, 1e3 * timing.median, marker, color=colour)
    style = f"--{marker}" if label in cooling else "--"
    ax.plot([], [], style, color=colour, label=name)
ax.set(xscale="log", yscale="log", xlabel="cups", ylim=(0.05, 300))
ax.set_ylabel(f"milliseconds for {steps:,} steps")
ax.axvline(even, color="#808890", lw=1)
ax.text(even / 1.3, 150, "the CPU is faster", ha="right")
ax.text(even * 1.3, 150, "the GPU is faster")
ax.text(full, 0.6e3 * steps * gpu[0], "full", va="top", ha="center")
key = "dashed: the model; marks: measured"
fig.legend(title=key, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
fig.set_label(
    "Time over the number of cups, both logarithmic. Each line is flat, then rises in "
    "proportion. The GPU's, a model, begins higher than the CPU's, but stays flat up "
    f"to {full:,.0f} cups. They cross at about {even:,.0f} cups."
)
plt.show()

# %%
# Every flat part is room that was there anyway. One cup for each lane costs no more
# than one cup; the line bends near four, where the model says. So a lane has several
# multiply-adds under way, at different stations. Beyond the bend, nothing is free. (The
# notebook hopes for a speed-up of :math:`N` with :math:`N` independent results. That
# holds up to the bend, and no further.)
#
# Now look at the left side. The first course says that GPU cores "operate at much
# slower speeds than CPU cores". For a single step, "much" is the small gap between
# these lines, and right of the vertical line it does not matter. That is what a GPU is:
# *throughput, not speed*. Far more things are under way, and each takes its time.
#
# .. note::
#
#    Measured on the newest GPU on record:
#    :timing:`what-is-a-gpu median "GPU, kernel/cuda:0/n=1" @gpu` for one cup,
#    :timing:`what-is-a-gpu median "GPU, kernel/cuda:0/n=65536" @gpu` for 65 536 cups.
#    All cores of the CPU beside it take
#    :timing:`what-is-a-gpu median "SIMD, all cores/cpu/n=65536" @gpu` for those.
#
# Why thousands of threads?
# -------------------------
#
# The law behind the bend is *Little's law*. It holds for cars in a factory and for
# people in a shop: how many are inside is how many come out in a second, times how long
# each stays. To keep a processor busy,
#
# .. math::
#
#     \text{under way} = \text{latency} \times \text{throughput}.
#
# For multiply-adds the latency is 4 ticks. But a number that comes from memory keeps
# its thread waiting for `hundreds of ticks`__, says NVIDIA. So a multiprocessor wants
# far more under way than its lanes times four, and that is why it holds up to 2048
# threads. A warp that waits for memory costs nothing as long as another one is ready.
# This is called *latency hiding*.
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/
#    index.html#multiprocessor-level
#
# A CPU core spends its room on the chip on making *one* thread wait less: large caches,
# good guesses, a search for instructions that can go first. A GPU spends it on lanes,
# and on holding threads. Neither is the better processor. They are good at different
# work.
#
# Where this stops being true
# ---------------------------
#
# First, where the GPU loses:
#
# - *Few things at once.* Left of the vertical line, the CPU is faster. More cores than
#   this CPU's would move the line to the right.
# - *One thing after the other.* No processor can take the steps of *one* cup at the
#   same time. If a twentieth of a program is such a chain, the whole gains at most a
#   factor of 20, however fast the rest becomes. That is *Amdahl's law*.
# - *Short calls.* To start a call on a GPU, and to wait for it, is a latency as well,
#   and a longer one (:doc:`/tutorials/2_devices/02_queues`).
# - *Data that travel.* The cups were on the GPU already
#   (:doc:`/tutorials/2_devices/05_transfers`).
#
# And where the counting fails:
#
# - *Work with more bytes.* Most work needs some bytes for each operation. Then memory
#   sets the floor, the lanes wait, and a ratio of lanes means nothing.
# - *Other CPUs.* Some have one unit for multiply-adds, or four, or wait 5 ticks. Some
#   show each core twice (*hyper-threading*), or tick more slowly when all cores are
#   busy. The upright marks are off by such factors.
# - *Other makers.* AMD calls a multiprocessor a *compute unit*, Apple simply a *core*;
#   in place of a warp, AMD has 32 or 64 threads. Never compare the "cores" of two
#   makers: compare lanes and clocks. (And a *tensor core* is yet another thing: a unit
#   for products of matrices.)
#
# Exercise
# --------
#
# One function for both kinds of processors. A CPU core, or a multiprocessor, has some
# ``units``, each for vectors of some ``bits``; a multiply-add takes some ``ticks``. How
# many ``float32`` chains does your program need at least, to keep every lane of all
# ``cores`` busy in every tick?


def chains_needed(cores, units, bits, ticks): ...


# %%
# ``check`` begins with the smallest processors there could be. The last two are real: a
# V100 has four units of 16 lanes, each for 32 bits, which makes vectors of 512 bits.

cases = {
    (1, 1, 32, 1): (1, "one lane: count no bits, bytes, operations or warps"),
    (1, 1, 256, 1): (8, "vectors are given in bits, and a float32 has 32 of them"),
    (2, 4, 32, 1): (8, "each of the cores has several units"),
    (1, 1, 32, 5): (5, "a multiply-add takes several ticks: one is at each station"),
    (80, 4, 512, 4): (20_480, "a V100 has 5,120 lanes, and 4 ticks to fill"),
    (64, 2, 256, 4): (4_096, "a CPU of 64 cores has 1,024 lanes, and 4 ticks to fill"),
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


print(check(chains_needed))

# %%

# solution


def chains_needed_solution(cores, units, bits, ticks):
    return cores * units * bits // 32 * ticks


print(check(chains_needed_solution))

# %%
# Three lines to remember
# -----------------------

print(f"1. A CPU does many things at once: here {at_once:.0f}, of {most} predicted.")
print("2. A GPU is throughput, not speed. Far more is under way, each takes its time:")
print(f"   {full:,.0f} on the {gpu_name}, {longer:.1f} × as long as here (model).")
print("3. A CUDA core is a lane. Count the chains in your work before you count cores.")
