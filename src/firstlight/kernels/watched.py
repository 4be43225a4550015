"""An array that tells of each access to it."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

import numpy as np

from firstlight.kernels.findings import TraceError

#: A kind of access, in the column ``KIND`` of ``Trace.notes``.
LOAD, STORE, ATOMIC = range(3)
KINDS = ("load", "store", "atomic")


@dataclass(frozen=True)
class ArrayOf:
    """An array that a kernel touched: its name, where it lives, and its layout."""

    name: str
    space: str  # "global", "shared", "local"
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    start: int  # bytes from the beginning of the memory that it is a part of

    def index(self, offset: int) -> tuple[int, ...]:
        """Return the element that begins at some byte."""
        rest, found = offset - self.start, [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda axis: -abs(self.strides[axis])):
            if self.strides[axis] and self.shape[axis] > 1:
                found[axis], rest = divmod(rest, self.strides[axis])
        return tuple(found)


class Notes(Protocol):
    """Who is told."""

    arrays: list[ArrayOf]

    def note(self, number: int, offset: int, kind: int, frame: FrameType) -> None:
        """Hear of an access."""

    def leaves(self, watched: Watched, index: tuple[int, ...], kind: int, frame: FrameType) -> None:
        """Hear of an index that an array does not have."""


class Watched:
    """An array that tells of each access; what numba.cuda does with an array in a kernel, this does."""

    def __init__(self, data: np.ndarray, number: int, start: int, run: Notes) -> None:
        self._data, self._number, self._start, self._run = data, number, start, run
        self.shape, self.size, self.ndim = data.shape, data.size, data.ndim
        self.strides, self.dtype, self.itemsize, self.nbytes = data.strides, data.dtype, data.itemsize, data.nbytes

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    @property
    def T(self) -> Watched:
        """The same memory with its axes the other way round."""
        return Watched(self._data.T, self._number, self._start, self._run)

    def __getitem__(self, index: Any) -> Any:
        key = index if isinstance(index, tuple) else (index,)
        if len(key) < self.ndim or slice in map(type, key):
            return self._view(key, sys._getframe(1))
        at = self._touch(key, LOAD, sys._getframe(1))
        return garbage(self.dtype) if at is None else self._data[at]

    def __setitem__(self, index: Any, value: Any) -> None:
        key = index if isinstance(index, tuple) else (index,)
        if len(key) < self.ndim or slice in map(type, key):
            raise TraceError(f"{self._name} has {axes(self.ndim)}: a thread can only write one element of it at a time")
        at = self._touch(key, STORE, sys._getframe(1))
        if at is not None:
            self._data[at] = value

    def change(self, index: Any, new: Callable[[Any], Any], frame: FrameType) -> Any:
        """Replace an element by what a function makes of it, in one piece, and return the old one."""
        key = index if isinstance(index, tuple) else (index,)
        at = self._touch(key, ATOMIC, frame)
        if at is None:
            return garbage(self.dtype)
        old = self._data[at]
        self._data[at] = new(old)
        return old

    @property
    def _name(self) -> str:
        return self._run.arrays[self._number].name

    def _view(self, key: tuple[Any, ...], frame: FrameType) -> Watched:
        if len(key) > self.ndim:
            raise self._indexed_with(len(key))
        whole = []
        for part, length in zip(key, self.shape, strict=False):
            if not isinstance(part, slice):
                part = operator.index(part)
                if not 0 <= part < length:
                    self._run.leaves(self, (part,), LOAD, frame)
                    part %= max(length, 1)
            whole.append(part)
        view = self._data[tuple(whole)]
        start = self._start + address(view) - address(self._data) if view.size else self._start
        return Watched(view, self._number, start, self._run)

    def _indexed_with(self, count: int) -> TraceError:
        return TraceError(f"{self._name} has {axes(self.ndim)} and is indexed with {count}")

    def _touch(self, key: tuple[Any, ...], kind: int, frame: FrameType) -> tuple[int, ...] | None:
        if len(key) != self.ndim:
            raise self._indexed_with(len(key))
        at = tuple(map(operator.index, key))
        if min(at, default=0) < 0 or not all(map(operator.lt, at, self.shape)):
            self._run.leaves(self, at, kind, frame)
            if any(not -n <= i < n for i, n in zip(at, self.shape, strict=True)):
                return None
            at = tuple(i % n for i, n in zip(at, self.shape, strict=True))
        offset = self._start + sum(map(operator.mul, at, self.strides))
        self._run.note(self._number, offset, kind, frame)
        return at


def axes(count: int) -> str:
    """Write a number of axes."""
    return f"{count} axis" if count == 1 else f"{count} axes"


def address(data: np.ndarray) -> int:
    """Where an array's first element is."""
    return int(data.__array_interface__["data"][0])


def garbage(dtype: np.dtype) -> Any:
    """What a thread finds outside of an array: nothing that could be mistaken for a result."""
    if dtype.kind in "fc":
        return dtype.type(np.nan)
    return dtype.type(np.iinfo(dtype).max) if dtype.kind in "iu" else dtype.type(0)
