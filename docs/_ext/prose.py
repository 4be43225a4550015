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
from sphinx.util.docutils import SphinxRole

from _ext.records import project_root, records_of, relative_root, warn
from firstlight.display import quantity
from firstlight.records.record import Judged, Record, State, bench_names
from firstlight.timing.specs import spec_of

if TYPE_CHECKING:
    from sphinx.environment import BuildEnvironment

    from firstlight.timing.result import Timing

ROW, SLUG = r'"[^"]+"|[^\s"/@]+', "[a-z0-9-]+"
REQUEST = re.compile(rf"(?P<bench>{SLUG}) (?P<what>[a-z]+) (?P<rows>.+) @(?P<machine>{SLUG})")
RATIO = re.compile(rf"(?P<row>{ROW})(?: @(?P<machine>{SLUG}))? ?/ ?(?P<base>{ROW})")
SUM = re.compile(rf"(?:{ROW})(?: \+ (?:{ROW}))+")
FORMS = (
    """expected: BENCH median|rate "ROW" @MACHINE, or speedup|share "ROW"/"ROW", or sum "ROW" + "ROW" in its place"""
)
NOT_RECORDED = "not recorded yet"
NO_GPU = "No GPU is on record for this page yet: what it says of GPUs is from data sheets or models, labelled as such."


@dataclass(frozen=True)
class Number:
    """A number as prose shows it."""

    text: str
    title: str = ""
    machine: str = ""  # the slug of the machine that it was measured on, if it was
    state: State = "fresh"

    def plain(self) -> str:
        """Return the number where nothing can be struck through and there are no tooltips: its machine in words."""
        return f"{self.text} ({self.title})" if self.machine else self.text

    def node(self, root: str) -> nodes.Element:
        """Return the number as part of a page: a link to its machine, or with its source; an old one struck through."""
        classes = ["fl-missing" if self.text == NOT_RECORDED else "fl-number", *["fl-stale"] * (self.state == "stale")]
        shown = nodes.inline("", self.text, classes=classes)
        if not self.machine:
            return nodes.abbreviation("", "", shown, explanation=self.title) if self.title else shown
        address = f"{root}machines.html#{self.machine}"
        return nodes.reference("", "", shown, refuri=address, internal=True, reftitle=self.title)


# -- From a request to a number ------------------------------------------------------------------------------------


def timing_number(request: str, examples: dict[str, str], records: Callable[[str, str], list[Judged]]) -> Number:
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
    examples
        The example of each experiment.
    records
        Gives the records of an example, with their states for an experiment, the newest first.
    """
    found = REQUEST.fullmatch(" ".join(request.split()))
    if not found or not (asked := places(found["what"], found["rows"], found["machine"])):
        raise ValueError(f"{request!r} asks for no number; {FORMS}")
    bench = found["bench"]
    if bench not in examples:
        raise ValueError(f"there is no experiment {bench!r}; there are: {', '.join(sorted(examples)) or 'none'}")
    rows: list[Timing] = []
    sources: list[Judged] = []
    for machine, labels in asked:
        if not (part := rows_on(machine, bench, labels, records(examples[bench], bench))):
            return Number(NOT_RECORDED)
        sources.append(part[0])
        rows += part[1]
    says = [[f"{one.record.facts['device_name']}, {str(one.record.facts['date'])[:10]}", *one.why] for one in sources]
    state: State = "stale" if any(one.state == "stale" for one in sources) else sources[0].state
    return Number(value(found["what"], rows), "; ".join(chain(*says)), sources[0].record.machine, state)


def places(what: str, rows: str, machine: str) -> list[tuple[str, list[str]]]:
    """Return the machines that a request names, each with the labels of its rows; none if it can't be read."""
    match what:
        case "median" | "rate" if re.fullmatch(ROW, rows):
            return [(machine, [rows.strip('"')])]
        case "sum" if SUM.fullmatch(rows):
            return [(machine, [row.strip('"') for row in re.findall(rf"({ROW})(?: \+ |$)", rows)])]
        case "speedup" | "share" if ratio := RATIO.fullmatch(rows):
            row, base = ratio["row"].strip('"'), ratio["base"].strip('"')
            return [(ratio["machine"], [row]), (machine, [base])] if ratio["machine"] else [(machine, [row, base])]
    return []


