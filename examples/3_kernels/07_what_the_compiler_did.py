"""
What did the compiler make of your kernel?
==========================================

``tmp = 0.`` is a harmless line. A course notebook on PyTorch and Numba starts the sum
of a matrix-vector product with it, a page after its warning that GPUs are slow at
``float64``. All arrays in it are ``float32``. Does the line matter? You need no GPU to
find out: the compiler works without one.

**You will learn**

- to see what a kernel was compiled to, for any NVIDIA GPU, on any Linux or Windows PC;
- to find a ``float64`` that you never wrote, and what it costs on which card;
- why most of what runs may be neither loads nor arithmetic;
- what a double buys, so that you can decide.

**Time:** 20 minutes. **Needs:** any computer, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`. Without NVIDIA's compiler (on a Mac), the page
shows what it made elsewhere.
"""

# %%
# Predict
# -------
#
# Each thread computes one element of :math:`y = A x`: it goes along a row of ``A``,
# multiplies each number with one of ``x``, and adds it to a sum. All are ``float32``.
# Before you look at any compiler's output, write down your answers:
#
# - How many instructions does one step along the row need? Two loads, for a number of
#   ``A`` and a number of ``x``, and one *fused multiply-add*, which multiplies and adds
#   at once. That is three. How many more will there be?
# - How many bytes must come from memory in a step? Four, for the number of ``A``. The
#   vector is small, and all rows share it, so it stays in a cache.
#
# The notebook's matrix has 100 000 rows and 100 columns: 40 million bytes. No kernel
# that reads it from memory is faster than this:

from firstlight.measure.specs import spec

for card in ("GTX 1650", "RTX 4090", "H100 SXM"):
    floor = 4 * 100_000 * 100 / spec(card, "bandwidth")
    print(f"{card:>8}: never under {1e6 * floor:.0f} microseconds")

# %%
# How many results of an instruction a multiprocessor gives in a clock, NVIDIA lists for
# each *compute capability*, the version number of a kind of GPU (in its `Best Practices
# Guide`__, under "Throughput of Native Arithmetic Instructions"). Divide the two kinds
# of addition:
#
# __ https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/

A_CLOCK = {  # card: compute capability, float32 and float64 additions a clock
    "GTX 1650": (7.5, 64, 2),
    "RTX 4090": (8.9, 128, 2),
    "H100 SXM": (9.0, 128, 64),
}
for card, (capability, single, double) in A_CLOCK.items():
    print(f"{card} ({capability}): float64 at 1/{single // double} of float32")

# %%
# So the harmless line could cost a lot on the first two, and next to nothing on the
# third. *Could*: first see whether it does anything at all.
#
# Three kernels, one result
# -------------------------
#
# The first one starts its sum as the notebook does. The second differs in one word. The
# third has no double either, and a ``while`` in place of the ``for``. You will see why.

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


# %%


