"""Write CUDA kernels in Python, run them anywhere, and see what they do.

A kernel is a function under ``@cuda.jit``. What runs it depends on what you want to know:

- ``kernel[blocks, threads](...)`` *launches* it: on the GPU, or without one here (``launch``; ``driver`` asks whether
  there is a GPU). All threads then run at once, in NumPy (``lockstep``), or one after the other where that can't be
  (``threads``); arrays on the device are in the host's memory (``host``).
- ``trace(kernel, blocks, threads, ...)`` runs it thread by thread (``executor``), plays warps, shuffles and barriers
  (``intrinsics``) and records each access (``arrays``).
  ``tracing`` finds races, bank conflicts and traffic in the record, ``findings`` words them, ``drawing`` draws.
- ``check_kernels``, a fixture of pytest's, checks every launch of a test (``pytest_plugin``, ``judging``).
- ``ptx.compile(kernel, signature)`` runs nothing: NVIDIA's compiler translates it for any GPU, without one (``ptx``).
- ``puzzles`` are sixteen kernels to write, each judged by what its trace shows.

Importing this package alone imports nothing else.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
