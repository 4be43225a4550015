"""The whole idea in one figure, for the home page: from which size on a GPU wins, and what no machine can do.

It is drawn from the records: from one of a GPU where there is one. Until then the GPU is a model, drawn dashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from _ext.timings import in_ink, machine_name
from _ext.watch import records_of, to_root
from firstlight.measure.specs import SPECS, spec
from firstlight.measure.tables import quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from sphinx.application import Sphinx

    from _ext.watch import Judged
    from firstlight.measure.records import Record

EXAMPLE, BENCH = "2_devices/07_when_the_gpu_wins", "wins-matrix-matrix"
CPU, STAY, TRAVEL = "CPU", "GPU", "GPU, there and back"  # its labels
NAMES = {CPU: "CPU, measured", TRAVEL: "GPU, data travel each time", STAY: "GPU, data stay there"}
IF = {STAY: "if the data stay there", TRAVEL: "if they travel each time"}
COLOURS = {CPU: "#2f7ed8", STAY: "#2f9e77", TRAVEL: "#d9762b"}
CARD, SLOT = "RTX 4090", "PCIe 4 x16"
CALL = 5e-6  # seconds a call: assumed, as on the page of the example
FURTHER = 4  # the model goes on to this many times the largest size that was measured

Curve = dict[int, float]  # seconds by size


@dataclass
class Comparison:
    """A CPU and a GPU at one problem, in all sizes."""

    record: Record
    curves: dict[str, Curve]
    modelled: bool

    @property
    def machine(self) -> str:
        """Return what the machine is called, with its CPU."""
        facts = self.record.facts
        cpu = machine_name(facts | {"device_kind": "cpu", "device_name": facts.get("cpu_name", facts["device_name"])})
        return cpu if self.modelled else f"{facts['device_name']} beside {cpu}"


def comparison(records: list[Judged]) -> Comparison | None:
    """Return the newest record whose code is today's, one with a GPU if any; else a model takes the GPU's part."""
    cpus = [(record, measured(record)) for record, state, _ in records if state != "stale"]
    cpus = [(record, curves) for record, curves in cpus if CPU in curves]
    for record, curves in cpus:
        if IF.keys() <= curves.keys():
            return Comparison(record, curves, modelled=False)
    return next((Comparison(record, curves | models(curves[CPU]), modelled=True) for record, curves in cpus), None)


def measured(record: Record) -> dict[str, Curve]:
    """Return the curves of a record; a number that cannot be true makes none."""
    curves: dict[str, Curve] = {}
    for name, row in record.timings.items():
        if name.startswith(f"{BENCH}/") and row.values and row.n and row.verdict not in ("simulated", "impossible"):
            curves.setdefault(row.label, {})[row.n] = row.median
    return {label: dict(sorted(curve.items())) for label, curve in curves.items() if len(curve) > 1}


def models(cpu: Curve) -> dict[str, Curve]:
    """Return what a card takes by its maker's numbers, with and without the trip; asking takes as long as on the CPU.

    To multiply two n × n matrices takes 2 n³ operations, and 12 n² bytes are read and written at the least.
    """
    stay, travel = {}, {}
    for n in sorted({round(n) for n in np.geomspace(min(cpu), FURTHER * max(cpu), 60)}):
        stay[n] = cpu[min(cpu)] + CALL + max(12 * n**2 / spec(CARD, "bandwidth"), 2 * n**3 / spec(CARD, "fp32"))
        travel[n] = stay[n] + 3 * CALL + 12 * n**2 / spec(SLOT, "bandwidth")
    return {STAY: stay, TRAVEL: travel}


def times(curve: Curve, sizes: np.ndarray) -> np.ndarray:
    """Return the seconds at sizes between those of a curve, along straight lines in logarithms."""
    found: np.ndarray = np.exp(np.interp(np.log(sizes), np.log([*curve]), np.log([*curve.values()])))
    return found


def first_win(cpu: Curve, gpu: Curve) -> float | None:
    """Return the size from which on the GPU is always faster; None if there is none."""
    sizes = np.geomspace(max(min(cpu), min(gpu)), min(max(cpu), max(gpu)), 2000)
    losses = np.flatnonzero(times(gpu, sizes) >= times(cpu, sizes))
    if losses.size and losses[-1] == sizes.size - 1:
        return None
    return float(sizes[losses[-1] + 1 if losses.size else 0])


def rounded(size: float) -> str:
    """Return a size with two digits."""
    return f"{float(f'{size:.2g}'):,.0f}"


def fastest() -> tuple[str, float]:
    """Return the card with the fastest float32 arithmetic in the table of specifications."""
    return max(((name, card.fp32) for name, card in SPECS.items() if card.fp32), key=lambda found: found[1])


def finding(comparison: Comparison) -> str:
    """Return what the figure shows, in words."""
    gpu = f"{CARD}, a model" if comparison.modelled else str(comparison.record.facts["device_name"])
    wins = {way: first_win(comparison.curves[CPU], comparison.curves[way]) for way in IF}
    said = [f"{f'from n ≈ {rounded(n)} on' if n else 'at no size measured'} {IF[way]}" for way, n in wins.items()]
    return f"To multiply two n × n matrices, a GPU ({gpu}) is faster than this CPU {', and '.join(said)}."


def draw(comparison: Comparison) -> Figure:
    """Draw time against size: what was measured solid, what is a model dashed, what no card can do in grey."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(4.9, 4.4), layout="constrained")
    cpu = comparison.curves[CPU]
    low, high = 0.8 * min(cpu), 1.2 * max(map(max, comparison.curves.values()))
    bottom = min(cpu.values()) / 3
    lines = [f"{'By the model, a' if comparison.modelled else 'The'} GPU wins from"]
    for label, name in NAMES.items():
        curve, model = comparison.curves[label], comparison.modelled and label != CPU
        style = {"ls": "--", "label": f"{name} (model)"} if model else {"marker": "o", "ms": 5, "label": name}
        ax.plot([*curve], [*curve.values()], color=COLOURS[label], lw=2.2, **style)
        if label in IF and (wins := first_win(cpu, curve)):
            time = times(curve, np.array([wins]))[0]
            ax.plot([wins, wins], [bottom, time], ":", color=COLOURS[label], lw=1.5)
            ax.plot(wins, time, "o", ms=9, mfc="none", mec=COLOURS[label], mew=2)
            lines.insert(1, f"n ≈ {rounded(wins)} {IF[label]}")
    ax.set(xscale="log", yscale="log", xlabel="size of the problem, n", ylabel="time")
    ax.set(xlim=(low, high), ylim=(bottom, 8 * max(cpu.values())))
    ax.xaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
    ax.yaxis.set_major_formatter(lambda time, _: quantity(time, "s", digits=1))
    sizes = np.geomspace(low, high, 100)
    ax.fill_between(sizes, bottom, 2 * sizes**3 / fastest()[1], color="#808890", alpha=0.35, lw=0)
    ax.text(high / 1.15, bottom * 1.5, "impossible", ha="right", size=11)
    if lines[1:]:
        ax.text(0.03, 0.96, "\n".join(lines), transform=ax.transAxes, va="top", size=11, linespacing=1.4)
    figure.legend(loc="outside lower left", frameon=False, fontsize=10)
    return figure


