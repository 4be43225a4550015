"""
Why does one step of your loop take so many instructions?
=========================================================

For anyone who wants to know what a GPU really runs. A step of a matrix-vector product
needs three instructions: two loads and a :term:`multiply-add`. In the machine code of a
:term:`Numba` loop over ``range`` they are a small minority: the rest is bookkeeping for
``range``, for negative indices and for addresses, and a ``while`` loop avoids most of
it. A simple model predicts whether the bookkeeping or a stray ``float64`` costs time:
the slowest part of the GPU decides, and that is mostly memory or a :term:`cache`.

**You will learn**

- what :term:`PTX` and :term:`SASS` are, who makes them, and to count what runs in a
  loop;
- to see how many :term:`registers <register>` a :term:`kernel` needs, and when they run
  out;
- to predict which part of a GPU a kernel waits for;
- what a ``float64`` sum buys over a ``float32`` one, so that you can decide.

**Time:** 11 minutes. **Needs:** any computer, and :doc:`what the compiler did
</tutorials/3_kernels/09_what_the_compiler_did>`. Without NVIDIA's compiler (on a Mac),
the page shows what it made elsewhere.
"""

# %%
# Three kernels
# -------------
#
# The first two differ in one word, ``0.0`` or ``np.float32(0)``. The third has a
# ``while`` in place of ``for j in range(...)``.

import math
import re
from functools import cache

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


kernels, rng = (double_sum, single_sum, counted_sum), np.random.default_rng(seed=1)
for kernel in kernels:
    for rows, columns in ((1, 1), (31, 7), (101, 5)):  # right, and in its bounds?
        a, x = rng.random((rows, columns), np.float32), rng.random(columns, np.float32)
        y = np.full(rows, -1, np.float32)
        assert not trace(kernel, blocks_for(rows, 32), 32, a, x, y).problems
        assert np.allclose(y, a.astype(float) @ x), kernel.__name__
print("All three are right.")

# %%
# One step of the loop
# --------------------
#
# A count of all instructions is *static*: it tells what is written, not what runs. What
# runs most is the loop. In assembly language a loop is a label, and further down a
# branch (``bra``) back to it. The code folded here cuts out the loops that load
# something, and sorts their instructions into four kinds. For a kernel of your own,
# copy it, and print ``loops(ptx.compile(kernel, types).sass)``.

# folded: How loops are found, and instructions sorted
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


# %%

# folded: Instructions of a step, compiled here or recorded
TYPES = "float32[:, ::1], float32[::1], float32[::1]"  # ::1 says: next to each other
RECORDED = {  # with numba-cuda 0.30.4 and CUDA 13.0: the KINDS, in PTX and for an H100
    ("double_sum", "rows"): ((2, 2, 1, 16.75), (2, 2, 1, 28.25)),
    ("single_sum", "rows"): ((2, 0, 1, 16.75), (2, 0, 1, 28)),
    ("counted_sum", "rows"): ((2, 0, 1, 1.5), (2, 0, 1, 3)),
    ("double_sum", "columns"): ((2, 2, 1, 17.75), (2, 2, 1, 29.5)),
    ("counted_sum", "columns"): ((2, 0, 1, 2.25), (2, 0, 1, 5)),
}
try:
    ptx.compile(double_sum, TYPES)
    has_compiler = True
except ptx.NoCompilerError as missing:
    has_compiler = False
    print(missing)


@cache
def compiled(kernel, types, cc=(9, 0)):
    return ptx.compile(kernel, types, cc) if has_compiler else None


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

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREEN, GREY, ORANGE, RED

LOOKS = {  # a colour and a pattern each, so that either will do
    "load": {"fc": BLUE},
    "float64": {"fc": RED, "hatch": "xxx"},
    "float32": {"fc": ORANGE, "hatch": "///"},
    "bookkeeping": {"fc": GREY, "hatch": "..."},
}
steps = {kernel.__name__: steps_of(kernel) for kernel in kernels}
totals = {name: sum(step["SASS"]) for name, step in steps.items()}
of_range, of_while = totals["single_sum"], totals["counted_sum"]
fig, ax = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
for row, (name, total) in enumerate(totals.items()):
    left, counts = 0, zip(LOOKS.items(), steps[name]["SASS"], strict=True)
    for (label, look), count in counts:
        label = label if row == 0 else None
        ax.barh(row, count, left=left, label=label, ec="black", lw=0.8, **look)
        left += count
    ax.text(left + 0.4, row, f"{total:g}", va="center")
