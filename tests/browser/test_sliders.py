"""Drag through the visibilities and through the noise: by mouse, finger and keyboard, and without a script."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from conftest import SITE

PAGE = SITE / "tutorials/4_imaging/07_off_the_grid.html"
BOARD = ".fl-sliders"
UNITS = {"µs": 1e-6, "ms": 1e-3, "s": 1}


def slide(page: Any, name: str, value: float) -> None:
    page.locator(f'.fl-sliders [name="{name}"]').evaluate(
        "(one, value) => { one.value = value; one.dispatchEvent(new Event('input', {bubbles: true})); }", value
    )


def seconds(page: Any, name: str) -> float:
    """The first duration that the board tells of something."""
    text = page.locator(".fl-sliders").get_by_role("status").inner_text()
    number, unit = re.search(rf"{re.escape(name)} ([\d.]+) (µs|ms|s)\b", text).groups()
    return float(number) * UNITS[unit]


def test_a_step_is_what_was_measured_or_the_model_s(page: Any) -> None:
    costs = json.loads(page.locator(".fl-sliders").get_attribute("data-sliders"))["costs"]
    for power in (4, 5, 6, 6.5, 8):
        slide(page, "count", power - 4)
        for name, cost in costs.items():
            count = float(f"{10**power:.2g}")
            near = [seconds for many, seconds in cost["measured"] if abs(many / count - 1) < 0.05]
            right = near[0] if near else cost["start"] + cost["slope"] * count
            assert seconds(page, name) == pytest.approx(right, rel=0.06), (power, name)


def test_it_works_with_the_keyboard_alone(page: Any) -> None:
    page.locator('.fl-sliders [name="count"]').focus()
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.ariaValueText") == "100,000,000"
    for _ in range(2):  # the table's summary, the second slider
        page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.name") == "signal"
    assert page.locator(".fl-level").last.is_visible()


def test_one_level_is_shown_at_a_time_on_a_telephone_too(telephone: Any) -> None:
    levels = telephone.locator(".fl-level")
    assert levels.count() > 1
    for chosen in range(levels.count()):
        slide(telephone, "signal", chosen)
        assert [one.is_visible() for one in levels.all()] == [at == chosen for at in range(levels.count())]


def test_without_javascript_all_of_it_is_there(bare: Any) -> None:
    assert not bare.locator(".fl-sliders input").first.is_visible()
    assert all(one.is_visible() for one in bare.locator(".fl-sliders :is(.fl-level, table)").all())
