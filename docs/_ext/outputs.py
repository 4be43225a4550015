"""Beside what a code block printed in this build: what it printed on each recorded machine, as tabs."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx_design.shared import create_component

from _ext.watch import records_of
from firstlight.measure.runner import block_keys, split

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from firstlight.measure.records import Record

GALLERY = "tutorials/"
PLACE = re.compile(r"GENERATED FROM PYTHON SOURCE LINES (\d+)-")
OUT = "sphx-glr-script-out"


class ShowOutputs(SphinxTransform):
    """Put the tabs under the code blocks of a tutorial."""

    default_priority: ClassVar[int] = 410  # solutions are folded by then: their tabs land in the fold

    def apply(self) -> None:
        """Find the code blocks of this page by the lines of the script that they come from."""
        script = Path(self.env.doc2path(self.env.docname)).with_suffix(".py")
        if not self.env.docname.startswith(GALLERY) or not script.is_file():
            return
        records = [record for record, _, _ in records_of(self.env, self.env.docname.removeprefix(GALLERY))]
        source = script.read_text(encoding="utf-8")
        keys = block_keys(source)
        places = [block.line for block in split(source) if block.kind == "code"]
        for comment in list(self.document.findall(nodes.comment)):
            found = PLACE.match(comment.astext())
            if found and int(found[1]) in places:
                show(comment, records, places.index(int(found[1])), keys)


def show(comment: nodes.comment, records: list[Record], place: int, keys: list[str]) -> None:
    """Put the tabs of one block, if a machine printed something else than this build did."""
    code = next(comment.findall(nodes.literal_block, ascend=True))  # in a fold, perhaps
    out = output_after(code)
    here = plain(out.astext()) if out else ""
    machines = []
    for record in records:
        text, outdated = printed(record, place, keys)
        if text not in ("", here):
            machines.append(machine_tab(record, text, outdated))
    if not machines:
        return
    tabs = create_component("tab-set", ["sd-tab-set", "fl-outputs"])
    if out is None:
        code.parent.insert(code.parent.index(code) + 1, tabs)
        nothing: nodes.Element = nodes.paragraph("", "Nothing was printed.", classes=["fl-missing"])
    else:
        out.parent.replace(out, tabs)
        out["classes"].remove(OUT)  # the tab says whose output it is
        nothing = out
    tabs += [tab("This build", "this-build", nothing), *machines]


def output_after(code: nodes.Element) -> nodes.Element | None:
    """What sphinx-gallery shows as the output of a code block: before the next block begins, and beside the code."""
    after = code.findall(nodes.Element, include_self=False, descend=False, siblings=True)
    beside = takewhile(lambda node: node.tagname != "comment", after)
    return next((node for node in beside if OUT in node.get("classes", [])), None)


def printed(record: Record, place: int, keys: list[str]) -> tuple[str, bool]:
    """What a block printed on a machine, and whether that was another block then, at the same place.

    Outputs are named by number and key. The key finds a block wherever it is now; the number finds what has changed.
    """
    if place and keys[place] == keys[place - 1]:  # nothing in it runs
        return "", False
    then = ""
    for name, text in record.outputs.items():
        number, _, key = name.rpartition(":")
        if key == keys[place]:
            return plain(text), False
        if number == f"{place + 1:02}" and key not in keys:
            then = plain(text)
    return then, True


def plain(text: str) -> str:
    """A text as a literal block shows it: no control characters, no margin, no space at the ends."""
    lines = [re.sub(r"[\x00-\x1f\x7f-\x9f]", "", line).rstrip() for line in text.expandtabs().splitlines()]
    margin = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    return "\n".join(line[margin:] for line in lines).strip("\n")


def machine_tab(record: Record, text: str, outdated: bool) -> nodes.container:
    """What a block printed on one machine."""
    name = str(record.facts["device_name"])
    output = nodes.literal_block(text, text, language="none")
    if not outdated:
        return tab(name, record.machine, output)
    remark = nodes.paragraph("", "Outdated: recorded with older code.", classes=["fl-outdated"])
    return tab(f"{name}, outdated", record.machine, remark, output)


def tab(label: str, machine: str, *content: nodes.Node) -> nodes.container:
    """One tab; the reader who chooses a machine at one block sees it at all of them."""
    title = nodes.rubric("", label, classes=["sd-tab-label"], sync_group="machine", sync_id=machine)
    title["support_smartquotes"] = False  # a name stays as it was recorded
    inside = create_component("tab-content", ["sd-tab-content"], children=content)
    return create_component("tab-item", ["sd-tab-item"], children=[title, inside], selected=False)


def setup(app: Sphinx) -> None:
    """Show the outputs."""
    app.setup_extension("sphinx_design")
    app.add_transform(ShowOutputs)
