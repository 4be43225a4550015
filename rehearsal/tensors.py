"""Tensors that say they are on a GPU, and keep their values in a CPU tensor; what PyTorch does with them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import streams
import torch
from cards import CARDS, Card
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_iter, tree_map_only

CARD: Card = CARDS["h100"]
SIZED = {"empty", "zeros", "ones", "full", "rand", "randn", "empty_strided"}
# What takes a tensor of the host beside one of a GPU.
MIXED = {"copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_", "is_same_size", "set_",
         "lift_fresh", "_amp_update_scale_", "masked_fill_", "_has_compatible_shallow_copy_type"}  # fmt: skip
NO_SCALARS = {"mm", "addmm", "bmm", "mv", "addmv", "dot", "cat", "stack", "convolution", "gather", "scatter"}
SCALARS = {"_local_scalar_dense", "is_nonzero", "equal", "allclose"}  # what comes out is no tensor
WAITS = SCALARS | {"nonzero", "masked_select", "_unique2", "unique_dim", "bincount", "repeat_interleave"}
NO_PINNING = "Need to provide pin_memory allocator to use pin memory."
PINNED: set[int] = set()


class Memory:
    """What a device's allocator says."""

    def __init__(self) -> None:
        self.allocated = self.peak = self.reserved = 0

    def take(self, nbytes: int) -> None:
        self.check(nbytes)
        self.allocated += nbytes
        self.peak, self.reserved = max(self.peak, self.allocated), max(self.reserved, self.least_reserved)

    @property
    def least_reserved(self) -> int:
        return -(-self.allocated // 2**21) * 2**21

    @property
    def free(self) -> int:
        return CARD.memory - 2**29 - self.reserved

    def check(self, nbytes: int) -> None:
        if nbytes > (rest := CARD.memory - 2**29 - self.allocated):
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {nbytes / 2**30:.2f} GiB. GPU 0 has a total capacity of "
                f"{CARD.memory / 2**30:.2f} GiB of which {rest / 2**30:.2f} GiB is free."
            )


MEMORY = [Memory(), Memory()]


