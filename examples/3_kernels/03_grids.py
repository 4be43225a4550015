"""
Which thread takes which pixel?
===============================

For people who have written a first :term:`kernel` and now have an image. A :term:`grid`
of :term:`threads <thread>` can have up to three axes; for an image you use two, x and
y. Let **x be the column** and y the row, and round the number of :term:`blocks <block>`
up along both. A grid that was made from ``image.shape`` as NumPy gives it has its axes
swapped, and is still right for every square: so test with odd sides, one much longer
than the other.

**You will learn**

- to lay a grid of threads over an image of any shape, and to see where it fails;
- what ``blockDim``, ``gridDim``, ``cuda.grid`` and ``cuda.gridsize`` say;
- why x is the column, and what a wrong choice costs;
- to let a thread take more than one pixel, in a :term:`grid-stride loop`.

**Time:** 10 minutes. **Needs:** any computer, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`. With a CUDA GPU, the kernels run on it and
are timed; without one, they run in a :term:`simulator`, which has no times.
"""

# %%
# A kernel for an image
# ---------------------
#
# You will smooth an image: each pixel becomes the mean of itself and its eight
# neighbours. A thread takes one pixel. ``cuda.grid(2)`` gives the place of a thread
# along x and along y: along each axis, block number times block size, plus the thread's
# number in the block. The mean is computed in a *device function*, which kernels can
# call. (The image has a frame, one pixel wide, so that pixels at the border have
# neighbours. So pixel ``[row, column]`` is ``framed[row + 1, column + 1]``, and the
# first of its nine is ``framed[row, column]``.)

import numpy as np

from firstlight.kernels import blocks_for, cuda, simulated, trace

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
# column. So x is the *column*, ``out.shape[1]``. For the :term:`launch`, turn the shape
# around as well: blocks along x are blocks for the columns.
#
# Three grids
# -----------
#
# An image has 29 rows and 43 columns, and a block has 16 threads along x and 8 along y.
# How many blocks do you need along each axis? Below, the first grid is right. The
# second was made from the shape as NumPy gives it. In the third, somebody divided
# without rounding up.

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


# %%

# folded: A test image without symmetry, and the right answer in NumPy

rng = np.random.default_rng(seed=1)


def night_sky(rows, columns):
    """Return a star off its centre and the trail of a satellite, in a frame."""
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
# All three grids run the same kernel. The output began as :term:`NaN`, "not a number",
# so a pixel that nobody wrote can be seen: it is hatched. Lines are the borders of
# blocks, whose numbers are given as x × y.

framed = night_sky(29, 43)
pictures = {name: run(smooth, grid, framed) for name, grid in grids_for(29, 43).items()}
across, down = grids_for(29, 43)["right"]
print(f"{across} × {down} blocks, {across * down * 128 - 29 * 43} surplus threads")

# %%

# figure

import matplotlib.pyplot as plt

from firstlight.display import ORANGE

