"""The button that copies a page for an assistant."""

from __future__ import annotations

from typing import Any

from conftest import SITE, watched

PAGE = SITE / "tutorials/2_devices/10_memory.html"


def test_a_button_copies_the_page(browser: Any, address: str) -> None:
    context = browser.new_context()
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = watched(context)
    page.goto(f"{address}/{PAGE.relative_to(SITE).as_posix()}")
    page.get_by_role("button", name="Copy as Markdown").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.replace("\r", "") == PAGE.with_suffix(".md").read_text(encoding="utf-8")
    assert not page.problems
    context.close()


def test_a_page_on_a_disk_may_read_no_file(page: Any) -> None:
    assert not page.locator(".fl-copy").is_visible()
    assert page.get_by_role("link", name="This page as Markdown").is_visible()
