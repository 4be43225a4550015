"""Numbers in the notebooks that readers download: sphinx-gallery leaves the roles in them as they stand in a script."""

from __future__ import annotations

import json
import re
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from firstlight.sphinxext.prose import spec_number, timing
from firstlight.sphinxext.watch import judged

if TYPE_CHECKING:
    from pathlib import Path

ROLE = re.compile(r"(?<!`):(timing|spec):`([^`]+)`")


def with_numbers(notebook: str, folder: Path, benches: dict[str, str]) -> dict[str, Any]:
    """The content of a notebook with today's numbers in it."""
    content: dict[str, Any] = json.loads(notebook)
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = [ROLE.sub(partial(in_words, folder=folder, benches=benches), "".join(cell["source"]))]
    return content


def in_words(role: re.Match[str], folder: Path, benches: dict[str, str]) -> str:
    """One number in plain words; what is wrong stays as written, and the page warns of it."""
    try:
        if role[1] == "spec":
            found = spec_number(role[2])
        else:
            found = timing(role[2], benches, lambda example: judged(folder, example)[0])
    except ValueError:
        return role[0]
    return escape(found.plain(), quote=False)
