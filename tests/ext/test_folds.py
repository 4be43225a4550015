from __future__ import annotations

import pytest

PAGE = "html/tutorials/01_fold.html"


@pytest.fixture(scope="module")
def folds(gallery):
    return gallery.elements(PAGE).folds


def test_only_cells_that_begin_with_the_word_are_folded(folds):
    assert len(folds) == 3
    assert all(text.startswith("Solution\n") for text in (folds[0], folds[2]))


def test_a_fold_can_have_a_title_of_its_own(folds):
    assert folds[1].startswith("Another way, for the curious\n")
    assert folds[1].count("printed for the curious") == 2, "in the code and as output"


def test_a_fold_holds_the_cell_and_all_of_its_output(folds):
    for part in ("class Table:", "printed by the solution", "42000 rows"):
        assert part in folds[0]
    assert folds[2].count("printed last") == 2, "in the code and as output"


def test_both_figures_are_in_the_fold_for_both_themes(gallery):
    places = [fold for tag, attributes, fold in gallery.elements(PAGE).found
              if tag == "img" and "sphx-glr-single-img" in (attributes["class"] or "")]  # fmt: skip
    assert places == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "outside",
    ["Text before", "printed before", "printed to mislead", "Text of the exercise", "Text after", "printed after",
     "printed by no solution", "Run it yourself"],
)  # fmt: skip
def test_what_is_not_the_solution_stays_outside(gallery, folds, outside):
    assert outside in gallery.read(PAGE)
    assert not any(outside in text for text in folds)


def test_a_fold_is_closed_until_the_reader_opens_it(gallery):
    folded = [attributes for tag, attributes, _ in gallery.elements(PAGE).found if tag == "details"]
    assert folded
    assert all("open" not in attributes for attributes in folded)
