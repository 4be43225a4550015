"""
How do you tell a million threads what to do?
=============================================

You write the work of *one* of them. This page takes the smallest job there is, adding
two arrays, and shows everything that stands between a line of NumPy and a line that a
GPU runs: which thread takes which element, what the threads left over do, and two
mistakes that give the right answer at first.

**You will learn**

- what a kernel is, and how a thread finds the element that belongs to it;
- why the last block needs a guard, and how many blocks to ask for;
- why ``+=`` into the output is a mistake, and which check finds it;
- how to choose the number of threads in a block.

**Time:** 15 minutes. **Needs:** any computer, and some NumPy. With a CUDA GPU, the
kernels run on it; without one, the same code runs in a simulator.
"""

# %%
# Predict
# -------
#
# You will add two arrays of 37 numbers. A GPU takes its threads in groups of equal
# size, called *blocks*. Here a block has 16 threads, and each thread adds one pair of
# numbers. Write down your answers before you go on:
#
# - How many blocks do 37 elements need?
# - How many threads are then left over, and what do they do?
# - Which of these costs more time on a GPU: to add two numbers, or to fetch them?
#
# Only the last one needs more than counting. For each element the GPU reads two
# ``float32`` numbers and writes one: 12 bytes for a single addition. Every GPU of today
# can add far faster than its memory can deliver. So for large arrays memory will set
# the time, and your kernel should take as long as PyTorch's own addition, which moves
# the same bytes. You will see at the end.
#
# Two ways to run a kernel
# ------------------------
#
# This page turns Python functions into GPU code with a package called Numba. It also
# has a *simulator*, which runs the same function as plain Python. The line below picks
# the GPU if there is one, and the simulator if not. The simulator gives right answers
# and readable errors. It is very slow, and its times say nothing about a GPU.

import matplotlib.pyplot as plt
import numpy as np

from firstlight.kernels import blocks_for, cuda, simulated

print("Kernels run", "in the simulator." if simulated() else "on a CUDA GPU.")

# %%
# A kernel is the work of one thread
# ----------------------------------
#
# A *kernel* is a function that the GPU runs many times at once. One such run is a
# *thread*. All threads get the same arguments, and only one thing tells them apart:
# where they are.


@cuda.jit
def add(a, b, out):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < out.size:
        out[i] = a[i] + b[i]


# %%
# Read it as if you were the thread:
#
# - ``blockIdx.x`` is the number of my block, ``blockDim.x`` is how many threads a block
#   has, and ``threadIdx.x`` is my number within the block. Both numbers count from 0.
#   So ``i`` is my number among all threads, and the element that I take. (``.x`` is the
#   first of up to three axes. An array with one axis needs no other.)
# - ``if i < out.size`` is the *guard*. Some threads are left over, and must touch
#   nothing.
# - There is no loop. NumPy hides the loop over the elements; here there is none to
#   hide.
# - There is no ``return``. Thousands of threads cannot each return something to one
#   caller, so a kernel writes its results into an array that it was given.
#
# Launch it
# ---------
#
# To *launch* a kernel, you say in square brackets how many blocks you want and how many
# threads each of them has. All the blocks of one launch are its *grid*.

n, threads = 37, 16
blocks = blocks_for(n, threads)
print(f"{n} elements in blocks of {threads} threads: {blocks} blocks")

rng = np.random.default_rng(seed=1)
a, b = (rng.random(n, dtype=np.float32) for _ in range(2))

d_a, d_b = cuda.to_device(a), cuda.to_device(b)
d_out = cuda.device_array_like(d_a)
add[blocks, threads](d_a, d_b, d_out)
out = d_out.copy_to_host()

print(f"the last sum: NumPy {a[-1] + b[-1]:.6f}, kernel {out[-1]:.6f}")

# %%
# Line by line:
#
# - ``blocks_for`` divides and rounds *up*, as ``(n + threads - 1) // threads`` does.
#   Rounding down would give two blocks, and nobody would take the last five elements.
# - CUDA calls the GPU the *device*, and the computer around it the *host*. The device
#   has memory of its own, and a kernel sees only that. ``to_device`` copies an array
#   there, ``device_array_like`` makes one there without filling it (like ``np.empty``),
#   and ``copy_to_host`` brings it back. The ``d_`` in a name says that an array is on
#   the device.
# - You may pass NumPy arrays to a kernel. Then Numba copies each of them to the GPU
#   *and back*, at every launch, also those that the kernel only reads. Copies usually
#   cost far more than the addition, so move your data once.
# - The first launch takes longer. Numba compiles the kernel when it first meets these
#   types of arguments (*just in time*, hence ``jit``) and keeps the result. The
#   simulator compiles nothing.
# - On a GPU, a launch does not wait. It puts the kernel into a queue and returns,
#   usually before the GPU has begun. ``copy_to_host`` waits, since it needs the result.
#   So a clock that stops right after a launch has timed the queueing, not the kernel.
#
# See who wrote what
# ------------------
#
# Do not take the formula on trust. Let each thread sign the element that it takes, with
# the number of its block and its own. ``cuda.grid(1)`` is a short way to write the sum
# from above (the 1 means one axis).


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
print(f"{blocks * threads} threads were launched; {idle} of them signed nothing")

