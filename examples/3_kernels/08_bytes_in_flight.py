"""
Your occupancy is 25 %. Is that bad?
====================================

For whoever reads *achieved occupancy* in a profiler and wonders whether it is too low.
You cannot tell from that number. What keeps a memory busy is not threads but bytes in
flight: loads that were issued and have not yet come back. Few threads with several
loads each do as well as many threads with one. So work out how many bytes your card
needs in flight, which takes two numbers, and count what your kernel has.

**You will learn**

- to work out how many bytes must be in flight to keep a memory busy;
- to measure the law behind it, on any computer;
- to give a thread several loads at once, and to see in machine code whether it has;
- what occupancy is, what limits it, which profiler metrics show it, and why it is not
  speed.

**Time:** 14 minutes. **Needs:** any computer, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`. With a CUDA GPU, you see the law there, too.
"""

# %%
# Predict
# -------
#
# A load takes a while: its *latency*. Until then it is *in flight*. How many must there
# be, so that memory always has one to serve? *Little's law* holds for a memory as for a
# shop: how many are inside is how many come in a second, times how long each stays.
#
# .. math::
#
#     \text{bytes in flight} = \text{bandwidth} \times \text{latency}.
#
# The data sheet has the bandwidth. Divide it by the clock cycles of all
# *multiprocessors* (SMs) together in a second: these are the bytes that each of them
# gets in a cycle. (The cycles follow from the ``float32`` rate: in a cycle each lane
# makes a multiply-add, two operations.) The latency is on no data sheet. `NVIDIA's
# guide`__ says "hundreds of clock cycles". Take 600, until you measure it.
#
# Your kernel copies an array of ``float32``. Half of the bytes that it moves are loads,
# and a thread waits only for those. So half of bandwidth times latency must be in
# flight. How many threads is that, if each waits for one number of 4 bytes?
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/
#    index.html#multiprocessor-level

from firstlight.kernels import blocks_for, cuda, ptx, simulated, trace
from firstlight.measure.roofs import PER_CLOCK
from firstlight.measure.specs import spec
from firstlight.widgets import Table

LATENCY = 600  # clocks: an assumption
CARDS = {  # compute capability; of a multiprocessor: threads, blocks, KiB shared memory
    "RTX 4090": ((8, 9), 1536, 24, 100),
    "V100 SXM2": ((7, 0), 2048, 32, 96),
    "H100 SXM": ((9, 0), 2048, 32, 228),
    "H200": ((9, 0), 2048, 32, 228),
}


def bytes_a_clock(card):
    lanes = PER_CLOCK[CARDS[card][0]][0]
    clocks_a_second = spec(card, "fp32") / (2 * lanes)
    return spec(card, "bandwidth") / clocks_a_second


# %%

rows = []
for name, (_, most, *_) in CARDS.items():
    each, threads = bytes_a_clock(name), bytes_a_clock(name) * LATENCY / 2 / 4
    cells = (
        f"{each:.1f}",
        f"{4 * threads:,.0f}",
        f"{threads:,.0f}",
        f"{threads / most:.0%}",
    )
    rows.append((name, *cells))
head = ("a multiprocessor of", "bytes a cycle", "in flight", "threads", "occupancy")
print(Table("To copy, with one load of 4 bytes a thread", head, tuple(rows)).text())

# %%
# *Occupancy* is the share of threads that are resident, of those that a multiprocessor
# can hold. From the V100 to the H200 memory became faster, and a multiprocessor holds
# as many threads as before, so that more of them are needed. (A kernel that only reads,
# such as a sum, needs twice as much. On an H200, one load a thread cannot be enough.)
#
# But who says that a thread has one load in flight? Write down your answers:
#
# - An H100 has an occupancy of a quarter. How many loads does each thread need?
# - Each thread copies four numbers, in a loop. How many loads does it have in flight?
#
# See the law
# -----------
#
# A CPU waits for its memory, too. Write into each *line* of a large table (64 bytes,
# the piece in which memory comes to a CPU) which line to visit next: a random order,
# one cycle through all lines. Then walk it. You know where a step leads only when the
# one before it has arrived, so one line is in flight. Walk from several places of the
# cycle at a time, and there are several: these *chains* do not depend on each other,
# and a CPU core begins one load while it waits for another.

