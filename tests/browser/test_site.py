"""Every page, in both themes and both widths, opened once a theme."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from checks import OVERFLOW, barriers, paper, pictures_and_tables

SIZES = {1280: 800, 390: 844}


@pytest.fixture(scope="module")
def contexts(browser) -> Iterator[dict[str, Any]]:
    """One for each theme: what a page loads is there for the next one."""
    made = {theme: browser.new_context(color_scheme=theme, reduced_motion="reduce") for theme in ("light", "dark")}
    yield made
    for context in made.values():
        context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page(contexts, address, theme):
    """It asks nobody for anything, reports no error, fits screen and paper, and keeps nobody out."""
    problems = []
    page = contexts[theme].new_page()
    page.on("request", lambda asked: outside(asked.url) and problems.append(f"asks for {asked.url}"))
    page.on("requestfailed", lambda asked: problems.append(f"cannot have {asked.url}: {asked.failure}"))
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("console", lambda line: line.type == "error" and problems.append(f"console: {line.text}"))
    page.on("websocket", lambda socket: problems.append(f"opens {socket.url}"))
    page.goto(address, wait_until="networkidle")
    if page.evaluate("document.documentElement.dataset.theme") != theme:
        problems.append(f"is not {theme}")
    problems += pictures_and_tables(page)
    problems += paper(page)
    for check in (lambda: page.evaluate(OVERFLOW), lambda: barriers(page, theme)):  # axe is given a thinner page
        for width, height in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            problems += [f"at {width} px: {problem}" for problem in check()]
    page.close()
    assert not problems, f"{theme}: " + f"\n{theme}: ".join(problems)


def outside(url):
    return urlsplit(url).scheme not in {"file", "data", "blob"}