@cuda.jit
def single_sum(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        total = np.float32(0)
        for j in range(x.size):
            total += a[i, j] * x[j]
        y[i] = total


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


kernels = (double_sum, single_sum, counted_sum)

# %%
# Check
# -----
#
# All three have to be right before their instructions are of interest. So: odd sizes,
# two launches into the same output, and the product in ``float64`` to compare with.

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
# Without a GPU these ran in Numba's simulator, as plain Python. It cannot tell you
# about the types. NumPy makes ``0.0 + np.float32(1)`` a ``float32``, since NumPy takes
# a plain ``0.0`` for a number of any precision:

print("NumPy:", (0.0 + np.float32(1)).dtype)

# %%
# Numba on a GPU does not. It gives each variable *one* type, from all that is assigned
# to it. A ``0.0`` in Python's code is a ``float64``, and the sum of that and a
# ``float32`` is, too. Only the compiler can show it.
#
# What the compiler made
# ----------------------
#
# ``ptx.compile`` takes a kernel, the types of its arguments, and a compute capability.
# You get *PTX*, the assembly language of all NVIDIA GPUs, in ``.text``. In ``.mix`` its
# instructions are counted. Names end in their type, so a double is easy to find:

from functools import cache

TYPES = "float32[:, ::1], float32[::1], float32[::1]"  # ::1 says: next to each other


try:
    ptx.compile(double_sum, TYPES)
    has_compiler = True
except ptx.NoCompilerError as missing:
    has_compiler = False
    print(missing)


@cache
def compiled(kernel, types, cc=(9, 0)):
    return ptx.compile(kernel, types, cc) if has_compiler else None


def doubles_in(mix):
    return {name: count for name, count in mix.items() if "f64" in name}


for kernel in kernels if has_compiler else ():
    found = doubles_in(compiled(kernel, TYPES).mix)
    print(f"{kernel.__name__:>11}: {found or 'no float64'}")

# %%
# There it is. In the first kernel, each product is converted to ``float64`` and added
# there. (``cvt.f64.f32`` reads: to ``f64``, from ``f32``. The one that goes back is for
# ``y``.) It also costs the fused multiply-add: a ``float32`` product and a ``float64``
# sum cannot be fused. One plain number did all this. (A ``0`` without the dot does the
# same: an integer plus a ``float32`` is a ``float64``, too.) Numba's users have `met it
# before`__.
#
# __ https://github.com/numba/numba/issues/4676
#
# But why do the counts say five, when the source has *one* addition?
#
# One step of the loop
# --------------------
#
# The mix is *static*: it counts what is written, not what runs. What runs most is the
# loop. In assembly language a loop is a label, and further down a branch (``bra``) back
# to that label.

import re

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


# %%
# Four kinds of instructions will do. (The names in capitals are for later.)

KINDS = {  # the first that fits the name
    "load": r"ld\.global|LDG",
    "float64": r".*f64|.*F64|D[A-Z]",
    "float32": r"(fma|mul|add).*\.f32|F(FMA|MUL|ADD)",
    "bookkeeping": r"",
}


def kind(line):
    name = NAME.match(line)[1]
    return next(kind for kind, form in KINDS.items() if re.match(form, name))


code = compiled(double_sum, TYPES)
for number, loop in enumerate(loops(code.text) if code else (), 1):
    print(f"loop {number}: {len(loop)} instructions, {loads_in(loop)} of them loads")

# %%
# The source has one loop, PTX has two. The compiler has *unrolled* it: one round of the
# first loop makes four steps, and the second loop takes the up to three that remain.
# Four and one: so five additions are written. Here is the second, with one step a
# round:

for line in loops(code.text)[-1] if code else ():
    print(f"{kind(line):<11}  {' '.join(line.split())}")

# %%
# A name such as ``%fd18`` is a *register*, where a thread keeps one number. The first
# register in a line receives the result, the others are read. Find the five lines that
# are the work: two loads, and three lines in place of the one fused multiply-add. And
# the other twenty?
#
# - ``setp.gt``, ``selp``: this is ``range``. Numba asks at each step whether there is a
#   next number, and chooses it, or not.
# - ``shr``, ``and``, ``add``: in Python ``x[-1]`` is the last element. So for each
#   array, at each step, the kernel tests whether the index is negative, and adds the
#   length if it is.
# - ``shl``, ``add``: the index times four, the bytes of a ``float32``, plus the address
#   where the array begins.
#
# You wrote none of this, and you need none of it, as ``j`` is never negative. All of it
# is in 64 bits. A multiprocessor calculates integers in 32 bits, so many of these lines
# become two or more instructions.
#
# Two compilers
# -------------
#
# "Become", since PTX does not run on any GPU. It is a language between: a kernel in PTX
# has as many registers as it likes, and no GPU has. A second compiler, ``ptxas``,
# chooses among the real ones, puts instructions together or takes them apart, and sorts
# them anew. (With Numba on a GPU, the driver does this.) What comes out is *SASS*, the
# machine code of one kind of GPU. Where NVIDIA's ``nvdisasm`` is installed, ``.sass``
# shows it. Here is the first loop of the third kernel, the one with ``while``, as it
# runs on an H100. It makes four steps a round:

code = compiled(counted_sum, TYPES)
machine_code = code.sass if code else None
for line in loops(machine_code)[0] if machine_code else ():
    print(f"{kind(line):<11}  {' '.join(line.split()[1:])}")

# %%
# ``LDG`` loads, ``FFMA`` is the fused multiply-add of ``float32``. Where a sum has
# doubles, you find ``F2F.F64.F32``, which converts, and ``DADD``. There are four steps,
# so divide by four, and compare the three kernels:

RECORDED = {  # with numba-cuda 0.30.4 and CUDA 13.0: the KINDS, in PTX and for an H100
    ("double_sum", "rows"): ((2, 2, 1, 16.75), (2, 2, 1, 28.25)),
    ("single_sum", "rows"): ((2, 0, 1, 16.75), (2, 0, 1, 28)),
    ("counted_sum", "rows"): ((2, 0, 1, 1.5), (2, 0, 1, 3)),
    ("double_sum", "columns"): ((2, 2, 1, 17.75), (2, 2, 1, 29.5)),
    ("counted_sum", "columns"): ((2, 0, 1, 2.25), (2, 0, 1, 5)),
}


def one_step(loop):
    kinds = [kind(line) for line in loop]
    return tuple(2 * kinds.count(kind) / loads_in(loop) for kind in KINDS)


@cache
def steps_of(kernel, layout="rows"):
    types = TYPES if layout == "rows" else TYPES.replace(":, ::1", "::1, :")
    in_ptx, in_sass = RECORDED[kernel.__name__, layout]
    if code := compiled(kernel, types):
        in_ptx = one_step(loops(code.text)[0])
        in_sass = one_step(loops(code.sass)[0]) if code.sass else in_sass
    return {"PTX": in_ptx, "SASS": in_sass}


# %%
# (Where there is no compiler, or no ``nvdisasm``, the figure shows what is recorded
# here.)

import matplotlib.pyplot as plt

LOOKS = {  # a colour and a pattern each, so that either will do
    "load": {"fc": "#2e7ab0"},
    "float64": {"fc": "#d1495b", "hatch": "xxx"},
    "float32": {"fc": "#e8a33d", "hatch": "///"},
    "bookkeeping": {"fc": "#8a9199", "hatch": "..."},
}


def draw_steps(ax, language):
    for row, name in enumerate(steps):
        counts, left = steps[name][language], 0
        for (label, look), count in zip(LOOKS.items(), counts, strict=True):
            ax.barh(row, count, left=left, label=label, ec="black", lw=0.8, **look)
            left += count
        ax.text(left + 0.5, row, f"{left:g}", va="center")
    ax.axvline(3, color="black", ls="--", lw=1.2)
    ax.set_yticks(range(3), steps)
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)


