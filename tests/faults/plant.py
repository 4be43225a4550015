"""Plant faults in a copy of the tree, one at a time, and tell which of them the tests find.

A test suite that is fast and green may still be blind. Each fault in ``faults.toml`` is a small, plausible mistake that
would hurt a reader: a sign, a lost weight, a stale number shown as fresh. A suite worth its time finds them. It is run
after tests were changed, moved or thrown out: ``python tests/faults/plant.py`` asks the quick suite, ``--all`` the slow
tests too, and names pick single faults. ``.ci/run`` tries a tenth of them, each commit another one. A fault that is
missed wants a test; one whose text is gone is to be planted anew, at the same mistake in the new code.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from projects import SOURCES  # noqa: E402

FAULTS = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))
MAY_MISS = 4  # of all faults, the quick suite; with the slow tests, none
SECONDS = 900  # after which a fault has made the tests hang


def main() -> int:
    """Try the faults, and say what became of each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of faults; by default all of them")
    parser.add_argument("--all", action="store_true", help="try the slow tests, too")
    parser.add_argument("--share", metavar="3/10", help="of all faults, try the third of ten parts")
    arguments = parser.parse_args()
    if gone := [name for name, fault in FAULTS.items() if read(ROOT / fault["file"]).count(fault["old"]) != 1]:
        parser.error(f"the text that these change is gone, or there twice: {', '.join(gone)}; plant them anew")
    if unknown := set(arguments.names) - FAULTS.keys():
        parser.error(f"no fault is called {', '.join(sorted(unknown))}; there are: {', '.join(FAULTS)}")
    faults = {name: FAULTS[name] for name in arguments.names or FAULTS}
    if arguments.share:
        part, parts = map(int, arguments.share.split("/"))
        faults = dict([*faults.items()][part - 1 :: parts])
    elif not (arguments.all or arguments.names):
        faults = {name: fault for name, fault in faults.items() if "pages" not in fault}  # the rehearsal takes minutes
    marked = "" if arguments.all else "not slow"
    least = len(faults) - (0 if arguments.all or arguments.names or arguments.share else MAY_MISS)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as with Ctrl-C, the copy is taken away
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copy = Path(folder)
        copy_tree(copy)
        tests = sorted({test for fault in faults.values() for test in fault.get("tests", ())})
        code, said = run_tests(copy, tests, marked, seconds=None) if tests else (0, "")
        if code:
            sys.exit(f"the tests fail without a fault, so nothing can be learnt ({said})")
        verdicts = []
        for name, fault in faults.items():
            verdicts.append(try_fault(copy, fault, marked))
            print(f"{name}: {verdicts[-1]}", flush=True)
    found, missed = (sum(verdict.startswith(word) for verdict in verdicts) for word in ("found", "MISSED"))
    untried = len(faults) - found - missed
    print(f"{found} of {len(faults)} faults found, {missed} missed, {untried} not tried to the end")
    return int(found < least or untried > 0)


def read(file: Path) -> str:
    """Read a file; one that is gone has no text."""
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def copy_tree(copy: Path) -> None:
    """Copy what git has or would have."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, encoding="utf-8").stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():  # else deleted, but not yet from git
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)


def try_fault(copy: Path, fault: dict, marked: str) -> str:
    """Plant one fault, run its tests, and take it out again."""
    file = copy / fault["file"]
    text = read(file)
    file.write_text(text.replace(fault["old"], fault["new"]), encoding="utf-8")
    try:
        code, said = rehearse(copy, *fault["pages"]) if "pages" in fault else run_tests(copy, fault["tests"], marked)
    finally:
        file.write_text(text, encoding="utf-8")
    if code == 1:
        return f"found by {said}"
    # Anything else but 0 is an import that failed, or tests that are not there: no test has judged the fault.
    return f"the tests could not judge it ({said})" if code else f"MISSED: {fault['harm']}"


def run_tests(copy: Path, tests: list[str], marked: str, seconds: int | None = SECONDS) -> tuple[int, str]:
    """Run some tests of the copy until one fails: pytest's exit code, and which one it was."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", marked, *tests]
    # The copy goes before the installed package; without bytecode, no fault outlives its source.
    folders = os.pathsep.join(str(copy / Path(name).relative_to(ROOT)) for name in SOURCES)
    env = {**os.environ, "PYTHONPATH": folders, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, encoding="utf-8", timeout=seconds)
    except subprocess.TimeoutExpired:
        return -1, f"they hung for {seconds} s"
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return done.returncode, failed[1] if failed else f"pytest ended with {done.returncode}"


def rehearse(copy: Path, card: str, *pages: str) -> tuple[int, str]:
    """Run pages of the copy on a card that is not there: 1 and what failed, or 0."""
    command = [sys.executable, "rehearsal/rehearse.py", *pages, "--card", card]
    done = subprocess.run(command, cwd=copy, capture_output=True, encoding="utf-8", timeout=SECONDS)
    failed = re.search(r"FAILED \(1\) (.*)$", done.stdout, re.MULTILINE)
    return done.returncode if failed or not done.returncode else -1, failed[1] if failed else done.stdout[-200:]


if __name__ == "__main__":
    sys.exit(main())
