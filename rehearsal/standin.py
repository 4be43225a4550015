"""Play a card that is not there: ``install(CARDS["h100"])`` before PyTorch is used.

A tensor on the card keeps its values in a CPU tensor (`tensors`), its streams know who waited for whom (`streams`), and
Numba's kernels are compiled for the card and run by Python (`driver`). Times mean nothing.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import streams
import tensors
import torch
import torch._dynamo  # it compares signatures with PyTorch's when it is first imported
from cards import CARDS, Card, build
from streams import CUDAGraph, Event, Stream
from tensors import MEMORY, OnCard, index_of
from torch.optim import optimizer


class Generator(torch._C.Generator):
    """A generator of random numbers; the GPU's is a CPU's that says where it belongs."""

    def __new__(cls, device: Any = "cpu") -> Any:
        kind = torch.device(device).type
        return super().__new__(OnCardGenerator if kind == tensors.CARD.kind else torch._C.Generator)


class OnCardGenerator(Generator):
    @property
    def device(self) -> torch.device:
        return torch.device(tensors.CARD.kind, 0)


class Launches:
    """Takes Numba's launches into the order of the streams."""

    @staticmethod
    def submit(run: Any) -> None:
        streams.current_stream().advance()
        if graph := CUDAGraph.now:
            graph.jobs.append(run)
        else:
            run()


class device_context:
    """``torch.cuda.device``."""

    def __init__(self, device: Any) -> None:
        self.index = index_of(device)

    def __enter__(self) -> None:
        self.before = streams.current_device()
        set_device(self.index)

    def __exit__(self, *error: object) -> None:
        set_device(self.before)


def set_device(device: Any) -> None:
    """Make a device the current one, for PyTorch and for Numba."""
    library().set_current(index_of(device))


def library() -> Any:
    return build("device.so", "device.cpp")


def properties(card: Card) -> Any:
    return SimpleNamespace(
        name=card.name, major=card.capability[0], minor=card.capability[1], total_memory=card.memory,
        multi_processor_count=card.multiprocessors, L2_cache_size=card.cache, is_integrated=0, is_multi_gpu_board=0,
        max_threads_per_multi_processor=2048, gcnArchName="gfx942:sramecc+:xnack-" if card.hip else card.name,
        warp_size=64 if card.hip else 32, uuid="8d5c5c1e-0000-0000-0000-000000000000", clock_rate=1_980_000,
        memory_clock_rate=2_619_000, memory_bus_width=5120, shared_memory_per_block=49152,
        regs_per_multiprocessor=65536, shared_memory_per_block_optin=card.shared,
        shared_memory_per_multiprocessor=card.shared + 1024, max_threads_per_block=1024,
    )  # fmt: skip


def replace_in(module: Any, **names: Any) -> None:
    for name, value in names.items():
        setattr(module, name, value)


def memory(device: Any = None) -> Any:
    return MEMORY[index_of(device)]


def empty_cache() -> None:
    for each in MEMORY:
        each.reserved = each.least_reserved


def reset_peak(device: Any = None) -> None:
    memory(device).peak = memory(device).allocated


def set_mode(mode: Any) -> None:
    streams.mode = {0: "default", 1: "warn", 2: "error"}.get(mode, mode)


def play_accelerator(card: Card) -> dict[str, Any]:
    """Give torch.accelerator what the scripts ask of it, and return what torch.cuda has, too."""
    common = dict(
        is_available=lambda: True, device_count=lambda: card.count, synchronize=streams.synchronize,
        empty_cache=empty_cache, current_stream=streams.current_stream, reset_peak_memory_stats=reset_peak,
        memory_allocated=lambda device=None: memory(device).allocated,
        max_memory_allocated=lambda device=None: memory(device).peak,
        memory_reserved=lambda device=None: memory(device).reserved,
    )  # fmt: skip
    replace_in(
        torch.accelerator, **common, current_accelerator=lambda check_available=False: torch.device(card.kind),
        current_device_index=streams.current_device, set_device_index=set_device,
    )  # fmt: skip
    return common


def play_cuda(card: Card) -> None:
    """Give torch.cuda what the scripts ask of it."""
    replace_in(torch.version, cuda=None if card.hip else "13.0", hip=card.hip)
    facts = properties(card)
    archs = ["gfx90a", "gfx942"] if card.hip else ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
    replace_in(
        torch.cuda, **play_accelerator(card), _lazy_init=lambda: None, init=lambda: None, is_initialized=lambda: True,
        current_device=streams.current_device, set_device=set_device, device=device_context,
        get_device_name=lambda device=None: (index_of(device), card.name)[1],
        get_device_capability=lambda device=None: card.capability, get_arch_list=lambda: archs,
        get_device_properties=lambda device=None: (index_of(device), facts)[1],
        manual_seed=lambda seed: None, manual_seed_all=lambda seed: None, Event=Event, Stream=Stream,
        stream=streams.on_stream, graph=streams.graph, CUDAGraph=CUDAGraph,
        mem_get_info=lambda device=None: (memory(device).free, card.memory),
        _sleep=lambda cycles: streams.current_stream().advance(),
        set_sync_debug_mode=set_mode, is_current_stream_capturing=lambda: CUDAGraph.now is not None,
    )  # fmt: skip
    torch.backends.cuda.is_built = lambda: True
    library().play_cuda()


