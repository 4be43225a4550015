"""What search engines are told of a page: its first sentences, and where all pages are."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LONGEST = 200  # search engines show about as much


def first_sentences(text: str) -> str:
    """Return as many whole sentences as are short enough together, or the words of the first that are."""
    text = " ".join(text.split())
    if len(text) <= LONGEST:
        return text
    ends = [found.end() for found in re.finditer(r"[.?!][\"”’)]*(?= [A-Z\"“])", text[: LONGEST + 2])]
    return text[: ends[-1]] if ends else text[: LONGEST - 1].rpartition(" ")[0] + " …"


def describe(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Put the first paragraph that stands in a section, and in no box, into the head of a page.

    It takes the place of what docutils says there: its name, and once more the width of the screen.
    """
    found = (node for node in (doctree.findall(nodes.paragraph) if doctree else ()))
    first = next((node for node in found if isinstance(node.parent, nodes.section)), None)
    said = escape(first_sentences(first.astext())) if first else ""
    context["metatags"] = f'<meta name="description" content="{said}">\n' if said else ""


def list_pages(app: Sphinx, error: Exception | None) -> None:
    """Write sitemap.xml, where the site's address is known."""
    if error or app.builder.name != "html" or not app.config.html_baseurl:
        return
    addresses = (app.config.html_baseurl + app.builder.get_target_uri(page) for page in app.env.collect_relations())
    rows = "".join(f"<url><loc>{escape(address)}</loc></url>\n" for address in addresses)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    sitemap = f'<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="{space}">\n{rows}</urlset>\n'
    (app.outdir / "sitemap.xml").write_text(sitemap, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Describe the pages when they are written, and list them when all are."""
    app.connect("html-page-context", describe)
    app.connect("build-finished", list_pages)
