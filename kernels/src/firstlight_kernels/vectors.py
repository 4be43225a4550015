"""Vectors of CUDA, such as ``cuda.float32x4``: tuples of up to four numbers of one type, or more of ``cuda.vector``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np


def _part(number: int) -> Any:
    return property(lambda self: tuple(self)[number])


class Vector(tuple[Any, ...]):
    """A vector of numbers, each of which may be one number, or one for each thread."""

    __slots__ = ()
    dtype: np.dtype  # of the class: that of an array's element, whose fields are named by no kernel
    x, y, z, w = map(_part, range(4))

    def _refuse(self, *_: object) -> Any:
        raise TypeError(f"{type(self).__name__} takes no index, no comparison and no sum here: take its x, y, z and w")

    __getitem__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refuse
    __add__ = __radd__ = __mul__ = __rmul__ = _refuse


def vector_dtype(kind: np.dtype, count: int) -> np.dtype:
    """Return the type of an array's element that is a vector."""
    return np.dtype([(f"{number}__", kind) for number in range(count)])


def is_vector(dtype: np.dtype) -> bool:
    """Return whether the elements of an array are vectors."""
    return dtype.names is not None and dtype.names[0] == "0__"


@cache
def class_of(dtype: np.dtype) -> type[Vector]:
    """Return the class of the vectors of a type."""
    return type(f"{dtype[0]}x{len(dtype.names or ())}", (Vector,), {"__slots__": (), "dtype": dtype})


def neighbours(index: Any, count: int) -> list[tuple[Any, ...]]:
    """Return the indices of elements that follow each other, as those of a vector do."""
    *first, last = index if isinstance(index, tuple) else (index,)
    return [(*first, last + number) for number in range(count)]


def like(given: tuple[Any, ...], parts: Iterable[Any]) -> Any:
    """Return a tuple of the kind of another one."""
    return given._make(parts) if hasattr(given, "_make") else type(given)(parts)