# %%

steps = {kernel.__name__: steps_of(kernel) for kernel in kernels}
fig, axes = plt.subplots(2, 1, figsize=(5.6, 4.2), sharex=True, layout="constrained")
for ax, language in zip(axes, ("PTX", "SASS"), strict=True):
    draw_steps(ax, language)
axes[0].set_title("PTX", size=11, loc="left")
axes[1].set_title("SASS: what an H100 runs", size=11, loc="left")
axes[1].set_xlabel("instructions for one step (dashed: the three you need)")
handles, labels = axes[0].get_legend_handles_labels()
fig.legend(handles[:4], labels[:4], ncols=4, loc="outside upper center", frameon=False)
totals = {name: sum(step["SASS"]) for name, step in steps.items()}
fig.set_label(
    "Bars of the instructions for one step of each kernel, split into four kinds. In "
    f"machine code, double_sum has {totals['double_sum']:g}, most of them bookkeeping, "
    f"single_sum {totals['single_sum']:g}, and counted_sum {totals['counted_sum']:g}. "
    "Only double_sum has float64 instructions, two a step."
)
plt.show()

# %%
# Two findings. The zero put two doubles into each step. And ``for j in range(...)`` put
# in far more than the zero did, though none of it looks expensive. Numba's developers
# `know this one, too`__. With ``while``, the compiler sees that ``j`` starts at 0 and
# grows. It drops the tests, and moves each address along. All this holds for the
# version of Numba that built this page; look again with yours.
#
# __ https://github.com/numba/numba/issues/4647
#
# Registers, and when they run out
# --------------------------------
#
# PTX cannot say how many registers a thread needs. ``ptxas`` can, and it depends on the
# GPU:

