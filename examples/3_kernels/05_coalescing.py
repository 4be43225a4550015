"""
Your warp asks for 128 bytes. How many move?
============================================

For people whose :term:`kernel` is right and slower than it should be. A :term:`warp`,
32 :term:`threads <thread>`, loads together, and memory comes in
:term:`sectors <sector>` of 32 bytes: a load moves the whole of every sector that any of
its threads needs. Neighbouring threads that read neighbouring ``float32`` numbers move
4 sectors. From a :term:`stride` of 8 on they move 32, and an eighth of the
:term:`bandwidth` is left. You can count this for your own kernel, without a GPU.

**You will learn**

- to predict the sectors from an index, and to count them on your own kernel;
- why three levels of memory can give three answers, and which one sets the time;
- which metrics of the :term:`profiler` Nsight Compute count the same;
- in which order a GPU wants your data.

**Time:** 10 minutes. **Needs:** any computer, and :doc:`grids
</tutorials/3_kernels/03_grids>`.
"""

# %%
# Try an index
# ------------
#
# Choose a stride, or type an index: ``i * 3``, ``i // 4``, ``i ^ 1``, ``31 - i``. How
# many sectors does each bring? Other requests in the list come from kernels of this
# page, such as ``gather``:

import numpy as np

from firstlight.kernels import blocks_for, cuda, simulated, trace
from firstlight.lessons.lanes import Lanes


@cuda.jit
def gather(x, stride, offset, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i * stride + offset]


# %%

# folded: The other kernels in the list: a matrix times a vector, and two transposes


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


# %%

# folded: Their requests: trace runs a kernel thread by thread and notes every address

f32 = np.float32
cases = {}
for stride, offset in ((1, 0), (1, 1), (2, 0), (6, 0), (8, 0), (32, 0)):
    x, out = np.zeros(128 * stride + offset, f32), np.zeros(128, f32)
    name = f"stride {stride}, offset {offset}"
    cases[name] = trace(gather, 2, 64, x, stride, offset, out)

matrix, vector = np.zeros((64, 32), f32), np.zeros(32, f32)
for order, laid in (("C", "by rows"), ("F", "by columns")):
    a = np.asarray(matrix, order=order)
    cases[f"matrix {laid}"] = trace(matvec, 2, 32, a, vector, np.zeros(64, f32))

wide, tall = np.zeros((32, 64), f32), np.zeros((64, 32), f32)
cases["write columns"] = trace(write_columns, (2, 4), (32, 8), wide, tall)
cases["read columns"] = trace(read_columns, (2, 4), (32, 8), tall, wide)

# %%

Lanes(cases)

# %%
# (To see your own kernel: ``Lanes({"mine": trace(kernel, blocks, threads, x, out)})``,
# with ``.plot()`` in a terminal.)
#
# The law of coalescing
# ---------------------
#
# All threads of a warp that are at the same place in a kernel run one instruction
# together. So a load is one *request* of up to 32 :term:`lanes <lane>`, as the places
# of a warp are called. It brings every sector in which at least one lane has something,
# once, and brings all of it. How many lanes want it, and in which order, does not
# matter. (NVIDIA's `Best Practices Guide`__ says so for every GPU since
# :term:`compute capability` 6.0.) Four sectors are a *line* of the caches, 128 bytes.
# An access that asks for no more sectors than its bytes fill is called
# :term:`coalesced`.
#
# __ https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#coalesced-access-to-global-memory
#
# Take ``x[i * stride + offset]`` with ``float32``, eight to a sector. The first lane
# starts ``offset % 8`` elements into its sector, and the last reads ``31 * stride``
# elements further on. Up to stride 8 no sector between them is skipped. From 8 on each
# lane has a sector of its own:


