"""The plugin, in tests of its own: each is a file that pytest runs as it runs a user's."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

import firstlight_kernels

pytest_plugins = ["pytester"]

KERNELS = """
import numpy as np
from broken import barrier_in_a_branch, missing_barrier, no_guard, ones, sum_without_atomic, zeros
from compiler import cuda
from planted import shared_guarded_but_read_by_all


@cuda.jit
def pick(x, out, n):
    i = cuda.grid(1)
    if i < x.size and x[i] > 0.5:
        out[cuda.atomic.add(n, 0, 1)] = x[i]
"""
TESTS = """
def test_race(check_kernels):
    missing_barrier[1, 64](ones(64), zeros(64))

def test_lost_update(check_kernels):
    sum_without_atomic[2, 32](ones(64), zeros(1))

def test_out_of_bounds(check_kernels):
    no_guard[2, 32](ones(63), zeros(63))

def test_divergent(check_kernels):
    barrier_in_a_branch[1, 32](ones(1), zeros(32))

def test_uninitialized(check_kernels):
    shared_guarded_but_read_by_all[1, 32](ones(32), zeros(32))

def test_unwritten(check_kernels):
    check_kernels.must_write("out")
    pick[1, 64](ones(60), zeros(64), np.zeros(1, np.int32))

def test_right(check_kernels):
    x = np.linspace(0, 1, 100, dtype=np.float32)
    out, found = cuda.to_device(np.zeros_like(x)), cuda.to_device(np.zeros(1, np.int32))
    pick[4, 32](x, out, found)
    assert set(out.copy_to_host()[: found.copy_to_host()[0]]) == set(x[x > 0.5])

def test_unchecked():
    missing_barrier[1, 64](ones(64), zeros(64))
"""
FOUND = [
    "out[[]t[]] = s[[]63 - t[]]*",
    "out[[]0[]] += *",
    "out[[]i[]] = 2*",
    "cuda.syncthreads()*",
    "out[[]t[]] = s[[]t[]]*",
    "*no thread",
]


@pytest.fixture(params=["numba", "numba_cuda_mlir"])
def run(request, pytester, monkeypatch):
    if not find_spec(request.param):
        pytest.skip("this compiler is not installed")
    monkeypatch.setenv("KERNELS_COMPILER", request.param)
    folders = Path(firstlight_kernels.__file__).parents[1], Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the plugin of an installed package, too

    def run(tests, *options):
        pytester.makepyfile(KERNELS + tests)
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
