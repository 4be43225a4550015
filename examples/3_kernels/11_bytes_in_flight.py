"""
Your occupancy is 25%. Is that bad?
===================================

Your kernel is slower than you hoped, so you run it under a :term:`profiler`. It
reports *achieved occupancy 25%*: only a quarter of the :term:`threads <thread>` that
your GPU could hold are there. Many guides tell you to raise it. Should you?

Here is a bet. A :term:`kernel` copies an array, at an occupancy of 25%. **Write down
how much of the GPU's full speed it reaches, in percent.** And a second one: what if
you could change the kernel, but not the occupancy? If you're in a hurry, here are
:ref:`three steps <occupancy-steps>` for your own kernel.

**Needs:** :doc:`coalescing </tutorials/3_kernels/05_coalescing>`. The experiment runs
on your CPU. With an NVIDIA GPU, you see the same thing there.
"""

# %%
# One at a time, or several
# -------------------------
#
# You order a pizza, wait until it comes, order the next one, wait again, and so on,
# eight times. Your neighbour orders eight at once, and has them all before you have
# your second. The kitchen is just as fast for both of you. You have only kept it idle.
# Memory is such a kitchen. A number that your program asks for comes after a while,
# which is called the :term:`latency` of the memory. Until then we say that it is
# :term:`in flight`.
#
# Let's try it on your own CPU. In a table each entry says where to go next. An entry is
# 64 bytes long, the piece in which memory comes to a CPU, and the order is random, so
# that the CPU can't guess. If you follow the entries, you can take a step only when the
# last step has told you where to go, so there is one load in flight. With eight
# *walkers*, who don't wait for each other, there are eight. **How much faster will 32
# walkers be than one?**

import numba
import numpy as np
from numba import cuda

from firstlight_kernels import blocks_for, ptx, simulated, trace


def link(after, order):  # a line is 8 numbers of 8 bytes
    after[8 * order] = 8 * np.roll(order, -1)


@numba.njit("void(int64[::1], int64[::1], int64)")
def walk(after, at, steps):
    for _ in range(steps):
        for chain in range(at.size):
            at[chain] = after[at[chain]]


# %%

# folded: The table is four times as large as the largest cache; the walk is timed

import torch

from firstlight import Bench, best_device
from firstlight.devices import card

