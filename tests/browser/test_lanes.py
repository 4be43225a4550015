"""Step through a warp's requests: the page's own kernels and any index, by mouse, finger and keyboard."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from conftest import SITE
from numba import cuda

from firstlight.lessons.lanes import Access, Lanes, Request
from firstlight_kernels import trace

PAGE = SITE / "tutorials/3_kernels/05_coalescing.html"
BOARD = ".fl-lanes"
INDICES = ("i", "i*3+1", "31 - i % 32", "i // 4", "i ^ 1", "i % 4 * 8 + i // 4", "(i & 7) << 3 | i >> 3", "0", "i * i",
           "7 - -i")  # fmt: skip
WRONG = ("i *", "", "(i + 1", "i i", "i ** 2", "x[i]", "alert(1)", "<img src=x onerror=alert(1)>", "i - 1", "7 // i",
         "i / 2", "i << 60")  # fmt: skip
WIDTHS = {4: np.float32, 8: np.complex64, 16: np.complex128}
# Sets controls as a reader does, one after the other, and reads the table and the picture.
SET = """
settings => {
    const board = document.querySelector(".fl-lanes");
    for (const [name, value] of settings) {
        const control = board.querySelector(`[name="${name}"]`);
        if (name === "what" || name === "width") control.selectedIndex = value;
        else control.value = value;
        control.dispatchEvent(new Event("input", {bubbles: true}));
    }
    const levels = board.querySelector("[aria-label='Three levels of memory']");
    const [sums, index] = [levels.querySelectorAll("td:last-child"), board.querySelectorAll("[name=index]")];
    const count = what => board.querySelectorAll(`svg ${what}`).length;
    return {levels: [...sums].map(one => Number(one.textContent.replaceAll(",", ""))),
            along: count(".fl-along"), had: count(".fl-had"), read: count(".fl-read"), lines: count("g text"),
            index: index[0].value, wrong: index[0].ariaInvalid === "true"};
}
"""


def show(page: Any, **settings: Any) -> dict[str, Any]:
    return page.evaluate(SET, list(settings.items()))


def said(page: Any) -> str:
    return " ".join(page.locator(".fl-lanes").get_by_role("status").inner_text().split())


def test_every_access_is_counted_as_python_counts(page: Any) -> None:
    told = json.loads(page.locator(".fl-lanes").get_attribute("data-lanes"))
    assert len(told) > 20
    for number, one in enumerate(told, 1):
        requests = tuple(
            Request(block, {first + at: byte + step * at for first, byte, step, lanes in runs for at in range(lanes)})
            for block, *runs in one["requests"]
        )
        access = Access(one["name"], one["loads"], one["width"], requests)
        for at in {0, 1, len(requests) // 2, len(requests) - 1}:
            levels = show(page, what=number, request=at)["levels"]
            assert levels == list(access.levels(at + 1).values()), (one["name"], at)


def test_any_index_is_counted_as_a_trace_counts_it(page: Any) -> None:
    for index in INDICES:
        made: dict[str, Any] = {"cuda": cuda}
        exec(f"@cuda.jit\ndef asks(x, out):\n    i = cuda.grid(1)\n    out[i] = x[{index}]", made)
        for number, (width, dtype) in enumerate(WIDTHS.items()):
            arrays = np.zeros(256 * 256, dtype), np.zeros(256, dtype)
            traced = Lanes({"it": trace(made["asks"], 2, 128, *arrays)})["it: reads x"]
            counted = show(page, width=number, index=index, request=7)["levels"]
            assert counted == list(traced.levels().values()), (index, width)


def test_a_stride_is_picked_and_drawn(page: Any) -> None:
    for stride, offset, sectors, lines in ((1, 0, 4, 1), (1, 1, 5, 2), (2, 0, 8, 2), (8, 0, 32, 8), (33, 5, 32, 32)):
        drawn = show(page, stride=stride, offset=offset)
        assert drawn["index"] == f"i * {stride}" + (f" + {offset}" if offset else "")
        assert (drawn["along"], drawn["lines"], drawn["read"]) == (sectors, lines, 32 + 32)  # lanes, and what they read


def test_mistakes_in_an_index_are_told_and_leave_the_picture(page: Any) -> None:
    before = show(page, index="i + 1")
    assert (before["wrong"], before["along"]) == (False, 5)
    told = said(page)
    for index in WRONG:
        assert show(page, index=index) == before | {"index": index, "wrong": True}
        assert said(page) != told
    assert not show(page, index="i + 1")["wrong"]
    assert page.locator(".fl-lanes img").count() == 0


def test_it_works_with_the_keyboard_alone(page: Any) -> None:
    page.locator('.fl-lanes [name="what"]').focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("i * 4")
    assert show(page)["along"] == 16
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")  # from the slider's 2 to 3
    assert show(page)["index"] == "i * 3"
    assert page.evaluate("document.activeElement.ariaValueText") == "3"
    for name, step in (("request", 3), ("lane", 1)):  # past offset and width
        for _ in range(step):
            page.keyboard.press("Tab")
        page.keyboard.press("End")
        assert page.evaluate("document.activeElement.name") == name
    assert str(4 * 3 * 255) in said(page)  # the last lane's byte


def test_a_finger_picks_a_lane(telephone: Any) -> None:
    show(telephone, stride=8)
    telephone.locator('.fl-lanes [data-lane="20"]').tap()
    assert str(20 * 8 * 4) in said(telephone)


def test_without_javascript_there_is_a_table(bare: Any) -> None:
    assert bare.locator(".fl-lanes details table tbody tr").count() > 20
