"""Estimates of chi² from batches: right on average, whatever changes from step to step."""

import numpy as np
import pytest
import torch

from firstlight.imaging import ExactLikelihood, MiniBatches

CELL, NPIX, NVIS = 0.1, 12, 41


@pytest.fixture
def seen():
    rng = np.random.default_rng(3)
    u, v = rng.uniform(-9e5, 9e5, (2, NVIS))
    data = rng.normal(size=NVIS) + 1j * rng.normal(size=NVIS)
    weight = rng.uniform(0.5, 3, NVIS)
    weight[4], data[4] = 0, np.nan  # flagged
    return u, v, data, weight


@pytest.fixture
def sky():
    image = torch.from_numpy(np.random.default_rng(5).uniform(size=(1, NPIX, NPIX)))
    image[:, :, :5] = 0  # lopsided
    return image


def chi2_and_gradient(function, sky):
    image = sky.clone().requires_grad_()
    chi2 = function(image).sum()
    chi2.backward()
    return chi2.item(), image.grad


@pytest.mark.parametrize("size", [1, 7, 40, 41])
def test_the_mean_over_a_pass_is_chi_squared_and_its_gradient(seen, sky, size):
    """Weighted by their lengths, as 41 makes no equal batches, the batches of a pass add up to chi²."""
    right, slope = chi2_and_gradient(ExactLikelihood(*seen, CELL, NPIX, dtype=torch.float64), sky)
    batches = MiniBatches(*seen, CELL, size=size, seed=1)
    passed = list(batches)
    assert sorted(np.concatenate(passed)) == list(range(NVIS))
    assert len(passed) == len(batches)
    assert max(map(len, passed)) - min(map(len, passed)) <= 1
    parts = [chi2_and_gradient(lambda image, at=at: batches.chi_squared(image, at), sky) for at in passed]
    share = [len(at) / NVIS for at in passed]
    assert sum(part * s for (part, _), s in zip(parts, share, strict=True)) == pytest.approx(right, rel=1e-10)
    torch.testing.assert_close(sum(g * s for (_, g), s in zip(parts, share, strict=True)), slope, rtol=1e-9, atol=1e-9)


def test_every_pass_deals_anew_and_a_seed_deals_the_same(seen):
    batches, again = (MiniBatches(*seen, CELL, size=10, seed=7) for _ in range(2))
    one, two = list(batches), list(batches)
    assert any(not np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    for a, b in zip(one, again, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (np.diff(a) > 0).all()  # ascending, as files are read


def test_gains_have_gradients_and_enter_as_factors(seen, sky):
    phases = torch.linspace(0, 2, NVIS, dtype=torch.float64, requires_grad=True)
    batches = MiniBatches(*seen, CELL, size=NVIS, seed=1)
    at = np.arange(NVIS)
    chi2 = batches.chi_squared(sky, at, factor=torch.polar(torch.ones_like(phases), phases))
    factor = np.exp(1j * phases.detach().numpy())
    right = ExactLikelihood(*seen, CELL, NPIX, factor=factor, dtype=torch.float64)(sky).item()
    assert chi2.item() == pytest.approx(right, rel=1e-10)
    chi2.backward()
    assert phases.grad.isfinite().all()
    assert phases.grad[4] == 0
    eps = 1e-6
    moved = [
        batches.chi_squared(sky, at, factor=torch.polar(torch.ones(NVIS).double(), phases.detach() + sign * eps)).item()
        for sign in (1, -1)
    ]
    assert phases.grad.sum().item() == pytest.approx((moved[0] - moved[1]) / 2 / eps, rel=1e-5)


def test_what_was_flagged_stays_flagged(seen, sky):
    batches = MiniBatches(*seen, CELL, size=NVIS, seed=1)
    assert batches.chi_squared(sky, np.array([4]), weight=torch.ones(1)).item() == 0


def test_channels_with_their_own_baselines_and_float32(seen, sky):
    u, v, data, weight = (np.stack([part, part[::-1]]) for part in seen)
    batches = MiniBatches(u, v, data, weight, CELL, size=NVIS, seed=1)
    cube = torch.cat([sky, 2 * sky])
    got = batches.chi_squared(cube.float(), np.arange(NVIS))
    right = ExactLikelihood(u, v, data, weight, CELL, NPIX, dtype=torch.float64).chi_squared(cube)
    torch.testing.assert_close(got, right, rtol=1e-4, atol=0)


@pytest.mark.parametrize("size", [0, -1, 42])
def test_sizes_that_make_no_batch_are_refused(seen, size):
    with pytest.raises(ValueError, match=rf"1 to 41.* {size}"):
        MiniBatches(*seen, CELL, size=size, seed=1)
