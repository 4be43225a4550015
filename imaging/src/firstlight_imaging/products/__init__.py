"""What a user takes home: FITS images, pictures and the report."""

from firstlight_imaging._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
