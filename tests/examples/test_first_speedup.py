"""The page's check accepts what is right and tells what is wrong; the cards of the tutorial could not do it."""

import numpy as np
from pages import judged
from samples import recorded

PAGE = "1_setup/02_first_speedup.py"
WRONG = {
    "float64": (lambda n, seconds, bandwidth, itemsize=4: seconds >= 24 * n / bandwidth, "12 bytes"),
    "forgot the result": (lambda n, seconds, bandwidth, itemsize=4: seconds >= 8 * n / bandwidth, "12 bytes"),
    "one vector": (lambda n, seconds, bandwidth, itemsize=4: seconds >= 4 * n / bandwidth, "12 bytes"),
    "the wrong way round": (lambda n, seconds, bandwidth, itemsize=4: seconds <= 12 * n / bandwidth, "way round"),
    "GB/s": (lambda n, seconds, bandwidth, itemsize=4: seconds >= 12 * n / (1e9 * bandwidth), "GB/s"),
    "strictly": (lambda n, seconds, bandwidth, itemsize=4: seconds > 12 * n / bandwidth, "exactly"),
    "always": (lambda *_: True, "never says False"),
    "never": (lambda *_: False, "12 bytes"),
    "the floor": (lambda n, seconds, bandwidth, itemsize=4: 12 * n / bandwidth, "True or False"),
    "milliseconds": (lambda n, seconds, bandwidth, itemsize=4: 1e-3 * seconds >= 12 * n / bandwidth, "12 bytes"),
    "any item": (lambda n, seconds, bandwidth, itemsize=4: seconds >= 12 * n / bandwidth, "twice the time"),
    "no itemsize": (lambda n, seconds, bandwidth: seconds >= 12 * n / bandwidth, "TypeError"),
    "no function": (3.7e-3, "TypeError"),
    "the start": ("possible", "True or False"),
}


RIGHT = [
    "possible_solution",
    lambda n, seconds, bandwidth, itemsize=4: np.bool_(seconds * bandwidth >= n * 3 * itemsize),
]

test_answers = judged(RIGHT, WRONG)


def test_the_card_of_the_tutorial_could_not_do_it(page) -> None:
    for card in ("GTX 1080", "GTX 1660 Ti"):
        assert not page["possible_solution"](page["n_then"], 3.1e-3, page["bandwidths"][card])


def test_most_of_the_way_back_is_the_new_result() -> None:
    """Two pages time the same way, one of them into a vector that is there already: now both are on one record."""
    first, wins = (recorded(page).timings for page in (PAGE, "2_devices/11_when_the_gpu_wins"))
    new, same = (
        first[f"vector-add/{way}/cuda:0/n=99000000"].median
        for way in ("GPU, there and back", "GPU, there and back, same")
    )
    assert new > 2 * same
    assert 0.7 < wins["wins-add/GPU, there and back/cuda:0/n=100000000"].median / same < 1.4