names = ["range, total = 0.0", "range, float32(0)", "while, float32(0)"]
ax.set_yticks(range(3), names)
ax.set(ylim=(2.6, -0.5), xlabel="instructions for one step, machine code of an H100")
ax.spines[["top", "right"]].set_visible(False)
fig.legend(ncols=4, loc="outside lower center", frameon=False)
title = f"{of_range:g} instructions a step with range, {of_while:g} with while"
ax.set_title(title, loc="left")
fig.set_label(
    "Bars of the instructions for one step of each kernel, split into four kinds. In "
    f"machine code, double_sum has {totals['double_sum']:g}, most of them bookkeeping, "
    f"single_sum {totals['single_sum']:g}, and counted_sum {totals['counted_sum']:g}. "
    "Only double_sum has float64 instructions."
)
plt.show()

# %%
# (Where there is no compiler, or no ``nvdisasm``, the figure shows what is on record.)
# The compiler unrolls the loop, so that one round makes four steps, and the counts are
# divided by four. A second loop takes the steps that remain. Here it is in PTX:

# folded: One step of double_sum in PTX
code = compiled(double_sum, TYPES)
for line in loops(code.text)[-1] if code else ():
    print(f"{kind(line):<11}  {' '.join(line.split())}")

# %%
# The bookkeeping is of three kinds:
#
# - ``setp.gt``, ``selp``: this is ``range``. At each step Numba's code tests whether
#   there is a next number, and chooses it, or not.
# - ``shr``, ``and``, ``add``: in Python ``x[-1]`` is the last element. So for each
#   array, at each step, the kernel tests whether the index is negative, and adds the
#   length if it is.
# - ``shl``, ``add``: the index times four, the bytes of a ``float32``, plus the address
#   where the array begins.
#
# You need neither of the first two: one counter does for the loop, and ``j`` is never
# negative. The third can be one addition. All of it is in 64 bits, and a
# :term:`multiprocessor` calculates integers in 32 bits, so many of these lines become
# two or more instructions. Numba's developers `know this problem`__. With ``while``,
# the compiler sees that ``j`` starts at 0 and grows, so it drops the tests and moves
# each address along.
#
# __ https://github.com/numba/numba/issues/4647
#
# Two compilers
# -------------
#
# *PTX* is an intermediate language: it assumes any number of registers, so no GPU runs
# it directly. A second compiler, ``ptxas``, assigns real registers, merges or splits
# instructions, and reorders them. The result is *SASS*, the machine code of one kind of
# GPU.
#
# Here is the loop of ``counted_sum`` in SASS. ``LDG`` loads, ``FFMA`` is the fused
# multiply-add of ``float32``. With doubles you would find ``F2F.F64.F32``, which
# converts, and ``DADD``.

code = compiled(counted_sum, TYPES)
machine_code = code.sass if code else None
for line in loops(machine_code)[0] if machine_code else ():
    print(f"{kind(line):<11}  {' '.join(line.split()[1:]).rstrip(' ;')}")

# %%
# Registers, and when they run out
# --------------------------------
#
# Only ``ptxas`` can say how many registers a thread needs, and it depends on the GPU. A
# thread can have 255, of 32 bits each, and a double takes two. What does not fit is
# :term:`spilled`: stored to memory and loaded again, which is slow. Here is a kernel
# that must hold 66 complex numbers at once. It turns a row of them around, and the
# :term:`barrier` forbids it to write before all are read. (Two lines of Python generate
# its 132 lines.)

from firstlight.display import show_table

HELD = 66
reads = [f"    v{k} = row[{k}]" for k in range(HELD)]
writes = [f"    row[{k}] = v{HELD - 1 - k}" for k in range(HELD)]
top = ["@cuda.jit", "def turn(z):", "    row = z[cuda.grid(1)]"]
made = {"cuda": cuda}
exec("\n".join([*top, *reads, "    cuda.syncthreads()", *writes]), made)

