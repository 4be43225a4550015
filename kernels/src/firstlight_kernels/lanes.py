"""The threads of some blocks, run in lockstep: masks of those that take part, and the memory that they share."""

from __future__ import annotations

from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np

from firstlight_kernels.findings import Dim3, LaunchError, OutOfBoundsError, element_name
from firstlight_kernels.grids import WARP, unravelled
from firstlight_kernels.masked import Unsupported
from firstlight_kernels.promotion import Negative, converted
from firstlight_kernels.vectors import Vector, class_of, is_vector, like

#: Turns that the loops of a kernel may make, all together.
MOST_TURNS = 1_000_000


class Lanes:
    """Where each thread of some blocks is, block by block: arrays with a number for each, which are never changed."""

    def __init__(self, blocks: Dim3, threads: Dim3, first: int, count: int) -> None:
        self.blocks, self.threads, self.first, self.count = blocks, threads, first, count
        self.in_block = prod(threads)
        self.size = count * self.in_block
        self.number, self.block, self.rank, self.lane, self.warp, self.all = _in_blocks(self.in_block, count)

    @cached_property
    def index(self) -> Dim3:
        """The index of each thread in its block; an axis is one number, if it is the same for all."""
        axes = zip(unravelled(np.arange(self.in_block), self.threads), self.threads, strict=True)
        return Dim3._make(np.tile(axis, self.count) if size > 1 else np.int64(0) for axis, size in axes)

    @cached_property
    def block_index(self) -> Dim3:
        """The index of the block of each thread."""
        numbers: Any = unravelled(np.arange(self.first, self.first + self.count), self.blocks)
        axes = (np.repeat(axis, self.in_block) if self.count > 1 else axis[0] for axis in numbers)
        return Dim3._make(axis if size > 1 else np.int64(0) for axis, size in zip(axes, self.blocks, strict=True))

    @cached_property
    def grid_index(self) -> Dim3:
        """The index of each thread in the grid."""
        axes = zip(self.block_index, self.threads, self.index, strict=True)
        return Dim3._make(block * np.int64(size) + own for block, size, own in axes)

    def name_of(self, number: int) -> str:
        """Return how a message names a thread."""
        thread, block = (
            Dim3(*(int(np.broadcast_to(axis, self.size)[number]) for axis in index))
            for index in (self.index, self.block_index)
        )
        return f"thread {thread} of block {block}"


#: The same for launches of the same size.
lanes_of = lru_cache(maxsize=4)(Lanes)


