"""
What may a kernel contain, and what is a TypingError?
=====================================================

You've moved a function that works into a :term:`kernel`, and get thirty lines that
begin with ``TypingError`` and speak of *candidate implementations*. What did you write
that a kernel may not contain?

A kernel looks like Python, but only a part of Python can be compiled. **Write down a
guess: how many of the ten lines below will the compiler accept?** By the end you'll
find the one useful line in such an error, have a remedy for the usual ones, and know
how much fits into a block.

**Needs:** any computer, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`. NVIDIA's compiler runs on Linux and Windows,
without a GPU. On a Mac, you see what it printed elsewhere.
"""

# %%
# Ten lines, and what the compiler says
# -------------------------------------
#
# Each of these could stand in a kernel. ``x`` and ``out`` are arrays of ``float32``,
# ``i`` is the number of the thread, and ``n`` is an integer that was passed.

import math
import re

import numpy as np
from numba import cuda

from firstlight_kernels import blocks_for, ptx, trace

LINES = (
    "out[i] = math.sqrt(x[i])",
    "out[i] = np.sqrt(x[i])",
    "out[i] = min(x[i], 1)",
    "weights = (x[i], x[i])",
    "weights = [x[i], x[i]]",
    "weights = np.zeros(3)",
    "weights = cuda.local.array(3, np.float32)",
    "near = cuda.shared.array(n, np.float32)",
    "out[i] = np.random.random()",
    "out[i] = half(x[i])",
)

# %%

# folded: How each line is compiled, and what was said elsewhere

SAID = {  # with numba-cuda 0.30.4, of those that it refuses
    1: "<ufunc 'sqrt'>",
    4: "a kernel cannot make an array, a list or another object that lives in "
    "allocated memory",
    5: "no implementation of zeros(Literal[int](3)) for a GPU",
    7: "no implementation of array(int64, class(float32)) for a GPU",
    8: "Unknown attribute 'random' of type Module(numpy.random)",
    9: "half is a plain function, which no kernel can call. Put "
    "@cuda.jit(device=True) above it",
}


def half(number):
    return number / 2


def refusal(line):
    """What the compiler has against a line, or nothing."""
    made = {"cuda": cuda, "math": math, "np": np, "half": half}
    use = "\n    out[i] = weights[0]" if line.startswith("weights") else ""
    body = f"i = cuda.grid(1)\n    {line}{use}"
    exec(f"@cuda.jit\ndef short(x, out, n):\n    {body}", made)
    try:
        ptx.compile(made["short"], "float32[::1], float32[::1], int64")
    except ptx.CompileError as error:
        return str(error).partition(": ")[2]
    except ptx.NoCompilerError:
        return SAID.get(LINES.index(line), "")
    return ""


# %%
# Ask the compiler, for an H100. ``ptx.compile`` needs no GPU for that.

answers = {line: refusal(line) for line in LINES}
for line, answer in answers.items():
    print(line, "\n   ", answer or "fine")

# %%
# It accepts four of the ten. The list and ``np.zeros`` ask for memory while the kernel
# runs, and the array of ``n`` has no fixed size. But a thread can only hold what has a
# *type and a size that are known before it runs*: the places for its numbers, its
# :term:`registers <register>`, are handed out when the kernel is compiled. The other
# three call something that nobody has written for a GPU. So a kernel may contain
#
# - numbers: ``int``, ``float``, ``complex``, ``bool``, and NumPy's types of them
# - CUDA's vectors, such as ``cuda.float32x4``
# - ``if``, ``for``, ``while``, ``break``, ``and``, ``x if y else z``, tuples
# - arrays that were passed, their ``shape`` and ``size``, and views such as ``x[1:]``
# - ``cuda.local.array`` and ``cuda.shared.array``
# - ``math``'s functions, ``min``, ``max``, ``abs``, ``round``, ``len``, ``range``
# - functions with ``@cuda.jit(device=True)`` above them
# - ``print`` and ``assert``, to search for a mistake. With ``numba-cuda``, an
#   ``assert`` needs ``@cuda.jit(debug=True, opt=False)``, or a thread that fails stops
#   in silence
#
# It may not make anything new, such as a list that grows, or ``x + x`` of whole arrays.
# Nor may it contain ``import``, ``try`` or a dictionary, or ``return`` a value. Of
# NumPy's functions, ``np.sin`` and ``np.log`` work on single numbers, and ``np.exp``
# and ``np.floor`` don't. So take ``math``'s, and ``abs``, ``min`` and ``max`` for the
# rest.
#
# .. _typing-error:
#
# Read the error
# --------------
#
# On a GPU, the first launch compiles, and if the compiler gives up, you get its own
# text. Here's a kernel whose threads want to share ``n`` numbers.


