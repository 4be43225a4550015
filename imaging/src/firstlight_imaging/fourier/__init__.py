"""From the sky to visibilities and back: transforms, beams, the dirty image, and which grid suits the data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
