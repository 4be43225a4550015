"""The whole idea in one figure, for the home page: from which size on a GPU wins, and what no machine can do.

It is drawn from the records: from one of a GPU where there is one. Until then the GPU is a model, drawn dashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from _ext.timings import in_ink, machine_name
from _ext.watch import records_of
from firstlight.measure.specs import SPECS, spec
from firstlight.measure.tables import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from sphinx.application import Sphinx

    from _ext.watch import Judged
    from firstlight.measure.records import Record

EXAMPLE, BENCH = "2_devices/07_when_the_gpu_wins", "wins-matrix-matrix"
CPU, STAY, TRAVEL = "CPU", "GPU", "GPU, there and back"  # its labels
WAYS = {STAY: "GPU, data stay there", TRAVEL: "GPU, data travel each time"}
IF = {STAY: "if the data stay there", TRAVEL: "if they travel each time"}
COLOURS = {CPU: "#2f7ed8", STAY: "#2f9e77", TRAVEL: "#d9762b"}
CARD, SLOT = "RTX 4090", "PCIe 4 x16"
CALL = 5e-6  # seconds a call: assumed, as on the page of the example
FURTHER = 4  # the model goes on to this many times the largest size that was measured

Curve = dict[int, float]  # seconds by size


@dataclass
class Race:
    """A CPU and a GPU at one problem, in all sizes."""

    record: Record
    curves: dict[str, Curve]
    modelled: bool

    @property
    def gpu(self) -> str:
        """What the GPU is called."""
        return f"{CARD}, a model" if self.modelled else str(self.record.facts["device_name"])

    @property
    def machine(self) -> str:
        """What the machine is called, with its CPU."""
        facts = self.record.facts
        cpu = machine_name(facts | {"device_kind": "cpu", "device_name": facts.get("cpu_name", facts["device_name"])})
        return cpu if self.modelled else f"{facts['device_name']} beside {cpu}"


def race(records: list[Judged]) -> Race | None:
    """The newest record whose code is today's, one with a GPU if there is any; without a GPU a model takes its part."""
    found = [
        (record, curves) for record, state, _ in records if state != "stale" and CPU in (curves := measured(record))
    ]
    found.sort(key=lambda item: WAYS.keys() <= item[1].keys(), reverse=True)
    if not found:
        return None
    record, curves = found[0]
    modelled = not WAYS.keys() <= curves.keys()
    return Race(record, curves | (models(curves[CPU]) if modelled else {}), modelled)


def measured(record: Record) -> dict[str, Curve]:
    """The curves of a record; a number that cannot be true makes none."""
    curves: dict[str, Curve] = {}
    for name, row in record.timings.items():
        if name.startswith(f"{BENCH}/") and row.values and row.n and row.verdict not in ("simulated", "impossible"):
            curves.setdefault(row.label, {})[row.n] = row.median
    return {label: dict(sorted(curve.items())) for label, curve in curves.items() if len(curve) > 1}


def models(cpu: Curve) -> dict[str, Curve]:
    """What a card takes by its maker's numbers, with and without the trip; asking takes as long as on the CPU."""
    import numpy as np

    sizes = sorted({round(n) for n in np.geomspace(min(cpu), FURTHER * max(cpu), 60)})
    asking = cpu[min(cpu)]
    stay = {n: asking + CALL + max(moved(n) / spec(CARD, "bandwidth"), work(n) / spec(CARD, "fp32")) for n in sizes}
    return {STAY: stay, TRAVEL: {n: stay[n] + 3 * CALL + moved(n) / spec(SLOT, "bandwidth") for n in sizes}}


def work(n: float) -> float:
    """Operations of the product of two n × n matrices."""
    return 2 * n**3


def moved(n: float) -> float:
    """Bytes that it reads and writes at the least, in float32."""
    return 12 * n**2


def first_win(cpu: Curve, gpu: Curve) -> float | None:
    """The size from which on the GPU is always faster, along straight lines in logarithms; None if there is none."""
    import numpy as np

    sizes = np.geomspace(max(min(cpu), min(gpu)), min(max(cpu), max(gpu)), 2000)
    lead = [np.interp(np.log(sizes), np.log([*curve]), np.log([*curve.values()])) for curve in (gpu, cpu)]
    losses = np.flatnonzero(lead[0] >= lead[1])
    if losses.size and losses[-1] == sizes.size - 1:
        return None
    return float(sizes[losses[-1] + 1 if losses.size else 0])


def rounded(size: float) -> str:
    """A size with two digits."""
    return f"{float(f'{size:.2g}'):,.0f}"


def finding(race: Race) -> str:
    """What the figure shows, in words."""
    said = []
    for way, condition in IF.items():
        wins = first_win(race.curves[CPU], race.curves[way])
        said.append(f"{f'from n ≈ {rounded(wins)} on' if wins else 'at no size measured'} {condition}")
    return f"To multiply two n × n matrices, a GPU ({race.gpu}) is faster than this CPU {', and '.join(said)}."


# -- Drawing -------------------------------------------------------------------------------------------------------


