"""Records: what an example measured and printed on one machine, as a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from firstlight.devices import Card, card
from firstlight.display import Table
from firstlight.records.package_parts import part_digests
from firstlight.records.runner import SAVING, block_keys, digest, lines_that_run, split
from firstlight.records.schema import VERSION, problem
from firstlight.records.slices import bench_digests
from firstlight.timing.ceilings import Ceilings, ceilings
from firstlight.timing.gpu_state import GpuState
from firstlight.timing.result import RowName, Timing
from firstlight.timing.verdicts import NEVER_SHOWN, verdicts_of, with_verdicts, with_verdicts_of_series

HELPER_API = 1  # raised when firstlight.timing changes what a timing means
DEVICE = ("multiprocessors", "memory_bytes", "cache_bytes", "clock_hz", "memory_clock_hz", "bus_bits")
# What a row keeps of a timing; the second with four digits.
COUNTED = ("label", "device", "loops", "n", "bytes", "flops", "footprint", "tensor_cores")
MEASURED = ("cores", "device_seconds", "queued", "of_roof")
STATE = tuple(GpuState.__dataclass_fields__)  # before and after: "clock_hz_before" and so on
UNTOLD = ("in-cache", "above-roof", "coarse")  # what a record's rows can't tell any more: they are kept
MAX_BYTES = 250_000
TIMED = ("imaging", "kernels")  # what pages time of the package: when it changes, a record has drifted
MAX_AGE = timedelta(days=365)
TELLING = {  # no record may hold it
    "a path of somebody's computer": re.compile(
        r"(?:/(?:home|Users|root|scratch|gpfs|lustre|mnt)/|[A-Za-z]:\\Users\\)[\w.-]*"
    ),
    "a key": re.compile(
        r"\b(?:hf_|gh[oprsu]_|github_pat_|glpat-|nvapi-|xox[abprs]-)[\w-]{16,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
        r"|\bsk-(?=[\w-]*\d)[\w-]{20,}|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+|://[^/\s:@]{1,64}:[^/\s@]{1,64}@"
    ),
}
LEAST_SECONDS, MOST_OF_ROOF = 1e-10, 25  # of a call; tensor cores reach 16 times the roof of float32
LEFT_OUT = " | "  # between the names in metadata.left_out: pyperf takes no line breaks there

# By where a page takes the cuda of its kernels from. Those of a record that names none were made with the first.
COMPILERS = {"numba": "numba-cuda", "numba_cuda_mlir": "numba-cuda-mlir"}
CUDA = re.compile(r"^\s*from (numba|numba_cuda_mlir) import (?:.*\W)?cuda\b", re.MULTILINE)

State = Literal["fresh", "drifted", "partial", "stale", "orphan"]


class InvalidRecord(ValueError):
    """A file is not a record; the message names it and gives the reason.

    Examples
    --------
    >>> try:
    ...     read(Path("no-such-record.json"))
    ... except InvalidRecord as problem:
    ...     print(problem)  # doctest: +ELLIPSIS
    no-such-record.json: cannot be read (...)
    """

    def __init__(self, reason: str, path: Path | None = None) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason


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
    figures: dict[str, str] = field(default_factory=dict)  # what those drew that draw what was measured, by key

    @property
    def machine(self) -> str:
        """The slug of the machine's device."""
        return str(self.facts["machine"])

    @property
    def example(self) -> str:
        """The example, as chapter and name."""
        return str(self.facts["example"])

    @property
    def names(self) -> list[RowName]:
        """The names of all rows, and of those that were left out because their times could not be true."""
        left_out = str(self.facts.get("left_out", "")).split(LEFT_OUT)
        return [RowName.parse(name) for name in (*self.timings, *left_out)]

    def rows_of(self, bench: str) -> dict[RowName, Timing]:
        """Return the rows of one experiment."""
        named = {RowName.parse(name): timing for name, timing in self.timings.items()}
        return {name: timing for name, timing in named.items() if name.bench == bench}


@dataclass(frozen=True)
class Judged:
    """A record, whether it holds for the code of today, and what speaks against it.

    It is ``fresh``, ``drifted`` (something around the timed code changed), ``stale`` (that code did), ``partial`` (an
    experiment is missing) or ``orphan`` (the example is gone, or its kernels are another compiler's now).

    Examples
    --------
    >>> Judged(Record({"machine": "nvidia-h200"}, {}, {}), "stale", ["recorded with older code"]).state
    'stale'
    """

    record: Record
    state: State
    why: list[str] = field(default_factory=list)