def play_mps(card: Card) -> None:
    """Give torch.mps what the scripts ask of it."""
    play_accelerator(card)
    replace_in(torch.backends.mps, is_available=lambda: True, is_built=lambda: True, get_core_count=lambda: 10)
    replace_in(
        torch.mps, synchronize=streams.synchronize, empty_cache=empty_cache, device_count=lambda: 1,
        current_allocated_memory=lambda: MEMORY[0].allocated, driver_allocated_memory=lambda: MEMORY[0].reserved,
        manual_seed=lambda seed: None,
    )  # fmt: skip
    torch.mps.event.Event = Event
    library().play_mps()


def pin_memory(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    """``Tensor.pin_memory``."""
    if tensors.CARD.kind == "mps":
        raise RuntimeError(tensors.NO_PINNING)
    copy = tensor if tensor.is_pinned() else tensor.clone()
    tensors.PINNED.add(copy.untyped_storage().data_ptr())
    return copy


def play_torch(card: Card) -> None:
    """Let PyTorch believe in the card."""
    tensors.CARD = card
    streams.current_device = library().get_current
    library().set_count(card.count)
    (play_mps if card.kind == "mps" else play_cuda)(card)
    torch._C._set_only_lift_cpu_tensors(True)
    torch.autograd.set_multithreading_enabled(False)
    alike = torch._has_compatible_shallow_copy_type  # or Module.cpu() would write a CPU tensor into one of the card
    torch._has_compatible_shallow_copy_type = lambda a, b: (
        not isinstance(a, OnCard) | isinstance(b, OnCard) and alike(a, b)
    )
    optimizer._foreach_supported_types.append(OnCard)
    replace_in(torch.Tensor, pin_memory=pin_memory, is_pinned=tensors.is_pinned)
    torch.Generator = Generator
    torch.compile = lambda model=None, **_: model if model is not None else lambda function: function  # as it is
    torch.compiler.reset = lambda: None
    tensors.Mode().__enter__()


def play_numba(card: Card) -> None:
    """Let Numba believe in it, and PyTorch take the arrays that Numba made."""
    import driver

    driver.install(card, Launches)
    from playing import on_host

    plain = torch.as_tensor

    def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
        if not hasattr(data, "__cuda_array_interface__") or isinstance(data, torch.Tensor):
            return plain(data, dtype=dtype, device=device)
        made = OnCard(torch.from_numpy(on_host(data)), streams.current_device())
        made.owner = data
        return made.to(device=device, dtype=dtype) if dtype or device else made

    torch.as_tensor = torch.asarray = as_tensor


def play_cufinufft() -> None:
    """Put a module in the place of cufinufft that takes tensors of the card, as that does, and asks finufft."""
    import finufft

    stub = ModuleType("cufinufft")
    stub.__spec__ = ModuleSpec("cufinufft", None)

    def transform(name: str) -> Any:
        def run(x: Any, y: Any, data: Any, n_modes: Any = None, *, eps: float, isign: int, gpu_device_id: int) -> Any:
            assert {each.device for each in (x, y, data)} == {torch.device("cuda", gpu_device_id)}, (
                "rehearsal: elsewhere"
            )
            modes = () if n_modes is None else (n_modes,)
            out = getattr(finufft, name)(*(each.inner.numpy() for each in (x, y, data)), *modes, eps=eps, isign=isign)
            return OnCard(torch.from_numpy(out), gpu_device_id)

        return run

    replace_in(stub, **{name: transform(name) for name in ("nufft2d1", "nufft2d2")})
    sys.modules["cufinufft"] = stub


def shorten(card: Card) -> None:
    """Make each measurement short: one call, and roofs of toys."""
    from firstlight import devices
    from firstlight.timing import measurement, roofs

    @contextmanager
    def none_in_simulator() -> Any:
        yield []

    def one_call(call: Any, on: Any, budget: float, setup: Any, blocks: Any) -> Any:
        (setup or (lambda: None))()
        start = on.tick()
        call()
        on.settle()
        took = on.tick() - start
        return 1, [took * (1 + 1e-4 * i) for i in range(9)], 1.0

    by_events = measurement.Device.seconds_of

    def once_quick(self: Any, call: Any, call_seconds: float) -> float | None:
        return by_events(self, call, call_seconds) if call_seconds < 0.02 else call_seconds

    measurement._steady_blocks, measurement.Device.seconds_of = one_call, once_quick
    if card.numba:
        measurement._simulated_launches = none_in_simulator
    code = roofs.measured_roof.__wrapped__.__code__
    less = {2**25: 2**16, 2**28: 2**18, 4096: 128, 1024: 128}
    constants = tuple(less.get(x, x) if isinstance(x, int) else x for x in code.co_consts)
    roofs.measured_roof.__wrapped__.__code__ = code.replace(co_consts=constants)
    devices._linux_cache = lambda root: 2**21


def install(card: Card) -> None:
    """Play a card from here on."""
    play_torch(card)
    if card.numba:
        play_numba(card)
    if card.cufinufft:
        play_cufinufft()
    shorten(card)


def pytest_load_initial_conftests() -> None:
    """Play a card for the tests of a process: REHEARSAL_CARD=two python -m pytest -p standin."""
    install(CARDS[os.environ.get("REHEARSAL_CARD", "h100")])
