"""
How do you tell a million threads what to do?
=============================================

You have an image of a million pixels, and the same thing must happen to each of them.
In NumPy you write one line, with a loop inside. A GPU needs no loop at all: it can
start a million :term:`threads <thread>`, one for each pixel. But how does each thread
know what to do?

Take 37 numbers. Somebody started 48 threads for them. **Why, do you think, 11 threads
too many?** By the end you'll know, and you'll have written a GPU program, launched it,
broken it in three ways, and fixed it.

**Needs:** some NumPy. With an NVIDIA GPU the kernels run on it, and without one they
run all the same, slowly.
"""

# %%
# One line is missing
# -------------------
#
# This is the whole addition, written from the point of view of *one* thread:
#
# .. code-block:: python
#
#    def add(a, b, out):
#        i = ...                   # which element is mine?
#        if i < out.size:
#            out[i] = a[i] + b[i]
#
# Every thread runs these same lines with the same three arrays, so each has to find out
# which element is its own. A GPU starts its threads in groups of equal size, for
# example 48 threads in three groups of 16. These are *blocks*, and each thread is told
# three numbers:
#
# - ``cuda.blockIdx.x``, the number of my block;
# - ``cuda.blockDim.x``, how many threads a block has;
# - ``cuda.threadIdx.x``, my number within my block.
#
# Block and thread numbers start at 0. With 16 threads in a block, thread 5 of block 1
# should take element 21. **Write the missing line yourself before you scroll on.**
#
# Here it is, with the imports that it needs. ``@cuda.jit`` says that the function is
# for the GPU.

import numpy as np
from numba import cuda

from firstlight_kernels import simulated, trace  # without a GPU, it runs the kernels


@cuda.jit
def add(a, b, out):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < out.size:
        out[i] = a[i] + b[i]


# %%
# Such a function is called a *kernel*. In C++ it would be the same, with a few
# keywords. Read it as if you were the thread:
#
# - *Which element is mine?* All the blocks before mine have ``blockIdx.x * blockDim.x``
#   threads, and within my own block I am number ``threadIdx.x``. The ``.x`` is there
#   because an image needs a ``.y``, too, and ``cuda.grid(1)`` is short for the whole
#   line.
# - *Is there such an element?* If not, I do nothing. This ``if`` is called the *guard*.
# - *Where is the loop?* There is none. Every element has a thread of its own.
# - *What do I return?* Nothing. With thousands of threads, who would get the results?
#   So I write mine into an array that I was given.
#
# The second import is the compiler, numba-cuda. Since June 2026 it only gets fixes for
# security and critical bugs, and its README sends everybody to numba-cuda-mlir. If that
# is what you have, write ``from numba_cuda_mlir import cuda``, and all the rest stays.
#
# For the figure, each of 37 elements was signed by its thread, in blocks of 16.

# folded: A kernel whose threads sign their elements


@cuda.jit
def sign(block, thread):
    i = cuda.grid(1)
    if i < block.size:
        block[i] = cuda.blockIdx.x
        thread[i] = cuda.threadIdx.x


signed_block, signed_thread = (cuda.to_device(np.full(37, -1)) for _ in range(2))
sign[3, 16](signed_block, signed_thread)
taken_by = np.full((3, 16), -1)
places = signed_block.copy_to_host(), signed_thread.copy_to_host()
taken_by[places] = np.arange(37)
idle = int(np.sum(taken_by == -1))

# %%

# figure

import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 2.4), layout="constrained")
for (row, column), element in np.ndenumerate(taken_by):
    busy = element >= 0
    style = {"fc": "#2e7ab0"} if busy else {"fill": False, "hatch": "////"}
    ax.add_patch(plt.Rectangle((column - 0.5, row - 0.5), 1, 1, ec="black", **style))
    if busy:
        ax.text(column, row, element, ha="center", va="center", color="#fefefe")
ax.set(xlim=(-0.5, 15.5), ylim=(2.5, -0.5), aspect="equal")
ax.set_xticks(range(16))
ax.set_yticks(range(3), [f"block {row}" for row in range(3)])
ax.set_xlabel("thread of the block (threadIdx.x)")
ax.set_title(f"37 elements in 3 blocks of 16: {idle} threads do nothing", loc="left")
fig.set_label(
    "A grid of 3 rows, the blocks, and 16 columns, the threads of each. The cells are "
    "numbered 0 to 36, row by row: the element that a thread took. "
    f"The last {idle} cells of the last row are hatched: they took nothing."
)
plt.show()

