"""Image a sky from its visibilities, in MPoL's vocabulary; importing this package alone imports no library.

`data` reads and averages visibilities, `fourier` transforms them, `model` has the images that are fitted, `fitting`
fits and judges them, `simulate` makes data of known skies, `products` writes what is found.
"""

from firstlight_imaging._lazy import attach

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach(__name__, __file__)
