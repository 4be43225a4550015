"""From the sky to visibilities and back: transforms, beams, the dirty image, and which grid suits the data."""

from firstlight_imaging._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
