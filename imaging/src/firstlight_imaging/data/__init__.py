"""Observed visibilities: read from files, checked, weighted, and averaged into cells."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
