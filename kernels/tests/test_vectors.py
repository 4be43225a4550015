"""Vectors, such as float32x4, give the same bits in every way of running."""

from functools import partial

import numpy as np
import pytest
from compiler import PACKAGE, cuda, in_compilers_only

from firstlight_kernels import lockstep, simulated, threads, trace
from firstlight_kernels.findings import LaunchError, TraceError
from firstlight_kernels.launch import bound

pytestmark = in_compilers_only
of_mlir = pytest.mark.skipif(PACKAGE == "numba", reason="numba-cuda only makes vectors and takes them apart")
GIVEN = np.random.default_rng(0).normal(size=256).astype(np.float32) * 100


def in_all_ways(kernel, size=32):
    """Return what a kernel makes of GIVEN in a trace, in lockstep, and thread by thread, which is the same; and it."""
    results = []
    for way in (lockstep.run, threads.run, None):
        x, out = GIVEN.copy(), np.zeros(64)
        if way:
            way(bound(kernel, 1, size, (x, out)))
        else:
            traced = trace(kernel, 1, size, x, out)
        results.append((x.tobytes(), out.tobytes()))
    assert len(set(results)) == 1
    return x, out, traced


@cuda.jit(device=True)
def turned(v):
    return cuda.float32x2(v.y, v.x)


@cuda.jit
def made_and_taken_apart(x, out):
    i = cuda.grid(1)
    v = cuda.float4(x[4 * i], turned(cuda.float32x2(x[4 * i + 1], x[4 * i + 2])), x[4 * i + 3])
    best = v
    if v.x < 0:
        best = cuda.float32x4(v.w, v.z, v.y, v.x)
    n = cuda.short2(x[i] * 10, 3)
    out[i] = best.x + best.w * 0.1 + n.x - n.y


def test_vectors_are_made_and_taken_apart() -> None:
    x, out, traced = in_all_ways(made_and_taken_apart)
    first, last = np.where(x[:128:4] < 0, (x[3:128:4], x[:128:4]), (x[:128:4], x[3:128:4]))
    whole = (x[:32] * 10.0).astype(np.int16)
    assert np.allclose(out[:32], first + 0.1 * last + whole - 3)
    assert not traced.problems


@cuda.jit
def shared_vectors(x, out):
    i = cuda.threadIdx.x
    near = cuda.shared.array(32, cuda.float32x4)
    near[i] = cuda.float32x4(x[i], 1, 2, i)
    cuda.syncthreads()
    out[i] = near[31 - i].w + near[i].x


def test_arrays_of_vectors() -> None:
    if PACKAGE == "numba":
        with pytest.raises(TraceError, match="not compiled"):
            trace(shared_vectors, 1, 32, GIVEN.copy(), np.zeros(64))
        return
    x, out, traced = in_all_ways(shared_vectors)
    assert np.array_equal(out[:32], np.float32(31 - np.arange(32)) + x[:32])
    assert not traced.problems
    assert set(traced.accesses["size"][traced.in_space("shared")]) == {16}


@cuda.jit
def without_barrier(x, out):
    i = cuda.threadIdx.x
    near = cuda.shared.array(32, cuda.float32x4)
    if i > 0:
        near[i] = cuda.float32x4(x[i], 1, 2, i)
    out[i] = near[31 - i].w


@of_mlir
def test_what_is_wrong_with_arrays_of_vectors_is_told() -> None:
    traced = trace(without_barrier, 1, 32, GIVEN.copy(), np.zeros(64))
    assert traced.races
    assert [found.index for found in traced.uninitialized] == [(0,)]


@cuda.jit
def moved(x, out):
    i = cuda.threadIdx.x
    v = cuda.vector.load(x, 4 * i, 4)
    z = complex(cuda.float32x2(v.x, v.y))
    cuda.vector.store(x, 4 * i, cuda.float32x4(v.w, v.z, v.y, v.x))
    out[i] = v.x + z.imag


@of_mlir
def test_vectors_are_loaded_and_stored() -> None:
    x, out, _ = in_all_ways(moved)
    old = GIVEN[:128].reshape(32, 4)
    assert np.allclose(out[:32], old[:, 0] + old[:, 1])
    assert np.array_equal(x[:128], old[:, ::-1].ravel())


@cuda.jit
def of_two_numbers(x, out):
    out[cuda.threadIdx.x] = np.complex64(x[0], x[1]).imag


@cuda.jit
def of_two_numbers_by_mistake(x, out):
    out[cuda.threadIdx.x] = np.int32(x[0], x[1])


def test_a_type_of_complex_numbers_takes_two() -> None:
    assert in_all_ways(of_two_numbers)[1][3] == GIVEN[1]
    with pytest.raises(TraceError, match="imag"):
        trace(of_two_numbers_by_mistake, 1, 1, GIVEN.copy(), np.zeros(64))


@cuda.jit
def added(x, out):
    out[0] = (cuda.float32x2(x[0], x[1]) + cuda.float32x2(x[2], x[3])).x


@cuda.jit
def scaled(x, out):
    out[0] = (2 * cuda.float32x2(x[0], x[1])).x


@cuda.jit
def beyond(x, out):
    out[cuda.threadIdx.x] = cuda.vector.load(x, 4 * cuda.threadIdx.x + 200, 4).x


@cuda.jit
def indexed(x, out):
    out[0] = cuda.float32x2(x[0], x[1])[1]


@cuda.jit
def compared(x, out):
    v = cuda.float32x2(x[0], x[1])
    if v == v:
        out[0] = 1


@pytest.mark.parametrize("kernel", [indexed, compared, added, scaled])
def test_what_is_not_done_to_a_vector_is_refused(kernel) -> None:
    ways = [partial(trace, kernel, 1, 1)]
    if simulated():  # the compiler refuses it in words of its own
        ways.append(kernel[1, 1])
    for way in ways:
        with pytest.raises((TraceError, LaunchError), match=r"take (its|their) x, y, z and w"):
            way(GIVEN.copy(), np.zeros(64))


@of_mlir
def test_what_no_gpu_does_is_refused_or_told() -> None:
    assert trace(beyond, 1, 32, GIVEN.copy(), np.zeros(64)).out_of_bounds[0].index == (256,)
    with pytest.raises(LaunchError, match=r"thread 14 .* x\[256\]"):
        beyond[1, 32](GIVEN.copy(), np.zeros(64))


@cuda.jit
def reduced(x, out):
    out[0], out[1], out[2] = x.min(), np.max(x[:9]), x[:5].sum()


def test_the_least_and_the_greatest_of_an_array() -> None:
    x, out = GIVEN.copy(), np.zeros(64)
    trace(reduced, 1, 1, x, out)
    assert out[:2].tolist() == [x.min(), x[:9].max()]
    x[7] = np.nan
    trace(reduced, 1, 1, x, out)
    assert np.isnan(out[:2]).all()


@of_mlir
def test_sums_keep_the_type_of_the_array() -> None:
    x, out = np.full(9, 2**30, np.int32), np.zeros(3)
    trace(reduced, 1, 1, x, out)
    assert out[2] == 2**30  # 5 * 2**30, of which 32 bits are left
