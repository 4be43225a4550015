"""A mistake, measured: what the host and the queue did, and when the clock ran; as a chart and as text."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from html import escape

from firstlight.display import Widget, quantity
from firstlight.lessons.plausibility import MISTAKES, times
from firstlight.lessons.svg import Axis, drawing, hatch, label
from firstlight.timing.toy_stream import Span

LANES = {"host": "#2f7ed8", "queue": "#d9762b", "clock": "currentColor"}
OPAQUE = {"wait": 0.0, "clock": 0.15}  # frames; all other bars are filled
ROW, BAR = 36, 22
BOTTOM = 8 + ROW * len(LANES)
COLUMNS = 60  # of the chart in a terminal


@dataclass(frozen=True)
class Replay(Widget):
    """One mistake as it happened on a queue.

    Parameters
    ----------
    mistake
        Which of the six.
    spans
        What the lanes did.
    clock
        When the clock was started and stopped, on the spans' own time.
    reported
        Seconds, as somebody who makes the mistake reports them.
    honest
        Seconds, as they should have been reported.
    other
        Labels of work that is not the work one meant to time; it is hatched.
    note
        What the hatched work is.

    Examples
    --------
    >>> spans = [Span("host", "launch add", 0, 1e-5), Span("queue", "add", 1e-5, 0.01)]
    >>> Replay("not-waiting", spans, (0, 1e-5), reported=1e-5, honest=0.01).share
    '0.001 of'
    """

    mistake: str
    spans: Iterable[Span]
    clock: tuple[float, float]
    reported: float
    honest: float
    other: Collection[str] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if self.mistake not in MISTAKES:
            raise ValueError(f"there is no mistake {self.mistake!r}; there are: {', '.join(MISTAKES)}")
        if not (0 < self.reported < math.inf and 0 < self.honest < math.inf):
            raise ValueError(f"reported and honest are seconds above 0; got {self.reported!r} and {self.honest!r}")
        bars = sorted((span for span in self.spans if span.lane in LANES), key=lambda span: span.start)
        object.__setattr__(self, "spans", (*bars, Span("clock", "clock", *self.clock)))

    @property
    def ratio(self) -> float:
        """What the mistake multiplies the time by."""
        return self.reported / self.honest

    @property
    def share(self) -> str:
        """How the ratio is said before what it is a ratio of."""
        share = times(self.ratio)
        return "equal to" if share == "1" else f"{share} {'of' if self.ratio < 1 else 'times'}"

    @property
    def title(self) -> str:
        """The mistake in a few words."""
        return MISTAKES[self.mistake].title

    @property
    def sentence(self) -> str:
        """What was measured, in words."""
        hatched = f" Hatched: {self.note}." if self.note else ""
        return (
            f"{self.title[0].upper()}{self.title[1:]}: reported {quantity(self.reported, 's')}, should be "
            f"{quantity(self.honest, 's')}: {self.share} that.{hatched}"
        )

    def axis(self, start: float, end: float) -> Axis:
        """Return where the times of the chart lie."""
        begin = min(span.start for span in self.spans)
        last = max(span.end for span in self.spans)
        return Axis(begin, last if last > begin else begin + 1.0, start, end, powers=False)

    def __str__(self) -> str:
        axis, lanes = self.axis(0, COLUMNS), {lane: [" "] * COLUMNS for lane in LANES}
        for bar in self.spans:
            cells, first = lanes[bar.lane], min(int(axis.at(bar.start)), COLUMNS - 1)
            mark = "/" if bar.label in self.other else {"wait": ".", "clock": "-"}.get(bar.label, "=")
            for place in range(first, max(first + 1, round(axis.at(bar.end)))):
                cells[place] = mark
            cells[first] = "|" if mark == "=" else mark
        lines = [f"{lane:>6} {''.join(cells).rstrip()}" for lane, cells in lanes.items()]
        legend = "       = busy   . waiting" + "   / hatched" * bool(self.other)
        return "\n".join([self.sentence, *lines[:-1], f"{lines[-1]}X stopped", legend])

    def _repr_html_(self) -> str:
        """Return the chart; what a replay uncovers from left to right is one group, as wide as the axis."""
        axis = self.axis(56, 392)
        left, width = axis.start, axis.end - axis.start
        whole = quantity(axis.most - axis.least, "s")
        drawn = [f'<rect x="{left}" y="0" width="{width}" height="{BOTTOM}" fill="none"/>']
        for bar in self.spans:
            x, y = axis.at(bar.start), 8 + ROW * [*LANES].index(bar.lane)
            wide = max(axis.at(bar.end) - x - 1, 1.5)  # a gap between two bars
            shape = f'x="{x:.2f}" y="{y}" width="{wide:.2f}" height="{BAR}"'
            colour, opaque = LANES[bar.lane], OPAQUE.get(bar.label, 1)
            stroke = f' stroke="{colour}"' if bar.label in OPAQUE else ""
            said = escape(f"{bar.lane}: {bar.label}, {quantity(bar.end - bar.start, 's')}")
            drawn.append(f'<rect {shape} fill="{colour}" fill-opacity="{opaque}"{stroke}><title>{said}</title></rect>')
            if bar.label in self.other:
                drawn.append(f'<rect {shape} fill="url(#fl-hatch-{self.mistake})" pointer-events="none"/>')
        stop = axis.at(self.clock[1])
        early = stop < left + 0.6 * width
        drawn.append(
            f'<path d="M{stop:.2f} 2V{BOTTOM - 14}" stroke="#c0392b" stroke-width="2.5" stroke-dasharray="5 3"/>'
        )
        drawn.append(label(stop + (7 if early else -9), BOTTOM - 20, "stopped", "start" if early else "end"))
        lanes = {lane: ", ".join(bar.label for bar in self.spans if bar.lane == lane) or "nothing" for lane in LANES}
        svg = drawing(
            400,
            146,
            f"host: {lanes['host']}; queue: {lanes['queue']}. The clock ran "
            f"{quantity(self.clock[1] - self.clock[0], 's')} of {whole}.",
            hatch(f"fl-hatch-{self.mistake}", "#ffffff"),  # its own in each drawing of a page
            *(label(left - 8, 24 + ROW * row, name, "end") for row, name in enumerate(LANES)),
            f'<g class="fl-bars">{"".join(drawn)}</g>',
            f'<path class="fl-hand" d="M{left} 2V{BOTTOM}" stroke="currentColor" stroke-width="1.5" '
            f'visibility="hidden"/><path d="M{left} {BOTTOM}h{width}" stroke="currentColor"/>',
            label(left, BOTTOM + 19, "0", "start"),
            label(left + width / 2, BOTTOM + 19, "measured on the toy queue"),
            label(axis.end, BOTTOM + 19, whole, "end"),
        )
        caption = f"<figcaption>{escape(self.sentence)}</figcaption>"
        return f'<figure class="fl-replay" data-mistake="{self.mistake}">{svg}{caption}</figure>'
