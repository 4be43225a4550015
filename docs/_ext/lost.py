"""The page for addresses that do not exist: a host shows it at any depth, so its links begin at the site's root."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from sphinx.application import Sphinx

RELATIVE = re.compile(r'(\s(?:href|src|action|data-content_root)=")(?:\./)?(?![a-z]+:|[/#])')


def root_links(app: Sphinx, error: Exception | None) -> None:
    """Write the links of 404.html out, where the address of the site is known; elsewhere they stay relative."""
    page = Path(app.outdir) / "404.html"
    root = urlsplit(app.config.html_baseurl).path
    if root and not error and page.is_file():
        page.write_text(RELATIVE.sub(rf"\g<1>{root}", page.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Go last: the theme writes links, too."""
    app.connect("build-finished", root_links)
