"""What each page's check says to the wrong answers that its tests know, as JSON: wrong_answers.py FILE [TEST…]."""

import ast
import importlib
import io
import json
import sys
import textwrap
from contextlib import redirect_stdout
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests/examples", "tests", "kernels/tests", "tools", "docs")]

import matplotlib as mpl  # noqa: E402
import pages  # noqa: E402

from firstlight.records.exercise import statements_of  # noqa: E402

mpl.use("Agg")
START = "the start"  # the page as it was downloaded, which nobody hands in


def names_of(tests):
    """What the tests call each wrong answer; its code, where they have no name for it."""
    bound = {
        statement.targets[0].id: statement.value
        for statement in ast.parse(tests.read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    }
    wrong = bound["test_answers"].args[1]
    wrong = bound[wrong.id] if isinstance(wrong, ast.Name) else wrong
    if isinstance(wrong, ast.Dict):
        return [ast.literal_eval(key) for key in wrong.keys]
    return [ast.unparse(pair.elts[0]) for pair in wrong.elts]


def said_to(tests):
    """The page of some tests, and what its check says to each wrong answer."""
    module = importlib.import_module(tests.stem)
    script = pages.EXAMPLES / module.PAGE
    page = {"__name__": "__main__"}
    with redirect_stdout(io.StringIO()):
        exec(compile(ast.Module(statements_of(script.read_text(encoding="utf-8")), []), script.name, "exec"), page)
        wrong = module.test_answers.wrong
        given = [answer for answer, _ in (wrong.values() if isinstance(wrong, dict) else wrong)]
        said = [
            (name, str(page["check"](page[answer] if isinstance(answer, str) else answer)))
            for name, answer in zip(names_of(tests), given, strict=True)
            if name != START and (not isinstance(answer, str) or answer in page)
        ]
    return module.PAGE.removesuffix(".py"), [(name, textwrap.shorten(words, 240)) for name, words in said]


if __name__ == "__main__":
    kept, *chosen = sys.argv[1:]
    found = (HERE.joinpath(f"test_{name}.py") for name in chosen) if chosen else sorted(HERE.glob("test_*.py"))
    asking = [tests for tests in found if "\ntest_answers = judged(" in tests.read_text(encoding="utf-8")]
    Path(kept).write_text(json.dumps(dict(map(said_to, asking)), ensure_ascii=False), encoding="utf-8")
