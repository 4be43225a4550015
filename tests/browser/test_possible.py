"""Is your number possible? The reader's number, by mouse, finger and keyboard, with and without JavaScript."""

from __future__ import annotations

import json
import math

import pytest
from conftest import SITE, opened

from firstlight.measure.possible import MISTAKES, Claim, Place

PAGE = SITE / "tutorials/2_devices/03_timing_it_wrong.html"
HOSTILE = '<img src=x onerror="document.title=1">'


def data(page) -> dict:
    return json.loads(page.locator(".fl-possible").get_attribute("data-possible"))


def said(page) -> str:
    return page.locator(".fl-possible").get_by_role("status").inner_text()


def point(page) -> float:
    """Where the reader's point is across the drawing."""
    box = page.locator(".fl-mine path").bounding_box()
    return box["x"] + box["width"] / 2


def set_slider(page, label: str, value: float) -> None:
    page.get_by_role("slider", name=label).evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input', {bubbles: true})); }", value
    )


def test_a_report_is_judged_when_it_is_chosen(page) -> None:
    claim = page.get_by_label("Start from")
    for number, says, first in [
        (1, "Impossible: 3.10 ms is 0.84 of the floor", "unequal work"),
        (3, "Impossible: 10.4 µs is 0.033 of the floor", "not waiting"),
        (5, "if it were free, the memory would still need 1.67 ms", "not waiting"),
    ]:
        claim.select_option(index=number)
        assert says in said(page)
        assert f"Look first for: {first}." in said(page)
        chart = page.locator(".fl-possible .fl-replay")
        assert MISTAKES[chart.get_attribute("data-mistake")].title == first


def test_every_setting_is_judged_as_python_judges(page) -> None:
    """One rule, written twice: the page's script and Claim say the same words."""
    board = data(page)
    places = {name: Place(**place) for name, place in board["places"].items()}
    places = {name: places[name] for name in ("GTX 1650", "H200", *[n for n, p in places.items() if p.measured])}
    for name, place in places.items():
        page.get_by_role("combobox", name="Card").select_option(label=name)
        for exponent in (6.0, 7.6, 8.7, 11.0):
            set_slider(page, "Bytes moved", exponent)
            for flops in (None, 9.0, 13.3):
                set_slider(page, "Operations", flops or 6)
                for seconds in (-6, -4.43, -3.3, -2.51, -2.0, -0.57, 1):
                    set_slider(page, "Time", seconds)
                    claim = Claim("it", 10**seconds, place, 10**exponent, 10**flops if flops else None)
                    told = " ".join(said(page).split())
                    assert told.startswith(claim.sentence), (claim, told)
                    assert f"Look first for: {MISTAKES[claim.suspects[0]].title}." in told


PLAYS = "one => one.getAnimations().length"


def test_it_works_with_the_keyboard_alone(page) -> None:
    before, where = said(page), point(page)
    time = page.get_by_role("slider", name="Time")
    time.focus()
    assert time.evaluate("one => one === document.activeElement")
    for _ in range(5):
        page.keyboard.press("PageUp")
    assert said(page) != before
    assert point(page) > where
    assert time.get_attribute("aria-valuetext") in said(page) or "Possible" in said(page)
    assert page.get_by_label("Start from").input_value() == "your own number"
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert "not counted" not in page.get_by_role("slider", name="Operations").get_attribute("aria-valuetext")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator(".fl-possible .fl-bars").evaluate(PLAYS) > 0
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator(".fl-possible details").get_attribute("open") is not None


def test_the_point_can_be_dragged(page) -> None:
    page.locator(".fl-possible > svg").evaluate("one => one.scrollIntoView({block: 'center', behavior: 'instant'})")
    box = page.locator(".fl-mine path").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y, steps=4)
    assert "Possible" in said(page)
    page.mouse.move(x - 150, y, steps=4)
    page.mouse.up()
    assert "Impossible" in said(page)
    now = said(page)
    page.mouse.move(x + 100, y)
    assert said(page) == now  # let go
    assert point(page) == pytest.approx(x - 150, abs=3)


def test_it_works_with_a_finger(browser) -> None:
    page = opened(browser, PAGE, has_touch=True, viewport={"width": 390, "height": 844})
    set_slider(page, "Time", 1)
    assert page.locator(".fl-possible .fl-replay").get_attribute("data-mistake") == "first-call"
    page.locator(".fl-possible button").tap()
    assert page.locator(".fl-possible .fl-bars").evaluate(PLAYS) > 0
    for control in page.locator(".fl-possible :is(select, input, button, summary)").all():
        assert control.bounding_box()["height"] >= 44
    width = page.locator(".fl-mine circle").bounding_box()["width"]
    assert width >= 40
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not page.problems
    page.context.close()


