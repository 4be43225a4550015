"""
Can you write the kernel yourself?
==================================

You've read some kernels, and could follow every line. But could you write a
:term:`kernel` into an empty function?

Here are sixteen empty ones, a few minutes to read and an evening or two to fill. The
first squares some numbers. The last does what the computer of a radio telescope does.
In the picture, a row is a thread, and a column an element. Do you know
`GPU-Puzzles`__ by Sasha Rush? Then the first few will go quickly. But here a judge
watches every access to memory, and finds what ``np.allclose`` lets pass:

__ https://github.com/srush/GPU-Puzzles

.. list-table:: What the judge says of results that may be right
   :header-rows: 1
   :widths: 30 70

   * - your mistake
     - the judge
   * - a sum without a barrier
     - *a race: part[32]: load by thread 0 of block 0 in line 14, and store by thread 32
       of block 0 in line 11*
   * - a barrier inside an ``if``
     - *a barrier that not all threads reach: block 0: thread 0 (and 31 more) waits,
       thread 32 (and 31 more) went past it*
   * - *x* and *y* swapped
     - *10.7 sectors of 32 bytes for one access of a warp, where 5 would do*
   * - a tile 32 numbers wide
     - *5 words of one bank of shared memory for one access of a warp, where 1 would do*

**Needs:** :doc:`a first kernel </tutorials/3_kernels/01_first_kernel>`. Without a GPU,
the judge plays your kernels thread by thread.
"""

# %%
# Write the first two now
# -----------------------
#
# One file has nothing but the sixteen gaps:
#
# - *On your computer*, without a GPU or PyTorch: unpack :offered:`first-light.zip`, and
#   type in its folder ``uv run 3_kernels/sixteen_kernels.py``.
# - *In Google Colab:* upload :offered:`3_kernels/sixteen_kernels.ipynb`, with *File*,
#   *Upload notebook*. Its first cell installs what it needs.
#
# .. list-table:: Have you written CUDA before? Then start at 8, 12, 14 and 16
#    :header-rows: 1
#    :widths: 26 22 22 30
#
#    * - puzzles
#      - lines to write
#      - level
#      - read before
#    * - 1 to 7, alone
#      - 2 to 4
#      - easy
#      - :doc:`grids </tutorials/3_kernels/03_grids>`
#    * - 8 to 12, together
#      - 5 to 8
#      - takes thought, above all 12
#      - :doc:`reductions </tutorials/3_kernels/08_reductions>`, and for 11 and 12
#        :doc:`races and barriers </tutorials/3_kernels/09_when_a_kernel_goes_wrong>`
#    * - 13 to 15, through a tile
#      - 5 to 12
#      - 14 and 15 are hard
#      - :ref:`how a block fills a tile <tile-step>`
#    * - 16, for a telescope
#      - 12
#      - hard
#      - –
#
# 1. ``map``
# ~~~~~~~~~~
#
# Square every element.
#
# - ``out[:] = x**2``
# - *Threads:* one for each element.
# - *It counts if* a thread reads memory once.
#
# The file begins each puzzle for you, here with ``i = cuda.grid(1)``. Write ``out[i] =
# x[i] * x[i]`` below it, and the judge says:
#
# .. code-block:: text
#
#    map: Not yet: the result is right, but with size 8 launched as [1, 8], there are
#    2 reads of global memory by a thread, where 1 would do
#    Hint: what do you ask memory for twice?
#
# A compiler may well make one read of the two. The judge counts what you write. **Can
# you do better? Put your code into the file, where the dots are.**

import math

import matplotlib.pyplot as plt
import numpy as np
from numba import cuda, float32, int32

from firstlight_kernels import trace  # without a GPU, it plays the kernels
from firstlight_kernels.puzzles import PUZZLES, attempt, tally


@attempt("map")
@cuda.jit
def square(x, out): ...


# %%

# folded: The attempt that the judge sent back
# The {} keeps it out of your score.


@attempt("map", {})
@cuda.jit
def square_at_once(x, out):
    i = cuda.grid(1)
    out[i] = x[i] * x[i]


