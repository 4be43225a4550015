"""What a pasted error speaks for: one table of causes and of the words that they show themselves by.

The site's page of the doctor reads the same table by the same steps, in a script of its own.
"""

from __future__ import annotations

import json
import math
import pkgutil
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

TABLE: dict[str, dict[str, Any]] = json.loads(pkgutil.get_data("gpu_doctor", "causes.json") or b"{}")
LAST = 50_000  # characters of a long log: what stopped a program stands at its end
NEAR = 300  # characters that "…" may stand for in a piece
WORTH = {"says": 3.0, "hints": 1.0}  # a piece that shows a cause, and one that only goes with it
SHARED = Counter(piece for cause in TABLE.values() for kind in WORTH for piece in cause.get(kind, ()))
ENOUGH = 7.0  # rarity of the words that a text shares with a cause: two that hardly another cause has
SURE = 24  # letters of pieces that no other cause has, and four times the next one's score: then a cause is likely
WORD = re.compile(r"[a-z]{3,}|\d{3,}")
TOLD = Counter(word for cause in TABLE.values() for word in set(WORD.findall(cause.get("story", "").lower())))
COMMON = {word for word, stories in TOLD.items() if stories >= 5}  # words of any text in English
TERMINAL = re.compile("\x1b" r"(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")
EDGE = "(?:(?<![a-z0-9])|(?![a-z0-9]))"  # of a word: "error 80" is not in "error 802", "torch" not in "torchcodec"
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
    near: bool = False  # no piece is in the text, only words of some


def plain(text: str) -> str:
    r"""Take the last part of a text, without colours, boxes, quotes, line ends and capitals.

    Examples
    --------
    >>> plain("\x1b[31m│ Torch not compiled │\n│ with\u00a0\u201cCUDA\u201d │")
    ' torch not compiled with cuda '
    """
    return LAYOUT.sub(" ", unicodedata.normalize("NFKC", TERMINAL.sub("", text[-LAST:]))).lower()


@lru_cache(None)
def parts(piece: str) -> list[str]:
    """Take a piece apart at each "…", which stands for a few words."""
    return [plain(part).strip() for part in piece.split("…")]


@lru_cache(None)
def pattern(piece: str) -> re.Pattern[str]:
    """Make a pattern of a piece."""
    return re.compile(EDGE + f".{{0,{NEAR}}}?".join(map(re.escape, parts(piece))) + EDGE)


def has(text: str, piece: str) -> bool:
    """Whether a plain text has a piece in it."""
    return all(part in text for part in parts(piece)) and bool(pattern(piece).search(text))  # few have all parts


@lru_cache(None)
def bare(piece: str) -> str:
    """Return a piece as a plain text has it."""
    return "…".join(filter(None, parts(piece)))


def within(piece: str, other: str) -> bool:
    """Whether a piece is a part of another one, beside which it tells nothing more."""
    return bare(piece) != bare(other) and bare(piece) in bare(other)


def causes_of(text: str) -> list[Spoken]:
    """Return the causes that a text speaks for, the likeliest first; nothing, where no piece is known.

    A piece that several causes share is worth less for each; a cause that is met often stands before a rare one.

    Examples
    --------
    >>> [found.code for found in causes_of("AssertionError: Torch not compiled with CUDA enabled")][:1]
    ['cpu-wheel']
    """
    text, found = plain(text).strip(), []
    there = {piece for piece in SHARED if has(text, piece)}
    for code, cause in TABLE.items():
        pieces = [(kind, piece) for kind in WORTH for piece in cause.get(kind, ()) if piece in there]
        pieces = [(kind, piece) for kind, piece in pieces if not any(within(piece, other) for _, other in pieces)]
        part = [piece for piece in cause["says"] if len(text) > 2 and text in bare(piece)][:1]  # as someone may type
        shows = part or any(kind == "says" for kind, _ in pieces)
        if shows and not any(has(text, piece) for piece in cause.get("unless", ())):
            score = cause.get("often", 0) + sum(WORTH[kind] / SHARED[piece] for kind, piece in pieces)
            found.append(Spoken(code, score, tuple(piece for _, piece in pieces) or tuple(part)))
    found.sort(key=lambda each: -each.score)
    if not found:
        return nearest(text)
    own = {piece for piece in TABLE[found[0].code]["says"] if piece in there and SHARED[piece] == 1}
    alone = len(found) == 1 or found[0].score >= 4 * found[1].score
    likely = alone and sum(len(bare(piece)) for piece in own & {*found[0].words}) >= SURE
    return [Spoken(e.code, e.score, e.words, likely and e is found[0]) for e in found]


def nearest(text: str) -> list[Spoken]:
    """Return the three causes that share most words with a plain text that has no known piece, if they share enough.

    A word counts for more, the fewer causes have it.

    Examples
    --------
    >>> [found.near for found in causes_of("wheel sm_120 unsupported, kernels image missing for capability")][:1]
    [True]
    """
    rarities, best = rarity(), []
    said = [word for word in dict.fromkeys(WORD.findall(text)) if word in rarities]
    for code in TABLE:
        shared = [word for word in said if word in words_of(code)]
        score = sum(rarities[word] for word in shared)
        if len(shared) > 1 and score >= ENOUGH:
            best.append(Spoken(code, score, tuple(shared), near=True))
    return sorted(best, key=lambda each: -each.score)[:3]


@lru_cache(None)
def words_of(code: str) -> set[str]:
    """Collect the words of a cause's pieces."""
    pieces = (bare(piece) for kind in WORTH for piece in TABLE[code].get(kind, ()))
    return {word for piece in pieces for word in WORD.findall(piece)} - COMMON


@lru_cache(None)
def rarity() -> dict[str, float]:
    """Say how much each word of the causes tells."""
    causes = Counter(word for code in TABLE for word in words_of(code))
    return {word: math.log(len(TABLE) / number) for word, number in causes.items()}
