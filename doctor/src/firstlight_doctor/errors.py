"""Find the causes of an error message, by the phrases of `causes.json`.

The table has two parts. `causes` gives each cause the patterns that show it (`says`), that only go with it (`hints`)
or that rule it out (`unless`), how often it is met (`often`), where it is at home (`where`: of `PLACES`, or "linux",
a computer of one's own), whether the program itself is at fault (`kind`: "your code"), the tutorials that teach it
(`pages`), causes that may be meant instead (`see`), and where people met it (`links`). A cause without a rule in
`rules`, because no fact shows it, also has its `title`, `story` and `fix` here. With a rule, `fix` says what to do for
a text alone, before what kept machines needed.
`lists` names alternatives that several patterns use. In a pattern

* `…` stands for up to `GAP` characters; at an end, for the rest of a word,
* `{one|another}` for any of the alternatives, where `{|the}` may be missing, and
* `{name}` for any entry of that list.

The doctor's page in the documentation reads the same table by the same steps, in a script of its own.
"""

from __future__ import annotations

import json
import math
import pkgutil
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

# Where a program runs, which decides among causes, and the word that people who paste an error from there often add.
PLACES = {
    "windows": "windows",
    "wsl": "wsl",
    "cluster": "cluster",
    "container": "docker container",
    "notebook": "colab",
}
AT_HOME = 2.0  # how much more a cause counts in its own place, and less in another
TAIL = 50_000  # characters of a long log: what stopped a program stands at its end
GAP = 300  # characters that "…" may stand for
WEIGHTS = {"says": 3.0, "hints": 1.0}  # of a phrase that shows a cause, and of one that only goes with it
MIN_IDF = 7.0  # of the words that a text shares with a cause: two that hardly another cause has
MIN_SHARE = 0.5  # of what all words of the text tell: else it speaks of something else
MIN_OWN_LETTERS = 24  # of phrases that no other cause has: what makes a cause likely,
MIN_LEAD = 4  # together with this many times the score of the next one
STOP_WORD_STORIES = 5  # a word that so many causes are described with is a word of any text
WORD = re.compile(r"[a-z]{3,}|\d{3,}")
ALTERNATIVES = re.compile(r"\{([^{}]*)\}")
ANSI_ESCAPE = re.compile("\x1b" r"(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")
WORD_EDGE = "(?:(?<![a-z0-9])|(?![a-z0-9]))"  # "error 80" is not in "error 802", nor "torch" in "torchcodec"
DECORATION = re.compile(r"[\s\u2500-\u257f|'\"`\u2018\u2019\u201c\u201d\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]+")


def spell_out(pattern: str, lists: dict[str, list[str]]) -> list[str]:
    """Return all phrases that a pattern stands for.

    Examples
    --------
    >>> spell_out("{card} {|was} lost", {"card": ["A100", "H100"]})
    ['A100 lost', 'A100 was lost', 'H100 lost', 'H100 was lost']
    """
    braces = ALTERNATIVES.search(pattern)
    if not braces:
        return [" ".join(pattern.split())]
    before, after = pattern[: braces.start()], pattern[braces.end() :]
    options = lists.get(braces[1]) or braces[1].split("|")
    return [phrase for option in options for phrase in spell_out(before + option + after, lists)]


def load(content: bytes) -> dict[str, dict[str, Any]]:
    """Return the causes of a table, with every pattern spelled out."""
    read = json.loads(content)
    table: dict[str, dict[str, Any]] = read["causes"]
    for cause in table.values():
        for kind in {*WEIGHTS, "unless"} & cause.keys():
            cause[kind] = list(
                dict.fromkeys(each for pattern in cause[kind] for each in spell_out(pattern, read["lists"]))
            )
    return table


TABLE = load(pkgutil.get_data("firstlight_doctor", "causes.json") or b"")
SHARED_BY = Counter(phrase for cause in TABLE.values() for kind in WEIGHTS for phrase in cause.get(kind, ()))
STORY_WORDS = Counter(word for cause in TABLE.values() for word in {*WORD.findall(cause.get("story", "").lower())})
STOP_WORDS = {word for word, stories in STORY_WORDS.items() if stories >= STOP_WORD_STORIES}


