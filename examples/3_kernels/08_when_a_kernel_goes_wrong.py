"""
Your kernel gives the right answer. Is it right?
================================================

For anyone whose :term:`kernel` looks right, or crashes the program. A right answer
proves little: each of the four kernels below has one mistake, and each gives the right
answer in at least one run. ``trace`` looks at every access to memory, and names all
four mistakes.

To run your own kernel under ``trace``, give it NumPy arrays of an odd size::

    from firstlight.kernels import trace

    for each in trace(my_kernel, blocks, threads, *arrays).problems:
        print(each)

The lines that it names are lines of the file with the kernel.

**You will learn**

- the mistakes that only parallel code has, how they hide, and their symptoms;
- how to find them with ``trace``, and with compute-sanitizer on a GPU;
- why a GPU's error comes late, far from its cause, and then never goes away.

**Time:** 12 minutes. **Needs:** any computer, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`. Without a CUDA GPU, *Errors come late* shows a
model.
"""

# %%
# The table to come back to
# -------------------------
#
# .. table:: Symptoms, mistakes, and what finds them
#
#   ================================ ======================== ==========================
#   symptom                          likely mistake           what finds it
#   ================================ ======================== ==========================
#   IndexError at odd sizes only     no guard                 odd sizes, trace, memcheck
#   right, but another array changed out of bounds, close by  trace, memcheck
#   another answer in each run       race, missing barrier    trace, racecheck (that
#                                                             only in shared memory)
#   right only in the simulator      race in global memory,   trace
#                                    divergent barrier
#   it never ends                    divergent barrier, loop  trace, synccheck
#   zeros or old numbers in places   memory nobody filled     start from NaN, initcheck
#   *illegal address*, innocent line far outside, earlier     launch blocking, memcheck
#   *device-side assert* in PyTorch  index or label too large the same lines on the CPU
#   after an error every call fails  an earlier, sticky error a new process
#   ================================ ======================== ==========================
#
# Predict
# -------
#
# Kernels A, C and D compute the ``n - 1`` differences between neighbouring samples, as
# ``np.diff`` does. B counts how many are positive. :term:`Thread <thread>` ``i`` looks
# at sample ``i`` and the one before. Each kernel below has one mistake. Write down
# which, and whether a run with 128 samples (two full :term:`blocks <block>`) gives the
# right answer. And with 101?

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from firstlight.kernels import blocks_for, cuda, simulated, trace
from firstlight.kernels.tracing import STORE

T = 64  # threads in a block


@cuda.jit
def kernel_a(x, out):
    i = cuda.grid(1)
    if i > 0:
        out[i - 1] = x[i] - x[i - 1]


@cuda.jit
def kernel_b(x, rises):
    i = cuda.grid(1)
    if 0 < i < x.size and x[i] > x[i - 1]:
        rises[0] += 1


# %%
# The other two keep a block's samples in :term:`shared memory`, which all threads of
# the block can use, so that each sample is fetched once. ``syncthreads`` is a
# :term:`barrier`: a thread that reaches it waits for the rest of the block.


