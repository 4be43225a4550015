"""What a trace counts of kernels with barriers is what one counts by hand, on every Python."""

import numpy as np
import pytest
from compiler import cuda, float32, float64
from variants import edited

from firstlight_kernels import trace
from firstlight_kernels.findings import TraceError

F = np.float32


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F)


@cuda.jit
def copied_after(x, out):
    t = cuda.grid(1)
    cuda.syncthreads()
    out[t] = x[t]


@cuda.jit
def copied_between(x, out):
    t = cuda.grid(1)
    cuda.syncthreads()
    value = x[t]
    cuda.syncthreads()
    out[t] = value
    cuda.syncthreads()


strided_after = edited(copied_after, ("x[t]", "x[8 * t]"))
shifted_after_a_warp_barrier = edited(copied_after, ("syncthreads", "syncwarp"), ("x[t]", "x[t + 1]"))
after_a_vote = edited(copied_after, ("cuda.syncthreads()", "n = cuda.syncthreads_count(t < 5)"), ("x[t]", "x[t] + n"))
after_a_shuffle = edited(
    copied_after, ("cuda.syncthreads()", "lane = cuda.shfl_sync(0xFFFFFFFF, t, 3)"), ("x[t]", "x[lane]")
)


@cuda.jit
def in_a_loop(x, out):
    t = cuda.grid(1)
    total = 0.0
    for i in range(4):
        cuda.syncthreads()
        total += x[32 * i + t]
    out[t] = total


@cuda.jit
def first_two_of_a_bank(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    s[t + 32] = x[t]
    cuda.syncthreads()
    out[t] = s[32 if t == 1 else t]


@cuda.jit
def doubles_two_apart(x, out):
    s = cuda.shared.array(64, float64)
    t = cuda.threadIdx.x
    s[2 * t] = x[t]
    cuda.syncthreads()
    out[t] = s[2 * t]


@cuda.jit
def tree(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    step = 32
    while step:
        cuda.syncthreads()
        if t < step:
            s[t] += s[t + step]
        step //= 2
    if t == 0:
        out[0] = s[0]


@cuda.jit(device=True)
def element(x, i):
    return x[i]


@cuda.jit
def called_in_both_branches(x, out):
    t = cuda.grid(1)
    cuda.syncthreads()
    if t < 16:
        out[t] = element(x, t)
    else:
        out[t] = element(x, t) + 1


# Kernel, blocks, threads, x, elements of out; sectors of 32 bytes a load of x, lines of 128 bytes that the requests of
# warps touch, sectors that blocks request, and words of the worst bank (1: no conflict).
BY_HAND = [
    (copied_after, 1, 32, ones(32), 32, 4, 1 + 1, 4 + 4, 1),
    (copied_after, 2, 64, ones(128), 128, 4, 4 + 4, 16 + 16, 1),
    (copied_after, 1, 40, ones(40), 40, (4 + 1) / 2, 2 + 2, 5 + 5, 1),
    (copied_between, 2, 32, ones(64), 64, 4, 2 + 2, 8 + 8, 1),
    (strided_after, 1, 32, ones(256), 32, 32, 8 + 1, 32 + 4, 1),
    (shifted_after_a_warp_barrier, 1, 64, ones(65), 64, 5, 4 + 2, 9 + 8, 1),
    (after_a_vote, 1, 64, ones(64), 64, 4, 2 + 2, 8 + 8, 1),
    (after_a_shuffle, 1, 64, ones(64), 64, 1, 2 + 2, 2 + 8, 1),
    (in_a_loop, 1, 32, ones(128), 32, 4, 4 + 1, 16 + 4, 1),
    (first_two_of_a_bank, 1, 32, ones(32), 32, 4, 2 + 1, 4 + 4, 2),
    (doubles_two_apart, 1, 32, ones(32), 32, 4, 1 + 1, 4 + 4, 2),
    (tree, 1, 64, ones(64), 1, 4, 2 + 1, 8 + 1, 1),
    (called_in_both_branches, 1, 32, ones(32), 32, 2, 2 + 2, 4 + 4, 1),
]


@pytest.mark.parametrize(("kernel", "blocks", "threads", "x", "shape", "sectors", "lines", "l2", "ways"), BY_HAND)
def test_counts_of_kernels_with_barriers(kernel, blocks, threads, x, shape, sectors, lines, l2, ways) -> None:
    for _ in range(3):  # Python specializes a function's instructions as it runs
        t = trace(kernel, blocks, threads, x, np.zeros(shape, F))
        assert t.problems == []
        assert t.sectors_per_load["x"] == sectors
        assert (t.traffic.l1_wavefronts, t.traffic.l2_sectors) == (lines, l2)
        assert max((each.ways for each in t.bank_conflicts), default=1) == ways


@cuda.jit
def waits_for_ever(x, out):
    t = cuda.grid(1)
    cuda.syncthreads()
    if t == 5:
        while x[0] == 0:
            pass
    out[t] = 1


@pytest.mark.parametrize("threads", [8, 64])
def test_the_limit_holds_after_a_barrier(threads) -> None:
    with pytest.raises(TraceError, match="thread 5 of block 0"):
        trace(waits_for_ever, 1, threads, np.zeros(1), np.zeros(threads), limit=2000)
