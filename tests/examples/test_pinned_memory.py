"""The page's check accepts what is right and tells what is wrong; what it shows without a clock is as it says."""

import re
import threading

import numpy as np
import pytest
from pages import judged
from samples import H100, recorded
from variants import edited

from _ext.published import rows_of
from firstlight.timing.specs import spec_of

PAGE = "2_devices/08_pinned_memory.py"


def waits_before_it_fills(batches, buffer, stream):
    for batch in batches:
        stream.record_event().synchronize()
        buffer[:] = batch
        stream.copy(buffer)


WAIT, COPY = "        stream.record_event().synchronize()\n", "        stream.copy(buffer)\n"
without_waiting = edited(waits_before_it_fills, (WAIT, ""))


def skips_the_first(batches, buffer, stream):
    next(batches, None)
    waits_before_it_fills(batches, buffer, stream)


def two_buffers(batches, buffer, stream):
    pair, events = [buffer, buffer.copy()], [None, None]
    for number, batch in enumerate(batches):
        if events[number % 2]:
            events[number % 2].synchronize()
        pair[number % 2][:] = batch
        stream.copy(pair[number % 2])
        events[number % 2] = stream.record_event()


WRONG = {
    "no wait": (without_waiting, "[2, 2, 2]"),
    "one wait at the end": (edited(without_waiting, (COPY, COPY + WAIT[4:])), "[2, 2, 2]"),
    "a wait right after the copy": (edited(without_waiting, (COPY, COPY + WAIT)), "no copy went on"),
    "the first batch is lost": (skips_the_first, "[1, 2]"),
    "only the last": (lambda batches, buffer, stream: waits_before_it_fills([*batches][-1:], buffer, stream), "[2]"),
    "nothing": ("send_all", "[]"),
}


test_answers = judged(["send_all_solution", waits_before_it_fills, two_buffers], WRONG)


def test_a_buffer_that_is_filled_too_early_sends_the_last_batch(page, monkeypatch) -> None:
    """The earlier work ends when all batches have been asked for, or, where the page waits, at once."""
    queue, asked = page["queue"], threading.Event()
    monkeypatch.setitem(page["send_batches"].__globals__, "sleep", lambda _: asked.wait(60))
    monkeypatch.setattr(queue, "synchronize", lambda: (asked.set(), type(queue).synchronize(queue)))
    assert page["send_batches"](careful=False) == [2, 2, 2]
    assert page["send_batches"](careful=True) == [0, 1, 2]


def test_what_is_read_after_the_wait_has_arrived(page) -> None:
    assert np.array_equal(page["back"], page["result"])


def test_pinning_each_time_did_on_real_gpus_what_the_text_says() -> None:
    ratio = {}
    for machine in (H100, "nvidia-h200"):
        timings = recorded(PAGE, machine).timings
        for n in (2**14, 2**18, 2**26):
            each, plain, copied = (
                timings[f"pinned-memory/{way}/n={n}"].median
                for way in ("to the GPU, pinned each time/cuda:0", "to the GPU, pageable/cuda:0", "copy in memory/cpu")
            )
            ratio[machine, n] = each / plain
        assert 0.7 < copied / plain < 1.5  # of the 64 MiB: the CPU sets the pace
        one_core = timings[f"pinned-memory/copy in memory/cpu/n={2**18}"].median
        large = timings[f"pinned-memory/to the GPU, pinned each time/cuda:0/n={2**18}"]
        assert large.median > 100 * one_core
        assert 13 < large.cores < 16  # "nearly all of these cores were busy"
        copies = recorded("2_devices/04_small_copies", machine).timings
        within = {n: copies[f"transfers/within the CPU's memory/cpu/n={n}"].median for n in (2**18, 2**26)}
        if machine == H100:
            assert within[2**26] < large.median / 5  # "it comes and goes"
        else:
            assert within[2**18] == pytest.approx(large.median, rel=0.05)
        assert ratio[machine, 2**14] < 2
        assert ratio[machine, 2**18] > 10
        assert ratio[machine, 2**26] < 1


def test_the_guess_of_a_rate_is_tried_on_cards_from_which_it_was_not_chosen(page) -> None:
    h100, a100, gtx1080, mi300x = (
        row.ratio() for row in rows_of("pageable-h100 pageable-a100 pageable-gtx1080 pageable-mi300x")
    )
    assert 2 / 3 < h100 < a100 < 3 / 2
    assert gtx1080 < 1 / 5
    assert mi300x > 5
    source = spec_of("pageable copy").source
    assert all(f"({card})" in source for card in page["clpeak"])
    assert not re.search(r"H100|GTX 1080|MI300X", source)
