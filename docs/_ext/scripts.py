"""What readers can move and play with: a script for each, loaded only by the pages that have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SCRIPTS = {"fl-possible": "possible.js", "fl-replay": "possible.js", "fl-lanes": "lanes.js", "fl-sliders": "sliders.js"}


def load_scripts(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Load what the classes on a page ask for."""
    body = context.get("body", "")
    scripts = dict.fromkeys(script for name, script in SCRIPTS.items() if f'class="{name}"' in body)
    for script in ("chart.js", *scripts) if scripts else ():
        app.add_js_file(script, loading_method="defer")


def setup(app: Sphinx) -> None:
    """Register the scripts, which are served with that of the timings."""
    app.connect("html-page-context", load_scripts)
