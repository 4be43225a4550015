"""
How do a million threads make one number?
=========================================

For anyone who needs the sum of a large array on a GPU. Let each :term:`thread` add up
many numbers, let each :term:`block` add the sums of its threads in a tree, and
:term:`launch` the same :term:`kernel` once more on what the blocks wrote. By the model
below, memory alone limits such a sum; it is more exact than a plain loop, and the same
in each run. One :term:`atomic addition` for each number is slow, can be far off, and
differs from run to run.

**You will learn**

- to add with atomic operations, in a tree, across a :term:`warp`, and in two stages;
- which threads of a block should add, and when it does not matter;
- to predict the error of a sum from its order;
- which sums differ from run to run, and how to prevent that.

**Time:** 14 minutes. **Needs:** any computer, and :doc:`shared memory
</tutorials/3_kernels/06_shared_memory>`. With a CUDA GPU, all ways are timed on it;
without one, what GPUs would take is a model.
"""

# %%
# The kernel to copy
# ------------------
#
# Making one number out of many is called a :term:`reduction`. In ``my_share``, each
# thread adds up every ``gridsize``-th number, starting at its own index. The block then
# adds its threads' sums in shared memory: half of the threads add a second number to
# their own, then half of those, and so on. So 128 sums become one in seven rounds.

import math

import numpy as np

from firstlight.kernels import blocks_for, cuda, simulated, trace


@cuda.jit(device=True)
def sequential(part, t, n):
    by = n // 2
    while by > 0:
        if t < by:
            part[t] += part[t + by]
        cuda.syncthreads()
        by //= 2


@cuda.jit(device=True)
def my_share(x):
    total, step = np.float32(0), cuda.gridsize(1)
    i = cuda.grid(1)
    while i < x.size:
        total += x[i]
        i += step
    return total


# %%


def block_sums(tree, n=128, atomic=False):
    @cuda.jit
    def kernel(x, out):
        part = cuda.shared.array(n, np.float32)
        t = cuda.threadIdx.x
        part[t] = my_share(x)
        cuda.syncthreads()
        tree(part, t, n)
        if t == 0 and atomic:
            cuda.atomic.add(out, 0, part[0])
        elif t == 0:
            out[cuda.blockIdx.x] = part[0]

    return kernel


f32, rng = np.float32, np.random.default_rng(seed=1)
x, add = rng.random(1001, dtype=f32), block_sums(sequential)
d_x, d_sums = cuda.to_device(x), cuda.device_array(3, f32)
d_out = cuda.device_array(1, f32)
add[3, 128](d_x, d_sums)  # first stage: three blocks, three sums
add[1, 128](d_sums, d_out)  # second stage: one block adds them
print(f"kernel: {d_out.copy_to_host()[0]:.4f}, exact: {math.fsum(x):.4f}")

# %%
# Blocks cannot wait for each other, so the second stage is a launch of its own. (Or
# each block makes one atomic addition to a number that somebody has cleared before.)
#
# Predict
# -------
#
# Each number is read once and used once, so memory sets the least time. Write down
# three answers:
#
# - How long does an H100 take at least for :math:`2^{28}` numbers in ``float32``?
# - Add :math:`2^{25}` ones in ``float32``, one after another. What comes out?
# - Launch the same sum of the same numbers twice. Are the results equal, bit for bit?

from firstlight.timing.specs import spec

for card in ("GTX 1650", "RTX 4090", "H100 SXM"):
    print(f"{card:>8}: never under {4e3 * 2**28 / spec(card, 'bandwidth'):.2f} ms")

# %%
# Atomic additions, and another tree
# ----------------------------------
#
# With ``out[0] += x[i]`` two threads can read the same old sum, and then one addition
# is lost. An *atomic* addition lets no other thread in between its read and its write,
# so nothing is lost. But additions to one address come one after the other, and `their
# order is undefined`__.
#
# In a tree, which half of the threads should add? The first idea is often every other
# thread, as in ``strided``:
#
# __ https://docs.nvidia.com/gameworks/content/developertools/desktop/analysis/report/cudaexperiments/kernellevel/memorystatisticsatomics.htm


