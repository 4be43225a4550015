# ruff: noqa: D103 -- of kernels
"""How many times as fast as Numba's simulator does the grid run in lockstep? The same launches in turn, as ratios.

    nox -s bench -- simulator

Numba's simulator runs in a process of its own, since it takes the place of ``numba.cuda`` there. It starts a thread of
the operating system for each thread of the grid; so the hardest row is the product of a matrix and a vector, with few
threads and long loops. Half of the kernels are others': two of numba-cuda's documentation, one of its tests, and one of
xarray-spatial.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32, int32

ROUNDS = 3
SIZES = (1024, 2304, 9216)  # threads, but for the product of a matrix and a vector
F = np.float32


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@cuda.jit
def histogram(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, int(x[i] * 32), 1)


@cuda.jit
def matrix_vector(a, x, out):
    i = cuda.grid(1)
    if i < out.size:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[i, k] * x[k]
        out[i] = total


@cuda.jit
def block_sum(x, out):
    part = cuda.shared.array(128, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    part[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])


# Of numba-cuda, tests/doc_examples/test_matmul.py.
TPB = 16


@cuda.jit
def fast_matmul(A, B, C):
    sA = cuda.shared.array(shape=(TPB, TPB), dtype=float32)
    sB = cuda.shared.array(shape=(TPB, TPB), dtype=float32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    bpg = cuda.gridDim.x
    tmp = float32(0.0)
    for i in range(bpg):
        sA[ty, tx] = 0
        sB[ty, tx] = 0
        if y < A.shape[0] and (tx + i * TPB) < A.shape[1]:
            sA[ty, tx] = A[y, tx + i * TPB]
        if x < B.shape[1] and (ty + i * TPB) < B.shape[0]:
            sB[ty, tx] = B[ty + i * TPB, x]
        cuda.syncthreads()
        for j in range(TPB):
            tmp += sA[ty, j] * sB[j, tx]
        cuda.syncthreads()
    if y < C.shape[0] and x < C.shape[1]:
        C[y, x] = tmp


# Of numba-cuda, tests/doc_examples/test_reduction.py; here for each block.
@cuda.jit
def array_sum(data, out):
    tid = cuda.threadIdx.x
    i = cuda.grid(1)
    shr = cuda.shared.array(128, int32)
    shr[tid] = data[i]
    cuda.syncthreads()
    s = 1
    while s < cuda.blockDim.x:
        if tid % (2 * s) == 0:
            shr[tid] += shr[tid + s]
        s *= 2
        cuda.syncthreads()
    if tid == 0:
        out[cuda.blockIdx.x] = shr[tid]


# Of numba-cuda, tests/cudapy/test_blackscholes.py.
RSQRT2PI, A1, A2, A3, A4, A5 = 0.39894228, 0.31938153, -0.356563782, 1.781477937, -1.821255978, 1.330274429


@cuda.jit(device=True)
def cnd_cuda(d):
    K = 1.0 / (1.0 + 0.2316419 * math.fabs(d))
    ret_val = RSQRT2PI * math.exp(-0.5 * d * d) * (K * (A1 + K * (A2 + K * (A3 + K * (A4 + K * A5)))))
    if d > 0:
        ret_val = 1.0 - ret_val
    return ret_val


@cuda.jit
def black_scholes_cuda(S, X, T, R, V, callResult):
    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    if i >= S.shape[0]:
        return
    sqrtT = math.sqrt(T[i])
    d1 = (math.log(S[i] / X[i]) + (R + 0.5 * V * V) * T[i]) / (V * sqrtT)
    d2 = d1 - V * sqrtT
    cndd1 = cnd_cuda(d1)
    cndd2 = cnd_cuda(d2)
    expRT = math.exp((-1.0 * R) * T[i])
    callResult[i] = S[i] * cndd1 - X[i] * expRT * cndd2


# Of xarray-spatial, xrspatial/slope.py.
@cuda.jit(device=True)
def _gpu(arr, cellsize_x, cellsize_y):
    a = arr[2, 0]
    b = arr[2, 1]
    c = arr[2, 2]
    d = arr[1, 0]
    f = arr[1, 2]
    g = arr[0, 0]
    h = arr[0, 1]
    i = arr[0, 2]
    dz_dx = ((c + 2 * f + i) - (a + 2 * d + g)) / (8 * cellsize_x[0])
    dz_dy = ((g + 2 * h + i) - (a + 2 * b + c)) / (8 * cellsize_y[0])
    p = (dz_dx * dz_dx + dz_dy * dz_dy) ** 0.5
    return math.atan(p) * 57.29578


@cuda.jit
def slope(arr, cellsize_x_arr, cellsize_y_arr, out):
    i, j = cuda.grid(2)
    di = 1
    dj = 1
    if i - di >= 0 and i + di < out.shape[0] and j - dj >= 0 and j + dj < out.shape[1]:
        out[i, j] = _gpu(arr[i - di : i + di + 1, j - dj : j + dj + 1], cellsize_x_arr, cellsize_y_arr)


class Launch(NamedTuple):
    """A kernel, its blocks, the threads of one, and what makes its arguments, of which the last is the result."""

    kernel: Any
    blocks: Any
    threads: Any
    arguments: tuple[Any, ...]


def launch_of(name: str, n: int) -> Launch:
    """Return a launch of about so many threads, with the same numbers at each call."""
    rng, side = np.random.default_rng(0), math.isqrt(n)
    x, y = rng.random((2, n), F)
    square = side // 16, side // 16
    row = n // 16  # a matrix of so many rows, and twice as many columns
    makers: dict[str, Callable[[], Launch]] = {
        "add": lambda: Launch(add, n // 128, 128, (x, y, np.zeros(n, F))),
        "histogram": lambda: Launch(histogram, n // 128, 128, (x, np.zeros(32, np.int32))),
        "matrix_vector": lambda: Launch(
            matrix_vector, -(-row // 64), 64, (rng.random((row, 2 * row), F), y, np.zeros(row, F))
        ),
        "block_sum": lambda: Launch(block_sum, n // 128, 128, (x, np.zeros(1, F))),
        "fast_matmul": lambda: Launch(
            fast_matmul, square, (16, 16), (*rng.random((2, side, side), F), np.zeros((side, side), F))
        ),
        "array_sum": lambda: Launch(array_sum, n // 128, 128, (np.arange(n), np.zeros(n // 128, np.int32))),
        "black_scholes": lambda: Launch(
            black_scholes_cuda, n // 128, 128, (5 + 25 * x, 1 + 99 * y, 0.25 + x + y, 0.02, 0.3, np.zeros(n))
        ),
        "slope": lambda: Launch(
            slope,
            square,
            (16, 16),
            (rng.random((side, side), F), np.ones(1, F), np.ones(1, F), np.zeros((side, side), F)),
        ),
    }
    return makers[name]()


KERNELS = ("add", "histogram", "matrix_vector", "block_sum", "fast_matmul", "array_sum", "black_scholes", "slope")


def timed(run: Callable[[Launch], None], name: str, n: int) -> tuple[float, float]:
    """Return the seconds of the second of two launches, and the sum of its result."""
    for _ in range(2):  # the first one also warms the processor up, which the other process has just had
        launch = launch_of(name, n)
        start = time.perf_counter()
        run(launch)
        seconds = time.perf_counter() - start
    return seconds, float(launch.arguments[-1].astype(np.float64).sum())


def serve() -> None:
    """Run launches in Numba's simulator, for the process that asks for them."""
    for line in sys.stdin:
        name, n = line.split()
        seconds, total = timed(lambda one: one.kernel[one.blocks, one.threads](*one.arguments), name, int(n))
        print(seconds, total, flush=True)


