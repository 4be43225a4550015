"""Two halves make the whole gradient, a sampler divides the pictures, and the check wants means that are weighted."""

import pytest
import torch
from pages import judged

PAGE = "2_devices/20_two_gpus.py"


def plain_mean(gradients, _counts):
    return sum(gradients) / len(gradients)


def of_those_with_pictures(gradients, counts):
    return sum(gradients) / sum(count > 0 for count in counts)


def in_place(gradients, counts):
    total = torch.zeros_like(gradients[0])
    for each, count in zip(gradients, counts, strict=True):
        total += each.mul_(count)
    return total / sum(counts)


def by_weights(gradients, counts):
    weights = torch.tensor(counts).double() / sum(counts)
    return weights @ torch.stack(gradients)


WRONG = [
    (plain_mean, "Each process counts the same"),
    (of_those_with_pictures, "counts the same|not processes"),
    (in_place, "it changes the gradients"),
    (
        lambda gradients, counts: sum(each * count for each, count in zip(gradients, counts, strict=True)),
        "number of all",
    ),
    (lambda gradients, _: sum(gradients), "That's a sum"),
    (lambda gradients, counts: gradients[counts.index(max(counts))], "isn't that of all"),
    (lambda gradients, _: torch.stack(gradients), "one gradient"),
]

test_answers = judged(["combine_solution", by_weights], WRONG)


def test_each_picture_has_one_process(page) -> None:
    first, second = page["with_sampler"]
    assert not set(first) & set(second)
    assert len(first) == len(second)


def test_an_exchange_grows_with_the_weights_and_shrinks_with_the_link(page) -> None:
    once = page["exchange"](1e6, "PCIe 4 x16")
    assert page["exchange"](3e6, "PCIe 4 x16") == pytest.approx(3 * once)
    assert page["exchange"](1e6, "NVLink 4") < once
