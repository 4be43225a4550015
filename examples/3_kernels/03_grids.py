"""
Which thread takes which pixel?
===============================

Now you have an image, and you want each pixel to become the mean of itself and its
eight neighbours. So you launch a thread for each pixel, try your :term:`kernel` on an
image of 16 × 16, and it's right. On one of 29 × 31 it's right again. Then you run it
on the image that you need it for, and a part of that comes out empty.

**Write down a guess: what can be wrong with a kernel that's right for 29 × 31?** By the
end you'll be able to lay threads over an image of any shape, and you'll know which
shapes to test.

**Needs:** any computer, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`. With a CUDA GPU, the kernels run on it and are
timed; without one, they run in a :term:`simulator`, which has no times.
"""

# %%
# Try it
# ------
#
# A grid of threads can have two axes, x and y, like an image. ``cuda.grid(2)`` tells a
# thread its place along both of them. ``mean_around`` computes the mean. Our images
# have a frame, one pixel wide, so that the pixels at the border have neighbours, too.
# Because of the frame, the pixel ``[row, column]`` of the image lies at ``[row + 1,
# column + 1]`` of ``framed``. So the pixel and its eight neighbours are ``framed[row :
# row + 3, column : column + 3]``.

import numpy as np
from numba import cuda

from firstlight_kernels import blocks_for, simulated, trace

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
# With ``device=True``, ``mean_around`` is a *device function*: kernels can call it. Two
# orders meet in the line ``column, row = cuda.grid(2)``. CUDA says x first, then y.
# NumPy says the row first, then the column. We let **x be the column**, for a reason
# that you'll see below. So when you launch the kernel, the blocks along x have to cover
# the *columns*, ``out.shape[1]``:
#
# .. code-block:: python
#
#    rows, columns = out.shape
#    blocks = (columns + 15) // 16, (rows + 7) // 8  # along x, along y; rounded up
#    smooth[blocks, (16, 8)](framed, out)
#
# Let's take an image of 29 rows and 43 columns, and blocks of 16 threads along x and 8
# along y. ``blocks_for((columns, rows), (16, 8))`` divides the columns by 16 and the
# rows by 8, and rounds up. **How many blocks do you need along x, and how many along
# y?** One of these three grids is yours, I hope:

BLOCK = (16, 8)  # threads along x, along y


