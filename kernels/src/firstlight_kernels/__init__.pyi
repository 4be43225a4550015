from .launch import LaunchError, blocks_for, simulate, simulated
from .tracing import trace

__version__: str
__all__ = ["LaunchError", "blocks_for", "simulate", "simulated", "trace"]