# %%
# 2. ``guard``
# ~~~~~~~~~~~~
#
# Multiply the first ``n`` elements by a gain. The elements after them belong to
# somebody else.
#
# - ``out[:n] = gain * x[:n]``
# - *Threads:* at least ``n``, perhaps more.
# - *It counts if* a thread that has no element touches no memory, not even to read.


@attempt("guard")
@cuda.jit
def calibrate(x, gain, n, out): ...


# %%
# 3. ``stride``, together
# -----------------------
#
# - ``out[:] = 1 - tau / 2``
# - *Threads:* usually fewer than elements. The smallest case has 21 elements, and 2
#   blocks of 4 threads.
#
# We'll solve this one here. In the file it's open until you type it. First we write
# what we always write. A plain ``1`` would make Numba :doc:`calculate in float64
# </tutorials/3_kernels/10_what_the_compiler_did>`, so it's ``float32(1)``.


@attempt("stride")
@cuda.jit
def one_each(tau, out):
    i = cuda.grid(1)
    if i < tau.size:
        out[i] = float32(1) - tau[i] / float32(2)


# %%
# Who wrote what? A picture shows all elements, row by row, and in each the number of
# the thread that wrote it. The others still hold the judge's −77.

PUZZLES["stride"].plot(one_each, "out")
plt.show()

# %%
# Eight threads took one element each, and nobody took the rest. So each thread needs a
# loop. You can give it *neighbouring* elements, such as 0, 1 and 2, or every eighth
# one, such as 0, 8 and 16. **The result will be the same. Which would you choose?** On
# a CPU, you'd cut the array into pieces, one for each core:


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
# Every element is right, and it still doesn't count. In the first step of the loop,
# threads 0 to 3 read elements 0, 3, 6 and 9. The 32 threads of a :term:`warp` read
# together, and memory comes in :term:`sectors <sector>` of eight numbers. If the
# threads stand far apart, each fetches a sector of its own. So let them stand side by
# side, and jump together:


@attempt("stride")
@cuda.jit
def side_by_side(tau, out):
    for i in range(cuda.grid(1), tau.size, cuda.gridsize(1)):
        out[i] = float32(1) - tau[i] / float32(2)


PUZZLES["stride"].plot(side_by_side, "tau")
plt.show()

# %%
# On an H100, ``pieces`` took :timing:`puzzles-stride speedup "side by side"/pieces
# @nvidia-h100-80gb-hbm3` as long.

# folded: The timing: NumPy, and both kernels on a GPU

from functools import partial

from firstlight import Bench
from firstlight_kernels import simulated

many = 2**22 + 1 if simulated() else 2**26 + 1
tau = np.random.default_rng(seed=1).random(many, dtype=np.float32)
bench = Bench("puzzles-stride", budget=4)
size = {"n": tau.size, "bytes": 8 * tau.size}
if not simulated():
    d_tau, d_out = cuda.to_device(tau), cuda.to_device(np.full_like(tau, -77))
    for label, kernel in (("pieces", pieces), ("side by side", side_by_side)):
        launch = partial(kernel[4096, 256], d_tau, d_out)
        bench.time(label, launch, device="cuda:0", **size)
        assert np.allclose(d_out.copy_to_host(), 1 - tau / 2), label
bench.time("NumPy", lambda: 1 - tau / np.float32(2), device="cpu", **size)
bench.show()

# %%
# Solve the others the same way: draw who touches what, and change one thing.
#
# Alone
# -----
#
# In the next four, each thread works on an element of its own.
#
# 4. ``zip``
# ~~~~~~~~~~
#
# Turn complex numbers by an angle with the cosine ``c`` and the sine ``s``. Their real
# and imaginary parts lie in two arrays, and the result goes into the same arrays.
#
# - ``re[:], im[:] = c * re - s * im, s * re + c * im``
# - *Threads:* one for each element, or more.
# - *It counts if* a thread reads twice and writes twice.


@attempt("zip")
@cuda.jit
def rotate(re, im, c, s): ...


