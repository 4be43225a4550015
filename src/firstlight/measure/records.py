"""Records: what an example measured and printed on one machine, as a file. Written, read, found and judged here."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from firstlight.devices import Card, card
from firstlight.measure.imports import imported_modules
from firstlight.measure.runner import block_keys, digest, lines_that_run, split
from firstlight.measure.timing import Timing

SCHEMA = 1
HELPER_API = 1  # raised when measure/ changes what a timing means
VERDICTS = ("ok", "noisy", "few", "launch-bound", "cpu-contended", "in-cache", "above-roof")
MAX_BYTES = 60_000
MAX_AGE = timedelta(days=365)
LEFT_OUT = " | "  # between the names in metadata.left_out: pyperf takes no line breaks there
LARGEST = 1e30  # no size, count or time is larger

# The keys of a record and what they hold, in words of regular expressions; records/schema.json says it for machines.
LINE = r"[^\x00-\x20\x7f-\xa0][^\x00-\x1f\x7f-\x9f]*"  # nothing in it that could move a terminal's cursor
HASH = r"[0-9a-f]{16}"
TEXTS = {
    "unit": "second",
    "machine": r"[a-z0-9]+(-[a-z0-9]+)*",
    "example": r"[0-9a-z_]+/[0-9a-z_]+",
    "code_sha256": HASH,
    "date": r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01]) ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}",
    "device_kind": "cuda|rocm|xpu|mps|cpu",
    "device_name": LINE,
    "device_capability": r"[0-9]+\.[0-9]+",
    "driver": LINE,
    "cpu_name": LINE,
    "left_out": LINE,
    r"lib_[a-z0-9_]+": LINE,
    r"module_firstlight\.[a-z0-9_.]+": HASH,
}
COUNTS = re.compile(
    "record_schema|helper_api|complete|cpu_cores|device_(multiprocessors|(memory|cache)_bytes|(memory_)?clock_hz|bus_bits)"
)
REQUIRED = {*list(TEXTS)[:7], "record_schema", "helper_api", "complete"}
ROW_TEXTS = {"name": rf"[a-z0-9]+(-[a-z0-9]+)*/{LINE}", "label": LINE, "device": LINE, "verdict": "|".join(VERDICTS)}
ROW_NUMBERS = ("loops", "n", "bytes", "flops", "cores", "device_seconds", "of_roof")


class InvalidRecord(ValueError):
    """A file is not a record; the message says what is wrong with it."""


@dataclass(frozen=True)
class Record:
    """One example on one machine.

    Examples
    --------
    >>> record = Record({"machine": "nvidia-h200", "example": "1_setup/02_first_speedup"}, {}, {})
    >>> record.machine
    'nvidia-h200'
    """

    facts: dict[str, Any]
    timings: dict[str, Timing]  # by name: bench/label/device/n=…
    outputs: dict[str, str]  # what the code blocks printed, by number and key
    path: Path | None = None

    @property
    def machine(self) -> str:
        """The slug of the machine's device."""
        return str(self.facts["machine"])

    @property
    def example(self) -> str:
        """The example, as chapter and name."""
        return str(self.facts["example"])


def facts_of(example: str, source: str, best: Card, cpu: Card) -> dict[str, Any]:
    """What a record says of the code, the machine and the day; never a host, a user, a path or a serial number."""
    described = {
        "device_kind": best.kind,
        "device_name": best.name,
        "device_capability": best.capability and "{}.{}".format(*best.capability),
        "device_multiprocessors": best.multiprocessors,
        "device_memory_bytes": best.memory_bytes,
        "device_cache_bytes": best.cache_bytes,
        "device_clock_hz": best.clock_hz,
        "device_memory_clock_hz": best.memory_clock_hz,
        "device_bus_bits": best.bus_bits,
        "driver": best.driver,
        "cpu_name": cpu.name,
        "cpu_cores": cpu.cores,
        **{f"lib_{name.replace('-', '_')}": version for name, version in best.libraries.items()},
        **{f"module_{name}": found for name, found in imported_modules(source).items()},
    }
    return {
        "unit": "second",
        "record_schema": SCHEMA,
        "helper_api": HELPER_API,
        "complete": 1,
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}.000000",
        "example": example,
        "code_sha256": code_digest(source),
        "machine": best.slug,
        **{name: value for name, value in described.items() if value is not None},
    }


def code_digest(source: str) -> str:
    """The digest of all code of an example: prose and comments may change without it."""
    keys = block_keys(source)
    return keys[-1] if keys else digest("")