@cuda.jit
def atomic_each(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, 0, x[i])


@cuda.jit(device=True)
def strided(part, t, n):
    by = 1
    while by < n:
        if t % (2 * by) == 0:
            part[t] += part[t + by]
        cuda.syncthreads()
        by *= 2


# %%
# Both trees make the same number of additions, but a warp works as a whole: if one of
# its 32 threads adds, the others wait with it, and ``strided`` keeps all warps busy.
# Would it help if thread ``t`` added to ``part[2 * by * t]``, so that those at work
# stand together? That depends on the *banks* of shared memory. Word ``w`` lies in bank
# ``w % 32``, and a bank gives one word at a time, so a warp takes one *pass* (a
# profiler says *wavefront*), and one more for each further word in its busiest bank.
#
# The table counts warps and passes for 128 threads, at each distance ``by``. The column
# *model* is the part of an H100's bandwidth that is left if each thread brings only one
# number. It assumes that
#
# - a round takes its passes three times, for two loads and a store;
# - a pass takes a clock cycle, and nothing else takes time (real barriers do);
# - the whole card makes one atomic addition to an address in a clock cycle.

from firstlight.display import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, show_table

t, distances = np.arange(128), [2**k for k in range(7)]  # 1, 2, 4 ... 64
RULES = {  # at distance by: which threads add, and to which word
    "strided": lambda by: (t % (2 * by) == 0, t),
    "strided addresses": lambda by: (2 * by * t < 128, 2 * by * t),
    "sequential": lambda by: (t < by, t),
}
clocks = spec("H100 SXM", "fp32") / (2 * 128)  # a second, of all multiprocessors
a_clock = spec("H100 SXM", "bandwidth") / clocks  # bytes for each of its 132


def passes(adds, words):
    banks = [words[w : w + 32][adds[w : w + 32]] % 32 for w in range(0, 128, 32)]
    return [np.bincount(each).max() for each in banks if each.size]


in_tree, rows = {}, []
for name, rule in RULES.items():
    counts = [passes(*rule(by)) for by in distances]
    in_tree[name] = sum(map(sum, counts))
    model = min(1, 4 * 128 / a_clock / (4 + 3 * in_tree[name]))
    cells = (f"{len(each)}/{sum(each)}" for each in counts)
    rows.append((name, str(in_tree[name]), f"{model:.0%}", *cells))
rows.append(("atomic, each number", "–", f"{4 / (132 * a_clock):.1%}", *["–"] * 7))

# %%

head = ("tree", "passes", "model", *(f"by {by}" for by in distances))
caption = "128 threads with a number each; for each distance: warps/passes"
show_table(caption, head, rows)

# %%
# Moving the threads together frees the warps but gains nothing, because their words
# fall into the same banks. Only the *sequential* tree, where the first half adds the
# second half to itself, has neither fault. With two numbers or more for each thread,
# the model gives every tree the full bandwidth: there is one tree a block, however many
# numbers its threads bring.
#
# Across the lanes of a warp
# --------------------------
#
# A warp can do without shared memory. Its threads, or *lanes*, can hand numbers to each
# other from register to register, which is called a :term:`shuffle`. Each lane gets,
# from ``shfl_down_sync(mask, value, by)``, the ``value`` of the lane whose number is
# higher by ``by`` (or its own if there is none). The mask has a bit for each lane that
# takes part. All of them must reach the call, so never put it inside an ``if`` that
# splits a warp, and launch whole warps.


@cuda.jit(device=True)
def over_lanes(value):
    by = 16
    while by > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, by)
        by //= 2
    return value


@cuda.jit
def shuffled(x, out):
    part = cuda.shared.array(32, np.float32)
    lane, warp = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    value = over_lanes(my_share(x))
    if lane == 0:
        part[warp] = value
    cuda.syncthreads()
    if warp == 0:
        value = part[lane] if lane < cuda.blockDim.x // 32 else np.float32(0)
        value = over_lanes(value)
        if lane == 0:
            out[cuda.blockIdx.x] = value