def draw(race: Race) -> Figure:
    """Time against size: what was measured solid, what is a model dashed, what no card can do in grey."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(4.9, 4.4), layout="constrained")
    for label in (CPU, TRAVEL, STAY):
        curve = race.curves[label]
        model = race.modelled and label != CPU
        name = f"{WAYS[label]}{' (model)' if model else ''}" if label in WAYS else "CPU, measured"
        style = {"ls": "--"} if model else {"marker": "o", "ms": 5}
        ax.plot([*curve], [*curve.values()], color=COLOURS[label], lw=2.2, label=name, **style)
    ax.set(xscale="log", yscale="log", xlabel="size of the problem, n", ylabel="time")
    ax.set_xlim(min(race.curves[CPU]) * 0.8, max(map(max, race.curves.values())) * 1.2)
    ax.set_ylim(min(race.curves[CPU].values()) / 3, max(race.curves[CPU].values()) * 8)
    ax.xaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
    ax.yaxis.set_major_formatter(lambda time, _: quantity(time, "s", digits=1))
    draw_impossible(ax)
    draw_wins(ax, race)
    figure.legend(loc="outside lower left", frameon=False, fontsize=10)
    return figure


def draw_impossible(ax: Axes) -> None:
    """Shade the times that the arithmetic of the fastest card in the table does not allow."""
    import numpy as np

    low, high = ax.get_xlim()
    sizes = np.geomspace(low, high, 100)
    floor = np.array([work(n) for n in sizes]) / fastest()[1]
    ax.fill_between(sizes, ax.get_ylim()[0], floor, color="#808890", alpha=0.35, lw=0)
    ax.text(high / 1.15, ax.get_ylim()[0] * 1.5, "impossible", ha="right", size=11)


def fastest() -> tuple[str, float]:
    """The card with the fastest float32 arithmetic in the table of specifications."""
    return max(((name, card.fp32) for name, card in SPECS.items() if card.fp32), key=lambda found: found[1])


def draw_wins(ax: Axes, race: Race) -> None:
    """Mark where the GPU begins to win."""
    import numpy as np

    wins = {way: n for way in WAYS if (n := first_win(race.curves[CPU], race.curves[way]))}
    for way, n in wins.items():
        curve = race.curves[way]
        time = np.exp(np.interp(np.log(n), np.log([*curve]), np.log([*curve.values()])))
        ax.plot([n, n], [ax.get_ylim()[0], time], ":", color=COLOURS[way], lw=1.5)
        ax.plot(n, time, "o", ms=9, mfc="none", mec=COLOURS[way], mew=2)
    lines = [f"n ≈ {rounded(n)} {IF[way]}" for way, n in wins.items()]
    if lines:
        text = "\n".join([f"{'By the model, a' if race.modelled else 'The'} GPU wins from", *lines])
        ax.text(0.03, 0.96, text, transform=ax.transAxes, va="top", size=11, linespacing=1.4)


# -- On the page ---------------------------------------------------------------------------------------------------


class Glance(SphinxDirective):
    """``.. glance::`` draws the figure; where there is no record, it says so."""

    def run(self) -> list[nodes.Node]:
        """The figure with its caption."""
        to_root = "../" * self.env.docname.count("/")
        page = f'<a href="{to_root}tutorials/{EXAMPLE}.html">'
        found = race(records_of(self.env, EXAMPLE))
        if found is None:
            text = f"Here a figure shows from which size on {page}a GPU wins</a>: not recorded yet."
            return [nodes.raw("", f'<p class="fl-missing">{text}</p>\n', format="html")]
        _, picture = in_ink(lambda: draw(found), BENCH)
        machine = f"{to_root}machines.html#{escape(found.record.machine)}"
        day = str(found.record.facts["date"])[:10]
        caption = (
            f'{escape(finding(found))} {page}Will a GPU win at your problem?</a> <span class="fl-small">Dots: measured '
            f'on <a href="{machine}">{escape(found.machine)}</a>, {day}. {escape(explained(found))}</span>'
        )
        html = (
            f'<figure class="fl-figure"><div role="img" aria-label="{escape(finding(found))}">{picture}</div>'
            f"<figcaption>{caption}</figcaption></figure>\n"
        )
        plain = addnodes.only("", nodes.paragraph(text=finding(found)), expr="not html")
        return [nodes.raw("", html, format="html"), plain]


def explained(race: Race) -> str:
    """What the dashed lines and the grey zone stand on."""
    card = f"{quantity(spec(CARD, 'bandwidth'), 'B/s')} and {quantity(spec(CARD, 'fp32'), 'FLOP/s')}"
    model = (
        f"Dashed: a model, from what makers say of the card ({card}) and of its slot ({SLOT}), and "
        f"{quantity(CALL, 's', digits=1)} a call, assumed. "
    )
    name, rate = fastest()
    limit = (
        f"Grey: float32 arithmetic at {quantity(rate, 'FLOP/s')}, the most that a card in our table can do ({name}), "
        "would take longer."
    )
    return model * race.modelled + limit


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("glance", Glance)
