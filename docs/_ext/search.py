"""The site's search: loaded when it is used, and as complete after a build of one page as after a build of all."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING, Any, TextIO

from sphinx.search import IndexBuilder

if TYPE_CHECKING:
    from sphinx.application import Sphinx

load, prune = IndexBuilder.load, IndexBuilder.prune


def load_with_entries(index: IndexBuilder, stream: TextIO, form: Any) -> None:
    """Read the entries of the last build, too: Sphinx writes them, and forgets those of pages that stay as they are."""
    text = stream.read()
    load(index, StringIO(text), form)
    frozen = form.load(StringIO(text))
    for entry, places in frozen["indexentries"].items():
        for page, anchor, main in places:
            index._index_entries.setdefault(frozen["docnames"][page], []).append((entry, anchor, "main" * main))


def prune_entries(index: IndexBuilder, docnames: Iterable[str]) -> None:
    """Drop the entries of pages that are gone or written again, with everything else on them."""
    kept = set(docnames)
    prune(index, kept)
    for gone in index._index_entries.keys() - kept:
        del index._index_entries[gone]


def setup(app: Sphinx) -> None:
    """Mend the index, and register the script, which is served with that of the timings."""
    IndexBuilder.load = load_with_entries  # type: ignore[method-assign, assignment]
    IndexBuilder.prune = prune_entries  # type: ignore[method-assign, assignment]
    app.add_js_file("search.js", loading_method="defer")
