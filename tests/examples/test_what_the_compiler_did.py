"""The zero is a double, the page's record is what the compiler makes, and its check tells doubles."""

import inspect
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from pages import EXAMPLES, judged, running

from firstlight.kernels import cuda, ptx

PAGE = "3_kernels/09_what_the_compiler_did.py"
SOURCE = (EXAMPLES / PAGE).read_text(encoding="utf-8")


def rms(
    zero="np.float32(0)", result="math.sqrt(squares / np.float32(a.shape[1]))", end="a.shape[1]", guard="i < out.size"
):
    """The kernel that the exercise asks for, with something else in place of one of its parts."""
    scope = {"cuda": cuda, "math": math, "np": np}
    lines = ["i = cuda.grid(1)", f"if {guard}:", f"    squares = {zero}", f"    for j in range({end}):"]
    lines += ["        squares += a[i, j] ** 2", f"    out[i] = {result}"]
    exec("@cuda.jit\ndef row_rms(a, out):\n    " + "\n    ".join(lines), scope)
    return scope["row_rms"]


@cuda.jit
def only_the_division_is_mended(a, out):
    i = cuda.grid(1)
    if i < out.size:
        squares = np.float32(0)
        j = np.uint32(0)
        while j < a.shape[1]:
            squares += a[i, j] * a[i, j]
            j += np.uint32(1)
        out[i] = math.sqrt(squares / np.float32(a.shape[1]))


@cuda.jit
def never_ends(a, out):
    while a.shape[1]:
        out[0] = a[0, 0]


IN_DOUBLE = {
    "only the division is mended": (only_the_division_is_mended, "signed and unsigned"),
    "only the loop is mended": (rms(result="math.sqrt(squares / a.shape[1])"), "div.f64"),
    "mended too late": (rms(result="np.float32(math.sqrt(squares / a.shape[1]))"), "div.f64"),
    "a root in double": (rms(result="math.sqrt(np.float64(squares / np.float32(a.shape[1])))"), "sqrt.f64"),
    "a plain zero": (rms("0.0", "math.sqrt(np.float32(squares) / np.float32(a.shape[1]))"), "plain"),
}
WRONG = {
    "no root": (rms(result="squares / np.float32(a.shape[1])"), "out[0] is"),
    "no guard": (rms(guard="True"), "33 x 7"),
    "four at a time": (rms(end="a.shape[1] // 4 * 4"), "out[0] is"),
    "never ends": (never_ends, "line"),
    "too few arguments": (cuda.jit(lambda a: None), "TypeError"),
    "no kernel": (lambda a, out: out.fill(1), "@cuda.jit above"),
}


@pytest.fixture(scope="module")
def compiler(page):
    if page["mixes"] is page["RECORDED"]:
        pytest.skip("NVIDIA's compiler is not installed")


needs_compiler = pytest.mark.usefixtures("compiler")


# -- The exercise ------------------------------------------------------------------------------------------------------


test_answers = needs_compiler(
    judged(["row_rms_solution", rms()], WRONG | IN_DOUBLE | {"the start": ("row_rms", "signed and unsigned")})
)


# -- What the page claims ----------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("cc", [(9, 0), (7, 5)])
def test_the_zero_is_a_double_on_every_gpu_and_the_other_has_none(page, cc) -> None:
    mixes = {kernel.__name__: ptx.compile(kernel, page["TYPES"], cc).mix for kernel in page["kernels"]}
    assert mixes["double_sum"]["add.f64"] == mixes["double_sum"]["cvt.f64.f32"] == 5
    assert mixes["double_sum"]["fma.f32"] == 0
    assert page["doubles_in"](mixes["single_sum"]) == {}
    assert mixes["single_sum"]["fma.f32"] == 5
    assert page["in_a_step"] == {"double_sum": 2, "single_sum": 0}


@pytest.mark.usefixtures("compiler", "recorded_compiler")
def test_the_record_is_what_the_compiler_makes(page) -> None:
    for name, mix in page["RECORDED"].items():
        assert {each: page["mixes"][name][each] for each in mix} == mix
        assert page["doubles_in"](page["mixes"][name]) == page["doubles_in"](mix)


def test_reading_takes_longer_than_adding_in_float64(page) -> None:
    for card, (reading, adding) in page["least"].items():
        assert reading > adding, card


@needs_compiler
def test_plain_numba_shows_the_doubles_as_the_page_says(page) -> None:
    """Its lines, in a process without the simulator."""
    lines = inspect.getsource(page["double_sum"].py_func).split("\n", 1)[1]
    code = re.search(r"code-block:: python\n#\n((?:#(?: {5}.*)?\n)+)", SOURCE)[1]
    code = code.replace("(function,", "(double_sum,").replace("#     ", "").replace("#\n", "\n")
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "0"}
    command = [sys.executable, "-c", code.replace("\nsignature", f"\n{lines}\nsignature", 1)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert "add.f64" in done.stdout, done.stderr


# -- Where there is no compiler ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_the_page_shows_the_record(tmp_path) -> None:
    with running(PAGE, tmp_path) as bare:
        assert bare["in_a_step"] == {"double_sum": 2, "single_sum": 0}
        assert bare["check"](bare["row_rms_solution"]).startswith("The results are right")
        assert "@cuda.jit" in bare["check"](lambda a, out: None)