def facts_of(example: str, source: str, best: Card, cpu: Card) -> dict[str, Any]:
    """Return what a record says of the code, the machine and the day; never a host, user, path or serial number."""
    described = {
        "device_kind": best.kind,
        "device_name": best.name,
        "device_capability": best.capability and "{}.{}".format(*best.capability),
        **{f"device_{name}": getattr(best, name) for name in DEVICE},
        "driver": best.driver,
        "cpu_name": cpu.name,
        "cpu_model": cpu.model,
        "cpu_cores": cpu.cores,
        "cpu_threads_per_core": cpu.threads_per_core,
        "compiler": compiler_in(source),
        **{f"lib_{name.replace('-', '_')}": version for name, version in best.libraries.items()},
        **{f"code_{name}": found for name, found in part_digests(source).items() if name in TIMED},
        **{_bench_key(name): found for name, found in bench_digests(source).items()},
    }
    return {
        "unit": "second",
        "record_schema": VERSION,
        "helper_api": HELPER_API,
        "complete": 1,
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}.000000",
        "example": example,
        "code_sha256": code_digest(source),
        "machine": best.slug,
        **{name: value for name, value in described.items() if value is not None},
    }


def compiler_in(source: str) -> str | None:
    """Return the compiler of a page's kernels, by what it imports; None if it has no kernels.

    Examples
    --------
    >>> compiler_in("from numba_cuda_mlir import cuda")
    'numba-cuda-mlir'
    """
    return " and ".join(sorted({COMPILERS[package] for package in CUDA.findall(source)})) or None


@cache
def code_digest(source: str) -> str:
    """Return the digest of all code of an example: prose and comments may change without it."""
    keys = block_keys(source.removesuffix(SAVING))
    return keys[-1] if keys else digest("")


def to_json(record: Record) -> str:
    """Write a record as text; what has no time that could be true is left out."""
    shown = {name: timing for name, timing in record.timings.items() if timing.verdict not in NEVER_SHOWN}
    benchmarks = [to_row(name, timing) for name, timing in shown.items()]
    content = {"version": "1.0", "metadata": record.facts, "benchmarks": benchmarks, "outputs": record.outputs}
    content |= {"figures": record.figures} if record.figures else {}
    text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True, default=lambda number: number.item())
    # The values of a row on one line: a file to read, and a difference to review. Printed text has no line breaks here.
    return re.sub(r"\[\n[\d.,e+\s-]+\]", lambda found: re.sub(r"\s+", " ", found[0]), text) + "\n"


def to_row(name: str, timing: Timing) -> dict[str, Any]:
    """Return a timing as a record keeps it."""
    measured = {key: getattr(timing, key) for key in MEASURED}
    for when, state in (("before", timing.before), ("after", timing.after)):
        measured |= {f"{key}_{when}": getattr(state, key, None) for key in STATE}
    facts = {"name": name, "verdict": timing.verdict_text} | {key: getattr(timing, key) for key in COUNTED}
    facts |= {key: _rounded(value) if isinstance(value, float) else value for key, value in measured.items()}
    metadata = {key: value for key, value in facts.items() if value is not None}
    run = {"warmups": [[1, _rounded(timing.first)]], "values": [_rounded(value) for value in timing.values]}
    return {"metadata": metadata, "runs": [run]}


def from_row(row: dict[str, Any]) -> Timing:
    """Return a timing as a record kept it."""
    meta, (run,) = row["metadata"], row["runs"]
    states = {when: {key: meta.get(f"{key}_{when}") for key in STATE} for when in ("before", "after")}
    told: dict[str, Any] = {when: GpuState(**state) for when, state in states.items() if set(state.values()) != {None}}
    facts = {key: meta.get(key) for key in (*COUNTED, *MEASURED)}
    verdicts = () if meta["verdict"] == "ok" else tuple(meta["verdict"].split(", "))
    times = {"first": run["warmups"][0][1], "values": tuple(run["values"])}
    return Timing(**facts, **times, **told, verdicts=verdicts)


def _judged_again(timings: dict[str, Timing], facts: dict[str, Any]) -> dict[str, Timing]:
    """Return a record's rows with the verdicts of today's rules, and those of then that can't be told any more."""
    device: dict[str, Any] = {key: facts.get(f"device_{key}") for key in DEVICE}
    major, minor = map(int, str(facts.get("device_capability", "0.0")).split("."))
    limits = {
        "cpu": ceilings(Card(facts.get("cpu_name", ""), "cpu", cores=facts.get("cpu_cores"))),
        "cuda": ceilings(Card(facts["device_name"], facts["device_kind"], (major, minor), **device)),
    }
    benches: dict[str, dict[str, Timing]] = {}
    for name, row in timings.items():
        told = (*verdicts_of(row), *(verdict for verdict in row.verdicts if verdict in UNTOLD))
        allowed = replace(row, verdicts=told, tensor_cores=True)  # an older record doesn't tell
        judged = with_verdicts(allowed, limits.get(row.device.split(":")[0], Ceilings()))
        benches.setdefault(RowName.parse(name).bench, {})[name] = replace(judged, tensor_cores=row.tensor_cores)
    rows = (zip(of_one, with_verdicts_of_series([*of_one.values()]), strict=True) for of_one in benches.values())
    return dict(chain.from_iterable(rows))


