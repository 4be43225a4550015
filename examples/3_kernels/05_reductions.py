"""
How do a million threads make one number?
=========================================

A sum seems to need somebody who adds one number after another. On a GPU a million
threads add, and none goes first. You will let them, in five ways, and find that the
*order* of a sum decides three things at once: how long it takes, how many digits are
right, and whether you get the same number tomorrow.

**You will learn**

- to add with atomic operations, in a tree, across a warp, and in two stages;
- why the addresses of a tree matter, and when they cease to;
- to predict the error of a sum from its order;
- which sums differ from run to run, and how to stop that.

**Time:** 20 minutes. **Needs:** any computer, and :doc:`shared memory
</tutorials/3_kernels/04_shared_memory>`. With a CUDA GPU, all ways are timed on it.
"""

# %%
# Predict
# -------
#
# To make one number of many is called a *reduction*: a sum, a mean, a maximum. Each
# number is read once and used once, so memory sets the least time. Write down three
# answers:
#
# - How long does an H100 take at least for :math:`2^{28}` numbers in ``float32``?
# - Add :math:`2^{25}` ones in ``float32``, one after another. What comes out?
# - Launch the same sum of the same numbers twice. Are the results equal, bit for bit?

from firstlight.measure.specs import spec

for card in ("GTX 1650", "RTX 4090", "H100 SXM"):
    print(f"{card:>8}: never under {4e3 * 2**28 / spec(card, 'bandwidth'):.2f} ms")

# %%
# Everybody at once, or in a tree
# -------------------------------
#
# With ``out[0] += x[i]`` two threads can read the same old sum; then one addition is
# lost. An *atomic* addition lets nobody come between its reading and its writing.
# Nothing is lost. But it is a queue: additions to one address come one after the other,
# and `the order is undefined`__. Remember both halves of that sentence.
#
# Better: half of the threads add a second number to their own, then half of those, and
# so on. That makes one of 1024 numbers in 10 rounds. A block can do it in shared
# memory. Which half? The first idea is often every other thread:
#
# __ https://docs.nvidia.com/gameworks/content/developertools/desktop/analysis/report/cudaexperiments/kernellevel/memorystatisticsatomics.htm

import math

import matplotlib.pyplot as plt
import numpy as np

from firstlight.kernels import blocks_for, cuda, ptx, simulated, trace


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


@cuda.jit(device=True)
def sequential(part, t, n):
    by = n // 2
    while by > 0:
        if t < by:
            part[t] += part[t + by]
        cuda.syncthreads()
        by //= 2


# %%
# Both trees add as often. But a warp works as a whole: if one of its 32 threads adds,
# the others wait with it. ``strided`` keeps all warps at work. Let its threads move
# together, then, so that thread ``t`` adds to ``part[2 * by * t]``? Mind the *banks*:
# word ``w`` lies in bank ``w % 32``, and a bank gives one word at a time. So a warp
# takes a *pass*, and one more for each word too many in its busiest bank. Count, for
# 128 threads: at distance ``by``, which of them add, and to which word? And a *model*:
# how much of an H100's bandwidth does that leave, if each thread brings one number? A
# round takes its passes three times (two loads, a store), and a pass takes a clock.
# Assume that an atomic addition to one address takes a clock of the whole card.

t, distances = np.arange(128), [2**k for k in range(7)]  # 1, 2, 4 ... 64
RULES = {
    "strided": lambda by: (t % (2 * by) == 0, t),
    "strided addresses": lambda by: (2 * by * t < 128, 2 * by * t),
    "sequential": lambda by: (t < by, t),
}
clocks = spec("H100 SXM", "fp32") / (2 * 128)  # a second, of all multiprocessors
a_clock = spec("H100 SXM", "bandwidth") / clocks  # bytes for each of its 132


def passes(adds, words):
    banks = [words[w : w + 32][adds[w : w + 32]] % 32 for w in range(0, 128, 32)]
    return [np.bincount(each).max() for each in banks if each.size]


in_tree = {}
print("warps/passes at distance", *(f"{by:>3}" for by in distances), " passes  model")
for name, rule in RULES.items():
    counts = [passes(*rule(by)) for by in distances]
    in_tree[name] = sum(map(sum, counts))
    model = min(1, 4 * 128 / a_clock / (4 + 3 * in_tree[name]))
    cells = (f"{len(each)}/{sum(each)}" for each in counts)
    print(f"{name:>24}", *cells, f"{in_tree[name]:7} {model:6.1%}")
print(f"{'atomic, each number':>24} {4 / (132 * a_clock):42.1%}")

