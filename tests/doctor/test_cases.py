"""Every kept machine gives its cause first, and its near miss does not; every rule has such a case."""

import json

import pytest

from firstlight.doctor import Facts, case, cases, diagnose, examine
from firstlight.doctor.rules import QUESTIONS, RULES

BROKEN = [name for name in cases() if case(name).cause]


def codes(facts: Facts) -> list[str]:
    return [finding.rule.code for finding in diagnose(facts)]


@pytest.mark.parametrize("name", BROKEN)
def test_the_cause_leads(name: str) -> None:
    broken = case(name)
    assert codes(broken.facts)[:1] == [broken.cause]


@pytest.mark.parametrize("name", BROKEN)
def test_the_near_miss_has_another_cause_or_none(name: str) -> None:
    broken = case(name)
    if broken.near_miss is not None:
        assert broken.cause not in codes(broken.near_miss)


@pytest.mark.parametrize("name", [name for name in cases() if name not in BROKEN])
def test_a_healthy_machine_is_called_healthy(name: str) -> None:
    assert examine(case(name).facts).status == "healthy"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_rule_is_shown_and_told(rule) -> None:
    shown = [case(name) for name in BROKEN if case(name).cause == rule.code]
    assert any(each.near_miss for each in shown), "no case with a near miss"
    assert rule.question in QUESTIONS
    assert rule.title, "the first line of the docstring is a heading"
    assert rule.story, "the docstring does not tell how the cause comes about"
    for each in shown:
        seen = rule.look(each.facts)
        assert seen is not None
        assert seen.evidence
        assert seen.fix
        assert all(step == step.strip() and "\n" not in step for step in seen.fix)


def test_codes_are_different() -> None:
    names = [rule.code for rule in RULES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", cases())
def test_a_report_survives_being_written_and_read(name: str) -> None:
    facts = case(name).facts
    assert Facts.of(json.loads(json.dumps(facts.content()))) == facts
    assert case(name).source.startswith("https://") or case(name).real
