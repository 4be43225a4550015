"""Tables, axes, controls and quantities say the same in a terminal, a notebook and on a page."""

import math
import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight.display import Table, percent, quantity, save_figures, show_table
from firstlight.lessons.svg import board, choice, controls

TABLE = Table("times <b>", ("", "n", "median"), (("a & b", "–", "1 s"), ('<script>"', "–", "22 s")))
HOSTILE = '"><img src=x onerror=alert(1)>'
SCALE = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def test_text_is_aligned() -> None:
    caption, head, rule, first, second = TABLE.text().splitlines()
    assert caption == "times <b>"
    assert len(rule) >= len(head)
    assert first.startswith("a & b")
    assert first.index("–") == second.index("–")
    assert Table("nothing", ("", "n"), ()).text().splitlines()[0] == "nothing"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (("1 s", "–"), False),
        (("-3", "−3", "±2 %", "< 1"), False),
        (("never", "200"), False),
        (("–", "–"), False),
        (("ok", "noisy", "–"), True),
        (("right", "319 missing"), True),
        (("0.9 ± 0.1 ms", "12 GFLOP/s"), False),
    ],
)
def test_numbers_stand_to_the_right_and_words_to_the_left_in_every_column(cells: tuple[str, ...], words: bool) -> None:
    table = Table("", ("row", "a wide head", "last"), tuple(("x", cell, "1") for cell in cells))
    assert ('<th scope="col" class="fl-words">a wide head' in table.html()) == words
    assert table.html().count('<td class="fl-words">') == words * len(cells)
    _, head, _, first, *_ = table.text().splitlines()
    assert (first.index(cells[0]) == head.index("a wide head")) == words


def test_a_shown_table_is_its_text(capsys) -> None:
    show_table(TABLE.caption, list(TABLE.head), map(list, TABLE.rows))
    assert capsys.readouterr().out == f"{TABLE.text()}\n"


def test_html_is_escaped_and_each_head_says_of_what() -> None:
    html = TABLE.html()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<caption>times &lt;b&gt;</caption>" in html
    assert "<thead><tr><td></td><th" in html  # the first column has no head
    assert (html.count('scope="col"'), html.count('scope="row"')) == (2, 2)


def test_columns_that_say_nothing_are_left_out_but_never_the_first() -> None:
    slim = Table("", ("", "n", "x"), (("–", "–", "1"),)).drop_columns()
    assert (slim.head, slim.rows) == (("", "x"), (("–", "1"),))
    assert TABLE.drop_columns({"median"}).head == ("",)


@pytest.mark.parametrize(
    "html", [board("lanes", {"name": HOSTILE}), choice("what", [HOSTILE]), controls((HOSTILE, ""))]
)
def test_hostile_names_are_text(html: str) -> None:
    assert "<img" not in html
    assert "&lt;img" in html


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (999.9e-6, "s", "1.00 ms"),
        (0.9995, "s", "1.00 s"),
        (3e-13, "s", "0.000300 ns"),
        (12_345, "s", "12300 s"),
        (999_500, "B/s", "1.00 MB/s"),
        (0, "s", "0 s"),
        (math.nan, "s", "–"),
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
        "0%", "0.4%", "1%", "50%", "101%", "–", "–",
    ]  # fmt: skip


def test_what_breaks_lines_or_commands_a_terminal_is_written_out():
    cell = "a\x1b[2Jb\nc\u202ed\udcff"
    text = Table(cell, ("", cell), ((cell, "1"),)).text()
    assert len(text.splitlines()) == 4
    assert text.replace("\n", "").isprintable()
    assert r"\x1b[2J" in text


def test_figures_are_saved_where_no_window_can_open_and_only_there(tmp_path, capsys, monkeypatch):
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    assert mpl.get_backend().lower() == "agg", "no test may open a window"
    plt.close("all")
    save_figures(str(tmp_path / "page.py"))
    assert list(tmp_path.iterdir()) == []
    plt.figure(7, figsize=(1, 1))
    save_figures(str(tmp_path / "page.py"))
    assert [file.name for file in tmp_path.iterdir()] == ["page.7.png"]
    assert str(tmp_path / "page.7.png") in capsys.readouterr().out
    with mpl.rc_context():
        plt.switch_backend("svg")  # stands for a notebook's, or a window's
        plt.figure(8)
        save_figures(str(tmp_path / "other.py"))
        plt.switch_backend("agg")
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(os, "access", lambda *_: False)  # a folder that a class shares
    plt.close(8)
    save_figures(str(tmp_path / "shared.py"))
    elsewhere = Path(capsys.readouterr().out.partition(": ")[2].strip())
    assert elsewhere.name == "shared.7.png"
    assert elsewhere.parent != tmp_path
    shutil.rmtree(elsewhere.parent)
    monkeypatch.setattr(os, "access", lambda *_: False)  # a folder that a class shares
    plt.close(8)
    save_figures(str(tmp_path / "shared.py"))
    elsewhere = Path(capsys.readouterr().out.partition(": ")[2].strip())
    assert elsewhere.name == "shared.7.png"
    assert elsewhere.parent != tmp_path
    shutil.rmtree(elsewhere.parent)