class Token:
    """Keeps count of a storage's bytes for as long as a tensor uses it."""

    uses: dict[int, list[int]] = {}

    def __init__(self, inner: torch.Tensor, index: int) -> None:
        self.key, self.index = key_of(inner), index
        if self.key not in self.uses:
            nbytes = -(-inner.untyped_storage().nbytes() // 512) * 512
            MEMORY[index].take(nbytes)
            self.uses[self.key] = [0, nbytes]
        self.uses[self.key][0] += 1

    def __del__(self) -> None:
        if entry := self.uses.get(getattr(self, "key", 0)):
            entry[0] -= 1
            if not entry[0]:
                MEMORY[self.index].allocated -= self.uses.pop(self.key)[1]
                streams.WRITTEN.pop(self.key, None)


def key_of(inner: torch.Tensor) -> int:
    """Name a memory."""
    return int(inner.untyped_storage()._cdata)


class OnCard(torch.Tensor):
    """A tensor on a GPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor, index: int) -> OnCard:
        if CARD.kind == "mps" and inner.dtype in (torch.float64, torch.complex128):
            kind = str(inner.dtype)[6:]
            raise TypeError(
                f"Cannot convert a MPS Tensor to {kind} dtype as the MPS framework doesn't support {kind}. "
                "Please use float32 instead."
            )
        inner = inner.resolve_conj().resolve_neg()
        self = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            device=torch.device(CARD.kind, index),
        )  # fmt: skip
        self.inner, self.token = inner, Token(inner, index)
        return self

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatch(func, args, kwargs or {})

    def numpy(self, *, force=False):
        if force:
            return self.detach().cpu().numpy()
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def tolist(self):
        streams.implicit_wait(self.device.index)
        return self.inner.tolist()

    def data_ptr(self):
        return self.inner.data_ptr()

    def untyped_storage(self):
        return self.inner.untyped_storage()

    def record_stream(self, stream):
        pass

    def is_pinned(self, device=None):
        return False

    def pin_memory(self, device=None):
        raise RuntimeError(f"cannot pin 'torch.cuda.{self.dtype}' only dense CPU tensors can be pinned")

    def __dlpack__(self, **kwargs):
        raise NotImplementedError("rehearsal: DLPack of a tensor on a GPU")

    def __repr__(self, **kwargs):
        streams.implicit_wait(self.device.index)
        grad = ", requires_grad=True" * self.requires_grad
        grad = f", grad_fn=<{type(self.grad_fn).__name__}>" if self.grad_fn else grad
        return f"{str(self.inner)[:-1]}, device='{self.device}'{grad})"

    __str__ = __repr__

    def __format__(self, spec):
        return self.item().__format__(spec) if self.dim() == 0 and spec else repr(self)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            copy = self.detach().clone().requires_grad_(self.requires_grad)
            if getattr(self, "_is_param", False):
                copy._is_param = True
            memo[id(self)] = copy
        return memo[id(self)]


class Mode(TorchDispatchMode):
    """Sees what is made on the GPU and moved to it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return dispatch(func, args, kwargs or {})


def index_of(device: Any = None) -> int:
    """Number a device, or refuse one that is not there."""
    device = torch.device(CARD.kind, device) if isinstance(device, int) else torch.device(device or CARD.kind)
    if device.type != CARD.kind:
        raise ValueError(f"Expected a {CARD.kind} device, but got: {device}")
    index = streams.current_device() if device.index is None else device.index
    if not 0 <= index < CARD.count:
        raise torch.AcceleratorError("CUDA error: invalid device ordinal")
    return index


def dispatch(func, args, kwargs):
    """Run an operator on the CPU; what comes out is on the GPU if what went in was, or it was asked for."""
    flat, _ = tree_flatten((args, kwargs))
    mine = [x for x in flat if isinstance(x, OnCard)]
    asked = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
    to_gpu, pinned = asked is not None and asked.type == CARD.kind, bool(kwargs.get("pin_memory"))
    if not mine and not to_gpu and not pinned:
        return func(*args, **kwargs)
    if func.namespace not in ("aten", "prims", "prim"):  # a custom operator: its Python, with tensors on the GPU
        from torch._library.custom_ops import OPDEFS

        if (known := OPDEFS.get(func._schema.name)) is not None:
            with Mode():  # which is off while it handles a call
                return known._init_fn(*args, **kwargs)
    name = func._schema.name.split("::")[1]
    index = index_of(asked) if to_gpu else where(name, func, flat, mine) if mine else 0
    check_generators(flat, CARD.kind if to_gpu or mine else "cpu")
    if to_gpu and name in SIZED and isinstance(args[0], (list, tuple)):
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        MEMORY[index].check(math.prod(map(int, args[0])) * dtype.itemsize)  # before the host's memory runs out

    bare, named = tree_map_only(OnCard, lambda x: x.inner, (args, kwargs))
    named = named | ({"device": torch.device("cpu")} if to_gpu else {}) | ({"pin_memory": False} if pinned else {})
    if waits(name, args) or copy_waits(name, args, kwargs, asked, mine):
        streams.implicit_wait(index)
    for x in mine:
        if x.device.index != index:
            streams.meet(index, x.device.index)
    changed = list(mutated(func, bare))
    before = [(x, x.clone()) for x in changed] if streams.CUDAGraph.now else []
    out = func(*bare, **named)
    if graph := streams.CUDAGraph.now:
        graph.keep(func, bare, named, out, before)
    if pinned and not mine:
        if CARD.kind == "mps":
            raise RuntimeError(NO_PINNING)
        PINNED.add(out.untyped_storage().data_ptr())
        return out
    if name in SCALARS:
        return out
    position = None
    if not is_view(func):
        written = [key_of(x) for x in (*changed, *tensors(out))]
        position = streams.submit([x.token.key for x in mine], written, index)
    if name == "_to_copy" and asked is not None and not to_gpu:
        if kwargs.get("non_blocking"):
            PINNED.add(out.untyped_storage().data_ptr())
            under_way(out, position)
        return out
    if name == "copy_" and not isinstance(args[0], OnCard):
        if position and is_pinned(args[0]) and non_blocking(args, kwargs):
            under_way(args[0], position)
        return args[0]
    for x in mine:
        if x.shape != x.inner.shape and torch.Tag.inplace_view not in func.tags:
            raise NotImplementedError(f"rehearsal: {func} changed the shape of an argument")
    wrapped = tree_map_only(torch.Tensor, lambda x: OnCard(x, index), out)
    return wrapped if to_gpu and not mine else return_and_correct_aliasing(func, args, kwargs, wrapped)


def where(name: str, func, flat, mine) -> int:
    """Refuse tensors of two devices, as a kernel of PyTorch does; say which device it is."""
    places = {x.device for x in mine}
    hosts = [x for x in flat if isinstance(x, torch.Tensor) and not isinstance(x, OnCard) and x.device.type == "cpu"]
    if name not in MIXED and not name.startswith(("_foreach", "_fused")):
        places |= {x.device for x in hosts if x.dim() or name in NO_SCALARS}
        if len(places) > 1:
            one, two = sorted(map(str, places), reverse=True)[:2]
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {one} and {two}! "
                f"(rehearsal: when calling {func})"
            )
    return mine[0].device.index


