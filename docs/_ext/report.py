"""The build report: what each page cost to run, and what a reader loads for it; in the terminal, and on a page.

Weights are known only when everything is written, so the page is filled in then, between two marks. A build that
writes nothing leaves it alone, and says nothing.
"""

from __future__ import annotations

import json
import re
import time
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util import logging

from firstlight.devices import card
from firstlight.widgets import NONE, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

PAGE = "build_report"
MARKS = re.compile("(<!-- report -->).*(<!-- end of report -->)", re.DOTALL)
PAGE_SECONDS, ALL_SECONDS = 15, 180  # the budget without a GPU on two cores
SHORT = 5
IMAGE, ATTRIBUTE = re.compile(r"<img\b[^>]*>"), re.compile(r'\b(src|class)="([^"]*)"')

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cost:
    """What a page cost: seconds, when it ran, and the bytes of its HTML, compressed, and of its figures."""

    page: str
    seconds: float | None
    ran: float
    html: int
    figures: int

    @property
    def weight(self) -> int:
        """The bytes that a reader loads for this page alone."""
        return self.html + self.figures


def figures(page: Path, html: str) -> set[Path]:
    """The files of a page's own images: not what all pages share, nor another site's, nor one inside the page."""
    images = [dict(ATTRIBUTE.findall(tag)) for tag in IMAGE.findall(html)]  # a parser takes a second for all pages
    shown = {image.get("src", "") for image in images if "only-dark" not in image.get("class", "").split()}
    parts = map(urlsplit, map(unescape, shown))
    files = {(page.parent / unquote(part.path)).resolve() for part in parts if part.path and not part.scheme}
    return {file for file in files if file.is_file() and "_static" not in file.parts}


def run_of(env: BuildEnvironment, docname: str) -> tuple[float | None, float]:
    """How many seconds a page ran, if it ran at all, and when: a tutorial, or a page with cells of code."""
    cost = Path(env.doc2path(docname)).with_suffix(".cost.json")  # sphinx-gallery writes it
    if cost.is_file():
        seconds = json.loads(cost.read_text(encoding="utf-8"))["time"]
        return seconds or None, cost.stat().st_mtime  # zero: it was shown, not run
    executed: dict[str, Any] = getattr(env, "nb_metadata", {}).get(docname, {}).get("exec_data") or {}
    return executed.get("runtime"), executed.get("mtime", 0)


def measured(app: Sphinx, written: dict[str, Path]) -> list[Cost]:
    """What each page cost, the slowest first, then the heaviest."""
    costs = []
    for docname, file in written.items():
        html = file.read_bytes()
        seen = sum(figure.stat().st_size for figure in figures(file, html.decode()))
        costs.append(Cost(docname, *run_of(app.env, docname), len(zlib.compress(html)), seen))
    return sorted(costs, key=lambda cost: (-(cost.seconds or 0), -cost.weight, cost.page))


def table(caption: str, costs: Iterable[Cost], since: float) -> Table:
    """Costs as a table."""
    head = ("page", "seconds", "HTML", "figures", "weight", "ran")
    rows = tuple(
        (
            cost.page,
            NONE if cost.seconds is None else f"{cost.seconds:.1f}",
            *(f"{size / 1000:.0f}" for size in (cost.html, cost.figures, cost.weight)),
            NONE if cost.seconds is None else when(cost.ran, since),
        )
        for cost in costs
    )
    return Table(f"{caption} (weights in kB)", head, rows)


def when(ran: float, since: float) -> str:
    """The day of a run, or that it was in the build that began at `since`."""
    return "this build" if since <= ran <= time.time() else f"{datetime.fromtimestamp(ran, UTC):%Y-%m-%d}"


