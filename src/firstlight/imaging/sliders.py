"""What a step costs with any number of visibilities, and what float32 keeps of chi²: to be moved along by hand.

On a page two sliders lead through it. Without JavaScript, and on paper, all of it is there, one below the other.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt
from matplotlib.image import imsave

Numbers = npt.NDArray[np.float64]

COLOURS = ("#d9762b", "#2e7ab0", "#3a8f5a")
MARKS = ("circle", "square", "triangle")
WIDE, TALL = 411, 190  # of a chart, in its own units
LEFT, RIGHT, TOP, BOTTOM = 50, 400, 12, 158  # of its axes
FEWEST, MOST = 4, 8  # powers of ten of the first slider
SMALLEST, LARGEST = 1e-4, 1e2  # seconds a step


@dataclass(frozen=True)
class Cost:
    """What a step took with some numbers of visibilities, and the line on which that lies.

    Attributes
    ----------
    measured
        Seconds a step, for each number of visibilities.
    start, slope
        Of the line: seconds without any visibility, and seconds more for each.

    Examples
    --------
    >>> cost = Cost({10_000: 2e-3, 100_000: 11e-3}, start=1e-3, slope=1e-7)
    >>> f"{cost.at(1_000_000):.3f} s"
    '0.101 s'
    """

    measured: Mapping[int, float]
    start: float
    slope: float

    def at(self, count: float) -> float:
        """Go along the line to a number of visibilities."""
        return self.start + self.slope * count


@dataclass(frozen=True)
class Level:
    """A fit at one ratio of signal to noise.

    Attributes
    ----------
    signal
        The flux of the source over the noise of a visibility.
    along
        Places on a line through images.
    curves
        What was computed for chi² there, by each way. The first is the right one.
    error
        Of chi², relative, by each of the other ways.
    pictures
        Under each title an image as shades from 0 to 1, the name of a colour map, and what it shows in words.

    Examples
    --------
    >>> level = Level(signal=100, along=[0, 1], curves={"exact": [1, 2]}, error={"gridded": 3e-4}, pictures={})
    >>> level.said()
    'The source is 100 times as strong as the noise. Error of chi²: 3e-04 gridded.'
    """

    signal: float
    along: Numbers
    curves: Mapping[str, Numbers]
    error: Mapping[str, float]
    pictures: Mapping[str, tuple[Numbers, str, str]]

    def said(self) -> str:
        """Say the errors in a sentence."""
        errors = ", ".join(f"{size:.0e} {name}" for name, size in self.error.items())
        return f"The source is {self.signal:,.0f} times as strong as the noise. Error of chi²: {errors}."


class Sliders:
    """Costs against the number of visibilities, and fits against the noise.

    Parameters
    ----------
    costs
        Of each way to take a step.
    levels
        From the noisiest to the clearest.
    machine
        On which the steps were measured.

    Examples
    --------
    >>> costs = {"NUFFT": Cost({10_000: 2e-3, 100_000: 11e-3}, 1e-3, 1e-7), "exact": Cost({10_000: 1e-3}, 1e-3, 0)}
    >>> print(Sliders(costs, [], "two cores"))
    visibilities        NUFFT        exact
    10,000               2 ms         1 ms
    100,000             11 ms        1 ms*
    1,000,000         101 ms*        1 ms*
    10,000,000           1 s*        1 ms*
    100,000,000         10 s*        1 ms*
    * a model, on two cores
    """

    def __init__(self, costs: Mapping[str, Cost], levels: Sequence[Level], machine: str) -> None:
        if not 1 <= len(costs) <= len(COLOURS):
            raise ValueError(f"there is room for 1 to {len(COLOURS)} ways to take a step; got {len(costs)}")
        self.costs, self.levels, self.machine = dict(costs), list(levels), machine

    def rows(self) -> list[tuple[str, ...]]:
        """Make the cells of a table: a row a power of ten, and what was not measured has an asterisk."""
        return [
            (f"{10**power:,}", *(self.cell(cost, 10**power) for cost in self.costs.values()))
            for power in range(FEWEST, MOST + 1)
        ]

    def cell(self, cost: Cost, count: int) -> str:
        """Write a time, with an asterisk if it is the model's."""
        measured = [seconds for n, seconds in cost.measured.items() if abs(n / count - 1) < 0.05]
        return duration(measured[0]) if measured else f"{duration(cost.at(count))}*"

    def __str__(self) -> str:
        lines = ["visibilities".ljust(12) + "".join(name.rjust(13) for name in self.costs)]
        lines += [row[0].ljust(12) + "".join(cell.rjust(13) for cell in row[1:]) for row in self.rows()]
        return "\n".join([*lines, f"* a model, on {self.machine}", *(level.said() for level in self.levels)])

    def _repr_html_(self) -> str:
        told = {
            name: {"start": cost.start, "slope": cost.slope, "measured": [*cost.measured.items()]}
            for name, cost in self.costs.items()
        }
        data = escape(json.dumps({"costs": told, "signals": [f"{level.signal:,.0f}" for level in self.levels]}))
        return (
            f'<div class="fl-sliders" data-sliders="{data}">{slider("Visibilities", "count", MOST - FEWEST, 0.05, 1)}'
            f'{self.chart()}<div class="fl-said" role="status" hidden><p class="fl-verdict-text"></p><p></p></div>'
            f"{self.table()}{slider('Signal to noise', 'signal', len(self.levels) - 1, 1, 0) if self.levels else ''}"
            f"{''.join(map(level_html, self.levels))}</div>"
        )

    def chart(self) -> str:
        """Draw the times against the number of visibilities, both as powers of ten."""
        parts = [
            f'<text x="{across(10**power):.0f}" y="{BOTTOM + 15}" text-anchor="middle">{ten(power)}</text>'
            for power in range(FEWEST, MOST + 1)
        ]
        parts += [
            f'<text x="{LEFT - 5}" y="{up(time) + 4:.0f}" text-anchor="end">{duration(time)}</text>'
            f'<path class="fl-grid" d="M{LEFT} {up(time):.1f}H{RIGHT}"/>'
            for time in (1e-4, 1e-2, 1.0, 1e2)
        ]
        counts = np.logspace(FEWEST, MOST, 40)
        for (name, cost), colour, mark in zip(self.costs.items(), COLOURS, MARKS, strict=False):
            line = " ".join(f"{across(n):.1f},{up(cost.at(n)):.1f}" for n in counts)
            parts.append(f'<polyline points="{line}" stroke="{colour}"/>')
            parts += [marker(mark, across(n), up(seconds), colour) for n, seconds in cost.measured.items()]
            end = up(cost.at(counts[-1]))
            parts.append(f'<text x="{RIGHT}" y="{end - 6:.1f}" text-anchor="end">{escape(name)}</text>')
        moving = f'<g class="fl-here" visibility="hidden"><path d="M0 {TOP}V{BOTTOM}"/></g>'
        said = ", ".join(f"{name} {duration(cost.at(10**MOST))}" for name, cost in self.costs.items())
        return (
            f'<svg viewBox="0 0 {WIDE} {TALL}" role="img" aria-label="Time of a step against the number of '
            f'visibilities. At a hundred million, by the model: {escape(said)}.">{"".join(parts)}{moving}'
            f'<text x="{(LEFT + RIGHT) / 2}" y="{TALL - 3}" text-anchor="middle">visibilities</text></svg>'
            f'<p class="fl-small">A step on {escape(self.machine)}. Marks: measured. Dashed: the model.</p>'
        )

    def table(self) -> str:
        """Write the times as a table."""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("visibilities", *self.costs))
        body = "".join(
            f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>'
            for row in self.rows()
        )
        return (
            "<details open><summary>As a table</summary>"
            f"<table><caption>Time of a step; with *, by the model</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></details>"
        )


