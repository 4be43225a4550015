"""Ways through the site, by clicks: from each question on the home page to a page that runs, and from page to page."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from conftest import SITE

PAGE = SITE / "index.html"
# The question, the page that it leads to, and the link that leads on to a tutorial where the page is none itself.
QUESTIONS = {
    "My GPU is not found": ("doctor", "see that it works"),
    "Is it worth it?": ("tutorials/2_devices/07_when_the_gpu_wins", ""),
    "I want to write a kernel": ("tutorials/3_kernels/01_first_kernel", ""),
    "I want to image my data": ("tutorials/4_imaging/09_your_own_data", ""),
    "I have more than one GPU": ("tutorials/4_imaging/08_more_than_one_gpu", ""),
}
SCRIPT = "article a[href$='.py']"


def here(page):
    return Path(unquote(urlsplit(page.url).path)).relative_to(SITE).with_suffix("").as_posix()


def test_the_home_page_asks_these_questions_and_no_others(page):
    assert page.locator(".fl-questions dt").all_inner_texts() == list(QUESTIONS)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_leads_to_its_page_and_to_a_download(page, question):
    expected, onward = QUESTIONS[question]
    page.locator(".fl-questions dt").get_by_role("link", name=question, exact=True).click()
    assert here(page) == expected
    if onward:
        page.go_back()
        page.locator(".fl-questions").get_by_role("link", name=onward, exact=True).click()
    facts = page.locator("h1 + .fl-facts")
    for label in ("Level", "Tags", "Needs first", "Next", "Recorded"):
        assert facts.locator("dt", has_text=label).locator("+ dd").inner_text().strip(), label
    assert page.locator(".fl-next li a").count()
    script = page.locator(SCRIPT).last.get_attribute("href")
    assert (Path(unquote(urlsplit(page.url).path)).parent / script).resolve().is_file()


def test_the_keyboard_alone_leads_from_a_question_to_the_next_page(page):
    def tab_to(target):
        for _ in range(150):
            page.keyboard.press("Tab")
            if target.evaluate("link => link == document.activeElement"):
                return page.keyboard.press("Enter")
        raise AssertionError("the Tab key does not lead there")

    tab_to(page.get_by_role("link", name="I want to write a kernel"))
    page.wait_for_url("**/01_first_kernel.html")
    tab_to(page.locator(".fl-facts dt", has_text="Next").locator("+ dd a").first)
    page.wait_for_url("**/02_grids.html")
    assert page.locator("h1").inner_text().startswith("Which thread takes which pixel")


def test_each_path_behind_a_question_leads_to_pages_that_are_there(page):
    links = page.locator(".fl-questions dd a").evaluate_all("links => links.map(link => link.href)")
    assert len(links) >= 2 * len(QUESTIONS)
    assert not [link for link in links if not Path(unquote(urlsplit(link).path)).is_file()]


def test_every_tutorial_is_reached_by_next_from_the_first(page):
    ahead, seen = [(SITE / "tutorials/1_setup/01_find_your_gpu.html").as_uri()], set()
    while ahead:
        address = ahead.pop()
        if address not in seen:
            seen.add(address)
            page.goto(address, wait_until="commit")
            page.wait_for_selector(".fl-next", state="attached")
            links = page.locator(".fl-facts dt", has_text="Next").locator("+ dd a")
            ahead += links.evaluate_all("links => links.map(link => link.href)")
    tutorials = {path.as_uri() for path in SITE.glob("tutorials/*/[0-9][0-9]_*.html")}
    assert tutorials
    assert seen == tutorials


@pytest.mark.parametrize("width", [390, 1280])
def test_the_map_shows_one_of_its_two_forms_with_a_link_to_each_tutorial(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((SITE / "map.html").as_uri())
    shown = ".fl-map svg" if width > 960 else ".fl-map-list"
    links = page.locator(f"{shown} a").evaluate_all("links => links.map(link => link.href.baseVal || link.href)")
    tutorials = {path.relative_to(SITE).as_posix() for path in SITE.glob("tutorials/*/[0-9][0-9]_*.html")}
    assert {unquote(link).removeprefix(SITE.as_uri() + "/") for link in links} == tutorials
    assert page.locator(".fl-map svg").is_visible() == (width > 960)
    assert page.locator(".fl-map-list").is_visible() == (width < 960)


def test_a_box_of_the_map_with_the_focus_shows_its_arrows(page):
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto((SITE / "map.html").as_uri())
    arrows = page.locator(".fl-page", has=page.get_by_role("link", name="Puzzles")).locator(".fl-ways")
    assert not arrows.is_visible()
    page.get_by_role("link", name="Puzzles").first.focus()
    assert arrows.is_visible()


def test_a_tag_on_a_page_leads_to_its_line(page):
    page.goto((SITE / "tutorials/2_devices/04_timing_it_right.html").as_uri())
    page.locator(".fl-facts").get_by_role("link", name="measuring").click()
    assert here(page) == "map"
    assert "Timing it right" in page.locator("dt:has(:target) + dd").inner_text()


def test_the_page_for_lost_readers_searches_and_asks_the_questions(page):
    page.goto((SITE / "404.html").as_uri())
    assert page.locator(".fl-questions dt").all_inner_texts() == list(QUESTIONS)
    page.get_by_label("Search this site").fill("two words")
    asks = page.locator(".fl-search").evaluate("form => `${form.action}?${new URLSearchParams(new FormData(form))}`")
    assert asks == f"{(SITE / 'search.html').as_uri()}?q=two+words"


def test_the_figure_on_the_home_page_says_its_finding(page):
    assert page.get_by_role("img", name="To multiply two n × n matrices").is_visible()
