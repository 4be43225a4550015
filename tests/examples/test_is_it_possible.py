"""The number of the page is impossible, its repair is right, and the check tells right answers from wrong ones."""

import pytest
import torch
from pages import judged

from firstlight.timing.specs import SPECS, spec

PAGE = "2_devices/03_is_it_possible.py"


def floors(report):
    """The two floors of a report, in seconds."""
    memory = report.calls * (report.read + report.written) * report.size / spec(report.card, "bandwidth")
    return memory, report.calls * report.operations / spec(report.card, "fp32")


def answer(memory=1.0, arithmetic=1.0, change=lambda report: report):
    """A function that multiplies the floors by something wrong, or misreads the report."""

    def what_forbids(report):
        by_memory, by_arithmetic = floors(change(report))
        if report.seconds < memory * by_memory:
            return "memory"
        return "arithmetic" if report.seconds < arithmetic * by_arithmetic else "nothing"

    return what_forbids


WRONG = {
    "bits for bytes": (answer(memory=8), "one sum"),
    "bytes for bits": (answer(memory=1 / 8), "copy"),
    "forgot the write": (answer(change=lambda r: r._replace(written=0)), "copy"),
    "float64": (answer(change=lambda r: r._replace(size=8)), "one sum"),
    "always float32": (answer(change=lambda r: r._replace(size=4)), "float16 sum"),
    "memory only": (answer(arithmetic=0), "product"),
    "one call": (answer(change=lambda r: r._replace(calls=1)), "ten sums"),
    "a list": (lambda report: ["memory"], "memory"),
    "true": (lambda report: True, "memory"),
    "never": (lambda report: "nothing", "Hint"),
    "the start": ("what_forbids", ""),
    "numbers, not bytes": (answer(change=lambda r: r._replace(size=1)), "copy"),
}


test_answers = judged(["what_forbids_solution", answer()], WRONG)


def test_none_of_the_five_is_near_a_floor_or_below_both(page) -> None:
    """Nobody is refused for a rounding, and there is one right name for each."""
    for report in page["five"]:
        memory, arithmetic = floors(report)
        assert not (report.seconds < memory and report.seconds < arithmetic)
        assert all(abs(report.seconds / floor - 1) > 0.005 for floor in (memory, arithmetic) if floor)
    assert sum(page["what_forbids_solution"](report) != "nothing" for report in page["five"]) == 3


def test_all_reports_are_impossible_and_the_first_suspect_is_their_mistake(page) -> None:
    """Those that were not waited for are told to look for that."""
    found = [(report.verdict, report.suspects[0]) for report in page["reports"]]
    assert found == [
        ("impossible-twice", "not-waiting"),
        ("impossible", "unequal-work"),
        ("impossible", "not-waiting"),
    ]
    assert page["board"].reports is page["reports"]


def test_the_number_is_held_against_the_fastest_card_of_all_sheets(page) -> None:
    rates = {name: of.fp32 for name, of in SPECS.items() if of.fp32}
    assert spec(page["fastest"], "fp32") == max(rates.values())
    assert min(page["least"].values()) > 100 * 0.001
    assert page["operations"] / 2 == 10 * 10_000**3
    # Cards that round to fewer bits are faster than these, but no memory is faster than that either.
    assert page["reports"][0].bytes / max(of.bandwidth for of in SPECS.values() if of.fp32) >= 0.001


def test_products_become_infinite_at_the_fourth(page) -> None:
    matrix = torch.rand(1_000, 1_000, generator=torch.Generator().manual_seed(2))
    finite = []
    for _ in range(5):
        matrix = matrix @ matrix
        finite.append(bool(torch.isfinite(matrix).all()))
    assert finite == [True] * 3 + [False] * 2
    assert torch.isinf(page["x"]).all()


def test_the_right_check_refuses_a_result_that_is_not_finite(page, monkeypatch) -> None:
    assert page["seconds_for_one"]("cpu", 33) > 0
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: torch.full(shape, 1e30))
    with pytest.raises(AssertionError):
        page["seconds_for_one"]("cpu", 33)