for kernel in kernels if has_compiler else ():
    needs = {cc: compiled(kernel, TYPES, cc) for cc in ((7, 5), (9, 0))}
    for (major, minor), code in needs.items():
        used = f"{code.registers} registers, {code.spill_bytes} spilled"
        print(f"{kernel.__name__:>11} {major}.{minor}: {used}")

# %%
# A thread can have 255, of 32 bits each, and a double takes two. What does not fit is
# *spilled*: stored to memory and loaded again, which is slow. Here is a kernel that
# must hold 66 complex numbers at once. It turns a row of them around, and the barrier
# forbids to write before all are read. (132 lines of it are written by two lines.)

HELD = 66
reads = [f"    v{k} = row[{k}]" for k in range(HELD)]
writes = [f"    row[{k}] = v{HELD - 1 - k}" for k in range(HELD)]
top = ["@cuda.jit", "def turn(z):", "    row = z[cuda.grid(1)]"]
turn_source = "\n".join([*top, *reads, "    cuda.syncthreads()", *writes])
made = {"cuda": cuda}
exec(turn_source, made)

for dtype in ("complex64", "complex128") if has_compiler else ():
    code = compiled(made["turn"], f"{dtype}[:, ::1]")
    used = f"{code.registers} registers, {code.spill_bytes} bytes spilled"
    print(f"{dtype:>10}: {used}")

# %%
# In ``complex64`` they fit, with two registers each. In ``complex128`` four each are
# more than there are. Nothing fails, nothing warns. So when a kernel holds much, look
# at ``.spill_bytes``.
#
# What does the GPU wait for?
# ---------------------------
#
# Instructions are not time. A *warp*, 32 threads, makes a step together. Each part of a
# multiprocessor says how soon the next one can follow, and the slowest part decides.
# You know enough for a model:
#
# - *memory*: 128 bytes a step, at this multiprocessor's share of the bandwidth;
# - *issue*: it has four schedulers, and each starts one instruction a clock at most
#   (counted in the H100's code for both cards here);
# - *float64*: 32 additions, at the rate in the table above (the conversions come on
#   top);
# - *L1*, the cache beside the multiprocessor: it hands out a line of 128 bytes a clock.
#
# The last needs the addresses. ``trace`` runs a kernel and notes all of them:

a, x, y = (np.ones(shape, dtype=np.float32) for shape in ((64, 33), 33, 64))
lines_a_step = {}
for order, layout in (("C", "rows"), ("F", "columns")):
    traced = trace(counted_sum, 2, 32, np.asarray(a, order=order), x, y)
    lines_a_step[layout] = traced.traffic.l1_wavefronts // (2 * 33)  # 2 warps, 33 steps
    print(
        f"{layout:>7}: {traced.sectors_per_load['a']:.0f} pieces of 32 bytes a load, "
        f"{lines_a_step[layout]} lines of 128 bytes a step"
    )

# %%
# In NumPy's usual order the numbers of a *row* lie together. Neighbouring threads take
# neighbouring rows, so they read far apart: 32 lines for 32 numbers, and one more for
# ``x``. After ``np.asfortranarray(a)`` those of a *column* lie together, and 32 threads
# share a line. The kernel stays as it is. (The trace sees what the source asks for. A
# compiler may merge loads or move them. Here you have seen that it kept two a step.)


def clocks(kernel, layout, card):
    """The least clocks that a step of a warp takes a multiprocessor, by each part."""
    _, single, double = A_CLOCK[card]
    clocks_a_second = spec(card, "fp32") / (2 * single)  # all multiprocessors together
    step = dict(zip(KINDS, steps_of(kernel, layout)["SASS"], strict=True))
    additions = step["float64"] / 2  # the other half converts
    return {
        "memory": 32 * 4 * clocks_a_second / spec(card, "bandwidth"),
        "L1": lines_a_step[layout],
        "issue": sum(step.values()) / 4,
        "float64": 32 * additions / double,
    }


