"""What others measured on GPUs of theirs, docs/published.toml, beside what our models say of the same work.

A build computes each prediction anew, from the makers' data sheets. Nothing here reads or writes a record, and no
record reads this: their numbers and ours never mix.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from _ext.records import relative_root, warn
from firstlight.display import quantity
from firstlight.timing import specs

FILE = Path(__file__).parents[1] / "published.toml"
TITLE = "On real GPUs, measured by others"
HEAD = ("card", "what", "our model says", "they measured", "theirs / ours")
GAINS = ("card", "what", "their CPU", "their GPU", "gain")  # of a box whose rows all have `cpu`
NOWHERE = "/claims"  # our page on sources that have no address
REQUIRED = 8  # fields of a row, the first ones
AT_MOST = 4  # rows in a box
FAR = 1.5  # a row further off says why
FUNCTIONS: dict[str, Callable[..., float]] = {"max": max, "min": min, "sqrt": math.sqrt, "log2": math.log2}
WORD = re.compile(r"\d[\d.]*(?:e[+-]?\d+)?|[A-Za-z_]\w*|\S")  # of a model


@dataclass(frozen=True)
class Row:
    """What somebody measured, and how we predict it.

    ``model`` is arithmetic with the numbers of ``spec`` (a name in specs.toml), the overheads there, and ``given``: the
    sizes of the work, and what the maker says of a card that specs.toml does not have.
    """

    card: str
    quantity: str
    value: float
    configuration: str
    by: str
    year: int | str
    source: str
    model: str
    unit: str = ""
    spec: str = ""
    given: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    cpu: float = 0.0  # what the CPU beside it took, in the same unit

    def predicted(self) -> float:
        """Return what the model says today."""
        return evaluate(self.model, numbers(self.spec) | self.given)

    def ratio(self) -> float:
        """Return how many times the prediction they measured."""
        return self.value / self.predicted()

    def text(self, value: float) -> str:
        """Return a value in the unit of this row, with three digits."""
        if self.unit in {"s", "B", "B/s", "FLOP/s"}:
            return quantity(value, self.unit)
        return f"{float(f'{value:.3g}'):,g} {self.unit}".strip()

    def cells(self, head: tuple[str, ...] = HEAD) -> tuple[str, ...]:
        """Return what a box with this head shows of it."""
        beside, times = (self.cpu, self.cpu / self.value) if head == GAINS else (self.predicted(), self.ratio())
        last = f"{float(f'{times:.3g}'):g}" + " ×" * (head == GAINS)
        return self.card, self.quantity, self.text(beside), self.text(self.value), last

    def said(self, head: tuple[str, ...]) -> str:
        """Return how it was measured, and why it is far off what our model says."""
        ours = f"Our model says {self.text(self.predicted())}." if head == GAINS else ""
        return " ".join(filter(None, (f"{self.configuration}.", ours, self.reason)))


def numbers(name: str) -> dict[str, float]:
    """Return the numbers that a model may use by name: those of one specification, its slot's, and the overheads."""
    found = {key.replace(" ", "_").lower(): of.seconds for key, of in specs.SPECS.items() if of.seconds}
    found["pageable_copy"] = specs.spec("pageable copy", "bandwidth")
    if name:
        of = specs.spec_of(name)
        found |= {key: number for key in specs.UNITS if (number := getattr(of, key))}
        if of.slot:
            found["slot"] = specs.spec(of.slot, "bandwidth")
    return found


def evaluate(model: str, names: dict[str, float]) -> float:
    """Return the value of an expression of numbers, names, arithmetic and FUNCTIONS; anything else is a ValueError."""
    known = names | FUNCTIONS
    for word in WORD.findall(model):
        if not (word[0].isdigit() or word in known or word in "+-*/(),"):
            parts = f"numbers and: {', '.join(sorted(known))}"
            raise ValueError(f"the model {model!r} has {word!r}: write arithmetic with {parts}")
    return float(eval(model, {"__builtins__": {}}, known))


