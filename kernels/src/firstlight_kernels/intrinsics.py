"""The ``cuda`` of a traced kernel: thread indices, arrays that record their accesses, barriers, votes, shuffles."""

from __future__ import annotations

import inspect
import operator
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from firstlight_kernels import subset
from firstlight_kernels.arguments import rebuilt
from firstlight_kernels.arithmetic import (
    Int64,
    Undefined,
    as_in_kernels,
    builtins,
    convert,
    scalar,
    through_numpy,
    typed,
    typed_code,
)
from firstlight_kernels.arrays import REDUCTIONS, TracedArray, poison, write_elements
from firstlight_kernels.compilers import dtype_of, imported, intrinsic_name, is_cuda
from firstlight_kernels.copies import empty_copy, fill_copy
from firstlight_kernels.executor import OWN_BLOCK, WHOEVER, Executor, codes_of
from firstlight_kernels.findings import TraceError
from firstlight_kernels.functions import OF_CUDA, element_dtype, of_numpy
from firstlight_kernels.grids import WARP
from firstlight_kernels.vectors import class_of, neighbours, vector_dtype

_ALL_LANES = 0xFFFFFFFF
#: The values of all that wait, and a lane, to what this one gets.
_OfAll = Callable[[dict[int, Any], int], Any]


class TracedCuda:
    """The part of ``numba.cuda`` that a kernel calls, played by an executor."""

    warpsize = WARP

    def __init__(self, executor: Executor, *, shared_may_vary: bool = False) -> None:
        self._executor = executor
        self.translate: Callable[..., Any] = as_in_kernels  # of who takes a part of ``cuda``
        self._shared_may_vary, self._known_shapes = shared_may_vary, set[int]()
        self.blockDim, self.gridDim = typed(executor.threads), typed(executor.blocks)
        self.threadIdx, self.blockIdx = _OwnIndex(executor, "index"), _OwnIndex(executor, "block")
        self.shared = SimpleNamespace(array=partial(self._array, "shared"))
        self.local = SimpleNamespace(array=partial(self._array, "local"))
        self.shared_array, self.local_array = self.shared.array, self.local.array  # as numba-cuda-mlir has them, too
        self.const = SimpleNamespace(array_like=lambda array: array)
        self.vector = SimpleNamespace(load=_load_vector, store=_store_vector)
        self.threadfence = self.threadfence_system = executor.fence
        self.threadfence_block = partial(executor.fence, OWN_BLOCK)
        self.nanosleep = lambda _: executor.give_way()
        self.atomic = SimpleNamespace(**{name: partial(self._atomic, name) for name in _ATOMICS})
        waits: list[tuple[Any, Any]] = [(VOTES, self._vote), (BLOCK_VOTES, self._block_vote)]
        for known, wait in [*waits, (SHUFFLES, self._shuffle), (MATCHES, self._match)]:
            vars(self).update({name: partial(wait, how) for name, how in known.items()})
        vars(self).update(_FUNCTIONS, **dict.fromkeys(LOADS, _load), **dict.fromkeys(STORES, _store))
        self.fp16 = SimpleNamespace(**{name[5:]: each for name, each in _FUNCTIONS.items() if name[:5] == "fp16."})

    def __getattr__(self, name: str) -> Any:
        found = next((getattr(each.cuda, name) for each in imported() if hasattr(each.cuda, name)), None)
        if dtype_of(found) or name in ("libdevice", "random", "types"):
            return self.translate(found, name)  # cuda.float32, cuda.random
        raise TraceError(f"cuda.{name} is not supported by the tracer")

    # -- Indices -------------------------------------------------------------------------------------------------------

    @property
    def laneid(self) -> Any:
        return Int64(self._executor.current.rank % WARP)

    def grid(self, ndim: int) -> Any:
        thread, sizes = self._executor.current, self._executor.threads
        if ndim == 1:
            return Int64(thread.block.x * sizes.x + thread.index.x)
        return tuple(Int64(b * size + t) for b, size, t in zip(thread.block, sizes, thread.index, strict=True))[:ndim]

    def gridsize(self, ndim: int) -> Any:
        sizes = typed(tuple(b * t for b, t in zip(self._executor.blocks, self._executor.threads, strict=True)))
        return sizes[0] if ndim == 1 else sizes[:ndim]

    # -- Memory --------------------------------------------------------------------------------------------------------

    def _array(
        self,
        space: str,
        shape: Any,
        dtype: Any,
        alignment: object = None,  # noqa: ARG002
        alignas: object = None,  # noqa: ARG002 -- numba-cuda-mlir's word for it
    ) -> TracedArray:
        executor, frame = self._executor, sys._getframe(1)
        instruction = executor.instruction(frame)
        if instruction not in self._known_shapes and (space == "local" or not self._shared_may_vary):
            subset.check_shape(frame.f_code, executor.position(frame), of_kernel=frame.f_code is executor.kernel)
            self._known_shapes.add(instruction)
        if space == "shared":
            arrays, owner = executor.shared_arrays, None
        else:  # a call's own
            arrays, owner = executor.current.local_arrays, frame
        if instruction not in arrays or arrays[instruction][0] is not owner:
            data = self._memory(space, shape, element_dtype(dtype, executor.rules))
            assigned = re.match(r"(\w+)\s*(?::[^=]+)?=[^=]", executor.instructions[instruction].text)
            name = assigned[1] if assigned else space
            arrays[instruction] = owner, executor.trace_array(data, name, space, instruction)
        return arrays[instruction][1]

    def _memory(self, space: str, shape: Any, dtype: np.dtype) -> np.ndarray:
        """Return new memory, or of the launch's shared memory as many elements as there are if the shape is 0."""
        if space == "shared" and shape == 0:
            dynamic = self._executor.dynamic_shared
            if len(dynamic) < dtype.itemsize:
                raise TraceError(
                    "a shared array of shape 0 gets its size when the kernel is launched: give the bytes, as in "
                    f"kernel[blocks, threads, 0, {32 * dtype.itemsize}] or trace(…, shared_bytes={32 * dtype.itemsize})"
                )
            return dynamic[: len(dynamic) // dtype.itemsize * dtype.itemsize].view(dtype)
        sizes = shape if isinstance(shape, tuple) else (shape,)
        if not all(isinstance(size, int | np.integer) and size > 0 for size in sizes):
            raise TraceError(f"an array of shape {shape!r}: give whole numbers that are known before the kernel runs")
        return np.full(sizes, poison(dtype))

    def _atomic(self, name: str, target: Any, index: Any, *given: Any) -> Any:
        # numba-cuda-mlir's max and min leave no NaN in memory that meets a number.
        own = f"nan{name}" if self._executor.rules == "mlir" and name in ("max", "min") else name
        if name == "compare_and_swap":  # of the first element
            index, given = 0, (index, *given)
        _check_atomic(name, target)
        values = [convert(each, _traced(target).dtype) for each in given]
        return target.update(index, lambda old: _ATOMICS[own](old, *values), sys._getframe(1))

    # -- Barriers ------------------------------------------------------------------------------------------------------

    def syncthreads(self) -> None:
        self._executor.wait(sys._getframe(1))

    def syncwarp(self, mask: int = _ALL_LANES) -> None:
        self._executor.wait(sys._getframe(1), int(mask))

    def lanemask_lt(self) -> Any:
        return typed(np.uint32((1 << self._executor.current.rank % WARP) - 1))

    def activemask(self) -> Any:
        return self._executor.wait(
            sys._getframe(1), WHOEVER, result_of=lambda values, _: typed(np.uint32(_lanes(values))), orders=False
        )

    def _match(self, found_by: Callable[[int, int], Any], mask: int, value: Any) -> Any:
        def result_of(values: dict[int, Any], lane: int) -> Any:
            bits = {each: scalar(value).tobytes() for each, value in values.items()}
            return found_by(_lanes(each for each in bits if bits[each] == bits[lane]), _lanes(bits))

        return self._executor.wait(sys._getframe(1), int(mask), value=value, result_of=result_of, orders=False)

    def _vote(self, result_of: _OfAll, mask: int, value: Any) -> Any:
        return self._executor.wait(sys._getframe(1), int(mask), value=value, result_of=result_of, orders=False)

    def _block_vote(self, result_of: _OfAll, value: Any) -> Any:
        return self._executor.wait(sys._getframe(1), value=value, result_of=result_of)

    def _shuffle(self, source: Callable[[int, int], int], mask: int, value: Any, by: int) -> Any:
        thread, called = self._executor.current, sys._getframe(1)
        where = self._executor.where(called)

        def result_of(values: dict[int, Any], lane: int) -> Any:
            other = source(lane, int(by))
            if not 0 <= other < WARP or other in values:  # from outside the warp a lane gets its own value
                return typed(values.get(other, value))
            if isinstance(value, Undefined):
                return value
            undefined = poison(scalar(value).dtype)
            if int(mask) >> other & 1:  # it has returned, or does not exist: that was told
                return typed(undefined)
            return Undefined(undefined, lambda: self._executor.record_stranger(thread, other, int(mask), where))

        return self._executor.wait(
            sys._getframe(1),
            int(mask),
            value=value,
            result_of=result_of,
            read_by=lambda lane: source(lane, int(by)),
            orders=False,
        )


SHUFFLES: dict[str, Callable[[int, int], int]] = {
    "shfl_sync": lambda _, lane: lane % WARP,
    "shfl_up_sync": lambda lane, delta: lane - delta,
    "shfl_down_sync": lambda lane, delta: lane + delta,
    "shfl_xor_sync": lambda lane, mask: lane ^ mask,
}
VOTES: dict[str, _OfAll] = {  # of the lanes of a warp
    "all_sync": lambda values, _: all(values.values()),
    "any_sync": lambda values, _: any(values.values()),
    "eq_sync": lambda values, _: len(set(values.values())) == 1,
    "ballot_sync": lambda values, _: _lanes(lane for lane, on in values.items() if on),
}
BLOCK_VOTES: dict[str, _OfAll] = {  # of the threads of a block
    "syncthreads_count": lambda values, _: sum(map(bool, values.values())),
    "syncthreads_and": lambda values, _: int(all(values.values())),
    "syncthreads_or": lambda values, _: int(any(values.values())),
}
MATCHES: dict[str, Callable[[int, int], Any]] = {  # given the lanes that are alike, and all that take part
    "match_any_sync": lambda alike, _: _signed(alike),
    "match_all_sync": lambda alike, every: (_signed(alike if alike == every else 0), typed(alike == every)),
}
#: Cache hints, which change no number.
LOADS, STORES = ("ldca", "ldcg", "ldcs", "ldlu", "ldcv"), ("stcg", "stcs", "stwb", "stwt")


def _load(array: Any, index: Any) -> Any:
    return _traced(array)._at(index, sys._getframe(1))


def _store(array: Any, index: Any, value: Any) -> None:
    _traced(array)._put(index, value, sys._getframe(1))


def _load_vector(array: Any, index: Any, shape: Any, alignment: object = None) -> Any:  # noqa: ARG001
    frame, places = sys._getframe(1), neighbours(index, operator.index(shape))
    made = class_of(vector_dtype(_traced(array).dtype, len(places)))
    return made(typed(array.load(each, frame)) for each in places)


def _store_vector(array: Any, index: Any, vector: Any, alignment: object = None) -> None:  # noqa: ARG001
    for each, part in zip(neighbours(index, len(vector)), vector, strict=True):
        _traced(array).store(each, part, sys._getframe(1))


def _lanes(numbers: Iterable[int]) -> int:
    """Return lanes as a mask."""
    return sum(1 << lane for lane in numbers)


def _signed(lanes: int) -> Any:
    return typed(np.uint32(lanes).view(np.int32))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "selp": lambda condition, a, b: a if condition else b,
    "literal_unroll": lambda items: items,
    **{name: through_numpy(function) for name, function in OF_CUDA.items()},
}
_ATOMICS: dict[str, Callable[..., Any]] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "max": lambda old, value: old if value != value else max(old, value),
    "min": lambda old, value: old if value != value else min(old, value),
    "nanmax": np.fmax,
    "nanmin": np.fmin,
    "and_": lambda old, value: old & value,
    "or_": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "exch": lambda _, value: value,
    "inc": lambda old, value: 0 if old >= value else old + 1,
    "dec": lambda old, value: value if old == 0 or old > value else old - 1,
    **dict.fromkeys(("cas", "compare_and_swap"), lambda old, expected, value: value if old == expected else old),
}


