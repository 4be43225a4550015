"""From facts to findings, without looking at the machine: the same facts always give the same findings."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from firstlight_doctor.rules.checks import QUESTIONS, Check, run_checks
from firstlight_doctor.rules.machine import cluster
from firstlight_doctor.rules.rule import CERTAINTIES, RULES, Finding, Rule, Signs
from firstlight_doctor.schema import Facts

__all__ = ["QUESTIONS", "RULES", "Check", "Finding", "Rule", "diagnose", "ruled_out", "run_checks"]

MODULES = """
amd driver libcuda card wheels compilers containers hidden imports installs intel_apple notes platforms cuda_init
"""
for module in MODULES.split():
    import_module(f"{__name__}.{module}")  # its rules enter themselves; of equal causes, the first to enter leads

#: A passed check rules out the causes listed under it. What one program asks for, or lacks, is ruled out by none.
RULED_OUT_BY = {
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
    findings = [for_whom(doubted(found, facts), facts) for each in RULES if (found := each.look(facts))]
    findings.sort(
        key=lambda finding: (
            finding.rule.kind == "note",
            order.index(finding.rule.question),
            CERTAINTIES.index(finding.certainty),
        )
    )
    failed = next((check for check in run_checks(facts) if check.state is False), None)
    causes = [order.index(finding.rule.question) for finding in findings if finding.rule.kind != "note"]
    if failed and min(causes, default=len(order)) > order.index(failed.question):  # none explains the first failure
        keep = ("Save the report, and show it when you ask for help:", "$ firstlight-doctor --json > report.json")
        first = int(findings[:1] != [] and findings[0].rule.question == "wheel")  # has to be changed in any case
        unexplained = replace(UNEXPLAINED, question=failed.question)
        findings.insert(first, Finding(unexplained, (failed.words,), keep, "possible"))
    return findings


def ruled_out(facts: Facts) -> dict[str, str]:
    """Return the causes that the facts of a machine rule out, and in what words they do.

    Examples
    --------
    >>> ruled_out(Facts.of({"cuda": {"init": 0, "devices": [{"name": "NVIDIA A100"}]}}))["nouveau"]
    'Is the GPU visible to programs? Yes: 1 device'
    """
    passed = {check.question: check.words for check in run_checks(facts) if check.state}
    by = {rule.code: RULED_OUT_BY.get(rule.question) for rule in RULES if rule.code not in ELSEWHERE}
    return {
        code: f"{QUESTIONS[question]} Yes: {passed[question]}" for code, question in by.items() if question in passed
    }


def doubted(finding: Finding, facts: Facts) -> Finding:
    """Call a cause that would stop PyTorch no more than possible where PyTorch computes."""
    order = list(QUESTIONS)
    stops = finding.rule.kind == "problem" and order.index(finding.rule.question) < order.index("torch")
    if not stops or facts.torch.kernel != "right":
        return finding
    yet = "yet PyTorch computes right: on another card, or this is a report of two machines"
    return replace(finding, evidence=(*finding.evidence, yet), certainty="possible")


def for_whom(finding: Finding, facts: Facts) -> Finding:
    """Add who has to do it and where, if that is not the reader here: an administrator, or the host of a container."""
    fix, rule = finding.fix, finding.rule
    if rule.question == "driver" and facts.system.container:
        fix = ("The driver belongs to the machine outside this container. Do this there, not in here:", *fix)
    commands = [step for step in fix if step.startswith("$ ")]
    if rule.kind == "problem" and not facts.system.wsl and any("sudo " in command for command in commands):
        told = for_administrators(finding, facts)
        # What you can do yourself comes first.
        fix = (*told, *fix) if cluster(facts) and "sudo " in commands[0] else (*fix, *told)
    return replace(finding, fix=fix)


def for_administrators(finding: Finding, facts: Facts) -> tuple[str, ...]:
    """Return how those are told who may use sudo: who looks after a machine, or a cluster's administrators."""
    if not cluster(facts):
        return ("If you may not use sudo, or share the machine, send this text to the person who looks after it.",)
    said = f"firstlight-doctor says about a node of yours: {finding.rule.title}. It saw: {finding.evidence[0]}."
    other = ("Meanwhile, ask Slurm for another node:", "$ sbatch --exclude=$(hostname -s) JOB_SCRIPT")
    return (
        "Only the administrators of the cluster may run what begins with sudo. Send them the report, and write: "
        f'"{said}"',
        "$ firstlight-doctor --json > report.json",
        *(other if "SLURM_JOB_ID" in facts.env else ()),
    )


def no_known_cause(facts: Facts) -> Signs | None:
    """Something is broken, and none of the causes that the doctor knows explains it.

    The first question that was answered with no tells you where to look. The report holds everything that was found
    out, and nothing that tells who you are.
    """


UNEXPLAINED = Rule("no-known-cause", "torch", no_known_cause)
