"""The box for errors on the page of the doctor."""

from __future__ import annotations

from typing import Any

from conftest import SITE

from firstlight_doctor.errors import PLACES, TABLE, causes_of
from firstlight_doctor.rules import QUESTIONS

PAGE = SITE / "doctor.html"
BOARD = ".fl-paste"
IDS = "all => all.map(one => one.id)"
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script> nouveau'
PASTE_EACH = """
async texts => {
    const box = document.querySelector(".fl-paste"), typed = box.querySelector("textarea"), found = [];
    const answered = () => new Promise(done => new MutationObserver((_, it) => { it.disconnect(); done(); })
        .observe(box.querySelector("ul"), {childList: true, subtree: true}));
    for (const text of texts) {
        box.querySelector("ul").replaceChildren(document.createElement("li"));
        typed.value = text;
        const done = answered();
        typed.dispatchEvent(new Event("input"));
        await done;
        found.push([...box.querySelectorAll("li a")].map(link => link.hash.slice(1)));
    }
    return found;
}
"""


def paste(page: Any, *texts: str) -> list[list[str]]:
    """The causes that are listed for each error."""
    return page.evaluate(PASTE_EACH, texts)


def test_the_page_finds_what_the_command_finds(page: Any) -> None:
    phrases = [*dict.fromkeys(each for cause in TABLE.values() for each in (*cause["says"], *cause.get("hints", ())))]
    texts = [*phrases[::20], *(" ".join(phrases[at : at + 7]) for at in range(0, len(phrases), 40))]
    texts += [
        "",
        "ab",
        "line 46, in <module>",
        "NameError: name 'x' is not defined",
        "Error 8020",
        "\x1b[31m│ Torch not\u00a0compiled │\n│ with “CUDA” │",
    ]
    assert paste(page, *texts) == [[found.code for found in causes_of(text)] for text in texts]


def test_so_it_does_where_a_reader_says_that_the_program_runs(page: Any) -> None:
    texts = [text for cause in TABLE.values() if "where" in cause for text in cause["says"][:1]]
    paste(page, "nouveau")
    for where in PLACES:
        place = page.locator(f".fl-paste button[value={where}]")
        place.click()
        assert page.locator(".fl-paste [aria-pressed=true]").count() == 1
        assert paste(page, *texts) == [[found.code for found in causes_of(text, where)] for text in texts]
    place.click()
    assert page.locator(".fl-paste [aria-pressed=true]").count() == 0
    assert paste(page, *texts) == [[found.code for found in causes_of(text)] for text in texts]


def test_what_readers_type_leads_somewhere(page: Any) -> None:
    assert all(paste(page, "CUDA error 802", "no kernel image", "libnvrtc", "Driver/library version mismatch"))
    assert page.locator(".fl-paste").get_by_role("status").inner_text()


def test_what_is_pasted_is_only_text(page: Any) -> None:
    title = page.title()
    assert "nouveau" in paste(page, HOSTILE)[0]
    assert page.locator(".fl-paste img, .fl-paste script").count() == 0
    assert page.title() == title


def test_an_answer_opens_its_cause_with_the_keyboard(page: Any) -> None:
    page.locator(".fl-paste textarea").press_sequentially("vermagic nouveau")
    page.locator(".fl-paste li a").first.wait_for()  # the table comes when somebody is about to paste
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector(location.hash).matches('.fl-cause:has(> details[open])')")


def test_a_link_from_anywhere_opens_its_cause_alone(page: Any) -> None:
    opened = page.locator(".fl-cause:has(> details[open])")
    assert opened.count() == 0
    page.goto(f"{PAGE.as_uri()}?#nouveau")  # as another page does
    assert opened.evaluate_all(IDS) == ["nouveau"]
    page.locator("#nouveau summary").first.click()
    assert opened.count() == 0
    page.evaluate("location.hash = 'no-driver'")
    opened.wait_for()
    page.locator("#no-driver summary").first.click()
    page.locator(".fl-often a").first.click()
    commonest = page.locator(".fl-often a").first.get_attribute("href")
    assert opened.evaluate_all(IDS) == [commonest[1:]]
    assert opened.locator("dl").first.is_visible()


def test_causes_stand_in_one_line_each_under_the_questions_that_the_side_bar_lists(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollHeight") < 12 * 800
    assert page.locator(".fl-often").bounding_box()["y"] < 900
    listed = set(page.locator(".page-toc a").evaluate_all("all => all.map(link => link.hash.slice(1))"))
    assert {f"question-{name}" for name in QUESTIONS} <= listed
    assert not listed & set(TABLE)


def test_paper_has_every_cause_and_leaves_the_screen_as_it_was(page: Any) -> None:
    page.goto(f"{PAGE.as_uri()}?#nouveau")
    page.emulate_media(media="print")
    assert not page.evaluate("[...document.querySelectorAll('.fl-cause > details > p')].filter(p => !p.offsetHeight)")
    page.emulate_media(media="screen")
    assert page.locator(".fl-cause > details[open]").count() == 1


def test_nothing_sticks_out_on_a_telephone(telephone: Any) -> None:
    assert paste(telephone, "no kernel image is available for execution on the device")[0]
    telephone.locator(".fl-paste li a").first.click()
    telephone.evaluate("document.querySelectorAll('.fl-cause details').forEach(fold => { fold.open = true; })")


def test_without_javascript_there_is_no_box_and_every_cause_opens_and_is_printed(bare: Any) -> None:
    assert not bare.locator(".fl-paste").is_visible()
    assert bare.locator(".fl-cause").count() == len(TABLE) + 1
    bare.goto(f"{PAGE.as_uri()}#nouveau")
    story, title = bare.locator("#nouveau p").first, bare.locator("#nouveau summary").first
    assert title.evaluate("one => one.getBoundingClientRect().top") < 200
    assert not story.is_visible()
    title.click()
    assert story.is_visible()
    bare.emulate_media(media="print")
    assert not bare.evaluate("[...document.querySelectorAll('.fl-cause > details > p')].filter(p => !p.offsetHeight)")
