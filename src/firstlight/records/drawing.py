"""The figures of a record, which a page shows as they are: drawings of Matplotlib's, and nothing that runs or loads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

SPACES = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
ELEMENTS = {"clipPath", "defs", "g", "image", "path", "pattern", "rect", "style", "svg", "text", "tspan", "use"}
NUMBERS = ("d", "height", "patternUnits", "transform", "version", "viewBox", "width", "x", "y")
RULE = "*{stroke-linejoin: round; stroke-linecap: butt}"  # the only one of a <style>
NAME = "[A-Za-z]*[0-9a-f]{10}"
INK = r"(?:\s?url\(#\w+\)|[\w\s.,%#'+-]*)"  # of CSS only what draws: the rest can load things, and cover the page
VALUES = dict.fromkeys(NUMBERS, r"[\w\s.,()+-]*") | {
    "aria-label": r"(?s:.*)",
    "clip-path": INK,
    "fill": INK,
    "href": rf"#{NAME}|data:image/png;base64,[\w\s+/=]*",
    "id": NAME,
    "role": "img",
    "style": rf"(?:\s*(?:fill|font|opacity|stroke|text)(?:-[a-z]+)*\s*:{INK}(?:;|$))*\s*",
    "type": "text/css",
}
# Browsers read it as HTML, where comments end sooner than in XML, and declarations mean something else.
COMMENT, DECLARATION = re.compile(r"<!-- [^<>]* -->"), re.compile(r"<[!?]")


def problem(svg: str) -> str | None:
    """Return what is in a figure that no drawing has, in words; None if there is nothing.

    Examples
    --------
    >>> problem('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
    'a drawing of Matplotlib has no <script>'
    """
    try:
        root = ET.fromstring(svg)
    except ET.ParseError as error:
        return f"a drawing is XML, and this isn't: {error}"
    found = "text before <svg, and no declaration"
    if svg.startswith("<svg ") and not DECLARATION.search(COMMENT.sub("", svg)):
        found = next(_strange(root), "")
    return f"a drawing of Matplotlib has no {ascii(found)[1:-1]}" if found else None


def _strange(root: ET.Element) -> Iterator[str]:
    """Yield the elements and attributes that no drawing has."""
    for one in root.iter():
        name = one.tag.removeprefix(SPACES[0])
        if name not in ELEMENTS or (name == "svg") != (one is root) or (name == "style" and one.text != RULE):
            yield f"<{name}>"
        for key, value in one.items():
            if not re.fullmatch(VALUES.get(key.removeprefix(SPACES[1]), "(?!)"), value):
                yield f"{key}={value[:40]}"
