"""What a page is about, in a line: for search engines, and beside its name where our own search finds it."""

from __future__ import annotations

from html import escape
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LONGEST = 200  # search engines show about as much


def first_words(page: nodes.document) -> str:
    """Return the first paragraph of text that stands in a section, and in no box."""
    found = (node for node in page.findall(nodes.paragraph) if isinstance(node.parent, nodes.section))
    first = next((node for node in found if not node["classes"]), None)
    return shorten(first.astext(), LONGEST, placeholder=" …") if first else ""


def note_first_words(app: Sphinx, page: nodes.document) -> None:
    """Keep the first words of a page that was read: the search's page is written when its tree is gone."""
    app.env.metadata[app.env.docname]["first words"] = first_words(page)


def describe(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Put the first words of a page into its head.

    They take the place of what docutils says there: its name, and once more the width of the screen.
    """
    if doctree:
        said = escape(first_words(doctree))
        context["metatags"] = f'<meta name="description" content="{said}">\n' if said else ""
