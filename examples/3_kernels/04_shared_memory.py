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
- the mistakes that give a right product for 32 and a wrong one for 33;
- why the last step is to keep numbers in registers, and what that costs.

**Time:** 30 minutes. **Needs:** any computer, and :doc:`a first kernel
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
# set the pace. But the plain kernel does not move them once: each of the
# :math:`n^2` threads reads a whole row and a whole column. Write down your answers:
#
# - How many numbers does a thread read for one element of :math:`C`?
# - The threads of a block fetch tiles of 8 x 8 numbers together. How many now?
# - Each thread then computes 4 x 4 elements instead of one. How many now?
#
# Two kernels that differ in one line
# -----------------------------------
#
# A *grid* of threads can have two axes, ``x`` and ``y``. ``cuda.grid(2)`` gives a
# thread its place in both. Which of the two is the row?

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
# makes the kernel for the ``T`` you want.


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
# A block has ``T`` x ``T`` threads, and computes ``T`` x ``T`` elements of :math:`C`.
# It goes along :math:`A` and down :math:`B` in rounds. Read a round as if you were one
# of the threads:
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
# number is the round. The last ones hang over the edge (hatched).

m, k, n = 17, 19, 13
T = 8


def draw_matrix(ax, rows, columns, title):
    ax.add_patch(plt.Rectangle((0, 0), columns, rows, fill=False, ec="black", lw=1.5))
    for edge in range(T, columns, T):
        ax.plot([edge, edge], [0, rows], color="#8a9199", lw=0.7)
    for edge in range(T, rows, T):
        ax.plot([0, columns], [edge, edge], color="#8a9199", lw=0.7)
    ax.set(xlim=(-1, 25), ylim=(25 if rows == k else 19, -1), aspect="equal")
    ax.axis("off")
    ax.set_title(title, size=11, loc="left")


def draw_tile(ax, tile_row, tile_column, over, label, colour):
    look = {"fc": colour, "ec": "black", "hatch": "////" if over else ""}
    ax.add_patch(plt.Rectangle((tile_column * T, tile_row * T), T, T, **look))
    middle = (tile_column + 0.5) * T, (tile_row + 0.5) * T
    box = {"fc": colour, "ec": "none", "pad": 1}
    style = {"ha": "center", "va": "center", "color": "#fefefe", "bbox": box}
    ax.text(*middle, label, **style)


# %%

BLUE, GREEN, RED, ORANGE = "#2e7ab0", "#2f7d4f", "#b8394b", "#e8a33d"
rounds = blocks_for(k, T)
style = {"figsize": (4.6, 4.4), "height_ratios": (26, 20), "layout": "constrained"}
fig, axes = plt.subplots(2, 2, **style)
axes[0, 0].axis("off")
draw_matrix(axes[1, 0], m, k, f"A, {m} x {k}")
draw_matrix(axes[0, 1], k, n, f"B, {k} x {n}")
draw_matrix(axes[1, 1], m, n, f"C, {m} x {n}")
for turn in range(rounds):
    draw_tile(axes[1, 0], 1, turn, turn == rounds - 1, turn + 1, BLUE)
    draw_tile(axes[0, 1], turn, 0, turn == rounds - 1, turn + 1, GREEN)
draw_tile(axes[1, 1], 1, 0, False, "sum", RED)
fig.set_label(
    f"A block computes one tile of C. In {rounds} rounds it takes {rounds} tiles of A "
    f"from left to right, and {rounds} of B from top to bottom. The last tile of each "
    "is hatched: it hangs over the edge of the matrix, and is filled with zeros there."
)
plt.show()

# %%
# Keep a number even nearer
# -------------------------
#
# Nearest to the arithmetic are a thread's *registers*. Let each thread compute
# ``R`` x ``R`` elements. Then each number that it takes from a tile serves ``R`` times.
# A block now computes a square of ``S = R * T`` elements a side, and holds ``R`` tiles
# of each matrix.
#
# This kernel is easier to read in parts. A function with ``device=True`` is one that
# kernels can call. (The compiler puts it in place, so the call costs nothing.) The
# first part fetches one number of a tile, or a zero. The second stores a thread's
# results. They do not lie side by side, but ``T`` apart: so neighbouring threads still
# write neighbouring elements.


@cuda.jit(device=True)
def fetch(matrix, row, column, tiles, i):
    inside = row < matrix.shape[0] and column < matrix.shape[1]
    number = matrix[row, column] if inside else np.float32(0)
    tiles[i, cuda.threadIdx.y, cuda.threadIdx.x] = number


def parts(T, R):
    @cuda.jit(device=True)
    def store(c, row, column, mine):
        for i in range(R):
            for j in range(R):
                if row + i * T < c.shape[0] and column + j * T < c.shape[1]:
                    c[row + i * T, column + j * T] = mine[i, j]

    return multiplying(T, R), store


# %%
# The third part is the one that runs most. ``cuda.local.array`` gives each thread an
# array of its own. It ends up in registers if the compiler knows all its indices, as
# here: it writes out the short loops over ``i`` and ``j``. (``while`` where ``range``
# would do, as it makes this compiler write fewer instructions:
# :doc:`/tutorials/3_kernels/07_what_the_compiler_did` counts them.)


def multiplying(T, R):
    @cuda.jit(device=True)
    def multiply(a_tiles, b_tiles, mine):
        of_b = cuda.local.array(R, np.float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        k = 0
        while k < T:
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
# ``R * R`` multiply-adds of them. The kernel itself is the same walk as before:


def register_tiled(T, R):
    multiply, store = parts(T, R)

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
        store(c, row, column, mine)

    return product


# %%
# Check
# -----
#
# First: is it right? ``trace`` runs a kernel thread by thread in Python and notes every
# access to memory, so one run gives the product and all that you want to count. It
# fills shared memory with NaN at the start: what a kernel reads before it was written
# cannot be right by chance. On a GPU, the kernel is also launched there. The sizes are
# odd, and the product in ``float64`` decides.


from typing import NamedTuple


class Step(NamedTuple):
    """A kernel, the threads of a block, and how many elements (x, y) a block covers."""

    kernel: object
    threads: tuple
    covers: tuple
    row_along_x: bool = False


def square(T, R=1):
    kernel = tiled(T) if R == 1 else register_tiled(T, R)
    return Step(kernel, (T, T), (R * T, R * T))


ladder = {
    "row along x": Step(row_along_x, (32, 8), (32, 8), row_along_x=True),
    "column along x": Step(column_along_x, (32, 8), (32, 8)),
    "tile": square(8),
    "2 x 2 each": square(8, 2),
    "4 x 4 each": square(8, 4),
}

# %%

rng = np.random.default_rng(seed=1)


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

for name, step in ladder.items():
    seen, error = run(step, 9, 11, 13)
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
#   and each time gets 32 bytes to use 4. With the column along ``x``, the warp wants
#   *one* number of :math:`A`, and 32 neighbours in :math:`B`: 4 sectors, the least
#   there is. That is called a *coalesced* load. The rule: **x runs along the last
#   index.**
# - A tile of 8 x 8 divides the loads by 8: what is fetched once serves a whole row or
#   column of the tile.
# - With 2 x 2 and 4 x 4 elements a thread, they are divided again, by 2 and by 4.
#
# In general, for each of the :math:`k` steps a block of :math:`S` x :math:`S` outputs
# needs :math:`S` numbers of :math:`A` and :math:`S` of :math:`B`. With :math:`S = RT`,
#
# .. math::
#
#     \text{loads an output} = \frac{k\,(S + S)}{S^2} = \frac{2k}{R\,T}.
#
# Count a few more, to see whether that is so.

counted = {(1, 1): 16, (8, 1): traces["tile"].loads_per_output}
counted |= {(8, R): traces[f"{R} x {R} each"].loads_per_output for R in (2, 4)}
for tile, each in ((4, 1), (16, 1), (4, 2)):
    seen, error = run(square(tile, each), 16, 8, 16)
    assert error < 1e-6
    counted[tile, each] = seen.loads_per_output
assert all(loads == 2 * 8 / (T * R) for (T, R), loads in counted.items())

# %%

MARKS = {1: ("o", BLUE), 2: ("s", ORANGE), 4: ("^", RED)}
fig, ax = plt.subplots(figsize=(5.6, 3.5), layout="constrained")
sides = np.array([1, 2, 4, 8, 16, 32])
ax.plot(sides, 2 / sides, color="black", ls="--", lw=1, label="predicted, 2k / RT")
for each, (marker, colour) in MARKS.items():
    found = [(T * R, loads / 8) for (T, R), loads in counted.items() if each == R]
    xs, ys = np.transpose(found)
    style = {"marker": marker, "color": colour, "mec": "black", "ls": ""}
    style["ms"] = 13 if each == 1 else 8  # where two are equal, both can be seen
    ax.plot(xs, ys, label=f"counted, {each} x {each} a thread", **style)
ax.set(xscale="log", yscale="log", xlabel="side of a block's square of outputs, S = RT")
ax.set_ylabel("loads an output, of k")
ax.set_xticks(sides, sides)
ax.set_yticks(
    [2, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 16], ["2", "1", "1/2", "1/4", "1/8", "1/16"]
)
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=9)
fig.set_label(
    "Loads from global memory for an output against the side of a block's square, both "
    "axes logarithmic. All counts, for 1, 4 or 16 outputs a thread, lie on the "
    "predicted line: a square twice as large needs half the loads."
)
plt.show()

# %%
# It makes no difference whether a large square comes from many threads or from many
# outputs a thread: the loads are the same. So why bother with registers? The last
# column of the table tells. A tile brings the numbers nearer, but each multiply-add
# still needs *two* of them from there. Only the registers reduce that: to ``2 / R``.
#
# What can each step reach?
# -------------------------
#
# A model needs two numbers of the multiprocessor. On an H100, in a clock, it can start
# multiply-adds for 4 warps, and its shared memory can serve *one* warp, with a number
# for each thread (32 *banks*, each 4 bytes wide). The L1 cache is the same piece of
# hardware, and hands out one line of 128 bytes. So a warp's multiply-add takes
#
# - :math:`1/4` clock of arithmetic, and
# - a clock for each *pass* through that hardware: for each load, a pass for each line
#   of 128 bytes that the warp touches.
#
# The trace counts passes to global memory (``l1_wavefronts``). With ``k = 0`` it counts
# those of the last store alone, which you take off. In shared memory each access is one
# pass, as there are no conflicts (more about those below).


def passes(name):
    seen, c = traces[name], np.zeros((32, 32), np.float32)
    assert not seen.bank_conflicts
    stores = traced(ladder[name], np.zeros((32, 0)), np.zeros((0, 32)), c)
    lines = seen.traffic.l1_wavefronts - stores.traffic.l1_wavefronts
    near = sum(seen.counts(kind, "shared").sum() for kind in ("load", "store"))
    return (lines + near / 32) / (np.prod(fits) / 32)


def predicted(T, R):
    """2 / R in the loop; T steps share the fetching: lines, and stores to shared."""
    return 2 / R + (2 * 32 / T + 2) / (T * R)


for name, (T, R) in {
    "tile": (8, 1),
    "2 x 2 each": (8, 2),
    "4 x 4 each": (8, 4),
}.items():
    assert passes(name) == predicted(T, R)
    print(
        f"{name:>14}: {passes(name):.2f} passes for a warp's multiply-add, as predicted"
    )

# %%
# The prediction holds, so use it for the tiles that you would take on a GPU: the
# largest that 1024 threads allow, 32 x 32, and with more outputs a thread, 16 x 16. The
# second limit is memory. A block that covers ``w`` x ``h`` outputs fetches
# :math:`4 (w + h)` bytes for :math:`2wh` operations. If no cache keeps them for the
# next block, they all come from the card's memory.

near = {name: 0.5 / passes(name) for name in ("row along x", "column along x")}
near |= {"tile": 0.5 / predicted(32, 1)}
near |= {f"{R} x {R} each": 0.5 / predicted(16, R) for R in (2, 4, 8)}
covers = {"row along x": (32, 8), "column along x": (32, 8), "tile": (32, 32)}
covers |= {f"{R} x {R} each": (16 * R, 16 * R) for R in (2, 4, 8)}
far = {name: w * h / (2 * (w + h)) for name, (w, h) in covers.items()}

peak, bandwidth = (spec("H100 SXM", what) for what in ("fp32", "bandwidth"))
clocks = peak / (2 * 128)  # a second, of all multiprocessors: 128 lanes in each
at_most = {
    name: min(1, near[name] * 128 * clocks / peak, far[name] * bandwidth / peak)
    for name in near
}
for name, share in at_most.items():
    print(f"{name:>14}: as written, at most {share:6.1%} of the peak")

# %%
# A *roofline* shows both limits at once. The axis along the bottom is the *arithmetic
# intensity*, operations for each byte. Each step of the ladder has two marks, one for
# each kind of byte. It cannot be faster than its lower mark.

xs = np.geomspace(0.01, 100, 200)


def draw_limit(ax, intensities, slope, line, look, up):
    ax.plot(xs, np.minimum(slope * xs, peak) / 1e12, color="black", ls=line, lw=1.2)
    marks = np.array(list(intensities.values()))
    heights = np.minimum(slope * marks, peak) / 1e12
    ax.plot(marks, heights, ls="", mec="black", ms=9, **look)
    together = {}  # marks that nearly cover each other share a label
    for number, place in enumerate(zip(marks, heights, strict=True), 1):
        together.setdefault(round(np.log10(place[0]), 1), []).append((number, place))
    for group in together.values():
        text = ", ".join(str(number) for number, _ in group)
        style = {"textcoords": "offset points", "ha": "center"}
        ax.annotate(text, group[0][1], (0, up), **style)


# %%

fig, ax = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
look = {"marker": "o", "color": BLUE, "label": "from L1 and shared memory"}
draw_limit(ax, near, 128 * clocks, "--", look, 8)
look = {"marker": "s", "color": ORANGE, "label": "from the card's memory"}
draw_limit(ax, far, bandwidth, ":", look, -18)
names = "\n".join(f"{number}: {name}" for number, name in enumerate(near, 1))
ax.text(0.7, 0.04, names, transform=ax.transAxes, va="bottom", size=9)
ax.set(xscale="log", yscale="log", xlim=(0.01, 100), ylim=(0.3, 150))
ax.set_xlabel("operations for each byte from there")
ax.set_ylabel("TFLOP/s, at most")
ax.set_title("model: H100, float32 without tensor cores", size=11, loc="left")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=9, loc="upper left")
best = max(at_most, key=at_most.get)
fig.set_label(
    "A modelled roofline of an H100: a slope for L1 and shared memory, one for the "
    "card's memory, and the same flat roof. On the first slope, the column along x and "
    f"the tile are side by side at {at_most['tile']:.0%} of the roof, the row along "
    f"x far below. Only {best} comes near the roof, with {at_most[best]:.0%} of it."
)
plt.show()

# %%
# Marks 2 and 3 are the surprise. A tile of 32 x 32 divides the loads from global memory
# by 32, and on the first slope it wins *nothing*: as written, two passes for a
# multiply-add before, two after. What it wins is on the other slope, and in waiting (a
# load from L2 takes much longer). And a tile is yours: no other block can push it out,
# as happens in a cache. The registers move the mark that counts: 2 / R passes. On this
# card, a pass takes as long as four multiply-adds, so ``R = 8`` is where the two meet.
#
# Is it like that in reality? Simon Boehm `has measured such a ladder`__, in CUDA C++,
# on an RTX A6000, in percent of the library's product: 1.3 with the row along ``x``,
# 8.5 with the column, 12.8 with a shared tile, 68.7 with 8 x 8 elements a thread. The
# tile wins something after all, and you will see one reason. Registers win most.
#
# __ https://siboehm.com/articles/22/CUDA-MMM
#
# What registers cost
# -------------------
#
# A thread can have 255 registers, and 8 x 8 sums take 64 of them. The compiler tells,
# for any GPU, here for an old one (compute capability 7.5) and an H100 (9.0). What does
# not fit is *spilled*: stored to memory and loaded again.

TYPES = "float32[:, ::1], float32[:, ::1], float32[:, ::1]"  # ::1: rows in one piece
RECORDED = {  # with numba-cuda 0.30.4 and CUDA 13.0: registers, bytes spilled
    (8, (7, 5)): (128, 0),
    (1, (9, 0)): (32, 0),
    (4, (9, 0)): (72, 0),
    (8, (9, 0)): (146, 0),
    (16, (9, 0)): (255, 480),
}
needs, made = {}, {}
try:
    for R, cc in RECORDED:
        code = ptx.compile(square(16, R).kernel, TYPES, cc)
        needs[R, cc], made[R, cc] = (code.registers, code.spill_bytes), code
    print("compiled here:")
except ptx.NoCompilerError as missing:
    needs = RECORDED
    print(missing, "So these were compiled elsewhere:")

# %%

PLACES = {7: 32, 9: 64}  # for warps, however few registers they need
for (R, (major, minor)), (registers, spilled) in needs.items():
    warps = min(65536 // (registers * 256) * 8, PLACES[major])  # a block here has 8
    print(
        f"{R:>2} x {R:<2} {major}.{minor}: {registers:>3} registers, "
        f"{spilled:>3} bytes spilled, {warps:>2} of {PLACES[major]} warps"
    )

# %%
# A multiprocessor has 65 536 registers. The more a thread takes, the fewer warps find
# room. Fewer warps can hide less waiting, but these have more to do while they wait: 64
# multiply-adds that do not depend on each other. With 16 x 16 the sums alone are more
# than 255, and those that are spilled travel to memory and back. That is the end of
# this way up.
#
# Does the machine code still have the loads that you wrote? In an H100's, ``LDS`` loads
# from shared memory, and ``FFMA`` is a multiply-add.

code = made.get((1, (9, 0)))
found = code.sass if code else None
loads_now = found.count(" LDS") / found.count(" FFMA") if found else 1.25
print(f"tile: 2 loads for a multiply-add as written, {loads_now} in machine code")

# %%
# The compiler has seen that a thread reads four neighbours of ``a_tile``, one after the
# other, and joined them into one load of 16 bytes (in 4 x 4, too). How many passes such
# a load takes, the trace does not know: its limits hold for the kernel as written. The
# machine code may do better, and a GPU has the last word.
#
# Right for 32, wrong for 33
# --------------------------
#
# ``range(0, a.shape[1], T)`` never asked how many rounds there are. Most kernels of
# this kind count them, and so can be wrong. Here is the tile again, with switches:


def switched(rounds, fill=True, second_barrier=True, T=8):
    @cuda.jit
    def product(a, b, c):
        a_tile = cuda.shared.array((T, T), np.float32)
        b_tile = cuda.shared.array((T, T), np.float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        column, row = cuda.grid(2)
        total = np.float32(0)
        for turn in range(rounds(a.shape[1], T)):
            at = turn * T
            inside = row < a.shape[0] and at + tx < a.shape[1]
            if inside or fill:
                a_tile[ty, tx] = a[row, at + tx] if inside else np.float32(0)
            inside = at + ty < b.shape[0] and column < b.shape[1]
            if inside or fill:
                b_tile[ty, tx] = b[at + ty, column] if inside else np.float32(0)
            cuda.syncthreads()
            for k in range(T):
                total += a_tile[ty, k] * b_tile[k, tx]
            if second_barrier:
                cuda.syncthreads()
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = total

    return product


# %%


@cuda.jit(device=True)
def up(k, T):
    return (k + T - 1) // T


@cuda.jit(device=True)
def down(k, T):
    return k // T


@cuda.jit(device=True)
def from_grid(_k, _T):
    return cuda.gridDim.x


wrong_ways = {
    "as it should be": switched(up),
    "k // T rounds": switched(down),
    "gridDim.x rounds": switched(from_grid),
    "no zeros": switched(up, fill=False),
    "one barrier": switched(up, second_barrier=False),
}
sizes = (8, 8, 8), (8, 32, 8), (8, 33, 8), (5, 23, 7)

# %%

runs = {}
print(" " * 17 + "".join(f"{m} x {k} x {n}".rjust(14) for m, k, n in sizes))
for name, kernel in wrong_ways.items():
    verdicts = []
    for size in sizes:
        _, error = runs[name, size] = run(Step(kernel, (8, 8), (8, 8)), *size)
        verdicts.append("right" if error < 1e-6 else "WRONG")
    print(f"{name:>16} " + "".join(verdict.rjust(14) for verdict in verdicts))

# %%
# - ``k // T`` rounds down. It is right whenever ``T`` divides :math:`k`: for 32, and
#   not for 33.
# - ``gridDim.x`` counts the blocks along a row of :math:`C`. It is right for square
#   matrices, and those are what one tests. The example in Numba's own documentation
#   takes its count from there. `Readers found it wrong`__; today it is right if you
#   launch it with a grid that covers the inputs, not only the product.
# - *No zeros*: threads outside the matrix put nothing. Then the tile still holds the
#   numbers of the round before, and they are added once more.
# - *One barrier*: a thread fetches its next number while its neighbours still use the
#   old one. It is right if there is only one round. On a GPU it is often right with
#   more, too: it depends on who is late.
#
# __ https://github.com/numba/numba/issues/7324
#
# A check with odd sizes finds the first three. The trace tells more. It knows how many
# of the numbers were touched at all, and it need not wait for an accident to see that
# nothing orders two threads:

m, k, n = size = (8, 33, 8)
there = m * k + k * n + m * n
for name in ("as it should be", "k // T rounds", "gridDim.x rounds"):
    touched = runs[name, size][0].traffic.useful_bytes // 4
    print(f"{name:>16}: {touched} of {there} numbers touched")
race = runs["one barrier", size][0].races[0]
print(f"     one barrier: a race for {race.array}{list(race.index)}")
for access in (race.first, race.second):
    print(f"  {access.kind} by thread {access.thread[:2]}: {access.site.source}")

# %%
# A second use: turn the tile around
# ----------------------------------
#
# Transposing a matrix uses each number once, so there is nothing to save. Still a tile
# helps. Whoever reads along a row has to write down a column: 32 numbers into 32
# sectors. A block can read a tile by rows, wait, and write it by rows, too. What turns
# around is how it goes through the tile. (Each of 32 x 8 threads moves four numbers.)


@cuda.jit
def transpose_plainly(x, out):
    column, row = cuda.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        out[column, row] = x[row, column]


def transpose_by_tile(wide):
    @cuda.jit
    def transpose(x, out):
        tile = cuda.shared.array((32, wide), np.float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        left, top = 32 * cuda.blockIdx.x, 32 * cuda.blockIdx.y
        for i in range(ty, 32, 8):
            if top + i < x.shape[0] and left + tx < x.shape[1]:
                tile[i, tx] = x[top + i, left + tx]
        cuda.syncthreads()
        for i in range(ty, 32, 8):
            if left + i < out.shape[0] and top + tx < out.shape[1]:
                out[left + i, top + tx] = tile[tx, i]

    return transpose


# %%

turns = {
    "plain": Step(transpose_plainly, (32, 8), (32, 8), row_along_x=True),
    "tile, 32 wide": Step(transpose_by_tile(32), (32, 8), (32, 32), row_along_x=True),
    "tile, 33 wide": Step(transpose_by_tile(33), (32, 8), (32, 32), row_along_x=True),
}


def turn_around(step, *shape):
    x, out = rng.random(shape, dtype=np.float32), np.full(shape[::-1], -1, np.float32)
    seen = traced(step, x, out)
    assert np.array_equal(out, x.T)
    assert not seen.problems
    return seen


print("                sectors a load   a store   passes through the tile")
ways = {}
for name, step in turns.items():
    turn_around(step, 5, 35)
    seen = turn_around(step, 32, 32)
    ways[name] = max((found.ways for found in seen.bank_conflicts), default=1)
    load, store = seen.sectors_per_load["x"], seen.sectors_per_store["out"]
    through = "no tile" if name == "plain" else ways[name]
    print(f"{name:>14} {load:12.0f} {store:12.0f} {through:>12}")

# %%
# With a tile, both sides are coalesced: 4 sectors. But with 32 columns, the reading of
# the tile goes from one pass to 32. This is a *bank conflict*. Shared memory has 32
# banks, and word ``w`` lies in bank ``w % 32``. A warp that reads down a column wants
# the words ``32 * row + column``, all of one bank, and a bank gives one word a clock.
# With a column more, unused, these are the words ``33 * row + column``: all banks once.
# *Padding* costs 128 bytes and mends it.
#
# In the ladder there was no conflict, since the threads of a warp read neighbours in a
# row of ``b_tile``, and the same number of ``a_tile``: one word for many threads costs
# one pass.
#
# Measure
# -------
#
# On any computer, the CPU's own ladder: NumPy's product is the library, and two loops
# by Numba run on all cores. They differ as the first two steps did: one goes down the
# columns of :math:`B`, the other along its rows. On a GPU, all steps for 4096 x 4096,
# and the library through PyTorch, in ``float32``, with tensor cores forbidden and
# allowed. (A product in Triton comes on a page of its own, later in this chapter.)

import torch
from numba import njit, prange

from firstlight import Bench, best_device


@njit(parallel=True)
def down_columns(a, b, c):
    for i in prange(c.shape[0]):
        for j in range(c.shape[1]):
            total = np.float32(0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@njit(parallel=True)
def along_rows(a, b, c):
    for i in prange(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


# %%

bench = Bench("shared-memory", budget=2 if simulated() else 8)
small = 513
a, b = (rng.random((small, small), dtype=np.float32) for _ in range(2))
c, exact = np.zeros_like(a), a.astype(np.float64) @ b
cost = {"n": small}
on_cpu = {"NumPy": np.matmul, "Numba, along rows": along_rows}
on_cpu["Numba, down columns"] = down_columns
for name, function in on_cpu.items():
    bench.time(name, function, a, b, c, **cost)
    assert np.allclose(c, exact, rtol=1e-5), f"{name} is wrong"

library = bench["NumPy"].median
for name in on_cpu:
    print(f"{name:>19}: {library / bench[name].median:6.1%} of the library's speed")

# %%

device = best_device()
has_gpu = device.type == "cuda"
n = side if device.type != "cpu" else small
t_a, t_b = (torch.rand(n, n, device=device) for _ in range(2))
t_c = torch.empty_like(t_a)
cost = {"n": n, "device": device}
if has_gpu:
    cost["flops"] = 2 * n**3  # for the rate, and its part of what this GPU can do


def torch_product():
    torch.matmul(t_a, t_b, out=t_c)


torch.set_float32_matmul_precision("highest")  # no tensor cores
bench.time("torch", torch_product, **cost)
if torch.version.cuda and has_gpu and torch.cuda.get_device_capability()[0] >= 8:
    torch.set_float32_matmul_precision("high")  # tensor cores, numbers cut to TF32
    bench.time("torch, TF32", torch_product, **cost)
    torch.set_float32_matmul_precision("highest")

# %%

climbed = {name: ladder[name] for name in ("row along x", "column along x")}
climbed |= {
    "tile": square(32),
    "4 x 4 each": square(16, 4),
    "8 x 8 each": square(16, 8),
}
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

# %%


if not simulated():
    cost["bytes"] = 2 * 4 * side**2
    del cost["flops"]
    for name, step in turns.items():
        bench.time(f"transpose, {name}", launch, step, d_a, d_c, **cost)
        assert np.array_equal(d_c.copy_to_host(), h_a.T), name
    if has_gpu:
        cost["device"] = device
        bench.time("transpose, torch", lambda: t_c.copy_(t_a.T), **cost)
bench.show()

# %%
# On the CPU, the order of the loops alone decides much, for the same reason as on the
# GPU: neighbours in memory should be used together. NumPy's library has tiles and
# registers as well.
#
# With a GPU, compare each step with the model. A step above it had its loads joined. A
# step below it waits for something that the model leaves out: addresses to compute, the
# start and end of each round, loads that nothing hides.
#
# Where this stops being true
# ---------------------------
#
# - *Tensor cores.* They multiply small matrices as a whole. An H100 computes
#   :spec:`H100 SXM fp32` in ``float32`` without them, :spec:`H100 SXM tf32` with them
#   in TF32 (numbers cut to 10 bits of fraction), :spec:`H100 SXM bf16` in
#   ``bfloat16``. No step of this ladder comes near that, and no kernel in Numba uses
#   them. For a plain product call the library. Write a kernel for what it does not
#   have, such as a product with something unusual at its ends.
# - *Small or thin matrices.* With few outputs, large squares leave multiprocessors
#   without a block. With few columns the product is a matrix-vector product, and
#   memory decides.
# - *Caches.* The column along ``x`` depends on what L1 keeps, and can come close to the
#   tile. Tiles make sure; they do not always win.
# - *The library* does more: loads of four numbers at once, the next tile fetched while
#   this one is used, sizes chosen for each card and shape.
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
# ``check`` knows the counts of the trace for some kernels, and a few ways to be wrong:

cases = [(8, 5, 16, 4, 2), (9, 5, 20, 4, 1), (17, 6, 9, 4, 2), (5, 3, 33, 2, 4)]
true = {}
for case in cases:
    seen, error = run(square(*case[3:]), *case[:3])
    assert error < 1e-6
    true[case] = seen.counts("load", "global").sum()


def mistakes(m, k, n, T, R):
    S, wide = R * T, R * R * T

    def read(across, down):
        return m * k * across + k * n * down

    over = blocks_for(m, S) * blocks_for(n, S) * blocks_for(k, T) * 2 * S * T
    one = read(blocks_for(n, S), blocks_for(m, S)) / (m * n)
    return {
        "there are only whole blocks": read(n / S, m / S),
        "the last block hangs over the edge: round up": read(n // S, m // S),
        "a thread has R x R outputs": read(blocks_for(n, T), blocks_for(m, T)),
        "a square is R * T wide": read(blocks_for(n, wide), blocks_for(m, wide)),
        "blocks side by side all read A": read(blocks_for(m, S), blocks_for(n, S)),
        "zeros beyond the edge are no loads": over,
        "that is for one output, and all are asked for": one,
    }


# %%


def check(answer):
    if not callable(answer):
        return "Not yet: give the function itself, check(loads)."
    try:
        given = {case: float(answer(*case)) for case in cases}
    except Exception as error:
        return f"Not yet: it raised {type(error).__name__}: {error}."
    if given == true:
        return "Right: exactly what the trace counts, for all of them."
    for hint in mistakes(*cases[0]):
        if all(np.isclose(given[case], mistakes(*case)[hint]) for case in cases):
            return f"Not yet: {hint}."
    case = next(case for case in cases if given[case] != true[case])
    sizes = "{} x {} x {}, T = {}, R = {}".format(*case)
    return f"Not yet. {sizes}: you say {given[case]:g}, the trace counts {true[case]}."


print(check(loads))

# %%

# solution


def loads_solution(m, k, n, T, R):
    S = T * R
    blocks_across, blocks_down = -(-n // S), -(-m // S)
    return m * k * blocks_across + k * n * blocks_down


print(check(loads_solution))

# %%
# All of :math:`A` is read once for each column of blocks, all of :math:`B` once for
# each row of blocks. For sizes that fit, that is the old formula.
#
# Now write the kernels yourself. Two puzzles ask for them, and judge not only the
# result, but every access: ``from firstlight.kernels.puzzles import PUZZLES``, then
# ``PUZZLES["matmul"].task`` and ``PUZZLES["matmul"].check(kernel)``, and the same with
# ``PUZZLES["transpose"]``.
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
