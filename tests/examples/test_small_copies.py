"""The check of the page accepts what is right and tells what is wrong; its prose agrees with the record."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from pages import judged

from firstlight.records.record import read

PAGE = "2_devices/04_small_copies.py"


def in_a_buffer(detector, size, send):
    buffer, filled = np.empty((size, 20), np.float32), 0
    for event in detector:
        buffer[filled] = event
        filled += 1
        if filled == size:
            send(buffer)
            filled = 0
    if filled:
        send(buffer[:filled])


def with_itertools(detector, size, send):
    while batch := list(islice(detector, size)):
        send(np.array(batch))


def forgets_the_rest(detector, size, send):
    batch = []
    for event in detector:
        batch.append(event)
        if len(batch) == size:
            send(np.stack(batch))
            batch = []


def never_empties(detector, size, send):
    batch = []
    for event in detector:
        batch.append(event)
        if len(batch) % size == 0:
            send(np.stack(batch))


def collects_first(detector, size, send):
    events = list(detector)
    for start in range(0, len(events), size):
        send(np.stack(events[start : start + size]))


def sends_an_empty_rest(detector, size, send):
    batch = np.empty((0, 20), np.float32)
    for event in detector:
        batch = np.vstack([batch, event])
        if len(batch) == size:
            send(batch)
            batch = np.empty((0, 20), np.float32)
    send(batch)


def backwards(detector, size, send):
    while batch := list(islice(detector, size)):
        send(np.array(batch)[::-1])


WRONG = {
    "one at a time": (lambda detector, _, send: [send(event[None]) for event in detector], "12 copies"),
    "no array of rows": (lambda detector, _, send: [send(event) for event in detector], "(20,)"),
    "all at once": (lambda detector, _, send: send(np.stack(list(detector))), "1 copies"),
    "forgets the rest": (forgets_the_rest, "left at the end"),
    "never empties the batch": (never_empties, "in order"),
    "collects all, then sends": (collects_first, "had to wait"),
    "sends an empty rest": (sends_an_empty_rest, "copies"),
    "backwards": (backwards, "in order"),
    "the start": ("collect", "nothing arrived"),
}


test_answers = judged(["collect_solution", in_a_buffer, with_itertools], WRONG)


def test_all_events_arrive_and_each_copy_pays_the_latency(page) -> None:
    assert page["events"].equal(page["there"].cpu())
    assert page["predict"](4096, 0) == pytest.approx(4096 * page["latency"])


def test_what_the_prose_says_of_an_h100() -> None:
    record = Path(__file__).parents[2] / "records/nvidia-h100-80gb-hbm3/2_devices/04_small_copies.json"
    row = read(record).timings
    least, most = (row[f"transfers/to the GPU, pageable/cuda:0/n={n}"].median for n in (64, 2**26))
    assert least * 2**26 / most == pytest.approx(87e3, rel=0.02)  # "about 87 kB"
    one_by_one, together = (row[f"small-copies/{each} a copy/cuda:0"].median for each in ("1 event", "4096 events"))
    assert 1.25 < (least + most * 4096 * 80 / 2**26) / together < 4 / 3  # "nearly a third more"
    assert 4096 * least == pytest.approx(one_by_one, rel=0.03)
    assert 4096 * least == pytest.approx(5 * most, rel=0.1)  # "five times what the 64 MiB took"
    some = row[f"transfers/to the GPU, pageable/cuda:0/n={2**22}"].median
    assert 2**22 / (some - least) == pytest.approx(1.5 * 2**26 / most, rel=0.05)  # "half as fast again"
