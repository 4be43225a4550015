"""Types of NumPy arrays, and of a function of places east and north that says where emission is allowed."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Real: TypeAlias = NDArray[np.float64]
Complex: TypeAlias = NDArray[np.complex128]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
MaskFunction: TypeAlias = Callable[[Real, Real], Mask]
