"""
Which thread does what, and how fast can it be?
===============================================

You want to multiply a matrix of 100,000 × 100 numbers by a vector, on the GPU, with a
:term:`kernel` of your own. A course notebook, :doc:`one of our sources </where_from>`,
has done just that on a laptop's GTX 1650, and claims "about 9X" for Numba, compared
with NumPy. Can you believe it? By the end you'll have written that kernel, you'll know
the least time that it can take, and you'll time it so that others believe *you*.

**Needs:** :doc:`a first kernel </tutorials/3_kernels/01_first_kernel>`. Without an
NVIDIA GPU, Numba's simulator runs the kernels, and you can do everything but the
timing.
"""

# %%
# Which thread does what?
# -----------------------
#
# To get :math:`u_i = \sum_j A_{ij} v_j`, go along row :math:`i` of the matrix, multiply
# each number by its partner in :math:`v`, and add up. What should one thread do? It
# could take
#
# - one *number* of the matrix, so that we have 10 million threads;
# - one *row*, so that we have 100,000; or
# - one *column*, so that we have 100.
#
# **Which of them lets every thread work without waiting for another?** Think of who
# adds to which number of the result.

import numpy as np
from numba import cuda

from firstlight_kernels import simulated, trace  # without a GPU, it runs the kernels

# %%
# With a number or a column for each thread, many threads would add to the same number
# of the result, and would have to take turns. Each row gives a number of its own. So
# there's a loop along the row, but none over the rows:


@cuda.jit
def cu_mv_product(m, v, u):
    row = cuda.grid(1)
    if row < m.shape[0]:
        total = np.float32(0)
        for j in range(m.shape[1]):
            total += m[row, j] * v[j]
        u[row] = total


# %%
# Each row has its thread. Such work is called *data-parallel*. The notebook starts with
# ``0.``, and we with ``np.float32(0)``. A Python float is a ``float64``, so with ``0.``
# :doc:`every addition </tutorials/3_kernels/10_what_the_compiler_did>` would be done in
# ``float64``, which is slow on a gaming card.
#
# Launch it, and compare with NumPy. The simulator gets only the first 1,100 rows:

N, M = 100_000, 100
rows = 1_100 if simulated() else N
rng = np.random.default_rng(seed=1)
A = rng.standard_normal((N, M), dtype=np.float32)
v = rng.standard_normal(M, dtype=np.float32)

d_A, d_v = cuda.to_device(A[:rows]), cuda.to_device(v)
d_u = cuda.to_device(np.full(rows, np.nan, dtype=np.float32))
threads = 128
blocks = (rows + threads - 1) // threads
cu_mv_product[blocks, threads](d_A, d_v, d_u)
u = d_u.copy_to_host()

print("close to NumPy:", np.allclose(u, A[:rows] @ v, rtol=1e-5, atol=1e-5))
print("equal to the last digit:", np.array_equal(u, A[:rows] @ v))

# %%

# folded: Both against float64, and the kernel on odd sizes

exact = A[:rows].astype(np.float64) @ v
for name, result in {"kernel": u, "NumPy": A[:rows] @ v}.items():
    print(f"{name:>6}: off by {np.abs(result - exact).max():.1e} at most")
for shape in ((1, 1), (33, 7), (31, 101)):
    odd, ones = rng.random(shape, dtype=np.float32), np.ones(shape[1], np.float32)
    d_odd, d_sums = cuda.to_device(odd), cuda.to_device(np.zeros(shape[0], np.float32))
    d_ones = cuda.to_device(ones)
    cu_mv_product[2, 32](d_odd, d_ones, d_sums)
    assert np.allclose(d_sums.copy_to_host(), odd.sum(axis=1), rtol=1e-5), shape

# %%
# They're close, but not equal, because the two add in different orders and round after
# every addition. So compare with ``allclose``, and not with ``==``.
#
# .. dropdown:: Who works on all these rows?
#
#    A GPU's processors are called *multiprocessors*. The 782 blocks are shared out
#    among them, and those that find no room :doc:`wait
#    </tutorials/3_kernels/04_waves_and_blocks>`.
#
#    The notebook concludes that "only 32 threads will run at the same time". That's
#    wrong: while 32 threads of a block wait for their numbers from memory, the
#    multiprocessor goes on with another 32.
#
# How fast can it be?
# -------------------
#
# Here are the times that the notebook printed:
#
# - its kernel, matrix × vector: 264 µs
# - PyTorch on the GPU, the same: 10.4 µs
# - a kernel that only adds two vectors of 100,000 numbers: 304 µs
#
# **Something is wrong with them. Do you see it? Write down a guess.**
#
# To judge a time, count bytes. Each number of the matrix has to come from the GPU's
# memory once, which is 40.4 MB with vector and result. Multiplying and adding takes
# hardly any time beside that. The memory of a GTX 1650 delivers :spec:`GTX 1650
# bandwidth`, or :spec:`GTX 1650 GDDR6 bandwidth`, because the card was sold with two
# kinds of memory. That of an H100 delivers :spec:`H100 SXM bandwidth`. **Divide, and
# you know the least time:**