# %%
# The figure shows these signatures: a row is a block, a cell is a thread, the number in
# it is the element that the thread signed. A hatched cell signed nothing.

fig, ax = plt.subplots(figsize=(5.6, 2.0), layout="constrained")
for (row, column), element in np.ndenumerate(taken_by):
    busy = element >= 0
    style = {"fc": "#2e7ab0"} if busy else {"fill": False, "hatch": "////"}
    ax.add_patch(plt.Rectangle((column - 0.5, row - 0.5), 1, 1, ec="black", **style))
    if busy:
        ax.text(column, row, element, ha="center", va="center", color="#fefefe", size=9)
ax.set(xlim=(-0.5, threads - 0.5), ylim=(blocks - 0.5, -0.5), aspect="equal")
ax.set_xticks(range(threads))
ax.set_yticks(range(blocks))
ax.set(xlabel="threadIdx.x", ylabel="blockIdx.x")
ax.set_title(f"{n} elements, {idle} threads left over (hatched)", size=11)
fig.set_label(
    f"A grid of {blocks} rows, the blocks, and {threads} columns, the threads of each. "
    f"The cells are numbered 0 to {n - 1}, row by row: the element that a thread took. "
    f"The last {idle} cells of the last row are hatched: they took nothing."
)
plt.show()

# %%
# Only the last block has idle threads. They cost nothing to speak of. What they must
# not do is touch an element, because there is none for them.
#
# Leave the guard out
# -------------------


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
    print("Not run: on a GPU it would write behind the end of an array.")

# %%
# The simulator checks every index. Its message names a thread (``tid``) and its block
# (``ctaid``; CUDA's other name for a block is *cooperative thread array*). Find that
# thread in the figure: it is hatched.
#
# **A GPU does not check indices.** The threads left over read what lies behind ``a``
# and ``b``, and write behind ``out``. Perhaps nothing of yours is there, and the answer
# is right. Perhaps another array is, and that one is now wrong. Or the GPU stops your
# program, often at some later, innocent line. So a missing guard can pass every test
# with a size that is a multiple of the block. That is why you test odd sizes.
#
# Check
# -----
#
# Here is a second kernel, with one character more. Do you trust it?


@cuda.jit
def add_in_place(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] += a[i] + b[i]


# %%
# The check compares with the same sum in ``float64``. Its sizes are around the 32
# threads of a block: one element, one less than a block, a full block, one more, and
# some blocks.


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
        print(f"{kernel.__name__:>12}, launch {launches}: error {worst:.0e}, {verdict}")

# %%
# After one launch, both kernels are right, to the last bit that ``float32`` has. After
# two, one of them has added the sum twice. ``+=`` reads what ``out`` held before, so it
# gives the sum only if ``out`` held zeros. You meet this at the worst moment. A program
# that *times* a kernel launches it hundreds of times into the same array, and reports a
# time for a wrong result. It also times the wrong work: it reads ``out`` as well, so it
# moves 16 bytes an element, not 12.
#
# So launch a kernel twice when you check it, or start from an output that is *not*
# zero.
#
# How many threads in a block?
# ----------------------------
#
# Sixteen made a small figure. It is a bad choice for work, and to see why you need to
# know what becomes of a block. A GPU consists of *multiprocessors*, a few in a small
# card, more than a hundred in a large one. Each block goes to one of them, as soon as
# there is room for the whole block, and stays there until its last thread is done.
#
# The multiprocessor cuts the block into *warps* of 32 threads. It works on a warp as a
# whole: one instruction at a time, for all of the 32 that are at the same place in the
# kernel. It holds many warps at once, from several blocks. While some wait for memory,
# it goes on with others that are ready. So a thread does not own a core, and far more
# threads are under way than there are cores. That is how a GPU hides the wait for its
# memory. A block that does not fill its warps wastes their places:

for threads in (16, 33, 100, 128, 256, 1024):
    warps = blocks_for(threads, 32)
    unused = 1 - threads / (32 * warps)
    print(f"{threads:>4} threads: {warps:>2} x 32 places, {unused:.0%} of them unused")

