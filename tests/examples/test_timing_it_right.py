"""The page's check accepts what is right and tells what is wrong; its twenty lines do what the page says."""

import math
import statistics

import numpy as np
import pytest

PAGE = "2_devices/04_timing_it_right.py"


def check_of(page, answer) -> str:
    return page["check"](answer)


def right(samples, floor):
    """The solution, without NumPy and with the other common rule for quartiles."""
    first, rest = samples[0], samples[1:]
    if len(rest) < 9 or any(sample < floor for sample in samples):
        return None
    low, middle, high = statistics.quantiles(rest, n=4)
    return {"first": first, "median": middle, "low": low, "high": high, "count": len(rest)}


def altered(**changes):
    """The solution with some entries replaced by what a function makes of the samples after the first."""

    def answer(samples, floor):
        got = right(samples, floor)
        return got and got | {name: change(samples) for name, change in changes.items()}

    return answer


def without_outliers(samples, floor):
    middle = statistics.median(samples[1:])
    return right([samples[0], *(s for s in samples[1:] if s < 3 * middle)], floor)


def trimmed_quietly(samples, floor):
    got = right(samples, floor)
    kept = [s for s in samples[1:] if s < 3 * got["median"]] if got else []
    return got and right([samples[0], *samples[1:]], floor) | {
        "median": statistics.median(kept),
        "count": len(samples) - 1,
    }


def drops_the_impossible(samples, floor):
    return right([samples[0], *(s for s in samples[1:] if s >= floor)], floor)


def in_place(samples, floor):
    first = samples.pop(0)
    return right([first, *samples], floor)


RIGHT = {
    "solution": right,
    "more entries": altered(spread=lambda samples: 0.1),
    "NumPy's numbers": altered(median=lambda s: np.median(s[1:]), low=lambda s: np.percentile(s[1:], 25)),
}
WRONG = {
    "mean": (altered(median=lambda s: statistics.mean(s[1:])), "the mean"),
    "minimum": (altered(median=lambda s: min(s[1:])), "the minimum"),
    "outliers dropped": (without_outliers, "Leave no slow ones out"),
    "outliers dropped, count not": (trimmed_quietly, "not the median"),
    "first counted": (altered(count=len), "the first call is counted"),
    "first is the slowest": (altered(first=max), "whatever its size"),
    "median of all": (altered(median=lambda s: statistics.median(s) + 1e-3), "not the median"),
    "quartiles swapped": (altered(low=lambda s: 1.3, high=lambda s: 1.0), "lower quartile"),
    "extremes": (altered(low=lambda s: min(s[1:]), high=lambda s: max(s[1:])), "quartile"),
    "never refuses": (lambda s, floor: right([s[0], *s[1:], *s[1:]], 0) | {"count": len(s) - 1}, ""),
    "refuses ten, too": (lambda s, floor: right(s, floor) if len(s) > 10 else None, "can be reported"),
    "counts the first among nine": (lambda s, floor: right(s, floor) or right([*s, s[-1]], floor), "too few"),
    "drops the impossible": (drops_the_impossible, "under the floor"),
    "refuses the floor itself": (lambda s, floor: right(s, floor * 1.001), "can be reported"),
    "always refuses": (lambda s, floor: None, "can be reported"),
    "changes the list": (in_place, "changed the list"),
    "a number": (lambda s, floor: statistics.median(s[1:]), "the dictionary"),
    "half a dictionary": (lambda s, floor: {"first": s[0]}, "the dictionary"),
    "text for a median": (altered(median=lambda s: "1.05 s"), "raised"),
    "raises": (lambda s, floor: 1 / 0, "ZeroDivisionError"),
    "other arguments": (lambda s: s, "TypeError"),
    "no function": (3.7, "TypeError"),
}


@pytest.mark.parametrize("answer", RIGHT.values(), ids=RIGHT)
def test_right_answers(page, answer) -> None:
    assert check_of(page, answer).startswith("Right")


@pytest.mark.parametrize(("answer", "hint"), WRONG.values(), ids=WRONG)
def test_wrong_answers_are_told_why(page, answer, hint) -> None:
    said = check_of(page, answer)
    assert said.startswith("Not yet. With ")
    assert hint in said


def test_the_solution_is_right_and_the_start_is_not(page) -> None:
    assert check_of(page, page["report_solution"]).startswith("Right")
    assert "can be reported" in check_of(page, page["report"])


def test_what_was_timed_is_right(page) -> None:
    assert page["worst_error"]() <= 2**-24
    page["toy"].synchronize()
    assert np.array_equal(page["a_plus_b"], page["a"] + page["b"])


def test_the_page_leaves_the_threads_as_they_were(page) -> None:
    import torch

    assert torch.get_num_threads() == page["threads"]


def test_twenty_lines_keep_the_first_call_apart_and_wait_for_each_block(page) -> None:
    done = []
    first, loops, samples = page["time_call"](lambda: done.append("call"), lambda: done.append("wait"))
    assert done[:3] == ["wait", "call", "wait"]
    assert 9 <= len(samples) <= 25
    assert all(sample > 0 for sample in (first, *samples))
    blocks = " ".join(done).split("wait")
    assert [block.count("call") for block in blocks[-26:-1]] == [loops] * 25


def test_the_timer_is_twenty_lines_long(page) -> None:
    import inspect

    code = [line for line in inspect.getsource(page["time_call"]).splitlines() if line.strip()]
    assert len(code) <= 20


def test_the_odds_of_nine_samples(page) -> None:
    assert page["inside"] == pytest.approx(1 - 2 * (1 + 9 + 36) / 512)


def test_claims_about_torchs_timer(page) -> None:
    assert page["compiles"].number_per_run == 1 < page["compiled"].number_per_run
    assert page["single"].iqr == 0
    assert len(page["single"].times) == 1
    assert page["compiled"].task_spec.num_threads == 1
    assert not page["seen"]  # one number of threads was seen, and printed


def test_every_answer_is_in_the_picture(page) -> None:
    assert len(page["answers"]) == len(page["rights"]) == 7
    assert all(math.isfinite(factor) and factor > 0 for _, factor, _ in page["answers"].values())
    assert all(middle == pytest.approx(1) for _, middle, _ in page["rights"].values())
    assert len(page["cold"]) == len(page["warm"]) == 100
    assert f"{len(page['outside'])} of the 7" in page["fig"].get_label()