def rows_on(machine: str, bench: str, labels: list[str], judged: list[Judged]) -> tuple[Judged, list[Timing]] | None:
    """Return the newest record of a machine that has all these rows, a fresh one if there is one, and the rows."""
    candidates = [one for one in judged if is_meant(one.record, machine)]
    candidates.sort(key=lambda one: one.state == "stale")
    for one in candidates:
        rows = [row for label in labels if (row := row_of(one.record, bench, label))]
        if len(rows) == len(labels):
            return one, rows
    refuse_unknown(bench, labels, [one.record for one in candidates if one.state != "stale"])
    return None


def is_meant(record: Record, machine: str) -> bool:
    """Return whether ``@gpu``, ``@cpu`` or the slug of a machine means the machine of a record."""
    if machine in ("gpu", "cpu"):
        return machine == ("cpu" if record.facts["device_kind"] == "cpu" else "gpu")
    return record.machine == machine


def row_of(record: Record, bench: str, label: str) -> Timing | None:
    """Return the row with this label, or with this name in full; raise a ValueError if several share the label."""
    found = {name: row for name, row in record.rows_of(bench).items() if label in (name.label, name.in_bench)}
    if len(found) > 1:
        names = ", ".join(repr(name.in_bench) for name in found)
        raise ValueError(f"several rows of {bench!r} are called {label!r}; name one in full: {names}")
    return next(iter(found.values()), None)


def refuse_unknown(bench: str, labels: list[str], records: list[Record]) -> None:
    """Raise a ValueError if today's code has no row with one of these labels; one that was left out may come."""
    known = {name for record in records for name in record.names if name.bench == bench}
    for label in labels:
        if records and not any(label in (name.label, name.in_bench) for name in known):
            rows = ", ".join(sorted(repr(name.in_bench) for name in known)) or "none"
            raise ValueError(f"{bench!r} has no row {label!r} on {records[0].machine}; there are: {rows}")


def value(what: str, rows: list[Timing]) -> str:
    """Return the median or the rate of a row, the sum of some, or how fast the first is, measured by the second."""
    row = rows[0]
    if what in ("median", "sum"):
        return quantity(sum(one.median for one in rows), "s")
    if what == "rate":
        if not row.rate_text:
            raise ValueError(f"the row {row.label!r} has no rate: it was timed without bytes and flops")
        return row.rate_text
    if row.n != rows[1].n:
        raise ValueError(f"{row.label!r} and {rows[1].label!r} are of two sizes, n = {row.n} and {rows[1].n}")
    times = rows[1].median / row.median
    return f"{float(f'{100 * times:.2g}'):,g} %" if what == "share" else f"{float(f'{times:.3g}'):,g} ×"


def spec_number(request: str) -> Number:
    """Return what a maker says of a card: ``GTX 1080 bandwidth``, ``H200 fp32``, ``L4 memory``."""
    name, _, what = " ".join(request.split()).rpartition(" ")
    of = spec_of(name)
    return Number(of.text(what), of.source)


def example_by_bench(folder: Path) -> dict[str, str]:
    """Return the example of each experiment, from the scripts under examples/."""
    return {
        name: f"{script.parent.name}/{script.stem}"
        for script in sorted((folder / "examples").glob("*/*.py"))
        for name in bench_names(script.read_text(encoding="utf-8"))
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
            warn(self.env, error, self.get_location())
            return [nodes.literal("", self.rawtext)], []


def timing_on_page(request: str, env: BuildEnvironment) -> Number:
    """Return the number that a page asks for."""
    return timing_number(request, example_by_bench(project_root(env)), partial(records_of, env))


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
            section.insert(section.index(below) + 1, nodes.paragraph(text=NO_GPU, classes=["fl-banner"]))

    def without_gpu(self) -> bool:
        """Return whether this is a tutorial that measures a GPU where there is one, and no record has."""
        example = self.env.docname.removeprefix("tutorials/")
        script = project_root(self.env) / "examples" / f"{example}.py"
        code = script.read_text(encoding="utf-8") if script.is_file() else ""
        if "best_device" not in code or "Bench(" not in code:
            return False
        return all(one.record.facts["device_kind"] == "cpu" for one in records_of(self.env, example))
