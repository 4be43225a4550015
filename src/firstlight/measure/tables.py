"""Numbers written with the unit that fits them."""

from __future__ import annotations

import math

from firstlight.widgets import NONE


def quantity(value: float | None, unit: str, digits: int = 3) -> str:
    """Return a number with three significant digits and the prefix that fits.

    Examples
    --------
    >>> quantity(0.01234, "s"), quantity(4.9e12, "B/s"), quantity(None, "s")
    ('12.3 ms', '4.90 TB/s', '–')
    """
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0:
        return f"0 {unit}"
    prefixes = {-9: "n", -6: "µ", -3: "m", 0: ""} if unit == "s" else {0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
    # Rounding first: 999.9 µs is 1.00 ms, not 1000 µs.
    value = float(f"{value:.{digits - 1}e}")
    power = 3 * math.floor(math.log10(abs(value)) / 3 + 1e-12)
    power = min(max(power, min(prefixes)), max(prefixes))
    scaled = value / 10.0**power
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(scaled)) + 1e-12))
    return f"{scaled:.{decimals}f} {prefixes[power]}{unit}"


def percent(fraction: float | None) -> str:
    """Return a fraction as a percentage with one or two significant digits.

    Examples
    --------
    >>> percent(0.873), percent(0.004)
    ('87%', '0.4%')
    """
    if fraction is None or not math.isfinite(fraction):
        return NONE
    return f"{100 * fraction:.0f}%" if fraction >= 0.00995 or fraction == 0 else f"{100 * fraction:.1g}%"
