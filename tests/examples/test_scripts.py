"""What holds of every page: its run, with its tests beside it, is in conftest.py."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pages import EXAMPLES
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

from _ext.folds import MARK
from _ext.holds import BLOCK
from firstlight.records.slices import depends_on

SCRIPTS = sorted(EXAMPLES.glob("*/[0-9][0-9]_*.py"))
# .ci/run has run them all for the site, and their tests do so again: a fourth, chosen by the commit, runs by itself.
QUARTER = os.environ.get("QUARTER")
BY_THEMSELVES = SCRIPTS if QUARTER is None else SCRIPTS[int(QUARTER) :: 4]
TEMPLATE = EXAMPLES.parent / "maintaining/page_template.py"
COURSE = tomllib.loads((EXAMPLES.parent / "docs/course.toml").read_text(encoding="utf-8"))
ONE_TASK = [TEMPLATE, *(script for script in SCRIPTS if script.stem != "14_puzzles")]  # which has sixteen
FOLDED = "# (solution|folded:|folded code:|figure|measured figure|remember)"
QUICKLY = """
import runpy, sys
from firstlight import Bench
Bench.__init__.__defaults__ = (0.4,)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_every_page_is_run_by_its_tests() -> None:
    files = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")]
    run = {name for text in files if "(page" in text for name in re.findall('^PAGE = "(.+)"$', text, re.MULTILINE)}
    assert run
    assert run == {script.relative_to(EXAMPLES).as_posix() for script in SCRIPTS}


@pytest.mark.slow
@pytest.mark.parametrize("script", BY_THEMSELVES, ids=lambda path: path.stem)
def test_a_page_is_a_script_that_runs_by_itself(script: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", QUICKLY, str(script)]
    env = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", [TEMPLATE, *SCRIPTS], ids=lambda path: path.stem)
def test_cells_are_short_and_lines_fit(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert "Three lines" in text
    too_long = [line for line in text.splitlines() if len(line) > 88 and "://" not in line]
    assert not too_long
    for cell in text.split("\n# %%")[1:]:
        code = [line for line in cell.splitlines() if line.strip() and not line.startswith("#")]
        most = 40 if re.search(rf"^{FOLDED}", cell, re.MULTILINE) else 25
        assert len(code) <= most, f"this cell has {len(code)} lines: {code[0]} …"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_no_mark_of_a_cell_has_slipped_into_the_text(script: Path) -> None:
    blocks = split_code_and_text_blocks(str(script))[1]
    marks = [
        line for kind, text, _ in blocks if kind == "text" for line in text.splitlines() if MARK.fullmatch(f"# {line}")
    ]
    assert not marks, "leave an empty line before the mark"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_no_role_stands_inside_emphasis(script: Path) -> None:
    """No markup of reST holds another, and no build warns: readers once saw ``:term:`` itself."""
    assert not re.search(r"\*:[a-z-]+:`", script.read_text(encoding="utf-8"))


@pytest.mark.parametrize("script", ONE_TASK, ids=lambda path: path.stem)
def test_our_solution_comes_last_and_the_exercise_does_not_need_it(script: Path) -> None:
    """Whoever works on a page, or in its notebook, must not see the solution before the answer is judged."""
    *before, last = [text for kind, text, _ in split_code_and_text_blocks(str(script))[1] if kind == "code"]
    assert last.strip().startswith("# solution")
    assert not [cell for cell in before if cell.strip().startswith("# solution")]
    made = set(re.findall(r"^(?:def )?(\w+_solution|solution)\b", last, re.MULTILINE))
    asked = depends_on("\n".join([*before, last]), lambda statement: ast.unparse(statement).startswith("print(check("))
    assert asked
    assert not {getattr(statement, "name", "") for statement in asked} & made


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_course_says_how_long_a_page_takes(script: Path) -> None:
    _, blocks = split_code_and_text_blocks(str(script))
    prose = " ".join(BLOCK.sub("", re.sub(r"\s*<[^<>`]+>`", "`", text)) for kind, text, _ in blocks if kind == "text")
    prose = re.sub(r"\.\. dropdown:: In CUDA C\+\+\n\n(?: .*\n|\n)+", "", prose)  # one reads one tab
    words = len(re.findall(r"\w[\w'’.-]*", re.sub(r":\w+:`", "`", prose)))
    cells = [text.strip().splitlines() for kind, text, _ in blocks if kind == "code" and text.strip()]
    shown = [cell for cell in cells if not re.match(FOLDED, cell[0])]
    minutes = words / 200 + sum(bool(line.strip()) for cell in shown for line in cell) / 30
    assert abs(COURSE[f"{script.parent.name}/{script.stem}"]["minutes"] - minutes) < 1, minutes
