"""Constants of nature and of observing."""

import math

#: One second of arc, in radians.
ARCSEC = math.pi / 180 / 3600  # in radians
#: The speed of light, in metres a second.
LIGHT_SPEED = 299_792_458.0  # m/s
SIDEREAL_HOUR = 86164.0905 / 24  # in seconds of our clocks