def slider(text: str, name: str, most: float, step: float, value: float) -> str:
    """Write a slider, hidden, since only the page's script gives it life."""
    return (
        f'<div class="fl-controls" hidden><label><span>{text}</span><input name="{name}" type="range" min="0" '
        f'max="{most}" step="{step}" value="{value}"><span class="fl-value" aria-hidden="true"></span></label></div>'
    )


def level_html(level: Level) -> str:
    """Write a fit: its chi² along a line, its pictures and its errors."""
    pictures = "".join(
        f'<figure><img src="{picture(values, colours)}" alt="{escape(words)}" width="{values.shape[1]}" '
        f'height="{values.shape[0]}"><figcaption>{escape(title)}</figcaption></figure>'
        for title, (values, colours, words) in level.pictures.items()
    )
    return (
        f'<section class="fl-level" aria-label="Signal to noise {level.signal:,.0f}"><p>{escape(level.said())}</p>'
        f'{curves(level)}<div class="fl-pictures">{pictures}</div></section>'
    )


def curves(level: Level) -> str:
    """Draw chi² along a line: the right one as a line, the others as marks."""
    right, *others = level.curves.items()
    low, high = float(right[1].min()), float(right[1].max())
    low, high = low - 0.35 * (high - low), high + 0.35 * (high - low)

    def place(t: float, value: float) -> tuple[float, float]:
        first, last = level.along[0], level.along[-1]
        y = BOTTOM - (BOTTOM - TOP) * (min(max(value, low), high) - low) / (high - low)
        return LEFT + (RIGHT - LEFT) * (t - first) / (last - first), y

    line = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in zip(level.along, right[1], strict=True))
    parts = [f'<polyline class="fl-right" points="{line}"/>']
    for (_, values), colour, mark in zip(others, COLOURS, MARKS, strict=False):
        parts += [marker(mark, *place(*point), colour) for point in zip(level.along, values, strict=True)]
    legend = f"Line: {right[0]}. " + " ".join(
        f"{mark.capitalize()}s: {name}." for (name, _), mark in zip(others, MARKS, strict=False)
    )
    if any((values < low).any() or (values > high).any() for _, values in others):
        legend += " Marks at the edge belong farther out."
    for value in (right[1].min(), right[1].max()):
        y = place(0, float(value))[1]
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    return (
        f'<svg viewBox="0 0 {WIDE} {BOTTOM + 20}" role="img" aria-label="Reduced chi² along a line of images. '
        f'{escape(legend)} {escape(level.said())}">{"".join(parts)}<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 16}" '
        f'text-anchor="middle">from image to image</text></svg><p class="fl-small">Reduced chi². {escape(legend)}</p>'
    )


