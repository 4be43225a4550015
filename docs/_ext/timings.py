"""The table and the figure of a Bench on its page: every recorded machine, and this build folded behind them.

sphinx-gallery runs an example; the scraper writes what its Bench measured beside the generated page. The directive
reads that and the records when the *page* is read, so that a changed record runs no example again.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from _ext.figures import in_page
from _ext.folds import folded
from _ext.records import project_root, records_of, relative_root
from _ext.your_gpu import ON_YOUR_GPU, your_gpu
from firstlight.display import MISSING, percent, quantity
from firstlight.records.record import Judged, State, facts_of, from_row, to_row
from firstlight.records.runner import block_keys, ends_with_bench
from firstlight.timing.bench import Bench
from firstlight.timing.result import Timing
from firstlight.timing.verdicts import NEVER_SHOWN

if TYPE_CHECKING:
    from collections.abc import Iterator


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Keep what the Bench of a block measured, and mark the place of its table or figure."""
    del gallery_conf
    from firstlight.devices import best_device, card

    name, what = ends_with_bench(block.content) or ("", "")
    bench = block_vars["example_globals"].get(name)
    if not isinstance(bench, Bench):
        return ""
    if what == "plot":
        import matplotlib.pyplot as plt

        plt.close("all")  # the page draws its own, with all machines
    script = Path(block_vars["src_file"])
    example = f"{script.parent.name}/{script.stem}"
    facts = facts_of(example, script.read_text(encoding="utf-8"), card(best_device()), card("cpu"))
    content = {"facts": facts, "rows": [to_row(str(name), timing) for name, timing in bench.rows.items()]}
    measured = Path(block_vars["target_file"]).with_suffix(f".{bench.id}.timings.json")
    measured.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return f".. timings:: {bench.id}\n    :{what}:\n"


@dataclass(frozen=True)
class Column:
    """What one machine has to say of one experiment."""

    title: str
    note: str
    timings: tuple[Timing, ...]
    state: State = "fresh"
    why: list[str] = field(default_factory=list)
    anchor: str = ""


def this_build(measured: Path) -> Column:
    """Return the column of the build that runs now."""
    content = json.loads(measured.read_text(encoding="utf-8"))
    return Column("This build", machine_name(content["facts"]), tuple(map(from_row, content["rows"])))


def machine_name(facts: dict[str, Any]) -> str:
    """Return a machine in a few words; a CPU says its model, as two have one name, and its cores."""
    told = ("device_name", "cpu_model", "cpu_cores") if facts["device_kind"] == "cpu" else ("device_name",)
    return ", ".join(f"{facts[key]}{' cores' * (key == 'cpu_cores')}" for key in told if key in facts)


def column(judged: Judged, bench: str) -> Column:
    """Return the column of a recorded machine; more cores than it has were counted by too coarse a clock."""
    record, rows = judged.record, judged.record.rows_of(bench).values()
    most = 1.1 * record.facts.get("cpu_cores", inf)
    timings = tuple(replace(row, cores=None) if (row.cores or 0) > most else row for row in rows)
    date = str(record.facts["date"])[:10]
    return Column(machine_name(record.facts), date, timings, judged.state, judged.why, record.machine)


class Timings(SphinxDirective):
    """``.. timings:: vector-add`` with ``:show:`` for the table or ``:plot:`` for the figure.

    A page's text may draw some rows of one record: ``:machine: nvidia-l4`` and ``:rows: one label; another``.
    """

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        **dict.fromkeys(("show", "plot"), directives.flag),
        **dict.fromkeys(("machine", "rows"), directives.unchanged_required),
    }

    def run(self) -> list[nodes.Node]:
        """Return what this build and the records say."""
        bench = self.arguments[0]
        example = self.env.docname.removeprefix("tutorials/")
        measured = Path(self.env.doc2path(self.env.docname)).with_suffix(f".{bench}.timings.json")
        here: list[Column] = []
        if measured.is_file():  # else its example was not run
            self.env.note_dependency(str(measured))
            here.append(this_build(measured))
        recorded = [column(judged, bench) for judged in records_of(self.env, example, bench)]
        recorded, here = ([col for col in some if col.timings] for some in (recorded, here))
        fresh = [col for col in recorded if col.state != "stale"]
        columns = recorded if fresh else here + recorded
        if "rows" in self.options:
            columns = [self.chosen(col) for col in fresh if col.anchor == self.options.get("machine")]
        if "plot" in self.options:
            return [nodes.raw("", svg(columns, bench), format="html")] if columns else []
        script = project_root(self.env) / "examples" / f"{example}.py"
        # Of the page, and of its download, which has no solution.
        code = " ".join(block_keys(script.read_text(encoding="utf-8"))[-2:]) if script.is_file() else ""
        machines = f"{relative_root(self.env)}machines.html"
        mine = your_gpu(self.env, bench) if bench in ON_YOUR_GPU else ""
        html = nodes.raw("", table_html(columns, bench, example, code, machines) + mine, format="html")
        if not (fresh and here):
            return [html]
        behind = nodes.raw("", rows_html(here, f"{bench}, this build", machines), format="html")
        return [html, *folded([behind], "What this build measured", "fl-screen")]

    def chosen(self, col: Column) -> Column:
        """Return a column with only the rows that the page asks for."""
        labels = self.options["rows"].split("; ")
        if unknown := set(labels) - {timing.label for timing in col.timings}:
            raise self.error(f"{col.title} has no row {min(unknown)!r}: name some of its rows, with '; ' between them")
        return replace(col, timings=tuple(timing for timing in col.timings if timing.label in labels))


