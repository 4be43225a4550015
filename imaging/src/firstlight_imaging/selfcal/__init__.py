"""Self-calibration and closure quantities: an image whose antennas have gains that nobody knows."""

from firstlight_imaging._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
