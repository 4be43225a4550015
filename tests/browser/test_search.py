"""The search: a key opens it anywhere, and its page finds words of the pages and errors that the doctor explains."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import SITE, opened

PAGE = SITE / "tutorials/1_setup/02_first_speedup.html"


def test_a_key_and_a_word_lead_to_the_results(page: Any) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("coalescing")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=coalescing")
    page.locator("#search-results li a").first.wait_for()
    links = page.locator("#search-results li a").evaluate_all("all => all.map(one => one.href)")
    assert any("03_coalescing.html" in link for link in links)
    page.locator("#search-results li a").first.click()
    assert page.locator("h1").is_visible()


@pytest.mark.parametrize("query", ["system not yet initialized", "nouveau"])
def test_an_error_leads_to_its_cause(browser: Any, query: str) -> None:
    page = opened(browser, SITE / "search.html")
    page.locator("form.bd-search input").last.fill(query)
    page.keyboard.press("Enter")
    page.locator("#search-results li a").first.wait_for()
    links = page.locator("#search-results li a").evaluate_all("all => all.map(one => one.href)")
    assert any("doctor.html" in link for link in links)
    page.context.close()