def _rounded(value: float) -> float:
    """Return a number with four significant digits."""
    return float(f"{value:.4g}")


def from_json(text: str, path: Path | None = None) -> Record:
    """Read a record; raise InvalidRecord, in words, on anything that is none."""
    try:
        content = json.loads(text, parse_constant=int)  # NaN and Infinity are no JSON, and no int() either
        json.dumps(content, ensure_ascii=False).encode()  # half a character can be escaped, but never written
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"not JSON, or cut off ({error})", path) from None
    long = len(text.encode()) > MAX_BYTES
    if wrong := f"more than {MAX_BYTES:,} bytes, so not a record" if long else problem(content):
        raise InvalidRecord(wrong, path)
    timings = {row["metadata"]["name"]: from_row(row) for row in content["benchmarks"]}
    timings = _judged_again(timings, content["metadata"])
    return Record(content["metadata"], timings, content["outputs"], path, content.get("figures", {}))


# -- In a folder: records/<machine>/<chapter>/<example>.json -------------------------------------------------------


def write(record: Record, path: Path) -> None:
    """Write a record whole or not at all: an interrupted run leaves the file that was there.

    Examples
    --------
    >>> import tempfile
    >>> record = read(next(Path("records").rglob("02_first_speedup.json")))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "copy.json")
    ...     write(record, path)
    ...     read(path).timings == record.timings
    True
    """
    text = to_json(record)
    from_json(text, path)  # refuses what is none
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read(path: Path) -> Record:
    """Read a record; raise InvalidRecord, naming the file, on anything that is none.

    Examples
    --------
    >>> read(next(Path("records").rglob("02_first_speedup.json"))).example
    '1_setup/02_first_speedup'
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):  # which could lead anywhere, or never end
        raise InvalidRecord("a link or a device, and not an ordinary file", path)
    try:
        return from_json(path.read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRecord(f"cannot be read ({error})", path) from None


def record_files(root: Path, example: str = "*/*") -> list[Path]:
    """Return the files of all machines' records of an example, or of all examples.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "nvidia-h200/1_setup/02_first_speedup.json")
    ...     path.parent.mkdir(parents=True)
    ...     path.touch()
    ...     [found.name for found in record_files(Path(folder), "1_setup/*")]
    ['02_first_speedup.json']
    """
    return sorted(root.glob(f"*/{example}.json"))


# -- Judged against what the site is built from now ----------------------------------------------------------------


def judge_record(record: Record, source: str | None, today: datetime | None = None, bench: str = "") -> Judged:
    """Judge a record by its example's source of today.

    Timings stand on the statements that their experiment depends on; when the page changes around these, they stay.

    Parameters
    ----------
    record, source
        A record, and its example's source of today; None if there is none.
    today
        The day; today's if None.
    bench
        The experiment whose timings are meant; all of the record if empty.

    Examples
    --------
    >>> judge_record(Record({"example": "1_setup/02_first_speedup"}, {}, {}), source=None).why
    ['there is no example 1_setup/02_first_speedup any more']
    """
    if source is None:
        return Judged(record, "orphan", [f"there is no example {record.example} any more"])
    compiler, then = compiler_in(source), record.facts.get("compiler", COMPILERS["numba"])
    if compiler and then != compiler:
        return Judged(record, "orphan", [f"recorded with {then}, and the page has kernels of {compiler}"])
    rewritten = record.facts["code_sha256"] != code_digest(source)
    timed = {bench} if bench else {RowName.parse(name).bench for name in record.timings}
    now = bench_digests(source)
    if rewritten and not (timed and all(now.get(name, "") == record.facts.get(_bench_key(name)) for name in timed)):
        return Judged(record, "stale", ["recorded with older code"])
    if record.facts.get("helper_api") != HELPER_API:
        return Judged(record, "stale", ["recorded before the meaning of a timing changed"])
    missing = bench_names(source) - {name.bench for name in record.names}
    why = [f"no times of {', '.join(sorted(missing))}"] if missing and not bench else []
    if why and not rewritten:
        return Judged(record, "partial", why)
    if rewritten and not bench:
        why.append("the page has changed around what was timed")
    why += _drifts(record, source, today or datetime.now(UTC))
    return Judged(record, "drifted" if why else "fresh", why)


def _bench_key(name: str) -> str:
    """Return the key under which a record keeps the digest of what an experiment depends on."""
    return f"bench_{name.replace('-', '_')}"


@cache
def bench_names(source: str) -> frozenset[str]:
    """Return the names of the experiments in an example's code."""
    code = "\n".join(line for block in split(source) if block.kind == "code" for line in lines_that_run(block.text))
    return frozenset(re.findall(r"""\bBench\(\s*["']([a-z0-9-]+)["']""", code))


