"""Machines kept as data, one file each: broken in one way that the doctor has to find, or healthy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from firstlight.doctor.shapes import Facts


@dataclass(frozen=True)
class Case:
    """One machine."""

    name: str
    title: str
    real: bool  # facts of a real machine; otherwise put together from what its source tells
    source: str
    cause: str | None  # the code of the finding that has to lead
    facts: Facts
    but: str = ""  # how the near miss differs, in words
    near_miss: Facts | None = None  # so little different that this cause no longer holds


@cache
def case(name: str) -> Case:
    """Return a case by its name.

    Examples
    --------
    >>> case("nouveau").cause
    'nouveau'
    """
    try:
        content = json.loads((resources.files(__package__) / f"{name}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no case {name!r}; there are {', '.join(cases())}") from None
    near = content.get("but")
    return Case(
        name=name,
        title=content["title"],
        real=content["kind"] == "real",
        source=content["source"],
        cause=content["cause"],
        facts=Facts.of(content["facts"]),
        but=near["what"] if near else "",
        near_miss=Facts.of(patched(content["facts"], near["facts"])) if near else None,
    )


def cases() -> list[str]:
    """Return the names of all cases.

    Examples
    --------
    >>> "healthy-nvidia" in cases(), len(cases()) > 20
    (True, True)
    """
    files = resources.files(__package__).iterdir()
    return sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))


def patched(content: Any, patch: Any) -> Any:
    """Return JSON changed by a merge patch (RFC 7396): objects are merged, null takes a key away."""
    if not isinstance(patch, dict):
        return patch
    base = content if isinstance(content, dict) else {}
    kept = {key: value for key, value in base.items() if key not in patch}
    return kept | {key: patched(base.get(key), value) for key, value in patch.items() if value is not None}
