"""
How do you stop asking memory for the same number?
==================================================

A matrix product uses every number of its inputs many times. The kernel that you would
write first fetches it anew each time. You will fetch less in three steps, count what
each one saves, and find that the famous step, shared memory, is not the one that saves
most.

**You will learn**

- to use shared memory: fetch a tile together, wait, use it many times;
- to count a kernel's loads before you run it, and to check the count;
- the mistake that gives a right product for 32 and a wrong one for 33;
- why the last step is to keep numbers in registers, and what that costs.

**Time:** 20 minutes. **Needs:** any computer, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`. With a CUDA GPU, you see each step in percent
of the library's product.
"""

# %%
# Predict
# -------
#
# :math:`C = AB`, where :math:`A` has :math:`m` rows and :math:`k` columns, and
# :math:`B` has :math:`k` rows and :math:`n` columns. An element of :math:`C` is a row
# of :math:`A` times a column of :math:`B`: :math:`k` multiply-adds, each of them two
# operations. All numbers are ``float32``. For square matrices with 4096 rows:

from firstlight.measure.specs import spec
from firstlight.measure.tables import quantity

side = 4096
operations, least_bytes = 2 * side**3, 3 * 4 * side**2
for card in ("RTX 4090", "H100 SXM"):
    move = quantity(least_bytes / spec(card, "bandwidth"), "s")
    compute = quantity(operations / spec(card, "fp32"), "s")
    print(f"{card:>8}: to move all bytes once {move:>7}, to compute {compute:>7}")

# %%
# To move the matrices *once* takes a small part of the time. So the arithmetic should
# set the pace. But the plain kernel does not move them once: each of its :math:`mn`
# threads reads a whole row and a whole column. Write down your answers, for
# :math:`k = 8`:
#
# - How many numbers are read for one element of :math:`C`?
# - The threads of a block fetch tiles of 8 x 8 numbers together. How many now?
# - Each thread then computes 4 x 4 elements instead of one. How many now?
#
# Two kernels that differ in one line
# -----------------------------------
#
# ``cuda.grid(2)`` gives a thread its place along ``x`` and along ``y``. Which of the
# two is the row?

import matplotlib.pyplot as plt
import numpy as np

from firstlight.kernels import blocks_for, cuda, ptx, simulated, trace