from firstlight.timing.specs import spec

moved = 4 * (N * M + M + N)  # the matrix, the vector and the result, 4 bytes each
for card in ("GTX 1650", "GTX 1650 GDDR6", "H100 SXM"):
    least = moved / spec(card, "bandwidth")
    print(f"{card:>14}: at least {1e6 * least:.0f} µs")

# %%
# So PyTorch's time is impossible. The GTX 1650 would need at least the second of these
# times, even with the faster memory, and its cache holds only 1 MB. Even an H100, one
# of the fastest cards there are, would need longer to read the matrix from its memory.
# And the kernel that adds moves only 1.2 MB, a 34th of the product's bytes, and yet it
# took *more* time. So something else was timed.
#
# What? A launch returns at once, as soon as the work is in a queue, and the GPU does
# the work later. And ``%timeit`` stops its clock when the call returns. So these are
# most likely times of *launches*.
#
# And the "9X"? NumPy took 1.25 ms and the kernel 264 µs, a factor of 4.7 and not 9. At
# best, with the faster memory, the notebook's card could have won by a factor of 6. And
# the claim of "100X" for PyTorch rests on the impossible time. So no, you can't believe
# it.
#
# What can a GPU win here? The H100 beats the 16 cores of the CPU beside it by
# :timing:`wins-matrix-vector speedup "GPU/cuda:0/n=100000"/"CPU/cpu/n=100000"
# @nvidia-h100-80gb-hbm3`: PyTorch took :timing:`wins-matrix-vector median
# "GPU/cuda:0/n=100000" @nvidia-h100-80gb-hbm3` on the H100, and
# :timing:`wins-matrix-vector median "CPU/cpu/n=100000" @nvidia-h100-80gb-hbm3` on the
# CPU. But if matrix and result have to travel between CPU and GPU, the CPU wins.
#
# Time it right
# -------------
#
# A clock that waits takes one more line, ``cuda.synchronize()``. It returns when the
# GPU has done all that was in the queue:

import time


def seconds_a_launch(kernel, wait, launches=100):
    kernel(d_A, d_v, d_u)  # the first launch compiles
    cuda.synchronize()  # and is done before the clock starts
    start = time.perf_counter()
    for _ in range(launches):
        kernel(d_A, d_v, d_u)
    if wait:
        cuda.synchronize()  # the work is done, not only launched
    return (time.perf_counter() - start) / launches


if simulated():
    print("No GPU here: a time of the simulator would say nothing.")
else:
    by_row = cu_mv_product[blocks, threads]
    print(f"launched: {1e6 * seconds_a_launch(by_row, wait=False):.1f} µs")
    print(f"done:     {1e6 * seconds_a_launch(by_row, wait=True):.1f} µs")

# %%
# If the first is shorter on your card, you have seen the notebook's mistake. On our
# H100 the two were equal, but for noise: this matrix is so small for such a card that
# the kernel is done before Numba has made the next launch. What you have timed is
# Python. With :doc:`a larger product </tutorials/2_devices/03_is_it_possible>`, the
# H100's two times differ, too.
#
# So let's take ten times as many rows: 1,000,001 rows of 101 numbers each. One launch
# takes the H100 :timing:`a-warp-a-row median "a row a thread/cuda:0/n=1000001"
# @nvidia-h100-80gb-hbm3`. **Is that fast? Divide its bytes by the bandwidth:**

large = 4 * (1_000_001 * 101 + 101 + 1_000_001)
least = large / spec("H100 SXM", "bandwidth")
print(f"{large / 1e6:.0f} MB: at least {1e6 * least:.0f} µs")

# %%
# So it takes more than three times the least time.

# folded: Our timing, with PyTorch and NumPy

import torch

from firstlight import Bench, best_device
from firstlight_kernels import blocks_for

