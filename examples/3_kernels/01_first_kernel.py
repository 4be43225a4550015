"""
How do you tell a million threads what to do?
=============================================

For people who know NumPy and have never written code for a GPU. You write the work of
*one* :term:`thread`, in four lines of Python: the number of the thread says which
element it takes, and a test keeps threads without an element from touching anything.
The :term:`launch` says how many threads there are.

**You will learn**

- what a :term:`kernel` is, how a thread finds its element, and how to run one with
  :term:`Numba`;
- why the last :term:`block` needs a :term:`guard`, and how many blocks to ask for;
- why ``+=`` into the output is a mistake, and which check finds it;
- how to choose the number of threads in a block.

**Time:** 10 minutes. **Needs:** any computer, and some NumPy. With a CUDA GPU the
kernels run on it; without one, the same code runs in a :term:`simulator`.
"""

# %%
# A kernel is the work of one thread
# ----------------------------------
#
# A *kernel* is a function that the GPU runs many times at once. One such run is a
# *thread*. All threads get the same arguments, and only one thing tells them apart:
# where they are.

import matplotlib.pyplot as plt
import numpy as np

from firstlight.kernels import blocks_for, cuda, simulated


@cuda.jit
def add(a, b, out):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < out.size:
        out[i] = a[i] + b[i]


# %%
# Read it as if you were the thread:
#
# - A GPU takes its threads in groups of equal size, called *blocks*. ``blockIdx.x`` is
#   the number of my block, ``blockDim.x`` is how many threads a block has, and
#   ``threadIdx.x`` is my number within the block. Blocks and threads both count from 0,
#   so ``i`` is my number among all threads, and the element that I take. (``.x`` is the
#   first of up to three axes.)
# - ``if i < out.size`` is the *guard*: threads without an element must touch nothing.
# - There is no loop over the elements.
# - There is no ``return``. Thousands of threads cannot each return something to one
#   caller, so a kernel writes its results into an array that it was given.
#
# :term:`CUDA` is NVIDIA's platform: the :term:`driver`, compilers and libraries, and
# this model of programming. Most CUDA code is C++ with a few more keywords. There the
# same kernel is
#
# .. code-block:: cuda
#
#    __global__ void add(const float *a, const float *b, float *out, int n) {
#        int i = blockIdx.x * blockDim.x + threadIdx.x;
#        if (i < n) out[i] = a[i] + b[i];
#    }
#    add<<<blocks, threads>>>(d_a, d_b, d_out, n);  // in Numba: add[blocks, threads](…)
#
# Launch it
# ---------
#
# You will add two arrays of 37 numbers in blocks of 16 threads. How many blocks does
# that take, and how many threads get no element? Answer before you read on.
#
# To *launch* a kernel, you say in square brackets how many blocks you want and how many
# threads each of them has. All the blocks of one launch are its *grid*.

n, threads = 37, 16
blocks = blocks_for(n, threads)  # (n + threads - 1) // threads

rng = np.random.default_rng(seed=1)
a, b = (rng.random(n, dtype=np.float32) for _ in range(2))

d_a, d_b = cuda.to_device(a), cuda.to_device(b)
d_out = cuda.device_array_like(d_a)
add[blocks, threads](d_a, d_b, d_out)
out = d_out.copy_to_host()

print("Kernels run here", "in a simulator." if simulated() else "on a CUDA GPU.")
print(f"{blocks} blocks, {blocks * threads - n} threads without an element")
print(f"the last sum: NumPy {a[-1] + b[-1]:.6f}, kernel {out[-1]:.6f}")

