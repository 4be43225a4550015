"""Mend what the theme and its companions put in the way of readers who listen, use a keyboard, or run no script."""

from __future__ import annotations

import re
from html import escape, unescape
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.logging import getLogger
from sphinx_design.tabs import sd_tab_label

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


CONTAINER = "pst-scrollable-table-container"
TABLE = re.compile(rf'<div class="{CONTAINER}"(>\s*<table[^>]*>\s*<caption><span[^>]*>)(.*?)</span>', re.DOTALL)


class MendParts(SphinxPostTransform):
    """Give each table the heads of its rows, ask for a caption, and take out what no HTML may have."""

    default_priority: ClassVar[int] = 220  # sphinx-design has made its tabs by then
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Mend tables, labels and lists in paragraphs."""
        for table in self.document.findall(nodes.table):
            if not any(isinstance(child, nodes.title) for child in table.children):
                getLogger(__name__).warning("a table has no caption, as in {table} What it shows", location=table)
            columns = list(table.findall(nodes.colspec))
            if columns and not any(column.get("stub") for column in columns):
                columns[0]["stub"] = 1
        for label in self.document.findall(sd_tab_label):
            label.attributes.pop("aria_controls", None)  # the label of a button controls nothing itself
        for paragraph in list(self.document.findall(nodes.paragraph)):
            if any(isinstance(child, nodes.bullet_list) for child in paragraph.children):
                paragraph.replace_self(paragraph.children)


def open_cell(self: HTML5Translator, cell: nodes.entry) -> None:
    """Begin a cell as docutils does; a head says of what."""
    type(self).visit_entry(self, cell)
    scope = "col" if isinstance(cell.parent.parent, nodes.thead) else "row"
    self.body[-1] = self.body[-1].replace("<th", f'<th scope="{scope}"', 1)


def close_cell(self: HTML5Translator, cell: nodes.entry) -> None:
    """End a cell as docutils does."""
    type(self).depart_entry(self, cell)


def name_tables(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Name what the theme makes a stop of the keyboard where a table is wider than the screen."""

    def named(found: re.Match[str]) -> str:
        label = escape(unescape(re.sub("<[^>]*>", "", found[2])))
        return f'<div class="{CONTAINER}" role="region" aria-label="{label}"{found[1]}{found[2]}</span>'

    context["body"] = TABLE.sub(named, context.get("body", ""))


def setup(app: Sphinx) -> None:
    """Mend the tree of each page, and what the theme adds to it."""
    app.connect("html-page-context", name_tables, priority=800)
    app.add_post_transform(MendParts)
    app.add_node(nodes.entry, override=True, html=(open_cell, close_cell))
