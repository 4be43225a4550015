"""What a trace counts is what an NVIDIA H200 counted itself: Nsight Compute on these kernels, driver 580.159.04, 2026.

The metrics are l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum and …_st.sum, and
l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum.
"""

import numpy as np
import pytest
from compiler import cuda
from variants import edited

from firstlight_kernels import trace

F = np.float32


@cuda.jit
def gather(x, stride, offset, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i * stride + offset]


@cuda.jit
def matvec(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        total = F(0)
        for j in range(x.size):
            total += a[i, j] * x[j]
        y[i] = total


@cuda.jit
def write_columns(image, out):
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        out[x, y] = image[y, x]


@cuda.jit
def tile(image, out):
    t = cuda.shared.array((32, 32), F)
    x, y = cuda.grid(2)
    t[cuda.threadIdx.y, cuda.threadIdx.x] = image[y, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * 32 + cuda.threadIdx.x
    y = cuda.blockIdx.x * 32 + cuda.threadIdx.y
    out[y, x] = t[cuda.threadIdx.x, cuda.threadIdx.y]


padded = edited(tile, ("(32, 32)", "(32, 33)"))


def gathered(stride: int, offset: int, n: int = 256) -> tuple:
    return gather, n // 64, 64, (np.zeros(n * stride + offset, F), stride, offset, np.zeros(n, F))


def times_vector(order: str) -> tuple:
    return matvec, 2, 32, (np.asarray(np.zeros((64, 32), F), order=order), np.zeros(32, F), np.zeros(64, F))


def transposed(kernel) -> tuple:
    return kernel, (2, 2), (32, 32), (np.zeros((64, 64), F), np.zeros((64, 64), F))


# Sectors of all loads and of all stores, and passes that bank conflicts cost the loads.
H200 = [
    (gathered(1, 0), 32, 32, 0),
    (gathered(1, 1), 40, 32, 0),
    (gathered(2, 0), 64, 32, 0),
    (gathered(3, 1), 96, 32, 0),
    (gathered(6, 0), 192, 32, 0),
    (gathered(8, 0), 256, 32, 0),
    (gathered(32, 0), 256, 32, 0),
    (times_vector("C"), 2112, 8, 0),
    (times_vector("F"), 320, 8, 0),
    (transposed(write_columns), 512, 4096, 0),
    (transposed(tile), 512, 512, 3968),
    (transposed(padded), 512, 512, 0),
]


@pytest.mark.parametrize(("launch", "loaded", "stored", "passes"), H200)
def test_a_trace_counts_as_the_gpu_does(launch, loaded: int, stored: int, passes: int) -> None:
    kernel, blocks, threads, arguments = launch
    t = trace(kernel, blocks, threads, *arguments)

    def requests(array: str, kind: str) -> int:
        return int(t.counts(kind, array=array).reshape(-1, 32).max(axis=1).sum())

    assert sum(requests(array, "load") * each for array, each in t.sectors_per_load.items()) == loaded
    assert sum(requests(array, "store") * each for array, each in t.sectors_per_store.items()) == stored
    assert sum(each.times * (each.ways - 1) for each in t.bank_conflicts) == passes