device = best_device()
launch = cu_mv_product[blocks_for(rows, 128), 128]
kernel_device = "cpu" if simulated() else "cuda:0"
t_A, t_v = (torch.from_numpy(array).to(device) for array in (A, v))
result = np.empty(N, dtype=np.float32)
size = {"n": N, "bytes": 4 * (N * M + M + N)}
kernel_size = {"n": rows, "bytes": 4 * (rows * M + M + rows), "device": kernel_device}

bench = Bench("matrix-vector")
bench.time("kernel, a row a thread", launch, d_A, d_v, d_u, **kernel_size)
bench.time("torch.mv", torch.mv, t_A, t_v, device=device, **size)
bench.time("NumPy", np.dot, A, v, result, **size)
assert np.allclose(d_u.copy_to_host(), result[:rows], rtol=1e-4, atol=1e-5)
bench.show()

# %%
# Why isn't it faster?
# --------------------
#
# Two things cost time. The first is our loop. If you write it like this, by hand, the
# H100 takes :timing:`coalescing median "kernel, by rows" @nvidia-h100-80gb-hbm3`
# instead:
#
# .. code-block:: python
#
#    j = 0
#    while j < m.shape[1]:  # in place of: for j in range(m.shape[1])
#        total += m[row, j] * v[j]
#        j += 1
#
# It looks clumsier. But with a ``for``, most instructions of the loop are bookkeeping:
# in each step it asks ``range`` whether there's a next number, and then whether ``j``
# is negative, because ``m[row, -1]`` would be the last one. With a ``while``, the
# compiler sees that ``j`` only grows, and :doc:`drops most of that
# </tutorials/3_kernels/10_what_the_compiler_did>`.
#
# The second is the order of the numbers in memory. A GPU runs its threads in groups of
# 32. In the first step of the loop, all threads of such a *warp* have ``j = 0``. Thread
# 0 reads ``m[0, 0]``, thread 1 reads ``m[1, 0]``, and thread 2 reads ``m[2, 0]``. NumPy
# stores a matrix row by row, so these numbers lie a whole row apart. And memory comes
# only in pieces of 32 bytes, called *sectors*, which hold eight numbers each.

# figure

import matplotlib.pyplot as plt

fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
for ax, order in zip(axes, ("rows", "columns"), strict=True):
    for place in range(64):
        sector, within = divmod(place, 8)
        i, j = (sector, within) if order == "rows" else (within, sector)
        read = j == 0
        look = {"fc": "#d55e00" if read else "#cfe3f3", "ec": "#10202c"}
        ax.add_patch(plt.Rectangle((within, sector), 0.96, 0.8, **look))
        style = {"ha": "center", "va": "center", "size": 9}
        colour = "#fefefe" if read else "#10202c"
        ax.text(within + 0.48, sector + 0.4, f"$A_{{{i}{j}}}$", color=colour, **style)
    touched = "8 sectors" if order == "rows" else "1 sector"
    ax.set(xlim=(-0.1, 8.1), ylim=(8, -0.2), xticks=[], yticks=[])
    ax.set_ylabel("memory, a sector a line")
    ax.set_title(f"by {order}: {touched} touched")
    ax.spines[:].set_visible(False)
fig.suptitle("The first step of eight threads, in a matrix of 8 × 8")
fig.set_label(
    "Memory drawn as eight lines of eight numbers, a sector a line. With a matrix "
    "stored by rows, the first number of every line is read, eight sectors in all. "
    "Stored by columns, the eight numbers of the first line are read: one sector."
)
plt.show()

# %%
# If any thread of a warp needs one number of a sector, all eight are fetched. If the
# matrix is stored by rows, each thread needs a sector of its own. Stored by columns,
# eight threads share one, and the kernel stays as it is. ``np.asfortranarray`` makes
# such a copy, so call it once, and not before each product.
#
# ``trace`` runs a kernel thread by thread and notes every address. Let it count for a
# warp of 32 threads. **How many sectors do you expect, in each case?**

ones, result_of_warp = np.ones(100, dtype=np.float32), np.zeros(32, dtype=np.float32)
counts = {}
for stored in (np.ascontiguousarray, np.asfortranarray):
    traced = trace(cu_mv_product, 1, 32, stored(A[:32]), ones, result_of_warp)
    counts[stored.__name__] = traced.sectors_per_load["m"]
    print(f"{stored.__name__:>17}: {counts[stored.__name__]:.0f} sectors a load")

