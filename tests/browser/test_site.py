from __future__ import annotations

from urllib.parse import urlsplit

import pytest

IMAGES = """
images => Promise.all(images.map(async image => {
    image.loading = "eager";
    const name = image.getAttribute("src");
    if (!image.hasAttribute("alt") || (image.matches(".sphx-glr-single-img") && !image.alt.trim()))
        return `no alternative text: ${name}`;
    try { await image.decode(); } catch { return `does not load: ${name}`; }
    return null;
}))
"""
OVERFLOW = """
() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    return [...document.querySelectorAll("body *")]
        .filter(element => element.getBoundingClientRect().right > width + 1)
        .map(element => `wider than the page: ${element.outerHTML.slice(0, 120)}`)
        .concat(`wider than the page, by ${document.documentElement.scrollWidth - width} px`);
}
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page(browser, address, theme):
    """It asks nobody for anything, reports no error, fits the screen, and its pictures are there and described."""
    context = browser.new_context(color_scheme=theme)
    problems = []
    context.on("request", lambda asked: outside(asked.url) and problems.append(f"asks for {asked.url}"))
    context.on("requestfailed", lambda asked: problems.append(f"cannot have {asked.url}: {asked.failure}"))
    context.on("weberror", lambda error: problems.append(f"error: {error.error}"))
    context.on("console", lambda line: line.type == "error" and problems.append(f"console: {line.text}"))
    page = context.new_page()
    page.on("websocket", lambda socket: problems.append(f"opens {socket.url}"))
    page.goto(address, wait_until="networkidle")
    # the theme's script may come late on a busy machine
    page.wait_for_function("wanted => document.documentElement.dataset.theme == wanted", arg=theme)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        problems += [f"at {width} px: {problem}" for problem in page.evaluate(OVERFLOW)]
        problems += filter(None, page.locator("img").evaluate_all(IMAGES))
    context.close()
    assert not problems, "\n".join(problems)


def outside(url):
    return urlsplit(url).scheme not in {"file", "data", "blob"}
