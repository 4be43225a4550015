"""The package behind the First Light tutorials. Importing it loads no library: it is instant and never fails."""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