def main() -> None:
    """Print one row a kernel and size: both fastest times, and the ratios of the rounds."""
    from firstlight.display import quantity, show_table
    from firstlight_kernels import lockstep
    from firstlight_kernels.launch import bound

    def ours(one: Launch) -> None:
        lockstep.run(bound(one.kernel, one.blocks, one.threads, one.arguments))

    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, __file__, "serve"]
    with subprocess.Popen(command, env=environment, stdin=-1, stdout=-1, text=True, bufsize=1) as server:
        rows = []
        for name in KERNELS:
            for n in SIZES:
                pairs = []
                for _ in range(ROUNDS):
                    print(name, n, file=server.stdin, flush=True)
                    theirs, expected = map(float, server.stdout.readline().split())
                    seconds, total = timed(ours, name, n)
                    if not math.isclose(total, expected, rel_tol=1e-4):
                        raise ValueError(f"{name} gives {total}, and {expected} in Numba's simulator")
                    pairs.append((theirs, seconds))
                one = launch_of(name, n)
                threads = np.prod(one.blocks) * np.prod(one.threads)
                ratios = [theirs / seconds for theirs, seconds in pairs]
                fastest = (quantity(min(column), "s") for column in zip(*pairs, strict=True))
                rows.append((name, f"{threads}", *fastest, f"{min(ratios):,.0f} to {max(ratios):,.0f}"))
        server.stdin.close()
    show_table(f"{ROUNDS} rounds", ("kernel", "threads", "Numba's simulator", "lockstep", "times as fast"), rows)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