# %%
# To move the threads together frees the warps, and gains nothing: their words fall into
# the same banks. Only the *sequential* tree, where the first half adds the second half
# to itself, has neither fault. (The model leaves out all waiting at barriers; expect
# less.) The atomic sum is out of the question.
#
# Two stages
# ----------
#
# A tree is made once a block, however many numbers its threads bring. So let them bring
# many: before the tree, each thread adds up its own share, every ``gridsize``-th
# number. With four, the model gives every tree 100 %. Blocks cannot wait for each
# other. So the kernel ends, and a second launch of the *same* kernel, with one block,
# adds the sums of the first. (Or each block makes one atomic addition; then somebody
# has to clear ``out`` before.)


@cuda.jit(device=True)
def my_share(x):
    total, step = np.float32(0), cuda.gridsize(1)
    i = cuda.grid(1)
    while i < x.size:
        total += x[i]
        i += step
    return total


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


# %%
# Across the lanes of a warp
# --------------------------
#
# A warp can do without shared memory. Its threads, or *lanes*, can hand numbers to each
# other from register to register: a *shuffle*. ``shfl_down_sync(mask, value, by)``
# returns the ``value`` of the lane ``by`` places above me (my own if there is none).
# The mask has a bit for each lane that takes part. All of them must come by, so never
# put it below an ``if`` that divides a warp.


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
# Each warp makes one number of 32, and the first warp makes one of those. One barrier
# is left, where the tree had one a round. Numba's simulator knows no shuffles; the
# tracer does. As a second opinion, here are 32 lanes in NumPy:


def lanes_in_numpy(lanes):
    for by in (16, 8, 4, 2, 1):
        lanes = lanes + np.append(lanes[by:], lanes[-by:])  # no lane there: its own
    return lanes


f32, rng = np.float32, np.random.default_rng(seed=1)
lanes, out = rng.random(32, dtype=f32), np.zeros(1, dtype=f32)
trace(shuffled, 1, 32, lanes, out)
print("trace and NumPy agree to the last bit:", out[0] == lanes_in_numpy(lanes)[0])

# %%

BLUE, ORANGE, RED, GREY = "#2e7ab0", "#e8a33d", "#c8405a", "#8a9199"
fig, ax = plt.subplots(figsize=(5.6, 2.9), layout="constrained")
for row, by in enumerate((16, 8, 4, 2, 1)):
    for lane in range(32):
        look = {"color": BLUE, "lw": 1.6} if lane < by else {"color": GREY, "ls": ":"}
        for source in (lane, lane + by if lane + by < 32 else lane):
            ax.plot([source, lane], [row, row + 1], zorder=by - lane, **look)
ax.set_yticks(range(6), ["numbers", "by 16", "by 8", "by 4", "by 2", "by 1"])
ax.set(xlabel="lane", xticks=[0, 8, 16, 24, 31], ylim=(5.2, -0.2))
ax.spines[["top", "right", "left"]].set_visible(False)
fig.set_label(
    "Five rounds of shuffles over 32 lanes. Solid lines lead from all 32 numbers into "
    "16, 8, 4, 2 lanes, and end in lane 0. Dotted lines: what other lanes add in vain."
)
plt.show()

# %%
# Solid lines lead to lane 0, the only one with the sum: a sequential tree again. The
# other lanes come along and add as well. Lane 31 adds its own number, five times over.
#
# Check
# -----
#
# Odd sizes, two stages, outputs that hold -1 where a kernel must not add to them, and
# ``math.fsum``, which rounds only once, at the end:

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
print("All are right, and without a race. As compiled for two capabilities:")

SHOWN = ("ld.global.f32", "bar.sync", "shfl.sync.down.b32", "atom.global.add.f32")
try:
    for name, kernel in (staged | atomic).items():
        for cc in ((7, 5), (9, 0)):
            code = ptx.compile(kernel, "float32[::1], float32[::1]", cc)
            found = ", ".join(f"{code.mix[k]} {k}" for k in SHOWN if code.mix[k])
            print(f"{name:>15} {cc[0]}.{cc[1]}: {found}")
except ptx.NoCompilerError as missing:
    print(missing)

