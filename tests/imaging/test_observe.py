from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from firstlight.imaging.observe import (
    LIGHT_SPEED,
    Observation,
    Track,
    block,
    channels,
    flag,
    join_executions,
    join_windows,
    misscale,
    observe,
    with_noise,
)
from firstlight.imaging.skies import Point, Ring, Sky, protoplanetary_disk, sky_visibilities
from firstlight.imaging.tracks import uv_track

DISK = protoplanetary_disk()
SIX = np.random.default_rng(1).normal(scale=(300, 300, 10), size=(6, 3))


def few(n_times: int = 8, frequency: object = 230e9, sky: Sky = DISK) -> Observation:
    return observe(sky, uv_track(SIX, n_times=n_times), frequency)


def same(one: Observation, other: Observation) -> bool:
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(Observation))


def reduced_chi2(seen: Observation, truth: Observation) -> float:
    return float((seen.weight * np.abs(seen.data - truth.data) ** 2).sum() / (2 * (~seen.flagged).sum()))


def test_baselines_are_longer_in_wavelengths_at_higher_frequency() -> None:
    frequency = np.array([100e9, 230e9, 345e9])
    track = uv_track(SIX, n_times=3)
    seen = observe(DISK, track, frequency)
    assert seen.uu == pytest.approx(track.uvw[:, 0] * frequency[:, None] / LIGHT_SPEED)
    assert seen.vv[2] / seen.vv[0] == pytest.approx(np.full(45, 3.45))
    assert seen.data == pytest.approx(sky_visibilities(DISK, seen.uu, seen.vv), abs=1e-15)
    assert seen.data.dtype == np.complex128


def test_a_sky_may_change_with_frequency() -> None:
    def steep(f: float) -> Sky:
        return [Point((f / 230e9) ** 3, east=0.2)]

    seen = few(frequency=channels(230e9, 20e9, 3), sky=[Point(1.0, east=0.2)])
    changed = observe(steep, uv_track(SIX, n_times=8), seen.frequency)
    assert changed.data == pytest.approx(seen.data * (seen.frequency / 230e9)[:, None] ** 3)


def test_an_off_centre_source_turns_the_phase_as_the_convention_says() -> None:
    track = Track(np.array([[500.0, 0.0, 0.0], [0.0, 500.0, 0.0]]), np.array([[0, 1], [0, 2]]), np.zeros(2))
    seen = observe([Point(1.0, east=0.1)], track, 230e9)
    angle = -2 * math.pi * 500 * 230e9 / LIGHT_SPEED * math.radians(0.1 / 3600)
    assert np.angle(seen.data[0]) == pytest.approx([angle, 0.0])


@pytest.mark.parametrize("seed", range(5))
def test_the_truth_has_a_reduced_chi2_of_one(seed: int) -> None:
    truth = few(n_times=100, frequency=channels(230e9, 1e9, 2))
    sigma = np.linspace(0.002, 0.02, 6)
    noisy = with_noise(truth, sigma, seed=seed)
    assert abs(reduced_chi2(noisy, truth) - 1) < 5 / math.sqrt(noisy.data.size)


def test_noise_of_every_antenna_is_in_its_baselines() -> None:
    truth = few(n_times=2000)
    sigma = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 9.0])
    noise = with_noise(truth, sigma, seed=0).data - truth.data
    loud = (truth.antennas == 5).any(axis=1)
    for part in (noise.real, noise.imag):
        assert part[0, loud].std() == pytest.approx(3, rel=0.05)
        assert part[0, ~loud].std() == pytest.approx(1, rel=0.05)
    n = noise.size
    assert abs(np.mean(noise.real * noise.imag)) < 5 * np.mean(np.abs(noise) ** 2) / math.sqrt(n)
    assert abs(noise.mean()) < 5 * 3 / math.sqrt(n)
    assert with_noise(truth, sigma, seed=0).weight[0, loud] == pytest.approx(1 / 9)


def test_same_seed_same_data() -> None:
    truth = few()
    assert same(with_noise(truth, 0.01, seed=4), with_noise(truth, 0.01, seed=4))
    assert not same(with_noise(truth, 0.01, seed=4), with_noise(truth, 0.01, seed=5))
    assert same(truth, few())


def test_channels_do_not_share_their_noise() -> None:
    truth = few(n_times=500, frequency=channels(230e9, 1e9, 2))
    first, second = (with_noise(truth, 1.0, seed=0).data - truth.data).real
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / math.sqrt(first.size)


