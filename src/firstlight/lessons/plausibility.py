"""Whether a reported time can be true, which of six mistakes to suspect first, and what decides it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from firstlight.devices import card
from firstlight.display import quantity
from firstlight.timing.roofs import CACHES, TOLERANCE, ceilings, measured_roof
from firstlight.timing.specs import SPECS, spec_of, spec_value


@dataclass(frozen=True)
class Mistake:
    """A way to time it wrong."""

    title: str
    test: str  # what you can do to find out
    caught: str  # what of `measure` catches it


MISTAKES = {
    "not-waiting": Mistake(
        "not waiting",
        "Double the work. If the time stays the same, the clock stopped before the work was done.",
        "It waits; a number below the floor is flagged.",
    ),
    "first-call": Mistake(
        "timing the first call",
        "Call it again. If the second call is far shorter, you timed a start.",
        "It keeps the first call apart.",
    ),
    "fresh-memory": Mistake(
        "timing the allocation",
        "Write the result into memory that is there already (out=). If the time falls, it was not the work.",
        "Only if you look: the rate is a small part of the roof.",
    ),
    "changing-work": Mistake(
        "work that changes from run to run",
        "Print the time and the result of each run. All of them have to be alike.",
        "No: restore the data before each run.",
    ),
    "not-checked": Mistake(
        "not checking the result",
        "Compare with float64 on the CPU, and count what is not finite.",
        "No: a wrong result takes as long as a right one.",
    ),
    "unequal-work": Mistake(
        "unequal work",
        "Write down for both sides: which card, how many cores, calls and bytes. They have to be the same.",
        "It shows the cores, and compares no rows of two sizes.",
    ),
}

AT_FLOOR = 1.25  # the ratio of time to floor below which a program has reached it
# Below each ratio, what to suspect first, then next: rules of thumb.
SUSPECTS = (
    (0.5, ("not-waiting", "changing-work", "unequal-work")),
    (1 / TOLERANCE, ("unequal-work", "not-waiting")),
    (AT_FLOOR, ("not-checked",)),
    (3.0, ("unequal-work", "fresh-memory")),
    (30.0, ("fresh-memory", "unequal-work")),
    (math.inf, ("first-call", "fresh-memory")),
)
LONG = 2e-3  # seconds; to ask for a few launches takes less, so a longer time is not that of the asking alone
LONG_SUSPECTS = ("changing-work", "not-waiting", "unequal-work")

SENTENCES = {
    "impossible": "Impossible: {seconds} is {ratio} of the floor. The memory of this card needs at least {floor}.",
    "impossible-twice": "Impossible: {seconds} is {ratio} of the floor. In float32 the arithmetic needs {floor}; if it "
    "were free, the memory would still need {memory}.",
    "in-cache": "Perhaps: {seconds} is {ratio} of what memory needs, {floor}. But {bytes} may stay in the cache, which "
    "is faster. Take more data.",
    "above-roof": "Doubtful: {seconds} is {ratio} of the time at the best rate that was measured here, {floor}.",
    "above-float32": "Not in float32: {seconds} is {ratio} of the floor. The arithmetic alone needs {floor}. Matrix "
    "units that round to fewer bits are faster.",
    "at-floor": "Possible, and as good as it gets: {ratio} of the floor, {floor}. No clock can say more.",
    "possible": "Possible: {ratio} times the floor, {floor}.",
}


@dataclass(frozen=True)
class Place:
    """Where something was computed, and the rates that set its floor.

    Examples
    --------
    >>> place_of("GTX 1080").byte_rate
    320000000000.0
    """

    name: str
    byte_rate: float
    flop_rate: float | None = None  # of float32 numbers, without matrix units
    cache: float = 0  # bytes that may never reach memory
    measured: bool = False  # the best of plain calls, which a program may exceed; not what the hardware can at most do


def place_of(name: str) -> Place:
    """Return a card as its maker describes it.

    Examples
    --------
    >>> place_of("GTX 1080").byte_rate
    320000000000.0
    """
    of = spec_of(name)
    return Place(name, spec_value(of, "bandwidth"), of.fp32, of.cache_at_most or 0)


def cards() -> list[str]:
    """Return the cards that there is a specification of; slots are none.

    Examples
    --------
    >>> "H200" in cards(), "PCIe 4 x16" in cards()
    (True, False)
    """
    return [name for name, of in SPECS.items() if of.cache_at_most]


def place_here(device: object) -> Place:
    """Return a device of this machine: with its ceilings where it tells them, else with the roofs measured on it.

    Examples
    --------
    >>> place_here("cpu").byte_rate > 0
    True
    """
    facts = card(str(device))
    limits, roof = ceilings(facts), measured_roof(str(device))
    name = f"{facts.name}, {facts.cores} cores" if facts.kind == "cpu" else facts.name
    measured = limits.byte_rate is None
    flop_rate = roof.flop_rate if measured else limits.float32_rate
    return Place(name, limits.byte_rate or roof.byte_rate, flop_rate, facts.cache_bytes or 0, measured)


@dataclass(frozen=True)
class Claim:
    """Somebody says that something took so long.

    Parameters
    ----------
    name
        What was timed.
    seconds
        How long it is said to have taken.
    place
        Where.
    bytes, flops
        The least that it had to move (each input read once, each result written once) and compute.

    Examples
    --------
    >>> add = Claim("add", 3.1e-3, place_of("GTX 1080"), bytes=12 * 99_000_000)
    >>> add.kind, f"{1e3 * add.floor:.2f} ms", round(add.ratio, 2), add.suspects[0]
    ('impossible', '3.71 ms', 0.84, 'unequal-work')
    """

    name: str
    seconds: float
    place: Place
    bytes: float
    flops: float | None = None

    def __post_init__(self) -> None:
        for name in ("seconds", "bytes", "flops"):
            value = getattr(self, name)
            if (value is not None or name != "flops") and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number; got {value!r}")

    @property
    def memory(self) -> float:
        """The least seconds that the memory needs."""
        return self.bytes / self.place.byte_rate

    @property
    def arithmetic(self) -> float:
        """The least seconds that the arithmetic needs in float32; 0 where nobody says."""
        return self.flops / self.place.flop_rate if self.flops and self.place.flop_rate else 0.0

    @property
    def floor(self) -> float:
        """The least seconds that it can take, as the memory or the arithmetic needs longer."""
        return max(self.memory, self.arithmetic)

    @property
    def ratio(self) -> float:
        """How many times the floor it took."""
        return self.seconds / self.floor

    @property
    def kind(self) -> str:
        """Which of the sentences says it; ``impossible`` only where a maker or a driver tells the rates."""
        most, cached = TOLERANCE * self.seconds, self.bytes < CACHES * self.place.cache
        computes = self.arithmetic > max(self.memory, most)
        if self.floor <= most:
            return "at-floor" if self.ratio < AT_FLOOR else "possible"
        if self.place.measured:
            return "above-roof" if computes or not cached else "in-cache"
        if self.memory > most and not cached:
            return "impossible-twice" if computes else "impossible"
        return "above-float32" if computes else "in-cache"

    @property
    def suspects(self) -> tuple[str, ...]:
        """The mistakes that such a ratio comes from, the likeliest first."""
        if self.ratio < SUSPECTS[0][0] and self.seconds > LONG:
            return LONG_SUSPECTS
        return next(names for limit, names in SUSPECTS if self.ratio < limit)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        return SENTENCES[self.kind].format(
            seconds=quantity(self.seconds, "s"),
            ratio=times(self.ratio),
            floor=quantity(self.floor, "s"),
            memory=quantity(self.memory, "s"),
            bytes=quantity(self.bytes, "B"),
        )


def times(ratio: float) -> str:
    """Return a ratio with two digits.

    Examples
    --------
    >>> times(0.0329), times(1.04), times(2159), times(1e-7)
    ('0.033', '1', '2,200', 'less than 0.001')
    """
    return "less than 0.001" if ratio < 0.001 else f"{float(f'{ratio:.1e}'):,g}" if ratio < 1e5 else "more than 100,000"


def rules() -> dict[str, object]:
    """Return all that a page needs to judge as :class:`Claim` does, as plain data."""
    return {
        "mistakes": {name: asdict(mistake) for name, mistake in MISTAKES.items()},
        "suspects": [[None if limit == math.inf else limit, names] for limit, names in SUSPECTS],
        "long": LONG,
        "longSuspects": LONG_SUSPECTS,
        "sentences": SENTENCES,
        "tolerance": TOLERANCE,
        "atFloor": AT_FLOOR,
        "caches": CACHES,
    }
