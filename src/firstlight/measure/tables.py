"""One table for a terminal, a notebook and a page, and numbers written with the unit that fits them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

NONE = "–"


def quantity(value: float | None, unit: str, digits: int = 3) -> str:
    """Write a number with three significant digits and the prefix that fits.

    Examples
    --------
    >>> quantity(0.01234, "s"), quantity(4.9e12, "B/s"), quantity(None, "s")
    ('12.3 ms', '4.90 TB/s', '–')
    """
    if value is None or not math.isfinite(value):
        return NONE
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
    """Write a fraction as a percentage with one or two significant digits.

    Examples
    --------
    >>> percent(0.873), percent(0.004)
    ('87 %', '0.4 %')
    """
    if fraction is None or not math.isfinite(fraction):
        return NONE
    return f"{100 * fraction:.0f} %" if fraction >= 0.00995 or fraction == 0 else f"{100 * fraction:.1g} %"


@dataclass(frozen=True)
class Table:
    """A caption, the heads of the columns, and rows of text whose first cell names the row."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def without(self, heads: set[str]) -> Table:
        """The same table without these columns, and without those in which no row says anything."""
        said = [i for i in range(1, len(self.head)) if any(row[i] != NONE for row in self.rows)]
        keep = [0, *(i for i in said if self.head[i] not in heads)]

        def pick(cells: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(cells[i] for i in keep)

        return Table(self.caption, pick(self.head), tuple(map(pick, self.rows)))

    def text(self) -> str:
        """The table for a terminal: columns aligned, numbers to the right."""
        lines = [self.head, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.head))]
        out = [
            "  ".join(
                cell.ljust(width) if i in (0, len(widths) - 1) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.caption, out[0], "  ".join("-" * width for width in widths), *out[1:]])

    def html(self) -> str:
        """The table for a page or notebook; it scrolls sideways where it is too wide, with the keyboard too."""
        head = "".join(f'<th scope="col">{escape(cell)}</th>' if cell else "<td></td>" for cell in self.head)
        body = "".join(
            f'<tr><th scope="row">{escape(row[0])}</th>'
            + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in self.rows
        )
        caption = escape(self.caption)
        return (
            f'<div class="fl-table" role="region" tabindex="0" aria-label="{caption}" style="overflow-x:auto">'
            f"<table><caption>{caption}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )
