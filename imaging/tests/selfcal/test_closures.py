"""Closure quantities: gains do not change them, a wrong sky does, and an image is made of them alone."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from firstlight_imaging import GridCoords
from firstlight_imaging.fourier.limits import suggest_grid
from firstlight_imaging.selfcal.closures import ClosureLikelihood, _check_memory, closure_image
from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point, Ring, sky_image
from firstlight_imaging.units import ARCSEC

COORDS = GridCoords(0.02, 64)
SKY = [Ring(0.6, radius=0.25, width=0.15), Point(0.1, east=-0.2, north=-0.16)]
TRACK = uv_track(alma_antennas()[::4], n_times=12)
SEEN = with_noise(observe(SKY, TRACK), 0.005, seed=0)


def with_random_gains(vis, seed=0):
    rng = np.random.default_rng(seed)
    when = np.unique(vis.time, return_inverse=True)[1]
    shape = when.max() + 1, vis.antennas.max() + 1
    gains = np.exp(1j * rng.uniform(0, 2 * np.pi, shape) + 0.3 * rng.normal(size=shape))
    first, second = (gains[when, antenna] for antenna in vis.antennas.T)
    factor = first * second.conj()
    return replace(vis, data=vis.data * factor, weight=vis.weight / np.abs(factor) ** 2)


def terms(vis, sky):
    truth = torch.from_numpy(sky_image(sky, COORDS.cell_size, COORDS.npix))
    return [float(term) for term in ClosureLikelihood(vis, COORDS, dtype=torch.float64).terms(truth)]


def test_gains_change_nothing_and_the_truth_fits():
    true, wrong = terms(SEEN, SKY), terms(with_random_gains(SEEN), SKY)
    assert true == pytest.approx(wrong, rel=1e-6)
    assert max(true) < 1.3


def test_a_wrong_sky_does_not_fit():
    phases, amplitudes = terms(SEEN, [Ring(0.6, radius=0.35, width=0.15), Point(0.1, east=-0.2, north=-0.16)])
    assert min(phases, amplitudes) > 3


def test_flux_and_place_of_an_image_do_not_matter():
    truth = terms(SEEN, SKY)
    moved = [replace(part, east=part.east + 0.06, north=part.north - 0.04) for part in SKY]
    twice = [replace(part, flux=2 * part.flux) for part in moved]
    assert terms(SEEN, twice) == pytest.approx(truth, rel=0.05)


def test_the_gradient_is_that_of_the_value():
    likelihood = ClosureLikelihood(SEEN, GridCoords(0.1, 6), dtype=torch.float64)
    image = torch.rand(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(lambda sky: likelihood(sky) / 1e6, image)


def test_antennas_that_come_and_go():
    """Flags that leave chains, single baselines and separate pairs; autocorrelations; numbers with gaps."""
    rng = np.random.default_rng(1)
    lost = rng.random(SEEN.data.shape) < 0.7
    odd = replace(SEEN, weight=np.where(lost, 0, SEEN.weight), data=np.where(lost, np.nan, SEEN.data))
    odd = replace(odd, antennas=7 * odd.antennas + 2)
    found = ClosureLikelihood(with_random_gains(odd), COORDS, dtype=torch.float64)
    assert 0 < found.nphases < ClosureLikelihood(SEEN, COORDS).nphases
    assert max(terms(with_random_gains(odd), SKY)) < 1.5


def test_two_antennas_have_no_closure():
    pair = (SEEN.antennas == [0, 1]).all(axis=1)
    with pytest.raises(ValueError, match="closure"):
        ClosureLikelihood(replace(SEEN, weight=np.where(pair, SEEN.weight, 0)), COORDS)


def test_a_field_that_memory_cannot_hold_is_refused_with_one_that_it_can():
    """A VLBI set whose field was meant in mas."""
    vlbi = replace(SEEN, uu=500 * SEEN.uu, vv=500 * SEEN.vv)
    with pytest.raises(ValueError, match="arcsec or less") as refused:
        closure_image(vlbi, field=10.0)
    largest = float(re.search(r"field of ([\d.e-]+) arcsec or less", str(refused.value))[1])
    assert 0.001 < largest < 10
    _check_memory(SEEN.data.size, suggest_grid(vlbi, 0.9 * largest))


SMALL = with_noise(observe([Ring(0.2, 0.2, 0.1)], uv_track(alma_antennas()[::5], n_times=8)), 0.001, seed=0)


def test_weak_gains_on_the_shortest_baselines_leave_the_flux_unknown():
    """Closure quantities, and so the image, are right; but its flux has come from all the other baselines."""
    pair = SMALL.antennas[SMALL.lengths.min(axis=0).argmin()]
    both, near = (SMALL.antennas == pair).all(axis=1), (SMALL.lengths <= 2 * SMALL.lengths[SMALL.lengths > 0].min())[0]
    gain = np.where(np.isin(SMALL.antennas, pair), 0.3, 1.0).prod(axis=1)
    alone = replace(SMALL, data=SMALL.data * gain, weight=np.where(near & ~both, 0, SMALL.weight))
    found = closure_image(alone, field=1.0)
    assert max(found.phase_chi2, found.amplitude_chi2) < 1.5
    assert np.isnan(found.flux)
    assert "not known" in str(found)
    assert "doubtful" not in str(found)


def test_what_no_gain_explains_is_no_image_to_trust():
    turns = np.random.default_rng(0).normal(size=SMALL.data.shape)  # another one for each baseline
    found = closure_image(replace(SMALL, data=SMALL.data * np.exp(1j * turns)), field=1.0)
    assert np.isnan(found.flux)
    assert "doubtful" in str(found)


def test_right_amplitudes_keep_their_flux():
    assert closure_image(SMALL, field=1.0).flux == pytest.approx(0.2, rel=0.05)


@pytest.mark.slow
def test_an_image_of_random_gains_is_the_sky():
    found = closure_image(with_random_gains(SEEN), field=COORDS.npix * COORDS.cell_size)
    assert max(found.phase_chi2, found.amplitude_chi2) < 1.5
    truth = sky_image(SKY, found.coords.cell_size, found.coords.npix)
    beam = 1 / SEEN.lengths.max() / ARCSEC / found.coords.cell_size  # in pixels: a point is as sharp as the data show
    images = [gaussian_filter(sky, beam / 2.355, mode="wrap") for sky in (found.sky, truth)]
    spectra = [np.fft.fft2(sky) for sky in images]
    best = np.fft.ifft2(spectra[0] * spectra[1].conj()).real.max()  # wherever it is
    assert best / np.linalg.norm(images[0]) / np.linalg.norm(images[1]) > 0.95
