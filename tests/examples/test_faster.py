"""What the page says of its six changes and of the package's step, and its checker."""

import math
from types import SimpleNamespace

import pytest
import torch
from pages import judged

from firstlight_imaging import GriddedNet
from firstlight_imaging.model import losses

PAGE = "4_imaging/08_faster.py"


def test_the_step_as_usual_is_the_fit_of_the_package_by_autograd(page):
    """The reference that all rungs are held to is itself right: the modules of the package say so."""
    averages = page["averages"][30]
    step = page["Step"](30, strength=1.0)
    model = GriddedNet(averages.coords, base_cube=step.parameters.detach())
    chi2 = losses.r_chi_squared_gridded(model(), averages)
    sky = model.icube.sky_cube
    whole = chi2 + losses.sparsity(sky) + losses.TV_image(sky) + losses.entropy(sky, 0.02)
    whole.backward()
    assert page["loss"](step).item() == pytest.approx(whole.item(), rel=1e-12)
    page["loss"](step).backward()
    torch.testing.assert_close(step.parameters.grad, model.bcube.base_cube.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("side", [30, 512])
def test_every_change_keeps_loss_and_gradient(page, side):
    right = page["Step"](side, strength=1.0)
    value, slope = page["loss"](right).item(), page["gradient"](right)
    assert value == page["usual_loss"](right).item()
    for name, changes in (page["rungs"] | page["alone"]).items():
        step = page["Step"](side, *changes, strength=1.0)
        close = 1e-5 if "float32" in changes else 1e-12
        assert page["loss"](step).item() == pytest.approx(value, rel=close), name
        assert (page["gradient"](step) - slope).norm() < close * slope.norm(), name


def test_five_steps_arrive_where_the_usual_ones_do(page):
    """Adam, fused or not, moves the same."""
    arrived = {}
    for name in ("as usual", "real FFT", "only fused Adam"):
        step = page["Step"](30, *(page["rungs"] | page["alone"])[name])
        for _ in range(5):
            page["advance"](step)
        found = step.parameters.detach()
        arrived[name] = found if "sky order" in step.changes else page["packed_to_sky"](found)
    for found in arrived.values():
        torch.testing.assert_close(found, arrived["as usual"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 5, 7), (2, 6, 6), (1, 1, 4)])
def test_slices_are_the_convolution_and_their_own_transpose(page, shape):
    image, other = torch.randn(2, *shape, generator=torch.manual_seed(0)).double()
    hann = torch.tensor([1, 2, 1]).double() / 4
    kernel = torch.outer(hann, hann)[None, None]
    expected = torch.nn.functional.conv2d(image[:, None], kernel, padding=1)[:, 0]
    smooth = page["smooth"]
    torch.testing.assert_close(smooth(image), expected)
    assert (smooth(image) * other).sum() == pytest.approx((image * smooth(other)).sum().item())


def test_the_changes_hardly_lower_the_number_of_operations(page):
    count = {name: len(moved) for name, moved in page["moved"].items()}
    assert 80 < count["as usual"] < 150
    assert count["fused Adam"] > 0.8 * count["as usual"]
    assert count["package"] < 0.2 * count["as usual"]


def test_an_operation_is_counted_once_with_the_bytes_it_reads_and_writes(page):
    def job():
        a = torch.empty(10, 10)
        return torch.add(a.T, a[0]).sum()

    assert page["count"](job) == [4 * (100 + 10 + 100), 4 * (100 + 1)]


def test_the_passes_of_the_package_are_counted_as_they_run(page):
    objective, method = page["package"](30, step=page["CountedStep"])
    written = len(page["count"](lambda: method.steps(objective, 1)))
    objective, method = page["package"](30)
    by_pytorch = len(page["count"](lambda: method.steps(objective, 1)))
    assert written - by_pytorch == 6


def test_shares_are_of_everything_and_of_what_a_rung_still_does(page):
    shares = page["shares"]
    assert set(shares) == {*page["rungs"], "package"}
    for share in shares.values():
        assert sum(share.values()) == pytest.approx(1)
    assert shares["slices"]["order"] == 0
    assert shares["package"]["smoothing"] == shares["package"]["Adam"] == 0


def test_a_limit_is_what_is_left_of_a_step(page):
    usual, limit = page["usual"], page["limit"]
    assert limit("FFT", "Adam") == pytest.approx(1 / (1 - usual["FFT"] - usual["Adam"]))
    assert limit("FFT", "order", "smoothing") >= math.prod(map(limit, ("FFT", "order", "smoothing")))


def test_jobs_take_turns_and_a_gain_is_of_one_round(page):
    calls = []
    times = page["take_turns"]({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=4)
    assert [len(values) for values in times.values()] == [4, 4]
    assert all(set(pair) == {"a", "b"} for pair in zip(calls[::2], calls[1::2], strict=True))


def test_an_operation_belongs_to_the_part_of_its_nearest_caller(page):
    def event(name, caller=None):
        return SimpleNamespace(name=name, cpu_parent=caller)

    step = event("step")
    roll = event("aten::roll", event("aten::fft_fftshift", step))
    assert page["part_of"](event("aten::cat", roll)) == "order"
    assert page["part_of"](event("aten::mul", event("Optimizer.step#Adam.step", step))) == "Adam"
    assert page["part_of"](event("aten::add_", event("SmoothBackward", step))) == "smoothing"
    assert page["part_of"](event("aten::_fft_c2c", step)) == "FFT"
    assert page["part_of"](event("aten::sqrt", step)) == "regularizers"


def descend(pick=lambda mask: mask.flatten().nonzero()[:, 0], least=torch.minimum, first=math.inf, climb=1, move=True):
    """Give an answer to the exercise that does right but for one thing."""

    def answer(image, mask, data, weight, rate, rounds):
        cells, lowest = pick(mask), torch.tensor(first, dtype=weight.dtype)
        for _ in range(rounds):
            image = image.detach().requires_grad_()
            model = torch.fft.fft2(image).flatten()[cells]
            loss = (weight * (data - model).abs() ** 2).sum()
            lowest = least(lowest, loss.detach())
            loss.backward()
            image = image - climb * rate * image.grad if move else image
        return image.detach(), lowest

    return answer


WRONG = {
    "nothing changed": ("descend_as_usual", "waits"),
    "the mask": (descend(pick=torch.flatten), "index"),
    "an if": (descend(least=lambda low, loss: loss if loss < low else low), "scalar"),
    "tolist": (descend(least=lambda low, loss: low.clamp(max=loss.tolist())), "tolist"),
    "numpy": (descend(least=lambda low, loss: torch.minimum(low, torch.from_numpy(loss.cpu().numpy()))), "numpy"),
    "to the CPU": (descend(least=lambda low, loss: torch.minimum(low, loss.to("cpu"))), "waits, in to"),
    "the last loss": (descend(least=lambda low, loss: loss), "lowest"),
    "the highest loss": (descend(least=torch.maximum, first=0), "lowest"),
    "zero to begin with": (descend(first=0), "lowest"),
    "uphill": (descend(climb=-1), "image"),
    "it stays": (descend(move=False), "image"),
    "the image alone": (lambda *given: descend()(*given)[0], "Error"),
}


test_answers = judged(
    ["descend_solution", descend(), lambda *given: (lambda sky, low: (sky, low.item()))(*descend()(*given))], WRONG
)
