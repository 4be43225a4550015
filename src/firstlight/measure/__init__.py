"""Measuring: how long a call takes, and whether the hardware could have done it so fast."""

from firstlight.measure.bench import Bench
from firstlight.measure.timing import Timing, measure

__all__ = ["Bench", "Timing", "measure"]
