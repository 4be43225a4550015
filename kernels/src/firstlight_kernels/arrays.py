"""The arrays of a traced kernel, which record every access to them."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from types import FrameType
from typing import Any

import numpy as np

from firstlight_kernels.arithmetic import NegativeInt64, Undefined, convert, scalar, typed
from firstlight_kernels.findings import TraceError
from firstlight_kernels.vectors import is_vector

#: What both compilers know of whole arrays: functions of the elements, and of the number with which a sum begins.
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda elements, number: reduce(operator.add, elements, number(0)),
    "prod": lambda elements, number: reduce(operator.mul, elements, number(1)),
    "any": lambda elements, _: any(elements),
    "all": lambda elements, _: all(elements),
    "min": lambda elements, _: np.min(list(map(scalar, elements))),  # NaN, if one of them is
    "max": lambda elements, _: np.max(list(map(scalar, elements))),
}
#: The kind of an access, in ``Trace.accesses["kind"]``.
LOAD, STORE, ATOMIC = range(3)
KINDS = ("load", "store", "atomic")
#: What is recorded of an access. Accesses of one array, instruction and kind make one line of the trace's table;
#: the n-th executions of one instruction by the lanes of a warp are one request.
ACCESS = np.dtype(
    [
        ("array", np.int64),
        ("offset", np.int64),  # in bytes
        ("size", np.int64),  # in bytes: of an element, or of a field of it
        ("kind", np.int64),
        ("thread", np.int64),  # in the grid, block by block
        ("instruction", np.int64),
        ("call", np.int64),  # of the device function that the instruction is in
        ("execution", np.int64),  # how often this thread has executed the instruction, so called, before
        ("epoch", np.int64),  # barriers and fences that the thread has passed
        ("clock", np.int64),  # the number, in the trace's clocks, of what it knows of other threads
        ("unwritten", np.int64),  # 1 if it reads shared or local memory that nobody has written
    ]
)


@dataclass(frozen=True)
class ArrayInfo:
    """An array that a kernel uses: its name, its memory space, and its layout."""

    name: str
    space: str  # "global", "constant", "shared", "local"
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    start: int  # bytes from the beginning of the array that it is a part of
    address: int  # of that beginning; made up for shared and local memory

    def index(self, offset: int) -> tuple[int, ...]:
        """Return the index of the element that begins at an offset."""
        rest, found = offset - self.start, [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda axis: -abs(self.strides[axis])):
            if self.strides[axis] and self.shape[axis] > 1:
                found[axis], rest = divmod(rest, self.strides[axis])
        return tuple(found)


class TracedArray:
    """An array, or a record of one, that records each access to it and is used as one of numba.cuda's is."""

    shape: tuple[int, ...]
    dtype: np.dtype
    _data: np.ndarray
    _info: ArrayInfo
    _executor: Any  # which is told of each access

    def __init__(
        self, data: np.ndarray, number: int, start: int, executor: Any, written: np.ndarray | None = None
    ) -> None:
        vars(self).update(
            {name: getattr(data, name) for name in ("shape", "size", "ndim", "strides", "dtype", "itemsize", "nbytes")},
            _data=data,
            _number=number,
            _info=executor.arrays[number],
            _start=start,
            _executor=executor,
            _written=written,  # the bytes of shared or local memory that some thread has written
            _exists=True,  # not so for a row out of bounds
        )

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            yield self._at((i,), sys._getframe(1))

    def __getattr__(self, name: str) -> Any:
        """Return a field, a view of the same memory, or the method that makes one."""
        if name in (self.dtype.names or ()):
            return self._at(name, sys._getframe(1))
        if name in ("T", "real", "imag"):
            return self._part(getattr(self._data, name))
        if name in ("ravel", "reshape", "transpose", "view"):
            return lambda *how: self._part(getattr(self._data, name)(*how))
        if name in REDUCTIONS:
            return lambda: self.reduced(name, sys._getframe(1))
        if name.startswith("__"):
            raise AttributeError(name)
        raise TraceError(f"{self.name}.{name} is not supported by the tracer")

    def reduced(self, name: str, frame: FrameType) -> Any:
        """Return the sum of all elements, or what else a reduction makes of them, one after the other."""
        elements = (typed(self.load(at, frame)) for at in np.ndindex(self.shape))
        found = REDUCTIONS[name](elements, lambda value: typed(self.dtype.type(value)))
        return typed(found if name in ("any", "all") or self._executor.rules == "numba" else convert(found, self.dtype))

    @property
    def name(self) -> str:
        """The name of the array in the kernel."""
        return self._info.name

    def __getitem__(self, index: Any) -> Any:
        return self._at(index, sys._getframe(1))

    def __setitem__(self, index: Any, value: Any) -> None:
        self._put(index, value, sys._getframe(1))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in (self.dtype.names or ()):
            raise TraceError(f"{self.name}.{name} cannot be set: only fields of records can")
        self._put(name, value, sys._getframe(1))

    def _at(self, index: Any, frame: FrameType) -> Any:
        """Return an element, or a part of the array: a view, a record, or a field of one."""
        if isinstance(index, str):
            field = self._part(self._data[index])
            return field if field.ndim or field.dtype.names else typed(field.load((), frame))
        key = index if isinstance(index, tuple) else (index,)
        records = self.dtype.names and not is_vector(self.dtype)
        if records or len(key) < self.ndim or (len(key) == self.ndim and slice in map(type, key)):
            return self._view(key, frame)  # a record, too, is an array, without axes
        return typed(self.load(key, frame))

    def _put(self, index: Any, value: Any, frame: FrameType) -> None:
        """Write an element, a field of a record, or the elements of a part."""
        target = self._part(self._data[index]) if isinstance(index, str) else self
        key: tuple[Any, ...] = () if isinstance(index, str) else index if isinstance(index, tuple) else (index,)
        if len(key) < target.ndim or slice in map(type, key):
            write_elements(lambda element: (element,), [value], [target._view(key, frame)], frame)
        else:
            target.store(key, value, frame)

    def load(self, key: tuple[Any, ...], frame: FrameType) -> Any:
        """Return an element as it is in memory."""
        found = self._access(key, LOAD, frame)
        return poison(self.dtype) if found is None else self._data[found]

    def store(self, key: tuple[Any, ...], value: Any, frame: FrameType) -> None:
        """Write an element."""
        if isinstance(value, TracedArray) and not value.ndim:
            value = value.load((), frame)  # a record
        found = self._access(key, STORE, frame)
        if isinstance(value, Undefined) and self._info.space == "local":
            value = value.value  # as a variable keeps it
        if found is not None:
            self._data[found] = convert(value, self.dtype)

    def update(self, index: Any, new_value: Callable[[Any], Any], frame: FrameType) -> Any:
        """Replace an element by a function of it, atomically, and return the old value."""
        key = tuple(map(int, index if isinstance(index, tuple) else (index,)))  # here Numba takes floats, too
        found = self._access(key, ATOMIC, frame)
        if found is None:
            return typed(poison(self.dtype))
        old = self._data[found]
        self._data[found] = new = new_value(old)
        self._executor.synchronize(self._number, self._offset(found), wrote=new is not old)
        if new == old:  # as where a thread asks for a lock, or looks at a flag, until another one acts
            self._executor.give_way()
        return typed(old)

    def _view(self, key: tuple[Any, ...], frame: FrameType) -> TracedArray:
        checked = []
        for part, length in zip(key, self.shape, strict=False):
            if not isinstance(part, slice):
                part = operator.index(part + length if type(part) is NegativeInt64 else part)
                if not 0 <= part < length:
                    self._executor.record_out_of_bounds(self, (part,), LOAD, frame)
                    if not -length <= part < length:
                        return self._nowhere(key)
                    part %= length
            checked.append(part)
        return self._part(self._data[(*checked, ...)])

    def _nowhere(self, key: tuple[Any, ...]) -> TracedArray:
        """Return a part that is out of bounds: nothing is read from it, and nothing is written."""
        kept = [len(range(*p.indices(n))) for p, n in zip(key, self.shape, strict=False) if isinstance(p, slice)]
        data = np.full((*kept, *self.shape[len(key) :]), poison(self.dtype))
        part = type(self)(data, self._number, self._start, self._executor)
        vars(part)["_exists"] = False
        return part

    def _part(self, view: np.ndarray) -> TracedArray:
        if view.size and not np.may_share_memory(view, self._data):
            raise TraceError(f"{self.name} is not contiguous, so that its elements cannot be taken as in another shape")
        start = self._start + address_of(view) - address_of(self._data) if view.size else self._start
        part = type(self)(view, self._number, start, self._executor, self._written)
        vars(part)["_exists"] = self._exists
        return part

    def _access(self, key: tuple[Any, ...], kind: int, frame: FrameType) -> tuple[int, ...] | None:
        """Record an access, and return the index of the element, or None if there is none."""
        if len(key) != self.ndim:
            raise TraceError(f"{self.name} has {_axes(self.ndim)} and is indexed with {len(key)}")
        if kind != LOAD and self._info.space == "constant":
            raise TraceError(f"{self.name} is a constant of the kernel, which none can write: make it an argument")
        index = tuple(map(operator.index, key))
        if min(index, default=0) < 0:
            index = tuple(
                i + n if type(k) is NegativeInt64 and i >= -n else i
                for k, i, n in zip(key, index, self.shape, strict=True)
            )
        if min(index, default=0) < 0 or not all(map(operator.lt, index, self.shape)):
            self._executor.record_out_of_bounds(self, index, kind, frame)
            if any(not -n <= i < n for i, n in zip(index, self.shape, strict=True)):
                return None
            index = tuple(i % n for i, n in zip(index, self.shape, strict=True))
        if not self._exists:
            return None
        offset, unwritten = self._offset(index), False
        if self._written is not None:
            element = slice(offset, offset + self.itemsize)
            unwritten = kind != STORE and not self._written[element].all()
            if kind != LOAD:
                self._written[element] = True
        self._executor.record_access(self._number, offset, self.itemsize, kind, frame, unwritten)
        return index

    def _offset(self, index: tuple[int, ...]) -> int:
        return int(self._start + sum(map(operator.mul, index, self.strides)))