def test_a_flagged_block_has_no_weight_and_stays_so() -> None:
    truth = few(n_times=9, frequency=channels(230e9, 1e9, 2))
    where = block(truth, antenna=3, times=(-4000, 4000))
    assert where.sum() == 2 * 5 * 3  # integrations are 45 minutes apart: one at transit, one on each side
    noisy = with_noise(flag(truth, where), 0.01, seed=0)
    assert (noisy.flagged == where).all()
    assert np.isfinite(noisy.data).all()
    assert (flag(with_noise(truth, 0.01, seed=0), where).weight == noisy.weight).all()


def test_blocks_meet_in_all_that_they_name() -> None:
    parts = [few(n_times=4), few(n_times=6)]
    seen = join_windows([join_executions(parts), join_executions(parts)])
    assert block(seen).all()
    assert block(seen, execution=1).sum() == 2 * 6 * 15
    assert block(seen, window=1, execution=0).sum() == 4 * 15
    assert not block(seen, antenna=6).any()
    both = block(seen, antenna=2) & block(seen, times=(0, math.inf))
    assert (block(seen, antenna=2, times=(0, math.inf)) == both).all()


def test_one_misscaled_execution() -> None:
    sigma = 1e-4
    truth = join_executions([few(n_times=40), few(n_times=30)])
    good = with_noise(truth, sigma, seed=0)
    bad = misscale(good, block(good, execution=1), 1.2)
    assert (bad.data[0, : 40 * 15] == good.data[0, : 40 * 15]).all()
    assert bad.data[0, 40 * 15 :] == pytest.approx(1.2 * good.data[0, 40 * 15 :])
    assert (bad.weight == good.weight).all()
    assert reduced_chi2(bad, truth) > 10 > reduced_chi2(good, truth)
    assert good.execution.tolist() == [0] * 600 + [1] * 450


def test_two_windows_beside_each_other() -> None:
    low = with_noise(few(frequency=channels(220e9, 1e6, 3)), 0.03, seed=0)
    high = with_noise(few(frequency=channels(240e9, 31e6, 2)), 0.005, seed=1)
    seen = join_windows([low, high])
    assert seen.window.tolist() == [0, 0, 0, 1, 1]
    assert seen.data.shape == (5, 8 * 15)
    assert (seen.data[3:] == high.data).all()
    assert (seen.uu[:3] == low.uu).all()
    assert seen.weight[[0, 4], 0] == pytest.approx([0.03**-2, 0.005**-2])
    assert join_windows([seen, high]).window.tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_executions_are_counted_on() -> None:
    two = join_executions([few(2), few(1)])
    assert (
        join_executions([two, few(1), two]).execution.tolist()
        == np.repeat([0, 1, 2, 3, 4], [30, 15, 15, 30, 15]).tolist()
    )


def test_joining_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0 and 1 .*frequency"):
        join_executions([few(), few(frequency=231e9)])
    with pytest.raises(ValueError, match=r"0 and 2 .*time"):
        join_windows([few(), few(), replace(few(), time=few().time + 1)])
    for join in (join_executions, join_windows):
        with pytest.raises(ValueError, match="nothing to join"):
            join([])


def test_an_observation_tells_which_array_has_the_wrong_shape() -> None:
    with pytest.raises(ValueError, match=r"weight .*\(3,\).*\(1, 120\)"):
        replace(few(), weight=np.ones(3))
    with pytest.raises(ValueError, match=r"antennas .*\(120,\)"):
        replace(few(), antennas=np.zeros(120, int))


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, [1, 1, 1, 1, 1, 0]])
def test_impossible_noise_is_refused(sigma: object) -> None:
    with pytest.raises(ValueError, match="sigma"):
        with_noise(few(), sigma, seed=0)


def test_noise_needs_a_value_for_every_antenna() -> None:
    with pytest.raises(ValueError, match="6 antennas"):
        with_noise(few(), np.ones(5), seed=0)


@pytest.mark.parametrize("frequency", [0.0, -230e9, math.nan, [230e9, math.inf], [[230e9]]])
def test_impossible_frequencies_are_refused(frequency: object) -> None:
    with pytest.raises(ValueError, match="frequency"):
        few(frequency=frequency)


def test_a_single_channel_is_at_its_centre() -> None:
    assert channels(5.0, 2.0, 1).tolist() == [5.0]


def test_an_empty_track_stays_empty() -> None:
    nothing = Track(np.empty((0, 3)), np.empty((0, 2), int), np.empty(0))
    seen = with_noise(observe([Ring(1.0, 1.0, 0.1)], nothing), 0.1, seed=0)
    assert seen.data.shape == seen.weight.shape == (1, 0)
    assert join_executions([seen, few()]).data.shape == (1, 120)
