"""Each puzzle takes different right answers, and turns down those that are nearly right, with the reason."""

from collections import Counter

import numpy as np
import pytest
from compiler import cuda, float32, int32
from puzzle_answers import RIGHT, edited
from puzzle_mistakes import CAUSES, WRONG
from variants import compiled

from firstlight_kernels.puzzles import PUZZLES
from firstlight_kernels.puzzles.attempts import HINTS
from firstlight_kernels.puzzles.puzzle import double_precision


@pytest.mark.parametrize(("name", "which"), [(name, i) for name in PUZZLES for i in range(len(RIGHT[name]))])
def test_different_right_answers_are_right(name, which):
    said = PUZZLES[name].check(RIGHT[name][which])
    assert said.startswith("Right")
    assert PUZZLES[name].constraint in said


@pytest.mark.parametrize(("name", "which", "edits", "hint"), WRONG, ids=[wrong[0] for wrong in WRONG])
def test_plausible_wrong_answers_are_turned_down_with_the_reason(name, which, edits, hint):
    said = PUZZLES[name].check(edited(name, which, *edits))
    assert said.startswith("Not yet: ")
    assert hint in said


@pytest.mark.parametrize(("name", "which", "edits", "hint"), CAUSES, ids=[wrong[0] for wrong in CAUSES])
def test_a_hint_leads_to_the_cause(name, which, edits, hint):
    said = PUZZLES[name].check(edited(name, which, *edits))
    assert said.startswith("Not yet: ")
    assert not said.right
    assert any(words in (said.hint or HINTS[name]) for words in hint.split("|")), said.hint


def test_each_puzzle_has_six_wrong_answers():
    assert min(Counter(name for name, *_ in CAUSES).values()) >= 6
    assert {name for name, *_ in CAUSES} == set(PUZZLES)


@pytest.mark.parametrize("name", PUZZLES)
def test_the_stub_is_a_kernel_but_no_answer(name):
    puzzle = PUZZLES[name]
    stub = compiled(puzzle.stub, {"cuda": cuda, "float32": float32, "int32": int32})
    assert "no thread has changed it" in puzzle.check(stub)
    assert puzzle.score(stub)


@pytest.mark.parametrize("name", PUZZLES)
def test_outputs_and_accumulators_do_not_start_at_what_is_asked_for(name):
    puzzle = PUZZLES[name]
    for launch in puzzle.launches:
        given = puzzle.inputs(np.random.default_rng(0), *launch.sizes)
        wanted = [double_precision(value) for value in given]
        puzzle.spec(*wanted)
        changed = [np.any(old != new) for old, new in zip(given, wanted, strict=True)]
        assert any(changed) or not launch.sizes[0] or name == "gridding"
        assert all(np.isfinite(value).all() for value in wanted)


def test_a_score_compares_the_cost_with_what_would_do():
    greedy = edited("map", 1, ("x[i] ** 2", "x[i] * x[i]"))
    assert PUZZLES["map"].score(greedy) == "reads of global memory by a thread: 2 (1 would do)"
    assert PUZZLES["map"].score(RIGHT["map"][0]) == "reads of global memory by a thread: 1 (1 would do)"


def test_the_picture_shows_the_readers_own_accesses():
    plt = pytest.importorskip("matplotlib.pyplot")
    fig = PUZZLES["map"].plot(RIGHT["map"][0], "out")
    assert fig.get_label() == "out: 8 elements shown that some thread writes, by 8 threads."
    plt.close(fig)


# -- What is no answer -------------------------------------------------------------------------------------------------


@cuda.jit
def never_ends(x, out):
    while x.size:
        out[0] = 1


@cuda.jit
def fails(x, out):
    out[0] = x[0] // len(None)


@cuda.jit
def other_arguments(x):
    x[0] = 1


def undecorated(x, out):
    out[0] = x[0]


@pytest.mark.parametrize(
    ("kernel", "hint"),
    [
        (never_ends, "still runs"),
        (fails, "TypeError: object of type 'NoneType' has no len() (thread 0 of block 0, line"),
        (other_arguments, "other_arguments(x)"),
        (undecorated, "@cuda.jit above undecorated"),
        (None, "None"),
        (np.square, "square"),
        (RIGHT["gridding"][0], "grid(u, v,"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or "kernel" if callable(value) else str(value),
)
def test_what_is_no_answer_is_told_and_never_raised(kernel, hint, monkeypatch):
    monkeypatch.setattr("firstlight_kernels.puzzles.puzzle._MAX_LINES", 1000)
    said = PUZZLES["map"].check(kernel)
    assert said.startswith("Not yet: ")
    assert hint in said
    assert PUZZLES["map"].score(kernel).startswith("No score: ")