rng = np.random.default_rng(seed=1)
device = best_device()
on_gpu = not simulated() and device.type == "cuda"  # Numba's kernels need NVIDIA's
largest = max(card(place).cache_bytes or 2**25 for place in ("cpu", str(device)))
lines = min(4 * largest // 64, 2**22)
after, order = np.zeros(8 * lines, dtype=np.int64), np.arange(lines)

bench = Bench("bytes-in-flight", budget=40 if on_gpu else 2)
CHAINS = (1, 2, 4, 8, 16, 32)
size, steps = {"bytes": 64 * 2**15}, 2**15
link(after, order)
bench.time("1 chain, in order", walk, after, order[:1].copy(), steps, **size)
rng.shuffle(order)
link(after, order)
for chains in CHAINS:
    at = 8 * order[:: lines // chains][:chains]
    bench.time(f"chains: {chains}", walk, after, at, steps // chains, **size)

# %%

# measured figure

import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREEN, ORANGE, RED


def best_rate(label):  # other programs can only slow a walk down
    return bench[label].bytes / min(bench[label].values) / 1e9


rates = np.array([best_rate(f"chains: {chains}") for chains in CHAINS])
law = rates[0] * np.array(CHAINS)
fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
ax.plot(CHAINS, law, "--", color="black", label="predicted: walkers × the rate of one")
ax.plot(CHAINS, rates, "s", ms=9, mec="black", color=ORANGE, label="measured")
ax.set(xscale="log", yscale="log", xlabel="walkers, each with one load in flight")
ax.set(ylabel="GB/s", xlim=(0.85, 40), ylim=(0.5 * rates[0], 2 * law[-1]))
ax.set_xticks(CHAINS, CHAINS)
ax.yaxis.set_major_formatter("{x:g}")
ax.legend(frameon=False, loc="upper left")
ax.spines[["top", "right"]].set_visible(False)
many = rates.max() / rates[0]
ax.set_title(f"More in flight, more a second: up to {many:.0f} times", loc="left")
fig.set_label(
    "Bytes a second against the number of walkers, on logarithmic axes, beside the "
    "line of twice as many, twice the rate. 8 walkers have "
    f"{rates[3] / rates[0]:.1f} times the rate of one, 32 have "
    f"{rates[-1] / rates[0]:.1f}."
)
plt.show()

# %%
# On the CPU beside an H100, one walker took :timing:`bytes-in-flight median "chains: 1"
# @nvidia-h100-80gb-hbm3`. For the same number of steps, 32 walkers were
# :timing:`bytes-in-flight speedup "chains: 32"/"chains: 1" @nvidia-h100-80gb-hbm3` as
# fast. So one walker leaves nearly all of the memory idle. Twice as many in flight
# gives twice the rate, until something is full: a CPU core can only keep so many loads
# open.
#
# How much has to be in flight?
# -----------------------------
#
# The pizzeria bakes a pizza every minute, and each comes 30 minutes after you have
# ordered it. How many must be on order at any time, so that the oven is never empty?
# Thirty: the rate times the time. This is :term:`Little's law`, and it holds for
# kitchens, shops and memories:
#
# .. math::
#
#     \text{bytes in flight} = \text{bandwidth} \times \text{latency}.
#
# The :term:`bandwidth` of your card stands in its :term:`data sheet`. The latency
# doesn't, but you can measure it with a single walker. On an H100, one took
# :timing:`bytes-in-flight median "1 thread walks" @nvidia-h100-80gb-hbm3` for 10,000
# steps. At 1.98 GHz, that makes some 730 clock cycles for each load.
#
# If you don't know your card, 600 cycles are a usable guess. A copy reads half of its
# bytes and writes the other half, and a thread waits only for those that it reads.
# **How many threads does each** :term:`multiprocessor` **need, if each of them has one
# number of 4 bytes in flight?**

from firstlight.timing.specs import spec

CARDS = {  # multiprocessors, threads that each can hold, GHz
    "RTX 4090": (128, 1536, 2.52),
    "V100 SXM2": (80, 2048, 1.53),
    "H100 SXM": (132, 2048, 1.98),
}
needs = {}
for name, (multiprocessors, room, clock) in CARDS.items():
    latency = 600 / (1e9 * clock)
    in_flight = spec(name, "bandwidth") * latency / 2  # of the copy, the loads
    needs[name] = in_flight / multiprocessors / 4
    share = f"{needs[name] / room:.0%} of those it can hold"
    print(f"{name:>9}: {in_flight / 1e3:.0f} kB, {needs[name]:,.0f} threads, {share}")

# %%
# That share of the threads that could be there is the :term:`occupancy`. With one load
# a thread, an H100 needs about half. So yes, 25% is bad for this kernel. But the law
# says *bytes*, and nothing of threads. Who says that a thread may only have one load in
# flight?
#
# Four pizzas on one order
# ------------------------
#
# Let each thread copy four numbers. The obvious way is a loop.
#
# .. code-block:: python
#
#     for e in range(4):
#         out[at + e * step] = x[at + e * step]
#
# **How many loads does a thread have in flight now?** Let's ask the compiler, as on
# :doc:`the page before </tutorials/3_kernels/10_what_the_compiler_did>`. In the machine
# code we mark each load with an L and each store with an S. Another version loads all
# four numbers first:
#
# .. code-block:: python
#
#     for e in range(4):
#         mine[e] = x[at + e * step]
#     for e in range(4):
#         out[at + e * step] = mine[e]

# folded: Both kernels, whole


@cuda.jit
def four_in_turn(x, out):
    step = cuda.blockDim.x
    at = cuda.blockIdx.x * 4 * step + cuda.threadIdx.x
    while at + 3 * step < x.size:
        for e in range(4):
            out[at + e * step] = x[at + e * step]
        at += 4 * cuda.gridsize(1)
    while at < x.size:  # what is left
        out[at] = x[at]
        at += step


def loads_first(E):
    @cuda.jit
    def copy(x, out):
        mine = cuda.local.array(E, np.float32)
        step = cuda.blockDim.x
        at = cuda.blockIdx.x * E * step + cuda.threadIdx.x
        while at + (E - 1) * step < x.size:
            for e in range(E):
                mine[e] = x[at + e * step]
            for e in range(E):
                out[at + e * step] = mine[e]
            at += E * cuda.gridsize(1)
        while at < x.size:
            out[at] = x[at]
            at += step

    return copy


LOADS = {1: "1 load", 2: "2 loads", 4: "4 loads", 8: "8 loads"}
kernels = {"four_in_turn": four_in_turn}
kernels |= {f"loads_first({E})": loads_first(E) for E in LOADS}

# %%

import re

TYPES = "float32[::1], float32[::1]"


def loads_and_stores(kernel):
    code = ptx.compile(kernel, TYPES, (9, 0))
    found = re.findall(r"\b(?:(LD|ST)G\b|(ld|st)\.global)", code.sass or code.text)
    return "".join((sass or text)[0].upper() for sass, text in found)


try:
    for name in ("four_in_turn", "loads_first(4)"):
        print(f"{name:>14}: {loads_and_stores(kernels[name])[:8]}")
except ptx.NoCompilerError:
    print("On record: four_in_turn LSLSLSLS, loads_first(4) LLLLSSSS")

# %%
# A GPU starts the instructions of a thread in order. A load doesn't stop the thread. It
# waits only at the first instruction that *needs* the number.
#
# - ``LSLSLSLS``: the first store needs the first number, so the thread waits there. The
#   second load stands behind it and hasn't been sent. *One* load is in flight.
# - ``LLLLSSSS``: all four loads are on their way when the thread comes to wait.
#
# Why didn't the compiler put the loads first by itself? It mustn't, because ``out`` and
# ``x`` could overlap. You know that they don't. So *load first, then store*. On an
# H100, with enough blocks to fill it, the loop took :timing:`bytes-in-flight median
# four_in_turn @nvidia-h100-80gb-hbm3`, and with the loads first it took
# :timing:`bytes-in-flight median "loads_first(4)" @nvidia-h100-80gb-hbm3`. PyTorch's
# own copy took :timing:`bytes-in-flight median torch @nvidia-h100-80gb-hbm3`.
#
# Who wins the bet?
# -----------------
#
# On the H100 we let exactly a quarter of the possible threads run. PyTorch's copy moves
# :timing:`bytes-in-flight rate torch @nvidia-h100-80gb-hbm3`. At an occupancy of 25% we
# got
#
# - with one load a thread:
#   :timing:`bytes-in-flight rate "1 load, 25% full" @nvidia-h100-80gb-hbm3`
# - with two: :timing:`bytes-in-flight rate "2 loads, 25% full" @nvidia-h100-80gb-hbm3`
# - with four: :timing:`bytes-in-flight rate "4 loads, 25% full" @nvidia-h100-80gb-hbm3`
# - with eight:
#   :timing:`bytes-in-flight rate "8 loads, 25% full" @nvidia-h100-80gb-hbm3`
#
# With one load a thread, the copy is at about a third of the full rate, and with eight
# at six sevenths. And with *all* possible threads, and one load each, we got
# :timing:`bytes-in-flight rate "1 load, 100% full" @nvidia-h100-80gb-hbm3`. A quarter
# of the threads, with eight loads each, moved more. **Occupancy isn't speed.**
#
# What counts is how many bytes are in flight. You can have the same number of them in
# three ways: all threads with two loads
# (:timing:`bytes-in-flight rate "2 loads, 100% full" @nvidia-h100-80gb-hbm3`), half of
# them with four (:timing:`bytes-in-flight rate "4 loads, 50% full"
# @nvidia-h100-80gb-hbm3`), or a quarter with eight, as above. The three are within five
# percent of each other.
#
# By the law, two loads at 25% should have been enough, or three with the latency that
# we measured. They weren't, although the law says:

QUARTER = 2048 // 4
for loads in LOADS:
    reached = min(1, loads * QUARTER / needs["H100 SXM"])
    label = f"{LOADS[loads]}, 25% full"
    print(f"{label:>17}: {reached:.0%} of the full rate, says the law")

# %%

# folded: The timing, and what it gave on each computer


@numba.njit("void(float32[::1], float32[::1])", parallel=True)
def copy_on_cores(x, out):
    for i in numba.prange(x.size):
        out[i] = x[i]


@cuda.jit
def walk_on_gpu(after, at, steps):
    i = cuda.grid(1)
    where = at[i]
    for _ in range(steps):
        where = after[where]
    at[i] = where


n = max(2**26, largest) + 1 if on_gpu else 2**24 + 1
x = rng.random(n, dtype=np.float32)
out = np.full_like(x, -1)
t_x = torch.from_numpy(x).to(device)
t_out = torch.full_like(t_x, -1)
size = {"n": n, "bytes": 8 * n}
bench.time("Numba-CPU", copy_on_cores, x, out, **size)
assert np.array_equal(out, x), "copy_on_cores is wrong"
bench.time("NumPy", np.copyto, out, x, **size)
bench.time("torch", lambda: t_out.copy_(t_x), device=device, **size)

# %%

# folded: On a GPU: the walk of one thread, and the copies at each occupancy

PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
points = [(part, E) for part in PARTS for E in LOADS if part < 1 or E < 4]
most, walked = 2048, 10_000


def time_copy(label, kernel, grid):
    t_out.fill_(-1)
    bench.time(label, lambda: kernel[grid](d_x, d_out), device=device, **size)
    assert torch.equal(t_out, t_x), f"{label} is wrong"


if on_gpu:
    gpu = torch.cuda.get_device_properties(device)
    most, processors = gpu.max_threads_per_multi_processor, gpu.multi_processor_count
    place = cuda.to_device(after), cuda.to_device(8 * order[:1]), walked
    bench.time("1 thread walks", lambda: walk_on_gpu[1, 1](*place), device=device)
    d_x, d_out = cuda.as_cuda_array(t_x), cuda.as_cuda_array(t_out)
    time_copy("four_in_turn", four_in_turn, (blocks_for(n, 1024), 256))
    for E in LOADS:
        grid = blocks_for(blocks_for(n, E), 256), 256
        time_copy(f"loads_first({E})", kernels[f"loads_first({E})"], grid)
    for part, E in points:
        grid = int(16 * part) * processors, most // 16
        time_copy(f"{LOADS[E]}, {part:.0%} full", kernels[f"loads_first({E})"], grid)
bench.show()

# %%

# measured figure
# sphinx_gallery_thumbnail_number = 2

LOOKS = {1: ("o", BLUE), 2: ("s", ORANGE), 4: ("^", GREEN), 8: ("D", RED)}
fig, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
asked = np.geomspace(0.05, 10)
ax.plot(
    asked, np.minimum(1, asked), "--", color="black", label="Little's law (a model)"
)
if on_gpu:
    copy_rate = bench["torch"].byte_rate
    need = copy_rate / processors * bench["1 thread walks"].median / walked / 2
for E, (marker, colour) in LOOKS.items() if on_gpu else ():
    parts = np.array([part for part, loads in points if loads == E])
    reached = [bench[f"{LOADS[E]}, {each:.0%} full"].byte_rate for each in parts]
    label = f"{LOADS[E]} a thread"
    style = {"color": colour, "mec": "black", "ms": 8, "label": label}
    ax.plot(4 * E * most * parts / need, np.divide(reached, copy_rate), marker, **style)
others = {"ms": 10, "mfc": "none", "mec": "black", "mew": 1.5, "ls": ""}
ax.plot(0.93, 0.527, "o", label="a V100, by RRZE-HPC", **others)
ax.plot(0.67, 0.506, "s", label="an A100, by infra-practices", **others)
ax.set(xscale="log", yscale="log", ylim=(0.05, 1.3), ylabel="of the full rate")
ax.set_xlabel("bytes in flight, in parts of what Little's law asks for")
ax.set_xticks((0.1, 0.3, 1, 3, 10), ("0.1", "0.3", "1", "3", "10"))
ax.set_yticks((0.1, 0.2, 0.5, 1), ("10%", "20%", "50%", "100%"))
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=9)
ax.set_title("Bytes in flight decide, and the law is an upper limit", loc="left")
fig.set_label(
    "The part of the full rate against the bytes in flight, in parts of what the law "
    "asks for. The dashed law rises to 100% at 1. Two hollow marks of other people's "
    "cards, and on a GPU filled ones for 1 to 8 loads a thread, lie below it."
)
plt.show()

# %%
# The law is an upper limit. It counts a thread as if it had its loads in flight all the
# time. But between two rounds a thread also stores its numbers and works out new
# addresses. And near the limit the loads get in each other's way, and take longer, as
# `Volkov's thesis`__ measures in detail. On the H100, twice the law's number gave about
# three quarters of the full rate, and four times the number nearly nine tenths. The
# filled marks in the figure are the H100's, and the hollow ones are what others found
# on a V100 and an A100:
#
# .. measured-by-others:: latency-rtx4090 latency-v100-clocks places-v100 sum-a100
#
# __ https://digicoll.lib.berkeley.edu/record/135548

# %%
# .. _occupancy-steps:
#
# So, is 25% bad?
# ---------------
#
# Ask in three steps, for each multiprocessor.
#
# 1. *What does the memory need?* Bandwidth times latency, and half of that for a copy.
# 2. *What does your kernel have?* Resident threads, times loads in flight for each,
#    times the bytes of a load. Count the loads up to the first instruction that needs
#    one.
# 3. *Compare.* If it has less than three or four times the need, give it more threads
#    or more loads, whichever is easier. If it has more, leave the occupancy alone.
#
# In the profiler, ``ncu``, look at ``dram__bytes.sum.per_second`` first. If it is near
# what a plain copy reaches on your card, then enough is in flight. And if a kernel
# mostly calculates, or its loads are :doc:`scattered
# </tutorials/3_kernels/05_coalescing>`, its problem is another one.
#
# If other warps hide the latency, why does :doc:`shared memory
# </tutorials/3_kernels/07_shared_memory>` still help? Because the kitchen can't bake
# faster. Once enough is in flight, the bandwidth sets the time, and only fewer bytes
# make it shorter. Shared memory fetches once what many threads use. A kernel that uses
# each number once gains nothing from it.
#
# .. dropdown:: What limits the occupancy
#
#    One of four things runs out first on a multiprocessor: threads, blocks, registers
#    or shared memory. An H100 has room for 2,048 threads in 32 blocks at most, for
#    65,536 registers and for 228 KiB of shared memory. If each thread takes 40
#    registers, as ``loads_first(8)`` does, 1,536 threads have room, which is 75%. So
#    loads cost registers, and at some point more threads than they are worth. In the
#    profiler, ``launch__occupancy_limit_registers`` and its sisters ``_shared_mem``,
#    ``_blocks`` and ``_warps`` say how many blocks fit by each of the limits, and
#    ``sm__warps_active.avg.pct_of_peak_sustained_active`` is the achieved occupancy.
#    *Stall Long Scoreboard* says that warps wait for loads.
#
# Your turn
# ---------
#
# Write a kernel that squares numbers, ``out[i] = x[i] * x[i]``, four for each thread,
# with all four loads in flight before the first store. The numbers of a thread lie
# ``blockDim`` apart, as above. There are just enough threads, but the number of
# elements may be odd, so guard each access. ``cuda.local.array(4, np.float32)`` gives
# you four places.
#
# Put your answer where the dots are, and run ``firstlight try 11_bytes_in_flight.py``.


@cuda.jit
def squares(x, out): ...


# %%

# folded: What check does: it traces your kernel, and looks at the order of its accesses


def order_of(traced, thread):
    """L for each load of a thread from the GPU's memory, S for each store to it."""
    spaces = np.array([array.space for array in traced.arrays])
    mine = traced.accesses[traced.accesses["thread"] == thread]
    kinds = mine["kind"][spaces[mine["array"]] == "global"]
    return "".join("L" if kind == 0 else "S" for kind in kinds)


def find_problem(kernel, count, blocks, threads):
    x = np.random.default_rng(seed=count).uniform(1, 2, count).astype(np.float32)
    out = np.full_like(x, -1)
    try:
        traced = trace(kernel, blocks, threads, x.copy(), out, limit=20_000)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if traced.problems:
        return str(traced.problems[0])
    if np.any(wrong := ~np.isclose(out, x * x)):
        i = int(np.argmax(wrong))
        return f"out[{i}] is {out[i]:.4f}, and should be {x[i] * x[i]:.4f}."
    if traced.counts("load", array="x").sum() > count:
        return "a number is loaded twice. Keep it in a variable."
    if threads == 32 and traced.sectors_per_load["x"] > 4:
        return "neighbouring threads don't load neighbouring numbers."
    for thread in range(blocks * threads):
        if "SL" in (found := order_of(traced, thread)):
            return f"thread {thread} does {found}: it stores before its last load."
    return ""


def check(kernel):
    for case in ((256, 2, 32), (512, 4, 32), (101, 2, 16), (1, 1, 5)):
        if problem := find_problem(kernel, *case):
            count, blocks, threads = case
            return f"Not yet. {count} numbers, kernel[{blocks}, {threads}]: {problem}"
    return "Right: all loads are in flight before the first store."


# %%

print(check(squares))

# %%
# Three lines to remember
# -----------------------

# remember

print("1. Bytes in flight = bandwidth × latency. On this CPU, many walkers have")
print(f"   {many:.0f} times the rate of one, in the same memory.")
print("2. Load first, then store: LLLLSSSS has four loads in flight, LSLSLSLS has one.")
print("3. Occupancy isn't speed. On an H100, a quarter of the threads with eight loads")
print("   each moved more than all threads with one.")

# %%
# Solution
# --------

# solution


@cuda.jit
def squares_solution(x, out):
    mine = cuda.local.array(4, np.float32)
    step = cuda.blockDim.x
    at = cuda.blockIdx.x * 4 * step + cuda.threadIdx.x
    for e in range(4):
        if at + e * step < x.size:
            mine[e] = x[at + e * step]
    for e in range(4):
        if at + e * step < x.size:
            out[at + e * step] = mine[e] * mine[e]


print(f"Our solution: {check(squares_solution)}")