@lru_cache(maxsize=4)
def _in_blocks(in_block: int, count: int) -> tuple[Any, ...]:
    """Return the numbers of threads, and their blocks, ranks, places in their warps, and warps; and a mask of all."""
    number, rank = np.arange(in_block * count), np.tile(np.arange(in_block), count)
    block = np.repeat(np.arange(count), in_block)
    warp = block * -(-in_block // WARP) + rank // WARP
    return number, block, rank, rank % WARP, warp, Mask(np.ones(number.size, np.bool_), number.size)


class Mask:
    """The threads that take part, at least one."""

    __slots__ = ("_numbers", "count", "full", "on")

    def __init__(self, on: np.ndarray, count: int) -> None:
        self.on, self.count, self.full = on, count, count == on.size
        self._numbers: np.ndarray | None = None

    @property
    def numbers(self) -> np.ndarray:
        """Those that take part, by number."""
        if self._numbers is None:
            self._numbers = np.flatnonzero(self.on)
        return self._numbers


def split(mask: Mask, test: Any) -> tuple[Mask | None, Mask | None]:
    """Return those for whom a test is true, and the others."""
    yes = where(mask, test)
    if yes is None or yes is mask:
        return yes, None if yes else mask
    return yes, Mask(mask.on & ~yes.on, mask.count - yes.count)


def where(mask: Mask, test: Any) -> Mask | None:
    """Return those for whom a test is true."""
    if type(test) is not np.ndarray:
        return mask if test else None
    true = test if test.dtype == np.bool_ else test != 0
    if not mask.full:
        true = mask.on & true
    count = int(np.count_nonzero(true))
    return Mask(true, count) if 0 < count < mask.count else mask if count else None


def union(first: Mask | None, second: Mask | None, both: Mask | None = None) -> Mask | None:
    """Return those of two masks, which no thread has in common; the mask of both, if they are all of it."""
    if first is None or second is None:
        found = first or second
        return both if found and both and found.count == both.count else found
    count = first.count + second.count
    return both if both and count == both.count else Mask(first.on | second.on, count)


def broadcast(mask: Mask, value: Any) -> np.ndarray:
    """Return a number for each of those that take part."""
    values: np.ndarray = np.broadcast_to(value, mask.on.size)
    return values if mask.full else values[mask.numbers]


def spread(mask: Mask, values: np.ndarray) -> np.ndarray:
    """Return for each thread the number of one of those that take part, and zero for the others."""
    result = np.zeros(mask.on.size, values.dtype)
    result[mask.numbers] = values
    return result


class Unset:
    """A variable that has no value yet."""


UNSET = Unset()


def merge(mask: Mask, old: Any, new: Any) -> Any:
    """Return the new value of a variable for those that take part, and its old one for the others, in one type."""
    if mask.full or old is UNSET or old is new:
        return new
    if isinstance(new, tuple) and isinstance(old, tuple) and len(new) == len(old):
        return like(new, (merge(mask, *pair) for pair in zip(old, new, strict=True)))
    return select(mask.on, new, old)


def select(test: Any, yes: Any, no: Any) -> Any:
    """Return one of two values, or for each thread that of its own, in one type."""
    if isinstance(yes, tuple) and isinstance(no, tuple) and len(yes) == len(no):
        return like(yes, (select(test, *pair) for pair in zip(yes, no, strict=True)))
    if isinstance(yes, Array) and isinstance(no, Array) and yes.is_the_same_as(no):
        return yes
    if not (_is_number(yes) and _is_number(no)):
        raise Unsupported("a variable that is an array, or nothing, in one branch and something else in the other")
    return np.where(test, yes, no)[()]


def _is_number(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic)


class Array:
    """An array of the kernel's: its data, of which the first axes are indexed by the thread."""

    __slots__ = ("data", "first", "name", "shape", "space", "whole")

    def __init__(self, data: np.ndarray, name: str, space: str, first: tuple[Any, ...] = ()) -> None:
        self.data, self.name, self.space, self.first = data, name, space, first
        self.shape = tuple(map(np.int64, data.shape[len(first) :]))
        self.whole = data

    def part(self, data: np.ndarray, first: tuple[Any, ...] | None = None) -> Array:
        """Return a view."""
        view = Array(data, self.name, self.space, self.first if first is None else first)
        view.whole = self.whole
        return view

    def is_the_same_as(self, other: Array) -> bool:
        """Return whether both are one view of the same data."""
        mine, others = self.data.__array_interface__, other.data.__array_interface__
        same = all(mine[key] == others[key] for key in ("data", "strides", "shape", "typestr"))
        return same and all(one is another for one, another in zip(self.first, other.first, strict=True))


class Memory:
    """What is read and written: arrays, and what they held before the first write to them."""

    def __init__(self) -> None:
        self.before: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.lanes: Lanes
        self._ranges: dict[int, tuple[Any, int, int]] = {}  # of index arrays
        self._inside: dict[tuple[int, int], tuple[Any, Mask, Any]] = {}  # theirs, but 0 for those that take no part

    def start(self, lanes: Lanes) -> None:
        """Go on to other blocks."""
        self.lanes = lanes
        self._ranges.clear()
        self._inside.clear()

    def restore(self) -> None:
        """Put every array back as it was."""
        for data, before in reversed(self.before.values()):
            data[...] = before

    def keep(self, array: Array) -> None:
        """Keep what an array holds before it is written."""
        if array.space == "constant":
            raise LaunchError(f"{array.name} is a constant of the kernel, which none can write: make it an argument")
        if array.space == "global" and id(array.whole) not in self.before:
            self.before[id(array.whole)] = array.whole, array.whole.copy()

    # -- Elements ------------------------------------------------------------------------------------------------------

    def load(self, mask: Mask, array: Any, index: Any) -> Any:
        """Return an element, or a part of an array or a tuple."""
        if type(array) is not Array:
            if isinstance(array, tuple) and isinstance(index, np.integer | slice):
                return array[index]
            raise Unsupported(f"an element of {_kind(array)}")
        key = index if type(index) is tuple else (index,)
        if len(key) != len(array.shape) or array.data.dtype.names or slice in map(type, key):
            return self._view(mask, array, key)
        data, place = _narrowed(array.data, self.place(mask, array, key, "load"))
        return data[place]

    def store(self, mask: Mask, array: Any, index: Any, value: Any) -> None:
        """Write elements: if several threads write to one, that of the last one stays."""
        if type(array) is not Array:
            raise Unsupported(f"a store to {_kind(array)}")
        if isinstance(index, str):
            array, index = array.part(array.data[index]), ()
        key = index if type(index) is tuple else (index,)
        if len(key) < len(array.shape) or slice in map(type, key):
            self._store_part(mask, self._view(mask, array, key), value)
            return
        if is_vector(array.data.dtype) and isinstance(value, Vector) and value.dtype == array.data.dtype:
            for field, part in zip(value.dtype.names or (), value, strict=True):
                self.store(mask, array.part(array.data[field]), index, part)
            return
        if type(value) is Array and not value.shape:
            value = value.data[value.first]  # a record
        if not _is_number(value) or is_vector(array.data.dtype):
            raise Unsupported(f"a store of {_kind(value)}")
        data, place = _narrowed(array.data, self.place(mask, array, key, "store"))
        self.keep(array)
        value = value if data.dtype.names else converted(value, data.dtype)
        many = isinstance(value, np.ndarray)
        if not any(isinstance(each, np.ndarray) for each in place):
            data[place] = value[mask.numbers[-1]] if many else value
        elif mask.full:
            data[place] = value
        else:
            some = tuple(each[mask.numbers] if isinstance(each, np.ndarray) else each for each in place)
            data[some] = value[mask.numbers] if many else value

    def _store_part(self, mask: Mask, part: Array, value: Any) -> None:
        for index in np.ndindex(*map(int, part.shape)):
            key = tuple(map(np.int64, index))
            own = key[len(key) - len(value.shape) :] if type(value) is Array else key
            element = value if _is_number(value) else self.load(mask, value, own if len(own) != 1 else own[0])
            self.store(mask, part, key, element)

    def place(self, mask: Mask, array: Array, key: tuple[Any, ...], kind: str) -> tuple[Any, ...]:
        """Return the index of each thread's element, or raise an error that names a thread that has none."""
        place = list(array.first)
        for at, length in zip(key, array.shape, strict=True):
            if type(at) is not np.ndarray:
                if not isinstance(at, np.integer):
                    raise Unsupported(f"{array.name}[{at!r}]: an index that is no whole number")
                at = at + length if type(at) is Negative and at >= -length else at
                least = most = int(at)
            else:
                known = self._ranges.get(id(at))
                if known is None or known[0] is not at:
                    if at.dtype.kind not in "iu":
                        raise Unsupported(f"{array.name}[{at.dtype}]: an index that is no whole number")
                    known = self._ranges[id(at)] = at, int(at.min()), int(at.max())
                    if len(self._ranges) > 64:
                        self._ranges = {id(at): known}
                _, least, most = known
            if least < 0 or most >= length:
                where = id(at), int(length)
                inside = self._inside.get(where)
                if not inside or inside[0] is not at or inside[1] is not mask:
                    outside = (at < 0) | (at >= length)
                    if np.any(mask.on & outside):
                        self._raise(mask, array, key, kind)
                    if len(self._inside) > 64:
                        self._inside.clear()
                    inside = self._inside[where] = at, mask, np.where(outside, 0, at)
                at = inside[2]
            place.append(at)
        return tuple(place)

    def _raise(self, mask: Mask, array: Array, key: tuple[Any, ...], kind: str) -> None:
        bad = np.zeros_like(mask.on)
        for at, length in zip(key, array.shape, strict=True):
            bad |= (at < 0) | (at >= length)
        who = int(np.flatnonzero(bad & mask.on)[0])
        index = tuple(int(np.broadcast_to(at, self.lanes.size)[who]) for at in key)
        raise OutOfBoundsError(
            f"{self.lanes.name_of(who)}: {kind} of {element_name(array.name, index)}, where the shape is "
            f"{tuple(map(int, array.shape))}"
        )

    def _view(self, mask: Mask, array: Array, key: tuple[Any, ...]) -> Any:
        """Return a part of an array, a record, or a field of one."""
        if isinstance(key[0], str):
            field = array.part(array.data[key[0]])
            return field if field.shape or field.data.dtype.names else self.load(mask, field, ())
        if is_vector(array.data.dtype) and len(key) == len(array.shape) and slice not in map(type, key):
            made = class_of(array.data.dtype)
            return made(self.load(mask, array.part(array.data[field]), key) for field in made.dtype.names or ())
        if len(key) > len(array.shape) or any(part is Ellipsis for part in key):
            raise Unsupported(f"{array.name} has {len(array.shape)} axes and is indexed with {len(key)}")
        data, own, first, axis = array.data, len(array.first), list(array.first), 0
        for part in key:
            if isinstance(part, slice):
                if any(isinstance(each, np.ndarray) for each in (part.start, part.stop, part.step)):
                    data, start = self._windows(mask, part, data, len(first), len(first) + axis)
                    first.append(start)
                else:
                    bounds = (each if each is None else int(each) for each in (part.start, part.stop, part.step))
                    data = data[(*(slice(None),) * (len(first) + axis), slice(*bounds))]
                axis += 1
            else:
                data = np.moveaxis(data, len(first) + axis, len(first))
                line = Array(np.empty(data.shape[len(first)], np.void), array.name, array.space)
                first += self.place(mask, line, (part,), "load")
        if not own and data.ndim > len(first) and all(isinstance(each, np.integer) for each in first):
            return array.part(data[tuple(first)], ())
        return array.part(data, tuple(first))

    @staticmethod
    def _windows(mask: Mask, part: slice, data: np.ndarray, own: int, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """Return all windows of an axis, by an axis more for threads, and where the window of each thread begins."""
        if part.step is not None or part.start is None or part.stop is None:
            raise Unsupported("a slice without one length for all threads")
        start, stop = (np.broadcast_to(each, mask.on.size) for each in (part.start, part.stop))
        length = (stop - start)[mask.numbers]
        inside = (start >= 0) & (stop <= data.shape[axis]) | ~mask.on
        if not inside.all() or length[0] < 1 or np.any(length != length[0]):
            raise Unsupported("a slice without one length for all threads")
        shape, strides, size = data.shape, data.strides, int(length[0])
        shape = *shape[:own], shape[axis] - size + 1, *shape[own:axis], size, *shape[axis + 1 :]
        strides = *strides[:own], strides[axis], *strides[own : axis + 1], *strides[axis + 1 :]
        return np.lib.stride_tricks.as_strided(data, shape, strides), np.where(mask.on, start, 0)


def _narrowed(data: np.ndarray, place: tuple[Any, ...]) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return a view of data, and its indices: NumPy is quicker if it gets first what is one number for all threads."""
    while len(place) > 1 and type(place[-1]) is not np.ndarray:
        data, place = data[..., place[-1]], place[:-1]
    while len(place) > 1 and type(place[0]) is not np.ndarray:
        data, place = data[place[0]], place[1:]
    return data, place


def _kind(value: Any) -> str:
    return "a number" if _is_number(value) else type(value).__name__
