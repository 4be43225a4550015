"""
How do a million threads make one number?
=========================================

Your image has just been computed on the GPU, and now you want its total flux: one
number out of a hundred million. With NumPy it would be one call. On the GPU, the
numbers are spread over thousands of :term:`threads <thread>`, none of which knows
what the others have.

**Write down two guesses.** If each thread adds its number to the same sum, one after
the other, what does that cost? And is the sum right? By the end you'll have a sum that
is as fast as PyTorch's, and you'll know how many of its digits to believe.

**Needs:** :doc:`shared memory
</tutorials/3_kernels/07_shared_memory>`. With an NVIDIA GPU, all sums are timed on it.
"""

# %%
# If a library will do
# --------------------
#
# Making one number out of many is called a :term:`reduction`. If yours is a sum, a
# mean, a maximum or the place of a maximum, somebody has written it already: call
# ``torch.sum``, ``torch.max`` or ``torch.argmax``, or the functions of the same names
# in CuPy. For a sum of each row, it's ``torch.sum(x, dim=1)``. And if you need one of
# your own, Numba makes it out of a function of two numbers:

import math

import numpy as np
from numba import cuda

from firstlight_kernels import blocks_for, simulated, trace


@cuda.reduce
def add_all(a, b):
    return a + b


@cuda.reduce
def largest(a, b):
    return max(a, b)


values = cuda.to_device(np.array([-3, -1, -2], dtype=np.float32))
print("sum:", add_all(values))
print("largest:", largest(values), "or", largest(values, init=-np.inf))

# %%
# Did you see it? The largest of -3, -1 and -2 isn't 0. ``cuda.reduce`` begins with 0
# unless you give it another ``init``. So give it one that changes nothing: 0 for a sum,
# 1 for a product, minus infinity for a maximum. It also takes your numbers in groups
# and in another order, so the function must be *associative* and *commutative*. With
# ``a - b`` or ``a + 20 * b`` a GPU gives nonsense, and no error. Multiply all numbers
# first, and then add: ``x[0] + 20 * x[1:].sum()``, with CuPy or PyTorch. The simulator
# keeps the order, so a test passes there. ``cuda.reduce`` also launches 64 blocks of
# 128 threads, however long your array, and a large GPU can hold thirty times as many.
# So let's build a sum that uses them all.
#
# Everybody adds to one number
# ----------------------------
#
# The simplest kernel comes first: each thread adds its number to ``out[0]``. Our
# ``trace`` plays it thread by thread and watches every access.


@cuda.jit
def add_mine(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0] += x[i]


thousand, total = np.ones(1000, dtype=np.float32), np.zeros(1, dtype=np.float32)
print(trace(add_mine, 8, 128, thousand, total).races[0])

# %%
# That's a :term:`race`. ``out[0] += x[i]`` is three steps: read the sum, add, write it
# back. If two threads read the same old sum, both write back a sum with only *one*
# number added, and the other is lost.
#
# An :term:`atomic addition` does the three steps as one, so that no other thread comes
# in between:


@cuda.jit
def atomic_each(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, 0, x[i])


total[:] = 0
print(trace(atomic_each, 8, 128, thousand, total).races or "no race", total)

# %%
# Now no number is lost, and a thousand ones make a thousand. On an H100, for eight
# million random numbers between 0 and 1, this kernel took :timing:`reductions median
# "atomic, each" @nvidia-h100-80gb-hbm3`. And for 134 million, it found only a quarter
# of the sum! No addition was lost, there was no race, and yet three quarters were
# missing. We'll come back to them. First we'll write a kernel that adds a thousand
# numbers while this one adds one.
#
# Count as in an election
# -----------------------
#
# Imagine that all the votes of a country were counted like this: each voter walks to
# the capital and adds a stroke to one sheet of paper. Of course nobody does that. Each
# polling station counts its own votes, the districts add up what the stations report,
# and the capital adds a few numbers in the end. So let each thread count alone first.
# It starts at its own number and goes on in steps of ``gridsize``, and adds up its
# share in a :term:`register`, where nobody interferes.


