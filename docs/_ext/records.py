"""The records that a page shows: it is read again when one of them changes or goes, and when a new machine comes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.util import logging

from firstlight.records.package_parts import files_of, part_digests
from firstlight.records.record import TIMED, InvalidRecord, Judged, Record, judge_file, record_files
from firstlight.records.runner import digest

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

logger = logging.getLogger(__name__)

SHOWN = "firstlight_records"  # in the metadata of a page: by example, the files of the records that are shown on it


def project_root(env: BuildEnvironment) -> Path:
    """Return the folder that holds examples/ and records/."""
    return Path(env.srcdir, env.config.project_root).resolve()


def relative_root(env: BuildEnvironment) -> str:
    """Return the way from the page that is read or written to the root of the site."""
    return "../" * env.docname.count("/")


def records_of(env: BuildEnvironment, example: str = "*/*", bench: str = "") -> list[Judged]:
    """Return the records of an example, or of all, with their states or those of one experiment, newest first.

    The page that is read now is read again when they change. A file that is no record is a warning, and the page is
    read at every build until it is mended.

    Parameters
    ----------
    env
        The environment, while it reads a page.
    example
        Chapter and name, as in ``1_setup/02_first_speedup``.
    bench
        The experiment that is meant; all of the example's if empty.
    """
    known: Any = env.current_document  # as untyped as a dictionary
    cache: dict[tuple[str, str], list[Judged]] = known.setdefault("firstlight_records", {})
    if (example, bench) not in cache:
        cache[example, bench], problems = judge_records(project_root(env), example, bench)
        for problem in problems:
            warn(env, problem, env.docname)
        paths = [judged.record.path for judged in cache[example, bench] if judged.record.path]
        for path in (*paths, *stands_on(project_root(env), example)):
            env.note_dependency(path)
        env.metadata[env.docname].setdefault(SHOWN, {})[example] = sorted(map(str, paths))
    return cache[example, bench]


def warn(env: BuildEnvironment, problem: object, location: Any) -> None:
    """Warn of what is wrong with this page, and read it again, so that it fails every build until it is mended."""
    logger.warning("%s", problem, location=location, type="firstlight")
    env.note_reread()


def judge_records(folder: Path, example: str, bench: str = "") -> tuple[list[Judged], list[str]]:
    """Return an example's records with their states, GPUs' first, then the newest, and what is wrong with others."""
    found, problems = [], []
    for path in record_files(folder / "records", example):
        try:
            judged = judge_file(path, folder / "examples", bench)
        except InvalidRecord as error:
            problems.append(f"{path.relative_to(folder).as_posix()} is no record: {error.reason}")
            continue
        facts = judged.record.facts
        if facts.get("api") == "webgpu" and facts["code_sha256"] != browser_digest(folder):
            judged = Judged(judged.record, "stale", ["recorded with older code"])
        found.append(judged)
    found.sort(key=lambda judged: _rank(judged.record), reverse=True)
    # An orphan of a page that is there has kernels of another compiler.
    return [one for one in found if "*" in example or one.state != "orphan"], problems


def _rank(record: Record) -> tuple[bool, str, str]:
    """Return by what records are ordered: readers have come for GPUs."""
    return record.facts["device_kind"] != "cpu", str(record.facts["date"]), record.machine


def browser_digest(root: Path) -> str:
    """Return the digest of the kernels and timers that run in a browser."""
    names = ("*.wgsl", "experiments.js", "gpu.js", "statistics.js")
    files = sorted(path for name in names for path in (root / "docs/web/gpu").glob(name))
    return digest("\n".join(path.read_text(encoding="utf-8") for path in files))


def stands_on(folder: Path, example: str) -> list[Path]:
    """Return what the state of an example's records depends on: its script, and our modules that it imports."""
    found = []
    for script in (folder / "examples").glob(f"{example}.py"):
        found.append(script)
        with suppress(SyntaxError):
            parts = part_digests(script.read_text(encoding="utf-8"))
            found += [file for name in TIMED if name in parts for file in files_of(name)]
    return found


def outdated(_app: Sphinx, env: BuildEnvironment, *_changes: set[str]) -> list[str]:
    """Name the pages whose examples have other records now.

    A dependency cannot tell of a new file, and one on a missing file would read its page at every build.
    """
    return [
        docname
        for docname, facts in env.metadata.items()
        for one, names in facts.get(SHOWN, {}).items()
        if names != sorted(map(str, record_files(project_root(env) / "records", one)))
    ]
