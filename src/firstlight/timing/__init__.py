"""Measuring: how long a call takes, and whether the hardware could have done it so fast."""

from firstlight.timing.bench import Bench
from firstlight.timing.measurement import Timing, measure

__all__ = ["Bench", "Timing", "measure"]
