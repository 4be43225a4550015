"""Constants of nature and of observing."""

import math

#: One second of arc, in radians.
ARCSEC = math.pi / 180 / 3600
#: The speed of light, in metres a second.
LIGHT_SPEED = 299_792_458.0
#: An hour of sidereal time, in seconds of our clocks.
SIDEREAL_HOUR = 86164.0905 / 24

_SMALL_FIELDS = ((1e-3, 1e6, "µas"), (0.1, 1e3, "mas"))  # narrower than so many arcsec


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
