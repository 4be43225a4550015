"""The page's check accepts what is right and tells what is wrong; its twenty lines do what the page says."""

import statistics

import numpy as np
import pytest
from pages import judged

PAGE = "2_devices/07_timing_it_right.py"


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


def of_the_quick(samples):
    return statistics.median(s for s in samples[1:] if s < 3 * statistics.median(samples[1:]))


def drops_the_impossible(samples, floor):
    return right([samples[0], *(s for s in samples[1:] if s >= floor)], floor)


def in_place(samples, floor):
    first = samples.pop(0)
    return right([first, *samples], floor)


RIGHT = [
    "report_solution",
    right,
    altered(spread=lambda samples: 0.1),
    altered(median=lambda s: np.median(s[1:]), low=lambda s: np.percentile(s[1:], 25)),
]
WRONG = {
    "mean": (altered(median=lambda s: statistics.mean(s[1:])), "mean"),
    "minimum": (altered(median=lambda s: min(s[1:])), "minimum"),
    "outliers dropped": (without_outliers, "slow ones"),
    "outliers dropped, count not": (altered(median=of_the_quick), "median"),
    "first counted": (altered(count=len), "first call"),
    "first is the slowest": (altered(first=max), "first"),
    "median of all": (altered(median=lambda s: statistics.median(s) + 1e-3), "median"),
    "quartiles swapped": (altered(low=lambda s: 1.3, high=lambda s: 1.0), "lower quartile"),
    "extremes": (altered(low=lambda s: min(s[1:]), high=lambda s: max(s[1:])), "quartile"),
    "never refuses": (lambda s, floor: right([s[0], *s[1:], *s[1:]], 0) | {"count": len(s) - 1}, ""),
    "refuses ten, too": (lambda s, floor: right(s, floor) if len(s) > 10 else None, "reported"),
    "counts the first among nine": (lambda s, floor: right(s, floor) or right([*s, s[-1]], floor), "too few"),
    "drops the impossible": (drops_the_impossible, "floor"),
    "asks the rest only": (lambda s, floor: right(s, floor if min(s[1:]) < floor else 0), "floor"),
    "asks the last only": (lambda s, floor: right(s, floor if s[-1] < floor else 0), "floor"),
    "counts in place of a floor": (lambda s, floor: right(s, 0) if 10 <= len(s) <= 13 else None, "floor"),
    "refuses the floor itself": (lambda s, floor: right(s, floor * 1.001), "reported"),
    "changes the list": (in_place, "list"),
    "a number": (lambda s, floor: statistics.median(s[1:]), "dictionary"),
    "half a dictionary": (lambda s, floor: {"first": s[0]}, "dictionary"),
    "text for a median": (altered(median=lambda s: "1.05 s"), "raised"),
    "the start": ("report", "reported"),
}


test_answers = judged(RIGHT, WRONG)


def test_twenty_lines_keep_the_first_call_apart_and_wait_for_each_block(page, monkeypatch) -> None:
    """On a clock of its own: a call takes 1 ms, the first of all 7 ms."""
    done, now = [], [0.0]

    def call() -> None:
        now[0] += 1e-3 if "call" in done else 7e-3
        done.append("call")

    monkeypatch.setitem(page["time_call"].__globals__, "perf_counter", lambda: now[0])
    first, loops, samples = page["time_call"](call, lambda: done.append("wait"))
    assert done[:3] == ["wait", "call", "wait"]
    assert first == pytest.approx(7e-3)
    assert loops >= 5
    assert samples == pytest.approx([1e-3] * 25)
    blocks = " ".join(done).split("wait")
    assert [block.count("call") for block in blocks[-26:-1]] == [loops] * 25


@pytest.mark.parametrize("same", [True, False])
def test_versions_that_take_turns_have_their_ratio_while_the_clock_rate_falls(page, monkeypatch, same) -> None:
    """On a clock of its own: old and new take 2 ms and 1 ms at first, and ever longer."""
    now, order = [0.0], []

    def call(name, seconds):
        now[0] += seconds * (1 + now[0] / 10)
        order.append(name)

    monkeypatch.setitem(page["time_call"].__globals__, "perf_counter", lambda: now[0])
    old, new = (lambda: call("old", 1e-3 if same else 2e-3)), (lambda: call("new", 1e-3))
    low, middle, high = page["compare"](old, new, rounds=9)
    assert low <= middle <= high
    assert middle == pytest.approx(1 if same else 2, rel=0.01)
    turns = [name for name, before in zip(order, [None, *order], strict=False) if name != before]
    assert turns == ["old", "new"] * 10, "each is timed alone, and then nine times in turns"
