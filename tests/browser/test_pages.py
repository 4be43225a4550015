"""Every page, opened once with JavaScript and once without; and each check finds what it is there for."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from checks import BARE, OVERFLOW, TABLES, TEXTS, barriers, paper, pictures_and_tables, wait_until
from conftest import PAGES, SITE, watched

SIZES = {1280: 800, 390: 844}
KB = 1024
FIRST, AGAIN = 170 * KB, 20 * KB
PACKED = {".html", ".css", ".js", ".json", ".txt"}
PICTURES = {".webp", ".png", ".jpg", ".svg"}
READ_BEFORE = "tutorials/4_imaging/04_visibilities.html"  # by somebody who comes again
APART = re.compile(rb'<svg.*?</svg>|<details class="fl-fold"><summary>What the doctor prints.*?</details>', re.DOTALL)
SEARCH = {"search-index.js", "doctor-causes.js"}


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    made = browser.new_context(color_scheme="light", reduced_motion="reduce")
    yield made
    made.close()


@pytest.fixture(scope="module")
def without_script(browser: Any) -> Iterator[Any]:
    page = browser.new_context(java_script_enabled=False, color_scheme="dark").new_page()
    yield page
    page.context.close()


def visit(context: Any, html: str) -> tuple[Any, set[str]]:
    """A page, when all is there, and the files of the site that it brought."""
    page = watched(context)
    page.goto((SITE / html).as_uri())
    page.evaluate("document.fonts.ready.then(() => true)")
    return page, {name(address) for address in page.asked if address.startswith("file:")}


def name(address: str) -> str:
    return Path(unquote(urlsplit(address).path)).relative_to(SITE).as_posix()


@pytest.fixture(scope="module")
def had(context: Any) -> set[str]:
    page, files = visit(context, READ_BEFORE)
    page.close()
    return files


@cache
def weight(path: str) -> int:
    """A file's bytes, packed as servers pack it; in a page, figures and records are apart."""
    content = (SITE / path).read_bytes()
    if path.endswith(".html"):
        content = APART.sub(b"", content)
    return len(gzip.compress(content, 6)) if Path(path).suffix in PACKED else len(content)


def too_much(html: str, files: set[str], had: set[str]) -> list[str]:
    """What a visit brings beyond what it may, pictures apart."""
    files = {path for path in files if Path(path).suffix not in PICTURES}
    search = {path for path in files if Path(path).name in SEARCH}
    problems = ["the search is loaded before it is used"] * bool(search)
    for kind, brought, most in (("first", files, FIRST), ("another", files - had - {html}, AGAIN)):
        if sum(map(weight, brought)) > most:
            parts = ", ".join(f"{path} {weight(path) / KB:.1f}" for path in sorted(brought, key=weight, reverse=True))
            problems.append(f"{kind} visit, over {most / KB:.0f} KB: {parts}")
    return problems


@pytest.mark.parametrize("html", PAGES)
def test_page(context: Any, had: set[str], html: str) -> None:
    """It asks nobody for anything, reports no error, weighs little, fits screen and paper, and keeps nobody out."""
    page, files = visit(context, html)
    problems = page.problems
    problems += too_much(html, files, had) + pictures_and_tables(page) + paper(page)
    for check in (lambda theme: page.evaluate(OVERFLOW), lambda theme: barriers(page, theme)):  # axe thins the page
        for width, height in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            problems += [f"at {width} px: {problem}" for problem in check("light")]
    page.emulate_media(color_scheme="dark")
    wait_until(page, "document.documentElement.dataset.theme === 'dark'")
    for width, height in reversed(SIZES.items()):
        page.set_viewport_size({"width": width, "height": height})
        problems += [f"dark, at {width} px: {problem}" for problem in barriers(page, "dark")]
    page.close()
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("html", PAGES)
def test_page_without_javascript(without_script: Any, html: str) -> None:
    without_script.goto((SITE / html).as_uri())
    problems = without_script.evaluate(BARE) + without_script.evaluate(OVERFLOW)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("html", ["vocabulary.html", "numpy_to_pytorch.html", "copies_and_waits.html", "tclean.html"])
def test_names_in_tables_break_at_their_joints(context: Any, html: str) -> None:
    page, _ = visit(context, html)
    page.set_viewport_size({"width": 390, "height": 844})
    broken = page.evaluate("""() => {
        const pieces = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
        const found = [], range = document.createRange();
        while (pieces.nextNode()) {
            if (!pieces.currentNode.parentElement.closest("table .pre")) continue;
            range.selectNode(pieces.currentNode);
            if (range.getClientRects().length > 1) found.push(pieces.currentNode.data);
        }
        return found;
    }""")
    page.close()
    assert not [piece for piece in broken if "-" not in piece]


ONE_OF_EACH = """
<html lang="en" data-theme="light"><head><title>Broken on purpose</title></head><body><main><article class="bd-article">
<h1>Title</h1>
<div style="background: #fff; color: #ccc">Hard to read</div> <a href="#x"></a>
<p style="color: #767676">As it should be</p><div style="background: #ddd"><p style="color: #767676">Same ink</p></div>
<pre><span class="k" style="color: #eee; background: #fff">for</span> <span class="k">if</span></pre>
<img src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=" alt="image">
<svg role="img" aria-label="plot.png"></svg>
<table><tr><th>a</th></tr><tr><td>1</td></tr></table>
<button>On paper</button><div style="width: 2000px">Wide</div>
</article></main></body></html>
"""


def test_each_check_finds_something(browser: Any) -> None:
    page = browser.new_page()
    page.set_content(ONE_OF_EACH)
    checks = [TEXTS, TABLES, OVERFLOW, BARE]
    found = [one for check in checks for one in page.evaluate(check)] + paper(page)
    for width, style in ((1280, ""), (390, "body { color: #ddd; background: #fff }")):
        page.set_viewport_size({"width": width, "height": 800})
        page.add_style_tag(content=style or "/* none */")
        found += [f"{width}: {one}" for one in barriers(page, "light")]
    page.close()
    files = {path.relative_to(SITE).as_posix() for path in SITE.glob("_static/**/*") if path.is_file()}
    found += too_much("404.html", files, set())
    for problem in ("alternative text of", "text of a drawing", "without a caption", "without a scope", "on paper",
                    "wider than the page", "a dead control", "1280: link-name", "1280: color-contrast",
                    ">Hard to read<", ">Same ink<", ">for</span>", "390: color-contrast",
                    "the search is loaded", "first visit, over", "another visit"):  # fmt: skip
        assert any(problem in one for one in found), problem
    assert not any(">As it should be<" in one for one in found)


@pytest.mark.parametrize(("stored", "system"), [(None, "dark"), ("dark", "light"), ("light", "dark")])
def test_the_theme_is_there_before_the_first_paint(browser: Any, stored: str | None, system: str) -> None:
    """The theme's own script is taken away: what is dark now was dark when the body began."""
    context = browser.new_context(color_scheme=system)
    context.route("**/pydata-sphinx-theme.js*", lambda route: route.abort())
    if stored:
        context.add_init_script(f"localStorage.setItem('mode', '{stored}'); localStorage.setItem('theme', '{stored}')")
    page = context.new_page()
    page.goto((SITE / "index.html").as_uri())
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    context.close()
    assert (paper == "rgb(20, 24, 30)") == ((stored or system) == "dark")