# %%
# The compiler knows ``n``, so it wrote out all rounds of a tree: seven barriers, and
# one before. One load in the source became five: four in an unrolled loop, one for the
# rest. So a thread has four loads under way before it adds, which a fast memory needs
# (:doc:`/tutorials/3_kernels/08_bytes_in_flight`). With that and many numbers a thread,
# the prediction for a GPU is 85 % of what plain copies reach, or more.
#
# Order and error
# ---------------
#
# Now the second question. *Kahan's* sum keeps what each rounding lost, and gives it
# back in the next step.

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
# The first stops at :math:`2^{24}`. From there on ``float32`` numbers are 2 apart, and
# a one is rounded away, each time. So an atomic sum of many numbers is not only slow.
# It adds one by one, too, and can be wrong in its first digit.
#
# How does the error grow before that? An addition rounds the sum so far, and is off by
# a fifth of an eps on average, as :doc:`/tutorials/2_devices/09_precision` found.
# Independent errors add as squares. Take random numbers around zero: :math:`k` of them
# have a sum of size :math:`\sqrt k`. In fifths of an eps, and of the result's size:
#
# - *one by one* rounds all sums so far: :math:`\sqrt{1 + 2 + \ldots + n}/\sqrt n`,
#   which is :math:`\sqrt{n/2}`;
# - *a tree* rounds in each round numbers whose squares add up to the same:
#   :math:`\sqrt{\log_2 n}`;
# - *two stages* with :math:`P` threads do both: :math:`\sqrt{n/2P + \log_2 P}`;
# - *Kahan*, or a sum in ``float64``, has only the last rounding: 1.
#
# Where roundings are *not* independent, errors themselves add. Equal numbers are all
# rounded the same way, so one by one they err as :math:`n`. That is the worst case, at
# half an eps each time. (A tree's worst case is :math:`\log_2 n`.)


def tree_sum(x):
    while len(x) > 1:
        x = x[: len(x) // 2] + x[len(x) // 2 :]
    return x[0]


WAYS = {  # how to add, the model in fifths of an eps, its name, and a look
    "one by one": (one_by_one, lambda n: np.sqrt(n / 2), "$\\sqrt{n}$", "o", ORANGE),
    "tree": (tree_sum, lambda n: np.sqrt(np.log2(n)), "$\\sqrt{\\log n}$", "D", BLUE),
    "Kahan": (kahan, lambda n: n**0, "", "^", "#8e5bb5"),
    "float64": (lambda x: f32(np.sum(x, dtype=float)), lambda n: n**0, "1", "x", GREY),
}
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

# %%

sevens = [np.full(n, f32(0.7)) for n in sizes]
equal = [abs(one_by_one(x) / np.sum(x, dtype=float) - 1) for x in sevens]
fig, ax = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
ax.plot(sizes, equal, "*", color=RED, ms=11, label="one by one, all equal")
ax.plot(sizes, sizes * EPS / 2, "k--", lw=1, label="models")
ax.text(1.6 * sizes[-1], 0.5 * EPS * sizes[-1], "n", va="center")
for name, (_, model, words, marker, colour) in WAYS.items():
    ax.plot(sizes, 0.2 * EPS * model(sizes), "k--", lw=1)
    ax.text(1.6 * sizes[-1], 0.2 * EPS * model(sizes[-1]), words, va="center")
    look = {"marker": marker, "color": colour, "ms": 7, "mew": 1.5, "ls": ""}
    ax.plot(sizes, errors[name], label=name, **look)
ax.set(xscale="log", yscale="log", xlabel="how many numbers", ylim=(8e-9, 0.3))
ax.set_ylabel("error, of the result's usual size")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=9, loc="upper left")
fig.set_label(
    "Error of sums against how many numbers are added, logarithmic axes. Equal numbers "
    "one by one grow as n, below the worst case; random ones as the root of n; a tree "
    f"hardly grows; Kahan and float64 stay level. At {sizes[-1]:,} numbers one by one "
    f"errs by {lost['one by one']:.0f} roundings, a tree by {lost['tree']:.1f}."
)
plt.show()

# %%
# The errors follow the lines. (Equal numbers run along below the worst case.) What
# makes a GPU's sum fast makes it *more* exact: if it differs from that of a plain loop,
# the GPU's is as a rule the better one. And a ``float64`` for each thread's own share
# costs little where memory decides.
#
# Tomorrow's sum
# --------------
#
# Rounding depends on the order, and atomic additions come in any. So shuffle it, with a
# seed. Here are 128 blocks of 128 pixels, five hundred times: one by one in a new order
# each time, as atomic additions might come; the sums of blocks in a new order; and two
# stages, whose order is part of the program. (An *ulp* is a unit in the last place.)

pixels = rng.random(128 * 128, dtype=f32)
of_blocks = tree_sum(pixels.reshape(128, 128).T)
runs = {
    "atomic, each": [one_by_one(rng.permutation(pixels)) for _ in range(500)],
    "atomic, a block": [one_by_one(rng.permutation(of_blocks)) for _ in range(500)],
    "two stages": [one_by_one(of_blocks) for _ in range(500)],
}
different = {name: len(set(sums)) for name, sums in runs.items()}
exact, ulp = math.fsum(pixels.tolist()), float(np.spacing(f32(pixels.sum())))
for name, sums in runs.items():
    low, high = ((end - exact) / ulp for end in (min(sums), max(sums)))
    print(f"{name:>15}: {different[name]:3} sums, off by {low:+.1f} to {high:+.1f} ulp")

