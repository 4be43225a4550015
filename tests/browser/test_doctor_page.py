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
        found.push([...box.querySelectorAll("li a")].map(link => link.pathname.match(/([^/]+)\\.html$/)[1]));
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


def test_an_answer_leads_to_its_cause_with_the_keyboard(page: Any) -> None:
    page.locator(".fl-paste textarea").press_sequentially("vermagic nouveau")
    page.locator(".fl-paste li a").first.wait_for()  # the table comes when somebody is about to paste
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.fl-paste li a')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/doctor/*.html")


def test_an_old_address_of_a_cause_leads_on(page: Any) -> None:
    page.goto(f"{PAGE.as_uri()}?#nouveau")  # as another page does
    page.wait_for_url("**/doctor/nouveau.html")
    assert "nouveau" in page.locator("h1").inner_text()
    page.goto(PAGE.as_uri())
    page.evaluate("location.hash = 'no-driver'")
    page.wait_for_url("**/doctor/no-driver.html")
    assert page.locator(".bd-breadcrumbs a", has_text="Doctor").get_attribute("href") == "../doctor.html"
    page.locator(".next-next, .right-next").first.click()
    assert "/doctor/" in page.url


def test_causes_stand_in_one_line_each_under_the_questions_that_the_side_bar_lists(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollHeight") < 12 * 800
    assert page.locator(".fl-often").bounding_box()["y"] < 900
    listed = set(page.locator(".page-toc a").evaluate_all("all => all.map(link => link.hash.slice(1))"))
    assert {f"question-{name}" for name in QUESTIONS} <= listed
    assert not listed & set(TABLE)


def test_nothing_sticks_out_on_a_telephone(telephone: Any) -> None:
    assert paste(telephone, "no kernel image is available for execution on the device")[0]


def test_without_javascript_there_is_no_box_and_every_cause_is_one_click_away(bare: Any) -> None:
    assert not bare.locator(".fl-paste").is_visible()
    assert bare.locator(".fl-causes li").count() == len(TABLE) + 1
    bare.goto(f"{PAGE.as_uri()}#nouveau")
    bare.locator("#nouveau a").click()
    assert bare.locator("article p").first.is_visible()