def sectors(stride, offset=0):
    return min(32, (offset % 8 + 31 * stride) // 8 + 1)


def useful(stride, offset=0):
    return 32 * 4 / (32 * sectors(stride, offset))


# %%
# The useful share of the bytes is the share of the bandwidth that is left for you, if
# no cache holds the rest for a later request. As a model, from
# :term:`data sheets <data sheet>`:

from firstlight.display import BLUE, GREEN, GREY, ORANGE, show_table
from firstlight.timing.specs import spec

CARDS = ("GTX 1650", "RTX 4090", "H100 SXM")
rows = []
for index in ((1, 0), (2, 0), (4, 0), (8, 0), (64, 0)):
    rates = (spec(card, "bandwidth") * useful(*index) / 1e9 for card in CARDS)
    told = str(sectors(*index)), *(f"{rate:,.0f}" for rate in rates)
    rows.append(("x[i * {} + {}]".format(*index), *told))
head = "index", "sectors", *(f"{card}, GB/s" for card in CARDS)
show_table("Sectors of a full warp, and useful bandwidth", head, rows)

# %%
# Strides are more common than they look. Store six numbers for each visibility of a
# radio interferometer side by side, an *array of structures*: a kernel that needs one
# of the six reads with stride 6. From six arrays, a *structure of arrays*, it reads
# with stride 1. No compiler can warn you, because the kernel learns its stride when it
# runs. But you can count:

long = np.zeros(64 * 64 + 8, f32)
counted = {}
for stride in (*range(1, 17), 24, 32, 48, 64):
    for offset in (0, 1, 7):
        traced = trace(gather, 1, 32, long, stride, offset, np.zeros(32, f32))
        counted[stride, offset] = traced.sectors_per_load["x"]

wrong = [index for index, count in counted.items() if count != sectors(*index)]
print(f"{len(counted)} pairs of stride and offset; the law is wrong for {len(wrong)}")

# %%

# figure

import matplotlib.pyplot as plt

every = np.arange(1, 65)
shares = {s: 4 / count for (s, offset), count in counted.items() if offset == 0}
fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
law = [useful(stride) for stride in every]
ax.plot(every, law, "--", color=GREY, lw=1.6, label="the law")
counts = zip(*shares.items(), strict=True)
ax.plot(*counts, "o", ms=6, color=BLUE, label="counted by trace")
ax.legend(loc="upper right", frameon=False)
ticks = [2**power for power in range(7)]
ax.set(xscale="log", yscale="log", xlabel="stride", ylabel="useful share of the bytes")
ax.set_xticks(ticks, ticks)
ax.set_yticks([1 / tick for tick in ticks[:4]], ["1", "1/2", "1/4", "1/8"])
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("From a stride of 8 on, seven of eight bytes move for nobody")
fig.set_label(
    "Useful share of the bytes against stride, both axes logarithmic. The law falls as "
    "one over the stride and stays at an eighth from stride 8 on; what trace counted "
    "lies on it."
)
plt.show()

# sphinx_gallery_thumbnail_number = 1

# %%
# Where the law is not the whole story
# ------------------------------------
#
# Multiply a matrix by a vector, one thread a row: thread ``i`` goes along its row with
# ``total += a[i, j] * x[j]``. NumPy lays the matrix row after row. All lanes have the
# same ``j``, so neighbouring lanes read a whole row apart: 32 sectors, where four would
# do.
#
# The other order, ``np.asfortranarray(a)``, puts the numbers of a *column* together,
# and the kernel stays as it is. Count both, at three levels:
#
# - :term:`L1`, the cache of a multiprocessor. In our model, a request takes a
#   *wavefront*, one step of L1, for each line of 128 bytes that it touches. NVIDIA
#   describes L1 as a pipeline, one stage of which looks up `several lines a cycle`__,
#   so its profiler may count fewer.
# - *L2*, which all multiprocessors share, is asked for the sectors that L1 does not
#   hold. In the model, a block keeps each sector until it ends.
# - *DRAM*, the card's memory, is asked for what L2 does not hold.
#
# __ https://forums.developer.nvidia.com/t/understanding-l1-tex-cache-sectors-req/312884

lanes = Lanes(cases)
rows = [
    (
        laid,
        *(f"{count:,}" for count in lanes[f"matrix {laid}: reads a"].levels().values()),
    )
    for laid in ("by rows", "by columns")
]
head = "the matrix", "L1 wavefronts", "L2 sectors", "DRAM bytes", "useful bytes"
show_table("A matrix of 64 x 32 times a vector", head, rows)

# %%
# The law is right about each request, but one request is not all. A lane uses four
# bytes of its sector now, and the next four in the next step. If L1 still holds the
# sector then, it need not come again: L2 and DRAM move the matrix once, in either
# order. What remains is L1. Which level sets the time? A multiprocessor of these cards
# has 128 ``float32`` units, each good for two operations a clock cycle. If its L1 takes
# one wavefront a cycle, all L1s together take ``fp32 / 256`` wavefronts a second:

moves = lanes["matrix by rows: reads a"].levels()
for card_name in CARDS[1:]:
    at_l1 = moves["L1 wavefronts"] / (spec(card_name, "fp32") / 256)
    at_dram = moves["DRAM bytes"] / spec(card_name, "bandwidth")
    slower = "L1" if at_l1 > at_dram else "DRAM"
    print(f"{card_name}: L1 needs {at_l1 / at_dram:.1f} times as long as DRAM", end="")
    print(f", so {slower} sets the time (a model)")

# %%
# The slowest level sets the time, and the answer depends on the card. (Data sheets do
# not give the rate of L2.) With too many threads for its size, L1 may lose a sector
# before it is used up. L2 is then asked for between 1 and 8 times the sectors. *By
# columns* there is nothing to lose. (On a CPU it is the other way round: a core goes
# along one row by itself, so the order that was right for your CPU code may be wrong
# for the same loop as a kernel.)
#
# When you **transpose an image**, either the reads or the writes go down columns. And
# ``x[i + 1]``, as when you pass ``x[1:]`` to a kernel, touches five sectors where four
# would do. Here are all cases, each against the least that would do.

# %%

# folded: How many times the least each case moves


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
    "L1": {"marker": "^", "color": GREEN, "ms": 12},
    "L2": {"marker": "o", "color": ORANGE, "ms": 8},
    "DRAM": {"marker": "x", "color": BLUE, "ms": 8, "mew": 2.5},
}

