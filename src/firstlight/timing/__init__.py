"""How long a call takes, and whether the hardware could have done it so fast.

`measurement` times one call, and `result` holds what it found. `ceilings` says what a device can at most do, `roofs`
measures what plain calls reach on it, and `verdicts` says what speaks against a number. `bench` is one experiment with
its table, `figure` its drawing, `specs` the data sheets, and `toy_stream` a queue to learn from without a GPU.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
