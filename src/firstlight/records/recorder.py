"""Record an example on this machine: run it block by block, and keep what it measured and printed."""

from __future__ import annotations

import getpass
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from firstlight.devices import card
from firstlight.display import Table
from firstlight.records.record import LEFT_OUT, TELLING, Record, bench_names, facts_of, write
from firstlight.records.runner import ExampleError, nothing_left, run
from firstlight.timing.bench import Bench
from firstlight.timing.result import RowName
from firstlight.timing.verdicts import NEVER_SHOWN


def record_example(script: Path) -> Record:
    """Run an example in this process and return its record.

    Rows of the simulator and rows faster than the hardware are left out, by name; so are experiments that are not for
    this machine.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     script = Path(folder, "sum.py")
    ...     _ = script.write_text("print(1 + 2)")
    ...     record = record_example(script)
    3
    >>> record.example, list(record.outputs.values())
    ('elsewhere/sum', ['3'])
    """
    import matplotlib as mpl

    from firstlight.timing.figure import STYLE

    sys.argv = [str(script)]
    source = script.read_text(encoding="utf-8")  # before it runs: somebody may edit it meanwhile
    with mpl.rc_context(STYLE), nothing_left(script):
        done = run(script)
    benches = {id(value): value for value in done.names.values() if isinstance(value, Bench)}.values()
    ids = [bench.id for bench in benches]
    if len(set(ids)) < len(ids):
        raise ValueError(f"{script.name} has two experiments with one name: {', '.join(sorted(ids))}")
    rows = {name: timing for bench in benches for name, timing in bench.rows.items()}
    facts = facts_of(example_of(script), source, card(), card("cpu"))
    left_out = [name for name, timing in rows.items() if timing.verdict in NEVER_SHOWN]
    not_timed = bench_names(source) - {name.bench for name in rows}
    left_out += [RowName(bench, "not run here") for bench in sorted(not_timed)]
    if left_out:
        facts["left_out"] = LEFT_OUT.join(map(str, left_out))
    timings = {str(name): timing for name, timing in rows.items() if name not in left_out}
    return Record(facts, timings, done.outputs, figures=done.figures)


def example_of(script: Path) -> str:
    """Return the name of an example, as chapter and name; another folder stays untold: it may be a user's."""
    chapter = script.resolve().parent.name
    name = re.sub("[^0-9a-z_]+", "_", script.stem.lower())
    return f"{chapter if re.fullmatch('[0-9]+_[0-9a-z_]+', chapter) else 'elsewhere'}/{name}"


def scripts_named(names: Sequence[str], examples: Path = Path("examples")) -> list[Path]:
    """Return the scripts that are meant: files, or beginnings of names under examples/; all if none is named."""
    known = sorted(examples.glob("*/[0-9][0-9]_*.py"))
    found = []
    for name in names or [""]:
        script = Path(name)
        beginning = [s for s in known if s.relative_to(examples).as_posix().startswith(name)]
        meant = [script] if script.is_file() else beginning
        if not meant:
            there = ", ".join(f"{s.parent.name}/{s.stem}" for s in known) or f"none under {examples}/"
            raise ValueError(f"there is no example {name!r}; there are: {there}")
        found.extend(meant)
    return list(dict.fromkeys(found))


def record_one(script: Path, file: Path) -> int:
    """Record one example in this process, into a file."""
    if file.suffix != ".json" or file.is_dir():
        raise ValueError(f"a record is written to a file that ends in .json, not to {file}: name another")
    script, path = script.absolute(), file.absolute()  # a page may change the folder
    folder = next(parent for parent in path.parents if parent.exists())
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(f"nothing can be written into {folder}: {error}. Name another place") from None
    os.environ.setdefault("MPLBACKEND", "Agg")
    try:
        record = record_example(script)
    except ExampleError as error:
        print(error, file=sys.stderr)
        print(f"firstlight: {script.name} failed, as told above; {file} is as it was", file=sys.stderr)
        return 1
    _check_tells_nobody(record, script)
    write(record, path)
    print(f"{len(record.timings)} timings and {len(record.outputs)} outputs on {record.machine}: {file}")
    return 0


def _check_tells_nobody(record: Record, script: Path) -> None:
    """Raise an error that names a line of what was printed or drawn which tells a key, a path or a name."""
    names = {platform.node(), platform.node().partition(".")[0]}
    with suppress(Exception):  # a user without a name
        names.add(getpass.getuser())
    own = [re.escape(name) for name in names if len(name) > 4 and re.search(r"[\d._-]", name)]  # else it may be a word
    patterns = TELLING | ({"a name of yours": re.compile(rf"(?<![\w-])(?:{'|'.join(own)})(?![\w-])")} if own else {})
    for line in "\n".join((record.outputs | record.figures).values()).splitlines():
        for what, pattern in patterns.items():
            if found := pattern.search(line):
                raise ValueError(f"{script.name} tells {what}, {found[0]:.12}, in the line {line[:80]!r}: leave it out")


def record_all(scripts: Sequence[Path], root: Path) -> int:
    """Record examples, a fresh process each, and say at the end what became of each."""
    machine = card().slug
    rows = []
    for number, script in enumerate(scripts, 1):
        example = example_of(script)
        print(f"{number} of {len(scripts)}: {example}", file=sys.stderr, flush=True)
        file = root / machine / f"{example}.json"
        command = [sys.executable, "-m", "firstlight", "record", str(script), "--to", str(file)]
        utf8 = {**os.environ, "PYTHONUTF8": "1"}
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", env=utf8)
        output = (done.stderr if done.returncode else done.stdout).strip()
        if done.returncode:
            print(f"{example}:\n{output}\n")
        lines = output.splitlines() or [f"it ended with status {done.returncode} and no word"]
        rows.append((example, "FAILED" if done.returncode else "recorded", lines[-1]))
    print(Table(f"{machine}, in {root}", ("example", "", "what"), tuple(rows)).text())
    return int(any(row[1] == "FAILED" for row in rows))
