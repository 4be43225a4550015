"""
Your occupancy is 25%. Is that bad?
====================================

For anyone who reads *achieved occupancy* in a :term:`profiler` and wonders if it is too
low. You cannot tell from that number. What keeps a memory busy is not
:term:`threads <thread>` but :term:`bytes in flight`: loads that were issued and have
not yet come back. Few threads with several loads each do as well as many threads with
one. So work out how many bytes your card needs in flight, from its :term:`bandwidth`
and its :term:`latency` (600 cycles is a usable guess), and count what your
:term:`kernel` has.

**You will learn**

- to work out how many bytes must be in flight to keep a memory busy;
- to measure the law behind it, on any computer;
- to give a thread several loads at once, and to see in machine code whether it has;
- what occupancy is, what limits it, which profiler metrics show it, and why it is not
  speed.

**Time:** 13 minutes. **Needs:** any computer, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`. With a CUDA GPU, you see the law there, too;
without one, what is said of GPUs is a model.
"""

# %%
# Predict
# -------
#
# A load takes a while: its *latency*. Until then it is *in flight*. How many must there
# be, so that memory always has one to serve? :term:`Little's law` holds for a memory as
# for a shop, where the customers inside are those who arrive in a second, times the
# seconds that each one stays:
#
# .. math::
#
#     \text{bytes in flight} = \text{bandwidth} \times \text{latency}.
#
# The :term:`data sheet` has the bandwidth. Divide it by the number of
# :term:`multiprocessors <multiprocessor>` (SMs) and by their clock rate, and you have
# the bytes that each of them gets in a cycle. (``bytes_a_clock`` has both from the
# ``float32`` rate.) No data sheet has the latency. `NVIDIA's guide`__ says "hundreds of
# clock cycles". Take 600, until you measure it.
#
# Your kernel copies an array of ``float32``. Half of the bytes that it moves are loads,
# and a thread waits only for those: half of bandwidth times latency. How many threads
# is that, if each waits for one number of 4 bytes?
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/
#    index.html#multiprocessor-level

from firstlight.display import BLUE, GREEN, ORANGE, RED, show_table
from firstlight.kernels import blocks_for, cuda, ptx, simulated, trace
from firstlight.timing.ceilings import PER_CLOCK
from firstlight.timing.specs import spec

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
head = ("an SM of", "bytes a cycle", "in flight", "threads", "occupancy")
show_table("To copy, with one load of 4 bytes a thread", head, rows)

# %%
# *In flight* is in bytes. *Occupancy* is the share of threads that are resident, of
# those that a multiprocessor can hold. From the V100 to the H200 memory became faster,
# and a multiprocessor holds as many threads as before, so that more of them are needed.
# (A sum, which only reads, needs twice as much: more than an H200's threads with one
# load each.)
#
# But who says that a thread has one load in flight? Write down your answers:
#
# - Your kernel copies on an H100, at an occupancy of a quarter: 512 threads on each SM.
#   How many loads does each thread need?
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
# The table has four times the bytes of the largest :term:`cache`, but 256 MiB at most
# (part of which a very large cache can hold). Each call goes on where the last one
# ended. One row walks *in order*, where the CPU can guess what comes next.

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
# Beside it, NumPy's copy, on one core.

# folded: The copies: with NumPy, with Numba on all cores, with PyTorch


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
# point is the fastest value of its row, not the :term:`median` as in tables: other
# programs can only slow one down.

# folded: The rates for the figure


def best_rate(label):
    return bench[label].bytes / min(bench[label].values) / 1e9


rates = np.array([best_rate(f"chains: {chains}") for chains in CHAINS])
ordered, reads = best_rate("1 chain, in order"), best_rate("NumPy") / 2
law = rates[0] * np.array(CHAINS)
fastest = CHAINS[rates.argmax()]

# %%

# measured figure
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 4), layout="constrained")
law_is = "law: chains × 64 B / latency"
ax.plot(CHAINS, law, "--", color="black", label=law_is)
ax.plot(CHAINS, rates, "s", ms=9, mec="black", color=ORANGE, label="random order")
ax.plot(1, ordered, "*", ms=16, mec="black", color=GREEN, label="1 chain, in order")
ax.axhline(reads, color=BLUE, ls=":", lw=2, label="what NumPy's copy reads")
ax.set(xscale="log", yscale="log", xlabel="chains", ylabel="GB/s")
ax.set(xlim=(0.85, 40), ylim=(0.5 * rates[0], 2 * max(law[-1], ordered, reads)))
ax.set_xticks(CHAINS, CHAINS)
fig.legend(ncols=2, loc="outside lower center")
ax.spines[["top", "right"]].set_visible(False)
finding = f"The rate grows with the loads in flight: {rates.max() / rates[0]:.0f} times"
ax.set_title(f"{finding} with {fastest}", loc="left")
fig.set_label(
    "Bytes a second against the number of chains, beside the line of the law: 8 chains "
    f"have {rates[3] / rates[0]:.1f} times the rate of one, 32 have "
    f"{rates[-1] / rates[0]:.1f}, one in order {ordered / rates[0]:.0f}."
)
plt.show()

