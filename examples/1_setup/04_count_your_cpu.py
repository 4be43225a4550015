"""
How many things does your CPU do at once?
=========================================

Perhaps you've heard in a course on GPUs that a CPU can only do one thing at a time.
Then somebody took a loop in Python, put it onto a GPU, and the speed-up took your
breath away. Is that the GPU, or was it the loop?

**Write down a guess:** how many multiply-adds can a laptop with eight cores have under
way at the same moment? Eight? Fifty? By the end you can work out that number for your
own CPU, and you'll have written a loop that does eight things at once.

**Needs:** any computer, and :doc:`/tutorials/1_setup/03_what_is_a_gpu`. Without a GPU,
you'll see what an H100 did.
"""

# %%
# Try it
# ------
#
# You've met the cups of coffee on the page before. In one small step of time, a cup
# keeps most of its temperature :math:`T`, and gains a little from the room:
#
# .. math::
#
#     T_\text{new} = \text{keep} \times T + \text{gain}.
#
# Processors do this as one operation, a :term:`multiply-add`. We follow a cup for
# 100,000 steps. Each step needs the result of the one before, so it's a *chain*. But a
# second cup is a second chain, and it doesn't depend on the first. `Numba`__ compiles
# the loop for us.
#
# __ https://numba.pydata.org
#
# In the next cell, the compiler may turn ``keep * t + gain`` into one multiply-add,
# because of ``fastmath={"contract"}``.

from time import perf_counter

import numpy as np

from numba import njit

steps, cycles_to_wait = 100_000, 4


@njit(fastmath={"contract"})
def one_at_a_time(cups, keep, gain, steps):
    for i in range(cups.size):
        t = cups[i]
        for _ in range(steps):
            t = keep * t + gain
        cups[i] = t


# %%
# Most people would write the loop like this. Here's another way, which follows eight
# cups through one loop. It's still one thread on one core, with as many multiply-adds
# to do.


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
# **Guess first:** eight cups, eight at a time. Will they take as long as eight cups,
# one at a time? Or as long as a single cup?


def milliseconds(way, number):
    keep, gain = np.float32(0.99), np.float32(0.2)
    cups = np.full(number, 90, dtype=np.float32)
    way(cups, keep, gain, 8)  # the first call compiles
    times = []
    for _ in range(9):
        start = perf_counter()
        way(cups, keep, gain, steps)
        times.append(perf_counter() - start)
    return 1e3 * min(times)  # the run that was disturbed least


print(f"one cup:                  {milliseconds(one_at_a_time, 1):.2f} ms")
print(f"8 cups, one at a time:    {milliseconds(one_at_a_time, 8):.2f} ms")
print(f"8 cups, eight at a time:  {milliseconds(eight_at_a_time, 8):.2f} ms")

# %%
# Eight cups take as long as one! So a single core of your CPU did at least eight things
# at once. And we've only used plain variables, one for each cup.
#
# A multiply-add counts as two floating point operations, or :term:`FLOP`, and a billion
# of them are a GFLOP. On the CPU beside our H100, one core did :timing:`count-your-cpu
# rate "one at a time" @nvidia-h100-80gb-hbm3` one at a time, and
# :timing:`count-your-cpu rate "eight at a time" @nvidia-h100-80gb-hbm3` eight at a
# time.
#
# Where do they hide?
# -------------------
#
# Think of a factory that makes cars. A car has to pass four stations, one after the
# other. But each station hands its car on and takes the next. So a car leaves the
# factory at every step, and four of them are in the making all the time.
#
# A core does the same. A multiply-add takes about four clock cycles, but a new one can
# begin in every cycle. This is called a *pipeline*. In a single chain, each
# multiply-add waits for the one before, and three of four stations stand empty. Most
# cores have two such pipelines, two *units*, side by side. So a chain uses one place of
# eight, and that's why eight cups took no longer.
#
# There's a second way to do many things at once. If neighbours in memory all need the
# same operation, a core can load several of them as one *vector*, and compute with all
# of its numbers in one instruction. This is called :term:`SIMD`, *single instruction,
# multiple data*, and your CPU's data sheet calls it SSE, AVX or Neon. The places in a
# vector are its :term:`lanes <lane>`. So let's put the loop over the cups inside the
# loop over the steps:


