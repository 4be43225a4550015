"""Drag through the visibilities and through the noise: by mouse, finger and keyboard, and without a script."""

from __future__ import annotations

import json

import pytest
from conftest import SITE, opened

PAGE = SITE / "tutorials/4_imaging/07_off_the_grid.html"


def slide(page, name: str, value: float) -> None:
    page.locator(f'.fl-sliders [name="{name}"]').evaluate(
        "(one, value) => { one.value = value; one.dispatchEvent(new Event('input', {bubbles: true})); }", value
    )


def said(page) -> str:
    return " ".join(page.locator(".fl-sliders").get_by_role("status").inner_text().split())


def milliseconds(text: str) -> float:
    number, unit = text.split()
    return float(number.replace(",", "")) * {"ms": 1, "s": 1e3, "minutes": 6e4, "hours": 3.6e6}[unit]


def test_a_step_is_what_was_measured_or_the_model_s(page) -> None:
    costs = json.loads(page.locator(".fl-sliders").get_attribute("data-sliders"))["costs"]
    for power in (4, 5, 6, 6.5, 8):
        slide(page, "count", power - 4)
        for name, cost in costs.items():
            count = float(f"{10**power:.2g}")
            near = [seconds for many, seconds in cost["measured"] if abs(many / count - 1) < 0.05]
            right = near[0] if near else cost["start"] + cost["slope"] * count
            told = said(page).split("600 steps")[0].split(f"{name} ")[1].replace(".", ",", 0).split(",")[0].rstrip(". ")
            assert milliseconds(told) == pytest.approx(1e3 * right, rel=0.06), (power, name)
        assert ("By the model" in said(page)) == (power > 6)


def test_the_line_moves_with_the_slider(page) -> None:
    places = []
    for value in (0, 2, 4):
        slide(page, "count", value)
        places.append(page.locator(".fl-here").get_attribute("transform"))
    assert places == ["translate(50)", "translate(225)", "translate(400)"]


def test_one_level_is_shown_at_a_time(page) -> None:
    levels = page.locator(".fl-level")
    for chosen in range(levels.count()):
        slide(page, "signal", chosen)
        assert [one.is_visible() for one in levels.all()] == [at == chosen for at in range(levels.count())]
    assert "25,000 times as strong" in levels.last.inner_text()
    assert levels.last.locator("img").count() == 4
    assert all(one.evaluate("one => one.naturalWidth") == 64 for one in levels.last.locator("img").all())


def test_it_works_with_the_keyboard_alone(page) -> None:
    page.locator('.fl-sliders [name="count"]').focus()
    page.keyboard.press("End")
    assert page.locator('.fl-sliders [name="count"]').get_attribute("aria-valuetext") == "100,000,000"
    for _ in range(2):  # the table's summary, the second slider
        page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert page.locator('.fl-sliders [name="signal"]').get_attribute("aria-valuetext") == "25,000"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_telephone_in_both_themes(browser, theme: str) -> None:
    page = opened(browser, PAGE, color_scheme=theme, has_touch=True, viewport={"width": 390, "height": 844})
    for one in page.locator(".fl-sliders :is(input, summary)").all():
        assert one.bounding_box()["height"] >= 44
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.context.close()


def test_without_javascript_all_of_it_is_there(browser) -> None:
    page = opened(browser, PAGE, java_script_enabled=False)
    board = page.locator(".fl-sliders")
    assert not board.locator("input").first.is_visible()
    assert all(one.is_visible() for one in board.locator(".fl-level").all())
    assert "100,000,000" in board.locator("table").inner_text()
    page.context.close()


def test_only_this_page_loads_the_script(page) -> None:
    assert page.locator("script[src*='sliders.js']").count() == 1
    assert page.locator("script[src*='lanes.js']").count() == 0
    assert "sliders.js" not in (SITE / "index.html").read_text(encoding="utf-8")
