"""Bytes are those that are moved, each trap does what the page says, and the exercise's check tells answers apart."""

from functools import partial

import numpy as np
import pytest
import torch
from pages import judged

from firstlight.kernels import trace

PAGE = "3_kernels/12_kernels_in_pytorch.py"


@pytest.fixture
def three():
    generator = torch.Generator().manual_seed(1)
    return [*torch.rand(3, 7, dtype=torch.float64, generator=generator)]


# -- The exercise ------------------------------------------------------------------------------------------------------


WRONG = [
    ({"forward": 16, "backward": 20}, "reads three"),
    ({"forward": 20, "backward": 20}, "slope"),
    ({"forward": 20, "backward": 16}, "not 16"),
    ({"forward": 5, "backward": 3}, "1 bytes"),
    ({"forward": 40, "backward": 24}, "8 bytes"),
    ({"forward": 20}, "'backward'"),
    ({"forward": 20, "backward": "12"}, "'backward'"),
    ({"forward": True, "backward": 12}, "'forward'"),
    ((20, 12), "dictionary"),
]


test_answers = judged([{"forward": 20, "backward": 12}, {"backward": 12.0, "forward": 20, "sum": 4}], WRONG)


# -- What the page claims ----------------------------------------------------------------------------------------------


def test_the_kernels_move_what_is_predicted_for_them(page) -> None:
    model, data, weight = torch.rand(3, 1001)
    with page["ByteCount"]() as counter:
        page["by_loop"](model.requires_grad_(), data, weight).sum().backward()
    beside = counter.moved - 2 * 4 * 1001  # its two outputs, when they are made
    assert beside / 1001 == pytest.approx(4 + 4, abs=0.1)
    for kernel, arrays, moved in ((page["value_kernel"], 4, 16), (page["slope_kernel"], 5, 20)):
        seen = trace(kernel, 2, 32, *(np.ones(101, np.float32) for _ in range(arrays)))
        assert seen.traffic.useful_bytes == 101 * moved
        assert not seen.problems
    assert page["least"] == {"chain": (56, 168), "kernels": (16, 44)}


def test_kernels_compile_without_doubles(page, compiled) -> None:
    for kernel, arrays in ((page["value_kernel"], 4), (page["slope_kernel"], 5)):
        compiled(kernel, ", ".join(["float32[::1]"] * arrays))


def test_the_traps_are_silent_and_their_cures_are_not(page) -> None:
    assert page["written"] == 0
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        page["out"].view(-1)
    assert page["silently_wrong"].tolist() == [0, 0, 0]
    y = page["x"].exp()
    y.detach().numpy()[:] = 0
    torch.autograd.graph.increment_version(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_launch_refuses_what_a_kernel_would_not_notice(page, three) -> None:
    model, data, weight = three
    for other in (weight[:3], weight.float(), weight.to("meta")):
        with pytest.raises(ValueError, match="one shape, type and device"):
            page["launch"](page["value_kernel"], model, data, other)


def test_gradcheck_finds_the_forgotten_grad_that_a_sum_hides(page, three) -> None:
    assert page["verdicts"]["Misfit"] == "True"
    assert "Jacobian mismatch" in page["verdicts"]["Forgetful"]
    forgetful = partial(page["Forgetful"].apply, (page["value_kernel"], page["slope_kernel"]))
    for loss, excess in ((torch.sum, 1), (torch.mean, 7)):
        wrong, right = (page["gradient"](way, loss, *three) for way in (forgetful, page["chain"]))
        assert torch.allclose(wrong, excess * right)


def test_gradients_that_are_not_there_are_refused(page, three) -> None:
    model, data, weight = (t.requires_grad_() for t in three)
    with pytest.raises(NotImplementedError, match="for the model only"):
        page["by_kernel"](model, data, weight).sum().backward()
    model, data, weight = three[0], data.detach(), weight.detach()
    squares = page["by_kernel"](model, data, weight).square().sum()
    (first,) = torch.autograd.grad(squares, model, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_the_operation_passes_opcheck_and_is_compiled_whole(page, three) -> None:
    three[0].requires_grad_()
    assert set(torch.library.opcheck(page["value_op"], three).values()) == {"SUCCESS"}
    whole = torch.compile(page["value_op"], backend="aot_eager", fullgraph=True)
    assert torch.allclose(
        page["gradient"](whole, torch.mean, *three), page["gradient"](page["chain"], torch.mean, *three)
    )
