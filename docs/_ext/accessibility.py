"""Accessibility fixes for the theme and its companions: for readers who listen, use a keyboard, or run no script."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator as SphinxHTML5Translator
from sphinx_design.tabs import sd_tab_label

if TYPE_CHECKING:
    from sphinx.writers.html5 import HTML5Translator


class MendParts(SphinxPostTransform):
    """Give each table the heads of its rows, ask for a caption, and take out what no HTML may have."""

    default_priority: ClassVar[int] = 220
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


def open_table(self: HTML5Translator, table: nodes.table) -> None:
    """Begin a table as the theme does; its frame, a stop of the keyboard where the table is wide, gets a name."""
    title = table.next_node(nodes.title)
    name = f' role="region" aria-label="{escape(title.astext())}"' if title else ""
    self.body.append(f'<div class="pst-scrollable-table-container"{name}>')
    SphinxHTML5Translator.visit_table(self, table)


def close_table(self: HTML5Translator, table: nodes.table) -> None:
    """End a table, and its frame."""
    SphinxHTML5Translator.depart_table(self, table)
    self.body.append("</div>\n")


def open_cell(self: HTML5Translator, cell: nodes.entry) -> None:
    """Begin a cell as docutils does; a head says whether it heads a column or a row."""
    type(self).visit_entry(self, cell)
    scope = "col" if isinstance(cell.parent.parent, nodes.thead) else "row"
    self.body[-1] = self.body[-1].replace("<th", f'<th scope="{scope}"', 1)
