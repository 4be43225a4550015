"""Fold code cells by their first line.

``# solution``, or ``# folded:`` and a title, folds a cell with what it printed; ``# folded code:`` and a title, or
``# figure``, or ``# measured figure`` for one that is recorded, folds the code alone. What a cell with ``# remember``
prints, a numbered list, becomes a box of text.
"""

from __future__ import annotations

import re
from html import escape
from typing import ClassVar

from docutils import nodes
from sphinx.transforms import SphinxTransform

MARK = re.compile(r"# (solution|(?:measured )?figure|remember|folded(?: code)?: *(.+))")
TITLES = {"solution": "Show it, if you have tried", "remember": "The code of these lines"}
OUTPUT_CLASSES = {"sphx-glr-script-out", "sphx-glr-single-img"}


class FoldCells(SphinxTransform):
    """Move each marked cell and its output into a fold."""

    default_priority: ClassVar[int] = 400

    def apply(self) -> None:
        """Find the marked cells of this page."""
        for code in list(self.document.findall(nodes.literal_block)):
            first = code.astext().lstrip().partition("\n")[0].rstrip()
            if (mark := MARK.fullmatch(first)) and not is_output(code):
                wrap(code, mark[1], mark[2] or TITLES.get(mark[1], "The code of this figure"))


def wrap(code: nodes.literal_block, kind: str, summary: str) -> None:
    """Put a cell into a fold, with the output that follows it or without; lines to remember before it."""
    parent, place = code.parent, code.parent.index(code)
    end = place + 1
    while end < len(parent.children) and is_output(parent.children[end]):
        end += 1
    if "figure" in kind and is_at_top(parent.children[place:end], parent.document):
        summary = "The figure at the top of the page, and its code"
    elif "figure" in kind or kind.startswith("folded code:"):
        end = place + 1
    cell = parent.children[place:end]
    box = [remembered("\n".join(part.astext() for part in cell[1:]))] if kind == "remember" else []
    parent[place:end] = [*box, *folded(cell, summary, *["fl-screen"] * (kind in TITLES))]


def is_at_top(cell: list[nodes.Node], page: nodes.Node | None) -> bool:
    """Return whether the page opens with all that this cell drew: once is enough."""
    drawn = [image["uri"] for node in cell for image in node.findall(nodes.image)]
    shown = [image["uri"] for image in page.findall(nodes.image)] if page else []
    return bool(drawn) and all(shown.count(uri) > 1 for uri in drawn)


def remembered(text: str) -> nodes.enumerated_list:
    """Return numbered lines as a list."""
    points = (" ".join(point.split()) for point in re.split(r"^ *\d+\. ", text, flags=re.MULTILINE)[1:])
    items = (nodes.list_item("", nodes.paragraph(text=point)) for point in points)
    return nodes.enumerated_list("", *items, classes=["fl-box"], enumtype="arabic", prefix="", suffix=".")


def folded(content: list[nodes.Node], summary: str, *classes: str) -> list[nodes.Node]:
    """Return nodes in a fold, which opens without JavaScript; where there is no HTML, they are shown.

    A fold of the class ``fl-screen`` is not printed while it is closed.
    """
    opening = f'<details class="{" ".join(("fl-fold", *classes))}"><summary>{escape(summary)}</summary>\n'
    return [nodes.raw("", opening, format="html"), *content, nodes.raw("", "</details>", format="html")]


def is_output(node: nodes.Node) -> bool:
    """Return whether a node is what a cell printed or drew, or a remark of sphinx-gallery's around it."""
    classes: set[str] = set(node.get("classes", [])) if isinstance(node, nodes.Element) else set()
    return bool(classes & OUTPUT_CLASSES) or isinstance(node, nodes.raw)
