"""The page's facts hold for what is installed, its record is what the compiler makes, and its check tells doubles."""

import math
import runpy
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from answers import judge

from firstlight import Bench
from firstlight.kernels import cuda, ptx

PAGE = "3_kernels/07_what_the_compiler_did.py"


def rms(zero="np.float32(0)", result="math.sqrt(squares / np.float32(a.shape[1]))"):
    """The kernel that the exercise asks for, with something else in place of its zero or of its result."""
    scope = {"cuda": cuda, "math": math, "np": np}
    lines = ["i = cuda.grid(1)", "if i < out.size:", f"    squares = {zero}", "    for j in range(a.shape[1]):"]
    lines += ["        squares += a[i, j] ** 2", f"    out[i] = {result}"]
    exec("@cuda.jit\ndef row_rms(a, out):\n    " + "\n    ".join(lines), scope)
    return scope["row_rms"]


@cuda.jit
def strided(a, out):
    part = np.float32(1) / np.float32(a.shape[1])
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        mean = np.float32(0)
        for j in range(a.shape[1]):
            mean += part * a[i, j] * a[i, j]
        out[i] = math.sqrt(mean)


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
def no_guard(a, out):
    i = cuda.grid(1)
    squares = np.float32(0)
    for j in range(a.shape[1]):
        squares += a[i, j] * a[i, j]
    out[i] = math.sqrt(squares / np.float32(a.shape[1]))


@cuda.jit
def four_at_a_time(a, out):
    i = cuda.grid(1)
    if i < out.size:
        squares = np.float32(0)
        for j in range(0, a.shape[1] - 3, 4):
            for k in range(4):
                squares += a[i, j + k] * a[i, j + k]
        out[i] = math.sqrt(squares / np.float32(a.shape[1]))


@cuda.jit
def never_ends(a, out):
    j = 0
    while j < a.shape[1]:
        out[0] = a[0, j]


@cuda.jit
def too_few_arguments(a):
    a[0, 0] = 1


def no_kernel(a, out):
    out[:] = np.sqrt(np.mean(a**2, axis=1))


IN_DOUBLE = {
    "only the division is mended": (only_the_division_is_mended, "signed and unsigned"),
    "only the loop is mended": (rms(result="math.sqrt(squares / a.shape[1])"), "div.f64"),
    "mended too late": (rms(result="np.float32(math.sqrt(squares / a.shape[1]))"), "div.f64"),
    "a root in double": (rms(result="math.sqrt(np.float64(squares / np.float32(a.shape[1])))"), "sqrt.f64"),
    "a plain zero": (rms("0.0", "math.sqrt(np.float32(squares) / np.float32(a.shape[1]))"), "plain"),
}
WRONG = {
    "no root": (rms(result="squares / np.float32(a.shape[1])"), "out[0] is"),
    "no guard": (no_guard, "33 x 7"),
    "four at a time": (four_at_a_time, "out[0] is"),
    "never ends": (never_ends, "line"),
    "too few arguments": (too_few_arguments, "TypeError"),
    "no kernel": (no_kernel, "@cuda.jit above no_kernel"),
    "nothing": (None, "no kernel"),
}


@pytest.fixture(scope="module")
def compiler(page):
    if not page["has_compiler"]:
        pytest.skip("NVIDIA's compiler is not installed")


CARDS = pytest.mark.parametrize("cc", [(9, 0), pytest.param((7, 5), marks=pytest.mark.slow)], ids=["9.0", "7.5"])
needs_compiler = pytest.mark.usefixtures("compiler")


# -- The exercise ------------------------------------------------------------------------------------------------------


@needs_compiler
def test_right_answers_have_no_double_and_each_double_is_named(page) -> None:
    right = [page["row_rms_solution"], rms(), strided]
    judge(page["check"], right, IN_DOUBLE | {"the start": (page["row_rms"], "signed and unsigned")})


def test_a_wrong_result_is_told_before_any_double(page) -> None:
    judge(page["check"], [], WRONG)


def test_doubles_hide_in_right_results(page) -> None:
    for kernel in (page["row_rms"], *(kernel for kernel, _ in IN_DOUBLE.values())):
        assert page["problem_of"](kernel) == ""


# -- What the page claims ----------------------------------------------------------------------------------------------


@needs_compiler
@CARDS
def test_the_zero_is_a_double_on_every_gpu_and_the_others_have_none(page, cc) -> None:
    mixes = {kernel.__name__: page["compiled"](kernel, page["TYPES"], cc).mix for kernel in page["kernels"]}
    assert mixes["double_sum"]["add.f64"] == mixes["double_sum"]["cvt.f64.f32"] == 5
    assert mixes["double_sum"]["fma.f32"] == 0
    for name in ("single_sum", "counted_sum"):
        assert page["doubles_in"](mixes[name]) == {}
        assert mixes[name]["fma.f32"] == 5


@needs_compiler
def test_a_zero_without_the_dot_is_a_double_too(page) -> None:
    @cuda.jit
    def dotless(a, x, y):
        i = cuda.grid(1)
        if i < y.size:
            total = 0
            for j in range(x.size):
                total += a[i, j] * x[j]
            y[i] = total

    assert page["compiled"](dotless, page["TYPES"]).mix["add.f64"] == 5


