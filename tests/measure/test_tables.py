from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.measure.tables import Table, percent, quantity

SCALE = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (999.9e-6, "s", "1.00 ms"),
        (0.9995, "s", "1.00 s"),
        (1e-9, "s", "1.00 ns"),
        (3e-13, "s", "0.000300 ns"),
        (12_345, "s", "12300 s"),
        (999_500, "B/s", "1.00 MB/s"),
        (0, "s", "0 s"),
        (math.nan, "s", "–"),
        (math.inf, "B/s", "–"),
        (None, "s", "–"),
    ],
)
def test_quantity(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@given(st.floats(1e-9, 1e3))
def test_quantity_reads_back_to_three_digits(seconds: float) -> None:
    number, prefix = re.fullmatch(r"([\d.]+) ([nµm]?)s", quantity(seconds, "s")).groups()
    assert float(number) * SCALE[prefix] == pytest.approx(seconds, rel=0.006)
    assert float(number) < 1000 or seconds >= 999


def test_percent() -> None:
    assert [percent(x) for x in (0, 0.004, 0.00999, 0.5, 1.013, None, math.nan)] == [
        "0 %", "0.4 %", "1 %", "50 %", "101 %", "–", "–",
    ]  # fmt: skip


TABLE = Table("times <b>", ("", "n", "median"), (("a & b", "–", "1 s"), ('<script>"', "–", "22 s")))


def test_text_is_aligned() -> None:
    caption, head, rule, *rows = TABLE.text().splitlines()
    assert caption == "times <b>"
    assert len(rule) >= len(head)
    assert [row.index("s", 12) for row in rows] == [rows[0].index("s", 12)] * 2 or "22 s" in rows[1]
    assert rows[0].startswith("a & b")


def test_html_is_escaped_and_has_scopes() -> None:
    html = TABLE.html()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<caption>times &lt;b&gt;</caption>" in html
    assert html.count('scope="col"') == 2  # the first column has no head
    assert html.count('scope="row"') == 2


def test_a_column_without_a_head_has_no_head_that_says_nothing() -> None:
    html = Table("sizes", ("", "n"), (("x", "1"),)).html()
    assert "<thead><tr><td></td><th" in html
    assert '<th scope="row">x</th>' in html


def test_columns_that_say_nothing_are_left_out_but_never_the_first() -> None:
    slim = Table("", ("", "n", "x"), (("–", "–", "1"),)).without(set())
    assert slim.head == ("", "x")
    assert slim.rows == (("–", "1"),)
    assert TABLE.without({"median"}).head == ("",)


def test_a_table_without_rows() -> None:
    empty = Table("nothing", ("", "n"), ())
    assert empty.text().splitlines()[0] == "nothing"
    assert "<tbody></tbody>" in empty.html()
