"""Constants of nature and of observing."""

import math

#: One second of arc, in radians.
ARCSEC = math.pi / 180 / 3600
#: The speed of light, in metres a second.
LIGHT_SPEED = 299_792_458.0
#: An hour of sidereal time, in seconds of our clocks.
SIDEREAL_HOUR = 86164.0905 / 24