# %%
# - Take a multiple of 32. With 33 threads, the second warp has one thread and takes up
#   as much room as a full one.
# - Start with 128 or 256. The best number depends on the kernel and on the GPU, so
#   measure it when it matters.
# - 1024 is the most that CUDA allows. It is not a good default. The block has to find
#   room as a whole, and the room of its finished warps stays empty until its slowest
#   warp is done. A multiprocessor that holds 1536 threads (that of a GeForce RTX 30, 40
#   or 50 does) has room for one such block, and a third of it stays empty. And a kernel
#   whose threads need more than 64 *registers* each (a register holds 32 bits) does not
#   start at all with so many threads.
# - Have many more blocks than multiprocessors. Three blocks keep at most three of them
#   busy.
#
# Measure
# -------
#
# On a GPU, you now add arrays that are too large for the GPU's caches (small, fast
# memory beside the processor), with your kernel and with PyTorch, and on the CPU with
# NumPy. In the simulator the arrays are small. There the row of the kernel says
# ``simulated`` and has no time, because there is none worth showing.

import torch

from firstlight import Bench, best_device

device = best_device()
n, threads = (333 if simulated() else 2**25 + 1), 256
a, b = (rng.random(n, dtype=np.float32) for _ in range(2))
out = np.zeros_like(a)
d_a, d_b, d_out = (cuda.to_device(array) for array in (a, b, out))
t_a, t_b, t_out = (torch.from_numpy(array).to(device) for array in (a, b, out))


def run_kernel():
    add[blocks_for(n, threads), threads](d_a, d_b, d_out)


bench = Bench("first-kernel")
size = {"n": n, "bytes": 3 * 4 * n}
kernel_device = "cpu" if simulated() else "cuda:0"
bench.time("Numba kernel", run_kernel, device=kernel_device, **size)
bench.time("torch.add", lambda: torch.add(t_a, t_b, out=t_out), device=device, **size)
bench.time("NumPy", np.add, a, b, out, **size)
bench.show()

# %%
# What was timed should also be right. Here are the results, after all those launches:

results = {"kernel": d_out.copy_to_host(), "torch": t_out.cpu().numpy()}
for name, result in results.items():
    same = np.array_equal(result, a + b)
    print(f"{name}: {'equal to NumPy, bit for bit' if same else 'NOT what NumPy gets'}")

# %%
# Without a GPU, the table holds nothing about kernels: for so few elements, PyTorch and
# NumPy need longer to begin than to add.
#
# With a GPU, compare the first two rows with your prediction. Both move 12 bytes an
# element, so their rates should be close. Where they are not, your kernel has something
# left to gain, and the later pages of this chapter look for it. What the third row is
# worth as a comparison has a page of its own:
# :doc:`/tutorials/1_setup/02_first_speedup`.
#
# Where this stops being true
# ---------------------------
#
# - *Small arrays.* Starting a kernel takes a while, whatever its size, and from Numba
#   it usually takes longer than from PyTorch. For a few thousand elements you measure
#   only that.
# - *Data that travel.* If the arrays come from the CPU and the sum goes back there, the
#   way costs far more than the addition. A GPU pays when data stay on it for many
#   operations.
# - *Every second element.* To add ``a[::2]`` and ``b[::2]`` is half the work, but all
#   of ``a`` and ``b`` comes out of memory, because memory comes in pieces of 32 bytes.
#   Which thread reads which address decides how fast a kernel is.
# - *The simulator.* It runs one block after the other, has no warps, and does not
#   compile. It even accepts blocks of more than 1024 threads. A kernel that passes
#   there can still fail on a GPU. A kernel that leaves an array there, or computes a
#   wrong number, is wrong on a GPU too. (Some of CUDA the simulator does not know; then
#   it says so.)
# - *Other makers.* Numba's CUDA kernels run on NVIDIA GPUs only. With another GPU you
#   get the simulator here; PyTorch's own operations run on yours.
#
# Exercise
# --------
#
# Write a kernel for ``out[i] = a[i] * x[i] + y[i]`` that is right for *every* launch,
# also if the grid has fewer threads than there are elements. You need one thing more:
# ``cuda.gridsize(1)`` is the number of threads in the whole grid. Here is a start. It
# is not enough, as you will see:


@cuda.jit
def scale_and_add(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] * x[i] + y[i]


# %%
# The check below launches a kernel on awkward sizes. The output starts as -1
# everywhere, so that an element that nobody wrote differs from one that was added to.
# Behind the output is spare room, where nobody may write. Then the kernel runs once
# more with ``y`` as its output: a kernel that takes an element twice gets that wrong.


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
# What came out tells which mistake it was. The check answers with the first sentence
# that is true:


def explain(out, spare, in_place, right, grid):
    wrong = ~np.isclose(out, right)
    i = np.argmax(wrong)  # the first wrong one, if there is any
    hint = " A thread must go on to more elements." if i == grid else ""
    findings = [
        (np.any(spare != -1), "a thread wrote behind the end. Is there a guard?"),
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
#
# 1. A kernel is the work of one thread; its number, ``cuda.grid(1)``, says which
#    element.
# 2. Round the blocks up, guard the threads left over, and write with ``=``.
# 3. Check on odd sizes, twice into the same output, before you believe a result or a
#    time.
