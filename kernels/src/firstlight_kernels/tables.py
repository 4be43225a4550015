"""A table as text, and the colours of drawings."""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Sequence

#: Each stands out on white and on near-black.
COLOURS = ("#2f7ed8", "#d9762b", "#2f9e77", "#b45fc0", "#c0392b", "#7f8c3a")


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Container[int]) -> str:
    """Return a table as text, in which the columns of numbers are aligned to the right."""
    lines = [[_visible(cell) for cell in line] for line in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def aligned(cells: Sequence[str]) -> str:
        places = enumerate(zip(cells, widths, strict=True))
        return "  ".join(c.rjust(width) if i in numbers else c.ljust(width) for i, (c, width) in places).rstrip()

    head, *rest = map(aligned, lines)
    return "\n".join([_visible(caption), head, "  ".join("-" * width for width in widths), *rest])


def _visible(text: str) -> str:
    """Write out what would break a line or command a terminal: labels may have anything."""
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c)[0] == "C" else c for c in text)
