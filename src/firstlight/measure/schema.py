"""What a record looks like, checked without a library; records/schema.json says the same for machines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

SCHEMA = 1
VERDICTS = ("ok", "noisy", "few", "launch-bound", "cpu-contended", "in-cache", "above-roof")
LARGEST = 1e30  # no size, count or time is larger


def is_number(value: Any) -> bool:
    """Whether a value could be measured; true, NaN and infinity could not."""
    return type(value) in (int, float) and 0 <= value <= LARGEST


def is_size(value: Any) -> bool:
    """Whether a value is a number above 0."""
    return is_number(value) and value > 0


def is_count(value: Any) -> bool:
    """Whether a value is a whole number above 0."""
    return is_size(value) and value == int(value)


def is_first(value: Any) -> bool:
    """Whether a value says how long one call took, in pyperf's way."""
    match value:
        case [[1 as calls, seconds]]:
            return is_number(calls) and is_number(seconds)
    return False


Form = str | Callable[[Any], bool]  # what a text must match, or what a value must pass
LINE = r"[^\x00-\x20\x7f-\xa0][^\x00-\x1f\x7f-\x9f]*"  # nothing in it that could move a terminal's cursor
SLUG = r"[a-z0-9]+(-[a-z0-9]+)*"
HASH = r"[0-9a-f]{16}"
FACTS: dict[str, Form] = {
    "unit": "second",
    "machine": SLUG,
    "example": r"[0-9a-z_]+/[0-9a-z_]+",
    "code_sha256": HASH,
    "date": r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01]) ([01][0-9]|2[0-3])(:[0-5][0-9]){2}\.[0-9]{6}",
    "device_kind": "cuda|rocm|xpu|mps|cpu",
    "device_name": LINE,
    "record_schema|helper_api|complete": is_count,
    r"driver|cpu_name|left_out|lib_[a-z0-9_]+": LINE,
    r"device_capability": r"[0-9]+\.[0-9]+",
    "cpu_cores|device_(multiprocessors|memory_bytes|cache_bytes|clock_hz|memory_clock_hz|bus_bits)": is_count,
    r"module_firstlight\.[a-z0-9_.]+": HASH,
}
PARTS = ("version", "metadata", "outputs", "benchmarks")
ALWAYS = {*list(FACTS)[:7], "record_schema", "helper_api", "complete"}
ROW: dict[str, Form] = {
    "name": f"{SLUG}/{LINE}",
    "label": LINE,
    "device": LINE,
    "verdict": "|".join(VERDICTS),
    "loops": is_count,
    "n|bytes|flops": is_size,
    "cores|device_seconds|of_roof": is_number,
}
RUN: dict[str, Form] = {
    "values": lambda value: isinstance(value, list) and value != [] and all(map(is_size, value)),
    "warmups": is_first,
}


def problems(content: Any) -> Iterator[str]:
    """Everything in which a file differs from a record, in words."""
    if not isinstance(content, dict) or content.get("version") != "1.0":
        yield 'not a record: "version" must be "1.0", pyperf\'s format'
        return
    meta, outputs, rows = (content.get(key) for key in ("metadata", "outputs", "benchmarks"))
    if not isinstance(meta, dict) or not is_count(meta.get("record_schema")) or meta["record_schema"] != SCHEMA:
        yield f"not a record of schema {SCHEMA}: metadata.record_schema is missing or another"
        return
    yield from (f"unknown key {shown(key)}" for key in content if key not in PARTS)
    yield from differences("metadata", meta, FACTS, ALWAYS)
    if is_count(meta.get("complete")) and meta["complete"] != 1:
        yield "the run was not complete (metadata.complete is not 1)"
    yield from differences("outputs", outputs, {f"([0-9]+:)?{HASH}": "(?s).*"})
    if not isinstance(rows, list):
        yield "benchmarks must be a list"
        return
    names = []
    for place, row in ((f"benchmarks[{number}]", row) for number, row in enumerate(rows)):
        if not isinstance(row, dict) or row.keys() != {"metadata", "runs"} or not is_single(row["runs"]):
            yield f"{place} must have metadata and a list of one run"
            continue
        yield from differences(f"{place}.metadata", row["metadata"], ROW, list(ROW)[:5])
        yield from differences(f"{place}.runs[0]", row["runs"][0], RUN, RUN)
        names.append(str(row["metadata"].get("name")) if isinstance(row["metadata"], dict) else place)
    yield from (f"two rows are called {shown(name)}" for name in sorted(set(names)) if names.count(name) > 1)


def differences(place: str, part: Any, forms: Mapping[str, Form], required: Iterable[str] = ()) -> Iterator[str]:
    """Everything in which one part of a file is not of its form."""
    if not isinstance(part, dict):
        yield f"{place} must be an object"
        return
    yield from (f"{place}.{key} is missing" for key in sorted(set(required) - part.keys()))
    for key, value in part.items():
        form = next((form for name, form in forms.items() if re.fullmatch(name, key)), None)
        if form is None:
            yield f"{place} has an unknown key {shown(key)}"
        elif not (form(value) if callable(form) else isinstance(value, str) and re.fullmatch(form, value)):
            yield f"{place}.{key} cannot be {shown(value)}"


def is_single(value: Any) -> bool:
    """Whether a value is a list of one thing."""
    return isinstance(value, list) and len(value) == 1


def shown(value: Any) -> str:
    """A value as a message may show it, whatever is in it."""
    return ascii(value)[:80]
