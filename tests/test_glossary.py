"""The glossary leads to pages and entries that exist, and its drawings can be seen or heard by all."""

import re
from pathlib import Path

import pytest
from test_prose_numbers import typed

from firstlight.display import COLOURS

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
PAGES = [path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.py"))]
DRAWINGS = sorted((ROOT / "docs/figures").glob("*.svg"))


def test_no_form_stands_twice():
    assert sorted({form.casefold() for form in FORMS}) == sorted(form.casefold() for form in FORMS if form != "tf32")


def test_an_entry_names_pages_that_exist_and_no_number_typed_by_hand():
    for forms, definition in ENTRIES.items():
        said, _, shown = " ".join(definition.split()).rpartition(" Shown in ")
        pages = re.findall(r"\{doc\}`/([^`]+)`", shown)
        assert pages, forms
        for page in pages:
            examples = page.replace("tutorials/", "examples/")
            assert f"docs/{page}.md" in PAGES or f"{examples}.py" in PAGES, f"{forms}: there is no page {page}"
        assert typed(said) == [], forms


def test_other_entries_are_named_as_they_are_called():
    named = re.findall(r"\{term\}`(?:[^`<]*<)?([^`>]+)>?`", TEXT)
    assert named
    assert set(named) <= set(FORMS)


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_a_drawing_is_shown_stands_out_in_both_themes_and_has_a_label(path):
    drawing = path.read_text(encoding="utf-8")
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    assert any(f"figures/{path.name}\n" in page for page in pages)
    assert 'role="img"' in drawing
    assert re.search('aria-label="[^"]+"', drawing)
    assert set(re.findall(r'(?:fill|stroke)="([^"]*)"', drawing)) <= {"none", "currentColor", *COLOURS}
