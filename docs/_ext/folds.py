"""Fold code cells with what they printed: those whose first line is ``# solution``, or ``# folded:`` and a title."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx.addnodes import only
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

MARK = re.compile(r"# (?:solution|folded: *(.+))")
OUTPUT_CLASSES = {"sphx-glr-script-out", "sphx-glr-single-img"}


class fold(nodes.General, nodes.Element):
    """What is hidden until the reader asks for it."""


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
    folded = fold("", *parent.children[place:end], summary=summary)
    parent.children[place:end] = [folded]
    folded.parent = parent


def is_output(node: nodes.Node) -> bool:
    """Whether a node is what a cell printed or drew, or a remark of sphinx-gallery's around it."""
    if isinstance(node, only):  # the figure for the dark theme
        return all(is_output(child) for child in node.children)
    classes: set[str] = set(node.get("classes", [])) if isinstance(node, nodes.Element) else set()
    return bool(classes & OUTPUT_CLASSES) or isinstance(node, nodes.raw)


def open_fold(self: HTML5Translator, folded: fold) -> None:
    """Begin a fold; it opens without JavaScript."""
    summary = self.encode(folded["summary"])
    self.body.append(f'<details class="fl-fold"><summary>{summary}</summary>\n')


def close_fold(self: HTML5Translator, _: fold) -> None:
    """End a fold."""
    self.body.append("</details>\n")


def leave_open(_self: object, _: fold) -> None:
    """Show the cell where nothing can be folded."""


def setup(app: Sphinx) -> None:
    """Register the fold with every builder."""
    plain = (leave_open, leave_open)
    app.add_node(fold, html=(open_fold, close_fold), latex=plain, text=plain, man=plain, texinfo=plain)
    app.add_transform(FoldSolutions)
