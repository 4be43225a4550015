"""Fits: that they converge, stop, and say why."""

from contextlib import nullcontext, suppress

import numpy as np
import pytest
import torch

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.gridding import DataAverager
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.fitting.fit_loop import fit
from firstlight_imaging.fitting.objective import Objective
from firstlight_imaging.model.gridded_net import GriddedNet
from firstlight_imaging.model.losses import TV_image, sparsity
from firstlight_imaging.simulate.skies import Ring

COORDS = GridCoords(cell_size=0.1, npix=32)
LOSSES = {"tv": (1e-3, TV_image), "sparsity": (1e-4, sparsity)}
TYPES = {"fused": torch.float64, "autograd": torch.float32}


@pytest.fixture
def take(monkeypatch):
    """Choose how the gradient is computed."""
    return lambda way: way == "fused" or monkeypatch.setitem(fit.__globals__, "has_fused_step", lambda _: False)


def observed(kind, dtype=torch.float32, seed=0, flux=0.5):
    """A source in the south-east that is not round, seen with short baselines by chance; one flagged in ten."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(scale=2.5e5, size=(2, 3000))
    rings = Ring(flux, 0.5, 0.15, 40, 30, 0.4, -0.3), Ring(0.1, 0, 0.2, east=-0.7, north=0.8)
    data = sum(ring.visibilities(u, v) for ring in rings)
    data = data + 0.05 * (rng.normal(size=u.shape) + 1j * rng.normal(size=u.shape))
    weight = np.where(rng.random(u.shape) < 0.1, 0, 0.05**-2)
    if kind == "exact":
        return ExactLikelihood(u, v, data, weight, COORDS.cell_size, COORDS.npix, dtype=dtype)
    averager = DataAverager(COORDS, u, v, weight, data.real, data.imag)
    return averager.to_pytorch_dataset(check_visibility_scatter=False)  # in such large cells they scatter


def model(dtype=torch.float32, start=-3.0):
    return GriddedNet(COORDS, base_cube=torch.full((1, 32, 32), start, dtype=dtype))


@pytest.mark.parametrize(
    ("way", "kind", "optimizer"),
    [("fused", "gridded", "adam"), ("fused", "exact", "lbfgs"), ("autograd", "exact", "adam")],
)
def test_curves_begin_at_the_start_and_end_at_the_image(way, kind, optimizer, take):
    take(way)
    data, net = observed(kind, TYPES[way]), model(TYPES[way])
    found = fit(net, data, losses=LOSSES, optimizer=optimizer, tolerance=1e-3, progress=False)
    assert found.status == found.quality.verdict  # the loss stands still, whatever the residuals are
    assert len(found.loss) == len(found.chi2) == len(found.flux) >= found.iterations
    net_at_start = model()
    net_at_start()
    assert found.image.dtype == TYPES[way]
    assert found.flux[0, 0] == pytest.approx(net_at_start.icube.flux.item(), rel=1e-5)
    assert found.terms["chi2"] == pytest.approx(1, abs=0.35)
    assert found.loss.min() == pytest.approx(found.terms["loss"], rel=1e-2)
    assert found.loss[0] > 4 * found.terms["loss"]
    # The model has the image that is given back, and the sum is made of the terms that are.
    net()
    assert torch.equal(net.icube.sky_cube, found.image)
    strengths = Objective(net, data, LOSSES, "gridded").strengths
    total = found.terms["chi2"] + sum(strengths[name] * found.terms[name] for name in LOSSES)
    assert found.terms["loss"] == pytest.approx(total, rel=1e-6)


def test_a_lambda_of_the_gridded_loss_is_converted_and_it_says_so():
    gridded, exact = observed("gridded"), observed("exact")
    visibilities = np.count_nonzero(exact.weight)
    scale = len(gridded.index) / visibilities
    found = fit(model(), exact, losses=LOSSES, max_iter=1, progress=False)
    assert f"{scale:.4g}" in found.notes[0]
    net = model()
    net()
    terms = 1e-3 * TV_image(net.icube.sky_cube) + 1e-4 * sparsity(net.icube.sky_cube)
    assert found.loss[0] - found.chi2[0] == pytest.approx(scale * terms.item(), rel=1e-4)
    as_given = fit(model(), exact, losses=LOSSES, max_iter=1, lambdas="exact", progress=False)
    assert not as_given.notes
    assert as_given.loss[0] - as_given.chi2[0] == pytest.approx((found.loss[0] - found.chi2[0]) / scale, rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "optimizer", "bad"), [("gridded", "adam", np.inf), ("exact", "adam", np.nan), ("gridded", "lbfgs", np.nan)]
)
def test_a_loss_that_is_not_finite_stops_with_the_last_good_state(kind, optimizer, bad):
    calls = 0

    def fails_later(sky):
        nonlocal calls
        calls += 1
        return sky.sum() * (bad if calls > 60 else 1.0)

    net = model()
    options = {"optimizer": optimizer, "check_every": 10, "tolerance": None, "progress": False}
    found = fit(net, observed(kind), losses={"odd": (1e-3, fails_later)} | LOSSES, **options)
    assert found.status == "not finite"
    assert found.image.isfinite().all()
    assert all(value.isfinite().all() for value in net.state_dict().values())
    assert np.isfinite(found.loss).all()
    assert np.isfinite(found.terms["chi2"])
    assert 10 <= found.iterations < 70
    assert found.terms["chi2"] < found.chi2[0] / 3


@pytest.mark.parametrize("way", TYPES)
def test_lbfgs_converges_whatever_the_unit_of_the_image(way, take):
    """In a small unit a start is dark, and its gradient is next to nothing: 1e-8 a pixel, of a loss of 10."""
    take(way)
    rng = np.random.default_rng(0)
    u, v = rng.normal(scale=2.5e5, size=(2, 3000))
    noise = rng.normal(size=(8, 3000)) + 1j * rng.normal(size=(8, 3000))
    data = 1e4 * (Ring(1.0, 0.5, 0.15, 40, 30, 0.4, -0.3).visibilities(u, v) + noise)
    likelihood = ExactLikelihood(u, v, data, np.full(3000, 1e-8), cell_size=0.05, npix=64)
    net = GriddedNet(GridCoords(0.05, 64), 8)
    found = fit(net, likelihood, optimizer="lbfgs", max_iter=20, tolerance=None, separate=True, progress=False)
    assert (found.loss[-1] < (np.abs(noise) ** 2).mean(1) / 2).all()  # what the truth leaves


def test_the_likelihood_is_centred_anew_at_checks_only_when_needed(monkeypatch):
    """S/N of 2000: about a reference far away, float32 has lost chi² of the end."""
    rng = np.random.default_rng(2)
    u, v = rng.normal(scale=2.5e5, size=(2, 3000))
    data = Ring(0.5, 0.5, 0.2, 40, 30, 0.4, -0.3).visibilities(u, v)
    data += 2.5e-4 * (rng.normal(size=u.shape) + 1j * rng.normal(size=u.shape))
    weight = np.full(u.shape, 2.5e-4**-2)
    likelihood = ExactLikelihood(u, v, data, weight, COORDS.cell_size, COORDS.npix)
    passes, recentre = [], likelihood.recentre
    monkeypatch.setattr(likelihood, "recentre", lambda image: (passes.append(image), recentre(image)))
    found = fit(model(), likelihood, optimizer="lbfgs", max_iter=200, tolerance=None, check_every=10, progress=False)
    assert 1 <= len(passes) < 21
    honest = (weight * likelihood.residuals(found.image)[0].abs().numpy() ** 2).sum() / (2 * len(u))
    assert found.terms["chi2"] == pytest.approx(honest, rel=1e-5)
    assert honest < 1e-4 * found.chi2[0]
    assert not likelihood.needs_recentring(found.image)


def test_the_best_image_is_kept_where_the_last_is_worse():
    found = fit(model(), observed("gridded"), lr=8, max_iter=60, check_every=5, tolerance=None, progress=False)
    at_checks = found.loss[5::5]
    assert found.terms["loss"] <= at_checks.min() * (1 + 1e-6)


@pytest.mark.parametrize("fails", [False, True])
def test_a_small_image_is_fitted_on_one_thread_and_the_others_are_given_back(monkeypatch, fails):
    seen = []

    def prior(sky):
        seen.append(torch.get_num_threads())
        if fails and len(seen) > 2:
            raise RuntimeError
        return sky.sum()

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(RuntimeError) if fails else nullcontext():
            fit(model(), observed("gridded"), losses={"own": (1e-3, prior)}, max_iter=3, progress=False)
        assert torch.get_num_threads() == 2
        assert set(seen) == {1}
        monkeypatch.setattr("firstlight_imaging.fitting.fit_loop._ONE_THREAD", 1)
        with suppress(RuntimeError):
            fit(model(), observed("gridded"), losses={"own": (1e-3, prior)}, max_iter=3, progress=False)
        assert seen[-1] == 2  # a large one
    finally:
        torch.set_num_threads(before)


def nothing_counts():
    u = np.array([1e5, 2e5])
    return ExactLikelihood(u, u, np.ones(2, complex), np.zeros(2), COORDS.cell_size, COORDS.npix)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"optimizer": "sgd"}, "'sgd'"),
        ({"lr": np.nan}, "lr"),
        ({"check_every": 0}, "check_every"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"losses": {"tv": (np.nan, TV_image)}}, "'tv'"),
        ({"losses": {"tv": TV_image}}, "'tv'"),
        ({"losses": {"odd": (1.0, lambda sky: sky.sum() * np.inf)}}, "odd"),
        ({"lambdas": "exact"}, "ExactLikelihood"),
        ({"model": GriddedNet(GridCoords(0.05, 32))}, "32"),
        ({"model": torch.nn.Linear(2, 2)}, "icube"),
        ({"data": nothing_counts()}, "weight"),
    ],
)
def test_what_makes_no_fit_is_refused(options, says):
    with pytest.raises((ValueError, TypeError), match=says):
        fit(**{"model": model(), "data": observed("gridded"), "progress": False} | options)