def _drifts(record: Record, source: str, today: datetime) -> Iterator[str]:
    """Yield what has changed around the code since a record was taken."""
    for name, found in part_digests(source).items():
        if name in TIMED and record.facts.get(f"code_{name}") != found:
            yield f"firstlight_{name} has changed"
    for name, version in installed().items():
        then = record.facts.get(f"lib_{name.replace('-', '_')}")
        if then and _minor(str(then)) != _minor(version):
            yield f"{name} {_minor(str(then))} then, {_minor(version)} now"
    if carried := record.facts.get("carried"):
        yield f"recorded with the page of {carried}, which timed the same code in other words"
    if str(record.facts["date"])[:10] < f"{today - MAX_AGE:%Y-%m-%d}":
        yield f"recorded on {str(record.facts['date'])[:10]}, more than a year ago"


@cache
def installed() -> dict[str, str]:
    """Return the versions of the libraries that the site is built with."""
    return dict(card("cpu").libraries)


def _untrue(record: Record) -> Iterator[str]:
    """Yield what can't be true in a record, and what must not be told."""
    facts, day = record.facts, str(record.facts["date"])[:10]
    try:
        if datetime.fromisoformat(day).replace(tzinfo=UTC) > datetime.now(UTC) + timedelta(days=1):
            yield f"its date, {day}, is still to come"
    except ValueError:
        yield f"there is no day {day}"
    if "api" not in facts and (slug := Card(facts["device_name"], facts["device_kind"]).slug) != record.machine:
        yield f"its device is a {facts['device_name']}, which belongs to {slug}, not to {record.machine}"
    for name, row in record.timings.items():
        if row.verdict in NEVER_SHOWN:
            yield f"{name}: this device can't have done that so fast"
        if min(row.values) < LEAST_SECONDS:
            yield f"{name}: no call takes {min(row.values):.2g} s"
        if (row.of_roof or 0) > MOST_OF_ROOF:
            yield f"{name}: {row.of_roof:.3g} times the best rate that was measured there"
        if (row.device_seconds or 0) > 2 * max(row.first, *row.values):
            yield f"{name}: the GPU alone took {row.device_seconds} s, longer than each call as a whole"
    for key, text in (record.outputs | record.figures).items():
        for what, pattern in TELLING.items():
            if found := pattern.search(text):
                yield f"output {key} holds {what}, {found[0][:12]!r}"


def _minor(version: str) -> str:
    """Return the first two numbers of a version."""
    return ".".join(version.split("+")[0].split(".")[:2])


# -- All of a project ----------------------------------------------------------------------------------------------


def check(root: Path, strict: bool = False) -> int:
    """Print the state of every record under a project's folder; 1 if one is an error, or stale where that counts."""
    # Whatever lies there: somebody's zip was perhaps unpacked into it.
    if not (paths := sorted(path for path in (root / "records").rglob("*") if path.is_symlink() or not path.is_dir())):
        raise ValueError(f"there are no records in {str(root / 'records')!r}: give the folder above it as --root")
    rows = []
    for path in paths:
        try:
            judged = judge_file(path, root / "examples")
            state, why = str(judged.state), "; ".join(judged.why)
        except InvalidRecord as error:
            state, why = "invalid", error.reason
        rows.append((path.relative_to(root / "records").as_posix().removesuffix(".json"), state, why))
    print(Table(f"{len(rows)} records", ("record", "state", "why"), tuple(rows)).text())
    states = {state for _, state, _ in rows}
    return int(bool(states & {"invalid", "orphan", "partial", "stale" if strict else ""}))


def judge_file(path: Path, examples: Path, bench: str = "") -> Judged:
    """Judge the record in a file, or one of its experiments; raise InvalidRecord if it is none, or can't be true."""
    record = read(path)
    if [record.machine, *record.example.split("/")] != list(path.with_suffix("").parts[-3:]):
        raise InvalidRecord(f"it is of {record.example} on {record.machine}, and lies in another's place", path)
    if untrue := next(_untrue(record), None):
        raise InvalidRecord(untrue, path)
    if record.facts.get("api") == "webgpu":  # its code is the site's, which compares it
        return Judged(record, "fresh")
    script = examples / f"{record.example}.py"
    try:
        source = script.read_text(encoding="utf-8") if script.is_file() else None
        return judge_record(record, source, bench=bench)
    except SyntaxError as error:
        return Judged(record, "stale", [f"the code of today is no Python: {error.msg}, line {error.lineno}"])
