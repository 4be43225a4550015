from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firstlight.imaging import neighbours
from firstlight.imaging.observe import (
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
from firstlight.imaging.skies import Point, protoplanetary_disk
from firstlight.imaging.tracks import uv_track
from firstlight.imaging.uvfits import read_uvfits
from firstlight.imaging.uvfits_writer import write_uvfits
from firstlight.imaging.weights import Scatter, check_weights, scale_weights

WIDE = protoplanetary_disk(size=1.7, east=0.2, north=-0.3)  # nearly 5.4 arcsec across, 0.25 Jy
EIGHT = np.random.default_rng(1).normal(scale=(300, 300, 10), size=(8, 3))
SIGMA = 0.005


def few(n_times: int = 60, frequency: object = 230e9, sky: object = WIDE) -> Observation:
    return observe(sky, uv_track(EIGHT, n_times=n_times), frequency)  # type: ignore[arg-type]


def weighted(seen: Observation, where: np.ndarray, factor: float) -> Observation:
    return replace(seen, weight=np.where(where, factor * seen.weight, seen.weight))


def off(found: Scatter, expected: float = 1.0) -> float:
    """How many of its errors a factor is off."""
    return abs(found.factor / expected - 1) / (found.error / found.factor)


@pytest.mark.parametrize(("sigma", "n_times"), [(0.03, 20), (0.005, 120), (0.0005, 20)])
def test_right_weights_have_the_factor_one_whatever_the_sky(sigma: float, n_times: int) -> None:
    """At 0.5 mJy the disk is 500 times brighter than the noise."""
    report = check_weights(with_noise(observe(WIDE, uv_track(n_times=n_times)), sigma, seed=n_times))
    assert len(report.totals) == 1
    assert len(report.by_length) == 4
    for found in (*report.totals, *report.by_length):
        assert off(found) < 4
        assert found.error < 0.05
        assert not found.limit
        assert not found.wrong


def test_errors_are_what_they_say() -> None:
    truth = few()
    found = [check_weights(with_noise(truth, 1.0, seed=seed)) for seed in range(60)]
    for pulls in ([r.totals for r in found], [r.by_length for r in found]):
        z = np.array([(s.factor - 1) / s.error for each in pulls for s in each])
        assert 0.7 < z.std() < 1.3
        assert abs(z.mean()) < 0.5  # choosing the least scatter leaves a little


@pytest.mark.parametrize("factor", [0.001, 0.5, 2.0, 1000.0])
def test_wrong_weights_in_one_window_are_named_and_mended(factor: float) -> None:
    truth = few(frequency=channels(230e9, 2e8, 2))
    good = with_noise(join_windows([truth, few(frequency=channels(245e9, 2e8, 3)), truth]), SIGMA, seed=3)
    bad = weighted(good, block(good, window=1), factor)
    report = check_weights(bad)
    assert [(s.window, s.execution) for s in report.wrong] == [(1, 0)]
    assert off(report.totals[1], 1 / factor) < 4
    assert report.worst == report.totals[1].factor
    mended = scale_weights(bad, report)
    assert mended.weight == pytest.approx(good.weight, rel=0.15)
    again = check_weights(mended)
    assert not again.wrong
    assert again.worst == pytest.approx(1, abs=0.02)


def test_one_misscaled_execution_is_named_and_spoils_no_other() -> None:
    good = with_noise(join_executions([few(40), few(50), few(40)]), SIGMA, seed=0)
    bad = misscale(good, block(good, execution=1), 1.5)
    report = check_weights(bad)
    assert [(s.window, s.execution) for s in report.wrong] == [(0, 1)]
    assert off(report.totals[1], 1 / 1.5**2) < 4
    assert max(off(report.totals[0]), off(report.totals[2])) < 4
    scaled = scale_weights(bad, report).weight / bad.weight
    assert (np.unique(scaled[:, good.execution == 1]) == report.totals[1].factor).all()
    assert np.abs(scaled[:, good.execution != 1] - 1).max() < 0.2


def test_weights_that_are_wrong_on_long_baselines_only() -> None:
    good = with_noise(few(n_times=200), SIGMA, seed=5)
    length = np.hypot(good.uu, good.vv)
    report = check_weights(weighted(good, length > np.median(length), 4.0))
    factors = [s.factor for s in report.by_length]
    assert factors[:2] == pytest.approx([1, 1], abs=0.15)
    assert factors[2:] == pytest.approx([0.25, 0.25], abs=0.05)
    assert [s.longest for s in report.by_length[:-1]] == [s.shortest for s in report.by_length[1:]]


def test_antennas_of_different_noise() -> None:
    report = check_weights(with_noise(few(n_times=200), np.geomspace(0.001, 0.1, 8), seed=2))
    assert max(off(s) for s in (*report.totals, *report.by_length)) < 4


def test_a_few_outliers_do_no_harm() -> None:
    seen = with_noise(few(n_times=300), SIGMA, seed=0)
    struck = np.random.default_rng(0).uniform(size=seen.data.shape) < 0.01
    report = check_weights(replace(seen, data=np.where(struck, 1e6, seen.data)))
    assert report.worst == pytest.approx(1, abs=0.06)


def test_what_is_flagged_may_be_anything() -> None:
    clean = with_noise(few(n_times=100, frequency=channels(230e9, 1e9, 2)), SIGMA, seed=0)
    where = block(clean, antenna=3) | block(clean, times=(-2000, -500)) | (block(clean, antenna=1) & (clean.uu > 0))
    where[1, ::7] = True
    seen = flag(replace(clean, data=np.where(where, complex(math.nan, math.inf), clean.data)), where)
    report = check_weights(seen)
    assert off(report.totals[0]) < 4
    assert report.totals[0].n < check_weights(clean).totals[0].n * 0.7
    assert (scale_weights(seen, report).weight[where] == 0).all()


def test_a_single_integration_cannot_tell_and_says_so() -> None:
    seen = with_noise(few(n_times=1), SIGMA, seed=0)
    report = check_weights(seen)
    assert math.isnan(report.worst)
    assert not report.wrong
    assert (scale_weights(seen, report).weight == seen.weight).all()


def test_channels_of_a_single_integration_can() -> None:
    good = with_noise(observe(WIDE, uv_track(n_times=1), channels(230e9, 2e7, 12)), SIGMA, seed=0)
    assert math.isnan(check_weights(good).worst)
    for factor in (1.0, 4.0):
        (total,) = check_weights(weighted(good, block(good), factor), along="frequency").totals
        assert off(total, 1 / factor) < 4
        assert total.wrong == (factor != 1)


def test_channels_are_neighbours_within_their_window_only() -> None:
    one = with_noise(few(n_times=1, frequency=230e9), SIGMA, seed=0)
    assert math.isnan(check_weights(join_windows([one] * 5), along="frequency").worst)


def test_one_of_two_executions_without_neighbours() -> None:
    seen = with_noise(join_executions([few(60), few(1)]), SIGMA, seed=0)
    report = check_weights(weighted(seen, block(seen, execution=0), 2.0))
    assert report.worst == pytest.approx(0.5, rel=0.15)
    assert math.isnan(report.totals[1].factor)


def test_a_sky_that_changes_all_the_time_is_no_reason_to_lower_weights() -> None:
    seen = with_noise(few(n_times=20, sky=[Point(5.0, east=9.0, north=-4.0)]), 0.001, seed=0)
    report = check_weights(seen)
    (total,) = report.totals
    assert total.factor < 0.01
    assert total.limit
    assert not total.wrong
    assert (scale_weights(seen, report).weight == seen.weight).all()


def test_two_integrations_tell_a_limit() -> None:
    track = uv_track(n_times=2, hour_angles=(0, 0.01))
    seen = with_noise(observe(WIDE, track), SIGMA, seed=1)
    (total,) = check_weights(seen).totals
    assert total.limit
    assert 0.5 < total.factor < 1.2


def test_the_order_of_the_rows_does_not_matter() -> None:
    seen = with_noise(few(), SIGMA, seed=0)
    mixed = np.random.default_rng(0).permutation(len(seen.time))
    shuffled = replace(
        seen,
        **{name: getattr(seen, name)[:, mixed] for name in ("uu", "vv", "data", "weight")},
        antennas=seen.antennas[mixed],
        time=seen.time[mixed],
    )
    assert check_weights(shuffled) == check_weights(seen)


def test_large_data_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = with_noise(few(n_times=200, frequency=channels(230e9, 1e9, 3)), SIGMA, seed=0)
    everything = check_weights(seen).totals[0]
    monkeypatch.setattr(neighbours, "MOST", 3000)
    some = check_weights(seen).totals[0]
    assert 1000 < some.n <= 3000 < everything.n
    assert off(some) < 4
    many = with_noise(observe(WIDE, uv_track(n_times=1), channels(230e9, 2e7, 12)), SIGMA, seed=0)
    assert off(check_weights(many, along="frequency").totals[0]) < 4


def test_gaps_between_scans_are_no_neighbours() -> None:
    """Without a look at the times, a difference would be taken across them, and the sky would be in it."""
    seen = with_noise(few(n_times=600), 0.0005, seed=0)
    number = np.arange(600).repeat(28)
    keep = number % 100 < 6
    scans = replace(
        seen,
        **{name: getattr(seen, name)[:, keep] for name in ("uu", "vv", "data", "weight")},
        antennas=seen.antennas[keep],
        time=seen.time[keep],
        execution=seen.execution[keep],
    )
    (total,) = check_weights(scans).totals
    assert off(total) < 4


def test_weights_from_a_file(tmp_path: Path) -> None:
    """In a file the numbers are rounded, the times too, and rows of several executions stand in subarrays."""
    windows = [few(30, channels(f, 1e8, 2)) for f in (230e9, 245e9)]
    good = with_noise(join_executions([join_windows(windows)] * 2), SIGMA, seed=0)
    day = 86164.0905
    good = replace(good, time=good.time + day * good.execution)
    bad = weighted(good, block(good, window=1, execution=0), 4.0)
    write_uvfits(tmp_path / "sky.uvfits", bad, phase_centre=(83.0, -24.0))
    report = check_weights(read_uvfits(tmp_path / "sky.uvfits"))
    assert [(s.window, s.execution) for s in report.wrong] == [(1, 0)]
    assert off(report.totals[2], 0.25) < 4


def test_a_sky_without_noise_has_no_factor_to_be_applied() -> None:
    nothing = observe([], uv_track(EIGHT, n_times=30))
    assert math.isnan(check_weights(nothing).worst)


def test_all_flagged_cannot_tell() -> None:
    seen = few()
    assert math.isnan(check_weights(flag(seen, block(seen))).worst)


def test_unusable_data_are_refused() -> None:
    seen = few(n_times=5)
    data, weight, uu = seen.data.copy(), seen.weight.copy(), seen.uu.copy()
    data[0, :3] = complex(0, math.nan)
    weight[0, 0] = -1
    uu[0, 0] = math.inf
    with pytest.raises(ValueError, match="3 visibilities"):
        check_weights(replace(seen, data=data))
    with pytest.raises(ValueError, match="weight"):
        check_weights(replace(seen, weight=weight))
    with pytest.raises(ValueError, match="uu"):
        check_weights(replace(seen, uu=uu))
    nothing = observe(WIDE, Track(np.empty((0, 3)), np.empty((0, 2), int), np.empty(0)))
    with pytest.raises(ValueError, match="empty"):
        check_weights(nothing)
    with pytest.raises(ValueError, match="along"):
        check_weights(seen, along="channel")  # type: ignore[arg-type]


def test_a_report_of_other_data_is_refused() -> None:
    one, two = with_noise(few(), SIGMA, seed=0), with_noise(join_executions([few(), few()]), SIGMA, seed=0)
    with pytest.raises(ValueError, match=r"\(0, 1\)"):
        scale_weights(two, check_weights(one))