@cuda.jit(device=True)
def my_share(x):
    total, step = np.float32(0), cuda.gridsize(1)
    i = cuda.grid(1)
    while i < x.size:
        total += x[i]
        i += step
    return total


# %%
# For a χ², add ``(m[i] - d[i]) ** 2 * w[i]`` in place of ``x[i]``.
#
# Then the 128 threads of a block add up what they have, in :term:`shared memory`. In
# the first round, each of the first 64 threads adds the number of a thread in the
# second half to its own. In the next round, 32 threads do so, then 16, and after seven
# rounds thread 0 has the sum.

# figure

import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREEN, GREY, ORANGE

fig, ax = plt.subplots(figsize=(7.2, 3), layout="constrained")
held = np.array([3, 1, 4, 1, 5, 9, 2, 6])
for row, by in enumerate((8, 4, 2, 1)):
    if by < 8:
        held[:by] += held[by : 2 * by]
        for thread in range(by):
            for start in (thread, thread + by):
                ax.plot((start, thread), (row - 0.72, row - 0.28), color=GREY, lw=1.5)
    for thread, number in enumerate(held):
        busy = thread < by
        look = {"fc": BLUE if busy else "none", "ec": "black" if busy else GREY}
        ax.add_patch(plt.Rectangle((thread - 0.4, row - 0.28), 0.8, 0.56, **look))
        if busy:
            style = {"ha": "center", "va": "center", "size": 12, "color": "#fefefe"}
            ax.text(thread, row, number, **style)
ax.set(xlim=(-0.6, 7.6), ylim=(3.4, -0.4), xticks=range(8))
ax.set_yticks(range(4), ["at first", "round 1", "round 2", "round 3"])
ax.set_xlabel("thread (its place in shared memory)")
ax.tick_params(length=0)
ax.spines[:].set_visible(False)
ax.set_title("Eight numbers become one in three rounds", loc="left")
fig.set_label(
    "Four rows of eight places. At first each holds a number. In each round the first "
    "half of those left add the second half to themselves, along lines drawn between "
    "the rows: eight numbers become four, then two, then one, their sum, 31."
)
plt.show()

# %%
# Such a sum is called a *tree*. After each round there is a :term:`barrier`, because
# nobody may go on before all have written. ``block_sums`` makes a kernel for any tree.


@cuda.jit(device=True)
def sequential(part, t, n):
    by = n // 2
    while by > 0:
        if t < by:
            part[t] += part[t + by]
        cuda.syncthreads()
        by //= 2


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
# Each block now reports one number. Blocks of a plain launch can't :doc:`wait for each
# other </tutorials/3_kernels/04_waves_and_blocks>`, but a second launch begins only
# when the first is done. So launch the same kernel again, on what the blocks have
# written, with one block:

f32, rng = np.float32, np.random.default_rng(seed=1)
x, add = rng.random(1001, dtype=f32), block_sums(sequential)
d_x, d_sums = cuda.to_device(x), cuda.device_array(3, f32)
d_out = cuda.device_array(1, f32)
add[3, 128](d_x, d_sums)  # first stage: three blocks, three sums
add[1, 128](d_sums, d_out)  # second stage: one block adds them
print(f"kernel: {d_out.copy_to_host()[0]:.4f}, exact: {math.fsum(x):.4f}")

# %%
# How fast can it be?
# -------------------
#
# Each number is read once and used once, so memory sets the least time. **How long does
# an H100 need at least for 134 million numbers of four bytes?**

from firstlight.timing.specs import spec

least = 4 * 2**27 / spec("H100 SXM", "bandwidth")
print(f"at least {1e6 * least:.0f} µs")