cases = {kernel.__name__: (kernel, TYPES) for kernel in kernels}
for dtype in ("complex64", "complex128"):
    cases[f"turn, {dtype}"] = made["turn"], f"{dtype}[:, ::1]"
rows = []
for name, case in cases.items() if has_compiler else ():
    codes = [compiled(*case, cc) for cc in ((7, 5), (9, 0))]
    rows.append((name, *(f"{code.registers}, {code.spill_bytes} B" for code in codes)))
head = ("kernel", "capability 7.5", "9.0 (H100)")
show_table("Registers of a thread, and bytes spilled", head, rows)

# %%
# In ``complex64`` the numbers fit, with two registers each. In ``complex128`` they
# would need 4 x 66 = 264. Nothing fails and nothing warns, so when a kernel holds much,
# look at ``.spill_bytes``.
#
# What does the GPU wait for?
# ---------------------------
#
# Instructions are not time. A :term:`warp`, 32 threads, makes a step together. Each
# part of a multiprocessor needs some clock cycles for it, and the slowest part decides:
#
# - *memory*: 32 numbers of the matrix, 128 bytes, at a multiprocessor's share of the
#   bandwidth;
# - *L1*, the cache of the multiprocessor: assumed to deliver one line of 128 bytes per
#   clock cycle. ``trace`` finds how many lines a step touches;
# - *issue*: a multiprocessor has four schedulers, and each starts one instruction a
#   clock cycle at most (counted in the H100's code for both cards here);
# - *float64*: 32 additions at NVIDIA's rate, and 32 conversions, taken to be as slow
#   (on an H100 they are slower).

A_CLOCK = {"RTX 4090": (128, 2), "H100 SXM": (128, 64)}  # float32 and float64 additions
a, x, y = (np.ones(shape, dtype=np.float32) for shape in ((64, 33), 33, 64))
lines_a_step = {}
for order, layout in (("C", "rows"), ("F", "columns")):
    traced = trace(counted_sum, 2, 32, np.asarray(a, order=order), x, y)
    lines_a_step[layout] = traced.traffic.l1_wavefronts // (2 * 33)  # 2 warps, 33 steps
print("lines of 128 bytes a step:", lines_a_step)

# %%
# In NumPy's usual order the numbers of a *row* lie together. Neighbouring threads take
# neighbouring rows, so they read far apart: 32 lines for 32 numbers, and one more for
# ``x``. After ``np.asfortranarray(a)`` those of a *column* lie together, and 32 threads
# share a line, with the same kernel.

from firstlight.timing.specs import spec


def clocks(kernel, layout, card):
    """The least clocks that a step of a warp takes a multiprocessor, by each part."""
    single, double = A_CLOCK[card]
    clocks_a_second = spec(card, "fp32") / (2 * single)  # all multiprocessors together
    step = dict(zip(KINDS, steps_of(kernel, layout)["SASS"], strict=True))
    return {
        "memory": 32 * 4 * clocks_a_second / spec(card, "bandwidth"),
        "L1": lines_a_step[layout],
        "issue": sum(step.values()) / 4,
        "float64": 32 * step["float64"] / double,
    }


runs = [(kernel, "rows") for kernel in kernels]
runs += [(double_sum, "columns"), (counted_sum, "columns")]

# %%

model = {card: {} for card in A_CLOCK}
for card in A_CLOCK:
    rows = []
    for kernel, layout in runs:
        parts = clocks(kernel, layout, card)
        model[card][kernel.__name__, layout] = parts
        slowest = max(parts, key=parts.get)
        in_l2 = max(list(parts)[1:], key=parts.get)
        cells = [f"{part:.1f}" for part in parts.values()]
        both = slowest if slowest == in_l2 else f"{slowest} ({in_l2})"
        rows.append((f"{kernel.__name__}, {layout}", *cells, both))
    title = f"{card}: least clock cycles per step of a warp (model)"
    head = ("kernel", *parts, "waits for (in L2)")
    show_table(title, head, rows)
    print()

