"""The page's check: it must accept what is right, and tell what is wrong with what is not."""

import re

from new_python import printed_by
from numba import cuda
from pages import EXAMPLES, judged
from variants import compiled

PAGE = "3_kernels/01_first_kernel.py"


@cuda.jit
def no_guard(a, x, y, out):
    i = cuda.grid(1)
    while i < out.size + cuda.gridsize(1):
        out[i] = a[i % a.size] * x[i % a.size] + y[i % a.size]
        i += cuda.gridsize(1)


def loop(body, first="cuda.grid(1)", end="out.size", step="cuda.gridsize(1)"):
    """A kernel that does so for each of its elements."""
    lines = ["@cuda.jit", "def kernel(a, x, y, out):", f"    for i in range({first}, {end}, {step}):"]
    return compiled("\n".join([*lines, *(f"        {line}" for line in body.split("; "))]), {"cuda": cuda})


@cuda.jit
def no_step(a, x, y, out):
    i = cuda.grid(1)
    while i < out.size:
        out[i] = a[i] * x[i] + y[i]


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
    "too few arguments": (too_few_arguments, "TypeError"),
    "no kernel": (lambda a, x, y, out: out.fill(0), "@cuda.jit"),
    "a loop without a step": (no_step, "no end"),
    "every block does everything": (loop(RIGHT, "cuda.threadIdx.x", step="cuda.blockDim.x"), "twice"),
    "one thread does it twice": (loop(f"{RIGHT}; {RIGHT}"), "more than once"),
    "the start": ("scale_and_add", "96 elements"),
}


COUNTS_DOWN = loop(RIGHT, "out.size - 1 - cuda.grid(1)", "-1", "-cuda.gridsize(1)")

test_answers = judged(["scale_and_add_solution", COUNTS_DOWN], WRONG)


def test_two_launches_tell_the_two_kernels_apart(page):
    error = page["worst_error"]
    assert error(page["add"], 33, launches=2) < 1e-6
    assert error(page["cu_add_vectors"], 33, launches=1) < 1e-6
    assert error(page["cu_add_vectors"], 33, launches=2) > 0.1


def test_the_code_runs_without_the_package_as_the_page_says():
    text = (EXAMPLES / PAGE).read_text(encoding="utf-8")
    code = "import firstlight_kernels\nfirstlight_kernels.simulate()\nimport numpy as np\nfrom numba import cuda\n"
    code += "\n".join(
        cell for cell in re.split(r"\n# %%", text) if "def add(" in cell or "copy_to_host()  # copy the sums" in cell
    )
    code = code.replace("from firstlight_kernels import", "# ").replace("if simulated()", "if True")
    said = printed_by(f"{code}\nassert blocks == 6")
    assert "same as NumPy: True" in said


def test_the_figure_is_what_the_threads_wrote(page):
    assert page["taken_by"].ravel().tolist() == [*range(37), *[-1] * 11]


def test_the_thread_that_the_text_speaks_to_is_the_first_one_too_many(page):
    found = page["traced"].out_of_bounds[-1]
    assert (found.thread.x, found.block.x, found.kind, found.times) == (5, 2, "store", 11)
