"""
Can you write the kernel yourself?
==================================

For anyone who has read about :term:`kernels <kernel>` and wants to write some: here are
sixteen, from squaring numbers to :term:`gridding` the :term:`visibilities <visibility>`
of a radio telescope. A judge runs your kernel :term:`thread` by thread and looks at
every access to memory, so that a lucky result does not pass. The page solves one with
you; the others are yours.

**You will learn**

- to find the mistake in a kernel from what a check says and what a picture shows;
- what a kernel may cost, and to tell a right answer from a good one;
- which pages of this chapter you should read again;
- what such a judge does not see.

**Time:** 10 minutes to read, and as long as you like to solve. **Needs:** any computer,
and :doc:`a first kernel </tutorials/3_kernels/01_first_kernel>`. No GPU: the judge runs
kernels as plain Python.
"""

# %%
# How to play
# -----------
#
# - *In a notebook or as a script:* download either at the foot of this page. Put your
#   code where a kernel has ``...``, and run the cell, or the script. (There, a solution
#   stands open below each gap; on this page it is folded.)
# - *Anywhere else:* ``PUZZLES["map"]`` is a puzzle. ``stub`` is its beginning,
#   ``check(kernel)`` judges, ``score(kernel)`` tells what a kernel costs, and
#   ``plot(kernel)`` draws which thread touches what.
#
# Here, the line ``@attempt("map")`` above a kernel calls ``check``, and keeps the
# verdict. While the kernel is empty, it prints the task.

import inspect
import math
from functools import partial
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np

from firstlight.kernels import cuda, ptx, simulated, trace
from firstlight.lessons.puzzles import PUZZLES

from numba import float32, int32

yours, ours = {}, {}  # a puzzle's name: a kernel, and what the judge says of it
GAP = "not solved yet."

# %%


# folded: What @attempt does
def try_out(puzzle, launch, kernel):
    given = puzzle.inputs(np.random.default_rng(seed=1), *launch.sizes)
    return trace(kernel, launch.blocks, launch.threads, *given, limit=100_000)


def check(name, kernel):
    puzzle = PUZZLES[name]
    try:
        is_gap = not len(try_out(puzzle, puzzle.launches[0], kernel).accesses)
    except Exception:  # what is wrong, the judge says
        is_gap = False
    return GAP if is_gap else puzzle.check(kernel)


def sheet(puzzle):
    in_numpy = inspect.getsource(puzzle.spec).split(":\n", 1)[1]
    begin = puzzle.stub.rstrip().split(":\n", 1)[1]
    counts = fill(f"It counts only if {puzzle.constraint}. Begin with:", 84)
    return f"In NumPy:\n\n{in_numpy}\n{counts}\n\n{begin}\n"


def attempt(name, answers=yours):
    def judge(kernel):
        answers[name] = kernel, check(name, kernel)
        whose = f"Our {name}" if answers is ours else name
        print(fill(f"{whose}: {answers[name][1]}", 84))
        print(sheet(PUZZLES[name]) if answers[name][1] == GAP else "", end="")
        return kernel

    return judge


solution = partial(attempt, answers=ours)

# %%
# Predict
# -------
#
# The puzzle that we solve together is called ``stride``: for every element, ``out`` is
# to become ``1 - tau / 2``, but there are fewer threads than elements. Its smallest
# :term:`launch` has 21 elements and 2 :term:`blocks <block>` of 4 threads. Write down:
#
# - How many elements will the busiest thread take, if the work is shared evenly?
# - You can give a thread *neighbouring* elements, 0, 1 and 2, or every eighth, 0, 8 and
#   16. The result is the same. Which one would you choose?
#
# A :term:`warp` is 32 threads that load together, and memory comes in
# :term:`sectors <sector>` of 32 bytes, eight ``float32``. If 32 threads load 32
# neighbours, they touch 4 sectors. If each loads from a sector of its own, they touch
# 32. So in a long array, the wrong choice can move up to 8 times the bytes;
# :term:`caches <cache>` decide how much of that a card really moves.
#
# One puzzle together
# -------------------
#
# The first attempt is the obvious one. (The end of the page shows why it has
# ``float32(1)`` and not ``1``.)


