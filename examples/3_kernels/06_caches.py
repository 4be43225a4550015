"""
What do the caches save?
========================

Your kernel multiplies a matrix by a vector, with one thread for each row. Then you
count what it asks of memory, and you're shocked. For 32 numbers, each load touches 32
:term:`sectors <sector>` where four would do. So your kernel should run at an eighth of
the speed that it could have.

**Write down a guess: how much of that speed does it reach on an H100?** By the end
you'll be able to tell which of your mistakes a cache forgives, and which ones it can't.

**Needs:** any computer, and :doc:`coalescing
</tutorials/3_kernels/05_coalescing>`.
"""

# %%
# Try it
# ------
#
# In each step of the kernel's loop, neighbouring threads read from neighbouring rows.
# We let ``trace`` count the sectors of each load, once with the rows one after the
# other in memory, as NumPy stores them, and once with the columns one after the other.

import numpy as np
from numba import cuda

from firstlight_kernels import simulated, trace


@cuda.jit
def row_for_each(matrix, vector, out):
    row = cuda.grid(1)
    if row < out.size:
        total = np.float32(0)
        for column in range(vector.size):
            total += matrix[row, column] * vector[column]
        out[row] = total


sixty_four, ones = np.ones((64, 32), np.float32), np.ones(32, np.float32)
counts = {}
for stored, layout in {"rows": "C", "columns": "F"}.items():
    laid_out = np.asarray(sixty_four, order=layout)
    seen = trace(row_for_each, 1, 64, laid_out, ones, np.zeros(64, np.float32))
    counts[stored] = seen.sectors_per_load["matrix"], seen.traffic.l2_sectors
    print(f"stored by {stored}: {counts[stored][0]:.0f} sectors a load")

# %%
# Now to a real GPU, with a matrix of 500,001 rows and 101 columns. By columns, where
# each load touches only what it needs, the H100 took :timing:`what-the-compiler-did
# median "single_sum, columns" @nvidia-h100-80gb-hbm3`. By rows it took
# :timing:`what-the-compiler-did median "single_sum, rows" @nvidia-h100-80gb-hbm3`. So
# it still reaches about two fifths of the speed, and not an eighth.
#
# .. holds::
#
#    columns = median("what-the-compiler-did/single_sum, columns")
#    rows = median("what-the-compiler-did/single_sum, rows")
#    0.37 < columns / rows < 0.43
#
# A thread needs a number from its row, and a sector with eight numbers of that row
# arrives. In the next step it wants the next one, and that's in the same sector. So if
# someone has *kept* that sector, nobody has to fetch it again for the next seven steps.
# The one who keeps it is called a :term:`cache`. Let ``trace`` assume that a block
# keeps every sector until it ends, and count how many it has to ask for from outside:

for stored, (_, fetched) in counts.items():
    print(f"stored by {stored}: {fetched} sectors fetched by the whole block")

# %%
# It's the same number for both. The bytes that we thought were wasted only came early.
#
# A desk, a shelf, a basement
# ---------------------------
#
# Think of a library. The books that you're using lie on your *desk*. It's small, but
# everything on it is at hand. There's a *shelf* in the reading room, which you share
# with everybody. All the other books are in the *basement*. An NVIDIA GPU has the same
# three places. Each of its :term:`multiprocessors <multiprocessor>` has a desk of its
# own, the :term:`L1` cache. Since Volta (2017), a kernel's :term:`shared memory` is cut
# from it. All multiprocessors share one shelf, the L2 cache. The basement is the memory
# of the card, often called *DRAM*. On an H100, an L1 holds 256 KiB, the L2 holds 50
# MiB, and the memory 80 GiB.
#
# How much faster is the desk? To find out, read a small array again and again, then a
# larger one, and watch for the sizes at which the rate drops. **How many of these
# stairs do you expect, and where?** We do this with copies on the CPU, which has
# caches, too, and with a kernel if there's a CUDA GPU.

# folded: The measurement: the same array again and again, from small to large

