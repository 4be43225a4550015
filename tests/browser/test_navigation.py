"""Ways through the site, by clicks and keys: from the questions on the home page, and the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from conftest import SITE

PAGE = SITE / "index.html"


def here(page: Any) -> str:
    return Path(unquote(urlsplit(page.url).path)).relative_to(SITE).with_suffix("").as_posix()


def test_the_keyboard_alone_leads_from_a_question_to_the_next_page(page: Any) -> None:
    for target in (".fl-questions dt a[href$='01_first_kernel.html']", ".fl-next a[href='02_matrix_vector.html']"):
        for _ in range(150):
            page.keyboard.press("Tab")
            if page.evaluate("target => document.activeElement.matches(target)", target):
                break
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/{target.partition('=')[2].strip(chr(39) + ']')}")
    assert here(page) == "tutorials/3_kernels/02_matrix_vector"


def test_a_reader_goes_from_code_to_the_reference(page: Any) -> None:
    page.goto((SITE / "tutorials/4_imaging/01_first_light.html").as_uri())
    page.locator("a.fl-ref:visible", has_text="GriddedNet").first.click()
    assert page.url.endswith("/api/imaging.html#firstlight_imaging.model.gridded_net.GriddedNet")
    header = page.locator(".bd-header").bounding_box()
    place = page.locator('[id="firstlight_imaging.model.gridded_net.GriddedNet"]').bounding_box()
    assert header["y"] + header["height"] <= place["y"] + 1 < page.viewport_size["height"]


def test_the_side_bar_has_the_courses_short_names(page: Any) -> None:
    page.goto((SITE / "tutorials/1_setup/02_first_speedup.html").as_uri())
    assert page.locator(".bd-sidebar-primary a[href='01_find_your_gpu.html']").inner_text() == "Find your GPU"


def test_the_side_bar_shows_its_head_and_the_readers_page_however_long_it_is(page: Any) -> None:
    """It once opened with its first lines behind the header."""
    for width, height in ((1366, 768), (1280, 720)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto((SITE / "tutorials/2_devices/17_training_a_cnn.html").as_uri())
        header = page.locator(".bd-header").bounding_box()
        top = page.locator("#pst-collapse-sidebar-button").bounding_box()
        here = page.locator(".bd-sidebar-primary a", has_text="Training a network").bounding_box()
        assert header["y"] + header["height"] <= top["y"] < here["y"] < height
