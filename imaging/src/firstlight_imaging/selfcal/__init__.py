"""Self-calibration and closure quantities: an image whose antennas have gains that nobody knows."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
