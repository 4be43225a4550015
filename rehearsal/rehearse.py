"""Run pages on cards that are not there, one on each core.

python rehearsal/rehearse.py                    all pages on an H100
python rehearsal/rehearse.py 3_kernels/11 4     those pages
python rehearsal/rehearse.py --card small mps   on other cards; --card all: on all of them
python rehearsal/rehearse.py --coverage         and write down which lines ran (then: coverage combine)
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

from cards import CARDS, HERE

ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tools"))
from projects import SOURCES  # noqa: E402

OUT = ROOT / "build" / "rehearsal"
SIZES = tomllib.loads((HERE / "sizes.toml").read_text(encoding="utf-8"))
LIMIT = 300  # seconds a page: with a real sky it takes three minutes
LONG = ("3_kernels/08", "3_kernels/03", "3_kernels/11", "4_imaging/08", "4_imaging/10", "3_kernels/07")  # begun first


def main() -> int:
    """Run pages, each in a process of its own, and say what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", help="how their names begin; by default all")
    parser.add_argument("--card", nargs="+", choices=[*CARDS, "all"], default=["h100"])
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        return perform(asked.card[0], asked.one)
    if gone := [name for name in SIZES if not (ROOT / "examples" / f"{name}.py").exists()]:
        parser.error(f"sizes.toml knows pages that there are not: {', '.join(gone)}")
    scripts = [s for s in sorted((ROOT / "examples").glob("*/[0-9][0-9]_*.py")) if wanted(s, asked.pages)]
    if not scripts:
        parser.error(f"no page begins with {' or '.join(asked.pages)}")
    OUT.mkdir(parents=True, exist_ok=True)
    scripts.sort(key=lambda script: not name_of(script).startswith(LONG))
    cards = list(CARDS) if "all" in asked.card else asked.card
    began, jobs = time.perf_counter(), [(card, script, asked.coverage) for card in cards for script in scripts]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = sum(pool.map(lambda job: rehearse(*job), jobs))
    print(f"{len(jobs) - failed} of {len(jobs)} are green, after {time.perf_counter() - began:.0f} s")
    return int(failed > 0)


def wanted(script: Path, names: list[str]) -> bool:
    return not names or name_of(script).startswith(tuple(names))


def name_of(script: Path) -> str:
    return f"{script.parent.name}/{script.stem}"


def rehearse(card: str, script: Path, coverage: bool) -> bool:
    """Run a page in a process and an empty folder; tell whether it failed."""
    began, log = time.perf_counter(), OUT / f"{card}-{name_of(script).replace('/', '-')}.log"
    command = ["coverage", "run", "-p", f"--rcfile={HERE / 'coveragerc'}", __file__] if coverage else [__file__]
    command = [sys.executable, *(["-m"] if coverage else []), *command, "--card", card, "--one", str(script)]
    alone = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1") | {"REHEARSAL_OUT": str(OUT)}
    with tempfile.TemporaryDirectory() as folder, log.open("w") as file:
        try:
            code = subprocess.run(
                command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, timeout=LIMIT, env=os.environ | alone
            ).returncode
        except subprocess.TimeoutExpired:
            code = f"after {LIMIT} s not done"
    lines = log.read_text(errors="replace").rstrip().splitlines() or [""]
    where = [m[1] for line in lines if (m := re.search(r'File ".*((examples|src/\w+)/.*", line \d+)', line))]
    said = f"FAILED ({code}) {where[-1] if where else ''}: {lines[-1][:200]}\n    {log}" if code else "green"
    print(f"{card:<6}{name_of(script):<40}{time.perf_counter() - began:4.0f} s  {said}", flush=True)
    return bool(code)


def perform(card: str, script: Path) -> int:
    """Run a page in this process, with the sizes of sizes.toml in place of its own."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.path[:0] = SOURCES
    import standin

    standin.install(CARDS[card])
    source = script.read_text(encoding="utf-8")
    for old, new in SIZES.get(name_of(script), {}).items():
        if old not in source:
            raise SystemExit(f"sizes.toml: {name_of(script)} has no {old!r}")
        source = source.replace(old, new)
    sys.argv = [str(script)]
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = str(script)
    try:
        for statement in ast.parse(source).body:  # one by one: `trace` takes the tracing away from coverage.py
            if (measured := getattr(sys.modules.get("coverage"), "Coverage", None)) and (cover := measured.current()):
                cover._collector.pause()
                cover._collector.resume()
            exec(compile(ast.Module([statement], []), str(script), "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
