"""Image a sky from its visibilities, in MPoL's vocabulary; importing this package alone imports no library.

`data` reads, checks and averages visibilities, `fourier` transforms them, `model` has the images that are fitted,
`fitting` fits and judges them. `automatic` makes an image of which nothing has to be chosen, `gains` solves those of
antennas, and `selfcal` does both in turn. `joining` makes one set of several executions. `simulate` makes data of known
skies, `products` writes what is found.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
