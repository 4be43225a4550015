"""Records of machines that do not exist, and a table of the course, for small sites."""

from pathlib import Path

from firstlight.records.record import HELPER_API, Record, code_digest, write
from firstlight.records.runner import block_keys
from firstlight.timing.result import Timing


def keep(
    folder: Path,
    example: str,
    machine: str,
    outputs: dict[int, str] | None = None,
    timings: dict[str, Timing] | None = None,
    source: str | None = None,
    name: str = "",
    date: str = "2026-05-01",
    figures: dict[int, str] | None = None,
    **facts: str | int,
) -> Path:
    """Write a record of an example, of its code of today unless another source is given."""
    source = (folder / "examples" / f"{example}.py").read_text(encoding="utf-8") if source is None else source
    keys = block_keys(source)
    known = {
        "unit": "second",
        "record_schema": 1,
        "helper_api": HELPER_API,
        "complete": 1,
        "date": f"{date} 12:00:00.000000",
        "example": example,
        "code_sha256": code_digest(source),
        "machine": machine,
        "device_kind": "cpu" if machine.startswith("cpu-") else "cuda",
        "device_name": name or machine.replace("-", " ").upper(),
    }
    named = {f"{place:02}:{keys[place - 1]}": text for place, text in (outputs or {}).items()}
    path = folder / "records" / machine / f"{example}.json"
    drawn = {keys[place - 1]: text for place, text in (figures or {}).items()}
    write(Record(known | facts, timings or {}, named, figures=drawn), path)
    return path


def course_of(*names: str) -> str:
    """Return the table of a course with these pages."""
    page = '["{}"]\nname = "A page"\nline = "Words."\nlevel = "easy"\nminutes = 7\nneeds = []\nnext = []\n'
    return 'levels = ["easy"]\n' + "".join(map(page.format, names))
