"""What stands in a page as reST becomes Markdown in its notebook."""

import json

import pytest
from samples import EXAMPLES
from sphinx_gallery.notebook import jupyter_notebook
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

from _ext.notebooks import in_words

CONF = dict.fromkeys(("first_notebook_cell", "last_notebook_cell"))
CONF |= dict.fromkeys(("notebook_images", "pypandoc", "promote_jupyter_magic"), False)


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_no_table_or_download_of_a_page_is_lost_on_the_way_to_its_notebook(script) -> None:
    # sphinx-gallery writes :math:`N` as $N$, which narrows the columns of a simple table.
    notebook = jupyter_notebook(split_code_and_text_blocks(str(script))[1], CONF, "")
    words = in_words(json.dumps(notebook), {}, lambda *_: [], lambda role, text, target: text or target)
    assert "table::" not in words
    assert ":offered:" not in words


PAGE = """
.. dropdown:: Others, too

   They wrote `a long
   guide`__ and `a short one`__. See :ref:`three steps <steps>`.

   __ https://one.example/
   __ https://two.example/

   .. measured-by-others:: sam-a6000
"""


def words(*cells: tuple[str, str]) -> list[str]:
    notebook = {"cells": [{"cell_type": kind, "source": [text]} for kind, text in cells]}
    return ["".join(cell["source"]) for cell in json.loads(in_words(json.dumps(notebook), {}, None, None))["cells"]]


def test_a_fold_keeps_the_addresses_of_its_links_and_what_others_measured() -> None:
    (text,) = words(("markdown", PAGE.replace(":ref:", "")))  # as sphinx-gallery hands it on
    assert "[a long\nguide](https://one.example/) and [a short one](https://two.example/)" in text
    assert "*three steps*" in text
    assert "measured-by-others" not in text
    assert "| " in text[: text.index("</details>")]
    assert "__" not in text


def test_what_follows_a_table_is_no_row_of_it() -> None:
    page = ".. list-table:: Two\n   :header-rows: 1\n\n   * - a\n     - b\n   * - 1\n     - 2\n\nText."
    (text,) = words(("markdown", page))
    assert text.endswith("| 1 | 2 |\n\nText.")


@pytest.mark.parametrize(
    "figure",
    [
        "timings:: sums\n   :plot:\n   :rows: a; b",
        "stacks:: sums\n   :plot: x\n\n   one | a |\n   b",
        "raw:: html\n   :file: ../../figures/tiles.svg",
    ],
)
def test_a_figure_of_a_record_and_a_drawing_are_on_the_site_alone(figure) -> None:
    (text,) = words(("markdown", f"Its times:\n\n.. {figure}\n\nThey grow."))
    assert text.startswith("Its times:\n\n(")
    assert text.endswith(")\n\nThey grow.")
    assert ":plot:" not in text


@pytest.mark.parametrize(
    ("cell", "want"),
    [
        ("# folded: The rule, in code\nx = 1", "# The rule, in code\nx = 1"),
        ("# folded code: How it's printed\nprint(x)", "# How it's printed\nprint(x)"),
        ("# measured figure\n\nplot()", "plot()"),
        ("# remember\nprint(1)", "print(1)"),
        ("x = 1\n# figure\nplot()", "x = 1\n# figure\nplot()"),
        ("# figures are large\nplot()", "# figures are large\nplot()"),
        ("# solution\ndef f(): ...", "# solution\ndef f(): ..."),
    ],
)
def test_what_a_page_makes_of_a_cell_is_not_said_where_nothing_is_made_of_it(cell: str, want: str) -> None:
    assert words(("code", cell)) == [want]