# %%

# figure

fig, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
for row, levels in enumerate(excess.values()):
    ax.plot([1, max(levels.values())], [row, row], color=GREY, lw=1, zorder=0)
    for level, look in MARKS.items():
        ax.plot(levels[level], row, ls="", label=None if row else level, **look)
ax.set_yticks(range(len(excess)), excess)
ax.invert_yaxis()
ax.set(xscale="log", xlim=(0.8, 45), xlabel="times the least that would do")
ax.set_xticks([1, 2, 4, 8, 16, 32], [1, 2, 4, 8, 16, 32])
ax.minorticks_off()
ax.legend(loc="upper right", frameon=False)
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("Caches save what is used later, never what is skipped")
rows_at, columns_at = (excess[f"matrix by {order}"] for order in ("rows", "columns"))
written = excess["write columns"]
fig.set_label(
    "Ten accesses, and how many times the least each level moves. For strides of 1, "
    f"2, 6 and 8 all levels agree. A matrix by rows has {rows_at['L1']:.0f} times at "
    f"L1 and {rows_at['DRAM']:.0f} at DRAM; writing columns has {written['L2']:.0f} "
    f"times at L2 and {written['DRAM']:.0f} at DRAM."
)
plt.show()

# %%
# - *Strides.* What a stride skips, nobody ever needs, so no cache can help.
# - *Offset 1.* Each warp brings a sector that its neighbour brings, too, and L1 and L2
#   hold it. It costs little in L2 and DRAM, though in this model twice the wavefronts.
# - *Transposing.* Reading columns is rescued by L1: the warps of a block share their
#   sectors. Writing columns is not: each partial sector goes to L2 on its own. So let
#   the reads go down columns, or neither, with :doc:`shared memory
#   </tutorials/3_kernels/06_shared_memory>`.
#
# The same counts on a GPU
# ------------------------
#
# NVIDIA's profiler `Nsight Compute`__ (``ncu``) counts in the hardware what ``trace``
# counts from the addresses. For a script that launches your kernel:
#
# .. code-block:: bash
#
#    S=l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
#    R=l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum
#    ncu --metrics $S,$R,lts__t_sectors_srcunit_tex.sum,dram__bytes.sum python mine.py
#
# - ``sectors_per_load`` is the first over the second (for stores, both end in
#   ``_op_st``). They should agree.
# - ``traffic.l2_sectors`` is ``lts__t_sectors_srcunit_tex``, and ``traffic.dram_bytes``
#   is ``dram__bytes``. These may differ, because real caches lose sectors early, hold
#   some from before, and write late.
#
# __ https://docs.nvidia.com/nsight-compute/ProfilingGuide/
#
# Measure
# -------
#
# ``strided_sum`` reads ``x[offset::stride]``: each thread adds up its share, so that
# many bytes are under way. For the law you need data that no cache holds, *at every
# stride*: on a GPU, ``x`` has at least 32 times the bytes of L2. Without a GPU, NumPy
# adds up the same numbers on a CPU, where most move lines of 64 bytes, 16 numbers.


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

# folded: Check: odd sizes, an output that holds -1, two launches into it, float64

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

# %%

# folded: Check the others, with the matrix by rows and by columns

