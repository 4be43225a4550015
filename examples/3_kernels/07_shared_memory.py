"""
Shared memory: how do you stop asking for the same number?
==========================================================

You want the product of two matrices on a GPU, so you write a :term:`kernel`: one thread
for each element of the result, with a loop over a row of :math:`A` and a column of
:math:`B`. It's right. Then you let PyTorch do it, on the same card, and PyTorch is many
times as fast.

**Write down two guesses: how many times as fast, and what does your kernel spend its
time on?** Then we climb from your kernel towards PyTorch's, step by step. On the way, a
whole block of threads learns to share what each of them has fetched. You'll need that
for kernels of your own.

**Needs:** any computer, and :doc:`coalescing </tutorials/3_kernels/05_coalescing>`.
With a CUDA GPU, you time each step on it.
"""

# %%
# The ladder
# ----------
#
# This is the product of two matrices of 4,096 × 4,096 numbers in ``float32``. Our
# kernels are written in Numba, and stand beside the same in CUDA C++. The library is
# cuBLAS, which PyTorch calls.
#
# .. list-table:: One product, six times, on an H100
#    :header-rows: 1
#    :widths: 46 16 22 16
#
#    * - kernel, in Numba
#      - time
#      - rate
#      - of the library's
#    * - 1: a thread for each element
#      - :timing:`shared-memory median "first try" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory rate "first try" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory share "first try"/"torch" @nvidia-h100-80gb-hbm3`
#    * - 2: ``while`` in place of ``for``
#      - :timing:`shared-memory median "column along x" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory rate "column along x" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory share "column along x"/"torch" @nvidia-h100-80gb-hbm3`
#    * - 3: a :term:`tile` of 32 × 32, in shared memory
#      - :timing:`shared-memory median "tile" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory rate "tile" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory share "tile"/"torch" @nvidia-h100-80gb-hbm3`
#    * - 4: tiles of 16 × 16, and 4 × 4 elements each
#      - :timing:`shared-memory median "4 x 4 each" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory rate "4 x 4 each" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory share "4 x 4 each"/"torch" @nvidia-h100-80gb-hbm3`
#    * - 5: 8 × 8 each, with 128 :term:`registers <register>` at most
#      - :timing:`shared-memory median "8 x 8 each, 128 registers"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory rate "8 x 8 each, 128 registers"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory share "8 x 8 each, 128 registers"/"torch"
#        @nvidia-h100-80gb-hbm3`
#    * - the library
#      - :timing:`shared-memory median "torch" @nvidia-h100-80gb-hbm3`
#      - :timing:`shared-memory rate "torch" @nvidia-h100-80gb-hbm3`
#      - 100 %
#
# The library is :timing:`shared-memory speedup "torch"/"first try"
# @nvidia-h100-80gb-hbm3` as fast as step 1. Was that your guess? In full ``float32``,
# nothing could be much faster than the library: the H100's data sheet promises
# :spec:`H100 SXM fp32`.
#
# **Step 2, and the limit in step 5, only mend what Numba's compiler does.** NVIDIA's
# ``nvcc``, for CUDA C++, needs neither. If that's your language, count from step 2: the
# library is :timing:`shared-memory speedup "torch"/"column along x"
# @nvidia-h100-80gb-hbm3` as fast. We timed only Numba, and have :ref:`counted
# <two-compilers>` what both compilers make of each step.

# folded: Imports, and how we count what a step waits for

# A product of this size takes 4,096³ multiply-adds, of two operations each, and its
# matrices have 201 MB. Each of these three sets a limit: how long the product would
# take if nothing else took any time.
#
# - Slots: a multiprocessor can start four instructions in a clock cycle, each for a
#   whole warp. If all of them multiply and add, the card is as fast as its data sheet.
# - Loads: its cache hands out 128 bytes in a cycle, a number for each thread of a warp.
#   So a load takes at least one cycle, the time of four instructions.
# - Memory: we count as if there were no caches.
#
# At best, each number moves once, and a product waits for its arithmetic.

import numpy as np
from numba import cuda

from firstlight_kernels import blocks_for, simulated, trace
from firstlight.timing.specs import spec

multiply_adds = 4096**3 / 32  # of whole warps, with 64 operations each
ms_per_slot = 1e3 * multiply_adds * 64 / spec("H100 SXM", "fp32")
ms_per_byte = 1e3 * multiply_adds / spec("H100 SXM", "bandwidth")


def limits(step, slots, cycles, moved):
    """For a multiply-add of a warp: instructions, cycles of loads, bytes to move."""
    times = slots * ms_per_slot, 4 * cycles * ms_per_slot, moved * ms_per_byte
    print(step + ": slots {:.3g} ms, loads {:.3g} ms, memory {:.3g} ms".format(*times))
    return times


# three matrices with 4 bytes a number, and each number is for 4,096 multiply-adds
best = limits("at best", slots=1, cycles=0, moved=32 * 3 * 4 / 4096)

# %%

# folded: Step 0, counted: with rows and columns swapped

# The 32 numbers of A that a warp loads lie in 32 rows, so one load takes 32 cycles, and
# moves 32 pieces of 32 bytes. With the number of B, it's 33 of each. The H100 took as
# long as these loads. From memory alone it would have taken longer, so the caches
# helped.
step0 = limits("step 0", slots=36, cycles=33, moved=33 * 32)  # 36: in step 2

# %%
# Step 1: what you'd write
# ------------------------
#
# You'd start a thread for each element. The 32 threads of a :term:`warp` load together,
# so let them be neighbours in a row of :math:`C`. Then they read one number of
# :math:`A`, and neighbours in :math:`B`, on the right below. Blue is what they need,
# and shaded what moves, in *sectors* of 32 bytes:
#
# .. raw:: html
#    :file: ../../figures/warp.svg