def to_json(record: Record) -> str:
    """Write a record as text; what has no time that could be true is left out."""
    benchmarks = [
        {
            "metadata": {
                key: value
                for key, value in {
                    "name": name,
                    "label": timing.label,
                    "device": timing.device,
                    "loops": timing.loops,
                    "n": timing.n,
                    "bytes": timing.bytes,
                    "flops": timing.flops,
                    "cores": timing.cores and rounded(timing.cores),
                    "device_seconds": timing.device_seconds and rounded(timing.device_seconds),
                    "of_roof": timing.of_roof and rounded(timing.of_roof),
                    "verdict": timing.verdict,
                }.items()
                if value is not None
            },
            "runs": [{"warmups": [[1, rounded(timing.first)]], "values": [rounded(value) for value in timing.values]}],
        }
        for name, timing in record.timings.items()
        if timing.verdict in VERDICTS
    ]
    content = {"version": "1.0", "metadata": record.facts, "benchmarks": benchmarks, "outputs": record.outputs}
    text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True, default=lambda number: number.item())
    # The values of a row on one line: a file to read, and a difference to review. Printed text has no line breaks here.
    return re.sub(r"\[\n[\d.,e+\s-]+\]", lambda found: re.sub(r"\s+", " ", found[0]), text) + "\n"


def rounded(value: float) -> float:
    """A number with four significant digits."""
    return float(f"{value:.4g}")


def from_json(text: str, path: Path | None = None) -> Record:
    """Read a record; raise InvalidRecord, in words, on anything that is none."""
    name = f"{path}: " if path else ""
    try:
        content = json.loads(text, parse_constant=float.fromhex)  # NaN is no JSON, and no number either
        json.dumps(content, ensure_ascii=False).encode()  # half a character can be escaped, but never written
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"{name}not JSON, or cut off ({error})") from None
    problem = next(problems(content), None)
    if problem:
        raise InvalidRecord(f"{name}{problem}")
    timings = {}
    for benchmark in content["benchmarks"]:
        meta, (run,) = benchmark["metadata"], benchmark["runs"]
        facts = {key: meta.get(key) for key in ("n", "bytes", "flops", "cores", "device_seconds", "of_roof")}
        timings[meta["name"]] = Timing(
            label=meta["label"],
            device=meta["device"],
            first=run["warmups"][0][1],
            values=tuple(run["values"]),
            loops=meta["loops"],
            verdict=meta["verdict"],
            **facts,
        )
    return Record(content["metadata"], timings, content["outputs"], path)


def problems(content: Any) -> Iterator[str]:
    """Everything in which a file differs from a record, in words; records/schema.json says the same for machines."""
    if not isinstance(content, dict) or content.get("version") != "1.0":
        yield 'not a record: "version" must be "1.0", pyperf\'s format'
        return
    meta = content.get("metadata")
    if not isinstance(meta, dict) or not is_number(meta.get("record_schema")) or meta["record_schema"] != SCHEMA:
        yield f"not a record of schema {SCHEMA}: metadata.record_schema is missing or another"
        return
    yield from key_problems(content, {"version", "metadata", "benchmarks", "outputs"})
    yield from (f"metadata.{key} is missing" for key in sorted(REQUIRED - meta.keys()))
    for key, value in meta.items():
        pattern = next((text for name, text in TEXTS.items() if re.fullmatch(name, key)), None)
        if pattern is None and not COUNTS.fullmatch(key):
            yield f"metadata has an unknown key {shown(key)}"
        elif not (fits(value, pattern) if pattern else is_count(value)):
            yield f"metadata.{key} cannot be {shown(value)}"
    if is_count(meta.get("complete")) and meta["complete"] != 1:
        yield "the run was not complete (metadata.complete is not 1)"
    outputs = content.get("outputs")
    if not isinstance(outputs, dict) or not all(isinstance(text, str) for text in outputs.values()):
        yield "outputs must be texts by block"
    else:
        wrong = [key for key in outputs if not re.fullmatch(rf"([0-9]+:)?{HASH}", key)]
        yield from (f"outputs has a key that names no block, {shown(key)}" for key in wrong)
    benchmarks = content.get("benchmarks")
    if not isinstance(benchmarks, list):
        yield "benchmarks must be a list"
        return
    names = set()
    for number, benchmark in enumerate(benchmarks):
        wrong = list(benchmark_problems(benchmark))
        yield from (f"benchmarks[{number}]: {problem}" for problem in wrong)
        if not wrong and benchmark["metadata"]["name"] in names:
            yield f"benchmarks[{number}]: there is another row of this name"
        names |= set() if wrong else {benchmark["metadata"]["name"]}


