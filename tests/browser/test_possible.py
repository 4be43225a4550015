"""Is your number possible? The reader's number, by mouse, finger and keyboard, with and without JavaScript."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import SITE, opened, watched

from firstlight.lessons.plausibility import MISTAKES, Hardware, ReportedTime

PAGE = SITE / "tutorials/2_devices/03_is_it_possible.html"
BOARD = ".fl-possible"
HOSTILE = '<img src=x onerror="document.title=1">'
# Sets the sliders, each with its event, and reads what is said then.
SET = """
settings => {
    for (const [name, value] of settings) {
        const input = document.querySelector(`.fl-possible [name="${name}"]`);
        input.value = value;
        input.dispatchEvent(new Event("input", {bubbles: true}));
    }
    return document.querySelector(".fl-possible [role=status]").textContent;
}
"""


def slide(page: Any, *settings: tuple[str, float]) -> str:
    return page.evaluate(SET, settings)


def hardware(page: Any) -> dict[str, Hardware]:
    board = json.loads(page.locator(".fl-possible").get_attribute("data-possible"))
    return {name: Hardware(**rates) for name, rates in board["hardware"].items()}


def kind(page: Any) -> str:
    return page.locator(".fl-said").get_attribute("data-kind")


def point(page: Any) -> float:
    """Where the reader's point is across the drawing."""
    box = page.locator(".fl-here path").bounding_box()
    return box["x"] + box["width"] / 2


def test_a_report_is_judged_when_it_is_chosen(page: Any) -> None:
    for number, judged, first in (
        (1, "impossible-twice", "not-waiting"),
        (2, "impossible", "unequal-work"),
        (3, "impossible", "not-waiting"),
    ):
        page.locator(".fl-controls select").first.select_option(index=number)
        assert kind(page) == judged
        assert MISTAKES[first].test in page.locator(".fl-possible [role=status]").inner_text()


def test_every_setting_is_judged_as_python_judges(page: Any) -> None:
    """One rule, written twice: the page's script and ReportedTime say the same words."""
    known = hardware(page)
    for name in ("GTX 1650", "H200", *[name for name, one in known.items() if one.measured]):
        page.locator(".fl-controls select").last.select_option(label=name)
        for exponent in (6.0, 7.6, 8.2, 8.7, 11.0):
            for flops in (None, 9.0, 13.3):
                for seconds in (-6, -4.43, -3.3, -2.51, -2.0, -0.57, 1):
                    told = slide(page, ("bytes", exponent), ("flops", flops or 6), ("seconds", seconds))
                    report = ReportedTime("it", 10**seconds, known[name], 10**exponent, 10**flops if flops else None)
                    assert told.startswith(report.sentence), (report, told)
                    first = MISTAKES[report.suspects[0]].title
                    assert first in told.removeprefix(report.sentence).partition(MISTAKES[report.suspects[0]].test)[0]


def test_numbers_can_be_typed(page: Any) -> None:
    field = page.get_by_label("Type it")
    page.locator(".fl-controls select").last.select_option(label="H200")
    field.fill("1.2 GB in 3.1 ms, with 2 GFLOP")
    told = page.locator(".fl-possible [role=status]").inner_text()
    report = ReportedTime("it", 3.1e-3, hardware(page)["H200"], 1.2e9, 2e9)
    assert told.startswith(report.sentence)
    for nothing in ("", "abc", "0 s", "1..2 s", "1e999 B", HOSTILE):
        field.fill(nothing)
        assert page.locator(".fl-possible [role=status]").inner_text() == told


def test_it_works_with_the_keyboard_alone(page: Any) -> None:
    where = point(page)
    time = page.get_by_role("slider", name="Time")
    time.focus()
    before = time.get_attribute("aria-valuetext")
    for _ in range(5):
        page.keyboard.press("PageUp")
    assert point(page) > where
    assert time.get_attribute("aria-valuetext") != before
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator(".fl-possible details").get_attribute("open") is not None


def test_the_point_can_be_dragged(page: Any) -> None:
    page.locator(".fl-controls select").first.select_option(index=2)  # near the floor: there is room on both sides
    page.locator(".fl-possible > svg").evaluate("one => one.scrollIntoView({block: 'center', behavior: 'instant'})")
    box = page.locator(".fl-here path").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y, steps=4)
    assert kind(page) == "possible"
    page.mouse.move(x - 150, y, steps=4)
    page.mouse.up()
    assert kind(page) == "impossible"
    page.mouse.move(x + 100, y)
    assert point(page) == pytest.approx(x - 150, abs=3)  # let go


def test_it_works_with_a_finger(telephone: Any) -> None:
    assert MISTAKES["first-call"].test in slide(telephone, ("seconds", 1))
    assert telephone.locator(".fl-here circle").bounding_box()["width"] >= 40


def test_without_javascript_all_is_there(bare: Any) -> None:
    board = bare.locator(".fl-possible")
    assert not any(one.is_visible() for one in board.locator("input, select, button").all())
    for mistake in MISTAKES.values():
        assert mistake.title in board.inner_text()
        assert mistake.test in board.inner_text()
    assert "Impossible: " in board.inner_text()


CONTRAST = """
element => {
    const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const linear = (c) => c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4;
    const light = (colour) => {
        const [red, green, blue] = numbers(colour).map(linear);
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const paper = (one) => getComputedStyle(one).backgroundColor;
    let behind = element;
    while (behind.parentElement && (numbers(paper(behind))[3] ?? 1) === 0) behind = behind.parentElement;
    const both = [light(getComputedStyle(element).fill), light(paper(behind))];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
}
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_in_drawings_can_be_read_in_both_themes(browser: Any, theme: str) -> None:
    """The colours of texts outside drawings are looked at by axe, on every page."""
    page = opened(browser, PAGE, color_scheme=theme)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    texts = page.locator(".fl-possible > svg > text")
    assert texts.count()
    assert min(texts.evaluate_all(f"all => all.map({CONTRAST})")) >= 4.5
    page.context.close()


def test_hostile_names_are_only_text(browser: Any, page: Any) -> None:
    board = json.loads(page.locator(".fl-possible").get_attribute("data-possible"))
    board["mistakes"]["not-waiting"]["title"] = HOSTILE
    other = watched(browser.new_context())
    other.add_init_script(
        "document.addEventListener('readystatechange', () => { const one = document.querySelector('.fl-possible');"
        f"if (one && document.readyState === 'interactive') one.dataset.possible = {json.dumps(json.dumps(board))}; }})"
    )
    other.goto(PAGE.as_uri())
    assert HOSTILE in slide(other, ("seconds", -6))
    assert other.locator(".fl-possible img").count() == 0
    assert other.title() != "1"
    other.context.close()
