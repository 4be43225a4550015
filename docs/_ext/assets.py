"""Give each page the styles and scripts that it needs, and no others; and no page the names of two thousand icons."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# What a file is for is seen in the page's HTML; a file that is not named here goes with every page.
NEEDED_WITH = {
    r"mystnb\.": 'class="cell ',
    r"copybutton|clipboard": 'class="highlight"',
    r"sg_gallery\.css": "sphx-glr",
    r"sg_gallery-rendered-html": "rendered_html",
    r"sg_gallery-binder|sg_gallery-dataframe": 'class="dataframe',
    r"sg-tags": "sphx-glr-tag",
    r"sphinx-design|design-tabs": 'class="sd-',
    r"timings\.js": 'class="fl-timings"',
    r"doctor\.js": 'class="fl-paste"',
    r"chart\.js": 'class="fl-(timings|possible|lanes|sliders|wins|gpu)"',
    r"possible\.js": 'class="fl-possible"',
    r"lanes\.js": 'class="fl-lanes"',
    r"sliders\.js": 'class="fl-sliders"',
    r"wins\.js": 'class="fl-wins"',
    r"/gpu\.js": 'class="fl-gpu"',
}
SCRIPTS = ("chart.js", "timings.js", "doctor.js", "possible.js", "lanes.js", "sliders.js", "wins.js", "gpu.js")  # ours
ICON = re.compile(r"(?:\.fa-[\w-]+,?)+\{--fa:[^}]*\}")  # firstlight.css draws those that the pages show


def needed(filename: str, html: str) -> bool:
    """Return whether a page needs a style or script.

    Examples
    --------
    >>> needed("_static/sg_gallery.css", '<div class="sphx-glr-footer">')
    True
    >>> needed("_static/sg_gallery.css", "<p>Text</p>")
    False
    """
    return all(re.search(sign, html) for name, sign in NEEDED_WITH.items() if re.search(name, filename))


def choose(app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Leave out what the page does not need."""
    del app, page
    html = context.get("body", "")
    for kind in ("css_files", "script_files"):
        context[kind] = [file for file in context[kind] if needed(str(file.filename), html)]


def drop_icons(app: Sphinx, error: Exception | None) -> None:
    """Take the icons out of the theme's styles, of which they are a third."""
    styles = Path(app.outdir, "_static/styles/pydata-sphinx-theme.css")
    if not error and styles.is_file():
        styles.write_text(ICON.sub("", styles.read_text(encoding="utf-8")), encoding="utf-8")
