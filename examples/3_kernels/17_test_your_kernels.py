"""
How do you test kernels where there's no GPU?
=============================================

Your :term:`kernel` works. Then a colleague changes a line of it, on a laptop, and your
tests pass, because they skip every kernel where there's no GPU. On GitHub they skip,
too. A month later somebody runs the program on a cluster, and gets numbers that change
from run to run.

Below are two wrong kernels. **Write down a guess: which of the two would a test find
without a GPU?** By the end you'll have a test that runs on every computer and fails at
the line with the mistake, and the file that makes GitHub run it.

**Needs:** any computer, ``pytest``, and :doc:`kernels gone wrong
</tutorials/3_kernels/09_when_a_kernel_goes_wrong>`.
"""

# %%
# Copy this
# ---------
#
# A test launches a kernel as ever, and compares. Only one word is new:
# ``check_kernels``, as an argument. You may know both mistakes by now.

TESTS = """\
import numpy as np
from numba import cuda  # or: from numba_cuda_mlir import cuda


@cuda.jit
def reverse(x, out):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    out[t] = tile[63 - t]


@cuda.jit
def count(x, total):
    i = cuda.grid(1)
    if i < x.size and x[i] > 0:
        total[0] += 1


def test_reverse(check_kernels):
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    reverse[1, 64](x, out)
    np.testing.assert_array_equal(out, x[::-1])


def test_count(check_kernels):
    x, total = np.ones(100, np.float32), np.zeros(1, np.int32)
    count[2, 64](x, total)
    assert total[0] == 100
"""

# %%
# If they're in ``test_kernels.py``, then these two lines in a terminal are all:
#
# .. code-block:: text
#
#    python -m pip install pytest numba ./kernels
#    python -m pytest test_kernels.py
#
# ``./kernels`` is the folder of that name in this site's repository. If your kernels
# say ``from numba_cuda_mlir import cuda``, write ``numba-cuda-mlir`` in place of
# ``numba``. There's no ``numba-cuda-mlir`` for a Mac.

# folded: How this page runs pytest, in a folder of its own

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numba import cuda

from firstlight_kernels import blocks_for, trace


def pytest(tests):
    """What pytest prints of some tests: the lines that say what failed."""
    if not find_spec("pytest"):
        return "There's no pytest here. python -m pip install pytest"
    plugin = "firstlight_kernels.pytest_plugin"
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", plugin]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    paths = [str(Path(path).resolve()) for path in sys.path if path]
    env["PYTHONPATH"] = os.pathsep.join(paths)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder, "test_kernels.py").write_text(tests, encoding="utf-8")
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True
        )
    lines = (done.stdout + done.stderr).splitlines()
    kept = [line for line in lines if line.startswith(("E  ", "FAILED"))]
    return "\n".join([*kept, lines[-1].split(" in ")[0]])


# %%

from textwrap import fill

said = pytest(TESTS)
for line in said.splitlines():
    print(fill(line, 84, subsequent_indent="        "))

