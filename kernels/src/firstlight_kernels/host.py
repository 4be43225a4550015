"""What a program calls of ``cuda`` around its launches, where there is no GPU: arrays, streams, events.

Everything is in the host's memory, and done when the call returns. What only a GPU can answer, such as
``cuda.get_current_device()``, still raises what the compiler raises without one.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from firstlight_kernels.arrays import poison

_OF_NUMPY = {"shape", "strides", "dtype", "size", "ndim", "nbytes", "itemsize", "flags"}
_VIEWS = {"ravel", "reshape", "transpose", "view"}  # of the same memory


class DeviceArray:
    """An array where a GPU's memory would be: a program copies to it and from it, and only kernels compute with it."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    def __getattr__(self, name: str) -> Any:
        if name in _VIEWS:
            return lambda *how, stream=0, **more: DeviceArray(getattr(self.data, name)(*how, **more))  # noqa: ARG005
        if name == "T":
            return DeviceArray(self.data.T)
        if name not in _OF_NUMPY:
            raise AttributeError(f"an array on a device has no {name}: copy_to_host() returns an array of NumPy's")
        return getattr(self.data, name)

    def copy_to_host(self, ary: np.ndarray | None = None, stream: object = 0) -> np.ndarray:  # noqa: ARG002
        """Return a copy, or fill an array with it."""
        if ary is None:
            return self.data.copy()
        ary[...] = self.data
        return ary

    def copy_to_device(self, ary: Any, stream: object = 0) -> None:  # noqa: ARG002
        """Take over the elements of an array of the same shape."""
        data = ary.data if isinstance(ary, DeviceArray) else np.asarray(ary)
        if data.size != self.data.size:
            raise ValueError(f"an array of shape {data.shape} doesn't fit into one of shape {self.data.shape}")
        self.data[...] = data.reshape(self.data.shape)

    def split(self, section: int, stream: object = 0) -> list[DeviceArray]:  # noqa: ARG002
        """Return the array in parts of so many elements."""
        return [self[begin : begin + section] for begin in range(0, len(self), section)]

    def is_c_contiguous(self) -> bool:
        """Whether the last index counts fastest, without gaps."""
        return self.data.flags.c_contiguous

    def is_f_contiguous(self) -> bool:
        """Whether the first index counts fastest, without gaps."""
        return self.data.flags.f_contiguous

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: Any) -> Any:
        part = self.data[index]
        return DeviceArray(part) if isinstance(part, np.ndarray) else part

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data[index] = value.data if isinstance(value, DeviceArray) else value

    getitem, setitem = __getitem__, __setitem__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.data, dtype) if copy or copy is None else np.asarray(self.data, dtype)

    def __repr__(self) -> str:
        return f"<array on a simulated device, {self.data.dtype}, shape {self.data.shape}>"


def _nothing(*_: object, **__: object) -> None:
    pass


class _Stream:
    """A queue that is always empty."""

    handle = 0
    synchronize = _nothing

    @contextmanager
    def auto_synchronize(self) -> Iterator[_Stream]:
        yield self

    def add_callback(self, callback: Callable[..., object], arg: Any = None) -> None:
        callback(self, 0, arg)

    def __bool__(self) -> bool:
        return True


class _Event:
    """A moment; the time between two is the host's, and says nothing about a GPU."""

    _at = 0.0
    synchronize = wait = _nothing

    def record(self, stream: object = 0) -> None:  # noqa: ARG002
        self._at = time.perf_counter()

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: _Event) -> float:
        return 1e3 * (other._at - self._at)


class _Reduce:
    """A function of all elements, two at a time: ``cuda.reduce`` makes one of a function of two numbers."""

    def __init__(self, functor: Any) -> None:
        self._functor = getattr(functor, "py_func", functor)

    def __call__(self, arr: Any, size: Any = None, res: Any = None, init: Any = 0, stream: object = 0) -> Any:  # noqa: ARG002
        data = arr.data if isinstance(arr, DeviceArray) else np.asarray(arr)
        with np.errstate(all="ignore"):
            result = functools.reduce(self._functor, data[:size], data.dtype.type(init))
        if res is None:
            return data.dtype.type(result)
        res[0] = result
        return None


def _to_device(obj: Any, stream: object = 0, copy: bool = True, to: DeviceArray | None = None) -> DeviceArray:  # noqa: ARG001
    source = obj.data if isinstance(obj, DeviceArray) else np.asarray(obj)
    if to is None:
        # As NumPy's order is kept, and gaps are not.
        return DeviceArray(source.copy(order="F" if source.flags.fnc else "C") if copy else source)
    to.copy_to_device(source)
    return to


def _empty(shape: Any, dtype: Any = np.float64, strides: Any = None, order: Any = "C", **_: object) -> np.ndarray:
    """Return memory that holds nothing which could be mistaken for a result."""
    data: np.ndarray = np.ndarray(shape, dtype, None, 0, strides, order)
    data[...] = poison(data.dtype)
    return data


def _like(array: Any) -> np.ndarray:
    return _empty(array.shape, array.dtype, order="F" if np.asarray(array).flags.fnc else "C")


@contextmanager
def _as_they_are(*arrays: Any, **_: object) -> Iterator[Any]:
    yield arrays[0] if len(arrays) == 1 else arrays


def _as_cuda_array(obj: Any, sync: bool = True) -> DeviceArray:  # noqa: ARG001
    if not isinstance(obj, DeviceArray):
        raise TypeError("*obj* doesn't implement the cuda array interface.")
    return obj


#: What takes the place of the compiler's own names.
HOST_API: dict[str, Any] = {
    "to_device": _to_device,
    "device_array": lambda shape, dtype=np.float64, **how: DeviceArray(_empty(shape, dtype, **how)),
    "device_array_like": lambda ary, **_: DeviceArray(_like(ary)),
    **dict.fromkeys(("pinned_array", "mapped_array", "managed_array"), _empty),
    **dict.fromkeys(("pinned_array_like", "mapped_array_like"), _like),
    **dict.fromkeys(("pinned", "mapped", "defer_cleanup"), _as_they_are),
    **dict.fromkeys(("stream", "default_stream", "legacy_default_stream", "per_thread_default_stream"), _Stream),
    "external_stream": lambda _: _Stream(),
    "event": lambda **_: _Event(),
    "event_elapsed_time": lambda start, end: start.elapsed_time(end),
    **dict.fromkeys(("synchronize", "select_device", "close"), _nothing),
    "reduce": _Reduce,
    "Reduce": _Reduce,
    "as_cuda_array": _as_cuda_array,
    "is_cuda_array": lambda obj: isinstance(obj, DeviceArray),
    "is_available": lambda: False,
}
