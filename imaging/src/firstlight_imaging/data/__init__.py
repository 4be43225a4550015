"""Observed visibilities: read from files, checked, weighted, and averaged into cells."""

from firstlight_imaging._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
