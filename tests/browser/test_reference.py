from __future__ import annotations

from conftest import SITE

PAGE = SITE / "tutorials/4_imaging/03_first_light.html"


def test_a_reader_goes_from_code_to_the_reference_and_back(page):
    page.locator("a.fl-ref", has_text="GriddedNet").first.click()
    assert page.url.endswith("/api/imaging.html#firstlight.imaging.precomposed.GriddedNet")
    header = page.locator(".bd-header").bounding_box()
    place = page.locator('[id="firstlight.imaging.precomposed.GriddedNet"]').bounding_box()
    assert header["y"] + header["height"] <= place["y"] < page.viewport_size["height"]
    title = page.locator("dl:has(> dt:target) > dd > .fl-uses a").first
    name = title.inner_text()
    title.click()
    assert page.locator("h1").inner_text().startswith(name)


def test_the_first_page_leads_to_each_function(page):
    page.goto((SITE / "api.html").as_uri())
    links = page.locator("dl.fl-reference dt").all()
    targets = [link.locator("a").first.get_attribute("href") for link in links]
    assert len(targets) > 100
    missing = []
    for target in targets:
        file, _, anchor = target.partition("#")
        missing += [target] * (f'id="{anchor}"' not in (SITE / file).read_text(encoding="utf-8"))
    assert missing == []