@cuda.jit
def row_along_x(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


@cuda.jit
def column_along_x(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


# %%
# For the result it does not matter. (``np.float32(0)`` does: a plain ``0.0`` would make
# the sum a ``float64``, as :doc:`/tutorials/3_kernels/07_what_the_compiler_did` shows.)
# For memory it does. The 32 threads of a *warp* work together, and they are 32
# neighbours along ``x``. Memory hands out pieces of 32 bytes, called *sectors*.
#
# A tile, fetched together
# ------------------------
#
# *Shared memory* is a small, fast memory inside each multiprocessor. An array there
# belongs to one block: all its threads see it, no other block does, and it is gone when
# the block ends. Its shape must be known when the kernel is compiled, so a function
# makes the kernel for the ``T`` you want. A block has ``T`` x ``T`` threads, and
# computes ``T`` x ``T`` elements of :math:`C`. It goes along :math:`A` and down
# :math:`B` in rounds.


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
# - I fetch *one* number of each matrix, and put it where all can see it. Where the tile
#   hangs over the edge, I put a zero: it adds nothing to any sum.
# - ``syncthreads`` is a *barrier*: I wait until all threads of my block are here. Only
#   then is the tile complete.
# - I use ``T`` numbers of each tile. I fetched two, and ``2 * T`` are used: the others
#   come from my neighbours.
# - Then a second barrier. Without it, I could fetch the next tile while a slow
#   neighbour still reads this one.
# - All threads take part, also those with no element of :math:`C`. Only the last line
#   is guarded. A barrier that some threads never reach is an error.
#
# Here is one block, for odd sizes. The tiles in colour are those that it fetches, the
# number is the round, Σ marks what the block computes. The last ones hang over the edge
# (hatched).

T, BLUE, GREEN, RED, ORANGE = 8, "#2e7ab0", "#2f7d4f", "#b8394b", "#e8a33d"
DRAWN = {  # where it is drawn, rows, columns, tiles as (down, across), their labels
    "A, 17 x 19": ((0, 28), 17, 19, [(1, 0), (1, 1), (1, 2)], "123", BLUE),
    "B, 19 x 13": ((28, 0), 19, 13, [(0, 0), (1, 0), (2, 0)], "123", GREEN),
    "C, 17 x 13": ((28, 28), 17, 13, [(1, 0)], "Σ", RED),
}

fig, ax = plt.subplots(figsize=(4.4, 4.2), layout="constrained")
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
ax.set(xlim=(-1, 43), ylim=(53, -4), aspect="equal")
ax.axis("off")
fig.set_label(
    "A block computes one tile of C. In three rounds it takes three tiles of A from "
    "left to right, and three of B from top to bottom. The last tile of each is "
    "hatched: it hangs over the edge of the matrix, and has zeros there."
)
plt.show()

# %%
# Keep a number even nearer
# -------------------------
#
# Nearest to the arithmetic are a thread's *registers*. Let each thread compute
# ``R`` x ``R`` elements. Then each number that it takes from a tile serves ``R`` times.
# A block now computes a square of ``S = R * T`` elements a side, and holds ``R`` tiles
# of each matrix. Two parts first, as functions that the kernel calls: what fetches a
# number, and what runs most. ``cuda.local.array`` gives each thread an array of its
# own. It ends up in registers if the compiler knows all its indices, as here: it writes
# out the short loops over ``i`` and ``j``.


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
# In each step ``k``, a thread takes ``2 * R`` numbers from shared memory, and makes
# ``R * R`` multiply-adds of them. The kernel itself is the same walk as before. A
# thread's results do not lie side by side, but ``T`` apart: so neighbouring threads
# still write neighbouring elements.


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
# Check
# -----
#
# First: is it right? ``trace`` runs a kernel thread by thread in Python and notes every
# access to memory, so one run gives the product and all that you want to count. It
# fills shared memory with NaN at the start: what a kernel reads before it was written
# cannot be right by chance. On a GPU, the kernel is also launched there. The sizes are
# odd, and the product in ``float64`` decides. (The last kernel gets a smaller tile, so
# that it needs more rounds.)

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


for name, step in (ladder | {"4 x 4 each": square(4, 4)}).items():
    seen, error = run(step, 5, 11, 9)
    assert error < 1e-6, f"{name} is wrong by {error:.1e}"
    assert not seen.problems, seen.problems[0]
    print(f"{name:>14}: error {error:.0e}, no race, nothing out of bounds")

# %%
# Count
# -----
#
# Now the counts, for 32 x 8 times 8 x 32, where all blocks are full. *Loads an
# output*: numbers read from the card's memory, which CUDA calls *global memory*, for
# each element of :math:`C`. *Sectors a load*: how many a warp's load touches, of A and
# of B. *From shared*: numbers read from shared memory for each multiply-add.

fits = 32, 8, 32
traces = {name: run(step, *fits)[0] for name, step in ladder.items()}
shared = {}
print("                loads an output   sectors a load   from shared")
for name, seen in traces.items():
    shared[name] = seen.counts("load", "shared").sum() / np.prod(fits)
    of_a, of_b = (seen.sectors_per_load[matrix] for matrix in "ab")
    loads = seen.loads_per_output
    print(f"{name:>14} {loads:12.1f} {of_a:14.0f}, {of_b:.0f} {shared[name]:13.1f}")

# %%
# - The first two read ``2 * k`` numbers for an output, here 16. They differ in the
#   sectors. With the row along ``x``, a warp reads from 32 different rows of :math:`A`,
#   and each time gets 32 bytes to use 4. With the column along ``x``, it wants *one*
#   number of :math:`A`, and 32 neighbours in :math:`B`: 4 sectors, the least there is.
#   That is a *coalesced* load. The rule: **x runs along the last index.**
# - A tile of 8 x 8 divides the loads by 8, and 4 x 4 elements a thread by 4 again.
#
# In general, for each of the :math:`k` steps a block of :math:`S` x :math:`S` outputs
# needs :math:`S` numbers of :math:`A` and :math:`S` of :math:`B`. With :math:`S = RT`,
#
# .. math::
#
#     \text{loads an output} = \frac{k\,(S + S)}{S^2} = \frac{2k}{R\,T}.
#
# So for the loads from global memory it makes no difference whether a large square
# comes from many threads or from many outputs a thread. Why bother with registers? The
# last column tells. A tile brings the numbers nearer, but each multiply-add still needs
# *two* of them from there. Only registers reduce that: to ``2 / R``.
#
# What can each step reach?
# -------------------------
#
# Two things can hold a kernel up. The first is inside a multiprocessor. On an H100, in
# a clock, it can start multiply-adds for *four* warps, but its shared memory serves
# *one*, with a number for each thread. (L1 is the same piece of hardware, and hands out
# a line of 128 bytes.) Call that a *pass*. The arithmetic sets the pace only if a
# warp's multiply-add needs at most a quarter of a pass. It needs 33 with the row along
# ``x``, for 32 lines of :math:`A` and one of :math:`B`; 2 with the column; then
# ``2 / R``.
#
# The second is the card's memory. A block that covers ``w`` x ``h`` outputs fetches
# :math:`4 (w + h)` bytes for :math:`2wh` operations. If no cache keeps them for the
# next block, they all come from there. Tiles are here as large as a GPU allows: 32 x
# 32, for 1024 threads, and 16 x 16 with more outputs a thread.

passes = {"row along x": 32 + 1, "column along x": 1 + 1, "tile": 2}
passes |= {"4 x 4 each": 2 / 4, "8 x 8 each": 2 / 8}
covers = [(32, 8), (32, 8), (32, 32), (64, 64), (128, 128)]

per_byte = spec("H100 SXM", "bandwidth") / spec("H100 SXM", "fp32")
near = [min(1, 1 / 4 / each) for each in passes.values()]
far = [min(1, w * h / (2 * (w + h)) * per_byte) for w, h in covers]
at_most = dict(zip(passes, map(min, near, far), strict=True))
for name, share in at_most.items():
    print(f"{name:>14}: as written, at most {share:6.1%} of the peak")

# %%
# Simon Boehm `has measured such a ladder`__, in CUDA C++ on an RTX A6000, in percent of
# the library's product. Here are his numbers beside the model. (It is another card, and
# a library does not reach the peak: compare the steps, not the heights.)
#
# __ https://siboehm.com/articles/22/CUDA-MMM

BOEHM = {0: 0.013, 1: 0.085, 2: 0.128, 4: 0.687}

fig, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
look = {"ls": "--", "lw": 1, "ms": 9, "mec": "black"}
ax.plot(near, "o", color=BLUE, label="model: limit of L1 and shared memory", **look)
ax.plot(far, "s", color=ORANGE, label="model: limit of the card's memory", **look)
label = "measured by S. Boehm, another card"
ax.plot(*zip(*BOEHM.items(), strict=True), "kX", ms=8, label=label)
ax.set(yscale="log", ylim=(0.004, 1.7), ylabel="share of the peak, or of the library")
percents = [0.01, 0.03, 0.1, 0.3, 1]
ax.set_yticks(percents, [f"{share:.0%}" for share in percents])
ax.minorticks_off()
ax.set_xticks(range(5), [name.replace(" along", "\nalong") for name in passes])
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=9, loc="lower right")
fig.set_label(
    "What each step of the ladder can reach on an H100, a model with two limits, on a "
    f"logarithmic axis. Inside a multiprocessor, the row along x has {near[0]:.1%} of "
    f"the peak, the column and the tile both {near[1]:.0%}, 4 x 4 each {near[3]:.0%}; "
    "8 x 8 each comes near the roof. Measured shares from another card rise alike."
)
plt.show()

# %%
# The second and third step are the surprise. A tile of 32 x 32 divides the loads from
# global memory by 32, and inside the multiprocessor it wins *nothing*: two passes for a
# multiply-add before, two after. What it wins is on the other limit, and in waiting (a
# load from L2 takes much longer). And no other block can push it out, as happens in a
# cache. The registers move the limit that counts: with ``R = 8``, a multiply-add takes
# a quarter of a pass.
#
# What registers cost
# -------------------
#
# A thread can have 255 registers, and 8 x 8 sums take 64 of them. What does not fit is
# *spilled*: stored to memory and loaded again. A multiprocessor has 65 536 registers
# for all its warps together. The compiler tells how many a kernel needs, for any GPU:
# here for compute capability 7.5, an older one, and for 9.0, an H100.

TYPES = "float32[:, ::1], float32[:, ::1], float32[:, ::1]"  # ::1: rows in one piece
RECORDED = {  # with numba-cuda 0.30.4 and CUDA 13.0: registers, bytes spilled
    (1, (7, 5)): (47, 0),
    (1, (9, 0)): (32, 0),
    (8, (9, 0)): (146, 0),
}
needs = {}
try:
    for R, cc in RECORDED:
        code = ptx.compile(square(16, R).kernel, TYPES, cc)
        needs[R, cc] = code.registers, code.spill_bytes
except ptx.NoCompilerError as missing:
    needs = RECORDED
    print(missing, "So these were compiled elsewhere:")

for (R, cc), (registers, spilled) in needs.items():
    most = 32 if cc == (7, 5) else 64  # warps, however few registers they need
    warps = min(65536 // (registers * 256) * 8, most)  # a block here has 8
    print(f"{R} x {R} for {cc[0]}.{cc[1]}: {registers} registers, ", end="")
    print(f"{spilled} bytes spilled, {warps} of {most} warps")

# %%
# The more registers a thread takes, the fewer warps find room. Fewer warps can hide
# less waiting, but these have more to do while they wait: 64 multiply-adds that do not
# depend on each other. With 16 x 16, the sums alone would be 256: too many.
#
# Right for 32, wrong for 33
# --------------------------
#
# How many rounds does the tile take? ``up`` counted them: ``k / T``, rounded up. Here
# are two other counts that one finds in kernels.


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
runs = {}
print("    rounds" + "".join(f"{m} x {k} x {n}".rjust(14) for m, k, n in sizes))
for name, kernel in ways.items():
    verdicts = []
    for size in sizes:
        _, error = runs[name, size] = run(Step(kernel, (8, 8), (8, 8)), *size)
        verdicts.append("right" if error < 1e-6 else "WRONG")
    print(f"{name:>10}" + "".join(verdict.rjust(14) for verdict in verdicts))

# %%
# - ``k // T`` rounds down. It is right whenever ``T`` divides :math:`k`: for 32, and
#   not for 33.
# - ``gridDim.x`` counts the blocks along a row of :math:`C`. It is right for square
#   matrices, and those are what one tests. The example in Numba's own documentation
#   takes its count from there. `Readers found it wrong`__; today it is right with a
#   grid that covers the inputs, not only the product.
#
# __ https://github.com/numba/numba/issues/7324
#
# A check with odd sizes that differ finds both. What happens if a barrier is missing,
# :doc:`/tutorials/3_kernels/06_when_a_kernel_goes_wrong` shows.
#
# A second use: turn the tile around
# ----------------------------------
#
# Transposing a matrix uses each number once, so there is nothing to save. Still a tile
# helps. Whoever reads along a row has to write down a column: 32 numbers into 32
# sectors. A block can read a tile of 32 x 32 by rows, wait, and write it by rows, too,
# as it goes through the *tile* down a column. But shared memory has 32 *banks*: word
# ``w`` lies in bank ``w % 32``, and a bank gives one word in a pass. Which banks does a
# warp want, if the rows of the tile are 32 or 33 numbers wide?

turns = {}
for wide in (32, 33):
    words = wide * np.arange(32) + 5  # column 5, all rows
    turns[wide] = np.bincount(words % 32).max()
    print(f"rows {wide} wide: the busiest bank takes {turns[wide]} passes")

# %%
# All words in one bank: that is a *bank conflict*. A column more, unused, mends it, and
# is called *padding*. (In the ladder the threads of a warp read neighbours, or the same
# word, and one word for many threads costs one pass.)
#
# Measure
# -------
#
# On any computer: NumPy's product is the library, and a loop by Numba runs on all
# cores. On a GPU: all steps for 4096 x 4096, and the library through PyTorch, in
# ``float32``, with tensor cores forbidden and allowed. (A product in Triton is in
# :doc:`/tutorials/3_kernels/10_triton`.)

import torch
from numba import njit, prange

from firstlight import Bench, best_device


@njit("void(float32[:, ::1], float32[:, ::1], float32[:, ::1])", parallel=True)
def along_rows(a, b, c):
    for i in prange(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


bench = Bench("shared-memory", budget=1 if simulated() else 8)
small = 513
a, b = (rng.random((small, small), dtype=np.float32) for _ in range(2))
c, exact = np.zeros_like(a), a.astype(np.float64) @ b
for name, function in {"NumPy": np.matmul, "Numba, along rows": along_rows}.items():
    bench.time(name, function, a, b, c, n=small)
    assert np.allclose(c, exact, rtol=1e-5), f"{name} is wrong"

# %%

device = best_device()
has_gpu = device.type == "cuda"
n = side if device.type != "cpu" else small
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
            print(f"{name:>14}: {share:6.1%} of torch, model {at_most[name]:6.1%}")
bench.show()

# %%
# With a GPU, compare each step with the model. A step above it had its loads joined by
# the compiler, four numbers in one. A step below it waits for something that the model
# leaves out: addresses to compute, the fetching, loads that nothing hides. On the CPU,
# NumPy's library uses tiles and registers as well.
#
# Where this stops being true
# ---------------------------
#
# - *Tensor cores.* They multiply small matrices as a whole. An H100 computes
#   :spec:`H100 SXM fp32` in ``float32`` without them, :spec:`H100 SXM tf32` with them
#   in TF32 (numbers cut to 10 bits of fraction), :spec:`H100 SXM bf16` in
#   ``bfloat16``. No kernel in Numba uses them. For a plain product call the library.
#   Write a kernel for what it does not have.
# - *Small or thin matrices.* With few outputs, large squares leave multiprocessors
#   without a block. With few columns the product is a matrix-vector product, and
#   memory decides.
# - *Caches.* The column along ``x`` depends on what L1 keeps, and can come close to the
#   tile. Tiles make sure; they do not always win.
# - *The library* does more: loads of four numbers at once, the next tile fetched while
#   this one is used.
#
# Exercise
# --------
#
# For sizes that fit, :math:`2k / RT` loads an output is exact. For others it is not.
# Write a function that tells *how many numbers all threads together read* from global
# memory, for any sizes, ``T`` and ``R``. Places beyond the edge are filled with zeros,
# and read nothing. Here is a start:


def loads(m, k, n, T, R):
    return m * n * 2 * k / (R * T)


# %%
# ``check`` compares with the counts of the trace:

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
            return f"Not yet. {told}. Hint: {hint}."
    return "Right: exactly what the trace counts, for all of them."


print(check(loads))

# %%

# solution


def loads_solution(m, k, n, T, R):
    S = T * R
    blocks_across, blocks_down = -(-n // S), -(-m // S)
    return m * k * blocks_across + k * n * blocks_down


print(check(loads_solution))

# %%
# For sizes that fit, that is the old formula. Now write the kernels yourself. Two
# :doc:`puzzles </tutorials/3_kernels/11_puzzles>` ask for them, and judge every access:
# ``matmul``, and ``transpose``, where you turn a tile around.
#
# Three lines to remember
# -----------------------

plain, tile, each = (
    f"{traces[name].loads_per_output:g}"
    for name in ("column along x", "tile", "4 x 4 each")
)
print(f"1. Loads an output: {plain} plainly, {tile} with a tile of 8 x 8, {each} with")
print("   4 x 4 outputs a thread: 2k / RT.")
print("2. A tile moves the loads nearer, registers make them fewer: as written, at")
print(
    f"   most {at_most['tile']:.0%} and {at_most['8 x 8 each']:.0%} of an H100's peak."
)
print("3. Wait before you use a tile and before you refill it, put zeros beyond the")
print("   edge, round the rounds up, and test with 33.")
