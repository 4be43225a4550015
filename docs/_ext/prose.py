"""Numbers in prose: the roles ``timing``, read from records, and ``spec``, from the makers' papers.

A paragraph, or a line of a list, whose number no record has is left out, and the page says so under its head.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from _ext.records import project_root, read_again, records_of, relative_root
from firstlight.display import quantity
from firstlight.records.record import LEFT_OUT, Record, benches
from firstlight.timing.specs import spec_of

if TYPE_CHECKING:
    from sphinx.environment import BuildEnvironment

    from _ext.records import Judged
    from firstlight.timing.result import Timing

logger = logging.getLogger(__name__)

ROW, AT = r'"[^"]+"|[^\s"/@]+', "@([a-z0-9-]+)"
PAIR = rf"(speedup|share) ({ROW})(?: {AT})? ?/ ?({ROW})"
WHAT = rf"(median|rate) ({ROW})|{PAIR}|(sum) ((?:{ROW})(?: \+ (?:{ROW}))+)"
REQUEST = re.compile(rf"([a-z0-9-]+) (?:{WHAT}) {AT}")
FORMS = (
    """expected: BENCH median|rate "ROW" @MACHINE, or speedup|share "ROW"/"ROW", or sum "ROW" + "ROW" in its place"""
)
MISSING = "not recorded yet"
LEFT = "No GPU is on record for this page yet: what it says of GPUs is from data sheets or models, labelled as such."


@dataclass(frozen=True)
class Number:
    """A number as prose shows it."""

    text: str
    title: str = ""
    machine: str = ""  # the slug of the machine that it was measured on, if it was
    state: str = "fresh"

    def plain(self) -> str:
        """Return the number where nothing can be struck through and there are no tooltips: its machine in words."""
        return f"{self.text} ({self.title})" if self.machine else self.text

    def node(self, root: str) -> nodes.Element:
        """Return the number as part of a page: a link to its machine, or with its source; an old one struck through."""
        classes = ["fl-missing" if self.text == MISSING else "fl-number", *["fl-stale"] * (self.state == "stale")]
        shown = nodes.inline("", self.text, classes=classes)
        if not self.machine:
            return nodes.abbreviation("", "", shown, explanation=self.title) if self.title else shown
        address = f"{root}machines.html#{self.machine}"
        return nodes.reference("", "", shown, refuri=address, internal=True, reftitle=self.title)


# -- From a request to a number ------------------------------------------------------------------------------------


def timing(request: str, of: dict[str, str], find: Callable[[str, str], list[Judged]]) -> Number:
    """Return the number that is asked for.

    Parameters
    ----------
    request
        An experiment, what of it, and where: ``vector-add median "NumPy, new result" @cpu``. ``rate`` is bytes or
        operations a second. ``speedup "GPU"/"NumPy"`` says how many times faster the first row is than the second, and
        ``share "kernel"/"library"`` what part of the second one's speed the first row reaches.
        ``speedup "GPU" @nvidia-h100/"NumPy" @cpu`` compares rows of two machines.
        ``sum "read" + "clean"`` is the time of several rows together.
        ``@gpu`` and ``@cpu`` mean the newest record of such a machine, a fresh one if there is one.
    of
        The example of each experiment.
    find
        Gives the records of an example, with their states for an experiment, the newest first.
    """
    found = REQUEST.fullmatch(" ".join(request.split()))
    if not found:
        raise ValueError(f"{request!r} asks for no number; {FORMS}")
    bench, what, machine = found[1], found[2] or found[4] or found[8], found[10]
    if bench not in of:
        raise ValueError(f"there is no experiment {bench!r}; there are: {', '.join(sorted(of)) or 'none'}")
    asked = found[9].split(" + ") if found[9] else (found[3] or found[5], found[7])
    labels = [row.strip('"') for row in asked if row]
    places = [(found[6], labels[:1]), (machine, labels[1:])] if found[6] else [(machine, labels)]
    rows: list[Timing] = []
    entries: list[Judged] = []
    for place, some in places:
        if not (part := rows_on(place, bench, some, find(of[bench], bench))):
            return Number(MISSING)
        entries.append(part[0])
        rows += part[1]
    says = [[f"{record.facts['device_name']}, {str(record.facts['date'])[:10]}", *why] for record, _, why in entries]
    state = "stale" if any(state == "stale" for _, state, _ in entries) else entries[0][1]
    return Number(value(what, rows), "; ".join(chain(*says)), entries[0][0].machine, state)


def rows_on(machine: str, bench: str, labels: list[str], judged: list[Judged]) -> tuple[Judged, list[Timing]] | None:
    """Return the newest record of a machine that has all these rows, a fresh one if there is one, and the rows."""
    candidates = [entry for entry in judged if is_meant(entry[0], machine)]
    candidates.sort(key=lambda entry: entry[1] == "stale")
    for entry in candidates:
        rows = [row for label in labels if (row := row_of(entry[0], bench, label))]
        if len(rows) == len(labels):
            return entry, rows
    refuse_unknown(bench, labels, [record for record, state, _ in candidates if state != "stale"])
    return None


def is_meant(record: Record, machine: str) -> bool:
    """Return whether ``@gpu``, ``@cpu`` or the slug of a machine means the machine of a record."""
    if machine in ("gpu", "cpu"):
        return machine == ("cpu" if record.facts["device_kind"] == "cpu" else "gpu")
    return record.machine == machine


def row_of(record: Record, bench: str, label: str) -> Timing | None:
    """Return the row with this label, or with this name in full; raise a ValueError if several share the label."""
    rows = {name: row for name, row in record.timings.items() if name.startswith(f"{bench}/")}
    found = {name: row for name, row in rows.items() if label in (row.label, name.removeprefix(f"{bench}/"))}
    if len(found) > 1:
        names = ", ".join(repr(name.removeprefix(f"{bench}/")) for name in found)
        raise ValueError(f"several rows of {bench!r} are called {label!r}; name one in full: {names}")
    return next(iter(found.values()), None)


def refuse_unknown(bench: str, labels: list[str], records: list[Record]) -> None:
    """Raise a ValueError if today's code has no row with one of these labels; one that was left out may come."""
    known = {
        name.removeprefix(f"{bench}/")
        for record in records
        for name in (*record.timings, *str(record.facts.get("left_out", "")).split(LEFT_OUT))
        if name.startswith(f"{bench}/")
    }
    for label in labels:
        if records and not any(name == label or name.startswith(f"{label}/") for name in known):
            rows = ", ".join(repr(name) for name in sorted(known)) or "none"
            raise ValueError(f"{bench!r} has no row {label!r} on {records[0].machine}; there are: {rows}")