@njit(fastmath={"contract"}, nogil=True)
def side_by_side(cups, keep, gain, steps):
    for _ in range(0, steps, 8):
        for i in range(cups.size):
            t = cups[i]
            for _ in range(8):
                t = keep * t + gain
            cups[i] = t


# %%
# The compiler sees that the cups of the inner loop are neighbours in memory, and makes
# vectors of them. You know the third way already: your CPU has several cores. Thanks to
# ``nogil``, Python's threads can use them at the same time.

from concurrent.futures import ThreadPoolExecutor

from firstlight.devices import card

cpu_cores = card("cpu").cores or 1
pool = ThreadPoolExecutor(cpu_cores)


def on_all_cores(cups, keep, gain, steps):
    def cool(part):
        side_by_side(part, keep, gain, steps)

    list(pool.map(cool, np.array_split(cups, cpu_cores)))


# %%

# folded: Two ways without a compiler: a loop in Python, and NumPy


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

from numba import cuda

from firstlight_kernels import blocks_for, simulated


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

# folded: Check: all ways against a formula, in float64, for odd numbers of cups


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

print(f"all ways: wrong by {worst:.0e} degrees at most")

# %%
# So a CPU does many things at once, in three ways that multiply:
#
# .. math::
#
#     \text{under way} = \text{cycles} \times \text{units} \times \text{lanes}
#     \times \text{cores}.
#
# For example, a laptop with eight cores, 4 cycles, 2 units and vectors of 8 numbers has
# 4 × 2 × 8 × 8 = 512 multiply-adds under way. A program that does one at a time gives
# 511 of them away.
#
# Predict your own
# ----------------
#
# How many can yours do? You can read the number of lanes in the code that Numba
# compiled. It's full of expressions such as ``<8 x float>``, and the 8 is the number of
# lanes. We assume 4 cycles and two units, which `holds for most CPUs`__ of Intel and
# AMD. A large core of Apple's has four units, so it may do twice what we predict here.
# **Multiply before you run the cell.**
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
print(f"= {at_most['SIMD, all cores']}")

# %%
# One chain has one multiply-add under way. So if another way finishes ten times as many
# in the same time, it has ten under way. Let's measure all of them, with as many cups
# as each needs, and also a loop in Python, and NumPy.

# folded: The measurement, and its table

import torch

from firstlight import Bench, best_device

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

# folded: Multiply-adds a second, in parts of what one chain does


def per_second(label):
    timing = list(cooling[label].values())[-1]
    return timing.flops / 2 / min(timing.values)  # the run that was disturbed least


slow = per_second("one at a time")
bars = {label: per_second(label) / slow for label in ways}
at_once, most = bars["SIMD, all cores"], at_most["SIMD, all cores"]

# %%

# measured figure
import matplotlib.pyplot as plt

from firstlight.display import BLUE, ORANGE

fig, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
for row, (label, ratio) in enumerate(bars.items()):
    ax.barh(row, ratio - 1, 0.62, left=1, color=ORANGE if "GPU" in label else BLUE)
    text = f"{ratio:,.0f} ×" if ratio > 9.5 else f"{ratio:.2g} ×"
    ax.text(1.4 * max(ratio, at_most.get(label, 1)), row, text, va="center")
    if label in at_most:
        ax.plot([at_most[label]] * 2, [row - 0.42, row + 0.42], color="black", lw=2)
ax.set_yticks(range(len(bars)), bars)
ax.invert_yaxis()
ax.set(xscale="log", xlim=(5e-3, 50 * max(bars.values())))
ax.set_xlabel("times as many as one at a time (upright mark: predicted, at most)")
fig.suptitle(f"This CPU does {at_once:.0f} × as many multiply-adds as one chain allows")
fig.set_label(
    "Bars of speed, one at a time being 1; slower ways go to the left. "
    f"{bars['Python loop']:.2g} in a Python loop, {bars['NumPy']:.2g} with NumPy, "
    f"{bars['eight at a time']:.2g} with eight at a time, "
    f"{bars['SIMD, one thread']:.0f} with SIMD, {at_once:.0f} on all cores, "
    f"where at most {most} were predicted."
)
plt.show()