# %%
# - The number of blocks is rounded *up*. Rounded down, it would be two, and nobody
#   would take the last five elements.
# - CUDA calls the GPU the *device*, and the computer around it the *host*. The device
#   has memory of its own (VRAM), and an ordinary kernel works on arrays there.
#   ``to_device`` copies an array there, ``device_array_like`` makes one there without
#   filling it, and ``copy_to_host`` brings it back. The ``d_`` in a name says that an
#   array is on the device.
# - You may pass NumPy arrays to a kernel. Then Numba copies each of them to the GPU
#   *and back*, at every launch, even those that the kernel only reads. These transfers
#   usually cost far more than an addition, so move your data once.
# - The first launch takes longer, because Numba compiles the kernel when it first meets
#   these types of arguments (:term:`just in time`, hence ``jit``).
# - On a GPU, a launch does not wait: it puts the kernel into a CUDA stream (a queue)
#   and returns. ``copy_to_host`` waits, since it needs the result. So a clock that
#   stops right after a launch has timed the launch overhead, not the kernel.
#
# Without this site's package
# ---------------------------
#
# Numba compiles Python functions for the GPU, and ``cuda`` is Numba's own. In your own
# program this is all you import:
#
# .. code-block:: python
#
#    import os
#    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # only where there is no NVIDIA GPU
#    from numba import cuda
#
# The second line switches on Numba's *simulator*, which runs kernels as plain Python.
# Numba looks at it once, when it is first imported, so the line stands above the
# import; or type ``NUMBA_ENABLE_CUDASIM=1 python script.py``. The simulator is very
# slow, and its times say nothing about a GPU.
# (``firstlight.kernels`` turns it on where no GPU is found, and ``blocks_for``
# divides and rounds up.) :doc:`/install` has the packages to install.
#
# Who wrote what
# --------------
#
# Let each thread sign the element that it takes, with the number of its block and its
# own. ``cuda.grid(1)`` is shorthand for ``blockIdx.x * blockDim.x + threadIdx.x``.


@cuda.jit
def sign(block, thread):
    i = cuda.grid(1)
    if i < block.size:
        block[i] = cuda.blockIdx.x
        thread[i] = cuda.threadIdx.x


d_block, d_thread = (cuda.to_device(np.full(n, -1)) for _ in range(2))
sign[blocks, threads](d_block, d_thread)
block, thread = d_block.copy_to_host(), d_thread.copy_to_host()

taken_by = np.full((blocks, threads), -1)
taken_by[block, thread] = np.arange(n)
idle = np.sum(taken_by == -1)

# %%

# figure

fig, ax = plt.subplots(figsize=(7.2, 2.4), layout="constrained")
for (row, column), element in np.ndenumerate(taken_by):
    busy = element >= 0
    style = {"fc": "#2e7ab0"} if busy else {"fill": False, "hatch": "////"}
    ax.add_patch(plt.Rectangle((column - 0.5, row - 0.5), 1, 1, ec="black", **style))
    if busy:
        ax.text(column, row, element, ha="center", va="center", color="#fefefe")
ax.set(xlim=(-0.5, threads - 0.5), ylim=(blocks - 0.5, -0.5), aspect="equal")
ax.set_xticks(range(threads))
ax.set_yticks(range(blocks), [f"block {row}" for row in range(blocks)])
ax.set_xlabel("thread of the block (threadIdx.x)")
title = f"{n} elements in {blocks} blocks of {threads}: {idle} threads do nothing"
ax.set_title(title, loc="left")
fig.set_label(
    f"A grid of {blocks} rows, the blocks, and {threads} columns, the threads of each. "
    f"The cells are numbered 0 to {n - 1}, row by row: the element that a thread took. "
    f"The last {idle} cells of the last row are hatched: they took nothing."
)
plt.show()

# sphinx_gallery_thumbnail_number = 1

# %%
# Leave the guard out
# -------------------
#
# Threads without an element cost next to nothing, but they must not touch any element.


@cuda.jit
def add_unguarded(a, b, out):
    i = cuda.grid(1)
    out[i] = a[i] + b[i]


if simulated():
    try:
        add_unguarded[blocks, threads](d_a, d_b, d_out)
    except IndexError as error:
        print(f"IndexError: {error}")
else:
    print("Not run: on a GPU it would write past the end of an array.")

# %%
# The simulator checks every index. Its message names a thread (``tid``) and its block
# (``ctaid``; CUDA's other name for a block is *cooperative thread array*): one of the
# hatched cells. (Which one complains first may differ from run to run.)
#
# **A GPU does not check indices.** Surplus threads read past the end of ``a`` and
# ``b``, and write past the end of ``out``. If nothing of yours is there, the answer is
# right. If another array is, that one is now wrong. Or the GPU stops your program,
# often at a later line. A missing guard passes every test whose size is a multiple of
# the block, so test odd sizes.
#
# Check
# -----
#
# Here is a kernel with one character more. Do you trust it?


