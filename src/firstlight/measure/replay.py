"""A mistake, measured: what the host and the queue did, and when the clock ran; as a chart and as text."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from html import escape

from firstlight.measure.bench import displays_html
from firstlight.measure.possible import MISTAKES, times
from firstlight.measure.tables import quantity
from firstlight.measure.toystream import Span

LANES = {"host": "#2f7ed8", "queue": "#d9762b", "clock": "currentColor"}
OPAQUE = {"wait": 0.0, "clock": 0.15}  # frames; all other bars are filled
LEFT, WIDTH, ROW, BAR = 56, 336, 36, 22
BOTTOM = 8 + ROW * len(LANES)
COLUMNS = 60  # of the chart in a terminal


@dataclass(frozen=True)
class Replay:
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
    >>> Replay("not-waiting", spans, (0, 1e-5), reported=1e-5, honest=0.01).ratio
    0.001
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
        object.__setattr__(self, "spans", tuple(sorted(self.spans, key=lambda span: span.start)))

    @property
    def ratio(self) -> float:
        """What the mistake multiplies the time by."""
        return self.reported / self.honest

    @property
    def title(self) -> str:
        """The mistake in a few words."""
        return MISTAKES[self.mistake].title

    @property
    def sentence(self) -> str:
        """What was measured, in words."""
        hatched = f" Hatched: {self.note}." if self.note else ""
        return (
            f"{self.title[0].upper()}{self.title[1:]}: reported {quantity(self.reported, 's')}, really "
            f"{quantity(self.honest, 's')}: {share(self.ratio)} the true time.{hatched}"
        )

    def show(self) -> Replay | None:
        """Show the chart: as text in a terminal, as a drawing in a notebook and on a page."""
        if displays_html():
            return self
        print(self.text())
        return None

    def bars(self) -> tuple[float, list[Span]]:
        """The seconds that the chart shows, and its bars, the clock's last, with times as parts of these seconds."""
        spans = [*(span for span in self.spans if span.lane in LANES), Span("clock", "clock", *self.clock)]
        begin = min(span.start for span in spans)
        whole = max(span.end for span in spans) - begin or 1.0
        return whole, [Span(s.lane, s.label, (s.start - begin) / whole, (s.end - begin) / whole) for s in spans]

    def text(self) -> str:
        """The chart for a terminal."""
        lanes = {lane: [" "] * COLUMNS for lane in LANES}
        for bar in self.bars()[1]:
            cells, first = lanes[bar.lane], min(int(bar.start * COLUMNS), COLUMNS - 1)
            mark = "/" if bar.label in self.other else {"wait": ".", "clock": "-"}.get(bar.label, "=")
            for place in range(first, max(first + 1, round(bar.end * COLUMNS))):
                cells[place] = mark
            cells[first] = "|" if mark == "=" else mark
        lines = [f"{lane:>6} {''.join(cells).rstrip()}" for lane, cells in lanes.items()]
        legend = "       = busy   . waiting" + "   / hatched" * bool(self.other)
        return "\n".join([self.sentence, *lines[:-1], f"{lines[-1]}X stopped", legend])

    def svg(self) -> str:
        """The chart as a drawing; what a replay uncovers from left to right is one group, as wide as the axis."""
        whole, bars = self.bars()
        drawn = [f'<rect x="{LEFT}" y="0" width="{WIDTH}" height="{BOTTOM}" fill="none"/>']
        for bar in bars:
            y = 8 + ROW * [*LANES].index(bar.lane)
            width = max((bar.end - bar.start) * WIDTH - 1, 1.5)  # a gap between two bars
            shape = f'x="{LEFT + bar.start * WIDTH:.2f}" y="{y}" width="{width:.2f}" height="{BAR}"'
            colour, opaque = LANES[bar.lane], OPAQUE.get(bar.label, 1)
            stroke = f' stroke="{colour}"' if bar.label in OPAQUE else ""
            said = escape(f"{bar.lane}: {bar.label}, {quantity((bar.end - bar.start) * whole, 's')}")
            drawn.append(f'<rect {shape} fill="{colour}" fill-opacity="{opaque}"{stroke}><title>{said}</title></rect>')
            if bar.label in self.other:
                drawn.append(f'<rect {shape} fill="url(#fl-hatch)" pointer-events="none"/>')
        stop = LEFT + bars[-1].end * WIDTH
        place = f'x="{stop + 7:.2f}"' if bars[-1].end < 0.6 else f'x="{stop - 9:.2f}" text-anchor="end"'
        names = "".join(
            f'<text x="{LEFT - 8}" y="{24 + ROW * row}" text-anchor="end">{name}</text>'
            for row, name in enumerate(LANES)
        )
        return (
            f'<svg viewBox="0 0 400 146" role="img" aria-label="{escape(self.in_words())}" font-size="14" '
            'fill="currentColor" style="max-width:35rem;width:100%;height:auto;display:block">'
            '<defs><pattern id="fl-hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
            'patternTransform="rotate(45)"><rect width="2.5" height="6" fill="#ffffff"/></pattern></defs>'
            f'{names}<g class="fl-bars">{"".join(drawn)}'
            f'<path d="M{stop:.2f} 2V{BOTTOM - 14}" stroke="#c0392b" stroke-width="2.5" stroke-dasharray="5 3"/>'
            f'<text {place} y="{BOTTOM - 20}">stopped</text></g>'
            f'<path class="fl-hand" d="M{LEFT} 2V{BOTTOM}" stroke="currentColor" stroke-width="1.5" '
            f'visibility="hidden"/><path d="M{LEFT} {BOTTOM}h{WIDTH}" stroke="currentColor"/>'
            f'<text x="{LEFT}" y="{BOTTOM + 19}">0</text>'
            f'<text x="{LEFT + WIDTH / 2}" y="{BOTTOM + 19}" text-anchor="middle">measured on the toy queue</text>'
            f'<text x="{LEFT + WIDTH}" y="{BOTTOM + 19}" text-anchor="end">{quantity(whole, "s")}</text></svg>'
        )

    def in_words(self) -> str:
        """The chart for those who do not see it: what each lane did, in turn, and when the clock stopped."""
        whole, (*bars, clock) = self.bars()
        host, queue = (
            ", ".join(bar.label for bar in bars if bar.lane == lane) or "nothing" for lane in ("host", "queue")
        )
        ran = quantity((clock.end - clock.start) * whole, "s")
        return f"host: {host}; queue: {queue}. The clock ran {ran} of {quantity(whole, 's')}."

    def _repr_html_(self) -> str:
        return (
            f'<figure class="fl-replay" data-mistake="{self.mistake}">{self.svg()}'
            f"<figcaption>{escape(self.sentence)}</figcaption></figure>"
        )


def share(ratio: float) -> str:
    """How a ratio is said before what it is a ratio of.

    Examples
    --------
    >>> share(0.25), share(38.2)
    ('0.25 of', '38 times')
    """
    return f"{times(ratio)} {'of' if ratio < 1 else 'times'}"
