"""
Which thread takes which pixel?
===============================

An image has rows and columns. A grid of threads can have two axes, too, called x and y.
Which of them is the column? There is one good answer. The other gives the right image
as well, and a kernel that keeps the memory of a GPU busy for nothing. A mixture of both
passes every test with a square image. Here you lay a grid over an image, see all three,
and find out what a GPU does with more blocks than it has room for.

**You will learn**

- to lay a grid of threads over an image of any shape, and to see where it fails;
- why x is the column, what a wrong choice costs, and how to choose the block;
- when a thread should take more than one pixel, in a *grid-stride loop*;
- in what order blocks run, what the last few cost, and why none may wait for another.

**Time:** 20 minutes. **Needs:** any computer, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`. With a CUDA GPU, the kernels run on it.
"""

# %%
# Predict
# -------
#
# You will smooth an image: each pixel becomes the mean of itself and its eight
# neighbours. A thread takes one pixel. The image has 29 rows and 43 columns, and a
# block has 16 threads along x and 8 along y. Write down your answers:
#
# - How many blocks do you need, along each axis? How many threads have no pixel?
# - A thread reads nine pixels and writes one. How many bytes must come from memory or
#   go there for each pixel of a *large* image, at the least?
# - A GPU runs threads in *warps* of 32. Memory comes in pieces of 32 bytes. How many
#   pieces does a warp read if its 32 pixels stand side by side? And if each stands
#   below the one before?
#
# The answer to the second is 8. Each pixel is read by nine threads, but it comes from
# memory once, and then from a cache. Once read and once written, 4 bytes each:

from firstlight.measure.specs import spec

LARGE = (8_191, 8_193)  # rows and columns
for card in ("GTX 1650", "RTX 4090", "H100 SXM"):
    floor = 8 * LARGE[0] * LARGE[1] / spec(card, "bandwidth")
    print(f"{card:>8}: never under {1e3 * floor:.2f} ms")

# %%
# The image, and the right answer
# -------------------------------
#
# At the border neighbours are missing. So the image first gets a frame, one pixel wide,
# that repeats its edge (``np.pad``). The test image has a star off its centre and the
# trail of a satellite: turn it, mirror it or swap its axes, and you see it.

import numpy as np

from firstlight.kernels import blocks_for, cuda, ptx, simulated, trace

rng = np.random.default_rng(seed=1)


def night_sky(rows, columns):
    y, x = np.ogrid[:rows, :columns]
    star = np.exp(-((y - 0.25 * rows) ** 2 + (x - 0.75 * columns) ** 2) / 20)
    trail = np.abs(y + 0.4 * x - 0.9 * rows) < 1
    sky = star + 0.6 * trail + rng.normal(0.2, 0.1, (rows, columns))
    return np.pad(sky.astype(np.float32), 1, mode="edge")


def smooth_numpy(framed, out):
    rows, columns = out.shape
    out[:] = 0
    for down in range(3):
        for right in range(3):
            out += framed[down : down + rows, right : right + columns]
    out /= 9


# %%
# In ``float64``, every kernel below has to agree with this. Here is the first.
# ``cuda.grid(2)`` gives the place of a thread along x and along y: for each
# axis the number of its block, times the threads of a block, plus its own number. The
# mean stands in a *device function*, which kernels can call. (The frame moves each
# pixel on by one, so the first of its nine is at ``framed[row, column]``.)

NINTH = np.float32(1 / 9)


@cuda.jit(device=True)
def mean_around(framed, row, column):
    total = np.float32(0)
    for down in range(3):
        for right in range(3):
            total += framed[row + down, column + right]
    return total * NINTH


