"""The page of all machines: what each one is, what was recorded on it, how old that is, and whether it still holds."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from _ext.folds import folded
from _ext.records import records_of
from firstlight.display import MISSING, Table
from firstlight.records.record import Judged, State

# The title is the name of the device.
SHOWN = {
    "device_kind": "kind", "device_capability": "capability", "device_multiprocessors": "multiprocessors",
    "cpu_name": "CPU", "cpu_model": "CPU model", "cpu_cores": "CPU cores",
    "cpu_threads_per_core": "threads a core", "driver": "driver", "browser": "browser", "clock": "clock",
    "lib_torch": "PyTorch", "lib_numba": "Numba", "lib_numba_cuda": "numba-cuda", "lib_numpy": "NumPy",
}  # fmt: skip

MEANINGS: dict[State, str] = {
    "fresh": "nothing has changed since",
    "drifted": "the code that was timed is the same, but something around it isn't",
    "partial": "some of its timings are missing",
    "stale": "the code that was timed has changed",
    "orphan": "the page is gone, or has kernels of another compiler",
}


class Machines(SphinxDirective):
    """``.. machines::`` lists every machine that has a record."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each machine, with an anchor that the tables link to."""
        machines: dict[str, list[Judged]] = {}
        for judged in records_of(self.env):
            machines.setdefault(judged.record.machine, []).append(judged)
        if not machines:
            return [nodes.paragraph(text="No machine is recorded yet.")]
        return [self.section(machine, records) for machine, records in sorted(machines.items())]

    def section(self, machine: str, records: list[Judged]) -> nodes.section:
        """Return the card of a machine, and its records."""
        newest = max((judged.record for judged in records), key=lambda record: str(record.facts["date"]))
        section = nodes.section("", nodes.title(text=str(newest.facts["device_name"])), ids=[machine])
        card = nodes.field_list()
        for key, label in SHOWN.items():
            if key in newest.facts:
                value = nodes.paragraph(text=str(newest.facts[key]))
                card += nodes.field("", nodes.field_name(text=label), nodes.field_body("", value))
        rows = sorted(
            (it.record.example, str(it.record.facts["date"])[:10], it.state, "; ".join(it.why) or MISSING)
            for it in records
        )
        caption = f"What was recorded on {newest.facts['device_name']}"
        table = Table(caption, ("page", "recorded", "state", "why"), tuple(rows)).drop_columns().html()
        table = re.sub(r'(?<=<th scope="row">)(browser/)?([^<]+)', link, table)
        section += [card, *folded([nodes.raw("", table, format="html")], summary([judged.state for judged in records]))]
        return section


def summary(states: list[State]) -> str:
    """Return how many records there are, and how many of them are in which state, in words.

    Examples
    --------
    >>> summary(["stale", "fresh", "fresh"])
    '3 pages on record: 2 fresh (nothing has changed since), 1 stale (the code that was timed has changed)'
    """
    counted = [f"{states.count(state)} {state} ({means})" for state, means in MEANINGS.items() if state in states]
    return f"{len(states)} page{'s' * (len(states) > 1)} on record: {', '.join(counted)}"


def link(page: re.Match[str]) -> str:
    """Return the name of a page as a link; a browser's records are of one page."""
    return f'<a href="{page[2] if page[1] else f"tutorials/{page[2]}"}.html">{page[0]}</a>'
