"""What a rule is: a function that looks for one cause in the facts, and whose docstring is all that is said of it.

Its first line names the cause, as a heading does, and the next paragraphs tell how it comes about. Then comes "To do:",
with one step a line. A line that begins with "$ " is a command, and an indented line continues the step before it.

- ``{name}`` in a step is a word that the rule passed to `signs`, or one of `COMMANDS`. Alone on its line, it may be
  several steps, or none.
- ``[wsl]`` or ``[dnf not fedora]`` before a step says where it applies. There stand `PLACES`, and words of the rule.
- ``To do (wsl):`` says so for a whole part. The first part that fits is the one that counts.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, Literal

from gpu_doctor.errors import TABLE
from gpu_doctor.rules.commands import COMMANDS
from gpu_doctor.rules.machine import PLACES
from gpu_doctor.schema import Facts

Kind = Literal["problem", "note", "no-gpu"]
Certainty = Literal["certain", "likely", "possible"]
CERTAINTIES: tuple[Certainty, ...] = ("certain", "likely", "possible")
PART = re.compile(r"^To do(?: \((.+)\))?:\n", re.MULTILINE)


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
    >>> from gpu_doctor import Facts, diagnose
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

    It is asked only where every word of `on` holds and none of `unless`. A word is a place ("nvidia", "container") or
    the code of another rule, whose cause explains it already.
    """

    def enter(judge: Judge) -> Judge:
        code = judge.__name__.replace("_", "-")
        RULES.append(Rule(code, question, judge, kind, tuple(on.split()), tuple(unless.split())))
        return judge

    return enter


def holds(word: str, facts: Facts) -> bool:
    """Return whether the facts are of a place, or a rule sees its cause in them."""
    if word in PLACES:
        return PLACES[word](facts)
    return next(each for each in RULES if each.code == word).look(facts) is not None


def steps(text: str, facts: Facts, words: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the steps of the first part of a rule's docstring that fits the facts, with their words filled in."""

    def fits(condition: str | None) -> bool:
        wanted = re.findall(r"(not )?(\w+)", condition or "")
        return all(bool(words[word] if word in words else PLACES[word](facts)) != bool(no) for no, word in wanted)

    parts = PART.split(text)[1:]
    part = next(steps for condition, steps in zip(parts[::2], parts[1::2]) if fits(condition))
    told: list[str] = []
    for line in re.sub(r"\n +", " ", part.strip()).splitlines():
        condition, step = re.fullmatch(r"(?:\[(.+?)\] )?(.*)", line).groups()  # type: ignore[union-attr]
        if fits(condition):
            names = re.findall(r"(?<!{){(\w+)}", step)
            known = {name: words[name] if name in words else COMMANDS[name](facts) for name in names}
            value = known[names[0]] if step == f"{{{''.join(names[:1])}}}" else step.format(**known)
            told += value if isinstance(value, tuple) else [value] if value else []
    return tuple(told)
