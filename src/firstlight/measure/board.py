"""Claims and mistakes on one axis, time over floor; on a page the reader puts a number of their own on it."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape

from firstlight.measure.bench import displays_html
from firstlight.measure.possible import MISTAKES, Claim, Place, cards, place_of, rules, times
from firstlight.measure.replay import Replay, share

LEFT, RIGHT, LEAST, MOST = 24, 376, 1e-3, 1e3  # where the axis begins and ends in the drawing, and at which ratios
TICKS = ("1/1000", "1/100", "1/10", "1", "10", "100", "1000")
AXIS = 124
WIDTH = 400
LETTERS = "abcdef"
RED = (
    '<defs><pattern id="fl-red" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="1.6" height="7" fill="#c0392b" fill-opacity="0.55"/></pattern></defs>'
)


@dataclass(frozen=True)
class Board:
    """What was claimed, and what the mistakes do, on one axis.

    Parameters
    ----------
    claims
        What others report.
    replays
        The mistakes as they were measured.
    places
        Devices beside the cards that makers describe, such as the reader's own.

    Examples
    --------
    >>> from firstlight.measure.possible import place_of
    >>> claim = Claim("add", 3.1e-3, place_of("GTX 1080"), bytes=12 * 99_000_000)
    >>> print(Board([claim], []).text())  # doctest: +ELLIPSIS
    The reports:
    1 add, GTX 1080. Impossible: 3.10 ms is 0.84 of the floor. The memory of this card needs
      at least 3.71 ms. Look first for: unequal work.
    ...
    """

    claims: Sequence[Claim]
    replays: Sequence[Replay]
    places: Sequence[Place] = ()

    def show(self) -> Board | None:
        """Show it: as text in a terminal, as a drawing and two lists in a notebook and on a page."""
        if displays_html():
            return self
        print(self.text())
        return None

    def text(self) -> str:
        """Claims and mistakes for a terminal."""
        lines = []
        for head, items in self.lists():
            lines.append(f"{head}:")
            lines += [f"{term}. {said}" for term, said in items]
        return "\n".join(textwrap.fill(line, 88, subsequent_indent="  ") for line in lines)

    def lists(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """What is said of each claim and of each mistake, under two heads."""
        claims = [
            (f"{number} {claim.name}, {claim.place.name}", f"{claim.sentence} {look_for(claim)}")
            for number, claim in enumerate(self.claims, 1)
        ]
        mistakes = [
            (
                f"{letter} {replay.title}: {share(replay.ratio)} the true time",
                f"{MISTAKES[replay.mistake].test} Does a Bench catch it? {MISTAKES[replay.mistake].caught}",
            )
            for letter, replay in zip(LETTERS, self.replays, strict=False)
        ]
        return [("The reports", claims), ("The mistakes, measured in this run on the toy queue", mistakes)]

    def data(self) -> dict[str, object]:
        """What the page's script needs: rules, places and claims as plain data."""
        places = {place.name: place for place in (*map(place_of, cards()), *self.places)}
        places |= {claim.place.name: claim.place for claim in self.claims}
        return {
            **rules(),
            "places": {name: asdict(place) for name, place in places.items()},
            "claims": [
                {"name": c.name, "place": c.place.name, "bytes": c.bytes, "seconds": c.seconds, "flops": c.flops}
                for c in self.claims
            ],
            "axis": {"width": WIDTH, "y": AXIS, "left": LEFT, "right": RIGHT, "least": LEAST, "most": MOST},
        }

    def svg(self) -> str:
        """The axis, with the red zone, numbers for the claims above it and letters for the mistakes below."""
        ticks = "".join(
            f'<path d="M{at(LEAST * 10**place):.1f} {AXIS}v6" stroke="currentColor"/>'
            f'<text x="{at(LEAST * 10**place):.1f}" y="226" text-anchor="middle">{text}</text>'
            for place, text in enumerate(TICKS)
        )
        floor = at(1)
        zone = f'x="{LEFT - 12}" y="20" width="{floor - LEFT + 12:.1f}" height="190"'
        return (
            '<svg viewBox="0 0 400 252" role="img" font-size="14" fill="currentColor" '
            f'aria-label="{escape(self.in_words())}" '
            'style="max-width:35rem;width:100%;height:auto;display:block;overflow:visible">'
            f'{RED}<rect {zone} fill="#c0392b" fill-opacity="0.13"/><rect {zone} fill="url(#fl-red)"/>'
            f'<path d="M{floor:.1f} 14V212" stroke="#c0392b" stroke-width="2.5"/>'
            f'<text x="{floor - 6:.1f}" y="13" text-anchor="end">faster than the floor</text>'
            f'<text x="{floor + 8:.1f}" y="13">slower</text>'
            f'<path d="M{LEFT - 12} {AXIS}H{RIGHT + 12}" stroke="currentColor" stroke-width="1.5"/>'
            f'{ticks}<text x="{(LEFT + RIGHT) / 2}" y="248" text-anchor="middle">reported time ÷ floor</text>'
            + marks([c.ratio for c in self.claims], "123456789", AXIS - 31, -22, "report")
            + marks([r.ratio for r in self.replays], LETTERS, AXIS + 31, 22, "mistake")
            + '<g class="fl-mine" visibility="hidden"><circle r="26" fill="transparent"/>'
            '<path d="M0 -13L13 0L0 13L-13 0Z" fill="#2f7ed8" stroke="#ffffff" stroke-width="2.5"/></g></svg>'
        )

    def in_words(self) -> str:
        """The drawing for those who do not see it."""
        said = [f"report {number}, {times(claim.ratio)}" for number, claim in enumerate(self.claims, 1)]
        said += [f"mistake {letter}, {times(r.ratio)}" for letter, r in zip(LETTERS, self.replays, strict=False)]
        return f"An axis of time over floor; what is below 1 lies in a red zone. {'; '.join(said)}."

    def _repr_html_(self) -> str:
        lists = "".join(
            f"<p><strong>{escape(head)}</strong></p><dl>"
            + "".join(f"<dt>{escape(term)}</dt><dd>{escape(said)}</dd>" for term, said in items)
            + "</dl>"
            for head, items in self.lists()
        )
        return (
            f'<div class="fl-possible" data-possible="{escape(json.dumps(self.data()))}">{self.svg()}'
            '<p class="fl-small">Numbers above the line: the reports. Letters below it: where each mistake, as it was '
            "measured in this run, puts a program that really runs at its floor.</p>"
            f"<details open><summary>All reports and mistakes in words</summary>{lists}</details></div>"
        )