import torch

from firstlight import Bench, best_device

place = best_device()
on_card = not simulated() and place.type == "cuda"
steps = Bench("caches", budget=16 if on_card else 2)
source, target = np.ones(2**28, np.uint8), np.zeros(2**28, np.uint8)
for power in range(14, 29, 2):
    part = target[: 2**power], source[: 2**power]
    moved = {"n": 2**power, "bytes": 2 * 2**power}
    steps.time("NumPy copies, on the CPU", np.copyto, *part, **moved)


@cuda.jit
def read_again(array, rounds, sums):
    total, at, step = np.float32(0), cuda.grid(1), cuda.gridsize(1)
    for _ in range(rounds):
        while at < array.size:
            total += array[at]
            at += step
        at -= array.size  # the next round begins with another thread's number
    sums[cuda.grid(1)] = total


few, sums_of_few = np.arange(1, 102, dtype=np.float32), np.zeros(64, np.float32)
trace(read_again, 2, 32, few, 3, sums_of_few)
assert sums_of_few.sum() == 3 * few.sum(), "read_again is wrong"

if on_card:
    wide_grid = 8 * cuda.get_current_device().MULTIPROCESSOR_COUNT
    sums_there = cuda.device_array(256 * wide_grid, np.float32)
    for power in range(21, 31):
        rounds = 2 ** (32 - power)
        many = cuda.as_cuda_array(torch.ones(2**power // 4, device=place))
        reading = read_again[wide_grid, 256]
        moved = {"n": 2**power, "bytes": 2**32, "footprint": 2**power, "device": place}
        steps.time("kernel", reading, many, rounds, sums_there, **moved)
        assert np.isclose(sums_there.copy_to_host().sum(dtype=float), 2**30)

# %%

# measured figure
# sphinx_gallery_thumbnail_number = 1

import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREEN, ORANGE

# GB/s on an H100 PCIe, by kB: one array that every multiprocessor reads, then a large
# one that all of them share
DESK = {8: 25187, 32: 25200, 128: 25131, 204: 25266, 384: 7694, 1152: 7813, 4044: 8337}
SHELF = {16896: 6912, 33792: 6925, 44032: 4253, 57856: 2244, 100352: 1990, 967680: 1988}
fig, ax = plt.subplots(figsize=(7.2, 4), layout="constrained")
for theirs, mark, words in ((DESK, "o", "each its own"), (SHELF, "s", "all together")):
    look = {"ls": "", "mfc": "none", "mew": 1.6, "ms": 7, "color": ORANGE}
    at = [1e3 * size for size in theirs]
    rates = [rate * 1e9 for rate in theirs.values()]
    ax.plot(at, rates, mark, label=f"H100 PCIe, {words} (RRZE-HPC)", **look)
for label, tint in (("NumPy copies, on the CPU", BLUE), ("kernel", GREEN)):
    if own := [each for each in steps.timings if each.label == label]:
        points = [each.n for each in own], [each.byte_rate for each in own]
        ax.plot(*points, "o-", color=tint, label=f"{label} (this run)")
ax.legend(loc="upper right", frameon=False, fontsize=9)
ax.set(xscale="log", yscale="log", ylim=(3e9, 5e14))
ax.set_xticks([1e4, 1e6, 1e8], ["10 kB", "1 MB", "100 MB"])
ax.set_yticks([1e10, 1e11, 1e12, 1e13], ["10 GB/s", "100 GB/s", "1 TB/s", "10 TB/s"])
ax.minorticks_off()
ax.set_xlabel("size of the array that is read again and again")
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("A stair for each cache: what fits is fast")
fig.set_label(
    "Rate against the size of an array that is read again and again, both axes "
    "logarithmic. RRZE-HPC measured 25 TB/s on an H100 up to 204 kB, about 8 TB/s from "
    "384 kB to 4 MB, 7 TB/s at 34 MB, and 2 TB/s from 100 MB on. Our own points have "
    "stairs, too."
)
plt.show()

# %%
# The hollow marks are from `RRZE-HPC`__, who measured an H100 with :term:`PCIe`, a
# sister of ours with slower memory. As long as the array fits into an L1, all desks
# together deliver more than ten times what the basement does. From there to about 40 MB
# the L2 serves them, at a third of the rate of the desks. Beyond that, more and more
# comes from memory, and from about 100 MB on nearly all. The blue points are a CPU.
#
# We have climbed one of the stairs ourselves. On our H100, whose L2 holds 50 MiB, the
# kernel read an array of 32 MiB at :timing:`caches rate "kernel/cuda:0/n=33554432"
# @nvidia-h100-80gb-hbm3`, and one of 1 GiB at :timing:`caches rate
# "kernel/cuda:0/n=1073741824" @nvidia-h100-80gb-hbm3`. The arrays of 8 and 16 MiB are
# missing, because our timer then refused any rate well above the memory's peak.
#
# From the L2, RRZE got more than twice as much. Most likely our threads have too little
# :doc:`in flight </tutorials/3_kernels/11_bytes_in_flight>`, because each asks for only
# four bytes at a time.
#
# .. holds::
#
#    rate = lambda n: row(f"caches/kernel/cuda:0/n={n}").byte_rate
#    rate(2**25) > rate(2**26) > rate(2**27) > 0.95 * rate(2**30)
#    rate(2**25) > 1.3 * rate(2**30)
#    2 < 1e9 * code("SHELF")[0][33792] / rate(2**25) < 2.3
#
# So a cache can fool you when you time something. Somebody added two vectors again and
# again, and reached nearly everything that the memory of an A100 can deliver. But all
# three arrays together had 12 MB and lay in the L2. **If you want to measure memory,
# take arrays several times as large as the last cache.**
#
# .. measured-by-others:: l2-a100
#
# __ https://github.com/te42kyfo/gpu-benches/tree/1c36d509ee717dca9215c27135fa1e611bb03ed1
#
# Which mistakes are forgiven?
# ----------------------------
#
# A cache can only save what somebody wants *again*, and *soon*. In each of the
# following, the threads of a warp read or write in many sectors at the same time.
# **Which ones will a cache forgive? Write yes or no beside each, before you read on:**
#
# - a table with six numbers in each row, and each thread adds up the six of its row;
# - numbers from random places in an array of many gigabytes;
# - a transpose that reads down the columns, and writes along the rows;
# - a transpose that reads along the rows, and writes down the columns.
#
# *The table: mostly.* It's the matrix by rows once more: the same thread wants the next
# number in the very next step. But it isn't free, and a small, old card may not forgive
# it at all: :doc:`somebody's GTX 1050 Ti </tutorials/3_kernels/02_matrix_vector>` took
# as long as if every number were fetched with a sector of its own. And it isn't only
# memory. With a ``while`` loop, which takes :doc:`far fewer instructions
# </tutorials/3_kernels/10_what_the_compiler_did>`, the H100 took only
# :timing:`coalescing speedup "kernel, by columns"/"kernel, by rows"
# @nvidia-h100-80gb-hbm3` as long by rows as by columns.
#
# .. holds::
#
#    by = lambda way: median(f"coalescing/kernel, by {way}")
#    1.2 < by("rows") / by("columns") < 2
#
# *Random places: no.* Hardly anybody wants the other seven numbers of the sector before
# it has to make room. It's the same with a stride of eight, where nobody ever wants
# them.
#
# *Reading columns: yes.* Here other threads of the same block want the rest of each
# sector. The H100 took :timing:`coalescing median "kernel, read columns"
# @nvidia-h100-80gb-hbm3` for an image of 8,191 × 8,191.
#
# *Writing columns: no.* It took :timing:`coalescing median "kernel, write columns"
# @nvidia-h100-80gb-hbm3` for the same image. An L1 keeps what has been *read*, but it
# doesn't collect what you write. So each number goes to the L2 by itself, and a sector
# is sent eight times, as the next cell counts.

# folded: The two transposes, counted


@cuda.jit
def along_rows(image, out):
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        out[x, y] = image[y, x]


@cuda.jit
def down_columns(image, out):
    x, y = cuda.grid(2)
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = image[x, y]


# %%

low, high = np.zeros((32, 64), np.float32), np.zeros((64, 32), np.float32)
asked = {}
for kernel, image, turned in ((along_rows, low, high), (down_columns, high, low)):
    seen = trace(kernel, (2, 4), (32, 8), image, turned)
    asked[kernel.__name__] = seen.traffic.l2_sectors
    least = 2 * image.nbytes // 32
    print(f"{kernel.__name__:>12}: {seen.traffic.l2_sectors} sectors, at least {least}")

# %%
# So don't count on being forgiven. A desk is small, and the 2,048 threads of an H100's
# multiprocessor share it. If each of them goes along a row of its own, their sectors
# take 64 KiB. But an L1 makes room for four sectors at once, a *line*, and 2,048 lines
# are all of its 256 KiB. With two matrices at once it's twice as much as an L1 has. A
# kernel that is coalesced doesn't depend on that.
#
# Your turn
# ---------
#
# This kernel takes the mean of nine rows, in each column of an image. It's launched
# with blocks of 256 × 1 threads. The loads are coalesced. But each block needs nine
# rows of the image and writes only one, so every number is fetched by nine blocks.


@cuda.jit
def mean_of_nine_rows(image, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        total = np.float32(0)
        for further in range(9):
            total += image[row + further, column]
        out[row, column] = total * np.float32(1 / 9)


# %%
# Fix the launch. Which block, of at most 1,024 threads, asks the L2 for the *fewest*
# bytes, with the loads still coalesced? With 256 × 1 it's 40 bytes a pixel, and with 32
# × 32 it's 9, but there are better ones. Put the threads along x and along y where the
# dots are, and run ``firstlight try 06_caches.py``.

block = ...

# %%

# folded: What check does


def check(answer):
    try:
        wide, tall = (int(size) for size in answer)
        if (wide, tall) != tuple(answer) or wide * tall < 1:
            return "Not yet: give two whole numbers, such as (256, 1)."
        large = np.zeros((2 * tall + 8, 4096), np.float32)  # all of the image
        image, out = large[: tall + 8, :wide], large[tall + 8 :, :wide]
        seen = trace(mean_of_nine_rows, 1, (wide, tall), image, out, limit=200_000)
    except Exception as error:
        return f"Not yet. {type(error).__name__}: {error}"
    bytes_each = 32 * seen.traffic.l2_sectors / out.size
    sectors = seen.sectors_per_load["image"]
    said = f"{wide} × {tall} threads ask for {bytes_each:.1f} bytes a pixel"
    if wide * tall % 32:
        return f"Not yet: {wide * tall} threads don't fill their last warp."
    if sectors > 5:
        return f"Not yet: {said}, and a load touches {sectors:.0f} sectors."
    if bytes_each > 8.4:
        return f"Not yet: {said}. Which blocks want the same rows as their neighbours?"
    return f"Right: {said}, and a load touches {sectors:.0f} sectors."


# %%

print(check(block))

# %%
# Three lines to remember
# -----------------------

# remember

wasteful, needed = (int(counts[stored][0]) for stored in ("rows", "columns"))
print(f"""\
1. A cache forgives what is wanted again soon. By rows, a load touches {wasteful}
   sectors and not {needed}, yet an H100 took less than three times as long.
2. It can't forgive what nobody wants, as with a stride, nor writes that are far apart:
   a sector is sent once for each number.
3. Each multiprocessor has an L1, and all share the L2. Measure memory with arrays
   several times as large as the L2, or you measure the cache.""")

# %%
# Solution
# --------

# solution

# A row of the image is wanted by nine of the block, so the block is as tall as can be.
# It is 8 wide, because 8 numbers fill a sector.
block_solution = (8, 128)

print(f"Our solution: {check(block_solution)}")
