"""The list on the first page of the reference: each name that its pages document, and the first line on it."""

from __future__ import annotations

import re
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

MEMBERS = re.compile(r"^\.\. automodule:: (\S+)\n +:members: (.+)$", re.MULTILINE)


def documented(page: Path) -> Iterator[tuple[str, str]]:
    """The modules and names that a page of the reference documents, in its order."""
    for module, names in MEMBERS.findall(page.read_text(encoding="utf-8")):
        yield from ((module, name.strip()) for name in names.split(","))


def summary(module: str, name: str) -> str:
    """The first line of what is said of a name; of a constant, of the comment above it."""
    comments = ModuleAnalyzer.for_module(module).find_attr_docs()
    said = comments.get(("", name)) or (getdoc(getattr(import_module(module), name)) or "").splitlines()
    return said[0] if said else ""


class Reference(SphinxDirective):
    """``.. reference:: imaging`` lists what the page ``api/imaging`` documents."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        """A term a name."""
        page = self.env.doc2path(f"api/{self.arguments[0]}")
        self.env.note_dependency(page)
        lines = [".. rst-class:: fl-reference", ""]
        for module, name in documented(Path(page)):
            self.env.note_dependency(ModuleAnalyzer.for_module(module).srcname)
            lines += [f"   :py:obj:`{name} <{module}.{name}>`", f"      {summary(module, name)}"]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("reference", Reference)
