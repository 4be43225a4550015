"""What a rule is: a function that looks for one cause in the facts.

The first line of its docstring names the cause as a heading does; the rest tells how it comes about. It returns what it
saw and what to do, or None. In what to do, a line that begins with "$ " is a command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Literal

from gpu_doctor.errors import TABLE
from gpu_doctor.rules.ask import PLACES
from gpu_doctor.shapes import Facts

Kind = Literal["problem", "note", "no-gpu"]
Certainty = Literal["certain", "likely", "possible"]

#: The questions in their order, first of the machine, then of PyTorch, then of Numba. Each makes sense only if those
#: before it were answered with yes.
#:
#: :meta hide-value:
QUESTIONS = {
    "bus": "Is there a GPU in this machine?",
    "driver": "Does the system run it with the right driver?",
    "nodes": "May you open its device files?",
    "library": "Is the driver's library found?",
    "start": "Does the driver start?",
    "visible": "Is the GPU visible to programs?",
    "context": "Does a program get its place on it?",
    "wheel": "Is PyTorch built for this GPU?",
    "version": "Is the driver new enough for PyTorch?",
    "code": "Has PyTorch code for this card?",
    "torch": "Does PyTorch compute on it, and right?",
    "toolchain": "Does Numba find its CUDA compiler?",
    "ptx": "Can the driver load what Numba compiles?",
    "numba": "Does Numba compute on it, and right?",
    "health": "Is it without errors, and not slowed down?",
}
CERTAINTIES: tuple[Certainty, ...] = ("certain", "likely", "possible")


@dataclass(frozen=True)
class Seen:
    """What a rule saw in the facts, and what it prescribes."""

    evidence: tuple[str, ...]
    fix: tuple[str, ...]
    certainty: Certainty = "certain"


@dataclass(frozen=True)
class Rule:
    """A cause, how it is recognised, and the words in which readers meet it."""

    code: str
    question: str
    look: Callable[[Facts], Seen | None]
    kind: Kind = "problem"

    @property
    def title(self) -> str:
        """The cause, as a heading."""
        return (self.look.__doc__ or "").partition("\n")[0].rstrip(".")

    @property
    def links(self) -> tuple[str, ...]:
        """Where people met it."""
        return tuple(TABLE.get(self.code, {}).get("links", ()))

    @property
    def story(self) -> str:
        """How the cause comes about."""
        return inspect.cleandoc(self.look.__doc__ or "").partition("\n")[2].strip()


@dataclass(frozen=True)
class Finding:
    """A cause that holds on this machine.

    Examples
    --------
    >>> from gpu_doctor import Facts, diagnose
    >>> finding = diagnose(Facts.of({"gpus": [{"vendor": "nvidia", "driver": "nouveau"}]}))[0]
    >>> finding.rule.title
    'Linux runs the card with nouveau, a driver that has no CUDA'
    >>> finding.seen.evidence
    ('the driver that holds the card on the bus is nouveau',)
    """

    rule: Rule
    seen: Seen


RULES: list[Rule] = []


def rule(
    question: str, *, kind: Kind = "problem", on: str = "", unless: str = ""
) -> Callable[[Callable[[Facts], Seen | None]], Callable[[Facts], Seen | None]]:
    """Make a function a rule; its name becomes the rule's code.

    It is asked only where every word of `on` holds and none of `unless`. A word is a place ("nvidia", "container") or
    the code of another rule, whose cause explains it already.
    """

    def enter(judge: Callable[[Facts], Seen | None]) -> Callable[[Facts], Seen | None]:
        @wraps(judge)
        def look(facts: Facts) -> Seen | None:
            asked = all(holds(word, facts) for word in on.split())
            return judge(facts) if asked and not any(holds(word, facts) for word in unless.split()) else None

        RULES.append(Rule(judge.__name__.replace("_", "-"), question, look, kind))
        return look

    return enter


def holds(word: str, facts: Facts) -> bool:
    """Whether the facts are of a place, or a rule sees its cause in them."""
    if word in PLACES:
        return PLACES[word](facts)
    return next(each for each in RULES if each.code == word).look(facts) is not None
