from .devices import best_device
from .timing.bench import Bench

__version__: str
__all__ = ["Bench", "best_device"]
