"""
Your warp asks for 128 bytes. How many move?
============================================

An array in the memory of your GPU holds 420 million numbers, and you need every eighth.
Your :term:`kernel` reads only those, and skips seven of eight. So it should take an
eighth of the time, shouldn't it? **Write down a guess: what part of the time does it
take, on an H100?**

By the end you'll be able to look at an index in a kernel and say how many bytes will
move for it. You'll also fix a data layout that makes a kernel slow.

**Needs:** any computer, and :doc:`grids </tutorials/3_kernels/03_grids>`.
"""

# %%
# Try it
# ------
#
# Here is a kernel that reads every second number, or every eighth. The distance from
# one number that we read to the next is called the *stride*.

import numpy as np
from numba import cuda

from firstlight_kernels import blocks_for, simulated, trace
from firstlight.lessons.lanes import Lanes


@cuda.jit
def gather(x, stride, offset, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i * stride + offset]


# %%
# To time it, we let a kernel with the same index add the numbers up, so that it hardly
# writes anything. On the H100, all 420 million took :timing:`coalescing median "kernel,
# stride 1" @nvidia-h100-80gb-hbm3`. Every eighth of them took :timing:`coalescing
# median "kernel, stride 8" @nvidia-h100-80gb-hbm3`.
#
# It didn't save anything! Why not? Because memory doesn't hand out single numbers.
# Think of eggs, which the shop sells in boxes of eight. If 32 people each want one egg,
# and they are happy with eggs from the same boxes, four boxes are enough. If each
# person insists on an egg from a box of their own, the shop has to bring out 32 boxes,
# and seven of eight eggs go back.
#
# In a GPU, the people are the :term:`threads <thread>`. They work in groups of 32,
# called :term:`warps <warp>`, and all threads of a warp load at the same time. The
# boxes are pieces of 32 bytes, called :term:`sectors <sector>`, and eight ``float32``
# numbers fit into each. **If any thread of the warp needs one number of a sector, the
# whole sector is fetched.**
#
# Below you see the 32 threads of a warp, or its :term:`lanes <lane>`, and the sectors
# that they ask for. They come from ``trace``, which plays a kernel thread by thread and
# notes every address. Type an index, and **guess the number of sectors before you
# look**:
#
# - ``i``: each thread reads its own number. How many boxes for 32 eggs?
# - ``i * 2``, then ``i * 8`` and ``i * 16``: where does it stop getting worse?
# - ``31 - i``: the same numbers, read backwards. Is that worse?
# - ``i + 1``: one place further. What happens at the two ends?

# folded: Other kernels, for the list of requests: a matrix times a vector, transposes


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


# For blocks of 32 × 8 threads. Unsigned, an index is never negative, and the compiler
# makes half as many instructions.
@cuda.jit
def through_tiles(image, out):
    tile = cuda.shared.array((32, 33), np.float32)
    tx, ty = np.uint32(cuda.threadIdx.x), np.uint32(cuda.threadIdx.y)
    left, top = 32 * np.uint32(cuda.blockIdx.x), 32 * np.uint32(cuda.blockIdx.y)
    for i in range(0, 32, 8):
        if top + ty + i < image.shape[0] and left + tx < image.shape[1]:
            tile[ty + i, tx] = image[top + ty + i, left + tx]
    cuda.syncthreads()
    for i in range(0, 32, 8):
        if left + ty + i < out.shape[0] and top + tx < out.shape[1]:
            out[left + ty + i, top + tx] = tile[tx, ty + i]


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
# You should have found 4 sectors for ``i``, then 8, and 32 for both of the others,
# because there are only 32 threads to ask. Backwards is as good as forwards: nobody
# cares who takes which egg of a box. And ``i + 1`` touches five sectors, because the
# first number that you want is the second of its box.
#
# When the threads of a warp ask for no more sectors than they must, the access is
# *coalesced* (grown together). For 32 neighbours that's 4 sectors, or 5 if they don't
# begin where a sector does.
#
# The rule
# --------
#
# With ``x[i * stride + offset]``, the first thread starts somewhere in its sector, and
# the last one reads ``31 * stride`` numbers further on. Up to a stride of 8, every
# sector between them is touched. From there on, each thread has a sector of its own:


