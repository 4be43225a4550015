"""The page's facts hold for what is installed, its record is what the compiler makes, and its check tells doubles."""

import math
import runpy
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from firstlight import Bench
from firstlight.kernels import cuda, ptx

PAGE = "3_kernels/07_what_the_compiler_did.py"


@cuda.jit
def with_range(a, out):
    i = cuda.grid(1)
    if i < out.size:
        squares = np.float32(0)
        for j in range(a.shape[1]):
            squares += a[i, j] ** 2
        out[i] = math.sqrt(squares / np.float32(a.shape[1]))


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
def only_the_loop_is_mended(a, out):
    i = cuda.grid(1)
    if i < out.size:
        squares = np.float32(0)
        for j in range(a.shape[1]):
            squares += a[i, j] * a[i, j]
        out[i] = math.sqrt(squares / a.shape[1])


@cuda.jit
def mended_too_late(a, out):
    i = cuda.grid(1)
    if i < out.size:
        squares = np.float32(0)
        for j in range(a.shape[1]):
            squares += a[i, j] * a[i, j]
        out[i] = np.float32(math.sqrt(squares / a.shape[1]))


@cuda.jit
def a_plain_zero(a, out):
    i = cuda.grid(1)
    if i < out.size:
        squares = 0.0
        for j in range(a.shape[1]):
            squares += a[i, j] * a[i, j]
        out[i] = math.sqrt(np.float32(squares) / np.float32(a.shape[1]))


@cuda.jit
def a_root_in_double(a, out):
    i = cuda.grid(1)
    if i < out.size:
        squares = np.float32(0)
        for j in range(a.shape[1]):
            squares += a[i, j] * a[i, j]
        out[i] = math.sqrt(np.float64(squares / np.float32(a.shape[1])))


@cuda.jit
def no_root(a, out):
    i = cuda.grid(1)
    if i < out.size:
        squares = np.float32(0)
        for j in range(a.shape[1]):
            squares += a[i, j] * a[i, j]
        out[i] = squares / np.float32(a.shape[1])


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


def has_compiler() -> bool:
    @cuda.jit
    def nothing(x):
        x[0] = 0

    try:
        ptx.compile(nothing, "float32[:]")
    except ptx.NoCompilerError:
        return False
    return True


needs_compiler = pytest.mark.skipif(not has_compiler(), reason="NVIDIA's compiler is not installed")


# -- The exercise ------------------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("kernel", [with_range, strided], ids=lambda kernel: kernel.__name__)
def test_right_answers(page, kernel) -> None:
    assert page["check"](kernel).startswith("Right")


@needs_compiler
def test_the_solution_is_right_and_the_start_is_not(page) -> None:
    assert page["check"](page["row_rms_solution"]).startswith("Right")
    assert "signed and unsigned" in page["check"](page["row_rms"])


def test_the_start_hides_two_doubles_in_a_right_result(page) -> None:
    assert page["problem_of"](page["row_rms"]) == ""
    for mended in (only_the_division_is_mended, only_the_loop_is_mended):
        assert page["problem_of"](mended) == ""


@needs_compiler
@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (only_the_division_is_mended, "signed and unsigned ones are (1 x setp."),
        (only_the_loop_is_mended, "float32 by an integer is (1 x div.f64)"),
        (mended_too_late, "float32 by an integer is (1 x div.f64)"),
        (a_root_in_double, "(1 x sqrt.f64)"),
        (a_plain_zero, "plain Python numbers"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_double_is_named(page, kernel, says) -> None:
    verdict = page["check"](kernel)
    assert verdict.startswith("Not yet")
    assert says in verdict


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (no_root, "33 x 7 numbers: out[0] is"),
        (no_guard, "33 x 7 numbers: "),
        (four_at_a_time, "33 x 7 numbers: out[0] is"),
        (never_ends, "line"),
        (too_few_arguments, "TypeError"),
        (no_kernel, "put @cuda.jit above no_kernel"),
        (None, "no kernel"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_wrong_result_is_told_before_any_double(page, kernel, says) -> None:
    verdict = page["check"](kernel)
    assert verdict.startswith("Not yet")
    assert says in verdict


# -- What the page claims ----------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("cc", [(7, 5), (8, 9), (9, 0)], ids=lambda cc: f"{cc[0]}.{cc[1]}")
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
@pytest.mark.parametrize("cc", [(7, 5), (9, 0)], ids=["7.5", "9.0"])
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


def test_the_notebooks_matrix_fits_in_the_cache_of_both_cards(page) -> None:
    from firstlight.measure.specs import spec_of

    assert all(spec_of(card).cache_at_most > 40e6 for card in page["model"])


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


def test_figures_say_what_they_show(page) -> None:
    assert "NumPy's error is" in page["fig"].get_label()


# -- Where there is no compiler ----------------------------------------------------------------------------------------


def test_without_a_compiler_the_page_says_so_and_shows_the_record(monkeypatch, tmp_path, capsys) -> None:
    def absent(*_, **__):
        raise ptx.NoCompilerError("NVIDIA's compiler is not to be had here")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.setattr(Bench.__init__, "__defaults__", (0.2,))
    monkeypatch.setattr(ptx, "compile", absent)
    bare = runpy.run_path(str(Path(__file__).parents[2] / "examples" / PAGE))
    plt.close("all")
    assert "not to be had here" in capsys.readouterr().out
    assert bare["steps"]["counted_sum"]["SASS"] == (2, 0, 1, 3)
    assert bare["check"](bare["row_rms_solution"]).startswith("The results are right")
    assert bare["check"](no_root).startswith("Not yet")