def benchmark_problems(benchmark: Any) -> Iterator[str]:
    """Everything that is wrong with one row of a file."""
    try:
        meta, (run,) = benchmark["metadata"], benchmark["runs"]
        values, ((one, first),) = run["values"], run["warmups"]
        texts, loops = {key: meta[key] for key in ROW_TEXTS}, meta["loops"]
        numbers = {key: meta[key] for key in ROW_NUMBERS if key in meta}
        yield from key_problems(benchmark, {"metadata", "runs"})
        yield from key_problems(meta, {*ROW_TEXTS, *ROW_NUMBERS})
        yield from key_problems(run, {"values", "warmups"})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        yield f"a part is missing or of another kind ({type(error).__name__}: {str(error):.60})"
        return
    for key, text in texts.items():
        if not fits(text, ROW_TEXTS[key]):
            allowed = f"; expected one of {', '.join(VERDICTS)}" if key == "verdict" else ""
            yield f"{key} cannot be {shown(text)}{allowed}"
    for key, number in numbers.items():
        if not is_number(number) or (number == 0 and key in ("loops", "n", "bytes", "flops")):
            yield f"{key} cannot be {shown(number)}"
    if not is_count(loops) or not is_count(one) or one != 1 or not is_number(first):
        yield "loops must be a whole number, and warmups one call with its seconds"
    if not isinstance(values, list) or not values or not all(is_number(value) and value for value in values):
        yield "values must be positive numbers, at least one"


def key_problems(part: dict[str, Any], known: set[str]) -> Iterator[str]:
    """The keys of a part that no record has."""
    yield from (f"unknown key {shown(key)}" for key in part if key not in known)


def fits(value: Any, pattern: str) -> bool:
    """Whether a value is a text of this form."""
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def is_number(value: Any) -> bool:
    """Whether a value is a number that could be measured or counted; true, NaN and infinity are none."""
    return type(value) in (int, float) and 0 <= value <= LARGEST


def is_count(value: Any) -> bool:
    """Whether a value is a whole number above 0."""
    return is_number(value) and type(value) is int and value > 0


def shown(value: Any) -> str:
    """A value as a message may show it, whatever is in it."""
    return ascii(value)[:60]


# -- In a folder: records/<machine>/<chapter>/<example>.json -------------------------------------------------------


def write(record: Record, path: Path) -> None:
    """Write a record whole or not at all: an interrupted run leaves the file that was there."""
    text = to_json(record)
    if len(text.encode()) > MAX_BYTES:
        raise ValueError(
            f"the record of {record.example} would have {len(text.encode()):,} bytes; at most {MAX_BYTES:,}"
        )
    from_json(text, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read(path: Path) -> Record:
    """Read a record; raise InvalidRecord, naming the file, on anything that is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InvalidRecord(f"{path}: more than {MAX_BYTES:,} bytes, so not a record")
        return from_json(data.decode(), path)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRecord(f"{path}: cannot be read ({error})") from None


def find(root: Path, example: str = "*/*") -> list[Path]:
    """The files of all machines' records of an example, or of all examples."""
    return sorted(root.glob(f"*/{example}.json"))


# -- Judged against what the site is built from now ----------------------------------------------------------------


def judge_record(record: Record, source: str | None, today: datetime | None = None) -> tuple[str, list[str]]:
    """The state of a record beside its example's source of today, and the reasons.

    Returns
    -------
    tuple
        ``fresh``, ``drifted`` (something around the code changed), ``stale`` (the code itself did), ``partial`` (an
        experiment is missing) or ``orphan`` (the example is gone).
    """
    if source is None:
        return "orphan", [f"there is no example {record.example} any more"]
    if record.facts["code_sha256"] != code_digest(source):
        return "stale", ["recorded with older code"]
    if record.facts.get("helper_api") != HELPER_API:
        return "stale", ["recorded before the meaning of a timing changed"]
    left_out = str(record.facts.get("left_out", "")).split(LEFT_OUT)
    code = "\n".join(line for block in split(source) if block.kind == "code" for line in lines_that_run(block.text))
    missing = set(re.findall(r"""\bBench\(\s*["']([a-z0-9-]+)["']""", code)) - {
        name.split("/")[0] for name in (*record.timings, *left_out)
    }
    if missing:
        return "partial", [f"nothing of {', '.join(sorted(missing))}"]
    reasons = list(drifts(record, source, today or datetime.now(UTC)))
    return ("drifted", reasons) if reasons else ("fresh", [])


def drifts(record: Record, source: str, today: datetime) -> Iterator[str]:
    """What has changed around the code since a record was taken."""
    modules = imported_modules(source)
    for name in sorted(modules):
        if record.facts.get(f"module_{name}") != modules[name]:
            yield f"{name} has changed"
    for name, version in installed().items():
        then = record.facts.get(f"lib_{name.replace('-', '_')}")
        if then and minor(str(then)) != minor(version):
            yield f"{name} {minor(str(then))} then, {minor(version)} now"
    if str(record.facts["date"])[:10] < f"{today - MAX_AGE:%Y-%m-%d}":
        yield f"recorded on {str(record.facts['date'])[:10]}, more than a year ago"


def installed() -> dict[str, str]:
    """The versions of the libraries that the site is built with."""
    return dict(card("cpu").libraries)


def minor(version: str) -> str:
    """The first two numbers of a version."""
    return ".".join(version.split("+")[0].split(".")[:2])
