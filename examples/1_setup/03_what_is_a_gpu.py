"""
What is a GPU?
==============

A GPU does many things at once, and a CPU does one after the other. Most explanations
begin like this, and one course says it outright: CPUs "can only process one thing at a
time". Here you count. You give your own CPU one small job in several ways, one of them
truly one thing at a time. Then you know how many things it can do at once, and what is
left for a GPU to be better at.

**You will learn**

- to tell *latency* from *throughput*, and to predict both;
- how many things your CPU does at once, and what a core, a thread and SIMD have to do
  with it;
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
# That is one multiplication and one addition. Processors do the two as one operation, a
# *multiply-add*. To follow one cup for 100 000 steps takes 100 000 multiply-adds, *one
# after the other*, because each needs the result of the one before. A second cup is
# another chain of as many, and has nothing to do with the first.
#
# A cup is a single number. It is read once and written once: 8 bytes for 100 000
# multiply-adds. So memory does not matter here, and two numbers describe a processor:
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
# A thousand cups take as long as one: on such a card, the other 999 are free. Is that
# not so on a CPU? Write down a guess: how many cups can *your* CPU take at once, before
# the time begins to grow?
#
# How fast does your CPU tick?
# ----------------------------
#
# To make the same prediction for your CPU, you need its clock, and many systems do not
# tell it. You can measure it. The Fibonacci numbers are a chain of additions of whole
# numbers, and a CPU does one such addition in one tick. So the time of a step *is* the
# tick.
#
# `Numba <https://numba.pydata.org>`__ compiles the function below: it turns Python into
# instructions of the CPU, at the first call. Python itself would be far too slow to
# show a tick.

from firstlight import Bench, best_device
from firstlight.devices import card
from firstlight.kernels import blocks_for, cuda, simulated  # before any import of numba
from numba import njit


@njit
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


assert fibonacci(90) == 2_880_067_194_370_816_120

bench = Bench("what-is-a-gpu")
ticks = 1_000_000
additions = bench.time("additions in a row", fibonacci, ticks, n=ticks)
tick = min(additions.values) / ticks
cpu_cores = card("cpu").cores or 1
print(f"{card('cpu').name}, {cpu_cores} cores: {1e-9 / tick:.2f} GHz")
print(f"a tick takes {1e9 * tick:.2f} ns; 4 ticks {4e9 * tick:.2f} ns")
print(f"4 ticks of an H100 take {1e9 * models['H100 SXM'][0]:.2f} ns")

# %%
# The multiply-add of most CPUs takes 4 ticks as well (`Agner Fog`__ has measured very
# many; some need 5). So compare the last two lines. If your CPU ticks faster than the
# large GPU, then a step that has to wait for the step before is *slower* on the GPU.
#
# __ https://www.agner.org/optimize/instruction_tables.pdf
#
# One thing at a time, and more
# -----------------------------
#
# The first function follows a cup to the end, then takes the next cup. The compiler can
# change nothing about that: each multiply-add waits for the one before. (``contract``
# allows it to make one multiply-add of ``*`` and ``+``.)

import numpy as np


@njit(fastmath={"contract"})
def one_at_a_time(cups, keep, gain, steps):
    for i in range(cups.size):
        t = cups[i]
        for _ in range(steps):
            t = keep * t + gain
        cups[i] = t


# %%
# The second function follows eight cups through the same loop. It is still one thread,
# on one core, and it still computes with single numbers. (A *thread* is a list of
# instructions that is being worked off, one after the other. A *core* is what works it
# off.)


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
# The third function takes all cups a few steps further, then again. Now the compiler
# sees that neighbours in memory want the same operation. It puts several of them side
# by side into one long *vector*, and uses instructions that compute with all numbers of
# a vector at once. That is SIMD: *single instruction, multiple data*. The places in a
# vector are its *lanes*. (Here and below, ``steps`` is a multiple of 32.)


@njit(fastmath={"contract"}, nogil=True)
def side_by_side(cups, keep, gain, steps):
    for _ in range(0, steps, 8):
        for i in range(cups.size):
            t = cups[i]
            for _ in range(8):
                t = keep * t + gain
            cups[i] = t


# %%
# The fourth does the same with a thread for each core. ``nogil`` lets Python's threads
# run at the same time while they are in compiled code. For comparison, there are two
# ways without a compiler: a loop in Python, and whole arrays, a step at a time.

from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(cpu_cores)


def on_all_cores(cups, keep, gain, steps):
    def cool(part):
        side_by_side(part, keep, gain, steps)

    list(pool.map(cool, np.array_split(cups, cpu_cores)))


def python_loop(cups, keep, gain, steps):
    keep, gain = float(keep), float(gain)
    for i, t in enumerate(cups):
        for _ in range(steps):
            t = keep * t + gain
        cups[i] = t


def whole_array(cups, keep, gain, steps):
    keep, gain = float(keep), float(gain)
    for _ in range(steps):
        cups *= keep
        cups += gain


# %%
# Last, a *kernel*: a function for a GPU. A GPU runs it in thousands of threads. Each
# thread finds out its own number, ``i``, and takes the cup with that number.
# :doc:`/tutorials/3_kernels/01_first_kernel` explains every word of it. Kernels like
# this one run on NVIDIA's GPUs; elsewhere, a simulator runs it in Python, to check it.


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
# :math:`\text{keep}^k` times as large. So there is a formula to compare with, in
# ``float64``. Take cups that cool fast, so that one step too many would show, and odd
# numbers of them.


def exact(cups, keep, gain, steps):
    room = float(gain) / (1 - float(keep))
    return room + (cups.astype(np.float64) - room) * float(keep) ** steps


keep, gain = np.float32(0.99), np.float32(0.2)
compiled = (one_at_a_time, eight_at_a_time, side_by_side, on_all_cores)
for way in (python_loop, whole_array, *compiled, kernel):
    worst = 0.0
    for n in (1, 9, 33, 101):
        hot = np.linspace(60, 95, n, dtype=np.float32)
        cups = hot.tolist() if way is python_loop else hot.copy()
        way(cups, keep, gain, 96)
        worst = max(worst, np.abs(cups - exact(hot, keep, gain, 96)).max())
    assert worst < 1e-3, f"{way.__name__} is wrong by {worst:.1e} degrees"
    print(f"{way.__name__:<16} wrong by {worst:.0e} degrees")

one_more = exact(hot, keep, gain, 97) - exact(hot, keep, gain, 96)
print(f"a step too many: wrong by {np.abs(one_more).min():.0e} degrees")

# %%
# Before you measure the CPU, predict. How many lanes do its vectors have? The compiled
# code tells: it is full of ``<8 x float>``, or another number. And a core has not one
# unit for multiply-adds, but two (most do; that is our assumption). Each unit can begin
# one multiply-add in every tick, though it takes 4 ticks to finish it: like a car
# factory with 4 stations, from which a car comes every tick. (That is a *pipeline*.)

import re

code = "".join(side_by_side.inspect_llvm().values())
lanes = max((int(width) for width in re.findall(r"<(\d+) x float>", code)), default=1)
units = 2
per_tick = {
    "one at a time": 1 / ticks_to_wait,
    "eight at a time": min(8 / ticks_to_wait, units),
    "SIMD, one thread": units * lanes,
    "SIMD, all cores": units * lanes * cpu_cores,
}
print(f"{lanes} lanes in a vector, {units} units a core, {cpu_cores} cores")
print("multiply-adds in a tick, at most:")
for label, count in per_tick.items():
    print(f"{label:<17} {count:7.2f}")

# %%
# Measure
# -------
#
# Each way gets as many cups as it needs to show what it can do. (The two ways that need
# long do fewer steps.) What counts is the time for one step of one cup.

import torch

device = best_device()
has_gpu = device.type != "cpu"
has_kernel = device.type == "cuda" and not simulated()
keep, gain = np.float32(1 - 1e-5), np.float32(2e-4)


def time_it(label, way, n, steps=steps, cups=None, **place):
    if cups is None:
        cups = np.linspace(60, 95, n, dtype=np.float32)
    work = {"n": n, "flops": 2 * n * steps, **place}
    return bench.time(label, way, cups, keep, gain, steps, **work)


def per_step(timing):
    return timing.median / (timing.flops / 2)


cooling = {
    "Python loop": time_it("Python loop", python_loop, 1, 3_200, [90.0]),
    "NumPy": time_it("NumPy", whole_array, 4_096, 3_200),
    "one at a time": time_it("one at a time", one_at_a_time, 16),
    "eight at a time": time_it("eight at a time", eight_at_a_time, 64),
    "SIMD, one thread": time_it("SIMD, one thread", side_by_side, 1_024),
    "SIMD, all cores": time_it("SIMD, all cores", on_all_cores, 65_536),
}

# %%
# With a GPU, there are two ways more: the same code as NumPy's, in PyTorch, which any
# GPU can run, and the kernel.

if has_gpu:
    label, n = "GPU, PyTorch", 2**20
    many = torch.linspace(60, 95, n, device=device)
    cooling[label] = time_it(label, whole_array, n, 320, many, device=device)

if has_kernel:
    label = "GPU, kernel"
    for n in (1, 4_096, 65_536, 2**18, 2**20):
        many = cuda.to_device(np.linspace(60, 95, n, dtype=np.float32))
        cooling[label] = time_it(label, launch, n, cups=many, device=device)

slow = per_step(cooling["one at a time"])
print("                   ns a step  in a tick")
for label, timing in cooling.items():
    took = per_step(timing)
    print(f"{label:<17} {1e9 * took:10.4f} {tick / took:10.3f}")

# %%
# The same as bars. Shorter is faster. The axis is logarithmic: equal distances are the
# same factor. The dashed lines are the floors that you predicted. The open bars are
# floors, too: *models* of cards, which nobody measured here. The column on the right
# compares with one thing at a time.

import matplotlib.pyplot as plt

bars = {label: (per_step(timing), False) for label, timing in cooling.items()}
bars |= {f"model: {name}": (1 / model[1], True) for name, model in models.items()}

# %%

fig, ax = plt.subplots(figsize=(5.6, 0.9 + 0.36 * len(bars)), layout="constrained")
for row, (label, (took, is_model)) in enumerate(bars.items()):
    colour = "#d9762b" if "GPU" in label or is_model else "#2f7ed8"
    style = {"fill": False, "ls": "--"} if is_model else {"fc": colour}
    ax.barh(row, 1e9 * took, 0.62, ec=colour, **style)
    if label in per_tick:
        least = 1e9 * tick / per_tick[label]
        (mark,) = ax.plot([least] * 2, [row - 0.45, row + 0.45], "--", color="black")
    ratio = slow / took
    text = f"{ratio:,.0f} ×" if ratio > 9.5 else f"{ratio:.2g} ×"
    ax.text(1.02, row, text, va="center", transform=ax.get_yaxis_transform())
ax.set_yticks(range(len(bars)), bars)
ax.invert_yaxis()
ax.set_xscale("log")
ax.set_xlim(3e8 * min(took for took, _ in bars.values()))
ax.set_xlabel("nanoseconds for one step of one cup")
ax.text(1.02, -0.8, "speed", transform=ax.get_yaxis_transform())
ax.legend([mark], ["floor, predicted"], loc="lower right", frameon=False, fontsize=9)
fig.set_label(
    f"Bars of the time for a step, from {1e9 * per_step(cooling['Python loop']):.0f} "
    f"nanoseconds in a Python loop over {1e9 * slow:.2g} for one thing at a time to "
    f"{1e9 * per_step(cooling['SIMD, all cores']):.2g} with SIMD on all cores. The "
    "models of three GPUs are shorter still."
)
plt.show()

# %%
# Look at the middle of the figure. From *one at a time* to *eight at a time*, nothing
# was added: one thread, one core, single numbers. Eight cups take as long as one,
# because there are two units with four stations each, and one cup leaves seven of these
# eight places empty. The core finds out by itself which multiply-adds do not wait for
# each other. With SIMD, each place holds a vector instead of one number. With all cores
# there are more such places.
#
# NumPy uses SIMD as well. But it does one step with all cups, then the next, so every
# number travels from the cache to the core and back, twice for each step.
#
# So how many things does this CPU do at once? Compare with your guess. One chain alone
# has one multiply-add under way. If a way finishes 10 times as many in the same time,
# it has 10 under way.

best = per_step(cooling["SIMD, all cores"])
at_once = slow / best
most = ticks_to_wait * per_tick["SIMD, all cores"]
large = 1 / models["H100 SXM"][1]

print(f"{ticks_to_wait} ticks × {units} units × {lanes} lanes × {cpu_cores} cores")
print(f"predicted: {most} at once")
print(f"measured:  {at_once:.0f} at once")
print(f"an H100, model: {slow / large:,.0f} × one thing at a time")
print(f"                {best / large:,.0f} × this CPU at its best")

# %%
# "One thing at a time" is wrong by the factor in the third line. A program that leaves
# it at that wastes this factor of its CPU, and makes any GPU beside it look better by
# the same factor: the last two lines are one GPU and one CPU.
# :doc:`/tutorials/1_setup/02_first_speedup` asks which of such ratios is a *speed-up*.
#
# What is in a GPU?
# -----------------
#
# The same things, in other numbers and with other names. A GPU consists of
# *multiprocessors*. Each of those below has four units for multiply-adds, with 16 or 32
# lanes each. That makes a multiprocessor the nearest thing to a CPU core that there is
# in a GPU. A "CUDA core" is *one lane*. It can not run a program of its own, no more
# than a lane of your CPU's vectors can.
#
# A *warp* is what a GPU has in place of a vector: 32 threads that get their instruction
# together, one for all 32. Each has its own cup. It may even take its own way at an
# ``if``; meanwhile the places of the others stay empty.
#
# Here are some chips, and your CPU counted in the same way. The last column says how
# many threads a chip can *hold*: begun, not finished, ready to go on.

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

rows = {
    name: (number, PER_CLOCK[capability][0], 32 * warps)
    for name, (capability, number, warps) in chips.items()
}
rows["this CPU"] = cpu_cores, units * lanes, 1
print("       cores × lanes = lanes  at once  threads")
for name, (number, wide, hold) in rows.items():
    in_all = number * wide
    print(f"{name:<8} {number:3} × {wide:3} {in_all:9,}", end=" ")
    print(f"{ticks_to_wait * in_all:8,} {number * hold:8,}")

# %%
# (In the rows of GPUs, *cores* are multiprocessors. *At once* is lanes times 4 ticks,
# as before.) The lanes in all are what NVIDIA prints as "CUDA cores". If the maker of
# your CPU counted like this, the last row is what would stand on its box.
#
# Another course counts its GTX 1650: 16 multiprocessors, each with 32 cores, where "a
# thread will run on one core" and "only 32 threads will run at the same time". Compare
# with the first row, which has `NVIDIA's numbers`__:
#
# - A multiprocessor of that card has 64 lanes, not 32, in four units of 16.
# - 32 is the number of threads in a *warp*. And 32 *warps* fit into a multiprocessor of
#   that card. So it holds 1024 threads at the same time, not 32.
# - A thread does not run on one core. No lane belongs to a thread. In each tick, each
#   of the four units takes the next instruction of *some* warp that is ready.
#
# __ https://docs.nvidia.com/cuda/turing-tuning-guide/index.html#occupancy
#
# Test it: how many cups are free?
# --------------------------------
#
# That last point can be tested. If a lane could have only one multiply-add under way,
# then a processor would be full with one cup for each lane. With more cups, the time
# would grow. If the prediction of this page is right, the time stays the same up to
# four cups for each lane, and grows only then. Count cups on your CPU:

for n in (1, 16, 64, 256):
    time_it("SIMD, one thread", side_by_side, n)
for n in (256, 4_096):
    time_it("SIMD, all cores", on_all_cores, n)

measured = {}
for timing in bench.timings:
    if timing.label in ("SIMD, one thread", "SIMD, all cores", "GPU, kernel"):
        measured.setdefault(timing.label, {})[timing.n] = timing.median

print(f"one thread, {units * lanes} lanes")
for n, seconds in sorted(measured["SIMD, one thread"].items()):
    print(f"{n:>5} cups: {1e3 * seconds:7.3f} ms, {seconds / steps / tick:5.1f} ticks")

# %%
# One cup takes a little over 4 ticks a step, since it goes back to the cache after each
# eight steps. For some time, more cups take no longer. Then the time grows with their
# number. Now the same for all cores, and for a GPU: an H100, or yours if there is one
# here whose lanes and clock are known.

gpu, gpu_name = models["H100 SXM"], "H100"
if has_kernel and facts.capability in PER_CLOCK and facts.clock_hz:
    gpu_lanes = facts.multiprocessors * PER_CLOCK[facts.capability][0]
    gpu = ticks_to_wait / facts.clock_hz, gpu_lanes * facts.clock_hz
    gpu_name = facts.name
one_core = ticks_to_wait * tick, units * lanes / tick
all_cores = ticks_to_wait * tick, cpu_cores * units * lanes / tick
full = gpu[0] * gpu[1]
even = gpu[0] / per_step(cooling["SIMD, all cores"])

lines = {
    "SIMD, one thread": ("model: one thread", one_core, "#2f9e77", "o"),
    "SIMD, all cores": ("model: all cores", all_cores, "#2f7ed8", "s"),
    "GPU, kernel": (f"model: {gpu_name}", gpu, "#d9762b", "^"),
}

print(f"{gpu_name}, model")
print(f"a step takes {gpu[0] / one_core[0]:.1f} × as long as on this CPU")
print(f"{full:,.0f} cups take as long as one")
print(f"{even:,.0f} cups take as long as on this CPU")

# %%
# In the figure, marks are measured. Dashed lines are the model from the beginning of
# the page: the larger of the two floors.

fig, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
cups = np.geomspace(1, 2**20, 200)
for name, model, colour, _ in lines.values():
    times = [1e3 * floor(n, *model) for n in cups]
    ax.plot(cups, times, "--", color=colour, label=name)
for label, (_, _, colour, marker) in lines.items():
    if label in measured:
        n, times = zip(*sorted(measured[label].items()), strict=True)
        ax.plot(n, 1e3 * np.array(times), marker, color=colour, label=label)
ax.set(xscale="log", yscale="log", xlabel="cups", ylim=(0.05, 300))
ax.set_ylabel(f"milliseconds for {steps:,} steps")
ax.axvline(even, color="#808890", lw=1)
ax.text(even / 1.3, 150, "the CPU is faster", ha="right")
ax.text(even * 1.3, 150, "the GPU is faster")
ax.text(full, 0.6e3 * steps * gpu[0], "full", va="top", ha="center")
fig.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
fig.set_label(
    "Time over the number of cups, both logarithmic. Each line is flat, then rises in "
    "proportion. The GPU's, a model, begins higher than the CPU's, but stays flat up "
    f"to {full:,.0f} cups. They cross at about {even:,.0f} cups."
)
plt.show()

# %%
# Every flat part is room that was there anyway. At *one* cup for each lane, nothing
# happens; the line bends at four, where the model says. So a lane does have several
# multiply-adds under way, at different stations, and belongs to none of them.
#
# Look at the flat parts on the left. The first course says that GPU cores "operate at
# much slower speeds than CPU cores". For a single step that is true, but "much" is the
# small gap between these lines. And it does not matter to the right of the vertical
# line. That is what a GPU is: *throughput, not speed*. Each thing takes longer there,
# and far more things are under way.
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
# its thread waiting for far longer. Measure that, too: a treasure hunt through an array
# of 8 million places, where each place says which one is next. No processor can guess
# it. Then follow several hunts at once, which have nothing to do with each other.


@njit
def hunt(following, places, hops):
    for _ in range(hops):
        for i in range(places.size):
            places[i] = following[places[i]]


rng = np.random.default_rng(seed=1)
order = rng.permutation(np.arange(2**23, dtype=np.int32))
following = np.empty_like(order)
following[order] = np.roll(order, -1)
hops = 2_000

places = order[[0, 1_001]]
hunt(following, places, hops)
assert np.array_equal(places, order[[hops, 1_001 + hops]])

print("hunts  ticks for a hop each  a hop")
for n in (1, 4, 16):
    places = order[:: order.size // n][:n].copy()
    timing = bench.time("treasure hunt", hunt, following, places, hops, n=n)
    took = timing.median / hops / tick
    print(f"{n:>5} {took:21.0f} {took / n:6.0f}")

# %%
# The same law again: more under way, more throughput, about the same latency. Only,
# the latency is not 4 ticks now, but very many. A GPU's memory answers no
# sooner: after `hundreds of ticks`__, says NVIDIA. So a multiprocessor wants many times
# more under way than its lanes times four, and that is why it holds up to 2048 threads.
# A warp that waits for memory costs nothing as long as another one is ready. This is
# called *latency hiding*.
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/
#    index.html#multiprocessor-level
#
# A CPU core spends its room on the chip on making *one* thread wait less: large caches,
# good guesses, a search for instructions that can go first. A GPU spends it on lanes,
# and on holding threads. Neither is the better processor. They are good at different
# work.
#
# When the GPU loses
# ------------------
#
# - *Few things at once.* Left of the vertical line in the figure, the CPU is faster.
#   (This page's CPU: more cores would move the line to the right.)
# - *One thing after the other.* No processor can take the steps of *one* cup at the
#   same time. If a twentieth of a program is such a chain, the rest can be as fast as
#   you like: the whole gains at most a factor of 20. That is *Amdahl's law*.
# - *Short calls.* The work of the figure is one long call. To start a call on a GPU,
#   and to wait for it, is a latency as well, and a longer one.
# - *Data that travel.* The cups were on the GPU already.
#
# All numbers
# -----------
#
# Here is what was timed on this page. For cups, *n* is their number, and *rate* counts
# two operations for a multiply-add. *of roof* compares it with a large product of two
# matrices, the best that PyTorch did on the same device.

bench.show()

# %%
# Where this stops being true
# ---------------------------
#
# - *Work with more bytes.* A cup needs 8 bytes for 100 000 multiply-adds. Most work
#   needs some bytes for each. Then the memory sets the floor, the lanes wait, and a
#   ratio of lanes means nothing.
# - *Threads that share a core.* Some CPUs show each core twice (*hyper-threading*).
#   Then *SIMD, all cores* predicts up to twice too much here.
# - *Clocks.* With all cores busy, a CPU may tick more slowly than for one thread. A GPU
#   may tick more slowly than its data sheet says.
# - *Other units.* Some CPUs have one unit for multiply-adds, or four, or wait 5 ticks.
#   Then the dashed marks are off by that factor. GPUs have units for products of
#   matrices besides (NVIDIA's *tensor cores*); no lane of this page is one of them.
# - *Other makers.* AMD calls a multiprocessor a *compute unit*, and Apple simply a
#   *core*. So never compare "cores" of two makers: compare lanes and clocks.
# - *The word warp.* A warp is 32 threads at NVIDIA. AMD has 32 or 64 in its place.
#
# Exercise
# --------
#
# One function for both kinds of processors. A CPU core, or a multiprocessor, has some
# ``units``, each for vectors of some ``bits``; both tick ``clock`` times a second; a
# multiply-add takes ``ticks``. How many ``float32`` operations does it do in a second
# at most, as makers count them? And how many multiply-adds have to be under way for
# that?


def peak_and_under_way(cores, units, bits, clock, ticks): ...


# %%
# ``check`` tries a V100 first: four units of 16 lanes, each lane for a number of 32
# bits, so vectors of 512 bits. The answers it expects were counted in lanes.

machines = {
    "a V100": ((80, 4, 512, 1.53e9, 4), (2 * 5_120 * 1.53e9, 20_480)),
    "an H100": ((132, 4, 1_024, 1.98e9, 4), (2 * 16_896 * 1.98e9, 67_584)),
    "a CPU of 64 cores": ((64, 2, 256, 2.5e9, 4), (2 * 1_024 * 2.5e9, 4_096)),
    "a slow laptop": ((2, 1, 128, 1.2e9, 5), (2 * 8 * 1.2e9, 40)),
}
lanes_hint = {
    32: "bits / 32 is the number of lanes, and warps are no further factor",
    8: "the vectors are given in bits, not in bytes",
    4: "a float32 has 4 bytes, and those are 32 bits: one lane, not four",
    0.25: "each core or multiprocessor has several units",
}
peak_hint = {0.5: "a multiply-add counts as two operations", **lanes_hint}
number_hint = {
    2: "count multiply-adds here, not operations",
    0.25: "each takes several ticks, so there is one at each station",
    **{factor: hint for factor, hint in lanes_hint.items() if factor > 1},
}

# %%


def check(answer):
    for name, (arguments, expected) in machines.items():
        try:
            peak, number = (float(value) for value in answer(*arguments))
        except TypeError:
            return "It has to take five numbers and return two: the peak, the number."
        except Exception as error:
            return f"For {name}, it raised {type(error).__name__}: {error}"
        for what, ratio, hints in (
            ("peak", peak / expected[0], peak_hint),
            ("number under way", number / expected[1], number_hint),
        ):
            if abs(ratio - 1) < 1e-3:
                continue
            known = (hints[f] for f in hints if abs(ratio - f) < 1e-3 * f)
            hint = next(known, "lanes in all, times 2 and clock, or times ticks")
            return (
                f"For {name}, the {what} is {ratio:.3g} × what is right. Hint: {hint}."
            )
    return "Right: you can read any data sheet now, and say how much work it needs."


print(check(peak_and_under_way))

# %%

# solution


def peak_and_under_way_solution(cores, units, bits, clock, ticks):
    lanes = cores * units * bits // 32
    return 2 * lanes * clock, lanes * ticks


print(check(peak_and_under_way_solution))

# %%
# Three lines to remember
# -----------------------

print(
    f"1. A CPU does many things at once: this one {at_once:.0f}, of {most} predicted."
)
print(
    f"2. A GPU is throughput, not speed: the {gpu_name} has {full:,.0f} multiply-adds"
)
longer = gpu[0] / one_core[0]
print(f"   under way, and each takes {longer:.1f} times as long as here (model).")
print("3. A CUDA core is a lane. Count the chains in your work before you count cores.")