# %%
# Each warp turns 32 numbers into one, and the first warp adds what came of that. One
# barrier is left, where the tree had one a round. (Numba's simulator knows no shuffles,
# but this site's ``trace`` does.)


# folded: 32 lanes in NumPy, to check the tracer
def lanes_in_numpy(lanes):
    for by in (16, 8, 4, 2, 1):
        lanes = lanes + np.append(lanes[by:], lanes[-by:])  # no lane there: its own
    return lanes


lanes, out = rng.random(32, dtype=f32), np.zeros(1, dtype=f32)
trace(shuffled, 1, 32, lanes, out)
print("trace and NumPy agree to the last bit:", out[0] == lanes_in_numpy(lanes)[0])

# %%
# Check
# -----
#
# All kernels must be right on odd sizes. Outputs hold -1 where a kernel must not add to
# them, and ``math.fsum`` rounds only once, at the end:

staged = {"strided": block_sums(strided), "sequential": block_sums(sequential)}
staged["shuffles"] = shuffled
atomic = {"atomic, a block": block_sums(sequential, atomic=True)}
atomic["atomic, each"] = atomic_each

for name, kernel in (staged | atomic).items():
    for x in (rng.random(n, dtype=f32) for n in (33, 501)):
        out = sums = np.full(2, -1 if name in staged else 0, dtype=f32)
        seen = [trace(kernel, 2 if name in staged else 4, 128, x, sums)]
        if name in staged:
            out = np.full(1, -1, dtype=f32)
            seen.append(trace(kernel, 1, 128, sums, out))
        assert not any(each.problems for each in seen), f"{name} has a race"
        assert abs(out[0] / math.fsum(x) - 1) < 1e-6, f"{name} is wrong"
print("All are right, and without a race.")

# %%
# Order and error
# ---------------
#
# Now the second question. *:term:`Kahan`'s* sum adds in each step what the last
# rounding lost.

from numba import njit, prange


@njit
def one_by_one(x):
    total = np.float32(0)
    for i in prange(x.size):  # range, until somebody asks for all cores
        total += x[i]
    return total


@njit
def kahan(x):
    total = lost = np.float32(0)
    for i in range(x.size):
        given = x[i] - lost
        grown = total + given
        lost = (grown - total) - given
        total = grown
    return total


ones = np.ones(2**25, dtype=f32)
print(f"one by one {one_by_one(ones):,.0f}, Kahan {kahan(ones):,.0f}")

# %%
# The first stops at :math:`2^{24}`. From there on ``float32`` numbers are 2 apart, so
# that adding one changes nothing. An atomic sum of many numbers adds one by one, too,
# and can therefore be wrong in its first digit.
#
# How does the error grow before that? An addition rounds the sum so far, and is off by
# a fifth of an eps on average, as :doc:`/tutorials/2_devices/13_precision` found: call
# that, of the result's usual size, *one rounding*. Independent errors add in
# quadrature, and :math:`k` random numbers around zero have a sum of size :math:`\sqrt
# k`. So the error, in roundings, is for
#
# - *one by one*, which rounds all sums so far,
#   :math:`\sqrt{1 + 2 + \ldots + n}/\sqrt n`, which is about :math:`\sqrt{n/2}`;
# - *a tree*, where in each of the :math:`\log_2 n` rounds the squares of what is
#   rounded add up to :math:`n`, :math:`\sqrt{\log_2 n}`;
# - *two stages* with :math:`P` threads, which do both,
#   :math:`\sqrt{n/(2P) + \log_2 P}`;
# - *Kahan*, or a sum in ``float64``, with only the last rounding, 1.
#
# Equal numbers are rounded the same way for long stretches, so their errors are not
# independent: one by one, they add up as :math:`n`, and the worst case is half an eps
# each time. For the two stages, take 16 blocks of 128 threads, as *Measure* has on each
# multiprocessor.

P = 16 * 128