import numba
import numpy as np


def link(after, order):  # a line is 8 numbers of 8 bytes
    after[8 * order] = 8 * np.roll(order, -1)


@numba.njit("void(int64[::1], int64[::1], int64)")
def walk(after, at, steps):
    for _ in range(steps):
        for chain in range(at.size):
            at[chain] = after[at[chain]]


rng = np.random.default_rng(seed=1)
small, at, visited = np.zeros(8 * 101, np.int64), np.zeros(1, np.int64), set()
link(small, rng.permutation(101))
while at[0] not in visited:
    visited.add(int(at[0]))
    walk(small, at, 1)
assert len(visited) == 101, "this is not one cycle through all lines"

# %%
# The table has four times the bytes of the largest cache, and each call goes on where
# the last one ended. One row walks *in order*, where the CPU can guess what comes next.

import torch

from firstlight import Bench, best_device
from firstlight.devices import card

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
# Beside it, copies: with NumPy on one core, with Numba on all, with PyTorch.


@numba.njit("void(float32[::1], float32[::1])", parallel=True)
def copy_on_cores(x, out):
    for i in numba.prange(x.size):
        out[i] = x[i]


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
# The dashed line is the law. One chain gives the latency; ``k`` have ``k`` in flight. A
# point is the fastest value of its row, since other programs can only slow one down.


def best_rate(label):
    return bench[label].bytes / min(bench[label].values) / 1e9


rates = np.array([best_rate(f"chains: {chains}") for chains in CHAINS])
ordered, reads = best_rate("1 chain, in order"), best_rate("NumPy") / 2
law, POINTS = rates[0] * np.array(CHAINS), {"textcoords": "offset points"}
fastest = CHAINS[rates.argmax()]

# %%

# measured figure
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
ax.plot(CHAINS, law, "--", color="black")
ax.annotate("law: chains × 64 B / latency", (8, law[3]), (-10, 8), ha="right", **POINTS)
ax.plot(CHAINS, rates, "s", ms=9, mec="black", color="#d9762b")
ax.annotate("random order", (8, rates[3]), (0, -20), color="#b35a12", **POINTS)
ax.plot(1, ordered, "*", ms=16, mec="black", color="#3a9d5d")
ax.annotate("one chain, in order", (1, ordered), (12, -3), color="#2c7d48", **POINTS)
ax.axhline(reads, color="#2e7ab0", ls=":", lw=2)
said = "what NumPy's copy reads"
ax.annotate(said, (32, reads), (0, 4), ha="right", color="#2e7ab0", **POINTS)
ax.set(xscale="log", yscale="log", xlabel="chains", ylabel="GB/s")
ax.set_ylim(0.5 * rates[0], 10 * law[-1])
ax.set_xticks(CHAINS, CHAINS)
ax.spines[["top", "right"]].set_visible(False)
said = f"{fastest} chains have {rates.max() / rates[0]:.0f} times the rate of one"
ax.set_title(said, loc="left")
fig.set_label(
    "Bytes a second against the number of chains, beside the line of the law: 8 chains "
    f"have {rates[3] / rates[0]:.1f} times the rate of one, 32 have "
    f"{rates[-1] / rates[0]:.1f}, one in order {ordered / rates[0]:.0f}."
)
plt.show()

# %%
print(f"one chain: {64 / rates[0]:.0f} ns a line; in order: {64 / ordered:.0f} ns")

# %%
# No load comes back any sooner with more chains; more of them are in flight. A core can
# wait for so many and no more: where the points leave the line, it is at that limit. In
# order, a CPU sees the pattern and fetches lines before the program asks for them
# (it *prefetches*), so that more is in flight than the program says. Hence the random
# order. A GPU mostly leaves that to you.
#
# Several elements a thread
# -------------------------
#
# Here a thread copies several elements, ``blockDim`` apart, so that neighbours still
# take neighbouring numbers. The second kernel loads all its numbers before it stores
# the first. It keeps them in ``mine``, which the compiler puts into registers.


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


# %%


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