for n_rows, n_columns in ((1, 1), (33, 7), (101, 2)):
    a = rng.random((n_rows, n_columns), dtype=np.float32)
    x = rng.random(n_columns, dtype=np.float32)
    for order in "CF":
        laid = np.asarray(a, order=order)
        y = launched(matvec, blocks_for(n_rows, 32), 32, laid, x, out=n_rows)
        assert np.allclose(y, a.astype(np.float64) @ x, rtol=1e-6), "matvec is wrong"

for kernel in (write_columns, read_columns):
    for shape in ((1, 1), (5, 17)):
        image = rng.random(shape, dtype=np.float32)
        along = shape if kernel is write_columns else shape[::-1]  # lanes go along it
        grid = blocks_for(along[::-1], (8, 4))
        got = launched(kernel, grid, (8, 4), image, out=shape[::-1])
        assert np.array_equal(got, image.T), f"{kernel.__name__} is wrong"

# %%

import torch

from firstlight import Bench, best_device
from firstlight.devices import card

device = best_device()
on_gpu = not simulated() and device.type == "cuda"  # Numba's kernels need NVIDIA's
cache = card(device).cache_bytes or 2**22
STRIDES = (1, 2, 4, 8, 16, 32, 64)
bench = Bench("coalescing", budget=40 if on_gpu else 3)


def time_kernel(label, kernel, grid, *arguments, n, moved):
    def run():
        kernel[grid](*arguments)

    bench.time(f"kernel, {label}", run, device=device, n=n, bytes=moved)


# %%

# folded: NumPy's sums with strides on the CPU; PyTorch's on the GPU, if there is one

x = rng.random(2**25, dtype=np.float32)
for stride in STRIDES:
    part = x[::stride]
    size = {"n": part.size, "bytes": 4 * part.size}
    bench.time(f"NumPy, stride {stride}", np.sum, part, **size)

if device.type != "cpu":
    side = 8191
    t_x = torch.rand(max(2**26, 8 * cache), device=device)
    for stride in (1, 8, 64):
        part = t_x[::stride]
        some = {"n": len(part), "bytes": 4 * len(part), "device": device}
        bench.time(f"torch.sum, stride {stride}", torch.sum, part, **some)
    t_image, t_out = torch.rand(2, side, side, device=device)
    whole = {"n": side**2, "bytes": 8 * side**2, "device": device}
    bench.time("torch, transposed", lambda: t_out.copy_(t_image.T), **whole)

# %%

# folded: On a CUDA GPU: strides, and an element a thread

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

# folded: On a CUDA GPU: the matrix in both orders, and the transposes

if on_gpu:
    matrix_rows, columns = 1_000_001, 101
    a = rng.random((matrix_rows, columns), dtype=np.float32)
    v = rng.random(columns, dtype=np.float32)
    exact, moved = a.astype(np.float64) @ v, 4 * (a.size + v.size + matrix_rows)
    grid, d_v = (blocks_for(matrix_rows, 128), 128), cuda.to_device(v)
    for laid, of in {"by rows": a, "by columns": np.asfortranarray(a)}.items():
        d_a, d_y = cuda.to_device(of), cuda.to_device(np.zeros(matrix_rows, f32))
        time_kernel(laid, matvec, grid, d_a, d_v, d_y, n=matrix_rows, moved=moved)
        assert np.allclose(d_y.copy_to_host(), exact, rtol=1e-5), "matvec is wrong"
    t_a, t_v = (torch.from_numpy(array).to(device) for array in (a, v))
    work = {"n": matrix_rows, "bytes": moved, "device": device}
    bench.time("torch.mv, by rows", torch.mv, t_a, t_v, **work)
    d_image, d_out = cuda.as_cuda_array(t_image), cuda.as_cuda_array(t_out)
    grid = (blocks_for((side, side), (32, 8)), (32, 8))
    for kernel in (read_columns, write_columns):
        t_out.zero_()
        label, n = kernel.__name__.replace("_", " "), side**2
        time_kernel(label, kernel, grid, d_image, d_out, n=n, moved=8 * n)
        assert torch.equal(t_out, t_image.T), "a transposed image is wrong"

# %%

bench.show()

