"""The kernels are right in Triton's interpreter, the trap is silent, and the exercise's check finds what goes wrong."""

import re
import sys
from importlib.util import find_spec

import pytest
import torch
from pages import EXAMPLES, assert_check_tells, running

PAGE = "3_kernels/13_triton.py"
HEAD = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
BODY = """def kernel(x, out, down, across, columns, BLOCK: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    inside = j < columns
    numbers = tl.load(x + row * down + j * across, mask=inside, other=0)
    off = numbers - tl.sum(numbers, axis=0) / columns
    off = tl.where(inside, off, 0)
    width = tl.sqrt(tl.sum(off * off, axis=0) / (columns - 1))
    tl.store(out + row * columns + j, off / width, mask=inside)
"""
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="there is no Triton for this system")


@pytest.fixture(scope="module")
def kernel_of(tmp_path_factory):
    """Return a kernel of the exercise with something in it written otherwise."""
    folder = tmp_path_factory.mktemp("kernels")

    def made(old="", new=""):
        assert old in BODY
        file = folder / f"kernel_{len(list(folder.iterdir()))}.py"
        file.write_text(HEAD + BODY.replace(old, new))
        scope = {}
        exec(compile(file.read_text(), str(file), "exec"), scope)
        return scope["kernel"]

    return made


# -- The kernels -------------------------------------------------------------------------------------------------------


@needs_triton
def test_a_slice_is_wrong_without_strides_and_its_sums_do_not_show_it(page) -> None:
    sums, error = page["apart"](page["try_slice"], page["softmax"]).splitlines()
    assert sum(map(float, sums.split("[")[1].rstrip("]").split(","))) == pytest.approx(6, abs=1e-5)
    assert float(error.split()[2]) > 0.1


@needs_triton
def test_with_strides_every_view_is_right(page) -> None:
    said = page["apart"](page["try_strides"], page["softmax_strided"], page["run_softmax"])
    errors = [float(line.split("by ")[1].split()[0]) for line in said.splitlines()]
    assert len(errors) == 2
    assert max(errors) < 1e-6


@needs_triton
def test_a_block_that_is_no_power_of_two_is_refused(page) -> None:
    said = page["apart"](page["first_tries"], page["add"], page["run_add"], page["try_add"])
    assert "True" in said
    assert "power of 2" in said


def test_the_five_steps_are_softmax_and_move_what_the_figure_says(page) -> None:
    x = torch.randn(7, 31)
    assert torch.allclose(page["five_steps"](x), torch.softmax(x, 1))
    assert sum(page["passes"].values()) == 8


def test_warps_by_width_are_what_a_launch_takes(page) -> None:
    for width in (1, 256, 1000, 4096, 2**20):
        warps = page["by_width"](width)
        assert 1 <= warps <= 16
        assert warps & (warps - 1) == 0


@needs_triton
def test_the_operation_with_a_gradient_passes_gradcheck(tmp_path, capsys) -> None:
    text = (EXAMPLES / PAGE).read_text(encoding="utf-8")
    lines = text[text.index("#    import torch, triton, triton.language") :].split("\n#\n# The backward")[0]
    script = tmp_path / "cube.py"  # Triton reads the source of a kernel
    script.write_text(re.sub("^# {0,4}", "", lines, flags=re.MULTILINE))
    exec(compile(script.read_text(), str(script), "exec"), {})
    assert capsys.readouterr().out == "True\n"


# -- The exercise ------------------------------------------------------------------------------------------------------


@needs_triton
def test_our_solution_is_right(page) -> None:
    assert page["check"](page["standardise_solution"]).startswith("Right")


@pytest.mark.slow  # a process for each answer
@needs_triton
def test_answers(page, kernel_of) -> None:
    wrong = {
        "empty": ("standardise", "nothing"),
        "no strides": (kernel_of("row * down + j * across", "row * columns + j"), "x[:, ::2]: you read as if"),
        "rows only": (kernel_of("j * across", "j"), "by across"),
        "masked places": (kernel_of("tl.where(inside, off, 0)", "off"), "Make them 0 again"),
        "no mask": (kernel_of("off / width, mask=inside", "off / width"), "behind|12 × 26"),
        "columns": (kernel_of("(columns - 1)", "columns"), "columns - 1"),
        "BLOCK": (kernel_of("axis=0) / columns", "axis=0) / BLOCK"), "BLOCK for the mean"),
        "variance": (
            kernel_of(
                "tl.sqrt(tl.sum(off * off, axis=0) / (columns - 1))", "tl.sum(off * off, axis=0) / (columns - 1)"
            ),
            "root",
        ),
        "no mean": (kernel_of("numbers - tl.sum(numbers, axis=0) / columns", "numbers"), "should be"),
        "a name": (kernel_of("off / width", "off / wide"), "failed"),
    }
    assert_check_tells(page, ["standardise_solution", kernel_of()], wrong)


# -- Where there is no Triton ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_triton_the_page_ends_gently(monkeypatch, capsys, tmp_path) -> None:
    """As on macOS, where `import triton` fails."""
    for name in {"triton", *(name for name in sys.modules if name.startswith("triton."))}:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("FIRSTLIGHT_DEVICE", "cpu")
    with running(PAGE, tmp_path):
        assert "no Triton" in capsys.readouterr().out
