"""The toy queue keeps a real queue's promises. Gates, not clocks, decide when its work ends."""

import threading

import pytest

from firstlight.timing.toy_stream import ToyStream


def gate():
    """A piece of work that lasts until it is let go."""
    event = threading.Event()

    def work(value="done"):
        assert event.wait(10)
        return value

    return event, work


def test_a_launch_returns_before_the_work_is_done() -> None:
    stream, (open_gate, work) = ToyStream(), gate()
    result = stream.launch(work)
    event = stream.record()
    assert result.value is None
    assert not event.is_set()
    open_gate.set()
    assert result.item() == "done"
    assert event.is_set()


def test_a_full_queue_makes_the_host_wait() -> None:
    stream, (open_gate, work) = ToyStream(depth=2), gate()
    started = threading.Event()

    def fill() -> None:
        for _ in range(4):
            stream.launch(work)
        started.set()

    threading.Thread(target=fill, daemon=True).start()
    assert not started.wait(0.05)  # one runs, two wait, the fourth does not fit
    open_gate.set()
    assert started.wait(10)


def test_an_error_comes_out_later_and_elsewhere_and_once() -> None:
    stream, seen = ToyStream(), []
    stream.launch(lambda: 1 / 0)
    stream.launch(seen.append, "after the error")
    with pytest.raises(RuntimeError, match="division by zero"):
        stream.synchronize()
    assert seen == []
    stream.launch(seen.append, "the queue goes on")
    stream.synchronize()
    assert seen == ["the queue goes on"]


def test_two_queues_run_side_by_side_and_can_wait_for_each_other() -> None:
    copies, (open_gate, work) = ToyStream("copies"), gate()
    compute = ToyStream("compute", beside=copies)
    seen: list[str] = []
    copies.launch(work, label="copy")
    copied = copies.record()
    compute.launch(seen.append, "needs no copy")
    compute.wait_event(copied)
    compute.launch(seen.append, "needs the copy")
    while not seen:
        pass
    assert seen == ["needs no copy"]
    open_gate.set()
    compute.synchronize()
    assert seen == ["needs no copy", "needs the copy"]
    copies.synchronize()
    assert {span.lane for span in copies.spans} == {"host", "copies", "compute"}
