"""Launches without a GPU: thread by thread, and in the compilers' place."""

from importlib.util import find_spec

import numpy as np
import pytest
from broken import RIGHT
from compiler import PACKAGE, cuda, float32
from new_python import environment, printed_by

from firstlight_kernels import LaunchError, threads, trace
from firstlight_kernels.launch import bound, launch


def one_by_one(kernel, blocks, block, arguments, backwards=False):
    threads.run(bound(kernel, blocks, block, arguments), backwards=backwards)


def traced(kernel, blocks, block, arguments):
    return trace(kernel, blocks, block, *arguments).problems


in_all_ways = pytest.mark.parametrize("run", [launch, one_by_one, traced])


FACTOR, WEIGHTS = 3, np.array([1.0, 2.0])


@cuda.jit(device=True)
def weighted(x):
    return x * FACTOR + WEIGHTS[1]


@pytest.mark.parametrize(("name", "new"), [("FACTOR", 4), ("FACTOR", 3.0), ("WEIGHTS", np.array([1.0, 5.0]))])
def test_a_constant_that_changes_after_the_first_launch_is_told(monkeypatch, name, new):
    @cuda.jit
    def kernel(out):
        out[cuda.grid(1)] = weighted(1.0)

    out = cuda.to_device(np.zeros(2))
    kernel[1, 2](out)
    monkeypatch.setitem(globals(), name, new)
    if np.array_equal(new, 3) or cuda.is_available():  # a GPU has kept the first one
        kernel[1, 2](out)
    else:
        with pytest.raises(LaunchError, match=f"{name} has changed"):
            kernel[1, 2](out)
    assert out.copy_to_host().tolist() == [5, 5]


@in_all_ways
def test_extensions_are_refused_and_a_signature_converts(run):
    extended = cuda.jit(extensions=[object()])(weighted.py_func)
    with pytest.raises(TypeError, match="extensions="):
        run(extended, 1, 1, [np.zeros(1)])

    @cuda.jit
    def any_number(out, *more):
        out[0] = len(more)

    with pytest.raises(TypeError, match="more"):
        run(any_number, 1, 1, [np.zeros(1), 1.0, 2.0])

    @cuda.jit("void(float64[::1], int32)")
    def kernel(out, n):
        out[0] = n

    out = np.zeros(6)
    run(kernel, 1, 1, [out, 3.7])
    assert out[0] == 3
    for wrong in (out[::2], out.reshape(2, 3), out.astype(np.float32), out[0]):
        with pytest.raises(TypeError, match="kernel is compiled for "):
            run(kernel, 1, 1, [wrong, 3])


@in_all_ways
def test_of_two_signatures_the_nearest_is_taken(run):
    @cuda.jit(["void(float32[:], int32)", "void(float64[:], float64)"])
    def kernel(out, n):
        out[0] = n / 2

    for kind, expected in ((np.float32, 2.5), (np.float64, 2.75)):
        out = np.zeros(1, kind)
        run(kernel, 1, 1, [out, 5.5])
        assert out[0] == expected


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("case", RIGHT, ids=[case[0].__name__ for case in RIGHT])
def test_right_kernels_give_the_same_in_every_order(case, backwards):
    kernel, blocks, block, (given, out), _ = case
    together, alone = out.copy(), out.copy()
    launch(kernel, blocks, block, [given, together])
    one_by_one(kernel, blocks, block, [given, alone], backwards)
    np.testing.assert_array_equal(alone, together)


@in_all_ways
def test_a_nan_in_memory_meets_atomic_max_and_min(run) -> None:
    @cuda.jit
    def kernel(out, value):
        cuda.atomic.max(out, 0, value)
        cuda.atomic.min(out, 1, value)

    out = np.array([np.nan, np.nan])
    run(kernel, 1, 1, [out, 4.0])
    np.testing.assert_array_equal(out, [np.nan] * 2 if PACKAGE == "numba" else [4, 4])
    run(kernel, 1, 1, [out, np.nan])
    assert np.isnan(out[0]) == (PACKAGE == "numba")


