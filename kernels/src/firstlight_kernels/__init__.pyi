from .backend import cuda
from .grids import blocks_for
from .launch import LaunchError, simulate, simulated
from .tracing import trace

__version__: str
__all__ = ["LaunchError", "blocks_for", "cuda", "simulate", "simulated", "trace"]
