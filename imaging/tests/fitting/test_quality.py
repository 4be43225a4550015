"""The verdicts on a fit: over-fitted, not converged, doubtful, or converged."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from firstlight_imaging import DataAverager, ExactLikelihood, GridCoords, GriddedNet, fit
from firstlight_imaging.coordinates import sky_to_packed
from firstlight_imaging.fitting.quality import (
    Fault,
    Measured,
    assess,
    map_noise,
    residual_image,
    short_baseline_amplitude,
    short_baseline_flux,
)
from firstlight_imaging.fourier.beams import Beam
from firstlight_imaging.model import losses
from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Ring, sky_image

COORDS = GridCoords(cell_size=0.035, npix=120)
SKY = [Ring(0.3, radius=0.3, width=0.25, east=0.3, north=-0.2)]
CLEAN = observe(SKY, uv_track(n_times=12, hour_angles=(-2, 2)))
SIGMA = 0.03
SEEN = with_noise(CLEAN, SIGMA, seed=1)
FLUX = 0.3


def exact(vis=SEEN, **options):
    return ExactLikelihood(vis.uu, vis.vv, vis.data, vis.weight, COORDS.cell_size, COORDS.npix, **options)


def fitted(strength, data=None, **how):
    options = {"optimizer": "lbfgs", "max_iter": 200, "tolerance": 1e-5, "progress": False} | how
    data = data or exact()
    lambdas = {"lambdas": "exact"} if isinstance(data, ExactLikelihood) else {}
    slope = COORDS.cell_size**2 * SEEN.weight.sum() ** 0.5 / SEEN.data.size
    tv = partial(losses.TV_image, epsilon=1e-6)
    return fit(GriddedNet(COORDS), data, losses={"tv": (strength * slope, tv)}, **lambdas, **options)


@pytest.mark.parametrize(("strength", "verdict"), [(0.01, "over-fitted"), (100, "not converged")])
def test_a_wrong_strength_is_told(strength, verdict):
    found = fitted(strength)
    assert found.quality.verdict == verdict
    assert found.status in (verdict, "max_iter")
    assert verdict in str(found)


def test_a_fit_that_was_stopped_has_not_converged():
    assert fitted(3, max_iter=3).status == "max_iter"


def test_flux_of_an_empty_sky_is_told():
    quality = fitted(0.3).quality
    assert quality.flux > 1.1 * FLUX  # positive pixels make flux of noise
    assert any("shortest baselines" in said for _, said in quality.faults)


def test_residuals_of_the_truth_are_noise():
    truth = torch.from_numpy(sky_image(SKY, COORDS.cell_size, COORDS.npix))[None]
    residual = residual_image(truth, exact(dtype=torch.float64))
    assert abs(residual.std() - 1) < 0.1
    assert np.abs(residual).max() < 5.5


def test_residuals_of_cells_are_those_of_their_visibilities():
    at = COORDS.du * np.array([[3.0, -7.0, 20.0], [5.0, 11.0, -2.0]])  # in the middle of their cells
    weight, data = np.array([1.0, 4.0, 2.0]), np.array([1 + 2j, -0.5j, 3.0])
    cells = DataAverager(COORDS, *at, weight, data.real, data.imag).to_pytorch_dataset(check_visibility_scatter=False)
    visibilities = ExactLikelihood(*at, data, weight, COORDS.cell_size, COORDS.npix, dtype=torch.float64)
    sky = torch.rand(1, COORDS.npix, COORDS.npix, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert residual_image(sky, cells) == pytest.approx(residual_image(sky, visibilities), abs=1e-8)


def test_residuals_through_a_primary_beam_are_in_sigma():
    beam = Beam(6.0, 6.0, 0.0).at(*COORDS.sky_coordinates())
    data = exact(dtype=torch.float64, beam=beam)
    dark = torch.zeros(1, COORDS.npix, COORDS.npix, dtype=torch.float64)
    plain = residual_image(dark, exact(dtype=torch.float64))
    assert residual_image(dark, data) == pytest.approx(plain, rel=1e-6, abs=1e-6)


def test_the_shortest_baselines_tell_the_flux():
    truth = sky_image(SKY, COORDS.cell_size, COORDS.npix)
    for brighter in (1, 3):  # its shape is what counts
        flux, error = short_baseline_flux(brighter * truth, exact(dtype=torch.float64), 0)
        assert abs(flux - FLUX) < 4 * error < 0.3 * FLUX


@pytest.mark.parametrize("estimate", [short_baseline_flux, short_baseline_amplitude])
@pytest.mark.parametrize("scatter", [0.0, 0.5])
def test_the_error_of_that_flux_is_how_far_baselines_disagree(estimate, scatter):
    """Gains of antennas that are off make the shortest baselines disagree by more than their noise."""
    truth, pulls = sky_image(SKY, COORDS.cell_size, COORDS.npix), []
    for seed in range(16):
        gains = np.exp(scatter * np.random.default_rng(seed).normal(size=(12, CLEAN.antennas.max() + 1)))
        first, second = gains[np.unique(CLEAN.time, return_inverse=True)[1], CLEAN.antennas.T]
        scale = first * second / np.exp(scatter**2)  # whose mean is 1, and whose square's is larger
        wrong = with_noise(replace(CLEAN, data=CLEAN.data * scale), SIGMA, seed=seed)
        flux, error = estimate(truth, exact(wrong, dtype=torch.float64), 0)
        pulls.append((flux - FLUX) / error)
    assert np.std(pulls) < 3


@pytest.mark.parametrize(
    ("fluxes", "said"),
    [
        ((5.9, 6.6, 0.01), "misses 0.7 Jy (11%)"),
        ((6.6, 6.0, 0.01), "0.6 Jy (10%) more"),
        ((6.0, 6.6, 0.2), ""),
        ((0.0, 0.0, 0.0), ""),
    ],
)
def test_what_an_image_misses_is_told_where_noise_does_not_explain_it(fluxes, said):
    quality = str(assess(Measured(1.0, 1000, 1.0, 1.0, 4.0, *fluxes)))
    assert said in quality
    assert ("Jy (" in quality) == bool(said)


def test_cells_that_bias_are_doubtful():
    wide = [Ring(30.0, radius=1.4, width=0.3, east=0.3, north=-0.2)]
    vis = with_noise(observe(wide, uv_track(n_times=40)), SIGMA, seed=2)
    parts = (vis.uu, vis.vv, vis.weight, vis.data.real, vis.data.imag)
    cells = DataAverager(COORDS, *parts).to_pytorch_dataset(check_visibility_scatter=False)
    assert cells.bias > 1
    start = sky_to_packed(torch.full((1, COORDS.npix, COORDS.npix), -3.0))
    found = fit(GriddedNet(COORDS, base_cube=start), cells.float(), max_iter=3, progress=False)
    assert any("averages in cells" in said for _, said in found.quality.faults)


def test_amplitudes_of_short_baselines_do_not_care_for_phases():
    data = exact(replace(SEEN, data=SEEN.data * np.exp(2j * np.random.default_rng(0).normal(size=SEEN.data.shape))))
    source = sky_image(SKY, COORDS.cell_size, COORDS.npix)
    assert abs(short_baseline_amplitude(source, data, 0)[0] - FLUX) < 0.1 * FLUX
    assert short_baseline_flux(source, data, 0)[0] < 0.5 * FLUX


@pytest.mark.parametrize("covered", [0.2, 1.0])
def test_the_noise_of_a_map_is_that_beside_the_source(covered):
    residual = np.random.default_rng(0).normal(size=(100, 100))
    mask = np.zeros(residual.shape, bool)
    mask[: round(100 * covered)] = True
    residual[:10] += 50
    assert abs(map_noise(residual, mask) - 1) < (0.1 if covered < 1 else 0.3)


def test_baselines_that_disagree_make_the_flux_of_short_ones_uncertain():
    """Two of them, whose rows take turns: an antenna of one has lost a fifth of its amplitude."""
    turn = (np.linspace(0, 0.5, 40)[:, None] + [0, 1.5]).ravel()
    u, v = 1e4 * np.cos(turn), 1e4 * np.sin(turn)
    data = np.tile([1.0, 0.8], 40).astype(complex)
    point = np.zeros((16, 16))
    point[8, 7] = 1 / 0.1**2
    for estimate in (short_baseline_flux, short_baseline_amplitude):
        seen = ExactLikelihood(u, v, data, np.full(80, 1e6), cell_size=0.1, npix=16)
        assert 0.01 < estimate(point, seen, 0)[1] < 0.2


def test_no_error_is_stated_of_the_short_baselines_where_calibration_limits_the_image():
    measured = Measured(3.0, 1000, 3.0, 3.0, 40.0, 3.5, 3.2, 0.001)
    assert "±" not in str(assess(measured, cause=Fault("limited by artefacts", "")))
    assert "3.2 ± 0.001 Jy" in str(assess(measured))