# %%
print(f"At best: {64 / rates[0]:.0f} ns a line; in order {64 / ordered:.0f} ns")

# %%
# A core can have only so many loads in flight: where the points leave the line, it is
# at that limit. In order, a CPU sees the pattern and fetches lines before the program
# asks for them (it *prefetches*), so that more is in flight than the program says.
# Random order prevents that. A GPU hardly prefetches: in flight are the loads that your
# kernel issued.
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
# made: in SASS, the machine code, for the two with four elements; in PTX for the rest
# (7.5 and 9.0 are compute capabilities).

import re

TYPES, mixes = "float32[::1], float32[::1]", {}
four = "four_in_turn", "loads_first(4)"
try:
    print("registers for  7.5 9.0 loads and stores, for 9.0")
    for name, kernel in kernels.items():
        old, new = (ptx.compile(kernel, TYPES, cc) for cc in ((7, 5), (9, 0)))
        code = (new.sass if name in four else None) or new.text
        found = re.findall(r"\b(?:(LD|ST)G\b|(ld|st)\.global)", code)
        letters = "".join((sass or text)[0].upper() for sass, text in found)
        print(f"{name:>14} {old.registers:3} {new.registers:3} {letters}")
        mixes[name] = new.mix
    same = mixes[four[0]] == mixes[four[1]]
    print(f"{four[0]} and {four[1]}: the same instructions, as often: {same}")
except ptx.NoCompilerError as missing:
    print(missing)

# %%
# (The pairs LS at the end copy what is left; the compiler unrolled that loop, also for
# ``loads_first(1)``.) The two with four elements have the same instructions, and only
# the order differs. A GPU starts the instructions of a warp in order. A load does not
# stop it, but the first instruction that *needs* the number does. So the order decides:
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
# 256; an SM has four banks of 16,384. From compute capability 8.0 on, each block takes
# 1 KiB of shared memory beside its own.
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
show_table("Occupancy, and what runs out first", head, rows)

# %%
# Third row: an RTX 4090 has room for one such block. Fourth row: the registers of
# ``loads_first(8)`` cost an H100 a quarter of its occupancy.
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
# occupancy. Numba reports the limits of your own card:

# folded: On a GPU: its limits
if on_gpu:
    gpu = cuda.get_current_device()
    for limit in (
        "THREADS_PER_BLOCK",
        "THREADS_PER_MULTIPROCESSOR",
        "REGISTERS_PER_BLOCK",
    ):
        print(f"MAX_{limit}:", getattr(gpu, f"MAX_{limit}"))

# %%
# A kernel that needs many registers may allow fewer threads in a block: after a launch,
# ``kernel.get_max_threads_per_block()`` says how many.
#
# Measure
# -------
#
# On a GPU, first its latency: one thread walks the table. Then the copies: once with
# enough blocks for all elements, then at occupancies from 1/16 to 1. (Full occupancy
# can leave too few registers for 4 loads or more.) Without one, only the CPU copies:
# NumPy on one core, Numba and PyTorch on all.

# folded: The walk on a GPU, checked


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

# folded: On a GPU: the walk and the copies are timed
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

# %%

bench.show()

# %%
# With a GPU, compare ``four_in_turn``, ``loads_first(4)`` and ``torch``: at full
# occupancy the model expects no difference.
#
# RRZE-HPC, HPMLL and infra-practices measured latency and filling on their cards. The
# law is kinder to threads that stay.
#
# .. measured-by-others:: latency-rtx4090 latency-v100-clocks places-v100 sum-a100
#
# Occupancy is not speed
# ----------------------
#
# Little's law as a model of an H200, from its data sheet and the 600 cycles:

enough = bytes_a_clock("H200") * LATENCY / 2


def model(part, E, most=CARDS["H200"][1], enough=enough):
    return np.minimum(1, 4 * E * part * most / enough)


# %%

# folded: How both panels are drawn
LOOKS = {1: ("o", 15, BLUE), 2: ("s", 10.5, ORANGE)}
LOOKS |= {4: ("^", 8, GREEN), 8: ("D", 3, RED)}


def draw(axes, E, most, shown, law, filled):
    marker, ms, color = LOOKS[E]
    parts = np.array([part for part, loads in points if loads == E])
    line = np.geomspace(1 / 16, parts[-1])
    look = {"ls": "", "mew": 1.8, "mfc": color if filled else "none", "color": color}
    for ax, times in zip(axes, (1, 4 * E * most / 1024), strict=True):
        name = E if ax is axes[0] else None
        ax.plot(line * times, law(line, E), "--", lw=1.2, color=color)
        ax.plot(parts * times, shown(parts, E), marker, ms=ms, label=name, **look)


