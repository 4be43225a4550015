"""The page's check accepts what is right and tells what is wrong; its ratios are those of its table."""

import numpy as np
import pytest
from pages import judged

PAGE = "1_setup/02_first_speedup.py"
WRONG = {
    "float64": (lambda n, seconds, bandwidth: seconds >= 24 * n / bandwidth, "4 bytes"),
    "forgot the result": (lambda n, seconds, bandwidth: seconds >= 8 * n / bandwidth, "written"),
    "one vector": (lambda n, seconds, bandwidth: seconds >= 4 * n / bandwidth, "written"),
    "the wrong way round": (lambda n, seconds, bandwidth: seconds <= 12 * n / bandwidth, "written"),
    "strictly": (lambda n, seconds, bandwidth: seconds > 12 * n / bandwidth, "exactly"),
    "always": (lambda *_: True, "written"),
    "never": (lambda *_: False, "4 bytes"),
    "the floor": (lambda n, seconds, bandwidth: 12 * n / bandwidth, "True or False"),
    "milliseconds": (lambda n, seconds, bandwidth: 1e-3 * seconds >= 12 * n / bandwidth, "possible("),
    "no function": (3.7e-3, "TypeError"),
    "the start": ("possible", "True or False"),
}


RIGHT = ["possible_solution", lambda n, seconds, bandwidth: np.bool_(seconds * bandwidth >= n * 3 * 4)]

test_answers = judged(RIGHT, WRONG)


def test_the_best_cpu_row_comes_last_and_is_compared_with_itself(page) -> None:
    times = list(page["baselines"].values())
    assert times == sorted(times, reverse=True)
    assert page["ratios"][-1, 0] == pytest.approx(1)


def test_the_card_of_the_tutorial_could_not_do_it(page) -> None:
    for card in ("GTX 1080", "GTX 1660 Ti"):
        assert not page["possible_solution"](page["n_then"], 3.1e-3, page["bandwidths"][card])