@cuda.jit
def reverse_n(x, out, n):
    near = cuda.shared.array(n, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    near[t] = x[i]
    cuda.syncthreads()
    out[i] = near[cuda.blockDim.x - 1 - t]


# %%

# folded: How its error is caught

TEXT = """\
No implementation of function Function(<function shared.array>) found for signature:
 >>> array(int64, class(float32))
There are 2 candidate implementations:
 - Of which 2 did not match due to:
 Overload of function 'array': File: numba/cuda/cudadecl.py: Line 28.
   With argument(s): '(int64, class(float32))':
  No match.
During: resolving callee type: Function(<function shared.array>)"""  # 0.30.4


def own_words(kernel, types):
    """The compiler's own error, without its colours and addresses."""
    try:
        ptx.compile(kernel, types)
    except ptx.CompileError as error:
        said = re.sub(r"\x1b\[\d+m| at 0x\w+", "", str(error.__context__))
        return "\n".join(line for line in said.splitlines() if line.strip())
    except ptx.NoCompilerError:
        return TEXT
    return "It compiles."


# %%

print("TypingError:", own_words(reverse_n, "float32[::1], float32[::1], int64")[:420])

# %%
# Three things in it are about your code. The first line says *what*: the function
# ``shared.array``. The line with ``>>>`` says *with which types* you called it: with an
# ``int64``, and there's the mistake. And if there's a line ``File "…", line``, it says
# *where*. Skip the rest: the candidates are what the compiler tried. So read a
# ``TypingError`` as one sentence: *at this line you called this function with these
# types, and nobody has written that for a GPU.*
#
# .. table:: What the text says, what you did, and the remedy
#
#   ========================================= ==========================================
#   it says                                   what to do
#   ========================================= ==========================================
#   ``array(int64, …)``                       give a constant shape: the next section
#   Untyped global name, ``class 'function'`` ``@cuda.jit(device=True)`` above it
#   Unknown attribute ``append``              a list: ``cuda.local.array``, or a loop
#   Unknown attribute of ``Module``           take ``math``'s, or write it out
#   Cannot unify … and …                      a variable has one type: use two variables
#   ``KeyError: <ufunc …>``                   take ``math``'s, or ``abs``, or ``x ** 2``
#   ``getitem(Tuple(float32, int64), …)``     a tuple of two types takes no variable
#                                             index: make them one type
#   opcode ``IMPORT_NAME``                    import outside of the kernel
#   must have void return type                write into an array
#   ``NRT``, ``_allocate``                    an array expression: write the loop
#   ========================================= ==========================================
#
# A variable has one type for all threads, also where two branches meet. After ``y =
# 0.0`` and ``if i < n: y = x[i]``, ``y`` is ``float64`` on a GPU for every thread, even
# if ``x`` is ``float32``. Without a GPU, a thread may go on with ``float32``, so the
# last digits can differ. Begin with ``np.float32(0)``, and there's only one type.
#
# ``print(x.dtype)`` before the launch often shows the mistake: an array of ``object``
# or a pandas column is a type that no kernel takes.
#
# A shape is a constant
# ---------------------
#
# All threads of a block see ``near``, in its :term:`shared memory`. The block gets that
# when it starts, so the size has to be a constant. Write ``T = 64`` above the kernel,
# and ``cuda.shared.array(T, …)`` in it. Numba reads ``T`` only when it compiles. So for
# two sizes, make two kernels, in a function that returns them:


def reversing(threads):
    @cuda.jit
    def reverse(x, out):
        near = cuda.shared.array(threads, np.float32)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        near[t] = x[i]
        cuda.syncthreads()
        out[i] = near[threads - 1 - t]

    return reverse


# %%
# Or write a shape of 0, and say at the launch how many bytes a block gets, as the
# fourth number in the brackets: ``kernel[blocks, threads, stream, bytes]``. On the CPU
# ``trace`` takes it as ``shared_bytes``.


@cuda.jit
def reverse(x, out):
    near = cuda.shared.array(0, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    near[t] = x[i]
    cuda.syncthreads()
    out[i] = near[cuda.blockDim.x - 1 - t]


x, out = np.arange(96, dtype=np.float32), np.zeros(96, np.float32)
for threads in (32, 48):
    seen = trace(reverse, 96 // threads, threads, x, out, shared_bytes=4 * threads)
    assert not seen.problems
    fixed = np.zeros_like(out)
    assert not trace(reversing(threads), 96 // threads, threads, x, fixed).problems
    assert np.array_equal(out, fixed)
    print(threads, "threads:", out[:3], "...")

# %%
# Such shared memory is called *dynamic*. All arrays of shape 0 begin at the *same*
# place. If you need two, take one and cut it: ``a = near[:n]`` and ``b = near[n:]``. A
# ``cuda.local.array`` can't be dynamic at all.
#
# Out of shared memory, or out of registers
# -----------------------------------------
#
# How much fits into a block? You meet the limit as one of three errors: ``uses too much
# shared data`` when you compile, ``too many resources requested for launch``, or, in
# Triton, ``out of resource: shared memory, Required: 131072, Hardware limit: 101376``.
#
# 48 KiB are 12,288 numbers of ``float32``. Here's one more.


@cuda.jit
def greedy(x):
    near = cuda.shared.array(12_289, np.float32)
    near[cuda.threadIdx.x] = x[0]
    cuda.syncthreads()
    x[0] = near[0]


try:
    ptx.compile(greedy, "float32[::1]")
except ptx.CompileError as error:
    print(str(error).partition(": ")[2])
except ptx.NoCompilerError:
    print("ptxas: Entry function 'greedy' uses too much shared data (0xc004 bytes, …)")

# %%
# ``0xc000`` is 48 KiB, the limit for a fixed array on every card. Most cards have more,
# but a program has to ask for it and take it as dynamic memory. Triton and PyTorch do
# that for you. ``numba-cuda`` 0.30.4 has no option for that, only `a detour`__. Its
# successor ``numba-cuda-mlir`` asks by itself. In CuPy it's
# ``kernel.max_dynamic_shared_size_bytes``.
#
# And what's in it at first? Shared memory isn't set to zero. It keeps the numbers that
# some block left there, often one of your last launch, so fill it yourself before you
# read it. It's the same with ``cuda.local.array``.
#
# __ https://github.com/NVIDIA/numba-cuda/issues/94
#
# Registers are the other limit. Each :term:`multiprocessor` has 65,536 of them, for all
# the threads that it runs. What's left for a thread?

# folded code: The limits by card

CARDS = {  # KiB of shared memory, and threads, of a multiprocessor: CUDA's own headers
    "7.5, T4, RTX 20": (64, 1024),
    "8.0, A100": (164, 2048),
    "8.6, RTX 30": (100, 1536),
    "8.9, L4, RTX 40": (100, 1536),
    "9.0, H100, H200": (228, 2048),
    "10.0, B200": (228, 2048),
    "12.0, RTX 50": (100, 1536),
}
REGISTERS = 65_536  # of 32 bits, in a multiprocessor of every card here


def registers(threads):
    """How many a thread can have: they are handed out in eights, and 255 at most."""
    return min(255, REGISTERS // threads // 8 * 8)


print("                     shared KiB   for each thread of a full multiprocessor:")
print("compute capability   in a block   registers        floats of shared")
for card, (kib, threads) in CARDS.items():
    block = kib - 1 if kib > 64 else kib  # CUDA keeps 1 KiB of each block for itself
    share = kib * 1024 // 4 // threads
    print(f"{card:<20} {block:>7} {registers(threads):>16} {share:>16}")

# %%
# So if a multiprocessor is full of threads, each has 32 registers on an A100, 40 on an
# RTX 40, 64 on a T4. If a kernel needs more, fewer blocks find room, which is :doc:`not
# always slower </tutorials/3_kernels/11_bytes_in_flight>`. But a block that doesn't fit
# at all isn't launched: *too many resources requested for launch*. With 1,024 threads
# it happens as soon as a thread has more than 64 registers.

for threads in (1024, 512, 256):
    print(f"a block of {threads:>4} threads: {registers(threads)} registers each")

# %%
# There are three remedies: smaller blocks, less work in a thread, or
# ``@cuda.jit(max_registers=64)``, which may move the rest to the GPU's memory: they're
# :term:`spilled`.
#
# Now read Triton's error. Its *hardware limit* of 101,376 bytes is 99 KiB, as on an RTX
# 30, 40 or 50: find yours in the table, times 1,024. The kernel *requires* 128 KiB,
# because somebody tuned it on an A100 or an H100. Triton keeps ``num_stages`` tiles of
# each input there, to load the next ones while it multiplies. So lower ``num_stages``
# first, by one or two, and then halve ``BLOCK_K`` or another block size. Each is an
# argument of the launch, or of ``triton.Config`` in the kernel's ``autotune``. If the
# kernel is in somebody's package, look for a newer version.
#
# A grid is limited, too: 1,024 threads in a block, 2,147,483,647 blocks along ``x``,
# and 65,535 along ``y`` and ``z``. An array can have more than 2³¹ elements, because
# Numba works out an index in 64 bits, also in a loop over ``range(x.size)``. Your own
# ``np.int32(i)`` breaks it, in silence. In CUDA C ``int i`` does, so write ``size_t i =
# (size_t)blockIdx.x * blockDim.x + threadIdx.x``. In Triton it's ``tl.program_id(0) *
# BLOCK``, so write ``tl.program_id(0).to(tl.int64)`` there.
#
# Random numbers
# --------------
#
# A generator has a *state*, which changes with each number, so each thread needs one of
# its own. You make the states first, with ``numba.cuda.random``, and pass them like an
# array.

import warnings

with warnings.catch_warnings(action="ignore"):  # where there's no GPU, it warns
    import numba.cuda.random as noise

    states = noise.create_xoroshiro128p_states(501, seed=1)


@cuda.jit
def add_noise(states, x, sigma, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + sigma * noise.xoroshiro128p_normal_float32(states, i)


quiet, noisy = np.zeros(501, np.float32), np.zeros(501, np.float32)
assert not trace(add_noise, blocks_for(501, 64), 64, states, quiet, 2.0, noisy).problems
print(f"mean {noisy.mean():+.2f}, standard deviation {noisy.std():.2f}")

# %%
# We asked for a standard deviation of 2. For numbers between 0 and 1 there's
# ``xoroshiro128p_uniform_float32``, too. The states are made on the CPU, one after the
# other. So if each thread needs only one number, make the numbers with ``torch.randn``
# or ``cupy.random`` and pass them. In a 2-D grid, number the threads by ``k = row *
# columns + column``, make ``rows * columns`` states, and pass ``states, k``. And never
# let two threads use the same state, because that's a :doc:`race
# </tutorials/3_kernels/09_when_a_kernel_goes_wrong>`.
#
# A Numba kernel compiles, and is slow: slower than CuPy's
# --------------------------------------------------------
#
# These lines cost you most:
#
# - a plain ``0.1`` or ``2.0`` makes the line ``float64``, in ``@vectorize``, too, and
#   :doc:`gaming cards </cards>` are slow at that. So :doc:`write
#   </tutorials/3_kernels/10_what_the_compiler_did>` ``np.float32(0.1)``. CuPy's
#   ``fuse`` keeps ``float32`` by itself
# - ``x.sum()`` or ``for v in x`` lets *every* thread go through the whole array,
#   instead of :doc:`adding together </tutorials/3_kernels/08_reductions>`
# - a ``cuda.local.array`` with a variable index lies in the GPU's memory, not in
#   registers. So do spilled registers
# - ``print`` and ``assert`` take registers and code: take them out again
# - ``for k in range(n)`` and ``x[i - 1]`` make each access ask whether the index is
#   negative. A :doc:`while </tutorials/3_kernels/10_what_the_compiler_did>`, or
#   ``x[np.uint64(i - 1)]`` if it never is, spares the question
# - a NumPy array is copied to the GPU and back at each launch: call
#   ``cuda.to_device(x)`` once
# - a kernel is compiled at its first launch, and again for each new set of types, such
#   as ``float64`` instead of ``float32``, or ``x[::2]`` instead of ``x``
#
# For divisions, square roots, ``exp`` and ``sin`` in ``float32`` there's
# ``@cuda.jit(fastmath=True)``. You get faster ones, with `fewer right digits`__, so
# compare the results.
#
# __ https://nvidia.github.io/numba-cuda/user/fastmath.html
#
# The new compiler
# ----------------
#
# ``numba-cuda`` has had only its worst bugs fixed since June 2026. NVIDIA's new
# compiler is called `numba-cuda-mlir`__. You import it as ``from numba_cuda_mlir import
# cuda``, and most kernels need no other change. We compiled the next lines with both,
# ``numba-cuda`` 0.30.4 and the new one's 0.6.0:
#
# __ https://github.com/NVIDIA/numba-cuda-mlir
#
# .. table:: The same line with both compilers
#
#   ==================================== ==================== =========================
#   in a kernel                          numba-cuda           numba-cuda-mlir
#   ==================================== ==================== =========================
#   ``np.zeros(3, np.float32)``          refused              taken
#   ``np.exp``, ``np.floor``, ``np.abs`` ``KeyError``         taken
#   ``np.sqrt(x[i])``                    ``KeyError``         "compiler bug"
#   ``np.maximum(x[i], 1)``              taken                "compiler bug"
#   ``min(a, b, c)`` of three            taken                "compiler bug"
#   ``enumerate``, ``zip`` over arrays   taken                "compiler bug"
#   ``x.reshape(2, -1)``                 taken                refused
#   ``shared.array(n)``, n passed        refused              taken: it's dynamic, so
#                                                             give bytes at the launch
#   ``cuda.grid(1)`` from 2³¹ on         64 bits              **32 bits**: it wraps
#   ``max_registers=None``               taken                ``TypeError``
#   48 KiB of dynamic shared, and more   not launched         launched, if it fits
#   ==================================== ==================== =========================
#
# Most of these stop with an error, but ``cuda.grid(1)`` wraps in silence. For such a
# grid write ``cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x``, which has 64 bits
# with both. The new compiler has no simulator. Ours takes the kernels of both.
#
# Your turn
# ---------
#
# Somebody wrote this smoothing filter in plain Python, put ``@cuda.jit`` above it, and
# got the first of three errors. It calculates the weighted mean of each element and its
# two neighbours, with the weights ¼, ½, ¼. At the ends, the element stands in for the
# missing neighbour. Fix it where it stands, and run ``firstlight try
# 15_what_a_kernel_may_contain.py``, which names one error at a time.


@cuda.jit
def smooth(x, out):
    i = cuda.grid(1)
    if i < x.size:
        weights = [0.25, 0.5, 0.25]
        near = np.zeros(3, np.float32)
        for k in range(3):
            near[k] = x[np.clip(i + k - 1, 0, x.size - 1)]
        out[i] = sum(weights * near)


# %%

# folded: What check does: it compiles your kernel, and runs it on odd sizes


def check(kernel):
    try:
        try:
            ptx.compile(kernel, "float32[::1], float32[::1]")
            compiles = ""
        except ptx.NoCompilerError:
            compiles = " Whether it compiles takes NVIDIA's compiler."
        for n in (65, 1, 2, 128):
            x = np.random.default_rng(seed=n).random(n, dtype=np.float32)
            out = np.full(n, -1, np.float32)
            seen = trace(kernel, blocks_for(n, 64), 64, x, out, limit=100_000)
            if seen.problems:
                return f"Not yet. {n} numbers: {seen.problems[0]}"
            right = np.convolve(np.pad(x, 1, "edge"), (0.25, 0.5, 0.25), "valid")
            wrong = ~np.isclose(out, right, rtol=1e-5)
            if wrong.any():
                i = int(np.argmax(wrong))
                should = f"and should be {right[i]:.4f}"
                return f"Not yet. {n} numbers: out[{i}] is {out[i]:.4f}, {should}"
    except Exception as error:
        return f"Not yet. {type(error).__name__}: {error}"
    return f"Right: for every size.{compiles}"


# %%

print(check(smooth))

# %%
# Three lines to remember
# -----------------------

# remember

print("1. A kernel may hold what has a type and a size before it runs: numbers,")
print("   tuples, arrays that were passed, local and shared ones of a constant shape.")
print("2. A TypingError is one sentence: what you called, after >>> with which types,")
print("   and nobody has written that for a GPU. Skip the candidates.")
print(f"3. A fixed shared array has 48 KiB at most, and a block {REGISTERS:,}")
print(f"   registers. With 1,024 threads, that leaves {registers(1024)} for each.")

# %%
# Solution
# --------

# solution


@cuda.jit
def smooth_solution(x, out):
    i = cuda.grid(1)
    if i < x.size:
        before, after = max(i - 1, 0), min(i + 1, x.size - 1)
        ends = np.float32(0.25) * (x[before] + x[after])
        out[i] = np.float32(0.5) * x[i] + ends


print(f"Our solution: {check(smooth_solution)}")
