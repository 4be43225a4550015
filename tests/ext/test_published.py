import re
from dataclasses import replace
from pathlib import Path

import pytest

from _ext import published
from _ext.notebooks import in_words
from _ext.prose import example_by_bench, timing_number
from _ext.published import evaluate, read, rows_of
from firstlight.timing import specs
from projects import ROOT

GOOD = """
[gtx]
card = "GTX 1080"
quantity = "read a million bytes"
value = 4e-6
unit = "s"
configuration = "one call"
by = "Ada"
year = 2016
source = "https://example.org/log"
spec = "GTX 1080"
model = "n / bandwidth"
given = { n = 1e6 }
"""
TUTORIALS = sorted((ROOT / "examples").glob("*/[0-9]*.py"))


def asked(script: Path) -> list[str]:
    """The boxes of a tutorial, by the names of their rows."""
    return [
        re.sub(r"\n#", " ", names)
        for names in re.findall(r"measured-by-others:: (.*(?:\n#  +\S.*)*)", script.read_text("utf-8"))
    ]


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(published, "FILE", tmp_path / "published.toml")
    published.FILE.write_text(GOOD, encoding="utf-8")
    return published.FILE


@pytest.mark.parametrize("field", ["source", "model", "card", "value", "configuration", "by", "year"])
def test_a_row_that_lacks_what_it_needs_is_refused_by_name(field):
    without = re.sub(rf"^{field} = .*\n", "", GOOD, flags=re.MULTILINE)
    for text in (without, f'{without}{field} = ""\n'):
        with pytest.raises(ValueError, match=rf"'gtx'.*{field}"):
            read(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("https://example.org/log", "a friend"),
        ("n / bandwidth", "n / bandwidths"),
        ("n / bandwidth", "n /"),
        ("n / bandwidth", "fp64 / n"),
        ('GTX 1080"\nmodel', 'GTX 1081"\nmodel'),
        ("4e-6", "4.8e-6"),
        ("4e-6", "2e-6"),
        ("spec =", "Spec ="),
    ],
)
def test_a_row_that_cannot_stand_is_refused(old, new):
    assert old in GOOD
    assert read(GOOD)
    with pytest.raises(ValueError, match="'gtx'"):
        read(GOOD.replace(old, new))


def test_a_row_far_off_needs_its_reason_either_way():
    for value in ("1e-6", "1e-3"):
        far = GOOD.replace("4e-6", value)
        with pytest.raises(ValueError, match="reason"):
            read(far)
        assert read(far + 'reason = "a slow card"\n')["gtx"].reason


@pytest.mark.parametrize(
    "model",
    [
        "__import__('os')",
        "(1).real",
        "n.real",
        "[n][0]",
        "open(n)",
        "'a' * 3",
        "True",
        "lambda: 1",
        "n if n else 1",
        "(n := 1)",
    ],
)
def test_a_model_is_arithmetic_and_nothing_else(model):
    with pytest.raises(ValueError, match="the model"):
        evaluate(model, {"n": 2.0})


def test_arithmetic_has_its_functions():
    assert evaluate("max(2 * n, -1) ** 2 / min(4, sqrt(16)) + log2(8)", {"n": 2.0}) == 7.0


@pytest.mark.usefixtures("file")
def test_a_changed_sheet_changes_the_box(monkeypatch):
    before = rows_of("gtx")[0].cells()
    slower = replace(specs.SPECS["GTX 1080"], bandwidth=300e9)
    monkeypatch.setitem(specs.SPECS, "GTX 1080", slower)
    after = rows_of("gtx")[0].cells()
    assert (before[2], before[4]) == ("3.13 µs", "1.28")
    assert (after[2], after[4]) == ("3.33 µs", "1.2")
    assert before[3] == after[3] == "4.00 µs"


def test_a_box_whose_rows_all_have_a_cpu_shows_the_gain_over_it(file):
    file.write_text(GOOD + "cpu = 1e-3\n", encoding="utf-8")
    book = published.in_markdown("gtx")
    assert "| their CPU | their GPU | gain |" in book
    assert "| 1.00 ms | 4.00 µs | 250 × |" in book
    assert "one call. Our model says 3.13 µs." in book


@pytest.mark.usefixtures("file")
def test_a_box_has_few_rows_that_are_there():
    for names in ("", "nobody", "gtx nobody", "gtx gtx gtx gtx gtx"):
        with pytest.raises(ValueError, match=r"nobody|rows"):
            rows_of(names)


@pytest.mark.usefixtures("file")
def test_a_page_and_its_notebook_show_the_box(make_site):
    site = make_site({"box.rst": "Box\n===\n\nText.\n\n.. measured-by-others:: gtx\n"})
    site.rebuild()
    html = site.read("html/box.html")
    assert "4.00 µs" in html
    assert 'href="https://example.org/log"' in html
    cells = '{"cells": [{"cell_type": "markdown", "source": ["A box:\\n\\n.. measured-by-others:: gtx\\n\\nMore."]}]}'
    book = in_words(cells, {}, lambda _: [], lambda *_: "")
    assert "[Ada, 2016](https://example.org/log)" in book
    assert "measured-by-others" not in book
    site.write("box.rst", "Box\n===\n\nText.\n\n.. measured-by-others:: nobody\n")
    assert site.build("html").failed
    assert site.build("html").failed  # at each build, until it is mended


def test_every_box_of_the_site_can_be_shown_and_every_row_is():
    boxes = {script: asked(script) for script in TUTORIALS}
    names = {name for each in boxes.values() for box in each for name in box.split()}
    assert all(rows_of(box) for each in boxes.values() for box in each)
    assert all(len(each) <= 1 for each in boxes.values())
    assert sum(map(len, boxes.values())) >= 28
    assert names == set(read(published.FILE.read_text("utf-8")))


def test_nothing_published_can_get_among_our_own_numbers():
    for file in (ROOT / "src").rglob("*.py"):
        assert not re.search(r"published\.toml|\b_ext\b", file.read_text("utf-8")), file
    code = Path(published.__file__).read_text("utf-8")
    assert not re.search(r"firstlight\.(records|timing\.(bench|result|measurement|ceilings|roofs))", code)
    prose = (ROOT / "docs/_ext/prose.py").read_text("utf-8")
    assert not re.search(r"import.*published|published\.toml|_ext\.published", prose)
    for name in read(published.FILE.read_text("utf-8")):
        with pytest.raises(ValueError, match="no experiment"):
            timing_number(f"{name} median {name} @gpu", example_by_bench(ROOT), lambda _: [])
