"""Tests of what Numba meets on the rehearsal's driver; `test_launches.py` runs them where the driver is loaded."""

import gc
from types import SimpleNamespace

import numba
import numpy as np
import playing
import pytest
from cuda.core._utils.cuda_utils import CUDAError
from driver import AtOnce
from numba import cuda

from firstlight_imaging.fitting.fused_kernels import CPU_KERNELS, cuda_kernels
from firstlight_kernels import ptx

GIB = 1 << 30


@cuda.jit
def place(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = i


@cuda.jit
def takes_shared(out):
    part = cuda.shared.array(1024, numba.float32)
    t = cuda.threadIdx.x
    part[t] = t
    cuda.syncthreads()
    out[t] = part[cuda.blockDim.x - 1 - t]


@cuda.jit(device=True)
def of_warp(value):
    for by in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, by)
    return value


@cuda.jit
def summed(x, out, counts):
    part = cuda.shared.array(32, numba.float32)
    t, total = cuda.threadIdx.x, np.float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
        cuda.atomic.add(counts, int(x[i] * 4), 1)
    total = of_warp(total)
    if t % 32 == 0:
        part[t // 32] = total
    cuda.syncthreads()
    if t < 32:
        total = of_warp(part[t] if t < cuda.blockDim.x // 32 else np.float32(0))
        if t == 0:
            cuda.atomic.add(out, 0, total)


@cuda.jit
def turned(a, out, scale):
    mine = cuda.local.array(2, numba.float32)
    column, row = cuda.grid(2)
    if row < a.shape[0] and column < a.shape[1]:
        mine[row % 2] = a[row, column]
        out[column, row] = mine[row % 2] * scale


@cuda.jit
def beyond(x):
    x[cuda.grid(1) + 3] = 1


def many_registers():
    """Make a kernel that holds forty numbers of two registers at a time."""
    count, names = range(40), {"cuda": cuda}
    lines = ["def held(x, n):", " t = cuda.grid(1)", *(f" v{k} = x[t + {k}]" for k in count), " for _ in range(n):"]
    lines += [f"  v{k} = v{k} * v{(k + 17) % 40} + v{(k + 23) % 40}" for k in count]
    exec("\n".join([*lines, *(f" x[t + {k}] = v{k}" for k in count)]), names)
    return cuda.jit(names["held"])


def the_only(kernel):
    (compiled,) = kernel.overloads.values()
    return compiled


# -- What a launch may ask for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "threads", "dynamic"),
    [
        (1, 1025, 0),
        (1, (1, 1025), 0),
        (1, (1, 1, 65), 0),
        (1, (32, 33), 0),
        ((1, 65536), 1, 0),
        ((1, 1, 65536), 1, 0),
        (1, 32, 49_153),
    ],
)
def test_no_card_launches_this(blocks, threads, dynamic):
    with pytest.raises(CUDAError, match="CUDA_ERROR_INVALID_VALUE"):
        place[blocks, threads, 0, dynamic](cuda.device_array(1024))


@pytest.mark.parametrize(
    ("blocks", "threads", "dynamic"), [(1, 1024, 0), (1, (1, 16, 64), 0), ((2, 3, 4), (32, 32), 0), (1, 32, 49_152)]
)
def test_every_card_launches_this(blocks, threads, dynamic):
    out = cuda.to_device(np.full(32, -1))
    place[blocks, threads, 0, dynamic](out)
    assert out.copy_to_host()[0] == 0


def test_shared_memory_is_what_the_kernel_has_and_what_the_launch_adds():
    out = cuda.device_array(1024, np.float32)
    takes_shared[1, 1024, 0, 45_056](out)
    assert out.copy_to_host().tolist() == [*range(1023, -1, -1)]
    assert the_only(takes_shared).shared_mem_per_block == 4096
    with pytest.raises(CUDAError, match="CUDA_ERROR_INVALID_VALUE"):
        takes_shared[1, 32, 0, 45_057](out)


def test_a_block_has_no_more_registers_than_a_multiprocessor():
    kernel, x = many_registers(), cuda.device_array(1200)
    kernel[1, 32](x, 1)
    compiled = the_only(kernel)
    assert compiled.regs_per_thread == ptx.compile(kernel, "float64[::1], int64", (9, 0)).registers > 64
    kernel[1, compiled.max_threads_per_block](x, 1)
    assert 65_536 // compiled.regs_per_thread - 128 < compiled.max_threads_per_block < 1024
    with pytest.raises(CUDAError, match="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"):
        kernel[1, compiled.max_threads_per_block + 32](x, 1)


def test_a_launch_that_would_take_hours_names_its_kernel():
    with pytest.raises(NotImplementedError, match="place: 102,400 threads"):
        place[400, 256](cuda.device_array(1))


# -- Memory ------------------------------------------------------------------------------------------------------------


def free_memory():
    gc.collect()
    cuda.current_context().memory_manager.deallocations.clear()
    return cuda.current_context().get_memory_info().free


def test_a_full_card_has_no_memory_left():
    before = free_memory()
    kept = cuda.device_array(3 << 20, np.uint8)
    assert free_memory() == before - (3 << 20)
    with pytest.raises(cuda.cudadrv.driver.CudaAPIError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        cuda.device_array(before - (2 << 20), np.uint8)
    del kept
    assert free_memory() == before <= 80 * GIB


def test_what_nobody_wrote_is_no_number():
    assert np.isnan(cuda.device_array(100, np.float32).copy_to_host()).all()


def test_each_of_two_cards_has_its_memory():
    assert [gpu.id for gpu in cuda.gpus] == [0, 1]
    first = free_memory()
    with cuda.gpus[1]:
        second, there = free_memory(), cuda.to_device(np.arange(500.0))
        assert cuda.get_current_device().id == 1
        assert free_memory() == second - 4000
        place[1, 32](there)
        assert there.copy_to_host()[499] == 499
    assert cuda.get_current_device().id == 0
    assert free_memory() == first
    with pytest.raises(RuntimeError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        place[1, 32](there)


# -- What a kernel does ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "blocks", "threads"), [(1, 1, 32), (1007, 3, 96), (10_007, 2, 256)])
def test_threads_wait_for_each_other(n, blocks, threads):
    x = np.random.default_rng(1).random(n, np.float32)
    out, counts = cuda.to_device(np.zeros(1, np.float32)), cuda.to_device(np.zeros(4, np.int32))
    summed[blocks, threads](cuda.to_device(x), out, counts)
    np.testing.assert_allclose(out.copy_to_host(), [x.sum(dtype=float)], rtol=1e-5)
    np.testing.assert_array_equal(counts.copy_to_host(), np.bincount((x * 4).astype(int), minlength=4))


@pytest.mark.parametrize("stream", [cuda.stream, lambda: cuda.external_stream(7), lambda: 0])
def test_a_grid_of_two_axes_on_strided_memory_that_others_own(stream):
    a = np.arange(77, dtype=np.float32).reshape(7, 11)
    facts = {"typestr": "<f4", "shape": (11, 7), "strides": (4, 44), "data": (a.ctypes.data, False), "version": 3}
    out = cuda.to_device(np.zeros((7, 11), np.float32))
    theirs = cuda.as_cuda_array(SimpleNamespace(__cuda_array_interface__=facts))
    turned[(2, 3), (4, 4), stream()](theirs, out, 0.1)
    np.testing.assert_array_equal(out.copy_to_host(), (a * np.float64(0.1)).astype(np.float32))


def test_a_thread_outside_of_an_array_is_an_error_that_names_kernel_and_index():
    with pytest.raises(IndexError, match=r"beyond: .*index 32 .*size 32 \(thread 29 of block 0"):
        beyond[1, 32](cuda.device_array(40)[:32])


def test_types_that_do_not_fit_are_an_error_of_numbas():
    with pytest.raises(numba.core.errors.TypingError, match="setitem"):
        place[1, 32](7)


def test_what_a_capture_keeps_is_done_when_it_is_replayed(monkeypatch):
    kept, out = [], cuda.to_device(np.full(32, -1))
    monkeypatch.setattr(AtOnce, "submit", lambda self, run: kept.append(run))
    place[1, 32](out)
    assert (out.copy_to_host() == -1).all()
    kept[0]()
    assert out.copy_to_host()[31] == 31


# -- Fused kernels -----------------------------------------------------------------------------------------------------


def test_fused_kernels_are_the_same_by_threads_and_by_the_processor(monkeypatch):
    rng, n, lines = np.random.default_rng(2), 10, 20
    image = rng.random(lines * n + 32, np.float32)
    back = rng.random((lines, n), np.float32)
    terms, strengths, rules = np.ones(3, bool), rng.random((2, 3), np.float32), np.array([1e-10, 0.1, 1e-7], np.float32)
    found = []
    for few in (playing.FEW, 0):
        monkeypatch.setattr(playing, "FEW", few)
        slope, sums = cuda.to_device(image), cuda.to_device(np.zeros((lines, 16, 5)))
        given = [cuda.to_device(each) for each in (image, back, terms, strengths, rules)]
        cuda_kernels()["regularizers"][lines, 16](*given, slope, sums)
        found.append((slope.copy_to_host(), sums.copy_to_host().sum(1)))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-5)
    assert playing.on_processor().keys() == {each.py_func.__code__ for each in CPU_KERNELS.values()}
