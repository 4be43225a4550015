"""The page's record is what the compiler makes, the model and the errors are those of the prose."""

import pytest
from pages import judged, running

PAGE = "3_kernels/10_two_compilers.py"


@pytest.fixture(scope="module")
def compiler(page):
    if not page["has_compiler"]:
        pytest.skip("NVIDIA's compiler is not installed")


needs_compiler = pytest.mark.usefixtures("compiler")


# -- The exercise ------------------------------------------------------------------------------------------------------


test_answers = judged(["most_solution", 40, 39.9], [(0, "how many"), (10, "four schedulers"), (True, "a number")])


# -- What the page claims ----------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("cc", [(9, 0), (7, 5)])
def test_the_zero_is_a_double_on_every_gpu_the_others_have_none_and_complex128_is_spilled(page, cc) -> None:
    mixes = {kernel.__name__: page["compiled"](kernel, page["TYPES"], cc).mix for kernel in page["kernels"]}
    assert mixes["double_sum"]["add.f64"] == mixes["double_sum"]["cvt.f64.f32"] == 5
    assert mixes["double_sum"]["fma.f32"] == 0
    for name in ("single_sum", "counted_sum"):
        assert not [each for each in mixes[name] if "f64" in each]
        assert mixes[name]["fma.f32"] == 5
    types = (f"complex{bits}[:, ::1]" for bits in (64, 128))
    narrow, wide = (page["compiled"](page["made"]["turn"], each, cc).spill_bytes for each in types)
    assert narrow == 0 < wide


@pytest.mark.usefixtures("compiler", "recorded_compiler")
def test_the_record_is_what_the_compiler_makes(page) -> None:
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


def test_the_model_says_what_the_prose_says_of_it(page) -> None:
    model = page["model"]
    slowest = {card: [max(parts, key=parts.get) for parts in rows.values()] for card, rows in model.items()}
    assert slowest == {"RTX 4090": ["memory"] * 5, "H100 SXM": ["L1", "L1", "L1", "memory", "memory"]}


def test_the_double_is_nearest_to_the_exact_sum(page) -> None:
    errors = page["errors"]
    for at in range(len(page["lengths"])):
        assert errors["double_sum"][at] <= min(errors[way][at] for way in errors)
        assert errors["Kahan"][at] < 2 * errors["double_sum"][at]
    assert errors["single_sum"][-1] > 8 * errors["single_sum"][0]
    assert page["better"] > 1


# -- Where there is no compiler ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_the_page_shows_the_record(tmp_path) -> None:
    with running(PAGE, tmp_path) as bare:
        assert bare["steps"]["counted_sum"]["SASS"] == (2, 0, 1, 3)
