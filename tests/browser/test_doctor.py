"""The box for errors on the page of the doctor, and how the site's search leads there."""

from __future__ import annotations

from itertools import pairwise

import pytest
from conftest import SITE, missing

from firstlight.doctor.rules import RULES

PAGE = SITE / "doctor.html"
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script> nouveau'


PASTE_EACH = """
texts => texts.map(text => {
    const box = document.querySelector(".fl-paste");
    box.querySelector("textarea").value = text;
    box.querySelector("textarea").dispatchEvent(new Event("input"));
    return [...box.querySelectorAll("li a")].map(link => link.hash.slice(1));
})
"""


@pytest.fixture(scope="module")
def page(browser):
    if not PAGE.exists():
        missing(f"there is no {PAGE}: build the site first (make docs)")
    context = browser.new_context()
    page = context.new_page()
    page.goto(PAGE.as_uri())
    yield page
    context.close()


def paste(page, text: str) -> list[str]:
    """The causes that are listed for an error."""
    page.get_by_label("Paste an error").fill(text)
    return page.locator(".fl-paste li a").evaluate_all("links => links.map(link => link.hash.slice(1))")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_error_leads_to_its_cause(page, rule) -> None:
    texts = [f"Traceback (most recent call last):\n  RuntimeError: {text.upper()}.\n" for text in rule.says]
    texts += [text.replace(" ", "\n   ") for text in rule.says]
    for text, listed in zip(texts, page.evaluate(PASTE_EACH, texts), strict=True):
        assert rule.code in listed, text


@pytest.mark.parametrize("text", ["", "ab", "NameError: name 'x' is not defined", "line 46, in <module>", "Error 8020"])
def test_what_is_in_no_error_leads_nowhere(page, text) -> None:
    assert paste(page, text) == []


@pytest.mark.parametrize("text", ["CUDA error 802", "no kernel image", "libnvrtc", "Driver/library version mismatch"])
def test_what_readers_type_leads_somewhere(page, text) -> None:
    assert paste(page, text)
    assert "fit" in page.get_by_role("status").inner_text()


def test_the_number_of_causes_is_said(page) -> None:
    listed = paste(page, "No CUDA GPUs are available")
    assert page.get_by_role("status").inner_text().startswith(f"{len(listed)} cause")
    paste(page, "zzz")
    assert page.get_by_role("status").inner_text().startswith("No cause")


def test_what_is_pasted_is_only_text(page) -> None:
    title = page.title()
    assert "nouveau" in paste(page, HOSTILE)
    assert page.locator(".fl-paste img, .fl-paste script").count() == 0
    assert page.title() == title


def test_it_works_with_the_keyboard(page) -> None:
    page.get_by_label("Paste an error").focus()
    page.keyboard.type("vermagic nouveau")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector(location.hash).matches('.fl-cause')")


def test_without_javascript_there_is_no_box_and_every_cause(browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(PAGE.as_uri())
    assert not page.get_by_label("Paste an error").is_visible()
    assert page.locator(".fl-cause").count() == len(RULES) + 1
    context.close()


def test_headings_go_down_by_one(page) -> None:
    levels = (
        page.locator("article").locator("h1, h2, h3, h4, h5, h6").evaluate_all("all => all.map(one => +one.tagName[1])")
    )
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize(
    "query", ["802", "CUDA error 802", "libnvrtc", "no kernel image", "Driver/library version mismatch"]
)
def test_the_search_of_the_site_finds_it(browser, query) -> None:
    page = browser.new_page()
    page.goto(f"{(SITE / 'search.html').as_uri()}?q={query.replace('/', '%2F')}")
    page.locator("#search-results li a").first.wait_for()
    found = page.locator("#search-results li a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    page.close()
    assert any("doctor.html" in link for link in found)
