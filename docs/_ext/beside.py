"""Show a kernel in CUDA C++ beside the same in Numba: a fold of this title, right behind a code cell, becomes a tab.

A notebook keeps the fold.
"""

from __future__ import annotations

from typing import ClassVar

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx_design.shared import create_component, is_component

from _ext.outputs import tab

TITLE = "In CUDA C++"


class CellsBeside(SphinxTransform):
    """Put the code cell and the fold behind it into two tabs; who chooses one sees it at all of them."""

    default_priority: ClassVar[int] = 400

    def apply(self) -> None:
        """Find these folds."""
        for fold in list(self.document.findall(lambda node: is_component(node, "dropdown"))):
            title, *content = fold.children
            if title.astext() != TITLE:
                continue
            before = [node for node in fold.parent[: fold.parent.index(fold)] if not isinstance(node, nodes.comment)]
            if before and isinstance(code := before[-1], nodes.literal_block):
                fold.parent.remove(fold)
                place = code.parent.index(code)
                tabs = create_component("tab-set", ["sd-tab-set"])
                code.parent[place] = tabs
                for label, inside in (("Numba", [code]), ("CUDA C++", content)):
                    tabs += tab(label, *inside, sync_group="language", sync_id=label)
