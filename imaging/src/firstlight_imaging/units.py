"""Constants of nature and of observing."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: One second of arc, in radians.
ARCSEC = math.pi / 180 / 3600
#: The speed of light, in metres a second.
LIGHT_SPEED = 299_792_458.0
#: An hour of sidereal time, in seconds of our clocks.
SIDEREAL_HOUR = 86164.0905 / 24

_RADIO = 1e7, 2e12  # Hz: what is observed from the ground
_MOST_GHZ = 1000.0  # GHz; a larger number is more likely one of MHz
_SMALL_FIELDS = ((1e-3, 1e6, "µas"), (0.1, 1e3, "mas"))  # narrower than so many arcsec


def as_hertz(frequency: NDArray[Any], *, name: str = "frequencies") -> NDArray[Any]:
    """Return frequencies in Hz, of numbers of Hz or GHz; raise an error for what no radio telescope observes.

    Examples
    --------
    >>> as_hertz(np.array([230.0])), as_hertz(np.array([1.4e9]))
    (array([2.3e+11]), array([1.4e+09]))
    """
    if _RADIO[0] <= 1e9 * frequency.min() and frequency.max() <= _MOST_GHZ:
        return np.asarray(1e9 * frequency)
    check_hertz(frequency, name=name)
    return frequency


def check_hertz(frequency: NDArray[Any], *, name: str = "frequencies") -> None:
    """Raise an error for frequencies that no radio telescope observes, with a guess at their unit.

    Examples
    --------
    >>> check_hertz(np.array([230e9]))
    """
    gigahertz = 1e9 if frequency.max() <= _MOST_GHZ else math.nan
    units = (("Hz", 1.0), ("GHz", gigahertz), ("MHz", 1e6), ("kHz", 1e3))
    with np.errstate(divide="ignore"):
        wavelength = LIGHT_SPEED / frequency
    guesses = {**{unit: factor * frequency for unit, factor in units}, "a wavelength in metres": wavelength}
    fitting = (unit for unit, hertz in guesses.items() if _RADIO[0] <= hertz.min() and hertz.max() <= _RADIO[1])
    if (unit := next(fitting, "")) != "Hz":
        guess = f" (is it {unit}?)" if unit else ""
        raise ValueError(f"{name} must be in Hz, from {_RADIO[0]:g} to {_RADIO[1]:g}; got {frequency.flat[0]:g}{guess}")


def angular_unit(width: float) -> tuple[float, str]:
    """Return how many of the unit that suits a field, so many arcsec wide, are one arcsec, and the name of that unit.

    Examples
    --------
    >>> angular_unit(9.0), angular_unit(0.006)
    ((1.0, 'arcsec'), (1000.0, 'mas'))
    """
    return next(((count, name) for limit, count, name in _SMALL_FIELDS if width < limit), (1.0, "arcsec"))


def angle_text(arcsec: float) -> str:
    """Return an angle in the unit that suits it.

    Examples
    --------
    >>> angle_text(9.0), angle_text(0.0132)
    ('9 arcsec', '13.2 mas')
    """
    count, unit = angular_unit(abs(arcsec))
    return f"{count * arcsec:.3g} {unit}"


def unit_meant(field: float, most: float) -> str:
    """Return a question where a field, too wide in arcsec, would be at most so wide in a smaller unit; else nothing.

    Examples
    --------
    >>> unit_meant(13.0, most=0.1)
    ' (did you mean 13mas?)'
    """
    fitting = (name for _, count, name in reversed(_SMALL_FIELDS) if field / count <= most)
    return next((f" (did you mean {field:g}{name}?)" for name in fitting), "")
