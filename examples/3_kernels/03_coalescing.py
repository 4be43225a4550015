"""
Your warp asks for 128 bytes. How many move?
============================================

Two kernels do the same arithmetic on the same number of elements. One of them makes the
memory move eight times the bytes. Nothing in its code looks slow: the two differ in one
index. This page shows how to predict what moves, how to count it on a kernel of your
own, and where the simple count is wrong.

**You will learn**

- what 32 threads ask for in one load, and in which pieces it comes;
- to predict the pieces from an index, and to count them on your own kernel;
- why three levels of memory can give three answers, and which one sets the time;
- in which order a GPU wants your data, and why a CPU may want the other.

**Time:** 20 minutes. **Needs:** any computer, and :doc:`a first kernel
</tutorials/3_kernels/01_first_kernel>`.
"""

# %%
# Predict
# -------
#
# A GPU runs its threads in *warps* of 32. All threads of a warp that are at the same
# place in the kernel run one instruction together. So a load is never one thread's
# affair. It is one *request* of up to 32 *lanes*, as the places of a warp are called,
# each with an address of its own.
#
# Memory does not come in single numbers. It comes in *sectors*: 32 bytes each, so eight
# ``float32``, beginning at a multiple of 32 bytes. A request brings every sector in
# which at least one lane has something, once, and brings all of it. How many lanes want
# it, and in which order, does not matter. (NVIDIA's `Best Practices Guide`__ says so
# for every GPU since compute capability 6.0.) Four sectors are a *line* of the caches,
# 128 bytes. When the lanes of a warp ask for few sectors, the access is called
# *coalesced*.
#
# __ https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#coalesced-access-to-global-memory
#
# ``x`` is an array of ``float32`` that begins at a multiple of 128 bytes, and ``i`` is
# the number of the thread. How many sectors does a full warp bring? Write down seven
# numbers:
#
# - ``x[i]``, ``x[2 * i]``, ``x[8 * i]`` and ``x[64 * i]``;
# - ``x[i + 1]``;
# - ``x[31 - i]``, in the first warp;
# - ``x[0]``.
#
# Any kernel with as little arithmetic as these waits for memory. So the answers decide
# its speed.
#
# The law
# -------
#
# Take ``x[i * stride + offset]``. From the first lane to the last it is ``31 * stride``
# elements, and the first lane begins ``offset % 8`` elements behind the beginning of a
# sector. With strides up to 8 no sector in between is left out. With larger strides
# each lane has a sector of its own, and there are no more than 32 lanes:


