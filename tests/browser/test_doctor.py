"""The box for errors on the page of the doctor."""

from __future__ import annotations

from typing import Any

from conftest import SITE

from firstlight.doctor.errors import TABLE, causes_of

PAGE = SITE / "doctor.html"
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script> nouveau'
PASTE_EACH = """
texts => texts.map(text => {
    const box = document.querySelector(".fl-paste");
    box.querySelector("textarea").value = text;
    box.querySelector("textarea").dispatchEvent(new Event("input"));
    return [...box.querySelectorAll("li a")].map(link => link.hash.slice(1));
})
"""


def paste(page: Any, *texts: str) -> list[list[str]]:
    """The causes that are listed for each error."""
    return page.evaluate(PASTE_EACH, texts)


def test_the_page_finds_what_the_command_finds(page: Any) -> None:
    texts = [*dict.fromkeys(piece for cause in TABLE.values() for piece in (*cause["says"], *cause.get("hints", ())))]
    texts += [" ".join(texts[at : at + 7]) for at in range(0, len(texts), 5)]
    texts += [
        "",
        "ab",
        "line 46, in <module>",
        "NameError: name 'x' is not defined",
        "Error 8020",
        "\x1b[31m│ Torch not\u00a0compiled │\n│ with “CUDA” │",
    ]
    assert paste(page, *texts) == [[found.code for found in causes_of(text)] for text in texts]


def test_what_readers_type_leads_somewhere(page: Any) -> None:
    assert all(paste(page, "CUDA error 802", "no kernel image", "libnvrtc", "Driver/library version mismatch"))
    assert page.locator(".fl-paste").get_by_role("status").inner_text()


def test_what_is_pasted_is_only_text(page: Any) -> None:
    title = page.title()
    assert "nouveau" in paste(page, HOSTILE)[0]
    assert page.locator(".fl-paste img, .fl-paste script").count() == 0
    assert page.title() == title


def test_it_works_with_the_keyboard(page: Any) -> None:
    page.locator(".fl-paste textarea").focus()
    page.keyboard.type("vermagic nouveau")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector(location.hash).matches('.fl-cause')")


def test_without_javascript_there_is_no_box_and_every_cause(bare: Any) -> None:
    assert not bare.locator(".fl-paste").is_visible()
    assert bare.locator(".fl-cause").count() == len(TABLE) + 1