# %%
# In a loop in Python, the interpreter takes most of the time. NumPy does use vectors,
# but it takes all cups through one step, then all through the next, so each number
# travels to the :term:`cache` and back.
#
# In the H100's computer, a loop in Python did :timing:`count-your-cpu rate "Python
# loop" @nvidia-h100-80gb-hbm3`. One core with vectors did :timing:`count-your-cpu rate
# "SIMD, one thread/cpu/n=256" @nvidia-h100-80gb-hbm3`, and its sixteen cores together
# did about :timing:`count-your-cpu rate "SIMD, all cores/cpu/n=65536"
# @nvidia-h100-80gb-hbm3`. It's the same CPU, and the last number is more than *ten
# thousand* times the first! So if somebody compares a GPU with that loop, the GPU gains
# a factor of ten thousand before it has done anything well.
#
# .. holds::
#
#    cores = row("count-your-cpu/SIMD, all cores/cpu/n=65536")
#    10_000 < cores.flop_rate / row("count-your-cpu/Python loop").flop_rate < 15_000
#
# Did your CPU reach the upright marks in the figure? One core of the H100's computer
# did, almost to the last lane. If yours did only half, its units may be half as wide as
# its vectors, as in `AMD's Zen 4`__. But all sixteen cores of the H100's computer did
# little more than half of the 1,024 that we predicted. In other words, together they
# did only eight or nine times the work of one.
#
# Why? A rented machine counts :term:`virtual CPUs <virtual CPU>`, and as a rule two of
# them share one core and its vectors, which is called *hyper-threading*. Your own
# computer may also count each core twice. If it has large and small cores, the small
# ones do less than we assumed. And even when all cores are yours, many CPUs lower their
# clock rate when all of them work.
#
# .. holds::
#
#    one = row("count-your-cpu/SIMD, one thread/cpu/n=256")
#    7.5 < cores.flop_rate / one.flop_rate < 8
#    9 < cores.cores < 11
#    printed(r"^= (\d+)") == [1024]
#    chain = row("count-your-cpu/one at a time")
#    done = cores.flops / min(cores.values)
#    done / (chain.flops / min(chain.values)) > 512
#    8.5 < done / (one.flops / min(one.values)) < 9.5
#    row("wins-add/CPU/cpu/n=1000000").cores > 30
#
# __ https://www.agner.org/optimize/microarchitecture.pdf
#
# And a GPU?
# ----------
#
# A GPU is built of the same parts. A chain takes four cycles a step there, too, but
# there are far more lanes. An H100 has 132 multiprocessors of 128 lanes each. **How
# many cups does it take to fill them, if each lane needs four chains?**

from firstlight.timing.specs import spec

lanes_of_gpu = 132 * 128
throughput = spec("H100 SXM", "fp32") / 2  # multiply-adds a second, on its data sheet
latency = cycles_to_wait * lanes_of_gpu / throughput  # seconds for each
full = latency * throughput
print(f"{full:,.0f} cups fill an H100 (data sheet), and {at_once:.0f} this CPU")


def floor(cups, latency, throughput):
    return steps * max(latency, cups / throughput)


for cups in (1, 65_536, 2**20):
    seconds = floor(cups, latency, throughput)
    print(f"{cups:>9,} cups on an H100: {1e3 * seconds:.2f} ms (model)")

