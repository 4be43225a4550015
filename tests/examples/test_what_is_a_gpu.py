"""The check accepts whoever never idles while a warp is ready; picture and table agree with the makers."""

import itertools
import random

import numpy as np
import pytest
from pages import judged

PAGE = "1_setup/03_what_is_a_gpu.py"
ORANGE = (0xD9 / 255, 0x76 / 255, 0x2B / 255)


def the_longest_ready(ready_at, now):  # noqa: ARG001
    return min(range(len(ready_at)), key=ready_at.__getitem__)


def the_last_of_the_ready(ready_at, now):
    ready = [warp for warp, cycle in enumerate(ready_at) if cycle <= now]
    return np.int64(ready[-1] if ready else np.argmin(ready_at))


def in_turn():
    turn = iter(range(10**6))
    return lambda ready_at, now: next(turn) % len(ready_at)


WRONG = {  # each with a word of the hint that it should get
    "always the first": (lambda ready_at, now: 0, "was ready"),
    "the one that waits longest": (lambda ready_at, now: ready_at.index(max(ready_at)), "was ready|will be"),
    "in turn": (in_turn(), "was ready|will be"),
    "any": (lambda ready_at, now: random.Random(now).randrange(len(ready_at)), "was ready|will be"),
    "the first if none is ready": (
        lambda ready_at, now: next((warp for warp, cycle in enumerate(ready_at) if cycle <= now), 0),
        "will be",
    ),
    "the cycle": (lambda ready_at, now: min(ready_at) + 1000, "index"),
    "counted from the end": (lambda ready_at, now: -1, "index"),
    "the start": ("next_warp", "index"),
}

test_answers = judged(["next_warp_solution", the_longest_ready, the_last_of_the_ready], WRONG)


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 12, 13, 14, 40])
def test_the_model_is_as_busy_as_the_formula_says(page, warps) -> None:
    assert page["busy"](warps) == pytest.approx(min(1, warps * 32 / 416), abs=0.005)
    starts = [start for _, start in page["turns"](warps)]
    assert all(b - a >= 32 for a, b in itertools.pairwise(starts)), "two warps at once"


def test_the_picture_shows_every_multiprocessor_and_core_of_its_card(page) -> None:
    figure = next(one for one in page["plt"].get_fignums() if "PCIe" in page["plt"].figure(one).get_suptitle())
    axes = page["plt"].figure(figure).axes[0]
    squares = [one for one in axes.patches if one.get_facecolor()[:3] == pytest.approx(ORANGE) and not one.get_alpha()]
    assert len(squares) == page["sms"] + page["cores"] == 132 + 128
    texts = " ".join(text.get_text() for text in axes.texts)
    for shown in ("132 streaming", "128 CUDA", "64 warps", "3.35 TB/s", "63.02 GB/s", "80 GiB", "256 KiB", "50 MiB"):
        assert shown in texts


def test_the_table_falls_from_row_to_row_as_the_prose_says(page) -> None:
    spec, card = page["spec"], page["card"]
    rates = [*page["rates"].values(), spec("A100 40GB L2", "bandwidth"), spec(card, "bandwidth")]
    rates.append(spec(page["slot"], "bandwidth"))
    assert rates == sorted(rates, reverse=True)
    assert 8_000 < rates[0] / rates[-1] < 10_000
    clock = spec(card, "fp32") / (2 * page["sms"] * page["cores"])
    assert clock == pytest.approx(1.98e9, rel=0.01), "the boost clock of an H100 SXM"
