"""The page's check accepts what is right and tells what is wrong; what it shows without a clock is as it says."""

import math
import mmap
import sys
import threading

import numpy as np
import pytest
from pages import judged

PAGE = "2_devices/04_small_copies.py"


def brute_force(n, a, b):
    return min(range(1, 500), key=lambda m: (m + 2) * (a + n / m / b))


def as_numpy(n, a, b):
    return np.maximum(1.0, np.rint(np.sqrt(2 * n / a / b)))


WRONG = {
    "one": (lambda n, a, b: 1, "grows"),
    "as many as lanes": (lambda n, a, b: 3, "one chunk"),
    "lanes, if there is much": (lambda n, a, b: 3 if n > a * b else 1, "grows"),
    "the more the better": (lambda n, a, b: 1000, "one chunk"),
    "chunks of n½": (lambda n, a, b: max(1, round(n / (a * b))), "grows"),
    "forgot the 2": (lambda n, a, b: max(1, round(math.sqrt(n / (a * b)))), "m + 2"),
    "no chunk at all": (lambda n, a, b: round(math.sqrt(2 * n / (a * b))), "one chunk"),
    "rounded down": (lambda n, a, b: max(1, int(math.sqrt(2 * n / (a * b)))), "down"),
    "rounded up": (lambda n, a, b: math.ceil(math.sqrt(2 * n / (a * b))), "up"),
    "not rounded": (lambda n, a, b: max(1, math.sqrt(2 * n / (a * b))), "1 or 2 or 3"),
    "endless": (lambda n, a, b: math.inf, "1 or 2 or 3"),
    "too large to compute": (lambda n, a, b: 10**400, "OverflowError"),
    "an array": (lambda *_: np.ones(2), "1 or 2 or 3"),
    "the start": ("chunks_for", "None"),
}


test_answers = judged(["chunks_for_solution", brute_force, as_numpy], WRONG)


@pytest.mark.parametrize(("a", "b"), [(3e-7, 2e10), (1e-5, 1.2e10), (5e-5, 8e8)])
def test_the_fit_is_exact_for_exact_times_and_steady_for_noisy_ones(page, a, b) -> None:
    sizes, fit = page["sizes"], page["fit"]
    times = a + sizes / b
    np.testing.assert_allclose(fit(sizes, times), (a, b), rtol=1e-3)
    rng = np.random.default_rng(1)
    for _ in range(20):
        np.testing.assert_allclose(fit(sizes, times * rng.uniform(0.9, 1.1, sizes.size)), (a, b), rtol=0.2)


def test_the_fit_is_positive_whatever_was_measured(page) -> None:
    """A busy computer measures anything; a page that stops with an error because of it would be no page."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        a, b = page["fit"](page["sizes"], 10 ** rng.uniform(-7, 0, page["sizes"].size))
        assert 0 < a < np.inf
        assert 0 < b < np.inf


def test_a_pipe_brings_all_bytes_whatever_their_number(page) -> None:
    for size in (1, 4095, 4096, 4097, 65_535, 65_536, 65_537, 200_003):
        sent, arrived = np.arange(size).astype(np.uint8), np.full(size + 3, 77, dtype=np.uint8)
        page["through_pipe"](arrived[:size], sent)
        assert np.array_equal(arrived[:size], sent)
        assert np.all(arrived[size:] == 77)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count page faults in other ways, or not at all")
def test_memory_is_found_when_it_is_first_written(page) -> None:
    assert page["asked"] < 0.01 * page["largest"] / mmap.PAGESIZE
    assert page["first"] > 10 * page["again"]


def test_a_buffer_that_is_filled_too_early_sends_the_last_batch(page, monkeypatch) -> None:
    """The earlier work ends when all batches have been asked for, or, where the page waits, at once."""
    queue, asked = page["queue"], threading.Event()
    monkeypatch.setitem(page["send_batches"].__globals__, "sleep", lambda _: asked.wait(60))
    monkeypatch.setattr(queue, "synchronize", lambda: (asked.set(), type(queue).synchronize(queue)))
    assert page["send_batches"](careful=False) == [2, 2, 2]
    assert page["send_batches"](careful=True) == [0, 1, 2]


@pytest.mark.parametrize("chunks", [1, 2, 5, 64])
def test_the_pipeline_is_right_in_any_number_of_chunks(page, monkeypatch, chunks) -> None:
    monkeypatch.setitem(page["stage"].__globals__, "sleep", lambda _: None)
    _, right, spans = page["pipeline"](chunks)
    assert np.allclose(right, page["exact"], rtol=2**-23, atol=0)
    for lane in ("copy in", "compute", "copy out"):
        assert [span.label for span in spans if span.lane == lane] == [str(i + 1) for i in range(chunks)]
