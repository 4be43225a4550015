"""Every example runs as a plain script, as a reader who downloads it would run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/[0-9][0-9]_*.py"))
QUICKLY = """
import runpy, sys, warnings
from firstlight import Bench
Bench.__init__.__defaults__ = (0.4,)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_there_are_examples() -> None:
    assert len(SCRIPTS) >= 2


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", QUICKLY, str(script)],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Three lines" in script.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == []  # a script leaves nothing behind


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_cells_are_short_and_lines_fit(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    too_long = [line for line in text.splitlines() if len(line) > 88 and "://" not in line]
    assert not too_long
    for cell in text.split("\n# %%")[1:]:
        code = [line for line in cell.splitlines() if line.strip() and not line.startswith("#")]
        assert len(code) <= 25, f"this cell has {len(code)} lines: {code[0]} …"