def sectors(stride, offset=0):
    return min(32, (offset % 8 + 31 * stride) // 8 + 1)


for step in (1, 2, 4, 6, 8, 64):
    share = 4 / sectors(step)
    print(f"stride {step:2}: {sectors(step):2} sectors, {share:4.0%} of the bytes used")

# %%
# The memory of a GPU moves only so many bytes in a second, and those that you don't
# want count, too. So your speed should fall to the share of the bytes that you use.
# With a stride of 8, that's an eighth. In other words, the kernel of our opening reads
# an eighth of the numbers at an eighth of the rate, which takes as long as reading them
# all. That's just what the H100 did.
#
# .. holds::
#
#    rate = lambda k: row(f"coalescing/kernel, stride {k}").byte_rate
#    all(near(rate(k) / rate(1), 1 / k, 0.05) for k in (2, 4, 8))
#
# **What about a stride of 64?** By the rule it's still an eighth, as for every stride
# from 8 on. Let's see what real cards say.

# folded: The rule for 60 pairs, against a trace, and the kernel that we timed

long = np.zeros(64 * 64 + 8, f32)
counted = {}
for stride in (*range(1, 17), 24, 32, 48, 64):
    for offset in (0, 1, 7):
        traced = trace(gather, 1, 32, long, stride, offset, np.zeros(32, f32))
        counted[stride, offset] = traced.sectors_per_load["x"]

assert all(count == sectors(*index) for index, count in counted.items())
print(f"the rule is right for {len(counted)} pairs")


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

# folded: Check of all kernels: odd sizes, an output that holds -1, two launches

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

# folded: How a kernel is timed, and NumPy's sums with strides; PyTorch's on a GPU

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
    bench.time("torch, copied", lambda: t_out.copy_(t_image), **whole)

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
    for kernel in (read_columns, write_columns, through_tiles):
        covered = (32, 32) if kernel is through_tiles else (32, 8)
        grid = (blocks_for((side, side), covered), (32, 8))
        t_out.zero_()
        label, n = kernel.__name__.replace("_", " "), side**2
        time_kernel(label, kernel, grid, d_image, d_out, n=n, moved=8 * n)
        assert torch.equal(t_out, t_image.T), "a transposed image is wrong"

# %%

# measured figure

import matplotlib.pyplot as plt

from firstlight.display import BLUE, GREY

T4 = {1: 206.0, 2: 130.5, 4: 68.8, 8: 33.8, 16: 16.8, 32: 15.2, 64: 13.6}  # GB/s
fig, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
every = np.arange(1, 65)
for least, shade, dash in ((8, "black", "-"), (16, GREY, "--")):
    law = 1 / np.minimum(every, least)
    words = f"boxes of {least} numbers"
    ax.plot(every, law, dash, color=shade, lw=1.6, label=words)
look = {"ls": "", "ms": 8, "mfc": "none", "mew": 1.6, "color": BLUE}
shares_there = [rate / T4[1] for rate in T4.values()]
ax.plot([*T4], shares_there, "o", label="T4 (Modal)", **look)
rate_at = {each.label: each.byte_rate for each in bench.timings}
if on_gpu:
    full = rate_at["kernel, stride 1"]
    own = [rate_at[f"kernel, stride {stride}"] / full for stride in STRIDES]
    ax.plot(STRIDES, own, "o", ms=8, color="black", label="this GPU (ours)")
ax.legend(loc="lower left", frameon=False)
ticks = [2**power for power in range(7)]
ax.set(xscale="log", yscale="log", xlabel="stride", ylabel="share of the rate")
ax.set_xticks(ticks, ticks)
ax.set_yticks([1 / tick for tick in ticks[:6]], [1, *(f"1/{t}" for t in ticks[1:6])])
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("The rate falls in step with the stride, and at 8 it doesn't stop")
fig.set_label(
    "Share of the rate against stride, both axes logarithmic. The rule falls as one "
    "over the stride to an eighth at stride 8 and is flat from there; with boxes of 16 "
    "it falls to a sixteenth. What Modal measured on a T4 follows the second."
)
plt.show()

# %%
# The blue rings are from the GPU glossary of Modal, a company that rents out GPUs: they
# measured a T4. Up to a stride of 8 they differ from the rule by about a third at most.
# And then they go on falling! So our rule is incomplete. Look at the times of our
# kernel on the H100:
#
# .. list-table:: One pass over the same array, on an H100
#    :header-rows: 1
#
#    * - stride
#      - sectors that it wants
#      - time
#    * - 1
#      - all
#      - :timing:`coalescing median "kernel, stride 1" @nvidia-h100-80gb-hbm3`
#    * - 8
#      - all
#      - :timing:`coalescing median "kernel, stride 8" @nvidia-h100-80gb-hbm3`
#    * - 16
#      - every second one
#      - :timing:`coalescing median "kernel, stride 16" @nvidia-h100-80gb-hbm3`
#    * - 32
#      - every fourth one
#      - :timing:`coalescing median "kernel, stride 32" @nvidia-h100-80gb-hbm3`
#    * - 64
#      - every eighth one
#      - :timing:`coalescing median "kernel, stride 64" @nvidia-h100-80gb-hbm3`
#
# With a stride of 16, half of the sectors would do, and yet it takes as long as all of
# them. So this memory seems to hand out its boxes in pairs. NVIDIA documents that: when
# a sector isn't in the :term:`cache`, its neighbours may be fetched along with it, up
# to `a limit`__ that CUDA can set, 128 bytes at most. Pairs are the dashed line, and
# the T4 is close to it, too.
#
# __ https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
#
# .. holds::
#
#    rate(64) < rate(16) < 0.6 * rate(8)
#    took = lambda k: median(f"coalescing/kernel, stride {k}")
#    near(took(8), took(1), 0.05) and near(took(16), took(1), 0.05)
#    took(32) < 0.6 * took(1)
#
# A stride that nobody wrote
# --------------------------
#
# Nobody writes ``x[i * 6]``. But suppose you have a table of measurements from a radio
# telescope, and each row holds six numbers: ``u``, ``v``, ``re``, ``im``, ``weight``,
# ``frequency``. NumPy lays it out row after row, so the weights lie six numbers apart.
# A kernel in which thread ``i`` reads ``table[i, 4]`` has a stride of 6. **How many
# sectors is that?**
#
# It's 24, six times as many as would do. On the H100 a stride of 6 took
# :timing:`coalescing median "kernel, stride 6" @nvidia-h100-80gb-hbm3`: a sixth of the
# numbers, and the whole time. Such a layout, one record after the other, is called an
# *array of structures*.
#
# .. holds::
#
#    near(took(6), took(1), 0.05)
#
# The remedy is to keep each of the six in an array of its own. In NumPy that's one
# line:
#
# .. code-block:: python
#
#    fields = np.ascontiguousarray(table.T)  # the weights are fields[4], side by side
#
# That's called a *structure of arrays*. Now thread ``i`` reads ``fields[4, i]``. **In a
# NumPy array, the index that changes from thread to thread should be the last one.**
# The copy costs time once, so it pays if you use the data more than once. And you can
# count sectors for any kernel of yours, on a laptop:


@cuda.jit
def weights_of(table, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = table[i, 4]


table = np.ones((32, 6), dtype=np.float32)
noted = trace(weights_of, 1, 32, table, np.zeros(32, dtype=np.float32))
print("sectors a load:", noted.sectors_per_load["table"])

# %%
# Can you believe such a count? An NVIDIA GPU counts sectors, too, in its hardware, and
# the profiler Nsight Compute shows them, as
# ``l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum`` for loads. We let an H200 count
# twelve of our launches, with strides, matrices in both orders, and transposes. Its
# numbers were those of ``trace``, to the last sector.
#
# One of the two has to go wrong
# ------------------------------
#
# Sometimes no layout is right. To *transpose* an image, you read ``image[y, x]`` and
# write ``out[x, y]``. If neighbouring threads have neighbouring ``x``, they read side
# by side, but they write a whole row apart, into 32 sectors. If you turn the kernel
# around, it's the reads that are far apart. Our rule sees no difference. **Which of the
# two would you rather have?**
#
# On the H100, and for 8,191 × 8,191 numbers, the kernel that *writes* far apart took
# :timing:`coalescing median "kernel, write columns" @nvidia-h100-80gb-hbm3`. The one
# that *reads* far apart took :timing:`coalescing median "kernel, read columns"
# @nvidia-h100-80gb-hbm3`. So let it be the reads. If the number of columns is a power
# of two, time both. The numbers of a column then share few places in the cache, and
# push each other out.
#
# .. holds::
#
#    reads = median("coalescing/kernel, read columns")
#    median("coalescing/kernel, write columns") > 3 * reads
#
# How good could it be? A plain copy moves the same bytes, all of them side by side. The
# remedy in every textbook is that a block reads a piece of the image along its rows,
# turns it around in a fast memory that :doc:`its threads share
# </tutorials/3_kernels/07_shared_memory>`, and writes it along the rows of the result.
# Such a piece is called a *tile*.
#
# On the H100, the copy took :timing:`coalescing median "torch, copied"
# @nvidia-h100-80gb-hbm3`, and the transpose through tiles :timing:`coalescing median
# "kernel, through tiles" @nvidia-h100-80gb-hbm3`. That's hardly less than reading far
# apart! Rows of 8,191 numbers begin anywhere in a box, so a tile's loads and stores
# want nearly 5 sectors, and not 4. But that explains less than half of the extra time.
# PyTorch's ``out.copy_(image.T)`` took :timing:`coalescing median "torch, transposed"
# @nvidia-h100-80gb-hbm3`.
#
# .. holds::
#
#    tiles = median("coalescing/kernel, through tiles")
#    0.9 * reads < tiles < reads < median("coalescing/torch, transposed")
#    copied = median("coalescing/torch, copied")
#    tiles > 1.5 * copied
#    (4 + 7 / 8) / 4 * copied - copied < (tiles - copied) / 3
#
# Our rule is right about *each load*, but it doesn't know what's left over from the one
# before. That's why reading far apart does so well, as the :doc:`page on caches
# </tutorials/3_kernels/06_caches>` shows.
#
# Others have measured a stride of 16. The T4 reads every 16th number. On the TITAN Xp
# neighbouring threads write 16 numbers apart, but then each goes on to write the other
# fifteen. So the L2 cache can join the writes of a sector, and a card can be faster
# than our rule:
#
# .. measured-by-others:: stride16-t4 stride16-titanxp

# folded: All our measurements. Your own GPU can be timed beside them, in the browser

bench.show()

# %%
# Your turn
# ---------
#
# Here is a kernel that is right and slow. It computes the weighted power of each
# measurement, from a table with a row of six numbers for each:
#
# .. code-block:: python
#
#    @cuda.jit
#    def power(table, out):
#        i = cuda.grid(1)
#        if i < out.size:
#            out[i] = table[i, 4] * (table[i, 2] ** 2 + table[i, 3] ** 2)
#
# Make it fast. First write ``arrange``, which gets the table (a NumPy array of ``n``
# rows and six columns) and returns an array in which neighbouring threads find
# neighbouring numbers. Then write the kernel that reads this array. ``n`` can be any
# number. Put both where the dots are, and run ``firstlight try 05_coalescing.py``.


def arrange(table): ...


@cuda.jit
def power(fields, out): ...


# %%

# folded: What check does: it traces your kernel, and counts the sectors of each load


def find_problem(arrange, power, n):
    given = np.random.default_rng(n).uniform(1, 2, (n, 6)).astype(np.float32)
    right = given[:, 4] * (given[:, 2] ** 2 + given[:, 3] ** 2)
    fields, found = arrange(given.copy()), np.full(n, np.nan, dtype=np.float32)
    if not isinstance(fields, np.ndarray) or fields.dtype != np.float32:
        return f"arrange has to return an array of float32, not {fields!r:.60}"
    if fields.size < 3 * n:
        return "arrange has lost numbers that the kernel needs"
    seen = trace(power, blocks_for(n, 64), 64, fields, found, limit=20_000)
    if seen.out_of_bounds:
        return f"{seen.out_of_bounds[0]}. Is there a guard?"
    if not np.allclose(found, right):
        worst = int(np.argmax(~np.isclose(found, right)))
        return f"out[{worst}] is {found[worst]}, and should be {right[worst]:.4f}"
    for name, count in seen.sectors_per_load.items():
        if count > 5:
            hint = "Look at how the array lies in memory, not only at its shape"
            return f"a load from {name} touches {count:.1f} sectors, not 4 or 5. {hint}"
    return ""


def check(answer):
    for n in (64, 101):
        try:
            problem = find_problem(*answer, n)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            return f"Not yet. {n} visibilities: {problem}."
    return "Right: neighbouring threads read neighbouring numbers."


# %%

print(check((arrange, power)))

# %%
# Three lines to remember
# -----------------------
#
# The first line counts what a warp asks for. Beyond a stride of 8, the H100's memory
# moved the neighbours of those sectors, too. The second line is for a thread ``i`` that
# reads some fields of record ``i``. If it reads whole records at random places, keep
# each record together, and aligned, so that its fields share a sector. The third line
# is what the H100 showed. On a card with a small, old cache, reading far apart may be
# as slow as writing.

# remember

print(f"""\
1. Memory moves whole sectors of 32 bytes. For 32 numbers, stride 1 moves {sectors(1)},
   stride 2 moves {sectors(2)}, stride 8 or more {sectors(8)}. On an H100, reading every
   eighth number took as long as reading all.
2. Neighbouring threads should read neighbouring numbers. Keep what you read together
   in an array of its own, not in records.
3. If reads or writes have to be far apart, let it be the reads.""")

# %%
# Solution
# --------

# solution


def arrange_solution(table):
    return np.ascontiguousarray(table.T)


@cuda.jit
def power_solution(fields, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = fields[4, i] * (fields[2, i] ** 2 + fields[3, i] ** 2)


print(f"Our solution: {check((arrange_solution, power_solution))}")
