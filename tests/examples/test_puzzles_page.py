"""A gap is told kindly from an answer, all solutions are right, and the score follows answers."""

import re
from functools import partial

import pytest
from pages import EXAMPLES, judged

from firstlight.kernels import cuda
from firstlight.lessons.puzzles import PUZZLES

PAGE = "3_kernels/14_puzzles.py"


def square(line, i="cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x"):
    scope = {"cuda": cuda}
    exec(f"@cuda.jit\ndef square(x, out):\n    i = {i}\n    {line}", scope)
    return scope["square"]


# -- The judge of the page ---------------------------------------------------------------------------------------------


WRONG = [
    (square("out[i] += x[i] ** 2"), "8.85975"),
    (square("out[i] = 2 * x[i]"), "out[0]"),
    (square("out[i] = x[i] ** 2", "cuda.threadIdx.x"), "race"),
    (square("if x[i] > 1e9: out[0] = 0"), "no thread"),  # it touches memory, so it is no gap
    (lambda x, out: None, "@cuda.jit"),
]


def test_answers(page):
    judged([square("out[i] = x[i] ** 2")], WRONG)({"check": partial(page["check"], "map")})


@pytest.mark.parametrize("name", PUZZLES)
def test_a_gap_is_no_error_and_shows_the_task(page, name, capsys):
    names = ", ".join(page["inspect"].signature(PUZZLES[name].spec).parameters)
    scope, answers = {}, {}
    exec(f"def gap({names}): ...", scope)
    page["attempt"](name, answers)(cuda.jit(scope["gap"]))
    assert answers[name][1] == page["GAP"]
    said = capsys.readouterr().out
    assert " ".join(PUZZLES[name].constraint.split()) in " ".join(said.split())
    for line in PUZZLES[name].stub.strip().splitlines()[2:]:
        assert line in said


# -- What stands on the page -------------------------------------------------------------------------------------------


def test_all_gaps_are_gaps_and_all_solutions_are_right(page):
    assert {name for name, (_, said) in page["yours"].items() if said != page["GAP"]} == {"stride"}
    assert page["solved"](page["ours"]) == PUZZLES.keys()


def test_the_compiler_joins_the_loads_and_finds_the_doubles(page):
    for (kernel, _), (loads, in_double) in page["compiled"].items():
        assert (loads == 1) == (kernel == "square_twice")
        assert (in_double > 0) == (kernel == "plain_numbers")
    assert page["check"]("map", page["square_twice"]).startswith("Not yet")
    assert page["check"]("stride", page["plain_numbers"]).startswith("Right")


def test_the_three_attempts_at_stride_go_from_wrong_to_costly_to_right(page):
    said = [page["check"]("stride", page[name]) for name in ("one_each", "pieces", "side_by_side")]
    assert "no thread" in said[0]
    assert "4 would do" in said[1]
    assert said[2].startswith("Right")


# -- Score and picture -------------------------------------------------------------------------------------------------


def test_the_score_counts_and_names_an_existing_page_for_each_puzzle(page, capsys):
    assert sorted(name for names in page["HELPS"].values() for name in names) == sorted(PUZZLES)
    assert all((EXAMPLES / "3_kernels" / f"{name}.py").is_file() for name in page["HELPS"])
    page["score"]({"map": (None, "Not yet: …"), "dot": (None, "Right: …")})
    said = capsys.readouterr().out
    assert "1 of 16" in said
    assert re.search("01_first_kernel .*map, guard", said)
    page["score"](page["ours"])
    assert "16 of 16" in capsys.readouterr().out