# %%
# Here is what we measured on one. The first row has another tree, in which every other
# thread adds its neighbour's number to its own.
#
# .. list-table:: The sum of 134 million numbers, on an H100
#    :header-rows: 1
#    :widths: 56 18 26
#
#    * - sum
#      - time
#      - of PyTorch's speed
#    * - one number a thread, and the neighbours' tree (``strided``, in the fold)
#      - :timing:`reductions median "strided, one each" @nvidia-h100-80gb-hbm3`
#      - :timing:`reductions share "strided, one each"/torch.sum @nvidia-h100-80gb-hbm3`
#    * - one number a thread, and the tree of the figure
#      - :timing:`reductions median "sequential, one each" @nvidia-h100-80gb-hbm3`
#      - :timing:`reductions share "sequential, one each"/torch.sum
#        @nvidia-h100-80gb-hbm3`
#    * - the same without shared memory (:term:`shuffles <shuffle>`)
#      - :timing:`reductions median "shuffles, one each" @nvidia-h100-80gb-hbm3`
#      - :timing:`reductions share "shuffles, one each"/torch.sum
#        @nvidia-h100-80gb-hbm3`
#    * - **many** numbers a thread, and the tree of the figure
#      - :timing:`reductions median sequential @nvidia-h100-80gb-hbm3`
#      - :timing:`reductions share sequential/torch.sum @nvidia-h100-80gb-hbm3`
#    * - the same, each block adding to ``out[0]`` with one atomic
#      - :timing:`reductions median "atomic, a block" @nvidia-h100-80gb-hbm3`
#      - :timing:`reductions share "atomic, a block"/torch.sum @nvidia-h100-80gb-hbm3`
#    * - PyTorch
#      - :timing:`reductions median torch.sum @nvidia-h100-80gb-hbm3`
#      - 100 %
#
# In ``strided``, each thread works out a remainder in each round, and some threads of
# each :term:`warp` add while all the others wait for them. In the tree of the figure
# whole warps are done early. It is :timing:`reductions speedup "sequential, one
# each"/"strided, one each" @nvidia-h100-80gb-hbm3` as fast.
#
# But look at the fourth row. If each thread brings many numbers, the same tree is
# :timing:`reductions speedup sequential/"sequential, one each" @nvidia-h100-80gb-hbm3`
# as fast, and reaches more than four fifths of what the data sheet allows. And with
# many numbers the clumsy tree takes :timing:`reductions median strided
# @nvidia-h100-80gb-hbm3`, practically the same. So don't polish the tree. Give each
# thread more to count. ``cuda.reduce`` took :timing:`cuda-reduce median "cuda.reduce"
# @nvidia-h100-80gb-hbm3` for the same numbers.
#
# Others measured the fourth row on an A100, and on a GTX 1650 an atomic addition for
# *every* number. Our models assume the full bandwidth, and one addition a clock cycle:
#
# .. measured-by-others:: two-stages-a100 atomics-gtx1650

# folded: The two other trees: strided, and with shuffles


@cuda.jit(device=True)
def strided(part, t, n):
    by = 1
    while by < n:
        if t % (2 * by) == 0:
            part[t] += part[t + by]
        cuda.syncthreads()
        by *= 2


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

# folded: All of them are checked on odd sizes, against an exact sum

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

# %%

# folded: On a GPU: all ways of this page, their blocks and arrays

import torch
from numba import njit, prange

from firstlight import Bench, best_device


@njit
def one_by_one(x):
    total = np.float32(0)
    for i in prange(x.size):  # range, until somebody asks for all cores
        total += x[i]
    return total


def stages(kernel, grids, *arrays):
    """Launch once for each grid, each time on what came out before."""
    for blocks, d_x, d_out in zip(grids, arrays, arrays[1:], strict=False):
        kernel[blocks, 128](d_x, d_out)


ones = np.ones(2**25, dtype=f32)
device = best_device()
on_gpu = not simulated() and device.type == "cuda"  # Numba's kernels need NVIDIA's
t_x, ways = torch.from_numpy(ones), {}
if device.type != "cpu":
    t_x = torch.rand(2**27 + 1, device=device)  # more than the caches of today
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

# folded: The timing, and on a GPU: is the sum the same at each launch?

