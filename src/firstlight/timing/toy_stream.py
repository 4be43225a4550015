"""A queue that behaves like a GPU's, made of a thread: calls return at once, work is done later and in order.

What the queue is given is really done, on another core of the CPU, so a time measured on it is a CPU's time.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any


@dataclass(frozen=True)
class Span:
    """What one lane of the picture did, from when to when, in seconds.

    Examples
    --------
    >>> stream = ToyStream()
    >>> stream.launch(sum, [1, 2, 3], label="add").item()
    6
    >>> sorted({(span.lane, span.label) for span in stream.spans})
    [('host', 'launch add'), ('host', 'wait'), ('queue', 'add')]
    """

    lane: str
    label: str
    start: float
    end: float


class ToyStream:
    """An in-order queue of work, like a CUDA stream, and the host that fills it.

    Parameters
    ----------
    name
        The queue's lane in the picture.
    depth
        How many calls wait at most; the next one then makes the host wait, too. A real queue is finite as well.
    beside
        Another queue, which runs at the same time; both write into one list of spans.

    Examples
    --------
    >>> stream = ToyStream()
    >>> total = stream.launch(sum, [1, 2, 3])  # returns before the sum is there
    >>> total.item()  # waits for it
    6
    """

    def __init__(self, name: str = "queue", depth: int = 1000, beside: ToyStream | None = None) -> None:
        self.name = name
        self.spans: list[Span] = beside.spans if beside else []
        self.error: BaseException | None = None
        self._waiting: queue.Queue[tuple[str, Callable[[], Any]]] = queue.Queue(depth)
        threading.Thread(target=self._work, daemon=True, name=name).start()

    def launch(self, function: Callable[..., Any], *arguments: Any, label: str = "") -> Pending:
        """Put a call at the end of the queue and return at once; an argument may be a result that is not there yet."""
        label = label or getattr(function, "__name__", "work")
        result = Pending(self)

        def call() -> None:
            ready = [argument.value if isinstance(argument, Pending) else argument for argument in arguments]
            result.value = function(*ready)

        with self.host(f"launch {label}"):
            self._waiting.put((label, call))
        return result

    def record(self) -> ToyEvent:
        """Put a mark into the queue; it is reached when everything before it is done."""
        event = ToyEvent()
        self._waiting.put(("", event.set))
        return event

    def wait_event(self, event: ToyEvent) -> None:
        """Let this queue, not the host, wait for a mark in another one."""
        self._waiting.put(("", event.synchronize))

    def synchronize(self) -> None:
        """Wait until everything in the queue is done. An error of earlier work comes out here, far from its launch."""
        with self.host("wait"):
            self._waiting.join()
        if self.error:
            error, self.error = self.error, None
            raise RuntimeError(f"work that was launched earlier has failed: {error}") from error

    @contextmanager
    def host(self, label: str) -> Iterator[None]:
        """Note what the host does meanwhile."""
        start = perf_counter()
        try:
            yield
        finally:
            self.spans.append(Span("host", label, start, perf_counter()))

    def _work(self) -> None:
        while True:
            label, call = self._waiting.get()
            start = perf_counter()
            try:
                if not self.error or not label:  # after an error the work is skipped, the marks are not
                    call()
            except BaseException as error:
                self.error = error
            finally:
                if label:
                    self.spans.append(Span(self.name, label, start, perf_counter()))
                self._waiting.task_done()


class ToyEvent(threading.Event):
    """A mark in a queue, to wait for as for one of CUDA's.

    Examples
    --------
    >>> stream = ToyStream()
    >>> _ = stream.launch(sum, range(100_000))
    >>> stream.record().synchronize()
    """

    def synchronize(self) -> None:
        """Wait until the mark was reached."""
        self.wait()


class Pending:
    """The result of a launched call. To look at it is to wait for the whole queue before it.

    Examples
    --------
    >>> product = ToyStream().launch(pow, 2, 10)
    >>> product.item()  # waits
    1024
    """

    def __init__(self, stream: ToyStream) -> None:
        self.value: Any = None
        self._stream = stream

    def item(self) -> Any:
        """Return the value, when it is there."""
        self._stream.synchronize()
        return self.value