def value(what: str, rows: list[Timing]) -> str:
    """Return the median or the rate of a row, the sum of some, or how fast the first is, measured by the second."""
    row = rows[0]
    if what == "sum":
        return quantity(sum(one.median for one in rows), "s")
    if what == "median":
        return quantity(row.median, "s")
    if what == "rate":
        if not (row.byte_rate or row.flop_rate):
            raise ValueError(f"the row {row.label!r} has no rate: it was timed without bytes and flops")
        return quantity(row.byte_rate, "B/s") if row.byte_rate else quantity(row.flop_rate, "FLOP/s")
    if row.n != rows[1].n:
        raise ValueError(f"{row.label!r} and {rows[1].label!r} are of two sizes, n = {row.n} and {rows[1].n}")
    times = rows[1].median / row.median
    return f"{float(f'{100 * times:.2g}'):,g} %" if what == "share" else f"{float(f'{times:.3g}'):,g} ×"


def spec_number(request: str) -> Number:
    """Return what a maker says of a card: ``GTX 1080 bandwidth``, ``H200 fp32``, ``L4 memory``."""
    name, _, what = " ".join(request.split()).rpartition(" ")
    of = spec_of(name)
    return Number(of.text(what), of.source)


def benches_in(folder: Path) -> dict[str, str]:
    """Return the example of each experiment, from the scripts under examples/."""
    return {
        name: f"{script.parent.name}/{script.stem}"
        for script in sorted((folder / "examples").glob("*/*.py"))
        for name in benches(script.read_text(encoding="utf-8"))
    }


# -- On a page -----------------------------------------------------------------------------------------------------


class NumberRole(SphinxRole):
    """A role that shows a number; what it cannot show is a warning and stays as it was written."""

    def __init__(self, number_for: Callable[[str, BuildEnvironment], Number]) -> None:
        super().__init__()
        self.number_for = number_for

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Look the number up."""
        try:
            return [self.number_for(self.text, self.env).node(relative_root(self.env))], []
        except ValueError as error:
            logger.warning("%s", error, location=self.get_location(), type="firstlight", subtype="prose")
            read_again(self.env)
            return [nodes.literal("", self.rawtext)], []


def timing_on_page(request: str, env: BuildEnvironment) -> Number:
    """Return the number that a page asks for."""
    return timing(request, benches_in(project_root(env)), partial(records_of, env))


MACHINE = re.compile(r"machines\.html#(?!cpu-)")  # a GPU's section there


class LeaveOut(SphinxTransform):
    """Take out what stands on a number that no record has."""

    default_priority: ClassVar[int] = 400

    def apply(self) -> None:
        """Take each such paragraph, with its place in a list, and say so once; not where others' GPUs are shown."""
        missing = [node for node in self.document.findall(nodes.inline) if "fl-missing" in node["classes"]]
        for node in missing:
            part: nodes.Element = node
            while not isinstance(part, (nodes.paragraph, nodes.document)):
                part = part.parent
            while len(part.parent.children) == 1 and isinstance(part.parent, (nodes.list_item, nodes.bullet_list)):
                part = part.parent
            if part in part.parent:
                part.parent.remove(part)
        boxed = any("fl-published" in node["classes"] for node in self.document.findall(nodes.container))
        links = (node["refuri"] for node in self.document.findall(nodes.reference) if "refuri" in node)
        quoted = any(MACHINE.search(address) for address in links)  # what a GPU measured on another page
        told = boxed or quoted or not (missing or self.without_gpu())
        if not told and (section := next(self.document.findall(nodes.section), None)):
            facts = (node for node in section.findall(nodes.paragraph) if "fl-facts" in node["classes"])
            below = next(facts, section[0])
            section.insert(section.index(below) + 1, nodes.paragraph(text=LEFT, classes=["fl-banner"]))

    def without_gpu(self) -> bool:
        """Return whether this is a tutorial that measures a GPU where there is one, and no record has."""
        example = self.env.docname.removeprefix("tutorials/")
        script = project_root(self.env) / "examples" / f"{example}.py"
        code = script.read_text(encoding="utf-8") if script.is_file() else ""
        if "best_device" not in code or "Bench(" not in code:
            return False
        return all(record.facts["device_kind"] == "cpu" for record, _, _ in records_of(self.env, example))
