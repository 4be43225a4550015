from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from firstlight.imaging.simulation import channels, observe, uv_track, with_noise
from firstlight.imaging.skies import Point, protoplanetary_disk
from firstlight.imaging.visibilities import (
    CUBES,
    OF_ROWS,
    block,
    check_usable,
    flag,
    join_executions,
    join_windows,
    select_baselines,
    shift_phase_centre,
)

SIX = np.random.default_rng(1).normal(scale=(300, 300, 10), size=(6, 3))


POINT = [Point(1.0, east=0.3)]


def few(sky=POINT, n_times=8, frequency=230e9):
    return observe(sky, uv_track(SIX, n_times=n_times), frequency)


def test_a_flagged_antenna_has_no_weight_and_its_data_stay():
    vis = with_noise(few(frequency=channels(230e9, 1e9, 2)), 0.01, seed=0)
    where = block(vis, antenna=3)
    flagged = flag(vis, where)
    assert where.sum() == 2 * 5 * 8
    assert (flagged.flagged == where).all()
    assert (flagged.weight[~where] == vis.weight[~where]).all()
    assert (flagged.data == vis.data).all()
    assert not block(vis, antenna=6).any()


def test_a_shift_moves_any_sky_in_every_channel_and_nothing_else():
    frequency = channels(230e9, 20e9, 3)
    here = with_noise(few(protoplanetary_disk(east=0.9, north=-1.3), frequency=frequency), 1e-14, seed=1)
    there = few(protoplanetary_disk(east=0.2, north=0.4), frequency=frequency)
    moved = shift_phase_centre(here, 0.7, -1.7)
    assert moved.data == pytest.approx(there.data, abs=1e-12)
    assert moved.weight is here.weight
    assert shift_phase_centre(moved, -0.7, 1.7).data == pytest.approx(here.data, abs=1e-13)
    for east, north in ((-0.7, 1.7), (0.7, 1.7), (-0.7, -1.7), (-1.7, 0.7)):
        assert np.abs(shift_phase_centre(here, east, north).data - there.data).max() > 0.05
    with pytest.raises(ValueError, match="east"):
        shift_phase_centre(here, 0.0, math.inf)


def test_baselines_of_a_range_ends_included_and_all_that_belongs_to_them():
    vis = with_noise(join_executions([few(), few(n_times=7)]), 0.1, seed=0)
    low, high = np.sort(vis.lengths[0])[[20, 150]]
    kept = select_baselines(vis, shortest=low, longest=high)
    keep = (vis.lengths[0] >= low) & (vis.lengths[0] <= high)
    assert kept.data.shape[1] == keep.sum() < len(keep)
    assert (kept.lengths.min(), kept.lengths.max()) == (low, high)
    assert all((getattr(kept, name) == getattr(vis, name)[:, keep]).all() for name in CUBES)
    assert all((getattr(kept, name) == getattr(vis, name)[keep]).all() for name in OF_ROWS)


def test_two_windows_beside_each_other():
    low = with_noise(few(frequency=channels(220e9, 1e6, 3)), 0.03, seed=0)
    high = with_noise(few(frequency=channels(240e9, 31e6, 2)), 0.005, seed=1)
    vis = join_windows([low, high])
    assert vis.window.tolist() == [0, 0, 0, 1, 1]
    assert vis.data.shape == (5, 8 * 15)
    assert (vis.data[3:] == high.data).all()
    assert (vis.uu[:3] == low.uu).all()
    assert vis.weight[[0, 4], 0] == pytest.approx([0.03**-2, 0.005**-2])
    assert join_windows([vis, high]).window.tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_joining_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"0 and 1 .*frequency"):
        join_executions([few(), few(frequency=231e9)])
    with pytest.raises(ValueError, match=r"0 and 2 .*time"):
        join_windows([few(), few(), replace(few(), time=few().time + 1)])
    with pytest.raises(ValueError, match="nothing to join"):
        join_windows([])


@pytest.mark.parametrize(("name", "bad"), [("data", math.nan), ("weight", -1), ("weight", math.nan), ("uu", math.inf)])
def test_what_is_of_no_use_is_named(name, bad):
    values = getattr(few(), name).copy()
    values[0, 3] = bad
    with pytest.raises(ValueError, match="1 visibilities" if name == "data" else name):
        check_usable(replace(few(), **{name: values}))
