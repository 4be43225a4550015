"""Where the time of each run goes: bars of a record's rows, one after the other, as long as what they took."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from _ext.figures import in_page
from _ext.prose import row_of
from _ext.records import records_of
from firstlight.display import GREY, quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from firstlight.records.record import Record

MOVED = ("#1b4f8f", "#2f7ed8", "#7fb2ea", "#c3dcf6")  # blues, and what stays in the colours of sand
STAYS = ("#8a4a12", "#d9762b", "#efb98c")
REST = "the rest of the run"


@dataclass(frozen=True)
class Stack:
    """A run: the seconds of each of its parts, timed alone, of what it took beyond them, and of all in one run."""

    name: str
    parts: dict[str, float]
    whole: float


class Stacks(SphinxDirective):
    """``.. stacks:: port-numpy``, then a run a paragraph: its name, its rows, the row of the whole, with ``|`` between.

    The rows are of one record, ``:machine:``. A part is called as its row, up to the comma; those of ``:stays:`` are
    drawn in other colours. The last run is drawn once more, on an axis of its own.
    """

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = dict.fromkeys(("machine", "stays", "title"), directives.unchanged_required)

    def run(self) -> list[nodes.Node]:
        """Draw the runs of a fresh record; nothing if there is none."""
        bench, machine = self.arguments[0], self.options["machine"]
        found = records_of(self.env, self.env.docname.removeprefix("tutorials/"), bench)
        record = next((one.record for one in found if one.record.machine == machine and one.state != "stale"), None)
        if not record:
            return []
        runs = [self.stack(text, record, bench) for text in "\n".join(self.content).split("\n\n")]
        html = in_page(partial(draw, runs, self.options["stays"].split("; "), self.options["title"]))
        return [nodes.raw("", html, format="html")]

    def stack(self, text: str, record: Record, bench: str) -> Stack:
        """Return the run that a paragraph describes."""

        def seconds(label: str) -> float:
            if row := row_of(record, bench, label):
                return row.median
            raise self.error(f"{bench!r} has no row {label!r} on {record.machine}")

        name, labels, all_of_it = (part.strip() for part in " ".join(text.split()).split("|"))
        parts, whole = {label.partition(",")[0]: seconds(label) for label in labels.split("; ")}, seconds(all_of_it)
        return Stack(name, parts | {REST: max(0.0, whole - sum(parts.values()))}, whole)


def draw(runs: list[Stack], stays: list[str], title: str) -> Figure:
    """Draw the runs under each other, and the last once more, stretched."""
    import matplotlib.pyplot as plt

    moved = dict.fromkeys(part for one in runs for part in one.parts if part not in (*stays, REST))
    colours = dict(zip(moved, MOVED, strict=False)) | dict(zip(stays, STAYS, strict=False))
    last, at = replace(runs[-1], name=f"{runs[-1].name},\nstretched"), 0.0
    fig, (top, below) = plt.subplots(2, 1, figsize=(7.2, 4.4), layout="constrained", height_ratios=(len(runs), 1.2))
    draw_bars(top, runs, colours)
    draw_bars(below, [last], colours)
    for part, took in last.parts.items():
        if took > 0.06 * last.whole:
            below.text(1e3 * (at + took / 2), -0.42, part, ha="center", va="bottom", fontsize=9)
        at += took
    below.set(ylim=(0.5, -0.9), xlabel="time (ms)")
    fig.legend(*top.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    fig.suptitle(title, weight="bold", fontsize=12)
    said = (f"{one.name}: " + ", ".join(f"{p} {quantity(t, 's')}" for p, t in one.parts.items()) for one in runs)
    fig.set_label(f"{title}. Stacked bars of the time of each run. {'; '.join(said)}.")
    return fig


def draw_bars(ax: Axes, runs: list[Stack], colours: dict[str, str]) -> None:
    """Draw a bar a run, in milliseconds, with its whole beside it; hatched is what the run took beyond its parts."""
    hatched: Any = {"facecolor": "none", "edgecolor": GREY, "hatch": "///", "linewidth": 0}
    for place, one in enumerate(runs):
        at = 0.0
        for part in [*colours, REST]:
            took = one.parts.get(part, 0.0)
            look = {"color": colours[part]} if part in colours else hatched
            ax.barh(place, 1e3 * took, 0.7, left=1e3 * at, label="" if place else part, **look)
            at += took
        said = quantity(one.whole, "s")
        ax.annotate(said, (1e3 * at, place), (5, 0), textcoords="offset points", va="center", fontsize=9)
    ax.set_yticks(range(len(runs)), [one.name for one in runs])
    ax.set(xlim=(0, 1.12e3 * max(one.whole for one in runs)), ylim=(len(runs) - 0.5, -0.5))
    ax.spines[["top", "right"]].set_visible(False)
