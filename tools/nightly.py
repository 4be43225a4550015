"""Keep one issue open while a check that runs at night fails: it opens it, rewrites it, and closes it.

    python tools/nightly.py "Links are broken" failure links.log
    python tools/nightly.py "The newest versions fail" success newest.log versions.txt

What it needs of GitHub is asked for with gh, which is on the runners. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINES, WIDTH = 80, 300  # of the log; an issue holds 65 536 characters
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def versions(text: str) -> dict[str, str]:
    """The versions in a list of pins or in what ``pip freeze`` prints, without what marks a build (``+cpu``)."""
    found = re.findall(r"^([\w.-]+)==([^\s;+]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def moved(pins: str, installed: str) -> list[str]:
    """What is not as it is pinned, as rows of a table: other versions, and new packages."""
    before, now = versions(pins), versions(installed)
    return [
        f"| {name} | {before.get(name, '–')} | {version} |"
        for name, version in sorted(now.items())
        if before.get(name) != version
    ]


def last_lines(log: str) -> str:
    """The end of a log, without colours, and no line so long that it hides the others."""
    lines = COLOUR.sub("", log).replace("\r", "\n").splitlines()
    return "\n".join(line[:WIDTH] for line in lines[-LINES:])


def body(run: str, log: str, installed: str | None) -> str:
    """The text of the issue."""
    text = f"It failed in {run}. This text is of the last failure; the issue closes itself when the check passes.\n\n"
    if installed is not None:
        rows = moved((ROOT / "constraints.txt").read_text(encoding="utf-8"), installed)
        table = "\n".join(["| package | pinned | newest |", "|---|---|---|", *rows])
        text += f"{table if rows else 'Nothing was installed, or nothing but what is pinned.'}\n\n"
    return f"{text}The last lines of the log:\n\n~~~~~~~~text\n{last_lines(log)}\n~~~~~~~~\n"


def gh(*arguments: str, text: str = "") -> str:
    """Run a command of GitHub's."""
    return subprocess.run(["gh", *arguments], input=text, capture_output=True, text=True, check=True).stdout


def read(name: str) -> str:
    """A file that a failed job may not have written."""
    file = Path(name)
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def main(title: str, result: str, log: str, installed: str | None = None) -> None:
    """Bring the issue in line with the result of a job; one that was cancelled or skipped says nothing."""
    if result not in ("success", "failure"):
        return
    found = json.loads(gh("issue", "list", "--search", f'"{title}" in:title', "--json", "number,title"))
    numbers = [str(issue["number"]) for issue in found if issue["title"] == title]
    run = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}".format_map(os.environ)
    if result == "success":
        for number in numbers:
            gh("issue", "close", number, "--comment", f"It passes again: {run}")
        return
    text = body(run, read(log), installed and read(installed))
    if numbers:
        gh("issue", "edit", numbers[0], "--body-file", "-", text=text)
    else:
        gh("issue", "create", "--title", title, "--body-file", "-", text=text)


if __name__ == "__main__":
    main(*sys.argv[1:])
