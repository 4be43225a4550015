"""The check knows how many warps are enough; the model, the picture and the table agree with their sources."""

import itertools
import math

import numpy as np
import pytest
from pages import judged
from samples import recorded

PAGE = "1_setup/03_what_is_a_gpu.py"
ORANGE = (0xD9 / 255, 0x76 / 255, 0x2B / 255)


def with_numpy(wait, work, schedulers):
    return np.ceil((wait + work) / work) * schedulers


WRONG = {  # each with a word of the hint that it should get
    "one scheduler": (lambda wait, work, schedulers: -(-(wait + work) // work), "busy"),
    "without the work": (lambda wait, work, schedulers: math.ceil(wait / work) * schedulers, "busy"),
    "rounded down": (lambda wait, work, schedulers: (wait + work) // work * schedulers, "busy"),
    "rounded at the end": (lambda wait, work, schedulers: math.ceil((wait + work) / work * schedulers), "busy"),
    "not rounded": (lambda wait, work, schedulers: (wait + work) / work * schedulers, "whole|busy"),
    "one more": (lambda wait, work, schedulers: (wait // work + 2) * schedulers, "fewer"),
    "all that it holds": (lambda wait, work, schedulers: 64, "busy|fewer"),
    "a great many": (lambda wait, work, schedulers: 4096, "fewer"),
    "none": (lambda wait, work, schedulers: 0, "whole"),
    "the start": ("warps_needed", "whole"),
}

test_answers = judged(["warps_needed_solution", with_numpy], WRONG)


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16, 18, 19, 20, 40])
def test_the_model_is_as_busy_as_the_formula_says(page, warps) -> None:
    assert page["busy"](warps) == pytest.approx(min(1, warps * 40 / 760))
    starts = [start for _, start in page["turns"](warps, 40, 720, 7600)]
    assert all(b - a >= 40 for a, b in itertools.pairwise(starts)), "two warps at once"


def test_the_wait_is_the_one_that_was_measured() -> None:
    walk = recorded("3_kernels/11_bytes_in_flight").timings["bytes-in-flight/1 thread walks/cuda:0"]
    assert walk.median / 10_000 * 1.98e9 == pytest.approx(720, rel=0.02)


def test_the_picture_shows_every_multiprocessor_and_core_of_its_card(page) -> None:
    figure = next(one for one in page["plt"].get_fignums() if "inside" in page["plt"].figure(one).get_suptitle())
    axes = page["plt"].figure(figure).axes[0]
    squares = [one for one in axes.patches if one.get_facecolor()[:3] == pytest.approx(ORANGE) and not one.get_alpha()]
    assert len(squares) == page["sms"] + page["cores"] == 132 + 128
    texts = " ".join(text.get_text() for text in axes.texts)
    for shown in (
        "132 streaming",
        "128 CUDA",
        "2,048 threads",
        "3.35 TB/s",
        "63.02 GB/s",
        "80 GiB",
        "256 KiB",
        "50 MiB",
    ):
        assert shown in texts


def test_the_table_falls_from_row_to_row_as_the_prose_says(page) -> None:
    spec, card = page["spec"], page["card"]
    rates = [*page["rates"].values(), spec(card, "bandwidth")]
    rates.append(spec(page["slot"], "bandwidth"))
    assert rates == sorted(rates, reverse=True)
    assert 6_000 < rates[0] / rates[-1] < 7_000
    clock = spec(card, "fp32") / (2 * page["sms"] * page["cores"])
    assert clock == pytest.approx(1.98e9, rel=0.01), "the boost clock of an H100 SXM"
