from .observation import Track, alma_antennas, channels, observe, uv_track, with_noise
from .skies import Point, Ring, Sky, protoplanetary_disk, sky_image, sky_visibilities

__all__ = [
    "Point",
    "Ring",
    "Sky",
    "Track",
    "alma_antennas",
    "channels",
    "observe",
    "protoplanetary_disk",
    "sky_image",
    "sky_visibilities",
    "uv_track",
    "with_noise",
]
