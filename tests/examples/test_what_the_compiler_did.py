"""The zero is a double, the page's record is what the compiler makes, and its check tells doubles."""

import math
import re

import numpy as np
import pytest
from new_python import printed_by
from numba import cuda
from pages import EXAMPLES, judged, running
from samples import H100, medians, recorded

from firstlight_kernels import ptx

PAGE = "3_kernels/10_what_the_compiler_did.py"
RECORDS = EXAMPLES.parent / "records"
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
def compiler():
    try:
        ptx.compile(rms(), "float32[:, ::1], float32[::1]")
    except ptx.NoCompilerError:
        pytest.skip("NVIDIA's compiler is not installed")


needs_compiler = pytest.mark.usefixtures("compiler")


# -- The exercise ------------------------------------------------------------------------------------------------------


test_answers = needs_compiler(
    judged(["row_rms_solution", rms()], WRONG | IN_DOUBLE | {"the start": ("row_rms", "signed and unsigned")})
)


# -- What the page claims ----------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("cc", [(9, 0), (7, 5)])
def test_the_zero_is_a_double_on_every_gpu_and_the_others_have_none(page, cc) -> None:
    mixes = {name: ptx.compile(page[name], page["TYPES"], cc).mix for name in page["STEPS"]}
    assert mixes["double_sum"]["add.f64"] == mixes["double_sum"]["cvt.f64.f32"] == 5
    assert mixes["double_sum"]["fma.f32"] == 0
    for name in ("single_sum", "counted_sum"):
        assert page["doubles_in"](mixes[name]) == {}
        assert mixes[name]["fma.f32"] == 5


@pytest.mark.usefixtures("compiler", "recorded_compiler")
def test_the_record_is_what_the_compiler_makes(page) -> None:
    for name, lines in page["RECORDED"].items():
        made = page["lines_with_floats"](page[name])[-len(lines.splitlines()) :]
        assert [line.split()[0] for line in made] == [line.split()[0] for line in lines.splitlines()]
    assert page["steps"] == page["STEPS"]


@needs_compiler
def test_two_of_the_four_lines_have_doubles(page) -> None:
    assert [bool(page["doubles_of"](line)) for line in page["FOUR"]] == [True, False, True, True]


@needs_compiler
def test_66_complex_numbers_fit_in_single_precision_and_are_spilled_in_double() -> None:
    held = range(66)
    lines = ["row = z[cuda.grid(1)]", *(f"v{k} = row[{k}]" for k in held), "cuda.syncthreads()"]
    scope = {"cuda": cuda}
    exec("\n    ".join(["@cuda.jit\ndef turn(z):", *lines, *(f"row[{k}] = v{65 - k}" for k in held)]), scope)
    types = (f"complex{bits}[:, ::1]" for bits in (64, 128))
    narrow, wide = (ptx.compile(scope["turn"], each, (9, 0)).spill_bytes for each in types)
    assert narrow == 0 < wide


def test_reading_takes_longer_than_adding_in_float64_on_three_of_five_cards(page) -> None:
    hidden = [card for card, (reading, adding) in page["least"].items() if reading > adding]
    assert hidden == ["RTX 4090", "L4", "H200"]


@pytest.mark.parametrize("machine", [H100, "nvidia-h200"])
def test_both_cards_did_what_the_text_says_of_them(machine) -> None:
    took = medians(PAGE, machine)
    ratio = {layout: took[f"double_sum, {layout}"] / took[f"single_sum, {layout}"] for layout in ("rows", "columns")}
    assert ratio["rows"] < 1 < ratio["columns"] < 1.1


def test_a_while_gains_little_by_columns_and_more_by_rows() -> None:
    of_for, of_while = (
        {row.label.split()[-1]: row.byte_rate for row in recorded(where).timings.values() if row.label.startswith(name)}
        for where, name in ((PAGE, "single_sum"), ("3_kernels/05_coalescing", "kernel, by"))
    )
    assert 1.1 < of_while["columns"] / of_for["columns"] < 1.25
    assert of_while["rows"] > 1.5 * of_for["rows"]


def test_the_double_is_nearest_to_the_exact_sum(page) -> None:
    single, library, double = page["errors"].values()
    assert double < library < single < 1e-5


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
    """
    (loop,) = page["loops"](text)
    assert [page["kind"](line) for line in loop] == ["load"] * 2 + ["float64", "bookkeeping"]
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


@needs_compiler
def test_plain_numba_shows_the_doubles_as_the_page_says() -> None:
    """Its lines, in a process of their own."""
    code = re.search(r"code-block:: python\n#\n((?:#(?: {5}.*)?\n)+)", SOURCE)[1]
    code = code.replace("#     ", "").replace("#\n", "\n")
    assert "add.f64" in printed_by(code)


# -- Where there is no compiler ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_the_page_shows_the_record(tmp_path) -> None:
    with running(PAGE, tmp_path) as bare:
        assert bare["steps"] == bare["STEPS"]
        assert bare["check"](bare["row_rms_solution"]).startswith("The results are right")
        assert "@cuda.jit" in bare["check"](lambda a, out: None)
