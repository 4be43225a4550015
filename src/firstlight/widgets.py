"""What a terminal, a notebook and a page show alike: tables, and drawings that a page's script gives life to."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Self

NONE = "–"  # in a cell that has nothing to say
NUMBER = re.compile(r"[-−±<≥≤~ ]*\d[\d\s.,eE+±×%/−-]*[A-Za-zµ]{0,5}(?:/s)?")  # with a unit, not with words
# Mid-tones: each stands out on white and on near-black.
COLOURS = ("#2f7ed8", "#d9762b", "#2f9e77", "#b45fc0", "#c0392b", "#7f8c3a")
STYLE = "max-width:35rem;width:100%;height:auto;display:block;overflow:visible"

on_page = False  # set by the build of the site before it runs an example


class Widget:
    """Something to look at, which has a text (``__str__``) and a form for notebooks and pages (``_repr_html_``)."""

    def show(self) -> Self | None:
        """Show it: as text in a terminal, as a drawing in a notebook and on a page."""
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython else None
        if on_page or hasattr(shell, "kernel"):  # what a cell ends with is shown there
            return self
        print(self)
        return None


@dataclass(frozen=True)
class Table(Widget):
    """A caption, the heads of the columns, and rows of text whose first cell names the row.

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
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def words(self) -> set[int]:
        """Columns of words, of which the first is one, and no other that has a number."""
        said = (set(cells) - {NONE} for cells in zip(*self.rows, strict=True))
        return {0, *(i for i, cells in enumerate(said) if cells and not any(map(NUMBER.fullmatch, cells)))}

    def without(self, heads: set[str]) -> Table:
        """Return the same table without these columns, and without those in which no row says anything."""
        said = [i for i in range(1, len(self.head)) if any(row[i] != NONE for row in self.rows)]
        keep = [0, *(i for i in said if self.head[i] not in heads)]

        def pick(cells: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(cells[i] for i in keep)

        return Table(self.caption, pick(self.head), tuple(map(pick, self.rows)))

    def text(self) -> str:
        """Return the table for a terminal: columns of words to the left, numbers to the right."""
        lines = [self.head, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.head))]
        words = self.words
        out = [
            "  ".join(
                cell.ljust(width) if i in words else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.caption, out[0], "  ".join("-" * width for width in widths), *out[1:]])

    def html(self) -> str:
        """Return the table for a page or notebook; it scrolls sideways where it is too wide, with the keyboard too."""
        words = self.words
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


@dataclass(frozen=True)
class Axis:
    """Where numbers lie in a drawing, from its place ``start`` to ``end``; what lies beyond an end is at that end.

    Examples
    --------
    >>> ratios = Axis(least=1e-3, most=1e3, start=24, end=376)
    >>> [ratios.at(ratio) for ratio in (1e-9, 1.0, 1e9)]
    [24.0, 200.0, 376.0]
    """

    least: float
    most: float
    start: float
    end: float
    powers: bool = True  # equal factors are equally far apart, not equal differences

    def at(self, value: float) -> float:
        """Return the place of a number."""
        inside = min(max(value, self.least), self.most)
        least, most, here = map(math.log10 if self.powers else float, (self.least, self.most, inside))
        return self.start + (here - least) / (most - least) * (self.end - self.start)


def drawing(width: float, height: float, words: str, *parts: str) -> str:
    """Return a drawing in the colour of the text; the words are for those who do not see it."""
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(words)}" font-size="14" '
        f'fill="currentColor" style="{STYLE}">{"".join(parts)}</svg>'
    )


def label(x: float, y: float, text: str, anchor: str = "middle") -> str:
    """Return a text in a drawing."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def line(points: Iterable[tuple[float, float]], look: str) -> str:
    """Return a line in a drawing."""
    return f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" {look}/>'


def marker(number: int, x: float, y: float) -> str:
    """Return a mark in a drawing, told from others by its shape as well as by its colour."""
    shapes = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6"',
        f'<rect x="{x - 3.2:.1f}" y="{y - 3.2:.1f}" width="6.4" height="6.4"',
        f'<path d="M{x:.1f} {y - 4:.1f}l4 7h-8z"',
    )
    return f'{shapes[number]} fill="{COLOURS[number]}"/>'


def hatch(name: str, colour: str) -> str:
    """Return a pattern with which a part of a drawing can be filled."""
    return (
        f'<defs><pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><path d="M1 0V6" stroke="{colour}" stroke-width="2.2"/></pattern></defs>'
    )


def slider(name: str, most: float, value: float = 0, step: float = 1, least: float = 0) -> str:
    """Return a slider, which a page's script moves things with."""
    return f'<input name="{name}" type="range" min="{least}" max="{most}" step="{step}" value="{value}">'


def choice(name: str, options: Iterable[str]) -> str:
    """Return a list to choose from.

    Examples
    --------
    >>> choice("card", ["A", "B"])
    '<select name="card"><option>A</option><option>B</option></select>'
    """
    return f'<select name="{name}">{"".join(f"<option>{escape(text)}</option>" for text in options)}</select>'


def controls(*named: tuple[str, str]) -> str:
    """Return labelled controls, each with room for its value.

    Examples
    --------
    >>> controls(("Card", choice("card", ["A", "B"]))).count("<label>")
    1
    """
    value = '<span class="fl-value" aria-hidden="true"></span>'
    labels = "".join(f"<label><span>{escape(text)}</span>{control}{value}</label>" for text, control in named)
    return f'<div class="fl-controls">{labels}</div>'


def board(kind: str, data: object, *parts: str) -> str:
    """Return the whole of it as HTML, with the data that the page's script finds.

    Examples
    --------
    >>> board("kind", {"cards": 2}, "<p>Text.</p>")
    '<div class="fl-kind" data-kind="{&quot;cards&quot;: 2}"><p>Text.</p></div>'
    """
    return f'<div class="fl-{kind}" data-{kind}="{escape(json.dumps(data))}">{"".join(parts)}</div>'


#: Where a page's script says what it finds.
SAID = '<div class="fl-said" role="status"><p class="fl-verdict-text"></p><p></p></div>'  # what the script has to say
