"""Say what was found: for a person in a terminal or a pipe, and for programs as JSON."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

from firstlight_doctor.cases import Case, case, cases
from firstlight_doctor.errors import TABLE, ErrorMatch, causes_of
from firstlight_doctor.facts import collect
from firstlight_doctor.rules import QUESTIONS, RULES, Check, Finding, diagnose, ruled_out, run_checks
from firstlight_doctor.rules.machine import is_blackwell, vendor_of
from firstlight_doctor.schema import Facts

FORMAT = 1
MAX_CAUSES = 5  # causes of an error that a person reads of
MARKS = {True: "✓", False: "✗", None: "·"}
COLOURS = {"✓": 32, "✗": 31, "·": 90}
OLDER = (  # what follows is for other drivers than those of the kept machines
    "The commands are for CUDA 13, so for driver 580 or newer. With driver 525 to 579 (nvidia-smi prints yours), or "
    "with a card of 2014 to 2017 (GTX 9, GTX 10, P100, V100), take CUDA 12:"
)
END = {
    "error": "Nothing is wrong with this machine. The error comes from another one, or from the program.",
    "computes": "Diagnosis: healthy. Your GPU computes, and its results are right.",
    "untried": "Diagnosis: no fault was found. But no kernel has run yet, so we don't know whether the GPU computes.",
}


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
    error: str = ""  # that someone met: on this machine if the facts have it, too, else perhaps on another
    where: str = ""  # the program ran that met it, one of `errors.PLACES`

    @cached_property
    def findings(self) -> list[Finding]:
        """Every cause that holds; the first is the diagnosis, unless it is a note."""
        return diagnose(self.facts)

    @cached_property
    def checks(self) -> list[Check]:
        """The answered questions; one that a cause breaks is answered with no."""
        checks = {check.question: check for check in run_checks(self.facts)}
        for rule in (finding.rule for finding in self.findings):
            if rule.kind == "problem" and checks[rule.question].state is not False:
                checks[rule.question] = Check(rule.question, False, rule.title)
        return list(checks.values())

    @property
    def status(self) -> Literal["healthy", "no-gpu", "problem"]:
        """One word for all of it."""
        if any(finding.rule.kind == "problem" for finding in self.findings):
            return "problem"
        return "healthy" if vendor_of(self.facts) else "no-gpu"

    @cached_property
    def ruled_out(self) -> dict[str, str]:
        """The causes of the error that the facts of its machine rule out, and in what words they do."""
        found = {finding.rule.code for finding in self.findings}
        return {code: words for code, words in ruled_out(self.facts).items() if self.facts.said and code not in found}

    @cached_property
    def error_causes(self) -> list[ErrorMatch]:
        """Causes that the error may have; those that its machine shows come first, those that it rules out last."""
        found = {finding.rule.code for finding in self.findings if self.facts.said}
        order = sorted(
            causes_of(self.error, self.where), key=lambda each: (each.code not in found, each.code in self.ruled_out)
        )
        return [replace(each, likely=each.likely and each.code not in self.ruled_out) for each in order]

    def text(self, colour: bool = False, width: int = 100) -> str:
        """Return the report for a person."""
        longest = max(map(len, QUESTIONS.values()))
        lines = self._about_the_error(width) if self.error else []
        for check in self.checks:
            words = textwrap.shorten(_plain(check.words), max(width - longest - 5, 30), placeholder=" …")
            lines.append(f"{MARKS[check.state]} {QUESTIONS[check.question]:{longest}}  {words}")
        if self.status == "healthy":
            computes = "right" in (self.facts.torch.kernel, self.facts.numba.kernel)
            lines += ["", END["error" if self.error else "computes" if computes else "untried"]]
        for number, finding in enumerate(self.findings):
            head = "Note" if finding.rule.kind == "note" else "Diagnosis" if number == 0 else "Also"
            lines += ["", f"{head}: {finding.rule.title} ({finding.certainty})", *_body(finding, width)]
        text = "\n".join(lines)
        if colour:
            text = re.sub("(?m)^([✓✗·])", lambda mark: f"\x1b[{COLOURS[mark[1]]}m{mark[1]}\x1b[0m", text)
            text = re.sub("(?m)^((Diagnosis|Also|Note): .*|    \\$ .*)", "\x1b[1m\\1\x1b[0m", text)
        return text

    def _about_the_error(self, width: int) -> list[str]:
        """Return the lines about the causes that the error may have."""
        causes, found = self.error_causes, {finding.rule.code for finding in self.findings}
        lines = []
        if not causes or causes[0].near:
            lines = ["This text is not known here.", *["These causes share most words with it:"] * bool(causes)]
        for number, each in enumerate(causes[:MAX_CAUSES], 1):
            words = ", ".join(f'"{piece}"' for piece in each.words)
            lines += [f"{number}. {title_of(each.code)} ({'likely' if each.likely else 'possible'})"]
            lines += _wrapped(f"{'Words' if each.near else 'It shows itself by'}: {words}.", width)
            lines += ["  This machine shows it, too: see below."] * (each.code in found)
            if each.code in self.ruled_out:
                lines += _wrapped(f"The facts speak against it. {_plain(self.ruled_out[each.code])}.", width)
            lines += _wrapped(f"How to tell: {_sign(each.code)}", width)
            lines += ["  What to do:", *(line for step in self.cure(each.code) for line in _step(step, width))]
            pages = TABLE[each.code].get("pages", ())
            lines += [*(f"  First Light teaches it in tutorials/{page}" for page in pages), ""]
        return [*lines, "Here is what this machine says:", ""]

    def cure(self, code: str) -> tuple[str, ...]:
        """Return what to do about a cause: here, if this machine has it; else as on machines that had it."""
        here = [finding.fix for finding in self.findings if finding.rule.code == code]
        general = tuple(TABLE[code].get("fix", ()))
        had = [] if here else remedies(code)
        if len(had) > 1:
            return (*general, *(step for fix, machines in had for step in (_when(machines), *fix)))
        if here or general:
            return here[0] if here else general
        title = re.sub("^(A|An|The|Two|One) ", lambda first: first[0].lower(), had[0][1][0][0].title)
        return (f"For example, on {title}:", *had[0][0])

    def content(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        causes = [(each.code, title_of(each.code), self.cure(each.code)) for each in self.error_causes]
        causes = causes or [(each.rule.code, each.rule.title, each.fix) for each in self.findings]
        return {
            "format": FORMAT,
            "status": self.status,
            "causes": [{"code": code, "title": title, "fix": list(fix)} for code, title, fix in causes],
            "ladder": [vars(check) for check in self.checks],
            "findings": [
                {
                    "code": finding.rule.code,
                    "title": finding.rule.title,
                    "kind": finding.rule.kind,
                    "question": finding.rule.question,
                    "certainty": finding.certainty,
                    "evidence": list(finding.evidence),
                    "fix": list(finding.fix),
                    "links": list(finding.rule.links),
                }
                for finding in self.findings
            ],
            "facts": self.facts.content(),
        }


@lru_cache(None)
def remedies(code: str) -> list[tuple[tuple[str, ...], list[tuple[Case, Finding]]]]:
    """Return what the doctor prescribes for a cause, each remedy with the kept machines that get it."""
    found: dict[tuple[str, ...], list[tuple[Case, Finding]]] = {}
    for each in sorted((one for one in map(case, cases()) if one.cause == code), key=lambda one: one.name != code):
        finding = next(found for found in diagnose(each.facts) if found.rule.code == code)
        fix = (*finding.fix, *for_older_driver(each.facts, finding))
        found.setdefault(fix, []).append((each, finding))
    return list(found.items())


def for_older_driver(facts: Facts, finding: Finding) -> tuple[str, ...]:
    """Return the commands that a finding would have with a driver for CUDA 12, where they are others."""
    if is_blackwell(facts) or facts.system.machine in ("aarch64", "arm64"):  # no code in CUDA 12.6, or no wheels
        return ()
    older = finding.rule.look(replace(facts, cuda=replace(facts.cuda, version=12040)))
    others = [step for step in older.fix if step.startswith("$ ") and step not in finding.fix] if older else []
    return (OLDER, *others) if others else ()


def _when(machines: list[tuple[Case, Finding]]) -> str:
    """Return the words by which a reader knows that one of some machines is like theirs."""
    return f"If {', or '.join(each.when for each, _ in machines)}:"


def _sign(code: str) -> str:
    """Return how to tell whether it is this cause: its story, and what the doctor saw on a machine that had it."""
    story = TABLE[code].get("story") or next(rule.story for rule in RULES if rule.code == code)
    seen = "".join(
        f" On such a machine the doctor sees: {'; '.join(found.evidence)}."
        for _, machines in remedies(code)[:1]
        for _, found in machines[:1]
    )
    return _plain(story.split("\n\n")[0] + seen)


def _body(finding: Finding, width: int) -> list[str]:
    """Return the lines of one finding: how it comes about, what shows it, what to do."""
    lines = []
    for paragraph in finding.rule.story.split("\n\n"):
        lines += _wrapped(" ".join(paragraph.split()), width)
    lines.append("  Seen here:")
    for seen in finding.evidence:
        lines += _wrapped(_plain(seen), width, "    - ")
    lines.append("  What to do:")
    lines += [line for step in finding.fix for line in _step(step, width)]
    return [*lines, *(f"  See {link}" for link in finding.rule.links)]


def _step(step: str, width: int) -> list[str]:
    """Write out one step; a command stays in one piece, to be copied."""
    step = _plain(step)
    return [f"    {step}"] if step.startswith("$ ") else _wrapped(step, width, "    ")


def title_of(code: str) -> str:
    """Return the heading of a cause."""
    return TABLE[code].get("title") or next((rule.title for rule in RULES if rule.code == code), code)


def _wrapped(text: str, width: int, first: str = "  ") -> list[str]:
    """Break a text into lines as far in as the first, but no address, option or name inside it."""
    then = " " * len(first)
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False, break_long_words=False
    )


def _plain(text: str) -> str:
    """Take out what could move a terminal's cursor, turn what follows around, or begin a line as a command does.

    Facts may come from anywhere.
    """
    clean = re.sub(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", " ", text)
    return clean if text.startswith("$ ") else re.sub(r"\$\s+", "$", " ".join(clean.split()))


def examine(facts: Facts | None = None, error: str = "", where: str = "") -> Report:
    """Report on this machine, or on facts that were kept; and on an error, if there is one.

    Where the program ran that met it may decide among causes: "windows", "wsl", "cluster", "container", "notebook".

    Examples
    --------
    >>> examine(Facts.of({"gpus": [{"vendor": "nvidia", "driver": "nouveau"}]})).findings[0].rule.code
    'nouveau'
    """
    return Report(collect() if facts is None else facts, error, where)
