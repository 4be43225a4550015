"""The language of what is to be done, in which docstrings of rules and of `commands` are written.

A part begins with "To do:" and has one step a line. A line that begins with "$ " is a command, and an indented line
continues the step before it.

- ``{name}`` in a step is a word that the function returned, or one of `COMMANDS`. Alone on its line, it may be several
  steps, or none.
- ``[wsl]`` or ``[dnf not fedora]`` before a step says where it applies. There stand `CONDITIONS`, and the words.
- ``To do (wsl):`` says so for a whole part. The first part that fits is the one that counts.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import wraps
from typing import Any, Callable, Dict

from firstlight_doctor.rules.machine import CONDITIONS
from firstlight_doctor.schema import Facts

Words = Dict[str, Any]
PART = re.compile(r"^To do(?: \((.+)\))?:\n", re.MULTILINE)
COMMANDS: dict[str, Callable[..., Any]] = {}  # what every step may name: a word, or steps


def command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let steps name a function, for what it returns; or, if that is words or nothing, for those in its docstring."""
    text = inspect.cleandoc(function.__doc__ or "")
    told = wraps(function)(lambda facts: steps(text, facts, function(facts) or {}))
    COMMANDS[function.__name__] = told if PART.search(text) else function
    return COMMANDS[function.__name__]


def steps(text: str, facts: Facts, words: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the steps of the first part of a docstring that fits the facts, with their words filled in."""

    def fits(condition: str | None) -> bool:
        wanted = re.findall(r"(not )?(\w+)", condition or "")
        return all(bool(words[word] if word in words else CONDITIONS[word](facts)) != bool(no) for no, word in wanted)

    parts = PART.split(text)[1:]
    part = next(steps for condition, steps in zip(parts[::2], parts[1::2]) if fits(condition))
    told: list[str] = []
    for line in re.sub(r"\n +", " ", part.strip()).splitlines():
        condition, step = re.fullmatch(r"(?:\[(.+?)\] )?(.*)", line).groups()  # type: ignore[union-attr]
        if fits(condition):
            names = re.findall(r"(?<!{){(\w+)}", step)
            known = {name: words[name] if name in words else COMMANDS[name](facts) for name in names}
            value = known[names[0]] if step == f"{{{''.join(names[:1])}}}" else step.format(**known)
            told += value if isinstance(value, tuple) else [value] if value else []
    return tuple(told)
