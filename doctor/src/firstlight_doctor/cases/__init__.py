"""Machines kept as data, one file each: broken in one way that the doctor has to find, or healthy."""

from __future__ import annotations

import json
import pkgutil
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from firstlight_doctor.schema import Facts

PLACE = "firstlight_doctor.cases"  # Python 3.8 does not know the package of what it reads from an archive


@dataclass(frozen=True)
class Case:
    """One machine.

    Examples
    --------
    >>> kept = case("nouveau")
    >>> kept.title, kept.real
    ('A desktop with a GeForce, fresh from the installer of Ubuntu', False)
    """

    name: str
    title: str
    when: str  # how to tell that this machine is like yours, where others with its cause have another remedy
    real: bool  # facts of a real machine; otherwise put together from what its source tells
    source: str
    cause: str | None  # the code of the finding that has to lead
    facts: Facts
    but: str = ""  # how the near miss differs, in words
    near_miss: Facts | None = None  # so little different that this cause no longer holds


@lru_cache(None)
def case(name: str) -> Case:
    """Return a case by its name.

    Examples
    --------
    >>> case("nouveau").cause
    'nouveau'
    """
    try:
        content = json.loads(pkgutil.get_data(PLACE, f"{name}.json") or b"")
    except OSError:
        raise ValueError(f"there is no case {name!r}; there are {', '.join(cases())}") from None
    near = content.get("but")
    return Case(
        name=name,
        title=content["title"],
        when=content.get("if", ""),
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
    # Python 3.8 has no files, and later ones warn of contents; in an archive no folder can be listed.
    old = not hasattr(resources, "files")
    names = resources.contents(PLACE) if old else (file.name for file in resources.files(PLACE).iterdir())
    return sorted(name[: -len(".json")] for name in names if name.endswith(".json"))


def patched(content: Any, patch: Any) -> Any:
    """Return JSON changed by a merge patch (RFC 7396): objects are merged, null takes a key away."""
    if not isinstance(patch, dict):
        return patch
    base = content if isinstance(content, dict) else {}
    kept = {key: value for key, value in base.items() if key not in patch}
    return {**kept, **{key: patched(base.get(key), value) for key, value in patch.items() if value is not None}}