# sphinx_gallery_thumbnail_number = 1

# %%
# You are thread 5 of block 2. Your number is 2 × 16 + 5 = 37, but the last element is
# number 36. So you are the first of the eleven that have nothing to do. They exist
# because a GPU only starts whole blocks: with two blocks, five elements would have no
# thread.
#
# Launch it
# ---------
#
# Let's add 5,466 pairs of numbers, with 1,024 threads in a block. **How many blocks do
# we need, and how many threads will be idle?**

N, threads_per_block = 5466, 1024
blocks = (N + threads_per_block - 1) // threads_per_block  # round up

x = np.linspace(0, 1, N, dtype=np.float32)
y = np.sqrt(x)

d_x, d_y = cuda.to_device(x), cuda.to_device(y)  # copy both to the GPU
d_sum = cuda.device_array_like(d_x)  # room for the sums there
add[blocks, threads_per_block](d_x, d_y, d_sum)  # run 6 × 1,024 threads
total = d_sum.copy_to_host()  # copy the sums back

idle_here = blocks * threads_per_block - N
print(f"{blocks} blocks, and {idle_here} threads without an element")
print("the same as NumPy:", np.array_equal(total, x + y))
print("This ran", "in the simulator." if simulated() else "on a CUDA GPU.")

# %%
# Five blocks would have 5,120 threads, too few. Six have 6,144, so 678 are idle.
#
# To *launch* a kernel means to start all its threads. The two numbers in the square
# brackets say how many blocks you want and how many threads each of them has. All the
# blocks of a launch are its *grid*, and a thread can ask for their number, too:
# ``cuda.gridDim.x``.
#
# A GPU works best on arrays in its own memory. So we copied ``x`` and ``y`` there, and
# gave the copies names with ``d_``, for *device*. You may also write ``add[6, 1024](x,
# y, total)`` with the NumPy arrays. Then Numba copies all three to the GPU *and back*,
# at every launch, which is usually far slower than the work, and on a GPU it warns you.
# A single number, such as a factor, you can pass to a kernel as it is.
#
# The first launch takes longest, because Numba has to compile the kernel. That's what
# *jit*, just in time, stands for. If yours is as quick as the second, look at the
# decorator: with types in it, ``@cuda.jit("void(float32[:])")``, Numba compiles at that
# line, or, with ``cache=True``, did so in an earlier run.
#
# If you have no NVIDIA GPU, the import from ``firstlight_kernels`` made the kernel run
# in a *simulator*: on the CPU, in NumPy, all threads at once. You get the same answers.
#
# Break it: larger blocks
# -----------------------
#
# Wouldn't fewer and larger blocks do? Change 1024 to 2048. An NVIDIA GPU answers
#
# .. code-block:: text
#
#    CudaAPIError: [1] Call to cuLaunchKernel results in CUDA_ERROR_INVALID_VALUE
#
# Some value is invalid, but which one? Let's ask ``trace``, on any computer. It plays a
# kernel thread by thread, by the rules of a GPU, and says what is wrong. Give it the
# kernel, the number of blocks, the threads of each, and then all that the kernel itself
# takes:

try:
    traced = trace(add, 3, 2048, x, y, total)
except ValueError as error:
    print(f"ValueError: {error}")

# %%
# No block has more than 1,024 threads, on any NVIDIA card, as
# ``cuda.get_current_device().MAX_THREADS_PER_BLOCK`` says on yours. Fix it: 128 or 256
# are a good choice, as a :doc:`later page </tutorials/3_kernels/04_waves_and_blocks>`
# shows. **How many blocks of 256 do the 5,466 numbers need?** Or let Numba choose the
# blocks:

add.forall(N)(d_x, d_y, d_sum)

# %%
# 22 blocks of 256, since 21 × 256 is only 5,376. ``forall`` takes what suits your card,
# often 1,024 threads. The guard has to stay, because its last block may be too large.
#
# Break it: no guard
# ------------------
#
# What would the eleven idle threads of our figure do without the guard?