def picture(shades: Numbers, colours: str) -> str:
    """Write an image into an address, small enough to stay on the page."""
    file = io.BytesIO()
    pillow = {"quality": 70}
    imsave(file, np.clip(shades, 0, 1), 0, 1, colours, format="webp", origin="lower", pil_kwargs=pillow)
    return f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"


def marker(kind: str, x: float, y: float, colour: str) -> str:
    """Draw a mark, told from others by its shape as well as by its colour."""
    shapes = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6"',
        "square": f'<rect x="{x - 3.2:.1f}" y="{y - 3.2:.1f}" width="6.4" height="6.4"',
        "triangle": f'<path d="M{x:.1f} {y - 4:.1f}l4 7h-8z"',
    }
    return f'{shapes[kind]} fill="{colour}"/>'


def across(count: float) -> float:
    """Place a number of visibilities on the chart."""
    return LEFT + (RIGHT - LEFT) * (math.log10(count) - FEWEST) / (MOST - FEWEST)


def up(seconds: float) -> float:
    """Place a time on the chart."""
    share = math.log10(min(max(seconds, SMALLEST), LARGEST) / SMALLEST) / math.log10(LARGEST / SMALLEST)
    return BOTTOM - (BOTTOM - TOP) * share


def ten(power: int) -> str:
    """Write a power of ten.

    Examples
    --------
    >>> ten(8)
    '10⁸'
    """
    return "10" + str(power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def duration(seconds: float) -> str:
    """Write a time with two digits or three.

    Examples
    --------
    >>> duration(0.0001), duration(0.0123), duration(3.456)
    ('0.1 ms', '12 ms', '3.5 s')
    """
    value, unit = (seconds, "s") if seconds >= 0.9995 else (1e3 * seconds, "ms")
    return f"{value:.0f} {unit}" if value >= 99.5 else f"{value:.2g} {unit}"
