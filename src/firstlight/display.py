"""Tables and quantities, as a terminal, a notebook and a page show them."""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Self

__all__ = [
    "BLUE", "COLOURS", "GREEN", "GREY", "MISSING", "OLIVE", "ORANGE", "PURPLE", "RED", "Table", "Widget", "percent",
    "quantity", "save_figures", "show_table",
]  # fmt: skip

MISSING = "–"  # stands in a cell that has no value
_NUMBER = re.compile(r"[-−±<≥≤~ ]*\d[\d\s.,eE+±×%/−-]*[A-Za-zµ]{0,5}(?:/s)?")  # perhaps with a unit
#: Each stands out on white and on near-black.
COLOURS = BLUE, ORANGE, GREEN, PURPLE, RED, OLIVE = ("#2f7ed8", "#d9762b", "#2f9e77", "#b45fc0", "#c0392b", "#7f8c3a")
GREY = "#808890"

on_page = False  # set by the build of the site before it runs an example


def ipython_shell() -> Any:
    """Return the shell of IPython or of a notebook that this code runs in, and None elsewhere."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


class Widget:
    """A base for what has a text (``__str__``) and an HTML form for notebooks and pages (``_repr_html_``)."""

    def show(self) -> Self | None:
        """Show the text in a terminal, the HTML in a notebook and on a page."""
        if on_page or hasattr(ipython_shell(), "kernel"):  # these show the value that a cell ends with
            return self
        print(self)
        return None


@dataclass(frozen=True)
class Table(Widget):
    """A caption, the heads of the columns, and rows of text, each of which begins with its name.

    Examples
    --------
    >>> print(Table("Memory", ("card", "bytes"), (("A", "8 GB"), ("B", "24 GB"))))
    Memory
    card  bytes
    ----  -----
    A     8 GB
    B     24 GB
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def _word_columns(self) -> set[int]:
        """The columns to align to the left: the first, and those without a single number."""
        values = (set(cells) - {MISSING} for cells in zip(*self.rows, strict=True))
        return {0, *(i for i, cells in enumerate(values) if cells and not any(map(_NUMBER.fullmatch, cells)))}

    def drop_columns(self, heads: Collection[str] = ()) -> Table:
        """Return the table without these columns, and without the columns in which no row has a value.

        Examples
        --------
        >>> table = Table("Memory", ("card", "bytes", "price"), (("A", "8 GB", MISSING), ("B", "24 GB", MISSING)))
        >>> table.drop_columns().head
        ('card', 'bytes')
        """
        columns = [i for i in range(1, len(self.head)) if any(row[i] != MISSING for row in self.rows)]
        keep = [0, *(i for i in columns if self.head[i] not in heads)]
        head, *rows = (tuple(cells[i] for i in keep) for cells in (self.head, *self.rows))
        return Table(self.caption, head, tuple(rows))

    def text(self) -> str:
        """Return the table as text, with words aligned to the left and numbers to the right."""
        lines = [[_visible(cell) for cell in line] for line in (self.head, *self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.head))]
        words = self._word_columns
        out = [
            "  ".join(
                cell.ljust(width) if i in words else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([_visible(self.caption), out[0], "  ".join("-" * width for width in widths), *out[1:]])

    def html(self) -> str:
        """Return the table as HTML; where it is too wide, it scrolls sideways, by the keyboard too."""
        words = self._word_columns
        sides = [' class="fl-words"' if i in words else "" for i in range(len(self.head))]
        named = [(escape(cell), side) for cell, side in zip(self.head, sides, strict=True)]
        head = "".join(f'<th scope="col"{side}>{cell}</th>' if cell else "<td></td>" for cell, side in named)
        body = "".join(
            f'<tr><th scope="row">{escape(row[0])}</th>'
            + "".join(f"<td{side}>{escape(cell)}</td>" for cell, side in zip(row[1:], sides[1:], strict=True))
            + "</tr>"
            for row in self.rows
        )
        caption = escape(self.caption)
        return (
            f'<div class="fl-table" role="region" tabindex="0" aria-label="{caption}" style="overflow-x:auto">'
            f"<table><caption>{caption}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    __str__, _repr_html_ = text, html


def _visible(text: str) -> str:
    """Write out what would break a line or command a terminal: labels and file names may have anything."""
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c)[0] == "C" else c for c in text)


def show_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table.

    Examples
    --------
    >>> show_table("Memory", ["card", "bytes"], [["A", "8 GB"], ["B", "24 GB"]])
    Memory
    card  bytes
    ----  -----
    A     8 GB
    B     24 GB
    """
    print(Table(caption, head, tuple(rows)))


def quantity(value: float | None, unit: str, digits: int = 3) -> str:
    """Return a number with three significant digits and the prefix that fits.

    Examples
    --------
    >>> quantity(0.01234, "s"), quantity(4.9e12, "B/s"), quantity(None, "s")
    ('12.3 ms', '4.90 TB/s', '–')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return f"0 {unit}"
    prefixes = {-9: "n", -6: "µ", -3: "m", 0: ""} if unit == "s" else {0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
    # Rounding first: 999.9 µs is 1.00 ms, not 1000 µs.
    value = float(f"{value:.{digits - 1}e}")
    power = 3 * math.floor(math.log10(abs(value)) / 3 + 1e-12)
    power = min(max(power, min(prefixes)), max(prefixes))
    scaled = value / 10.0**power
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(scaled)) + 1e-12))
    return f"{scaled:.{decimals}f} {prefixes[power]}{unit}"


def percent(fraction: float | None) -> str:
    """Return a fraction as a percentage with one or two significant digits.

    Examples
    --------
    >>> percent(0.873), percent(0.004)
    ('87%', '0.4%')
    """
    if fraction is None or not math.isfinite(fraction):
        return MISSING
    return f"{100 * fraction:.0f}%" if fraction >= 0.00995 or fraction == 0 else f"{100 * fraction:.1g}%"


def save_figures(script: str) -> None:
    """Save the open figures, and say where, if no window can show them: beside a script, if we may write there.

    Parameters
    ----------
    script
        The file that drew them; its name is the beginning of theirs.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> plt.close("all")
    >>> save_figures("nothing_was_drawn.py")
    """
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None or plt.get_backend().lower() != "agg":
        return
    path, numbers = Path(script), plt.get_fignums()
    if numbers and not os.access(path.parent, os.W_OK):  # pages that a class shares
        path = Path(tempfile.mkdtemp(prefix="firstlight-"), path.name)
    for number in numbers:
        file = path.with_suffix(f".{number}.png")
        plt.figure(number).savefig(file, dpi=150)
        print(f"Figure {number}: {file}")
