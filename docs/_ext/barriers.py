"""Mend what the theme and its companions put in the way of readers who listen, use a keyboard, or run no script."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.logging import getLogger
from sphinx_design.tabs import sd_tab_label

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config
    from sphinx.writers.html5 import HTML5Translator

# The theme's script comes at the end of the page: until then a reader of the dark theme would see the light one.
FIRST_PAINT = """\
(({ dataset }) => {
  if (!["light", "dark"].includes(dataset.mode)) dataset.mode = "auto";
  if (dataset.mode === "auto") dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
})(document.documentElement);"""
VIEWPORT = re.compile(r'<meta name="viewport"[^>]*>')
TABLE = re.compile(
    r'(<div class="pst-scrollable-table-container")(>\s*<table[^>]*>\s*<caption>(.*?)</caption>)', re.DOTALL
)
SVG = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
RAW = [
    # sphinx-gallery: an attribute that is none, and a place for tags that is on the page several times
    (re.compile(r'(<div class="sphx-glr-thumbcontainer"[^>]*?) tooltip="[^"]*"'), r"\1"),
    (re.compile(r"<div id='sg-tag-list'[^>]*></div>"), ""),
]


class MendTables(SphinxPostTransform):
    """Give each table the heads of its rows, and ask for a caption: it says what a table is, before its cells do."""

    default_priority: ClassVar[int] = 210
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Look at the tables of this page."""
        for table in self.document.findall(nodes.table):
            if not any(isinstance(child, nodes.title) for child in table.children):
                getLogger(__name__).warning(
                    "a table has no caption: give it one, as in {table} What it shows", location=table
                )
            columns = list(table.findall(nodes.colspec))
            if columns and not any(column.get("stub") for column in columns):
                columns[0]["stub"] = 1


class MendParts(SphinxPostTransform):
    """Take out what no HTML may have."""

    default_priority: ClassVar[int] = 220  # sphinx-design has made its tabs by then
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Mend labels, lists in paragraphs and raw HTML."""
        for label in self.document.findall(sd_tab_label):
            label.attributes.pop("aria_controls", None)  # the label of a button controls nothing itself
        for paragraph in list(self.document.findall(nodes.paragraph)):
            if any(isinstance(child, nodes.bullet_list) for child in paragraph.children):
                paragraph.replace_self(paragraph.children)
        taken: set[str] = set()
        for raw in list(self.document.findall(nodes.raw)):
            if "html" in raw.get("format", "").split():
                raw.children = [nodes.Text(mended(raw.astext(), taken))]


def mended(html: str, taken: set[str]) -> str:
    """Mend raw HTML; drawings on one page get names of their own for their parts.

    Examples
    --------
    >>> taken = set()
    >>> mended('<svg><g id="a"/><use href="#a"/></svg>', taken)
    '<svg><g id="a"/><use href="#a"/></svg>'
    >>> mended('<svg><g id="a"/><use href="#a"/></svg>', taken)
    '<svg><g id="a-2"/><use href="#a-2"/></svg>'
    """
    for wrong, right in RAW:
        html = wrong.sub(right, html)
    return SVG.sub(lambda found: with_own_ids(found[0], taken), html)


def with_own_ids(svg: str, taken: set[str]) -> str:
    """Number the names of a drawing that another one has already."""
    names = set(re.findall(r'\bid="([^"]+)"', svg))
    new = {}
    for name in sorted(names & taken):
        number = 2
        while f"{name}-{number}" in taken | names:
            number += 1
        new[name] = f"{name}-{number}"
    taken |= names | set(new.values())
    return re.sub(r'(\bid="|"#|url\(#)([^")]+)', lambda found: found[1] + new.get(found[2], found[2]), svg)


def open_cell(self: HTML5Translator, cell: nodes.entry) -> None:
    """Begin a cell as docutils does; a head says of what."""
    type(self).visit_entry(self, cell)
    scope = "col" if isinstance(cell.parent.parent, nodes.thead) else "row"
    self.body[-1] = self.body[-1].replace("<th", f'<th scope="{scope}"', 1)


def close_cell(self: HTML5Translator, cell: nodes.entry) -> None:
    """End a cell as docutils does."""
    type(self).depart_entry(self, cell)


def named_table(found: re.Match[str]) -> str:
    """Name what the theme makes a stop of the keyboard where a table is wider than the screen."""
    said = BeautifulSoup(found[3], "html.parser").select_one(".caption-text")
    return f'{found[1]} role="region" aria-label="{escape(said.get_text())}"{found[2]}' if said else found[0]


def mend_page(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Name tables and what opens in the side bar, set the theme before anything is painted, say the viewport once."""
    app.add_js_file(None, body=FIRST_PAINT, priority=100)
    if "body" in context:
        context["body"] = TABLE.sub(named_table, context["body"])
    context["metatags"] = VIEWPORT.sub("", context.get("metatags", ""))
    if make := context.get("generate_toctree_html"):

        def with_names(*args: Any, **options: Any) -> str:
            tree = BeautifulSoup(str(make(*args, **options)), "html.parser")
            for summary in tree.select("li > a + details > summary"):
                link = summary.find_previous("a")
                summary["aria-label"] = f"Pages of: {link.get_text(' ', strip=True) if link else ''}"
            return str(tree)

        context["generate_toctree_html"] = with_names


def use_templates(app: Sphinx, config: Config) -> None:
    """Put our templates before the theme's."""
    del app
    config.templates_path.insert(0, str(Path(__file__).parent / "templates"))


def setup(app: Sphinx) -> None:
    """Mend the tree of each page, and then the page around it, after the theme."""
    app.add_post_transform(MendTables)
    app.add_post_transform(MendParts)
    app.add_node(nodes.entry, override=True, html=(open_cell, close_cell))
    app.connect("config-inited", use_templates)
    app.connect("html-page-context", mend_page, priority=800)
