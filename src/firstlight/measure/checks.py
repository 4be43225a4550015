"""Tables of records: which of them still hold, and two machines side by side."""

from __future__ import annotations

from pathlib import Path

from firstlight.measure.records import InvalidRecord, Record, judge_record, read
from firstlight.measure.tables import quantity
from firstlight.measure.timing import Timing
from firstlight.widgets import NONE, Table

ERRORS = ("invalid", "orphan", "partial")


def check(root: Path, strict: bool = False) -> int:
    """Print the state of every record under a project's folder; 1 if one is an error, or stale where that counts."""
    rows = []
    for path in sorted({*(root / "records").rglob("*.json")} - {root / "records" / "schema.json"}):
        _, state, reasons = judged_file(path, root / "examples")
        rows.append((path.relative_to(root / "records").with_suffix("").as_posix(), state, "; ".join(reasons)))
    print(Table(f"{len(rows)} records", ("record", "state", "why"), tuple(rows)).text())
    states = {state for _, state, _ in rows}
    return int(bool(states & {*ERRORS, *(["stale"] if strict else [])}))


def judged_file(path: Path, examples: Path) -> tuple[Record | None, str, list[str]]:
    """The record in a file, its state and the reasons; a file that is none is ``invalid``."""
    try:
        record = read(path)
        if [record.machine, *record.example.split("/")] != list(path.with_suffix("").parts[-3:]):
            raise InvalidRecord(f"it is of {record.example} on {record.machine}, and lies in another's place")
    except InvalidRecord as error:
        return None, "invalid", [str(error).removeprefix(f"{path}: ")]
    script = examples / f"{record.example}.py"
    try:
        return record, *judge_record(record, script.read_text(encoding="utf-8") if script.is_file() else None)
    except SyntaxError as error:
        return record, "stale", [f"the code of today is no Python: {error.msg}, line {error.lineno}"]


def comparison(one: Record, other: Record) -> Table:
    """What both records timed, and how many times longer the first took, with the range that the quartiles allow.

    Rows of another size are not compared: their times say nothing of each other.
    """
    same_code = one.facts["code_sha256"] == other.facts["code_sha256"]
    if one.example != other.example and not same_code:
        raise ValueError(f"these are records of two examples, {one.example} and {other.example}: nothing to compare")
    rows = []
    theirs = dict(other.timings)
    for name, timing in one.timings.items():
        match = theirs.pop(counterpart(name, one, other), None)
        times = (quantity(timing.median, "s"), quantity(match.median if match else None, "s"))
        rows.append((name, *times, *(ratio(timing, match) if match else (NONE, NONE))))
    rows += [(name, NONE, quantity(timing.median, "s"), NONE, NONE) for name, timing in theirs.items()]
    caption = one.example if same_code else f"{one.example}, recorded with different code"
    return Table(caption, ("", one.machine, other.machine, "ratio", "range"), tuple(rows))


def counterpart(name: str, one: Record, other: Record) -> str:
    """The row of another machine that is the same experiment: by name, else by label and size on whatever device."""
    if name in other.timings:
        return name
    ours, theirs = (
        [row for row, t in record.timings.items() if key(row, t) == key(name, one.timings[name])]
        for record in (one, other)
    )
    return theirs[0] if len(ours) == len(theirs) == 1 else ""


def key(name: str, timing: Timing) -> tuple[str, str, float | None]:
    """What two machines' rows of one experiment share: its name, label and size."""
    return name.split("/")[0], timing.label, timing.n


def ratio(one: Timing, other: Timing) -> tuple[str, str]:
    """How many times longer one took than the other, and from where to where their quartiles reach."""
    (low, high), (other_low, other_high) = one.quartiles, other.quartiles
    least, middle, most = (
        f"{times:,.0f}" if times >= 999.5 else f"{times:.3g}"
        for times in (low / other_high, one.median / other.median, high / other_low)
    )
    return f"{middle} ×", f"{least} to {most}"
