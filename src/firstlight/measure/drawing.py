"""Draw timings: a dot with its quartiles a row, or a curve over the size of the problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from firstlight.measure.tables import quantity
from firstlight.measure.timing import Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Mid-tones: each stands out on white and on near-black. Markers differ too, so that colour carries nothing alone.
COLOURS = ("#2f7ed8", "#d9762b", "#2f9e77", "#b45fc0", "#c0392b", "#7f8c3a")
MARKERS = ("o", "s", "^", "D", "v", "P")
MODEL = "#808890"

Floor = Callable[[Timing], float | None]


def draw(timings: Sequence[Timing], floor: Floor, title: str) -> Figure:
    """Draw timings; ``floor`` gives the least seconds that the model allows a call, or ``None``."""
    import matplotlib.pyplot as plt

    shown = [timing for timing in timings if timing.values]
    curves = len({timing.n for timing in shown}) > 1
    height = 4.2 if curves else 1.4 + 0.42 * max(len(shown), 1)
    fig, ax = plt.subplots(figsize=(7.2, height), layout="constrained")
    if curves:
        draw_curves(ax, shown, floor)
    else:
        draw_rows(ax, shown, floor)
    ax.set_title(title, loc="left", fontsize="medium")
    fig.set_label(in_words(shown, title))
    return fig


def draw_rows(ax: Axes, timings: Sequence[Timing], floor: Floor) -> None:
    """One row a timing: dot and quartiles, the value beside it, and the model's floor as a dashed mark."""
    for row, timing in enumerate(timings):
        low, high = timing.quartiles
        middle = timing.median
        ax.errorbar(
            middle,
            row,
            xerr=[[middle - low], [high - middle]],
            fmt="o",
            color=COLOURS[0],
            capsize=4,
            zorder=3,
        )
        ax.annotate(
            quantity(middle, "s"),
            (middle, row),
            xytext=(0, 8),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
        if (least := floor(timing)) is not None:
            ax.plot(
                [least, least],
                [row - 0.35, row + 0.35],
                "--",
                color=MODEL,
                label="" if row else "model: the floor",
            )
    ax.set_yticks(range(len(timings)), [f"{t.label} ({t.device})" if t.device != "cpu" else t.label for t in timings])
    ax.set_ylim(len(timings) - 0.4, -0.8)
    scale_time(ax, "x", timings)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc="best", frameon=False, fontsize=9)


def draw_curves(ax: Axes, timings: Sequence[Timing], floor: Floor) -> None:
    """One curve a label and device, over the size of the problem, with quartiles and the model's line."""
    names = dict.fromkeys((timing.label, timing.device) for timing in timings)
    for i, name in enumerate(names):
        points = sorted((t for t in timings if (t.label, t.device) == name), key=lambda t: t.n or 0)
        sizes, middles = [t.n or 0 for t in points], [t.median for t in points]
        bars = [[t.median - t.quartiles[0] for t in points], [t.quartiles[1] - t.median for t in points]]
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        ax.errorbar(sizes, middles, yerr=bars, marker=marker, color=colour, capsize=3, label=", ".join(name))
        floors = {t.n or 0: least for t in points if (least := floor(t)) is not None}
        if floors:
            ax.plot([*floors], [*floors.values()], "--", color=MODEL, label="" if i else "model: the floor")
    ax.set_xscale("log")
    ax.set_xlabel("size of the problem, n")
    scale_time(ax, "y", timings)
    ax.legend(frameon=False, fontsize=9)


def scale_time(ax: Axes, axis: str, timings: Sequence[Timing]) -> None:
    """Label an axis of seconds; logarithmic where the times differ by more than a factor of three."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    medians = [timing.median for timing in timings]
    lines = ax.xaxis if axis == "x" else ax.yaxis
    if medians and max(medians) > 3 * min(medians):
        getattr(ax, f"set_{axis}scale")("log")
        lines.set_minor_formatter(NullFormatter())
    elif medians:
        getattr(ax, f"set_{axis}lim")(0, 1.25 * max(medians))
    lines.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, "s", digits=1)))
    getattr(ax, f"set_{axis}label")("time a call: median and quartiles")


def in_words(timings: Sequence[Timing], title: str) -> str:
    """The figure as a sentence, for those who do not see it."""
    said = [f"{t.label}{f' with n = {t.n}' if t.n else ''} on {t.device} {quantity(t.median, 's')}" for t in timings]
    return f"{title}. Median time a call: {'; '.join(said)}." if said else f"{title}. Nothing was timed."