@cuda.jit
def add_unguarded(a, b, out):
    i = cuda.grid(1)
    out[i] = a[i] + b[i]


ones, zeros = np.ones(37, dtype=np.float32), np.zeros(37, dtype=np.float32)
traced = trace(add_unguarded, 3, 16, ones, ones, zeros)
print(traced.out_of_bounds[-1])

# %%
# There you are again, thread 5 of block 2, and this time you have written past the end
# of the array. **A GPU doesn't check that.** If another array of yours lies there, that
# one is wrong now. If nothing is there, you may never notice. Or the GPU stops your
# program, often at some later line. And when the size is a multiple of the block, all
# is well. So always test a kernel on odd sizes.
#
# Break it: one character more
# ----------------------------
#
# The next kernel is from a course notebook, shortened by us. It has one character more
# than ours. **Will it give 1 + 1 = 2?**


@cuda.jit
def cu_add_vectors(a, b, u):
    i = cuda.grid(1)
    if i < u.size:
        u[i] += a[i] + b[i]


d_ones, d_u = cuda.to_device(ones), cuda.to_device(np.zeros_like(ones))
for launch in (1, 2, 3):
    cu_add_vectors[3, 16](d_ones, d_ones, d_u)
    print(f"launch {launch}: 1 + 1 = {d_u.copy_to_host()[0]:.0f}")

# %%
# The first launch is right, because ``u`` held zeros, and each launch adds the sum once
# more. The course says that ``u`` has to be zeroed before each launch, and skips that
# while it times the kernel with ``%timeit``. With ``=`` nobody has to remember, and the
# kernel need not read ``u``. So write with ``=``, and when you check a kernel, launch
# it twice.

# folded: Ours, launched twice, on awkward sizes, against float64


from firstlight_kernels import blocks_for  # rounds up, as you did above


def worst_error(kernel, n, launches, threads=32):
    pairs = np.random.default_rng(seed=n).random((2, n), dtype=np.float32)
    first, second = (cuda.to_device(each) for each in pairs)
    sums = cuda.to_device(np.zeros(n, dtype=np.float32))
    for _ in range(launches):
        kernel[blocks_for(n, threads), threads](first, second, sums)
    return np.max(np.abs(sums.copy_to_host() - pairs.sum(axis=0, dtype=np.float64)))


worst = max(worst_error(add, size, 2) for size in (1, 31, 32, 33, 101))
assert worst <= np.finfo(np.float32).eps
print(f"off by {worst:.0e} at most, with sums of up to 2")

# %%
# Was it worth it?
# ----------------
#
# Let's add 33,554,433 pairs, with your kernel, with PyTorch and with NumPy. Our timer,
# ``Bench``, waits for the GPU.

# folded: The timing, and what it gave on each computer

import torch

from firstlight import Bench, best_device

rng = np.random.default_rng(seed=1)
n, threads = (2**25 + 1), 256
device = best_device()
a, b = (rng.random(n, dtype=np.float32) for _ in range(2))
out = np.zeros_like(a)
few = 333 if simulated() else n
d_a, d_b, d_out = (cuda.to_device(array[:few]) for array in (a, b, out))
t_a, t_b, t_out = (torch.from_numpy(array).to(device) for array in (a, b, out))


def run_kernel():
    add[blocks_for(few, threads), threads](d_a, d_b, d_out)


bench = Bench("first-kernel")
size, work = ({"n": count, "bytes": 3 * 4 * count} for count in (n, few))
kernel_device = "cpu" if simulated() else "cuda:0"
bench.time("Numba kernel", run_kernel, device=kernel_device, **work)
bench.time("torch.add", lambda: torch.add(t_a, t_b, out=t_out), device=device, **size)
bench.time("NumPy", np.add, a, b, out, **size)
assert np.array_equal(d_out.copy_to_host(), out[:few]), "the kernel is wrong"
bench.show()

