"""Fold code cells with what they printed: those whose first line is ``# solution``, or ``# folded:`` and a title."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MARK = re.compile(r"# (?:solution|folded: *(.+))")
OUTPUT_CLASSES = {"sphx-glr-script-out", "sphx-glr-single-img"}


class FoldSolutions(SphinxTransform):
    """Move each marked cell and its output into a fold."""

    default_priority: ClassVar[int] = 400

    def apply(self) -> None:
        """Find the marked cells of this page."""
        for code in list(self.document.findall(nodes.literal_block)):
            first = code.astext().lstrip().partition("\n")[0].rstrip()
            if (mark := MARK.fullmatch(first)) and not is_output(code):
                wrap(code, mark[1] or "Solution")


def wrap(code: nodes.literal_block, summary: str) -> None:
    """Put a cell and the output that follows it into a fold."""
    parent, place = code.parent, code.parent.index(code)
    end = place + 1
    while end < len(parent.children) and is_output(parent.children[end]):
        end += 1
    parent[place:end] = folded(parent.children[place:end], summary)


def folded(content: list[nodes.Node], summary: str) -> list[nodes.Node]:
    """Return nodes in a fold, which opens without JavaScript; where there is no HTML, they are shown."""
    opening = f'<details class="fl-fold"><summary>{escape(summary)}</summary>\n'
    return [nodes.raw("", opening, format="html"), *content, nodes.raw("", "</details>", format="html")]


def is_output(node: nodes.Node) -> bool:
    """Return whether a node is what a cell printed or drew, or a remark of sphinx-gallery's around it."""
    classes: set[str] = set(node.get("classes", [])) if isinstance(node, nodes.Element) else set()
    return bool(classes & OUTPUT_CLASSES) or isinstance(node, nodes.raw)


def setup(app: Sphinx) -> None:
    """Fold before other steps look at the cells."""
    app.add_transform(FoldSolutions)
