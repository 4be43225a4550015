"""What search engines, link previews and language models are told of a page: its title, and its first sentences."""

from __future__ import annotations

import re
from html import escape, unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.builders.html import StandaloneHTMLBuilder

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LONGEST = 200  # search engines show about as much
BAR = {"light": "#ffffff", "dark": "#222832"}  # the colours of the theme's bar, for the browser of a telephone
DESCRIPTION = re.compile('<meta name="description" content="([^"]*)">')


def description(doctree: nodes.document) -> str:
    """The first sentences of a page: those of the first paragraph that stands in a section, and in no box."""
    found = (node for node in doctree.findall(nodes.paragraph) if isinstance(node.parent, nodes.section))
    first = next(found, None)
    return first_sentences(first.astext()) if first else ""


def first_sentences(text: str) -> str:
    """As many whole sentences as are short enough together, or the words of the first that are."""
    text = " ".join(text.split())
    if len(text) <= LONGEST:
        return text
    ends = [found.end() for found in re.finditer(r"[.?!][\"”’)]*(?= [A-Z\"“])", text[: LONGEST + 2])]
    return text[: ends[-1]] if ends else text[: LONGEST - 1].rpartition(" ")[0] + " …"


def add_tags(app: Sphinx, page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Put the description into the head of a page, with what link previews read."""
    tags = {f'name="theme-color" media="(prefers-color-scheme: {theme})"': colour for theme, colour in BAR.items()}
    if doctree and (text := description(doctree)):
        title = app.env.titles[page].astext()
        tags |= {'name="description"': text, 'property="og:description"': text, 'property="og:title"': title}
        tags |= {'property="og:type"': "website", 'property="og:site_name"': app.config.project}
        if context.get("pageurl"):
            tags['property="og:url"'] = context["pageurl"]
    lines = (f'<meta {name} content="{escape(content)}">' for name, content in tags.items())
    context["metatags"] = context.get("metatags", "") + "\n" + "\n".join(lines) + "\n"


def write_lists(app: Sphinx, error: Exception | None) -> None:
    """List the pages for language models (llms.txt), and for search engines where the site's address is known."""
    builder = app.builder
    if error or not isinstance(builder, StandaloneHTMLBuilder):
        return
    base, lines = app.config.html_baseurl, [f"# {app.config.project}\n"]
    pages = list(app.env.collect_relations())  # in the order of the contents, and no others
    for page in pages:
        said = DESCRIPTION.search(Path(builder.get_outfilename(page)).read_text(encoding="utf-8"))
        link = f"- [{app.env.titles[page].astext()}]({base}{builder.get_target_uri(page)})"
        lines.append(f"{link}: {unescape(said[1])}" if said else link)
    (app.outdir / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if base:
        rows = "".join(f"<url><loc>{escape(base + builder.get_target_uri(page))}</loc></url>\n" for page in pages)
        space = "http://www.sitemaps.org/schemas/sitemap/0.9"
        sitemap = f'<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="{space}">\n{rows}</urlset>\n'
        (app.outdir / "sitemap.xml").write_text(sitemap, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Describe the pages when they are written, and list them when all are."""
    app.connect("html-page-context", add_tags)
    app.connect("build-finished", write_lists)
