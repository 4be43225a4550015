"""What a card of NVIDIA's can do today: what ``nvidia-smi`` says of it, and which floors that raises, and how far."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from firstlight.display import Table
from firstlight.timing.gpu_state import REASONS
from firstlight.timing.specs import SPECS, Spec, spec

__all__ = ["Seen", "ask", "read"]

# Old and new drivers have two names for what holds the clock; what a driver doesn't know isn't asked again.
HELD = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
FIELDS = (
    "index", "name", "memory.total", "clocks.current.sm", "clocks.max.sm", "clocks.current.memory", "clocks.max.memory",
    "power.limit", "power.default_limit", "ecc.mode.current", "mig.mode.current",
    "pcie.link.gen.max", "pcie.link.gen.current", "pcie.link.width.current", *HELD,
)  # fmt: skip
IN_WSL = "/usr/lib/wsl/lib/nvidia-smi"
# What holds the clock, by its bit in NVML's mask: what slows a card down, and the rest.
HELD_BY = {0x01: "nothing to do", 0x02: "a setting", 0x10: "another card", 0x100: "the display", **REASONS}
# The multiprocessors of a card, and of a slice by its number of g and its eighths: nvidia-smi mig -lgip lists them.
MULTIPROCESSORS = {
    "A100-": (108, {(1, 1): 14, (1, 2): 14, (2, 2): 28, (3, 4): 42, (4, 4): 56, (7, 8): 98}),
    "H100 80GB HBM3": (132, {(1, 1): 16, (1, 2): 26, (2, 2): 32, (3, 4): 60, (4, 4): 64, (7, 8): 132}),
}
LANES = 16
NOT_TOLD = "not told"
AS_EVER = 0.005  # a factor so close to 1 changes no floor
HEAD = ("what", "it says", "what that does to our floors")

Row = tuple[str, str, str]


@dataclass(frozen=True)
class Seen:
    """A card as ``nvidia-smi`` described it: texts by the names of its fields, and its MIG slices.

    Examples
    --------
    >>> seen = Seen({"name": "Tesla T4", "clocks.current.sm": "795 MHz", "clocks.max.sm": "1590 MHz"})
    >>> seen.rows()[0]
    ('clock', '795 of 1590 MHz', 'arithmetic: 2 times as long')
    """

    said: Mapping[str, str]
    slices: tuple[str, ...] = ()

    def number(self, field: str) -> float | None:
        """Return the number of a field, such as 1290.0 for ``1290 MHz``; None for ``[N/A]`` and its like."""
        found = re.match(r"\d+(\.\d+)?", self.said.get(field, ""))
        return float(found[0]) if found else None

    def mode(self, field: str) -> str:
        """Return ``Enabled`` or ``Disabled``, or that it isn't told."""
        said = self.said.get(field, "")
        return said if said in ("Enabled", "Disabled") else NOT_TOLD

    @property
    def name(self) -> str:
        """The driver's name for the card."""
        return self.said["name"]

    @property
    def sheet(self) -> Spec | None:
        """The data sheet of exactly this card, if we have it."""
        short = re.sub(r"^(NVIDIA |Tesla |GeForce )*", "", self.name)
        return SPECS.get(short) or next((of for of in SPECS.values() if short in of.driver_names), None)

    @property
    def held(self) -> list[str] | None:
        """What holds the clock down, in words; None if the driver doesn't say."""
        masks = [said for name in HELD if re.fullmatch("0x[0-9a-fA-F]+", said := self.said.get(name, ""))]
        return [word for bit, word in HELD_BY.items() if int(masks[0], 16) & bit] if masks else None

    @property
    def _is_idle(self) -> bool:
        """Whether it has nothing to do, and saves power."""
        return HELD_BY[1] in (self.held or [])

    def rows(self) -> list[Row]:
        """Return what it says, a line for each: what it is, how it stands, and what that does to our floors."""
        return [*self._clocks(), *self._settings(), *self._slices(), *self._slot(), *self._float64()]

    def table(self) -> Table:
        """Return the rows as a table."""
        return Table(f"GPU {self.said.get('index', '')}".strip() + f": {self.name}", HEAD, self.rows())

    def _clocks(self) -> Iterator[Row]:
        for what, which, floor in (("clock", "sm", "arithmetic"), ("memory's clock", "memory", "memory")):
            now, most = self.number(f"clocks.current.{which}"), self.number(f"clocks.max.{which}")
            usual = self.sheet.clock / 1e6 if self.sheet and self.sheet.clock and which == "sm" else most
            if not (now and most and usual):
                yield what, NOT_TOLD, ""
            elif self._is_idle:
                yield what, f"{now:g} of {most:g} MHz", "none that we know: ask while your program runs"
            else:
                paper = f", {usual:g} on the sheet" if usual != most else ""
                yield (
                    what,
                    f"{now:g} of {most:g} MHz{paper}",
                    longer(floor, usual / now) + self._on_tensor_cores(which, now),
                )
        held = "nothing" if self.held == [] else " and ".join(dict.fromkeys(self.held or [NOT_TOLD]))
        yield "held back by", held, ""

    def _on_tensor_cores(self, which: str, now: float) -> str:
        """Say what a clock means for products of matrices, where the sheet counts these at another one."""
        paper = self.sheet.matrix_clock if self.sheet and which == "sm" else None
        return f"; {longer('TF32 and shorter', paper / 1e6 / now)}" if paper else ""

    def _settings(self) -> Iterator[Row]:
        limit, default = self.number("power.limit"), self.number("power.default_limit")
        if limit and default and limit < default:
            yield "power limit", f"{limit:g} of {default:g} W", "large products lower the clock sooner: measure"
        else:
            yield "power limit", f"{limit:g} W" if limit else NOT_TOLD, ""
        yield "ECC", self.mode("ecc.mode.current"), ""

    def _slices(self) -> Iterator[Row]:
        mode = self.mode("mig.mode.current")
        if not self.slices:
            yield "MIG", mode, "you have a slice: nvidia-smi -L names it" if mode == "Enabled" else ""
        for name in self.slices:
            memory, compute = self.shares(name)
            cores = longer("arithmetic", 1 / compute) if compute else "arithmetic: see nvidia-smi mig -lgip, under SM"
            yield f"slice {name}", f"{memory:.3g} of the memory", f"{longer('memory', 1 / memory)}; {cores}"

    def shares(self, slice_name: str) -> tuple[float, float | None]:
        """Return which part of the memory and of the multiprocessors a MIG slice has; None if we don't know it.

        Memory is given away in eighths. How many multiprocessors a slice has depends on the card.

        Examples
        --------
        >>> Seen({"name": "NVIDIA A100-SXM4-80GB", "memory.total": "81920 MiB"}).shares("3g.40gb")
        (0.5, 0.3888888888888889)
        """
        found = re.match(r"(?:(\d+)c\.)?(\d+)g\.(\d+)gb", slice_name)
        if not found:
            raise ValueError(f"{slice_name!r} is no slice: expected a name such as 1g.10gb")
        part, number, gigabytes = found.groups()
        total = (self.number("memory.total") or 0) / 1024
        eighths = min(max(round(8 * int(gigabytes) / total) if total else int(number), 1), 8)
        whole, slices = next((known for card, known in MULTIPROCESSORS.items() if card in self.name), (1, {}))
        mine = None if part else slices.get((int(number), eighths))
        return eighths / 8, mine / whole if mine else None

    def _slot(self) -> Iterator[Row]:
        # A link slows down, too, while there is nothing to do; one that never got faster is a riser's or a setting's.
        version = (None if self._is_idle else self.number("pcie.link.gen.current")) or self.number("pcie.link.gen.max")
        lanes = self.number("pcie.link.width.current")
        slot, full = f"PCIe {version or 0:g} x{LANES}", self.sheet.slot if self.sheet else None
        if lanes and full and slot in SPECS:
            factor = spec(full, "bandwidth") / spec(slot, "bandwidth") * LANES / lanes
            yield "slot", f"PCIe {version:g} x{lanes:g}", longer("transfers", factor)

    def _float64(self) -> Iterator[Row]:
        if self.sheet and self.sheet.fp32 and self.sheet.fp64:
            times = self.sheet.fp32 / self.sheet.fp64
            where = ", outside the tensor cores" if self.sheet.fp64_matrix else ""
            yield "float64", f"1:{times:.0f} of float32", f"its arithmetic: {times:.0f} times as long{where}"


