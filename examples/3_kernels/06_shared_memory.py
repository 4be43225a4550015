"""
How do you stop asking memory for the same number?
==================================================

For people whose :term:`kernel` uses the same numbers many times, as a matrix product
does. Let the :term:`threads <thread>` of a :term:`block` fetch a :term:`tile` into
:term:`shared memory` together, wait at a :term:`barrier`, and use it many times. Then
let each thread compute several outputs in its :term:`registers <register>`. The tile is
the famous step; the registers gain more.

**You will learn**

- to use shared memory, and how to wait for it;
- to count a kernel's loads before you run it, and to check the count;
- how large a tile may be, and which sizes find mistakes at its edge;
- why the last step is to keep numbers in registers, and what that costs.

**Time:** 13 minutes. **Needs:** any computer, and :doc:`coalescing
</tutorials/3_kernels/05_coalescing>`. With a CUDA GPU, it times each step.
"""

# %%
# Predict
# -------
#
# An element of :math:`C = AB` is a row of :math:`A` (:math:`m` x :math:`k`) times a
# column of :math:`B` (:math:`k` x :math:`n`): :math:`k`
# :term:`multiply-adds <multiply-add>`, each of them two operations, in ``float32``. For
# square matrices with 4096 rows:

from firstlight.display import quantity, show_table
from firstlight.timing.specs import Spec, spec

side = 4096
operations, least_bytes = 2 * side**3, 3 * 4 * side**2
rows = []
for card in ("RTX 4090", "H100 SXM"):
    move = quantity(least_bytes / spec(card, "bandwidth"), "s")
    rows.append((card, move, quantity(operations / spec(card, "fp32"), "s")))
head = "card", "to move all bytes once", "to compute"
show_table("At least, from data sheets", head, rows)

# %%
# To move the matrices *once* takes a small part of the time. But in the plain kernel
# each of :math:`mn` threads reads a whole row and a whole column. In
# ``column_along_x``, ``x`` is the column; in ``row_along_x``, below, it is the row.

import matplotlib.pyplot as plt
import numpy as np

from firstlight.kernels import blocks_for, cuda, ptx, simulated, trace


