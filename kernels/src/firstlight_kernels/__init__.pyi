from .backend import blocks_for, cuda, simulated
from .tracing import trace

__version__: str
__all__ = ["blocks_for", "cuda", "simulated", "trace"]