@attempt("stride")
@cuda.jit
def one_each(tau, out):
    i = cuda.grid(1)
    if i < tau.size:
        out[i] = float32(1) - tau[i] / float32(2)


# %%
# The judge names the launch, the element and what it holds. All outputs start at -77,
# so you see that nobody has written there. The picture shows it for all elements at
# once: a cell is an element, row by row, with the number of the thread that writes it.

PUZZLES["stride"].plot(one_each, "out")
plt.show()

# %%
# The eight threads take one element each, and nobody goes on. So a thread needs a loop.
# The second attempt cuts the array into pieces, as you would for the cores of a CPU:


@attempt("stride")
@cuda.jit
def pieces(tau, out):
    each = (tau.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)
    start = each * cuda.grid(1)
    for i in range(start, min(start + each, tau.size)):
        out[i] = float32(1) - tau[i] / float32(2)


PUZZLES["stride"].plot(pieces, "tau")
plt.show()

# %%
# Every element is right now. It still does not count, since the judge also looks at
# cost. In the picture, threads 0 to 3 load elements 0, 3, 6 and 9 first, so that a
# warp's loads are spread over the whole array. Let them stand side by side, and jump
# together, by the number of all threads:


@attempt("stride")
@cuda.jit
def side_by_side(tau, out):
    for i in range(cuda.grid(1), tau.size, cuda.gridsize(1)):
        out[i] = float32(1) - tau[i] / float32(2)


PUZZLES["stride"].plot(side_by_side, "tau")
plt.show()

# %%
# ``score`` tells what the two cost, each line for the launch in which it is worst:

for kernel in (pieces, side_by_side):
    print(f"{kernel.__name__}:\n{PUZZLES['stride'].score(kernel)}\n")

# %%
# In the smallest launch, the busiest thread takes 3 elements with both. The sectors are
# those of 203 elements and 64 threads: 4 elements a thread. From 8 elements on,
# ``pieces`` touches 32 sectors.
#
# Solve all puzzles this way: read what the judge says, draw, change one thing.
#
# Exercise: the other fifteen
# ---------------------------
#
# They get harder as you go. Each solution is folded below its gap; yours may look
# different and be right. From the seventh on, open a task to see it.
#
# **Alone.** A thread finds its element and fetches no more than it needs. The page that
# helps is :doc:`a first kernel </tutorials/3_kernels/01_first_kernel>`.
#
# 1. ``map``
# ~~~~~~~~~~
#
# Square every element. There are exactly as many threads as elements.


@attempt("map")
@cuda.jit
def square(x, out): ...


# %%


# solution
@solution("map")
@cuda.jit
def square_solution(x, out):
    i = cuda.grid(1)
    value = x[i]
    out[i] = value * value


# %%
# 2. ``guard``
# ~~~~~~~~~~~~
#
# Multiply the first ``n`` elements by a gain. Do not touch what follows them; there may
# be more threads than elements.


@attempt("guard")
@cuda.jit
def calibrate(x, gain, n, out): ...


# %%


# solution
@solution("guard")
@cuda.jit
def calibrate_solution(x, gain, n, out):
    i = cuda.grid(1)
    if i < n:
        out[i] = gain * x[i]


# %%
# 3. ``zip``
# ~~~~~~~~~~
#
# Turn the phase of complex numbers by an angle with the cosine ``c`` and the sine
# ``s``. Real and imaginary parts lie in two arrays; leave the result there.


@attempt("zip")
@cuda.jit
def rotate(re, im, c, s): ...


# %%


# solution
@solution("zip")
@cuda.jit
def rotate_solution(re, im, c, s):
    i = cuda.grid(1)
    if i < re.size:
        a, b = re[i], im[i]
        re[i] = c * a - s * b
        im[i] = s * a + c * b


# %%
# 4. ``neighbours``
# ~~~~~~~~~~~~~~~~~
#
# Replace each element by the mean of itself and its two neighbours; at the ends, the
# element stands in for the neighbour that is missing. Beware: index -1 is the last one.


@attempt("neighbours")
@cuda.jit
def smooth(x, out): ...


# %%


# solution
@solution("neighbours")
@cuda.jit
def smooth_solution(x, out):
    i = cuda.grid(1)
    if i < x.size:
        left, right = max(i - 1, 0), min(i + 1, x.size - 1)
        out[i] = (x[left] + x[i] + x[right]) / float32(3)


