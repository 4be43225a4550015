# ruff: noqa: ARG002, ARG005, B008 -- what a kernel calls gets the mask first; numbers are immutable
"""Run the whole grid of a kernel at once, in NumPy: each statement for all threads, before the next one.

If several threads store to one element, the last one's value stays, so that a lost update is lost, as on a GPU. But
where a barrier is missing, a thread sees what the others wrote in the line before, which no GPU promises. So a kernel
that runs here is not yet right.
"""

from __future__ import annotations

import builtins
import inspect
import math
from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial, partialmethod
from itertools import count
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from firstlight_kernels.arguments import host_array, rebuilt
from firstlight_kernels.arithmetic import scalar
from firstlight_kernels.arrays import poison
from firstlight_kernels.barriers import Barriers
from firstlight_kernels.compilers import dtype_of, intrinsic_name, is_cuda, is_jitted
from firstlight_kernels.copies import outer_names
from firstlight_kernels.findings import LaunchError, line_of
from firstlight_kernels.functions import OF_CUDA, element_dtype, function_of, of_type
from firstlight_kernels.grids import WARP, BoundLaunch
from firstlight_kernels.intrinsics import _ATOMICS, BLOCK_VOTES, LOADS, MATCHES, SHUFFLES, STORES, VOTES
from firstlight_kernels.lanes import (
    MOST_TURNS,
    UNSET,
    Array,
    Lanes,
    Mask,
    Memory,
    broadcast,
    lanes_of,
    merge,
    select,
    split,
    spread,
    union,
    where,
)  # fmt: skip
from firstlight_kernels.masked import Unsupported, masked_code
from firstlight_kernels.promotion import Rules, converted, operations, truth
from firstlight_kernels.vectors import Vector, class_of, neighbours, vector_dtype

__all__ = ["LaunchError", "Unsupported", "run"]

#: Threads that run at once: more of them need more memory, and are no faster.
_THREADS_AT_ONCE = 2**16
_NUMBERS = (int, float, complex, np.number, np.bool_)


