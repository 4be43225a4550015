"""The arrays that a trace is given, as a launch is: from NumPy, from PyTorch, or from a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from firstlight_kernels.grids import BoundLaunch
from firstlight_kernels.host import DeviceArray
from firstlight_kernels.vectors import like

_ALIGNMENT = 128  # bytes, of an array on a GPU


def rebuilt(make: Callable[[Any, str], Any], value: Any, name: str) -> Any:
    """Return what is made of a value and its name, or of the parts of a tuple, which are named ``xs[0]`` or ``p.x``."""
    if not isinstance(value, tuple):
        return make(value, name)
    fields = getattr(value, "_fields", None)
    names = [f"{name}.{field}" for field in fields] if fields else [f"{name}[{i}]" for i in range(len(value))]
    parts = map(rebuilt, [make] * len(value), value, names)
    return like(value, parts)


def on_host(
    make: Callable[[Any, np.ndarray | None, str], Any], launch: BoundLaunch
) -> tuple[tuple[Any, ...], list[tuple[Any, np.ndarray]]]:
    """Return what is made of arguments, with the elements of those that are arrays, and copies of those on a GPU."""
    given, names, parts = launch.arguments, launch.function.__code__.co_varnames, list[Any]()
    rebuilt(lambda value, _: parts.append(value), given, "")
    away = [value for value in parts if on_a_gpu(value)]
    copies = mirrors_of(away)

    def made(value: Any, name: str) -> Any:
        return make(value, copies[id(value)] if id(value) in copies else host_array(value), name)

    return tuple(map(rebuilt, [made] * len(given), given, names)), [(each, copies[id(each)]) for each in away]


def host_array(value: Any) -> np.ndarray | None:
    """Return an argument's elements as NumPy has them, or None if it is not an array."""
    if isinstance(value, np.ndarray):
        return value if value.ndim else None
    if hasattr(value, "to_device") and hasattr(value, "value"):  # cuda.In, Out, or InOut
        return np.array(value.value) if type(value).__name__ == "In" else np.asarray(value.value)
    if isinstance(value, DeviceArray):
        return value.data
    if hasattr(value, "copy_to_host"):
        return np.asarray(value.copy_to_host())
    if hasattr(value, "__array__") and hasattr(value, "detach"):  # a tensor of PyTorch, on the CPU
        tensor = value.detach()
        stored = tensor.untyped_storage().nbytes() // tensor.element_size()
        whole = np.asarray(tensor.as_strided((stored,), (1,), 0))
        strides = [stride * whole.itemsize for stride in tensor.stride()]
        begin = tensor.storage_offset() * whole.itemsize
        return np.ndarray(tuple(tensor.shape), whole.dtype, whole, begin, strides)
    return None


def on_a_gpu(value: Any) -> bool:
    """Return whether an argument is an array on a GPU that is not empty."""
    return hasattr(value, "copy_to_host") and hasattr(value, "__cuda_array_interface__") and value.size > 0


def mirrors_of(arrays: list[Any]) -> dict[int, np.ndarray]:
    """Return copies of arrays on a GPU, by their ids, which overlap where the arrays do."""
    extents = []
    for each in arrays:
        pointer = each.__cuda_array_interface__["data"][0]
        reach = [(n - 1) * stride for n, stride in zip(each.shape, each.strides, strict=True)]
        low, high = (pointer + sum(step for step in reach if (step > 0) == up) for up in (False, True))
        extents.append((low, high + each.dtype.itemsize, pointer))
    memory: dict[int, np.ndarray] = {}
    end = 0
    for low, high, _ in sorted(extents):
        if low >= end or not memory:
            begin = low // _ALIGNMENT * _ALIGNMENT
        end = max(end, high)
        memory[begin] = np.zeros(end - begin, np.uint8)
    copies = {}
    for each, (_, _, pointer) in zip(arrays, extents, strict=True):
        begin = max(begin for begin in memory if begin <= pointer)
        copy: np.ndarray = np.ndarray(each.shape, each.dtype, memory[begin], pointer - begin, each.strides)
        copy[...] = each.copy_to_host()
        copies[id(each)] = copy
    return copies
