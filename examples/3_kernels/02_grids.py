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

**Time:** 30 minutes. **Needs:** any computer, and :doc:`a first kernel
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
# - A thread reads nine pixels and writes one. For a *large* image, how many bytes must
#   come from memory or go there for each pixel, at the least?
# - A GPU runs threads in *warps* of 32. Memory comes in pieces of 32 bytes. How many
#   pieces does a warp read if its 32 pixels stand side by side? And if each stands
#   below the one before?
#
# The answer to the second is 8. Each pixel is read by nine threads, but they are
# neighbours, so it comes from memory once, and then from a cache. Once read and once
# written, 4 bytes each. That sets a floor:

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
# that repeats its edge (``np.pad``). After that no thread has to ask where it is. The
# test image has a star off its centre and the trail of a satellite: turn it, mirror it
# or swap its axes, and you see it.

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
# In ``float64``, this is what every kernel below has to agree with. And here is the
# kernel. ``cuda.grid(2)`` gives the place of a thread along x and along y: for each
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
# column. So x is the *column*, ``out.shape[1]``, and the guard has a condition for each
# axis. For the launch, turn the shape around as well: blocks along x are blocks for the
# columns.
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

# %%
# The output began as NaN everywhere, "not a number", so a pixel that nobody wrote can
# be seen. In the figure it is hatched. Lines are the borders of blocks; blocks that
# reach beyond the image hold the threads without a pixel.

import matplotlib.pyplot as plt


def draw_grid(ax, picture, blocks):
    rows, columns = picture.shape
    frame = plt.Rectangle((-0.5, -0.5), columns, rows, fill=False, hatch="////")
    ax.add_patch(frame)
    ax.imshow(picture, cmap="Blues_r", vmin=0, vmax=1, zorder=2)
    for x in range(blocks[0]):
        for y in range(blocks[1]):
            corner = (x * BLOCK[0] - 0.5, y * BLOCK[1] - 0.5)
            ax.add_patch(
                plt.Rectangle(corner, *BLOCK, fill=False, ec="#d9762b", zorder=3)
            )
    ax.set(xlim=(-1.5, 48.5), ylim=(48.5, -1.5), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


# %%

fig, axes = plt.subplots(1, 3, figsize=(5.6, 2.2), sharey=True, layout="constrained")
for ax, (name, blocks) in zip(axes, grids_for(29, 43).items(), strict=True):
    draw_grid(ax, pictures[name], blocks)
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
# That is the first answer:

across, down = grids_for(29, 43)["right"]
idle = across * down * 128 - 29 * 43
print(f"{across} × {down} blocks, {idle} threads without a pixel")

# %%
# Those threads cost little: a warp with no pixel at all ends right after the guard.
#
# Check
# -----
#
# Every kernel is launched twice on odd sizes, and compared with ``float64``:


def verdict_on(kernel, blocks, framed, block=BLOCK, launches=1):
    out = run(kernel, blocks, framed, block, launches)
    exact = np.zeros(out.shape)
    smooth_numpy(framed.astype(np.float64), exact)
    if np.isnan(out).any():
        return f"{np.isnan(out).sum()} missing"
    return "right" if np.max(np.abs(out - exact)) < 1e-6 else "WRONG"


for shape in ((1, 1), (9, 17), (17, 5)):
    sky, blocks = night_sky(*shape), grids_for(*shape)["right"]
    print(f"{shape}: {verdict_on(smooth, blocks, sky, launches=2)}")

# %%
# Which shapes notice that a *grid* is wrong?

print("   shape  right  swapped      rounded")
for shape in ((16, 16), (29, 43), (43, 29)):
    sky, grids = night_sky(*shape), grids_for(*shape).values()
    verdicts = [verdict_on(smooth, blocks, sky) for blocks in grids]
    print(f"{shape!s:>8}  {verdicts[0]:<5}  {verdicts[1]:<11}  {verdicts[2]}")

# %%
# The first row is a square whose sides are multiples of the block. It finds nothing.
# So test with two odd sides that differ, and once with the longer one first.
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


for shape in ((1, 1), (9, 17), (17, 5)):
    verdict = verdict_on(smooth_turned, blocks_for(shape, BLOCK), night_sky(*shape))
    print(f"{shape}: {verdict}")

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


costs = {}
for block in ((256, 1), (64, 4), (32, 8), (16, 16), (8, 32)):
    costs["{} × {}".format(*block)] = cost(smooth, block)
costs["32 × 8,\nturned"] = cost(smooth_turned, (32, 8))
print("block         pieces  L2 bytes  L1 lines")
for name, of in costs.items():
    name = name.replace("\n", " ")
    print(f"{name:<14}{of['pieces']:>6.1f}{of['L2']:>10.1f}{of['L1']:>10.2f}")

# %%
# - *Pieces* a load: 32 ``float32`` fill 4 pieces, or 5 if they begin askew. The turned
#   kernel touches 32 and uses an eighth of each. (Its other seven eighths wait in L1
#   for the next threads, if there is room.)
# - *L2 bytes* a pixel: 8 would be the least. A block also reads the frame around its
#   pixels, and a long, flat block has the most frame: three rows for one.
# - *L1 lines* a pixel: a block that is at least 32 wide asks for the fewest.
#
# So 32 × 8 is a good block for an image: as wide as a warp, and not flat. Does the rest
# matter? Predict it. L1 hands out a line in each clock, on each multiprocessor. Memory
# delivers 8 bytes a pixel at the card's bandwidth. Whatever takes longer decides:

from firstlight.measure.roofs import PER_CLOCK

CARDS = {"RTX 4090": (8, 9), "H100 SXM": (9, 0)}


def times_the_floor(card, lines_a_pixel):
    lanes = PER_CLOCK[CARDS[card]][0]
    all_clocks = spec(card, "fp32") / (2 * lanes)  # a second, of all multiprocessors
    memory = 8 / spec(card, "bandwidth")
    return max(lines_a_pixel / all_clocks, memory) / memory


model = {c: [times_the_floor(c, of["L1"]) for of in costs.values()] for c in CARDS}

# %%

STYLES = {"RTX 4090": ("#2e7ab0", ""), "H100 SXM": ("#d9762b", "////")}
fig, ax = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
for at, (card, heights) in enumerate(model.items()):
    colour, hatch = STYLES[card]
    places = np.arange(len(costs)) + 0.4 * at - 0.2
    style = {"fill": False, "ls": "--", "lw": 1.4, "ec": colour, "hatch": hatch}
    ax.bar(places, heights, 0.36, label=f"model: {card}", **style)
    for place, height in zip(places, heights, strict=True):
        ax.text(place, height, f"{height:.1f}", ha="center", va="bottom", size=9)
ax.set_xticks(range(len(costs)), costs)
ax.axhline(1, color="black", lw=1)
ax.set(ylabel="least time, floor = 1", xlabel="block: threads along x × along y")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper left")
worst = {card: heights[-1] for card, heights in model.items()}
fig.set_label(
    "A model of the least time to smooth an image, with memory's floor as 1, for six "
    "kinds of blocks. Down to 32 × 8 it stays at 1 on both cards. The turned kernel "
    f"needs {worst['RTX 4090']:.1f} on an RTX 4090 and {worst['H100 SXM']:.1f} on an "
    "H100."
)
plt.show()

# %%
# Two findings, both of a model (it leaves out the instructions, and what waits for
# what). A square block of 16 × 16, a common choice, may cost nothing on one card and
# some time on another, whose memory is fast compared with its L1. And to turn the axes
# costs much on every card, with a right image. The measurement below has both. The page
# on coalescing goes deeper.
#
# (Where a pixel needs no neighbours, forget the axes. A whole image in memory is one
# long line: lay a grid with one axis over ``image.reshape(-1)``.)
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


for blocks in ((1, 1), (2, 1), (1, 5), (3, 4)):
    verdict = verdict_on(smooth_any_grid, blocks, framed)
    print(f"{blocks[0]} × {blocks[1]} blocks: {verdict}")

# %%
# Any grid gives the right image. It is worth it when
#
# - the grid cannot fit: CUDA allows :math:`2^{31} - 1` blocks along x, but only 65 535
#   along y and along z;
# - a thread has something to prepare, and many pixels to use it for;
# - you want a number of blocks that suits the *GPU*, not the image (the next section);
# - you want one block, or one thread, to find a mistake.
#
# It is not free. The loop has instructions of its own, and the compiler may need more
# registers for it (you will see). Too small a grid leaves a GPU idle. For an image of
# ordinary size, one pixel a thread is a fine beginning. (A third axis, z, works as the
# other two do: ``cuda.grid(3)``, with at most 64 threads of a block along z. Use it for
# the channels of a cube.)
#
# More blocks than multiprocessors
# --------------------------------
#
# The same course notebook that :doc:`counted the cores of its GTX 1650
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