def sectors(stride, offset=0):
    return min(32, (offset % 8 + 31 * stride) // 8 + 1)


def useful(stride, offset=0):
    return 32 * 4 / (32 * sectors(stride, offset))


for index in ((1, 0), (2, 0), (8, 0), (64, 0), (1, 1), (0, 0)):
    print(f"x[i * {index[0]} + {index[1]}]: {sectors(*index)} sectors")

# %%
# (``x[31 - i]`` brings the four sectors of ``x[i]``.) A sector costs the same, however
# much of it you use. So the useful share of the bytes is the share of the bandwidth
# that is left for you. As a model, from data sheets:

from firstlight.measure.specs import spec

for card in ("GTX 1650", "RTX 4090", "H100 SXM"):
    rates = (spec(card, "bandwidth") * useful(s) / 1e9 for s in (1, 2, 4, 8))
    print(f"{card:>8}, useful GB/s:", *(f"{rate:6,.0f}" for rate in rates))
print("with a stride of           1      2      4      8 or more")

# %%
# From stride 8 on you have an eighth of the card that you paid for. Strides are more
# common than they look. Store six numbers for each visibility of a radio interferometer
# side by side, an *array of structures*. A kernel that needs one of the six then reads
# with stride 6. From six arrays, a *structure of arrays*, it reads with stride 1.
#
# Count it on a kernel
# --------------------
#
# Here are the kernel of the law, and the same index in a kernel that does something:
# each thread adds up its share of ``x[offset::stride]``. It leaves one sum a thread.
# (How to add those: :doc:`/tutorials/3_kernels/05_reductions`.)

import numpy as np

from firstlight.kernels import blocks_for, cuda, ptx, simulated, trace


@cuda.jit
def gather(x, stride, offset, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i * stride + offset]


@cuda.jit
def strided_sum(x, stride, offset, out):
    step = cuda.gridsize(1) * stride
    total = np.float32(0)
    at = cuda.grid(1) * stride + offset
    while at < x.size:
        total += x[at]
        at += step
    out[cuda.grid(1)] = total


# %%
# *Check* comes first: odd sizes, an output that holds -1, two launches into it, and
# ``float64`` to compare with.

rng = np.random.default_rng(seed=1)


def launched(kernel, blocks, threads, *arguments, out):
    arrays = [cuda.to_device(a) if np.ndim(a) else a for a in arguments]
    d_out = cuda.to_device(np.full(out, -1, dtype=np.float32))
    for _ in range(2):
        kernel[blocks, threads](*arrays, d_out)
    return d_out.copy_to_host()


for n, stride, offset in ((1, 1, 0), (31, 3, 1), (33, 8, 5), (101, 7, 0)):
    x = rng.random(n * stride + offset, dtype=np.float32)
    got = launched(gather, blocks_for(n, 32), 32, x, stride, offset, out=n)
    assert np.array_equal(got, x[offset::stride][:n]), "gather is wrong"
    wanted = x[offset::stride].astype(np.float64)
    sums = [wanted[thread::32].sum() for thread in range(32)]
    got = launched(strided_sum, 1, 32, x, stride, offset, out=32)
    assert np.allclose(got, sums, rtol=1e-6), "strided_sum is wrong"
print("gather and strided_sum are right")

# %%
# ``trace`` runs a kernel thread by thread in Python and notes every address. It needs
# no GPU. From the addresses it counts the sectors of each request:

f32 = np.float32
long = np.zeros(64 * 64 + 8, f32)
counted = {}
for stride in (*range(1, 17), 24, 32, 48, 64):
    for offset in (0, 1, 7):
        traced = trace(gather, 1, 32, long, stride, offset, np.zeros(32, f32))
        counted[stride, offset] = traced.sectors_per_load["x"]

wrong = [index for index, count in counted.items() if count != sectors(*index)]
print(f"{len(counted)} pairs of stride and offset; the law is wrong for {len(wrong)}")

# %%
# And this is what a request looks like. Each row is a line of 128 bytes, each frame in
# it a sector, each cell a number. (``Lanes`` takes any traces, so it can draw your
# kernel, too.)

import matplotlib.pyplot as plt

from firstlight.kernels.lanes import Lanes

cases = {}
for stride, offset in ((1, 0), (1, 1), (2, 0), (6, 0), (8, 0), (32, 0)):
    x, out = np.zeros(128 * stride + offset, f32), np.zeros(128, f32)
    name = f"stride {stride}, offset {offset}"
    cases[name] = trace(gather, 2, 64, x, stride, offset, out)
names = [f"{case}: reads x" for case in cases]
fig = Lanes(cases).plot(*names[:3], names[4])
plt.show()

# %%
# Blue is what the lanes asked for. What is hatched was moved with it, for nobody.
#
# The code does not tell
# ----------------------
#
# Could the compiler warn you? See what it makes of ``gather``, for an old and a new
# kind of GPU:

TYPES = "float32[::1], int64, int64, float32[::1]"


def compiled(kernel, types=TYPES):
    try:
        for cc in ((7, 5), (9, 0)):
            code = ptx.compile(kernel, types, cc)
            loads = sum(n for name, n in code.mix.items() if "ld.global" in name)
            count = f"loads: {loads}, registers: {code.registers}"
            print(f"{kernel.__name__} for {cc[0]}.{cc[1]}: {count}")
    except ptx.NoCompilerError as missing:
        print(missing)


compiled(gather)
compiled(strided_sum)

# %%
# One load, for *every* stride: the stride is a number that the kernel learns when it
# runs. Coalescing is decided then, by the 32 addresses, anew for each request. No
# compiler can promise it. (``strided_sum`` has five loads for one in the source: the
# compiler fetches four numbers before it adds the first. So more bytes are under way at
# a time, as :doc:`it takes </tutorials/3_kernels/08_bytes_in_flight>` to keep a large
# GPU's memory busy.)
#
# Where the law is not the whole story
# ------------------------------------
#
# A course notebook on PyTorch and Numba multiplies a matrix with a vector, one thread a
# row. The matrix lies as NumPy lays it, row after row. It is the natural kernel:


@cuda.jit
def matvec(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        total = np.float32(0)
        j = 0
        while j < x.size:
            total += a[i, j] * x[j]
            j += 1
        y[i] = total


for n_rows, n_columns in ((1, 1), (33, 7), (101, 2)):
    a = rng.random((n_rows, n_columns), dtype=np.float32)
    x = rng.random(n_columns, dtype=np.float32)
    for order in "CF":
        laid = np.asarray(a, order=order)
        y = launched(matvec, blocks_for(n_rows, 32), 32, laid, x, out=n_rows)
        assert np.allclose(y, a.astype(np.float64) @ x, rtol=1e-6), "matvec is wrong"
print("matvec is right, with the matrix by rows and by columns")

# %%
# Look at one step as a warp. All lanes have the same ``j``, and neighbouring lanes have
# neighbouring ``i``. Neighbours read a whole row apart: the law says 32 sectors where
# four would do, so eight times the bytes. The other order (``np.asfortranarray(a)``)
# puts the numbers of a *column* together, and the kernel stays as it is. Count both, at
# three levels:
#
# - *L1*, the cache of a multiprocessor, hands out a line at a time: a request takes as
#   many *wavefronts* as it touches lines of 128 bytes.
# - *L2*, which all multiprocessors share, is asked for the sectors that L1 does not
#   hold.
# - *DRAM*, the card's memory, is asked for what L2 does not hold.

matrix, vector = np.zeros((64, 32), f32), np.zeros(32, f32)
for order, laid in (("C", "by rows"), ("F", "by columns")):
    a = np.asarray(matrix, order=order)
    cases[f"matrix {laid}"] = trace(matvec, 2, 32, a, vector, np.zeros(64, f32))

for name in ("matrix by rows", "matrix by columns"):
    access = Lanes(cases)[f"{name}: reads a"]
    print(f"{name}: {access.sectors_each:g} sectors a request")
    print("   ", ", ".join(f"{n:,} {what}" for what, n in access.levels().items()))

# %%
# The law is right about each request, and wrong about memory. A lane uses four bytes of
# its sector now, and the next four in the next step. If the sector is still in L1 then,
# it need not come again. So DRAM moves the matrix once, in either order, and the eight
# times are gone. What remains is L1: 32 wavefronts a request in place of one.
#
# *If it is still there.* Each thread needs its sector, 32 bytes, to stay in L1. If a
# line takes up its whole room as soon as one of its sectors is there, each thread needs
# 128. NVIDIA's `table of compute capabilities`__ says how many threads a multiprocessor
# holds, and how large its L1 is at most:
#
# __ https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities

L1 = {"7.5": (1024, 64), "8.0": (2048, 192), "8.9": (1536, 128), "9.0": (2048, 256)}
for capability, (most, kib) in L1.items():
    needs = [most * piece // 1024 for piece in (32, 128)]
    print(f"{capability}: {needs[0]} or {needs[1]} KiB wanted, {kib} KiB are there")

# %%
# Sectors fit everywhere. Whole lines do not, as ``x`` and all else want room, too. Then
# sectors are lost before they were used up, L2 is asked again, and the truth lies
# between 1 and 8 times. (The trace's caches are a model: a block keeps every sector
# until it ends.) *By columns* there is nothing to lose.
#
# Two more cases
# --------------
#
# **Transposing an image.** Lanes go along a row of one image, so along a column of the
# other. One side must lose. You can choose which:


@cuda.jit
def write_columns(image, out):
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        out[x, y] = image[y, x]


@cuda.jit
def read_columns(image, out):
    x, y = cuda.grid(2)
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = image[x, y]


for kernel in (write_columns, read_columns):
    for shape in ((1, 1), (5, 17)):
        image = rng.random(shape, dtype=np.float32)
        along = shape if kernel is write_columns else shape[::-1]  # lanes go along it
        grid = blocks_for(along[::-1], (8, 4))
        got = launched(kernel, grid, (8, 4), image, out=shape[::-1])
        assert np.array_equal(got, image.T), f"{kernel.__name__} is wrong"

wide, tall = np.zeros((32, 64), f32), np.zeros((64, 32), f32)
cases["write columns"] = trace(write_columns, (2, 4), (32, 8), wide, tall)
cases["read columns"] = trace(read_columns, (2, 4), (32, 8), tall, wide)

# %%
# **A beginning in the wrong place.** ``x[i + 1]`` is in the list since the first
# figure: five sectors where four hold everything. That happens when you pass ``x[1:]``
# to a kernel, or when the rows of an image are not a multiple of 128 bytes long.
#
# All cases in one figure. Each mark says how many times the least possible a level has
# to move: 1 is perfect. (``print(Lanes(cases))`` has the counts.)

lanes = Lanes(cases)


def times_least(access):
    levels = access.levels()
    asked = sum(
        access.width * len(set(each.lanes.values())) for each in access.requests
    )
    return {
        "L1": levels["L1 wavefronts"] / (asked / 128),
        "L2": levels["L2 sectors"] / (levels["useful bytes"] / 32),
        "DRAM": levels["DRAM bytes"] / levels["useful bytes"],
    }


others = {"matrix by rows": "reads a", "matrix by columns": "reads a"}
others |= {"write columns": "writes out", "read columns": "reads image"}
shown = {case: f"{case}: {others.get(case, 'reads x')}" for case in cases}
excess = {case: times_least(lanes[name]) for case, name in shown.items()}
MARKS = {
    "L1": {"marker": "^", "color": "#2f9e77", "ms": 12},
    "L2": {"marker": "o", "color": "#d9762b", "ms": 8},
    "DRAM": {"marker": "x", "color": "#2f7ed8", "ms": 8, "mew": 2.5},
}

# %%

fig, ax = plt.subplots(figsize=(5.6, 4.0), layout="constrained")
for row, levels in enumerate(excess.values()):
    ax.plot([1, max(levels.values())], [row, row], color="#808890", lw=1, zorder=0)
    for level, look in MARKS.items():
        label = level if row == 0 else None
        ax.plot(levels[level], row, ls="", label=label, **look)
ax.set_yticks(range(len(excess)), excess)
ax.invert_yaxis()
ax.set(xscale="log", xlim=(0.8, 45), xlabel="times the least that would do")
ax.set_xticks([1, 2, 4, 8, 16, 32], [1, 2, 4, 8, 16, 32])
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
fig.legend(ncols=3, loc="outside upper center", frameon=False)
fig.set_label(
    "Ten accesses, and how many times the least each level moves. For strides of 1, "
    "2, 6 and 8 all levels agree. A matrix by rows has "
    f"{excess['matrix by rows']['L1']:.0f} times at L1 and "
    f"{excess['matrix by rows']['DRAM']:.0f} at DRAM; writing columns has "
    f"{excess['write columns']['L2']:.0f} times at L2 and "
    f"{excess['write columns']['DRAM']:.0f} at DRAM."
)
plt.show()

# %%
# Read it row by row, from the right:
#
# - *Strides.* What a stride skips, nobody ever needs. No cache can help, and L2 and
#   DRAM agree with the law. Stride 32 adds what stride 8 has not: a line for each lane.
# - *Offset 1.* Each warp brings a sector that its neighbour brings, too. L1 and L2 hold
#   it, and memory moves one sector more for each block, or for each array. A wrong
#   beginning costs little.
# - *Matrix by rows.* Only L1 suffers, as long as it keeps what it has.
# - *Transposing.* Who reads columns is helped by L1: the eight warps of a block share
#   their sectors. Who writes columns is not, for writes go on to L2, each piece of a
#   sector by itself. (L2 collects the pieces, so DRAM is spared.) So if one side must
#   lose, let it be the reads. With :doc:`shared memory
#   </tutorials/3_kernels/04_shared_memory>` none loses.
#
# From your own kernel
# --------------------
#
# Step through all these requests, or type an index of your own. Try ``i * 3``, ``i //
# 4``, ``i ^ 1``, ``i % 4 * 8 + i // 4``. Then choose *matrix by rows: reads a*, and
# move *Request* from 1 to 9: what comes again, and when does memory move again?

Lanes(cases)

# %%
# (Without JavaScript, and in a notebook, you see the table, and ``Lanes({"mine":
# trace(kernel, blocks, threads, x, out)}).plot()`` draws what your kernel asks first.)
#
# Measure
# -------
#
# For the law you need data that no cache holds, *at every stride*. At stride 64 only
# one sector in eight is touched. So ``x`` has 32 times the bytes of the GPU's L2, and
# the touched sectors are still four times what L2 holds. Without a GPU: a CPU has lines
# too, of 64 bytes. So its law is the same with 64 in place of 32, and NumPy can test it
# here and now.

import numba
import torch

from firstlight import Bench, best_device
from firstlight.devices import card

device = best_device()
on_gpu = not simulated() and device.type == "cuda"  # Numba's kernels need NVIDIA's
cache = card(device).cache_bytes or 2**22
STRIDES = (1, 2, 4, 8, 16, 32, 64)
x = rng.random(2**25, dtype=np.float32)

bench = Bench("coalescing", budget=40 if on_gpu else 3)
for stride in STRIDES:
    part = x[::stride]
    size = {"n": part.size, "bytes": 4 * part.size}
    bench.time(f"NumPy, stride {stride}", np.sum, part, **size)

# %%
# The matrix-vector product on the CPU, with the same loop. Which order will be faster
# *there*? A core is no warp. It goes along one row by itself, and its next number
# should be the next in memory.


@numba.njit("void(float32[:, :], float32[:], float32[:])", parallel=True)
def matvec_cpu(a, x, y):
    for i in numba.prange(y.size):
        total = np.float32(0)
        for j in range(x.size):
            total += a[i, j] * x[j]
        y[i] = total


rows, columns = (1_000_001 if on_gpu else 100_001), 101
a = rng.random((rows, columns), dtype=np.float32)
v = rng.random(columns, dtype=np.float32)
orders = {"by rows": a, "by columns": np.asfortranarray(a)}
exact = a.astype(np.float64) @ v
size = {"n": rows, "bytes": 4 * (a.size + v.size + rows)}
for laid, matrix in orders.items():
    y = np.zeros(rows, dtype=np.float32)
    bench.time(f"Numba-CPU, {laid}", matvec_cpu, matrix, v, y, **size)
    assert np.allclose(y, exact, rtol=1e-5), "matvec_cpu is wrong"
    bench.time(f"NumPy, {laid}", np.matmul, matrix, v, y, **size)

# %%
# PyTorch, on the GPU if there is one:

t_a, t_v = (torch.from_numpy(array).to(device) for array in (a, v))
size["device"] = device
bench.time("torch.mv, by rows", torch.mv, t_a, t_v, **size)
assert np.allclose(torch.mv(t_a, t_v).cpu().numpy(), exact, rtol=1e-4), "torch.mv"

if device.type == "cpu":
    t_x = torch.from_numpy(x)
else:
    t_x = torch.rand(max(2**26, 8 * cache), device=device)
for stride in (1, 8, 64) if device.type != "cpu" else (1, 16):
    part = t_x[::stride]
    some = {"n": len(part), "bytes": 4 * len(part)}
    bench.time(f"torch.sum, stride {stride}", torch.sum, part, device=device, **some)

# %%
# And the kernels, where they can run. ``strided_sum`` gets eight blocks of 256 threads
# a multiprocessor, so each thread adds many numbers. ``gather`` stands beside it, one
# element a thread:


def time_kernel(label, kernel, grid, *arguments, n, moved):
    def run():
        kernel[grid](*arguments)

    bench.time(f"kernel, {label}", run, device=device, n=n, bytes=moved)


if on_gpu:
    blocks = 8 * card(device).multiprocessors
    d_x, d_sums = cuda.as_cuda_array(t_x), cuda.device_array(256 * blocks, f32)
    for stride in (*STRIDES, 3, 6, 12, 24, 48):
        n = len(t_x[::stride])
        size_of = {"n": n, "moved": 4 * n}
        using = (blocks, 256), d_x, stride, 0, d_sums
        time_kernel(f"stride {stride}", strided_sum, *using, **size_of)
        exact_sum = t_x[::stride].sum(dtype=torch.float64).item()
        assert np.isclose(d_sums.copy_to_host().sum(dtype=np.float64), exact_sum, 1e-5)
    t_one = torch.zeros(2 * cache + 2**24, device=device)
    n, d_one = len(t_one), cuda.as_cuda_array(t_one)
    grid = (blocks_for(n, 256), 256)
    time_kernel("one each", gather, grid, d_x, 1, 0, d_one, n=n, moved=8 * n)
    assert torch.equal(t_one, t_x[:n]), "gather is wrong"

# %%

if on_gpu:
    grid, d_v = (blocks_for(rows, 128), 128), cuda.to_device(v)
    for laid, matrix in orders.items():
        d_a, d_y = cuda.to_device(matrix), cuda.to_device(np.zeros(rows, f32))
        time_kernel(laid, matvec, grid, d_a, d_v, d_y, n=rows, moved=size["bytes"])
        assert np.allclose(d_y.copy_to_host(), exact, rtol=1e-5), "matvec is wrong"

side = 8191
if device.type != "cpu":
    t_image, t_out = torch.rand(2, side, side, device=device)
    whole = {"n": side**2, "bytes": 8 * side**2, "device": device}
    bench.time("torch, transposed", lambda: t_out.copy_(t_image.T), **whole)
if on_gpu:
    d_image, d_out = cuda.as_cuda_array(t_image), cuda.as_cuda_array(t_out)
    grid = (blocks_for((side, side), (32, 8)), (32, 8))
    for kernel in (read_columns, write_columns):
        t_out.zero_()
        label, n = kernel.__name__.replace("_", " "), side**2
        time_kernel(label, kernel, grid, d_image, d_out, n=n, moved=8 * n)
        assert torch.equal(t_out, t_image.T), "a transposed image is wrong"
bench.show()

# %%
# On a GPU, look at *of roof*: the rate of useful bytes, as a part of the best rate that
# plain copies and sums reach there. ``strided_sum`` with stride 1 should come close to
# it, ``one each`` (an element a thread) less close. The other rows of kernels test what
# the counts predicted.
#
# Here is the law again, with what was counted and what was measured: the rate of useful
# bytes, divided by that at stride 1. The dotted line is the law for pieces of 64 bytes:
# that of a CPU, and that of a GPU whose memory delivers two sectors at a time.

measured = {t.label: t.byte_rate for t in bench.timings}
every = np.arange(1, 65)
LOOKS = {
    "NumPy": ("this CPU, NumPy", {"marker": "s", "color": "#d9762b"}),
    "kernel": ("this GPU, strided_sum", {"marker": "D", "color": "#2f9e77"}),
}


def draw_law(ax):
    law = [useful(stride) for stride in every]
    ax.plot(every, law, "--", color="black", lw=1.6, label="model: sectors of 32 bytes")
    wide = 1 / np.minimum(every, 16)
    ax.plot(every, wide, ":", color="black", label="model: pieces of 64 bytes")
    shares = {s: 4 / count for (s, offset), count in counted.items() if offset == 0}
    look = {"ls": "", "marker": "o", "ms": 4, "color": "#2f7ed8"}
    ax.plot(*zip(*shares.items(), strict=True), label="counted by trace", **look)
    for who, (label, look) in LOOKS.items():
        rates = {s: measured.get(f"{who}, stride {s}") for s in every}
        rates = {s: rate / rates[1] for s, rate in rates.items() if rate}
        if rates:
            ax.plot(*zip(*rates.items(), strict=True), ls="", ms=9, label=label, **look)


# %%

fig, ax = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
draw_law(ax)
ticks = [2**power for power in range(7)]
ax.set(xscale="log", yscale="log", xlabel="stride", ylabel="useful share")
ax.set_xticks(ticks, ticks)
ax.set_yticks([1 / tick for tick in ticks], ["1", *(f"1/{tick}" for tick in ticks[1:])])
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=9, loc="lower left")
at_16 = measured["NumPy, stride 16"] / measured["NumPy, stride 1"]
fig.set_label(
    "Useful share against stride, both axes logarithmic. The law for sectors falls as "
    "one over the stride and stays at an eighth from stride 8 on; what trace counted "
    "lies on it. The law for 64 bytes goes on to a sixteenth. Measured on this "
    f"CPU at stride 16: {at_16:.3f} of the rate at stride 1."
)
plt.show()

# %%
# The counted points lie on the law, all of them. Measured ones need not: a law about
# bytes says nothing of what else takes time. At small strides a CPU's adding may take
# longer than its memory. At large ones its guesses about what you will read next come
# too late. A GPU may fall below its corner at stride 8 and on to the dotted line:
# NVIDIA documents a `hint for how much L2 fetches at a time`__, up to 128 bytes.
#
# __ https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
#
# Now the two orders of a matrix, for one thread a row, or one core:

for who in ("Numba-CPU", "kernel"):
    by_rows, by_columns = (
        measured.get(f"{who}, by {order}") for order in ("rows", "columns")
    )
    if by_rows:
        print(f"{who}: by rows {by_rows / by_columns:.2f} times the rate by columns")

# %%
# A ratio above 1 says that the CPU likes the matrix by rows: what one core reads next
# should lie next to what it reads now. What counts on the GPU is what *the neighbour*
# reads now. So the order that was right for your CPU code may be the wrong one for the
# same loop as a kernel. (NumPy and PyTorch choose another loop for each order. In
# :doc:`Triton </tutorials/3_kernels/10_triton>` you ask for blocks, and the compiler
# places the lanes.)
#
# Where this stops being true
# ---------------------------
#
# - *Small data.* What fits into L2 does not wait for DRAM, and sectors are cheaper.
# - *Wider numbers.* 32 ``float64`` are 8 sectors, 32 ``complex128`` are 16, and all of
#   it is useful. The law has then four or two numbers a sector, not eight.
# - *Vector loads.* A lane can load 16 bytes with one instruction (``float4`` in CUDA C;
#   Triton does it by itself). The sectors stay the same.
# - *Indices from data*, ``x[where[i]]``, as in gridding. Then only your data can tell:
#   give ``trace`` a piece of them. To sort them may be worth more than any trick.
# - *A piece for each thread.* To give each thread a run of neighbours, as one does for
#   the cores of a CPU, is a stride. Let threads take turns, as ``strided_sum`` does.
# - *Few threads.* The best pattern is slow if too few bytes are under way at a time.
# - *Other makers.* AMD's warps have up to 64 lanes, and pieces and lines have other
#   sizes. The rule is the same: neighbouring lanes, neighbouring addresses.
#
# Exercise
# --------
#
# How many sectors does the first warp ask for in one request, with each of these? ``x``
# has ``float32``, ``z`` has ``complex64``. Replace the fours, without the box above.

answers = {
    "x[i // 2]": 4,
    "x[3 * i]": 4,
    "x[i + 6]": 4,
    "x[i % 4 * 8 + i // 4]": 4,
    "z[2 * i]": 4,
}

# %%
# ``check`` takes your answers. It takes a kernel, too, such as ``mine`` below: one with
# two arguments, an array of ``float32`` to read and one to write. Then it counts.

QUESTIONS = {  # the index, bytes of an element, a hint
    "x[i // 2]": (lambda i: i // 2, 4, "two lanes share a number, so 16 are wanted"),
    "x[3 * i]": (lambda i: 3 * i, 4, "the last lane is 93 numbers behind the first"),
    "x[i + 6]": (lambda i: i + 6, 4, "two are in the first sector, thirty follow"),
    "x[i % 4 * 8 + i // 4]": (
        lambda i: i % 4 * 8 + i // 4,
        4,
        "write down the smallest and the largest index; order does not matter",
    ),
    "z[2 * i]": (lambda i: 2 * i, 8, "8 bytes a number, and every other is skipped"),
}


def of_kernel(kernel):
    x, out = np.ones(4096, f32), np.zeros(4096, f32)
    try:
        found = Lanes({"it": trace(kernel, 1, 32, x, out, limit=100_000)}).accesses
    except Exception as error:
        return f"That cannot be counted. {type(error).__name__}: {error}"
    said = (
        f"{one.name[4:]} with {one.sectors_each:.3g} sectors a request" for one in found
    )
    return "Your kernel " + (", ".join(said) or "touches no array") + "."


# %%


def check(answer):
    if hasattr(answer, "__getitem__") and not isinstance(answer, (dict, list, str)):
        return of_kernel(answer)
    if not isinstance(answer, dict) or QUESTIONS.keys() - answer.keys():
        return f"Not yet: give a dictionary with {', '.join(QUESTIONS)}."
    for name, (index, width, hint) in QUESTIONS.items():
        given, right = answer[name], len({index(i) * width // 32 for i in range(32)})
        if isinstance(given, bool) or not isinstance(given, (int, float)):
            return f"Not yet. {name}: {given!r} is no number."
        if not 1 <= given <= 32:
            return f"Not yet. {name}: 32 lanes ask for at least 1 sector, at most 32."
        if given == 32 * right:
            return f"Not yet. {name}: that is bytes; count pieces of 32."
        if given != right:
            return f"Not yet. {name}: not {given:g}. Hint: {hint}."
    return "Right, all five."


@cuda.jit
def mine(x, out):
    i = cuda.grid(1)
    out[i] = x[5 * i + 3]


print(check(answers))
print(check(mine))

# %%

# solution

solution = dict(zip(QUESTIONS, (2, 12, 5, 4, 16), strict=True))
print(check(solution))

# %%
# Three lines to remember
# -----------------------

rows_at, columns_at = (
    excess[f"matrix by {order}"]["L1"] for order in ("rows", "columns")
)
print("1. A request moves whole sectors of 32 bytes. Stride 2 brings")
print(f"   {sectors(2)} for {sectors(1)}, stride 8 and more {sectors(8)}.")
print("2. Neighbouring lanes should read neighbouring numbers. One thread a row")
print(f"   takes {rows_at:.0f} wavefronts a load by rows, {columns_at:.0f} by columns.")
print("3. A cache can mend what is used later, never what is skipped. So count three")
print(f"   levels, then measure: NumPy's stride 16 kept {at_16:.0%} of its rate here.")
