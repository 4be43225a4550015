"""The page's check accepts what is right and tells what is wrong; its model and its crossings are what it says."""

import math

import numpy as np
import pytest
import torch
from pages import judged

PAGE = "2_devices/07_when_the_gpu_wins.py"
CPU, GPU, SLOT, CALL = (5e10, 5e11), (5e11, 1e13), 2.5e10, 5e-6


def work(moved, intensity, rates):
    return moved * max(1 / rates[0], intensity / rates[1])


def by_cases(calls, moved, intensity, sent, uses):
    cpu = moved / CPU[0] if intensity < 10 else moved * intensity / CPU[1]
    gpu = moved / GPU[0] if intensity < 20 else moved * intensity / GPU[1]
    return np.bool_(uses * (calls * CALL + gpu) + sent / SLOT < uses * cpu)


def as_a_ratio(n, b, i, s, k):
    return work(b, i, CPU) / (n * CALL + s / SLOT / k + work(b, i, GPU)) > 1


def variant(
    cpu=lambda b, i: work(b, i, CPU),
    gpu=lambda b, i: work(b, i, GPU),
    trip=lambda s, k: s / SLOT / k,
    ask=lambda n, k: n,
):
    """The rule with something else in place of one of its terms."""
    return lambda n, b, i, s, k: cpu(b, i) > ask(n, k) * CALL + trip(s, k) + gpu(b, i)


WRONG = {
    "the trip is free": (variant(trip=lambda s, k: 0), "trip is longer"),
    "a trip for each use": (variant(trip=lambda s, k: s / SLOT), "one trip"),
    "more trips, not fewer": (variant(trip=lambda s, k: k * s / SLOT), "one trip"),
    "calls are free": (variant(ask=lambda n, k: 0), "CALL"),
    "one call": (variant(ask=lambda n, k: 1), "every call"),
    "bytes alone": (variant(lambda b, i: b / CPU[0], lambda b, i: b / GPU[0]), "arithmetic"),
    "arithmetic alone": (variant(lambda b, i: b * i / CPU[1], lambda b, i: b * i / GPU[1]), "one trip"),
    "in turn": (variant(lambda b, i: b / CPU[0] + b * i / CPU[1], lambda b, i: b / GPU[0] + b * i / GPU[1]), "sum"),
    "a GPU takes no time": (variant(gpu=lambda b, i: 0), "own work"),
    "calls are shared": (variant(ask=lambda n, k: n / k), "trip only"),
    "the other way round": (lambda *numbers: not by_cases(*numbers), "trip is longer"),
    "always": (lambda *_: True, "trip is longer"),
    "never": (lambda *_: False, "one trip"),
    "a ratio": (lambda n, b, i, s, k: work(b, i, CPU) / work(b, i, GPU), "True or False"),
    "a text": (lambda *_: "GPU", "True or False"),
    "the start": ("gpu_wins", "None"),
}


test_answers = judged(["gpu_wins_solution", variant(), by_cases, as_a_ratio], WRONG)


def test_the_jobs_count_what_the_arrays_hold(page) -> None:
    for name in ("add", "matrix × vector", "matrix × matrix", "FFT"):
        job = page["jobs"][name](101)
        run, inputs = page["makers"][name](101, device="cpu", dtype=torch.float32)
        arrays = [*inputs, run(*inputs)]
        held = sum(x.numel() * x.element_size() for x in arrays)
        assert job.moved == job.sent == held, name
        assert job.copies == len(arrays), name
        assert job.calls == 1
    job, (flowers, kinds) = page["jobs"]["network"](8), page["train_set"]
    assert job.sent == 4 * flowers.numel() + 8 * kinds.numel() + 4
    weights = sum(weight.numel() for weight in page["Training"](8).net.parameters())
    assert job.operations == 6 * 120 * weights
    assert job.moved == 4 * 10 * weights


def test_a_training_step_is_many_calls_and_each_counts_once(page) -> None:
    assert 15 <= page["calls"].number <= 60
    with page["Calls"]() as calls:
        x = torch.ones(3)
        x.view(3, 1).t().add(1)
    assert calls.number == 2


def test_a_crossing_is_where_two_lines_cross_or_nowhere_or_before_all_sizes(page) -> None:
    for crosses in (12.0, 1e3, 7e4):
        sizes = np.array([10, 100, 1000, 10_000, 100_000])
        assert page["crossing"](sizes, sizes / 1e9, np.full(5, crosses / 1e9)) == pytest.approx(crosses)
    sizes, ones = [10, 100, 1000], np.ones(3)
    assert page["crossing"](sizes, ones, 2 * ones) == math.inf
    assert page["crossing"](sizes, ones, ones) == math.inf
    assert page["crossing"](sizes, ones, 0.5 * ones) == 10
    # A win that does not last is none.
    assert page["crossing"](sizes, ones, np.array([0.5, 2.0, 2.0])) == math.inf
    assert 100 < page["crossing"](sizes, ones, np.array([0.5, 2.0, 0.5])) < 1000


def test_the_network_learns_the_flowers(page) -> None:
    (learn, kinds), (test, test_kinds) = page["train_set"], page["test_set"]
    training = page["Training"](8)
    losses = [training(learn, kinds).item() for _ in range(100)]
    assert losses[-1] < 0.2 * losses[0]
    with torch.no_grad():
        assert (training.net(test).argmax(1) == test_kinds).sum() >= 25
