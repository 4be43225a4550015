"""Every page without JavaScript, and the checks themselves: each finds what it is there for."""

from __future__ import annotations

import pytest
from checks import OVERFLOW, TABLES, TEXTS, barriers, paper
from conftest import SITE

# What only a script gives life must not be seen without one; what it would open must be.
DEAD = """
() => {
    const seen = one => one.getClientRects().length > 0 && getComputedStyle(one).visibility !== "hidden";
    const live = ".sd-tab-set > input, form[action] :is(input, button)";
    const dead = [...document.querySelectorAll("button, input, select, textarea")]
        .filter(one => seen(one) && !one.matches(live));
    const colours = getComputedStyle(document.body);
    return [...dead.map(one => `a dead control: ${one.outerHTML.slice(0, 100)}`),
            ...[...document.querySelectorAll("img.only-dark")].filter(seen).map(one => `for the dark: ${one.src}`),
            ...(document.querySelector("h1").getClientRects().length ? [] : ["no heading is seen"]),
            ...(colours.backgroundColor === "rgb(255, 255, 255)" ? [] : [`paper is ${colours.backgroundColor}`])];
}
"""


@pytest.fixture(scope="module")
def without_script(browser):
    context = browser.new_context(java_script_enabled=False, color_scheme="dark")
    context.set_default_timeout(10_000)
    yield context
    context.close()


def test_page_without_javascript(without_script, address) -> None:
    page = without_script.new_page()
    page.goto(address)
    problems = page.evaluate(DEAD) + page.evaluate(OVERFLOW)
    for fold in page.locator("article details:visible > summary").all()[:3]:
        before = fold.evaluate("one => one.parentElement.open")
        fold.click()
        if fold.evaluate("one => one.parentElement.open") == before:
            problems.append(f"does not open: {fold.inner_text()}")
    for tab in page.locator(".sd-tab-set > label:visible").all()[:4]:
        tab.click()
        if not tab.locator("xpath=following-sibling::div[1]").is_visible():
            problems.append(f"does not open: {tab.inner_text()}")
    page.close()
    assert not problems, "\n".join(problems)


ONE_OF_EACH = """
<html lang="en" data-theme="light"><head><title>Broken on purpose</title></head><body><main><article class="bd-article">
<h1>Title</h1>
<div style="background: #fff; color: #ccc">Hard to read</div> <a href="#x"></a>
<pre><span class="k" style="color: #eee; background: #fff">for</span> <span class="k">if</span></pre>
<img src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=" alt="image">
<svg role="img" aria-label="plot.png"></svg>
<table><tr><th>a</th></tr><tr><td>1</td></tr></table>
<button>On paper</button>
</article></main></body></html>
"""


def test_each_check_finds_something(browser) -> None:
    page = browser.new_page()
    page.set_content(ONE_OF_EACH)
    found = "\n".join(page.evaluate(TEXTS) + page.evaluate(TABLES) + paper(page) + barriers(page, "light"))
    page.close()
    for problem in ("alternative text of", "text of a drawing", "without a caption", "without a scope", "on paper",
                    "link-name", "color-contrast", ">for</span>"):  # fmt: skip
        assert problem in found, problem


def test_a_dark_theme_is_there_before_the_first_paint(browser) -> None:
    """The theme's own script is taken away: what is dark now was dark when the body began."""
    for stored, system, wanted in [
        (None, "dark", "dark"),
        (None, "light", "light"),
        ("dark", "light", "dark"),
        ("light", "dark", "light"),
        ("auto", "dark", "dark"),
    ]:
        context = browser.new_context(color_scheme=system)
        context.route("**/pydata-sphinx-theme.js*", lambda route: route.abort())
        if stored:
            theme = stored if stored != "auto" else "light"  # the system was light when the reader was last here
            context.add_init_script(
                f"localStorage.setItem('mode', '{stored}'); localStorage.setItem('theme', '{theme}')"
            )
        page = context.new_page()
        page.goto((SITE / "index.html").as_uri())
        told = page.evaluate(
            "[document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]"
        )
        context.close()
        assert told == [wanted, {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 30)"}[wanted]], (stored, system)


@pytest.mark.parametrize("name", ["tutorials/1_setup/02_first_speedup.html", "doctor.html"])
def test_a_page_prints(browser, name: str) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto((SITE / name).as_uri())
    printed = page.pdf(format="A4")
    page.close()
    assert 1 < printed.count(b"/Type /Page\n") + printed.count(b"/Type/Page\n") < 80
