"""Every kept machine gives its cause first, and its near miss does not; every rule has such a case."""

import inspect
import json
import re
import shlex
from contextlib import suppress

import pytest

from firstlight_doctor import Facts, case, cases, diagnose, examine
from firstlight_doctor.report import OLDER, remedies
from firstlight_doctor.rules import QUESTIONS, RULES, run_checks
from firstlight_doctor.rules.machine import CONDITIONS
from firstlight_doctor.rules.steps import COMMANDS

HOSTILE = 'x"; $(reboot) `reboot`'
OF_SETTING = ("unset",)  # which rules pass on that differ only in a name
LOOKS = {rule.code: rule.look for rule in RULES}


def codes(facts: Facts) -> list[str]:
    return [finding.rule.code for finding in diagnose(facts)]


@pytest.mark.parametrize("name", cases())
def test_the_cause_leads_explains_what_is_red_and_is_not_seen_in_the_near_miss(name: str) -> None:
    kept, order = case(name), list(QUESTIONS)
    if kept.cause:
        assert codes(kept.facts)[:1] == [kept.cause]
    else:
        assert codes(kept.facts) == []
        assert examine(kept.facts).status == "healthy"
    for facts in filter(None, (kept.facts, kept.near_miss)):
        assert facts is kept.facts or kept.cause not in codes(facts)
        red = [order.index(answer.question) for answer in run_checks(facts) if answer.state is False]
        causes = [order.index(finding.rule.question) for finding in diagnose(facts) if finding.rule.kind != "note"]
        assert not red or min(causes) <= red[0]
        assert Facts.of(json.loads(json.dumps(facts.content()))) == facts


def test_every_rule_is_shown_and_told() -> None:
    assert len(LOOKS) == len(RULES)
    for rule in RULES:
        shown = [case(name) for name in cases() if case(name).cause == rule.code]
        assert any(each.near_miss for each in shown), f"{rule.code}: no case with a near miss"
        assert rule.question in QUESTIONS
        assert rule.title
        assert rule.story
        for each in shown:
            seen = rule.look(each.facts)
            assert seen
            assert seen.evidence
            assert seen.fix
            assert all(step == step.strip() and "\n" not in step for step in seen.fix)


def test_a_machine_says_how_to_tell_that_it_is_yours_where_its_remedy_is_not_the_only_one() -> None:
    for rule in RULES:
        said = [each.when for _, machines in remedies(rule.code) for each, _ in machines]
        if len(remedies(rule.code)) > 1:
            assert all(said), f"{rule.code}: {said}"
            assert len({*said}) == len(said), f"{rule.code}: {said}"
            cured = examine(case("healthy-nvidia").facts).cure(rule.code)
            assert all(any(words in step for step in cured) for words in said)
        else:
            assert not any(said), f"{rule.code}: {said}"


def test_commands_for_cuda_13_say_for_which_drivers_and_what_the_others_take() -> None:
    for code in ("cpu-wheel", "torch-missing", "conda-cpu-build", "numba-without-toolkit"):
        fix = remedies(code)[0][0]
        first, others = fix[: fix.index(OLDER)], fix[fix.index(OLDER) + 1 :]
        assert any("13" in step for step in first)
        assert others
        assert all(step.startswith("$ ") and "12" in step and "cu13" not in step for step in others)
    blackwell = next(fix for fix, had in remedies("no-code-for-card") if had[0][0].name == "no-code-for-blackwell")
    assert OLDER not in blackwell, "it computes with no CUDA 12.6"
    assert any("580" in step for step in blackwell)


@pytest.mark.parametrize("told", [*(rule.judge for rule in RULES), *COMMANDS.values()], ids=lambda told: told.__name__)
def test_every_word_of_a_step_is_one_of_the_function_or_one_that_all_have(told) -> None:
    """Steps are filled in only where their part fits, which no case may reach."""
    steps, code = told.__doc__.partition("\n    To do")[2], inspect.getsource(inspect.unwrap(told)).rpartition('"""')[2]
    own = {*re.findall(r"\b(\w+)=", code), *re.findall(r'"(\w+)":', code), *OF_SETTING}
    assert {*re.findall(r"(?<!{){(\w+)}", steps)} <= own | {*COMMANDS}
    conditions = re.findall(r"^ *(?:\[(.+?)\] |To do \((.+)\):)", f"To do{steps}", re.MULTILINE)
    assert {word for one in conditions for word in "".join(one).split()} <= own | {*CONDITIONS, "not"}


# -- Facts may come from anywhere; what they hold must not become part of a command that a reader copies ---------------


def texts(content, place=()):
    """Where in JSON the texts are."""
    if isinstance(content, str):
        yield place
    elif isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield from texts(value, (*place, key))


def spoilt(content, said):
    """All facts that can be read after one of their texts, of which something is said, has become hostile."""
    for *place, last in list(texts(content)):
        part = content
        for key in place:
            part = part[key]
        if said and not any(word in said for word in re.findall(r"\w{3,}", part[last])):
            continue
        kept, part[last] = part[last], part[last] + HOSTILE
        with suppress(ValueError):
            yield Facts.of(content)
        part[last] = kept


@pytest.mark.parametrize("all_texts", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_command_carries_a_command(all_texts: bool) -> None:
    tried = 0
    for kept in (case(name) for name in cases() if case(name).cause in LOOKS):
        look = LOOKS[kept.cause]
        for facts in spoilt(kept.facts.content(), "" if all_texts else " ".join(look(kept.facts).fix)):
            seen = look(facts)
            for step in seen.fix if seen else ():
                tried += 1
                if step.startswith("$ ") and "reboot)" in step:
                    assert any(HOSTILE in word for word in shlex.split(step)), step  # one quoted word, no command
    assert tried > 100