@cuda.jit
def locked(lock, total):
    while cuda.atomic.cas(lock, 0, 0, 1):
        pass
    total[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def last_first(turn, out):
    i = cuda.blockDim.x - 1 - cuda.threadIdx.x
    while cuda.atomic.add(turn, 0, 0) != i:
        pass
    out[i] = turn[0]
    cuda.atomic.add(turn, 0, 1)


def test_threads_that_wait_for_a_lock_or_a_turn_get_it():
    total, out = np.zeros(1), np.full(40, -1)
    launch(locked, 3, 20, [np.zeros(1, np.int32), total])
    launch(last_first, 1, 40, [np.zeros(1, np.int32), out])
    assert total[0] == 60
    assert out.tolist() == list(range(40))


@pytest.mark.parametrize("run", [launch, one_by_one])
def test_an_index_below_0_names_its_thread_and_does_not_wrap(run):
    @cuda.jit
    def before(x, out):
        i = cuda.grid(1)
        out[i] = x[i - 1]

    with pytest.raises(IndexError, match=r"thread 0 of block 0: load of x\[-1\].*line \d+"):
        run(before, 2, 4, [np.ones(8), np.zeros(8)])


@in_all_ways
def test_a_negative_number_of_the_source_counts_from_the_end(run):
    @cuda.jit
    def last(x, out):
        i = cuda.threadIdx.x
        row = x[-2]
        out[-1, i] = x[i, -1] + row[-3] - 2.0**-1

    x, out = np.arange(12.0).reshape(3, 4), np.zeros((2, 3))
    assert not run(last, 1, 3, [x, out])
    np.testing.assert_array_equal(out, [[0] * 3, x[:, -1] + x[-2, -3] - 0.5])


@in_all_ways
def test_whole_arrays_are_reduced(run):
    @cuda.jit
    def of_rows(x, flags, out):
        i = cuda.threadIdx.x
        out[i, 0] = x[i].sum() + np.sum(x)
        out[i, 1] = np.prod(x[i]) + x[i].size
        out[i, 2] = flags[i].any() + 2 * np.all(flags[i])

    x = np.array([[1, 2, 3], [2**31 - 1, 2**31 - 1, 2]], np.int32)
    flags, out = np.array([[False, True], [True, True]]), np.zeros((2, 3), np.int64)
    assert not run(of_rows, 1, 2, [x, flags, out])
    number = np.int64 if PACKAGE == "numba" else np.int32  # numba-cuda-mlir's results have the type of the array
    rows, whole = x.sum(1, dtype=number), x.sum(dtype=number)
    np.testing.assert_array_equal(out.T, [(rows + whole).astype(number), x.prod(1, dtype=number) + 3, [1, 3]])


def test_who_waits_at_different_barriers_is_named_and_who_has_returned_is_not_missed():
    @cuda.jit
    def apart(out):
        if cuda.threadIdx.x < 16:
            cuda.syncthreads()
        else:
            cuda.syncthreads()
            out[0] = 1

    @cuda.jit
    def early(out):
        part = cuda.shared.array(32, float32)
        i = cuda.threadIdx.x
        if i < out.size:
            part[i] = i
            cuda.syncthreads()
            out[i] = part[out.size - 1 - i]

    with pytest.raises(LaunchError, match=r"thread \d+ \(and 15 more\) waits elsewhere"):
        launch(apart, 1, 32, [np.zeros(1)])
    out = np.zeros(20)
    launch(early, 1, 32, [out])
    assert out.tolist() == list(range(19, -1, -1))


PROGRAM = """
import numpy as np
{first}
{second}

@cuda.jit("void(float32[:], float32)")
def fill(out, value):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = value

@cuda.reduce
def add(a, b):
    return a + b

out, stream = cuda.device_array(1_003, np.float32), cuda.stream()
fill[8, 128, stream](out, 0.1)
stream.synchronize()
assert (out.copy_to_host() == np.float32(0.1)).all()
fill.forall(3)(out, 2)
host = np.zeros(5, np.float32)
cuda.to_device(out[:4]).copy_to_host(host[1:])
print(*host, add(cuda.to_device(np.arange(5))), cuda.is_available())
"""


@pytest.mark.parametrize("package", ["numba", "numba_cuda_mlir"])
@pytest.mark.parametrize("ours_first", [True, False])
def test_a_program_launches_kernels_of_either_compiler_whatever_is_imported_first(package, ours_first):
    if not find_spec(package):
        pytest.skip("this compiler is not installed")
    lines = ["from firstlight_kernels import blocks_for", f"from {package} import cuda"]
    first, second = lines if ours_first else lines[::-1]
    said = printed_by(PROGRAM.format(first=first, second=second), environment(CUDA_VISIBLE_DEVICES=""))
    assert said.splitlines()[-1] == "0.0 2.0 2.0 2.0 2.0 10 False"