# %%
# *Check* them on odd sizes. A copy has no rounding, so it must be equal.

LOADS = (1, 2, 4, 8)
kernels = {"four_in_turn": four_in_turn}
kernels |= {f"loads_first({E})": loads_first(E) for E in LOADS}

for name, kernel in kernels.items():
    for odd in (1, 31, 33, 259, 301):
        right, got = rng.random(odd, dtype=np.float32), np.full(odd, -1, np.float32)
        assert not trace(kernel, 2, 32, right, got).problems
        assert np.array_equal(got, right), f"{name} is wrong"

# %%
# How many loads are in flight? Here are the loads (L) and stores (S) that the compiler
# made: in SASS, the machine code, for the two with four elements; in PTX for the rest.

import re

TYPES, mixes = "float32[::1], float32[::1]", {}
four = "four_in_turn", "loads_first(4)"
try:
    print("registers for   7.5  9.0   loads and stores, for 9.0")
    for name, kernel in kernels.items():
        old, new = (ptx.compile(kernel, TYPES, cc) for cc in ((7, 5), (9, 0)))
        code = (new.sass if name in four else None) or new.text
        found = re.findall(r"\b(?:(LD|ST)G\b|(ld|st)\.global)", code)
        letters = "".join((sass or text)[0].upper() for sass, text in found)
        print(f"{name:>14} {old.registers:4} {new.registers:4}   {letters}")
        mixes[name] = new.mix
    same = mixes[four[0]] == mixes[four[1]]
    print(f"{four[0]} and {four[1]}: the same instructions, as often: {same}")
except ptx.NoCompilerError as missing:
    print(missing)

# %%
# (The pairs at the end are for what is left.) The two with four elements have the same
# instructions, and only the order differs. A GPU starts the instructions of a warp in
# turn. A load does not stop it, but the first instruction that *needs* the number does.
# So the order decides:
#
# - ``LSLSLSLS``: the first store needs the first number, and the second load waits
#   behind it. *One* load is in flight, as with one element a thread.
# - ``LLLLSSSS``: four loads are in flight when the warp comes to wait.
#
# The compiler must not change the order. For all it knows, ``out`` and ``x`` overlap,
# and the next load reads what this store writes. You know better, so *load first*. That
# costs registers, as all these numbers have to be somewhere.
#
# Occupancy
# ---------
#
# What limits it? One of four things runs out first: threads, blocks, registers or
# shared memory. `NVIDIA's table`__ has the limits. A warp gets registers in portions of
# 256, from one of four parts of 16 384. From 8.0 on, a block takes 1 KiB more.
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/
#    index.html#compute-capabilities