# %%
# The last column names the slowest part with the matrix in memory, and in brackets with
# the matrix in the L2 cache, which all multiprocessors share. Where *L1* is slowest by
# rows, change the order of the matrix first. Where *memory* is, the doubles are done
# while warps wait, so that the zero does not decide. Where *float64* is, it does: for
# data in a cache, or for a kernel that uses each number many times, such as a matrix
# product. Where *issue* is, the bookkeeping decides, and ``while`` saves most of it:
# compare the two runs by columns.
#
# The model leaves out how long an addition waits for the one before it, and how fast L2
# itself is: by columns, where L1 is named in brackets, L2 may be slower still. By rows,
# it takes each line to stay in L1 until its 32 numbers are used. But 48 warps with 32
# lines each need 192 KiB, and an RTX 4090 has 128 KiB of L1, so the truth may be worse.
# The model tells you what to measure.
#
# What the double buys
# --------------------
#
# A kernel's result often differs a little from NumPy's. Which is nearer to the truth? A
# sum rounds after each step, so errors grow with the length of a row. Here are four
# ways to add (NumPy's depends on the library that it was built with), beside the exact
# sum of the exact products. Kahan's keeps what a rounding lost and gives it back in the
# next step, which takes four ``float32`` additions in place of one. (No GPU is needed:
# NumPy rounds where the GPU would.)


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

lengths = (11, 31, 101, 301, 1001, 3001)
errors = {"single_sum": [], "NumPy's A @ x": [], "Kahan": [], "double_sum": []}
for length in lengths:
    a = rng.standard_normal((300, length), dtype=np.float32)
    x = rng.standard_normal(length, dtype=np.float32)
    exact_products = a.astype(np.float64) * x
    exact = np.array([math.fsum(row) for row in exact_products])  # rounds once
    ways = {
        "single_sum": sums_by("fused", a * x, exact_products),
        "NumPy's A @ x": a @ x,
        "Kahan": sums_by("Kahan", a * x, exact_products),
        "double_sum": sums_by("double", a * x, exact_products),
    }
    for way, result in ways.items():
        rms = np.sqrt(np.mean((result - exact) ** 2) / np.mean(exact**2))
        errors[way].append(rms)
at_101 = {way: errors[way][lengths.index(101)] for way in errors}
better = at_101["single_sum"] / at_101["double_sum"]
assert max(errors["single_sum"]) < 1e-5, "not even five digits"

# %%

# figure
STYLES = {
    "single_sum": {"marker": "o", "color": ORANGE},
    "NumPy's A @ x": {"marker": "s", "color": BLUE},
    "Kahan": {"marker": "^", "color": GREEN, "ls": "--"},
    "double_sum": {"marker": "X", "color": RED},
}
fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
for way, style in STYLES.items():
    ax.plot(lengths, errors[way], ms=8, mec="black", **style)
    at = {"Kahan": (8, 4), "double_sum": (8, -10)}.get(way, (8, -3))
    text = {"textcoords": "offset points", "color": style["color"]}
    ax.annotate(way, (lengths[-1], errors[way][-1]), at, **text)
ax.axvline(101, color="black", ls=":", lw=1)
ax.set(xscale="log", yscale="log", xlabel="length of a row", ylim=(2e-8, 3e-6))
ax.set(ylabel="error (rms, of the rms result)", xlim=(9, 2e4))
ax.spines[["top", "right"]].set_visible(False)
title = f"At 101 numbers, single_sum's error is {better:.0f} times that of double_sum"
ax.set_title(title, loc="left")
fig.set_label(
    "Error against the length of a row, on logarithmic axes. single_sum's error grows "
    "fastest, NumPy's grows less, those of Kahan's sum and double_sum stay level. At "
    f"101 numbers single_sum's error is {better:.0f} times double_sum's."
)
plt.show()