# %%
# That answers the third question: it depends on whether the *program* or the *clock*
# sets the order. (A GPU mixes less than this. It shows what is allowed.) NVIDIA's
# library `lets you choose`__ how far a sum must repeat. PyTorch has a switch,
# ``torch.use_deterministic_algorithms(True)``. On a CUDA GPU, `its documentation`__
# says, ``index_add`` and ``scatter_add_`` then take a fixed order, and ``bincount``
# with weights, ``histc`` and ``cumsum`` raise an error. ``torch.sum`` is not among
# those that need it.
#
# __ https://developer.nvidia.com/blog/controlling-floating-point-determinism-in-nvidia-cccl/
# __ https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html
#
# Measure
# -------
#
# On any computer: NumPy, the plain loop on one core and on all (there with leave to
# change the order), and PyTorch. On a GPU, all ways of this page, on data that no cache
# holds. (Triton needs a process of its own: :doc:`/tutorials/3_kernels/10_triton`.)

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

size = {"n": len(t_x), "bytes": 4 * len(t_x), "device": device}
bench.time("torch.sum", torch.sum, t_x, **size)
right = t_x.sum(dtype=torch.float64).item() if on_gpu else 0
for name, way in ways.items():
    bench.time(name, stages, *way, **size)
    sums = []
    for _ in range(20):
        d_out.copy_to_device(np.zeros(1, dtype=f32))
        stages(*way)
        sums.append(float(d_out.copy_to_host()[0]))
    print(f"{name}: {sums[0] / right:.6f} of the sum, {len(set(sums))} different")
bench.show()

# %%
# One by one keeps even a core from its best: it has units that add eight numbers at
# once, and the compiler may not use them, as that would change the order.
#
# With a GPU, *of roof* compares with plain copies. Look for 85 % in the rows with many
# numbers a thread, beside ``torch.sum``. How much does the tree matter there, and how
# much with one number each? And is the atomic sum right at all?
#
# Where this stops being true
# ---------------------------
#
# - *Few numbers.* To launch twice takes longer than to add some thousands. And to bring
#   a CPU's data to a GPU for their sum alone rarely pays.
# - *Many short sums*, one for each row: a warp a row, and no second stage.
# - *Whole numbers and maxima* are never rounded. Any order gives the same.
# - *Cancellation.* What is left of large numbers keeps their error. Add in ``float64``.
# - *Other makers.* AMD's warps have up to 64 lanes. Write no 32 into code for them.
#
# Exercise
# --------
#
# 128 is a power of two for a reason. Write a tree that is right for *any* number ``n``
# of threads in a block. ``sequential`` is not, as ``check`` will tell you.


def check(tree):
    if not hasattr(tree, "__getitem__"):
        return "Not yet: put @cuda.jit(device=True) above the function."
    for n in (64, 96, 33, 1):
        ones, out = np.ones(n, dtype=f32), np.zeros(1, dtype=f32)
        try:
            seen = trace(block_sums(tree, n), 1, n, ones, out, limit=100_000)
        except Exception as error:
            return f"Not yet. {n} threads: {type(error).__name__}: {error}"
        hint = "Who is left over when n is odd?" if out[0] < n else "Who counts twice?"
        if seen.problems:
            return f"Not yet. {n} threads: {seen.problems[0]}"
        if out[0] != n:
            return f"Not yet. {n} threads: {n} ones make {out[0]:g}. {hint}"
    return "Right, for any number of threads."


print(check(sequential))

# %%

# solution


@cuda.jit(device=True)
def any_tree(part, t, n):
    while n > 1:
        half = (n + 1) // 2
        if t + half < n:
            part[t] += part[t + half]
        cuda.syncthreads()
        n = half


print(check(any_tree))

# %%
# Three puzzles ask for more: ``PUZZLES["block sum"]``, ``PUZZLES["dot"]`` and
# ``PUZZLES["warp sum"]``, from ``firstlight.kernels.puzzles``.
#
# Three lines to remember
# -----------------------

print("1. Many numbers a thread, then a tree or shuffles, then a second launch. A tree")
print("   takes {strided} passes if strided, {sequential} if not.".format(**in_tree))
print(f"2. {sizes[-1]:,} random numbers, one by one: off by {lost['one by one']:.0f}")
print(f"   roundings; in a tree, by {lost['tree']:.1f}.")
print("3. Who sets the order? Atomic additions in shuffled orders gave")
print(f"   {different['atomic, each']} different sums; two stages gave one.")