def tree_sum(x):
    while len(x) > 1:
        x = x[: len(x) // 2] + x[len(x) // 2 :]
    return x[0]


def two_stages(x):  # each thread one by one, then a tree of blocks and of their sums
    return tree_sum(x.reshape(-1, min(P, len(x))).sum(axis=0))


def in_float64(x):
    return f32(np.sum(x, dtype=float))


def both(n):
    return (n / (2 * P) + np.log2(np.minimum(n, P))) ** 0.5


WAYS = {  # how to add, the model in roundings, what to call it, and a look
    "one by one": (one_by_one, lambda n: (n / 2) ** 0.5, "loop: $\\sqrt{n}$", "o"),
    "two stages": (two_stages, both, "two stages", "s"),
    "tree": (tree_sum, lambda n: np.log2(n) ** 0.5, "tree: $\\sqrt{\\log n}$", "D"),
    "Kahan": (kahan, lambda n: n**0, "", "^"),
    "float64": (in_float64, lambda n: n**0, "Kahan, or float64", "x"),
}

# %%

EPS, sizes = 2.0**-23, 2 ** np.arange(4, 21, 2)
errors = {name: [] for name in WAYS}
for n in sizes:
    times = max(8, min(32, 2**16 // n))
    drawn = [rng.standard_normal(n, dtype=f32) for _ in range(times)]
    exact = np.array([math.fsum(x.tolist()) for x in drawn])
    for name, (add, *_) in WAYS.items():
        off = np.array([add(x) for x in drawn], dtype=float) - exact
        errors[name].append(np.sqrt(np.mean(off**2) / n))
lost = {name: errors[name][-1] / (0.2 * EPS) for name in WAYS}  # in roundings
one, two, tree = (lost[name] for name in ("one by one", "two stages", "tree"))
colours = (ORANGE, GREEN, BLUE, PURPLE, GREY)
sevens = [np.full(n, f32(0.7)) for n in sizes]  # all are equal
equal = [abs(one_by_one(x) / np.sum(x, dtype=float) - 1) for x in sevens]

# %%

# figure
# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
ax.plot(sizes, equal, "*", color=RED, ms=11)
ax.plot(sizes, sizes * EPS / 2, "k--", lw=1)
end, style = 1.7 * sizes[-1], {"va": "center", "size": 11}
ax.text(end, equal[-1], "loop, equal numbers: $n$", color=RED, **style)
ax.text(end, sizes[-1] * EPS / 2, "its worst case", **style)
for (name, (_, model, words, marker)), colour in zip(
    WAYS.items(), colours, strict=True
):
    ax.plot(sizes, 0.2 * EPS * model(sizes), "k--", lw=1)
    ax.plot(sizes, errors[name], marker, color=colour, ms=7, mew=1.5)
    ax.text(end, errors[name][-1], words, color=colour, **style)
ax.set(xscale="log", yscale="log", xlim=(10, 1.4 * sizes[-1]))
ax.set(ylim=(8e-9, 0.3), xticks=[1e2, 1e4, 1e6])
ax.set_xlabel("how many numbers (dashed: models)")
ax.spines[["top", "right"]].set_visible(False)
ax.set_ylabel("error, of the result's usual size")
title = f"The kernel to copy loses {two:.0f} roundings where a loop loses {one:.0f}"
ax.set_title(title, loc="left")
fig.set_label(
    "Error of sums against how many numbers are added, logarithmic axes. Equal numbers "
    "one by one grow as n, below the worst case; random ones as the root of n; a tree "
    f"hardly grows; Kahan and float64 stay level. At {sizes[-1]:,} numbers one by one "
    f"errs by {one:.0f} roundings, two stages by {two:.0f}, a tree by {tree:.1f}."
)
plt.show()

# %%
# Random numbers follow the models roughly, and equal numbers stay below their worst
# case. So what makes a GPU's sum fast makes it *more* exact: if it differs from that of
# a plain loop, the GPU's is as a rule the better one.
#
# Is the sum the same each time?
# ------------------------------
#
# Rounding depends on the order, and atomic additions come in any order. Here are 128
# blocks of 128 pixels, added five hundred times: one by one in a new order each time,
# as atomic additions might come; the sums of blocks in a new order; and two stages,
# whose order is part of the program. (An :term:`ulp` is a unit in the last place.)

pixels = rng.random(128 * 128, dtype=f32)
of_blocks = tree_sum(pixels.reshape(128, 128).T)
runs = {
    "atomic, each": [one_by_one(rng.permutation(pixels)) for _ in range(500)],
    "atomic, a block": [one_by_one(rng.permutation(of_blocks)) for _ in range(500)],
    "two stages": [one_by_one(of_blocks) for _ in range(500)],
}
different = {name: len(set(sums)) for name, sums in runs.items()}
exact, ulp = math.fsum(pixels.tolist()), float(np.spacing(f32(pixels.sum())))
rows = []
for name, sums in runs.items():
    low, high = ((end - exact) / ulp for end in (min(sums), max(sums)))
    rows.append((name, str(different[name]), f"{low:+.1f} to {high:+.1f} ulp"))
head = ("order", "different sums", "off by")
show_table("500 sums of the same numbers", head, rows)

# %%
# That answers the third question: it depends on whether the *program* or the *clock*
# sets the order. (A GPU varies it less than this.) PyTorch has a switch,
# ``torch.use_deterministic_algorithms(True)``. On a CUDA GPU, `its
# documentation`__ says, ``index_add`` and ``scatter_add_`` then take a fixed order, and
# ``bincount`` with weights, ``histc`` and ``cumsum`` of floats raise an error.
# ``torch.sum`` is not on either list.
#
# __ https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html
#
# Measure
# -------
#
# On any computer: NumPy, the plain loop on one core and on all (allowed to reorder the
# sum), and PyTorch. The numbers take 128 MiB, which some CPUs' last caches hold, in
# part or whole: a sum may be faster than memory (*above-roof*, *in-cache*). On a GPU,
# the kernels sum data that no cache holds (one atomic addition a number gets fewer: it
# takes long).

import torch

from firstlight import Bench, best_device

all_cores = njit(parallel=True, fastmath={"reassoc", "nsz"})(one_by_one.py_func)
device = best_device()
on_gpu = not simulated() and device.type == "cuda"  # Numba's kernels need NVIDIA's
bench = Bench("reductions", budget=10 if on_gpu else 1.5)
rows = {"NumPy": np.sum, "Numba, one by one": one_by_one, "Numba, all cores": all_cores}
for name, add in rows.items():
    bench.time(name, add, ones, n=ones.size, bytes=ones.nbytes)

# %%

# folded: On a GPU: all ways of this page, their blocks and arrays


def stages(kernel, grids, *arrays):
    """Launch once for each grid, each time on what came out before."""
    for blocks, d_x, d_out in zip(grids, arrays, arrays[1:], strict=False):
        kernel[blocks, 128](d_x, d_out)


t_x, ways = torch.from_numpy(ones), {}
if device.type != "cpu":
    t_x = torch.rand(2**27 + 1, device=device)  # 4 x the L2 of any GPU of today
if on_gpu:
    few = 16 * torch.cuda.get_device_properties(device).multi_processor_count
    many = blocks_for(len(t_x), 128)
    d_x, d_out = cuda.as_cuda_array(t_x), cuda.to_device(np.zeros(1, dtype=f32))
    d_few, d_many = (cuda.device_array(blocks, f32) for blocks in (few, many))
    for name, kernel in staged.items():
        ways[name] = kernel, (few, 1), d_x, d_few, d_out
        ways[f"{name}, one each"] = kernel, (many, few, 1), d_x, d_many, d_few, d_out
    for name, blocks in {"atomic, a block": few, "atomic, each": many}.items():
        ways[name] = atomic[name], (blocks,), d_x, d_out

# %%

# folded: PyTorch's sum, and on a GPU the kernels: times, and do their sums repeat?

size = {"n": len(t_x), "bytes": 4 * len(t_x), "device": device}
bench.time("torch.sum", torch.sum, t_x, **size)
right = t_x.sum(dtype=torch.float64).item() if on_gpu else 0
for name, way in ways.items():
    timed, m, launches = way, len(t_x), 20
    if name == "atomic, each":  # one address: as slow as it gets
        m, launches = len(t_x) // 16, 2
        timed = way[0], (blocks_for(m, 128),), d_x[:m], d_out
    bench.time(name, stages, *timed, n=m, bytes=4 * m, device=device)
    sums = []
    for _ in range(launches):
        d_out.copy_to_device(np.zeros(1, dtype=f32))
        stages(*way)
        sums.append(float(d_out.copy_to_host()[0]))
    distinct = f"{len(set(sums))} different in {launches}"
    print(f"{name}: {sums[0] / right:.6f} of the sum, {distinct}")

# %%

bench.show()

# %%
# With a GPU, the per cent beside a rate compares it with plain copies. The model
# expects all trees near 100%, with ``torch.sum``, if a thread has many numbers; with
# *one each*, ``strided`` behind ``sequential``; and one atomic addition a number far
# behind, with a wrong sum.
#
# The same trees on an A100, by infra-practices, and the same atomics on a small card,
# by R100001. The order is as we predict, and the trees are slower.
#
# .. measured-by-others:: tree-strided-a100 tree-sequential-a100 two-stages-a100
#    atomics-gtx1650
#
# Where this stops being true
# ---------------------------
#
# - *Few numbers.* Then the overhead of two launches outweighs the additions. And
#   transferring a CPU's data to a GPU for their sum alone rarely pays.
# - *Many short sums*, one for each row: use a warp a row, and no second stage.
# - *Integer sums and maxima* are never rounded. Any order gives the same.
# - *:term:`Cancellation <cancellation>`.* What is left when large numbers cancel keeps
#   their error. Add in ``float64``.
# - *Other makers.* AMD's warps have up to 64 lanes. Do not write 32 into code for them.
#
# Exercise
# --------
#
# 128 is a power of two for a reason. Write a tree that is right for *any* number ``n``
# of threads in a block. ``sequential`` is not, as ``check`` will tell you.

# folded: What check does


def check(tree):
    if not hasattr(tree, "__getitem__"):
        return "Not yet: put @cuda.jit(device=True) above the function."
    for n in (64, 96, 33, 1):
        ones, out = np.ones(n, dtype=f32), np.zeros(1, dtype=f32)
        try:
            seen = trace(block_sums(tree, n), 1, n, ones, out, limit=100_000)
        except Exception as error:
            return f"Not yet. {n} threads: {type(error).__name__}: {error}"
        odd = n // (n & -n)  # what halving comes to
        left = f"Halving comes to {odd}: who is left over then?"
        hint = left if odd > 1 else "Are there enough rounds?"
        hint = hint if out[0] < n else "Who counts twice?"
        if seen.problems:
            return f"Not yet. {n} threads: {seen.problems[0]}"
        if out[0] != n:
            return f"Not yet. {n} threads: {n} ones make {out[0]:g}. {hint}"
    return "Right, for any number of threads."


# %%

print(check(sequential))

# %%
# Three :doc:`puzzles </tutorials/3_kernels/14_puzzles>` ask for more: ``block sum``,
# ``dot`` and ``warp sum``.
#
# Three lines to remember
# -----------------------

# remember
print(
    f"""1. Let each thread add many numbers, then use a tree or shuffles, then a second
launch. A tree takes {in_tree["strided"]} passes through shared memory if it is strided,
{in_tree["sequential"]} if it is sequential.
2. Added one by one, {sizes[-1]:,} random numbers are off by {one:.0f} roundings (fifths
of an eps); in two stages with {P:,} threads by {two:.0f}; in a tree by {tree:.1f}.
3. Fix the order, and the sum repeats: two stages gave {different["two stages"]} result,
atomic additions in shuffled orders {different["atomic, each"]}."""
)

# %%
# Solution
# --------

# solution


@cuda.jit(device=True)
def any_tree(part, t, n):
    while n > 1:
        half = (n + 1) // 2
        if t + half < n:
            part[t] += part[t + half]
        cuda.syncthreads()
        n = half


print(f"Our solution: {check(any_tree)}")
