"""What is asked of every page, while it is open."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

from playwright.sync_api import TimeoutError

# Everything that axe-core knows but the AAA rules, which ask for other texts, colours and sizes than WCAG's AA.
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice", "experimental"]
RULES = {
    "light": {"type": "tag", "values": TAGS},
    "dark": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},  # a theme changes colours alone
}

# Words in code that look the same are checked once, and drawings that have one text for all: a tenth of the time.
THIN = """
() => {
    const seen = new Set();
    const words = "pre a, pre span:not(a *), .sig span:not(a *), .sig em, .field-list em";
    for (const one of document.querySelectorAll(words)) {
        const look = [one.parentElement.closest("[class]").className, one.tagName, one.className,
            one.matches("a") && one.firstElementChild?.className].join();
        if (seen.has(look)) one.matches("a") ? one.replaceWith(one.textContent) : one.replaceWith(...one.childNodes);
        seen.add(look);
    }
    document.querySelectorAll("figure[role=img] > svg, svg[role=img]").forEach(svg => svg.replaceChildren());
}
"""
# Contrast takes axe most of its time: it is checked on one of all texts of one look on the same ground.
# What is placed over others has no such twin. Another width or theme checks only what was not seen before.
LOOKS = """
() => {
    const seen = window.looks ??= new Set(), grounds = new Map([[null, ""]]);
    const ground = one => {
        if (grounds.has(one)) return grounds.get(one);
        const {backgroundColor, backgroundImage, opacity, position, filter, mixBlendMode} = getComputedStyle(one);
        const own = [backgroundColor, backgroundImage, opacity, filter, mixBlendMode].join();
        const apart = /absolute|fixed|sticky/.test(position);
        const place = apart ? `${innerWidth} ${one.place ??= window.places = (window.places ?? 0) + 1}` : "";
        const plain = !apart && own === "rgba(0, 0, 0, 0),none,1,none,normal";
        grounds.set(one, ground(one.parentElement) + (plain ? "" : `|${own},${place}`));
        return grounds.get(one);
    };
    for (const one of document.querySelectorAll("body *")) {
        one.removeAttribute("data-look");
        const text = one.matches("input, select, textarea") || [...one.childNodes].some(node => node.data?.trim());
        if (!text || !one.checkVisibility()) continue;
        const {color, fontSize, fontWeight, textShadow} = getComputedStyle(one);
        const look = [color, fontSize, fontWeight, textShadow, ground(one)].join();
        if (!seen.has(look)) one.dataset.look = "";
        seen.add(look);
    }
    axe.configure({rules: [{id: "color-contrast", selector: "[data-look]"}]});
}
"""
STOPS = """
() => [...document.querySelectorAll("pre, .cell_output > .output, .pst-scrollable-table-container")]
    .every(one => one.tabIndex === 0 || one.scrollWidth <= one.clientWidth && one.scrollHeight <= one.clientHeight)
"""
AXE = """
async rules => {
    const found = await axe.run({runOnly: rules, resultTypes: ["violations"], preload: false});
    return found.violations.flatMap(({id, help, nodes}) =>
        nodes.map(({target, html}) => `${id} (${help}): ${target.join(" ")}: ${html.slice(0, 160)}`));
}
"""
IMAGES = """
images => Promise.all(images.map(async image => {
    image.loading = "eager";
    try { await image.decode(); } catch { return `does not load: ${image.getAttribute("src")}`; }
    return null;
}))
"""
# A figure and a drawing have a sentence. A thumbnail beside the name of its page says nothing new.
TEXTS = """
() => {
    const poor = text => text.length < 20 || !/ .* /.test(text) || /^(image|figure|plot|picture)\\b.{0,15}$/i.test(text)
        || /\\.(png|webp|svg|jpe?g)\\b|^sphx_glr/.test(text);
    const name = one => (one.getAttribute("aria-label")
        ?? document.getElementById(one.getAttribute("aria-labelledby"))?.textContent
        ?? one.querySelector(":scope > title, :scope > figcaption")?.textContent ?? "").trim();
    const problems = [];
    for (const image of document.querySelectorAll("img")) {
        const alt = image.getAttribute("alt");
        const decorative = alt === "" && image.closest("a, .sphx-glr-thumbcontainer, .fl-cards, [aria-hidden]");
        const captioned = alt && image.closest("figure")?.querySelector("figcaption");
        if (!decorative && !captioned && poor(alt ?? ""))
            problems.push(`alternative text of ${image.getAttribute("src")}: “${alt}”`);
    }
    for (const drawing of document.querySelectorAll("article [role=img]:not([aria-hidden=true])"))
        if (poor(name(drawing)))
            problems.push(`text of a drawing: “${name(drawing)}”, ${drawing.outerHTML.slice(0, 80)}`);
    for (const svg of document.querySelectorAll("article svg"))
        if (!svg.closest("[role=img], [role=group], [aria-hidden=true], [hidden], button, a"))
            problems.push(`a drawing without a role: ${svg.parentElement.outerHTML.slice(0, 80)}`);
    return problems;
}
"""
TABLES = """
() => [...document.querySelectorAll("article table")].flatMap(table => [
    ...(table.caption?.textContent.trim() ? [] : [`a table without a caption: ${table.textContent.slice(0, 60)}`]),
    ...[...table.querySelectorAll("th:not([scope])")].map(th => `a head without a scope: ${th.textContent}`),
    ...(table.querySelector("th[scope=row]") && table.querySelector("th[scope=col]") ? []
        : [`a table without heads: ${table.textContent.slice(0, 60)}`]),
])
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
PAPER = """
() => {
    const seen = one => one.getClientRects().length > 0;
    const screen = "header, .bd-sidebar-primary, .bd-toc, .only-dark, button, .headerlink, .fl-screen:not([open])";
    const dark = getComputedStyle(document.body).backgroundColor !== "rgb(255, 255, 255)";
    const folded = "details:not(.fl-fold), .fl-cause details details";
    const apart = `.fl-screen, #run-it-yourself, [hidden], noscript, .fl-yours, .fl-paste, .fl-chart, dialog,
        ${folded}`;
    const hidden = [...document.querySelectorAll("article :is(pre, figure, img.only-light, table)")]
        .filter(one => !one.closest(apart) && !seen(one));
    const shown = [...document.querySelectorAll(screen)].filter(seen);
    return [...shown.map(one => `on paper: ${one.outerHTML.slice(0, 80)}`),
            ...hidden.map(one => `not on paper: ${one.outerHTML.slice(0, 80)}`), ...(dark ? ["dark paper"] : [])];
}
"""

