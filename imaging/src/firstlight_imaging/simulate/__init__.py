"""Known skies, and observations of them: antennas, tracks, noise."""

from firstlight_imaging._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
