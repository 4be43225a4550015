"""A mistake, measured: what the host and the queue did, and when the clock ran; as a chart and as text."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from html import escape

from firstlight.measure.bench import displays_html
from firstlight.measure.possible import MISTAKES, times
from firstlight.measure.tables import quantity
from firstlight.measure.toystream import Span

LANES = {"host": "#2f7ed8", "queue": "#d9762b"}
LEFT, RIGHT, ROW, BAR = 56, 392, 36, 22
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

    def scaled(self) -> tuple[float, float, list[tuple[str, str, float, float]]]:
        """The clock's start and stop, and lane, label, start and end of each span, as parts of the whole."""
        spans = tuple(self.spans)
        begin = min([self.clock[0], *(span.start for span in spans)])
        whole = max([self.clock[1], *(span.end for span in spans)]) - begin or 1.0
        parts = [(s.lane, s.label, (s.start - begin) / whole, (s.end - begin) / whole) for s in spans]
        return (self.clock[0] - begin) / whole, (self.clock[1] - begin) / whole, parts

    @property
    def lasted(self) -> float:
        """Seconds from the first to the last thing in the chart."""
        spans = tuple(self.spans)
        return max([self.clock[1], *(s.end for s in spans)]) - min([self.clock[0], *(s.start for s in spans)])

    def text(self) -> str:
        """The chart for a terminal."""
        start, stop, parts = self.scaled()
        lines = [self.sentence]
        for lane in LANES:
            cells = [" "] * COLUMNS
            for _, label, begin, end in (part for part in parts if part[0] == lane):
                first = min(int(begin * COLUMNS), COLUMNS - 1)
                for place in range(first, max(first + 1, round(end * COLUMNS))):
                    cells[place] = "/" if label in self.other else "." if label == "wait" else "="
                cells[first] = "|" if cells[first] == "=" else cells[first]
            lines.append(f"{lane:>6} {''.join(cells).rstrip()}")
        first = int(start * COLUMNS)
        lines.append(f" clock {' ' * first}{'-' * max(0, round(stop * COLUMNS) - first)}X stopped")
        lines.append("       = busy   . waiting" + "   / hatched" * bool(self.other))
        return "\n".join(lines)

    def svg(self) -> str:
        """The chart as a drawing, with what was measured, in milliseconds, as data of each bar."""
        start, stop, parts = self.scaled()
        width = RIGHT - LEFT
        bars = []
        for lane, label, begin, end in parts:
            if lane not in LANES:
                continue
            y = 8 + ROW * list(LANES).index(lane)
            x, wide = LEFT + begin * width, max((end - begin) * width, 1.5)
            style = f'fill="{LANES[lane]}"' if label != "wait" else f'fill="none" stroke="{LANES[lane]}"'
            shape = f'x="{x:.2f}" y="{y}" width="{wide:.2f}" height="{BAR}"'
            when = f'data-start="{begin:.5f}" data-end="{end:.5f}"'
            lasting = quantity((end - begin) * self.lasted, "s")
            bars.append(
                f"<g {when}><rect {shape} {style}><title>{escape(f'{lane}: {label}, {lasting}')}</title></rect>"
            )
            if label in self.other:
                bars.append(f'<rect {shape} fill="url(#{self.hatch})" pointer-events="none"/>')
            bars.append("</g>")
        return (
            f'<svg viewBox="0 0 400 146" role="img" aria-label="{escape(self.in_words())}" font-size="14" '
            f'fill="currentColor" style="max-width:35rem;width:100%;height:auto;display:block">'
            f"{self.pattern()}{self.frame()}{''.join(bars)}{self.clock_bar(start, stop)}</svg>"
        )

    @property
    def hatch(self) -> str:
        """The name of this chart's hatching."""
        return f"fl-hatch-{self.mistake}"

    def pattern(self) -> str:
        """The hatching: lines that can be told from the bars without colour."""
        return (
            f'<defs><pattern id="{self.hatch}" width="6" height="6" patternUnits="userSpaceOnUse" '
            'patternTransform="rotate(45)"><rect width="2.5" height="6" fill="#ffffff"/></pattern></defs>'
        )

    def frame(self) -> str:
        """The names of the lanes, and the axis."""
        lanes = "".join(
            f'<text x="{LEFT - 8}" y="{24 + ROW * place}" text-anchor="end">{name}</text>'
            for place, name in enumerate([*LANES, "clock"])
        )
        axis = 8 + ROW * 3
        return (
            f'{lanes}<path d="M{LEFT} {axis}H{RIGHT}" stroke="currentColor" fill="none"/>'
            f'<text x="{LEFT}" y="{axis + 19}">0</text>'
            f'<text x="{(LEFT + RIGHT) / 2}" y="{axis + 19}" text-anchor="middle">measured on the toy queue</text>'
            f'<text x="{RIGHT}" y="{axis + 19}" text-anchor="end">{quantity(self.lasted, "s")}</text>'
        )

    def clock_bar(self, start: float, stop: float) -> str:
        """When the clock ran, with a line through all lanes where it stopped."""
        width, y = RIGHT - LEFT, 8 + ROW * 2
        left, right = LEFT + start * width, LEFT + stop * width
        text = f'x="{right + 7:.2f}" text-anchor="start"' if stop < 0.6 else f'x="{right - 9:.2f}" text-anchor="end"'
        return (
            f'<rect x="{left:.2f}" y="{y + 2}" width="{max(right - left, 1.5):.2f}" height="{BAR - 4}" '
            'fill="currentColor" fill-opacity="0.15" stroke="currentColor"/>'
            f'<path d="M{right:.2f} 2V{y + BAR}" stroke="#c0392b" stroke-width="2.5" stroke-dasharray="5 3"/>'
            f'<text {text} y="{y + 16}">stopped</text>'
            f'<path class="fl-hand" d="M{LEFT} 2V{8 + ROW * 3}" stroke="currentColor" stroke-width="1.5" '
            'visibility="hidden"/>'
        )

    def in_words(self) -> str:
        """The chart for those who do not see it: what each lane did, in turn, and when the clock stopped."""
        start, stop, parts = self.scaled()
        said = []
        for lane in LANES:
            labels = [label for name, label, _, _ in parts if name == lane]
            said.append(f"{lane}: {', '.join(labels) or 'nothing'}")
        ran = quantity((stop - start) * self.lasted, "s")
        return f"{'; '.join(said)}. The clock ran {ran} of {quantity(self.lasted, 's')}."

    def _repr_html_(self) -> str:
        name = re.sub("[^a-z-]", "", self.mistake)
        return (
            f'<figure class="fl-replay" data-mistake="{name}" data-seconds="{self.lasted:.6g}">{self.svg()}'
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
