"""Antenna gains: those that were planted are found, and right ones are left alone."""

from dataclasses import replace

import numpy as np
import pytest

from firstlight_imaging.automatic.auto_image import image
from firstlight_imaging.data.visibilities import join_executions
from firstlight_imaging.gains import apply_gains, chi2_of_gains, solve_gains
from firstlight_imaging.selfcal.self_calibration import SelfCalibration, _flux_scale, self_calibrate
from firstlight_imaging.simulate.observation import alma_antennas, channels, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point, Ring

SKY = [Ring(0.5, radius=0.4, width=0.3, east=0.2), Point(0.1, north=-0.3)]
TRACK = uv_track(alma_antennas()[:24], n_times=10, hour_angles=(-1, 1))
CLEAN = observe(SKY, TRACK, channels(230e9, 2e9, 2))


def planted(vis, degrees=0.0, percent=0.0, seed=0):
    """Return visibilities of antennas whose gains are off, at each time anew, and these gains."""
    rng = np.random.default_rng(seed)
    when = np.unique(vis.time, return_inverse=True)[1]
    shape = when.max() + 1, vis.antennas.max() + 1
    gains = np.exp(1j * np.radians(degrees) * rng.normal(size=shape) + percent / 100 * rng.normal(size=shape))
    first, second = (gains[when, antenna] for antenna in vis.antennas.T)
    return replace(vis, data=vis.data * first * second.conj()), gains


def chi2(vis, model=CLEAN.data):
    return (vis.weight * np.abs(vis.data - model) ** 2)[vis.weight > 0].mean() / 2


@pytest.mark.parametrize(("degrees", "percent"), [(15, 0), (100, 0), (10, 10)])
def test_planted_gains_are_found(degrees, percent):
    wrong, gains = planted(CLEAN, degrees, percent)
    noisy = with_noise(wrong, 0.02, seed=1)
    found = solve_gains(noisy, CLEAN.data, mode="amplitude" if percent else "phase")
    turn = gains * found.values.conj()
    turn /= turn.mean(axis=1, keepdims=True) / np.abs(turn.mean(axis=1, keepdims=True))
    assert found.values.shape == gains.shape
    assert np.abs(np.angle(turn)).max() < 0.15
    assert chi2(apply_gains(noisy, found)) < 1 < 2 < chi2(noisy)
    assert np.abs(found.values[:, list(found.antennas).index(found.reference)].imag).max() < 1e-9
    if percent:
        assert abs(np.log(np.abs(found.values)).mean()) < 1e-9  # which keeps the flux
        assert np.std(np.log(np.abs(found.values)) - np.log(np.abs(gains))) < 0.02


@pytest.mark.parametrize("sigma", [0.003, 0.03, 0.3, 3.0])
def test_right_gains_are_left_alone(sigma):
    off = []
    for seed in range(6):
        noisy = with_noise(CLEAN, sigma, seed=seed)
        found = (solve_gains(noisy, CLEAN.data, mode=mode) for mode in ("phase", "amplitude"))
        off += [(gains.values != 1).any(axis=0).mean() for gains in found]
    assert np.mean(off) < 0.02


@pytest.mark.parametrize("mode", ["phase", "amplitude"])
def test_an_antenna_that_is_off_all_night_stands_out_of_louder_noise(mode):
    """By 7 degrees, or 12 %, with some 5 degrees of noise in each interval: its mean is known far better."""
    factor = np.exp(1j * np.radians(7)) if mode == "phase" else 1.12
    first, second = np.where(CLEAN.antennas == 3, factor, 1).T
    wrong = replace(CLEAN, data=CLEAN.data * first * second.conj())
    found = solve_gains(with_noise(wrong, 0.12, seed=2), CLEAN.data, mode=mode)
    assert np.degrees(np.median(found.error)) > 3
    turned = found.values / np.delete(found.values, 3, axis=1).mean()
    at = np.angle(turned[:, 3]) / np.angle(factor) if mode == "phase" else np.log(np.abs(turned[:, 3])) / np.log(1.12)
    assert at == pytest.approx(1, abs=0.4)
    others = np.delete(turned, 3, axis=1)
    assert np.abs(others - 1).max() < 0.02


