"""What a rule is: a function that looks for one cause in the facts, and whose docstring is all that is said of it.

Its first line names the cause, as a heading does, and the next paragraphs tell how it comes about. Then comes "To do:",
in the language of `steps`, with the words that the rule passed to `signs`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Literal

from firstlight_doctor.errors import TABLE
from firstlight_doctor.rules.machine import CONDITIONS
from firstlight_doctor.rules.steps import PART, steps
from firstlight_doctor.schema import Facts

Kind = Literal["problem", "note", "no-gpu"]
Certainty = Literal["certain", "likely", "possible"]
CERTAINTIES: tuple[Certainty, ...] = ("certain", "likely", "possible")


@dataclass(frozen=True)
class Signs:
    """What a rule saw in the facts, and the words that the steps in its docstring need."""

    evidence: tuple[str, ...]
    certainty: Certainty = "certain"
    words: Mapping[str, Any] = field(default_factory=dict)


def signs(*evidence: str | None, certainty: Certainty = "certain", **words: Any) -> Signs:
    """Return what a rule saw, without what it did not see."""
    return Signs(tuple(filter(None, evidence)), certainty, words)


@dataclass(frozen=True)
class Rule:
    """A cause, how it is recognised, and the words in which readers meet it."""

    code: str
    question: str
    judge: Callable[[Facts], Signs | None]
    kind: Kind = "problem"
    on: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All that is said of the cause."""
        return inspect.cleandoc(self.judge.__doc__ or "") + "\n"

    @property
    def title(self) -> str:
        """The cause, as a heading."""
        return self.text.partition("\n")[0].rstrip(".")

    @property
    def links(self) -> tuple[str, ...]:
        """Where people met it."""
        return tuple(TABLE.get(self.code, {}).get("links", ()))

    @property
    def story(self) -> str:
        """How the cause comes about."""
        return PART.split(self.text)[0].partition("\n")[2].strip()

    def look(self, facts: Facts) -> Finding | None:
        """Return what shows the cause in the facts, and what to do about it; None where it does not hold."""
        if not all(holds(word, facts) for word in self.on) or any(holds(word, facts) for word in self.unless):
            return None
        if not (found := self.judge(facts)):
            return None
        return Finding(self, found.evidence, steps(self.text, facts, found.words), found.certainty)


@dataclass(frozen=True)
class Finding:
    """A cause that holds on this machine, what shows it, and what to do about it.

    Examples
    --------
    >>> from firstlight_doctor import Facts, diagnose
    >>> finding = diagnose(Facts.of({"gpus": [{"vendor": "nvidia", "driver": "nouveau"}]}))[0]
    >>> finding.rule.title
    'Linux runs the card with nouveau, a driver that has no CUDA'
    >>> finding.evidence
    ('the driver that holds the card on the bus is nouveau',)
    """

    rule: Rule
    evidence: tuple[str, ...]
    fix: tuple[str, ...]
    certainty: Certainty = "certain"


RULES: list[Rule] = []
Judge = Callable[[Facts], "Signs | None"]


def rule(question: str, *, kind: Kind = "problem", on: str = "", unless: str = "") -> Callable[[Judge], Judge]:
    """Make a function a rule; its name becomes the rule's code.

    It is asked only where every word of `on` holds and none of `unless`. A word is one of `CONDITIONS` ("nvidia",
    "container") or the code of another rule, whose cause explains it already.
    """

    def enter(judge: Judge) -> Judge:
        code = judge.__name__.replace("_", "-")
        RULES.append(Rule(code, question, judge, kind, tuple(on.split()), tuple(unless.split())))
        return judge

    return enter


def holds(word: str, facts: Facts) -> bool:
    """Return whether a condition holds, or a rule sees its cause in the facts."""
    if word in CONDITIONS:
        return CONDITIONS[word](facts)
    return next(each for each in RULES if each.code == word).look(facts) is not None
