"""Run an example again when our code that it stands on has changed: sphinx-gallery looks at the example alone."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx_gallery import gen_gallery

from firstlight.measure import imports
from firstlight.measure.runner import digest

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def forget_outdated(app: Sphinx) -> None:
    """Remove what sphinx-gallery remembers of each example whose modules are not those of its last run."""
    gallery = Path(app.srcdir) / "tutorials"
    ours = newest(imports.PACKAGE)
    for script in sorted((Path(app.confdir) / "examples").glob("*/[0-9][0-9]_*.py")):
        ran = gallery / script.parent.name / f"{script.name}.md5"
        stamp = ran.with_suffix(".modules")
        if stamp.exists() and stamp.stat().st_mtime > max(ours, script.stat().st_mtime):
            continue  # to compare what is older would take longer than all else in a build with nothing to do
        now = digest(repr(imports.closure(script.read_text(encoding="utf-8"))))
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != now:
            ran.unlink(missing_ok=True)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(now, encoding="utf-8")


def keep(*_: object) -> None:
    """Look for garbage once, and never again among what is left: modules, which sphinx-gallery looks at each time."""
    gc.collect()
    gc.freeze()


def newest(package: Path) -> float:
    """When a file of ours was last written, added or removed."""
    return max(path.stat().st_mtime for path in package.rglob("*") if "__pycache__" not in path.parts)


def setup(app: Sphinx) -> None:
    """Go before sphinx-gallery, which runs the examples at the same event."""
    # It imports matplotlib at every build. Its reset before each example does so, too, and that is early enough.
    gen_gallery._import_matplotlib = lambda: None
    app.connect("builder-inited", forget_outdated, priority=100)
    app.connect("builder-inited", keep, priority=900)