@cuda.jit
def first_try(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


# %%
# .. dropdown:: In CUDA C++
#
#    .. code-block:: cuda
#
#        // int is enough for matrices of fewer than 2^31 numbers
#        __global__ void first_try(const float *__restrict__ a,
#                                  const float *__restrict__ b,
#                                  float *__restrict__ c, int m, int k, int n) {
#            int column = blockDim.x * blockIdx.x + threadIdx.x;
#            int row = blockDim.y * blockIdx.y + threadIdx.y;
#            if (row < m && column < n) {
#                float total = 0;
#                for (int i = 0; i < k; i++)
#                    total += a[row * k + i] * b[i * n + column];
#                c[row * n + column] = total;
#            }
#        }
#
# On the H100 it took :timing:`shared-memory median "first try" @nvidia-h100-80gb-hbm3`.
# With rows and columns swapped, which is step 0, on the left, it took
# :timing:`shared-memory median "row along x" @nvidia-h100-80gb-hbm3`.
#
# How often is a number loaded? We let ``trace`` play the kernel for a small product, 32
# × 8 times 8 × 32. It loaded each number 32 times, because 32 elements of :math:`C`
# need it. In the large product, that's 4,096 times.

# folded: Play the kernel, and count what it loads

# A warp moves five sectors for a multiply-add, which makes 160 bytes. So memory alone,
# in the last line, would need as long as the H100 took. But that's chance: step 2 loads
# the very same numbers in less than half of the time. The caches have most of them.
a, b, c = (np.ones(shape, np.float32) for shape in ((32, 8), (8, 32), (32, 32)))
plain = trace(first_try, (1, 4), (32, 8), a, b, c)
print("numbers in A and B:", a.size + b.size)
print("numbers loaded:    ", plain.counts("load", "global").sum())
print("sectors at a time: ", plain.sectors_per_load)
print(f"memory, without caches: {5 * 32 * ms_per_byte:.0f} ms")

# %%
# What can a kernel wait for?
# ---------------------------
#
# An H100 has 132 :term:`multiprocessors <multiprocessor>`, and each looks like this:
#
# .. raw:: html
#    :file: ../../figures/multiprocessor.svg
#
# Three things in it can be full:
#
# - *Slots.* In a clock cycle, each of the four schedulers can start one instruction for
#   a whole warp. NVIDIA calls that an *issue slot*. With a multiply-add in every slot,
#   a card is as fast as its data sheet says.
# - *Loads.* All numbers come to the registers one way, 128 bytes in a cycle. So the
#   load of a warp takes at least one cycle, in which four slots pass. NVIDIA counts
#   *LSU wavefronts*.
# - *Memory*, which is *DRAM* to NVIDIA. We count it as if there were no caches, so a
#   kernel may wait far less for it.
#
# Or nothing is full, and the warps wait for numbers that are on their way. That wait is
# called *latency*.
#
# **Step 2 is for Numba.** Step 1 takes 36 instructions for each multiply-add, and their
# slots make seven tenths of its time. Most of them work out where ``a[row, k]`` lies,
# because in Python a negative ``k`` counts from the end. If you count with ``while``,
# Numba sees that ``k`` is never negative. Then it takes 7.5 instructions, and step 2
# took :timing:`shared-memory median "column along x" @nvidia-h100-80gb-hbm3`. Do so in
# an innermost loop. It makes no difference only where the compiler unrolls the whole
# loop, as it does in step 3.
#
# .. holds::
#
#    ms_per_slot, ms_per_byte = code("ms_per_slot", "ms_per_byte")
#    took = lambda step: 1e3 * median(f"shared-memory/{step}/cuda:0/n=4096")
#    near(160 * ms_per_byte, took("first try"), 0.02)
#    160 * ms_per_byte > 2 * took("column along x")
#    took("first try") > 2 * took("column along x")
#    0.73 < ms_per_slot / took("torch") < 0.8
#    near(4 * 33 * ms_per_slot, took("row along x"), 0.02)
#    0.65 < 36 * ms_per_slot / took("first try") < 0.75
#    # The profiler, below, says how many of the numbers the two caches had.
#    counted, profile, waits = code("counted", "profile", "waits")
#    88 < profile["l1_hit_rate"]["2"] < 90 and 74 <= profile["l2_hit_rate"]["2"] < 76

# folded: The kernel with while

# With "for", nearly all instructions work out where a[row, k] lies, because a negative
# k would count from the end. With "while", the compiler sees that there's none.


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

# folded: How to count the instructions of a loop, without a GPU

import re

from firstlight_kernels import ptx


def per_multiply_add(kernel):
    code = ptx.compile(kernel, ", ".join(["float32[:, ::1]"] * 3), (9, 0)).sass
    loops = re.findall(r"(\.L_x_\d+):(.*?)BRA `\(\1\)", code, re.DOTALL)
    body = max((body for _, body in loops), key=len)
    return (body.count(";") + 1) / body.count("FFMA")  # FFMA multiplies and adds


try:
    print("for:  ", per_multiply_add(first_try))
    print("while:", per_multiply_add(column_along_x))
except (ptx.NoCompilerError, TypeError):  # or no machine code without nvdisasm
    print("without NVIDIA's compiler, believe us: 36 and 7.5")

# %%
# **What does step 2 wait for?** Compare its line with the :timing:`shared-memory median
# "column along x" @nvidia-h100-80gb-hbm3` that it took:

# folded code: How steps 1 and 2 are counted

# Both loops load two numbers, in a cycle each.
step1 = limits("step 1", slots=36, cycles=2, moved=5 * 32)
step2 = limits("step 2", slots=7.5, cycles=2, moved=5 * 32)

# %%
# Its slots and its loads each take a third of the time, so nothing is full. It waits
# for numbers. Some come from further away than the nearest cache, and a warp can't go
# on until they arrive. So let's fetch fewer numbers, and from nearby.
#
# .. holds::
#
#    of_peak = lambda step: ms_per_slot / took(step)
#    0.30 < 7.5 * of_peak("column along x") < 0.36
#    0.28 < 4 * 2 * of_peak("column along x") < 0.38
#    # Latency: so much of a warp's time from one instruction to the next, in cycles.
#    cycles = lambda step, *of: [round(profile[metric][step]) for metric in of]
#    cycles("2", "stalled_long_scoreboard", "warp_latency") == [41, 45]
#
# .. _tile-step:
#
# Step 3: one page on the blackboard
# ----------------------------------
#
# Imagine a class of 64 students, who all have to copy the same pages of two books in
# the archive. Instead of walking there for every page, each fetches *one* page of each
# book, and pins it to the blackboard. When all pages are up, everybody copies from
# there. Then they take them down, and fetch the next ones.
#
# On a GPU, the class is a block of threads, and the blackboard is its *shared memory*.
# It's inside the multiprocessor, and no other block sees it. It's fast, and small:
# :doc:`48 KiB for a block </tutorials/3_kernels/15_what_a_kernel_may_contain>`, if you
# don't ask for more.
#
# .. raw:: html
#    :file: ../../figures/reuse.svg
#
# The part of a matrix that hangs there is called a *tile*. Below, a block of 8 × 8
# threads computes a tile of :math:`C`. In each round it fetches the next tile along
# :math:`A`, and the next one down :math:`B`:

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
# ``tiled(T)`` makes the kernel for tiles of side ``T``, because the shape of a shared
# array has to be known when a kernel is compiled:


def tiled(T):
    @cuda.jit
    def product(a, b, c):
        a_tile = cuda.shared.array((T, T), np.float32)
        b_tile = cuda.shared.array((T, T), np.float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        column, row = cuda.grid(2)
        total = np.float32(0)
        for first in range(0, a.shape[1], T):
            # I pin up my two pages, and wait until all are up
            inside = row < a.shape[0] and first + tx < a.shape[1]
            a_tile[ty, tx] = a[row, first + tx] if inside else np.float32(0)
            inside = first + ty < b.shape[0] and column < b.shape[1]
            b_tile[ty, tx] = b[first + ty, column] if inside else np.float32(0)
            cuda.syncthreads()
            # I use one row and one column, and wait until everybody has
            for k in range(T):
                total += a_tile[ty, k] * b_tile[k, tx]
            cuda.syncthreads()
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = total

    return product


# for C with m rows and n columns:
# tiled(32)[blocks_for((n, m), (32, 32)), (32, 32)](a, b, c)


# %%
# .. dropdown:: In CUDA C++
#
#    .. code-block:: cuda
#
#        template <int T>  // the side of a tile, and of a block
#        __global__ void product(const float *__restrict__ a,
#                                const float *__restrict__ b,
#                                float *__restrict__ c, int m, int k, int n) {
#            __shared__ float a_tile[T][T], b_tile[T][T];
#            int tx = threadIdx.x, column = T * blockIdx.x + tx;
#            int ty = threadIdx.y, row = T * blockIdx.y + ty;
#            float total = 0;
#            for (int first = 0; first < k; first += T) {
#                // I pin up my two pages, and wait until all are up
#                int x = first + tx, y = first + ty;
#                a_tile[ty][tx] = row < m && x < k ? a[row * k + x] : 0;
#                b_tile[ty][tx] = y < k && column < n ? b[y * n + column] : 0;
#                __syncthreads();
#                // I use one row and one column, and wait until everybody has
#                #pragma unroll
#                for (int i = 0; i < T; i++) total += a_tile[ty][i] * b_tile[i][tx];
#                __syncthreads();
#            }
#            if (row < m && column < n) c[row * n + column] = total;
#        }
#
#        // product<32><<<dim3((n + 31) / 32, (m + 31) / 32), dim3(32, 32)>>>
#        //     (a, b, c, m, k, n);
#
# Read a round as if you were one of the threads:
#
# - *I wait twice.* ``syncthreads`` is a :term:`barrier`: nobody passes it before all
#   threads of the block are there. Without the first wait, I'd read what nobody has
#   pinned up yet. Without the second, I might take down a page that somebody still
#   reads.
# - *Beyond the edge* of a matrix, I pin up a zero, which adds nothing to a sum. Even if
#   my own place in :math:`C` is out there, I don't leave, because the others need what
#   I pin up.
#
# .. dropdown:: Launch it, in plain Numba
#
#    .. code-block:: python
#
#       import numpy as np
#       from numba import cuda
#
#       m, k, n = 1000, 2000, 3000
#       a = np.random.random((m, k)).astype(np.float32)
#       b = np.random.random((k, n)).astype(np.float32)
#       c = cuda.device_array((m, n), np.float32)
#       blocks = -(-n // 32), -(-m // 32)  # rounded up
#       tiled(32)[blocks, (32, 32)](cuda.to_device(a), cuda.to_device(b), c)
#       print(np.abs(c.copy_to_host() / (a @ b) - 1).max())
#
# .. dropdown:: Why are tiles often 33 numbers wide?
#
#    Because of *banks*. Number ``w`` of shared memory lies in bank ``w % 32``, and each
#    bank gives one number at a time. Our kernels read along rows, and a row of a tile
#    lies in 32 banks, so it comes at once.
#
#    But a transpose reads columns. In a tile that is 32 wide, a column lies in *one*
#    bank, so its numbers come one by one. That's called a :term:`bank conflict`.
#    ``cuda.shared.array((32, 33), np.float32)`` has one more column, which nobody uses.
#    Now a column lies in 32 banks, too.
#
#    For a transpose of 64 × 64 numbers on an H200, Nsight Compute counted 3,968 extra
#    passes with tiles 32 wide, and none with tiles 33 wide.
#    ``trace(...).bank_conflicts`` finds them without a GPU.
#
# With tiles of 32 × 32, the largest for a block of at most 1,024 threads, the H100 took
# :timing:`shared-memory median "tile" @nvidia-h100-80gb-hbm3`. That's
# :timing:`shared-memory speedup "tile"/"column along x" @nvidia-h100-80gb-hbm3` as fast
# as step 2. Why? In each round, a thread fetches two numbers, and uses ``2 * T``. With
# tiles of 8 × 8, the small product takes an eighth of the 16,384 loads of step 1:

shared_by_eight = trace(tiled(8), (4, 4), (8, 8), a, b, c)
print("numbers loaded:", shared_by_eight.counts("load", "global").sum())

# %%
# With 32 × 32, it fetches only a 32nd! **So what does it wait for now?** Compare with
# the :timing:`shared-memory median "tile" @nvidia-h100-80gb-hbm3`:
#
# .. holds::
#
#    0.65 < 4 * 1.5 * of_peak("tile") < 0.75
#    cycles("3", "stalled_mio_throttle", "warp_latency") == [11, 33]

# folded code: How step 3 is counted

# For a multiply-add, 32 numbers of b_tile take a cycle, and one of a_tile half a cycle:
# the compiler reads four of them with one load, in two cycles. See
# https://forums.developer.nvidia.com/t/discrepancy-in-lds-128-wavefronts-does-smem-broadcast-across-quarter-warps/373160
# The loop has 129 instructions for 32 multiply-adds.
step3 = limits("step 3", slots=129 / 32, cycles=1.5, moved=32 * 2 * 4 / 32)

# %%
# For its loads, which take seven tenths of the time. For each multiply-add, a thread
# reads two numbers from the blackboard. So let's read less often.
#
# Step 4: 4 × 4 elements each
# ---------------------------
#
# If a thread computes 4 × 4 elements, it takes 8 numbers from the tiles for 16
# multiply-adds, and not 32. It keeps them in its *registers*, which are even nearer.
#
# Which 4 × 4? **One element in each of 16 tiles**, in red, so that neighbouring threads
# still read neighbouring numbers. With tiles of 8 × 8, a block of 8 × 8 threads now
# covers 32 × 32 elements. The thread in the picture has ``tx = 5`` and ``ty = 2``, so
# its rows are 2, 10, 18 and 26, and its columns 5, 13, 21 and 29. For each ``k``, it
# takes the four blue numbers and the four green ones:
#
# .. raw:: html
#    :file: ../../figures/tiles.svg
#
# In the kernel for ``R`` × ``R`` elements, ``fetch`` brings one number into one of the
# ``R`` tiles. ``multiply`` keeps ``R`` numbers of B, and multiplies each number of A by
# all of them:


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
# The kernel around them fetches, waits, multiplies and waits, as in step 3:


def register_tiled(T, R, most=None):
    multiply = multiplying(T, R)

    @(cuda.jit(max_registers=most) if most else cuda.jit)
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
# .. dropdown:: In CUDA C++
#
#    .. code-block:: cuda
#
#        template <int T, int R>  // the side of a block, and of a thread's patch
#        __global__ void __launch_bounds__(T * T, 2)  // room for two blocks
#        product(const float *__restrict__ a, const float *__restrict__ b,
#                float *__restrict__ c, int m, int k, int n) {
#            __shared__ float a_tiles[R][T][T], b_tiles[R][T][T];
#            int tx = threadIdx.x, column = R * T * blockIdx.x + tx;
#            int ty = threadIdx.y, row = R * T * blockIdx.y + ty;
#            float mine[R][R] = {}, of_b[R];  // in registers
#            for (int first = 0; first < k; first += T) {
#                #pragma unroll
#                for (int i = 0; i < R; i++) {
#                    int x = first + tx, y = row + i * T;
#                    a_tiles[i][ty][tx] = y < m && x < k ? a[y * k + x] : 0;
#                    x = column + i * T, y = first + ty;
#                    b_tiles[i][ty][tx] = y < k && x < n ? b[y * n + x] : 0;
#                }
#                __syncthreads();
#                for (int p = 0; p < T; p++) {
#                    #pragma unroll
#                    for (int j = 0; j < R; j++) of_b[j] = b_tiles[j][p][tx];
#                    #pragma unroll
#                    for (int i = 0; i < R; i++)
#                        #pragma unroll
#                        for (int j = 0; j < R; j++)
#                            mine[i][j] += a_tiles[i][ty][p] * of_b[j];
#                }
#                __syncthreads();
#            }
#            #pragma unroll
#            for (int i = 0; i < R; i++)
#                #pragma unroll
#                for (int j = 0; j < R; j++) {
#                    int y = row + i * T, x = column + j * T;
#                    if (y < m && x < n) c[y * n + x] = mine[i][j];
#                }
#        }
#
#        // product<16, 4><<<dim3((n + 63) / 64, (m + 63) / 64), dim3(16, 16)>>>
#        //     (a, b, c, m, k, n);

# folded: How each step was launched and checked, and step 0


@cuda.jit
def row_along_x(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


from collections import namedtuple

# the threads of a block, how many elements (x, y) it covers, and whether x is the row
Step = namedtuple("Step", "kernel threads covers row_along_x", defaults=(False,))


def square(T, R=1, most=None):
    kernel = tiled(T) if R == 1 else register_tiled(T, R, most)
    return Step(kernel, (T, T), (R * T, R * T))


ladder = {
    "row along x": Step(row_along_x, (32, 8), (32, 8), row_along_x=True),
    "first try": Step(first_try, (32, 8), (32, 8)),
    "column along x": Step(column_along_x, (32, 8), (32, 8)),
    "tile": square(8),
    "4 x 4 each": square(8, 4),
}


def grid_of(step, out):
    sizes = out.shape if step.row_along_x else out.shape[::-1]
    return tuple(map(blocks_for, sizes, step.covers))


def launch(step, *arrays):
    step.kernel[grid_of(step, arrays[-1]), step.threads](*arrays)


# %%

# folded: All are right: no race, nothing out of bounds

left, right = np.ones((5, 11), np.float32), np.full((11, 9), 2, np.float32)
for tried in (*ladder.values(), square(4, 4)):
    answer = np.full((5, 9), np.nan, np.float32)
    noted = trace(
        tried.kernel, grid_of(tried, answer), tried.threads, left, right, answer
    )
    assert not noted.problems, noted.problems[0]
    assert np.all(answer == 22), "a product is wrong"
print(f"all {len(ladder)} are right")

# %%
# On the H100 it took :timing:`shared-memory median "4 x 4 each"
# @nvidia-h100-80gb-hbm3`, and is :timing:`shared-memory speedup "4 x 4 each"/"tile"
# @nvidia-h100-80gb-hbm3` as fast as step 3. **What does it wait for now?**
#
# .. holds::
#
#    0.65 < 508 / 256 * of_peak("4 x 4 each") < 0.69
#    0.32 < of_peak("4 x 4 each") < 0.35

# folded code: How step 4 is counted

# For 64 multiply-adds, a warp loads 16 numbers of B in 16 cycles. It also loads 16 of
# A, four at once in two cycles, so in 8.
step4 = limits("step 4", slots=508 / 256, cycles=24 / 64, moved=32 * 2 * 4 / 64)

# %%
# For slots again, but now half of the instructions multiply and add. It has
# :timing:`shared-memory share "4 x 4 each"/"torch" @nvidia-h100-80gb-hbm3` of the
# library's rate, and here most people stop.
#
# When should you write your own?
# -------------------------------
#
# For a plain product, call the library. Write tiles for a sum that no library has. Say
# you compare 4,096 spectra with 4,096 templates: in each of 4,096 channels you take the
# absolute difference, in units of the noise, and add them all up. PyTorch has that sum,
# ``torch.cdist(spectra, templates, p=1)``. But a single cosmic ray may outweigh all
# other channels, so you cut each difference at 3 σ. We know of no library with this
# one. In PyTorch, ``spectra[:, None] - templates`` would fill 275 GB, unless
# ``torch.compile`` fuses it with the sum. In ``tiled``, with the templates as columns
# of :math:`B`, it's one line:
#
# .. code-block:: python
#
#    total += min(abs(a_tile[ty, k] - b_tile[k, tx]), np.float32(3))
#
# With a plain ``3``, Numba would compute in double precision. And mind the zeros beyond
# the edge: here they still add nothing, but in a sum of your own they may.
#
# **Now go on with** :ref:`three mistakes <break-it>`, and your turn. The next three
# sections are for you if you want the rest of the library's speed.
#
# Deeper: 8 × 8 elements each
# ---------------------------
#
# With 8 × 8 elements, a thread takes 16 numbers from the tiles for 64 multiply-adds. We
# only change ``R``. **Will it be faster?** Our count says yes:

# folded code: How step 5 is counted

# 1,761 instructions for 1,024 multiply-adds. The numbers of A now come one by one.
step5 = limits("step 5", slots=1761 / 1024, cycles=16 / 64, moved=32 * 2 * 4 / 128)

# %%
# It isn't. On the H100 it took :timing:`shared-memory median "8 x 8 each"
# @nvidia-h100-80gb-hbm3`, a little *longer* than step 4. And nothing is full: it uses
# little more than half of the slots, and its loads take a third of the time.
#
# .. holds::
#
#    took("4 x 4 each") < took("8 x 8 each") < 1.05 * took("4 x 4 each")
#
# Why? Numba's compiler gave each thread 146 registers, and a block has 256 threads.
# That's more than half of the 65,536 registers of a multiprocessor, so there's room for
# *one* block. Its eight warps are only two for each of the four schedulers, and when
# both wait, none starts. How many warps there are is called *occupancy*. With 128
# registers a thread, two blocks would fit, and you may ask for that:
#
# .. code-block:: python
#
#    @cuda.jit(max_registers=128)
#
# With that it took :timing:`shared-memory median "8 x 8 each, 128 registers"
# @nvidia-h100-80gb-hbm3`, which is :timing:`shared-memory share "8 x 8 each, 128
# registers"/"torch" @nvidia-h100-80gb-hbm3` of the library's rate. Numbers that find no
# register are *spilled* to memory, but only by two of a thousand instructions.
#
# .. holds::
#
#    last = "5, 128 registers"
#    spilled = profile["spilling_requests"][last] / profile["inst_executed"][last]
#    0.0015 < spilled < 0.0025
#
# .. _two-compilers:
#
# In CUDA C++, ``__launch_bounds__(T * T, 2)`` asks for the same. But without it,
# ``nvcc`` stays at 128 as well. Here is what both compilers make of the kernels above,
# for an H100, with the instructions that fetch the tiles. We haven't timed those in
# C++. With threads of a CPU in place of a GPU's, they gave the right products.
#
# .. list-table:: Registers of a thread, and instructions for a multiply-add
#    :header-rows: 1
#    :widths: 30 18 17 18 17
#
#    * - step
#      - registers, Numba
#      - ``nvcc``
#      - instructions, Numba
#      - ``nvcc``
#    * - 1: a loop
#      - 28
#      - 32
#      - 36
#      - 4.6
#    * - 2: with ``while``
#      - 32
#      - 32
#      - 7.5
#      - 4.6
#    * - 3: ``<32>``
#      - 32
#      - 32
#      - 4.0
#      - 2.9
#    * - 4: ``<16, 4>``
#      - 72
#      - 63
#      - 2.0
#      - 1.6
#    * - 5: ``<16, 8>``, two blocks
#      - 128
#      - 120
#      - 1.7
#      - 1.5
#
# Deeper: ask the profiler
# ------------------------
#
# You needn't count all this by hand. NVIDIA's profiler, Nsight Compute, says how busy
# each part is, and what a warp waits for longest, which is called a *stall*. It found
# our slots as busy as we'd counted, to 3 % of the time.
#
# .. holds::
#
#    busy = lambda metric, step: profile[metric][step] / 100
#    part = lambda step, i: counted[step][i] / profile["time_duration"][step]
#    all(abs(busy("issue_active", n) - part(n, 0)) < 0.03 for n in counted)
#    all(-0.01 < busy("lsu_wavefronts", n) - part(n, 1) < 0.15 for n in counted)
#    all(busy("dram_throughput", n) < part(n, 2) / 2 for n in counted)
#    busy("dram_throughput", "1") < 0.1
#    # What it measured is what we timed.
#    rows = ["row along x", "first try", "column along x", "tile", "4 x 4 each"]
#    rows += ["8 x 8 each", "8 x 8 each, 128 registers", "wide loads", "torch"]
#    lasted = profile["time_duration"].values()
#    all(near(ms, took(row), 0.06) for row, ms in zip(rows, lasted, strict=True))
#
# .. code-block:: bash
#
#    ncu --section SpeedOfLight --section SchedulerStats --section WarpStateStats \
#        --section MemoryWorkloadAnalysis --clock-control none \
#        -k regex:product -c 1 python yours.py
#
# ``-c 1`` stops after one launch of a kernel with ``product`` in its name. Unless you
# say ``--clock-control none``, ``ncu`` may hold the card at a lower clock than your
# program has. We recorded the same four sections of all our kernels without these two
# flags, and the times are within 6 % of those in the ladder.
#
# .. dropdown:: What it says, and what helped
#
#    - Loads near 100 %, or *lg throttle*, a full queue for loads: let neighbours read
#      neighbours, as step 1 does.
#    - Busy slots, but few multiply-adds: count the instructions, as in step 2.
#    - *Long scoreboard*, a number has yet to come: fetch a tile together.
#    - *MIO throttle*, a full queue to shared memory: keep more numbers in registers.
#    - Nothing is busy, and no stall is long: get more warps, as in step 5.
#
# .. holds::
#
#    longest = lambda step: max(waits, key=lambda stall: waits[stall][step])
#    {longest(n) for n in ("1", "4", last, "library")} == {"stalled_not_selected"}
#    ready = waits["stalled_not_selected"]["1"]
#    near(waits["stalled_math_pipe_throttle"]["1"], ready, 0.02)
#    longest("5, 146 registers") == "stalled_wait"

# folded: What Nsight Compute measured of each step
# (benchmarks/profile_products.py has the command)

names = ["0", "1", "2", "3", "4"]
names += ["5, 146 registers", "5, 128 registers", "wide loads", "library"]
metrics = """
time_duration 274 100 44.4 17.4 6 6.26 4.52 4.31 2.67
inst_executed 7.74e10 7.74e10 1.62e10 8.71e09 4.28e09 3.71e09 3.69e09 3.25e09 2.43e09
issue_active 27.1 73.7 35.2 48.1 70.2 58.5 80.7 74.5 90.1
lsu_wavefronts 99.1 16.4 37.1 77.1 65 39.4 54.9 51.4 59.7
dram_throughput 3.59 9.82 2.91 14.5 9.83 3.25 4.28 2.75 4.43
l1_hit_rate 98 87.5 88.5 0 0.53 0.77 15.4 13.5 0
l2_hit_rate 46.7 16.6 74 38.6 65.6 66.7 76.2 84.3 90.8
registers 28 28 32 32 72 146 128 128 254
spilling_requests 0 0 0 0 0 0 6.32e06 0 0
warp_latency 58.8 21.6 45.1 33.1 8.35 3.42 4.69 5.35 2.22
stalled_long_scoreboard 20.1 2.15 41 5.13 1.04 0.5 0.31 0.63 0.02
stalled_lg_throttle 33.9 0 0.04 0 0 0 0 0 0
stalled_mio_throttle 0.03 0 0 11.4 0.08 0.11 0.12 0 0
stalled_short_scoreboard 0 0 0 0.96 0.64 0.24 0.14 1.04 0.2
stalled_math_pipe_throttle 0.17 7.85 0.21 1.76 0.46 0.16 0.26 0.43 0
stalled_wait 0.4 0.43 1.82 1.47 0.68 0.62 0.63 0.51 0.01
stalled_barrier 0 0 0 3.53 0.65 0.13 0.22 0.19 0.1
stalled_not_selected 2.51 7.94 0.67 7.14 2.66 0.45 1.74 1.32 0.76
"""
profile = {}
for line in metrics.strip().splitlines():
    metric, *values = line.split()
    profile[metric] = dict(zip(names, map(float, values), strict=True))

# %%

# folded: Counted beside measured

counted = {"0": step0, "1": step1, "2": step2, "3": step3, "4": step4} | {
    "5, 146 registers": step5,
    "5, 128 registers": step5,
}
busy = [profile[part] for part in ("issue_active", "lsu_wavefronts", "dram_throughput")]
waits = {key: value for key, value in profile.items() if key.startswith("stalled_")}
table = []
for which in names:
    lasted = profile["time_duration"][which]
    ours = [f"{ms / lasted:.0%} → " for ms in counted.get(which, ())] or ["", "", ""]
    cells = [
        before + f"{part[which]:.0f}%" for before, part in zip(ours, busy, strict=True)
    ]
    longest = max(waits, key=lambda reason: waits[reason][which])
    of_all = waits[longest][which] / profile["warp_latency"][which]
    table.append((which, *cells, f"{longest[8:].replace('_', ' ')}, {of_all:.0%}"))

# %%
# Before each arrow is our count, as a part of the time that the step took, and behind
# it what ``ncu`` measured: its *One or More Eligible*, *LSU wavefronts* and *DRAM
# Throughput*. *Not selected* means that a warp could go on, but another one got the
# slot.

# folded code: How this table is made

# The loads were busier than we'd counted, in step 4 by over a quarter, because we had
# left out the stores. Memory was idle for nine tenths of step 1.
#
# Slots are "One or More Eligible" in the report, loads "L1/TEX Cache Throughput", and
# memory "DRAM Throughput". Before each arrow is our limit, as a part of the time that
# the step took. For memory it may be above 100 %, because we counted without caches.
# "Not selected" means that the warp could go on, but another one got the slot. Then
# look at the next longest stall. In step 1 it's "math pipe throttle": the units for
# arithmetic are busy, with addresses.

from firstlight.display import show_table

show_table(
    "How busy each was, counted → measured, and what a warp waits for most",
    ("step", "slots", "loads", "memory", "waits for"),
    table,
)

# %%
# Deeper: why is the library faster still?
# ----------------------------------------
#
# The library needs 1.13 instructions for a multiply-add,
# where step 5 needs 1.72. And with only eight warps, as step 5 had at first, each of
# them starts an instruction every 2.2 cycles, where ours took 3.4.
#
# .. holds::
#
#    used = lambda step, warps: warps / profile["warp_latency"][step]
#    abs(used("5, 146 registers", 2) - busy("issue_active", "5, 146 registers")) < 0.005
#
# .. raw:: html
#    :file: ../../figures/slots.svg
#
# .. holds::
#
#    0.7 < of_peak("torch") < 0.8
#    (multiply_adds,) = code("multiply_adds")
#    each = {n: done / multiply_adds for n, done in profile["inst_executed"].items()}
#    1.12 < each["library"] < 1.14 and 1.71 < each[last] < 1.73
#    [round(profile["issue_active"][n]) for n in ("library", last)] == [90, 81]
#    profile["registers"]["library"] == 254
#    abs(used("library", 2) - busy("issue_active", "library")) < 0.005
#
# So the next step must save instructions. *Wide loads* do: they fetch four numbers with
# one, and reach :timing:`shared-memory share "wide loads"/"torch"
# @nvidia-h100-80gb-hbm3` of the library. S. Boehm `shows the way on`__, in CUDA C++, to
# 94 % on an RTX A6000.
#
# .. dropdown:: Boehm's last steps, beside ours
#
#    His step 5 had 69 % of the library, by `his repository`__.
#
#    - *Wide loads* reached 78 % of the library on his A6000, and :timing:`shared-memory
#      share "wide loads"/"torch" @nvidia-h100-80gb-hbm3` on our H100.
#    - *Autotuning*, which tries many sizes of tiles, reached 85 %. On ours, none of
#      five other sizes was faster. But our ``T`` is both the side of a block and the
#      depth of a tile, and his search changes them one by one.
#    - *Warp tiling*, a patch of the tile for each warp, reached 94 %. We haven't tried
#      it.
#
# .. holds::
#
#    five = (8, 4), (32, 4), (16, 6), (8, 8), (16, 10)
#    best = min(took(f"T = {T}, R = {R}") for T, R in five)
#    took("8 x 8 each, 128 registers") < 0.9 * best
#
# Beyond these are the *tensor cores*, which multiply small matrices in one instruction.
# With them, the library reaches :timing:`shared-memory rate "torch, TF32"
# @nvidia-h100-80gb-hbm3`, of :spec:`H100 SXM tf32` in the data sheet, if you can spare
# :doc:`a few digits </tutorials/2_devices/13_precision>`. Numba reaches them through
# `nvmath.device`__.
#
# __ https://siboehm.com/articles/22/CUDA-MMM
# __ https://github.com/siboehm/SGEMM_CUDA
# __ https://docs.nvidia.com/cuda/nvmath-python/latest/device-apis/cublas.html
# __ https://nvidia.github.io/numba-cuda/user/examples.html#matrix-multiplication

# %%
# .. _break-it:
#
# Break it: three mistakes
# ------------------------
#
# Nobody wipes the blackboard between classes. Shared memory isn't set to zero, so a new
# block finds what the last one left there, or zeros by chance. Write before you read,
# then call ``cuda.syncthreads()``, and don't count on finding anything at the next
# launch.
#
# A wrong tile often gives the right answer. You might forget the second wait, or round
# down and take ``a.shape[1] // T`` rounds. Or you take ``cuda.gridDim.x`` rounds, the
# number of blocks along a row of :math:`C`. `Numba's manual`__ does that, and is right
# only because its launch has as many blocks as the longest side needs. **Which product
# of m × k by k × n numbers finds all three?**
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
#    * - without the second wait
#      - right
#      - wrong
#      - wrong
#      - wrong
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
#
# Only the third finds them all. So **test a tile with an odd k that's much longer than
# n.**

# folded: The two wrong numbers of rounds


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

# folded: Both, and the right one, on these four products


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
# And run it in ``trace``. For the missing wait, it says who met whom:
#
# .. code-block:: none
#
#    a_tile[0, 0]: store by thread 0 …, and load by thread 1 …
#
# Thread 0 took down a page that thread 1 still wanted to copy. That's a :term:`race`.
# On your GPU you might be lucky, and only find out on another card.

# folded: Without the second wait, on the same products


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
# Make ``at_b(a, b, c)`` write ``a.T @ b`` to ``c``, with blocks of 8 × 8 threads. As it
# stands, it's a copy of ``product``, and gives :math:`AB`.
#
# Now the sum runs down the rows of both matrices, so the tiles of :math:`A` go down the
# matrix, as those of :math:`B` do.
#
# Here is the catch. If each thread fetches a number for its own row of :math:`C`,
# neighbours read a whole row of :math:`A` apart. So let threads with neighbouring
# ``tx`` fetch neighbouring numbers of a row. Then each thread needs a number that
# another one has fetched. Where in the tile is it?
#
# Change the four marked lines, add one if you like, and run ``firstlight try
# 07_shared_memory.py``. The check counts your loads. If it finds the same wrong number
# in ``c`` after a change, look at the line that reads ``a_tile``.


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
    A, by_eight = np.pad(a.astype(np.float64), [(0, 0), (0, 32)]), np.arange(m) % 8
    even, as_wide = A[: k // 8 * 8, :m], A[: -(-n // 8) * 8, :m]
    of_c = [A[:, x // 8 * 8 + by_eight].T @ b[:, x] for x in range(n)]
    mistakes = {
        "": A[:, :m].T @ b,
        " The last rows have no round.": even.T @ b[: len(even)],
        " There are as many rounds as blocks in a row.": as_wide.T @ b[: len(as_wide)],
        " These columns of A are for another row of C.": np.stack(of_c, 1),
    }
    should, *_ = mistakes.values()
    wrong = np.abs(c - should) > 1e-6 * 4 * k
    if wrong.any():
        y, x = np.argwhere(wrong)[0]
        hint = next((h for h, would in mistakes.items() if np.allclose(c, would)), "")
        said = f"c[{y}, {x}] is {c[y, x]:.4f}, and should be {should[y, x]:.4f}."
        other = " Which number lies at a_tile[k, ty] now?" if k != n else ""
        return said + (hint or other)
    loads, allowed = seen.counts("load", "global").sum(), 2 * k * m * n // 8
    if k % 8 == m % 8 == n % 8 == 0:
        if loads > allowed:
            return f"it loads {loads:,} numbers, and with tiles it takes {allowed:,}."
        for name, count in seen.sectors_per_load.items():
            if count > 4:
                return f"{name} is read in {count:.0f} sectors at a time, not in 4."
    return ""


# %%

# folded code: What check says


def check(kernel):
    for k, m, n in ((8, 8, 8), (24, 16, 8), (33, 8, 8), (11, 5, 9), (3, 17, 10)):
        if problem := find_problem(kernel, k, m, n):
            return f"Not yet. {k} measurements, {m} and {n} columns: {problem}"
    return "Right: each number is fetched once for eight threads, along the rows."


print(check(at_b))

# %%
# Three lines to remember
# -----------------------

# remember

before, after = (one.counts("load", "global").sum() for one in (plain, shared_by_eight))
print(f"""\
1. Fetch a tile together, and use each number T times: with 8 x 8 threads, {after:,}
   loads in place of {before:,}. Then let each thread compute 4 x 4 elements.
2. Wait before you use a tile, and before you refill it. Threads beyond the edge put a
   zero, and wait like all the others.
3. Ask what your kernel waits for: slots, loads, or memory. Count it, then measure.
   Test with an odd k much longer than n. For a plain product, call the library.""")

# %%
# A stencil in shared memory: fetch the halo, too
# -----------------------------------------------
#
# A stencil, such as a blur or a step of a wave, needs all neighbours up to a distance
# R. So a block of TY × TX threads needs a tile with a border of R all around, called
# the *halo*, or *ghost cells*. If each thread fetches only its own number, nobody fills
# the halo, and the result is wrong or empty in places. Let the threads go over the tile
# together:
#
# .. code-block:: python
#
#    tile = cuda.shared.array((TY + 2 * R, TX + 2 * R), np.float32)  # constants
#    ty, tx = cuda.threadIdx.y, cuda.threadIdx.x
#    y0, x0 = cuda.blockIdx.y * TY, cuda.blockIdx.x * TX
#    for r in range(ty, TY + 2 * R, TY):
#        for c in range(tx, TX + 2 * R, TX):
#            y = min(max(y0 + r - R, 0), image.shape[0] - 1)
#            x = min(max(x0 + c - R, 0), image.shape[1] - 1)
#            tile[r, c] = image[y, x]
#    cuda.syncthreads()  # so nobody may return before
#    # compute with tile[ty + R + dy, tx + R + dx], and write only inside the image
#
# Beyond the image, it repeats the pixel at the edge. For a small R, write it without
# shared memory first, because :doc:`the caches </tutorials/3_kernels/06_caches>` have
# most of the neighbours already.
#
# How each step was timed
# -----------------------
#
# .. dropdown:: Another card? An A100
#
#    A multiprocessor of an A100 has half as many slots for multiply-adds as one of an
#    H100. By the same count, a plain tile may reach a third of the A100's peak, and 8
#    × 8 elements all of it:
#
#    .. measured-by-others:: tile-a100 eight-a100

# folded: Wide loads in Numba: let the numbers of a thread touch

# In the picture, the elements of a thread lie a tile apart. Here they lie in four
# patches of 4 × 4, half of the block's tile apart, so that the compiler reads four
# neighbours with one instruction: 4 loads in place of 16 for 64 multiply-adds. The
# patches of neighbouring threads touch, so a warp's wide loads use all banks.


@cuda.jit(device=True)
def number_at(matrix, row, column):
    inside = row < matrix.shape[0] and column < matrix.shape[1]
    return matrix[row, column] if inside else np.float32(0)


def multiplying_wide(T):
    @cuda.jit(device=True)
    def multiply(a_tile, b_tile, mine):
        of_b = cuda.local.array(8, np.float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        k = 0
        while k < T:
            for j in range(8):
                of_b[j] = b_tile[k, j // 4, tx, j % 4]
            for i in range(8):
                of_a = a_tile[k, i // 4, ty, i % 4]
                for j in range(8):
                    mine[i, j] += of_a * of_b[j]
            k += 1

    return multiply


# %%

# folded: The kernel with wide loads


def wide(T, most=None):
    wider, per_tile = T + 1, T // 4  # one more, so that stores need fewer banks twice
    multiply = multiplying_wide(T)

    @(cuda.jit(max_registers=most) if most else cuda.jit)
    def product(a, b, c):
        a_tile = cuda.shared.array((T, 2, wider, 4), np.float32)
        b_tile = cuda.shared.array((T, 2, T, 4), np.float32)
        mine = cuda.local.array((8, 8), np.float32)
        for i in range(8):
            for j in range(8):
                mine[i, j] = 0
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        top, left = 8 * T * cuda.blockIdx.y, 8 * T * cuda.blockIdx.x
        for first in range(0, a.shape[1], T):
            for i in range(8):
                number, at = (
                    number_at(a, top + i * T + ty, first + tx),
                    i % 4 * per_tile,
                )
                a_tile[tx, i // 4, at + ty // 4, ty % 4] = number
            for i in range(8):
                number, at = (
                    number_at(b, first + ty, left + i * T + tx),
                    i % 4 * per_tile,
                )
                b_tile[ty, i // 4, at + tx // 4, tx % 4] = number
            cuda.syncthreads()
            multiply(a_tile, b_tile, mine)
            cuda.syncthreads()
        for i in range(8):
            for j in range(8):
                y = top + 4 * (i // 4 * T + ty) + i % 4
                x = left + 4 * (j // 4 * T + tx) + j % 4
                if y < c.shape[0] and x < c.shape[1]:
                    c[y, x] = mine[i, j]

    return product


# %%
# Then the clock. The library is timed first, and then all steps:

# folded: How each step was timed, and the library's product through PyTorch

import torch

from firstlight import Bench, best_device

large = {
    "tile": square(32),
    "4 x 4 each": square(16, 4),
    "8 x 8 each": square(16, 8),
    "8 x 8 each, 128 registers": square(16, 8, 128),
    "wide loads": Step(wide(16, 128), (16, 16), (128, 128)),
}
sizes = (8, 4), (32, 4), (16, 6), (8, 8), (16, 10)  # of tiles, and of patches
tuned = {f"T = {T}, R = {R}": square(T, R, min(65536 // T**2, 128)) for T, R in sizes}
climbed = ladder | large

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
    bench.time("torch, TF32", torch_product, tensor_cores=True, **cost)
    torch.set_float32_matmul_precision("highest")

# %%

# folded: Then all steps, if there is a GPU

if not simulated():
    h_a, h_b = (rng.random((side, side), dtype=np.float32) for _ in range(2))
    d_a, d_b = cuda.to_device(h_a), cuda.to_device(h_b)
    d_c = cuda.device_array_like(d_a)
    cost = {"n": side, "flops": 2 * side**3, "device": "cuda:0"}
    for name, step in (climbed | tuned).items():
        bench.time(name, launch, step, d_a, d_b, d_c, **cost)
        rows = d_c.copy_to_host()[:5]
        assert np.allclose(rows, h_a[:5].astype(np.float64) @ h_b, rtol=1e-4), name
        if has_gpu:
            share = bench["torch"].median / bench[name].median
            print(f"{name:>25}: {share:6.1%} of the library's rate")

# %%

# folded: All times. Your own GPU can be timed beside them, in the browser
# (with tensor cores the library is "above-roof": that roof is without them)
bench.show()

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