# %%
# The number of cups follows from :term:`Little's law`: a processor is full when
# *latency × throughput* results are under way. In other words, it needs as many as it
# can finish while one of them is being computed. Below that number, more work takes no
# more time. Above it, the time grows with the work.
#
# With one cup, the H100 took :timing:`count-your-cpu median "GPU, kernel/cuda:0/n=1"
# @nvidia-h100-80gb-hbm3`, so we had the latency right to within a tenth. But with
# 65,536 cups it took :timing:`count-your-cpu median "GPU, kernel/cuda:0/n=65536"
# @nvidia-h100-80gb-hbm3`, and with a million :timing:`count-your-cpu median "GPU,
# kernel/cuda:0/n=1048576" @nvidia-h100-80gb-hbm3`. That's more than double what we
# predicted! So half of the throughput is missing. **Where would you look for the other
# half?**
#
# .. holds::
#
#    steps, clock = 100_000, 1.98e9
#    predicted = 2**20 * steps / (132 * 128 * clock)
#    near(median("count-your-cpu/GPU, kernel/cuda:0/n=1"), 4 * steps / clock, 0.1)
#    2 < median("count-your-cpu/GPU, kernel/cuda:0/n=1048576") / predicted < 2.5
#
# Most likely, the lanes wait for their numbers. A step of our loop needs three, and
# each comes from a :term:`register`, the place where a thread keeps a number.
# Researchers found that the registers lie in `two banks`__, on a card whose
# multiprocessors have 128 lanes, like the H100's. In each cycle, a bank hands one
# number to each lane. So with two banks and three numbers, a step should take two
# cycles instead of one. A product of matrices uses each number several times once it's
# fetched, and on the same card it did :timing:`precision rate "GPU, matmul, float32"
# @nvidia-h100-80gb-hbm3`, where the data sheet promises :spec:`H100 SXM fp32`. A T4, a
# V100 or an A100 has only 64 lanes in each multiprocessor, in four groups of 16. So 32
# threads, a :term:`warp`, take two cycles on their 16 lanes anyway, and in two cycles
# three numbers come in time.
#
# __ https://arxiv.org/abs/2503.20481
#
# Other people measured programs whose steps need only two registers, and there nearly
# all lanes were busy. In the table, the first line is a single chain, and the last one
# is a CPU:
#
# .. measured-by-others:: chain-rtx3090 fma-v100 fma-rtx4090 notes-cpu
#
# When it doesn't help
# --------------------
#
# As the loop is written, the steps of *one* cup can't be taken at the same time. You'd
# have to regroup them into a :term:`scan`: two steps in a row are one step of the same
# kind, with another ``keep`` and ``gain``. That takes more operations and rounds
# differently, and if the steps aren't linear, you usually can't. And where the memory
# can't bring the numbers fast enough, the lanes wait, however many there are
# (:doc:`/tutorials/3_kernels/11_bytes_in_flight`).
#
# So in a paper, write down what the CPU ran, for example "compared with sixteen cores,
# with vectors". On Linux, ``lscpu`` tells you how many cores there are, and which
# vectors they have.
#
# Your turn
# ---------
#
# This loop is a chain, too. Each addition waits for the one before:


def chain_sum(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total


# %%
# A compiler must not change this loop unasked, because another order of the additions
# would round differently. But you may. Write a sum of at least eight independent
# chains, for an ``x`` of any length, even empty. Use only additions, and keep your
# partial sums in a list or in eight names. The checker gives you numbers that remember
# the longest chain of additions behind them.
#
# Put your answer where the dots are, and run ``firstlight try 04_count_your_cpu.py``.


def sum_in_eight(x): ...


# %%

# folded: The checker, and its numbers that remember


class Link:
    """A number that knows how many additions, each after the other, led to it."""

    def __init__(self, value, additions=0):
        self.value, self.additions = value, additions

    def __add__(self, other):
        other = other if isinstance(other, Link) else Link(other)
        longest = max(self.additions, other.additions) + 1
        return Link(self.value + other.value, longest)

    __radd__ = __add__


def find_problem(answer, n):
    values = np.random.default_rng(seed=n).integers(1, 100, n).tolist()
    x = np.empty(n, dtype=object)
    x[:] = [Link(value) for value in values]
    total = answer(x)
    total = total if isinstance(total, Link) else Link(total)
    if not isinstance(total.value, (int, float)):
        return f"it gave {total.value!r}, and should give a number."
    if total.value != sum(values):
        return f"it gave {total.value:g}, and should give {sum(values)}."
    if total.additions > n // 8 + 24:
        return f"{total.additions} additions wait for each other."
    return ""


def check(answer):
    for n in (0, 1, 7, 8, 9, 64, 1_000, 1_003):
        try:
            problem = find_problem(answer, n)
        except Exception as error:
            problem = f"it raised {type(error).__name__}: {error}"
        if problem:
            return f"Not yet. With {n} numbers, {problem}"
    return "Right: eight additions can be under way at once."


# %%

print(check(sum_in_eight))

# %%
# Three lines to remember
# -----------------------

# remember

print(f"""\
1. A CPU does many things at once: cycles × units × lanes × cores. On this CPU, with
   vectors of {lanes}, that's {most} at most, and we found {at_once:.0f}.
2. A processor is full when latency × throughput results are under way. By its data
   sheet, an H100 needs {full:,.0f} chains, none of which waits for another.
3. Before you compare a GPU with a CPU, ask which loop the CPU ran: one chain, vectors,
   or vectors on all cores.""")

# %%
# Solution
# --------

# solution


def sum_in_eight_solution(x):
    totals = [0.0] * 8
    for i in range(len(x)):
        totals[i % 8] += x[i]
    return sum(totals)


print(f"Our solution: {check(sum_in_eight_solution)}")
