"""Tables of records: which of them still hold, and two machines side by side."""

from __future__ import annotations

from pathlib import Path

from firstlight.measure.records import InvalidRecord, Record, find, judge_record, read
from firstlight.measure.tables import NONE, Table, quantity
from firstlight.measure.timing import Timing

ERRORS = ("invalid", "orphan", "partial")


def check(root: Path, strict: bool = False) -> int:
    """Print the state of every record under a project's folder; 1 if one is an error, or stale where that counts."""
    rows = []
    for path in find(root / "records"):
        state, reasons = state_of(path, root / "examples")
        rows.append((path.relative_to(root / "records").with_suffix("").as_posix(), state, "; ".join(reasons)))
    print(Table(f"{len(rows)} records", ("record", "state", "why"), tuple(rows)).text())
    states = {state for _, state, _ in rows}
    return int(bool(states & {*ERRORS, *(["stale"] if strict else [])}))


def state_of(path: Path, examples: Path) -> tuple[str, list[str]]:
    """The state of one file: that of its record, or ``invalid``."""
    try:
        record = read(path)
        if record.example != f"{path.parent.name}/{path.stem}" or record.machine != path.parents[1].name:
            raise InvalidRecord(f"it is of {record.example} on {record.machine}, and lies in another's place")
    except InvalidRecord as error:
        return "invalid", [str(error).removeprefix(f"{path}: ")]
    script = examples / f"{record.example}.py"
    return judge_record(record, script.read_text(encoding="utf-8") if script.is_file() else None)


def comparison(one: Record, other: Record) -> Table:
    """What both records timed, and how many times longer the first took, with the range that the quartiles allow.

    Rows of another size are not compared: their times say nothing of each other.
    """
    if one.example != other.example:
        raise ValueError(f"these are records of two examples, {one.example} and {other.example}: nothing to compare")
    rows = []
    theirs = {key(name, timing): timing for name, timing in other.timings.items()}
    for name, timing in one.timings.items():
        match = theirs.get(key(name, timing))
        times = (quantity(timing.median, "s"), quantity(match.median if match else None, "s"))
        rows.append((name, *times, *(ratio(timing, match) if match else (NONE, NONE))))
    return Table(one.example, ("", one.machine, other.machine, "ratio", "range"), tuple(rows))


def key(name: str, timing: Timing) -> tuple[str, str, int | None]:
    """What makes two rows of two machines the same experiment: its name, label and size, on whatever device."""
    return name.split("/")[0], timing.label, timing.n


def ratio(one: Timing, other: Timing) -> tuple[str, str]:
    """How many times longer one took than the other, and from where to where their quartiles reach."""
    (low, high), (other_low, other_high) = one.quartiles, other.quartiles
    return f"{one.median / other.median:.3g} ×", f"{low / other_high:.3g} to {high / other_low:.3g}"