runs = [(kernel, "rows") for kernel in kernels]
runs += [(double_sum, "columns"), (counted_sum, "columns")]
model = {
    card: {f"{run[0].__name__},\n{run[1]}": clocks(*run, card) for run in runs}
    for card in ("RTX 4090", "H100 SXM")
}

# %%

MARKS = {
    "memory": {"marker": "s", "color": "#2e7ab0"},
    "L1": {"marker": "^", "color": "#3a9d5d", "ms": 13},
    "issue": {"marker": "o", "color": "#8a9199", "ms": 7},
    "float64": {"marker": "X", "color": "#d1495b"},
}


def draw_model(ax, card):
    rows = model[card]
    for at, parts in enumerate(rows.values()):
        ax.plot([0.3, max(parts.values())], [at, at], color="black", ls="--", lw=1)
        for part, look in MARKS.items():
            clock = parts[part] or np.nan
            style = {"ls": "", "ms": 9, "mec": "black", "label": part} | look
            ax.plot(clock, at, **style)
    ax.set_yticks(range(len(rows)), rows, fontsize=9)
    ax.set(xscale="log", ylim=(len(rows) - 0.5, -0.5), xlim=(0.3, 60))
    ax.set_title(f"model: {card}", size=11, loc="left")
    ax.spines[["top", "right"]].set_visible(False)


# %%
# The model for two cards. Each line is a kernel with an order of the matrix. The mark
# farthest to the right is what it waits for, at least.

fig, axes = plt.subplots(2, 1, figsize=(5.6, 5.6), sharex=True, layout="constrained")
for ax, card in zip(axes, model, strict=True):
    draw_model(ax, card)
ticks = (0.5, 1, 2, 5, 10, 20, 50)
axes[1].set_xticks(ticks, ticks)
axes[1].set_xlabel("clocks for one step of a warp, at least")
handles, labels = axes[0].get_legend_handles_labels()
fig.legend(handles[:4], labels[:4], ncols=4, loc="outside upper center", frameon=False)
fig.set_label(
    "A model of how many clocks memory, L1, issue and float64 need for a step of five "
    "kernels. On the RTX 4090 memory needs most for all five. On the H100, L1 needs "
    "most for the three by rows, and memory for the two by columns. Without memory, "
    "float64 is what double_sum by columns waits for on the RTX 4090."
)
plt.show()

# %%
# Read it from the right:
#
# - The matrix comes from memory. Then on neither card does the zero decide: the doubles
#   are done while the warps wait. On the RTX 4090 they wait for memory. On the H100,
#   whose memory is fast, they wait for L1, because of the *order* of the matrix. Change
#   that first.
# - The matrix is in the L2 cache, which all multiprocessors share: the notebook's 40 MB
#   fit into the 72 MB of the RTX 4090, and nearly fill the 50 MB of the H100 (NVIDIA's
#   whitepapers). Now leave the squares out. By columns, ``double_sum`` waits
#   for its doubles on the RTX 4090. On the H100 it waits for its bookkeeping, and the
#   doubles are nearly free.
# - A kernel that uses each number many times, such as a matrix product, is in this
#   second case even when its data come from memory. There a stray ``0.0`` costs most.
#
# A model, as it leaves much out: how long one addition waits for the one before it, the
# conversions, what else the caches do. It tells you what to measure.
#
# What the double buys
# --------------------
#
# The notebook finds that its GPU's result differs a little from NumPy's, and jokes
# about GPUs and the standard for arithmetic. Which of the two was wrong? Each sum
# rounds after each step, so errors grow with the length of a row. Here are four ways to
# add, on rows of odd lengths, beside the exact sum of the exact products. The last way
# is Kahan's: it keeps what the rounding lost, and gives it back in the next step. That
# takes four additions in place of one, all of them ``float32``. (No GPU is needed: here
# NumPy rounds where the instructions above round.)


def sums_by(way, products, exact_products):
    """Add along the rows, with one rounding wherever the machine has one."""
    total = np.zeros(len(products), dtype=np.float64 if way == "double" else np.float32)
    lost = np.zeros_like(total)
    for step in range(products.shape[1]):
        if way == "fused":  # the product is not rounded, only the sum
            total = (total + exact_products[:, step]).astype(np.float32)
        elif way == "double":
            total = total + products[:, step]
        else:
            given = products[:, step] - lost
            grown = total + given
            lost = (grown - total) - given
            total = grown
    return total.astype(np.float32)


