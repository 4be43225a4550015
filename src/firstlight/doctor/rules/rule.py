"""What a rule is: a function that looks for one cause in the facts.

The first line of its docstring names the cause as a heading does; the rest tells how it comes about. It returns what it
saw and what to do, or None. In what to do, a line that begins with "$ " is a command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from firstlight.doctor.errors import TABLE
from firstlight.doctor.shapes import Facts

Kind = Literal["problem", "note", "no-gpu"]
Certainty = Literal["certain", "likely", "possible"]

#: The questions in their order. Each makes sense only if those before it were answered with yes.
#:
#: :meta hide-value:
QUESTIONS = {
    "wheel": "Is PyTorch built for this GPU?",
    "bus": "Is there a GPU in this machine?",
    "driver": "Does the system run it with the right driver?",
    "nodes": "May you open its device files?",
    "library": "Is the driver's library found?",
    "start": "Does the driver start?",
    "visible": "Is the GPU visible to programs?",
    "context": "Does a program get its place on it?",
    "version": "Is the driver new enough for PyTorch?",
    "code": "Has PyTorch code for this card?",
    "torch": "Does PyTorch compute on it, and right?",
    "toolchain": "Does Numba find its CUDA compiler?",
    "ptx": "Can the driver load what Numba compiles?",
    "numba": "Does Numba compute on it, and right?",
    "health": "Is it as fast as it can be, and without errors?",
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
    >>> from firstlight.doctor import Facts, diagnose
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
    question: str, *, kind: Kind = "problem"
) -> Callable[[Callable[[Facts], Seen | None]], Callable[[Facts], Seen | None]]:
    """Make a function a rule; its name becomes the rule's code."""

    def enter(look: Callable[[Facts], Seen | None]) -> Callable[[Facts], Seen | None]:
        RULES.append(Rule(look.__name__.replace("_", "-"), question, look, kind))
        return look

    return enter