@needs_compiler
def test_a_step_has_two_loads_and_while_has_less_bookkeeping(page) -> None:
    for step in page["steps"].values():
        for counts in step.values():
            assert counts[0] == 2
            assert counts[2] == 1
    double, single, counted = (page["steps"][kernel.__name__] for kernel in page["kernels"])
    for language in ("PTX", "SASS"):
        assert double[language][1] == 2
        assert single[language][1] == counted[language][1] == 0
        assert single[language][3] > 4 * counted[language][3]


@needs_compiler
@CARDS
def test_complex128_is_spilled_and_complex64_is_not(page, cc) -> None:
    spilled = [
        page["compiled"](page["made"]["turn"], f"{dtype}[:, ::1]", cc).spill_bytes
        for dtype in ("complex64", "complex128")
    ]
    assert spilled[0] == 0 < spilled[1]


@needs_compiler
def test_the_record_is_what_the_compiler_makes(page) -> None:
    try:
        installed = version("numba-cuda"), version("nvidia-cuda-nvcc"), version("nvidia-cuda-nvdisasm")
    except PackageNotFoundError:
        pytest.skip("not the packages that were recorded")
    if installed[0] != "0.30.4" or not installed[1].startswith("13.0."):
        pytest.skip("other versions than those that were recorded")
    for (name, layout), (in_ptx, in_sass) in page["RECORDED"].items():
        assert page["steps_of"](page[name], layout) == {"PTX": in_ptx, "SASS": in_sass}


def test_the_loop_is_found_in_ptx_and_in_machine_code(page) -> None:
    text = """
    $L__BB0_1:
        .pragma "nounroll";
        ld.global.f32 %f1, [%rd1];
        ld.global.f32 %f2, [%rd2];
        cvt.f64.f32 %fd1, %f1;
        @%p9 bra $L__BB0_1;
    @%p1 bra $L__BB0_9;
    $L__BB0_9:
        ret;
    """
    (loop,) = page["loops"](text)
    assert [page["kind"](line) for line in loop] == ["load", "load", "float64", "bookkeeping"]
    assert page["one_step"](loop) == (2, 1, 0, 1)
    sass = """.L_x_2:
        /*0010*/                   LDG.E.SYS R1, [R2] ;
        /*0020*/              @!P0 LDG.E R3, desc[UR4][R2.64] ;
        /*0030*/                   F2F.F64.F32 R4, R1 ;
        /*0040*/                   DADD R4, R4, R6 ;
        /*0050*/                   FFMA R1, R1, R3, R1 ;
        /*0060*/               @P1 BRA `(.L_x_2) ;
    .L_x_4:
        /*0070*/                   BRA `(.L_x_4);"""
    (loop,) = page["loops"](sass)
    assert [page["kind"](line) for line in loop] == ["load"] * 2 + ["float64"] * 2 + ["float32", "bookkeeping"]


def test_the_model_says_what_the_prose_says_of_it(page) -> None:
    model = page["model"]
    slowest = {card: [max(parts, key=parts.get) for parts in rows.values()] for card, rows in model.items()}
    assert slowest == {
        "RTX 4090": ["memory"] * 5,
        "H100 SXM": ["L1", "L1", "L1", "memory", "memory"],
    }
    without = {
        card: max(set(rows["double_sum,\ncolumns"]) - {"memory"}, key=rows["double_sum,\ncolumns"].get)
        for card, rows in model.items()
    }
    assert without == {"RTX 4090": "float64", "H100 SXM": "issue"}


def test_the_double_is_nearest_to_the_exact_sum(page) -> None:
    errors = page["errors"]
    for at, length in enumerate(page["lengths"]):
        assert length % 2 == 1
        assert errors["double_sum"][at] <= min(errors[way][at] for way in errors)
        assert errors["Kahan"][at] < 2 * errors["double_sum"][at]
    for way in ("Kahan", "double_sum"):
        assert max(errors[way]) < 2 * min(errors[way])
    assert errors["single_sum"][-1] > 8 * errors["single_sum"][0]
    assert page["better"] > 1


def test_the_sums_of_the_figure_round_where_the_kernels_do(page) -> None:
    rng = np.random.default_rng(seed=2)
    a, x = rng.standard_normal((20, 33), dtype=np.float32), rng.standard_normal(33, dtype=np.float32)
    exact = a.astype(np.float64) * x
    fused = np.float32(0)
    for product in exact[0]:
        fused = np.float32(np.float64(fused) + product)
    assert page["sums_by"]("fused", a * x, exact)[0] == fused
    assert page["sums_by"]("double", a * x, exact)[0] == np.float32((a * x)[0].astype(np.float64).cumsum()[-1])


def test_neighbouring_threads_share_lines_when_columns_lie_together(page) -> None:
    assert page["lines_a_step"] == {"rows": 33, "columns": 2}


# -- Where there is no compiler ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_a_compiler_the_page_shows_the_record(monkeypatch, tmp_path) -> None:
    def absent(*_, **__):
        raise ptx.NoCompilerError()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.setattr(Bench.__init__, "__defaults__", (0.2,))
    monkeypatch.setattr(ptx, "compile", absent)
    bare = runpy.run_path(str(Path(__file__).parents[2] / "examples" / PAGE))
    plt.close("all")
    assert bare["steps"]["counted_sum"]["SASS"] == (2, 0, 1, 3)
    assert bare["check"](bare["row_rms_solution"]).startswith("The results are right")
    judge(bare["check"], [], WRONG)
