"""A table as text, and the colours of drawings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_NUMBER = re.compile(r"[-−±<≥≤~ ]*\d[\d\s.,eE+±×%/−-]*[A-Za-zµ]{0,5}(?:/s)?")  # perhaps with a unit
#: Each stands out on white and on near-black.
COLOURS = ("#2f7ed8", "#d9762b", "#2f9e77", "#b45fc0", "#c0392b", "#7f8c3a")


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as text, with words aligned to the left and numbers to the right."""
    columns = [set(cells) - {"–"} for cells in zip(*rows, strict=True)]
    words = {0, *(i for i, cells in enumerate(columns) if cells and not any(map(_NUMBER.fullmatch, cells)))}
    lines = [[_visible(cell) for cell in line] for line in (head, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    out = [
        "  ".join(
            cell.ljust(width) if i in words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([_visible(caption), out[0], "  ".join("-" * width for width in widths), *out[1:]])


def _visible(text: str) -> str:
    """Write out what would break a line or command a terminal: labels may have anything."""
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c)[0] == "C" else c for c in text)