# %%
# That's 32 sectors instead of 4. **So will it take an eighth of the time by columns?
# Guess, and mind the least time.** Here is what the H100 did:
#
# .. list-table:: 1,000,001 rows of 101, on a real H100
#    :header-rows: 1
#    :widths: 40 25 35
#
#    * - what ran
#      - time
#      - rate
#    * - a thread a row, by rows, with ``for``
#      - :timing:`a-warp-a-row median "a row a thread/cuda:0/n=1000001"
#        @nvidia-h100-80gb-hbm3`
#      - :timing:`a-warp-a-row rate "a row a thread/cuda:0/n=1000001"
#        @nvidia-h100-80gb-hbm3`
#    * - the same with ``while``
#      - :timing:`coalescing median "kernel, by rows" @nvidia-h100-80gb-hbm3`
#      - :timing:`coalescing rate "kernel, by rows" @nvidia-h100-80gb-hbm3`
#    * - and stored by columns
#      - :timing:`coalescing median "kernel, by columns" @nvidia-h100-80gb-hbm3`
#      - :timing:`coalescing rate "kernel, by columns" @nvidia-h100-80gb-hbm3`
#    * - PyTorch's product, by rows
#      - :timing:`coalescing median "torch.mv, by rows" @nvidia-h100-80gb-hbm3`
#      - :timing:`coalescing rate "torch.mv, by rows" @nvidia-h100-80gb-hbm3`
#
# By columns, ten lines of Python are as fast as PyTorch is by rows, and not far from
# what the memory delivers. But the order brought a factor of :timing:`coalescing
# speedup "kernel, by columns"/"kernel, by rows" @nvidia-h100-80gb-hbm3`, and not 8. By
# rows, a thread comes back for the next number of its sector in its next step, and
# often finds it still in :doc:`a cache </tutorials/3_kernels/06_caches>`.
#
# When neighbouring threads read neighbouring numbers, their reads are :doc:`coalesced
# </tutorials/3_kernels/05_coalescing>`.
#
# Your turn
# ---------
#
# What if you can't store the matrix another way? PyTorch is fast by rows, so there must
# be a trick. Perhaps threads *share* a row?
#
# Try it: write a kernel in which a block of 32 threads, one warp, takes one row. In
# each step they read 32 neighbours of the row: thread 0 takes the numbers 0, 32, 64 and
# so on, and thread 1 takes 1, 33, 65. In the end, each thread has a part of the sum. If
# all 32 wrote ``u[row]`` at once, parts would be lost, so let each *add* its part with
# ``cuda.atomic.add(u, row, part)``, which lets no other thread come in between. So fill
# ``u`` with zeros before each launch. You launch your kernel by ``mv_together[rows,
# 32](m, v, u)``.
#
# Put your kernel where the dots are, and run ``firstlight try 02_matrix_vector.py``.
# With an NVIDIA GPU you can time it as well: ``seconds_a_launch(mv_together[rows, 32],
# wait=True)``. **Will it beat a row for each thread? Write down a guess.** The answer
# comes after the solution.


@cuda.jit
def mv_together(m, v, u): ...


# %%

# folded: What check does: it traces your kernel, and counts what each thread reads