# %%
# A product of two ``float32`` numbers is exact in ``float64``, and ``math.fsum`` adds
# such numbers with a single rounding at the end.

import math

lengths = (11, 31, 101, 301, 1001, 3001)
errors = {"single_sum": [], "NumPy's A @ x": [], "Kahan": [], "double_sum": []}
for length in lengths:
    a = rng.standard_normal((300, length), dtype=np.float32)
    x = rng.standard_normal(length, dtype=np.float32)
    exact_products = a.astype(np.float64) * x
    exact = np.array([math.fsum(row) for row in exact_products])
    ways = {
        "single_sum": sums_by("fused", a * x, exact_products),
        "NumPy's A @ x": a @ x,
        "Kahan": sums_by("Kahan", a * x, exact_products),
        "double_sum": sums_by("double", a * x, exact_products),
    }
    for way, result in ways.items():
        worst = np.sqrt(np.mean((result - exact) ** 2) / np.mean(exact**2))
        errors[way].append(worst)

# %%

STYLES = {
    "single_sum": {"marker": "o", "color": "#e8a33d"},
    "NumPy's A @ x": {"marker": "s", "color": "#2e7ab0"},
    "Kahan": {"marker": "^", "color": "#3a9d5d", "ls": "--"},
    "double_sum": {"marker": "X", "color": "#d1495b"},
}
fig, ax = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
for way, style in STYLES.items():
    ax.plot(lengths, errors[way], ms=8, mec="black", label=way, **style)
ax.axvline(101, color="black", ls=":", lw=1)
ax.annotate("the notebook's\nlength", (101, 2e-6), (6, -6), textcoords="offset points")
ax.set(xscale="log", yscale="log", xlabel="length of a row", ylim=(2e-8, 3e-6))
ax.set_ylabel("error (rms, of the rms result)")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=9, loc="upper left")
at_101 = {way: errors[way][lengths.index(101)] for way in errors}
better = at_101["NumPy's A @ x"] / at_101["double_sum"]
fig.set_label(
    "Error against the length of a row, on logarithmic axes. single_sum's error grows "
    "fastest, NumPy's grows less, those of Kahan's sum and double_sum stay level. At "
    f"101 numbers NumPy's error is {better:.1f} times double_sum's."
)
plt.show()

# %%
# At the notebook's length, its kernel was nearer to the truth than NumPy was:

print(f"101 numbers: NumPy's error is {better:.1f} times that of double_sum")
for at in (2, 5):
    ratio = errors["single_sum"][at] / errors["double_sum"][at]
    print(
        f"{lengths[at]} numbers: single_sum's is {ratio:.0f} times that of double_sum"
    )

_, single, double = A_CLOCK["RTX 4090"]
print(f"a step's addition in float64, on an RTX 4090: {32 / double:.0f} clocks")
print(f"a step's four of Kahan's, in float32: {4 * 32 / single:.0f} clock")

# %%
# So the zero is not simply a mistake. It costs, and it buys correct digits. What is
# wrong is only that nobody decided it. Decide:
#
# - The rows are short, and you need five digits: ``np.float32(0)``.
# - The rows are long, or you need every digit, on a data-centre card, or while you wait
#   for memory anyway: write ``np.float64(0)``, so that readers see you mean it.
# - The same on a GeForce, with the data in a cache: Kahan.
#
# A result that differs from NumPy's is not therefore wrong. Compare both with something
# better than either.
#
# Measure
# -------
#
# Only a GPU can tell whether the model is right. If there is one, the three kernels run
# on it, with the matrix in both orders, and too large for any cache. On the CPU a
# double has another price: the whole matrix is in ``float64``, and has twice the bytes.

from firstlight import Bench

rows, columns = (100_001 if simulated() else 500_001), 101
a = rng.standard_normal((rows, columns), dtype=np.float32)
x = rng.standard_normal(columns, dtype=np.float32)
a64, x64 = a.astype(np.float64), x.astype(np.float64)
y, y64 = np.zeros(rows, dtype=np.float32), np.zeros(rows)
numbers = a.size + x.size + y.size


