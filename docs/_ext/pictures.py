"""Tell the browser how large each picture is and that it can wait, so that pages come fast and stay still."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from sphinx.application import Sphinx

IMAGE = re.compile(r'<img (?=[^>]*\bsrc="(?:\.\./)*_images/([^"]+)")(?![^>]*\b(?:loading|height)=)')


def describe(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Add to each picture of the page its size in pixels, of which the browser keeps the proportions."""
    from PIL import Image

    sources = {name: source for source, (_, name) in app.env.images.items()}

    def image(found: re.Match[str]) -> str:
        source = sources.get(unquote(found[1]))
        if source is None:  # not one that Sphinx put there
            return found[0]
        with Image.open(Path(app.srcdir, source)) as picture:
            width, height = picture.size
        return f'<img width="{width}" height="{height}" loading="lazy" decoding="async" '

    if "body" in context:
        context["body"] = IMAGE.sub(image, context["body"])


def setup(app: Sphinx) -> None:
    """Look at each page before it is written."""
    app.connect("html-page-context", describe)
