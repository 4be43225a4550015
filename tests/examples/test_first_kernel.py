"""The page's check: it must accept what is right, and tell what is wrong with what is not."""

import re
import subprocess
import sys
from textwrap import dedent

import pytest
from pages import EXAMPLES, judged

from firstlight.kernels import cuda, simulated

PAGE = "3_kernels/01_first_kernel.py"


@cuda.jit
def no_guard(a, x, y, out):
    i = cuda.grid(1)
    while i < out.size + cuda.gridsize(1):
        out[i] = a[i % a.size] * x[i % a.size] + y[i % a.size]
        i += cuda.gridsize(1)


def loop(body, first="cuda.grid(1)", end="out.size", step="cuda.gridsize(1)"):
    """A kernel that does so for each of its elements."""
    scope = {"cuda": cuda}
    lines = ["@cuda.jit", "def kernel(a, x, y, out):", f"    for i in range({first}, {end}, {step}):"]
    exec("\n".join([*lines, *(f"        {line}" for line in body.split("; "))]), scope)
    return scope["kernel"]


@cuda.jit
def too_few_arguments(a, out):
    out[0] = a[0]


RIGHT = "out[i] = a[i] * x[i] + y[i]"
WHOLE = "out.size // cuda.blockDim.x * cuda.blockDim.x"
WRONG = {
    "one element a thread": (loop(RIGHT, end="min(out.size, cuda.gridsize(1))"), "more elements"),
    "no guard": (no_guard, "guard"),
    "adds to the output": (loop(RIGHT.replace("=", "+=")), "not +="),
    "whole blocks only": (loop(RIGHT, end=WHOLE), "out[32]"),
    "only the first block": (loop(RIGHT, end="out.size * (cuda.blockIdx.x == 0)"), "out[16]"),
    "changes its input": (loop("y[i] += a[i] * x[i]; out[i] = y[i]"), "changes y"),
    "another formula": (loop("out[i] = a[i] * (x[i] + y[i])"), "and should be"),
    "too few arguments": (too_few_arguments, "raised T"),
    "no kernel": (lambda a, x, y, out: out.fill(0), "@cuda.jit"),
    "the start": ("scale_and_add", "96 elements"),
}


COUNTS_DOWN = loop(RIGHT, "out.size - 1 - cuda.grid(1)", "-1", "-cuda.gridsize(1)")

test_answers = judged(["scale_and_add_solution", COUNTS_DOWN], WRONG)


@pytest.mark.skipif(not simulated(), reason="on a GPU, both threads may read before either writes")
def test_taking_an_element_twice_is_seen(page):
    every_block_does_everything = loop(RIGHT, "cuda.threadIdx.x", step="cuda.blockDim.x")
    assert "twice" in page["check"](every_block_does_everything)


def test_two_launches_tell_the_two_kernels_apart(page):
    error = page["worst_error"]
    assert error(page["add"], 33, launches=2) < 1e-6
    assert error(page["add_in_place"], 33, launches=1) < 1e-6
    assert error(page["add_in_place"], 33, launches=2) > 0.1


def test_the_lines_without_the_package_are_enough():
    text = (EXAMPLES / PAGE).read_text(encoding="utf-8")
    (block,) = re.findall(r"(?m)^# \.\. code-block:: python\n#\n((?:#    .*\n)+)", text)
    lines = dedent(re.sub("(?m)^#", "", block)) + "print(cuda.jit(lambda out: None).__class__.__name__)"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, encoding="utf-8")
    assert done.stdout.strip() == "FakeCUDAKernel", done.stderr


def test_the_figure_is_what_the_threads_wrote(page):
    assert page["taken_by"].ravel().tolist() == [*range(37), *[-1] * 11]