# %%
# 5. ``image``
# ~~~~~~~~~~~~
#
# Now the threads have two axes, as on the page about :doc:`grids
# </tutorials/3_kernels/03_grids>`. Replace the negative pixels of an image by zero. The
# image need not be square, and there are more threads than pixels.


@attempt("image")
@cuda.jit
def positive(image, out): ...


# %%


# solution
@solution("image")
@cuda.jit
def positive_solution(image, out):
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        out[y, x] = max(image[y, x], float32(0))


# %%
# 6. ``broadcast``
# ~~~~~~~~~~~~~~~~
#
# From the coordinates of columns, ``u``, and of rows, ``v``, calculate the squared
# distance from the centre, for every cell. NumPy would broadcast; you index.


@attempt("broadcast")
@cuda.jit
def distance(u, v, out): ...


# %%


# solution
@solution("broadcast")
@cuda.jit
def distance_solution(u, v, out):
    x, y = cuda.grid(2)
    if y < v.size and x < u.size:
        a, b = u[x], v[y]
        out[y, x] = a * a + b * b


# %%
# 7. ``warp sum``
# ~~~~~~~~~~~~~~~
#
# **Together.** From here on, threads exchange numbers, as on the page about
# :doc:`reductions </tutorials/3_kernels/07_reductions>`. Let each warp of 32 threads
# write the sum of its 32 elements. ``cuda.shfl_down_sync(0xFFFFFFFF, value, by)`` gives
# a *lane*, a thread of the warp, the ``value`` of the lane ``by`` places on.


# folded: The task: warp sum, in NumPy, and where to begin
@attempt("warp sum")
@cuda.jit
def warp_sum(x, out): ...


# %%


# solution
@solution("warp sum")
@cuda.jit
def warp_sum_solution(x, out):
    i = cuda.grid(1)
    value = x[i] if i < x.size else float32(0)
    for by in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, by)
    if i % 32 == 0:
        out[i // 32] = value


# %%
# 8. ``block sum``
# ~~~~~~~~~~~~~~~~
#
# Let each block of 64 threads write the sum of its 64 elements, through
# :term:`shared memory`. Elements after the end count as zero.


# folded: The task: block sum, in NumPy, and where to begin
@attempt("block sum")
@cuda.jit
def block_sum(x, out): ...


# %%


# solution
@solution("block sum")
@cuda.jit
def block_sum_solution(x, out):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else float32(0)
    for half in (32, 16, 8, 4, 2, 1):
        cuda.syncthreads()
        if t < half:
            part[t] += part[t + half]
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


# %%
# 9. ``dot``
# ~~~~~~~~~~
#
# Add the dot product of ``x`` and ``y`` to ``out[0]``, where a value may already be.
# Blocks run in any order, perhaps at the same time.


# folded: The task: dot, in NumPy, and where to begin
@attempt("dot")
@cuda.jit
def dot(x, y, out): ...


# %%


# solution
@solution("dot")
@cuda.jit
def dot_solution(x, y, out):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] * y[i] if i < x.size else float32(0)
    for half in (32, 16, 8, 4, 2, 1):
        cuda.syncthreads()
        if t < half:
            part[t] += part[t + half]
    if t == 0:
        cuda.atomic.add(out, 0, part[0])


# %%
# 10. ``histogram``
# ~~~~~~~~~~~~~~~~~
#
# Add to ``counts`` how often each of the numbers 0 to 15 is in ``x``. Let each block of
# 64 threads count in shared memory first, which nobody has cleared for you.


# folded: The task: histogram, in NumPy, and where to begin
@attempt("histogram")
@cuda.jit
def histogram(x, counts): ...


# %%


