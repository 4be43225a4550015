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