class Glance(SphinxDirective):
    """``.. glance::`` draws the figure; where there is no record, it says so."""

    def run(self) -> list[nodes.Node]:
        """Draw the figure with its caption."""
        root = to_root(self.env)
        page = f'<a href="{root}tutorials/{EXAMPLE}.html">'
        found = comparison(records_of(self.env, EXAMPLE))
        if found is None:
            text = f"Here a figure shows from which size on {page}a GPU wins</a>: not recorded yet."
            return [nodes.raw("", f'<p class="fl-missing">{text}</p>\n', format="html")]
        _, picture = in_ink(lambda: draw(found), BENCH)
        machine = f'<a href="{root}machines.html#{escape(found.record.machine)}">{escape(found.machine)}</a>'
        said, day = escape(finding(found)), str(found.record.facts["date"])[:10]
        html = (
            f'<figure class="fl-figure"><div role="img" aria-label="{said}">{picture}</div><figcaption>'
            f'{said} {page}Will a GPU win at your problem?</a> <span class="fl-small">Dots: measured '
            f"on {machine}, {day}. {escape(explained(found))}</span></figcaption></figure>\n"
        )
        return [nodes.raw("", html, format="html")]


def explained(comparison: Comparison) -> str:
    """Return what the dashed lines and the grey zone stand on."""
    card = f"{quantity(spec(CARD, 'bandwidth'), 'B/s')} and {quantity(spec(CARD, 'fp32'), 'FLOP/s')}"
    model = (
        f"Dashed: a model, from what makers say of the card ({card}) and of its slot ({SLOT}), and "
        f"{quantity(CALL, 's', digits=1)} a call, assumed. "
    )
    name, rate = fastest()
    limit = f"the most that a card in our table can do ({name}), would take longer."
    return model * comparison.modelled + f"Grey: float32 arithmetic at {quantity(rate, 'FLOP/s')}, {limit}"


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("glance", Glance)
