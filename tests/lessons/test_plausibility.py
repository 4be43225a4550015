"""A claim is judged by its bytes, its operations and its card, and told the mistake that is likeliest."""

import math

import pytest

from firstlight.lessons.board import Board
from firstlight.lessons.plausibility import Claim, Place, place_of
from firstlight.lessons.replay import Replay, Span
from firstlight.timing.measurement import Timing
from firstlight.timing.roofs import Ceilings, Roof, judge

ADD = 12 * 99_000_000
MATVEC = 4 * (100_000 * 100 + 100 + 100_000)
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(1)</script>&'


def claim(seconds, card="GTX 1080", bytes=ADD, flops=None):
    return Claim("it", seconds, place_of(card), bytes, flops)


def verdict_of_a_bench(made: Claim) -> str:
    timing = Timing("it", "cuda:0", made.seconds, (made.seconds,), bytes=made.bytes, flops=made.flops)
    limits = Ceilings(byte_rate=made.place.byte_rate, cache_bytes=made.place.cache)
    return judge(timing, limits, Roof(made.place.byte_rate, made.place.flop_rate or math.inf)).verdict


# -- Verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "verdict", "kind", "first"),  # the verdict is that of a Bench
    [
        (claim(3.1e-3), "impossible", "impossible", "unequal-work"),
        (claim(3.1e-3, "GTX 1080 Ti"), "ok", "possible", "unequal-work"),
        (claim(10.4e-6, "GTX 1650", MATVEC), "impossible", "impossible", "not-waiting"),
        (claim(264e-6, "GTX 1650", MATVEC), "impossible", "impossible", "unequal-work"),
        (claim(1e-3, "H200", 8e9, 2e13), "impossible", "impossible-twice", "not-waiting"),
        (claim(2e-3, "H200", 8e9, 2e13), "above-roof", "above-float32", "not-waiting"),
        (claim(10.4e-6, "H200", MATVEC), "ok", "at-floor", "not-checked"),
        (claim(2e-6, "H200", MATVEC), "in-cache", "in-cache", "not-waiting"),
        (claim(30e-3), "ok", "possible", "fresh-memory"),
        (claim(0.5), "ok", "possible", "first-call"),
        (claim(claim(1.0).floor / 1.09), "ok", "at-floor", "not-checked"),  # the tolerance is that of a Bench
        (claim(claim(1.0).floor / 1.11), "impossible", "impossible", "unequal-work"),
        (claim(1.0, "GTX 1650", 1e9, 1e15), "ok", "possible", "first-call"),  # nobody tells its rate of operations
        (claim(1e-3, "H200", 80e9), "impossible", "impossible", "not-waiting"),
        (claim(5e-3, "H200", 80e9), "impossible", "impossible", "changing-work"),
    ],
)
def test_verdicts(made: Claim, verdict: str, kind: str, first: str) -> None:
    assert (verdict_of_a_bench(made), made.kind, made.suspects[0]) == (verdict, kind, first)
    assert "{" not in made.sentence


def test_a_measured_rate_never_says_impossible() -> None:
    here = Place("here", 30e9, 150e9, cache=32 * 2**20, measured=True)
    assert Claim("it", 1e-6, here, 240e6).kind == "above-roof"
    assert Claim("it", 1e-6, here, 1e6).kind == "in-cache"
    assert Claim("it", 1e-6, here, 1e6, 1e9).kind == "above-roof"
    assert Claim("it", 9e-3, here, 240e6).kind == "at-floor"


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("name", ["seconds", "bytes", "flops"])
def test_what_is_no_positive_number_is_refused(name: str, value: float) -> None:
    given = {"seconds": 1.0, "bytes": 1.0, "flops": 1.0, name: value}
    with pytest.raises(ValueError, match=name):
        Claim("it", place=place_of("H200"), **given)


# -- A mistake as a chart ----------------------------------------------------------------------------------------------


def replay(**changes) -> Replay:
    spans = [Span("queue", "add", 2.0, 9.0), Span("host", "launch add", 1.0, 2.0), Span("host", "wait", 2.0, 9.0)]
    facts = {"mistake": "not-waiting", "spans": spans, "clock": (1.0, 2.0), "reported": 1.0, "honest": 8.0}
    return Replay(**facts | changes)


def test_a_chart_has_every_bar_with_its_time() -> None:
    html = replay()._repr_html_()
    assert html.count("<title>") == 4
    for told in ("queue: add, 7.00 s", "clock: clock, 1.00 s", 'data-mistake="not-waiting"', "1.00 s of 8.00 s"):
        assert told in html


def test_a_chart_in_a_terminal_is_as_wide_as_its_spans() -> None:
    _, host, queue, clock, legend = str(replay()).split("\n")
    assert [len(host), len(queue)] == [7 + 60, 7 + 60]
    assert host.split()[1] == "|" + "=" * 6 + "." * 53
    assert queue.split()[1] == "|" + "=" * 52
    assert clock.endswith("X stopped")
    assert "hatched" not in legend
    assert "hatched" in str(replay(other={"add"}))


@pytest.mark.parametrize(
    "changes", [{"reported": 0}, {"honest": math.nan}, {"reported": math.inf}, {"mistake": HOSTILE}]
)
def test_what_is_no_replay_is_refused(changes) -> None:
    with pytest.raises(ValueError, match=r"mistake|seconds"):
        replay(**changes)


# -- The board ---------------------------------------------------------------------------------------------------------


def board(name="add") -> Board:
    claims = [Claim(name, 3.1e-3, place_of("GTX 1080"), ADD), Claim("other", 1.0, Place(name, 1e9), 1e9)]
    return Board(claims, [replay()], places=[Place(name, 1e9, measured=True)])


def test_the_static_form_and_the_terminal_say_all(capsys) -> None:
    html = board()._repr_html_()
    assert board().show() is None
    for said in (html, " ".join(capsys.readouterr().out.split())):
        for told in ("GTX 1080", "3.10 ms is 0.84 of the floor", "not waiting", "0.12 of the true time"):
            assert told in said
    assert "<details open>" in html
    assert html.index("<div hidden>") < html.index("<input")  # only the page's script gives them life


def test_hostile_names_are_text() -> None:
    spans = [Span("queue", HOSTILE, 0, 1), Span("host", HOSTILE, 0, 1)]
    html = board(HOSTILE)._repr_html_() + replay(spans=spans, note=HOSTILE, other={HOSTILE}, clock=(0, 1))._repr_html_()
    assert 'fill="url(#fl-hatch-not-waiting)"' in html
    assert "<img" not in html
    assert "<script" not in html
