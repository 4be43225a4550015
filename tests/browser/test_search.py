"""The search: a key opens it anywhere, and its page finds words of the pages and errors that the doctor explains."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import SITE

PAGE = SITE / "tutorials/1_setup/02_first_speedup.html"


FOUND = [
    ("coalescing", "05_coalescing.html"),
    ("nouveau", "doctor.html"),
    ("not yet initialized", "doctor.html"),
    ("out of memory", "2_devices/10_memory.html"),
    ("pin_memory", "2_devices/08_pinned_memory.html"),
]


@pytest.mark.parametrize(("query", "found"), FOUND)
def test_a_key_and_words_lead_to_the_page_that_explains_them(page: Any, query: str, found: str) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type(query)
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=*")
    result = page.locator("#search-results li").first
    result.wait_for()  # they come one after the other
    assert found in result.locator("a").get_attribute("href"), "the page that explains it comes first"
    assert len(result.locator("a + span").inner_text()) > 40, "with a line about it"
