"""The plugin, in tests of its own: each is a file that pytest runs as it runs a user's."""

from importlib.util import find_spec
from pathlib import Path

import pytest

import firstlight_kernels

pytest_plugins = ["pytester"]

COMPILERS = ["from numba import cuda", "from numba_cuda_mlir import cuda"]
KERNELS = """
import numpy as np
import pytest


@cuda.jit
def reverse(x, out):
    tile = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    # here
    out[i] = tile[63 - i]


@cuda.jit
def count(x, total):
    total[0] += x[cuda.grid(1)]


@cuda.jit
def shift(x, out):
    i = cuda.grid(1)
    out[i] = x[i + 1]


@cuda.jit
def half(out):
    i = cuda.threadIdx.x
    if i < 16:
        cuda.syncthreads()
    out[i] = i


@cuda.jit
def some(out):
    s = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    if i % 2:
        s[i] = i
    cuda.syncthreads()
    out[i] = s[i]


@cuda.jit
def pick(x, out, n):
    i = cuda.grid(1)
    if i < x.size and x[i] > 0.5:
        out[cuda.atomic.add(n, 0, 1)] = x[i]


def arrays(n=64):
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
"""
TESTS = """
def test_race(check_kernels):
    reverse[1, 64](*arrays())

def test_lost_update(check_kernels):
    x, _ = arrays()
    count[2, 32](x, np.zeros(1, np.float32))

def test_out_of_bounds(check_kernels):
    shift[2, 32](*arrays())

def test_divergent(check_kernels):
    half[1, 32](np.zeros(32))

def test_uninitialized(check_kernels):
    some[1, 64](np.zeros(64))

def test_unwritten(check_kernels):
    check_kernels.must_write("out")
    x, out = arrays()
    pick[1, 64](x, out, np.zeros(1, np.int32))

def test_right(check_kernels):
    x = np.linspace(0, 1, 100, dtype=np.float32)
    out, found = cuda.to_device(np.zeros_like(x)), cuda.to_device(np.zeros(1, np.int32))
    pick[4, 32](x, out, found)
    assert set(out.copy_to_host()[: found.copy_to_host()[0]]) == set(x[x > 0.5])

def test_unchecked():
    reverse[1, 64](*arrays())
"""
FOUND = [
    "out[[]i[]] = tile*",
    "total[[]0[]] += *",
    "out[[]i[]] = x*",
    "cuda.syncthreads()*",
    "out[[]i[]] = s*",
    "*no thread",
]


@pytest.fixture(params=COMPILERS, ids=["numba-cuda", "numba-cuda-mlir"])
def run(request, pytester, monkeypatch):
    if not find_spec(request.param.split()[1]):
        pytest.skip("this compiler is not installed")
    monkeypatch.setenv("PYTHONPATH", str(Path(firstlight_kernels.__file__).parents[1]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the plugin of an installed package, too

    def run(tests, *options):
        pytester.makepyfile(f"{request.param}\n{KERNELS}{tests}")
        return pytester.runpytest_subprocess("-p", "firstlight_kernels.pytest_plugin", "-rf", *options)

    return run


def test_each_mistake_fails_its_test_and_names_its_line(run):
    result = run(TESTS)
    result.assert_outcomes(failed=6, passed=2)
    for line in FOUND:
        result.stdout.fnmatch_lines([f"E *{line}"])


def test_all_tests_of_a_project_are_checked_by_a_line_of_its_settings(run, pytester):
    pytester.makeini("[pytest]\nusefixtures = check_kernels")
    run(TESTS).assert_outcomes(failed=7, passed=1)


@pytest.mark.slow
def test_a_launch_that_is_too_large_for_a_trace_is_compared_in_several_orders(run):
    result = run("""
@cuda.jit
def count_often(x, total, times):
    for _ in range(times):
        total[0] += x[cuda.grid(1)]

def test_many(check_kernels):
    count_often[8, 32](np.ones(256, np.float32), np.zeros(1, np.float32), 220)
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *total[[]0[]] depends on the order of the threads*"])
