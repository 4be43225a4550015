"""Styles and scripts: each page gets those that it needs, and none the names of two thousand icons."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Our scripts, each with the classes of what it brings to life.
SCRIPTS = {
    "chart.js": "timings|paste|door|possible|lanes|wins|gpu",
    "timings.js": "timings",
    "causes.js": "paste|door",
    "doctor.js": "paste",
    "search.js": "door",
    "possible.js": "possible",
    "lanes.js": "lanes",
    "wins.js": "wins",
    "gpu.js": "gpu",
}
# Files of others that only some pages need: a part of the name, and what such a page has in it. The rest go with every
# page.
OTHERS = {
    "mystnb.": 'class="cell ',
    "copybutton": 'class="highlight"',
    "clipboard": 'class="highlight"',
    "sg_gallery": "sphx-glr",
    "gallery-binder": "binder-badge",
    "gallery-dataframe": "dataframe",
    "rendered-html": "rendered_html",
    "sg-tags": "sphx-glr-tag",
    "design": 'class="sd-',
}
ICON = re.compile(r"(?:\.fa-[\w-]+,?)+\{--fa:[^}]*\}")  # firstlight.css draws those that the pages show


def needed(filename: str, html: str) -> bool:
    """Return whether a page needs a style or script.

    Examples
    --------
    >>> needed("_static/wins.js", '<div class="fl-wins">')
    True
    >>> needed("_static/sg_gallery.css", "<p>Text</p>")
    False
    """
    name = Path(filename).name
    if name == "sphinx_highlight.js":
        return False  # found.js leads to one sentence
    if name in SCRIPTS:
        return bool(re.search(f'class="fl-({SCRIPTS[name]})"', html))
    return all(sign in html for part, sign in OTHERS.items() if part in name)


def choose(app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Leave out what the page does not need, and scripts that stand in a page, which layout.html's policy forbids."""
    del app, page
    html = context.get("body", "")
    for kind in ("css_files", "script_files"):
        context[kind] = [file for file in context[kind] if file.filename and needed(str(file.filename), html)]


def drop_icons(app: Sphinx) -> None:
    """Take the icons out of the theme's styles, of which they are a third."""
    styles = Path(app.outdir, "_static/styles/pydata-sphinx-theme.css")
    if styles.is_file():
        styles.write_text(ICON.sub("", styles.read_text(encoding="utf-8")), encoding="utf-8")
