"""A reported time is judged by its bytes, its operations and its card, and the likeliest mistake is named."""

import math

import pytest

from firstlight.lessons.plausibility import Board, Hardware, ReportedTime
from firstlight.timing.ceilings import Ceilings, Roof
from firstlight.timing.result import Timing
from firstlight.timing.verdicts import with_verdicts

ADD = 12 * 99_000_000
MATVEC = 4 * (100_000 * 100 + 100 + 100_000)
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(1)</script>&'


def report(seconds, card="GTX 1080", bytes=ADD, flops=None):
    return ReportedTime("it", seconds, Hardware.from_spec(card), bytes, flops)


def verdict_of_a_bench(made: ReportedTime) -> str:
    timing = Timing("it", "cuda:0", made.seconds, (made.seconds,), bytes=made.bytes, flops=made.flops)
    limits = Ceilings(byte_rate=made.hardware.byte_rate, cache_bytes=made.hardware.cache)
    return with_verdicts(timing, limits, Roof(made.hardware.byte_rate, made.hardware.flop_rate or math.inf)).verdict


# -- Verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "of_a_bench", "verdict", "first"),
    [
        (report(3.1e-3), "impossible", "impossible", "unequal-work"),
        (report(3.1e-3, "GTX 1080 Ti"), "ok", "possible", "unequal-work"),
        (report(10.4e-6, "GTX 1650", MATVEC), "impossible", "impossible", "not-waiting"),
        (report(240e-6, "GTX 1650", MATVEC), "impossible", "impossible", "unequal-work"),
        (report(1e-3, "H200", 8e9, 2e13), "impossible", "impossible-twice", "not-waiting"),
        (report(2e-3, "H200", 8e9, 2e13), "above-roof", "above-float32", "not-waiting"),
        (report(10.4e-6, "H200", MATVEC), "ok", "at-floor", "not-checked"),
        (report(2e-6, "H200", MATVEC), "in-cache", "in-cache", "not-waiting"),
        (report(12e-6, "H200", 1e8), "in-cache", "in-cache", "unequal-work"),  # of 100 MB, 60 MiB may lie in a cache
        (report(190e6 / 31e12, "H200", 190e6), "impossible", "impossible", "not-waiting"),  # and of 190 MB no more
        (report(30e-3), "ok", "possible", "fresh-memory"),
        (report(0.5), "ok", "possible", "first-call"),
        (report(report(1.0).floor / 1.09), "ok", "at-floor", "not-checked"),  # the tolerance is that of a Bench
        (report(report(1.0).floor / 1.11), "impossible", "impossible", "unequal-work"),
        (report(1.0, "GTX 1650", 1e9, 1e15), "ok", "possible", "first-call"),  # nobody tells its rate of operations
        (report(1e-3, "H200", 80e9), "impossible", "impossible", "not-waiting"),
        (report(5e-3, "H200", 80e9), "impossible", "impossible", "changing-work"),
    ],
)
def test_verdicts(made: ReportedTime, of_a_bench: str, verdict: str, first: str) -> None:
    assert (verdict_of_a_bench(made), made.verdict, made.suspects[0]) == (of_a_bench, verdict, first)
    assert "{" not in made.sentence


def test_a_measured_rate_never_says_impossible() -> None:
    here = Hardware("here", 30e9, 150e9, cache=32 * 2**20, measured=True)
    assert ReportedTime("it", 1e-6, here, 240e6).verdict == "above-roof"
    assert ReportedTime("it", 1e-6, here, 1e6).verdict == "in-cache"
    assert ReportedTime("it", 1e-6, here, 1e6, 1e9).verdict == "above-roof"
    assert ReportedTime("it", 9e-3, here, 240e6).verdict == "at-floor"
    assert ReportedTime("it", 1e-3, here, 60e6).verdict == "in-cache"  # some 26 MB come from memory
    assert ReportedTime("it", 6e-4, here, 60e6).verdict == "above-roof"


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("name", ["seconds", "bytes", "flops"])
def test_what_is_no_positive_number_is_refused(name: str, value: float) -> None:
    given = {"seconds": 1.0, "bytes": 1.0, "flops": 1.0, name: value}
    with pytest.raises(ValueError, match=name):
        ReportedTime("it", hardware=Hardware.from_spec("H200"), **given)


# -- The board ---------------------------------------------------------------------------------------------------------


def board(name="add") -> Board:
    reports = [
        ReportedTime(name, 3.1e-3, Hardware.from_spec("GTX 1080"), ADD),
        ReportedTime("other", 1.0, Hardware(name, 1e9), 1e9),
    ]
    return Board(reports, hardware=[Hardware(name, 1e9, measured=True)])


def test_the_static_form_and_the_terminal_say_all(capsys) -> None:
    html = board()._repr_html_()
    assert board().show() is None
    for said in (html, " ".join(capsys.readouterr().out.split())):
        for told in ("GTX 1080", "3.10 ms is 0.84 of the floor", "not waiting", "Wait for the GPU"):
            assert told in said
    assert "<details open>" in html
    assert "<input" not in html  # the page's script makes what it gives life to


def test_hostile_names_are_text() -> None:
    html = board(HOSTILE)._repr_html_()
    assert "&lt;script" in html
    assert "<img" not in html
    assert "<script" not in html
