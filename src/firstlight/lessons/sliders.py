"""What a step costs with any number of visibilities, and what float32 keeps of chi²: to be moved along by hand.

On a page two sliders lead through it. Without JavaScript, and on paper, all of it is there, one below the other.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape

import numpy as np
import numpy.typing as npt
from matplotlib.image import imsave

from firstlight.display import COLOURS, Table, Widget
from firstlight.lessons.svg import STATUS_REGION, Axis, board, controls, drawing, label, line, marker, slider

Numbers = npt.NDArray[np.float64]

ACROSS, UP = Axis(1e4, 1e8, 50, 400), Axis(1e-4, 1e2, 158, 12)  # visibilities; seconds a step
MARKS = ("Circles", "Squares", "Triangles")


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
    >>> cost.cell(100_000), cost.cell(1_000_000)
    ('11 ms', '101 ms*')
    """

    measured: Mapping[int, float]
    start: float
    slope: float

    def at(self, count: float) -> float:
        """Return the seconds for a number of visibilities, on the line."""
        return self.start + self.slope * count

    def cell(self, count: int) -> str:
        """Return a time, with an asterisk if it is the line's."""
        measured = [seconds for n, seconds in self.measured.items() if abs(n / count - 1) < 0.05]
        return duration(measured[0]) if measured else f"{duration(self.at(count))}*"


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
    >>> print(Level(signal=100, along=[0, 1], curves={"exact": [1, 2]}, error={"gridded": 3e-4}, pictures={}))
    The source is 100 times as strong as the noise. Error of chi²: 3e-04 gridded.
    """

    signal: float
    along: Numbers
    curves: Mapping[str, Numbers]
    error: Mapping[str, float]
    pictures: Mapping[str, tuple[Numbers, str, str]]

    def __str__(self) -> str:
        errors = ", ".join(f"{size:.0e} {name}" for name, size in self.error.items())
        return f"The source is {self.signal:,.0f} times as strong as the noise. Error of chi²: {errors}."

    def html(self) -> str:
        """Return its chi² along the line, the right one as a line and the others as marks, and its pictures."""
        (name, right), *others = self.curves.items()
        beyond = 0.35 * np.ptp(right)
        across = Axis(self.along[0], self.along[-1], ACROSS.start, ACROSS.end, powers=False)
        up = Axis(right.min() - beyond, right.max() + beyond, UP.start, UP.end, powers=False)
        marks = [
            marker(number, across.at(t), up.at(value))
            for number, (_, values) in enumerate(others)
            for t, value in zip(self.along, values, strict=True)
        ]
        points = [(across.at(t), up.at(value)) for t, value in zip(self.along, right, strict=True)]
        legend = f"Line: {name}. " + " ".join(f"{mark}: {way}." for mark, (way, _) in zip(MARKS, others, strict=False))
        if any((values < up.least).any() or (values > up.most).any() for _, values in others):
            legend += " Marks at the edge belong farther out."
        svg = drawing(
            411,
            178,
            f"Reduced chi² along a line of images. {legend} {self}",
            line(points, 'class="fl-right"'),
            *marks,
            *(label(45, up.at(value) + 4, f"{value:.3g}", "end") for value in (right.min(), right.max())),
            label(225, 174, "brightness beside the truth"),
        )
        return (
            f'<section class="fl-level" aria-label="Signal to noise {self.signal:,.0f}"><p>{escape(str(self))}</p>{svg}'
            f'<p class="fl-small">Reduced chi². {escape(legend)}</p>'
            f'<div class="fl-pictures">{"".join(map(picture, self.pictures, self.pictures.values()))}</div></section>'
        )


class Sliders(Widget):
    """Costs against the number of visibilities, and fits against the noise.

    Parameters
    ----------
    costs
        Of each way to take a step; of three at most, as there are so many marks.
    levels
        From the noisiest to the clearest.
    machine
        On which the steps were measured.

    Examples
    --------
    >>> costs = {"NUFFT": Cost({10_000: 2e-3, 100_000: 11e-3}, 1e-3, 1e-7), "exact": Cost({10_000: 1e-3}, 1e-3, 0)}
    >>> print(Sliders(costs, [], "two cores"))
    A step on two cores; with *, by the model
    visibilities    NUFFT  exact
    ------------  -------  -----
    10,000           2 ms  1 ms
    100,000         11 ms  1 ms*
    1,000,000     101 ms*  1 ms*
    10,000,000       1 s*  1 ms*
    100,000,000     10 s*  1 ms*
    """

    def __init__(self, costs: Mapping[str, Cost], levels: Sequence[Level], machine: str) -> None:
        self.costs, self.levels, self.machine = dict(costs), list(levels), machine

    def table(self) -> Table:
        """Return the times: a row a power of ten, and what was not measured has an asterisk."""
        rows = (
            (f"{n:,}", *(cost.cell(n) for cost in self.costs.values())) for n in (10**power for power in range(4, 9))
        )
        return Table(f"A step on {self.machine}; with *, by the model", ("visibilities", *self.costs), tuple(rows))

    def __str__(self) -> str:
        return "\n".join([self.table().text(), *map(str, self.levels)])

    def _repr_html_(self) -> str:
        costs = {name: {**asdict(cost), "measured": [*cost.measured.items()]} for name, cost in self.costs.items()}
        signals = [f"{level.signal:,.0f}" for level in self.levels]
        table = f"<details open><summary>As a table</summary>{self.table().html()}</details>"
        noise = [controls(("Signal to noise", slider("signal", len(signals) - 1)))] if signals else []
        counts = controls(("Visibilities", slider("count", 4, 1, 0.05)))
        words = ", ".join(f"{name} {duration(cost.at(1e8))}" for name, cost in self.costs.items())
        return board(
            "sliders",
            {"costs": costs, "signals": signals, "axis": asdict(ACROSS)},
            f"<div hidden>{counts}</div>",
            drawing(
                411, 190, f"Time of a step. At a hundred million visibilities, by the model: {words}.", *self.chart()
            ),
            '<p class="fl-small">Marks: measured. Dashed: the model.</p>',
            f"<div hidden>{STATUS_REGION}</div>{table}<div hidden>{''.join(noise)}</div>",
            *(level.html() for level in self.levels),
        )

    def chart(self) -> Iterator[str]:
        """Draw the times against the number of visibilities, both as powers of ten."""
        yield label(225, 187, "visibilities")
        for power in range(4, 9):
            yield label(ACROSS.at(10**power), 173, f"10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[power]}")
        for seconds in (1e-4, 1e-2, 1.0, 1e2):
            yield label(45, UP.at(seconds) + 4, duration(seconds), "end")
            yield f'<path class="fl-grid" d="M{ACROSS.start} {UP.at(seconds):.1f}H{ACROSS.end}"/>'
        for number, (name, cost) in enumerate(self.costs.items()):
            counts = np.logspace(4, 8, 40)
            yield line([(ACROSS.at(n), UP.at(cost.at(n))) for n in counts], f'stroke="{COLOURS[number]}"')
            yield from (marker(number, ACROSS.at(n), UP.at(seconds)) for n, seconds in cost.measured.items())
            yield label(ACROSS.end, UP.at(cost.at(1e8)) - 6, name, "end")
        yield '<g class="fl-here" visibility="hidden"><path d="M0 12V158"/></g>'


def picture(title: str, shown: tuple[Numbers, str, str]) -> str:
    """Return an image with its title, small enough to stay on the page."""
    shades, colours, words = shown
    file = io.BytesIO()
    pillow = {"quality": 70}
    imsave(file, np.clip(shades, 0, 1), 0, 1, colours, format="webp", origin="lower", pil_kwargs=pillow)
    address = f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"
    rows, columns = shades.shape
    return (
        f'<figure><img src="{address}" alt="{escape(words)}" width="{columns}" height="{rows}">'
        f"<figcaption>{escape(title)}</figcaption></figure>"
    )


def duration(seconds: float) -> str:
    """Return a time with two digits or three.

    Examples
    --------
    >>> duration(0.0001), duration(0.0123), duration(3.456)
    ('0.1 ms', '12 ms', '3.5 s')
    """
    value, unit = (seconds, "s") if seconds >= 0.9995 else (1e3 * seconds, "ms")
    return f"{value:.0f} {unit}" if value >= 99.5 else f"{value:.2g} {unit}"
