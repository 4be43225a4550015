"""Facts may come from anywhere; what they hold must not become part of a command that a reader copies."""

import copy
import shlex

import pytest

from firstlight.doctor import Facts, case, cases, diagnose

HOSTILE = 'x"; $(reboot) `reboot`'


def texts(content, place=()):
    """Where in JSON the texts are."""
    if isinstance(content, str):
        yield place
    elif isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield from texts(value, (*place, key))


@pytest.mark.parametrize("name", cases())
def test_no_command_carries_a_command(name: str) -> None:
    content = case(name).facts.content()
    for *place, last in texts(content):
        changed = copy.deepcopy(content)
        part = changed
        for key in place:
            part = part[key]
        part[last] += HOSTILE
        try:
            facts = Facts.of(changed)
        except ValueError:
            continue
        steps = [step for finding in diagnose(facts) for step in finding.seen.fix if step.startswith("$ ")]
        for step in (step for step in steps if "reboot)" in step):
            assert any(HOSTILE in word for word in shlex.split(step)), step  # one quoted word, no command
