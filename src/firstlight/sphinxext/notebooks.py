"""Numbers in the notebooks that readers download: sphinx-gallery leaves the roles in them as they stand in a script."""

from __future__ import annotations

import json
import re
import zipfile
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from firstlight.sphinxext.prose import benches_in, spec_number, timing
from firstlight.sphinxext.watch import judged

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROLE = re.compile(r"(?<!`):(timing|spec):`([^`]+)`")
WRITTEN = "as_written"  # a cell's text with the roles in it, kept in the cell, so that a new record changes the number


def resolve_all(app: Sphinx) -> None:
    """Put the numbers of today into every notebook of the gallery; one that has them is left alone."""
    folder = Path(app.confdir)
    benches = benches_in(folder)
    for notebook in sorted(Path(app.srcdir, "tutorials").rglob("*.ipynb")):
        before = notebook.read_text(encoding="utf-8")
        after = resolve(before, folder, benches)
        if after != before:
            notebook.write_text(after, encoding="utf-8")
            pack(notebook)


def resolve(notebook: str, folder: Path, benches: dict[str, str]) -> str:
    """The text of a notebook with today's numbers in it."""
    content = json.loads(notebook)
    for cell in content["cells"]:
        written = cell["metadata"].get(WRITTEN) or "".join(cell["source"])
        if cell["cell_type"] == "markdown" and ROLE.search(written):
            cell["metadata"][WRITTEN] = written
            cell["source"] = [ROLE.sub(partial(in_words, folder=folder, benches=benches), written)]
    return json.dumps(content, indent=2)


def in_words(role: re.Match[str], folder: Path, benches: dict[str, str]) -> str:
    """One number in plain words; what is wrong stays as written, and the page warns of it."""
    try:
        if role[1] == "spec":
            found = spec_number(role[2])
        else:
            found = timing(role[2], benches, lambda example: judged(folder, example)[0])
    except ValueError:
        return role[0]
    return escape(found.plain(), quote=False)


def pack(notebook: Path) -> None:
    """Write the archive anew that holds a notebook beside its script."""
    with zipfile.ZipFile(notebook.with_suffix(".zip"), "w") as archive:
        for file in (notebook.with_suffix(".py"), notebook):
            archive.write(file, file.name)


def setup(app: Sphinx) -> None:
    """Come after sphinx-gallery, which has written the notebooks then."""
    app.connect("builder-inited", resolve_all, priority=900)
