"""Print what the records in a folder measured, beside what other GPUs did: python tools/show_records.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from firstlight.display import MISSING, percent, quantity, show_table
from firstlight.records.record import Record, read, record_files
from firstlight.timing.result import Timing

HEAD = ("row", "median", "spread", "rate", "verdict")
KNOWN = Path(__file__).parents[1] / "records"


def main(folder: Path) -> int:
    """Print a table a page; 1 if there is no record."""
    records = [read(path) for path in record_files(folder)]
    for record in records:
        others = [
            other for other in map(read, record_files(KNOWN, record.example)) if other.facts["device_kind"] != "cpu"
        ]
        heads = [f"on {other.facts['device_name']}" for other in others]
        rows = [(name, *cells(t), *(median(other, name) for other in others)) for name, t in record.timings.items()]
        if rows:
            show_table(f"\n{record.example} on {record.facts['device_name']}", [*HEAD, *heads], rows)
    print(f"\n{len(records)} records in {folder}")
    return int(not records)


def cells(timing: Timing) -> tuple[str, ...]:
    """Return what is told of a timing."""
    return quantity(timing.median, "s"), percent(timing.relative_iqr), timing.rate_text or MISSING, timing.verdict_text


def median(record: Record, name: str) -> str:
    """Return what another machine took for the same row."""
    return quantity(record.timings[name].median, "s") if name in record.timings else MISSING


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
