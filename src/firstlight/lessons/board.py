"""Claims and mistakes on one axis, time over floor; on a page the reader puts a number of their own on it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape

from firstlight.display import Widget
from firstlight.lessons.plausibility import MISTAKES, Claim, Place, cards, place_of, rules, times
from firstlight.lessons.replay import Replay
from firstlight.lessons.svg import STATUS_REGION, Axis, board, choice, controls, drawing, hatch, label, slider

AXIS = Axis(least=1e-3, most=1e3, start=24, end=376)  # of ratios
HEIGHT = 124  # at which it lies
RED = "#c0392b"
LETTERS = " Letters below it: where each mistake, as measured in this run, puts a program that runs at its floor."


@dataclass(frozen=True)
class Board(Widget):
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
    >>> from firstlight.lessons.plausibility import place_of
    >>> claim = Claim("add", 3.1e-3, place_of("GTX 1080"), bytes=12 * 99_000_000)
    >>> print(Board([claim], []))  # doctest: +ELLIPSIS
    The reports:
    1 add, GTX 1080. Impossible: 3.10 ms is 0.84 of the floor. The memory of this card needs
      at least 3.71 ms. Most likely: unequal work.
    ...
    """

    claims: Sequence[Claim]
    replays: Sequence[Replay]
    places: Sequence[Place] = ()

    def __str__(self) -> str:
        lines = (line for head, items in self.lists() for line in (f"{head}:", *map(". ".join, items)))
        return "\n".join(textwrap.fill(line, 88, subsequent_indent="  ") for line in lines)

    def lists(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return what is said of each claim and of each mistake, under two heads."""
        claims, mistakes = [], []
        for number, claim in enumerate(self.claims, 1):
            first = MISTAKES[claim.suspects[0]].title
            claims.append((f"{number} {claim.name}, {claim.place.name}", f"{claim.sentence} Most likely: {first}."))
        shares = {replay.mistake: f": {replay.share} the true time" for replay in self.replays}
        for letter, (name, mistake) in zip("abcdef", MISTAKES.items(), strict=True):
            said = f"{mistake.test} Does a Bench catch it? {mistake.caught}"
            mistakes.append((f"{letter} {mistake.title}{shares.get(name, '')}", said))
        head = "The mistakes, measured in this run on the toy queue" if shares else "The mistakes"
        return [("The reports", claims), (head, mistakes)]

    def _repr_html_(self) -> str:
        places = {place.name: place for place in (*map(place_of, cards()), *self.places)}
        places |= {claim.place.name: claim.place for claim in self.claims}
        data = {
            **rules(),
            "places": {name: asdict(place) for name, place in places.items()},
            "claims": [{**asdict(claim), "place": claim.place.name} for claim in self.claims],
            "axis": asdict(AXIS),
        }
        inputs = controls(
            ("Start from", choice("start", ["your own number", *(term for term, _ in self.lists()[0][1])])),
            ("Card", choice("place", places)),
            ("Type it", '<input type="text" name="typed" placeholder="400 MB, 3.1 ms, 2 GFLOP" autocomplete="off">'),
            ("Bytes moved", slider("bytes", 11, 6, 0.01, least=6)),
            ("Time", slider("seconds", 1, 1, 0.01, least=-6)),
            ("Operations", slider("flops", 15, 6, 0.01, least=6)),
        )
        lists = "".join(
            f"<p><strong>{escape(head)}</strong></p><dl>"
            + "".join(f"<dt>{escape(term)}</dt><dd>{escape(said)}</dd>" for term, said in items)
            + "</dl>"
            for head, items in self.lists()
        )
        return board(
            "possible",
            data,
            f"<div hidden>{inputs}</div>",
            self.axis(),
            f'<div hidden>{STATUS_REGION}<div class="fl-chart"></div></div>',
            f'<p class="fl-small">Numbers above the line: the reports.{LETTERS if self.replays else ""}</p>'
            f"<details open><summary>All reports and mistakes in words</summary>{lists}</details>",
        )

    def axis(self) -> str:
        """Return the axis, with the red zone, numbers for the claims above it and letters for the mistakes below."""
        ticks = "".join(
            f'<path d="M{AXIS.at(10**power):.1f} {HEIGHT}v6" stroke="currentColor"/>'
            + label(AXIS.at(10**power), 226, f"1/{10**-power}" if power < 0 else f"{10**power}")
            for power in range(-3, 4)
        )
        floor, left, right = AXIS.at(1), AXIS.start - 12, AXIS.end + 12
        zone = f'x="{left}" y="20" width="{floor - left:.1f}" height="190"'
        words = "; ".join(term for _, items in self.lists() for term, _ in items)
        return drawing(
            400,
            252,
            f"An axis of time over floor; what is below 1 lies in a red zone. {words}.",
            hatch("fl-red", RED),
            f'<rect {zone} fill="{RED}" fill-opacity="0.13"/><rect {zone} fill="url(#fl-red)" fill-opacity="0.5"/>'
            f'<path d="M{floor:.1f} 14V212" stroke="{RED}" stroke-width="2.5"/>',
            label(floor - 6, 13, "faster than the floor", "end"),
            label(floor + 8, 13, "slower", "start"),
            f'<path d="M{left} {HEIGHT}H{right}" stroke="currentColor" stroke-width="1.5"/>{ticks}',
            label((left + right) / 2, 248, "reported time ÷ floor"),
            rings(((claim.ratio, str(number)) for number, claim in enumerate(self.claims, 1)), -1),
            rings(zip((replay.ratio for replay in self.replays), "abcdef", strict=False), 1),
            '<g class="fl-here" visibility="hidden"><circle cy="124" r="26" fill="transparent"/>'
            '<path d="M0 111L13 124L0 137L-13 124Z" fill="#2f7ed8" stroke="#ffffff" stroke-width="2.5"/></g>',
        )


def rings(named: Iterable[tuple[float, str]], side: int) -> str:
    """Return rings at their ratios; one that would cover another moves away from the axis."""
    taken: list[tuple[float, float]] = []
    stems, circles = [], []
    for ratio, name in named:
        x, y = AXIS.at(ratio), HEIGHT + 31 * side
        while any(abs(x - other) < 22 and y == level for other, level in taken):
            y += 22 * side
        taken.append((x, y))
        stems.append(f'<path d="M{x:.1f} {HEIGHT}V{y}" stroke="currentColor" stroke-opacity="0.5"/>')
        circles.append(
            f'<g><title>{name}: {times(ratio)}</title><circle cx="{x:.1f}" cy="{y}" r="10" fill="#5b6570"/>'
            f'<text x="{x:.1f}" y="{y + 5}" text-anchor="middle" font-weight="bold" style="fill:#ffffff">{name}</text>'
            "</g>"
        )
    return "".join(stems + circles)