def look_for(claim: Claim) -> str:
    """What to suspect first of a claim."""
    return f"Look first for: {MISTAKES[claim.suspects[0]].title}."


def at(ratio: float) -> float:
    """Where a ratio is on the axis; one that lies beyond it is at its end.

    Examples
    --------
    >>> at(1e-9), at(1.0), at(1e9)
    (24.0, 200.0, 376.0)
    """
    part = (math.log10(ratio) - math.log10(LEAST)) / (math.log10(MOST) - math.log10(LEAST))
    return LEFT + min(1.0, max(0.0, part)) * (RIGHT - LEFT)


def marks(ratios: Sequence[float], names: str, y: float, step: float, kind: str) -> str:
    """Named rings at their ratios; one that would cover another moves away from the axis."""
    taken: list[tuple[float, float]] = []
    stems, rings = [], []
    for ratio, name in zip(ratios, names, strict=False):
        x, height = at(ratio), y
        while any(abs(x - other) < 22 and height == level for other, level in taken):
            height += step
        taken.append((x, height))
        stems.append(f'<path d="M{x:.1f} {AXIS}V{height:.1f}" stroke="currentColor" stroke-opacity="0.5"/>')
        rings.append(
            f"<g><title>{kind} {name}: {times(ratio)}</title>"
            f'<circle cx="{x:.1f}" cy="{height:.1f}" r="10" fill="#5b6570"/>'
            f'<text x="{x:.1f}" y="{height + 5:.1f}" text-anchor="middle" font-weight="bold" style="fill:#ffffff">'
            f"{name}</text></g>"
        )
    return "".join(stems + rings)
