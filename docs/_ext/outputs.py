"""What a code block printed on each recorded machine, as tabs, and behind them what it printed in this build."""

from __future__ import annotations

import re
from functools import partial
from html import escape
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx_design.shared import create_component

from _ext.folds import folded, remembered
from _ext.records import records_of
from _ext.timings import machine_name
from firstlight.display import Table
from firstlight.records.runner import block_keys, split

if TYPE_CHECKING:
    from firstlight.records.record import Record

GALLERY = "tutorials/"
PLACE = re.compile(r"GENERATED FROM PYTHON SOURCE LINES (\d+)-")
OUT = "sphx-glr-script-out"
CUT = "… (cut)"  # at the end of what was too long to record
RULE = re.compile(r"-+(?:  -+)+")
PROFILED = re.compile(r"(?m)^(-+(?:  -+)+) *\n(.+)\n\1 *\n((?:.+\n)+?)\1 *$")
COLUMNS = re.compile(r"\S {2,}\S.*")
LINE = re.compile(r"\bline \d+")
COMMAND = re.compile(r"(?m)^ +\$ ")


class ShowOutputs(SphinxTransform):
    """Put the tabs under the code blocks of a tutorial."""

    default_priority: ClassVar[int] = 400

    def apply(self) -> None:
        """Find the code blocks of this page by the lines of the script that they come from."""
        script = Path(self.env.doc2path(self.env.docname)).with_suffix(".py")
        if not self.env.docname.startswith(GALLERY) or not script.is_file():
            return
        records = [judged.record for judged in records_of(self.env, self.env.docname.removeprefix(GALLERY))]
        source = script.read_text(encoding="utf-8")
        keys = block_keys(source)
        places = [block.line for block in split(source) if block.kind == "code"]
        for comment in list(self.document.findall(nodes.comment)):
            found = PLACE.match(comment.astext())
            if found and int(found[1]) in places:
                place = places.index(int(found[1]))
                show(comment, records, place, keys)
                show_figure(self.document, comment, records, keys[place])
        for block in list(self.document.findall(nodes.literal_block)):
            lines = ["", *block.astext().splitlines()]
            rules = [above for above, line in pairwise(lines) if RULE.fullmatch(line)]
            if block.get("language") == "none" and rules and all(map(str.strip, rules)):  # another program's begin so
                block.replace_self(tables_in(block.astext()))
            elif (narrow := narrowed(block.astext())) != block.astext():
                small = nodes.literal_block(narrow, narrow, language="none", classes=["fl-columns"])
                block.replace_self([small, *folded([block.deepcopy()], "All columns, as PyTorch printed them")])
            elif has_columns(block.astext()):  # a table, though none that Table wrote
                block["classes"].append("fl-columns")


def has_columns(text: str) -> bool:
    r"""Return whether lines stay whole on a narrow screen. A command is copied, so it may not end out of sight.

    Examples
    --------
    >>> has_columns("one  1\ntwo  2"), has_columns("one  1\ntwo  2\n    $ python -m pip install torch")
    (True, False)
    """
    return len(COLUMNS.findall(text)) > 1 and not COMMAND.search(text)


def narrowed(text: str) -> str:
    r"""Return a text in which tables of PyTorch's profiler, too wide for a screen, have no percentages and averages.

    Examples
    --------
    >>> print(narrowed("----  ----  ----\n Sum     %    us\n----  ----  ----\n add   12%   3us\n----  ----  ----"))
    Sum   us
    add  3us
    """

    def narrow(table: re.Match[str]) -> str:
        rows = [re.split(" {2,}", line.strip()) for line in [table[2], *table[3].splitlines()]]
        kept = [cells for cells in zip(*rows, strict=True) if not cells[0].endswith(("%", "avg"))]
        first, *others = [[cell.ljust(max(map(len, cells))) for cell in cells] for cells in kept]
        others = [[cell.strip().rjust(len(cell)) for cell in cells] for cells in others]
        return "\n".join("  ".join(row) for row in zip(first, *others, strict=True))

    return PROFILED.sub(narrow, text)


def show(comment: nodes.comment, records: list[Record], place: int, keys: list[str]) -> None:
    """Put the tabs of one block, if a machine printed something else than this build did, and with the same code."""
    code = next(comment.findall(nodes.literal_block, ascend=True))
    beside = until_next(comment)
    out = next((node for node in beside if OUT in node.get("classes", [])), None)
    here = plain(out.astext()) if out else ""
    drawn = any("output_html" in node.astext() for node in beside if isinstance(node, nodes.raw))
    if drawn or (place and keys[place] == keys[place - 1]):  # it says more than a text does, or nothing in it runs
        return
    said = [(record, plain(text)) for record in records for text in printed(record, keys[place])]
    others = [(record, text) for record, text in said if text and not is_begun(here, text)]
    if not others:
        return
    place = code.parent.index(code) - 2  # lines to remember stand before the fold of their code
    if place >= 0 and isinstance(code.parent[place], nodes.enumerated_list):
        box = [remembered(said[0][1]), nodes.paragraph("", f"Recorded on {ran_on(said[0][0])}.", classes=["fl-by"])]
        code.parent[place : place + 1] = box
    tabs = create_component("tab-set", ["sd-tab-set", "fl-outputs"])
    if out is None:
        code.parent.insert(code.parent.index(code) + 1, tabs)
        nothing: nodes.Element = nodes.paragraph("", "Nothing was printed.", classes=["fl-missing"])
    else:
        out.parent.replace(out, tabs)
        out["classes"].remove(OUT)  # the tab says whose output it is
        nothing = out
    for record, text in others:
        block = nodes.literal_block(text, text, language="none")
        tabs += tab(str(record.facts["device_name"]), block, sync_group="machine", sync_id=record.machine)
    tabs += tab("This build", nothing, sync_group="machine", sync_id="this-build")


