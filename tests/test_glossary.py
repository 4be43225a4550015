"""The glossary: what each entry needs, so that a reader who knows neither trade can use it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_prose_numbers import typed

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```\{glossary\}\n(.*?)\n```", TEXT, re.DOTALL)
# An entry: lines that begin at the margin, then a definition.
ENTRIES = {
    forms: definition
    for block in BLOCKS
    for forms, definition in re.findall(r"^((?:[^\s:`].*\n)+)((?:  .*(?:\n|$)|\n)+)", f"{block}\n", re.MULTILINE)
}
FORMS = [form for forms in ENTRIES for form in forms.splitlines()]
FRONT = re.findall(r"^  ([^:\n]+): \[(.*)\]$", TEXT.split("---\n")[1], re.MULTILINE)
LINKED_IN = {form: places.split(", ") if places else [] for form, places in FRONT}
PAGES = [
    path.relative_to(ROOT).as_posix()
    for folder, kind in (("docs", "*.md"), ("examples", "*/*.py"))
    for path in (ROOT / folder).glob(kind)
]
DRAWINGS = sorted((ROOT / "docs/figures").glob("*.svg"))


def test_it_is_long_enough_and_read_in_full():
    assert len(ENTRIES) >= 60
    assert len(ENTRIES) == TEXT.count("  Shown in ")
    assert TEXT.count(":sorted:") == len(BLOCKS) >= 7


def test_no_form_stands_twice():
    assert sorted({form.casefold() for form in FORMS}) == sorted(form.casefold() for form in FORMS if form != "tf32")


@pytest.mark.parametrize("definition", ENTRIES.values(), ids=[forms.split("\n")[0] for forms in ENTRIES])
def test_an_entry_explains_in_plain_sentences_and_names_pages_that_exist(definition):
    said, _, shown = " ".join(definition.split()).rpartition(" Shown in ")
    gist = re.split(r"(?<=[.!?])\s", said)[0]
    assert gist[-1] in ".!?"
    assert 15 < len(gist) <= 170, f"{gist!r} is the tooltip: one sentence that stands alone"
    assert 1 <= len(re.findall(r"[.!?](?:\s|$)", said)) <= 12
    assert not re.search(r"\$|\be\.g|\bi\.e|\{math", gist), "a tooltip has no mathematics, and ends with a sentence"
    pages = re.findall(r"\{doc\}`/([^`]+)`", shown)
    assert pages, "name the page that shows it"
    for page in pages:
        examples = page.replace("tutorials/", "examples/")
        assert f"docs/{page}.md" in PAGES or f"{examples}.py" in PAGES, f"there is no page {page}"
    assert typed(said) == []


def test_other_entries_are_named_as_they_are_called():
    named = re.findall(r"\{term\}`(?:[^`<]*<)?([^`>]+)>?`", TEXT)
    assert named
    assert set(named) <= set(FORMS)


def test_linked_in_names_forms_and_places_that_exist():
    assert LINKED_IN
    assert list(LINKED_IN) == sorted(LINKED_IN), "in alphabetical order"
    assert set(LINKED_IN) <= set(FORMS)
    for form, places in LINKED_IN.items():
        assert [place for place in places if not any(place in page for page in PAGES)] == [], form


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_a_drawing_is_small_follows_the_theme_and_says_what_it_shows(path):
    drawing = path.read_text(encoding="utf-8")
    assert f":file: figures/{path.name}" in TEXT
    assert len(drawing.encode()) <= 2048
    assert 'role="img"' in drawing
    assert len(re.findall('aria-label="([^"]*)"', drawing)[0]) > 60
    assert set(re.findall(r'(?:fill|stroke)="([^"]*)"', drawing)) <= {"none", "currentColor"}
    assert float(re.findall('font-size="([^"]*)"', drawing)[0]) >= 12
    assert int(re.findall('viewBox="0 0 ([0-9]+)', drawing)[0]) <= 360, "it is read on a telephone"
