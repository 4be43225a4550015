"""The page on which readers step through the requests of a warp: its script, and only there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def load_script(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Load lanes.js where there is a picture of lanes for it."""
    if 'class="fl-lanes"' in context.get("body", ""):
        app.add_js_file("lanes.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    """Register the script, which is served with that of the timings."""
    app.connect("html-page-context", load_script)