@cuda.jit
def turn_around_hastily(line):
    i = cuda.threadIdx.x
    mine = line[i]
    line[line.size - 1 - i] = mine


for kernel in (turn_around, turn_around_hastily):
    line = np.arange(1024)
    traced = trace(kernel, 1, 1024, line)
    wrong = np.sum(line != np.arange(1024)[::-1])
    print(f"{kernel.__name__}: {wrong} wrong; races found: {len(traced.races)}")

# %%
# ``trace`` runs one thread after the other, each as far as it can go. Without the
# barrier each goes to its end, and half the numbers are overwritten before they are
# read. With it, all 1024 threads must have begun, and none may have finished, at one
# moment. CUDA lets you write this barrier for any block of up to 1024 threads. So
# *every multiprocessor holds at least 1024 threads at the same time*, each with its
# own ``mine``. What is there for 32 is something else:
#
# - A block goes to one multiprocessor, once that has room for all of it. It stays there
#   until its last thread is done. This part of the notebook is right.
# - The multiprocessor divides the block into warps. That card's has `four
#   schedulers`__. In each clock, a scheduler takes one of its warps that is ready, and
#   starts its next instruction for all 32 threads together.
# - So a thread does not queue for a core, and does not keep one. Warps take turns, at
#   every instruction. The "cores", 64 and not 32 in that card's multiprocessors, are
#   lanes for arithmetic, and none of them belongs to a thread.
#
# __ https://docs.nvidia.com/cuda/turing-tuning-guide/index.html#instruction-scheduling
#
# The last wave
# -------------
#
# What about "6 or 7 blocks"? Nobody hands them out in advance. A model of it is short:
# the next block goes to whichever multiprocessor is free first. (On that card, one
# block of 1024 threads fills a multiprocessor. How many each card has, is on the page
# that counted the cores.) "6 or 7" is then what comes out on average, not a rule:

import heapq


def schedule(durations, multiprocessors):
    """Where and when each block runs: (multiprocessor, start, duration)."""
    free = [(0.0, number) for number in range(multiprocessors)]
    done = []
    for duration in durations:
        start, number = heapq.heappop(free)
        done.append((number, start, duration))
        heapq.heappush(free, (start + duration, number))
    return done


def in_use(durations, multiprocessors):
    """The part of all multiprocessors' time, until the last is done, that is used."""
    end = max(start + lasts for _, start, lasts in schedule(durations, multiprocessors))
    return np.sum(durations) / (multiprocessors * end)


MULTIPROCESSORS = {"GTX 1650": 16, "RTX 4090": 128, "H100": 132}  # as counted there
equal, uneven = np.ones(98), rng.uniform(0.6, 1.4, 98)
shares = np.bincount([number for number, *_ in schedule(uneven, 16)])
print(f"blocks of uneven length: {shares.min()} to {shares.max()} a multiprocessor")

# %%

fig, axes = plt.subplots(2, 1, figsize=(5.6, 4.2), sharex=True, layout="constrained")
for ax, durations in zip(axes, (equal, uneven), strict=True):
    for block, (number, start, lasts) in enumerate(schedule(durations, 16)):
        colour = ("#2e7ab0", "#8fbfe0")[block // 16 % 2]
        ax.barh(number, lasts, 1, left=start, fc=colour, ec="black", lw=0.6)
    end = max(bar.get_x() + bar.get_width() for bar in ax.patches)
    idle_area = plt.Rectangle((0, -0.5), end, 16, fill=False, hatch="////", lw=0)
    ax.add_patch(idle_area).set_zorder(0)
    kind = "equally long" if durations is equal else "of uneven length"
    used = in_use(durations, 16)
    ax.set_title(f"model: blocks {kind}, {used:.0%} in use", size=11, loc="left")
    ax.set(ylim=(15.5, -0.5), yticks=[0, 15], xlim=(0, 7.6))
axes[1].set_xlabel("time, in blocks")
fig.supylabel("multiprocessor", size=10)
fig.set_label(
    "A model of 98 blocks on 16 multiprocessors, a row each. With blocks of equal "
    "length there are six full columns, and a seventh in which only two of 16 have a "
    f"block: {in_use(equal, 16):.0%} of the time is in use. With uneven lengths the "
    f"columns dissolve, and {in_use(uneven, 16):.0%} is in use."
)
plt.show()

# %%
# With equal blocks, six *waves* fill the card, and the seventh has two blocks. The
# other 14 multiprocessors wait, hatched. That is the *tail effect*. With uneven blocks
# there are no waves, only an uneven end: a wave is `a way to count`__, and blocks are
# begun one by one. The more waves, the less the last one weighs. For equal blocks, a
# card's number of multiprocessors :math:`N` is all you need:
#
# .. math::
#
#     \text{in use} = \frac{\text{blocks} / N}
#     {\lceil \text{blocks} / N \rceil}.
#
# __ https://forums.developer.nvidia.com/t/cuda-pro-tip-minimize-the-tail-effect/148448
#
# On a GPU, you can measure it. Each block of the next kernel has 1024 threads that only
# calculate. That keeps all lanes of a multiprocessor busy, so that two blocks on one
# take as long together as one after the other.

HALF = np.float32(0.5)


@cuda.jit
def busy(out, steps):
    i = cuda.grid(1)
    if i < out.size:
        x = np.float32(i)
        for _ in range(steps):
            x = x * HALF + HALF  # goes to 1
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
bench = Bench("grids", budget=24 if has_kernel else 2)
N, measured = (card_of(device).multiprocessors, {}) if has_kernel else (16, {})
if has_kernel:
    out, steps = cuda.device_array(4 * N * 1024, dtype=np.float32), 50_000
    for count in sorted({N, N + 1, 3 * N // 2, 2 * N, 2 * N + 1, 3 * N + 1, 4 * N}):
        work = {"n": count, "flops": 2 * 1024 * count * steps, "device": "cuda:0"}
        launch = busy[count, 1024]
        measured[count / N] = bench.time("busy", launch, out, steps, **work).median
    measured = {at: at * measured[1.0] / t for at, t in measured.items()}

# %%

fig, ax = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
counts = np.arange(1, 161)
ax.plot(counts / 16, counts / 16 / -(-counts // 16), "--", color="#2e7ab0")
labels = ["model"]
if measured:
    ax.plot(*zip(*measured.items(), strict=True), "o", color="black")
    labels.append("measured here")
for n_sm, away in ((16, (14, -26)), (132, (34, -56))):
    at = 98 / n_sm
    ax.plot(at, at / np.ceil(at), "X", ms=10, color="#d1495b", mec="black")
    line = {"arrowstyle": "-", "color": "#808890"}
    place = {"xytext": away, "textcoords": "offset points", "arrowprops": line}
    ax.annotate(f"98 blocks on {n_sm}", (at, at / np.ceil(at)), **place)
ax.set(xlabel="blocks for each multiprocessor", ylabel="in use", ylim=(0, 1.04))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(labels, frameon=False, loc="lower right")
at_98 = {n_sm: 98 / n_sm / np.ceil(98 / n_sm) for n_sm in (16, 132)}
fig.set_label(
    "Use of the multiprocessors against blocks for each of them, a model. The line is "
    "a saw: at whole numbers all is in use, and less behind each. Teeth get smaller "
    f"to the right. 98 blocks on 16 multiprocessors: {at_98[16]:.0%}, on 132: "
    f"{at_98[132]:.0%}."
)
plt.show()

# %%
# Read it from the left. With fewer blocks than multiprocessors, some have nothing to
# do: 98 large blocks cannot fill an H100 at all. One block more than they can hold
# costs up to a whole wave. From ten waves on, you may forget the tail. Here are the
# waves of 98 blocks, then the large image from above, in blocks of 32 × 8:

for card, number in MULTIPROCESSORS.items():
    waves, last = -(-98 // number), 97 % number + 1
    print(f"{card:<8}: waves {waves}, last one {last} of {number}")
across, down = blocks_for(LARGE[::-1], (32, 8))
print(f"large image: {across * down / 132:,.0f} blocks for each of 132")

# %%
# A smaller block makes finer pieces, and a grid-stride loop lets you launch a multiple
# of the multiprocessors. Where one multiprocessor has room for several blocks, and they
# wait for memory, count the places of all of them in place of :math:`N`.
#
# No block may wait for another
# -----------------------------
#
# The model began the blocks in the order of their numbers. CUDA promises no order:
# blocks must be able to run `in any order, in parallel or in series`__. Here is a
# kernel that forgets this. Each row of an image has a count of bright pixels, and for a
# catalogue you want their running total. A block takes a row, and adds its count to
# what the block before it wrote. (One thread a block is enough to see it. ``order``
# lets you decide which block comes when.)
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/index.html#thread-hierarchy


@cuda.jit
def running_total(counts, totals, order):
    block = order[cuda.blockIdx.x]
    before = totals[block - 1] if block > 0 else 0
    totals[block] = before + counts[block]


bright = np.sum(framed[1:-1, 1:-1] > 0.3, axis=1)
in_order = np.arange(bright.size)
orders = {
    "in order": in_order,
    "backwards": in_order[::-1].copy(),
    "shuffled": rng.permutation(in_order),
}
wrong_totals = {}
for name, order in orders.items():
    totals = cuda.to_device(np.zeros_like(bright))
    running_total[bright.size, 1](cuda.to_device(bright), totals, cuda.to_device(order))
    wrong_totals[name] = int(np.sum(totals.copy_to_host() != np.cumsum(bright)))
    print(f"{name:>9}: {wrong_totals[name]} of {bright.size} rows wrong")

# %%
# The simulator runs block 0 to its end, then block 1. So there the first line is right,
# on every size, as often as you like. A GPU starts many blocks at once, and
# nobody knows what it prints there, today or tomorrow. No check of results can find
# this in the simulator. ``trace`` does, from a single run, since it asks what is
# *certain* to come before what:

from textwrap import fill

traced = trace(running_total, bright.size, 1, bright, np.zeros_like(bright), in_order)
print(fill(str(traced.races[0]), 84))

# %%
# Could a block wait, in a loop, until the one before it has written? That is worse.
# Blocks stay where they are until they are done. If blocks that wait hold every place,
# the one they wait for never gets one, and the launch never ends. What you can do:
#
# - End the kernel. A second launch in the same queue begins when all blocks of the
#   first are done: totals within blocks first, then what comes before each block.
# - If the order does not matter, use an *atomic* operation, which changes a number so
#   that nobody can come between reading and writing.
#
# Smoothing an image *in place* is the same mistake in disguise: one thread overwrites
# what its neighbour, perhaps in another block, still has to read.

spoilt = cuda.to_device(framed)
smooth[grids_for(29, 43)["right"], BLOCK](spoilt, spoilt[1:-1, 1:-1])
differ = np.abs(spoilt.copy_to_host()[1:-1, 1:-1] - pictures["right"]) > 1e-6
print(f"in place: {np.sum(differ)} of {differ.size} pixels wrong")

# %%
# How large a block?
# ------------------
#
# The notebook takes 1024 threads, as many as CUDA allows. What a multiprocessor can
# hold has several limits: so many threads, so many blocks, and 65 536 registers (and
# its shared memory, which these kernels do not use). They depend on the `compute
# capability`__. How many registers a thread needs, the compiler tells, here for 7.5
# (the GTX 1650), 8.9 (the RTX 4090) and 9.0 (the H100).
#
# __ https://docs.nvidia.com/cuda/archive/12.6.0/cuda-c-programming-guide/index.html#compute-capabilities

ROOM = {(7, 5): (1024, 16), (8, 9): (1536, 24), (9, 0): (2048, 32)}  # threads, blocks
# Where there is no compiler: what numba-cuda 0.30.4 needed.
RECORDED = {"smooth": (44, 38, 32), "smooth_any_grid": (54, 48, 48)}
TYPES = "float32[:, ::1], float32[:, ::1]"


def registers_of(kernel):
    try:
        made = [ptx.compile(kernel, TYPES, cc) for cc in ROOM]
    except ptx.NoCompilerError:
        return RECORDED[kernel.__name__]
    assert not any("f64" in name for code in made for name in code.mix)
    return tuple(code.registers for code in made)


registers = {k.__name__: registers_of(k) for k in (smooth, smooth_any_grid)}
for name, needs in registers.items():
    print(f"{name:>15}, registers: {needs}")

# %%


def held(threads, registers, capability):
    """The part of a multiprocessor's places for threads that blocks of a size fill."""
    most, blocks = ROOM[capability]
    warps = blocks_for(threads, 32)
    of_a_warp = 256 * blocks_for(32 * registers, 256)  # they are given out in 256s
    fit = min(most // (32 * warps), blocks, 65_536 // (warps * of_a_warp))
    return fit * threads / most


print("           smooth       80 registers")
print("threads  7.5  8.9  9.0   7.5  8.9  9.0")
for threads in (32, 100, 128, 256, 512, 1024):
    needs = dict(zip(ROOM, registers["smooth"], strict=True))
    ours = [held(threads, needs[capability], capability) for capability in ROOM]
    large = [held(threads, 80, capability) for capability in ROOM]
    shown = ["".join(f"{part:>5.0%}" for part in parts) for parts in (ours, large)]
    print(f"{threads:>7}{shown[0]} {shown[1]}")

# %%
# This part is called *occupancy*: how many of a multiprocessor's places have a thread.
# Threads that wait cost nothing while others are ready, so some occupancy is needed,
# and a low one is a hint. But it is not speed: many kernels are as fast with a third of
# it, and the page on bytes in flight shows why. Read the table for what to avoid:
#
# - 32 threads a block: the limit on *blocks* comes first.
# - 100 threads: no multiple of 32, so the last warp of each block is mostly empty.
# - 1024 threads: a block fits as a whole or not at all. With 80 registers it does not
#   fit: 0 %, and the launch fails. With 1536 places, a third stays empty. And when its
#   fast warps are done, their places wait for the slow ones.
#
# So the default is 128 or 256 threads, in multiples of 32, for images 32 × 4 or 32 × 8;
# then measure.
#
# Measure
# -------
#
# The same smoothing with NumPy, with Numba on all cores of the CPU, with PyTorch
# (its ``avg_pool2d`` has a name from neural networks), and with the kernels above.
# Triton's kernels have a page of their own in this chapter, and no row here. In the
# simulator, the kernel has a small image and no time.

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

rows, columns = LARGE if has_kernel else (2_047, 2_049)
image = np.pad(rng.random((rows, columns), dtype=np.float32), 1, mode="edge")
exact = np.zeros((rows, columns))
smooth_numpy(image.astype(np.float64), exact)
out = np.zeros((rows, columns), dtype=np.float32)
size = {"n": rows * columns, "bytes": 8 * rows * columns}


def assert_right(label, result):
    for part in range(0, rows, 512):
        worst = np.max(np.abs(result[part:][:512] - exact[part:][:512]))
        assert worst < 1e-6, f"{label} is wrong by {worst:.1e}"


# %%

for label, way in (("NumPy", smooth_numpy), ("Numba, all cores", smooth_on_cores)):
    out[:] = np.nan
    bench.time(label, way, image, out, **size)
    assert_right(label, out)
for place in {"cpu": None, str(device): None}:
    there = torch.from_numpy(image)[None, None].to(place)
    bench.time("torch, avg_pool2d", avg_pool2d, there, 3, 1, device=place, **size)
    assert_right("torch", avg_pool2d(there, 3, 1)[0, 0].cpu().numpy())
    del there

wide, high = blocks_for((columns, rows), (32, 8))
WAYS = {  # a name: the kernel, its blocks, its threads
    "kernel, 32 × 8": (smooth, (wide, high), (32, 8)),
    "kernel, 16 × 16": (smooth, blocks_for((columns, rows), (16, 16)), (16, 16)),
    "kernel, turned": (smooth_turned, blocks_for((rows, columns), (32, 8)), (32, 8)),
    "kernel, 4 a thread": (smooth_any_grid, (wide, blocks_for(high, 4)), (32, 8)),
    "kernel, 16 a thread": (smooth_any_grid, (wide, blocks_for(high, 16)), (32, 8)),
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
    d_image = cuda.to_device(night_sky(33, 31))
    d_out = cuda.to_device(np.zeros((33, 31), dtype=np.float32))
    work = {"n": 33 * 31, "device": "cpu" if simulated() else "cuda:0"}
    bench.time("kernel, 32 × 8", smooth[(1, 5), (32, 8)], d_image, d_out, **work)
bench.show()

# %%
# Each result was compared with ``float64`` after its last launch, pixel by pixel. On
# the CPU, compare the first two rows. NumPy goes over the whole image nine times,
# and more for the sum; the compiled loop goes over it once, on all cores.
#
# With a GPU, hold the rows of kernels against the model: does a block of 16 × 16 lose
# anything on this card, how much does the turned kernel lose, and do several pixels a
# thread gain anything? (The rows of ``busy`` belong to the tail effect; their *n* is
# the number of blocks.)
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
# - *The models.* L1 does more than hand out lines, and real blocks differ. They tell
#   you what to measure.
# - *The trace.* It knows arrays by their names, so it does not see that one array was
#   given twice, as when you smooth in place.
# - *Blocks that know each other.* CUDA has *clusters* of blocks that run at the same
#   time, and *cooperative* launches in which all blocks do, if there is room for all.
#   You have to ask for both.
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


def outcome(shape, block, got):
    """What becomes of an image under a grid, in a sentence; empty if all is well."""
    (rows, columns), right = shape, blocks_for(shape[::-1], block)
    if got == right:
        return ""
    if got == right[::-1] or got == blocks_for(shape, block):
        return "x goes along the columns. NumPy's shape has the rows first"
    lost = [
        max(0, n - k * b) for n, k, b in zip((columns, rows), got, block, strict=True)
    ]
    if any(lost):
        missed = rows * columns - (columns - lost[0]) * (rows - lost[1])
        return f"{missed} pixels have no thread. Round up, in both axes"
    spare = got[0] * got[1] - right[0] * right[1]
    return f"{spare} blocks have no pixel at all. An exact multiple needs none more"


# %%


def check(answer):
    cases = [((64, 96), (32, 8)), ((37, 53), (16, 8)), ((53, 37), (16, 8))]
    cases += [((1, 1), (32, 8)), ((8, 33), (32, 8)), ((1025, 7), (4, 64))]
    for shape, block in cases:
        call = f"grid_for({shape}, {block})"
        try:
            got = answer(shape, block)
        except Exception as error:
            return f"Not yet: {call} raised {type(error).__name__}: {error}"
        numbers = isinstance(got, tuple) and len(got) == 2
        if not numbers or not all(isinstance(n, (int, np.integer)) for n in got):
            return f"Not yet: {call} gave {got!r}; it has to give two whole numbers"
        if problem := outcome(shape, block, got):
            return f"Not yet: {call} gave {got}: {problem}."
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
# For more practice there are puzzles, each with a judge that runs your kernel:
# ``from firstlight.kernels.puzzles import PUZZLES``, then ``PUZZLES["image"].task`` and
# ``PUZZLES["image"].check(kernel)``; and ``PUZZLES["stride"]``.
#
# Three lines to remember
# -----------------------

by = costs["32 × 8"]["pieces"], costs["32 × 8,\nturned"]["pieces"]
print("1. x goes where memory goes: column, row = cuda.grid(2), shape turned around.")
print(f"   A warp then loads {by[0]:.1f} pieces of memory; the other way {by[1]:.0f}.")
print(
    "2. Test with two odd sides that differ: on a square, the swapped grid was right;"
)
print(f"   on 29 × 43 it left out {missing['axes swapped']} pixels.")
print("3. Blocks run in any order, each to its end. Have many more of them than")
print(f"   multiprocessors: 98 on 16 leave {1 - at_98[16]:.0%} of the time unused.")
