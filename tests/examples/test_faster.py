"""What the page says of its six changes and of the package's step, and its checker."""

import math
from types import SimpleNamespace

import pytest
import torch
from pages import judged

from firstlight.imaging import GriddedNet, losses

PAGE = "4_imaging/05_faster.py"


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


@pytest.mark.parametrize("side", [30, 180])
def test_every_change_keeps_loss_and_gradient(page, side):
    right = page["Step"](side, strength=1.0)
    value, slope = page["loss"](right).item(), page["gradient"](right)
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


def test_the_changes_hardly_lower_the_number_of_starts(page):
    count = page["count"]
    assert 80 < count["as usual"] < 150
    assert count["fused Adam"] > 0.8 * count["as usual"]
    assert count["package"] < 0.2 * count["as usual"]


def test_shares_are_of_everything_and_of_what_a_rung_still_does(page):
    for side in page["sides"]:
        for name in page["names"]:
            assert sum(page["shares"][side, name].values()) == pytest.approx(1)
        assert page["shares"][side, "slices"]["order"] == 0
        assert page["shares"][side, "package"]["smoothing"] == 0


def test_an_operation_belongs_to_the_part_of_its_nearest_caller(page):
    def event(name, caller=None):
        return SimpleNamespace(name=name, cpu_parent=caller)

    step = event("step")
    roll = event("aten::roll", event("aten::fft_fftshift", step))
    assert page["part_of"](event("aten::cat", roll)) == "order"
    assert page["part_of"](event("aten::mul", event("Optimizer.step#Adam.step", step))) == "Adam"
    assert page["part_of"](event("aten::add_", event("SmoothBackward", step))) == "smoothing"
    assert page["part_of"](event("aten::_fft_c2c", step)) == "FFT"
    assert page["part_of"](event("aten::sqrt", step)) == "rest"


def test_the_model_is_level_and_a_large_image_is_not(page):
    asked = [page["model_ms"](name, 512, 5e-6) for name in page["rungs"]]
    assert max(asked) < 1.3 * min(asked)
    assert page["model_ms"]("index", 8192, 5e-6) > 50 * page["model_ms"]("index", 180, 5e-6)


def means(shares, gains):
    return 1 - sum(shares) + sum(s * g for s, g in zip(shares, gains, strict=True))


def multiplied(shares, gains):
    return math.prod(1 / (1 - s + s / g) for s, g in zip(shares, gains, strict=True))


WRONG = [
    (lambda shares, gains: max(gains), "rest"),
    (lambda shares, gains: 1 / sum(s / g for s, g in zip(shares, gains, strict=True)), "rest"),
    (lambda shares, gains: 1 / (1 - sum(shares)), "rest"),
    (means, "rest"),
    (multiplied, "multiply"),
    (lambda shares, gains: max(1.0, 1 / (1 - sum(shares) + sum(map(lambda s, g: s / g, shares, gains)))), "slower"),
    (lambda shares, gains: multiplied(shares[:1], gains[:1]), "multiply"),
]


test_answers = judged(
    ["speedup_solution", lambda shares, gains: 1 / (1 - sum(map(lambda s, g: s - s / g, shares, gains)))], WRONG
)