def read(text: str) -> dict[str, Row]:
    """Read the rows by their names; a ValueError says which one lacks what, or is far off without a reason."""
    rows = {}
    for name, entry in tomllib.loads(text).items():
        try:
            if lacking := [each.name for each in fields(Row)[:REQUIRED] if entry.get(each.name) in (None, "")]:
                raise ValueError(f"it lacks {', '.join(lacking)}")
            rows[name] = row = Row(**entry)
            if not row.source.startswith(("https://", NOWHERE)):
                raise ValueError(f"its source is {row.source!r}: give the address where they published it")
            if not 1 / FAR <= row.ratio() <= FAR and not row.reason:
                raise ValueError(f"it is {row.ratio():.3g} times the prediction: give the reason")
        except (TypeError, ValueError, SyntaxError) as error:
            raise ValueError(f"published.toml, {name!r}: {error}") from error
    return rows


def rows_of(names: str) -> list[Row]:
    """Return the rows of a box by their names; a ValueError says what is wrong with it."""
    rows, asked = read(FILE.read_text(encoding="utf-8")), names.split()
    if unknown := [name for name in asked if name not in rows]:
        raise ValueError(f"published.toml has no {', '.join(unknown)}; it has: {', '.join(rows)}")
    if not 1 <= len(asked) <= AT_MOST:
        raise ValueError(f"a box has 1 to {AT_MOST} rows, not {len(asked)}")
    return [rows[name] for name in asked]


def head_of(rows: list[Row]) -> tuple[str, ...]:
    """Return the head of a box: the gains over a CPU, if all rows have one beside them."""
    return GAINS if all(row.cpu for row in rows) else HEAD


class MeasuredByOthers(SphinxDirective):
    """``.. measured-by-others:: NAME NAME`` shows what others measured, and what our models say of it."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the box; what is wrong with it is a warning, which fails a build."""
        for file in (FILE, Path(specs.__file__).with_name("specs.toml")):
            self.env.note_dependency(str(file))
        try:
            rows = rows_of(self.arguments[0])
        except ValueError as error:
            warn(self.env, error, self.get_location())
            return []
        box, notes = table(rows, relative_root(self.env)), [note(row, head_of(rows)) for row in rows]
        return [nodes.container("", box, *notes, classes=["fl-published"])]


def table(rows: list[Row], root: str) -> nodes.table:
    """Return the table of a box."""
    head = head_of(rows)
    group = nodes.tgroup("", *[nodes.colspec(colwidth=1) for _ in head], cols=len(head))
    group += nodes.thead("", line([nodes.Text(cell) for cell in head]))
    group += nodes.tbody("", *[line([who(row, root), *map(nodes.Text, row.cells(head)[1:])]) for row in rows])
    return nodes.table("", nodes.title(text=TITLE), group)


def line(cells: list[nodes.Node]) -> nodes.row:
    """Return a row of the table."""
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells])


def who(row: Row, root: str) -> nodes.inline:
    """Return the card, and who measured it and when, with a link to where they say so."""
    address = f"{root}claims.html" if row.source == NOWHERE else row.source
    link = nodes.reference("", f"{row.by}, {row.year}", refuri=address, internal=row.source == NOWHERE)
    return nodes.inline("", "", nodes.strong(text=row.card), nodes.Text(", "), link)


def note(row: Row, head: tuple[str, ...]) -> nodes.paragraph:
    """Return how a row was measured, and why it is far off."""
    text = f", {row.quantity}: {row.said(head)}"
    return nodes.paragraph("", "", nodes.strong(text=row.card), nodes.Text(text))


def in_markdown(names: str) -> str:
    """Return a box as Markdown, for a notebook."""
    rows = rows_of(names)
    head = head_of(rows)
    lines = [f"**{TITLE}**", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(row.cells(head)) + " |" for row in rows]
    for row in rows:
        who = f"{row.by}, {row.year}"
        who = who if row.source == NOWHERE else f"[{who}]({row.source})"
        lines += ["", f"- **{row.card}** by {who}: {row.said(head)}"]
    return "\n".join([*lines, ""])
