"""The page on which readers judge a number of their own: its script, and only there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def load_script(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Load possible.js where there is a board or a chart for it."""
    body = context.get("body", "")
    if 'class="fl-possible"' in body or 'class="fl-replay"' in body:
        app.add_js_file("possible.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    """Register the script, which is served with that of the timings."""
    app.connect("html-page-context", load_script)
