"""The page counts what it asks for, its cures give right results, and its check tells which cure pays."""

import pytest
import torch
from pages import judged

from firstlight.timing.result import RowName, Timing

PAGE = "2_devices/16_fewer_launches.py"


def variant(**changed):
    """The solution with some of its terms replaced."""

    def cure(job):
        each = changed.get("each", max)(job.launch, job.work)
        count = job.runs * job.steps
        stacked = changed.get("stacked", lambda j: max(j.launch, j.runs * j.work))(job)
        times = {
            "batch": job.steps * job.operations * stacked,
            "compile": changed.get("build", 1) * job.build + count * job.merged * each,
            "capture": count * changed.get("replay", lambda j: max(j.launch, j.operations * j.work))(job),
        }
        best = min(times, key=lambda name: times[name])
        return best if times[best] <= count * job.operations * each / changed.get("worth", 2) else "leave"

    return cure


BATCH, COMPILE, CAPTURE, LEAVE = "grows", "building", "launches", "half"
WRONG = {
    "forgot the build": (variant(build=0), COMPILE),
    "the sum": (variant(each=lambda a, b: a + b, replay=lambda j: j.launch + j.operations * j.work), CAPTURE),
    "stacked work is free": (variant(stacked=lambda j: j.launch), BATCH),
    "replayed work is free": (variant(replay=lambda j: j.launch), CAPTURE),
    "no threshold": (variant(worth=1), BATCH),
    "always batch": (lambda job: "batch", BATCH),
    "always compile": (lambda job: "compile", COMPILE),
    "always capture": (lambda job: "capture", CAPTURE),
    "never": (lambda job: "leave", LEAVE),
    "another word": (lambda job: "graph", "four words"),
    "gives a list": (lambda job: ["batch"], "four words"),
    "the start": ("cure", "four words"),
}


test_answers = judged(["cure_solution", variant()], WRONG)


def test_leapfrog_is_of_second_order(page, monkeypatch) -> None:
    def miss(step):
        body = torch.tensor([[1.0], [0.0], [0.0], [1.0]], dtype=torch.float64)
        monkeypatch.setitem(page["advance"].__globals__, "STEP", step)
        for _ in range(round(2 / step)):
            body = page["advance"](*body, 1.0)
        t = torch.tensor(4.0, dtype=torch.float64)
        return (body[0] - t.cos()).abs().item()

    assert miss(0.02) / miss(0.01) == pytest.approx(4, rel=0.05)


def test_the_operations_are_those_of_the_code(page) -> None:
    assert page["operations"] == 38
    assert page["moved"] == 360  # bytes an asteroid; 32 would do


def test_a_build_pays_within_a_range_or_is_said_not_to(page, monkeypatch) -> None:
    def row(way, low, high):
        return Timing(label=way, device="cpu", n=7, first=1.0, values=(low, (low + high) / 2, high), cores=1.0)

    for after, said in (((1e-5, 1e-5), "100,000 calls"), ((1e-6, 5e-5), "or more, if ever"), ((3e-4, 4e-4), "never")):
        timings = [row("as written", 2e-5, 2e-5), row("compiled", *after)]
        rows = {RowName("a", timing.label, "cpu", 7): timing for timing in timings}
        monkeypatch.setattr(page["bench"], "rows", rows)
        assert said in page["in_words"](page["break_even"](1.0, 7)), after


def test_the_toy_list_keeps_the_three_rules(page) -> None:
    assert page["result"].tolist() == [11, 12, 13]  # neither the other x nor the other factor
    with pytest.raises(RuntimeError, match="wants to know a number"), page["Tape"]():
        bool(torch.ones(3).sum() > 1)