def launch(kernel, d_a, d_x, d_y):
    kernel[blocks_for(rows, 128), 128](d_a, d_x, d_y)


bench = Bench("what-the-compiler-did", budget=2)
size = {"n": rows, "bytes": 4 * numbers}
bench.time("NumPy, float32", np.matmul, a, x, y, **size)
size64 = size | {"bytes": 8 * numbers}
bench.time("NumPy, float64", np.matmul, a64, x64, y64, **size64)

# %%

if not simulated():
    d_x, d_y = cuda.to_device(x), cuda.to_device(y)
    for order, layout in (("C", "rows"), ("F", "columns")):
        d_a = cuda.to_device(np.asarray(a, order=order))
        for kernel in kernels:
            label = f"{kernel.__name__}, {layout}"
            bench.time(label, launch, kernel, d_a, d_x, d_y, device="cuda:0", **size)
            assert np.allclose(d_y.copy_to_host(), y64, atol=1e-4), f"{label} is wrong"
        del d_a
bench.show()

# %%
# Compare the two rows of NumPy first: the same number of operations, and twice the
# bytes. The kernels of this page are another case. Their ``float64`` is only in the
# sum, so they read the same bytes with it and without. Where there are rows of kernels,
# compare them with the model: which order is faster, and do the three differ at all
# once the matrix lies by columns?
#
# Where this stops being true
# ---------------------------
#
# - *Another version.* What a compiler makes changes with it. Nothing on this page is a
#   property of Python, or of CUDA; all of it is one version's output.
# - *Other types.* A kernel is compiled anew for each set of types. With ``float64``
#   arrays the zero is right, and without ``::1`` the addresses are longer to compute.
# - *Static counts.* They say nothing about how often a branch is taken, or about what
#   waits. Divide by the steps you know, and measure the rest.
# - *PTX for another GPU.* The same PTX becomes different SASS for another card, and may
#   need more registers there. Compile for the card you have.
# - *Other makers.* AMD, Intel and Apple have other compilers and other assembly
#   languages. The question is the same there. PyTorch's operations keep ``float32``.
#
# Exercise
# --------
#
# This kernel computes the root mean square of each row. The sum starts as a
# ``float32``, and to be quick about the loop, ``j`` cannot be negative. Yet two doubles
# hide in it, and neither is a constant. Find them, and get rid of both.


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
# ``check`` first runs your kernel on odd sizes, with ``trace``, so that it sees threads
# that leave an array, too. Then it compiles it and looks for doubles.


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


# %%

HINTS = {
    "setp": "two numbers are compared as float64; signed and unsigned ones are",
    "div": "a division is done in float64; float32 by an integer is",
    "sqrt": "a root is taken in float64, since what stands under it is one",
    "": "something is computed in float64; look for plain Python numbers",
}


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


print(check(row_rms))

# %%

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


print(check(row_rms_solution))

# %%
# In Numba, unsigned plus unsigned is a ``uint64``. No integer type holds all of those
# and all of ``int64``, so the two are compared as ``float64``, at each step. A plain
# ``j = 0`` has no double, and you saw that it has little bookkeeping. The division is
# the other: a ``float32`` and an integer make a ``float64``, so make the integer a
# ``float32`` first.
#
# For more practice there are :doc:`puzzles </tutorials/3_kernels/11_puzzles>`, each
# with a judge that runs your kernel: try ``dot``. Compile your answer, too.
#
# Three lines to remember
# -----------------------

total = {name: sum(step["SASS"]) for name, step in steps.items()}
print("1. A plain 0.0 is a float64. Look for f64 in ptx.compile(kernel, types).mix.")
print(f"2. Count what runs: {total['single_sum']:g} instructions a step with range,")
print(f"   {total['counted_sum']:g} with while, and three of them are the work.")
print("3. A double costs where nothing else is slower, and it buys digits: with 101")
print(f"   numbers, NumPy's error is {better:.1f} times as large. Decide it yourself.")