@cuda.jit
def column_along_x(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


# %%

# folded: The same with row, column = cuda.grid(2): the worst kernel of the page


@cuda.jit
def row_along_x(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


# %%
# A tile, fetched together
# ------------------------
#
# *Shared memory* is a small, fast memory inside each :term:`multiprocessor`. An array
# there belongs to one block: all its threads see it, no other block does, and it is
# gone when the block ends. Here a block of ``T`` x ``T`` threads computes ``T`` x ``T``
# elements of :math:`C`. It goes along :math:`A` and down :math:`B` in rounds.


@cuda.jit(device=True)  # a function that kernels can call
def up(k, T):
    return (k + T - 1) // T


def tiled(T, rounds=up):
    @cuda.jit
    def product(a, b, c):
        a_tile = cuda.shared.array((T, T), np.float32)
        b_tile = cuda.shared.array((T, T), np.float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        column, row = cuda.grid(2)
        total = np.float32(0)
        for turn in range(rounds(a.shape[1], T)):
            first = turn * T
            inside = row < a.shape[0] and first + tx < a.shape[1]
            a_tile[ty, tx] = a[row, first + tx] if inside else np.float32(0)
            inside = first + ty < b.shape[0] and column < b.shape[1]
            b_tile[ty, tx] = b[first + ty, column] if inside else np.float32(0)
            cuda.syncthreads()
            for k in range(T):
                total += a_tile[ty, k] * b_tile[k, tx]
            cuda.syncthreads()
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = total

    return product


# %%
# Read a round as if you were one of the threads:
#
# - I fetch *one* number of each matrix, for everybody in the block. Where the tile
#   hangs over the edge, I put a zero: it adds nothing to any sum.
# - ``syncthreads`` is a *barrier*: I wait until all threads of my block are here. Only
#   then is the tile complete.
# - I fetched two numbers, and use ``2 * T``: the others come from my neighbours.
# - Without the second barrier, I could fetch the next tile while a slow neighbour still
#   reads this one.
# - No thread returns early, not even one without an element of :math:`C`, because a
#   barrier that some threads never reach is an error. Only the loads and the last store
#   are conditional.

# folded: What the figure draws

T, BLUE, GREEN, RED, ORANGE = 8, "#2e7ab0", "#2f7d4f", "#b8394b", "#e8a33d"
DRAWN = {  # where it is drawn, rows, columns, tiles as (down, across), their labels
    "A, 17 x 19": ((0, 28), 17, 19, [(1, 0), (1, 1), (1, 2)], "123", BLUE),
    "B, 19 x 13": ((28, 0), 19, 13, [(0, 0), (1, 0), (2, 0)], "123", GREEN),
    "C, 17 x 13": ((28, 28), 17, 13, [(1, 0)], "Σ", RED),
}

# %%

# figure

fig, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
for name, ((x, y), rows, columns, tiles, labels, colour) in DRAWN.items():
    ax.text(x, y - 1, name, size=11)
    ax.add_patch(plt.Rectangle((x, y), columns, rows, fill=False, lw=1.5))
    for label, (down, across) in zip(labels, tiles, strict=True):
        over = (down + 1) * T > rows or (across + 1) * T > columns
        look = {"fc": colour, "ec": "black", "hatch": "////" if over else ""}
        left, top = x + across * T, y + down * T
        ax.add_patch(plt.Rectangle((left, top), T, T, **look))
        box = {"fc": colour, "ec": "none", "pad": 1}
        ax.text(left + 3, top + 5, label, color="#fefefe", bbox=box)
ax.set(xlim=(-1, 43), ylim=(49, -4), aspect="equal")
ax.axis("off")
ax.set_title("In three rounds a block fetches three tiles of each matrix")
fig.set_label(
    "A block computes one tile of C. In three rounds it takes three tiles of A from "
    "left to right, and three of B from top to bottom. The last tile of each is "
    "hatched: it hangs over the edge of the matrix, and has zeros there."
)
plt.show()

# %%
# How large may a tile be?
# ------------------------
#
# A block has at most 1024 threads, so ``T`` is at most 32. Two such tiles take 8 KiB,
# and a block may have 48. (Most cards have more, up to 227 KiB in an H100, but
# numba-cuda 0.30 has no call to ask for it.) The shape must be known when a kernel is
# compiled, so ``tiled`` makes one for each ``T``.

# %%

# folded: A size that you know only at the launch: dynamic shared memory

from numba import float32


@cuda.jit
def reverse(x, out):
    part = cuda.shared.array(0, float32)  # as the launch says; a second would overlap
    i = cuda.threadIdx.x
    part[i] = x[i]
    cuda.syncthreads()
    out[i] = part[x.size - 1 - i]


count = 45
line = np.arange(count, dtype=np.float32)
d_out = cuda.to_device(np.zeros_like(line))
# blocks, threads, stream, bytes of shared memory
reverse[1, count, 0, count * line.itemsize](cuda.to_device(line), d_out)
print("reversed:", np.array_equal(d_out.copy_to_host(), line[::-1]))

# %%
# Keep a number even nearer
# -------------------------
#
# Nearest to the arithmetic are a thread's *registers*. Let each thread compute
# ``R`` x ``R`` elements. Then each number that it takes from a tile serves ``R`` times:
# ``2 * R`` numbers for ``R * R`` multiply-adds. A block now computes a square of ``S =
# R * T`` elements a side, and holds ``R`` tiles of each matrix. ``cuda.local.array``
# gives each thread an array of its own, in registers if the compiler knows all its
# indices, as here.


@cuda.jit(device=True)
def fetch(matrix, row, column, tiles, i):
    inside = row < matrix.shape[0] and column < matrix.shape[1]
    number = matrix[row, column] if inside else np.float32(0)
    tiles[i, cuda.threadIdx.y, cuda.threadIdx.x] = number


def multiplying(T, R):
    @cuda.jit(device=True)
    def multiply(a_tiles, b_tiles, mine):
        of_b = cuda.local.array(R, np.float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        k = 0
        while k < T:  # the compiler makes fewer instructions of it than of a range
            for j in range(R):
                of_b[j] = b_tiles[j, k, tx]
            for i in range(R):
                of_a = a_tiles[i, ty, k]
                for j in range(R):
                    mine[i, j] += of_a * of_b[j]
            k += 1

    return multiply


# %%
# (A thread's results lie ``T`` apart, so neighbours still write neighbours.)


def register_tiled(T, R):
    multiply = multiplying(T, R)

    @cuda.jit
    def product(a, b, c):
        a_tiles = cuda.shared.array((R, T, T), np.float32)
        b_tiles = cuda.shared.array((R, T, T), np.float32)
        mine = cuda.local.array((R, R), np.float32)
        for i in range(R):
            for j in range(R):
                mine[i, j] = 0
        row = R * T * cuda.blockIdx.y + cuda.threadIdx.y
        column = R * T * cuda.blockIdx.x + cuda.threadIdx.x
        for first in range(0, a.shape[1], T):
            for i in range(R):
                fetch(a, row + i * T, first + cuda.threadIdx.x, a_tiles, i)
                fetch(b, first + cuda.threadIdx.y, column + i * T, b_tiles, i)
            cuda.syncthreads()
            multiply(a_tiles, b_tiles, mine)
            cuda.syncthreads()
        for i in range(R):
            for j in range(R):
                if row + i * T < c.shape[0] and column + j * T < c.shape[1]:
                    c[row + i * T, column + j * T] = mine[i, j]

    return product


# %%
# Check, and count
# ----------------
#
# ``trace`` runs a kernel in Python and notes every access to memory, so one run gives
# the product and the counts. It fills shared memory with NaN, so that what a kernel
# reads before it was written cannot be right by chance. The sizes are odd, and the
# product in ``float64`` decides.

# folded: The steps of the ladder, and how one is run

from collections import namedtuple

# the threads of a block, how many elements (x, y) it covers, and whether x is the row
Step = namedtuple("Step", "kernel threads covers row_along_x", defaults=(False,))


def square(T, R=1):
    kernel = tiled(T) if R == 1 else register_tiled(T, R)
    return Step(kernel, (T, T), (R * T, R * T))


ladder = {
    "row along x": Step(row_along_x, (32, 8), (32, 8), row_along_x=True),
    "column along x": Step(column_along_x, (32, 8), (32, 8)),
    "tile": square(8),
    "4 x 4 each": square(8, 4),
}
rng = np.random.default_rng(seed=1)

# %%

# folded: A run on random matrices gives a trace, and the error of the product


def grid_of(step, out):
    sizes = out.shape if step.row_along_x else out.shape[::-1]
    return tuple(map(blocks_for, sizes, step.covers))


def launch(step, *arrays):
    step.kernel[grid_of(step, arrays[-1]), step.threads](*arrays)


def traced(step, *arrays):
    return trace(step.kernel, grid_of(step, arrays[-1]), step.threads, *arrays)


def run(step, m, k, n):
    """Trace a step on random matrices; return the trace, and the product's error."""
    shapes = (m, k + 32), (k, n)
    a, b = (rng.uniform(1, 2, shape).astype(np.float32) for shape in shapes)
    a = a[:, :k]  # rows lie apart, as in a matrix of usual size
    c = np.full((m, n), -1, dtype=np.float32)
    seen, results = traced(step, a, b, c), [c]
    if not simulated():
        d_c = cuda.to_device(np.full_like(c, -1))
        launch(step, cuda.to_device(a.copy()), cuda.to_device(b), d_c)
        results.append(d_c.copy_to_host())
    exact = a.astype(np.float64) @ b
    return seen, max(np.max(np.abs(each - exact)) / (4 * k) for each in results)


# %%

for name, step in (ladder | {"4 x 4 each": square(4, 4)}).items():
    seen, error = run(step, 5, 11, 9)
    assert error < 1e-6, f"{name} is wrong by {error:.1e}"
    assert not seen.problems, seen.problems[0]
print(f"all {len(ladder)} are right: no race, nothing out of bounds")

# %%
# The counts are for 32 x 8 times 8 x 32, with ``T = 8``. *Loads*: numbers read from the
# card's memory (:term:`global memory`, in CUDA's words) for each element of :math:`C`.
# *Sectors*: pieces of 32 bytes that a warp's load touches, of A and of B. *From
# shared*: numbers read from shared memory for each multiply-add.

fits = 32, 8, 32
traces = {name: run(step, *fits)[0] for name, step in ladder.items()}
shared, rows = {}, []
for name, seen in traces.items():
    shared[name] = seen.counts("load", "shared").sum() / np.prod(fits)
    of_a, of_b = (seen.sectors_per_load[matrix] for matrix in "ab")
    loads = seen.loads_per_output
    rows.append((name, f"{loads:g}", f"{of_a:.0f}, {of_b:.0f}", f"{shared[name]:g}"))
head = "", "loads an output", "sectors a load", "from shared"
show_table("Counted by trace, with tiles of 8 x 8", head, rows)

# %%
# With the row along ``x``, a warp reads from 32 different rows of :math:`A`: **let x
# run along the last index.** A tile of 8 x 8 divides the loads by 8, and 4 x 4 elements
# a thread by 4 again. In general, for each of :math:`k` steps a block of :math:`S` x
# :math:`S` outputs, :math:`S = RT`, needs :math:`S` numbers of each matrix:
#
# .. math::
#
#     \text{loads an output} = \frac{k\,(S + S)}{S^2} = \frac{2k}{R\,T}.
#
# For these loads only the product ``R * T`` counts. But a multiply-add also takes *two*
# numbers from tiles, and only registers reduce that, to ``2 / R``.
#
# What can each step reach?
# -------------------------
#
# A model has two limits. *Inside a multiprocessor* of an RTX A6000, multiply-adds for
# *four* warps can start in a clock cycle, but its shared memory serves *one*, with a
# number for each thread: that is a *pass*. (L1 is the same hardware; in the model, it
# gives one line of 128 bytes in a pass.) A multiply-add of a warp needs 33 passes with
# the row along ``x`` (32 lines of :math:`A`, one of :math:`B`), 2 with the column, 2
# with a tile, ``2 / R`` with registers. The arithmetic stays busy if it needs at most a
# quarter.
#
# *The card's memory*: for :math:`2wh` operations, a block that covers ``w`` x ``h``
# outputs fetches :math:`4 (w + h)` bytes. (What L2 keeps for other blocks raises this
# limit; the model leaves it out.)
#
# Simon Boehm `has measured such a ladder`__ in CUDA C++ on this card. His rates stand
# beside the model, as shares of the :term:`data sheet`'s peak. His tile is 32 x 32; he
# has no step like 4 x 4 each.
#
# __ https://siboehm.com/articles/22/CUDA-MMM

A6000 = Spec("NVIDIA RTX A6000 data sheet", bandwidth=768e9, fp32=38.7e12)
BOEHM = {  # operations a second, for 4092 x 4092
    "row along x": 309.0e9,
    "column along x": 1986.5e9,
    "tile": 2980.3e9,
    "8 x 8 each": 15971.7e9,
}
passes = {"row along x": 32 + 1, "column along x": 1 + 1, "tile": 2}
passes |= {"4 x 4 each": 2 / 4, "8 x 8 each": 2 / 8}
covers = [(32, 32), (32, 32), (32, 32), (64, 64), (128, 128)]

per_byte = A6000.bandwidth / A6000.fp32
near = [min(1, 1 / 4 / each) for each in passes.values()]
far = [min(1, w * h / (2 * (w + h)) * per_byte) for w, h in covers]
at_most = dict(zip(passes, map(min, near, far), strict=True))
reached = {name: rate / A6000.fp32 for name, rate in BOEHM.items()}

# %%

# figure

fig, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
look = {"ls": "--", "lw": 1, "ms": 9, "mec": "black"}
ax.plot(near, "o", color=BLUE, label="model: L1 and shared memory", **look)
ax.plot(far, "s", color=ORANGE, label="model: the card's memory", **look)
at = [list(passes).index(name) for name in reached]
ax.plot(at, list(reached.values()), "kX", ms=9, label="measured by S. Boehm")
ax.legend(loc="lower right", frameon=False)
ax.set(yscale="log", ylim=(0.005, 1.4), ylabel="share of the peak (RTX A6000)")
percents = [0.01, 0.03, 0.1, 0.3, 1]
ax.set_yticks(percents, [f"{share:.0%}" for share in percents])
ax.minorticks_off()
ticks = [name.replace(" along", "\nalong") for name in passes]
ax.set_xticks(range(5), [tick.replace("tile", "tile of\n32 x 32") for tick in ticks])
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("In the model a tile leaves the limit as it is; registers raise it")
fig.set_label(
    "What each step of the ladder can reach on an RTX A6000, a model with two limits, "
    "on a logarithmic axis, and what S. Boehm measured. Inside a multiprocessor, the "
    f"row along x has {near[0]:.1%} of the peak, the column and the tile both "
    f"{near[1]:.0%}, 4 x 4 each {near[3]:.0%}, 8 x 8 each {near[4]:.0%}. Measured: "
    + ", ".join(f"{name} {share:.1%}" for name, share in reached.items())
    + "."
)
plt.show()

# sphinx_gallery_thumbnail_number = 2

# %%

for name, share in reached.items():
    told = f"limit in the model {at_most[name]:5.1%}, measured {share:5.1%}"
    print(f"{name:>14}: {told}, {share / at_most[name]:.2f} of it")
gain = reached["tile"] / reached["column along x"]
print(f"the tile, measured: {gain:.1f} times the rate of the column along x")

# %%
# The worst kernel is a little above its limit: L1 may look up several lines a cycle.
# A tile of 32 x 32 divides the loads from global memory by 32, but leaves the *limit*
# where it was, because L1 can keep the same numbers: two passes for a multiply-add
# before, two after. Measured, the tile is faster all the same: it comes closer to its
# limit. The registers raise it: with ``R = 8``, a multiply-add takes a quarter of a
# pass, and the card's memory is the limit.
#
# What registers cost
# -------------------
#
# A thread can have 255 registers; what does not fit is *spilled*: stored to memory and
# loaded again. A multiprocessor has 65 536 for all its warps, so the more a thread
# takes, the fewer warps find room.

TYPES = "float32[:, ::1], float32[:, ::1], float32[:, ::1]"  # ::1: rows in one piece
# With numba-cuda 0.30.4 and CUDA 13.0, by R: registers, bytes spilled
RECORDED = {1: (32, 0), 8: (146, 0)}
needs = {}
try:
    for R in RECORDED:
        code = ptx.compile(square(16, R).kernel, TYPES, (9, 0))
        needs[R] = code.registers, code.spill_bytes
except ptx.NoCompilerError as missing:
    needs = RECORDED
    print(missing, "So these were compiled elsewhere:")

rows = []
for R, (registers, spilled) in needs.items():
    warps = min(65536 // (registers * 256) * 8, 64)  # a block here has 8; 64 at most
    rows.append((f"{R} x {R} each", str(registers), str(spilled), f"{warps} of 64"))
head = "outputs", "registers", "bytes spilled", "warps"
show_table("16 x 16 threads, compute capability 9.0", head, rows)

# %%
# Fewer warps hide less latency, but these have more to do while they wait: 64
# independent multiply-adds.
#
# Right for 32, wrong for 33
# --------------------------
#
# The tile takes ``k / T`` rounds, rounded up. Two common mistakes:


@cuda.jit(device=True)
def down(k, T):
    return k // T


@cuda.jit(device=True)
def from_grid(_k, _T):
    return cuda.gridDim.x


ways = {
    "rounded up": tiled(8),
    "k // T": tiled(8, down),
    "gridDim.x": tiled(8, from_grid),
}
sizes = (8, 8, 8), (8, 32, 8), (8, 33, 8)
runs, rows = {}, []
for name, kernel in ways.items():
    verdicts = []
    for size in sizes:
        _, error = runs[name, size] = run(Step(kernel, (8, 8), (8, 8)), *size)
        verdicts.append("right" if error < 1e-6 else "WRONG")
    rows.append((name, *verdicts))
head = "rounds", *("{} x {} x {}".format(*size) for size in sizes)
show_table("A tile of 8 x 8, for m x k x n", head, rows)

# %%
# ``k // T`` is right whenever ``T`` divides :math:`k`, and ``gridDim.x``, the blocks
# along a row of :math:`C`, unless :math:`k` is longer than :math:`n`: surplus rounds
# add zeros. An odd :math:`k`, longer than :math:`n` by a tile, finds both. (If a
# barrier is missing: :doc:`/tutorials/3_kernels/08_when_a_kernel_goes_wrong`.)
#
# Banks
# -----
#
# A tile also helps to *transpose* a matrix: read rows into the tile, wait, then read
# the tile by columns and write rows. But shared memory has 32 *banks*: word ``w`` lies
# in bank ``w % 32``, and a bank gives one word in a pass. If the rows of the tile are
# 32 or 33 numbers wide:

turns = {}
for wide in (32, 33):
    words = wide * np.arange(32) + 5  # column 5, all rows
    turns[wide] = np.bincount(words % 32).max()
    print(f"rows {wide} wide: a column takes {turns[wide]} of these passes")

# %%
# All words in one bank: that is a :term:`bank conflict`. A column more, unused, cures
# it: *padding*. (One word for many threads costs one pass.)
#
# Measure
# -------
#
# On a CUDA GPU: all steps for 4096 x 4096, and the library through PyTorch, without and
# with tensor cores. Elsewhere there is only the library. (In Triton:
# :doc:`/tutorials/3_kernels/13_triton`.)

# %%

# folded: The library's product, through PyTorch

import torch

from firstlight import Bench, best_device

bench = Bench("shared-memory", budget=1 if simulated() else 8)
device = best_device()
has_gpu = device.type == "cuda"
n = side if device.type != "cpu" else 513
t_a, t_b, t_c = (torch.rand(n, n, device=device) for _ in range(3))
cost = {"n": n, "device": device}
if has_gpu:
    cost["flops"] = 2 * n**3  # for the rate, and its part of what this GPU can do


def torch_product():
    torch.matmul(t_a, t_b, out=t_c)


bench.time("torch", torch_product, **cost)  # torch's default: no tensor cores
if has_gpu and torch.version.cuda and torch.cuda.get_device_capability()[0] >= 8:
    torch.set_float32_matmul_precision("high")  # tensor cores, numbers cut to TF32
    bench.time("torch, TF32", torch_product, **cost)
    torch.set_float32_matmul_precision("highest")

# %%

# folded: On a CUDA GPU: every step of the ladder, timed and checked

large = {"tile": square(32), "4 x 4 each": square(16, 4), "8 x 8 each": square(16, 8)}
climbed = ladder | large
if not simulated():
    h_a, h_b = (rng.random((side, side), dtype=np.float32) for _ in range(2))
    d_a, d_b = cuda.to_device(h_a), cuda.to_device(h_b)
    d_c = cuda.device_array_like(d_a)
    cost = {"n": side, "flops": 2 * side**3, "device": "cuda:0"}
    for name, step in climbed.items():
        bench.time(name, launch, step, d_a, d_b, d_c, **cost)
        rows = d_c.copy_to_host()[:5]
        assert np.allclose(rows, h_a[:5].astype(np.float64) @ h_b, rtol=1e-4), name
        if has_gpu:
            share = bench["torch"].median / bench[name].median
            print(f"{name:>14}: {share:6.1%} of the library's rate")

# %%

bench.show()

# %%
# On the newest GPU on record, 4096 x 4096 take
# :timing:`shared-memory median "column along x/cuda:0/n=4096" @gpu` plainly,
# :timing:`shared-memory median "tile/cuda:0/n=4096" @gpu` with a tile,
# :timing:`shared-memory median "8 x 8 each/cuda:0/n=4096" @gpu` with 8 x 8 each,
# :timing:`shared-memory median "torch/cuda:0/n=4096" @gpu` with the library.
#
# Lei Mao on an RTX 3090 and infra-practices on an A100 climbed the same ladder. The
# rates are theirs.
#
# .. measured-by-others:: row-rtx3090 column-rtx3090 tile-a100 micro-a100
#
# Where this stops being true
# ---------------------------
#
# - *Tensor cores* multiply small matrices as a whole. An H100 computes
#   :spec:`H100 SXM fp32` in ``float32`` without them, :spec:`H100 SXM tf32` with them
#   in TF32 (numbers cut to 10 bits of fraction), :spec:`H100 SXM bf16` in
#   ``bfloat16``. Numba itself has no instruction for them; NVIDIA's `nvmath-python`__
#   brings products that use them, to call from a Numba kernel. For a plain product
#   call the library.
# - *Small or thin matrices.* With few outputs, large squares leave multiprocessors
#   without a block. With few columns, memory decides.
#
# __ https://docs.nvidia.com/cuda/nvmath-python/latest/device-apis/cublas.html
#
# Exercise
# --------
#
# For sizes that fit, :math:`2k / RT` loads an output is exact. Write a function that
# tells *how many numbers all threads together read* from global memory, for any sizes,
# ``T`` and ``R``. Places beyond the edge read nothing. A start:


def loads(m, k, n, T, R):
    return m * n * 2 * k / (R * T)


# %%

# folded: What check does: it compares with the counts of the trace

cases = {
    (8, 5, 16, 4, 2): "all of A is read once for each column of blocks, B for each row",
    (9, 5, 20, 4, 1): "the last block hangs over the edge: round up",
    (5, 3, 17, 2, 4): "zeros beyond the edge are no loads",
}
true = {}
for case in cases:
    seen, error = run(square(*case[3:]), *case[:3])
    assert error < 1e-6
    true[case] = seen.counts("load", "global").sum()


def check(answer):
    for case, hint in cases.items():
        try:
            given = float(answer(*case))
        except Exception as error:
            return f"Not yet: it raised {type(error).__name__}: {error}."
        if given != true[case]:
            told = "{} x {} x {}, T = {}, R = {}".format(*case)
            told += f": you say {given:g}, the trace counts {true[case]}"
            return f"Not yet. {told}.\nHint: {hint}."
    return "Right: exactly what the trace counts, for all of them."


# %%

print(check(loads))

# %%
# Two :doc:`puzzles </tutorials/3_kernels/14_puzzles>` ask for such kernels: ``matmul``
# and ``transpose``.
#
# Three lines to remember
# -----------------------

# remember

plain, tile, each = (
    f"{traces[name].loads_per_output:g}"
    for name in ("column along x", "tile", "4 x 4 each")
)
print(f"1. Loads an output: {plain} plainly, {tile} with a tile of 8 x 8, {each} with")
print("   4 x 4 outputs a thread: 2k / RT.")
share, best = at_most["tile"], at_most["8 x 8 each"]
print("2. A tile saves loads from global memory, registers also from shared memory.")
print(f"   With a tile of 32 x 32, a model has at most {share:.1%} of an RTX A6000's")
print(f"   peak; with 8 x 8 outputs a thread, {best:.1%}.")
print("3. Wait before you use a tile and before you refill it, put zeros beyond the")
print("   edge, round the rounds up, and test with an odd k much longer than n.")

# %%
# Solution
# --------

# solution


def loads_solution(m, k, n, T, R):
    S = T * R
    blocks_across, blocks_down = -(-n // S), -(-m // S)
    return m * k * blocks_across + k * n * blocks_down


print(f"Our solution: {check(loads_solution)}")
