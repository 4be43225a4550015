"""A page as a notebook: today's numbers in plain words, and links and tables as Markdown has them."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable
from html import escape
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.core import publish_doctree

from _ext.holds import BLOCK
from _ext.prose import NOT_RECORDED, spec_number, timing_number
from _ext.published import in_markdown

if TYPE_CHECKING:
    from firstlight.records.record import Judged

ROLE = re.compile(r"(?<!`):(timing|spec|doc|download|offered|term):`(?:([^`<]*?)\s*<)?([^`<>]+)>?`")
PART = re.compile(r"\n(?=\n|[-*] |\d+\. )")  # between two paragraphs or lines of a list
NAMED = re.compile(r"(?<!`)`([^`]+)`__")
ADDRESS = re.compile(r"^ *__ (\S+)\n?", re.MULTILINE)
PLACE = re.compile(r"(?<!`)`([^`<>]+?)\s*<[\w-]+>`(?![_`])")  # on this page, of which a notebook knows no places
BOX = re.compile(r"^ *\.\. measured-by-others:: (.*(?:\n +\S.*)*)\n?", re.MULTILINE)
PLOT = re.compile(r"^\.\. (?:(?:timings|stacks):: .*|raw:: html)(?:\n+ +\S.*)+", re.MULTILINE)
MARK = re.compile(r"\A\s*# (?:(?:(?:measured )?figure|remember)\n+|(?P<title>folded(?: code)?): *)")  # of folds
TABLE = re.compile(r"^\.\. (?:list-)?table::(.*)\n((?:\n| .*\n?)+)", re.MULTILINE)
FOLD = re.compile(r"^\.\. dropdown:: (.*)\n((?:\n| .*\n?)+)", re.MULTILINE)


def in_words(
    notebook: str, examples: dict[str, str], records: Callable[[str, str], list[Judged]], link: Callable[..., str]
) -> str:
    """Return a notebook without reST; what is wrong in it stays as written: the page warns of it.

    Parameters
    ----------
    notebook
        As sphinx-gallery made it.
    examples, records
        The example of each experiment, and the records of an example, with their states for an experiment.
    link
        Makes Markdown of the text and the target of a link.
    """
    told = ""

    def number(role: re.Match[str]) -> str:
        nonlocal told
        if role[1] == "term":
            return role[2] or role[3]
        if role[1] in ("doc", "download", "offered"):
            return link(role[1], role[2] or "", role[3])
        try:
            found = spec_number(role[3]) if role[1] == "spec" else timing_number(role[3], examples, records)
            words = found.text if found.title == told else found.plain()  # a machine is named when it is another one
            told = found.title if found.machine else told
            return escape(words, quote=False)
        except ValueError:
            return role[0]

    content: dict[str, Any] = json.loads(notebook)
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            parts = []
            for part in PART.split(BLOCK.sub("", "".join(cell["source"]))):
                before, words = told, ROLE.sub(number, part)
                told = before if NOT_RECORDED in words else told
                parts += [words] * (NOT_RECORDED not in words)
            text = "\n".join(parts)
            text = PLOT.sub("(The site has a figure here.)", text)
            text = FOLD.sub(fold, TABLE.sub(table, PLACE.sub(r"*\1*", linked(text))))
            # Boxes last: what they become has no indent, and would end the fold that they are in.
            cell["source"] = [BOX.sub(lambda box: in_markdown(box[1]), text)]
        else:
            cell["source"] = [MARK.sub(lambda mark: "# " if mark["title"] else "", "".join(cell["source"]))]
    return json.dumps(content)


def linked(text: str) -> str:
    """Give each name of a link the address that stands below it, in their order."""
    addresses = iter(ADDRESS.findall(text))
    return NAMED.sub(lambda name: f"[{name[1]}]({next(addresses, '')})", ADDRESS.sub("", text))


def table(found: re.Match[str]) -> str:
    """Write a table as Markdown has it."""
    rows = [[cell_text(cell) for cell in row.children] for row in publish_doctree(found[0]).findall(nodes.row)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    title = [f"**{found[1].strip()}**", ""] if found[1].strip() else []
    return "\n".join([*title, lines[0], "|---" * len(rows[0]) + "|", *lines[1:], "", ""])


def fold(found: re.Match[str]) -> str:
    """Write a fold as Markdown has it, which is HTML."""
    return f"<details><summary>{escape(found[1])}</summary>\n\n{dedent(found[2]).strip()}\n\n</details>\n\n"


def cell_text(cell: nodes.Node) -> str:
    """Return the text of a cell on one line; code stays code."""
    parts = (f"`{node}`" if isinstance(node.parent, nodes.literal) else node for node in cell.findall(nodes.Text))
    return " ".join("".join(parts).split()).replace("|", "\\|")


def to_pages(name: str, titles: dict[str, str], base: str) -> Callable[..., str]:
    """Return what makes links of a tutorial's roles: to pages of the site, if it is known where that is."""

    def link(role: str, text: str, target: str) -> str:
        page = posixpath.normpath(posixpath.join("/tutorials", posixpath.dirname(name), target))[1:]
        if role != "doc":
            return f"`{text or posixpath.basename(target)}`"
        text = text or titles[page]
        return f"[{text}]({base}{page}.html)" if base else f"*{text}*"

    return link