@cuda.jit
def add_in_place(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] += a[i] + b[i]


# %%
# The check compares with the same sum in ``float64``, for sizes around the 32 threads
# of a block, after one launch and after two.


def worst_error(kernel, n, launches, threads=32):
    a, b = (rng.random(n, dtype=np.float32) for _ in range(2))
    d_a, d_b = cuda.to_device(a), cuda.to_device(b)
    d_out = cuda.to_device(np.zeros(n, dtype=np.float32))
    for _ in range(launches):
        kernel[blocks_for(n, threads), threads](d_a, d_b, d_out)
    return np.max(np.abs(d_out.copy_to_host() - (a.astype(np.float64) + b)))


for kernel in (add, add_in_place):
    for launches in (1, 2):
        worst = max(worst_error(kernel, n, launches) for n in (1, 31, 32, 33, 101))
        verdict = "right" if worst <= np.finfo(np.float32).eps else "WRONG"
        print(
            f"{kernel.__name__:>12}, {launches} × launched: {verdict}, {worst:.0e} off"
        )

# %%
# ``+=`` reads what ``out`` held before, so it gives the sum only if ``out`` held zeros.
# A benchmark launches the kernel hundreds of times into the same array, so its result
# is wrong there. It also moves more, 16 bytes an element instead of 12, because it
# reads ``out`` too. So launch a kernel twice when you check it, or start from an output
# that is *not* zero.
#
# How many threads in a block?
# ----------------------------
#
# A GPU consists of *multiprocessors*, a few in a small card, more than a hundred in a
# large one. Each block goes to one of them as a whole and stays until its last thread
# is done. The multiprocessor works on the block in :term:`warps <warp>` of 32 threads,
# which run their instructions together, and it holds many warps at once: while some
# wait for memory, others go on. So a thread does not own a core. A block that does not
# fill its last warp leaves some of its 32 places idle:

for threads in (16, 33, 100, 128, 256, 1024):
    warps = blocks_for(threads, 32)
    unused = 1 - threads / (32 * warps)
    print(f"{threads:>4} threads: {warps:>2} warps of 32, {unused:.0%} idle")

# %%
# - Take a multiple of 32, and start with 128 or 256. The best number depends on the
#   kernel and on the GPU, so measure it when it matters.
# - 1024 is the most that CUDA allows, and no good default:
#   :doc:`/tutorials/3_kernels/04_waves_and_blocks` shows what it costs.
# - Have many more blocks than multiprocessors. Three blocks keep at most three busy.
#
# Measure
# -------
#
# For each element the GPU reads two ``float32`` numbers and writes one: 12 bytes for a
# single addition. Every GPU adds far faster than its memory delivers, so for arrays too
# large for its caches, the bandwidth on the :term:`data sheet` gives the least time:

from firstlight.timing.specs import spec

n, threads = (2**25 + 1), 256
for card in ("GTX 1650", "RTX 4090", "H100 SXM"):
    floor = 12 * n / spec(card, "bandwidth")
    print(f"{card:>8}, {n:,} elements: never under {1e3 * floor:.2f} ms")

# %%
# On a GPU, your kernel should come near that, and take as long as PyTorch's own
# addition, which moves the same bytes. (The simulator reports no times. Without a CUDA
# GPU, the table shows only what PyTorch and NumPy take here.)

import torch

