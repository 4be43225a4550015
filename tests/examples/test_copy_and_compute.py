"""The page's check accepts what is right and tells what is wrong; its pipeline and its formula are right."""

import numpy as np
import pytest
from pages import EXAMPLES, judged

from firstlight.records.record import read

PAGE = "2_devices/09_copy_and_compute.py"


def stage_by_stage(chunks, comes, works, goes):
    for chunk in chunks:
        comes.copy_in(chunk)
    works.wait_stream(comes)
    for chunk in chunks:
        works.compute(chunk)
    goes.wait_stream(works)
    for chunk in chunks:
        goes.copy_out(chunk)


def without_waiting(chunks, comes, works, goes):
    for chunk in chunks:
        comes.copy_in(chunk)
        works.compute(chunk)
        goes.copy_out(chunk)


def only_the_first_wait(chunks, comes, works, goes):
    for chunk in chunks:
        comes.copy_in(chunk)
        works.wait_stream(comes)
        works.compute(chunk)
        goes.copy_out(chunk)


def waits_too_early(chunks, comes, works, goes):
    for chunk in chunks:
        works.wait_stream(comes)
        comes.copy_in(chunk)
        works.compute(chunk)
        goes.wait_stream(works)
        goes.copy_out(chunk)


def host_waits(chunks, comes, works, goes):
    for chunk in chunks:
        comes.copy_in(chunk)
        comes.synchronize()
        works.compute(chunk)
        works.synchronize()
        goes.copy_out(chunk)


def comes_waits_for_the_end(chunks, comes, works, goes):
    for chunk in chunks:
        comes.wait_stream(goes)
        comes.copy_in(chunk)
        works.wait_stream(comes)
        works.compute(chunk)
        goes.wait_stream(works)
        goes.copy_out(chunk)


def one_stream(chunks, comes, *_):
    for chunk in chunks:
        comes.copy_in(chunk)
        comes.compute(chunk)
        comes.copy_out(chunk)


def without_the_last(chunks, comes, works, goes):
    right(chunks[:-1], comes, works, goes)


def right(chunks, comes, works, goes):
    for chunk in chunks:
        comes.copy_in(chunk)
        works.wait_stream(comes)
        works.compute(chunk)
        goes.wait_stream(works)
        goes.copy_out(chunk)
    for stream in (comes, works, goes):
        stream.synchronize()


WRONG = {
    "no wait": (without_waiting, "computing of chunk 1 began"),
    "the results do not wait": (only_the_first_wait, "copy out of chunk 1 began"),
    "waits for the chunk before": (waits_too_early, "computing of chunk 1 began"),
    "the host waits": (host_waits, "turns"),
    "one chunk after the other": (comes_waits_for_the_end, "12 turns"),
    "stage by stage": (stage_by_stage, "12 turns"),
    "one stream": (one_stream, "12 turns"),
    "one chunk is missing": (without_the_last, "3 of 4"),
    "nothing": ("overlap", "0 of 4"),
}


test_answers = judged(["overlap_solution", right], WRONG)


@pytest.mark.parametrize("chunks", [1, 2, 5, 64])
def test_the_pipeline_is_right_in_any_number_of_chunks(page, monkeypatch, chunks) -> None:
    monkeypatch.setitem(page["slow_copy"].__globals__, "sleep", lambda _: None)
    assert np.allclose(page["pipeline"](chunks, waits=True), page["exact"], rtol=2**-23, atol=0)


def test_the_best_number_is_near_the_square_root(page) -> None:
    n, half = 4 * page["n"], page["a"] * page["b"]
    best = min(range(1, 200), key=page["predict"])
    assert best == pytest.approx((n / half) ** 0.5, abs=1)
    assert page["predict"](10) < 1.05 * page["predict"](best)
    assert page["predict"](50) < 1.05 * page["predict"](best)


def test_the_h100_did_what_the_text_says_of_it() -> None:
    folder = EXAMPLES.parent / "records/nvidia-h100-80gb-hbm3/2_devices"
    piece, sixteen = (
        read(folder / "09_copy_and_compute.json").timings[f"copy-and-compute/pipeline/cuda:0/n={m}"].median
        for m in (1, 16)
    )
    sent = read(folder / "08_pinned_memory.json").timings[f"pinned-memory/to the GPU, pinned/cuda:0/n={2**26}"].median
    assert piece == pytest.approx(8 * sent, rel=0.05)
    assert 17 / 32 < sixteen / piece < 0.65