def test_intervals_grow_until_there_is_signal():
    lengths = [len(solve_gains(with_noise(CLEAN, sigma, seed=0), CLEAN.data).start) for sigma in (0.02, 0.4, 20.0)]
    assert lengths[0] == 10 > lengths[1] > lengths[2] == 1
    every = TRACK.time.max() - TRACK.time.min()
    assert len(solve_gains(with_noise(CLEAN, 0.02, seed=0), CLEAN.data, every=every / 2).start) == 2


@pytest.mark.parametrize("sigma", [0.8, 1.2])
def test_channels_bear_as_many_intervals_as_their_mean(sigma):
    clean = observe(SKY, uv_track(alma_antennas()[:24], n_times=40, hour_angles=(-1, 1)), channels(230e9, 1e6, 16))
    noisy = with_noise(clean, sigma, seed=0)
    means = {name: getattr(noisy, name).mean(axis=0, keepdims=True) for name in ("uu", "vv", "data")}
    one = {"frequency": noisy.frequency[:1], "window": noisy.window[:1], "weight": noisy.weight.sum(0, keepdims=True)}
    of_means = solve_gains(replace(noisy, **means, **one), clean.data.mean(axis=0, keepdims=True))
    assert len(solve_gains(noisy, clean.data).start) == pytest.approx(len(of_means.start), rel=0.1)


def test_executions_antennas_and_flags_of_all_sorts():
    """Numbers with gaps, antennas that come late, one without signal, autocorrelations, NaN where it is flagged."""
    wrong = planted(CLEAN, 40)[0]
    noisy = with_noise(wrong, 0.02, seed=1)
    late = (noisy.antennas == 5).any(axis=1) & (noisy.time < np.median(noisy.time))
    dead = (noisy.antennas == 7).any(axis=1) | late
    odd = replace(noisy, antennas=3 * noisy.antennas + 1, data=np.where(dead, np.nan, noisy.data))
    odd = replace(odd, weight=np.where(dead, 0, odd.weight))
    both = join_executions([odd, odd])
    calibrated = apply_gains(both, solve_gains(both, np.tile(CLEAN.data, 2)))
    assert chi2(calibrated, np.tile(CLEAN.data, 2)) < 1
    assert not solve_gains(both, np.tile(CLEAN.data, 2)).values[:, 7].imag.any()


def test_chi2_of_gains_does_not_care_for_gains():
    noisy = with_noise(CLEAN, 0.02, seed=0)
    wrong = with_noise(planted(CLEAN, 100)[0], 0.02, seed=0)
    assert abs(chi2_of_gains(noisy, CLEAN.data) - chi2_of_gains(wrong, CLEAN.data)) < 0.02
    assert chi2_of_gains(noisy, np.full(CLEAN.data.shape, 0.6)) > 1.5


def test_phases_that_were_fitted_before_count_once():
    noisy = with_noise(planted(CLEAN, 30)[0], 0.05, seed=1)
    gains = solve_gains(noisy, CLEAN.data)
    calibrated = apply_gains(noisy, gains)
    again, more = (chi2_of_gains(calibrated, CLEAN.data, parameters=n * gains.parameters) for n in (1, 3))
    assert again == chi2_of_gains(calibrated, CLEAN.data) == pytest.approx(1, abs=0.04)
    assert more > 1.03 * again


def test_unknown_antennas_are_told():
    unknown = replace(CLEAN, antennas=0 * CLEAN.antennas)
    with pytest.raises(ValueError, match="antennas"):
        solve_gains(unknown, CLEAN.data)


@pytest.mark.parametrize("ask", [self_calibrate, lambda vis, mode: solve_gains(vis, CLEAN.data, mode=mode)])
def test_a_mode_that_there_is_not_is_told_before_anything_is_fitted(ask):
    with pytest.raises(ValueError, match="'amplitude'; got 'amplitudes'"):
        ask(CLEAN, mode="amplitudes")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["phase", "amplitude"])