from firstlight import Bench, best_device

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
# On the newest GPU on record the kernel takes
# :timing:`first-kernel median "Numba kernel/cuda:0/n=33554433" @gpu`, and ``torch.add``
# :timing:`first-kernel median "torch.add/cuda:0/n=33554433" @gpu`.
#
# The same kernel on other people's cards: infra-practices and a reader of a textbook
# timed it.
#
# .. measured-by-others:: kernel-add-a100 add-rtx3060 add-gtx1650 add-rtx2060
#
# Where this stops being true
# ---------------------------
#
# - *Small arrays.* A launch takes a while, whatever its size, and from Numba it usually
#   takes longer than from PyTorch. For a few thousand elements you measure only that.
# - *Data that travel.* If the arrays come from the CPU and the sum goes back there, the
#   transfer costs far more than the addition. A GPU pays when data stay on it for many
#   operations.
# - *The simulator.* It runs one block after the other, has no warps, and does not
#   compile. It accepts blocks of more than 1024 threads, and lacks a few instructions.
#   A kernel that passes there can still fail on a GPU. One that fails there is almost
#   certainly wrong on a GPU too.
# - *Other makers.* Numba's CUDA kernels run on NVIDIA GPUs only. With another GPU you
#   get the simulator here; PyTorch's own operations run on yours.
#
# Exercise
# --------
#
# Write a kernel for ``out[i] = a[i] * x[i] + y[i]`` that is right for *every* launch,
# even if the grid has fewer threads than there are elements. You need one more thing:
# ``cuda.gridsize(1)`` is the number of threads in the whole grid, which is
# ``cuda.gridDim.x * cuda.blockDim.x``. Here is a start, which is not enough:


@cuda.jit
def scale_and_add(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] * x[i] + y[i]


# %%

# folded: What check does: awkward sizes, an output of -1, spare room after it


def find_problem(kernel, n, blocks, threads):
    a, x, y = (rng.uniform(1, 2, n).astype(np.float32) for _ in range(3))
    d_a, d_x, d_y = (cuda.to_device(array) for array in (a, x, y))
    room = cuda.to_device(np.full(n + blocks * threads, -1, dtype=np.float32))
    try:
        kernel[blocks, threads](d_a, d_x, d_y, room[:n])
        kernel[blocks, threads](d_a, d_x, d_y, d_y)
    except IndexError as error:
        return f"a thread left an array ({error}). Is there a guard?"
    except Exception as error:
        return f"it raised {type(error).__name__}: {error}"
    out, spare = np.split(room.copy_to_host(), [n])
    right = a.astype(np.float64) * x + y
    return explain(out, spare, d_y.copy_to_host(), right, blocks * threads)


# %%

# folded: How it tells which mistake it was


def explain(out, spare, in_place, right, grid):
    wrong = ~np.isclose(out, right)
    i = np.argmax(wrong)  # the first wrong one, if there is any
    hint = " Go on to more elements." if i == grid else ""
    findings = [
        (np.any(spare != -1), "a thread wrote past the end. Is there a guard?"),
        (out[i] == -1, f"nobody wrote out[{i}].{hint}"),
        (np.allclose(out, right - 1), "it adds to what out held. Write =, not +=."),
        (np.any(wrong), f"out[{i}] is {out[i]:.4f}, and should be {right[i]:.4f}."),
        (not np.allclose(in_place, right), "it takes an element twice, or changes y."),
    ]
    return next((sentence for found, sentence in findings if found), "")


def check(kernel):
    if not hasattr(kernel, "__getitem__"):
        return "Not yet: that is no kernel. Put @cuda.jit above the function."
    for n, blocks, threads in [(96, 1, 32), (37, 3, 16), (101, 2, 32), (130, 2, 48)]:
        if problem := find_problem(kernel, n, blocks, threads):
            return f"Not yet. {n} elements, kernel[{blocks}, {threads}]: {problem}"
    return "Right: every element once, at every launch."


# %%

print(check(scale_and_add))

# %%

# solution


@cuda.jit
def scale_and_add_solution(a, x, y, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = a[i] * x[i] + y[i]


print(check(scale_and_add_solution))

# %%
# Three lines to remember
# -----------------------

# remember

print("1. A kernel is the work of one thread; its number, cuda.grid(1), says which")
print("   element.")
in_blocks = "{} blocks of {}".format(*taken_by.shape)
print(f"2. Round the blocks up ({taken_by.max() + 1} elements: {in_blocks}), guard the")
print("   threads that have no element, and write with =.")
print("3. Check on odd sizes, twice into the same output, before you believe a result")
print("   or a time.")
