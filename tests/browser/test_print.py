"""Pages on paper: nothing that a reader sees may be cut off at the end of a sheet, or at the end of the page."""

from __future__ import annotations

import io
import unicodedata
from typing import Any

import pytest
from conftest import PAGES, SITE
from pypdf import PdfReader

TUTORIALS = [html for html in PAGES if html.startswith("tutorials/") and not html.endswith("index.html")]
# Each page once, in turn on either paper and in either theme: a printed page takes long to read.
SHEETS = ("A4", "dark"), ("Letter", "light")
PRINTED = [(html, *SHEETS[k % 2]) for k, html in enumerate([*TUTORIALS, "glossary.html", "install.html"])]
SEEN = """() => {
    const seen = of => [...document.querySelectorAll(of)].filter(one => one.checkVisibility());
    return [...seen("article :is(h1, h2, h3)").map(one => one.firstChild.textContent),
            ...seen("article div.highlight pre").flatMap(one => one.textContent.split("\\n"))];
}"""


def letters(text: str) -> str:
    """Return a text without blanks and ligatures, of which a PDF has its own."""
    return "".join(unicodedata.normalize("NFKC", text).split())


@pytest.mark.parametrize(("html", "paper", "theme"), PRINTED)
def test_every_heading_and_line_of_code_is_printed_whole(browser: Any, html: str, paper: str, theme: str) -> None:
    with browser.new_context(color_scheme=theme, reduced_motion="reduce") as context:
        page = context.new_page()
        page.goto((SITE / html).as_uri())
        page.emulate_media(media="print")
        expected = page.evaluate(SEEN)
        pdf = PdfReader(io.BytesIO(page.pdf(format=paper)))
    printed = letters("".join(sheet.extract_text() for sheet in pdf.pages))
    assert len(expected) > 5
    assert not [text for text in expected if letters(text) not in printed]
