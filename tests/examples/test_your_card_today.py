"""The page reads what two owners posted as it says, and its check tells floors from plausible wrong ones."""

from pages import judged

from firstlight.timing.today import Seen, read

PAGE = "2_devices/21_your_card_today.py"


def floor(
    memory=8, cores=lambda card: card.own / card.whole, add=max, clock_of_memory=False, paper="paper",
    ratio=lambda paper, clock: paper / clock, untold=None,
):  # fmt: skip
    """An answer that may count the parts of a slice wrongly, add up, or mistake the clocks."""

    def least(moved, operations, card):
        says = {"now": card.clock, "highest": card.highest, "paper": str(card.paper)}
        seen = Seen({"name": "", "memory.total": card.memory, **says})
        slower = ratio(seen.number(paper), seen.number("now") or untold or seen.number("highest"))
        eighths = 8 / memory * seen.shares(card.slice)[0] if card.slice else 1
        by_memory = moved / card.bandwidth / eighths * (slower if clock_of_memory else 1)
        return add((by_memory, operations / card.rate / cores(card) * slower))

    return least


WRONG = {
    "a sum": (floor(add=sum), "longer"),
    "the clock turned round": (floor(ratio=lambda paper, clock: clock / paper), "clock"),
    "no clock": (floor(ratio=lambda *_: 1), "clock"),
    "a clock of the memory, too": (floor(clock_of_memory=True), "memory"),
    "sevenths of the memory": (floor(memory=7), "eighths"),
    "sevenths of the cores": (floor(cores=lambda card: int(card.slice[0]) / 7 if card.slice else 1), "whole"),
    "the highest clock for the sheet's": (floor(paper="highest"), "paper"),
    "half of a clock that isn't told": (floor(untold=705), "told"),
    "never a number there": (lambda *given: float("nan"), "Hint"),
    "the start": ("least", "NoneType"),
}

test_answers = judged(["least_solution", floor()], WRONG)


def test_the_two_cards_are_slow_at_what_the_text_says(page) -> None:
    first, second = ({what: does for what, _, does in seen.rows()} for seen in read(page["posted"]))
    assert first["clock"] == "arithmetic: 1.19 times as long"
    assert "ever" in first["memory's clock"]
    assert second["clock"] == "arithmetic: 1.07 times as long"
    assert all("times" in second[what] for what in ("clock", "memory's clock"))


def test_the_slices_have_the_parts_that_the_text_names(page) -> None:
    (seen,) = read(page["sliced"])
    assert [seen.shares(name) for name in seen.slices] == [(1 / 2, 42 / 108), (1 / 8, 14 / 108)]


def test_the_figure_shows_what_the_record_has(page) -> None:
    lines = page["ax"].get_lines()
    assert len(lines) == 4, "three kinds of products, and the first one's time"
    for line in lines[:2]:
        when, slower = line.get_data()
        assert max(slower[when < 35]) < 1.02
        assert min(slower[when > 50]) > 1.1
