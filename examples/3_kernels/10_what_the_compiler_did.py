"""
What did the compiler make of your kernel?
==========================================

You have written a :term:`kernel` for arrays of ``float32``, and you want it to stay in
``float32``, because a gaming card does ``float64`` at a small part of its usual rate.
But did you check what the compiler made of the code?

You can. It's a text, and you can print it and search it, even on a laptop that has no
GPU. **Look at the kernel below, and write down a guess: each step of its loop loads two
numbers, multiplies them and adds. How much of that is done in** ``float64``? By the end
you'll be able to find a ``float64`` that you never wrote, and say whether it costs you
time.

**Needs:** any computer, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`. NVIDIA's compiler runs on Linux and Windows; on
a Mac you see what it made elsewhere.
"""

# %%
# Look inside
# -----------
#
# This is the product of a matrix and a vector, one row for each :term:`thread`. All
# three arrays will be ``float32``.

import numpy as np
from numba import cuda

from firstlight_kernels import blocks_for, ptx, simulated, trace


@cuda.jit
def double_sum(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        total = 0.0
        for j in range(x.size):
            total += a[i, j] * x[j]
        y[i] = total


# %%

# folded: What the compiler made elsewhere, for computers that don't have it

RECORDED = {  # with numba-cuda 0.30.4 and CUDA 13.0: the last lines with floats
    "double_sum": """ld.global.f32 	%f16, [%rd122];
ld.global.f32 	%f17, [%rd118];
mul.f32 	%f18, %f17, %f16;
cvt.f64.f32 	%fd18, %f18;
add.f64 	%fd23, %fd23, %fd18;
cvt.rn.f32.f64 	%f19, %fd23;
st.global.f32 	[%rd130], %f19;""",
    "single_sum": """ld.global.f32 	%f19, [%rd122];
ld.global.f32 	%f20, [%rd118];
fma.rn.f32 	%f24, %f20, %f19, %f24;
st.global.f32 	[%rd130], %f24;""",
}


def compiled(kernel):
    """The compiler's text for a GPU of compute capability 9.0, such as an H100."""
    try:
        return ptx.compile(kernel, TYPES, (9, 0)).text
    except ptx.NoCompilerError as missing:
        print(missing, "So this is on record:", sep="\n")
        return RECORDED[kernel.__name__]


# %%
# ``compiled`` returns the text for an H100. Of its 200 lines or so, these are the last
# in which a floating-point number appears:

TYPES = "float32[:, ::1], float32[::1], float32[::1]"  # ::1 says: next to each other


def lines_with_floats(kernel):
    lines = compiled(kernel).splitlines()
    return [line.strip() for line in lines if "f32" in line or "f64" in line]


print(*lines_with_floats(double_sum)[-7:], sep="\n")

# %%
# ``ld.global.f32`` loads a ``float32`` from the GPU's memory, and it stands there
# twice. ``mul.f32`` multiplies them. Then comes ``cvt.f64.f32``: *convert* to ``f64``,
# from ``f32``. And ``add.f64`` adds in ``float64``. Only after the loop, the sum is
# converted back and stored. So of the five instructions that handle such numbers in
# each step, two are in ``float64``, in a kernel all of whose arrays are ``float32``.
# The culprit is the innocent ``total = 0.0``. Let's change that one word.


@cuda.jit
def single_sum(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        total = np.float32(0)
        for j in range(x.size):
            total += a[i, j] * x[j]
        y[i] = total


print(*lines_with_floats(single_sum)[-4:], sep="\n")

# %%
# Both are gone, and the product and the sum have become *one* instruction, ``fma``.
# It's called a :term:`fused multiply-add`: it multiplies, adds and rounds once. A
# ``float32`` product and a ``float64`` sum can't be fused.
#
# The language that you have just read is called :term:`PTX`. In your own program you
# need nothing of ours for this:
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
# The ``(9, 0)`` is the version of an H100, its :term:`compute capability`. And if you
# have a GPU and have launched your kernel, ``kernel.inspect_asm()`` gives its PTX, one
# text for each set of types that you called it with.
#
# Where do doubles come from?
# ---------------------------
#
# Numba gives each variable *one* type, for the whole kernel. In Python, ``0.0`` is a
# ``float64``. Later ``total`` also gets a ``float64`` plus a ``float32``, which is a
# ``float64`` again. A test with NumPy won't warn you, because there a plain ``0.0``
# takes the type of the array beside it:

print("NumPy:", (0.0 + np.float32(1)).dtype)

# %%
# And the :term:`simulator` computes with NumPy. So only the compiler's text can tell.
# **Try it yourself.** Which of these lines compute in ``float64``, if ``x`` is an array
# of ``float32`` and ``n`` is an integer?
#
# .. code-block:: python
#
#    x[i] = x[i] * 0.1
#    x[i] = x[i] * 0.5
#    x[i] = max(x[i], 0.0)
#    x[i] = x[i] / n

# folded: The answer of the compiler


FOUR = ("x[i] * 0.1", "x[i] * 0.5", "max(x[i], 0.0)", "x[i] / n")


def doubles_in(mix):
    return {name: count for name, count in mix.items() if "f64" in name}


def doubles_of(expression):
    made = {"cuda": cuda}
    lines = f"i = cuda.grid(1)\n    if i < x.size:\n        x[i] = {expression}\n"
    exec(f"@cuda.jit\ndef short(x, n):\n    {lines}", made)
    return doubles_in(ptx.compile(made["short"], "float32[::1], int64").mix)


try:
    for line in FOUR:
        print(f"{line:>14}: {', '.join(doubles_of(line)) or 'no float64'}")
except ptx.NoCompilerError:
    print("All but x[i] * 0.5 have float64.")

# %%
# All but the second do. ``0.1`` and ``0.0`` are ``float64`` like any such constant in
# Python, and Numba divides a ``float32`` by an integer in ``float64``. But a
# ``float32`` can hold ``0.5`` exactly, and the compiler sees that and takes the double
# out. The cure is always the same: write ``np.float32(0.1)``, and ``np.float32(n)``.
#
# Does it cost time?
# ------------------
#
# The kernel has two jobs for each number of the matrix: fetch its four bytes from
# memory, and convert and add it in ``float64``. The GPU does both at the same time, so
# the slower job decides. Data sheets say how fast each can be at best. **On which of
# these five cards will you notice the zero?**

from firstlight.timing.specs import spec

numbers, least = 500_001 * 101, {}
PART = {"T4": 32, "RTX 4090": 64, "L4": 64, "H200": 2, "B300": 60}  # times as slow
for card, part in PART.items():
    reading = 4 * numbers / spec(card, "bandwidth")
    adding = 2 * numbers / (spec(card, "fp32") / 2 / part)
    least[card] = reading, adding
    print(f"{card:>8}: reads {1e6 * reading:.0f} µs, adds {1e6 * adding:.0f} µs")

# %%
# On three of them you won't, says the model, although it's close on the RTX 4090. While
# a thread waits for memory, others have all the time in the world to add in
# ``float64``. On a T4, the card that Colab lends you, the additions take a quarter
# longer than the reading. And on a B300, with the fastest memory of the five and hardly
# any ``float64``, the reading is done in less than a sixth of the time of the
# additions.
#
# .. holds::
#
#    part, numbers = code("PART")[0], 500_001 * 101
#    reads = {card: 4 * numbers / spec(card, "bandwidth") for card in part}
#    adds = {card: 4 * numbers * part[card] / spec(card, "fp32") for card in part}
#    times = {card: adds[card] / reads[card] for card in part}
#    all(times[card] < 1 for card in ("RTX 4090", "L4", "H200"))
#    near(times["T4"], 1.25, 0.03) and near(times["B300"], 6.4, 0.05)
#
# And a real H200? With the plain zero, it took :timing:`what-the-compiler-did median
# "double_sum, rows" @nvidia-h200`. Without, it took :timing:`what-the-compiler-did
# median "single_sum, rows" @nvidia-h200`. So the kernel with the ``float64`` was, if
# anything, the faster of the two, and on an H100, too! Both kernels are far from the
# least time, because the threads of a warp read from rows that :doc:`lie far apart
# </tutorials/3_kernels/05_coalescing>`.
#
# With the matrix stored by columns, the two took :timing:`what-the-compiler-did median
# "double_sum, columns" @nvidia-h200` and :timing:`what-the-compiler-did median
# "single_sum, columns" @nvidia-h200`. There the ``float64`` begins to show, by a few
# percent on either card.
#
# If a kernel uses each number many times, as a matrix product does, or finds its data
# in the :term:`cache`, nothing hides the ``float64``. Then the price is high on a
# gaming card, because its ``float64`` really is as slow as the data sheet says:
#
# .. measured-by-others:: f64-rtx5060

# folded: The timing, and what it gave on each computer

from firstlight import Bench

kernels = (double_sum, single_sum)
rng = np.random.default_rng(seed=1)
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
bench.show()

# %%
# Is the zero a mistake?
# ----------------------
#
# A sum is rounded after each step, and in ``float64`` the rounding is 500 million times
# finer. Both kernels are easy to imitate in NumPy. **Which will be nearest to the exact
# result: the kernel with the double, the kernel without, or NumPy's own product?**


def step_by_step(total):
    for j in range(columns):
        total = total + few[:, j] * x[j]
    return total.astype(np.float32)


few = a[:300]
truth = few.astype(np.float64) @ x  # float64 throughout
results = {
    "total = np.float32(0)": step_by_step(np.zeros(300, np.float32)),
    "NumPy's A @ x": few @ x,
    "total = 0.0": step_by_step(np.zeros(300, np.float64)),
}
errors = {}
for name, result in results.items():
    errors[name] = np.sqrt(np.mean((result - truth) ** 2) / np.mean(truth**2))
    print(f"{name:>21}: off by {errors[name]:.1e}")

# %%
# With the plain zero the kernel is the most accurate of the three, more so than NumPy.
# The GPU and the CPU both follow IEEE 754, the standard for floating-point numbers.
# They only round at different places. So compare both with something more exact. If
# five digits are enough, write ``np.float32(0)``. If you want all that a ``float32``
# can hold, and wait for memory anyway, write ``np.float64(0)``, so that readers see
# that you mean it. On a card that is slow in ``float64``, *Kahan's sum* gets the digits
# with four ``float32`` additions, as shown in :doc:`reductions
# </tutorials/3_kernels/08_reductions>`.
#
# What really runs
# ----------------
#
# No GPU runs PTX. A second compiler turns it into the machine code of one kind of GPU.
# There the names are shorter: ``LDG`` loads, ``FFMA`` is the fused multiply-add, and
# ``DADD`` adds doubles. This language is called :term:`SASS`. **How many instructions
# do you think an H100 runs for a step of** ``single_sum``? The figure shows our two
# kernels, and a third, ``single_sum`` again, but with a ``while`` loop in place of
# ``for j in range(x.size)``:


@cuda.jit
def counted_sum(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        total = np.float32(0)
        j = 0
        while j < x.size:
            total += a[i, j] * x[j]
            j += 1
        y[i] = total


# %%

# folded: How the instructions of a step are found, sorted and counted

import re

KINDS = {  # the first that fits the name, in PTX or in SASS
    "load": r"ld\.global|LDG",
    "float64": r".*f64|.*F64|D[A-Z]",
    "float32": r"(fma|mul|add).*\.f32|F(FMA|MUL|ADD)",
    "bookkeeping": r"",
}
NAME = re.compile(r"(?:/\*\w+\*/\s*)?(?:@!?[%\w]+\s+)?([A-Za-z][\w.]*)")


def loops(text):
    """The instructions of each loop that loads something: the largest loop first."""
    lines = [line.strip() for line in text.splitlines()]
    labels = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(":")}
    found = []
    for end, line in enumerate(lines):
        target = re.search(r"\bbra\b.*?([$.]L\w+)", line, re.IGNORECASE)
        if target and labels.get(target[1], end) < end:
            found.append([line for line in lines[labels[target[1]] : end + 1] if line])
    found = [[line for line in loop if NAME.match(line)] for loop in found]
    return sorted(filter(loads_in, found), key=len, reverse=True)


def loads_in(loop):
    return sum("ld.global" in line or "LDG" in line for line in loop)


def kind(line):
    name = NAME.match(line)[1]
    return next(kind for kind, form in KINDS.items() if re.match(form, name))


def one_step(loop):
    """How many of each kind: the compiler wrote out several steps, with two loads."""
    kinds = [kind(line) for line in loop]
    return tuple(2 * kinds.count(kind) / loads_in(loop) for kind in KINDS)


# %%

# folded: The counts of all three, compiled here or recorded

STEPS = {  # with numba-cuda 0.30.4 and CUDA 13.0: the KINDS, for an H100
    "double_sum": (2, 2, 1, 28.25),
    "single_sum": (2, 0, 1, 28),
    "counted_sum": (2, 0, 1, 3),
}


def steps_of(kernel):
    try:
        machine_code = ptx.compile(kernel, TYPES, (9, 0)).sass  # if nvdisasm is there
    except ptx.NoCompilerError:
        machine_code = None
    if machine_code is None:
        return STEPS[kernel.__name__]
    return one_step(loops(machine_code)[0])


steps = {each.__name__: steps_of(each) for each in (*kernels, counted_sum)}
totals = {name: sum(step) for name, step in steps.items()}

# %%

# figure

import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREY, ORANGE, RED

LOOKS = {  # a colour and a pattern each, so that either will do
    "load": {"fc": BLUE},
    "float64": {"fc": RED, "hatch": "xxx"},
    "float32": {"fc": ORANGE, "hatch": "///"},
    "bookkeeping": {"fc": GREY, "hatch": "..."},
}
fig, ax = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
for row, (name, total) in enumerate(totals.items()):
    left, counts = 0, zip(LOOKS.items(), steps[name], strict=True)
    for (label, look), count in counts:
        label = label if row == 0 else None
        ax.barh(row, count, left=left, label=label, ec="black", lw=0.8, **look)
        left += count
    ax.text(left + 0.4, row, f"{total:g}", va="center")
names = ["for, total = 0.0", "for, float32(0)", "while, float32(0)"]
ax.set_yticks(range(3), names)
ax.set(ylim=(2.6, -0.5), xlabel="instructions for one step, machine code of an H100")
ax.spines[["top", "right"]].set_visible(False)
fig.legend(ncols=4, loc="outside lower center", frameon=False)
title = f"{totals['single_sum']:g} instructions a step with for, "
ax.set_title(f"{title}{totals['counted_sum']:g} with while", loc="left")
fig.set_label(
    "Bars of the instructions for one step of each kernel, split into four kinds. "
    f"double_sum has {totals['double_sum']:g}, most of them bookkeeping, single_sum "
    f"{totals['single_sum']:g}, and counted_sum, with a while loop, "
    f"{totals['counted_sum']:g}. Only double_sum has float64 instructions."
)
plt.show()

# %%
# Three of 31 instructions do the work, and the others are bookkeeping. A step can have
# a quarter of an instruction, because the compiler writes out four steps at a time: the
# loop is :term:`unrolled`. At each step, ``range`` asks whether there is a next number.
# And because ``x[-1]`` is the last element in Python, the kernel tests for both arrays
# whether the index is negative. Then it works out two addresses, in 64 bits. With
# ``while``, the compiler sees that ``j`` starts at 0 and only grows. So it drops the
# tests, and moves each address along.
#
# Don't rewrite all your loops now. Instructions aren't time, any more than the
# ``float64`` was. By columns, where memory sets the time, most of them cost little: an
# H100 moved :timing:`what-the-compiler-did rate "single_sum, columns"
# @nvidia-h100-80gb-hbm3` with the ``for``, and :timing:`coalescing rate "kernel, by
# columns" @nvidia-h100-80gb-hbm3` with a ``while``, on twice as many rows. By rows, the
# ``while`` turned :timing:`what-the-compiler-did rate "single_sum, rows"
# @nvidia-h100-80gb-hbm3` into :timing:`coalescing rate "kernel, by rows"
# @nvidia-h100-80gb-hbm3`.
#
# And in a product of two matrices every number comes from a cache. There, a ``while``
# alone made :doc:`the first kernel </tutorials/3_kernels/07_shared_memory>`
# :timing:`shared-memory speedup "column along x"/"first try" @nvidia-h100-80gb-hbm3` as
# fast on an H100.
#
# .. dropdown:: Names that you'll meet
#
#    Each of these has its name in PTX first, and then in SASS:
#
#    - loads from the GPU's memory, and stores: ``ld.global``, ``st.global``; ``LDG``,
#      ``STG``
#    - a multiply-add in ``float32``: ``fma.rn.f32``; ``FFMA``. In ``float64``:
#      ``fma.rn.f64``; ``DFMA``
#    - a comparison: ``setp``; ``ISETP``, ``FSETP``
#    - back to the start of a loop: ``bra``; ``BRA``
#    - a spilled register: ``ld.local``, ``st.local``; ``LDL``, ``STL``
#
#    In PTX, ``%f`` is a register for a ``float32``, and ``%fd`` for a ``float64``.
#    Integers are in ``%r`` (32 bits) and ``%rd`` (64), and ``%p`` holds true or false.
#    ``.rn`` says that the result is rounded to the nearest number.
#
# .. dropdown:: Registers, and when they run out
#
#    Only the second compiler can say how many :term:`registers <register>` a thread
#    needs, because it is the one that hands them out. ``ptx.compile(kernel,
#    types).registers`` has the number, and on a GPU ``kernel.get_regs_per_thread()``.
#    A limit from ``@cuda.jit(max_registers=…)`` counts in both. A thread can have
#    255, of 32 bits each, and a double takes two. If a kernel holds more numbers than
#    that at once, the rest is :term:`spilled`: it's stored to memory and loaded again,
#    which is slow, and nothing warns you. Look at ``.spill_bytes``. For example, a
#    kernel that holds 66 complex numbers fits in ``complex64``, and spills in
#    ``complex128``.
#
# .. dropdown:: Machine code on your own computer
#
#    ``ptx.compile(kernel, types).sass`` and, on a GPU, ``kernel.inspect_sass()`` give
#    the machine code. Both need ``nvdisasm``, a program that comes with the CUDA
#    Toolkit, or from pip as ``nvidia-cuda-nvdisasm``. Another version of Numba or of
#    CUDA may compile your kernel differently. PyTorch's operations may compute inside
#    in :doc:`another format </tutorials/2_devices/13_precision>`.
#
# Your turn
# ---------
#
# The next kernel computes the root mean square of each row. The sum starts as a
# ``float32``, and the counter ``j`` is unsigned, a common trick to save instructions.
# Yet two doubles hide in it, and neither of them is a constant. Fix the kernel where it
# stands, and run ``firstlight try 10_what_the_compiler_did.py``, which tells you about
# one double at a time.

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
    random = np.random.default_rng(seed=2)
    for n_rows, n_columns in ((33, 7), (1, 1), (64, 32), (5, 101)):
        numbers = random.standard_normal((n_rows, n_columns), dtype=np.float32)
        out = np.full(n_rows, -1, dtype=np.float32)
        blocks = blocks_for(n_rows, 32)
        traced = trace(kernel, blocks, 32, numbers.copy(), out, limit=100_000)
        right = np.sqrt(np.mean(numbers.astype(np.float64) ** 2, axis=1))
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
# Three lines to remember
# -----------------------

# remember

better = errors["total = np.float32(0)"] / errors["total = 0.0"]
print("1. A plain 0.0 in a Numba kernel is a float64. Compile, and search for f64: you")
print("   need no GPU for that. np.float32(0) is the cure.")
print("2. A float64 costs time only where nothing slower hides it, and it buys digits:")
print(f"   without it, a sum of 101 numbers is off by {better:.0f} times as much.")
print(f"3. A step runs {totals['single_sum']:g} instructions with range, and", end=" ")
print(f"{totals['counted_sum']:g} with while. Instructions aren't time.")

# %%
# Solution
# --------

# solution

# Why is the unsigned counter a problem? In Numba, unsigned plus unsigned is a uint64.
# No integer type can hold all of its numbers and all of int64, so Numba compares the
# two as float64, at each step.


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
