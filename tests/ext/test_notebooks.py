"""Each page's tables become Markdown in its notebook."""

import json

import pytest
from samples import EXAMPLES
from sphinx_gallery.notebook import jupyter_notebook
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

from _ext.notebooks import in_words

CONF = dict.fromkeys(("first_notebook_cell", "last_notebook_cell"))
CONF |= dict.fromkeys(("notebook_images", "pypandoc", "promote_jupyter_magic"), False)


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_no_table_of_a_page_is_lost_on_the_way_to_its_notebook(script) -> None:
    # sphinx-gallery writes :math:`N` as $N$, which narrows the columns of a simple table.
    notebook = jupyter_notebook(split_code_and_text_blocks(str(script))[1], CONF, "")
    words = in_words(json.dumps(notebook), {}, lambda *_: [], lambda role, text, target: text or target)
    assert "table::" not in words
