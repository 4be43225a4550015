"""
What did the compiler make of your kernel?
==========================================

For anyone who writes :term:`kernels <kernel>` in :term:`Numba` and wants ``float32`` to
stay so. A plain ``0.0`` is a ``float64``: in a matrix-vector product of ``float32``
arrays, each step then has a product, a conversion and a ``float64`` addition in place
of one :term:`fused multiply-add`. The compiler's output shows that, and you need no GPU
to read it. Whether it costs time depends on the card, and on what else the kernel waits
for.

**You will learn**

- to see what a kernel was compiled to, for any NVIDIA GPU, on any Linux or Windows PC;
- to find a ``float64`` that you never wrote, with this site's package or plain Numba;
- to estimate whether it costs time, on which card.

**Time:** 7 minutes. **Needs:** any computer, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`. Without NVIDIA's compiler (on a Mac), the page
shows what it made elsewhere.
"""

# %%
# One word apart
# --------------
#
# Each :term:`thread` computes one element of :math:`y = A x`: it goes along a row of
# ``A``, multiplies each number with one of ``x``, and adds it to a sum. All arrays are
# ``float32``. Most people would start the sum with ``total = 0.0``. Does it matter?

import numpy as np

from firstlight.kernels import blocks_for, cuda, ptx, simulated, trace


