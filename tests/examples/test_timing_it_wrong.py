"""The six mistakes are those that they are called, and the check accepts what is right and tells what is wrong."""

from pages import judged

from firstlight.lessons.plausibility import MISTAKES
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


def test_reports_from_gpus_are_below_a_floor_and_three_below_all(page) -> None:
    seconds = {what: report[0] for what, report in page["reports"].items()}
    below = {
        what: [seconds[what] < floor for floor in found.values()] for what, found in page["floors"].items() if found
    }
    assert [what[0] for what in below] == ["1", "2", "3", "4"]
    assert all(any(found) for found in below.values())
    assert [what[0] for what, found in below.items() if all(found)] == ["1", "3", "4"]


def test_the_board_starts_from_a_report_whose_first_suspect_is_its_mistake(page) -> None:
    """Those that were not waited for are told to look for that; a reader sees the first of them first."""
    reports = page["on_fastest"]
    assert [report.suspects[0] for report in reports] == ["not-waiting", "unequal-work", "not-waiting", "unequal-work"]
    assert [report.verdict.partition("-")[0] for report in reports] == [
        "impossible",
        "possible",
        "impossible",
        "impossible",
    ]
    assert page["board"].reports is reports


def test_what_names_no_card_is_held_against_the_fastest_memory_of_all_sheets(page) -> None:
    rates = [of.bandwidth for of in SPECS.values() if of.fp32]
    assert spec(page["fastest"], "bandwidth") == max(rates)


def test_all_six_mistakes_are_made(page) -> None:
    assert [*page["measured"]] == [*MISTAKES]


def test_products_become_infinite_at_the_fourth_and_stay_so(page) -> None:
    assert page["finite"] == [True] * 3 + [False] * 7
    assert len(page["infinite"]) == 7