def find_problem(kernel, rows, columns):
    m = np.random.default_rng(seed=columns).uniform(1, 2, (rows, columns))
    m, v = m.astype(np.float32), np.linspace(1, 2, columns, dtype=np.float32)
    u, right = np.zeros(rows, dtype=np.float32), m.astype(np.float64) @ v
    launched = cuda.to_device(u)
    try:
        traced = trace(kernel, rows, 32, m, v, u, limit=20_000)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if traced.out_of_bounds:
        return f"{traced.out_of_bounds[0]}."
    if traced.races:
        return f"threads change the same number at once: {traced.races[0]}."
    if not np.allclose(u, right, rtol=1e-4):
        i = int(np.argmax(~np.isclose(u, right, rtol=1e-4)))
        return f"u[{i}] is {u[i]:.4f}, and should be {right[i]:.4f}."
    most, fair = traced.counts("load", array="m").max(), -(-columns // 32)
    if most > fair:
        return f"a thread reads {most} numbers of the matrix, where {fair} would do."
    if (sectors := traced.sectors_per_load["m"]) > 6:
        return f"a load touches {sectors:.0f} sectors. Let neighbours read neighbours."
    kernel[rows, 32](cuda.to_device(m), cuda.to_device(v), launched)
    same = np.allclose(launched.copy_to_host(), right, rtol=1e-4)
    return "" if same else "launched, it gives something else than traced."


def check(kernel):
    for rows, columns in [(3, 64), (5, 100), (1, 1), (2, 257)]:
        if problem := find_problem(kernel, rows, columns):
            return f"Not yet. A matrix of {rows} × {columns}: {problem}"
    return "Right: the threads of a warp read side by side."


# %%

print(check(mv_together))

# %%
# Three lines to remember
# -----------------------

# remember

by_rows, by_columns = (f"{count:.0f}" for count in counts.values())
print("1. Many rows? Give each thread one, and none waits for another. Few long ones?")
print("   Let threads share them. Then ask what neighbours read: a warp's load touched")
print(f"   {by_rows} sectors by rows, and {by_columns} by columns.")
print("2. Bytes over bandwidth is the least time, if the matrix is larger than the")
print("   card's cache. If yours is shorter, you didn't wait.")
print("3. Launch once to compile. Start the clock, launch, cuda.synchronize(), stop.")

# %%
# Solution
# --------

# solution


@cuda.jit
def mv_together_solution(m, v, u):
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x
    part = np.float32(0)
    for j in range(lane, m.shape[1], 32):
        part += m[row, j] * v[j]
    cuda.atomic.add(u, row, part)


@cuda.jit
def mv_shuffled(m, v, u):  # launch as many warps as there are rows
    row, lane = cuda.grid(1) // 32, cuda.threadIdx.x % 32
    if row < m.shape[0]:  # true for all threads of a warp, or for none
        part, j = np.float32(0), lane
        while j < m.shape[1]:
            part += m[row, j] * v[j]
            j += 32
        for by in (16, 8, 4, 2, 1):  # add what the thread `by` places on has so far
            part += cuda.shfl_down_sync(0xFFFFFFFF, part, by)
        if lane == 0:
            u[row] = part  # an =, so u needn't hold zeros


print(f"Our solution: {check(mv_together_solution)}")
five = np.full(5, np.nan, dtype=np.float32)
trace(mv_shuffled, 2, 128, A[:5], v, five)  # two blocks of four rows, for five
assert np.allclose(five, A[:5] @ v, rtol=1e-5, atol=1e-5)

both = Bench("a-warp-a-row", budget=4)
if not simulated():
    for n, width in ((N, M), (1_000_001, 101)):
        m, ones = rng.random((n, width), dtype=np.float32), np.ones(width, np.float32)
        d_m, d_ones = cuda.to_device(m), cuda.to_device(ones)
        d_sums = cuda.to_device(np.zeros(n, dtype=np.float32))
        work = {"n": n, "bytes": 4 * (n * width + width + n), "device": kernel_device}
        a_row_a_warp = mv_together_solution[n, 32]
        a_row_a_warp(d_m, d_ones, d_sums)
        assert np.allclose(d_sums.copy_to_host(), m.sum(axis=1), rtol=1e-4)
        a_row_a_thread = cu_mv_product[blocks_for(n, 128), 128]
        both.time("a row a thread", a_row_a_thread, d_m, d_ones, d_sums, **work)
        both.time("a row a warp", a_row_a_warp, d_m, d_ones, d_sums, **work)
both.show()

# %%
# Did it beat a row for each thread? On our H100 it didn't. For the large matrix it took
# :timing:`a-warp-a-row median "a row a warp/cuda:0/n=1000001" @nvidia-h100-80gb-hbm3`,
# :timing:`a-warp-a-row speedup "a row a thread/cuda:0/n=1000001"/"a row a
# warp/cuda:0/n=1000001" @nvidia-h100-80gb-hbm3` as long as with a row for each thread,
# although its threads read side by side.
#
# There are two suspects. After three or four numbers each, 32 threads add to the same
# ``u[row]``, one after the other. And a million tiny blocks have to be started. The
# second kernel of the solution gets rid of both: it puts several rows into a block, and
# the threads of a warp add up their parts by a :term:`shuffle`.
#
# What should you write?
# ----------------------
#
# With many short rows, as here, give each thread one, if you can store the matrix by
# columns. If it has to stay by rows, PyTorch's product is the fastest that we have
# timed. With a few long rows, let threads share them: 4,096 rows are only 4,096
# threads, and an H100 has room for 270,336. Somebody tried that on an older card, by
# rows, and *there* sharing won clearly:
#
# .. measured-by-others:: matvec-rows-gtx1050ti matvec-author-gtx1050ti