missing = {name: int(np.isnan(picture).sum()) for name, picture in pictures.items()}
fig, axes = plt.subplots(1, 3, figsize=(7.2, 3.15), sharey=True, layout="constrained")
for ax, (name, blocks) in zip(axes, grids_for(29, 43).items(), strict=True):
    ax.add_patch(plt.Rectangle((-0.5, -0.5), 43, 29, fill=False, hatch="////"))
    ax.imshow(pictures[name], cmap="Blues_r", vmin=0, vmax=1, zorder=2)
    for x, y in np.ndindex(blocks):
        border = (x * 16 - 0.5, y * 8 - 0.5), 16, 8
        ax.add_patch(plt.Rectangle(*border, fill=False, ec=ORANGE, zorder=3))
    ax.set(xlim=(-1.5, 48.5), ylim=(48.5, -1.5), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_title(f"{name}: {blocks[0]} × {blocks[1]}\n{missing[name]} pixels missing")
axes[0].text(-0.5, 37, "x: column →")
axes[0].text(-5, 0, "← y: row", rotation=90, va="top")
fig.suptitle("Only a grid with x along the columns, rounded up, reaches every pixel")
fig.get_layout_engine().set(h_pad=0.12)
fig.set_label(
    "A smoothed image with a star and a trail, under three grids of blocks. The first "
    f"covers it. With axes swapped, {missing['axes swapped']} pixels at the right are "
    f"hatched, as nobody wrote them, and blocks stand below the image. Rounded down, "
    f"{missing['rounded down']} pixels at the right and below are hatched."
)
plt.show()

# sphinx_gallery_thumbnail_number = 1

# %%
# (The surplus threads cost little: a :term:`warp` without any pixel ends right after
# the :term:`guard`.)
#
# Check
# -----
#
# The kernel is launched twice, on odd sizes, and compared with ``float64``. Which
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
    assert verdict_on(smooth, blocks, sky, BLOCK, 2) == "right", shape

# %%

from firstlight.display import show_table

shapes = (16, 16), (29, 31), (29, 43)
rows = [
    (name, *(verdict_on(smooth, grids_for(*s)[name], night_sky(*s)) for s in shapes))
    for name in pictures
]
head = "grid", *("{} × {}".format(*s) for s in shapes)
show_table("Three grids", head, rows)

# %%
# - *Axes swapped*: for any square, the swapped grid is the right one, and for 29 × 31,
#   too: 29 and 31 need the same number of blocks, along x as along y.
# - *Rounded down* is right if the blocks fit exactly.
#
# So test with two odd sides, far enough apart to need different numbers of blocks.
#
# Four names and two shortcuts
# ----------------------------
#
# The first four have a part for every axis, ``.x``, ``.y`` and ``.z``:
#
# - ``threadIdx`` is my number in my block, and ``blockIdx`` the number of my block;
# - ``gridDim`` is how many blocks the grid has, and ``blockDim`` how many threads a
#   block has: in ``kernel[blocks, threads]``, the first and the second.
#
# The two shortcuts are tuples, with one number for each axis:
#
# - ``cuda.grid(2)`` is ``blockIdx * blockDim + threadIdx``, for x and y: *where I am*;
# - ``cuda.gridsize(2)`` is ``gridDim * blockDim``: *how many threads there are* along x
#   and along y, in the whole grid. (It counts threads; ``gridDim`` counts blocks.)

# %%

# folded: A kernel that says its own sizes


@cuda.jit
def describe(sizes):
    x, y = cuda.grid(2)
    wide, high = cuda.gridsize(2)
    if x == 0 and y == 0:
        sizes[0, 0], sizes[0, 1] = cuda.gridDim.x, cuda.gridDim.y
        sizes[1, 0], sizes[1, 1] = cuda.blockDim.x, cuda.blockDim.y
        sizes[2, 0], sizes[2, 1] = wide, high


sizes = cuda.to_device(np.zeros((3, 2), dtype=np.int64))
describe[(3, 4), BLOCK](sizes)
sizes = sizes.copy_to_host()
names = "gridDim: blocks", "blockDim: threads of a block", "cuda.gridsize(2): threads"
rows = [(name, str(x), str(y)) for name, (x, y) in zip(names, sizes, strict=True)]
show_table("describe[(3, 4), (16, 8)]", ("", "x", "y"), rows)

# %%
# Why x is the column
# -------------------
#
# Suppose you write ``row, column = cuda.grid(2)``, which sounds natural, and turn the
# grid of blocks around, too. The image is still right, whatever its shape; for
# instance:


@cuda.jit
def smooth_turned(framed, out):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = mean_around(framed, row, column)


for shape in ((1, 1), (9, 17)):
    outcome = verdict_on(smooth_turned, blocks_for(shape, BLOCK), night_sky(*shape))
    print(f"{shape}: {outcome}")

# %%
# What differs is *which* pixels are read together. The GPU runs threads in *warps* of
# 32, numbered along x first, then y. NumPy stores an image row by row: the next column
# is 4 bytes on, the next row a whole row on. So with x as the column and 32 threads
# along x, the threads of a warp read side by side in memory. With x as the row, each
# reads from a different row.
#
# ``trace`` runs a kernel and notes every address. Here it follows one block of 256
# threads in the middle of a larger image, and counts the pieces of 32 bytes, called
# :term:`sectors <sector>`, that a warp's load touches, and the bytes that the block
# asks of the L2 cache for each pixel.

BIG = np.zeros((600, 723), dtype=np.float32)  # odd, so rows begin anywhere


def cost(kernel, block):
    high, wide = block if kernel is smooth_turned else block[::-1]
    part = BIG[256 : 256 + high + 2, 256 : 256 + wide + 2]
    out = np.zeros((600, 721), dtype=np.float32)[256 : 256 + high, 256 : 256 + wide]
    traced = trace(kernel, 1, block, part, out)
    assert not traced.problems
    sectors = traced.sectors_per_load["framed"]
    return {"pieces": sectors, "L2": 32 * traced.traffic.l2_sectors / 256}


costs = {"{} × {}".format(*b): cost(smooth, b) for b in ((256, 1), (32, 8), (16, 16))}
costs["turned"] = cost(smooth_turned, (32, 8))
rows = [(name, f"{of['pieces']:.1f}", f"{of['L2']:.1f}") for name, of in costs.items()]
head = "block (x × y)", "sectors a load", "L2 bytes a pixel"
show_table("What a block of 256 threads asks for", head, rows)

# %%
# - *Sectors*: 32 ``float32`` fill 4 of them, or touch 5 if they do not begin at the
#   border of one. The turned kernel touches 32 and uses an eighth of each.
# - *L2 bytes*: 8 would be the least, one pixel in and one out. A block also reads the
#   frame around its pixels, and a long, flat block has the most frame. The square block
#   has the least, but its short rows use less of the sectors that they touch. The
#   turned kernel writes each pixel as a sector of its own, 32 bytes for 4.
#
# So 32 × 8 is a good block for an image: as wide as a warp, and not too flat.
# :doc:`/tutorials/3_kernels/05_coalescing` goes deeper. (Where a pixel needs no
# neighbours, forget the axes: an image in memory is one long line, so lay a grid with
# one axis over ``image.reshape(-1)``.)
#
# A grid of any size
# ------------------
#
# So far the grid had to fit the image. In a *grid-stride loop*, a thread takes its
# pixel, then steps by ``cuda.gridsize``, until it leaves the image. The loop is the
# guard as well.


@cuda.jit
def smooth_any_grid(framed, out):
    first_column, first_row = cuda.grid(2)
    columns_at_once, rows_at_once = cuda.gridsize(2)
    for row in range(first_row, out.shape[0], rows_at_once):
        for column in range(first_column, out.shape[1], columns_at_once):
            out[row, column] = mean_around(framed, row, column)


sky = night_sky(13, 21)
for blocks in ((1, 1), (2, 1), (3, 4)):
    outcome = verdict_on(smooth_any_grid, blocks, sky, BLOCK, 2)
    print(f"{blocks[0]} × {blocks[1]} blocks: {outcome}")

# %%
# It is worth it when
#
# - the image needs more blocks than CUDA allows: :math:`2^{31} - 1` along x, but only
#   65 535 along y and along z;
# - a thread has something to prepare, and many pixels to use it for;
# - you want a number of blocks that suits the *GPU* and not the image, or a single
#   block, to find a mistake.
#
# It is not free: the loop needs more registers, and too small a grid leaves
# multiprocessors idle (:doc:`/tutorials/3_kernels/04_waves_and_blocks`).
#
# Measure
# -------
#
# Each pixel is read by nine threads, but it has to come from memory only once, and then
# from a cache. Once read and once written, 4 bytes each: that gives a floor, from the
# bandwidth on :term:`data sheets <data sheet>`.

import torch
from torch.nn.functional import avg_pool2d

from firstlight import Bench, best_device
from firstlight.timing.specs import spec

LARGE = (8_191, 8_193)  # rows and columns
for card in ("GTX 1650", "RTX 4090", "H100 SXM"):
    floor = 8 * LARGE[0] * LARGE[1] / spec(card, "bandwidth")
    print(f"{card:>8}, {LARGE[0]} rows: never under {1e3 * floor:.2f} ms")

# %%

# folded: The image, its size, and on a GPU four launches to compare

device = best_device()
has_kernel = device.type == "cuda" and not simulated()
rows, columns = LARGE if has_kernel else (1_023, 1_025)
image = np.pad(rng.random((rows, columns), dtype=np.float32), 1, mode="edge")
wide, high = blocks_for((columns, rows), (32, 8))
WAYS = {  # a name: the kernel, its blocks, its threads
    "kernel, 32 × 8": (smooth, (wide, high), (32, 8)),
    "kernel, 16 × 16": (smooth, blocks_for((columns, rows), (16, 16)), (16, 16)),
    "kernel, turned": (smooth_turned, blocks_for((rows, columns), (32, 8)), (32, 8)),
    "kernel, 4 a thread": (smooth_any_grid, (wide, blocks_for(high, 4)), (32, 8)),
}

# %%

# folded: How it is checked

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
# Now the same smoothing with NumPy, with PyTorch (whose ``avg_pool2d`` has its name
# from neural networks), and with the kernels. In the simulator, a kernel gets a small
# image and is not timed; then the rows are what a kernel on a GPU would have to beat.
# PyTorch's works for windows of any size, and is not always faster than nine additions
# in NumPy.

# folded: The timing, and a check of every result

bench = Bench("grids", budget=16 if has_kernel else 1)
bench.time("NumPy", smooth_numpy, image, out, **size)
assert_right("NumPy", out)
for place in dict.fromkeys(("cpu", str(device))):
    on_device = torch.from_numpy(image)[None, None].to(place)
    bench.time("torch, avg_pool2d", avg_pool2d, on_device, 3, 1, device=place, **size)
    assert_right("torch", avg_pool2d(on_device, 3, 1)[0, 0].cpu().numpy())

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

# %%

bench.show()

# %%
# From the sectors alone, expect on a GPU that the turned kernel is far slower, and that
# 16 × 16 loses little. Several pixels a thread need not gain anything.
#
# On the newest GPU on record, the kernel takes
# :timing:`grids median "kernel, 32 × 8/cuda:0/n=67108863" @gpu` with x as the column,
# and :timing:`grids median "kernel, turned/cuda:0/n=67108863" @gpu` with x as the row.
#
# A reader of a textbook on kernels, R100001, timed pictures on several cards. None of
# these numbers is ours.
#
# .. measured-by-others:: gray-rtx3080 swapped-gtx1650 swapped-rtx3060ti
#
# Where this stops being true
# ---------------------------
#
# - *Another order in memory.* After ``np.asfortranarray`` the numbers of a column lie
#   together. Then x should be the row. The rule is not "x is the column" but "x goes
#   where memory goes".
# - *Small images.* Below some size, the launch overhead is longer than the work
#   (:doc:`/tutorials/2_devices/06_queues`), and the block does not matter.
# - *Other makers.* What corresponds to a warp has 32 or 64 threads on AMD's GPUs, 32 on
#   Apple's. The order in memory is the same.
#
# Exercise
# --------
#
# Write the function that makes the right grid. It gets the shape of an image as NumPy
# gives it, and the threads of a block along x and along y. It returns the grid as a
# launch takes it: a tuple of two whole numbers.


def grid_for(shape, block): ...


# %%

# folded: What check does: shapes that a wrong answer gets wrong


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
    return "Right: every pixel has a thread, and no block is wasted."


# %%

print(check(grid_for))

# %%
# For more practice there are :doc:`puzzles </tutorials/3_kernels/14_puzzles>`, each
# with a judge that runs your kernel: try ``image``, then ``stride``.
#
# Three lines to remember
# -----------------------

# remember

by = costs["32 × 8"]["pieces"], costs["turned"]["pieces"]
print(
    f"""1. x goes where memory goes: column, row = cuda.grid(2), shape turned around. A
warp then loads {by[0]:.1f} sectors of memory; the other way round, {by[1]:.0f}.
2. Test with odd sides, one much longer than the other: the swapped grid was right for
16 × 16 and for 29 × 31, and left out {missing["axes swapped"]} pixels of 29 × 43.
3. gridDim counts blocks, cuda.gridsize counts threads. A loop that steps by
cuda.gridsize is right for any grid."""
)

# %%
# Solution
# --------

# solution


def grid_for_solution(shape, block):
    rows, columns = shape
    wide, high = block
    return (columns + wide - 1) // wide, (rows + high - 1) // high


print(f"Our solution: {check(grid_for_solution)}")