# %%
# 5. ``neighbours``
# ~~~~~~~~~~~~~~~~~
#
# Replace each element by the mean of itself and its two neighbours. At the ends, the
# element stands in for the neighbour that is missing. Beware: index −1 is the last one.
#
# - ``p = np.pad(x, 1, mode="edge")``, ``out[:] = (p[:-2] + p[1:-1] + p[2:]) / 3``
# - *Threads:* one for each element, or more.
# - *It counts if* a thread reads at most 3 elements.


@attempt("neighbours")
@cuda.jit
def smooth(x, out): ...


# %%
# 6. ``image``
# ~~~~~~~~~~~~
#
# Now the threads have two :doc:`axes </tutorials/3_kernels/03_grids>`. Replace the
# negative pixels of an image by zero. The image needn't be square.
#
# - ``out[:] = np.maximum(image, 0)``
# - *Threads:* one for each pixel, or more.
# - *It counts if* the threads of a warp lie along a row.


@attempt("image")
@cuda.jit
def positive(image, out): ...


# %%
# 7. ``broadcast``
# ~~~~~~~~~~~~~~~~
#
# ``u`` has a coordinate for each column, and ``v`` one for each row. Calculate the
# squared distance from the centre. NumPy would broadcast. You index.
#
# - ``out[:] = u[None, :] ** 2 + v[:, None] ** 2``
# - *Threads:* one for each pixel, or more.
# - *It counts if* a thread reads twice, and the threads of a warp lie along a row.


@attempt("broadcast")
@cuda.jit
def distance(u, v, out): ...


# %%
# Together
# --------
#
# From here on, threads exchange numbers, from 9 on in :term:`shared memory`. If 8 looks
# strange, do 9 first. Elements after the end count as zero.
#
# 8. ``warp sum``
# ~~~~~~~~~~~~~~~
#
# Let each warp of 32 threads add up its 32 elements. Its threads can give each other
# numbers, without any memory:
#
# .. code-block:: python
#
#    # From the thread 16 places further on. The mask says that all 32 take part.
#    value += cuda.shfl_down_sync(0xFFFFFFFF, value, 16)
#
# - ``out[0] = x[:32].sum()``, and so on
# - *Threads:* one for each element, or more.
# - *It counts if* there is no shared memory and nothing atomic.


@attempt("warp sum")
@cuda.jit
def warp_sum(x, out): ...


# %%
# 9. ``block sum``
# ~~~~~~~~~~~~~~~~
#
# Let each block of 64 threads add up its 64 elements. Begin with these lines:
#
# .. code-block:: python
#
#    part = cuda.shared.array(64, float32)  # the whole block sees it
#    i, t = cuda.grid(1), cuda.threadIdx.x
#    part[t] = x[i] if i < x.size else float32(0)
#    cuda.syncthreads()  # wait until all threads of the block are here
#
# Then add in a tree, which takes three rounds for 8 numbers:
#
# .. code-block:: text
#
#    a         b     c   d   e  f  g  h
#    ae        bf    cg  dh
#    aecg      bfdh
#    aecgbfdh
#
# - ``out[0] = x[:64].sum()``, and so on
# - *Threads:* one for each element, or more.
# - *It counts if* a thread reads memory once, and shared memory at most 13 times: twice
#   in each of six rounds, and the sum at the end.


@attempt("block sum")
@cuda.jit
def block_sum(x, out): ...


# %%
# 10. ``dot``
# ~~~~~~~~~~~
#
# Now all blocks, of 64 threads each, add to one number. They run in any order, perhaps
# at the same time. ``cuda.atomic.add(out, 0, value)`` adds safely where others add too.
#
# - ``out[0] += x @ y``
# - *Threads:* one for each element, or more.
# - *It counts if* a block makes only one atomic operation, and adds in a tree.


@attempt("dot")
@cuda.jit
def dot(x, y, out): ...


# %%
# 11. ``histogram``
# ~~~~~~~~~~~~~~~~~
#
# Add to ``counts`` how often each of the numbers 0 to 15 is in ``x``. Let each block of
# 64 threads count in shared memory first, which nobody has cleared for you.
#
# - ``counts += np.bincount(x, minlength=16)``
# - *Threads:* one for each element, or more.
# - *It counts if* a block makes at most 16 atomic operations on the memory of the GPU.


