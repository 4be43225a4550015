"""The page on cards says what the site's pages say, each for its card."""

from collections.abc import Callable

import pytest
from samples import ROOT

import card_tables as cards
from firstlight.timing.specs import SPECS


def judged(judge: Callable[..., str], name: str) -> str:
    return judge(SPECS[name], cards.READERS[name])


@pytest.mark.parametrize("name", cards.CARDS)
def test_a_card_has_a_cell_under_each_head(name: str) -> None:
    row = cards.cells(name)
    assert len(row) == len(cards.HEAD)
    assert all(row)


def test_each_conclusion_turns_on_one_of_the_cards_and_has_a_page() -> None:
    for page, judge in cards.CONCLUSIONS.values():
        assert (ROOT / f"examples/{page}.py").is_file()
        assert len({judged(judge, name) for name in cards.READERS}) > 1


def test_the_clauses_are_those_of_the_pages() -> None:
    costs = {name: judged(cards.double_zero, name) for name in cards.READERS}
    assert [name for name, says in costs.items() if says.startswith("costs")] == ["T4", "B300"]
    assert "nothing has to be sent" in judged(cards.sum_once, "GB10")
    assert judged(cards.float64_in_products, "H100 SXM") == "as long"
    assert judged(cards.float64_in_products, "B300") == "60 times as long"
    assert [judged(cards.autocast, name) == "can gain" for name in ("T4", "A100 80GB SXM")] == [False, True]
    part = [judged(cards.three_registers, name)[:4] for name in ("T4", "A100 80GB SXM", "GB10")]
    assert part == ["all ", "all ", "half"]


def test_what_the_page_says_of_the_table_holds() -> None:
    of = {name: SPECS[name] for name in cards.CARDS}
    slow = [card.fp32 / card.fp64 > 30 for card in of.values() if card.fp32 and card.fp64]
    assert 0.4 < sum(slow) / len(slow) < 0.6
    ridges = {name: card.fp32 / card.bandwidth for name, card in of.items() if card.fp32 and card.bandwidth}
    assert min(ridges, key=ridges.__getitem__) in ("B200", "B300")
    assert 10 < ridges["L4"] / ridges["B200"] < 12
    size = {name: SPECS[cache].size or 0 for name, cache in cards.LAST_CACHE.items()}
    assert {name for name, held in size.items() if held > 105e6} == {"B200", "MI300A", "MI300X"}
    assert size["T4"] == 4 * 2**20
    assert (of["GB10"].bandwidth or 0) < (of["T4"].bandwidth or 0)