def test_a_chart_plays_and_ends_as_it_was(page) -> None:
    """What is uncovered is as wide as the axis, whatever bars there are."""
    figure = page.locator(".fl-possible .fl-replay")
    bars, hand = figure.locator(".fl-bars"), figure.locator(".fl-hand")
    assert hand.evaluate("one => getComputedStyle(one).visibility") == "hidden"
    figure.get_by_role("button", name="Replay").click()
    for one in (bars, hand):
        one.evaluate("one => { const [run] = one.getAnimations(); run.pause(); run.currentTime = 1250; }")
    assert bars.evaluate("one => getComputedStyle(one).clipPath") == "inset(0px 50% 0px 0px)"
    assert hand.evaluate("one => getComputedStyle(one).visibility") == "visible"
    across = "one => { const box = one.getBBox(); return [box.x, box.width]; }"
    axis = figure.locator("path[d*=h]").evaluate(across)
    assert bars.evaluate(across) == pytest.approx(axis, abs=1.5)
    middle = hand.evaluate("one => new DOMMatrix(getComputedStyle(one).transform).e")
    assert middle == pytest.approx(axis[1] / 2, abs=0.1)
    for one in (bars, hand):
        one.evaluate("one => one.getAnimations()[0].finish()")
    assert bars.evaluate("one => getComputedStyle(one).clipPath") == "none"
    assert hand.evaluate("one => getComputedStyle(one).visibility") == "hidden"


def test_nothing_moves_for_those_who_want_no_motion(browser) -> None:
    page = opened(browser, PAGE, reduced_motion="reduce")
    assert page.get_by_role("button", name="Replay").count() == 0
    page.context.close()


def test_without_javascript_all_is_there(browser) -> None:
    page = opened(browser, PAGE, java_script_enabled=False)
    board = page.locator(".fl-possible")
    assert board.locator("input, select, button").count() == 0
    assert "Impossible: 10.4 µs is 0.033 of the floor" in board.inner_text()
    for mistake in MISTAKES.values():
        assert mistake.title in board.inner_text()
        assert mistake.test in board.inner_text()
    assert page.locator(".fl-replay").count() == len(MISTAKES)
    assert board.locator(".fl-mine").get_attribute("visibility") == "hidden"
    page.context.close()


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
    const style = getComputedStyle(element);
    const [low, high] = [light(element.closest("svg") ? style.fill : style.color), light(paper(behind))].sort();
    return (Math.max(low, high) + 0.05) / (Math.min(low, high) + 0.05);
}
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_can_be_read_in_both_themes(browser, theme: str) -> None:
    page = opened(browser, PAGE, color_scheme=theme)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    texts = ".fl-controls label span, .fl-controls .fl-value, .fl-verdict-text, .fl-play, .fl-replay figcaption, "
    texts += ".fl-possible > svg > text, .fl-replay svg text, .fl-possible dd, .fl-possible summary"
    for one in page.locator(texts).all():
        assert one.evaluate(CONTRAST) >= 4.5, one.inner_html()
    page.context.close()


def test_hostile_names_are_only_text(browser) -> None:
    page = opened(browser, PAGE, java_script_enabled=False)
    html = PAGE.read_text(encoding="utf-8")
    page.context.close()
    board = data(opened(browser, PAGE))
    board["claims"][0]["name"] = board["mistakes"]["not-waiting"]["title"] = HOSTILE
    board["places"][HOSTILE] = board["places"]["H200"]
    board["claims"][0]["place"] = HOSTILE
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(
        "document.addEventListener('readystatechange', () => { const one = document.querySelector('.fl-possible');"
        f"if (one && document.readyState === 'interactive') one.dataset.possible = {json.dumps(json.dumps(board))}; }})"
    )
    page.goto(PAGE.as_uri())
    assert HOSTILE in page.get_by_label("Start from").inner_text()
    assert HOSTILE in page.get_by_role("combobox", name="Card").inner_text()
    set_slider(page, "Time", -6)
    assert HOSTILE in said(page)
    assert page.locator(".fl-possible img").count() == 0
    assert page.title() != "1"
    assert HOSTILE not in html
    context.close()


def test_only_this_page_loads_the_script(page) -> None:
    assert page.locator("script[src*='possible.js']").count() == 1
    assert "possible.js" in PAGE.read_text(encoding="utf-8")
    assert "possible.js" not in (SITE / "index.html").read_text(encoding="utf-8")


def test_the_point_stays_on_the_axis(page) -> None:
    box = page.locator(".fl-possible > svg").bounding_box()
    for seconds in (-6, 1):
        set_slider(page, "Time", seconds)
        assert box["x"] <= point(page) <= box["x"] + box["width"]
        assert math.isfinite(point(page))