# %%
# Both are found, each with its line. The first is a :term:`race`: between writing
# ``tile`` and reading it, ``cuda.syncthreads()`` is missing, a :term:`barrier`. The
# second is a lost update: all threads add to the same number, and nobody makes them
# take turns. With a GPU the same tests do the same, and then launch the kernel there.
# So you have one test, and no ``skipif``.
#
# What does it do?
# ----------------
#
# On a GPU, threads run in an order that nobody knows. So ``check_kernels`` tries more
# than one, on copies of your arrays: all threads at once, line by line; one thread
# after the other; and the same from the last one back. Then it *traces* every access.
# Each alone is blind to something.
#
# .. table:: Which mistake shows where
#
#   ========================= ============ ============= ======= ======================
#   mistake                   all at once  one by one    trace   a GPU
#   ========================= ============ ============= ======= ======================
#   lost update               wrong sum    right         named   wrong, mostly
#   missing barrier           right        wrong         named   right, mostly
#   index out of bounds       stops        stops         named   right, or a crash
#   barrier that some miss    stops        stops         named   hangs, or right
#   ========================= ============ ============= ======= ======================
#
# With only one order, one of the two kernels would have passed. Two orders that give
# different results prove a mistake. Two that agree prove nothing, and so the trace
# looks at every access. It's no mistake if a thread *returns* before a barrier: since
# 2017, barriers wait only for the others.
#
# A trace is slow, so give a test a *small* launch: a few blocks, the last one not full.
# If a launch is too large for it, only the orders are compared.
#
# Three things are up to you. The test must compare with the right answer, because a
# wrong index inside the array is no race. Choose sizes that nobody would choose. And to
# check that the compiler takes the kernel, add a line with :doc:`ptx.compile
# </tutorials/3_kernels/15_what_a_kernel_may_contain>`.
#
# For all your tests
# ------------------
#
# If a project has many tests, put this into its ``pyproject.toml``. Then every launch
# of every test is checked:
#
# .. code-block:: toml
#
#    [tool.pytest.ini_options]
#    usefixtures = ["check_kernels"]
#
# And this is the file that makes GitHub run them at each push. Save it as
# ``.github/workflows/kernels.yml``. It installs our package from a copy of its folder
# ``kernels`` in your repository.
#
# .. code-block:: yaml
#
#    name: kernels
#    on: [push, pull_request]
#    permissions:
#      contents: read
#    jobs:
#      test:
#        runs-on: ubuntu-latest
#        steps:
#          - uses: actions/checkout@v7
#            with:
#              persist-credentials: false
#          - uses: actions/setup-python@v7
#            with:
#              python-version: "3.12"
#          - run: python -m pip install pytest numba ./kernels
#          - run: python -m pytest --ignore=kernels
#
# .. dropdown:: You have used NUMBA_ENABLE_CUDASIM so far
#
#    Then take it out. Numba's own simulator starts a thread of the operating system for
#    each thread of the kernel, which is slow. It knows no warps, so shuffles don't run.
#    ``numba-cuda-mlir`` has no simulator. Ours takes the kernels of both compilers, so
#    nothing else changes.
#
# .. dropdown:: Has somebody written every element?
#
#    A kernel that forgets the last block leaves what was in ``out`` before. If that was
#    zero, and zero is nearly right, a comparison may miss it. Write
#    ``check_kernels.must_write("out")`` before the launch. The test then fails if there
#    is an element of ``out`` that no thread has written.
#
# .. dropdown:: CudaSupportError, before the first test or in one
#
#    Types in a kernel's decorator, or an array on the device outside of a test, need a
#    GPU while pytest collects. A launch without ``check_kernels`` needs one later.
#    Write a ``conftest.py`` with two lines, ``import firstlight_kernels`` and
#    ``firstlight_kernels.simulate()``. A test that times kernels must then :ref:`skip
#    what is simulated <in-a-test>`.
#
# Your turn
# ---------
#
# This kernel replaces each number by the mean of itself and the next one. Its test
# launches it with 128 numbers in blocks of 64, and passes, and there's a mistake in it.


@cuda.jit
def smooth(x, out):
    near = cuda.shared.array(65, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if i < x.size:
        near[t] = x[i]
    if t == cuda.blockDim.x - 1:
        near[t + 1] = x[min(i + 1, x.size - 1)]
    cuda.syncthreads()
    if i < x.size:
        out[i] = (near[t] + near[t + 1]) / np.float32(2)


# %%
# Don't fix it. Find a launch for the test that makes it fail: return how many numbers
# there are, and how many threads a block has, 64 at most. Put it where the dots are,
# and run ``firstlight try 17_test_your_kernels.py``.


def launch(): ...


# %%

# folded: What check does: it traces the kernel with your launch


def check(launch):
    try:
        given = launch()
        if not (isinstance(given, tuple) and len(given) == 2):
            return "Not yet: return two whole numbers, as in return 128, 64."
        n, threads = (int(each) for each in given)
        if not (1 <= n <= 1000 and 1 <= threads <= 64):
            return "Not yet: take 1 to 1,000 numbers, and 1 to 64 threads."
        x = np.random.default_rng(seed=1).random(n, dtype=np.float32)
        out = np.zeros_like(x)
        found = trace(smooth, blocks_for(n, threads), threads, x, out).problems
    except Exception as error:
        return f"Not yet. {type(error).__name__}: {error}"
    kinds = {type(each).__name__ for each in found}
    if not found:
        return f"Not yet: with {n} numbers and {threads} threads the test passes."
    if "Uninitialized" not in kinds:
        return fill(f"Not yet: {found[0]}", 84)
    return fill(f"Right: the test fails. {found[0]}", 84)


# %%

print(check(launch))

# %%
# Three lines to remember
# -----------------------

# remember

print("1. check_kernels as an argument of a test, and every launch in it is checked,")
print("   with a GPU or without one.")
print("2. Two orders that differ prove a mistake, and the trace names its line. Two")
print("   that agree prove nothing: compare with the right answer, too.")
print("3. Launch a few blocks, and a size that's no multiple of a block.")

# %%
# Solution
# --------

# solution


def launch_solution():
    return 101, 64


print(f"Our solution: {check(launch_solution)}")
