"""What sphinx-gallery does not do by itself: run an example again when our code that it imports has changed."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from sphinx.util.logging import getLogger

from _ext.records import project_root
from firstlight.records import package_parts
from firstlight.records.runner import digest

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGE_SECONDS = 15  # that an example may take without a GPU on two cores


def one_at_a_time(app: Sphinx) -> None:
    """Keep other builds out of this clone. The system takes the lock back, too, if this process is killed."""
    lock = FileLock(Path(app.srcdir, "tutorials/.building"), is_singleton=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise SystemExit(  # what Sphinx makes of an error asks for a report on it
            "another build is at work in this clone, and both would write into docs/tutorials: "
            "wait until it has ended, or build in another clone"
        ) from None
    app.connect("build-finished", lambda *_: lock.release())


def forget_outdated(app: Sphinx) -> None:
    """Remove what sphinx-gallery remembers of each example whose modules are not those of its last run."""
    gallery = Path(app.srcdir) / "tutorials"
    files = (path for folder in package_parts.PACKAGES.values() for path in (folder, *folder.rglob("*")))
    ours = max(path.stat().st_mtime for path in files if "__pycache__" not in path.parts)
    for script in sorted((project_root(app.env) / "examples").glob("*/[0-9][0-9]_*.py")):
        ran = gallery / script.parent.name / f"{script.name}.md5"
        stamp = ran.with_suffix(".modules")
        if stamp.exists() and stamp.stat().st_mtime > max(ours, script.stat().st_mtime):
            continue  # to compare what is older would take longer than all else in a build with nothing to do
        now = digest(repr(package_parts.part_digests(script.read_text(encoding="utf-8"))))
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != now:
            ran.unlink(missing_ok=True)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(now, encoding="utf-8")


def freeze_modules(*_: object) -> None:
    """Look for garbage once, and never again among the modules, which sphinx-gallery looks at before each example."""
    gc.collect()
    gc.freeze()


def tell_costs(app: Sphinx, error: Exception | None) -> None:
    """Tell how long the examples ran, this time or when they last did, and which of them are slow."""
    files = sorted(Path(app.srcdir, "tutorials").glob("*/*.cost.json")) if not error else []
    costs = {file.stem.removesuffix(".cost"): json.loads(file.read_text(encoding="utf-8"))["time"] for file in files}
    slow = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in costs.items() if seconds > PAGE_SECONDS)
    if costs:
        told = "All examples ran %.0f s; those that took more than %d s: %s"
        getLogger(__name__).info(told, sum(costs.values()), PAGE_SECONDS, slow or "none")