def is_begun(here: str, text: str) -> bool:
    """Return whether a machine printed the same as this build, or its record was cut.

    Spaces may differ, and the numbers of the page's lines, which change with the text above them.
    """
    here, text = (LINE.sub("line", output) for output in (here, text))
    return here.split() == text.split() or (text.endswith(CUT) and here.startswith(text.removesuffix(CUT).rstrip()))


def show_figure(document: nodes.document, comment: nodes.comment, records: list[Record], key: str) -> None:
    """Show what a machine on record drew with the same code, and fold this build's behind."""
    images = [node for node in until_next(comment) for node in node.findall(nodes.image)]
    html = recorded_figure(records, key)
    if not html or not images:
        return
    for image in list(document.findall(nodes.image)):
        whole = image.parent if isinstance(image.parent, nodes.reference) else image  # a link to itself, in large
        if image["uri"] == images[0]["uri"]:
            if image in images:
                own, parts = html, folded([one.deepcopy() for one in images], "What this build drew", "fl-screen")
            else:  # at the top: names stand once on a page
                own, parts = re.sub(r'(id="|href="#|url\(#)', r"\1top-", html), []
            whole.parent.replace(whole, [nodes.raw("", own, format="html"), *parts])
        elif image["uri"] == images[-1]["uri"]:
            whole.parent.remove(whole)


def recorded_figure(records: list[Record], key: str) -> str:
    """Return the figure of a block in the newest record of a GPU, or else of a CPU, that has one; else nothing."""
    having = sorted((one for one in records if key in one.figures), key=lambda one: one.facts["device_kind"] == "cpu")
    for newest in having[:1]:
        said = escape(f"Drawn in the recorded run on {ran_on(newest)}")  # of measurements, or a model only
        return f'<figure class="fl-figure" tabindex="0">{newest.figures[key]}<figcaption>{said}</figcaption></figure>'
    return ""


def ran_on(record: Record) -> str:
    """Return the machine of a record in words; beside a GPU, its CPU's cores, for some times are theirs."""
    is_cpu = record.facts["device_kind"] == "cpu" or "cpu_cores" not in record.facts
    beside = "" if is_cpu else f" and the {record.facts['cpu_cores']} CPU cores beside it"
    return f"{machine_name(record.facts)}{beside}"


def until_next(comment: nodes.comment) -> list[nodes.Element]:
    """Return what a code block made: all up to the comment of the next one."""
    code = next(comment.findall(nodes.literal_block, ascend=True))  # in a fold, perhaps
    after = code.findall(nodes.Element, include_self=False, descend=False, siblings=True)
    return list(takewhile(lambda node: node.tagname != "comment", after))


def printed(record: Record, key: str) -> list[str]:
    """Return what a block printed on a machine. Outputs are named by number and key; the key finds a block anywhere."""
    return [text for name, text in record.outputs.items() if name.rpartition(":")[2] == key]


def plain(text: str) -> str:
    """Return a text as a literal block shows it: no control characters, no margin, no space at the ends."""
    lines = [re.sub(r"[\x00-\x1f\x7f-\x9f]", "", line).rstrip() for line in text.expandtabs().splitlines()]
    margin = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    return "\n".join(line[margin:] for line in lines).strip("\n")


def tables_in(text: str) -> list[nodes.Node]:
    """Return the nodes of a text, with tables for those that Table wrote: caption, heads, a rule, rows.

    Records keep what was printed, so this is how the tables of other machines get onto the page.
    """
    lines, found = text.splitlines(), list[nodes.Node]()
    while lines:
        at = next((at for at, line in enumerate(lines) if at > 1 and RULE.fullmatch(line)), len(lines) + 2)
        if before := "\n".join(lines[: at - 2]).strip("\n"):
            found.append(nodes.literal_block(before, before, language="none", classes=[OUT]))
        if at < len(lines):
            spans = [span.span() for span in re.finditer("-+", lines[at])]
            rows = list(takewhile(partial(fits, spans), lines[at + 1 :]))
            head, *body = (tuple(line[a:b].strip() for a, b in spans) for line in (lines[at - 1], *rows))
            found.append(nodes.raw("", Table(lines[at - 2], head, tuple(body)).html(), format="html"))
            at += 1 + len(rows)
        lines = lines[at:]
    return found


def fits(spans: list[tuple[int, int]], line: str) -> bool:
    """Return whether a line is a row of the table with these columns."""
    return bool(line.strip()) and not "".join(line[end : end + 2] for _, end in spans).strip() and line[0] != " "


def tab(label: str, *content: nodes.Node, **sync: str) -> nodes.container:
    """Return one tab; the reader who chooses a ``sync_id`` at one block sees it at all of their group."""
    title = nodes.rubric("", label, classes=["sd-tab-label"], **sync)
    title["support_smartquotes"] = False  # a name stays as it was recorded
    inside = create_component("tab-content", ["sd-tab-content"], children=content)
    return create_component("tab-item", ["sd-tab-item"], children=[title, inside], selected=False)