@attempt("histogram")
@cuda.jit
def histogram(x, counts): ...


# %%
# 12. ``scan``
# ~~~~~~~~~~~~
#
# Write the running sum, and begin anew in each block of 64. That looks like 63 steps,
# one after the other, but six are enough.
#
# - ``out[:64] = np.cumsum(x[:64])``, and so on
# - *Threads:* one for each element, or more.
# - *It counts if* a thread reads memory once, and shared memory at most 13 times.
#
# .. dropdown:: The six steps, if you're stuck
#
#    For eight numbers there are three:
#
#    - ``a, b, c, d, e, f, g, h``
#    - ``a, ab, bc, cd, de, ef, fg, gh``
#    - ``a, ab, abc, abcd, bcde, cdef, defg, efgh``
#    - ``a, ab, abc, abcd, abcde, abcdef, abcdefg, abcdefgh``


@attempt("scan")
@cuda.jit
def scan(x, out): ...


# %%
# Through a tile
# --------------
#
# A block fetches a piece of the data into :doc:`shared memory
# </tutorials/3_kernels/07_shared_memory>` first, and then works on it.
#
# 13. ``tile``
# ~~~~~~~~~~~~
#
# Smooth as in ``neighbours``, but let a block fetch its elements first, with one more
# at either end.
#
# - *Threads:* one for each element, or more, in blocks of 32.
# - *It counts if* a block fetches 34 numbers, and each of them once.


@attempt("tile")
@cuda.jit
def smooth_tile(x, out): ...


# %%
# 14. ``transpose``
# ~~~~~~~~~~~~~~~~~
#
# Transpose an image.
#
# - ``out[:] = x.T``
# - *Threads:* a block of 32 × 8 for each tile of 32 × 32 pixels, so each thread takes
#   four.
# - *It counts if* it reads rows and writes rows, and has no :term:`bank conflicts <bank
#   conflict>`.


@attempt("transpose")
@cuda.jit
def transpose(x, out): ...


# %%
# 15. ``matmul``
# ~~~~~~~~~~~~~~
#
# Multiply two matrices. Let a block fetch tiles of both.
#
# - ``out[:] = a @ b``
# - *Threads:* one for each element of the result, or more, in blocks of 8 × 8.
# - *It counts if* each number that was fetched is used 8 times.


@attempt("matmul")
@cuda.jit
def matmul(a, b, out): ...


# %%
# For a radio telescope
# ---------------------
#
# This is how the data of a radio interferometer become :doc:`an image
# </tutorials/4_imaging/05_dirty_image>`.
#
# 16. ``gridding``
# ~~~~~~~~~~~~~~~~
#
# Add each :term:`visibility`, times its weight, to the nearest cell of three grids. The
# sky is real, so each visibility counts again at the opposite place, with the opposite
# imaginary part. Leave out what falls outside. No coordinate is halfway between two
# cells.
#
# .. code-block:: python
#
#    for sign in (1, -1):
#        column = np.rint(sign * u).astype(int) + size // 2
#        row = np.rint(sign * v).astype(int) + size // 2
#        inside = (row >= 0) & (row < size) & (column >= 0) & (column < size)
#        at = row[inside], column[inside]
#        np.add.at(grid_re, at, (weight * re)[inside])
#        np.add.at(grid_im, at, (sign * weight * im)[inside])
#        np.add.at(grid_weight, at, weight[inside])
#
# - *Threads:* one for each visibility, or more.
# - *It counts if* a thread reads 5 numbers and makes at most 6 atomic operations.


@attempt("gridding")
@cuda.jit
def grid(u, v, re, im, weight, grid_re, grid_im, grid_weight): ...


# %%
# How many?
# ---------

print(tally())

