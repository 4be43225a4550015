"""The report of a night, with a gh that notes what it is asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[1] / "tools" / "nightly.py"
TITLE = 'It fails with "new" versions'
GH = """#!{python}
import json, pathlib, sys
asked = pathlib.Path({folder!r}) / "asked"
with asked.open("a") as log:
    log.write(json.dumps([sys.argv[1:], sys.stdin.read()]) + "\\n")
if sys.argv[1:3] == ["issue", "list"]:
    print(pathlib.Path({folder!r}, "issues").read_text())
"""
RUN = {"GITHUB_SERVER_URL": "https://host", "GITHUB_REPOSITORY": "some/one", "GITHUB_RUN_ID": "7"}


@pytest.fixture
def night(tmp_path):
    """Report a night in a folder of its own; returns what gh was asked for after the list of issues."""
    (tmp_path / "gh").write_text(GH.format(python=sys.executable, folder=str(tmp_path)))
    (tmp_path / "gh").chmod(0o755)

    def report(result: str, *files: str, issues: tuple[tuple[int, str], ...] = ()) -> list[list]:
        (tmp_path / "issues").write_text(json.dumps([{"number": n, "title": title} for n, title in issues]))
        (tmp_path / "asked").write_text("")
        env = os.environ | RUN | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        command = [sys.executable, str(FILE), TITLE, result, *files]
        subprocess.run(command, cwd=tmp_path, env=env, check=True)
        return [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()][1:]

    report.folder = tmp_path
    return report


pytestmark = pytest.mark.skipif(os.name == "nt", reason="the runner that reports is a Linux")


def test_a_first_failure_opens_an_issue_that_says_what_moved(night) -> None:
    (night.folder / "log").write_text("".join(f"line {n}\n" for n in range(500)) + "\x1b[31mthe end\x1b[0m\n")
    (night.folder / "versions").write_text(
        "Sphinx==99.1\ntorch==2.13.0+cpu\n-e git+https://x#egg=firstlight\nnew_one==1\n"
    )
    [(asked, text)] = night("failure", "log", "versions")
    assert asked == ["issue", "create", "--title", TITLE, "--body-file", "-"]
    assert "https://host/some/one/actions/runs/7" in text
    assert "| new-one | – | 1 |" in text
    assert "| 99.1 |" in text
    assert "torch" not in text, "a CPU build of the pinned version is the pinned version"
    assert "\nthe end\n~~~" in text
    assert "line 499" in text
    assert "line 300\n" not in text


def test_the_next_failure_writes_it_anew_and_touches_no_other_issue(night) -> None:
    (night.folder / "log").write_text("broken\n")
    [(asked, text)] = night("failure", "log", issues=((3, f"{TITLE}, too"), (5, TITLE)))
    assert asked == ["issue", "edit", "5", "--body-file", "-"]
    assert "broken" in text


def test_a_green_night_closes_it(night) -> None:
    [(asked, _)] = night("success", "log", issues=((5, TITLE), (6, "Another")))
    assert asked[:3] == ["issue", "close", "5"]
    assert "actions/runs/7" in asked[4]
    assert night("success", "log", issues=((6, "Another"),)) == []


@pytest.mark.parametrize("result", ["skipped", "cancelled"])
def test_a_night_without_a_result_says_nothing(night, result: str) -> None:
    assert night(result, "log", issues=((5, TITLE),)) == []
    assert (night.folder / "asked").read_text() == "", "it does not even ask for issues"


@pytest.mark.parametrize("log", [b"", b"\xff" * 10**6 + b"\n" + b"x" * 10**6 + b"\nlast\n"], ids=["empty", "huge"])
def test_a_log_that_is_not_there_or_is_huge_makes_an_issue(night, log: bytes) -> None:
    (night.folder / "log").write_bytes(log)
    [(asked, text)] = night("failure", "log" if log else "no log", "no versions")
    assert asked[1] == "create"
    assert 0 < len(text) < 65_536
    assert ("last\n" in text) == bool(log)
