"""What a pasted error speaks for: one table of causes and of the words that they show themselves by.

The site's page of the doctor reads the same table by the same steps, in a script of its own.
"""

from __future__ import annotations

import json
import pkgutil
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

TABLE: dict[str, dict[str, Any]] = json.loads(pkgutil.get_data(__package__, "causes.json") or b"{}")
LAST = 200_000  # characters of a long log: what stopped a program stands at its end
NEAR = 300  # characters that "…" may stand for in a piece
WORTH = {"says": 3.0, "hints": 1.0}  # a piece that shows a cause, and one that only goes with it
SURE = 2.0  # and twice as much as the next: then a cause is likely, else possible
TERMINAL = re.compile("\x1b" r"(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")
LAYOUT = re.compile(r"[\s\u2500-\u257f|'\"`\u2018\u2019\u201c\u201d\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]+")


@dataclass(frozen=True)
class Spoken:
    """A cause that a text speaks for, and by which words.

    Examples
    --------
    >>> found = causes_of("CUDA error: device-side assert triggered")[0]
    >>> found.code, found.words, found.likely
    ('index-out-of-range', ('device-side assert triggered',), True)
    """

    code: str
    score: float
    words: tuple[str, ...]
    likely: bool = False


def plain(text: str) -> str:
    r"""Take the last part of a text, without colours, boxes, quotes, line ends and capitals.

    Examples
    --------
    >>> plain("\x1b[31m│ Torch not compiled │\n│ with\u00a0\u201cCUDA\u201d │")
    ' torch not compiled with cuda '
    """
    return LAYOUT.sub(" ", unicodedata.normalize("NFKC", TERMINAL.sub("", text[-LAST:]))).lower()


@cache
def pattern(piece: str) -> re.Pattern[str]:
    """Make one of a piece, in which "…" stands for a few words; no number may go on at its ends."""
    parts = [re.escape(plain(part).strip()) for part in piece.split("…")]
    before, after = (r"(?<!\d)" if piece[0].isdigit() else ""), (r"(?!\d)" if piece[-1].isdigit() else "")
    return re.compile(before + f".{{0,{NEAR}}}?".join(parts) + after)


def causes_of(text: str) -> list[Spoken]:
    """Return the causes that a text speaks for, the likeliest first; nothing, where no piece is known.

    A piece that several causes share is worth less for each; a cause that is met often stands before a rare one.

    Examples
    --------
    >>> [found.code for found in causes_of("AssertionError: Torch not compiled with CUDA enabled")][:1]
    ['cpu-wheel']
    """
    text, found = plain(text).strip(), []
    shared = Counter(piece for cause in TABLE.values() for kind in WORTH for piece in cause.get(kind, ()))
    for code, cause in TABLE.items():
        pieces = [(kind, piece) for kind in WORTH for piece in cause.get(kind, ()) if pattern(piece).search(text)]
        part = [piece for piece in cause["says"] if len(text) > 2 and text in plain(piece)][:1]  # as someone may type
        shows = part or any(kind == "says" for kind, _ in pieces)
        if shows and not any(pattern(piece).search(text) for piece in cause.get("unless", ())):
            score = cause.get("often", 0) + sum(WORTH[kind] / shared[piece] for kind, piece in pieces)
            found.append(Spoken(code, score, tuple(piece for _, piece in pieces) or tuple(part)))
    found.sort(key=lambda each: -each.score)
    first, second = (*(each.score for each in found[:2]), 0.0, 0.0)[:2]
    likely = first >= max(SURE, 2 * second)
    return [Spoken(e.code, e.score, e.words, likely and e is found[0]) for e in found]