def _ufunc(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return a ufunc for numbers, or for arrays of which the last ones are written."""
    operate = of_numpy(ufunc)

    def result(*operands: Any) -> Any:
        given, written = list(operands[: ufunc.nin]), list(operands[ufunc.nin :])
        if not any(isinstance(each, TracedArray) for each in operands):
            return through_numpy(operate)(*operands)
        if len(written) < ufunc.nout or not all(isinstance(each, TracedArray) for each in written):
            raise TraceError(f"np.{ufunc.__name__} of an array needs an array for its result, as in np.sin(x, out)")
        outputs = (lambda *each: (operate(*each),)) if ufunc.nout == 1 else operate
        return write_elements(outputs, given, written, sys._getframe(1))

    return result


def _reduction(name: str) -> Callable[[Any], Any]:
    def result(array: Any) -> Any:
        if not isinstance(array, TracedArray):
            raise TraceError(f"np.{name} needs an array, and got {type(array).__name__}: {array!r}")
        return array.reduced(name, sys._getframe(1))

    return result


_REDUCTIONS = {id(getattr(np, name)): _reduction(name) for name in REDUCTIONS}


def _traced(target: Any) -> TracedArray:
    """Return the array of an atomic operation."""
    if not isinstance(target, TracedArray):
        raise TraceError(f"an atomic operation needs an array, and got {type(target).__name__}: {target!r}")
    return target


def _check_atomic(name: str, target: Any) -> None:
    """Raise a TraceError if no compiler has an atomic operation for the type of an array."""
    known = ["uint32", "uint64"]
    if name not in ("inc", "dec"):
        known += ["int32", "int64"]
    if name in ("add", "sub", "max", "min", "nanmax", "nanmin"):
        known += ["float32", "float64"]
    if (kind := _traced(target).dtype.name) not in known:
        raise TraceError(f"cuda.atomic.{name} of {kind}: there is one for {', '.join(known)}")


class _OwnIndex:
    """``threadIdx`` or ``blockIdx``: another one in each thread."""

    def __init__(self, executor: Executor, name: str) -> None:
        self._executor, self._name = executor, name

    def __getattr__(self, axis: str) -> Any:
        return Int64(getattr(getattr(self._executor.current, self._name), axis))


class TranslatedModule:
    """A module in a kernel: each thing that the kernel takes from it is translated."""

    def __init__(self, module: ModuleType, translate: Callable[..., Any]) -> None:
        self._module, self._translate = module, translate

    def __getattr__(self, name: str) -> Any:
        found = vars(self)[name] = self._translate(getattr(self._module, name), name)
        return found


def instrument(
    function: FunctionType, traced_cuda: TracedCuda, codes: set[int], made: dict[int, Any] | None = None
) -> FunctionType:
    """Return a copy of a kernel, and of the device functions that it calls, in which ``cuda`` is the traced one."""
    made = {} if made is None else made
    if id(function) in made:
        known: FunctionType = made[id(function)]
        return known
    made[id(function)] = copy = empty_copy(function)  # before what it calls, which may be itself
    copy.__code__, copy.__defaults__ = typed_code(function.__code__), typed(function.__defaults__)
    codes.update(codes_of(copy.__code__))
    subset.check(function.__code__)

    def translate(value: Any, name: str) -> Any:
        if is_cuda(value):
            return traced_cuda
        if called := intrinsic_name(value):
            return operator.attrgetter(called)(traced_cuda)
        if isinstance(value, ModuleType):
            return TranslatedModule(value, translate)
        if isinstance(value, np.ndarray) and value.ndim:
            if id(value) not in made:  # the compiler copies it into the code
                made[id(value)] = traced_cuda._executor.trace_array(value, name, "constant")
            return made[id(value)]
        if inspect.isfunction(called := getattr(value, "py_func", None)):  # under cuda.jit or numba.njit
            return instrument(called, traced_cuda, codes, made)
        if isinstance(value, tuple):
            return rebuilt(translate, value, name)
        if known := _REDUCTIONS.get(id(value)) or subset.of_the_host(value):
            return known
        return _ufunc(value) if isinstance(value, np.ufunc) else as_in_kernels(value)

    traced_cuda.translate = translate
    copy.__globals__.update(builtins() | {name: subset.Refused(why) for name, why in subset.ABSENT.items()})
    fill_copy(copy, function, translate)
    return copy
