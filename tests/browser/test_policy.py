"""No script stands in a page, so none of a stranger's runs: not of a record, an address or a text that is pasted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from conftest import PAGES, SITE, watched
from hostile import HOSTILE, RUN
from playwright.sync_api import Error

PAGE = SITE / "404.html"
TOUCH = """() => {
    for (const one of document.querySelectorAll(".fl-figure, .fl-figure *, .fl-figure ~ *:not(h1, h1 ~ *)")) {
        one.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
        if (one.localName === "a") one.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}));
    }
}"""
HOSTILE_WORDS = f"<img src=x onerror={RUN}>'\"><script>{RUN}</script>${{{RUN}}} javascript:{RUN}"


def ran(context: Any, body: str, svg: str) -> bool:
    """Whether a drawing runs anything when it stands in the page, is pointed at, and gets the focus."""
    with context.new_page() as page:
        return _ran(context, page, body, svg)


def _ran(context: Any, page: Any, body: str, svg: str) -> bool:
    html = body.replace("<h1>", f"<figure class=fl-figure>{svg}</figure><h1>", 1)
    page.route("**/404.html", lambda route: route.fulfill(body=html, content_type="text/html"))
    page.route(lambda asked: "127.0.0.1" not in asked, lambda route: route.abort())
    page.goto(f"http://127.0.0.1:{context.port}/404.html")
    with suppress(Error):  # one refreshes the page, which may be gone before
        page.evaluate(TOUCH)
    page.wait_for_timeout(50)
    with suppress(Error):
        return page.title() == "run"
    return False


@pytest.fixture(scope="module")
def context(browser: Any, address: str) -> Iterator[Any]:
    made = browser.new_context()
    made.port = address.rpartition(":")[2]
    yield made
    made.close()


@pytest.mark.parametrize("svg", HOSTILE)
def test_no_drawing_runs_even_if_it_got_onto_a_page(context: Any, svg: str) -> None:
    """The reader of records refuses all of these (tests/records/test_schema.py); this is the second wall."""
    assert not ran(context, PAGE.read_text(encoding="utf-8"), svg)


def test_without_the_policy_many_would_run(context: Any) -> None:
    bare = PAGE.read_text(encoding="utf-8").replace("Content-Security-Policy", "nothing")
    assert sum(ran(context, bare, svg) for svg in HOSTILE) > 10


@pytest.mark.parametrize("served", [True, False])
def test_addresses_are_words_and_nothing_else(browser: Any, address: str, served: bool) -> None:
    words = quote(HOSTILE_WORDS)
    page = watched(browser.new_context())
    for html in ("index", "search", "doctor", "your_gpu", "tutorials/2_devices/11_when_the_gpu_wins"):
        start = address if served else SITE.as_uri()
        page.goto(f"{start}/{html}.html?q={words}&error={words}&highlight={words}#{words}")
        page.wait_for_timeout(300)
        assert page.title() != "run", html
    assert not page.problems
    page.context.close()


def test_every_page_works_from_a_server_too(browser: Any, address: str) -> None:
    """From a folder, test_pages opens them; a breach of the policy is an error of the console."""
    page = watched(browser.new_context())
    for html in PAGES:
        page.goto(f"{address}/{html}")
    assert not page.problems
    page.context.close()