def panels(title, legend, most, shown, law, filled=False):
    size = {"figsize": (7.2, 4), "sharey": True, "layout": "constrained"}
    fig, axes = plt.subplots(1, 2, **size)
    for E in LOOKS:
        draw(axes, E, most, shown, law, filled)
    for ax in axes:
        ax.set(xscale="log", yscale="log", ylim=(0.07, 1.3))
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    kib = [most / 4096 * 2**power for power in range(0, 7, 2)]
    axes[0].set_xticks(PARTS, ["1/16", "1/8", "1/4", "1/2", "1"])
    axes[0].set_yticks(PARTS[1:], ["1/8", "1/4", "1/2", "1"])
    axes[0].set(xlabel="occupancy", ylabel="fraction of the copy rate")
    axes[1].set_xticks(kib, [f"{each:g}" for each in kib])
    axes[1].set_xlabel("KiB in flight per SM")
    fig.suptitle(title, size=13)
    fig.legend(title=legend, ncols=4, loc="outside lower center")
    return fig


# %%

# figure
# sphinx_gallery_thumbnail_number = 2
title = "Bytes in flight decide, not occupancy (a model of an H200)"
fig = panels(title, "loads per thread:", CARDS["H200"][1], model, model)
fig.set_label(
    "A model: the same points in two panels. Against occupancy they lie on four lines: "
    f"at 1/4 the model reaches {model(1 / 4, 1):.0%} of the copy rate with one load, "
    f"{model(1 / 4, 4):.0%} with four. Against bytes in flight all lie on one line."
)
plt.show()

# %%

# folded: On a GPU: the same points, measured on it
if on_gpu:
    copy_rate = bench["torch"].byte_rate
    need = copy_rate / processors * bench["1 thread walks"].median / walked / 2

    def law(part, E):
        return model(part, E, most, need)

    def measured(parts, E):
        labels = [f"{E} loads, {part:.0%} full" for part in parts]
        return [bench[label].byte_rate / copy_rate for label in labels]

    title = "The same points, measured on this GPU (dashed: model)"
    fig = panels(title, "loads per thread:", most, measured, law, filled=True)
    fig.set_label(
        "Fractions of the copy rate measured on this GPU, against occupancy and bytes "
        "in flight, beside the model from its own latency and copy rate."
    )
    plt.show()

# %%
# On the left, one occupancy goes with very different rates. On the right, the model has
# all on one line.
#
# So, about those 25%, in three steps, for each SM:
#
# 1. *What a copy needs*: half of bandwidth times latency, as in the first table.
# 2. *What yours has*: resident threads × loads that each has in flight × 4 bytes. In
#    machine code, count loads up to the first instruction that needs one.
# 3. *Compare.* With less than it needs, memory has to wait: add warps *or* loads. With
#    twice that, leave the occupancy alone. In between, try more: the model is an upper
#    limit, as near the bend loads queue and wait longer (`Volkov's thesis`__), and a
#    thread that begins or ends has no load in flight.
#
# __ https://digicoll.lib.berkeley.edu/record/135548
#
# For the 512 threads above, that is at least:

quarter = {  # loads for each of 512 threads on an SM
    name: bytes_a_clock(name) * LATENCY / (8 * 512) for name in ("H100 SXM", "H200")
}
for name, exact in quarter.items():
    print(f"{name}, a quarter full: {exact:.1f} loads, so {np.ceil(exact):.0f}")

# %%
# Where this stops being true
# ---------------------------
#
# - *Beyond the bend of the curve*, more loads only cost registers. Those that do not
#   fit *spill* into memory, and the kernel gets slower.
# - *Much arithmetic, or barriers*: such a kernel waits for something else.
# - *Scattered loads*: most bytes in flight are :doc:`bytes that no thread asked for
#   </tutorials/3_kernels/05_coalescing>`.
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
# Three lines to remember
# -----------------------

# remember
needed = -(-bytes_a_clock("H200") * LATENCY // (2 * 4 * 2048 // 4))  # bytes, rounded up
print(
    f"""1. Bytes in flight = bandwidth × latency. On this CPU, one chain of loads reads
{rates[0]:.2f} GB/s at best, and {fastest} chains {rates.max():.2f} GB/s.
2. Load first, then store: LLLLSSSS has four loads in flight, LSLSLSLS has one.
3. Occupancy is not speed. In the model, {needed:.0f} loads a thread fill an H200's
memory at an occupancy of a quarter."""
)

# %%
# Solution
# --------

# solution

import math


def loads_solution(bytes_a_clock, clocks, threads):
    bytes_of_loads = bytes_a_clock * clocks / 2
    return math.ceil(bytes_of_loads / (4 * threads))


print(f"Our solution: {check(loads_solution)}")
