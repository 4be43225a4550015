"""Numbers in the notebooks that readers download: sphinx-gallery leaves the roles in them as they stand in a script."""

from __future__ import annotations

import json
import re
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from _ext.prose import spec_number, timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from _ext.watch import Judged

ROLE = re.compile(r"(?<!`):(timing|spec):`([^`]+)`")


def with_numbers(notebook: str, benches: dict[str, str], find: Callable[[str], list[Judged]]) -> dict[str, Any]:
    """The content of a notebook with today's numbers in it."""
    content: dict[str, Any] = json.loads(notebook)
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = [ROLE.sub(partial(in_words, benches=benches, find=find), "".join(cell["source"]))]
    return content


def in_words(role: re.Match[str], benches: dict[str, str], find: Callable[[str], list[Judged]]) -> str:
    """One number in plain words; what is wrong stays as written, and the page warns of it."""
    try:
        found = spec_number(role[2]) if role[1] == "spec" else timing(role[2], benches, find)
    except ValueError:
        return role[0]
    return escape(found.plain(), quote=False)
