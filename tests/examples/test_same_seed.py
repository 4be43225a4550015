"""A generator in the data set repeats itself in each worker, and the check wants noise that needs nobody else's."""

import random

import numpy as np
import torch
from pages import judged

PAGE = "2_devices/19_same_seed.py"


def with_the_global_generator(seed, epoch, index):
    np.random.seed(hash((seed, epoch, index)) % 2**32)  # noqa: NPY002
    return np.random.normal(size=3)  # noqa: NPY002


def with_torch(seed, epoch, index):
    torch.manual_seed(seed * 10_000 + epoch * 100 + index)
    return torch.randn(3).numpy()


def with_torch_of_its_own(seed, epoch, index):
    generator = torch.Generator().manual_seed(int(np.random.SeedSequence([seed, epoch, index]).generate_state(1)[0]))
    return torch.randn(3, generator=generator).numpy()


generator = np.random.default_rng(1)
WRONG = [
    (lambda seed, epoch, index: generator.normal(size=3), "when it is asked for again"),
    (lambda seed, epoch, index: np.random.default_rng(seed).normal(size=3), "shares numbers"),
    (lambda seed, epoch, index: np.random.default_rng(seed + epoch + index).normal(size=3), "shares numbers"),
    (lambda seed, epoch, index: np.random.default_rng([seed, index]).normal(size=3), "shares numbers"),
    (lambda seed, epoch, index: np.random.default_rng([seed, epoch, index]).random(3), "normal"),
    (lambda seed, epoch, index: random.Random(str((seed, epoch, index))).gauss(), "three numbers"),
    (with_the_global_generator, "a global generator"),
    (with_torch, "a global generator"),
]

test_answers = judged(["noise_solution", with_torch_of_its_own], WRONG)


def test_workers_draw_what_the_text_says(page) -> None:
    alone, one, two, again = (page["columns"][first : first + 2] for first in (0, 2, 4, 6))
    assert two == again
    assert alone[1][1:] == one[1][1:]  # NumPy's generator: a single worker has the only copy
    assert two[1][1::2] == two[1][2::2]
    assert len({tuple(each[0][1:]) for each in (alone, one, two)}) == 3


def test_pytorch_refuses_what_has_no_fixed_order(page) -> None:
    assert "put_ does not have a deterministic implementation" in page["said"]
    assert not torch.are_deterministic_algorithms_enabled()