# %%
# To see what an answer costs, ``print(PUZZLES["dot"].score(dot))``. To draw it,
# ``PUZZLES["dot"].plot(dot)``.
#
# .. dropdown:: How far can you trust the judge?
#
#    It tries each kernel at three to five sizes, odd ones among them. That's evidence,
#    and not a proof. It doesn't see what the compiler makes of your kernel. And its
#    count says which kernel is slower, but not by how much: ``pieces`` touched at most
#    8 times as many sectors, and took far longer than that.
#
#    .. holds::
#
#       median("puzzles-stride/pieces") > 12 * median("puzzles-stride/side by side")
#
# Three lines to remember
# -----------------------

# remember

costly = PUZZLES["stride"].launches[-1]
given = PUZZLES["stride"].inputs(np.random.default_rng(seed=1), *costly.sizes)
seen = trace(pieces, costly.blocks, costly.threads, *given)
sectors = seen.sectors_per_load["tau"]
print("1. A right result is half an answer. Our pieces were right, and touched")
print(f"   {sectors:.1f} sectors a load where 4 would do.")
print("2. Read what the judge says, draw who touches what, and change one thing.")
print("3. Try sizes that nobody would choose: 1, 37, 203.")

# %%
# Solutions
# ---------
#
# Yours may look different and be right.

# folded: Where our solutions are kept

ours = {}


def solution(name):
    def keep(kernel):
        ours[name] = kernel, PUZZLES[name].check(kernel)
        return kernel

    return keep


# %%
# 1, 2, 4 and 5: ``map``, ``guard``, ``zip`` and ``neighbours``

# solution


@solution("map")
@cuda.jit
def square_solution(x, out):
    i = cuda.grid(1)
    value = x[i]
    out[i] = value * value


@solution("guard")
@cuda.jit
def calibrate_solution(x, gain, n, out):
    i = cuda.grid(1)
    if i < n:
        out[i] = gain * x[i]


@solution("zip")
@cuda.jit
def rotate_solution(re, im, c, s):
    i = cuda.grid(1)
    if i < re.size:
        a, b = re[i], im[i]
        re[i] = c * a - s * b
        im[i] = s * a + c * b


@solution("neighbours")
@cuda.jit
def smooth_solution(x, out):
    i = cuda.grid(1)
    if i < x.size:
        left, right = max(i - 1, 0), min(i + 1, x.size - 1)
        out[i] = (x[left] + x[i] + x[right]) / float32(3)


ours["stride"] = side_by_side, PUZZLES["stride"].check(side_by_side)

# %%
# 6 and 7: ``image`` and ``broadcast``

# solution


@solution("image")
@cuda.jit
def positive_solution(image, out):
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        out[y, x] = max(image[y, x], float32(0))


@solution("broadcast")
@cuda.jit
def distance_solution(u, v, out):
    x, y = cuda.grid(2)
    if y < v.size and x < u.size:
        a, b = u[x], v[y]
        out[y, x] = a * a + b * b


# %%
# 8 and 9: ``warp sum`` and ``block sum``

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
# 10: ``dot``

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
# 11 and 12: ``histogram`` and ``scan``

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
# 13 and 14: ``tile`` and ``transpose``

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
# 15: ``matmul``

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
# 16: ``gridding``

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


print(f"Our solutions: {tally(ours)}")

# %%
# The picture of all sixteen
# --------------------------
#
# In each panel, a row is a thread and a column an element, of shared memory where there
# is any. **Can you tell the sum in halves from the scan?**

# folded: How a panel is drawn

from firstlight.display import BLUE, ORANGE


def fingerprint(ax, name, kernel):
    launch = max(PUZZLES[name].launches, key=lambda launch: math.prod(launch.sizes))
    given = PUZZLES[name].inputs(np.random.default_rng(seed=1), *launch.sizes)
    seen = trace(kernel, launch.blocks, launch.threads, *given)
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
for ax, name in zip(axes.flat, PUZZLES, strict=False):
    fingerprint(ax, name, ours[name][0])
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
# The sums in halves are lines of half the length each time. The scan has diagonals at
# distances of 1, 2, 4, 8 and so on. And where you see a cloud, the data decide who goes
# where, so you needed atomic operations.