def write_elements(
    function: Callable[..., tuple[Any, ...]], given: list[Any], written: list[TracedArray], frame: FrameType
) -> None:
    """Write what a function makes of numbers, or of the elements of arrays, into other arrays, element by element."""
    shapes = [each.shape for each in (*given, *written) if isinstance(each, TracedArray)]
    if np.broadcast_shapes(*shapes) != written[0].shape:
        raise TraceError(f"what is written into {written[0].name}, of shape {written[0].shape}, has too many elements")

    def load(operand: Any, index: tuple[int, ...]) -> Any:
        if not isinstance(operand, TracedArray):
            return scalar(operand)
        own = index[len(index) - operand.ndim :]
        index = tuple(i if n > 1 else 0 for i, n in zip(own, operand.shape, strict=True))
        return operand.load(index, frame)

    for index in np.ndindex(written[0].shape):
        results = function(*(load(operand, index) for operand in given))
        for target, result in zip(written, results, strict=True):
            target.store(index, result, frame)


def _axes(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"


def address_of(data: np.ndarray) -> int:
    """Return where the first element of an array is in memory."""
    return int(data.__array_interface__["data"][0])


def poison(dtype: np.dtype) -> Any:
    """Return what memory holds that no thread has written: nothing that could be mistaken for a result."""
    if dtype.kind in "fc":
        return dtype.type(np.nan)
    if dtype.kind == "V":
        return np.full(dtype.itemsize, 0xFF, np.uint8).view(dtype)[0]
    return dtype.type(np.iinfo(dtype).max) if dtype.kind in "iu" else np.zeros((), dtype)[()]