# %%
# On a GPU, look at the per cent beside the rate: useful bytes, as a part of the best
# rate that plain copies and sums reach there.
#
# On an H100, ``strided_sum`` reads useful bytes at :timing:`coalescing rate "kernel,
# stride 1" @nvidia-h100-80gb-hbm3` with stride 1, and at :timing:`coalescing rate
# "kernel, stride 8" @nvidia-h100-80gb-hbm3` with stride 8. So far the law holds. Then
# the rate goes on falling, to :timing:`coalescing rate "kernel, stride 16"
# @nvidia-h100-80gb-hbm3` with stride 16 and :timing:`coalescing rate "kernel, stride
# 64" @nvidia-h100-80gb-hbm3` with stride 64: its memory delivers more than one sector
# at a time, whether you want them or not.

# %%

# folded: Is it so? The rates of this run, as shares of the first, beside the law

measured = {t.label: t.byte_rate for t in bench.timings}
kind, most = ("kernel", 8) if on_gpu else ("NumPy", 16)
rates = {stride: measured[f"{kind}, stride {stride}"] for stride in STRIDES}
rows = [
    (f"{stride}", f"{rate / rates[1]:.3f}", f"{1 / min(stride, most):.3f}")
    for stride, rate in rates.items()
]
show_table("Share of the rate", ("stride", "measured", "law"), rows)

# %%
# On one core of a CPU, shares come out too high if something other than memory sets the
# pace at stride 1, and too low if prefetching helps less at long strides.
#
# Others have put the law to the test on their cards. It holds where nothing is used
# twice, and fails where a cache keeps what comes back.
#
# .. measured-by-others:: stride32-a100 stride16-titanxp stride8-a100 l1-33-a100
#
# Where this stops being true
# ---------------------------
#
# - *Small data.* What fits into L2 does not wait for DRAM, and sectors are cheaper.
# - *Larger fetches.* NVIDIA documents a `hint for how much L2 fetches at a time`__, up
#   to 128 bytes. Then the loss can go on beyond stride 8.
# - *Wider numbers.* 32 ``float64`` are 8 sectors, 32 ``complex128`` are 16, and all of
#   it is useful. The law has then four or two numbers a sector, not eight.
# - *Indices from data*, ``x[where[i]]``, as in gridding. Then only your data can tell:
#   give ``trace`` a piece of them. Sorting them may be worth more than any trick.
# - *A piece for each thread.* If each thread gets a run of neighbours, as the cores of
#   a CPU do, lanes read with a stride. Let threads take turns, as ``strided_sum`` does.
# - *Few threads.* Even the best pattern is slow if :doc:`too few bytes are under way
#   </tutorials/3_kernels/11_bytes_in_flight>` at a time.
# - *Other makers.* AMD's warps have up to 64 lanes, and sectors and lines have other
#   sizes. The rule is the same: neighbouring lanes, neighbouring addresses.
#
# __ https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
#
# Exercise
# --------
#
# How many sectors does the first warp ask for in one request, with each of these? ``x``
# has ``float32``, ``z`` has ``complex64``. Replace the fours, without the tool above.

answers = {
    "x[i // 2]": 4,
    "x[3 * i]": 4,
    "x[i + 6]": 4,
    "x[i % 4 * 8 + i // 4]": 4,
    "z[2 * i]": 4,
}

# %%

# folded: The questions, with hints, and how a kernel of yours is counted

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
    counts = (
        f"{one.name[4:]} with {one.sectors_each:.3g} sectors a request" for one in found
    )
    return "Your kernel " + (", ".join(counts) or "touches no array") + "."


# %%

# folded: What check does


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


# %%
# ``check`` takes your answers. It takes a kernel, too, such as ``mine``: one with two
# arguments, an array of ``float32`` to read and one to write. Then it counts.


@cuda.jit
def mine(x, out):
    i = cuda.grid(1)
    out[i] = x[5 * i + 3]


print(check(answers))
print(check(mine))

# %%
# Three lines to remember
# -----------------------

# remember

print(f"1. A request moves whole sectors of 32 bytes. Stride 1 moves {sectors(1)},")
print(f"   stride 2 moves {sectors(2)}, stride 8 or more {sectors(8)}.")
print(
    "2. Neighbouring lanes should read neighbouring numbers. With one thread a row, a"
)
print(f"   load touches {rows_at['L1']:.0f} lines if the matrix lies by rows,", end="")
print(f" {columns_at['L1']:.0f} if by columns.")
print("3. A cache helps with what is used later, never with what is skipped. So count")
print("   at three levels, then measure.")

# %%
# Solution
# --------

# solution

solution = dict(zip(QUESTIONS, (2, 12, 5, 4, 16), strict=True))
print(f"Our solution: {check(solution)}")
