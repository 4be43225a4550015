"""What search engines are told of a page: its first words."""

from __future__ import annotations

from html import escape
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LONGEST = 200  # search engines show about as much


def describe(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Put the first paragraph of text that stands in a section, and in no box, into the head of a page.

    It takes the place of what docutils says there: its name, and once more the width of the screen.
    """
    found = (node for node in (doctree.findall(nodes.paragraph) if doctree else ()))
    first = next((node for node in found if isinstance(node.parent, nodes.section) and not node["classes"]), None)
    said = escape(shorten(first.astext(), LONGEST, placeholder=" …")) if first else ""
    context["metatags"] = f'<meta name="description" content="{said}">\n' if said else ""
