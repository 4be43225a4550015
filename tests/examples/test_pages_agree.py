"""Pages that speak of the same case say the same, with one count of launches, and none loses a heading."""

import re

import pytest
from pages import EXAMPLES

from firstlight.records.record import read, record_files


def printed(page: str) -> str:
    """All that a page printed on the newest record."""
    records = map(read, record_files(EXAMPLES.parent / "records", page))
    return "\n".join(max(records, key=lambda record: record.facts["date"]).outputs.values())


def test_the_launches_of_a_step_of_the_fit_are_counted_once() -> None:
    counted = re.search(r"(?ms)^as usual +(\d+).*^few passes +(\d+)", printed("4_imaging/08_faster"))
    source = (EXAMPLES / "4_imaging/09_many_channels.py").read_text(encoding="utf-8")
    assumed = re.search(r"(?m)^starts, kernels = (\d+), (\d+)", source)
    assert counted
    assert assumed
    assert int(counted[1]) == pytest.approx(int(assumed[1]), rel=0.05)
    assert counted[2] == assumed[2]


def test_no_page_has_an_overhead_of_its_own() -> None:
    for script in EXAMPLES.glob("*/[0-9][0-9]_*.py"):
        found = re.findall(r"\b(?:launch|overhead|LAUNCH|WAIT)\w* = \d[\de.-]*", script.read_text(encoding="utf-8"))
        assert not found, script.name


def test_an_empty_line_stands_before_each_heading() -> None:
    for script in EXAMPLES.rglob("*.py"):
        lost = r"(?m)^# (?!%%).+\n# (.+)\n# ([-=~^])\2{3,}$"
        assert not re.findall(lost, script.read_text(encoding="utf-8")), script.name
