"""The site with the keyboard alone."""

from __future__ import annotations

from typing import Any

import pytest
from checks import wait_until
from conftest import SITE, opened

PAGE = SITE / "tutorials/1_setup/02_first_speedup.html"
FOCUSED = """
() => {
    const one = document.activeElement;
    if (one === document.body) return null;
    const target = one.matches(".sd-tab-set > input") ? one.nextElementSibling : one;
    const looks = [getComputedStyle(target), getComputedStyle(target, "::after"),
        ...[...target.children].slice(0, 1).map(child => getComputedStyle(child))];
    return {what: one.outerHTML.slice(0, 120), seen: target.checkVisibility(),
            marked: looks.some(({outlineStyle, outlineWidth, boxShadow}) =>
                outlineStyle !== "none" && parseFloat(outlineWidth) > 0 || boxShadow !== "none")};
}
"""


def what(page: Any) -> str:
    return str(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))


def test_the_first_stop_leads_past_the_menus(page: Any) -> None:
    page.keyboard.press("Tab")
    assert "#main-content" in what(page)
    assert page.locator("#pst-skip-link").is_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('#main-content').contains(document.activeElement)")


@pytest.mark.parametrize(
    "name", ["tutorials/1_setup/02_first_speedup", "index", "install", "tutorials/3_kernels/05_coalescing"]
)
def test_every_stop_is_seen(browser: Any, name: str) -> None:
    """Every control is a stop, and the one that has the focus looks as if it had."""
    page = opened(browser, SITE / f"{name}.html")
    problems, stops = [], set()
    for _ in range(400):
        page.keyboard.press("Tab")
        state = page.evaluate(FOCUSED)
        if state is None:
            break
        stops.add(state["what"])
        if not (state["seen"] and state["marked"]):
            problems.append(f"cannot be seen with the focus: {state['what']}")
    controls = page.locator("article :is(button, select, textarea, summary, input:not([type=radio])):visible")
    there = controls.evaluate_all("all => all.map(one => one.outerHTML.slice(0, 120))")
    problems += [f"no stop: {html}" for html in there if html not in stops]
    page.context.close()
    assert len(stops) > 10
    assert not problems, "\n".join(problems)


def test_the_theme_is_chosen(page: Any) -> None:
    for wanted, key in (("dark", "Enter"), ("light", "Space")):
        page.locator(".theme-switch-button:visible").first.focus()
        page.keyboard.press(key)
        choice = page.locator(f".dropdown-menu.show [data-mode={wanted}]")
        choice.wait_for()
        for _ in range(4):
            page.keyboard.press("ArrowDown")
            if choice.evaluate("one => one === document.activeElement"):
                break
        page.keyboard.press(key)
        wait_until(page, "wanted => document.documentElement.dataset.theme === wanted", arg=wanted)
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_the_menu_of_a_telephone_opens_holds_the_focus_and_closes(browser: Any) -> None:
    page = opened(browser, PAGE, viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    button, menu = page.locator(".primary-toggle"), page.locator("#pst-primary-sidebar-modal")
    button.focus()
    page.keyboard.press("Enter")
    menu.wait_for()
    assert button.get_attribute("aria-expanded") == "true"
    for _ in range(120):
        page.keyboard.press("Tab")
        inside = page.evaluate("document.querySelector('#pst-primary-sidebar-modal').contains(document.activeElement)")
        assert inside or "<body" in what(page)  # behind the last stop is the browser's own bar
    page.keyboard.press("Escape")
    menu.wait_for(state="hidden")
    assert button.get_attribute("aria-expanded") == "false"
    assert "primary-toggle" in what(page)
    page.context.close()


def test_tabs_go_by_arrow_keys(page: Any) -> None:
    page.goto((SITE / "tutorials/2_devices/06_queues.html").as_uri())
    tabs = page.locator(".sd-tab-set:visible").first
    tabs.locator("> input:checked").focus()
    page.keyboard.press("ArrowRight")
    shown = tabs.locator("> .sd-tab-content")
    assert [shown.nth(at).is_visible() for at in (0, 1)] == [False, True]