# %%
# On an H100, the kernel took :timing:`first-kernel median "Numba kernel"
# @nvidia-h100-80gb-hbm3`, and NumPy, on one core of the CPU beside it,
# :timing:`first-kernel median NumPy @nvidia-h100-80gb-hbm3`. So your kernel wins by
# :timing:`first-kernel speedup "Numba kernel"/NumPy @nvidia-h100-80gb-hbm3` against
# that one core, as long as the arrays are on the GPU already. That isn't a fair
# comparison: :doc:`sixteen cores </tutorials/1_setup/02_first_speedup>` come much
# closer. And it's a slow core. It moved :timing:`first-kernel rate NumPy
# @nvidia-h100-80gb-hbm3`, while one of an AMD EPYC moved :timing:`first-kernel rate
# NumPy @cpu-amd-epyc` in the same addition.
#
# .. holds::
#
#    fast = row("first-kernel/NumPy", "cpu-amd-epyc").byte_rate
#    row("first-kernel/NumPy").byte_rate < fast / 4
#
# PyTorch's own addition took :timing:`first-kernel median torch.add
# @nvidia-h100-80gb-hbm3`, so four lines of Python came close to a library that many
# people have tuned for years. Each thread reads 8 bytes and writes 4, so all that
# counts is how fast the memory is. The kernel moved :timing:`first-kernel rate "Numba
# kernel" @nvidia-h100-80gb-hbm3`, and the memory of such a card can deliver :spec:`H100
# SXM bandwidth`, says its data sheet. A kernel pays when your data are on the GPU
# already, and stay there.
#
# Your turn
# ---------
#
# Write a kernel for ``out[i] = a[i] * x[i] + y[i]`` that is right for *every* launch,
# even if there are fewer threads than elements. Then each thread takes several. With 32
# threads, thread 3 takes elements 3, 35, 67 and so on. ``cuda.gridsize(1)`` is the
# number of threads in the whole grid. Put your kernel where the dots are, and run
# ``firstlight try 01_first_kernel.py``. It tells you if your loop has no end.


@cuda.jit
def scale_and_add(a, x, y, out): ...


# %%

# folded: What check does: it traces your kernel with awkward sizes, and launches it


def find_problem(kernel, n, blocks, threads):
    random = np.random.default_rng(seed=n)
    a, x, y = random.uniform(1, 2, (3, n)).astype(np.float32)
    out, y_before, right = np.full_like(y, -1), y.copy(), a.astype(np.float64) * x + y
    launched = cuda.to_device(out)
    try:
        traced = trace(kernel, blocks, threads, a, x, y, out, limit=20_000)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if traced.out_of_bounds:
        return f"{traced.out_of_bounds[0]}. Is there a guard?"
    wrong = ~np.isclose(out, right)
    i = int(np.argmax(wrong))  # the first wrong one, if there is any
    hint = " Go on to more elements." if i == blocks * threads else ""
    findings = [
        (out[i] == -1, f"nobody wrote out[{i}].{hint}"),
        (np.allclose(out, right - 1), "it adds to what out held. Write =, not +=."),
        (np.any(wrong), f"out[{i}] is {out[i]:.4f}, and should be {right[i]:.4f}."),
        (traced.races, f"an element is taken twice: {[*traced.races, ''][0]}"),
        (np.any(y != y_before), "it changes y."),
        (traced.counts("store").sum() > n, "it writes an element more than once."),
    ]
    if problem := next((said for found, said in findings if found), ""):
        return problem
    kernel[blocks, threads](*(cuda.to_device(each) for each in (a, x, y)), launched)
    same = np.allclose(launched.copy_to_host(), right)
    return "" if same else "launched, it gives something else than traced."


def check(kernel):
    for n, blocks, threads in [(96, 1, 32), (37, 3, 16), (101, 2, 32), (130, 2, 48)]:
        if problem := find_problem(kernel, n, blocks, threads):
            return f"Not yet. {n} elements, kernel[{blocks}, {threads}]: {problem}"
    return "Right: every element once, at every launch."


# %%

print(check(scale_and_add))

# %%
# Three lines to remember
# -----------------------

# remember

print("1. A kernel is the work of one thread; its number, cuda.grid(1), says which")
print("   element.")
print(
    f"2. Round the blocks up (5,466 elements: {-(-N // 256)} blocks of 256), guard the"
)
print("   threads that have no element, and write with =.")
print("3. Keep your data on the GPU, and test a kernel on odd sizes, launched twice.")

# %%
# Solution
# --------

# solution


@cuda.jit
def scale_and_add_solution(a, x, y, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = a[i] * x[i] + y[i]


print(f"Our solution: {check(scale_and_add_solution)}")