def summary(costs: list[Cost]) -> list[str]:
    """The sums, in sentences."""
    ran = [cost for cost in costs if cost.seconds is not None]
    over = [cost.page for cost in ran if (cost.seconds or 0) > PAGE_SECONDS]
    return [
        f"{len(ran)} of {len(costs)} pages run code, together {sum(cost.seconds or 0 for cost in ran):.0f} s.",
        f"The budget is {PAGE_SECONDS} s a page and {ALL_SECONDS} s together, without a GPU on two cores.",
        f"Over {PAGE_SECONDS} s: {', '.join(over) or 'none'}.",
        f"All pages with their figures weigh {sum(cost.weight for cost in costs) / 1e6:.1f} MB.",
    ]


def in_terminal(costs: list[Cost], since: float) -> str:
    """The slowest pages, the heaviest, and the sums."""
    slow = table("The slowest pages", [cost for cost in costs if cost.seconds is not None][:SHORT], since)
    heavy = table("The heaviest pages", sorted(costs, key=lambda cost: -cost.weight)[:SHORT], since)
    return "\n\n".join([slow.text(), heavy.text(), "\n".join([*summary(costs), f"All of them: {PAGE}.html"])])


def on_page(costs: list[Cost], since: float) -> str:
    """All pages, as the page of the report shows them."""
    cpu = card("cpu")
    machine = f"This site was built on: {cpu.name}, {cpu.cores} cores."
    html = table("What each page costs, the slowest first", costs, since).html()
    for cost in costs:
        name = f'<th scope="row">{cost.page}<'
        html = html.replace(name, f'<th scope="row"><a href="{cost.page}.html">{cost.page}</a><')
    return f"<p>{' '.join([machine, *summary(costs)])}</p>\n{html}"


def in_parts(marks: dict[str, float], end: float) -> str:
    """The seconds of a build's parts, each of which begins at its mark.

    Examples
    --------
    >>> in_parts({"start": 10.0, "examples": 12.5, "reading": 40.0}, 41.0)
    'Seconds: start 2.5, examples 27.5, reading 1.0; together 31.0.'
    """
    ends = [*list(marks.values())[1:], end]
    parts = (f"{name} {stop - start:.1f}" for (name, start), stop in zip(marks.items(), ends, strict=True))
    return f"Seconds: {', '.join(parts)}; together {end - next(iter(marks.values())):.1f}."


def report(app: Sphinx, error: Exception | None, since: float) -> None:
    """Fill in the page and print the short form, if anything was written since the last time."""
    builder = app.builder
    if error or not isinstance(builder, StandaloneHTMLBuilder) or PAGE not in app.env.found_docs:
        return
    place = Path(builder.get_outfilename(PAGE))
    written = {name: Path(builder.get_outfilename(name)) for name in sorted(app.env.found_docs - {PAGE})}
    runs = (Path(app.env.doc2path(name)).with_suffix(".cost.json") for name in written)
    newest = max((file.stat().st_mtime for file in (*written.values(), *runs) if file.is_file()), default=0)
    html = place.read_text(encoding="utf-8")
    if place.stat().st_mtime > newest and "<!-- report --><!-- end" not in html:
        return
    costs = measured(app, written)
    place.write_text(MARKS.sub(lambda mark: mark[1] + on_page(costs, since) + mark[2], html), encoding="utf-8")
    logger.info("\n%s\n", in_terminal(costs, since))


def setup(app: Sphinx) -> None:
    """Report at the very end, when others have done what they do to written pages; note when each part begins."""
    since = time.time()
    marks = {"start": since}

    def finish(app: Sphinx, error: Exception | None) -> None:
        report(app, error, since)
        logger.info(in_parts(marks, time.time()))

    begins = {"builder-inited": "examples", "env-before-read-docs": "reading", "write-started": "writing"}
    for event, part in begins.items():
        app.connect(event, lambda *_, part=part: marks.setdefault(part, time.time()), priority=1)
    app.connect("build-finished", lambda *_: marks.setdefault("finishing", time.time()), priority=1)
    app.connect("build-finished", finish, priority=950)
