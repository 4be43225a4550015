"""
Shared memory: how do you stop asking for the same number?
==========================================================

You want the product of two matrices on a GPU. You write the :term:`kernel` that
everybody writes first: one thread for each element of the result, with a loop over a
row of :math:`A` and a column of :math:`B`. It's right. Then you call the library, as
PyTorch does, and on the same card that's many times as fast.

**Write down two guesses: how many times as fast, and what does your kernel spend its
time on?** On this page you'll climb from the first kernel towards the library, one step
at a time. The step that you'll need for kernels of your own makes a whole block of
threads share what one of them has fetched, and at the end you'll write it yourself.

**Time:** 17 minutes. **Needs:** any computer, and :doc:`coalescing
</tutorials/3_kernels/05_coalescing>`. With a CUDA GPU, you time each step on it.
"""

# %%
# The ladder
# ----------
#
# Here is one product, of two matrices of 4,096 × 4,096 ``float32`` numbers, five times
# on the same H100. The first four are kernels of this page, compiled by Numba. The
# library is cuBLAS, called by PyTorch.
#
# .. list-table:: One product, five times, on an H100
#    :header-rows: 1
#    :widths: 32 17 17 17 17
#
#    * - kernel
#      - time
#      - of the library
#      - from memory
#      - from tile
#    * - 1: the first try
#      - :timing:`shared-memory median "first try" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory share "first try"/"torch" @nvidia-h100-80gb-hbm3`
#      - 2
#      - 0
#    * - 2: ``while`` in place of ``for``
#      - :timing:`shared-memory median "column along x" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory share "column along x"/"torch" @nvidia-h100-80gb-hbm3`
#      - 2
#      - 0
#    * - 3: with a *tile* of 32 × 32
#      - :timing:`shared-memory median "tile" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory share "tile"/"torch" @nvidia-h100-80gb-hbm3`
#      - 1/16
#      - 2
#    * - 4: tiles of 16 × 16, and 4 × 4 elements each
#      - :timing:`shared-memory median "4 x 4 each" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory share "4 x 4 each"/"torch" @nvidia-h100-80gb-hbm3`
#      - 1/32
#      - 1/2
#    * - 5: the library
#      - :timing:`shared-memory median "torch" @nvidia-h100-80gb-hbm3`
#      - 100 %
#      - ?
#      - ?
#
# The last two columns say how many numbers a thread asks for, whenever it multiplies
# two: from memory, and from a *tile*, which you'll meet soon. The library is
# :timing:`shared-memory speedup "torch"/"first try" @nvidia-h100-80gb-hbm3` as fast as
# the first try: was that your guess?
#
# From line 2 to line 3, a thread asks memory less often, and from line 3 to line 4 the
# tile. So the ladder is a story of asking less often. **But lines 1 and 2 ask equally
# often. Why is one of them so much faster?** Let's begin with line 1.

import numpy as np

from firstlight.kernels import blocks_for, cuda, simulated, trace