def longer(what: str, factor: float) -> str:
    """Say how many times as long a floor is as the site's."""
    return f"{what}: as ever" if abs(factor - 1) < AS_EVER else f"{what}: {factor:.3g} times as long"


def read(text: str | bytes) -> list[Seen]:
    """Read what ``nvidia-smi --query-gpu=… --format=csv`` printed and, if it is there, ``nvidia-smi -L``.

    Examples
    --------
    >>> read("name, clocks.max.sm [MHz], mig.mode.current" + chr(10) + "Tesla T4, 1590 MHz, [N/A]")[0].name
    'Tesla T4'
    """
    if isinstance(text, bytes):  # of a file; PowerShell's > writes two bytes a letter
        text = text.decode("utf-16" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", errors="replace")
    lines = [line.strip() for line in text.splitlines()]
    table = [[cell.strip() for cell in line.split(",")] for line in lines if "," in line]
    start = next((at for at, row in enumerate(table) if any(re.match(r"(gpu_)?name\b", cell) for cell in row)), None)
    if start is None or len(table) == start + 1:
        begins = next((line for line in lines if line), "nothing")
        raise ValueError(
            f"no card is described here. It begins with {begins:.60}. Expected: what nvidia-smi --query-gpu=name,… "
            "--format=csv prints, with the line of heads"
        )
    heads = [re.sub(r"^gpu_| \[.*", "", cell) for cell in table[start]]
    cards = [dict(zip(heads, row, strict=True)) for row in table[start + 1 :] if len(row) == len(heads)]
    slices: list[list[str]] = [[] for _ in cards]
    at = 0
    for line in lines:
        if gpu := re.match(r"GPU (\d+):", line):
            at = int(gpu[1])
        elif (found := re.match(r"MIG (\S+) ", line)) and at < len(slices):
            slices[at].append(found[1])
    return [Seen(card, tuple(mine)) for card, mine in zip(cards, slices, strict=True)]


def ask(fields: Sequence[str] = FIELDS) -> str:
    """Return what ``nvidia-smi`` prints here of all cards and their slices; a ValueError says why it doesn't.

    Examples
    --------
    >>> try:
    ...     cards = read(ask())
    ... except ValueError as reason:
    ...     cards = []
    """
    command = shutil.which("nvidia-smi") or IN_WSL
    try:
        said = _output(command, f"--query-gpu={','.join(fields)}", "--format=csv")
        unknown = re.findall(r'Field "([^"]+)" is not a valid field', said)
        if kept := [field for field in fields if field not in unknown] if unknown else []:
            return ask(kept) if len(kept) < len(fields) else said
        return f"{said}\n{_output(command, '-L')}"
    except (OSError, subprocess.TimeoutExpired):
        raise ValueError(
            "there is no nvidia-smi here that answers, so no driver of NVIDIA's; "
            "save what it prints on the computer with the GPU, and give the name of that file"
        ) from None


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30)
    return done.stdout + done.stderr