@cuda.jit
def double_sum(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        total = 0.0
        for j in range(x.size):
            total += a[i, j] * x[j]
        y[i] = total


@cuda.jit
def single_sum(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        total = np.float32(0)
        for j in range(x.size):
            total += a[i, j] * x[j]
        y[i] = total


# %%
# Find the float64
# ----------------
#
# ``ptx.compile`` takes a kernel, the types of its arguments and a
# :term:`compute capability`, the version number of a kind of GPU. You get :term:`PTX`,
# NVIDIA's intermediate language, in ``.text``, and in ``.mix`` a count of its
# instructions. Their names end in their type, so a double is easy to find:

# folded: What the compiler made elsewhere, for computers that do not have it
RECORDED = {  # with numba-cuda 0.30.4 and CUDA 13.0
    "double_sum": {"ld.global.f32": 10, "mul.f32": 5, "cvt.f64.f32": 5, "add.f64": 5},
    "single_sum": {"ld.global.f32": 10, "fma.f32": 5},
}
RECORDED["double_sum"] |= {"mov.f64": 2, "cvt.f32.f64": 1}

# %%

TYPES = "float32[:, ::1], float32[::1], float32[::1]"  # ::1 says: next to each other

kernels, mixes = (double_sum, single_sum), RECORDED
try:
    mixes = {each.__name__: ptx.compile(each, TYPES, (9, 0)).mix for each in kernels}
except ptx.NoCompilerError as missing:
    print(missing, "So this is on record:", sep="\n")


def doubles_in(mix):
    return {name: count for name, count in mix.items() if "f64" in name}


for name, mix in mixes.items():
    print(f"{name}: {doubles_in(mix) or 'no float64'}")

# %%

# folded: The instructions of one step
ORDER = ("ld.global.f32", "mul.f32", "fma.f32", "cvt.f64.f32", "add.f64")
boxes, in_a_step = {}, {}
for name, mix in mixes.items():
    steps = mix["ld.global.f32"] // 2  # written out: each loads two numbers
    boxes[name] = [each for each in ORDER for _ in range(mix.get(each, 0) // steps)]
    in_a_step[name] = sum("f64" in each for each in boxes[name])

# %%

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 2.8), layout="constrained")
starts = ("total = 0.0", "total = np.float32(0)")
for row, (start, names) in enumerate(zip(starts, boxes.values(), strict=True)):
    ax.text(0, row - 0.33, start, size=13, family="monospace", va="bottom")
    for at, each in enumerate(names):
        colour = (
            "#b8394b" if "f64" in each else "#2e7ab0" if "ld" in each else "#8a5a12"
        )
        look = {"hatch": "//" * ("f64" in each), "ec": "black", "height": 0.55}
        bar = ax.barh(row, 0.96, left=at, align="center", fc=colour, **look)
        text = {"color": "#fefefe", "bbox": {"fc": colour, "ec": "none", "pad": 4}}
        ax.bar_label(bar, [each], label_type="center", size=13, **text)
ax.set(xticks=[], yticks=[], ylim=(1.3, -0.65), xlim=(-0.02, 5))
ax.spines[:].set_visible(False)
found, none = in_a_step["double_sum"], in_a_step["single_sum"]
ax.set_title(
    f"A plain 0.0 puts {found} float64 instructions into every step", loc="left"
)
fig.set_label(
    "The PTX instructions that do the work of one step. With total = 0.0: two loads, a "
    "product in float32, a conversion to float64, an addition in float64. With "
    f"np.float32(0): two loads and one fused multiply-add, and {none} in float64."
)
plt.show()

# %%
# ``cvt.f64.f32`` reads: to ``f64``, from ``f32``. A ``float32`` product and a
# ``float64`` sum cannot be fused, so the zero costs the *fused multiply-add*, too,
# which multiplies and adds at once. (The counts are *static*: they tell what is
# written. The loop is there twice, once :term:`unrolled` to four steps and once for
# what is left over, so five steps are written for the one in the source. ``mov.f64``,
# the zero, and ``cvt.f32.f64`` are outside of both.)
#
# Why? Numba gives each variable *one* type, from all that is assigned to it. A ``0.0``
# in Python's code is a ``float64``, and the sum of that and a ``float32`` is, too.
# Numba's users have `met it before`__. A test in NumPy 2 would not have warned you, nor
# does the :term:`simulator`: both let a plain ``0.0`` take the precision of the other
# operand.
#
# __ https://github.com/numba/numba/issues/4676

print("NumPy:", (0.0 + np.float32(1)).dtype)

# %%
# Where doubles come from, among ``float32`` numbers:
#
# - a sum that starts with ``0.0``, or with ``0``;
# - a constant such as ``0.1`` (not ``x[i] * 0.5`` stored as ``float32``: that holds 0.5
#   exactly, and the compiler takes the double out, so look before you mend);
# - an integer beside a ``float32``: ``x[i] / n``;
# - a signed integer compared with an unsigned one of 64 bits.
#
# Write ``np.float32(0.1)`` and ``np.float32(n)``, and let counters be plain integers.
#
# What it can cost
# ----------------
#
# NVIDIA lists, for each compute capability, how many results per clock cycle a
# :term:`multiprocessor` delivers (in its `Best Practices Guide`__, under "Throughput of
# Native Arithmetic Instructions"). Take a matrix of 100 000 rows and 100 columns.
# *Predict*: how long does it take at least to read it from memory, and how long to make
# its additions in ``float64``?
#
# __ https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/

from firstlight.display import show_table
from firstlight.timing.specs import spec

A_CLOCK = {  # float32 and float64 additions a clock
    "L4": (128, 2),  # capability 8.9
    "RTX 4090": (128, 2),
    "H100 SXM": (128, 64),  # capability 9.0
}
rows, least = [], {}
for card, (single, double) in A_CLOCK.items():
    reading = 4 * 100_000 * 100 / spec(card, "bandwidth")
    additions = spec(card, "fp32") / 2 * double / single  # a second, in float64
    adding = 100_000 * 100 / additions
    least[card] = reading, 2 * adding  # if a conversion takes as long as an addition
    times = (
        f"{1e6 * reading:.0f} µs",
        f"{1e6 * adding:.1f} µs",
        f"{2e6 * adding:.1f} µs",
    )
    rows.append((card, f"1/{single // double}", *times))
head = ("card", "float64 rate", "to read", "to add", "to convert and add")
show_table("40 MB times a vector, at least (model)", head, rows)

# %%
# The last column takes a conversion to be as slow as an addition. (On an H100, NVIDIA's
# table has it slower.) A GPU calculates while it waits for memory. So in this model, as
# long as the matrix comes from memory, the ``float64`` hides behind the reading on all
# three cards. On the RTX 4090 and the L4 not much room is left, and where a kernel uses
# each number many times, or finds its data in a :term:`cache`, nothing hides it: there
# a stray ``0.0`` costs most.
# :doc:`/tutorials/3_kernels/10_two_compilers` works that out, and what the double buys.
#
# Check
# -----
#
# Both kernels have to be right before their times are of interest: odd sizes, two
# :term:`launches <launch>` into the same output, and the product in ``float64`` to
# compare with.

rng = np.random.default_rng(seed=1)


def worst_error(kernel, rows, columns, threads=32):
    a = rng.standard_normal((rows, columns), dtype=np.float32)
    x = rng.standard_normal(columns, dtype=np.float32)
    y = cuda.to_device(np.full(rows, -1, dtype=np.float32))
    for _ in range(2):
        blocks = blocks_for(rows, threads)
        kernel[blocks, threads](cuda.to_device(a), cuda.to_device(x), y)
    exact = a.astype(np.float64) @ x.astype(np.float64)
    return np.max(np.abs(y.copy_to_host() - exact))


for kernel in kernels:
    sizes = (1, 1), (31, 7), (33, 2), (101, 5)
    worst = max(worst_error(kernel, *size) for size in sizes)
    assert worst < 1e-5, f"{kernel.__name__} is wrong by {worst:.1e}"
    print(f"{kernel.__name__:>11}: largest error {worst:.0e}")

# %%
# The same with plain Numba
# -------------------------
#
# Without a GPU, ``cuda.compile_ptx`` gives the PTX of a plain function. Put this into a
# file, with your function and its types (not in the simulator, which compiles nothing):
#
# .. code-block:: python
#
#     from numba import cuda, float32, void
#
#     def shift(x):  # without @cuda.jit
#         i = cuda.grid(1)
#         if i < x.size:
#             x[i] += 0.1
#
#     signature = void(float32[::1])
#     text, _ = cuda.compile_ptx(shift, signature, cc=(9, 0))
#     print([line for line in text.splitlines() if "f64" in line])
#
# With a GPU, launch the kernel once. Then ``inspect_asm()`` gives its PTX, a text for
# each set of types that it was called with, and ``inspect_sass()`` its :term:`SASS`.
# ``get_regs_per_thread()`` tells how many registers a thread needs.

# folded: On a GPU: PTX, SASS and registers of the kernel that ran
if not simulated():
    for text in double_sum.inspect_asm().values():
        print("PTX: ", *[line for line in text.splitlines() if "add" in line][:1])
    try:
        for text in double_sum.inspect_sass().values():
            print("SASS:", *[line for line in text.splitlines() if "DADD" in line][:1])
    except RuntimeError as problem:
        print(problem)
    print("registers:", *double_sum.get_regs_per_thread().values())

# %%
# *PTX* is an intermediate language, which no GPU runs. A second compiler makes *SASS*
# of it, the code of one kind of GPU. To print that, ``inspect_sass`` needs
# ``nvdisasm``, which comes with the CUDA Toolkit, or from pip as
# ``nvidia-cuda-nvdisasm``.
#
# Measure
# -------
#
# On a GPU, both kernels run with the matrix in both orders, too large for any cache.
# Compare the two in each order: they read the same bytes, since their ``float64`` is
# only in the sum. Without a GPU, there is only NumPy's product, for scale, of a smaller
# matrix, which a cache may hold.

# folded: NumPy's product, and on a GPU both kernels in both orders
from firstlight import Bench

rows, columns = (100_001 if simulated() else 500_001), 101
a = rng.standard_normal((rows, columns), dtype=np.float32)
x = rng.standard_normal(columns, dtype=np.float32)
y, exact = np.zeros(rows, dtype=np.float32), a.astype(np.float64) @ x


def launch(kernel, d_a, d_x, d_y):
    kernel[blocks_for(rows, 128), 128](d_a, d_x, d_y)


bench = Bench("what-the-compiler-did", budget=2)
size = {"n": rows, "bytes": 4 * (a.size + x.size + y.size)}
bench.time("NumPy", np.matmul, a, x, y, **size)
if not simulated():
    d_x, d_y = cuda.to_device(x), cuda.to_device(y)
    for order, layout in (("C", "rows"), ("F", "columns")):
        d_a = cuda.to_device(np.asarray(a, order=order))
        for kernel in kernels:
            label = f"{kernel.__name__}, {layout}"
            bench.time(label, launch, kernel, d_a, d_x, d_y, device="cuda:0", **size)
            assert np.allclose(d_y.copy_to_host(), exact, atol=1e-4), label
        del d_a

# %%

bench.show()

# %%
# What became of such kernels on cards of other people? These numbers are theirs.
#
# .. measured-by-others:: f64-rtx5060 matvec-author-gtx1050ti matvec-v100
#
# Where this stops being true
# ---------------------------
#
# - *Another version* of Numba or CUDA may compile it differently. Check yours.
# - *Other types.* A kernel is compiled anew for each set of types. With ``float64``
#   arrays the zero is right.
# - *Other makers.* AMD, Intel and Apple have other compilers and other assembly
#   languages. The question is the same there. PyTorch's operations keep ``float32``.
#
# Exercise
# --------
#
# This kernel computes the root mean square of each row. The sum starts as a
# ``float32``, and the counter ``j`` is unsigned, a common trick to save instructions.
# Yet two doubles hide in it, and neither is a constant. Find them, and get rid of both.

import math


@cuda.jit
def row_rms(a, out):
    i = cuda.grid(1)
    if i < out.size:
        squares = np.float32(0)
        j = np.uint32(0)
        while j < a.shape[1]:
            squares += a[i, j] * a[i, j]
            j += np.uint32(1)
        out[i] = math.sqrt(squares / a.shape[1])


# %%

# folded: What check does: it runs your kernel on odd sizes, then looks for doubles


def problem_of(kernel):
    for n_rows, n_columns in ((33, 7), (1, 1), (64, 32), (5, 101)):
        a = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
        out = np.full(n_rows, -1, dtype=np.float32)
        blocks = blocks_for(n_rows, 32)
        traced = trace(kernel, blocks, 32, a.copy(), out, limit=100_000)
        right = np.sqrt(np.mean(a.astype(np.float64) ** 2, axis=1))
        wrong = ~np.isclose(out, right, rtol=1e-5)
        i = np.argmax(wrong)
        if traced.problems:
            return f"{n_rows} x {n_columns} numbers: {traced.problems[0]}"
        if wrong.any():
            return (
                f"{n_rows} x {n_columns} numbers: out[{i}] is {out[i]:.6f}, "
                f"and should be {right[i]:.6f}"
            )
    return ""


HINTS = {
    "setp": "signed and unsigned integers are compared as float64",
    "div": "a float32 is divided by an integer, and that is done in float64",
    "sqrt": "a root is taken in float64, since what stands under it is one",
    "": "something is computed in float64; look for plain Python numbers",
}

# %%

# folded: What check says


def check(kernel):
    try:
        if problem := problem_of(kernel):
            return f"Not yet. {problem}."
        found = doubles_in(ptx.compile(kernel, "float32[:, ::1], float32[::1]").mix)
    except ptx.NoCompilerError:
        return "The results are right. To look for doubles takes NVIDIA's compiler."
    except Exception as error:
        return f"Not yet. {type(error).__name__}: {error}"
    for start, hint in HINTS.items():
        if names := [name for name in found if name.startswith(start)]:
            return f"Not yet: {hint} ({found[names[0]]} x {names[0]})."
    return "Right: the same results, and not one double."


# %%

print(check(row_rms))

# %%
# In Numba, unsigned plus unsigned is a ``uint64``. No integer type holds all of those
# and all of ``int64``, so the two are compared as ``float64``, at each step.
#
# Three lines to remember
# -----------------------

# remember
slow, fast = (A_CLOCK[card][0] // A_CLOCK[card][1] for card in ("RTX 4090", "H100 SXM"))
print(
    f"""1. A plain 0.0 in a Numba kernel is a float64: here it put {found} float64
instructions into every step, and np.float32(0) puts {none}.
2. Search for f64: in ptx.compile(kernel, types).mix, or in what
kernel.inspect_asm() gives. You need no GPU for the first.
3. A float64 costs where nothing slower hides it: an addition up to {slow} times
one in float32 on an RTX 4090, {fast} times on an H100."""
)

# %%
# Solution
# --------

# solution


@cuda.jit
def row_rms_solution(a, out):
    i = cuda.grid(1)
    if i < out.size:
        squares = np.float32(0)
        j = 0
        while j < a.shape[1]:
            squares += a[i, j] * a[i, j]
            j += 1
        out[i] = math.sqrt(squares / np.float32(a.shape[1]))


print(f"Our solution: {check(row_rms_solution)}")
