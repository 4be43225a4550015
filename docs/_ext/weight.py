"""Give each page the styles and scripts that it needs, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

# What a file is for is seen in the page's HTML; a file that is not named here goes with every page.
NEEDED_WITH = {
    r"mystnb\.": 'class="cell ',
    r"copybutton|clipboard": 'class="highlight"',
    r"sg_gallery\.css": "sphx-glr",
    r"sg_gallery-rendered-html": "rendered_html",
    r"sg_gallery-binder|sg_gallery-dataframe": 'class="dataframe',
    r"sg-tags": "sphx-glr-tag",
    r"sphinx-design|design-tabs": 'class="sd-',
    r"katex": 'class="katex',
}
# The theme loads these on every page. The first is for icons of one's own; search.js loads the others for a search.
UNUSED = re.compile(r'\s*<script[^>]*["/](?:fontawesome|searchtools|language_data|searchindex)\.js[^>]*></script>')


def needed(filename: str, html: str) -> bool:
    """Tell whether a page needs a style or script.

    Examples
    --------
    >>> needed("_static/sg_gallery.css", '<div class="sphx-glr-footer">')
    True
    >>> needed("_static/sg_gallery.css", "<p>Text</p>")
    False
    """
    return all(sign in html for name, sign in NEEDED_WITH.items() if re.search(name, filename))


def choose(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Leave out what the page does not need; titles of other pages can have mathematics, too."""
    del app
    around = [context.get(name) or {} for name in ("prev", "next")]
    html = " ".join([context.get("body", ""), context.get("title", ""), *(page.get("title", "") for page in around)])
    for kind in ("css_files", "script_files"):
        context[kind] = [file for file in context[kind] if needed(str(file.filename), html)]
    context["without_unused"] = lambda head: UNUSED.sub("", head)


def use_template(app: Sphinx, config: Config) -> None:
    """Put our layout before the theme's."""
    del app
    config.templates_path.append(str(Path(__file__).parent / "templates"))


def setup(app: Sphinx) -> None:
    """Choose when all others have asked for their files."""
    app.connect("config-inited", use_template)
    app.connect("html-page-context", choose, priority=900)
