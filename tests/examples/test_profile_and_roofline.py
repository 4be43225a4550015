"""The page's check accepts what is right and tells what is wrong; the profile finds the copies that the page names."""

import json

import pytest
import torch
from pages import judged

PAGE = "2_devices/14_profile.py"


def lengths(events):
    return {name: end - start for name, start, end in events}


def by_search(events):
    """Give each moment to the shortest event around it."""
    own = dict.fromkeys((name for name, _, _ in events), 0)
    for moment in range(max(end for *_, end in events)):
        around = [event for event in events if event[1] <= moment < event[2]]
        if around:
            own[min(around, key=lambda event: event[2] - event[1])[0]] += 1
    return own


def all_within(events):
    own = {}
    for name, start, end in events:
        inside = [e - s for _, s, e in events if start <= s and e <= end and (s, e) != (start, end)]
        own[name] = own.get(name, 0) + end - start - sum(inside)
    return own


def touching(events):
    """Take an event that begins as another ends for its callee."""
    own, callers = {}, []
    for name, start, end in events:
        while callers and callers[-1][1] < start:
            callers.pop()
        own[name] = own.get(name, 0) + end - start
        if callers:
            own[callers[-1][0]] -= end - start
        callers.append((name, end))
    return own


WRONG = {
    "total": (lambda events: {name: sum(e - s for n, s, e in events if n == name) for name, *_ in events}, "total"),
    "the last of a name": (lengths, "total"),
    "grandchildren twice": (all_within, "direct callees"),
    "neighbours": (touching, "less what|direct callees"),
    "without its own": (lambda events: {k: v for k, v in by_search(events).items() if k != "to"}, "the names"),
    "milliseconds": (lambda events: {k: v / 1e3 for k, v in by_search(events).items()}, "has 3, not"),
    "a list": (lambda events: list(by_search(events).items()), "a dictionary"),
    "the start": ("self_times", "a dictionary"),
}

test_answers = judged(["self_times_solution", by_search], WRONG)


@pytest.mark.parametrize("side", [9, 33, 64])
def test_the_loop_agrees_with_numpy(page, side) -> None:
    assert page["check_against_numpy"](page["best_scores"], side=side) < 1e-5


def copies(prof) -> int:
    return sum(row.count for row in prof.key_averages() if row.key == "aten::copy_")


def test_the_profile_finds_the_cast_and_the_copy_of_abs(page) -> None:
    assert copies(page["found"]) >= copies(page["cured"]) + page["frames"]
    modes = torch.fft.rfft2(torch.ones(9, 9))
    for function, some in ((lambda z: z.real.square(), False), (torch.abs, True)):
        assert bool(copies(page["profiled"](function, modes))) is some


def test_a_frame_of_the_trace_is_whole_and_its_copy_lies_within_match(page) -> None:
    before, after = page["before"], page["after"]
    for events in (before, after):
        assert events[0]["name"] == "frame"
        assert {"taper", "FFT", "power", "match", "aten::mv"} <= {event["name"] for event in events}
        json.dumps(events)
    match = next(event for event in before if event["name"] == "match")
    inside = [e for e in before if match["ts"] <= e["ts"] and e["ts"] + e["dur"] <= match["ts"] + match["dur"]]
    assert "aten::copy_" in {event["name"] for event in inside}
    assert 0 < page["share"] < 1


def test_self_times_of_the_trace_are_those_of_the_profiler(page) -> None:
    """The exercise is about what the table shows: on the frame's own events, all self times add up to the frame."""
    events = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in page["before"]]
    own = page["self_times_solution"](events)
    assert sum(own.values()) == pytest.approx(page["before"][0]["dur"])
    assert min(own.values()) > -1e-3
