# ruff: noqa: ARG001 -- all kernels have the same parameters
"""Kernels with one planted defect each, and kernels without any; a line with a defect ends in "# here"."""

import numpy as np
from compiler import cuda, float32, int32

F = np.float32


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, F)


# -- Out of bounds -----------------------------------------------------------------------------------------------------


@cuda.jit
def no_guard(x, out):
    i = cuda.grid(1)
    out[i] = 2 * x[i]  # here


@cuda.jit
def axes_swapped(image, out):
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        out[x, y] = image[y, x]  # here


# -- Races -------------------------------------------------------------------------------------------------------------


@cuda.jit
def sum_without_atomic(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0] += x[i]  # here


@cuda.jit
def missing_barrier(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    out[t] = s[63 - t]  # here


@cuda.jit
def barrier_outside_the_loop(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    step = 32
    while step:
        if t < step:
            s[t] += s[t + step]  # here
        step //= 2
    if t == 0:
        out[0] = s[0]


@cuda.jit
def blocks_wait_for_nobody(x, out):
    if cuda.grid(1) == 0:
        out[0] = 7
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        out[1 + cuda.blockIdx.x] = out[0]  # here


@cuda.jit
def atomic_and_plain(x, out):
    i = cuda.grid(1)
    if i:
        cuda.atomic.add(out, 0, x[i])
    else:
        out[0] = 0  # here


# -- Barriers ----------------------------------------------------------------------------------------------------------


@cuda.jit
def barrier_in_a_branch(x, out):
    if cuda.threadIdx.x < 16:
        cuda.syncthreads()  # here
    out[cuda.grid(1)] = 1


@cuda.jit
def shuffle_without_all_lanes(x, out):
    lane = cuda.laneid
    if lane < 20:
        out[lane] = cuda.shfl_down_sync(0xFFFFFFFF, x[lane], 1)  # here


# -- Right ones --------------------------------------------------------------------------------------------------------


@cuda.jit
def guarded(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


@cuda.jit
def tree(x, out):
    s = cuda.shared.array(64, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    step = 32
    while step:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


@cuda.jit
def return_before_the_barrier(x, out):  # which waits for those that are left
    i = cuda.grid(1)
    if i >= x.size:
        return
    cuda.syncthreads()
    out[i] = x[i]


@cuda.jit
def barrier_in_a_guard(x, out):
    s = cuda.shared.array(64, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if i < x.size:
        s[t] = x[i]
        cuda.syncthreads()
        out[i] = s[t ^ 1] if i + 1 < x.size else s[t]


@cuda.jit
def by_shuffles(x, out):
    i = cuda.grid(1)
    value = x[i] if i < x.size else float32(0)
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


@cuda.jit
def within_a_warp(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    out[t] = s[t ^ 1]


@cuda.jit(device=True)
def squared(value):
    return value * value


@cuda.jit
def with_a_device_function(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = squared(x[i])


@cuda.jit
def turned(image, out):
    tile = cuda.shared.array((8, 9), float32)
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = image[y, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * 8 + cuda.threadIdx.x
    y = cuda.blockIdx.x * 8 + cuda.threadIdx.y
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


@cuda.jit
def histogram(x, out):
    bins = cuda.shared.array(4, int32)
    t = cuda.threadIdx.x
    if t < 4:
        bins[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, int32(x[i]) % 4, 1)
    cuda.syncthreads()
    if t < 4:
        cuda.atomic.add(out, t, bins[t])


@cuda.jit
def barrier_for_all_after_a_guard(x, out):
    i = cuda.grid(1)
    inside = cuda.syncthreads_count(1 if i < x.size else 0)
    if i < x.size:
        out[i] = inside


# Kernel, blocks, threads, arguments, and in which list it must be found.
BROKEN = [
    (no_guard, 2, 32, (ones(63), zeros(63)), "out_of_bounds"),
    (axes_swapped, (2, 2), (4, 4), (ones(5, 7), zeros(5, 7)), "out_of_bounds"),
    (sum_without_atomic, 2, 32, (ones(37), zeros(1)), "races"),
    (missing_barrier, 1, 64, (ones(64), zeros(64)), "races"),
    (barrier_outside_the_loop, 1, 64, (ones(64), zeros(1)), "races"),
    (blocks_wait_for_nobody, 3, 32, (ones(1), zeros(9)), "races"),
    (atomic_and_plain, 1, 32, (ones(32), zeros(1)), "races"),
    (barrier_in_a_branch, 2, 32, (ones(1), zeros(64)), "divergent_barriers"),
    (shuffle_without_all_lanes, 1, 32, (ones(32), zeros(32)), "divergent_barriers"),
]
x = np.arange(101, dtype=F)
RIGHT = [
    (guarded, 4, 32, (x, zeros(101)), 2 * x),
    (tree, 2, 64, (x, zeros(1)), [x.sum()]),
    (return_before_the_barrier, 4, 32, (x, zeros(101)), x),
    (barrier_in_a_guard, 2, 64, (x, zeros(101)), [*(np.arange(100) ^ 1), 100]),
    (by_shuffles, 4, 32, (x, zeros(1)), [x.sum()]),
    (within_a_warp, 1, 64, (x, zeros(64)), np.arange(64) ^ 1),
    (with_a_device_function, 4, 32, (x, zeros(101)), x**2),
    (turned, (2, 2), (8, 8), (x[:99].reshape(9, 11), zeros(11, 9)), x[:99].reshape(9, 11).T),
    (histogram, 4, 32, (x, np.zeros(4, np.int32)), [26, 25, 25, 25]),
    (barrier_for_all_after_a_guard, 2, 64, (x, zeros(101)), [64] * 64 + [37] * 37),
]