# solution
@solution("histogram")
@cuda.jit
def histogram_solution(x, counts):
    mine = cuda.shared.array(16, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t < 16:
        mine[t] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(mine, x[i], 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(counts, t, mine[t])


# %%
# 11. ``scan``
# ~~~~~~~~~~~~
#
# Write the running sum: each element becomes the sum of itself and of all before it in
# its block of 64. That looks like 63 steps, one after the other; six will do.


# folded: The task: scan, in NumPy, and where to begin
@attempt("scan")
@cuda.jit
def scan(x, out): ...


# %%


# solution
@solution("scan")
@cuda.jit
def scan_solution(x, out):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else float32(0)
    for step in (1, 2, 4, 8, 16, 32):
        cuda.syncthreads()
        before = part[t - step] if t >= step else float32(0)
        cuda.syncthreads()
        part[t] += before
    if i < x.size:
        out[i] = part[t]


# %%
# 12. ``tile``
# ~~~~~~~~~~~~
#
# **Through a tile**, as on the page about :doc:`shared memory
# </tutorials/3_kernels/06_shared_memory>`. Smooth as in ``neighbours``, but let a block
# of 32 threads fetch its elements first, with one more at either end.


# folded: The task: tile, in NumPy, and where to begin
@attempt("tile")
@cuda.jit
def smooth_tile(x, out): ...


# %%


# solution
@solution("tile")
@cuda.jit
def smooth_tile_solution(x, out):
    tile = cuda.shared.array(34, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    for k in range(t, 34, 32):
        tile[k] = x[min(max(i - t - 1 + k, 0), x.size - 1)]
    cuda.syncthreads()
    if i < x.size:
        out[i] = (tile[t] + tile[t + 1] + tile[t + 2]) / float32(3)


# %%
# 13. ``transpose``
# ~~~~~~~~~~~~~~~~~
#
# Transpose an image: a block of 32 × 8 threads moves a tile of 32 × 32 pixels. It reads
# rows, and it writes rows.


# folded: The task: transpose, in NumPy, and where to begin
@attempt("transpose")
@cuda.jit
def transpose(x, out): ...


# %%


# solution
@solution("transpose")
@cuda.jit
def transpose_solution(x, out):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = 32 * cuda.blockIdx.x, 32 * cuda.blockIdx.y
    for k in range(ty, 32, 8):
        if top + k < x.shape[0] and left + tx < x.shape[1]:
            tile[k, tx] = x[top + k, left + tx]
    cuda.syncthreads()
    for k in range(ty, 32, 8):
        if left + k < x.shape[1] and top + tx < x.shape[0]:
            out[left + k, top + tx] = tile[tx, k]


# %%
# 14. ``matmul``
# ~~~~~~~~~~~~~~
#
# Multiply two matrices, one thread of a block of 8 × 8 for each element of the result.
# Let the block fetch tiles of both, and use each number 8 times.


# folded: The task: matmul, in NumPy, and where to begin
@attempt("matmul")
@cuda.jit
def matmul(a, b, out): ...


# %%


# solution
@solution("matmul")
@cuda.jit
def matmul_solution(a, b, out):
    a_tile = cuda.shared.array((8, 8), float32)
    b_tile = cuda.shared.array((8, 8), float32)
    column, row = cuda.grid(2)
    tx, ty, total = cuda.threadIdx.x, cuda.threadIdx.y, float32(0)
    for at in range(0, a.shape[1], 8):
        inside = row < a.shape[0] and at + tx < a.shape[1]
        a_tile[ty, tx] = a[row, at + tx] if inside else float32(0)
        inside = column < b.shape[1] and at + ty < b.shape[0]
        b_tile[ty, tx] = b[at + ty, column] if inside else float32(0)
        cuda.syncthreads()
        for k in range(8):
            total += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total


# %%
# 15. ``gridding``
# ~~~~~~~~~~~~~~~~
#
# **From the real world.** Add weighted visibilities to the nearest cells of three
# grids. ``u`` and ``v`` are in cells, and zero is at row and column ``size // 2``. The
# sky is real, so each of them counts again at ``(-u, -v)``, conjugated; what falls
# outside is left out. No coordinate is halfway between two cells.


# folded: The task: gridding, in NumPy, and where to begin
@attempt("gridding")
@cuda.jit
def grid(u, v, re, im, weight, grid_re, grid_im, grid_weight): ...


# %%


# solution
@solution("gridding")
@cuda.jit
def grid_solution(u, v, re, im, weight, grid_re, grid_im, grid_weight):
    i = cuda.grid(1)
    if i >= u.size:
        return
    size, w, half = grid_re.shape[0], weight[i], float32(0.5)
    x, y = int32(math.floor(u[i] + half)), int32(math.floor(v[i] + half))
    wre, wim = w * re[i], w * im[i]
    for sign in (1, -1):
        row, column = size // 2 + sign * y, size // 2 + sign * x
        if 0 <= row < size and 0 <= column < size:
            cuda.atomic.add(grid_re, (row, column), wre)
            cuda.atomic.add(grid_im, (row, column), wim)
            cuda.atomic.add(grid_weight, (row, column), w)
        wim = -wim


# %%
# Your score
# ----------
#
# Run ``score(yours)`` whenever you like. It counts what you solved, and names the page
# to read again for what you did not.

# folded: What score does
HELPS = {
    "01_first_kernel": ("map", "guard", "zip", "neighbours"),
    "03_grids": ("image", "broadcast", "stride"),
    "06_shared_memory": ("tile", "transpose", "matmul"),
    "07_reductions": ("warp sum", "block sum", "dot", "scan"),
    "08_when_a_kernel_goes_wrong": ("histogram", "gridding"),
}


def solved(answers):
    return {name for name, (_, said) in answers.items() if said.startswith("Right")}


def score(answers):
    print(f"{len(solved(answers))} of {len(PUZZLES)} solved.")
    for page, names in HELPS.items():
        if missed := [name for name in names if name not in solved(answers)]:
            print(f"  read {page} for {', '.join(missed)}")


# %%

score(yours)

# %%
# Check
# -----
#
# Our own solutions must pass, too, at odd and even sizes, with no element, one, less
# than a block and more:

ours["stride"] = side_by_side, check("stride", side_by_side)
score(ours)
launches = [launch for puzzle in PUZZLES.values() for launch in puzzle.launches]
threads = sum(launch.in_all for launch in launches)
print(f"{len(launches)} launches with {threads} threads, each access looked at.")

# %%
# All sixteen in one picture: a row is a thread, a column an element. Blue squares are
# reads, orange crosses are writes. Where a kernel has shared memory, you see only that,
# for one block. Once your kernel is accepted, the figure shows yours instead of ours.


# folded: How a panel is drawn

from firstlight.display import BLUE, ORANGE


def fingerprint(ax, name, kernel):
    launch = max(PUZZLES[name].launches, key=lambda launch: math.prod(launch.sizes))
    seen = try_out(PUZZLES[name], launch, kernel)
    accesses, chosen = seen.accesses, seen.in_space("global")
    if seen.in_space("shared").any():
        one_block = accesses["thread"] < launch.in_block
        chosen = seen.in_space("shared") & one_block
    accesses = accesses[chosen]
    size = np.array([array.itemsize for array in seen.arrays])[accesses["array"]]
    element, reads = accesses["offset"] // size, accesses["kind"] == 0
    for which, look, color in ((reads, "s", BLUE), (~reads, "x", ORANGE)):
        at = element[which], accesses["thread"][which]
        ax.plot(*at, look, ms=2.2, mew=0.7, color=color)
    ax.invert_yaxis()
    ax.set(xticks=[], yticks=[])
    ax.set_title(name, size=10)


# %%

# figure
# sphinx_gallery_thumbnail_number = 4
fig, axes = plt.subplots(3, 6, figsize=(7.2, 4.4), layout="constrained")
key = axes[2, 4]
for ax in axes.flat[16:]:
    ax.axis("off")
key.plot([], [], "s", color=BLUE, label="reads")
key.plot([], [], "x", color=ORANGE, label="writes")
key.legend(loc="center left", frameon=False, fontsize=10).set_in_layout(False)
drawn = ours | {name: yours[name] for name in solved(yours)}
for ax, (name, (kernel, _)) in zip(axes.flat, drawn.items(), strict=False):
    fingerprint(ax, name, kernel)
fig.suptitle("Which thread touches what: each pattern has its picture", size=12)
fig.supxlabel("element", size=10)
fig.supylabel("thread", size=10)
fig.set_label(
    "Sixteen panels, a kernel each: which thread, downwards, touches which element, "
    "across. Where threads work alone there is one diagonal; stride has four, side by "
    "side. The sums are lines of half the length each time. The scan has diagonals at "
    "distances 1, 2, 4 and so on. The matrix product is a lattice, the histogram a "
    "cloud. Blue squares are reads, orange crosses are writes."
)
plt.show()

# %%
# A diagonal: each thread works alone. Lines of half the length each time: a sum in
# halves, or *tree*.
# Diagonals at distances 1, 2, 4, 8: the scan, which has as many steps as the tree, and
# far more additions. A cloud: the data decide who goes where, so you need atomic
# operations.
#
# Measure
# -------
#
# What the judge counts is not time. On a CUDA GPU, the next cell times ``pieces`` and
# ``side_by_side``, beside PyTorch for the same bytes. Without one, only PyTorch's row
# is there, for scale.

# folded: On a GPU: both kernels for stride, beside PyTorch
import torch

from firstlight import Bench, best_device

device = best_device()
side = 2047 if device.type == "cpu" else 8191
tau = np.random.default_rng(seed=1).random(side**2, dtype=np.float32)
right = 1 - tau.astype(np.float64) / 2
t_tau, one = torch.from_numpy(tau).to(device), torch.ones((), device=device)
t_out = torch.empty_like(t_tau)

bench = Bench("puzzles", budget=0.5 if simulated() else 4)
size = {"n": tau.size, "bytes": 8 * tau.size}
by_torch = partial(torch.add, one, t_tau, alpha=-0.5, out=t_out)
bench.time("torch", by_torch, device=device, **size)
assert np.allclose(t_out.cpu(), right), "torch"
if not simulated():
    d_tau = cuda.to_device(tau)
    for order, kernel in (("pieces", pieces), ("side by side", side_by_side)):
        d_out = cuda.to_device(np.full_like(tau, -77))
        launch = partial(kernel[4096, 256], d_tau, d_out)
        bench.time(f"kernel, {order}", launch, device="cuda:0", **size)
        assert np.allclose(d_out.copy_to_host(), right), order

# %%

bench.show()

# %%
# For the cores of a CPU, pieces are the usual choice: each core uses up a cache line
# alone. On a GPU, the threads of a warp share it.
#
# Where this stops being true
# ---------------------------
#
# - *The judge reads what you wrote, not what the compiler made of it.* Below is a
#   kernel that asks for ``x[i]`` twice, and one that computes ``1 - tau / 2`` in plain
#   numbers. The judge rejects the first, and accepts the second.
# - *A trace is one order of events, at a few sizes.* So a right verdict is evidence,
#   not proof.


@cuda.jit
def square_twice(x, out):
    i = cuda.grid(1)
    out[i] = x[i] * x[i]


@cuda.jit
def plain_numbers(tau, out):
    for i in range(cuda.grid(1), tau.size, cuda.gridsize(1)):
        out[i] = 1 - tau[i] / 2


# %%

compiled = {}
for name, kernel in (("map", square_twice), ("stride", plain_numbers)):
    print(fill(f"{kernel.__name__}: {check(name, kernel)}", 84))
    for cc in ((7, 5), (9, 0)):
        try:
            mix = ptx.compile(kernel, "float32[::1], float32[::1]", cc).mix
        except ptx.NoCompilerError:
            continue
        doubles = sum(count for name, count in mix.items() if "f64" in name)
        compiled[kernel.__name__, cc] = mix["ld.global.f32"], doubles
        print(f"  PTX for {cc}: loads {mix['ld.global.f32']}, float64 {doubles}")

# %%
# The compiler makes one load of the two, since nothing is written between them, so here
# the constraint of ``map`` saves nothing. The second kernel's ``1`` and ``2`` made it
# calculate in ``float64``, which is slow on most cards: see :doc:`what the compiler did
# </tutorials/3_kernels/09_what_the_compiler_did>`. (Its five loads are one, in a loop
# that the compiler unrolled.)
#
# Three lines to remember
# -----------------------

# remember
costly = try_out(PUZZLES["stride"], PUZZLES["stride"].launches[-1], pieces)
sectors = costly.sectors_per_load["tau"]
print(
    f"""1. A right result is half an answer: pieces was right, and touched
{sectors:.1f} sectors a load where 4 would do.
2. Read what the check says, draw who touches what, change one thing; and try sizes
that nobody would choose.
3. A count of what you wrote is a good guess at cost. The compiler and the clock have
the last word."""
)