def occupancy(card, threads, registers, shared=0):
    """The part, and what runs out first; ``shared`` is in KiB a block."""
    cc, most, blocks, kib = CARDS[card]
    warps, of_a_warp = blocks_for(threads, 32), 256 * blocks_for(registers, 8)
    room = {"threads": most // (32 * warps), "blocks": blocks}
    room["registers"] = 4 * (16_384 // of_a_warp) // warps
    if shared:
        room["shared"] = kib // (shared + (cc >= (8, 0)))
    least = min(room, key=room.get)
    return threads * room[least] / most, least


cards = ("V100 SXM2", "RTX 4090", "H100 SXM")
rows = []
for block in ((128, 32), (32, 32), (1024, 32), (128, 40), (128, 128), (128, 32, 16)):
    found = (occupancy(name, *block) for name in cards)
    threads, registers, shared = (*block, 0)[:3]
    cells = (f"{part:.0%} {least}" for part, least in found)
    rows.append((f"{threads}, {registers}, {shared} KiB", *cells))
head = ("threads, registers, shared", *cards)
print(Table("Occupancy, and what runs out first", head, tuple(rows)).text())

# %%
# Third row: an RTX 4090 has room for one such block and a half, so for one. Fourth row:
# the registers of ``loads_first(8)`` cost an H100 a quarter of its occupancy.
#
# In a profiler
# -------------
#
# ``ncu python your_script.py`` (Nsight Compute) has these metrics:
#
# - ``sm__warps_active.avg.pct_of_peak_sustained_active`` is *Achieved Occupancy*;
# - ``launch__occupancy_limit_registers`` (or ``_shared_mem``, ``_blocks``, ``_warps``):
#   how many blocks fit, by each limit;
# - ``dram__bytes.sum.per_second``: the rate of VRAM, to compare with that of a copy;
# - the stall reason *Long Scoreboard*: warps that wait for a load.
#
# If ``dram__bytes`` is near the rate of plain copies, enough is in flight, whatever the
# occupancy. The limits of your own card, Numba tells:

if on_gpu:
    gpu = cuda.get_current_device()
    for limit in (
        "THREADS_PER_BLOCK",
        "THREADS_PER_MULTIPROCESSOR",
        "REGISTERS_PER_BLOCK",
    ):
        print(f"MAX_{limit}:", getattr(gpu, f"MAX_{limit}"))

# %%
# A kernel may have a lower limit than ``MAX_THREADS_PER_BLOCK``, if its threads need
# many registers: ``kernel.get_max_threads_per_block()`` tells, after a launch.
#
# Measure
# -------
#
# A GPU can tell. First its latency: one thread walks the table.


@cuda.jit
def walk_on_gpu(after, at, steps):
    i = cuda.grid(1)
    where = at[i]
    for _ in range(steps):
        where = after[where]
    at[i] = where


at, right = 8 * np.arange(33), 8 * np.arange(33)
assert not trace(walk_on_gpu, 3, 11, small, at, 7).problems
walk(small, right, 7)
assert np.array_equal(at, right), "walk_on_gpu is wrong"
for cc in ((7, 5), (9, 0)) if mixes else ():
    ptx.compile(walk_on_gpu, "int64[::1], int64[::1], int64", cc)

# %%
# Then the copies: with blocks for all elements, and with a part of the occupancy (at
# the whole of it, the registers may not do for 4 loads).

PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
points = [(part, E) for part in PARTS for E in LOADS if part < 1 or E < 4]
most, walked = CARDS["H200"][1], 10_000


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
        time_copy(f"{E} loads, {part:.0%} full", kernels[f"loads_first({E})"], grid)
bench.show()

# %%
# With a GPU, compare ``four_in_turn``, ``loads_first(4)`` and ``torch``.
#
# Occupancy is not speed
# ----------------------
#
# The model is Little's law: for an H200, or from this GPU's latency and copy rate.

enough = bytes_a_clock("H200") * LATENCY / 2
if on_gpu:
    copy_rate = bench["torch"].byte_rate
    enough = copy_rate / processors * bench["1 thread walks"].median / walked / 2


def model(part, E):
    return np.minimum(1, 4 * E * part * most / enough)


def draw(axes, E, **look):
    parts = np.array([part for part, loads in points if loads == E])
    line = np.geomspace(1 / 16, parts[-1])
    labels = [f"{E} loads, {part:.0%} full" for part in parts if on_gpu]
    shown = [bench[label].byte_rate / copy_rate for label in labels] or model(parts, E)
    look |= {"ls": "", "mew": 1.8, "mfc": look["color"] if on_gpu else "none"}
    for ax, times in zip(axes, (1, 4 * E * most / 1024), strict=True):
        ax.plot(line * times, model(line, E), "--", lw=1.2, color=look["color"])
        ax.plot(parts * times, shown, label=E if ax is axes[0] else None, **look)
        ax.set(xscale="log", yscale="log", ylim=(0.07, 1.3))
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)


# %%

# measured figure
# sphinx_gallery_thumbnail_number = 2
fig, axes = plt.subplots(1, 2, figsize=(7.2, 4), sharey=True, layout="constrained")
draw(axes, 1, marker="o", ms=15, color="#2e7ab0")
draw(axes, 2, marker="s", ms=10.5, color="#d9762b")
draw(axes, 4, marker="^", ms=8, color="#3a9d5d")
draw(axes, 8, marker="D", ms=3, color="#d1495b")
kib = [most / 4096 * 2**power for power in range(0, 7, 2)]
axes[0].set_xticks(PARTS, ["1/16", "1/8", "1/4", "1/2", "1"])
axes[0].set_yticks(PARTS[1:], ["1/8", "1/4", "1/2", "1"])
axes[0].set(xlabel="occupancy", ylabel="part of the copy rate")
axes[1].set_xticks(kib, [f"{each:g}" for each in kib])
axes[1].set_xlabel("KiB in flight, a multiprocessor")
where = "this GPU (dashed: model)" if on_gpu else "model of an H200"
fig.suptitle("Bytes in flight decide, not occupancy", size=13)
fig.legend(title=f"{where}; loads of a thread:", ncols=4, loc="outside lower center")
fig.set_label(
    "The same points in two panels. Against occupancy they lie on four lines: at 1/4 "
    f"the model reaches {model(1 / 4, 1):.0%} of the copy rate with one load a thread, "
    f"{model(1 / 4, 4):.0%} with four. Against bytes in flight all lie on one line."
)
plt.show()

# %%
# On the left, the same occupancy can mean anything from starved to full speed. On the
# right, the model puts the same points on one line: few warps with many loads do as
# well as many warps with one. So, about those 25 %: work out the bytes in flight. If
# they are enough, leave it. If not, add warps *or* loads.
#
# The model is an upper limit. Near the corner loads queue and wait longer, as `Volkov's
# thesis`__ measures, and a thread that begins or ends has no load in flight. So plan
# for twice as many.
#
# __ https://digicoll.lib.berkeley.edu/record/135548
#
# Where this stops being true
# ---------------------------
#
# - *Right of the corner*, more loads only cost registers. Those that do not fit *spill*
#   into memory, and the kernel gets slower.
# - *Much arithmetic, or barriers*: such a kernel waits for something else.
# - *Scattered loads*: most bytes in flight are :doc:`bytes that no thread asked for
#   </tutorials/3_kernels/03_coalescing>`.
#
# Exercise
# --------
#
# How many loads of 4 bytes must each thread of a *copy* have in flight, at least? Write
# a function of the bytes that a multiprocessor gets in a cycle (reads and writes), the
# latency in cycles, and the number of threads that it holds at a time.


def loads(bytes_a_clock, clocks, threads):
    return bytes_a_clock * clocks / threads


# %%

# folded: What check does
CASES = [(18, 600, 512), (16, 512, 256), (3, 500, 1536), (13, 700, 96)]


def mistakes(bytes_a_clock, clocks, threads):
    exact = bytes_a_clock * clocks / (8 * threads)
    return {
        "there are no parts of loads: round up": exact,
        "too few: round up, not down": exact // 1,
        "only half of a copy's bytes are loads": np.ceil(2 * exact),
        "half of the bytes are loads, and a load has 4": 8 * exact,
    }


def check(answer):
    try:
        given = [float(answer(*case)) for case in CASES]
    except Exception as error:
        return f"Not yet: give a function. {type(error).__name__}: {error}."
    right = [np.ceil(b * clocks / (8 * threads)) for b, clocks, threads in CASES]
    if given == right:
        return "Right, for any card."
    for hint in mistakes(*CASES[0]):
        if np.allclose(given, [mistakes(*case)[hint] for case in CASES]):
            return f"Not yet: {hint}."
    at = np.argmax(np.not_equal(given, right))
    return f"Not yet: loads{CASES[at]} is {right[at]:g}, not {given[at]:g}."


# %%

print(check(loads))

# %%

# solution

import math


def loads_solution(bytes_a_clock, clocks, threads):
    bytes_of_loads = bytes_a_clock * clocks / 2
    return math.ceil(bytes_of_loads / (4 * threads))


print(check(loads_solution))

# %%
# Three lines to remember
# -----------------------

# remember
quarter = loads_solution(bytes_a_clock("H200"), LATENCY, 2048 // 4)
print(
    f"""1. Bytes in flight = bandwidth × latency. On this CPU, one chain of loads reads
{rates[0]:.2f} GB/s, and {fastest} chains {rates.max():.2f} GB/s.
2. Load first, then store: LLLLSSSS has four loads in flight, LSLSLSLS has one.
3. Occupancy is not speed. In the model, {quarter} loads a thread fill an H200's memory
at an occupancy of a quarter."""
)