# Without a script: what only one gives life must not be seen; what it would open must open all the same.
BARE = """
() => {
    const seen = one => one.checkVisibility({visibilityProperty: true});
    const live = ".sd-tab-set > input, form[action] :is(input, button)";
    const dead = [...document.querySelectorAll("button, input, select, textarea")]
        .filter(one => seen(one) && !one.matches(live));
    const shut = [];
    for (const summary of document.querySelectorAll("article details > summary")) {
        const before = summary.parentElement.open;
        summary.click();
        if (seen(summary) && summary.parentElement.open === before) shut.push(summary);
    }
    for (const label of document.querySelectorAll(".sd-tab-set > label")) {
        label.click();
        if (seen(label) && !seen(label.nextElementSibling)) shut.push(label);
    }
    const paper = getComputedStyle(document.body).backgroundColor;
    return [...dead.map(one => `a dead control: ${one.outerHTML.slice(0, 100)}`),
            ...shut.map(one => `does not open: ${one.textContent}`),
            ...[...document.querySelectorAll("img.only-dark")].filter(seen).map(one => `for the dark: ${one.src}`),
            ...(seen(document.querySelector("h1")) ? [] : ["no heading is seen"]),
            ...(paper === "rgb(255, 255, 255)" ? [] : [`paper is ${paper}`])];
}
"""


def wait_until(page: Any, condition: str, arg: object = None, timeout: float = 30_000) -> None:
    """Wait until a condition holds. Playwright's own way is eval, which the pages' policy forbids."""
    last = monotonic() + timeout / 1000
    while not page.evaluate(condition, arg):
        if monotonic() > last:
            raise TimeoutError(condition)
        page.wait_for_timeout(50)


@cache
def axe() -> str:
    return (Path(sys.prefix) / "node/node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


def barriers(page: Any, theme: str) -> list[str]:
    """What keeps a reader out, by axe-core."""
    with suppress(TimeoutError):  # the theme makes what scrolls a stop of the keyboard a moment after each resize
        wait_until(page, STOPS, timeout=2000)
    if not page.evaluate("'axe' in window"):
        page.evaluate(THIN)
        page.evaluate(axe())
    page.evaluate(LOOKS)
    return page.evaluate(AXE, RULES[theme])


def pictures_and_tables(page: Any) -> list[str]:
    """Pictures that are not there, texts that say nothing, tables that do not say what they are."""
    lost = [problem for problem in page.locator("img").evaluate_all(IMAGES) if problem]
    return [*lost, *page.evaluate(TEXTS), *page.evaluate(TABLES)]


def paper(page: Any) -> list[str]:
    """What goes wrong when the page is printed: on A4, with margins, 720 px are left."""
    page.set_viewport_size({"width": 720, "height": 1000})
    page.emulate_media(media="print")
    found = page.evaluate(PAPER) + page.evaluate(OVERFLOW)
    page.emulate_media(media="screen")
    return [f"printed: {problem}" for problem in found]