@cuda.jit
def kernel_c(x, out):
    near = cuda.shared.array(T, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if i < x.size:
        near[t] = x[i]
    if 0 < i < x.size:
        before = near[t - 1] if t > 0 else x[i - 1]
        out[i - 1] = near[t] - before


@cuda.jit
def kernel_d(x, out):
    near = cuda.shared.array(T, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if i < x.size:
        near[t] = x[i]
        cuda.syncthreads()
    if 0 < i < x.size:
        before = near[t - 1] if t > 0 else x[i - 1]
        out[i - 1] = near[t] - before


# %%
# Run them
# --------
#
# A plain run: :term:`launch`, copy back, compare with the ``float64`` result rounded to
# ``float32``. Both arrays are padded, so a kernel that runs past the end does no harm,
# and you see that it did.

rng = np.random.default_rng(seed=1)


def a_problem(kernel, n):
    x = rng.random(n, dtype=np.float32)
    exact = np.diff(x.astype(np.float64))
    if kernel.__name__.endswith("_b"):  # these count
        return x, np.zeros(1, np.int32), np.array([np.sum(exact > 0)])
    return x, np.full(n - 1, np.nan, np.float32), exact.astype(np.float32)


def plain_run(kernel, n):
    x, out, right = a_problem(kernel, n)
    d_x = cuda.to_device(np.concatenate([x, x]))
    d_room = cuda.to_device(np.concatenate([out, np.full(T, 7, out.dtype)]))
    try:
        kernel[blocks_for(n, T), T](d_x[:n], d_room[: out.size])
        result, spare = np.split(d_room.copy_to_host(), [out.size])
    except Exception as error:
        return f"stopped by {type(error).__name__}"
    behind = f", {np.sum(spare != 7)} written behind the end" if any(spare != 7) else ""
    return ("right" if np.array_equal(result, right) else "WRONG") + behind


SIZES = (128, 101)
four = {"A": kernel_a, "B": kernel_b, "C": kernel_c, "D": kernel_d}
ran = {(name, n): plain_run(four[name], n) for name in four for n in SIZES}
print("in the simulator:" if simulated() else "on the GPU:")
for name in four:
    print(f"{name}: 128 samples {ran[name, 128]}; 101 samples {ran[name, 101]}")

# %%
# The :term:`simulator` looks at every index, so it stops A at 101. A GPU runs A without
# an error, and writes past the end. What B and C give depends on which thread comes
# first, so it can change from run to run.
#
# Ask the trace
# -------------
#
# ``trace`` also runs a kernel, thread by thread, in Python. It does not ask whether the
# answer was right, but whether every access was *allowed*, and its order *certain*.

from textwrap import fill


def traced(kernel, n):
    x, out, right = a_problem(kernel, n)
    seen = trace(kernel, blocks_for(n, T), T, x, out)
    return seen.problems, np.array_equal(out, right)


found = {(name, n): traced(four[name], n) for name in four for n in SIZES}
for name in four:
    problems, right = found[name, 101]
    says = f"{name}: the answer is {'right' if right else 'WRONG'}, and {problems[0]}"
    print(fill(says, 84, subsequent_indent="   "))

# %%
# All four, though each answer was right. **A is out of bounds.** Of 128 threads, 27
# have no sample, and need a :term:`guard`. With 128 samples each thread has one, so the
# trace finds nothing: *trace odd sizes*.
#
# **B has a race.** ``rises[0] += 1`` is three steps: read, add, write. Two threads that
# both read 5 both write 6, and a rise is lost. A *race* is two accesses to one element,
# one of them a write, by different threads in no certain order. The cure is an
# :term:`atomic` addition, which no other thread can split: ``cuda.atomic.add``.
#
# **C lacks a barrier.** That is a race, too, but here it is enough to fix the order:
# first *all* write, then all read. The cures so far:


@cuda.jit
def cured_a(x, out):
    i = cuda.grid(1)
    if 0 < i < x.size:
        out[i - 1] = x[i] - x[i - 1]


@cuda.jit
def cured_b(x, rises):
    i = cuda.grid(1)
    if 0 < i < x.size and x[i] > x[i - 1]:
        cuda.atomic.add(rises, 0, 1)


@cuda.jit
def cured_c(x, out):
    near = cuda.shared.array(T, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if i < x.size:
        near[t] = x[i]
    cuda.syncthreads()
    if 0 < i < x.size:
        before = near[t - 1] if t > 0 else x[i - 1]
        out[i - 1] = near[t] - before


# %%
# The figure follows eight threads. An arrow goes from the thread that wrote a number in
# shared memory to the thread that reads it, as the trace recorded them.

# figure
fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), sharey=True, layout="constrained")
for ax, kernel in zip(axes, (kernel_c, cured_c), strict=True):
    seen = trace(kernel, 1, 8, *a_problem(kernel, 8)[:2])
    shared = [array.space for array in seen.arrays].index("shared")
    accesses = seen.accesses[seen.accesses["array"] == shared]
    writes = {one["offset"]: one for one in accesses if one["kind"] == STORE}
    for read in accesses[accesses["kind"] != STORE]:
        wrote = writes[read["offset"]]
        ordered = wrote["epoch"] < read["epoch"]  # a barrier lies between the two
        if wrote["thread"] != read["thread"]:
            style = {"color": "#2e7ab0" if ordered else "#c2410c", "lw": 1.6}
            style |= {"arrowstyle": "-|>", "ls": "-" if ordered else "--"}
            ax.annotate("", (1, read["thread"]), (0, wrote["thread"]), arrowprops=style)
    ax.plot([0] * 8, range(8), "s", [1] * 8, range(8), "o", color="#8a9199", ms=7)
    ax.set(xlim=(-0.3, 1.3), ylim=(7.6, -0.6))
    ax.set_xticks([0, 1], ["writes", "reads"], size=10)
    ax.set_title("cured: a barrier between" if ordered else "C: no order", size=11)
    ax.axvline(0.5, color="black", lw=4 if ordered else 0)
axes[0].set_ylabel("thread")
fig.set_label(
    "Eight threads; each writes a number, and seven read the one of the thread before. "
    "Left, kernel C: seven dashed arrows, as nothing orders a write before its read. "
    "Right, a barrier stands between all writes and all reads, and the arrows cross it."
)
plt.show()

# %%
# Each dashed arrow is right only if the writer comes first. ``trace`` runs thread after
# thread, so here the writer did, and the race is reported all the same. On a GPU,
# nothing says which *warp* of 32 threads runs first, nor, since Volta, that the threads
# of one warp keep in step.
#
# **D has a divergent barrier**: some threads of its last block go past it. CUDA `allows
# that`__ only if all threads of a block do; else "the code execution is likely to hang
# or produce unintended side effects". D is a mild case: these threads end soon after,
# and GPUs since Volta do `not wait`__ for threads that have ended. (A thread that
# returns *before* a barrier is no mistake there.) The cure is ``cured_c``: the guard
# ends before the barrier, and begins again after it.
#
# __ https://docs.nvidia.com/cuda/cuda-c-programming-guide/#synchronization-functions
# __ https://docs.nvidia.com/cuda/volta-tuning-guide/index.html
#
# Check
# -----
#
# A cure needs a right answer *and* right accesses, at awkward sizes.

for kernel in (cured_a, cured_b, cured_c):
    for n in (2, 65, 101, 192):
        assert plain_run(kernel, n) == "right", f"{kernel.__name__}, {n} samples"
        assert traced(kernel, n) == ([], True), f"{kernel.__name__}, {n} samples"
    print(f"{kernel.__name__}: right answers, no problem")

# %%
# The figure shows how each way of looking did on the four. Its last column was not run:
# it is what NVIDIA's manual says of the tools of compute-sanitizer, which you meet
# below. D is left open: its threads skip the barrier and end, and the manual does not
# say what synccheck makes of that.

# measured figure
# sphinx_gallery_thumbnail_number = 2
searches = ["run,\n128", "run,\n101", "trace,\n128", "trace,\n101", "by the\nmanual"]
tools = {"A": "memcheck", "B": "", "C": "racecheck", "D": "unclear"}
plain = [[not ran[name, n].startswith("right") for n in SIZES] for name in four]
by_trace = [[bool(found[name, n][0]) for n in SIZES] for name in four]
by_manual = [[bool(tool) - (tool == "unclear") / 2] for tool in tools.values()]
verdicts = np.hstack([plain, by_trace, by_manual])
caught = (verdicts == 1).sum(axis=0)

fig, ax = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
colours = ListedColormap(["#c2410c", "#6b7280", "#2e7ab0"])
ax.pcolormesh(verdicts, cmap=colours, lw=3, ec="#8a9199")
for (row, column), yes in np.ndenumerate(verdicts):
    word = [*tools.values()][row] if yes and column == 4 else "found"
    style = {"ha": "center", "va": "center", "color": "#fefefe", "size": 10}
    ax.text(column + 0.5, row + 0.5, word if yes else "MISSED", **style)
ax.set_xticks(np.arange(5) + 0.5, searches, size=10)
rows = ["A: bounds", "B: race", "C: no barrier", "D: divergent"]
ax.set_yticks(np.arange(4) + 0.5, rows, size=10)
ax.invert_yaxis()
ax.xaxis.tick_top()
finding = f"A plain run with 128 samples found {caught[0]} of 4 mistakes, "
ax.set_title(f"{finding}a trace with 101 found {caught[3]}", loc="left", size=11)
fig.set_label(
    "Four wrong kernels in rows, five ways to look in columns. A plain run with 128 "
    f"samples found {caught[0]} of the four, with 101 samples {caught[1]}. The trace "
    f"found {caught[2]} with 128 and {caught[3]} with 101 samples. By the manual, the "
    "sanitizer's tools find A and C, not the race in global memory; of D it is unclear."
)
plt.show()

# %%
# Errors come late, and stay
# --------------------------
#
# Some mistakes a GPU does notice: an address so far outside that no memory is there.
# But a launch only puts work :doc:`into a queue </tutorials/2_devices/06_queues>`, so
# the error comes out of some later call. And CUDA's manual says that `an illegal
# address`__ "leaves the process in an inconsistent state and any further CUDA work will
# return the same error": it is *sticky*. So a child process makes these calls. The
# first kernel writes far outside, the second is a right one:
#
# __ https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html

# folded: The four calls, for a process of their own
import os
import subprocess
import sys

CALLS = {
    "launch wrong": "write[1, 64](numbers, far)",
    "launch right": "write[1, 64](numbers, 0)",
    "copy the result": "numbers.copy_to_host()",
    "make an array": "cuda.to_device(np.ones(3))",
}
CHILD = f"""
import sys, numpy as np
from firstlight.kernels import cuda

@cuda.jit
def write(out, where):
    out[cuda.grid(1) + where] = 1

numbers, far = cuda.to_device(np.zeros(64)), int(sys.argv[1])
write[1, 64](numbers, 0)  # compiled, and run once
cuda.synchronize()
for name, call in {CALLS!r}.items():
    try:
        exec(call)
        print(name, "fine", sep="|")
    except Exception as error:
        print(name, f"ERROR {{error}}".replace(chr(10), " "), sep="|")
"""

# %%
# Without a GPU you see a *model*: the two rules above, and nothing else.


# folded: How the calls are made, or modelled
def model(far, blocking):
    says, known = {}, False
    for name, call in CALLS.items():
        known |= far > 0 and (
            blocking or "write" not in call
        )  # a call that waits gets the error
        says[name] = "ERROR illegal address" if known else "fine"
    return says


def in_a_process(far, blocking=False):
    if simulated():
        return model(far, blocking)
    command = [sys.executable, "-c", CHILD, str(far)]
    env = {**os.environ, "CUDA_LAUNCH_BLOCKING": str(int(blocking))}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
    return dict(line.split("|", 1) for line in done.stdout.splitlines() if "|" in line)


# %%

from firstlight.display import show_table

ways = [in_a_process(2**40), in_a_process(2**40, blocking=True), in_a_process(0)]
rows = [(name, *(way.get(name, "–")[:5] for way in ways)) for name in CALLS]
title = "A model of a GPU" if simulated() else "On this GPU"
show_table(title, ("", "as usual", "blocking", "new process"), rows)
print("the words:", ways[0].get("copy the result", "–"))

# %%
# - *As usual*, the call that fails is the copy of a right kernel's result: the wrong
#   place to search. (If the wrong kernel is quick, the launch after it may fail.) From
#   then on nothing of CUDA works in this process, and catching the exception does not
#   help. Start a new one; in a notebook, restart its kernel.
# - *Blocking*: with ``CUDA_LAUNCH_BLOCKING=1``, set before the program starts, each
#   launch waits for its work. So the error comes out of the right line. Everything
#   takes longer, so set it only to search. (AMD's is ``AMD_SERIALIZE_KERNEL=3``.)
#
# What compute-sanitizer says
# ---------------------------
#
# ``trace`` is for one kernel and small arrays. NVIDIA's `compute-sanitizer`__ watches a
# whole program on a GPU. It comes with the CUDA Toolkit, or from pip as
# ``cuda-toolkit[sanitizer]``, and stands before your command, with one tool at a time:
# ``compute-sanitizer --tool memcheck python my_script.py``.
#
# - **memcheck** finds A if nothing else lies behind its arrays: ``Invalid __global__
#   read of size 4 bytes`` first, as ``x[101]`` is read before anything is written.
# - **racecheck** finds C: ``Race reported between Write access at`` … ``and Read access
#   at`` …, with a number of hazards, which counts bytes, not mistakes.
# - **synccheck** finds a barrier that some *living* threads of a block skip: ``Barrier
#   error detected. Divergent thread(s) in block.``
# - **initcheck** finds none of them, but memory that nobody filled: ``Uninitialized
#   __global__ memory read of size 4 bytes``.
#
# The next lines name the thread, ``by thread (37,0,0) in block (1,0,0)``, and the
# `place`__: a line of your file, if you write ``@cuda.jit(lineinfo=True)``, which the
# simulator does not know.
#
# __ https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html
# __ https://github.com/numba/numba/issues/8740
#
# Print and raise in a kernel
# ---------------------------
#
# A kernel may print, best from one thread. It may raise, too, but without
# ``debug=True, opt=False`` a GPU drops what it raises.


@cuda.jit(debug=True, opt=False)
def steps_aloud(x, out):
    i = cuda.grid(1)
    if i == 100:
        print("thread", i, "takes the last sample")
    if i >= x.size:
        raise IndexError("there is no such sample")
    if i > 0:
        out[i - 1] = x[i] - x[i - 1]


x, out, _ = a_problem(steps_aloud, 101)
try:
    steps_aloud[2, T](cuda.to_device(x), cuda.to_device(out))
except IndexError as error:
    print("IndexError:", error)

# %%
# ``tid`` is the thread, ``ctaid`` the block. This error is not sticky: the thread just
# ends, and after each launch of such a kernel Numba waits and asks whether one did. On
# a GPU, text is printed when you :term:`synchronize`, in the terminal, not a notebook.
#
# Where this stops being true
# ---------------------------
#
# - *The trace sees one run*: what your sizes and numbers make the kernel do. An index
#   that is wrong and still inside shows only when you compare with the right answer.
#   ``trace`` does not know memory fences (``cuda.threadfence``): it reports what blocks
#   hand to each other that way as a race.
# - *compute-sanitizer has gaps.* racecheck watches *shared* memory, so none of the four
#   tools finds B. memcheck knows what was allocated, so spare room hides A: that of
#   ``plain_run``, and PyTorch's caching allocator, unless you set
#   ``PYTORCH_NO_CUDA_MEMORY_CACHING=1``.
# - *Rounding is no race.* Sums in another order may differ in their last digits.
# - *Other GPUs.* Numba's kernels and compute-sanitizer are for NVIDIA's.
#
# Exercise
# --------
#
# This kernel adds up the power of each block of 64 samples: it folds the block in half,
# again and again. Correct it; ``check`` names one mistake at a time.


@cuda.jit
def power(x, out):
    near = cuda.shared.array(T, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if i < x.size:
        near[t] = x[i] * x[i]
    half = T // 2
    while half > 0:
        if t < half:
            near[t] += near[t + half]
            cuda.syncthreads()
        half //= 2
    out[cuda.blockIdx.x] = near[0]


# %%

# folded: What check does
HINTS = {"OutOfBounds": "Is there a guard?", "Race": "Who must wait, or not write?"}
HINTS["DivergentBarrier"] = "Who has to come to a barrier?"
HINTS["Uninitialized"] = "Is near filled?"


def check(kernel):
    for n in (128, 101, 1, 193):
        x = rng.uniform(1, 2, n).astype(np.float32)
        right = np.add.reduceat(x.astype(np.float64) ** 2, range(0, n, T))
        out = np.full(right.size, -1, np.float32)
        try:
            found = trace(kernel, right.size, T, x, out, limit=100_000).problems
            problems = [f"{each}. {HINTS[type(each).__name__]}" for each in found]
        except Exception as error:
            problems = [f"{type(error).__name__}: {error}"]
        for got, total in zip(out, right, strict=True):
            if not np.isclose(got, total, rtol=1e-5):
                problems += [f"{got:.2f} should be {total:.2f}. Is near filled?"]
        if problems:
            return fill(f"Not yet. {n} samples: {problems[0]}", 84)
    return "Right: the sums are, and so is every access."


# %%

print(check(power))

# %%
# Three lines to remember
# -----------------------

# remember
print(
    f"""1. Right is no proof: a plain run found {caught[0]} of 4 mistakes, a trace on an
odd size {caught[3]}.
2. A GPU's error comes late: set CUDA_LAUNCH_BLOCKING=1. It stays: start a new process.
3. Guard accesses, and let all threads of a block reach each barrier. One thread writes,
or use an atomic addition."""
)

# %%
# Solution
# --------

# solution


@cuda.jit
def power_solution(x, out):
    near = cuda.shared.array(T, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    near[t] = x[i] * x[i] if i < x.size else np.float32(0)
    half = T // 2
    while half > 0:
        cuda.syncthreads()
        if t < half:
            near[t] += near[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = near[0]


print(f"Our solution: {check(power_solution)}")
