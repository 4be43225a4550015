"""The page reads what two owners posted as it says, and its check tells floors from plausible wrong ones."""

import pytest
from pages import judged

from firstlight.timing.today import Seen, read

PAGE = "2_devices/21_your_card_today.py"


def floor(memory=8, cores=7, add=max, clock_of_memory=False, ratio=lambda highest, clock: highest / clock, untold=None):
    """An answer that may count the parts of a slice wrongly, add up, or turn the clocks round."""

    def least(moved, operations, card):
        seen = Seen({"name": "", "memory.total": card.memory, "now": card.clock, "most": card.highest})
        parts = seen.shares(card.slice) if card.slice else (1, 1)
        slower = ratio(seen.number("most"), seen.number("now") or untold or seen.number("most"))
        eighths, sevenths = 8 / memory * parts[0] if card.slice else 1, 7 / cores * parts[1] if card.slice else 1
        by_memory = moved / card.bandwidth / eighths * (slower if clock_of_memory else 1)
        return add((by_memory, operations / card.rate / sevenths * slower))

    return least


WRONG = {
    "a sum": (floor(add=sum), "longer"),
    "the clock turned round": (floor(ratio=lambda highest, clock: clock / highest), "clock"),
    "no clock": (floor(ratio=lambda *_: 1), "clock"),
    "a clock of the memory, too": (floor(clock_of_memory=True), "memory"),
    "sevenths of the memory": (floor(memory=7), "eighths"),
    "eighths of the cores": (floor(cores=8), "sevenths"),
    "half of a clock that isn't told": (floor(untold=705), "told"),
    "never a number there": (lambda *given: float("nan"), "Hint"),
    "the start": ("least", "NoneType"),
}

test_answers = judged(["least_solution", floor()], WRONG)


def test_the_two_cards_are_slow_at_what_the_text_says(page) -> None:
    first, second = ({what: does for what, _, does in seen.rows()} for seen in read(page["posted"]))
    assert first["clock"] == "arithmetic: 1.19 times as long"
    assert "ever" in first["memory's clock"]
    assert all("times" in second[what] for what in ("clock", "memory's clock"))


def test_the_slices_have_the_parts_that_the_text_names(page) -> None:
    (seen,) = read(page["sliced"])
    assert [seen.shares(name) for name in seen.slices] == [pytest.approx((1 / 2, 3 / 7)), pytest.approx((1 / 8, 1 / 7))]


def test_the_figure_shows_what_the_record_has(page) -> None:
    lines = page["ax"].get_lines()
    assert len(lines) == 3, "two kinds of products, and the first one's time"
    for line in lines[:2]:
        when, slower = line.get_data()
        assert max(slower[when < 35]) < 1.02
        assert min(slower[when > 50]) > 1.1
