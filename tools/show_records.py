"""Print what the records in a folder measured, a table a page: python tools/show_records.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from firstlight.display import MISSING, percent, quantity, show_table
from firstlight.records.record import find, read

HEAD = ("row", "median", "spread", "rate", "verdict")


def main(folder: Path) -> int:
    """Print the rows of each record; 1 if there is none."""
    paths = find(folder)
    for record in map(read, paths):
        rows = [
            (name, quantity(t.median, "s"), percent(t.relative_iqr), rate(t.byte_rate, t.flop_rate), t.verdict)
            for name, t in record.timings.items()
        ]
        show_table(f"{record.example} on {record.facts['device_name']}", HEAD, rows or [(MISSING,) * len(HEAD)])
        print()
    if not paths:
        print(f"There is no record in {folder}.")
    return int(not paths)


def rate(byte_rate: float | None, flop_rate: float | None) -> str:
    """Return how many bytes or operations a second."""
    return quantity(byte_rate, "B/s") if byte_rate else quantity(flop_rate, "FLOP/s")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
