import math
from dataclasses import replace

import numpy as np
import pytest
from astropy.coordinates import SkyCoord

from firstlight_imaging.data.visibilities import (
    _CUBES,
    _PER_ROW,
    check_visibilities,
    flag,
    join_executions,
    join_windows,
    select_baselines,
    shift_phase_centre,
)
from firstlight_imaging.simulate.observation import channels, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point, protoplanetary_disk
from firstlight_imaging.units import ARCSEC

SIX = np.random.default_rng(1).normal(scale=(300, 300, 10), size=(6, 3))


POINT = [Point(1.0, east=0.3)]


def few(sky=POINT, n_times=8, frequency=230e9):
    return observe(sky, uv_track(SIX, n_times=n_times), frequency)


def test_a_flagged_antenna_has_no_weight_and_its_data_stay():
    vis = with_noise(few(frequency=channels(230e9, 1e9, 2)), 0.01, seed=0)
    where = (vis.antennas == 3).any(axis=1)
    flagged = flag(vis, where)
    assert where.sum() == 5 * 8
    assert (flagged.flagged == where).all()
    assert (flagged.weight[:, ~where] == vis.weight[:, ~where]).all()
    assert (flagged.data == vis.data).all()


def test_windows_of_one_frequency_have_a_band():
    """Their weighted mean is rounded, so it may differ from it."""
    for seed in range(20):
        frequency = np.full(2, np.random.default_rng(seed).uniform(2e11, 3e11))
        vis = few(frequency=frequency)
        assert replace(vis, weight=vis.weight * [[0.1], [0.7]]).band == 1


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
    assert all((getattr(kept, name) == getattr(vis, name)[:, keep]).all() for name in _CUBES)
    assert all((getattr(kept, name) == getattr(vis, name)[keep]).all() for name in _PER_ROW)


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


def test_executions_of_other_channels_lie_beside_each_other():
    """Channels that the Earth's motion moves are the same ones; of others, an execution has none, and no baselines."""
    wide = with_noise(few(frequency=channels(230e9, 1e9, 3)), 0.03, seed=0)
    moved = with_noise(few(frequency=channels(230.02e9, 1e9, 3), n_times=2), 0.03, seed=1)
    other = with_noise(few(frequency=345e9, n_times=3), 0.03, seed=2)
    both, all_three = join_executions([wide, moved]), join_executions([wide, moved, other])
    assert both.data.shape == (3, 10 * 15)
    assert not both.flagged.any()
    assert all_three.window.tolist() == [0, 0, 0, 1]
    assert (all_three.flagged == (all_three.window[:, None] == 1) ^ (all_three.execution == 2)).all()
    assert (all_three.data[3, -45:] == other.data[0]).all()
    assert all_three.lengths[:, -45:] == pytest.approx(np.tile(other.lengths, (4, 1)))
    assert np.unique(all_three.antennas[all_three.execution == 1]).tolist() == [*range(6, 12)]


def test_joining_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"0 and 2 .*time"):
        join_windows([few(), few(), replace(few(), time=few().time + 1)])
    with pytest.raises(ValueError, match="nothing to join"):
        join_windows([])


@pytest.mark.parametrize(("name", "bad"), [("data", math.nan), ("weight", -1), ("weight", math.nan), ("uu", math.inf)])
def test_what_is_of_no_use_is_named(name, bad):
    values = getattr(few(), name).copy()
    values[0, 3] = bad
    with pytest.raises(ValueError, match="1 visibilities" if name == "data" else name):
        check_visibilities(replace(few(), **{name: values}))


def placed(phase_centre=(83.0, -24.0), start=5e9, telescope="ALMA", **how):
    return replace(few(**how), phase_centre=phase_centre, start=start, telescope=telescope)


def test_a_phase_centre_moves_with_the_sky():
    vis = placed((359.9999, 60.0))
    there = shift_phase_centre(vis, 3.6, -1.8)
    assert there.phase_centre == pytest.approx((359.9999 + 0.001 / math.cos(math.radians(60 - 0.0005)) - 360, 59.9995))
    assert shift_phase_centre(vis, 0, 0).phase_centre == pytest.approx(vis.phase_centre, abs=1e-12)
    assert shift_phase_centre(few(), 1, 1).phase_centre is None
    place, centre = SkyCoord(84.5, -22.0, unit="deg"), SkyCoord(83.0, -24.0, unit="deg")
    turn = (place.ra - centre.ra).rad
    east = math.cos(place.dec.rad) * math.sin(turn)
    north = math.sin(place.dec.rad) * math.cos(centre.dec.rad)
    north -= math.cos(place.dec.rad) * math.sin(centre.dec.rad) * math.cos(turn)
    assert shift_phase_centre(placed(), east / ARCSEC, north / ARCSEC).phase_centre == pytest.approx((84.5, -22.0))
    with pytest.raises(ValueError, match="east"):
        shift_phase_centre(vis, 2.1e5, 0)


def test_what_is_known_survives_and_joins():
    vis = flag(select_baselines(placed(), longest=1e6), np.array(False))
    assert (vis.phase_centre, vis.start, vis.telescope) == ((83, -24), 5e9, "ALMA")
    both = join_executions([placed(), placed((83.0, -24 + 1e-9), start=5e9 + 600, telescope="ACA")])
    assert (both.phase_centre, both.start, both.telescope) == ((83, -24), 5e9, "")
    assert both.time[len(few().time)] - both.time[0] == pytest.approx(600)
    part = join_executions([placed(), few()])
    assert (part.phase_centre, part.start) == (None, None)
    assert join_windows([placed(), placed()]).start == 5e9
    for join in (join_executions, join_windows):
        with pytest.raises(ValueError, match="phase centres"):
            join([placed(), placed((83.001, -24.0))])
    with pytest.raises(ValueError, match="start"):
        join_windows([placed(), placed(start=5e9 + 1)])