def run(launch: BoundLaunch) -> None:
    """Run a kernel, which writes into its arguments.

    Raises
    ------
    Unsupported
        If this kernel needs its threads one after the other, or a barrier is missed, which is no fault of threads that
        have only returned. The arrays are as they were.
    LaunchError
        If the kernel is wrong; the message names the thread and the line.
    """
    memory, total = Memory(), math.prod(launch.blocks)
    at_once = max(1, _THREADS_AT_ONCE // math.prod(launch.threads))
    if "this_grid" in masked_code(launch.function, is_kernel=True).uses:
        at_once = total  # whose threads wait for each other
    try:
        with np.errstate(all="ignore"):
            for first in range(0, total, at_once):
                lanes = lanes_of(launch.blocks, launch.threads, first, min(at_once, total - first))
                _Run(lanes, memory, launch).start()
    except Unsupported:
        memory.restore()
        raise


class _Run:
    """A run of some blocks: what the kernel's code looks up is here."""

    def __init__(self, lanes: Lanes, memory: Memory, launch: BoundLaunch) -> None:
        self.lanes, self.memory, self.launch, self.rules = lanes, memory, launch, launch.rules
        memory.start(lanes)
        self.barriers = Barriers(lanes)
        self.turns, self.calls, self.call = 0, count(1), 0
        self.codes: set[int] = set()
        self.uses: set[str] = set()
        self.bound: dict[int, Callable[..., Any]] = {}  # functions, by their ids
        self.arrays: dict[object, Array] = {}  # shared and local ones, by where they are made
        self.helpers: dict[str, Any] = _helpers(launch.rules) | {
            "choose__": self.choose, "both__": partial(self.joined, True), "either__": partial(self.joined, False),
            "load__": memory.load, "store__": memory.store, "attribute__": self.attribute, "method__": self.method,
            "elements__": self.elements, "Turns__": partial(Turns, self), "leave__": self.barriers.leave,
        }  # fmt: skip

    def start(self) -> None:
        function = self.launch.function
        named = zip(self.launch.arguments, function.__code__.co_varnames, strict=False)
        given = [self.value(value, name, "global") for value, name in named]
        kernel = self.bind(function, is_kernel=True)
        try:
            kernel(self.lanes.all, *given)
        except (LaunchError, Unsupported) as error:
            line = line_of(error, self.codes)
            if isinstance(error, Unsupported):
                raise error if error.line else Unsupported(error.reason, line) from None
            raise type(error)(f"{error}; {line}") from None
        except Exception as error:
            raise Unsupported(f"{type(error).__name__}: {error}", line_of(error, self.codes)) from error

    # -- Names ---------------------------------------------------------------------------------------------------------

    def bind(self, function: FunctionType, *, is_kernel: bool = False) -> Callable[..., Any]:
        """Return a function for all threads, in which each name means what it means in lockstep."""
        if id(function) in self.bound:
            return self.bound[id(function)]
        masked = masked_code(function, is_kernel=is_kernel)
        names = self.helpers | masked.constants
        copy = FunctionType(masked.code, names, function.__name__, function.__defaults__)
        self.bound[id(function)] = copy if is_kernel else self.as_device_function(copy)
        self.codes.add(id(masked.code))
        self.uses |= masked.uses
        known = outer_names(function)
        for name, (chain, line) in masked.outside.items():
            try:
                root = known[chain[0]] if chain[0] in known else getattr(builtins, chain[0])
                names[name] = self.looked_up(root, chain)
            except Unsupported as error:
                raise Unsupported(error.reason, error.line or line) from None
            except (AttributeError, ValueError) as error:
                raise Unsupported(f"{'.'.join(chain)} is not known: {error}", line) from None
        copy.__defaults__ = tuple(self.value(value, "a default") for value in function.__defaults__ or ())
        return self.bound[id(function)]

    def as_device_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose calls have local arrays of their own."""

        def called(*arguments: Any, **more: Any) -> Any:
            outer, self.call = self.call, next(self.calls)
            try:
                found = function(*arguments, **more)
                return None if found is UNSET else found
            finally:
                self.call = outer

        return called

    def looked_up(self, value: Any, chain: tuple[str, ...]) -> Any:
        """Return what a chain of names means to all threads, given what the first one is."""
        for number, name in enumerate(chain[1:], 1):
            if is_cuda(value) and name not in ("types", "random"):
                dtype = dtype_of(getattr(value, name, None))
                return NumberType(dtype) if dtype is not None else self.intrinsic(".".join(chain[number:]))
            if not isinstance(value, ModuleType) and (
                isinstance(value, np.ndarray | np.generic | tuple) or intrinsic_name(value)
            ):
                value = self.value(value, chain[number - 1])
                for rest in chain[number:]:
                    value = self.attribute(self.lanes.all, value, rest)
                return value
            value = getattr(value, name)
        return self.value(value, chain[-1])

    def intrinsic(self, name: str) -> Any:
        """Return what kernels know as an attribute of ``cuda``."""
        first, _, axis = name.partition(".")
        if first in _OF_LANES:
            value = _OF_LANES[first](self.lanes)
            return getattr(value, axis) if axis else value
        for owner, own in ((self, _OF_RUN), (self.barriers, _OF_BARRIERS), (self.memory, _OF_MEMORY)):
            if name in own:
                return own[name].__get__(owner)
        if name in _PLAIN:
            return _PLAIN[name]
        raise Unsupported(f"cuda.{name}")

    def value(self, value: Any, name: str, space: str = "constant") -> Any:
        """Return what a value from outside is to all threads."""
        if isinstance(value, _NUMBERS):
            return scalar(value)
        if (data := host_array(value)) is not None:
            return self.array(data, name, space)
        if known := _OF_PYTHON.get(id(value)):
            return known
        if function := function_of(value, self.rules):
            return _without_mask(function)
        if isinstance(value, tuple):
            return rebuilt(lambda each, its_name: self.value(each, its_name, space), value, name)
        if value is None or isinstance(value, str):
            return value
        if (dtype := dtype_of(value)) is not None:
            return NumberType(dtype)
        if found := intrinsic_name(value):
            return self.intrinsic(found)
        if is_jitted(value) or inspect.isfunction(getattr(value, "py_func", None)):
            return self.bind(value.py_func)
        raise Unsupported(f"{getattr(value, '__name__', repr(value))} in a kernel")

    def array(self, data: np.ndarray, name: str, space: str) -> Array:
        key = space, id(data)
        if key not in self.arrays:
            self.arrays[key] = Array(np.asarray(data), name, space)  # of no subclass
        return self.arrays[key]

    # -- What each thread chooses --------------------------------------------------------------------------------------

    def choose(self, mask: Mask, test: Any, yes: Any, no: Any) -> Any:
        """Return ``yes if test else no``, where functions are of those who need the value."""
        some, others = split(mask, test)
        if isinstance(yes, FunctionType):
            yes = UNSET if some is None else yes(some)
        if isinstance(no, FunctionType):
            no = UNSET if others is None else no(others)
        if yes is UNSET or no is UNSET:
            return no if yes is UNSET else yes
        if some is None or others is None:
            return select(np.bool_(some is not None), yes, no)
        return select(some.on, yes, no)

    def joined(self, both: bool, mask: Mask, first: Any, second: Any) -> Any:
        """Return ``first and second``, or with ``or``, where the second one may be a function of those who need it."""
        if isinstance(second, FunctionType):
            needed = where(mask, first) if both else split(mask, first)[1]
            if needed is None:
                return first
            second = second(needed)
        if all(isinstance(each, np.ndarray | np.generic) and each.dtype == np.bool_ for each in (first, second)):
            return first & second if both else first | second
        return select(truth(first), *((second, first) if both else (first, second)))

    def turn(self) -> None:
        """Count a turn of a loop, so that none goes on for ever."""
        self.turns += 1
        if self.turns > MOST_TURNS:
            message = f"after {MOST_TURNS:,} turns of loops the kernel still runs"
            if "atomic" in self.uses:  # it may wait for a thread that is not yet as far
                raise Unsupported(message)
            raise LaunchError(f"{message}: either a loop has no end, or there is too much work to simulate")

    # -- Parts of values -----------------------------------------------------------------------------------------------

    def attribute(self, mask: Mask, value: Any, name: str) -> Any:
        if type(value) is Array:
            return self.of_array(mask, value, name)
        if isinstance(value, np.ndarray | np.generic) and name in ("real", "imag"):
            return getattr(value, name)
        if isinstance(value, tuple):
            return getattr(value, name)
        raise Unsupported(f"the attribute {name} of {value!r:.40}")

    def of_array(self, mask: Mask, array: Array, name: str) -> Any:
        if name == "shape":
            return array.shape
        data: Any = array.data
        if name in (data.dtype.names or ()):
            return self.memory.load(mask, array, name)
        if name in ("size", "ndim", "itemsize", "nbytes", "strides"):
            return scalar(getattr(data[(0,) * len(array.first) + (...,)], name))  # of one thread
        if name == "dtype":
            return NumberType(data.dtype)
        if name in ("T", "real", "imag") and not array.first:
            return array.part(getattr(data, name))
        raise Unsupported(f"{array.name}.{name}")

    def method(self, mask: Mask, value: Any, name: str, *given: Any) -> Any:
        """Return what a method of a value returns."""
        if type(value) is Array and not value.first and name in ("ravel", "reshape", "transpose", "view"):
            how = [each.dtype if isinstance(each, NumberType) else each for each in given]
            data = getattr(value.data, name)(*how)
            if np.may_share_memory(data, value.data):
                return value.part(data)
        if value is self.barriers and name == "sync":
            return self.barriers.sync_grid(mask)
        raise Unsupported(f"the method {name}")

    def elements(self, mask: Mask, value: Any) -> tuple[Any, ...]:
        """Return the elements of a tuple or an array, for names to take them."""
        if type(value) is Array:
            return tuple(self.memory.load(mask, value, np.int64(i)) for i in range(value.shape[0]))
        if not isinstance(value, tuple):
            raise Unsupported("a number that is taken apart")
        return value

    # -- Memory --------------------------------------------------------------------------------------------------------

    @cached_property
    def dynamic(self) -> np.ndarray:
        """The shared memory of each block that the launch asks for: NaN, if it holds floats."""
        return np.full((self.lanes.count, self.launch.shared_bytes), 0xFF, np.uint8)

    def own_array(self, space: str, mask: Mask, shape: Any, dtype: Any, site: Any, **_: Any) -> Array:
        """Return an array of each block, or of each thread and call, that nobody has written."""
        lanes, key = self.lanes, (site, None if space == "shared" else self.call)
        if key not in self.arrays:
            sizes, kind = _sizes(shape), self.dtype(dtype)
            owner, count = (lanes.block, lanes.count) if space == "shared" else (lanes.number, lanes.size)
            data = np.full((count, *sizes), poison(kind))
            if space == "shared" and sizes == (0,):
                data = self.dynamic[:, : self.launch.shared_bytes // kind.itemsize * kind.itemsize].view(kind)
                if not data.size:
                    raise Unsupported("a shared array of shape 0 without bytes")
            self.arrays[key] = Array(data, site[0] or "array", "own", (owner,))
        return self.arrays[key]

    def dtype(self, given: Any) -> np.dtype:
        if not isinstance(given, NumberType | str):
            raise Unsupported(f"an array of {given!r:.40}")
        return element_dtype(given, self.rules)

    def atomic(self, name: str, mask: Mask, array: Any, index: Any, *given: Any, unused: bool = False) -> Any:
        """Let threads change elements one after the other, and return what each found."""
        if type(array) is not Array:
            raise Unsupported(f"an atomic operation on {type(array).__name__}")
        self.memory.keep(array)
        if name == "compare_and_swap":  # of the first element
            index, given = np.int64(0), (index, *given)
        place, data = self.place(mask, array, index), array.data
        new = [broadcast(mask, converted(each, data.dtype)) for each in given]
        if self.rules == "mlir" and name in ("max", "min"):
            name = f"nan{name}"
        if (ufunc := _AT.get(name)) and unused:
            (values,) = new
            if data.dtype.kind in "fc" and name in ("max", "min") and not (whole := values == values).all():
                place, values = tuple(each[whole] for each in place), values[whole]
            ufunc.at(data, place, values)
            return None
        found, change = np.empty(mask.count, data.dtype), _ATOMICS[name]
        for number, (at, operands) in enumerate(zip(zip(*place, strict=True), zip(*new, strict=True), strict=True)):
            found[number] = old = data[at]
            data[at] = change(old, *operands)
        return None if unused else spread(mask, found)

    def place(self, mask: Mask, array: Array, index: Any) -> tuple[np.ndarray, ...]:
        """Return the indices of the elements of those that take part."""
        key = index if isinstance(index, tuple) else (index,)
        if len(key) != len(array.shape):
            raise Unsupported(f"{array.name} has {len(array.shape)} axes and is indexed with {len(key)}")
        whole = tuple(converted(each, np.dtype(np.int64)) for each in key)  # here Numba takes floats, too
        place = self.memory.place(mask, array, whole, "atomic")
        return tuple(broadcast(mask, each) for each in place)

    def load_vector(self, mask: Mask, array: Any, index: Any, count: Any, alignment: object = None) -> Vector:
        parts = [self.memory.load(mask, array, each) for each in neighbours(index, int(count))]
        return class_of(vector_dtype(array.data.dtype, len(parts)))(parts)

    def store_vector(self, mask: Mask, array: Any, index: Any, vector: Vector, alignment: object = None) -> None:
        for each, part in zip(neighbours(index, len(vector)), vector, strict=True):
            self.memory.store(mask, array, each, part)

    def grid(self, mask: Mask, ndim: Any) -> Any:
        return self.lanes.grid_index.x if ndim == 1 else self.lanes.grid_index[: int(ndim)]

    def gridsize(self, mask: Mask, ndim: Any) -> Any:
        sizes = tuple(np.int64(b * t) for b, t in zip(self.lanes.blocks, self.lanes.threads, strict=True))
        return sizes[0] if ndim == 1 else sizes[: int(ndim)]


class Turns:
    """The turns of a loop: whether threads take part in the next one, and what is the loop's variable then."""

    def __init__(self, run: _Run, *limits: Any, items: Any = None, last: bool = False) -> None:
        self.run, self.items, self.last = run, items, last
        self.value: Any = None
        self.done: Mask | None = None  # those that have come to the end of the loop
        self.each: Iterator[int] | None = None  # or each thread has limits of its own
        if items is not None:
            self.each = iter(range(length(items)))
        elif any(isinstance(each, np.ndarray) for each in limits):
            start, stop, step = (np.int64(0), *limits, np.int64(1)) if len(limits) == 1 else (*limits, np.int64(1))[:3]
            if isinstance(step, np.ndarray):
                raise Unsupported("a range whose step is not the same for all threads")
            self.ahead, self.stop, self.step = start, stop, step
        elif limits:
            self.each = iter(range(*map(int, limits)))

    def next(self, mask: Mask | None) -> Mask | None:
        """Return those that take part in the next turn of a ``for`` loop."""
        if mask is None:
            return None
        self.run.turn()
        if self.each is None:
            inside, out = split(mask, self.ahead < self.stop if self.step > 0 else self.ahead > self.stop)
            self.end(out)
            self.value, self.ahead = self.ahead, self.ahead + self.step
            return inside
        for number in self.each:
            self.value = np.int64(number) if self.items is None else self.item(mask, self.items, number)
            return mask
        self.end(mask)
        return None

    def item(self, mask: Mask, items: Any, number: int) -> Any:
        if isinstance(items, Together):
            return tuple(self.item(mask, part, number) for part in items.parts)
        if isinstance(items, range):
            return np.int64(items[number])
        return self.run.memory.load(mask, items, np.int64(number))

    def end(self, mask: Mask | None) -> None:
        """Let threads leave the loop, and the kernel if it ends there."""
        self.done = union(self.done, mask)
        if self.last:
            self.run.barriers.leave(mask)

    def turn(self, mask: Mask | None) -> Mask | None:
        """Return those that come to the test of a ``while`` loop."""
        if mask is not None:
            self.run.turn()
        return mask


class Together:
    """What ``enumerate`` and ``zip`` go through at the same time."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


def length(items: Any) -> int:
    """Return how many turns a loop through something makes."""
    if isinstance(items, Together):
        return min(map(length, items.parts))
    if isinstance(items, tuple | range):
        return len(items)
    if type(items) is Array and items.shape:
        return int(items.shape[0])
    raise Unsupported("a loop through something other than a range, a tuple or an array")


@cache
def _helpers(rules: Rules) -> dict[str, Any]:
    """Return what the code calls that is the same in each run."""
    own = {"where": where, "split": split, "union": union, "merge": merge, "unset": UNSET, "slice": slice}
    own |= operations(rules) | {"contains": contains, "negated": negated}
    return {f"{name}__": value for name, value in own.items()}


def contains(value: Any, among: Any) -> Any:
    """Return ``value in among``."""
    if not isinstance(among, tuple):
        raise Unsupported("in, of something that is no tuple")
    found = np.bool_(False)
    for each in among:
        found = found | (value == each)
    return found


def negated(value: Any) -> Any:
    """Return ``not value``."""
    return ~truth(value) if isinstance(value, np.ndarray | np.generic) else np.bool_(not value)


class NumberType:
    """A type in a kernel: it converts numbers, and says what an array holds."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype

    def __call__(self, mask: Mask, *given: Any) -> Any:
        """Return numbers of this type."""
        return of_type(self.dtype, *given)


def _sizes(shape: Any) -> tuple[int, ...]:
    sizes = shape if isinstance(shape, tuple) else (shape,)
    if sizes != (0,) and not all(isinstance(size, np.integer) and size > 0 for size in sizes):
        raise Unsupported("an array whose shape is not the same for all threads, or none")
    return tuple(map(int, sizes))


def _without_mask(function: Callable[..., Any]) -> Callable[..., Any]:
    def result(_: Mask, *given: Any) -> Any:
        if Array in map(type, given):
            raise Unsupported("a function of a whole array")
        return function(*given)

    return result


_AT: dict[str, np.ufunc] = {
    "add": np.add, "sub": np.subtract, "max": np.maximum, "min": np.minimum, "nanmax": np.fmax, "nanmin": np.fmin,
    "and_": np.bitwise_and, "or_": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


#: Where threads are.
_OF_LANES: dict[str, Callable[[Lanes], Any]] = {
    "threadIdx": lambda lanes: lanes.index, "blockIdx": lambda lanes: lanes.block_index,
    "blockDim": lambda lanes: scalar(lanes.threads), "gridDim": lambda lanes: scalar(lanes.blocks),
    "laneid": lambda lanes: lanes.lane, "warpsize": lambda lanes: np.int64(WARP),
}  # fmt: skip
#: What kernels call of ``cuda``, as methods: of a run, its barriers, and its memory.
_OF_RUN: dict[str, Any] = {
    "grid": _Run.grid, "gridsize": _Run.gridsize,
    "shared.array": partialmethod(_Run.own_array, "shared"), "local.array": partialmethod(_Run.own_array, "local"),
    "vector.load": _Run.load_vector, "vector.store": _Run.store_vector, "cg.this_grid": lambda run, mask: run.barriers,
    "lanemask_lt": lambda run, mask: ((1 << run.lanes.lane) - 1).astype(np.uint32),
    **{f"atomic.{name}": partialmethod(_Run.atomic, name) for name in _ATOMICS},
}  # fmt: skip
_OF_BARRIERS: dict[str, Any] = {
    **{name: getattr(Barriers, name) for name in ("syncthreads", "syncwarp", "activemask")},
    **{name: partialmethod(method, name) for names, method in (
        (SHUFFLES, Barriers.shuffle), (VOTES, Barriers.warp_vote), (MATCHES, Barriers.match),
        (BLOCK_VOTES, Barriers.block_vote),
    ) for name in names},
}  # fmt: skip
_OF_MEMORY = dict.fromkeys(LOADS, Memory.load) | dict.fromkeys(STORES, Memory.store)
#: What kernels call of ``cuda`` that needs to know nothing but the mask.
_PLAIN: dict[str, Any] = {
    "const.array_like": lambda mask, array: array,
    "nanosleep": lambda mask, _: None,
    "selp": lambda mask, test, yes, no: select(truth(test), yes, no),
    **dict.fromkeys(("threadfence", "threadfence_block", "threadfence_system"), lambda mask: None),
    "literal_unroll": lambda mask, items: items,
    **{name: _without_mask(function) for name, function in OF_CUDA.items()},
}
#: What Python's own functions do with masks, or with more than numbers.
_OF_PYTHON: dict[int, Any] = {
    id(enumerate): lambda mask, items, start=np.int64(0): Together(
        range(int(start), int(start) + length(items)), items
    ),
    id(len): lambda mask, value: np.int64(length(value)),
    id(tuple): lambda mask, values: values,
    id(zip): lambda mask, *items: Together(*items),
}
