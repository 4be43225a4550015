"""Add two vectors, and multiply a matrix by a vector, with kernels of your own.

Without an NVIDIA GPU, their launches are simulated.
"""

import math
import time

import numpy as np
from numba import cuda, float32

from firstlight_kernels import simulated

SIMULATED = simulated()


@cuda.jit
def add_vectors(a, b, u):
    i = cuda.grid(1)  # blockIdx.x * blockDim.x + threadIdx.x
    if i < u.size:  # the last block has threads to spare
        u[i] = a[i] + b[i]  # not +=, which would be right only once


@cuda.jit
def rows_times_vector(m, v, u):
    row = cuda.grid(1)
    if row < m.shape[0]:
        total = float32(0)  # a plain 0.0 is a float64, and so would be every step
        for column in range(m.shape[1]):
            total += m[row, column] * v[column]
        u[row] = total


def seconds_of(kernel, blocks, threads, *arguments, calls=100):
    """Return the seconds of a launch, as one of many that are waited for together."""
    kernel[blocks, threads](*arguments)  # compiles
    cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        kernel[blocks, threads](*arguments)
    cuda.synchronize()  # without this line you would time the launches, not the work
    return (time.perf_counter() - began) / calls


rng = np.random.default_rng(0)
threads = 64 if SIMULATED else 1024
for n in (5466, 33_554_433):
    if SIMULATED and n > 10_000:
        continue
    blocks = math.ceil(n / threads)
    a, b = (rng.standard_normal(n, dtype=np.float32) for _ in range(2))
    there = [cuda.to_device(x) for x in (a, b, np.zeros_like(a))]
    add_vectors[blocks, threads](*there)
    assert np.array_equal(there[2].copy_to_host(), a + b)
    print(f"{n:,} numbers in {blocks:,} blocks of {threads}: the sums are right")
    if not SIMULATED:
        t = seconds_of(add_vectors, blocks, threads, *there)
        print(f"    {1e6 * t:.1f} µs: {12 * n / t / 1e9:.0f} GB/s")

n, m = (500, 20) if SIMULATED else (100_000, 100)
blocks = math.ceil(n / threads)  # 98 of 1,024 for 100,000 rows
matrix = rng.standard_normal((n, m), dtype=np.float32)
vector = rng.standard_normal(m, dtype=np.float32)
expected = matrix.astype(np.float64) @ vector
# By rows, as NumPy lays it, and by columns: then neighbouring threads read neighbours.
for order in "CF":
    laid = np.asarray(matrix, order=order)
    there = [cuda.to_device(x) for x in (laid, vector, np.zeros(n, np.float32))]
    rows_times_vector[blocks, threads](*there)
    error = np.abs(there[2].copy_to_host() - expected).max()
    assert error < 1e-5 * m, error
    print(f"{n:,} × {m}, {blocks} blocks, order {order}: off by {error:.0e} at most")
    if not SIMULATED:
        t = seconds_of(rows_times_vector, blocks, threads, *there)
        print(f"    {1e6 * t:.1f} µs: {4 * n * m / t / 1e9:.0f} GB/s")