all_cores = njit(parallel=True, fastmath={"reassoc", "nsz"})(one_by_one.py_func)
bench = Bench("reductions", budget=10 if on_gpu else 1.5)
rows = {"NumPy": np.sum, "Numba, one by one": one_by_one, "Numba, all cores": all_cores}
for name, add in rows.items():
    bench.time(name, add, ones, n=ones.size, bytes=ones.nbytes)
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
bench.show()

# %%

# folded: Numba's own reduction, on a GPU

of_numba = Bench("cuda-reduce", budget=1)
if on_gpu:
    of_numba.time("cuda.reduce", lambda: add_all(d_x, res=d_out), **size)
    assert np.isclose(d_out.copy_to_host()[0] / right, 1, rtol=1e-4)
of_numba.show()

# %%
# Where did the numbers go?
# -------------------------
#
# You don't need a GPU to find the three quarters that were missing. Let's add
# 33,554,432 ones, one after the other, in ``float32``. **What do you expect?**

print(f"{one_by_one(ones):,.0f}")

# %%
# It stops at 16,777,216, which is :math:`2^{24}`. A ``float32`` has 24 binary digits.
# From there on the next number that it can hold is 2 away, and adding 1 changes
# nothing, however often you do it. The atomic sum on the H100 also adds one number
# after the other, so it got stuck near :math:`2^{24}` as well.
#
# And the tree? It adds numbers of about the same size, ones to ones, sums to sums, so
# hardly anything is rounded away. So counting as in an election isn't only faster, it's
# also more exact. Let's see how much, for random numbers around zero, added up on the
# CPU in the same orders:


