"""What a page is about, in a line: for search engines, and beside its name where our own search finds it."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from docutils import nodes

from _ext.navigation import finding

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LONGEST = 200  # search engines show about as much
SKY = Path(__file__).parents[1] / "figures/03_real_sky.webp"


def first_words(page: nodes.document) -> str:
    """Return the first paragraph of text that stands in a section, and in no box."""
    found = (node for node in page.findall(nodes.paragraph) if isinstance(node.parent, nodes.section))
    first = next((node for node in found if not node["classes"]), None)
    return shorten(first.astext(), LONGEST, placeholder=" …") if first else ""


def note_first_words(app: Sphinx, page: nodes.document) -> None:
    """Keep the first words of a page that was read: the search's page is written when its tree is gone."""
    app.env.metadata[app.env.docname]["first words"] = first_words(page)


def describe(app: Sphinx, page: str, _template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Put the first words of a page into its head, and for those who link to it what they show, if it has an address.

    They take the place of what docutils says there: its name, and once more the width of the screen.
    """
    if not doctree:
        return
    said = first_words(doctree)
    tags = {'name="description"': said} if said else {}
    if "nosearch" not in app.env.metadata[page]:
        context["markdown"] = f"{page.rpartition('/')[2]}.md"
        if base := app.config.html_baseurl:
            tags |= {
                'property="og:title"': app.env.titles[page].astext(),
                'property="og:description"': said,
                'property="og:site_name"': app.config.project,
                'property="og:type"': "article",
                'property="og:url"': f"{base}{page}.html",
                'property="og:image"': base + card(app, page),
                'name="twitter:card"': "summary_large_image",
            }
    context["metatags"] = "".join(f'<meta {name} content="{escape(text)}">\n' for name, text in tags.items())


def card(app: Sphinx, page: str) -> str:
    """Return the picture that a link to a page shows: its finding, on white; else the site's, a real sky."""
    from PIL import Image

    found = re.search(r"image:: /(\S+)", finding(app.env, page.removeprefix("tutorials/")))
    source = Path(app.srcdir, found[1]) if found else SKY
    made = Path(app.outdir, "_images", f"card_{source.stem}.jpg")
    if not made.is_file() or made.stat().st_mtime < source.stat().st_mtime:
        made.parent.mkdir(exist_ok=True)
        with Image.open(source) as picture:
            drawn = picture.convert("RGBA")
        width = max(drawn.width, round(1.91 * drawn.height))  # or its top and bottom are cut off
        paper = Image.new("RGB", (width, drawn.height), "white")
        paper.paste(drawn, ((width - drawn.width) // 2, 0), drawn)
        paper.thumbnail((1200, 630))
        paper.save(made, quality=85)
    return f"_images/{made.name}"
