"""Closure quantities: gains do not change them, a wrong sky does, and an image is made of them alone."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from firstlight_imaging import GridCoords
from firstlight_imaging.fourier.limits import suggest_grid
from firstlight_imaging.selfcal.closures import ClosureImage, ClosureLikelihood, _check_memory, closure_image
from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point, Ring, sky_image
from firstlight_imaging.units import ARCSEC

COORDS = GridCoords(0.02, 64)
SKY = [Ring(0.6, radius=0.25, width=0.15), Point(0.1, east=-0.2, north=-0.16)]
TRACK = uv_track(alma_antennas()[::4], n_times=12)
SEEN = with_noise(observe(SKY, TRACK), 0.005, seed=0)


def with_random_gains(vis, seed=0, amplitude=0.3):
    rng = np.random.default_rng(seed)
    when = np.unique(vis.time, return_inverse=True)[1]
    shape = when.max() + 1, vis.antennas.max() + 1
    gains = np.exp(1j * rng.uniform(0, 2 * np.pi, shape) + amplitude * rng.normal(size=shape))
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


SMALL_TRACK = uv_track(alma_antennas()[::5], n_times=8)
SMALL = with_noise(observe([Ring(0.2, 0.2, 0.1)], SMALL_TRACK), 0.001, seed=0)


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_no_gain_explains_is_no_image_to_trust():
    turns = np.random.default_rng(0).normal(size=SMALL.data.shape)  # another one for each baseline
    found = closure_image(replace(SMALL, data=SMALL.data * np.exp(1j * turns)), field=1.0)
    assert np.isnan(found.flux)
    assert "doubtful" in str(found)


def test_a_ring_is_called_and_right_amplitudes_keep_their_flux():
    found = closure_image(SMALL, field=1.0)
    assert found.flux == pytest.approx(0.2, rel=0.05)
    assert found.verdict == "a ring"


@pytest.mark.slow
@pytest.mark.parametrize(
    "sky",
    [
        [Ring(0.2, 0, 0.2)],
        [Ring(0.15, 0, 0.2), Ring(0.05, 0, 0.15, east=0.15, north=0.1)],
        [Point(0.12), Point(0.08, east=0.2, north=0.1)],
    ],
    ids=["Gaussian", "jet", "two points"],
)
def test_a_sky_without_a_ring_gets_none(sky):
    found = closure_image(with_random_gains(with_noise(observe(sky, SMALL_TRACK), 0.001, seed=0)), field=1.0)
    assert found.has_ring is False


def images_of(*holes):
    """Images of rings whose holes are so deep."""
    east, north = np.meshgrid(np.arange(32) - 15.0, np.arange(32) - 15.0)
    radius = np.hypot(east, north)
    return np.stack([np.exp(-((radius / 9) ** 4)) - hole * np.exp(-((radius / 4) ** 2)) for hole in holes])


@pytest.mark.parametrize(
    ("holes", "verdict"),
    [((0.8, 0.6, 0.9, 0.5), "a ring"), ((0, 0.1, 0, 0), "no ring"), ((0.8, 0, 0.6, 0), "doubtful")],
)
def test_a_ring_is_in_all_images_or_doubtful(holes, verdict):
    images = images_of(*holes)
    found = ClosureImage(images.mean(0), GridCoords(0.1, 32), 0.5, 1.0, 1.0, images, 4)
    assert found.verdict == verdict


def test_no_ring_is_doubtful_where_a_ring_fits_as_well():
    images = images_of(0, 0.1, 0, 0)
    found = ClosureImage(images.mean(0), GridCoords(0.1, 32), 0.5, 1.0, 1.0, images, 4, ring_fits=True)
    assert found.verdict == "doubtful"
    assert str(found) != str(replace(found, ring_fits=False)), "and says why"


def test_images_that_do_not_agree_are_doubtful():
    images = images_of(0, 0, 0, 0)
    images[:, :16] *= np.array([1.0, 0.0, 1.0, 0.0])[:, None, None]
    images[:, :, :16] *= np.array([1.0, 1.0, 0.0, 0.0])[:, None, None]
    found = ClosureImage(images.mean(0), GridCoords(0.1, 32), 0.5, 1.0, 1.0, images, 4)
    assert found.verdict == "doubtful"
    assert found.is_disputed.any()


def test_integrations_are_averaged_though_gains_turn():
    """Of a hundred integrations in ten seconds, what closes is as sure as of one with their weight."""
    once = observe(SKY, uv_track(alma_antennas()[::6], n_times=1))
    again = {name: np.repeat(getattr(once, name), 100, axis=-1) for name in ("uu", "vv", "data", "weight")}
    again |= {name: np.repeat(getattr(once, name), 100, axis=0) for name in ("antennas", "execution")}
    time = np.tile(np.linspace(0, 10, 100), once.data.shape[1])
    many = with_random_gains(with_noise(replace(once, **again, time=time), 0.05, seed=0), amplitude=0.0)
    assert ClosureLikelihood(many, COORDS).nphases == ClosureLikelihood(with_noise(once, 0.005, seed=0), COORDS).nphases
    assert max(terms(many, SKY)) < 2
    assert min(terms(many, [Ring(0.6, radius=0.35, width=0.15), SKY[1]])) > 3


@pytest.mark.slow
def test_an_image_of_random_gains_is_the_sky():
    found = closure_image(with_random_gains(SEEN), field=COORDS.npix * COORDS.cell_size)
    assert max(found.phase_chi2, found.amplitude_chi2) < 1.5
    wide = [SKY[0], Ring(0.1, 0, 2 * found.coords.cell_size, east=-0.2, north=-0.16)]  # as a point lies between pixels
    truth = sky_image(wide, found.coords.cell_size, found.coords.npix)
    beam = 1 / SEEN.lengths.max() / ARCSEC / found.coords.cell_size  # in pixels: a point is as sharp as the data show
    images = [gaussian_filter(sky, beam / 2.355, mode="wrap") for sky in (found.sky, truth)]
    spectra = [np.fft.fft2(sky) for sky in images]
    best = np.fft.ifft2(spectra[0] * spectra[1].conj()).real.max()  # wherever it is
    assert best / np.linalg.norm(images[0]) / np.linalg.norm(images[1]) > 0.95
