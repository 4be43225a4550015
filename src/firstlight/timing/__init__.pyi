from .bench import Bench
from .measurement import measure
from .result import Timing

__all__ = ["Bench", "Timing", "measure"]
