"""The box for questions and errors: on the home page, and on the search's page, which a key opens from anywhere."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import SITE

PAGE = SITE / "index.html"
BOARD = ".fl-door"
FIND = """
async text => {
    const { errors, pages } = await search.find(text);
    return [errors, pages].map(some => some.map(one => one.code ?? one.url));
}
"""
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script> nouveau'
FOUND = [
    ("coalescing", "05_coalescing.html"),
    ("nouveau", "doctor/nouveau.html"),
    ("not yet initialized", "doctor/fabric-manager.html"),
    ("out of memory", "2_devices/10_memory.html"),
    ("pin_memory", "2_devices/08_pinned_memory.html"),
    ("GriddedNet", "api/imaging.html"),
    ("VRAM", "glossary.html"),
    ("RTX 5090 sm_120", "doctor/no-code-for-card.html"),
    ("Jy/beam to Jy", "tclean.html"),
    ("jax gpu memory import", "2_devices/10_memory.html"),
]
# As people ask: no page has all of these words.
ASKED = [
    ("how do I stop my GPU from waiting for data while training?", "2_devices/02_training_loop.html"),
    ("two gpus are slower than one, why", "4_imaging/11_more_than_one_gpu.html"),
    ("same matrix product gives different results on CPU and GPU", "2_devices/13_precision.html"),
    ("is there an error bar for each pixel of my image", "4_imaging/14_inside_image.html"),
    (
        "when I add any GPU operation after the inference, the execution time increases",
        "2_devices/06_queues.html",
    ),
    ("the cleaning diverged, was the threshold too deep", "tclean.html"),
    ("numba shared memory matmul wrong", "3_kernels/09_when_a_kernel_goes_wrong.html"),
]
# Of a long page, the section that answers, which none of its others does.
LANDS = [
    ("CuPy memory is not released after del", "10_memory.html", "cupy"),
    ("GPU memory usage grows continually with every epoch", "10_memory.html", "who-doesn"),
    ("jax.jit compiles again in each iteration of my loop", "16_fewer_launches.html", "jax"),
    ("pass a float64 array to a CuPy raw kernel with a float pointer", "13_triton.html", "rawkernel"),
    ("cannot acquire a table lock on Lustre", "tclean.html", "lock"),
    ("my CLEAN diverges in the minor cycle, lower gain or cycleniter?", "tclean.html", "diverge"),
]


def ask(page: Any, text: str) -> Any:
    """Type into the box; the list, when it is there."""
    page.locator("#fl-asked").fill(text)
    page.locator(f"{BOARD} [role=status]", has_text=" ").wait_for()
    found = page.locator(f"{BOARD} ol > li")
    found.first.wait_for()
    return found


@pytest.mark.parametrize(("query", "found"), FOUND)
def test_a_key_and_words_lead_to_the_page_that_explains_them(page: Any, query: str, found: str) -> None:
    page.goto((SITE / "tutorials/1_setup/02_first_speedup.html").as_uri())
    page.keyboard.press("Control+k")
    page.keyboard.type(query)
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=*")
    first = page.locator(f"{BOARD} ol > li").first
    first.wait_for()
    links = page.locator(f"{BOARD} ol > li > a").evaluate_all("all => all.map(link => link.href)")
    assert any(found in link for link in links[:3]), links
    assert len(first.locator("span").first.inner_text()) > 20, "with a line about it"


@pytest.mark.parametrize(("question", "found"), ASKED)
def test_a_question_needs_no_page_that_has_all_its_words(page: Any, question: str, found: str) -> None:
    _, pages = page.evaluate(FIND, question)
    assert any(found in url for url in pages[:3]), pages


def test_a_hit_shows_the_sentence_and_lands_on_it_in_a_fold_too(page: Any) -> None:
    ask(page, "rounding of bfloat16 keeps digits")
    quoted = page.locator(f"{BOARD} .fl-cut").first
    quoted.wait_for()
    link = page.locator(f"{BOARD} li:has(.fl-cut) a").first
    link.click()
    place = page.locator(".fl-found")
    place.wait_for()
    top, bottom = place.evaluate("one => [one.getBoundingClientRect().top, one.getBoundingClientRect().bottom]")
    assert bottom > 0
    assert top < page.viewport_size["height"]
    # Whatever is quoted can be landed on: here the words of a solution, which is folded.
    page.goto((SITE / "tutorials/2_devices/01_moving.html").as_uri())
    folded = page.locator("details:not([open]) p").first.evaluate("one => one.textContent.trim().slice(0, 40)")
    page.goto(f"{page.url}?found={folded.replace(' ', '%20')}")
    assert page.locator("details[open] .fl-found").is_visible()


@pytest.mark.parametrize(("question", "found", "section"), LANDS)
def test_a_hit_leads_to_the_section_that_answers(page: Any, question: str, found: str, section: str) -> None:
    hit = ask(page, question).filter(has=page.locator(f"a[href*='{found}?found']")).first
    hit.wait_for()
    assert section in hit.locator("a").get_attribute("href").partition("#")[2]


def test_an_error_gets_its_cause_first_and_a_question_gets_none(page: Any) -> None:
    for error in ("CUDA error: no kernel image is available for execution on the device", "no kernel image rtx 3090"):
        assert "no-code-for-card" in page.evaluate(FIND, error)[0], error
    assert page.evaluate(FIND, "no kernel image")[0] == ["no-code-for-card"], "three words of an error"
    assert page.evaluate(FIND, "gpu not used")[0] == []
    assert page.evaluate(FIND, "VRAM how much")[0] == []
    assert page.evaluate(FIND, "where did the memory go")[0] == []
    found = ask(page, "Cannot re-initialize CUDA in forked subprocess")
    assert "doctor/forked.html" in found.first.locator("a").get_attribute("href")
    found.first.locator("a").click()
    page.wait_for_url("**/doctor/forked.html")
    assert page.locator("h1").is_visible()


def test_if_nothing_fits_there_are_the_questions_of_the_home_page(page: Any) -> None:
    found = ask(page, "zzyzx qqrst")
    assert found.count() == 1
    assert found.locator("dt a").count() >= 10


def test_what_is_asked_is_only_text(page: Any) -> None:
    title = page.title()
    ask(page, HOSTILE)
    page.goto(f"{(SITE / 'search.html').as_uri()}?q=%3Cimg%20src=x%20onerror=document.title=1%3E%20nouveau")
    page.locator(f"{BOARD} ol > li").first.wait_for()
    assert page.locator(f"{BOARD} :is(img, script)").count() == 0
    page.go_back()
    assert page.title() == title


def test_the_keyboard_goes_from_the_box_to_the_first_hit(page: Any) -> None:
    page.locator("#fl-asked").focus()
    page.keyboard.type("sixteen puzzles")
    page.locator(f"{BOARD} ol > li a").first.wait_for()
    page.keyboard.press("Enter")  # opens no new line
    assert page.locator("#fl-asked").input_value() == "sixteen puzzles"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/14_puzzles.html*")


def test_nothing_sticks_out_on_a_telephone_and_questions_stand_before_the_course(telephone: Any) -> None:
    ask(telephone, "no kernel image is available for execution on the device")
    questions, course = (telephone.locator(part).first.bounding_box()["y"] for part in (".fl-questions", ".fl-course"))
    assert questions < course
    box, figure = (telephone.locator(part).first.bounding_box()["y"] for part in (BOARD, ".fl-first"))
    assert box < figure


def test_without_javascript_there_is_no_box(bare: Any) -> None:
    assert not bare.locator(BOARD).is_visible()
    assert bare.locator(".fl-questions dt").count() >= 10