def test_self_calibration_makes_the_image_that_right_gains_make(mode):
    amplitude = mode == "amplitude"
    wrong = with_noise(planted(CLEAN, 20, 10 * amplitude)[0], 0.02, seed=1)
    assert image(wrong, draws=0).quality.verdict == "limited by calibration"
    found = self_calibrate(wrong, mode=mode)
    mended = image(found.vis, draws=0)
    assert abs(mended.flux / 0.6 - 1) < 0.03
    assert mended.quality.verdict == "converged", str(mended)
    assert 12 < np.median(found.phases.phase_scatter) < 30
    scale = mended.flux / image(apply_gains(wrong, found.phases), draws=0).flux if amplitude else 1
    assert found.flux_scale == pytest.approx(scale, abs=0.03)
    assert ("flux scale" in str(found)) == amplitude
    assert found.chi2[-1] < (found.chi2[0] if amplitude else 2)
    assert "WARNING" not in str(found)


@pytest.mark.parametrize(("sigma", "percent"), [(0.03, 0), (0.1, 0), (0.05, 15)])
def test_the_numbers_that_gains_are_are_what_chi2_lacks(sigma, percent):
    """Of strong signals all that is solved, of weak ones less."""
    lacking, told = [], []
    for seed in range(6):
        wrong, true = planted(CLEAN, 15, percent, seed)
        noisy = with_noise(wrong, sigma, seed=seed)
        gains = solve_gains(noisy, CLEAN.data, mode="amplitude" if percent else "phase")
        right = apply_gains(noisy, replace(gains, values=true))
        lacking.append(2 * noisy.data.size * (chi2(right) - chi2(apply_gains(noisy, gains))))
        told.append(gains.parameters)
    assert np.mean(lacking) == pytest.approx(np.mean(told), rel=0.3)


def test_amplitudes_that_make_an_image_worse_are_told():
    gains = solve_gains(with_noise(planted(CLEAN, 20, 10)[0], 0.02, seed=1), CLEAN.data, mode="amplitude")
    said = {end: str(SelfCalibration(CLEAN, gains, gains, 2, chi2=(24.7, end))) for end in (3.1, 24.8, 28.7)}
    assert ["chi² rises" in words for words in said.values()] == [False, False, True]


@pytest.mark.slow
def test_self_calibration_begins_with_what_stands_out_of_artefacts():
    """Amplitudes so wrong that most of the first image's flux is made of them."""
    clean = observe([Point(0.5)], uv_track(alma_antennas()[:9], n_times=12))
    first, second = np.exp(0.6 * np.random.default_rng(0).normal(size=9))[clean.antennas].T
    wrong = with_noise(replace(clean, data=clean.data * first * second), 0.003, seed=1)
    found = self_calibrate(wrong, mode="amplitude")
    spread = np.abs(found.vis.data).std() / np.abs(found.vis.data).mean()
    assert spread < 0.05, "all baselines see as much of a point"
    assert abs(image(found.vis, draws=0).flux / np.abs(found.vis.data).mean() - 1) < 0.1


def test_the_flux_scale_is_that_of_what_is_seen():
    after = replace(CLEAN, data=-1.09j * CLEAN.data, weight=CLEAN.weight.copy())
    after.weight[:, :50] = 0
    assert _flux_scale(CLEAN, after) == pytest.approx(1.09)


@pytest.mark.slow
def test_self_calibration_leaves_perfect_data_alone():
    for seed in range(3):
        noisy = with_noise(CLEAN, 0.05, seed=seed)
        found = self_calibrate(noisy, mode="amplitude")
        before, after = image(noisy, draws=0), image(found.vis, draws=0)
        assert abs(after.flux - before.flux) < 0.002  # the error is 0.012


def test_random_phases_make_no_flux():
    found = image(with_noise(planted(CLEAN, 1000)[0], 0.02, seed=0))
    assert found.quality.verdict == "not calibrated"
    assert np.isnan(found.flux)
    assert np.isnan(found.flux_error)
