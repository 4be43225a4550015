"""The search of the site, with the keyboard alone."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from conftest import SITE

PAGE = SITE / "tutorials/1_setup/01_find_your_gpu.html"
FIELD = "#pst-search-dialog input"
FOUND = "#pst-search-dialog #search-results li a"
# What readers paste, and the page that must be among the first five.
PASTED = {
    "CUDA driver version is insufficient": "doctor.html#",
    "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version": "doctor.html#",
    "no kernel image is available": "doctor.html#",
    "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device": "doctor.html#",
    "Torch not compiled with CUDA enabled": "doctor.html#",
    '  File "/home/me/fit.py", line 3  AssertionError: Torch not compiled with CUDA enabled': "doctor.html#",
    "Failed to initialize NVML: Driver/library version mismatch": "doctor.html#",
    "libcuda.so.1: cannot open shared object file": "doctor.html",
    "802": "doctor.html",
    "CUDA error 802": "doctor.html",
    "libnvrtc": "doctor.html",
    "out of memory": "",
    "coalescing": "tutorials/3_kernels/03_coalescing.html",
    "roofline": "tutorials/2_devices/10_profile_and_roofline.html",
    "float32 precision": "tutorials/2_devices/09_precision.html",
    "Transfers": "tutorials/2_devices/05_transfers.html",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has": "doctor.html#own-memory",
}


def search(page: Any, text: str) -> list[str]:
    """Paste into the search that Ctrl+K opens, and list what it finds."""
    page.keyboard.press("Control+k")
    page.locator(FIELD).fill("")
    page.evaluate(
        "document.querySelector('#pst-search-dialog #search-results')?.replaceChildren()"
    )  # of another search
    page.keyboard.insert_text(text)
    page.keyboard.press("Shift")  # the theme waits for a key
    page.locator(FOUND).first.wait_for()
    page.wait_for_function("Search.status.textContent")  # it has ended, and adds nothing to the next one
    return page.locator(FOUND).evaluate_all("links => links.map(link => link.getAttribute('href'))")


def test_what_readers_paste_leads_there(page: Any) -> None:
    for text, target in PASTED.items():
        found = search(page, text)[:5]
        assert any(link.startswith(f"../../{target}") for link in found), (text, found)
        page.keyboard.press("Escape")
        assert not page.locator("#pst-search-dialog").evaluate("dialog => dialog.open")


def test_it_works_from_the_first_letter_to_the_page(page: Any) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("no kernel image is available", delay=10)  # while the index comes
    page.locator(FOUND).first.wait_for()
    assert page.locator(FIELD).input_value() == "no kernel image is available"
    assert " > " in page.locator(FOUND).first.inner_text()  # a place is called by its heading, too
    page.keyboard.press("ArrowDown")
    first = page.evaluate("document.activeElement.getAttribute('href')")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.getAttribute('href')") == first
    page.keyboard.press("Enter")
    page.wait_for_url("**/doctor.html#*")


def test_a_single_result_leads_somewhere(page: Any) -> None:
    (found,) = search(page, "ru_minflt")
    page.locator(FOUND).click()
    page.wait_for_url(f"**/{found.removeprefix('../../')}*")
    assert page.locator("h1").count() == 1


def test_arrows_go_round_and_enter_leads_to_all_results(page: Any) -> None:
    search(page, "coalescing")
    page.keyboard.press("ArrowUp")
    assert page.locator(FOUND).last.evaluate("link => link == document.activeElement")
    page.keyboard.press("ArrowDown")
    assert page.locator(FIELD).evaluate("field => field == document.activeElement")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=coalescing")
    page.locator("#search-results .search-summary:not(:empty)").wait_for()
    found = page.locator("#search-results li a").evaluate_all("links => links.map(link => link.href)")
    assert any("3_kernels/03_coalescing" in link for link in found)


def test_its_page_knows_errors_too(page: Any) -> None:
    error = "AssertionError: Torch not compiled with CUDA enabled in fit.py"
    page.goto(f"{(SITE / 'search.html').as_uri()}?q={quote(error)}")
    found = page.locator('#search-results li a[href^="doctor.html#"]')
    found.first.wait_for()
    assert found.first.inner_text().strip()
