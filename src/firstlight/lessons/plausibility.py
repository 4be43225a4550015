"""Whether a reported time can be true, and which benchmarking mistake to suspect first."""

from __future__ import annotations

import math
import textwrap
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files

from firstlight.devices import card
from firstlight.display import Table, Widget, quantity
from firstlight.lessons.svg import board
from firstlight.timing.ceilings import ceilings, uncached
from firstlight.timing.roofs import measured_roof
from firstlight.timing.specs import SPECS, spec_of
from firstlight.timing.verdicts import TOLERANCE

__all__ = ["MISTAKES", "Board", "Hardware", "Mistake", "ReportedTime", "format_ratio"]


@dataclass(frozen=True)
class Mistake:
    """A benchmarking mistake."""

    title: str
    test: str  # how to find out
    caught: str  # whether a Bench catches it


_WORDS = tomllib.loads(files("firstlight.lessons").joinpath("plausibility.toml").read_text("utf-8"))
_SENTENCES: dict[str, str] = _WORDS["sentences"]
#: The six mistakes by their names.
MISTAKES = {name: Mistake(**words) for name, words in _WORDS["mistakes"].items()}

_AT_FLOOR = 1.25  # below this ratio of time to floor, no program can get much faster
# Below each ratio, what to suspect first, then next: rules of thumb.
_SUSPECTS = (
    (0.5, ("not-waiting", "changing-work", "unequal-work")),
    (1 / TOLERANCE, ("unequal-work", "not-waiting")),
    (_AT_FLOOR, ("not-checked",)),
    (3.0, ("unequal-work", "fresh-memory")),
    (30.0, ("fresh-memory", "unequal-work")),
    (math.inf, ("first-call", "fresh-memory")),
)
_LONGEST_LAUNCH = 2e-3  # seconds; a longer time is not that of a few launches alone
_SUSPECTS_IF_LONGER = ("changing-work", "not-waiting", "unequal-work")


@dataclass(frozen=True)
class Hardware:
    """The rates that set the floor of a computation.

    Parameters
    ----------
    name
        What a table calls it.
    byte_rate
        Bytes that its memory delivers in a second.
    flop_rate
        Operations in a second in float32, without matrix units.
    cache
        Bytes that may stay in the cache.
    measured
        Whether the rates are the best of plain calls, which a program may exceed, and not what a maker states.

    Examples
    --------
    >>> Hardware.from_spec("GTX 1080").byte_rate
    320000000000.0
    """

    name: str
    byte_rate: float
    flop_rate: float | None = None
    cache: float = 0
    measured: bool = False

    @classmethod
    def from_spec(cls, name: str) -> Hardware:
        """Return a card with the rates of its data sheet."""
        sheet = spec_of(name)
        return cls(name, sheet.value("bandwidth"), sheet.fp32, sheet.cache_at_most or 0)

    @classmethod
    def from_device(cls, device: object) -> Hardware:
        """Return a device of this machine with the rates that its driver states, or else with those measured on it.

        Examples
        --------
        >>> Hardware.from_device("cpu").byte_rate > 0
        True
        """
        facts = card(str(device))
        limits, roof = ceilings(facts), measured_roof(str(device))
        name = f"{facts.name}, {facts.cores} cores" if facts.kind == "cpu" else facts.name
        measured = limits.byte_rate is None
        flop_rate = roof.flop_rate if measured else limits.float32_rate
        return cls(name, limits.byte_rate or roof.byte_rate, flop_rate, facts.cache_bytes or 0, measured)


