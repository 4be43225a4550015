"""What holds of every page: how it runs, and what its check does with answers to its exercise."""

import ast
import io
import math
import runpy
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partialmethod
from pathlib import Path
from types import FunctionType

import matplotlib.pyplot as plt
import pytest

from firstlight import Bench
from firstlight.records.slices import depends_on
from firstlight.timing import measurement

EXAMPLES = Path(__file__).parents[2] / "examples"

# Of which no exercise asks for any.
NO_ANSWERS = (None, 3, object(), lambda: 0, lambda *_: None, lambda *_: math.nan, lambda *_: object())


def _with_little_time(bench, init, id, *_, **__):
    init(bench, id, 0.1)


def parts_of(page, *names):
    """What a page defines of these, without what these do not depend on, such as long fits."""

    def defines(statement):
        inside = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
        stored = {node.id for node in inside if isinstance(node.ctx, ast.Store)}
        return not {*stored, getattr(statement, "name", "")}.isdisjoint(names)

    statements = depends_on((EXAMPLES / page).read_text(encoding="utf-8"), defines)
    with redirect_stdout(io.StringIO()):
        exec(compile(ast.Module(statements, []), page, "exec"), defined := {})
    return defined


@contextmanager
def running(page, folder):
    """Run a page in a folder, with little time to measure: it prints no warning, and leaves no file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(plt, "show", lambda: None)
        patch.setattr(Bench, "__init__", partialmethod(_with_little_time, Bench.__init__))
        patch.setattr(measurement, "GRACE_SECONDS", 0)
        with redirect_stderr(io.StringIO()) as said:
            defined = runpy.run_path(str(EXAMPLES / page))
        assert said.getvalue() == ""
        assert list(folder.iterdir()) == []
        yield defined
        plt.close("all")


def judged(right, wrong):
    """A test that `assert_check_tells` right answers from wrong ones."""

    def test(page) -> None:
        assert_check_tells(page, right, wrong)

    test.wrong = wrong  # for wrong_answers.py
    return test


def assert_check_tells(page, right, wrong):
    """Right answers are accepted, wrong ones get a hint with one of ``a|b``, and nothing raises.

    A text is the name of what the page has defined.
    """
    check, named = page["check"], lambda answer: page[answer] if isinstance(answer, str) else answer
    answers = [named(answer) for answer in right]
    for answer in answers:
        said = check(answer)
        assert said.startswith("Right"), said
    for name, (answer, hint) in wrong.items() if isinstance(wrong, dict) else enumerate(wrong):
        said = " ".join(check(named(answer)).split())
        assert not said.startswith("Right"), name
        assert any(word in said for word in hint.split("|")), f"{name}: no {hint!r} in {said!r}"
    for answer in NO_ANSWERS:
        said = check(answer)
        assert said
        assert not said.startswith("Right"), answer
    if isinstance(answers[0], FunctionType):
        assert "ZeroDivisionError" in check(lambda *_: 1 / 0)


def doubles_and_spills(code):
    """The instructions on doubles, and the bytes of registers that went to memory: a page's kernel has neither."""
    return [name for name in code.mix if "f64" in name], code.spill_bytes or 0