def tree_sum(x):
    while len(x) > 1:
        x = x[: len(x) // 2] + x[len(x) // 2 :]
    return x[0]


def two_stages(x, threads=2048):  # each thread one by one, then a tree of all
    return tree_sum(x.reshape(-1, min(threads, len(x))).sum(axis=0))


# %%

# folded: The errors of all ways, for 16 to a million numbers


@njit
def kahan(x):
    total = lost = np.float32(0)
    for i in range(x.size):
        given = x[i] - lost
        grown = total + given
        lost = (grown - total) - given
        total = grown
    return total


THREADS, EPS, lengths = 2048, 2.0**-23, 2 ** np.arange(4, 21, 2)


def rounding_of_both(n):
    return (n / (2 * THREADS) + np.log2(np.minimum(n, THREADS))) ** 0.5


WAYS = {  # how to add, the roundings that the model expects, what to call it, a look
    "loop": (one_by_one, lambda n: (n / 2) ** 0.5, "one by one", "o", ORANGE),
    "two": (two_stages, rounding_of_both, "two stages", "s", GREEN),
    "tree": (tree_sum, lambda n: np.log2(n) ** 0.5, "a tree alone", "D", BLUE),
    "kahan": (kahan, lambda n: n**0, "Kahan's sum", "^", GREY),
}
errors = {name: [] for name in WAYS}
for length in lengths:
    times = max(8, min(32, 2**16 // length))
    drawn = [rng.standard_normal(length, dtype=f32) for _ in range(times)]
    truth = np.array([math.fsum(each.tolist()) for each in drawn])
    for name, (way, *_) in WAYS.items():
        off = np.array([way(each) for each in drawn], dtype=float) - truth
        errors[name].append(np.sqrt(np.mean(off**2) / length))
gain = errors["loop"][-1] / errors["two"][-1]

# %%

# figure

fig, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
end, style = 1.7 * lengths[-1], {"va": "center", "size": 11}
for name, (_, model, words, marker, colour) in WAYS.items():
    ax.plot(lengths, 0.2 * EPS * model(lengths), "k--", lw=1)
    ax.plot(lengths, errors[name], marker, color=colour, ms=7, mec="black")
    ax.text(end, errors[name][-1], words, color=colour, **style)
ax.set(xscale="log", yscale="log", xlim=(10, 1.4 * lengths[-1]))
ax.set(ylim=(8e-9, 1e-4), xticks=[1e2, 1e4, 1e6])
ax.set_xlabel("how many numbers (dashed: the model)")
ax.set_ylabel("error, of the sum's usual size")
ax.spines[["top", "right"]].set_visible(False)
title = f"For a million numbers, a loop errs {gain:.0f} times as much as two stages"
ax.set_title(title, loc="left", size=12)
fig.set_label(
    "Error of sums against how many numbers are added, logarithmic axes. One by one it "
    "grows as the root of n, a tree hardly grows, two stages lie between, and Kahan's "
    f"sum stays level. At {lengths[-1]:,} numbers one by one errs {gain:.0f} times as "
    "much as two stages. The dashed lines of the model go through the points."
)
plt.show()

# %%
# So if a GPU's sum differs from a plain loop's, the GPU's is as a rule the better one.
# NumPy's ``sum`` is a tree, too. And if you need all digits on a single thread,
# :term:`Kahan's sum` adds in each step what the last rounding lost. Its code is in the
# fold above the figure.
#
# .. dropdown:: Where the dashed lines come from
#
#    Each addition is off by :doc:`a fifth </tutorials/2_devices/13_precision>` of an
#    :term:`eps` on average. Independent errors add in quadrature, and :math:`k` random
#    numbers around zero have a sum of size :math:`\sqrt k`. If you add one by one, the
#    errors make, relative to the result, :math:`\sqrt{1 + 2 + \ldots + n}/\sqrt n`,
#    which is about :math:`\sqrt{n/2}`. In each of the :math:`\log_2 n` rounds of a
#    tree, the squares of the sums that are rounded add up to :math:`n`. Over all rounds
#    that makes :math:`\sqrt{n \log_2 n}`, or :math:`\sqrt{\log_2 n}` relative to the
#    result. Two stages with :math:`P` threads do both: :math:`\sqrt{n/(2P) + \log_2
#    P}`. If large numbers cancel (:term:`cancellation`), what is left keeps their
#    error, so add in ``float64``.
#
# Is the sum the same each time?
# ------------------------------
#
# Add the same numbers twice. Are the results equal, to the last bit? On a GPU nobody
# knows which atomic addition comes first, so let's imitate that:

pixels = rng.random(128 * 128, dtype=f32)
for attempt in (1, 2, 3):
    print(f"order {attempt}: {one_by_one(rng.permutation(pixels)):.4f}")

# %%
# The same numbers in another order give another sum, because they are rounded at other
# places. So it depends on who decides the order. In two stages the *program* does, and
# on one card the sum is the same each time. With atomic additions the *clock* does.
#
# On the H100 we launched these two sums twenty times each. The two stages, which took
# :timing:`reductions median sequential @nvidia-h100-80gb-hbm3`, gave one result, bit
# for bit. The kernel in which each block makes one atomic addition is a little faster,
# with :timing:`reductions median "atomic, a block" @nvidia-h100-80gb-hbm3`, but it gave
# several different sums. They were a few :term:`ulps <ulp>` apart, which are units in
# the last place. If your test compares bits, or you want to repeat a result next year,
# it matters.
#
# In PyTorch, ``torch.use_deterministic_algorithms(True)`` asks for :doc:`a fixed order
# </tutorials/2_devices/19_same_seed>`. Integer sums and maxima are never rounded, so
# they are the same in any order.
#
# .. dropdown:: Shuffles, and GPUs of other makers
#
#    The threads of a warp, its *lanes*, can hand numbers to each other from register to
#    register, which is called a :term:`shuffle`. With ``shfl_down_sync(mask, value,
#    by)``, lane ``k`` gets the ``value`` of lane ``k + by``, or its own if there's
#    none. All lanes in the mask have to reach the call, so inside an ``if`` that splits
#    a warp the mask must name those that come, and no others. Numba's simulator knows
#    no shuffles, but ``trace`` does. Warps of AMD have up to 64 lanes, so don't write
#    32 into code for them. For many short sums, a row each, use a warp for a row.
#
#    Old code leaves out the barriers for the last 32 threads, and declares the array
#    ``volatile``. Since Volta a warp needn't keep in step, so the sum may be wrong.
#    Keep the barriers, use shuffles, or call ``cuda.syncwarp()`` (``__syncwarp()`` in
#    C) between each read and the next write.
#
# Your turn
# ---------
#
# With 96 threads, ``sequential`` loses numbers: 96, 48, 24, 12, 6, 3, and half of 3 is
# 1. Write a tree that is right for *any* number ``n`` of threads in a block. It gets
# the shared array ``part``, the number ``t`` of its thread, and ``n``, and in the end
# ``part[0]`` must hold the sum. All threads of the block call it.
#
# Put your answer where the dots are, and run ``firstlight try 08_reductions.py``.


@cuda.jit(device=True)
def any_tree(part, t, n): ...


# %%

# folded: What check does: it traces your tree in blocks of 64, 96, 33 and 1


HINTS = {
    "Race": ". Who waits for whom between two rounds?",
    "DivergentBarrier": ". Which threads skip the barrier? Let all come, and some add.",
    "OutOfBounds": ". Is there a thread that far on?",
}


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
            hint = HINTS.get(type(seen.problems[0]).__name__, "")
            return f"Not yet. {n} threads: {seen.problems[0]}{hint}"
        if out[0] != n:
            return f"Not yet. {n} threads: {n} ones make {out[0]:g}. {hint}"
        most, rounds = seen.counts("load", "shared").max(), (n - 1).bit_length()
        if most > 3 * rounds + 3:
            said = f"one thread reads {most} numbers. In a tree of {rounds} rounds"
            return f"Not yet. {n} threads: {said}, who else could add meanwhile?"
    return "Right, for any number of threads."


# %%

print(check(any_tree))

# %%
# Three of the :doc:`puzzles </tutorials/3_kernels/14_puzzles>` go on from here: ``block
# sum``, ``dot`` and ``warp sum``.
#
# Three lines to remember
# -----------------------

# remember

print("1. Let each thread add up many numbers, each block its threads' sums in a tree,")
print("   and a second launch the sums of the blocks. Then memory sets the time.")
print("2. One by one on a CPU, a million random numbers are off")
print(f"   {gain:.0f} times as much as in two stages, and a float32 that counts ones")
print("   stops at 2**24.")
print("3. A fixed order gives the same bits each time. Atomic additions don't.")

# %%
# Solution
# --------

# solution


@cuda.jit(device=True)
def any_tree_solution(part, t, n):
    while n > 1:
        half = (n + 1) // 2
        if t + half < n:
            part[t] += part[t + half]
        cuda.syncthreads()
        n = half


print(f"Our solution: {check(any_tree_solution)}")

# %%
# Many threads add to a large grid: are atomic additions too slow?
# ----------------------------------------------------------------
#
# A histogram, particles on a mesh, visibilities on a grid: each thread adds to an
# address that depends on its data. What counts is how many threads want *one address at
# the same time*. With 512³ cells and particles anywhere, it's hardly ever two. So write
# ``cuda.atomic.add(grid, cell, value)``. Only if many meet in a few cells do they
# queue, as at the beginning of this page. Then, in this order:
#
# - *Sort by cell*, once or now and then. Neighbours in a warp then add up among
#   themselves, and one of them adds for all.
# - *Private copies*, if the grid is small: one for each block in shared memory (a
#   histogram of up to a few thousand bins), and one addition a bin at the end.
# - *Turn it round.* A thread for each cell collects what belongs there, and needs no
#   atomic at all.
#
# In PyTorch, ``grid.index_add_(0, cell, value)`` and ``torch.bincount`` do it, and in
# CuPy ``cupyx.scatter_add`` does. Cards since 2016 have atomic additions in
# ``float64``, which move twice the bytes. And with floats, the order and so the last
# bits may change every time.
