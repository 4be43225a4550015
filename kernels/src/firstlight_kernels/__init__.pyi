from .backend import cuda, simulated
from .grids import blocks_for
from .tracing import trace

__version__: str
__all__ = ["blocks_for", "cuda", "simulated", "trace"]
