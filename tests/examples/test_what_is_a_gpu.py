"""The page's check accepts what is right and tells what is wrong; its cards and its picture agree with the makers."""

import numpy as np
import pytest
from pages import judged

PAGE = "1_setup/03_what_is_a_gpu.py"
ORANGE = (0xD9 / 255, 0x76 / 255, 0x2B / 255)


def right(multiprocessors, threads_each, threads_in_block):
    return sum(threads_each // (32 * len(range(0, threads_in_block, 32))) for _ in range(multiprocessors))


WRONG = {  # each with a word of the hint that it should get
    "threads": (lambda m, t, b: m * t, "fills this one"),
    "warps": (lambda m, t, b: m * t // 32, "fills this one"),
    "one multiprocessor": (lambda m, t, b: right(1, t, b), "all multiprocessors"),
    "halves of blocks": (lambda m, t, b: m * t / b, "half held"),
    "over all threads": (lambda m, t, b: m * t // b, "half held"),
    "over all warps": (lambda m, t, b: m * (t // 32) // -(-b // 32), "half held"),
    "no warps": (lambda m, t, b: m * (t // b), "4 warps"),
    "warps rounded down": (lambda m, t, b: m * (t // 32 // max(b // 32, 1)), "4 warps"),
    "rounded to powers of two": (lambda m, t, b: m * (t // (1 << (b - 1).bit_length())) - (b == 33), "2 warps"),
    "a pair": (lambda *a: (right(*a), 0), "fills this one"),
    "the start": ("blocks_held", "fills this one"),
}

test_answers = judged(["blocks_held_solution", right, lambda *a: np.int64(right(*a))], WRONG)


def test_the_check_expects_what_is_right(page) -> None:
    for arguments, (expected, _) in page["cases"].items():
        assert right(*arguments) == expected


def test_the_table_counts_lanes_as_their_makers_do(page) -> None:
    table = {row[0]: row[1:] for row in page["rows"]}
    assert table["lanes in all, CUDA cores"] == ("1,024", "16,384", "16,896")
    assert table["threads that each holds"] == ("1,024", "1,536", "2,048")
    assert table["VRAM"] == ("4 GiB", "24 GiB", "80 GiB")


def test_the_picture_shows_every_multiprocessor_and_lane_of_its_card(page) -> None:
    number, capability, warps, _ = page["chips"]["H100 SXM"]
    lanes = page["PER_CLOCK"][capability][0]
    orange = [patch for patch in page["fig"].axes[0].patches if patch.get_facecolor()[:3] == pytest.approx(ORANGE)]
    assert len([patch for patch in orange if patch.get_alpha() is None]) == number + lanes
    texts = " ".join(text.get_text() for text in page["fig"].axes[0].texts)
    for shown in (f"{number} multiprocessors", f"{lanes} lanes", f"{warps} warps", "3.35 TB/s", "63.02 GB/s", "80 GiB"):
        assert shown in texts


def test_what_the_prose_says_of_the_cards_holds(page) -> None:
    for number, capability, warps, _ in page["chips"].values():
        assert 8 * page["PER_CLOCK"][capability][0] <= warps * page["in_a_warp"]
        assert number * warps * page["in_a_warp"] > 10_000
    for chip, (_, _, _, slot) in page["chips"].items():
        assert page["spec"](slot, "bandwidth") < page["spec"](chip, "bandwidth") / 5
