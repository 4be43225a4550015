"""What a page's script gives life to: its data, and on one page the controls that the page writes itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape

__all__ = ["STATUS_REGION", "board", "choice", "controls"]

#: Where a page's script says what it finds.
STATUS_REGION = '<div class="fl-said" role="status"><p class="fl-verdict-text"></p><p></p></div>'


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
    """Return the data from which the page's script draws, and what stands below it, with or without a script.

    Examples
    --------
    >>> board("kind", {"cards": 2}, "<p>Text.</p>")
    '<div class="fl-kind" data-kind="{&quot;cards&quot;: 2}"><p>Text.</p></div>'
    """
    return f'<div class="fl-{kind}" data-{kind}="{escape(json.dumps(data))}">{"".join(parts)}</div>'