# %%
# So the kernel with the plain zero is the more accurate one, and the zero is not simply
# a mistake: it can cost time, and it buys digits. A result that differs from NumPy's
# need not be wrong. Compare both with something better than either. Then decide:
#
# - Five digits are enough: ``np.float32(0)``, at all lengths shown.
# - You need all that a ``float32`` holds, on a card that is fast in ``float64`` (an
#   H100), or while you wait for memory anyway: write ``np.float64(0)``, so that
#   readers see you mean it.
# - The same on a card that is slow in ``float64``, such as a GeForce or an L4, with the
#   data in a cache: Kahan. (In a CUDA kernel, Numba's ``fastmath`` keeps it; in an
#   ``njit`` function on the CPU, it removes it.)
#
# Measure
# -------
#
# Only a GPU can tell whether the model is right. On one, the five runs of the tables
# are timed, on a matrix too large for any cache, beside PyTorch's product. The
# simulator has no times.

# folded: On a CUDA GPU: the five runs, and PyTorch's product
import torch

from firstlight import Bench, best_device

device = best_device()
on_gpu = not simulated() and device.type == "cuda"
shape = (500_001, 101) if on_gpu else (33, 5)
t_a, t_x = torch.rand(shape, device=device), torch.rand(shape[1], device=device)
bench = Bench("two-compilers", budget=3 if on_gpu else 0.5)
size = {"n": shape[0], "bytes": t_a.nbytes + t_x.nbytes + 4 * shape[0]}
if on_gpu:
    bench.time("torch.mv", torch.mv, t_a, t_x, device=device, **size)
    d_x, d_y = cuda.as_cuda_array(t_x), cuda.device_array(shape[0], np.float32)
    right = torch.mv(t_a.double(), t_x.double()).cpu().numpy()
    matrices = {"rows": t_a, "columns": t_a.T.contiguous().T}
    grid = blocks_for(shape[0], 128), 128
    for kernel, layout in runs:
        call = kernel[grid], cuda.as_cuda_array(matrices[layout]), d_x, d_y
        label = f"{kernel.__name__}, {layout}"
        bench.time(label, *call, device=device, **size)
        assert np.allclose(d_y.copy_to_host(), right, rtol=1e-4), f"{label} is wrong"
elif simulated():
    call = counted_sum[2, 32], *(np.ones(n, np.float32) for n in (shape, 5, 33))
    bench.time("counted_sum, rows", *call, device="cpu", **size)

# %%

bench.show()

# %%
# A matrix by rows was measured by others, on an old card and on an A100. Both
# contradict our law of lines, for opposite reasons.
#
# .. measured-by-others:: rows-gtx1050ti l1-33-a100 matvec-gtx1050ti
#
# Where this stops being true
# ---------------------------
#
# - *Another version* of Numba or CUDA may compile it differently. Check yours.
# - *PTX for another GPU.* The same PTX becomes different SASS for another card, and may
#   need more registers there. Compile for the card you have.
# - *Static counts* say nothing about how often a branch is taken, or what waits. A
#   profiler counts what ran: Nsight Compute's ``smsp__inst_executed.sum``.
#
# Exercise
# --------
#
# In the model, with the matrix in the memory of an H100, by columns: how many
# instructions may a step have at most, so that a warp still waits for memory and not
# for the schedulers?

most = 0


def check(answer):
    right = int(4 * clocks(counted_sum, "columns", "H100 SXM")["memory"])
    if isinstance(answer, bool) or not isinstance(answer, (int, float)):
        return "Not yet: give a number."
    if abs(answer - right) <= 1:
        return "Right: below that, bookkeeping costs no time in this model."
    if abs(answer - right / 4) <= 1:
        return "Not yet: a multiprocessor has four schedulers."
    return "Not yet: how many clock cycles does memory take for a step of a warp?"


print(check(most))

# %%
# Three lines to remember
# -----------------------

# remember
print(
    f"""1. Count what runs: {totals["single_sum"]:g} instructions a step with range,
{totals["counted_sum"]:g} with while; three of them do the work.
2. Instructions are not time. The slowest of memory, L1, issue and float64 decides.
3. A double buys digits: with 101 numbers, a float32 sum's error is {better:.0f} times
as large. So decide for yourself whether it is worth its time."""
)

# %%
# Solution
# --------

# solution

cycles = clocks(counted_sum, "columns", "H100 SXM")["memory"]
most_solution = 4 * cycles  # four schedulers, one instruction a cycle each
print(f"Our solution: {check(most_solution)}")
