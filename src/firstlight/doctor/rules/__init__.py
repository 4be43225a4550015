"""From facts to findings, without looking at the machine: the same facts always give the same findings."""

from __future__ import annotations

from dataclasses import replace

from firstlight.doctor.rules import (  # noqa: F401 -- they enter their rules
    amd,
    card,
    compilers,
    containers,
    context,
    driver,
    extensions,
    health,
    hidden,
    imports,
    installs,
    kernels,
    library,
    makers,
    notes,
    place,
    process,
    start,
    wheels,
)
from firstlight.doctor.rules.ladder import Answer, climb
from firstlight.doctor.rules.rule import CERTAINTIES, QUESTIONS, RULES, Finding, Rule, Seen
from firstlight.doctor.shapes import Facts

__all__ = ["QUESTIONS", "RULES", "Answer", "Finding", "Rule", "Seen", "climb", "diagnose"]


def diagnose(facts: Facts) -> list[Finding]:
    """Return every cause that holds, the one that explains most first.

    A cause that breaks an early question explains why the later ones fail, so it leads; notes come last.

    Examples
    --------
    >>> facts = Facts.of({"gpus": [{"vendor": "nvidia", "driver": "nouveau"}]})
    >>> diagnose(facts)[0].rule.code
    'nouveau'
    """
    order = list(QUESTIONS)
    findings = [Finding(each, seen) for each in RULES if (seen := each.look(facts))]
    findings.sort(
        key=lambda finding: (
            finding.rule.kind == "note",
            order.index(finding.rule.question),
            CERTAINTIES.index(finding.seen.certainty),
        )
    )
    broken = next((answer for answer in climb(facts) if answer.state is False), None)
    causes = [order.index(finding.rule.question) for finding in findings if finding.rule.kind != "note"]
    if broken and min(causes, default=len(order)) > order.index(broken.question):  # none explains the first failure
        found = Seen(
            (broken.words,),
            ("Keep the report, and ask with it:", "$ firstlight doctor --json > report.json"),
            "possible",
        )
        findings.insert(0, Finding(replace(UNEXPLAINED, question=broken.question), found))
    return findings


def no_known_cause(facts: Facts) -> Seen | None:
    """Something is broken, and no cause that is known here explains it.

    The question that failed first tells where to look. The report holds everything that was found out, and nothing
    that tells who you are.
    """


UNEXPLAINED = Rule("no-known-cause", "torch", no_known_cause)
