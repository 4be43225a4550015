"""Step through a warp's requests: the page's own kernels and any index, by mouse, finger and keyboard."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import SITE, opened

from firstlight.kernels import cuda, trace
from firstlight.kernels.lanes import Access, Lanes, Request

PAGE = SITE / "tutorials/3_kernels/03_coalescing.html"
LEVELS = ("L1 wavefronts", "L2 sectors", "DRAM bytes", "useful bytes")


def control(page, name: str):
    return page.locator(f'.fl-lanes [name="{name}"]')


def slide(page, name: str, value: int) -> None:
    control(page, name).evaluate(
        "(one, value) => { one.value = value; one.dispatchEvent(new Event('input', {bubbles: true})); }", value
    )


def said(page) -> str:
    return " ".join(page.locator(".fl-lanes").get_by_role("status").inner_text().split())


def so_far(page) -> list[int]:
    cells = page.locator(".fl-levels td:last-child").all_inner_texts()
    return [int(cell.replace(",", "")) for cell in cells]


def count(page, kind: str) -> int:
    return page.locator(f".fl-lanes svg .fl-{kind}").count()


def test_every_access_is_counted_as_python_counts(page) -> None:
    told = json.loads(page.locator(".fl-lanes").get_attribute("data-lanes"))["accesses"]
    assert len(told) > 20
    for number, one in enumerate(told, 1):
        requests = tuple(
            Request(block, {first + at: byte + step * at for first, byte, step, lanes in runs for at in range(lanes)})
            for block, *runs in one["requests"]
        )
        access = Access(one["name"], one["loads"], one["width"], requests)
        control(page, "what").select_option(index=number)
        for at in {0, 1, len(requests) // 2, len(requests) - 1}:
            slide(page, "request", at)
            assert so_far(page) == list(access.levels(at + 1).values()), (one["name"], at)


@pytest.mark.parametrize(
    "index",
    [
        "i",
        "i*3+1",
        "31 - i % 32",
        "i // 4",
        "i ^ 1",
        "i % 4 * 8 + i // 4",
        "(i & 7) << 3 | i >> 3",
        "0",
        "i * i",
        "7 - -i",
    ],
)
@pytest.mark.parametrize("width", [4, 8, 16])
def test_any_index_is_counted_as_a_trace_counts_it(page, index: str, width: int) -> None:
    made = {"cuda": cuda}
    exec(f"@cuda.jit\ndef asks(x, out):\n    i = cuda.grid(1)\n    out[i] = x[{index}]", made)
    dtype = {4: np.float32, 8: np.complex64, 16: np.complex128}[width]
    lanes = Lanes({"it": trace(made["asks"], 2, 128, np.zeros(256 * 256, dtype), np.zeros(256, dtype))})
    control(page, "width").select_option(index=(4, 8, 16).index(width))
    control(page, "index").fill(index)
    slide(page, "request", 7)
    assert so_far(page) == list(lanes["it: reads x"].levels().values())


def test_a_stride_is_picked_and_drawn(page) -> None:
    for stride, offset, sectors, lines in ((1, 0, 4, 1), (1, 1, 5, 2), (2, 0, 8, 2), (8, 0, 32, 8), (33, 5, 32, 32)):
        slide(page, "stride", stride)
        slide(page, "offset", offset)
        assert control(page, "index").input_value() == f"i * {stride}" + (f" + {offset}" if offset else "")
        assert f"in {sectors} sectors of {lines} line" in said(page)
        assert count(page, "along") == sectors
        assert page.locator(".fl-lanes svg g text").count() == lines
        assert count(page, "read") == 32 + 32  # lanes, and the numbers that they read


def test_what_came_before_is_not_asked_again(page) -> None:
    control(page, "what").select_option("matrix by rows: reads a")
    news = []
    for request in range(9):
        slide(page, "request", request)
        news.append(count(page, "along"))
    assert news == [32, 0, 0, 0, 0, 0, 0, 0, 32]
    slide(page, "request", 7)
    assert "32 sectors came with an earlier request of the block" in said(page)
    assert count(page, "had") == 32
    control(page, "what").select_option("write columns: writes out")
    slide(page, "request", 5)
    assert count(page, "had") == 0  # a write goes on to L2, each time
    assert "32 lanes write 128 bytes" in said(page)


def test_mistakes_in_an_index_are_told_and_leave_the_picture(page) -> None:
    for index, says in [
        ("i *", "Something is missing"),
        ("", "Something is missing"),
        ("(i + 1", "Something is missing"),
        ("i i", "“i” is not expected there"),
        ("i ** 2", "“*” is not expected there"),
        ("x[i]", "“x” is not expected there"),
        ("alert(1)", "“a” is not expected there"),
        ("<img src=x onerror=alert(1)>", "“<” is not expected there"),
        ("i - 1", "Thread 0 leaves the array: its index is -1"),
        ("7 // i", "Thread 0 leaves the array"),
        ("i / 2", "“/” is not expected there"),
        ("i << 60", "Thread 1 leaves the array"),
    ]:
        control(page, "index").fill(index)
        assert says in said(page), index
        assert control(page, "index").get_attribute("aria-invalid") == "true"
        assert count(page, "read") == 64
    control(page, "index").fill("i + 1")
    assert control(page, "index").get_attribute("aria-invalid") == "false"
    assert "in 5 sectors of 2 lines: 80 % useful" in said(page)
    assert page.locator(".fl-lanes img").count() == 0


def test_it_works_with_the_keyboard_alone(page) -> None:
    control(page, "what").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("i * 4")
    assert "in 16 sectors of 4 lines" in said(page)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")  # from the slider's 2 to 3
    assert control(page, "index").input_value() == "i * 3"
    assert control(page, "stride").get_attribute("aria-valuetext") == "3"
    for _ in range(3):  # offset, width, request
        page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert control(page, "request").get_attribute("aria-valuetext") == "8 of 8, block 1"
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert "Lane 31: byte 3060" in said(page)  # 4 * 3 * 255


def test_a_lane_can_be_clicked(page) -> None:
    slide(page, "stride", 8)
    page.locator('.fl-lanes [data-lane="20"]').click()
    assert "Lane 20: byte 640, sector 20" in said(page)
    assert control(page, "lane").input_value() == "20"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_telephone_in_both_themes(browser, theme: str) -> None:
    page = opened(browser, PAGE, color_scheme=theme, has_touch=True, viewport={"width": 390, "height": 844})
    control(page, "what").select_option("matrix by rows: reads a")
    for one in page.locator(".fl-lanes :is(select, input, summary)").all():
        assert one.bounding_box()["height"] >= 44
    box = page.locator(".fl-lanes > div > svg").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    paper, ink = page.locator(".fl-lanes svg text").first.evaluate(
        "one => [getComputedStyle(document.body).backgroundColor, getComputedStyle(one).fill]"
    )
    light = [sum(map(float, colour[colour.index("(") + 1 : -1].split(",")[:3])) for colour in (paper, ink)]
    assert abs(light[0] - light[1]) > 380
    page.context.close()


def test_without_javascript_there_is_a_table(browser) -> None:
    page = opened(browser, PAGE, java_script_enabled=False)
    board = page.locator(".fl-lanes")
    assert not board.locator("svg").is_visible()
    assert "matrix by rows: reads a" in board.locator("details table").inner_text()
    page.context.close()


def test_its_data_are_small_and_only_this_page_loads_the_script(page) -> None:
    assert len(page.locator(".fl-lanes").get_attribute("data-lanes")) < 20_000
    assert page.locator("script[src*='lanes.js']").count() == 1
    assert "lanes.js" not in (SITE / "index.html").read_text(encoding="utf-8")