@dataclass(frozen=True)
class ReportedTime:
    """A time that somebody reports.

    Parameters
    ----------
    name
        What was timed.
    seconds
        How long it took, as reported.
    hardware
        Where.
    bytes, flops
        The least that it had to move (each input read once, each result written once) and compute.

    Examples
    --------
    >>> add = ReportedTime("add", 3.1e-3, Hardware.from_spec("GTX 1080"), bytes=12 * 99_000_000)
    >>> add.verdict, f"{1e3 * add.floor:.2f} ms", round(add.ratio, 2), add.suspects[0]
    ('impossible', '3.71 ms', 0.84, 'unequal-work')
    """

    name: str
    seconds: float
    hardware: Hardware
    bytes: float
    flops: float | None = None

    def __post_init__(self) -> None:
        for name in ("seconds", "bytes", "flops"):
            value = getattr(self, name)
            if (value is not None or name != "flops") and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number; got {value!r}")

    @property
    def memory_floor(self) -> float:
        """The least seconds that the memory needs."""
        return self.bytes / self.hardware.byte_rate

    @property
    def arithmetic_floor(self) -> float:
        """The least seconds that the arithmetic needs in float32; 0 where it is unknown."""
        return self.flops / self.hardware.flop_rate if self.flops and self.hardware.flop_rate else 0.0

    @property
    def floor(self) -> float:
        """The larger of the two floors."""
        return max(self.memory_floor, self.arithmetic_floor)

    @property
    def ratio(self) -> float:
        """The reported time divided by the floor."""
        return self.seconds / self.floor

    @property
    def verdict(self) -> str:
        """Whether the time can be true; ``impossible`` only where a maker or a driver states the rates."""
        most, cache = TOLERANCE * self.seconds, self.hardware.cache
        cached = uncached(self.bytes, cache) / self.hardware.byte_rate <= most
        computes = self.arithmetic_floor > max(self.memory_floor, most)
        if self.floor <= most:
            return "at-floor" if self.ratio < _AT_FLOOR else "possible"
        if self.hardware.measured:
            return "above-roof" if computes or not cached else "in-cache"
        if not cached:
            return "impossible-twice" if computes else "impossible"
        return "above-float32" if computes else "in-cache"

    @property
    def suspects(self) -> tuple[str, ...]:
        """The mistakes that such a ratio comes from, the likeliest first."""
        if self.ratio < _SUSPECTS[0][0] and self.seconds > _LONGEST_LAUNCH:
            return _SUSPECTS_IF_LONGER
        return next(names for limit, names in _SUSPECTS if self.ratio < limit)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        return _SENTENCES[self.verdict].format(
            seconds=quantity(self.seconds, "s"),
            ratio=format_ratio(self.ratio),
            floor=quantity(self.floor, "s"),
            memory=quantity(self.memory_floor, "s"),
            bytes=quantity(self.bytes, "B"),
        )


def format_ratio(ratio: float) -> str:
    """Return a ratio with two significant digits.

    Examples
    --------
    >>> format_ratio(0.0329), format_ratio(1.04), format_ratio(2159), format_ratio(1e-7)
    ('0.033', '1', '2,200', 'less than 0.001')
    """
    return "less than 0.001" if ratio < 0.001 else f"{float(f'{ratio:.1e}'):,g}" if ratio < 1e5 else "more than 100,000"


@dataclass(frozen=True)
class Board(Widget):
    """Reported times on an axis of time over floor; on a page, readers put their own number on it.

    Parameters
    ----------
    reports
        What others report.
    hardware
        Devices to choose from besides the cards with a data sheet, such as the reader's own.

    Examples
    --------
    >>> report = ReportedTime("add", 3.1e-3, Hardware.from_spec("GTX 1080"), bytes=12 * 99_000_000)
    >>> print(Board([report]))  # doctest: +ELLIPSIS
    The reports:
    1 add, GTX 1080. Impossible: 3.10 ms is 0.84 of the floor. The memory of this card needs
      at least 3.71 ms. Most likely: unequal work.
    ...
    """

    reports: Sequence[ReportedTime]
    hardware: Iterable[Hardware] = ()

    def __str__(self) -> str:
        lines = (line for head, items in self._lists() for line in (f"{head}:", *map(". ".join, items)))
        return "\n".join(textwrap.fill(line, 88, subsequent_indent="  ") for line in lines)

    def _lists(self) -> list[tuple[str, list[tuple[str, str]]]]:
        reports = [
            (
                f"{number} {report.name}, {report.hardware.name}",
                f"{report.sentence} Most likely: {MISTAKES[report.suspects[0]].title}.",
            )
            for number, report in enumerate(self.reports, 1)
        ]
        mistakes = [
            (f"{letter} {mistake.title}", f"{mistake.test} Does a Bench catch it? {mistake.caught}")
            for letter, mistake in zip("abcdef", MISTAKES.values(), strict=True)
        ]
        return [("The reports", reports), ("The mistakes", mistakes)]

    def _repr_html_(self) -> str:
        cards = (Hardware.from_spec(name) for name, sheet in SPECS.items() if sheet.cache_at_most)  # a slot has none
        reported = (report.hardware for report in self.reports)
        hardware = {one.name: asdict(one) for one in (*cards, *self.hardware, *reported)}
        data = {  # all that the page's script needs to judge as ReportedTime does
            "mistakes": {name: asdict(mistake) for name, mistake in MISTAKES.items()},
            "suspects": [[None if limit == math.inf else limit, names] for limit, names in _SUSPECTS],
            "longestLaunch": _LONGEST_LAUNCH,
            "suspectsIfLonger": _SUSPECTS_IF_LONGER,
            "sentences": _SENTENCES,
            "tolerance": TOLERANCE,
            "atFloor": _AT_FLOOR,
            "hardware": hardware,
            "reports": [{**asdict(report), "hardware": report.hardware.name} for report in self.reports],
        }
        (caption, told), _ = self._lists()
        reports = Table(caption, ("the report", "its verdict"), told).html()
        tests = [(mistake.title, mistake.test) for mistake in MISTAKES.values()]
        mistakes = Table("Six mistakes, and how each of them shows", ("the mistake", "how to find out"), tests).html()
        words = f"<details open><summary>All reports in words</summary>{reports}</details>"
        return board("possible", data, words, mistakes)
