"""The operation has the values and gradients of the chain, for any strides, and the check tells answers apart."""

import numpy as np
import pytest
import torch
from pages import doubles_and_spills, judged
from samples import H100, recorded

PAGE = "3_kernels/12_kernels_in_pytorch.py"


@pytest.fixture
def three():
    generator = torch.Generator().manual_seed(1)
    return [*torch.rand(3, 5, 7, dtype=torch.float64, generator=generator)]


# -- The exercise ------------------------------------------------------------------------------------------------------


def slope(x):
    return 1 / (1 + x.abs()) ** 2


WRONG = {
    "empty": ("saturate_backward", "return a tensor"),
    "no grad": (lambda x, grad: slope(x), "What about grad"),
    "the sign of x": (lambda x, grad: grad / (1 + x) ** 2, "positive"),
    "a sum": (lambda x, grad: (grad * slope(x)).sum(), "for each number"),
    "no square": (lambda x, grad: grad / (1 + x.abs()), "Jacobian"),
    "saturated": (lambda x, grad: grad * x / (1 + x.abs()), "Jacobian"),
    "NumPy": (lambda x, grad: np.ones(4), "return a tensor"),
    "swapped": (lambda grad, x: grad / (1 + x.abs()) ** 2, "Jacobian"),
}

test_answers = judged(
    ["saturate_backward_solution", lambda x, grad: grad * (1 / (1 + x.abs()) - x.abs() / (1 + x.abs()) ** 2)], WRONG
)


# -- What the page claims ----------------------------------------------------------------------------------------------


def test_values_and_gradients_are_the_chains_for_any_shape_and_strides(page, three) -> None:
    for given in (three, [t.mT for t in three], [t.expand(3, 5, 7) for t in three], [t[:, ::2] for t in three]):
        model = given[0].detach().clone(memory_format=torch.preserve_format).requires_grad_()
        values = [way(model, *given[1:]) for way in (page["misfit"], page["chain"])]
        assert torch.allclose(*values)
        first, second = (torch.autograd.grad((value**2).mean(), model, retain_graph=True)[0] for value in values)
        assert torch.allclose(first, second)


def test_a_strange_shape_is_refused(page, three) -> None:
    with pytest.raises(ValueError, match="one shape"):
        page["misfit"](three[0], three[1], three[2][:3])


def test_the_kernels_compile_without_doubles(page, compiled) -> None:
    for kernel, arrays in ((page["value_kernel"], 4), (page["slope_kernel"], 5)):
        assert doubles_and_spills(compiled(kernel, ", ".join(["float32[::1]"] * arrays))) == ([], 0), kernel


def test_the_operation_passes_opcheck_and_is_compiled_whole(page, three) -> None:
    three[0].requires_grad_()
    assert set(torch.library.opcheck(page["misfit"], three).values()) == {"SUCCESS"}
    whole = torch.compile(page["misfit"], backend="aot_eager", fullgraph=True)
    found = [torch.autograd.grad(way(*three).mean(), three[0])[0] for way in (whole, page["chain"])]
    assert torch.allclose(*found)


def test_only_a_changed_type_and_torch_tensor_copy(page) -> None:
    assert {call for call, same in page["shares"].items() if not same} == {
        "torch.as_tensor(a).float()",
        "torch.tensor(a)",
    }


def by_size(machine: str) -> list[dict[str, float]]:
    rows = recorded(PAGE, machine).timings.values()
    return [{row.label: row.median for row in rows if row.n == n} for n in (1001, 2**25 + 1, 2**27 + 1)]


def test_the_h100_did_what_the_text_says_of_it() -> None:
    few, some, many = by_size(H100)
    assert some["our operation"] / some["chain"] == pytest.approx(0.5, abs=0.05)
    assert 0.6 < some["our operation, with gradient"] / some["chain, with gradient"] < 0.9
    for kind in ("", ", with gradient"):
        assert many[f"our operation{kind}"] / many[f"chain{kind}"] == pytest.approx(1 / 3, rel=0.1)
    assert some["kernel alone"] < some["chain"] / 3
    assert some["torch.compile"] < 0.65 * some["our operation"]
    assert many["torch.compile"] < many["our operation"]
    assert few["torch.compile"] == pytest.approx(few["chain"], rel=0.15)
    assert few["our operation"] > some["our operation"] > 5 * few["chain"]


def test_the_h200_gained_nothing_until_there_was_more_to_do() -> None:
    _, some, many = by_size("nvidia-h200")
    assert some["our operation"] > some["chain"]
    assert many["our operation"] < 0.4 * many["chain"]