@cuda.jit
def first_try(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


# %%
# Each thread reads a row and a column. **For 4,096 × 4,096, how often is each number of
# A read?** Think of all elements of :math:`C` that need it. Then look at a small
# product, 32 × 8 times 8 × 32, whose loads we can count:

a, b, c = (np.ones(shape, np.float32) for shape in ((32, 8), (8, 32), (32, 32)))
plain = trace(first_try, (1, 4), (32, 8), a, b, c)
print("numbers in A and B:", a.size + b.size)
print("numbers loaded:    ", plain.counts("load", "global").sum())

# %%
# Each number is loaded 32 times, because 32 elements of :math:`C` need it. In the large
# product, it's 4,096 times. Surely that's where the time goes?
#
# First, it's something else. Line 2 of the ladder asks for exactly as many numbers.
# Only the loop counts in another way:


@cuda.jit
def column_along_x(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total, k = np.float32(0), 0
        while k < a.shape[1]:
            total += a[row, k] * b[k, column]
            k += 1
        c[row, column] = total


# %%
# On the H100 that's :timing:`shared-memory speedup "column along x"/"first try"
# @nvidia-h100-80gb-hbm3` as fast, and the loads are the same!
#
# With ``for``, the compiler made 36 instructions for each step of this loop. Two of
# them load, and one multiplies and adds. Nearly all the others work out where ``a[row,
# k]`` lies, because ``k`` might be negative, as in ``a[row, -1]``. With ``while`` it
# can't be, and 7.5 instructions are left, on average. (:doc:`Ask the compiler
# </tutorials/3_kernels/10_what_the_compiler_did>` before you rewrite a loop of your
# own. In the tile of line 3, both give the same instructions.)
#
# So the first kernel was busy with instructions that compute nothing. In the second
# one, more than a quarter of them are loads. *Now* the loads are worth a thought: we
# want fewer of them, and from nearby.
#
# One page on the blackboard
# --------------------------
#
# Imagine a class of 64 students. Everybody has to copy some pages of two books, which
# are in the archive. If each of them walks there for each page, the archive is full of
# people who all want the same pages. Instead, each student can fetch *one* page of each
# book, and pin it to the blackboard. When all pages are up, everybody copies from the
# blackboard. Then they take the pages down, and fetch the next ones.
#
# In a GPU, the class is a block of threads, and the blackboard is its *shared memory*,
# a small, fast memory inside the multiprocessor. An array there belongs to one block.
# All its threads see it, no other block does, and it's gone when the block ends. How
# fast is it? An H100 has 132 multiprocessors, and the shared memory of each hands out
# 128 bytes in a clock cycle. Together that's ten times what the card's memory can send,
# with its :spec:`H100 SXM bandwidth`.
#
# .. raw:: html
#    :file: ../../figures/reuse.svg
#
# Here eight threads work on one column of :math:`C`, and all of them need the same
# number of :math:`B`. The arrows out of memory are the slow ones.
#
# The part of a matrix that hangs on the blackboard is called a *tile*. Here a block of
# 8 × 8 threads computes a tile of :math:`C`. It goes along :math:`A` and down :math:`B`
# in rounds, with one tile of each at a time:

# figure

import matplotlib.pyplot as plt

side_of_tile = 8
DRAWN = {  # where it is drawn, rows, columns, tiles as (down, across), their labels
    "A, 17 x 19": ((0, 28), 17, 19, [(1, 0), (1, 1), (1, 2)], "123", "#2e7ab0"),
    "B, 19 x 13": ((28, 0), 19, 13, [(0, 0), (1, 0), (2, 0)], "123", "#2f7d4f"),
    "C, 17 x 13": ((28, 28), 17, 13, [(1, 0)], "Σ", "#b8394b"),
}


def draw(ax, name, corner, high, wide, tiles, labels, colour):
    x, y = corner
    ax.text(x, y - 1, name, size=11)
    ax.add_patch(plt.Rectangle((x, y), wide, high, fill=False, lw=1.5))
    for label, (down, across) in zip(labels, tiles, strict=True):
        over = (down + 1) * side_of_tile > high or (across + 1) * side_of_tile > wide
        look = {"fc": colour, "ec": "black", "hatch": "////" if over else ""}
        left, top = x + across * side_of_tile, y + down * side_of_tile
        ax.add_patch(plt.Rectangle((left, top), side_of_tile, side_of_tile, **look))
        box = {"fc": colour, "ec": "none", "pad": 1}
        ax.text(left + 3, top + 5, label, color="#fefefe", bbox=box)


fig, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
for matrix, about in DRAWN.items():
    draw(ax, matrix, *about)
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
# Write it down
# -------------
#
# Now in code. ``T`` is the side of a tile, and ``tiled(T)`` makes the kernel for it,
# because the shape of a shared array has to be known when a kernel is compiled.


def tiled(T):
    @cuda.jit
    def product(a, b, c):
        a_tile = cuda.shared.array((T, T), np.float32)
        b_tile = cuda.shared.array((T, T), np.float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        column, row = cuda.grid(2)
        total = np.float32(0)
        for first in range(0, a.shape[1], T):
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
# You launch it like this, if :math:`C` has *m* rows and *n* columns:
#
# .. code-block:: python
#
#    tiled(32)[blocks_for((n, m), (32, 32)), (32, 32)](a, b, c)
#
# Read a round as if you were one of the threads:
#
# - *I pin up my two pages.* I fetch one number of each matrix, for the whole block.
# - *I wait.* ``syncthreads`` is a :term:`barrier`. Nobody goes on before all threads of
#   the block are there. Without it, I'd read from places that nobody has filled yet.
# - *I copy.* I multiply a row of one tile by a column of the other. That uses ``2 * T``
#   numbers, and I have fetched only two of them.
# - *I wait again.* Otherwise I might take down a page that a slow neighbour still
#   reads.
# - *If a number would lie beyond the edge*, I pin up a zero, which adds nothing to any
#   sum. Even if my own place in :math:`C` is beyond the edge, I don't leave, because
#   the others need what I pin up.
#
# **What if you forget the second wait: when would you notice?** Guess, with tiles of
# 8 × 8.
#
# With *k* = 8 the product is right, because there's only one round. With *k* = 32, in
# four rounds, it's wrong, and ``trace`` says who met whom:
#
# .. code-block:: none
#
#    a_tile[0, 0]: store by thread 0 …, and load by thread 1 …
#
# Thread 0 was already in its next round, and had taken down a page that thread 1 still
# wanted to copy. That's called a :term:`race`. On a GPU you might even be lucky, and
# find out on another card.
#
# What does a tile save? Let's count again, with tiles of 8 × 8:

shared_by_eight = trace(tiled(8), (4, 4), (8, 8), a, b, c)
print("numbers loaded:", shared_by_eight.counts("load", "global").sum())

# %%
# That's an eighth. Every number that comes from memory is now used by eight threads. In
# general, an element of :math:`C` needs :math:`k` numbers from each matrix, and with
# tiles of side :math:`T` its thread fetches only one in :math:`T`:
#
# .. math::
#
#     \text{loads for each element} = \frac{2k}{T}.
#
# **So which T would you take?** It can't grow forever: a block has at most 1,024
# threads, so 32 × 32 is the largest. With it, the kernel asks memory for only a 32nd of
# the numbers. On the H100 it was :timing:`shared-memory speedup "tile"/"column along x"
# @nvidia-h100-80gb-hbm3` as fast as line 2.
#
# Why isn't it more? For one thing, the :doc:`caches </tutorials/3_kernels/06_caches>`
# had kept many of the numbers by themselves. And now the tile is in the way.

# folded: For the edge, further down: two wrong numbers of rounds, tried


def rounds_down(a, T):
    return a.shape[1] // T * T


def rounds_of_grid(_a, T):
    return cuda.gridDim.x * T


def tiled_until(T, end):
    end = cuda.jit(device=True)(end)

    @cuda.jit
    def product(a, b, c):
        of_a = cuda.shared.array((T, T), np.float32)
        of_b = cuda.shared.array((T, T), np.float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        column, row = cuda.grid(2)
        total = np.float32(0)
        for first in range(0, end(a, T), T):
            inside = row < a.shape[0] and first + tx < a.shape[1]
            of_a[ty, tx] = a[row, first + tx] if inside else np.float32(0)
            inside = first + ty < b.shape[0] and column < b.shape[1]
            of_b[ty, tx] = b[first + ty, column] if inside else np.float32(0)
            cuda.syncthreads()
            for k in range(T):
                total += of_a[ty, k] * of_b[k, tx]
            cuda.syncthreads()
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = total

    return product


# %%

# folded: Each tried on four shapes


def error_of(kernel, m, k, n):
    random = np.random.default_rng(seed=k)
    a, b = (random.uniform(1, 2, s).astype(np.float32) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, dtype=np.float32)
    seen = trace(kernel, blocks_for((n, m), (8, 8)), (8, 8), a, b, c)
    assert not seen.problems, seen.problems[0]
    return np.max(np.abs(c - a.astype(np.float64) @ b)) / k


ways = {
    "as above": tiled(8),
    "// T": tiled_until(8, rounds_down),
    "gridDim.x": tiled_until(8, rounds_of_grid),
}
verdicts = {}
for way, tiles in ways.items():
    for shape in ((8, 8, 8), (8, 32, 8), (8, 33, 8), (5, 11, 9)):
        verdicts[way, shape] = "right" if error_of(tiles, *shape) < 1e-6 else "WRONG"
    told = "".join(f"{said:>8}" for (of, _), said in verdicts.items() if of == way)
    print(f"{way:>10}:{told}")

# %%
# Now the tile is in the way
# --------------------------
#
# What does the tile wait for? Look at the last column of the ladder: for each product,
# a thread reads two numbers from its tile. In one clock cycle, shared memory hands out
# 32 numbers, one for each thread of a warp. So a warp waits two cycles for its two
# numbers. Meanwhile a multiprocessor could have started a multiply-add for *eight*
# warps, four in each cycle. So an eighth of the :spec:`H100 SXM fp32` on the data sheet
# is left. **Divide, before you go on.**
#
# That's 8.4, and our tile reached :timing:`shared-memory rate "tile"
# @nvidia-h100-80gb-hbm3`. (A multiplication and an addition count as two operations.)
#
# The remedy is the same once more: fetch a number, and use it many times. If a thread
# computes 4 × 4 elements, it takes 8 numbers from the tiles for 16 multiply-adds, and
# keeps them in its *registers*, which are even nearer. That's half a number each time,
# in place of two.
#
# Which 4 × 4? Not a patch of neighbours, as you might think, but **one element in each
# of 16 tiles**, so that neighbouring threads still read neighbouring numbers. Here are
# the elements of one thread, in red, with tiles of 8 × 8. For each step of its sum, it
# takes the four blue numbers of :math:`A` and the four green ones of :math:`B`:
#
# .. raw:: html
#    :file: ../../figures/tiles.svg
#
# Now in code, for ``R`` × ``R`` elements a thread. ``fetch`` brings one number into one
# of the ``R`` tiles. ``multiply`` takes ``R`` numbers of B out of the tiles and keeps
# them. Then it takes the numbers of A, one after the other, and multiplies each by all
# that it has kept. **What may this reach, by the same count?**


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
# Around it, the kernel is that of the tile.

# folded: The kernel around it


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
# A thread needs half a number for each multiply-add, in place of two. So it may reach
# half of the data sheet's rate, which is 33.5. On the H100 it was
# :timing:`shared-memory rate "4 x 4 each" @nvidia-h100-80gb-hbm3`, and that's
# :timing:`shared-memory speedup "4 x 4 each"/"tile" @nvidia-h100-80gb-hbm3` as fast as
# the tile. (There ``T`` was 16, so that the 256 threads of a block work on 64 × 64
# elements. That's why it asks memory for half as much, too.)
#
# Why isn't it 33.5?
# ------------------
#
# Count *all* instructions, and not only the loads. In :doc:`the machine code
# </tutorials/3_kernels/10_what_the_compiler_did>`, a thread runs 508 instructions in
# each round, and 256 of them are multiply-adds. **At best, what part of the data
# sheet's rate does that leave?**
#
# Half again! In each cycle, a multiprocessor has four slots: it can start one
# instruction for each of four warps. So to reach 33.5, our kernel would have to fill
# every slot, and keep shared memory busy in every cycle as well.
#
# It didn't. At the rate that we measured, and the card's full clock, a third of the
# slots held a multiply-add. For 256 of those there are 252 other instructions, such as
# loads and addresses, so nearly another third held one of them. **The last third stayed
# empty**, because no warp was ready. There aren't many to choose from: a thread takes
# 72 registers, so only 24 warps fit on a multiprocessor that has room for 64.
#
# What did the warps wait for? The count can't say, but there are two suspects:
#
# - *memory*, because a block waits at its barrier until its next numbers have come. In
#   Nsight Compute's *Warp State Statistics*, that's *Stall Barrier* and *Stall Long
#   Scoreboard*;
# - *shared memory*, which was busy for two thirds of the time itself. That's *Stall
#   Short Scoreboard* and *Stall MIO Throttle*.
#
# We haven't profiled this kernel yet, so we don't know which.

# folded: How each step was launched and checked, and a kernel that is slower still


@cuda.jit
def row_along_x(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total, k = np.float32(0), 0
        while k < a.shape[1]:
            total += a[row, k] * b[k, column]
            k += 1
        c[row, column] = total


from collections import namedtuple

# the threads of a block, how many elements (x, y) it covers, and whether x is the row
Step = namedtuple("Step", "kernel threads covers row_along_x", defaults=(False,))


def square(T, R=1):
    kernel = tiled(T) if R == 1 else register_tiled(T, R)
    return Step(kernel, (T, T), (R * T, R * T))


ladder = {
    "first try": Step(first_try, (32, 8), (32, 8)),
    "row along x": Step(row_along_x, (32, 8), (32, 8), row_along_x=True),
    "column along x": Step(column_along_x, (32, 8), (32, 8)),
    "tile": square(8),
    "4 x 4 each": square(8, 4),
}


def grid_of(step, out):
    sizes = out.shape if step.row_along_x else out.shape[::-1]
    return tuple(map(blocks_for, sizes, step.covers))


def launch(step, *arrays):
    step.kernel[grid_of(step, arrays[-1]), step.threads](*arrays)


left, right = np.ones((5, 11), np.float32), np.full((11, 9), 2, np.float32)
for tried in (*ladder.values(), square(4, 4)):
    answer = np.full((5, 9), np.nan, np.float32)
    noted = trace(
        tried.kernel, grid_of(tried, answer), tried.threads, left, right, answer
    )
    assert not noted.problems, noted.problems[0]
    assert np.all(answer == 22), "a product is wrong"
print(f"all {len(ladder)} are right: no race, nothing out of bounds")

# %%

# folded: How each step was timed, and the library's product through PyTorch

import torch

from firstlight import Bench, best_device

side = 4096
rng = np.random.default_rng(seed=1)
bench = Bench("shared-memory", budget=1 if simulated() else 9)
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

# folded: All times, and the same on your own GPU, in this browser
bench.show()

# %%
# What comes next?
# ----------------
#
# At :timing:`shared-memory share "4 x 4 each"/"torch" @nvidia-h100-80gb-hbm3` of the
# library, our ladder ends. S. Boehm has climbed on, in `How to Optimize a CUDA Matmul
# Kernel`__, in CUDA C++ and on an RTX A6000. His circles and our squares are alike up
# to the tile. (*This GPU* is our H100. *Column along x* is our line 2, and *row along
# x* the same kernel with its grid turned, so that neighbours read numbers that lie a
# whole row apart.)
#
# __ https://siboehm.com/articles/22/CUDA-MMM

# measured figure

BOEHM = {  # operations a second, for 4092 x 4092, on an RTX A6000
    "row along x": 309.0e9,
    "column along x": 1986.5e9,
    "tile": 2980.3e9,
    "8 x 8 each": 15971.7e9,
}
LIBRARY = 23249.6e9
shown = [name for name in climbed if name != "first try"]
places = {name: place for place, name in enumerate(shown)}
fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
look = {"ls": "", "ms": 10, "color": "#2e7ab0"}
theirs = [100 * rate / LIBRARY for rate in BOEHM.values()]
at = [places[name] for name in BOEHM]
ax.plot(at, theirs, "o", mfc="none", mew=1.8, label="RTX A6000 (S. Boehm)", **look)
library = next(each.median for each in bench.timings if each.label == "torch")
own = {each.label: 100 * library / each.median for each in bench.timings}
reached = {name: own[name] for name in shown if name in own}
if reached:
    at = [places[name] for name in reached]
    ax.plot(at, [*reached.values()], "s", label="this GPU", **look)
ax.legend(loc="upper left", frameon=False)
ax.set(ylim=(0, 100), ylabel="% of the library's speed")
ax.set_xticks(range(len(shown)), [name.replace(" along", "\nalong") for name in shown])
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("Each step uses a number more often, once it is there")
fig.set_label(
    "How much of the library's speed each step reaches. S. Boehm, on an RTX A6000: "
    + ", ".join(f"{name} {of:.0f} %" for name, of in zip(BOEHM, theirs, strict=True))
    + "".join(f"; here: {name} {of:.0f} %" for name, of in reached.items())
    + "."
)
plt.show()

# %%
# These are his next steps, for 4,092 × 4,092 numbers. Each row of the table adds one
# thing to the row above:
#
# .. list-table:: The next steps, measured by S. Boehm on an RTX A6000
#    :header-rows: 1
#    :widths: 52 24 24
#
#    * - step
#      - of the library
#      - as fast as above
#    * - 8 × 8 elements a thread
#      - 69 %
#      -
#    * - *wide loads*: four numbers with one instruction
#      - 78 %
#      - 1.14 ×
#    * - *autotuning*: try many sizes of tiles, and take the best
#      - 85 %
#      - 1.08 ×
#    * - *warp tiling*: give each warp a patch of its own in the block's tile
#      - 94 %
#      - 1.10 ×
#
# (The numbers are from `his repository`__.) You can see why wide loads come first: they
# bring as many numbers with fewer instructions, and leave more slots to multiply-adds.
#
# After that come the *tensor cores*, which multiply small matrices in one instruction.
# On our H100, the library with tensor cores took :timing:`shared-memory median "torch,
# TF32" @nvidia-h100-80gb-hbm3`. That's :timing:`shared-memory speedup "torch,
# TF32"/"torch" @nvidia-h100-80gb-hbm3` as fast as without, at the price of :doc:`a few
# digits </tutorials/2_devices/13_precision>`.
#
# So for a plain product, call the library. Write a tile when your kernel isn't in any
# library, and reads the same numbers many times.
#
# __ https://github.com/siboehm/SGEMM_CUDA
#
# .. dropdown:: Why did 8 × 8 elements gain nothing on the H100? And on an A100?
#
#     We expected a gain, because then 16 numbers serve for 64 multiply-adds. But such a
#     thread needs 146 registers, so only one block of 256 threads fits on a
#     multiprocessor, and when its eight warps wait, nobody is left to work. That may be
#     the reason.
#
#     On an A100, a multiprocessor does 64 multiply-adds in a clock cycle, and gets 32
#     numbers from shared memory. So a plain tile should leave a quarter of the card's
#     rate, and 8 × 8 elements should lose nothing. Somebody tried: the tile got a
#     little more than that, and with 8 × 8 elements a sixth was lost after all.
#
#     .. measured-by-others:: tile-a100 eight-a100
#
# .. dropdown:: Why are tiles often 33 numbers wide? Banks
#
#     Number ``w`` of shared memory lies in *bank* ``w % 32``, and each bank gives one
#     number at a time. If a warp reads along a row of a tile, its numbers lie in 32
#     banks, and all come at once. Down a column of a tile that is 32 wide, all lie in
#     the *same* bank, and come one after the other. That's a :term:`bank conflict`. The
#     cure is one more column, which nobody uses: then the numbers of a column lie 33
#     apart, in 32 banks. On an H200, Nsight Compute counted 3,968 passes more for a
#     transpose of 64 × 64 numbers with tiles 32 wide, and with tiles 33 wide none.
#     Without a GPU, ``trace(...).bank_conflicts`` finds them.
#
# Break it: the edge
# ------------------
#
# Matrices in real life don't end where a tile ends. Two mistakes about the number of
# rounds are easily made. One takes ``a.shape[1] // T``
# rounds, rounded down. The other takes ``cuda.gridDim.x`` rounds, the number of blocks
# along a row of :math:`C`. We let these two, and the kernel without its second barrier,
# multiply *m* × *k* numbers by *k* × *n*. **Which choice of m, k and n finds all three
# mistakes?**
#
# .. list-table:: With tiles of 8 × 8
#    :header-rows: 1
#
#    * - kernel
#      - 8 × 8 × 8
#      - 8 × 32 × 8
#      - 8 × 33 × 8
#      - 5 × 11 × 9
#    * - ``product``, as above
#      - right
#      - right
#      - right
#      - right
#    * - ``a.shape[1] // T`` rounds
#      - right
#      - right
#      - wrong
#      - wrong
#    * - ``cuda.gridDim.x`` rounds
#      - right
#      - wrong
#      - wrong
#      - right
#    * - without the second barrier
#      - right
#      - wrong
#      - wrong
#      - wrong
#
# In the first column everybody is right, because one round of full tiles is all it
# takes. Only the third finds them all. **Test a tile with an odd k that's much longer
# than n.** (A fold before *Now the tile is in the way* has the first three kernels.)

# folded: Without the second barrier, on the same four products


@cuda.jit
def without_second_barrier(a, b, c):
    a_tile = cuda.shared.array((8, 8), np.float32)
    b_tile = cuda.shared.array((8, 8), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = np.float32(0)
    for first in range(0, a.shape[1], 8):
        inside = row < a.shape[0] and first + tx < a.shape[1]
        a_tile[ty, tx] = a[row, first + tx] if inside else np.float32(0)
        inside = first + ty < b.shape[0] and column < b.shape[1]
        b_tile[ty, tx] = b[first + ty, column] if inside else np.float32(0)
        cuda.syncthreads()
        for k in range(8):
            total += a_tile[ty, k] * b_tile[k, tx]
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


def with_a_race(m, k, n):
    random = np.random.default_rng(seed=k)
    a, b = (random.uniform(1, 2, s).astype(np.float32) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, dtype=np.float32)
    blocks = blocks_for((n, m), (8, 8))
    races = trace(without_second_barrier, blocks, (8, 8), a, b, c).problems
    return np.max(np.abs(c - a.astype(np.float64) @ b)) / k, races


for shape in ((8, 8, 8), (8, 32, 8), (8, 33, 8), (5, 11, 9)):
    error, _ = with_a_race(*shape)
    verdicts["one barrier", shape] = "right" if error < 1e-6 else "WRONG"
    print(shape, verdicts["one barrier", shape])

# %%
# Your turn
# ---------
#
# You fit a model to your data by least squares, and for that you need :math:`A^T B`.
# Both matrices have a row for each of many measurements. A kernel with tiles can do
# without a transpose, if you choose well who fetches what.
#
# Make ``at_b(a, b, c)`` write ``a.T @ b`` to ``c``, for blocks of 8 × 8 threads. It
# begins as a copy of ``product``, with ``T = 8``, which computes ``a @ b``. The sum now
# runs down the rows of both matrices, so the tiles of :math:`A` go down the matrix, as
# those of :math:`B` do in the picture of the three rounds.
#
# Here is the catch. If each thread fetches the number of :math:`A` that belongs to its
# own row of :math:`C`, neighbours read numbers that lie a whole row apart. So let the
# neighbours in ``x`` fetch neighbours of a row, and find out where in the tile each
# number has to be read afterwards. Change the four marked lines, add one if you like,
# and run ``firstlight try 07_shared_memory.py``. The check counts your loads.


@cuda.jit
def at_b(a, b, c):
    a_tile = cuda.shared.array((8, 8), np.float32)
    b_tile = cuda.shared.array((8, 8), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = np.float32(0)
    for first in range(0, a.shape[1], 8):  # your turn
        inside = row < a.shape[0] and first + tx < a.shape[1]  # your turn
        a_tile[ty, tx] = a[row, first + tx] if inside else np.float32(0)  # your turn
        inside = first + ty < b.shape[0] and column < b.shape[1]
        b_tile[ty, tx] = b[first + ty, column] if inside else np.float32(0)
        cuda.syncthreads()
        for k in range(8):
            total += a_tile[ty, k] * b_tile[k, tx]  # your turn
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


# %%

# folded: What check does: it traces your kernel on awkward shapes


def find_problem(kernel, k, m, n):
    random = np.random.default_rng(k)
    a, b = (random.uniform(1, 2, (k, side)).astype(np.float32) for side in (m, n))
    c = np.zeros((m, n), np.float32)
    try:
        seen = trace(kernel, blocks_for((n, m), (8, 8)), (8, 8), a, b, c, limit=10**6)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if seen.out_of_bounds:
        return f"{seen.out_of_bounds[0]}. Is there a guard for each load?"
    if seen.problems:
        return f"{seen.problems[0]}. Are there two barriers in each round?"
    wrong = np.abs(c - a.T.astype(np.float64) @ b) > 1e-6 * 4 * k
    if wrong.any():
        y, x = np.argwhere(wrong)[0]
        should = float(a[:, y].astype(np.float64) @ b[:, x])
        return f"c[{y}, {x}] is {c[y, x]:.4f}, and should be {should:.4f}."
    loads, allowed = seen.counts("load", "global").sum(), 2 * k * m * n // 8
    if k % 8 == m % 8 == n % 8 == 0:
        if loads > allowed:
            return f"it loads {loads:,} numbers, and with tiles it takes {allowed:,}."
        for name, count in seen.sectors_per_load.items():
            if count > 4:
                return f"{name} is read in {count:.0f} sectors at a time, not in 4."
    return ""


def check(kernel):
    for k, m, n in ((8, 8, 8), (24, 16, 8), (33, 8, 8), (11, 5, 9), (3, 17, 10)):
        if problem := find_problem(kernel, k, m, n):
            return f"Not yet. {k} measurements, {m} and {n} columns: {problem}"
    return "Right: each number is fetched once for eight threads, along the rows."


# %%

print(check(at_b))

# %%
# Three lines to remember
# -----------------------

# remember

before, after = (one.counts("load", "global").sum() for one in (plain, shared_by_eight))
print(f"""\
1. Fetch a tile together, and use each number T times: with 8 x 8 threads, {after:,}
   loads in place of {before:,}. Without reuse, a tile gains nothing.
2. Wait before you use a tile, and before you refill it. Threads beyond the edge put a
   zero, and wait like all the others.
3. Test with sizes that don't fit, and an odd k much longer than n. And for a plain
   product, call the library.""")

# %%
# Solution
# --------

# solution


@cuda.jit
def at_b_solution(a, b, c):
    a_tile = cuda.shared.array((8, 8), np.float32)
    b_tile = cuda.shared.array((8, 8), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    fetched = 8 * cuda.blockIdx.y + tx  # the column of A, for whoever needs it
    total = np.float32(0)
    for first in range(0, a.shape[0], 8):
        inside = first + ty < a.shape[0] and fetched < a.shape[1]
        a_tile[ty, tx] = a[first + ty, fetched] if inside else np.float32(0)
        inside = first + ty < b.shape[0] and column < b.shape[1]
        b_tile[ty, tx] = b[first + ty, column] if inside else np.float32(0)
        cuda.syncthreads()
        for k in range(8):
            total += a_tile[k, ty] * b_tile[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


print(f"Our solution: {check(at_b_solution)}")
