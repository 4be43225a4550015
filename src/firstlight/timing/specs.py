"""What makers say of their cards, and others of overheads: all numbers that the site did not measure, in specs.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from firstlight.display import quantity

GIB = 2**30
RATES = ("fp32", "fp64", "fp64_matrix", "tf32", "bf16", "fp16", "fp8")
UNITS = {"bandwidth": "B/s", **dict.fromkeys(RATES, "FLOP/s"), "memory": "B", "size": "B", "seconds": "s"}


@dataclass(frozen=True)
class Spec:
    """A card or a slot as its maker's paper describes it; None where the paper does not say it without doubt.

    Examples
    --------
    >>> Spec("the paper", bandwidth=320e9).text("bandwidth")
    '320 GB/s'
    """

    source: str
    bandwidth: float | None = None
    memory: float | None = None
    size: float | None = None  # of registers or a cache
    cache_at_most: float | None = None
    fp32: float | None = None
    fp64: float | None = None
    fp64_matrix: float | None = None
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    fp8: float | None = None
    clock: float | None = None  # at which fp32 holds
    matrix_clock: float | None = None  # at which the rates of matrix units hold, if it's another
    slot: str | None = None  # which joins it to the CPU's memory
    shares_memory: bool = False  # with the CPU: nothing has to be sent
    driver_names: Sequence[str] = ()
    seconds: float | None = None

    def value(self, what: str) -> float:
        """Return a value; a ValueError lists what the source gives.

        Examples
        --------
        >>> Spec("the paper", bandwidth=320e9).value("bandwidth")
        320000000000.0
        """
        given = {name: float(value) for name in UNITS if (value := getattr(self, name)) is not None}
        if what not in given:
            raise ValueError(f"{self.source} gives no {what!r} here; it gives: {', '.join(given)}")
        return given[what]

    def text(self, what: str) -> str:
        """Return a value as a page shows it, with as many digits as the source gives, up to four."""
        value = self.value(what)
        if what == "memory":
            return f"{value / GIB:g} GiB"  # chips have powers of two; makers write GB
        if what == "size":
            return f"{value / 2**20:g} MiB" if value >= 2**20 else f"{value / 2**10:g} KiB"
        number, unit = quantity(value, UNITS[what], digits=4).split(" ")
        return f"{float(number):g} {unit}"


def known() -> dict[str, Spec]:
    """Read the specifications, which say memory and caches in the units of their chips."""
    sheets = tomllib.loads(files("firstlight.timing").joinpath("specs.toml").read_text("utf-8"))
    units = {"memory_gib": ("memory", GIB), "size_kib": ("size", 2**10), "cache_at_most_mib": ("cache_at_most", 2**20)}
    for sheet in sheets.values():
        for key in units.keys() & sheet.keys():
            name, unit = units[key]
            sheet[name] = unit * sheet.pop(key)
    return {name: Spec(**sheet) for name, sheet in sheets.items()}


#: Each card, link and overhead by its name, as its source has it.
#:
#: :meta hide-value:
SPECS = known()


def spec(name: str, what: str) -> float:
    """Return what a card's maker says of it.

    Parameters
    ----------
    name
        The card or slot, such as ``"GTX 1080"``.
    what
        ``"bandwidth"`` in bytes a second, ``"memory"`` or ``"size"`` in bytes, or a rate in operations a second:
        ``"fp32"``, ``"fp64"``, and by the matrix units ``"fp64_matrix"``, ``"tf32"``, ``"bf16"``, ``"fp16"``,
        ``"fp8"``; of an overhead ``"seconds"``.

    Examples
    --------
    >>> spec("GTX 1080", "bandwidth")
    320000000000.0
    """
    return spec_of(name).value(what)


def spec_of(name: str) -> Spec:
    """Return the specification of a card or slot; a ValueError lists those that are known.

    Examples
    --------
    >>> spec_of("L4").text("fp32")
    '30.3 TFLOP/s'
    """
    if name not in SPECS:
        raise ValueError(f"there is no specification of {name!r}; there are: {', '.join(SPECS)}")
    return SPECS[name]
