"""The page's check: it must accept what is right, and tell what is wrong with what is not."""

import pytest

from firstlight.kernels import cuda, simulated

PAGE = "3_kernels/01_first_kernel.py"


@cuda.jit
def only_one_element_a_thread(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] * x[i] + y[i]


@cuda.jit
def no_guard(a, x, y, out):
    i = cuda.grid(1)
    while i < out.size + cuda.gridsize(1):
        out[i] = a[i % a.size] * x[i % a.size] + y[i % a.size]
        i += cuda.gridsize(1)


@cuda.jit
def adds_to_the_output(a, x, y, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] += a[i] * x[i] + y[i]


@cuda.jit
def whole_blocks_only(a, x, y, out):
    whole = out.size // cuda.blockDim.x * cuda.blockDim.x
    for i in range(cuda.grid(1), whole, cuda.gridsize(1)):
        out[i] = a[i] * x[i] + y[i]


@cuda.jit
def only_the_first_block(a, x, y, out):
    if cuda.blockIdx.x == 0:
        for i in range(cuda.threadIdx.x, out.size, cuda.gridsize(1)):
            out[i] = a[i] * x[i] + y[i]


@cuda.jit
def every_block_does_everything(a, x, y, out):
    for i in range(cuda.threadIdx.x, out.size, cuda.blockDim.x):
        out[i] = a[i] * x[i] + y[i]


@cuda.jit
def changes_its_input(a, x, y, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        y[i] += a[i] * x[i]
        out[i] = y[i]


@cuda.jit
def another_formula(a, x, y, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = a[i] * (x[i] + y[i])


@cuda.jit
def too_few_arguments(a, out):
    out[0] = a[0]


def no_kernel(a, x, y, out):
    out[:] = a * x + y


@cuda.jit
def counts_down(a, x, y, out):
    i = out.size - 1 - cuda.grid(1)
    while i >= 0:
        out[i] = a[i] * x[i] + y[i]
        i -= cuda.gridsize(1)


def test_the_solution_is_right(page):
    assert page["check"](page["scale_and_add_solution"]).startswith("Right")


def test_another_right_kernel_is_right_too(page):
    assert page["check"](counts_down).startswith("Right")


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (only_one_element_a_thread, "A thread must go on to more elements"),
        (no_guard, "Is there a guard?"),
        (adds_to_the_output, "Write =, not +="),
        (whole_blocks_only, "37 elements, kernel[3, 16]: nobody wrote out[32]"),
        (only_the_first_block, "nobody wrote out[16]"),
        (changes_its_input, "changes y"),
        (another_formula, "and should be"),
        (too_few_arguments, "it raised T"),
        (no_kernel, "Put @cuda.jit above the function"),
        (None, "no kernel"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_wrong_kernel_is_told_what_is_wrong(page, kernel, says):
    verdict = page["check"](kernel)
    assert verdict.startswith("Not yet")
    assert says in verdict


@pytest.mark.skipif(
    not simulated(), reason="on a GPU, threads that take one element may both read before either writes"
)
def test_taking_an_element_twice_is_seen(page):
    assert "takes an element twice" in page["check"](every_block_does_everything)


def test_the_start_that_the_page_gives_is_not_enough(page):
    assert page["check"](page["scale_and_add"]).startswith("Not yet. 96 elements, kernel[1, 32]")


def test_two_launches_tell_the_two_kernels_apart(page):
    error = page["worst_error"]
    assert error(page["add"], 33, launches=2) < 1e-6
    assert error(page["add_in_place"], 33, launches=1) < 1e-6
    assert error(page["add_in_place"], 33, launches=2) > 0.1


def test_the_figure_is_what_the_threads_wrote(page):
    taken_by = page["taken_by"]
    assert taken_by.shape == (3, 16)
    assert taken_by[2, 4] == 36
    assert (taken_by[2, 5:] == -1).all()
    assert page["fig"].get_label()
