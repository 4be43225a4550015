"""Draw timings: a dot with quartiles a row, or a curve over the size of the problem; a colour and marker a machine."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from math import ceil
from typing import TYPE_CHECKING, Any

from firstlight.display import COLOURS, GREY, quantity
from firstlight.timing.result import Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Told apart by markers, too, so that colour carries nothing alone.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # one more than the colours: pairs do not come again soon

# Figures are read on telephones, too.
STYLE: Any = {"font.size": 11, "font.family": "sans-serif", "figure.titlesize": 12, "figure.figsize": (5.6, 3.8)}

Series = Mapping[str, Sequence[Timing]]


def as_svg(figure: Figure, salt: str) -> str:
    """Return a figure in the page's own ink, with what its label says; the same data give the same text."""
    import matplotlib as mpl

    out, nothing = io.StringIO(), dict.fromkeys(("Creator", "Date", "Format", "Type"))  # what it says there is no HTML
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    # Nothing refers to these: each figure has the first, and two colour bars have the same image.
    text = re.sub(r' id="(?:[\w.]+_\d+|image[0-9a-f]+)"', "", out.getvalue())
    text = text[text.index("<svg") :].replace("#000000", "currentColor").replace("#ffffff", "none")
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(" ".join(str(figure.get_label()).split()))}"', 1)


def draw(series: Series, title: str) -> Figure:
    """Draw the timings of one experiment, by machine; dashed is the floor that the first machine's roof sets."""
    import matplotlib.pyplot as plt

    shown = {machine: [t for t in timings if t.values] for machine, timings in series.items()}
    labels = _labels_of(shown)
    curves = any(len({t.n for t in timings if t.label == label}) > 1 for timings in shown.values() for label in labels)
    height = 3.6 if curves else 1.5 + (0.3 + 0.18 * len(shown)) * max(len(labels), 1)
    fig, ax = plt.subplots(figsize=(5.6, height), layout="constrained")
    (_draw_curves if curves else _draw_rows)(ax, shown)
    if entries := ax.get_legend_handles_labels()[1]:
        columns = 1 if any(len(label) > 24 for label in entries) else 2
        fig.legend(loc="outside lower left", frameon=False, fontsize=9, ncols=columns)
        if curves:
            fig.set_figheight(height + 0.2 * ceil(len(entries) / columns))  # or a long legend leaves them no room
    fig.set_label(_in_words(shown, title))
    return fig


def _labels_of(shown: Series) -> list[str]:
    """Return the rows' names, each once."""
    return list(dict.fromkeys(t.label for timings in shown.values() for t in timings))


def _floor_of(timing: Timing, others: Sequence[Timing]) -> float | None:
    """Return the least seconds for the timing's bytes and operations at the best rate that its machine reached.

    That is the roof's, or that of a row which exceeded the roof.
    """
    if timing.of_roof is None:
        return None
    return timing.median * timing.of_roof / max(1.0, *(other.of_roof or 0.0 for other in others))


def _draw_rows(ax: Axes, shown: Series) -> None:
    """Draw one row a label, a dot a machine with its quartiles and value; the floor is a dashed mark."""
    labels = _labels_of(shown)
    for number, (machine, timings) in enumerate(shown.items()):
        shift = 0.7 * (number - (len(shown) - 1) / 2) / max(len(shown), 1)
        style = {"color": COLOURS[number % len(COLOURS)], "fmt": MARKERS[number % len(MARKERS)], "capsize": 3}
        for place, timing in enumerate(timings):
            low, high = timing.quartiles
            middle, row = timing.median, labels.index(timing.label) + shift
            bars = [[middle - low], [high - middle]]
            ax.errorbar(middle, row, xerr=bars, zorder=3, label="" if place else machine, **style)  # type: ignore[arg-type]
            ax.annotate(
                quantity(middle, "s"), (middle, row), (7, 0), textcoords="offset points", va="center", fontsize=8
            )
            if number == 0 and (least := _floor_of(timing, timings)) is not None:
                ends = [labels.index(timing.label) - 0.35, labels.index(timing.label) + 0.35]
                ax.plot([least, least], ends, "--", color=GREY, label="" if place else "model: the floor")
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    _scale_time(ax, "x", [t.median for timings in shown.values() for t in timings])


def _draw_curves(ax: Axes, shown: Series) -> None:
    """Draw one curve a label and machine, over the size of the problem, with quartiles and the model's line."""
    names = list(dict.fromkeys((machine, t.label) for machine, timings in shown.items() for t in timings))
    for number, (machine, label) in enumerate(names):
        points = sorted((t for t in shown[machine] if t.label == label), key=lambda t: t.n or 0)
        sizes, middles = [t.n or 0 for t in points], [t.median for t in points]
        bars = [[t.median - t.quartiles[0] for t in points], [t.quartiles[1] - t.median for t in points]]
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        line = "-" if number < len(COLOURS) else ":"  # the colours come again
        name = label if len(shown) == 1 else f"{label}, {machine}"
        ax.errorbar(sizes, middles, yerr=bars, marker=marker, color=colour, ls=line, capsize=3, label=name)
        floors = {t.n or 0: least for t in points if (least := _floor_of(t, shown[machine])) is not None}
        if floors and machine == names[0][0]:
            ax.plot([*floors], [*floors.values()], "--", color=GREY, label="" if number else "model: the floor")
    ax.set_xscale("log")
    ax.set_xlabel("size of the problem, n")
    _scale_time(ax, "y", [t.median for timings in shown.values() for t in timings])


def _scale_time(ax: Axes, axis: str, medians: list[float]) -> None:
    """Label an axis of seconds; logarithmic where the times differ by more than a factor of three."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    lines, digits = ax.xaxis if axis == "x" else ax.yaxis, 2
    if medians and max(medians) > 3 * min(medians):
        digits = 1
        getattr(ax, f"set_{axis}scale")("log")
        ratio = max(medians) / min(medians)
        getattr(ax, f"set_{axis}lim")(min(medians) / 2, max(medians) * max(3, ratio**0.2))
        # Over many decades, labels at each one and between would run into each other.
        lines.set_major_locator(LogLocator(subs=(1.0, 3.0) if ratio < 1000 else (1.0,), numticks=6))
        lines.set_minor_formatter(NullFormatter())
    elif medians:
        getattr(ax, f"set_{axis}lim")(0, 1.3 * max(medians))
    lines.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, "s", digits)))
    getattr(ax, f"set_{axis}label")("time a call: median and quartiles")


def _in_words(shown: Series, title: str) -> str:
    """Return the figure as a sentence, for those who do not see it."""
    parts = [
        f"{t.label}{f' with n = {t.n:,}' if t.n else ''} on {machine} {quantity(t.median, 's')}"
        for machine, timings in shown.items()
        for t in timings
    ]
    return f"{title}. Median time a call: {'; '.join(parts)}." if parts else f"{title}. Nothing was timed."
