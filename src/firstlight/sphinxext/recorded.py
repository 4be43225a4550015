"""The records of a page's example; every page that asks is read again when one of them changes, or a new one comes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging

from firstlight.measure.checks import state_of
from firstlight.measure.records import Record, find, read

if TYPE_CHECKING:
    from sphinx.environment import BuildEnvironment

logger = logging.getLogger(__name__)


def records_of(env: BuildEnvironment, example: str) -> list[tuple[Record, str, list[str]]]:
    """The records of an example with their states, the newest first; one that is none is a warning."""
    root = Path(env.app.confdir)
    script = root / "examples" / f"{example}.py"
    if script.is_file():
        env.note_dependency(str(script))
    found = []
    for path in find(root / "records", example):
        env.note_dependency(str(path))
        state, reasons = state_of(path, root / "examples")
        if state == "invalid":
            logger.warning("%s: %s", path, "; ".join(reasons), type="firstlight", subtype="records")
        else:
            found.append((read(path), state, reasons))
    return sorted(found, key=lambda item: str(item[0].facts["date"]), reverse=True)
