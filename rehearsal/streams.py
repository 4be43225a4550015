"""The order of a GPU's work: what a stream has waited for, what the host has, and who reads too early.

A position is (stream, how many of its jobs); what somebody has waited for is a table of positions. Jobs run at once, in
the order in which they are asked for. So a value is never too old; but who has not waited for it is told so, or finds
numbers in a copy to the host that nobody could mistake for a result.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_iter

POLLS = 100  # after which even a GPU that nobody waits for has finished

Positions = dict[int, int]


class Stream:
    """A queue of jobs on one device."""

    all: list[Stream] = []

    def __init__(self, device: Any = None, priority: int = 0, **_: object) -> None:
        device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device or "cuda")
        self.device = torch.device(device.type, current_device() if device.index is None else device.index)
        self.stream_id = self.cuda_stream = len(self.all)
        self.known: Positions = {}
        self.all.append(self)

    def advance(self) -> tuple[int, int]:
        """Take a job; give its position."""
        merge(self.known, HOST)
        self.known[self.stream_id] = self.known.get(self.stream_id, 0) + 1
        return self.stream_id, self.known[self.stream_id]

    def synchronize(self) -> None:
        wait(self.known)

    def query(self) -> bool:
        return polled(self.known)

    def is_capturing(self) -> bool:
        return CUDAGraph.now is not None

    def wait_stream(self, other: Stream) -> None:
        merge(self.known, other.known)

    def wait_event(self, event: Event) -> None:
        merge(self.known, event.known)

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.stream_id == other.stream_id

    def __hash__(self) -> int:
        return self.stream_id


class Event:
    """A mark in a stream."""

    def __init__(self, enable_timing: bool = False, **_: object) -> None:
        self.timed, self.at = enable_timing, None
        self.known: Positions = {}

    def record(self, stream: Stream | None = None) -> None:
        self.at, self.known = time.perf_counter(), dict((stream or current_stream()).known)

    def query(self) -> bool:
        return polled(self.known)

    def synchronize(self) -> None:
        wait(self.known)

    def wait(self, stream: Stream | None = None) -> None:
        (stream or current_stream()).wait_event(self)

    def elapsed_time(self, end: Event) -> float:
        if not (self.timed and end.timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.at is None or end.at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not reached(end.known):
            raise RuntimeError("CUDA error: device not ready")
        return 1e3 * max(end.at - self.at, 1e-6)


class CUDAGraph:
    """Keeps the jobs of a capture, and runs them anew; the capture itself changes nothing."""

    now: CUDAGraph | None = None  # that is being captured

    def __init__(self, keep_graph: bool = False) -> None:
        self.jobs: list[Callable[[], Any]] = []
        self.undo: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.written: set[int] = set()

    def capture_begin(self, pool: object = None, capture_error_mode: str = "global") -> None:
        CUDAGraph.now, self.device = self, current_stream().device

    def capture_end(self) -> None:
        CUDAGraph.now = None
        for tensor, before in reversed(self.undo):
            tensor.copy_(before)

    def replay(self) -> None:
        WRITTEN.update(dict.fromkeys(self.written, current_stream(self.device).advance()))
        for job in self.jobs:
            job()

    def keep(self, function: Callable[..., Any], args: Any, kwargs: Any, made: Any, before: list[Any]) -> None:
        """Keep an operator, whose results of the capture are to have those of each replay."""

        def job() -> None:
            for old, new in zip(tree_iter(made), tree_iter(function(*args, **kwargs)), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)

        self.jobs.append(job)
        self.undo += before


HOST: Positions = {}  # what the host has waited for
WRITTEN: dict[int, tuple[int, int]] = {}  # by which job each memory was written
UNDER_WAY: list[tuple[tuple[int, int], Callable[[], object]]] = []  # copies to the host
mode = "default"  # of torch.cuda.set_sync_debug_mode
current_device: Callable[[], int] = int  # until there is a library that knows
CURRENT: list[Stream] = []
DEFAULT: dict[int, Stream] = {}


def merge(known: Positions, other: Positions) -> None:
    """Know what another knows, too."""
    for stream, job in other.items():
        known[stream] = max(job, known.get(stream, 0))


def reached(known: Positions) -> bool:
    """Tell whether the host has waited for all of that."""
    return all(HOST.get(stream, 0) >= job for stream, job in known.items())


def wait(known: Positions) -> None:
    """Let the host wait; copies that it waited for arrive."""
    if CUDAGraph.now:
        raise torch.AcceleratorError("CUDA error: operation not permitted when stream is capturing")
    merge(HOST, known)
    for copy in [copy for copy in UNDER_WAY if HOST.get(copy[0][0], 0) >= copy[0][1]]:
        UNDER_WAY.remove(copy)
        copy[1]()


polls = 0


def polled(known: Positions) -> bool:
    """Tell whether that has been done; who asks often enough gives it the time."""
    global polls
    polls = 0 if reached(known) else polls + 1
    if polls > POLLS:
        wait(known)
    return reached(known)


def default_stream(device: Any = None) -> Stream:
    """Give the stream that a device begins with."""
    index = current_device() if device is None else device if isinstance(device, int) else torch.device(device).index
    index = current_device() if index is None else index
    if index not in DEFAULT:
        DEFAULT[index] = Stream(index)
        DEFAULT[index].cuda_stream = 0
    return DEFAULT[index]


def current_stream(device: Any = None) -> Stream:
    """Give the stream that jobs go to."""
    home = default_stream(device)
    return next((stream for stream in reversed(CURRENT) if stream.device == home.device), home)


@contextmanager
def on_stream(stream: Stream | None) -> Iterator[None]:
    """Send jobs to a stream."""
    CURRENT.append(stream or current_stream())
    try:
        yield
    finally:
        CURRENT.pop()


@contextmanager
def graph(cuda_graph: CUDAGraph, pool: object = None, stream: Stream | None = None, **_: object) -> Iterator[None]:
    """Capture, on a stream of its own."""
    synchronize()
    with on_stream(stream or Stream()):
        cuda_graph.capture_begin()
        try:
            yield
        finally:
            cuda_graph.capture_end()


def synchronize(device: Any = None) -> None:
    """Let the host wait for a device, or for all."""
    for stream in Stream.all:
        wait(stream.known)


def meet(one: int, other: int) -> None:
    """Let two devices wait for each other, as PyTorch does when it copies from one to the other."""
    current_stream(one).wait_stream(current_stream(other))
    current_stream(other).wait_stream(current_stream(one))


def implicit_wait(device: int) -> None:
    """Let the host wait for a device's current stream, as an operator does that needs a value."""
    if mode == "error":
        raise RuntimeError("called a synchronizing CUDA operation")
    if mode == "warn":
        warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=6)
    wait(current_stream(device).known)


def submit(read: Iterable[int], write: Iterable[int], device: int) -> tuple[int, int]:
    """Put a job at the end of a device's current stream: refuse to read what it has not waited for."""
    stream = current_stream(device)
    if graph := CUDAGraph.now:
        graph.written.update(write)
        return stream.stream_id, 0
    position = stream.advance()
    for memory in read:
        other, job = WRITTEN.get(memory, (stream.stream_id, 0))
        if other != stream.stream_id and stream.known.get(other, 0) < job:
            raise RuntimeError(
                f"rehearsal: stream {stream.stream_id} reads what stream {other} writes, and has not waited for it"
            )
    for memory in write:
        WRITTEN[memory] = position
    return position
