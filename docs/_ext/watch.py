"""The records that a page shows: it is read again when one of them changes or goes, and when a new machine comes."""

from __future__ import annotations

from collections.abc import Set
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.environment.collectors import EnvironmentCollector
from sphinx.util import logging

from firstlight.measure.imports import imported_modules, module_file
from firstlight.measure.records import Record, find, judged_file

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

logger = logging.getLogger(__name__)

Judged = tuple[Record, str, list[str]]  # a record, its state, and the reasons for it


def home(env: BuildEnvironment) -> Path:
    """The folder of conf.py, in which examples/ and records/ are."""
    return Path(env.__dict__["firstlight_home"])


def records_of(env: BuildEnvironment, example: str = "*/*") -> list[Judged]:
    """The records of an example, or of all, with their states, newest first; this page is read again when they change.

    A file that is no record is a warning, and the page is read at every build until it is mended.

    Parameters
    ----------
    env
        The environment, while it reads a page.
    example
        Chapter and name, as in ``1_setup/02_first_speedup``.
    """
    if "firstlight_records" not in env.current_document:
        env.current_document["firstlight_records"] = {}
    cache: dict[str, list[Judged]] = env.current_document["firstlight_records"]
    if example not in cache:
        cache[example], problems = judged(home(env), example)
        for problem in problems:
            logger.warning("%s", problem, location=env.docname, type="firstlight", subtype="records")
        paths = [record.path for record, _, _ in cache[example] if record.path]
        for path in (*paths, *stands_on(home(env), example)):
            env.note_dependency(path)
        shown(env).setdefault(env.docname, {})[example] = sorted(map(str, paths))
    return cache[example]


def read_again(env: BuildEnvironment) -> None:
    """Read this page at the next build too: what is wrong with it shall fail every build until it is mended."""
    shown(env).setdefault(env.docname, {})[""] = ["no such file"]


def judged(folder: Path, example: str) -> tuple[list[Judged], list[str]]:
    """The records of an example with their states, newest first, and what is wrong with files that are none."""
    found, problems = [], []
    for path in find(folder / "records", example):
        record, state, reasons = judged_file(path, folder / "examples")
        if record is None:
            problems.append(f"{path.relative_to(folder).as_posix()} is no record: {'; '.join(reasons)}")
        else:
            found.append((record, state, reasons))
    found.sort(key=lambda item: (str(item[0].facts["date"]), item[0].machine), reverse=True)
    return found, problems


def stands_on(folder: Path, example: str) -> list[Path]:
    """The files that the state of an example's records depends on: its script, and our modules that it imports."""
    found = []
    for script in (folder / "examples").glob(f"{example}.py"):
        found.append(script)
        with suppress(SyntaxError):
            modules = map(module_file, imported_modules(script.read_text(encoding="utf-8")))
            found += [file for file in modules if file]
    return found


def shown(env: BuildEnvironment) -> dict[str, dict[str, list[str]]]:
    """For each page, by example, the files of the records that were shown on it."""
    pages: dict[str, dict[str, list[str]]] = env.__dict__.setdefault("firstlight_shown", {})
    return pages


class Shown(EnvironmentCollector):
    """Keeps in the environment what :func:`records_of` found for each page."""

    def clear_doc(self, app: Sphinx, env: BuildEnvironment, docname: str) -> None:
        """Forget a page."""
        del app
        shown(env).pop(docname, None)

    def merge_other(self, app: Sphinx, env: BuildEnvironment, docnames: Set[str], other: BuildEnvironment) -> None:
        """Take over what another process read."""
        del app
        shown(env).update({name: found for name, found in shown(other).items() if name in docnames})

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        """Leave it to :func:`records_of`, which is called while the page is read."""

    def get_outdated_docs(
        self, app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]
    ) -> list[str]:
        """Name the pages whose examples have other records now.

        A dependency cannot tell of a new file, and one on a missing file would read its page at every build.
        """
        del app, added, changed, removed
        return [
            docname
            for docname, examples in shown(env).items()
            if any(names != sorted(map(str, find(home(env) / "records", one))) for one, names in examples.items())
        ]


def remember_home(app: Sphinx) -> None:
    """Tell the environment where conf.py is."""
    app.env.__dict__["firstlight_home"] = str(app.confdir)


def setup(app: Sphinx) -> None:
    """Watch the records."""
    app.connect("builder-inited", remember_home, priority=1)
    app.add_env_collector(Shown)
