"""From facts to findings, without looking at the machine: the same facts always give the same findings."""

from __future__ import annotations

import pkgutil
from dataclasses import replace
from importlib import import_module

from gpu_doctor.rules.ask import cluster
from gpu_doctor.rules.ladder import Answer, climb
from gpu_doctor.rules.rule import CERTAINTIES, QUESTIONS, RULES, Finding, Rule, Seen
from gpu_doctor.shapes import Facts

__all__ = ["QUESTIONS", "RULES", "Answer", "Finding", "Rule", "Seen", "climb", "diagnose", "refuted"]

for module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")  # its rules enter themselves

#: Which question's yes speaks against the causes of a question; what one program asks for, or lacks, speaks for itself.
SETTLES = {
    **dict.fromkeys(("driver", "nodes", "library", "start"), "visible"),
    **{question: question for question in ("bus", "wheel", "version", "code")},
}
#: Causes that are in one program or in one container, whatever the machine around it says.
ELSEWHERE = (
    "container-without-gpu", "apptainer-without-nv", "container-without-compute", "container-lost-gpu"
)  # fmt: skip


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
    findings = [addressed(Finding(each, seen), facts) for each in RULES if (seen := each.look(facts))]
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
        first = int(findings[:1] != [] and findings[0].rule.question == "wheel")  # has to be changed in any case
        findings.insert(first, Finding(replace(UNEXPLAINED, question=broken.question), found))
    return findings


def refuted(facts: Facts) -> dict[str, str]:
    """Return the causes that the facts of a machine speak against, and in what words they do.

    Examples
    --------
    >>> refuted(Facts.of({"cuda": {"init": 0, "devices": [{"name": "NVIDIA A100"}]}}))["nouveau"]
    'Is the GPU visible to programs? Yes: 1 device'
    """
    yes = {
        answer.question: f"{QUESTIONS[answer.question]} Yes: {answer.words}" for answer in climb(facts) if answer.state
    }
    asked = {rule.code: SETTLES.get(rule.question) for rule in RULES if rule.code not in ELSEWHERE}
    return {code: yes[question] for code, question in asked.items() if question in yes}


def addressed(finding: Finding, facts: Facts) -> Finding:
    """Say who has to do it and where, if that is not the reader here: the administrator, or the host of a container."""
    fix, rule = finding.seen.fix, finding.rule
    if rule.question == "driver" and facts.system.container:
        fix = ("The driver belongs to the machine around this container. Do this there, not in here:", *fix)
    commands = [step for step in fix if step.startswith("$ ")]
    if rule.kind != "problem" or facts.system.wsl or not any("sudo " in command for command in commands):
        whose: tuple[str, ...] = ()
    elif cluster(facts):
        said = f"On a node of yours, firstlight doctor says: {rule.title}. It saw: {finding.seen.evidence[0]}."
        other = ("Meanwhile, let Slurm take another node:", "$ sbatch --exclude=$(hostname -s) JOB_SCRIPT")
        whose = (
            "What begins with sudo, only the administrators of the cluster may do. Send them the report, and write: "
            f'"{said}"',
            "$ firstlight doctor --json > report.json",
            *(other if "SLURM_JOB_ID" in facts.env else ()),
        )
    else:
        whose = ("If you may not use sudo, or others work on the machine, send this text to whoever looks after it.",)
    # What you can do yourself comes first.
    ordered = (*whose, *fix) if whose and cluster(facts) and "sudo " in commands[0] else (*fix, *whose)
    return replace(finding, seen=replace(finding.seen, fix=ordered))


def no_known_cause(facts: Facts) -> Seen | None:
    """Something is broken, and no cause that is known here explains it.

    The question that failed first tells where to look. The report holds everything that was found out, and nothing
    that tells who you are.
    """


UNEXPLAINED = Rule("no-known-cause", "torch", no_known_cause)
