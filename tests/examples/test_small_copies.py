"""The check of the page accepts what is right and tells what is wrong; its prose agrees with the record."""

from itertools import islice

import numpy as np
import pytest
from pages import judged
from samples import recorded
from variants import edited

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


def in_a_list(detector, size, send):
    batch = []
    for event in detector:
        batch.append(event)
        if len(batch) == size:
            send(np.stack(batch))
            batch = []
    if batch:
        send(np.stack(batch))


def sends_an_empty_rest(detector, size, send):
    in_a_list(detector, size, send)
    send(np.empty((0, 20), np.float32))


NEVER_EMPTIED = ("len(batch) == size", "len(batch) % size == 0"), ("            batch = []\n", "")
WRONG = {
    "one at a time": (lambda detector, _, send: [send(event[None]) for event in detector], "12 copies"),
    "no array of rows": (lambda detector, _, send: [send(event) for event in detector], "(20,)"),
    "all at once": (lambda detector, _, send: send(np.stack(list(detector))), "1 copies"),
    "forgets the rest": (edited(in_a_list, ("if batch:", "if not size:")), "left at the end"),
    "never empties the batch": (edited(in_a_list, *NEVER_EMPTIED), "in order"),
    "collects all, then sends": (lambda detector, *how: in_a_list(list(detector), *how), "had to wait"),
    "sends an empty rest": (sends_an_empty_rest, "copies"),
    "backwards": (edited(in_a_list, ("np.stack(batch)", "np.stack(batch[::-1])")), "in order"),
    "the start": ("collect", "nothing arrived"),
}


test_answers = judged(["collect_solution", in_a_buffer, with_itertools, in_a_list], WRONG)


def test_all_events_arrive_and_each_copy_pays_the_latency(page) -> None:
    assert page["events"].equal(page["there"].cpu())
    assert page["predict"](4096, 0) == pytest.approx(4096 * page["latency"])


def test_what_the_prose_says_of_an_h100() -> None:
    row = recorded(PAGE).timings
    least, most = (row[f"transfers/to the GPU, pageable/cuda:0/n={n}"].median for n in (64, 2**26))
    assert least * 2**26 / most == pytest.approx(1100 * 80, rel=0.05)  # "some 1,100 events", "about 87 kB"
    assert row["small-copies/1 event a copy/cuda:0"].median < 0.9 * 4096 * least  # "those of the first row were faster"
    assert 4096 * least == pytest.approx(5 * most, rel=0.1)  # "five times what the 64 MiB took"
    some = row[f"transfers/to the GPU, pageable/cuda:0/n={2**22}"].median
    assert 2**22 / (some - least) == pytest.approx(1.5 * 2**26 / most, rel=0.05)  # "half as fast again"


@pytest.mark.parametrize("machine", ["nvidia-h100-80gb-hbm3", "nvidia-h200"])
def test_the_formula_holds_but_for_all_events_at_once(machine) -> None:
    row = recorded(PAGE, machine).timings
    least, most = (row[f"transfers/to the GPU, pageable/cuda:0/n={n}"].median for n in (64, 2**26))
    *ratios, last = (
        (4096 / some * least + most * 4096 * 80 / 2**26)
        / row[f"small-copies/{some} event{'s' * (some > 1)} a copy/cuda:0"].median
        for some in (1, 8, 64, 512, 4096)
    )
    assert ratios == pytest.approx([1] * 4, abs=0.26)
    assert last > 1.25
