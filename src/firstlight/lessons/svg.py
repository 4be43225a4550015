"""Drawings that a page's script gives life to, as SVG, and the controls beside them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

__all__ = [
    "STATUS_REGION", "Axis", "board", "choice", "controls", "drawing", "hatch", "label", "slider",
]  # fmt: skip

#: Where a page's script says what it finds.
STATUS_REGION = '<div class="fl-said" role="status"><p class="fl-verdict-text"></p><p></p></div>'
_STYLE = "max-width:35rem;width:100%;height:auto;display:block;overflow:visible"


@dataclass(frozen=True)
class Axis:
    """Where numbers lie in a drawing, on a scale of powers from ``start`` to ``end``; what lies beyond is at an end.

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

    def at(self, value: float) -> float:
        """Return the place of a number."""
        inside = min(max(value, self.least), self.most)
        fraction = math.log(inside / self.least) / math.log(self.most / self.least)
        return self.start + fraction * (self.end - self.start)


def drawing(width: float, height: float, words: str, *parts: str) -> str:
    """Return a drawing in the colour of the text; the words are for those who do not see it."""
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(words)}" font-size="14" '
        f'fill="currentColor" style="{_STYLE}">{"".join(parts)}</svg>'
    )


def label(x: float, y: float, text: str, anchor: str = "middle") -> str:
    """Return a text in a drawing."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


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