@dataclass(frozen=True)
class ErrorMatch:
    """A cause that a text fits, and by which phrases.

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
    near: bool = False  # the text has no phrase of it, only words of some


def normalize(text: str) -> str:
    r"""Return the end of a text, without colours, boxes, quotes, line ends and capitals.

    Examples
    --------
    >>> normalize("\x1b[31m│ Torch not compiled │\n│ with\u00a0\u201cCUDA\u201d │")
    ' torch not compiled with cuda '
    """
    return DECORATION.sub(" ", unicodedata.normalize("NFKC", ANSI_ESCAPE.sub("", text[-TAIL:]))).lower()


@lru_cache(None)
def parts(phrase: str) -> list[str]:
    """Return what stands between the gaps of a phrase, normalized."""
    return [normalize(part).strip() for part in phrase.split("…")]


@lru_cache(None)
def bare(phrase: str) -> str:
    """Return a phrase as a normalized text has it."""
    return "…".join(filter(None, parts(phrase)))


@lru_cache(None)
def expression(phrase: str) -> re.Pattern[str]:
    """Return a regular expression that finds a phrase as whole words."""
    return re.compile(WORD_EDGE + f".{{0,{GAP}}}?".join(map(re.escape, parts(phrase))) + WORD_EDGE)


def has(text: str, phrase: str) -> bool:
    """Return whether a normalized text has a phrase."""
    return all(part in text for part in parts(phrase)) and bool(expression(phrase).search(text))  # few have all parts


@lru_cache(None)
def by_beginning() -> dict[str, list[str]]:
    """Return all phrases by how they begin: a text has few of these beginnings."""
    phrases: dict[str, list[str]] = {}
    for phrase in SHARED_BY:
        phrases.setdefault(parts(phrase)[0][:8], []).append(phrase)
    return phrases


def is_within(phrase: str, other: str) -> bool:
    """Return whether a phrase is a part of another one, beside which it tells nothing more."""
    return bare(phrase) != bare(other) and bare(phrase) in bare(other)


def causes_of(text: str, where: str = "") -> list[ErrorMatch]:
    """Return the causes that a text fits, the likeliest first; none, if it has no known phrase or words.

    A phrase that several causes share is worth less for each; a cause that is met often stands before a rare one.
    If it is known where the program runs (one of `PLACES`), the causes that are at home there count for more, and
    those of other places for less.

    Examples
    --------
    >>> [found.code for found in causes_of("AssertionError: Torch not compiled with CUDA enabled")][:1]
    ['cpu-wheel']
    """
    text, found = normalize(text).strip(), []
    whole = f"{text} {PLACES[where]} {text[-GAP:]} {PLACES[where]}" if where and text else text
    begun = (phrases for beginning, phrases in by_beginning().items() if beginning in whole)
    there = {phrase for phrases in begun for phrase in phrases if has(whole, phrase)}
    for code, cause in TABLE.items():
        seen = [(kind, phrase) for kind in WEIGHTS for phrase in cause.get(kind, ()) if phrase in there]
        seen = [(kind, phrase) for kind, phrase in seen if not any(is_within(phrase, other) for _, other in seen)]
        # Somebody who is still typing, or pasted only a part.
        typed = [phrase for phrase in cause["says"] if len(text) > 2 and text in bare(phrase)][:1]
        shown = typed or any(kind == "says" for kind, _ in seen)
        if shown and not any(has(whole, phrase) for phrase in cause.get("unless", ())):
            score = cause.get("often", 0) + sum(WEIGHTS[kind] / SHARED_BY[phrase] for kind, phrase in seen)
            if where and "where" in cause:
                score *= AT_HOME if where in cause["where"] else 1 / AT_HOME
            found.append(ErrorMatch(code, score, tuple(phrase for _, phrase in seen) or tuple(typed)))
    found.sort(key=lambda each: -each.score)
    if not found:
        return similar(text)
    own = {phrase for phrase in TABLE[found[0].code]["says"] if phrase in there and SHARED_BY[phrase] == 1}
    leads = len(found) == 1 or found[0].score >= MIN_LEAD * found[1].score
    likely = leads and sum(len(bare(phrase)) for phrase in own & {*found[0].words}) >= MIN_OWN_LETTERS
    return [replace(found[0], likely=likely), *found[1:]]


def similar(text: str) -> list[ErrorMatch]:
    """Return the three causes that share most words with a normalized text, if they share enough.

    A word counts for more, the fewer causes have it, and most if no cause has it.

    Examples
    --------
    >>> [found.near for found in causes_of("wheel sm_120 unsupported, kernels image missing for capability")][:1]
    [True]
    """
    weights, best = inverse_document_frequency(), []
    said = [word for word in dict.fromkeys(WORD.findall(text)) if word not in STOP_WORDS]
    enough = max(MIN_IDF, MIN_SHARE * sum(weights.get(word, math.log(len(TABLE))) for word in said))
    for code in TABLE:
        shared = [word for word in said if word in words_of(code)]
        score = sum(weights[word] for word in shared)
        if len(shared) > 1 and score >= enough:
            best.append(ErrorMatch(code, score, tuple(shared), near=True))
    return sorted(best, key=lambda each: -each.score)[:3]


@lru_cache(None)
def words_of(code: str) -> set[str]:
    """Return the words of a cause's phrases."""
    phrases = (bare(phrase) for kind in WEIGHTS for phrase in TABLE[code].get(kind, ()))
    return {word for phrase in phrases for word in WORD.findall(phrase)} - STOP_WORDS


@lru_cache(None)
def inverse_document_frequency() -> dict[str, float]:
    """Return how much each word of the causes tells."""
    causes = Counter(word for code in TABLE for word in words_of(code))
    return {word: math.log(len(TABLE) / number) for word, number in causes.items()}
