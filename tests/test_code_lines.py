"""The count of lines that lint holds each wing to."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import code_lines

PYTHON = '''"""What it is."""


def f():
    """Say it.

    Twice."""
    # why
    return g(
        """not
        a docstring"""
    )
'''
SCRIPT = "// why\n\n/* and\n * why not */\nlet a = 1; // one\n"


@pytest.mark.parametrize(("limit", "code"), [("6", 0), ("1,006", 0), ("5", 1)])
def test_a_wing_with_more_lines_than_it_may_have_fails(tmp_path, monkeypatch, capsys, limit, code):
    for name, text in {"a.py": PYTHON, "deep/b.js": SCRIPT, "c.css": "p {}", "d.py": ""}.items():
        (tmp_path / "wing" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "wing" / name).write_text(text)
    table = f"| floor | wing | lines |\n|---|---|---|\n| 1 | `wing`, `b` | {limit} |\n"
    (tmp_path / "CONTRIBUTING.md").write_text(table)
    monkeypatch.setattr(code_lines, "ROOT", tmp_path)
    assert code_lines.main() == code
    assert capsys.readouterr().out.split()[:3] == ["6", "of", limit]