def names_of(columns: list[Column]) -> dict[str, list[Timing | None]]:
    """Return what each column has of each measurement, by name; one of several sizes in a column says its size."""
    known = [(place, timing) for place, col in enumerate(columns) for timing in col.timings]
    sizes = Counter((place, timing.label, timing.device) for place, timing in known)
    several = {label for (_, label, _), count in sizes.items() if count > 1}
    found: dict[str, list[Timing | None]] = {}
    for place, timing in known:
        name = f"{timing.label}, n = {timing.n:,}" if timing.label in several else timing.label
        found.setdefault(name, [None] * len(columns))[place] = timing
    return found


def table_html(columns: list[Column], bench: str, example: str, code: str, machines: str) -> str:
    """Return the table, with all that timings.js needs to add a column."""
    data = f'data-bench="{bench}" data-example="{escape(example)}" data-code="{code}"'
    return f'<div class="fl-timings" {data}>\n{rows_html(columns, bench, machines)}</div>\n'


def rows_html(columns: list[Column], of: str, machines: str) -> str:
    """Return the table alone: a row a measurement, a column a machine."""
    shown = [timing for col in columns for timing in col.timings]
    says = ["median", "± half the interquartile range"]
    says += ["rate"] * any(t.rate_text for t in shown)
    says += ["(part of the machine's roof)"] * any(t.of_roof for t in shown) + ["cores"] * any(t.cores for t in shown)
    caption = "Time of one call: " + ", ".join(says).replace(", (", " (")
    heads = "".join(head_html(col, machines) for col in columns)
    body = "".join(row_html(name, timings, columns) for name, timings in names_of(columns).items())
    return (
        f'<div class="fl-table" role="region" tabindex="0" aria-label="{escape(of)}: {escape(caption)}">\n'
        f"<table><caption>{escape(caption)}</caption>\n"
        f'<thead><tr><th scope="col">measured</th>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'
    )


def row_html(name: str, timings: list[Timing | None], columns: list[Column]) -> str:
    """Return a row; its size stands once, with its name, unless machines differ in it."""
    sizes = {f"n = {timing.n:,}" for timing in timings if timing and timing.n}
    size = "".join(one for one in sizes if len(sizes) == 1 and one not in name)
    head = escape(name) + (f'<span class="fl-small">{size}</span>' if size else "")
    one = next(filter(None, timings))  # timings.js finds the row by its label, and its size where it has several
    data = f'data-label="{escape(one.label)}"' + f' data-n="{one.n}"' * (name != one.label)
    cells = "".join(cell_html(one, col, len(sizes) > 1) for one, col in zip(timings, columns, strict=True))
    return f'<tr {data}><th scope="row">{head}</th>{cells}</tr>\n'


def head_html(col: Column, machines: str) -> str:
    """Return the head of a machine's column: its name, its day, and what speaks against it."""
    title = f'<a href="{machines}#{escape(col.anchor)}">{escape(col.title)}</a>' if col.anchor else escape(col.title)
    why, shown = escape("; ".join(col.why)), "" if col.state == "fresh" else f' class="fl-state fl-{col.state}"'
    remark = f"<span{shown}>{why}</span>" if why else ""
    if col.state == "drifted" and col.anchor:  # the page of machines says what, page by page
        remark = f'<a{shown} href="{machines}#{escape(col.anchor)}" title="{why}">what has changed since</a>'
    return f'<th scope="col">{title}<span class="fl-small">{escape(col.note)}</span>{remark}</th>'


def cell_html(timing: Timing | None, col: Column, sized: bool) -> str:
    """Return a number with all that belongs to it; numbers of older code are struck through."""
    if timing is None or timing.verdict in NEVER_SHOWN:
        return f"<td>{escape(timing.verdict if timing else MISSING)}</td>"
    median = quantity(timing.median, "s")
    strong = f"<s>{median}</s>" if col.state == "stale" else f"<strong>{median}</strong>"
    verdict = f' <em class="fl-verdict">{escape(timing.verdict_text)}</em>' if timing.verdicts else ""
    return f'<td>{strong}{verdict}<span class="fl-small">{escape(", ".join(details(timing, sized)))}</span></td>'


def details(timing: Timing, sized: bool) -> Iterator[str]:
    """Yield what stands beside a number; the first call, where it took much longer."""
    yield f"± {percent(timing.relative_iqr / 2)}"
    if timing.rate_text:
        yield timing.rate_text + (f" ({percent(timing.of_roof)})" if timing.of_roof else "")
    if timing.device == "cpu" and timing.cores is not None:
        yield f"{timing.cores:.1f} cores"
    if "throttled" in timing.verdicts:
        yield str(timing.after)
    if timing.first > 2 * timing.median:
        yield f"first call {quantity(timing.first, 's')}"
    if sized and timing.n:
        yield f"n = {timing.n:,}"


def svg(columns: list[Column], bench: str) -> str:
    """Return the figure of an experiment as part of the page."""
    from firstlight.timing.figure import draw

    return in_page(
        partial(draw, {f"{col.title}, {col.note}": col.timings for col in columns if col.state != "stale"}, bench)
    )
