"""Kept machines with changes, and what the doctor makes of them."""

from typing import Any

from firstlight_doctor import Facts, case, diagnose
from firstlight_doctor.cases import patched


def like(name: str, *patches: dict[str, Any], **changes: Any) -> Facts:
    """A kept machine with changes, as a merge patch has them."""
    content = case(name).facts.content()
    for patch in (*patches, changes):
        content = patched(content, patch)
    return Facts.of(content)


def causes(facts: Facts) -> list[str]:
    """All that is found and is no mere note, the first cause first."""
    return [finding.rule.code for finding in diagnose(facts) if finding.rule.kind != "note"]


def steps(facts: Facts) -> str:
    """What the first finding says is to be done."""
    return "\n".join(diagnose(facts)[0].fix)
