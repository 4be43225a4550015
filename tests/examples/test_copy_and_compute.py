"""The page's check accepts what is right and tells what is wrong; its pipeline and its formula are right."""

import numpy as np
import pytest
from pages import judged
from samples import recorded
from variants import edited

PAGE = "2_devices/09_copy_and_compute.py"


def right(chunks, comes, works, goes):
    for chunk in chunks:
        comes.copy_in(chunk)
        works.wait_stream(comes)
        works.compute(chunk)
        goes.wait_stream(works)
        goes.copy_out(chunk)
    for stream in (comes, works, goes):
        stream.synchronize()


COMES, WAITS, LEAVES = "comes.copy_in(chunk)", "works.wait_stream(comes)", "goes.wait_stream(works)"
AGAIN = "\n    for chunk in chunks:"
WRONG = {
    "no wait": (edited(right, (WAITS, "pass"), (LEAVES, "pass")), "computing of chunk 1 began"),
    "the results do not wait": (edited(right, (LEAVES, "pass")), "copy out of chunk 1 began"),
    "waits for the chunk before": (
        edited(right, (WAITS, "pass"), (COMES, f"{WAITS}; {COMES}")),
        "computing of chunk 1 began",
    ),
    "the host waits": (edited(right, (WAITS, "comes.synchronize()"), (LEAVES, "works.synchronize()")), "turns"),
    "one chunk after the other": (edited(right, (COMES, f"comes.wait_stream(goes); {COMES}")), "12 turns"),
    "stage by stage": (edited(right, (COMES, COMES + AGAIN), (LEAVES, LEAVES + AGAIN)), "12 turns"),
    "one stream": (lambda chunks, comes, *_: right(chunks, comes, comes, comes), "12 turns"),
    "one chunk is missing": (lambda chunks, *streams: right(chunks[:-1], *streams), "3 of 4"),
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
    timings = recorded(PAGE).timings
    piece, sixteen = (timings[f"copy-and-compute/pipeline/cuda:0/n={m}"].median for m in (1, 16))
    sent = recorded("2_devices/08_pinned_memory").timings[f"pinned-memory/to the GPU, pinned/cuda:0/n={2**26}"]
    assert piece == pytest.approx(8 * sent.median, rel=0.05)
    assert 17 / 32 < sixteen / piece < 0.65
