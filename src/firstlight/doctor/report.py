"""Say what was found: for a person in a terminal or a pipe, and for programs as JSON."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from firstlight.doctor.facts import collect
from firstlight.doctor.rules import QUESTIONS, Answer, Finding, climb, diagnose
from firstlight.doctor.rules.ask import maker
from firstlight.doctor.shapes import Facts

FORMAT = 1
MARKS = {True: "✓", False: "✗", None: "·"}
COLOURS = {"✓": 32, "✗": 31, "·": 90}


@dataclass(frozen=True)
class Report:
    """What the doctor has to say about some facts.

    Examples
    --------
    >>> report = Report(Facts.of({"gpus": [{"vendor": "nvidia", "driver": "nouveau"}]}))
    >>> report.status, report.findings[0].rule.code
    ('problem', 'nouveau')
    """

    facts: Facts

    @cached_property
    def findings(self) -> list[Finding]:
        """Every cause that holds; the first is the diagnosis, unless it is a note."""
        return diagnose(self.facts)

    @cached_property
    def ladder(self) -> list[Answer]:
        """The answered questions; one that a cause breaks is answered with no."""
        broken = {f.rule.question: f.rule.title for f in reversed(self.findings) if f.rule.kind == "problem"}
        return [
            Answer(answer.question, False, broken[answer.question] if answer.state is not False else answer.words)
            if answer.question in broken
            else answer
            for answer in climb(self.facts)
        ]

    @property
    def status(self) -> Literal["healthy", "no-gpu", "problem"]:
        """One word for all of it."""
        if any(finding.rule.kind == "problem" for finding in self.findings):
            return "problem"
        return "healthy" if maker(self.facts) else "no-gpu"

    def text(self, colour: bool = False, width: int = 100) -> str:
        """Write the report for a person."""
        longest = max(map(len, QUESTIONS.values()))
        lines = []
        for answer in self.ladder:
            room = max(width - longest - 5, 30)
            words = textwrap.shorten(_plain(answer.words), room, placeholder=" …")
            lines.append(f"{MARKS[answer.state]} {QUESTIONS[answer.question]:{longest}}  {words}")
        if self.status == "healthy" and "right" in (self.facts.torch.kernel, self.facts.numba.kernel):
            lines += ["", "Diagnosis: healthy. Your GPU computes, and computes right."]
        elif self.status == "healthy":
            lines += [
                "",
                "Diagnosis: no fault was found, but no kernel has been run, so nothing shows yet that it computes.",
            ]
        for number, finding in enumerate(self.findings):
            head = "Note" if finding.rule.kind == "note" else "Diagnosis" if number == 0 else "Also"
            lines += ["", f"{head}: {finding.rule.title} ({finding.seen.certainty})", *_body(finding, width)]
        text = "\n".join(lines)
        if colour:
            text = re.sub("^([✓✗·])", lambda m: f"\x1b[{COLOURS[m[1]]}m{m[1]}\x1b[0m", text, flags=re.MULTILINE)
            text = re.sub("^((Diagnosis|Also|Note): .*|    \\$ .*)", "\x1b[1m\\1\x1b[0m", text, flags=re.MULTILINE)
        return text

    def content(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "format": FORMAT,
            "status": self.status,
            "ladder": [
                {"question": answer.question, "state": answer.state, "words": answer.words} for answer in self.ladder
            ],
            "findings": [
                {
                    "code": finding.rule.code,
                    "title": finding.rule.title,
                    "kind": finding.rule.kind,
                    "question": finding.rule.question,
                    "certainty": finding.seen.certainty,
                    "evidence": list(finding.seen.evidence),
                    "fix": list(finding.seen.fix),
                    "links": list(finding.rule.links),
                }
                for finding in self.findings
            ],
            "facts": self.facts.content(),
        }


def _body(finding: Finding, width: int) -> list[str]:
    """Write out one finding: how it comes about, what shows it, what to do."""
    lines = []
    for paragraph in finding.rule.story.split("\n\n"):
        lines += textwrap.wrap(" ".join(paragraph.split()), width, initial_indent="  ", subsequent_indent="  ")
    lines.append("  Seen here:")
    for seen in finding.seen.evidence:
        lines += _wrapped(_plain(seen), width, "    - ", "      ")
    lines.append("  What to do:")
    for step in map(_plain, finding.seen.fix):  # a command stays in one piece, to be copied
        lines += [f"    {step}"] if step.startswith("$ ") else _wrapped(step, width, "    ", "    ")
    return [*lines, *(f"  See {link}" for link in finding.rule.links)]


def _wrapped(text: str, width: int, first: str, then: str) -> list[str]:
    """Break a text into lines, but no address, option or name inside it."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False, break_long_words=False
    )


def _plain(text: str) -> str:
    """Take out what could move a terminal's cursor: facts may come from anywhere."""
    return (
        " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text).split())
        if not text.startswith("$ ")
        else re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text)
    )


def examine(facts: Facts | None = None) -> Report:
    """Report on this machine, or on facts that were kept.

    Examples
    --------
    >>> examine(Facts.of({"gpus": [{"vendor": "nvidia", "driver": "nouveau"}]})).findings[0].rule.code
    'nouveau'
    """
    return Report(collect() if facts is None else facts)
