import math

import pytest
import torch

from firstlight_imaging.model import losses


def cube(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1


def test_sums_are_those_of_a_slow_loop():
    image = cube(2, 4, 3)
    tv = tsv = channels = edge = 0.0
    for c in range(2):
        for row in range(4):
            for col in range(3):
                here = image[c, row, col].item()
                edge += here**2 if row in (0, 3) or col in (0, 2) else 0
                if c == 0:
                    channels += math.sqrt((image[1, row, col].item() - here) ** 2 + 1e-10)
                if row < 3 and col < 2:
                    across, up = image[c, row, col + 1].item() - here, image[c, row + 1, col].item() - here
                    tv += math.sqrt(across**2 + up**2 + 1e-10)
                    tsv += across**2 + up**2
    assert losses.TV_image(image).item() == pytest.approx(tv)
    assert losses.TSV(image).item() == pytest.approx(tsv)
    assert losses.TV_channel(image).item() == pytest.approx(channels)
    assert losses.edge_clamp(image).item() == pytest.approx(edge)
    assert losses.sparsity(-image).item() == pytest.approx(image.sum().item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entropy_is_finite_at_zero_and_so_is_its_slope(dtype):
    image = torch.tensor([[[0.0, 1e-30, 0.5], [1e-8, 2.0, 0.0]]], dtype=dtype, requires_grad=True)
    loss = losses.entropy(image, torch.tensor([[0.1, 0.2, 0.3], [1.0, 1.0, 4.0]], dtype=dtype))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(image.grad).all()
    assert loss.item() == pytest.approx((0.5 * math.log(0.5 / 0.3) + 2 * math.log(2)) / 10, rel=1e-5)


@pytest.mark.parametrize("prior", [0, -1.0, math.nan])
def test_entropy_refuses_a_prior_that_is_not_positive(prior):
    with pytest.raises(ValueError, match="prior"):
        losses.entropy(cube(1, 2, 2), prior)


def test_entropy_of_a_negative_pixel_rises_as_steeply_as_it_fell():
    for dtype, slope in ((torch.float32, 15.94), (torch.float64, 36.04)):
        assert losses.entropy(torch.tensor([-2.0], dtype=dtype), 1.0, 4.0).item() == pytest.approx(slope / 2, rel=1e-3)
    with pytest.raises(ValueError, match="tot_flux positive"):
        losses.entropy(cube(1, 2, 2), 1.0, -1)


def test_chi_squared_sees_the_imaginary_part_and_refuses_other_shapes():
    one = torch.ones(3)
    assert losses.r_chi_squared(2j * one, 0j * one, one).item() == 2
    with pytest.raises(ValueError, match=r"\(1,\)"):
        losses.r_chi_squared(one, one, one[:1])
    with pytest.raises(ValueError, match="no visibilities"):
        losses.r_chi_squared(one[:0], one[:0], one[:0])
