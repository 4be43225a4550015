"""Where long code may break at the end of a line: behind its joints, and never between the hyphens of an option.

A ``<wbr>`` is not copied, so a name stays what it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# In a page: commands and what a terminal showed, what stays as it is, and text. A download keeps its name whole, or a
# screen reader would say it in pieces.
PLACES = re.compile(
    r"""(?s)(?P<line><div class="highlight-(?:bash|console|none) .*?</pre>)"""
    r"""|<(?P<kept>pre|script|style|svg|math|textarea|select)\b.*?</(?P=kept)>"""
    r"""|(?P<offered><a class="fl-offered".*?</a>)"""
    r"""|<[^>]*>[^<]+"""
)
TEXT = re.compile(r"(?<=>)[^<]+")
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z]")
JOINT = re.compile(r"(?<=[\w)\]])(?:::|\.(?!\d)|[-_/(,=])(?=[\w'\"&])")  # a number stays in one piece


def breakable(text: str, long: int) -> str:
    """Return text, as HTML, with the places where its long words may break.

    Examples
    --------
    >>> breakable("x.quantile(0.5)", long=12)
    'x.<wbr>quantile(<wbr>0.5)'
    >>> breakable("--self-calibrate", long=12)
    '<span class="fl-whole">--s</span>elf-<wbr>calibrate'
    """
    joined = re.sub(rf"\S{{{long},}}", lambda word: JOINT.sub(r"\g<0><wbr>", word[0]), text)
    return OPTION.sub(r'<span class="fl-whole">\g<0></span>', joined)


def mark(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Mark these places in a page."""

    def marked(place: re.Match[str]) -> str:
        if place["kept"] or place["offered"]:
            return place[0]
        long = 30 if place["line"] else 14  # on a telephone, a line of a terminal has 30 to 40 letters
        return TEXT.sub(lambda text: breakable(text[0], long), place[0])

    if body := context.get("body"):
        context["body"] = PLACES.sub(marked, body)