@cuda.jit
def smooth(framed, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = mean_around(framed, row, column)


# %%
# Two orders meet in this kernel. CUDA says x first, then y. NumPy says row first, then
# column. So x is the *column*, ``out.shape[1]``. For the launch, turn the shape around
# as well: blocks along x are blocks for the columns.
#
# Three grids
# -----------
#
# The first grid is right. The second was made from the shape as NumPy gives it. In the
# third, somebody divided without rounding up. All three run the kernel above.

BLOCK = (16, 8)  # threads along x, along y


def grids_for(rows, columns):
    return {
        "right": blocks_for((columns, rows), BLOCK),
        "axes swapped": blocks_for((rows, columns), BLOCK),
        "rounded down": (max(1, columns // BLOCK[0]), max(1, rows // BLOCK[1])),
    }


def run(kernel, blocks, framed, block=BLOCK, launches=1):
    rows, columns = framed.shape[0] - 2, framed.shape[1] - 2
    out = cuda.to_device(np.full((rows, columns), np.nan, dtype=np.float32))
    for _ in range(launches):
        kernel[blocks, block](cuda.to_device(framed), out)
    return out.copy_to_host()


framed = night_sky(29, 43)
pictures = {name: run(smooth, grid, framed) for name, grid in grids_for(29, 43).items()}
across, down = grids_for(29, 43)["right"]
print(f"{across} × {down} blocks, {across * down * 128 - 29 * 43} threads too many")

# %%
# That is the first answer. The threads too many cost little: a warp with no pixel at
# all ends right after the guard. The output began as NaN everywhere, "not a number", so
# a pixel that nobody wrote can be seen. In the figure it is hatched, and lines are the
# borders of blocks.

import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 3, figsize=(5.6, 2.2), sharey=True, layout="constrained")
for ax, (name, blocks) in zip(axes, grids_for(29, 43).items(), strict=True):
    ax.add_patch(plt.Rectangle((-0.5, -0.5), 43, 29, fill=False, hatch="////"))
    ax.imshow(pictures[name], cmap="Blues_r", vmin=0, vmax=1, zorder=2)
    for x, y in np.ndindex(blocks):
        border = (x * 16 - 0.5, y * 8 - 0.5), 16, 8
        ax.add_patch(plt.Rectangle(*border, fill=False, ec="#d9762b", zorder=3))
    ax.set(xlim=(-1.5, 48.5), ylim=(48.5, -1.5), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_title(f"{name}:\n{blocks[0]} × {blocks[1]} blocks", size=10)
axes[0].text(-0.5, 37, "x: column →")
axes[0].text(-5, 0, "y: row →", rotation=-90, va="top")
missing = {name: int(np.isnan(picture).sum()) for name, picture in pictures.items()}
fig.set_label(
    "A smoothed image with a star and a trail, under three grids of blocks. The first "
    f"covers it. With axes swapped, {missing['axes swapped']} pixels at the right are "
    f"hatched, as nobody wrote them, and blocks stand below the image. Rounded down, "
    f"{missing['rounded down']} pixels at the right and below are hatched."
)
plt.show()

# %%
# Check
# -----
#
# Every kernel is launched twice on odd sizes, and compared with ``float64``. And which
# shapes notice that a *grid* is wrong?


def verdict(out, framed):
    exact = np.zeros(out.shape)
    smooth_numpy(framed.astype(np.float64), exact)
    if np.isnan(out).any():
        return f"{np.isnan(out).sum()} missing"
    return "right" if np.max(np.abs(out - exact)) < 1e-6 else "WRONG"


def verdict_on(kernel, blocks, framed, *more):
    return verdict(run(kernel, blocks, framed, *more), framed)


for shape in ((1, 1), (9, 17), (17, 5)):
    sky, blocks = night_sky(*shape), grids_for(*shape)["right"]
    print(f"{shape}: {verdict_on(smooth, blocks, sky, BLOCK, 2)}")

square = night_sky(16, 16)
print("grid          16 × 16  29 × 43")
for name, blocks in grids_for(16, 16).items():
    here = verdict_on(smooth, blocks, square), verdict(pictures[name], framed)
    print(f"{name:<14}{here[0]:<9}{here[1]}")

# %%
# A square whose sides are multiples of the block finds nothing. So test with two odd
# sides that differ.
#
# Why x is the column
# -------------------
#
# Somebody writes ``row, column = cuda.grid(2)``, as it sounds natural, and turns the
# grid of blocks around, too. Both mistakes together are none:


@cuda.jit
def smooth_turned(framed, out):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = mean_around(framed, row, column)


for shape in ((1, 1), (9, 17)):
    said = verdict_on(smooth_turned, blocks_for(shape, BLOCK), night_sky(*shape))
    print(f"{shape}: {said}")

# %%
# Every pixel is right, on every shape. What differs is *which* 32 pixels a warp takes.
# CUDA numbers the threads of a block along x first, then y, and 32 in a row are a warp.
# NumPy stores an image row by row: the next column is 4 bytes on, the next row is a
# whole row on. So with x as the column, the threads of a warp stand side by side in
# memory. With x as the row, each reads from another row.
#
# ``trace`` runs a kernel and notes every address. Here it follows one block of 256
# threads, of several shapes, in the middle of a larger image. It counts the pieces of
# 32 bytes that a warp's load touches, the bytes that the block asks of the L2 cache
# (where neighbours from *other* blocks meet), and *L1 lines*: how often L1, the cache
# beside a multiprocessor, must hand out one of its lines of 128 bytes.

BIG = np.zeros((600, 723), dtype=np.float32)  # odd, so rows begin anywhere


def cost(kernel, block):
    high, wide = block if kernel is smooth_turned else block[::-1]
    part = BIG[256 : 256 + high + 2, 256 : 256 + wide + 2]
    out = np.zeros((600, 721), dtype=np.float32)[256 : 256 + high, 256 : 256 + wide]
    traced = trace(kernel, 1, block, part, out)
    assert not traced.problems
    return {
        "pieces": traced.sectors_per_load["framed"],
        "L2": 32 * traced.traffic.l2_sectors / 256,
        "L1": traced.traffic.l1_wavefronts / 256,
    }


costs = {"{} × {}".format(*b): cost(smooth, b) for b in ((256, 1), (32, 8), (16, 16))}
costs["turned"] = cost(smooth_turned, (32, 8))
print("for a        load    pixel     pixel\nblock      pieces L2 bytes  L1 lines")
for name, of in costs.items():
    print(f"{name:<10}{of['pieces']:>7.1f}{of['L2']:>9.1f}{of['L1']:>10.2f}")

# %%
# - *Pieces*: 32 ``float32`` fill 4 of them, or 5 if they begin askew. The turned kernel
#   touches 32 and uses an eighth of each. Its other seven eighths wait in L1 for the
#   next threads, if there is room; but L1 has many times the lines to hand out.
# - *L2 bytes*: 8 would be the least. A block also reads the frame around its pixels,
#   and a long, flat block has the most frame: three rows for one.
#
# So 32 × 8 is a good block for an image: as wide as a warp, and not flat. What the
# others lose depends on the card; the measurement below has them.
# :doc:`/tutorials/3_kernels/03_coalescing` goes deeper. (Where a pixel needs no
# neighbours, forget the axes. A whole image in memory is one long line: lay a grid with
# one axis over ``image.reshape(-1)``.)
#
# A grid of any size
# ------------------
#
# So far the grid had to fit the image. A *grid-stride loop* frees you from that: a
# thread takes its pixel, then goes on by the size of the whole grid, until it leaves
# the image. The loop is the guard as well.


@cuda.jit
def smooth_any_grid(framed, out):
    first_column, first_row = cuda.grid(2)
    columns_at_once, rows_at_once = cuda.gridsize(2)
    for row in range(first_row, out.shape[0], rows_at_once):
        for column in range(first_column, out.shape[1], columns_at_once):
            out[row, column] = mean_around(framed, row, column)


sky = night_sky(13, 21)
for blocks in ((1, 1), (2, 1), (3, 4)):
    said = verdict_on(smooth_any_grid, blocks, sky, BLOCK, 2)
    print(f"{blocks[0]} × {blocks[1]} blocks: {said}")

# %%
# Any grid gives the right image. It is worth it when
#
# - the grid cannot fit: CUDA allows :math:`2^{31} - 1` blocks along x, but only 65 535
#   along y and along z, the third axis;
# - a thread has something to prepare, and many pixels to use it for;
# - you want a number of blocks that suits the *GPU*, not the image (the next section);
# - you want one block, or one thread, to find a mistake.
#
# It is not free: the compiler needs more registers for the loop (you will see), and too
# small a grid leaves a GPU idle. For an image of ordinary size, one pixel a thread is a
# fine beginning.
#
# More blocks than multiprocessors
# --------------------------------
#
# The course notebook that :doc:`counted the cores of its GTX 1650
# </tutorials/1_setup/03_what_is_a_gpu>` launches 98 blocks of 1024 threads, and calls
# it a "confusing situation", as the card has 16 multiprocessors. It explains: blocks
# are queued, and each multiprocessor gets 6 or 7 of them. A thread "will run on one
# core", there are 32 cores in a multiprocessor, and "only 32 threads will run at the
# same time". Test the last one first. This kernel turns an array around in place. Each
# thread takes a number, *waits until all have one*, and puts it down elsewhere:


@cuda.jit
def turn_around(line):
    i = cuda.threadIdx.x
    mine = line[i]
    cuda.syncthreads()  # a barrier: nobody goes on until the whole block is here
    line[line.size - 1 - i] = mine


line = np.arange(1024)
traced = trace(turn_around, 1, 1024, line)
wrong = np.sum(line != np.arange(1024)[::-1])
print(f"turn_around: {wrong} of 1024 wrong; races found: {len(traced.races)}")

# %%
# Nobody passes the barrier until all 1024 threads have come to it, each with its own
# ``mine``. CUDA allows it in any block of up to 1024 threads. So *every multiprocessor
# holds at least 1024 threads at the same time*. What is there for 32 is something else:
#
# - A block goes to one multiprocessor, once that has room for all of it. It stays there
#   until its last thread is done. This part of the notebook is right.
# - The multiprocessor divides the block into warps. That card's has `four
#   schedulers`__. In each clock, a scheduler takes one of its warps that is ready, and
#   starts its next instruction for all 32 threads together.
# - So a thread does not queue for a core, and does not keep one. The "cores", 64 and
#   not 32 in that card's multiprocessors, are lanes for arithmetic.
#
# __ https://docs.nvidia.com/cuda/turing-tuning-guide/index.html#instruction-scheduling
#
# The last wave
# -------------
#
# What about "6 or 7 blocks"? Nobody hands them out in advance: the next block goes to
# whichever multiprocessor is free first. So it is an average, not a rule. (On that
# card, one block of 1024 threads fills a multiprocessor.) If all blocks take equally
# long, it looks like this:

fig, ax = plt.subplots(figsize=(5.6, 2.6), layout="constrained")
for block in range(98):
    wave, number = divmod(block, 16)
    colour = ("#2e7ab0", "#8fbfe0")[wave % 2]
    ax.barh(number, 1, 1, left=wave, fc=colour, ec="black", lw=0.6)
idle_area = plt.Rectangle((0, -0.5), 7, 16, fill=False, hatch="////", lw=0, zorder=0)
ax.add_patch(idle_area)
ax.set_title("model: 98 equal blocks on 16 multiprocessors", size=11, loc="left")
ax.set(ylim=(15.5, -0.5), yticks=[0, 15], xlim=(0, 7.2))
ax.set(xlabel="time, in blocks", ylabel="multiprocessor")
fig.set_label(
    "A model of 98 blocks of equal length on 16 multiprocessors, a row each. There are "
    "six full columns, and a seventh in which only two of 16 have a block."
)
plt.show()

# %%
# Six *waves* fill the card, and the seventh has two blocks. The other 14
# multiprocessors wait, hatched. That is the *tail effect*. (A wave is `a way to
# count`__: blocks of uneven length are begun one by one, and have an uneven end.) With
# :math:`N` multiprocessors,
#
# .. math::
#
#     \text{in use} = \frac{\text{blocks} / N}
#     {\lceil \text{blocks} / N \rceil}.
#
# __ https://forums.developer.nvidia.com/t/cuda-pro-tip-minimize-the-tail-effect/148448


def in_use(blocks, multiprocessors):
    return blocks / multiprocessors / np.ceil(blocks / multiprocessors)


print("blocks   GTX 1650: 16   H100: 132 multiprocessors")
for blocks in (98, 133, 500, 2000):
    print(f"{blocks:>6}{in_use(blocks, 16):>12.0%}{in_use(blocks, 132):>12.0%} in use")

# %%
# 98 large blocks cannot fill an H100 at all. One block more than its multiprocessors
# can hold costs up to a whole wave. The more waves, the less the last one weighs: from
# ten on, you may forget the tail. (Where one multiprocessor has room for several
# blocks, and they wait for memory, :math:`N` counts the places of all of them.)
#
# On a GPU, you can measure it. Each block of the next kernel has 1024 threads that only
# calculate. That keeps all lanes of a multiprocessor busy, so that two blocks on one
# take as long together as one after the other.


@cuda.jit
def busy(out, steps):
    i = cuda.grid(1)
    if i < out.size:
        x = np.float32(i)
        for _ in range(steps):
            x = x * np.float32(0.5) + np.float32(0.5)  # goes to 1
        out[i] = x


out = cuda.to_device(np.full(33, np.nan, dtype=np.float32))
busy[2, 32](out, 64)
assert np.all(out.copy_to_host() == 1), "busy is wrong"

# %%

import torch

from firstlight import Bench, best_device
from firstlight.devices import card as card_of

device = best_device()
has_kernel = device.type == "cuda" and not simulated()
bench = Bench("grids", budget=24 if has_kernel else 1)
if has_kernel:
    N = card_of(device).multiprocessors
    one, out, steps = 1.0, cuda.device_array(4 * N * 1024, dtype=np.float32), 50_000
    for count in sorted({N, N + 1, 3 * N // 2, 2 * N, 2 * N + 1, 4 * N}):
        work = {"n": count, "flops": 2 * 1024 * count * steps, "device": "cuda:0"}
        time = bench.time("busy", busy[count, 1024], out, steps, **work).median
        one = time if count == N else one  # N blocks come first, and are one wave
        used = count / N * one / time
        print(f"{count} blocks: {used:.0%} in use, model {in_use(count, N):.0%}")

# %%
# No block may wait for another
# -----------------------------
#
# The model began the blocks in the order of their numbers. CUDA promises no order:
# blocks must be able to run `in any order, in parallel or in series`__. Here is a
# kernel that forgets this. Each row of an image has a count of bright pixels, and you
# want their running total. A block (of one thread) takes a row, and adds its count to
# what the block before it wrote. ``order`` lets you decide which block comes when.
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/index.html#thread-hierarchy


@cuda.jit
def running_total(counts, totals, order):
    block = order[cuda.blockIdx.x]
    before = totals[block - 1] if block > 0 else 0
    totals[block] = before + counts[block]


bright = np.sum(framed[1:-1, 1:-1] > 0.3, axis=1)
in_order = np.arange(bright.size)
orders = {"in order": in_order, "backwards": in_order[::-1].copy()}
wrong_totals = {}
for name, order in orders.items():
    totals = cuda.to_device(np.zeros_like(bright))
    running_total[bright.size, 1](cuda.to_device(bright), totals, cuda.to_device(order))
    wrong_totals[name] = int(np.sum(totals.copy_to_host() != np.cumsum(bright)))
    print(f"{name:>9}: {wrong_totals[name]} of {bright.size} rows wrong")

# %%
# The simulator runs block 0 to its end, then block 1. So there the first line is right,
# as often as you like. A GPU starts many blocks at once, and nobody knows what it
# prints there. ``trace`` finds the mistake in a single run, since it asks what is
# *certain* to come before what:

from textwrap import fill

traced = trace(running_total, bright.size, 1, bright, np.zeros_like(bright), in_order)
print(fill(str(traced.races[0]), 84))

# %%
# Could a block wait, in a loop, until the one before it has written? That is worse. If
# blocks that wait hold every place, the one they wait for never gets one, and the
# launch never ends. What you can do:
#
# - End the kernel. A second launch in the same queue begins when all blocks of the
#   first are done: totals within blocks first, then what comes before each block.
# - If the order does not matter, use an *atomic* operation, which changes a number so
#   that nobody can come between reading and writing.
#
# How large a block?
# ------------------
#
# The notebook takes 1024 threads, as many as CUDA allows. A block goes to a
# multiprocessor as a whole or not at all. What one can hold has `several limits`__: so
# many threads, so many blocks, and 65 536 registers. How many registers a thread needs,
# the compiler tells, here for compute capability 7.5 (the GTX 1650) and 8.9 (the RTX
# 4090).
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/index.html#compute-capabilities

TYPES = "float32[:, ::1], float32[:, ::1]"
# Where there is no compiler: what numba-cuda 0.30.4 needed.
RECORDED = {"smooth": (44, 38), "smooth_any_grid": (54, 48)}


def registers_of(kernel):
    try:
        both = [ptx.compile(kernel, TYPES, cc) for cc in ((7, 5), (8, 9))]
        return tuple(made.registers for made in both)
    except ptx.NoCompilerError:
        return RECORDED[kernel.__name__]


ROOM = {"7.5": (1024, 16), "8.9": (1536, 24)}  # threads, blocks
registers = {k.__name__: registers_of(k) for k in (smooth, smooth_any_grid)}
for name, needs in registers.items():
    print(f"{name:>15}, registers: {needs}")
for threads in (32, 256, 1024):
    parts = {c: min(m // threads, b) * threads / m for c, (m, b) in ROOM.items()}
    shown = ", ".join(f"{part:.0%} on {name}" for name, part in parts.items())
    print(f"blocks of {threads:>4} threads fill up to {shown}")

# %%
# - 32 threads: the limit on *blocks* comes first, and half the places are empty.
# - 1024 threads: on 8.9, a third stays empty. And as they share the registers, a kernel
#   that needs more than 64 of them cannot be launched at all.
# - No multiple of 32, such as 100: the last warp of each block is mostly empty.
#
# So the default is 128 or 256 threads, for images 32 × 4 or 32 × 8; then measure. (How
# full a multiprocessor is, is called *occupancy*. It is not speed:
# :doc:`/tutorials/3_kernels/08_bytes_in_flight` shows why.)
#
# Measure
# -------
#
# The same smoothing with NumPy, with Numba on all cores of the CPU, with PyTorch (whose
# ``avg_pool2d`` has its name from neural networks), and with the kernels above. Triton
# has a page of its own, and no row here. In the simulator, the kernel has a small image
# and no time.

from torch.nn.functional import avg_pool2d

from numba import njit, prange


@njit(parallel=True)
def smooth_on_cores(framed, out):
    for row in prange(out.shape[0]):
        for column in range(out.shape[1]):
            total = np.float32(0)
            for down in range(3):
                for right in range(3):
                    total += framed[row + down, column + right]
            out[row, column] = total * NINTH


# %%

rows, columns = LARGE if has_kernel else (1_023, 1_025)
image = np.pad(rng.random((rows, columns), dtype=np.float32), 1, mode="edge")
exact = np.zeros((rows, columns))
smooth_numpy(image.astype(np.float64), exact)
out = np.zeros((rows, columns), dtype=np.float32)
size = {"n": rows * columns}
if device.type != "cpu":
    size["bytes"] = 8 * rows * columns  # for the rate, and its part of the roof


def assert_right(label, result):
    for part in range(0, rows, 512):
        worst = np.max(np.abs(result[part:][:512] - exact[part:][:512]))
        assert worst < 1e-6, f"{label} is wrong by {worst:.1e}"


# %%

for label, way in (("NumPy", smooth_numpy), ("Numba, all cores", smooth_on_cores)):
    out[:] = np.nan
    bench.time(label, way, image, out, **size)
    assert_right(label, out)
for place in dict.fromkeys(("cpu", str(device))):
    there = torch.from_numpy(image)[None, None].to(place)
    bench.time("torch, avg_pool2d", avg_pool2d, there, 3, 1, device=place, **size)
    assert_right("torch", avg_pool2d(there, 3, 1)[0, 0].cpu().numpy())

wide, high = blocks_for((columns, rows), (32, 8))
WAYS = {  # a name: the kernel, its blocks, its threads
    "kernel, 32 × 8": (smooth, (wide, high), (32, 8)),
    "kernel, 16 × 16": (smooth, blocks_for((columns, rows), (16, 16)), (16, 16)),
    "kernel, turned": (smooth_turned, blocks_for((rows, columns), (32, 8)), (32, 8)),
    "kernel, 4 a thread": (smooth_any_grid, (wide, blocks_for(high, 4)), (32, 8)),
}

# %%

if has_kernel:
    d_image = cuda.to_device(image)
    for label, (kernel, blocks, block) in WAYS.items():
        d_out = cuda.to_device(np.full_like(out, np.nan))
        launch = kernel[blocks, block]
        bench.time(label, launch, d_image, d_out, device="cuda:0", **size)
        assert_right(label, d_out.copy_to_host())
else:
    d_image = cuda.to_device(night_sky(7, 31))
    d_out = cuda.to_device(np.zeros((7, 31), dtype=np.float32))
    work = {"n": 7 * 31, "device": "cpu" if simulated() else "cuda:0"}
    bench.time("kernel, 32 × 8", smooth[(1, 1), (32, 8)], d_image, d_out, **work)
bench.show()

# %%
# On the CPU, compare the first two rows. NumPy goes over the whole image nine times,
# and more for the sum; the compiled loop goes over it once, on all cores.
#
# With a GPU: does a block of 16 × 16 lose anything on this card, how much does the
# turned kernel lose, and do several pixels a thread gain anything? (The rows of
# ``busy`` belong to the tail effect; their *n* is the number of blocks.)
#
# .. note::
#
#    Measured on the newest GPU on record:
#    :timing:`grids median "kernel, 32 × 8/cuda:0/n=67108863" @gpu` with x as the
#    column, :timing:`grids median "kernel, turned/cuda:0/n=67108863" @gpu` with x as
#    the row.
#
# Where this stops being true
# ---------------------------
#
# - *Another order in memory.* After ``np.asfortranarray`` the numbers of a column lie
#   together. Then x should be the row. The rule is not "x is the column" but "x goes
#   where memory goes".
# - *Small images.* Below some size, a launch costs more than its work
#   (:doc:`/tutorials/2_devices/02_queues`), and neither the block nor the tail matters.
# - *Blocks that know each other.* In *clusters* and *cooperative* launches, blocks run
#   at the same time, if there is room for all. You have to ask for it.
# - *Other makers.* AMD's groups of threads have 32 or 64, Apple's 32. The numbers of
#   multiprocessors and what they hold differ. The order in memory does not.
#
# Exercise
# --------
#
# Write the function behind every launch on this page: from the shape of an image as
# NumPy gives it, and the threads of a block along x and along y, the grid.


def grid_for(shape, block): ...


# %%
# ``check`` tries shapes that a wrong answer gets wrong, and says what would happen.


def check(answer):
    cases = [((64, 96), (32, 8)), ((37, 53), (16, 8)), ((53, 37), (16, 8))]
    cases += [((1, 1), (32, 8)), ((8, 33), (32, 8)), ((1025, 7), (4, 64))]
    for shape, block in cases:
        call, right = f"grid_for({shape}, {block})", blocks_for(shape[::-1], block)
        try:
            got = answer(shape, block)
        except Exception as error:
            return f"Not yet: {call} raised {type(error).__name__}: {error}"
        whole = isinstance(got, tuple) and len(got) == 2
        if not whole or not all(isinstance(n, (int, np.integer)) for n in got):
            return f"Not yet: {call} gave {got!r}; it has to give two whole numbers"
        if got in (right[::-1], blocks_for(shape, block)) and got != right:
            hint = "x goes along the columns. NumPy's shape has the rows first"
        elif got[0] < right[0] or got[1] < right[1]:
            hint = "some pixels have no thread. Round up, in both axes"
        else:
            hint = "some blocks have no pixel at all. An exact multiple needs none more"
        if got != right:
            return f"Not yet: {call} gave {got}: {hint}."
    return "Right: every pixel has a thread, and no block is for nothing."


print(check(grid_for))

# %%

# solution


def grid_for_solution(shape, block):
    rows, columns = shape
    wide, high = block
    return (columns + wide - 1) // wide, (rows + high - 1) // high


print(check(grid_for_solution))

# %%
# For more practice there are :doc:`puzzles </tutorials/3_kernels/11_puzzles>`, each
# with a judge that runs your kernel: try ``image``, then ``stride``.
#
# Three lines to remember
# -----------------------

by = costs["32 × 8"]["pieces"], costs["turned"]["pieces"]
print("1. x goes where memory goes: column, row = cuda.grid(2), shape turned around.")
print(f"   A warp then loads {by[0]:.1f} pieces of memory; the other way {by[1]:.0f}.")
print(
    "2. Test with two odd sides that differ: on a square, the swapped grid was right;"
)
print(f"   on 29 × 43 it left out {missing['axes swapped']} pixels.")
print("3. Blocks run in any order, each to its end. Have many more of them than")
print(
    f"   multiprocessors: 98 on 16 leave {1 - in_use(98, 16):.0%} of the time unused."
)
