"""The page's check accepts what is right and tells what is wrong; its ratios are those of its table."""

import math

import numpy as np
import pytest

PAGE = "1_setup/02_first_speedup.py"


def check_of(page, answer) -> str:
    return page["check"](answer)


RIGHT = [
    lambda n, seconds, bandwidth: seconds >= 12 * n / bandwidth,
    lambda n, seconds, bandwidth: np.bool_(seconds * bandwidth >= n * 3 * 4),
]
WRONG = {
    "float64": lambda n, seconds, bandwidth: seconds >= 24 * n / bandwidth,
    "forgot the result": lambda n, seconds, bandwidth: seconds >= 8 * n / bandwidth,
    "one vector": lambda n, seconds, bandwidth: seconds >= 4 * n / bandwidth,
    "the wrong way round": lambda n, seconds, bandwidth: seconds <= 12 * n / bandwidth,
    "strictly": lambda n, seconds, bandwidth: seconds > 12 * n / bandwidth,
    "always": lambda *_: True,
    "never": lambda *_: False,
    "the floor": lambda n, seconds, bandwidth: 12 * n / bandwidth,
    "raises": lambda n, seconds, bandwidth: n / 0,
    "other arguments": lambda n: n,
    "milliseconds": lambda n, seconds, bandwidth: 1e-3 * seconds >= 12 * n / bandwidth,
    "no function": 3.7e-3,
}


@pytest.mark.parametrize("answer", RIGHT)
def test_right_answers(page, answer) -> None:
    assert check_of(page, answer).startswith("Right")


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG)
def test_wrong_answers_are_told_why(page, answer) -> None:
    said = check_of(page, answer)
    assert said.startswith("possible(")
    assert len(said) > 40


def test_the_solution_is_right_and_the_start_is_not(page) -> None:
    assert check_of(page, page["possible_solution"]).startswith("Right")
    assert "True or False" in check_of(page, page["possible"])


def test_the_frame_is_around_the_best_cpu_row(page) -> None:
    times = list(page["baselines"].values())
    assert times == sorted(times, reverse=True)
    assert times[-1] == min(t.median for t in page["bench"].timings if t.device == "cpu")
    assert page["ratios"][-1, 0] == pytest.approx(1)


def test_ratios_are_those_of_the_table(page) -> None:
    ratios = page["ratios"]
    assert ratios.shape == (len(page["baselines"]), len(page["contenders"]))
    assert np.all(np.diff(ratios, axis=0) <= 0)
    assert np.all(ratios > 0)
    assert math.isfinite(ratios.sum())


def test_the_card_of_the_tutorial_could_not_do_it(page) -> None:
    for card in ("GTX 1080", "GTX 1660 Ti"):
        assert not page["possible_solution"](page["n_then"], 3.1e-3, page["bandwidths"][card])


def test_the_figure_says_what_it_shows(page) -> None:
    assert "factor of" in page["fig"].get_label()