def grids_for(rows, columns):
    return {
        "right": blocks_for((columns, rows), BLOCK),
        "axes swapped": blocks_for((rows, columns), BLOCK),
        "rounded down": (max(1, columns // BLOCK[0]), max(1, rows // BLOCK[1])),
    }


# %%

# folded: How a kernel is launched on an image, a test image, and the answer in NumPy


def run(kernel, blocks, framed, block=BLOCK, launches=1):
    rows, columns = framed.shape[0] - 2, framed.shape[1] - 2
    out = cuda.to_device(np.full((rows, columns), np.nan, dtype=np.float32))
    for _ in range(launches):
        kernel[blocks, block](cuda.to_device(framed), out)
    return out.copy_to_host()


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


framed = night_sky(29, 43)
pictures = {name: run(smooth, grid, framed) for name, grid in grids_for(29, 43).items()}

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


# %%
# Pixels that nobody wrote are hatched, and the lines are the borders of the blocks. The
# first grid is right: 43 columns need 3 blocks of 16, and 29 rows need 4 blocks of 8.
# Some threads stick out. They do nothing, because of the guard, the ``if`` in the
# kernel.
#
# For the second grid, somebody took ``image.shape`` as NumPy gives it, with the rows
# first. So there are too few blocks along x, and too many along y. The kernel is right,
# but 319 pixels have no thread. In the third grid, somebody divided and forgot to round
# up.
#
# Which shape finds it?
# ---------------------
#
# Why didn't the tests notice? We try three shapes: 16 × 16, 29 × 31 and 29 × 43.
# **Which of them will find the swapped axes?** Write it down, then look:

# folded: The verdict on a result, against float64, and a check on odd shapes


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
# For any square, the swapped grid *is* the right one. And 29 pixels need as many blocks
# as 31 do: two of 16, or four of 8. So it doesn't matter which side comes first. **Test
# with two odd sides, one much longer than the other.**
#
# When you debug a launch, these names help. A kernel can read all of them, and the
# first four have a part for each axis, ``.x`` and ``.y``:
#
# - ``threadIdx`` is my number in my block, and ``blockIdx`` is the number of my block.
# - ``blockDim`` is how many threads a block has, and ``gridDim`` is how many blocks the
#   grid has. You gave both of them in ``kernel[blocks, threads]``.
# - ``cuda.grid(2)`` is ``blockIdx * blockDim + threadIdx``, so it says where I am.
# - ``cuda.gridsize(2)`` is ``gridDim * blockDim``, so it says how many threads there
#   are, along x and along y.

# folded: A kernel that says its own sizes, if you want to see them


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
# Suppose you write ``row, column = cuda.grid(2)``, and count the blocks accordingly.
# `Numba's documentation`__ does it like that, with ``x`` for the row. The image is
# right, whatever its shape:
#
# __ https://numba.readthedocs.io/en/stable/cuda/kernels.html#absolute-positions


@cuda.jit
def smooth_turned(framed, out):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = mean_around(framed, row, column)


for shape in ((1, 1), (9, 17)):
    outcome = verdict_on(smooth_turned, blocks_for(shape, BLOCK), night_sky(*shape))
    print(f"{shape}: {outcome}")

# %%
# So this kernel is right, and only slow. **How slow? Write down a guess**, for the H100
# and an image of 8,191 × 8,193.
#
# With x as the column, the H100 took :timing:`grids median "kernel, 32 × 8"
# @nvidia-h100-80gb-hbm3`. With x as the row, it took :timing:`grids median "kernel,
# turned" @nvidia-h100-80gb-hbm3`, for the same result.
#
# .. holds::
#
#    call = lambda way: median(f"grids/{way}/cuda:0/n=67108863")
#    good, turned = call("kernel, 32 × 8"), call("kernel, turned")
#    turned > 1.5 * good
#
# The GPU runs threads in groups of 32, called :term:`warps <warp>`, and it numbers them
# along x first. In memory, the pixels of a *row* lie side by side, and the next row
# comes a long way behind. So if x is the column, the 32 threads of a warp read side by
# side. If x is the row, each of them reads from another row. It's the difference
# between 32 pages of one book, and one page from each of 32 books.
#
# We can count what the threads fetch. Memory comes in pieces of 32 bytes. In the middle
# of a large image, a load touches about 5 of them if x is the column, because 32
# numbers fill 4 pieces, or touch 5 if they don't begin where a piece does. If x is the
# row, a load touches 32. The pieces are called :term:`sectors <sector>`.

# folded: What a block asks for, counted by trace

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
# So with x as the row, a load touches more than six times as many sectors. But the H100
# took only :timing:`grids speedup "kernel, 32 × 8"/"kernel, turned"
# @nvidia-h100-80gb-hbm3` as long, partly because its :doc:`caches
# </tutorials/3_kernels/06_caches>` kept some of them. Other people measured the same
# mistake on two cards. It cost more on one than on the other, and on both less than a
# count of sectors says:
#
# .. holds::
#
#    turned < 32 / 4.9 * good
#
# .. measured-by-others:: swapped-gtx1650 swapped-rtx3060ti
#
# The blocks that we've timed were 32 × 8. With 16 × 16 the H100 took :timing:`grids
# median "kernel, 16 × 16" @nvidia-h100-80gb-hbm3`, so that shape is as good.
#
# .. holds::
#
#    near(good, call("kernel, 16 × 16"), 0.05)
#
# So the rule isn't "x is the column". It's: let x run along the numbers that are
# neighbours in memory. In short, x goes where memory goes. If your array comes from
# ``np.asfortranarray``, the numbers of a column are neighbours, and x should be the
# row.
#
# A grid of any size
# ------------------
#
# So far the grid had to fit the image. You can also let a thread take more than one
# pixel. It takes its own first, and then steps on by the size of the whole grid, until
# it leaves the image:


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
# Even a single block is right now. This is called a *grid-stride loop*, and it's the
# guard as well. You could hope that the loop is also faster, with fewer threads to
# start. So we gave each thread four pixels. But then the H100 took :timing:`grids
# median "kernel, 4 a thread" @nvidia-h100-80gb-hbm3`, and with a pixel for each thread
# :timing:`grids median "kernel, 32 × 8" @nvidia-h100-80gb-hbm3`. Starting a thread
# isn't free, but here the loop costs more. The step of its ``range`` is known only when
# the kernel runs. So :doc:`each thread first works out
# </tutorials/3_kernels/10_what_the_compiler_did>` the number of rounds, with a
# *division* of integers. The loop also needs half as many places again for a thread's
# numbers, called :term:`registers <register>`. A GPU has only so many of them, so it
# can hold fewer threads.
#
# .. holds::
#
#    call("kernel, 4 a thread") > good
#    looped = median("bytes-in-flight/1 load, 100% full")
#    looped < 0.75 * median("bytes-in-flight/loads_first(1)")
#
# So take the loop only when you need it. For example, an image may be too tall for
# CUDA's 65,535 blocks along y, or a thread may prepare something that it can use for
# many pixels. Perhaps you're looking for a mistake, and want to launch a single block.
# And if a kernel :doc:`only moves bytes </tutorials/3_kernels/11_bytes_in_flight>`, the
# loop can be faster, after all.
#
# PyTorch's ``avg_pool2d``, which does the same, took :timing:`grids median "torch,
# avg_pool2d/cuda:0/n=67108863" @nvidia-h100-80gb-hbm3` on the H100. NumPy took
# :timing:`grids median "NumPy" @nvidia-h100-80gb-hbm3` on the CPU beside it. If the
# H100 read each pixel once and wrote it once, at the :spec:`H100 SXM bandwidth` of its
# data sheet, it would need less than half of what our kernel took.
#
# .. holds::
#
#    least = 8 * 67_108_863 / spec("H100 SXM", "bandwidth")
#    call("torch, avg_pool2d") > good > 2 * least

# folded: The image, its size, on a GPU four launches to compare, and a check

import torch
from torch.nn.functional import avg_pool2d

from firstlight import Bench, best_device

LARGE = (8_191, 8_193)  # rows and columns
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
# Your turn
# ---------
#
# Write the function that makes the right grid. It gets the shape of an image as NumPy
# gives it, and the threads of a block along x and along y. It returns the grid as a
# launch takes it: a tuple of two whole numbers. Put your answer where the dots are, and
# run ``firstlight try 03_grids.py``.


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

side_by_side, far_apart = costs["32 × 8"]["pieces"], costs["turned"]["pieces"]
print(f"""\
1. x goes where memory goes: column, row = cuda.grid(2), with NumPy's shape turned
   around. A warp then loads {side_by_side:.1f} sectors, otherwise {far_apart:.0f}.
2. Test with two odd sides, one much longer than the other. Swapped axes were right for
   16 × 16 and for 29 × 31, and left out {missing["axes swapped"]} pixels of 29 × 43.
3. gridDim counts blocks, cuda.gridsize counts threads. A loop that steps by
   cuda.gridsize is right for any grid.""")

# %%
# Solution
# --------

# solution


def grid_for_solution(shape, block):
    rows, columns = shape
    wide, high = block
    return (columns + wide - 1) // wide, (rows + high - 1) // high


print(f"Our solution: {check(grid_for_solution)}")
