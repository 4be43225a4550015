"""Set mathematics while the site is built, as MathML: browsers draw it without a script, a style or a font of ours."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import TYPE_CHECKING

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.logging import getLogger

if TYPE_CHECKING:
    from sphinx.writers.html5 import HTML5Translator


def formula(self: HTML5Translator, node: nodes.math | nodes.math_block, *, block: bool) -> None:
    """Write a formula; one that cannot be set stays as it was written, with a warning."""
    latex = node.astext()
    try:
        written = f' alttext="{escape(latex)}"'  # for programs.py
        self.body.append(tex2mathml(latex, as_block=block).replace("<math", f"<math{written}", 1))
    except MathError as error:
        getLogger(__name__).warning("the formula %s cannot be set: %s", latex, error, location=node)
        self.body.append(f"<code>{escape(latex)}</code>")
    raise nodes.SkipNode


# For app.add_html_math_renderer; conf.py asks for it by its name, in the place of MathJax.
INLINE, BLOCK = ((partial(formula, block=block), None) for block in (False, True))
