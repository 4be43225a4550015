"""Write CUDA kernels in Python and run them anywhere; importing this package alone imports nothing else."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