def check_generators(flat, kind: str) -> None:
    """Refuse random numbers from elsewhere."""
    for x in flat:
        if isinstance(x, torch._C.Generator) and x.device.type != kind:
            raise RuntimeError(f"Expected a '{kind}' device type for generator but found '{x.device.type}'")


def waits(name: str, args) -> bool:
    """Tell whether the host needs a value to go on."""
    masks = args[1] if name in ("index", "index_put_", "index_put") else ()
    return name in WAITS or any(isinstance(i, torch.Tensor) and i.dtype in (torch.bool, torch.uint8) for i in masks)


def non_blocking(args, kwargs) -> bool:
    return bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))


def copy_waits(name: str, args, kwargs, asked, mine) -> bool:
    """Tell whether a copy between host and GPU is one that the host waits for: it is, unless it is asked not to be."""
    if name == "copy_":
        across = isinstance(args[0], OnCard) != isinstance(args[1], OnCard)
        pageable = not isinstance(args[0], OnCard) and not is_pinned(args[0])  # the driver copies it in between
        return across and (pageable or not non_blocking(args, kwargs))
    leaves_or_comes = name == "_to_copy" and asked is not None and (asked.type == "cpu" or not mine)
    return leaves_or_comes and not kwargs.get("non_blocking")


def is_pinned(tensor: torch.Tensor, device: object = None) -> bool:
    return tensor.untyped_storage().data_ptr() in PINNED


def under_way(tensor: torch.Tensor, position: tuple[int, int]) -> None:
    """Leave numbers in a copy that nobody could mistake for a result, until somebody has waited for it."""
    values = tensor.detach().clone()
    kind = tensor.dtype
    real = kind.is_floating_point or kind.is_complex
    poison = np.nan if real else None if kind == torch.bool else torch.iinfo(kind).max
    with torch.no_grad():
        tensor.logical_not_() if poison is None else tensor.fill_(poison)

    def arrive() -> None:
        with torch.no_grad():
            tensor.copy_(values)

    streams.UNDER_WAY.append((position, arrive))


def mutated(func, args) -> Iterator[torch.Tensor]:
    """Find the tensors that a call writes to."""
    for spec, arg in zip(func._schema.arguments, args, strict=False):
        if spec.alias_info is not None and spec.alias_info.is_write:
            yield from tensors(arg)


def tensors(of) -> Iterator[torch.Tensor]:
    return (x for x in tree_iter(of) if isinstance(x, torch.Tensor))


@cache
def is_view(func) -> bool:
    return any(one.alias_info is not None and not one.alias_info.is_write for one in func._schema.returns)
