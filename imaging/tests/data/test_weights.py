import math
from dataclasses import replace

import numpy as np
import pytest

from firstlight_imaging.data.visibilities import _CUBES, _PER_ROW, flag, join_executions, join_windows
from firstlight_imaging.data.weights import Scatter, check_weights, outlying_weights, scale_weights
from firstlight_imaging.simulate.observation import channels, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point, protoplanetary_disk

WIDE = protoplanetary_disk(size=1.7, east=0.2, north=-0.3)  # nearly 5.4 arcsec across, 0.25 Jy
EIGHT = np.random.default_rng(1).normal(scale=(300, 300, 10), size=(8, 3))
SIGMA = 0.005


def few(n_times=60, frequency=230e9, sky=WIDE):
    return observe(sky, uv_track(EIGHT, n_times=n_times), frequency)


def weighted(vis, where, factor):
    return replace(vis, weight=np.where(where, factor * vis.weight, vis.weight))


def off(found: Scatter, expected: float = 1.0) -> float:
    """How many of its errors a factor is off."""
    return abs(found.factor / expected - 1) / (found.error / found.factor)


@pytest.mark.parametrize(("sigma", "n_times"), [(0.03, 20), (0.005, 120), (0.0005, 20)])
def test_right_weights_have_the_factor_one_whatever_the_sky(sigma: float, n_times: int):
    """At 0.5 mJy the disk is 500 times brighter than the noise."""
    report = check_weights(with_noise(observe(WIDE, uv_track(n_times=n_times)), sigma, seed=n_times))
    assert len(report.totals) == 1
    assert len(report.by_length) == 4
    for found in (*report.totals, *report.by_length):
        assert off(found) < 4
        assert found.error < 0.05
        assert not found.lower_limit
        assert not found.wrong
        assert not found.doubtful


def test_errors_are_what_they_say():
    truth = few()
    found = [check_weights(with_noise(truth, 1.0, seed=seed)) for seed in range(60)]
    for pulls in ([r.totals for r in found], [r.by_length for r in found]):
        z = np.array([(s.factor - 1) / s.error for each in pulls for s in each])
        assert 0.7 < z.std() < 1.3
        assert abs(z.mean()) < 0.5  # choosing the least scatter leaves a little


@pytest.mark.parametrize("factor", [0.001, 0.5, 2.0, 1000.0])
def test_wrong_weights_in_one_window_are_named_and_mended(factor: float):
    truth = few(frequency=channels(230e9, 2e8, 2))
    good = with_noise(join_windows([truth, few(frequency=channels(245e9, 2e8, 3)), truth]), SIGMA, seed=3)
    bad = weighted(good, (good.window == 1)[:, None], factor)
    report = check_weights(bad)
    assert [(s.window, s.execution) for s in report.wrong] == [(1, 0)]
    assert off(report.totals[1], 1 / factor) < 4
    assert report.worst == report.totals[1].factor
    mended = scale_weights(bad, report)
    assert mended.weight == pytest.approx(good.weight, rel=0.15)
    again = check_weights(mended)
    assert not again.wrong
    assert again.worst == pytest.approx(1, abs=0.02)


def test_one_misscaled_execution_is_named_and_spoils_no_other():
    good = with_noise(join_executions([few(40), few(50), few(40)]), SIGMA, seed=0)
    bad = replace(good, data=np.where(good.execution == 1, 1.5 * good.data, good.data))
    report = check_weights(bad)
    assert [(s.window, s.execution) for s in report.wrong] == [(0, 1)]
    assert off(report.totals[1], 1 / 1.5**2) < 4
    assert max(off(report.totals[0]), off(report.totals[2])) < 4
    scaled = scale_weights(bad, report).weight / bad.weight
    assert (np.unique(scaled[:, good.execution == 1]) == report.totals[1].factor).all()
    assert np.abs(scaled[:, good.execution != 1] - 1).max() < 0.2


def test_weights_that_are_wrong_on_long_baselines_only():
    good = with_noise(few(n_times=200), SIGMA, seed=5)
    length = good.lengths
    report = check_weights(weighted(good, length > np.median(length), 4.0))
    factors = [s.factor for s in report.by_length]
    assert factors[:2] == pytest.approx([1, 1], abs=0.15)
    assert factors[2:] == pytest.approx([0.25, 0.25], abs=0.05)
    assert [s.longest for s in report.by_length[:-1]] == [s.shortest for s in report.by_length[1:]]


def test_what_is_flagged_may_be_anything():
    clean = with_noise(few(n_times=100, frequency=channels(230e9, 1e9, 2)), SIGMA, seed=0)
    gap = (clean.time > -2000) & (clean.time < -500)
    first, third = ((clean.antennas == antenna).any(axis=1) for antenna in (1, 3))
    where = third | gap | (first & (clean.uu > 0))
    where[1, ::7] = True
    vis = flag(replace(clean, data=np.where(where, complex(math.nan, math.inf), clean.data)), where)
    report = check_weights(vis)
    assert off(report.totals[0]) < 4
    assert report.totals[0].n < check_weights(clean).totals[0].n * 0.7
    assert (scale_weights(vis, report).weight[where] == 0).all()


def test_a_single_integration_cannot_tell_and_says_so():
    vis = with_noise(few(n_times=1), SIGMA, seed=0)
    report = check_weights(vis)
    assert math.isnan(report.worst)
    assert not report.wrong
    assert (scale_weights(vis, report).weight == vis.weight).all()


def test_a_sky_that_changes_all_the_time_is_no_reason_to_lower_weights():
    vis = with_noise(few(n_times=20, sky=[Point(5.0, east=9.0, north=-4.0)]), 0.001, seed=0)
    report = check_weights(vis)
    (total,) = report.totals
    assert total.factor < 0.01
    assert total.lower_limit
    assert not total.wrong
    assert total.doubtful
    assert (scale_weights(vis, report).weight == vis.weight).all()


def test_gaps_between_scans_are_no_neighbours():
    """Without a look at the times, a difference would be taken across them, and the sky would be in it."""
    vis = with_noise(few(n_times=600), 0.0005, seed=0)
    number = np.arange(600).repeat(28)
    keep = number % 100 < 6
    rows = np.random.default_rng(0).permutation(np.flatnonzero(keep))  # whose order does not matter
    parts = {name: getattr(vis, name)[:, rows] for name in _CUBES}
    (total,) = check_weights(replace(vis, **parts, **{name: getattr(vis, name)[rows] for name in _PER_ROW})).totals
    assert off(total) < 4


def test_a_weight_that_sticks_out_is_named():
    vis = replace(with_noise(few(frequency=channels(230e9, 1e9, 2)), SIGMA, seed=0), start=4.79e9)
    assert not outlying_weights(vis).any()
    planted = weighted(vis, (np.arange(2)[:, None] == 1) & (np.arange(len(vis.time)) == 77), 500.0)
    assert [at.tolist() for at in np.nonzero(outlying_weights(planted))] == [[1], [77]]
    first, second = vis.antennas[77]
    said = str(check_weights(replace(planted, antenna_names={int(first): "DA41"})))
    assert f"antennas DA41 and {second} at {vis.utc(vis.time[77])} in channel 1" in said
    assert "500 times" in said
    assert "13% of all weight" in said
    assert not outlying_weights(replace(planted, antennas=0 * vis.antennas)).any()


def test_weights_that_differ_with_reason_do_not_stick_out():
    """One antenna far better than all others, a rising source, a scan of longer integrations, edges, flags."""
    vis = with_noise(few(n_times=60, frequency=channels(230e9, 1e9, 3)), SIGMA, seed=0)
    best = np.where(vis.antennas == 0, 1000.0, 1.0).prod(axis=1)
    rising = np.exp(-4 * np.abs(vis.time) / np.abs(vis.time).max())
    longer = np.where(np.argsort(np.argsort(vis.time)) > 0.7 * len(vis.time), 60.0, 1.0)
    random = np.random.default_rng(0).lognormal(sigma=0.7, size=vis.weight.shape)
    uneven = replace(vis, weight=vis.weight * best * rising * longer * random * [[1.0], [1e-4], [300.0]])
    holes = flag(uneven, np.random.default_rng(1).random(uneven.weight.shape) < 0.6)
    few_left = flag(vis, (np.arange(len(vis.time)) // 28 > 5)[None])
    once = weighted(few_left, np.arange(len(vis.time)) == 3, 1000.0)
    for good in (uneven, holes, once, join_executions([vis, weighted(vis, True, 500.0)])):
        assert not outlying_weights(good).any()
        assert not check_weights(good).outliers


def test_a_report_of_other_data_is_refused():
    one, two = with_noise(few(), SIGMA, seed=0), with_noise(join_executions([few(), few()]), SIGMA, seed=0)
    with pytest.raises(ValueError, match=r"\(0, 1\)"):
        scale_weights(two, check_weights(one))
