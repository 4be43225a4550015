from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from firstlight.imaging.adjust import select_baselines, select_channels, shift_phase_centre
from firstlight.imaging.beams import fit_beam
from firstlight.imaging.coordinates import ARCSEC, GridCoords
from firstlight.imaging.dirty import DirtyImager
from firstlight.imaging.observe import Observation, block, channels, flag, join_executions, observe, with_noise
from firstlight.imaging.skies import Point, Sky, protoplanetary_disk
from firstlight.imaging.tracks import uv_track

SIX = np.random.default_rng(1).normal(scale=(300, 300, 10), size=(6, 3))
COORDS = GridCoords(cell_size=0.05, npix=64)


def few(sky: Sky, n_times: int = 12, frequency: object = 230e9) -> Observation:
    return observe(sky, uv_track(SIX, n_times=n_times), frequency)  # type: ignore[arg-type]


def imager(seen: Observation, coords: GridCoords = COORDS) -> DirtyImager:
    return DirtyImager(coords, seen.uu, seen.vv, seen.weight, seen.data.real, seen.data.imag)


def test_a_shift_moves_any_sky_in_every_channel() -> None:
    frequency = channels(230e9, 20e9, 3)
    here = few(protoplanetary_disk(east=0.9, north=-1.3), frequency=frequency)
    there = few(protoplanetary_disk(east=0.2, north=0.4), frequency=frequency)
    moved = shift_phase_centre(here, 0.7, -1.7)
    assert moved.data == pytest.approx(there.data, abs=1e-12)
    back = shift_phase_centre(moved, -0.7, 1.7)
    assert back.data == pytest.approx(here.data, abs=1e-13)
    for east, north in ((-0.7, 1.7), (0.7, 1.7), (-0.7, -1.7), (-1.7, 0.7)):
        assert np.abs(shift_phase_centre(here, east, north).data - there.data).max() > 0.05


def test_a_shift_leaves_noise_weights_and_flags() -> None:
    seen = with_noise(few([Point(0.0)]), 0.1, seed=0)
    seen = flag(seen, block(seen, antenna=2))
    moved = shift_phase_centre(seen, 3.0, 4.0)
    assert np.abs(moved.data) == pytest.approx(np.abs(seen.data))
    assert moved.weight is seen.weight
    assert np.isnan(shift_phase_centre(replace(seen, data=seen.data * math.nan), 1, 1).data).all()


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_shift_to_nowhere_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="east"):
        shift_phase_centre(few([Point(1.0)]), 0.0, wrong)


def test_baselines_of_a_range_and_all_that_belongs_to_them() -> None:
    seen = join_executions([few([Point(1.0, east=0.3)]), few([Point(1.0)], 7)])
    seen = with_noise(seen, 0.1, seed=0)
    length = np.hypot(seen.uu, seen.vv)[0]
    low, high = np.quantile(length, [0.2, 0.7])
    kept = select_baselines(seen, shortest=low, longest=high)
    keep = (length >= low) & (length <= high)
    assert 0 < kept.data.shape[1] == keep.sum() < len(keep)
    for name in ("uu", "vv", "data", "weight"):
        assert (getattr(kept, name) == getattr(seen, name)[:, keep]).all()
    for name in ("antennas", "time", "execution"):
        assert (getattr(kept, name) == getattr(seen, name)[keep]).all()
    everything = select_baselines(seen)
    assert all(np.array_equal(getattr(everything, f.name), getattr(seen, f.name)) for f in fields(seen))


def test_the_ends_of_a_range_are_in_it() -> None:
    seen = few([Point(1.0)], n_times=1)
    length = np.sort(np.hypot(seen.uu, seen.vv)[0])
    assert len(select_baselines(seen, shortest=length[3], longest=length[5]).time) == 3


def test_a_range_holds_in_every_channel_and_then_the_grid_does() -> None:
    seen = few([Point(1.0)], frequency=[100e9, 345e9])
    coords = GridCoords(cell_size=0.25, npix=64)
    with pytest.raises(ValueError, match="hold only"):
        coords.check_data_fit(seen.uu, seen.vv)
    kept = select_baselines(seen, longest=coords.uv_limit)
    coords.check_data_fit(kept.uu, kept.vv)
    assert 0 < len(kept.time) < len(seen.time)
    assert len(kept.time) < len(select_baselines(select_channels(seen, [0]), longest=coords.uv_limit).time)


def test_impossible_ranges_are_refused() -> None:
    seen = few([Point(1.0)])
    for wrong in ({"shortest": -1.0}, {"longest": math.nan}, {"shortest": 2e5, "longest": 1e5}):
        with pytest.raises(ValueError, match="shortest"):
            select_baselines(seen, **wrong)
    with pytest.raises(ValueError, match=r"1e\+09"):
        select_baselines(seen, shortest=1e9)
    with pytest.raises(ValueError, match="there are none"):
        select_baselines(replace_rows(seen, 0), longest=1e9)


def replace_rows(seen: Observation, n: int) -> Observation:
    cut = {name: getattr(seen, name)[:, :n] for name in ("uu", "vv", "data", "weight")}
    return replace(seen, **cut, antennas=seen.antennas[:n], time=seen.time[:n], execution=seen.execution[:n])


def test_channels_by_mask_and_by_number() -> None:
    seen = replace(few([Point(1.0)], frequency=channels(230e9, 1e9, 5)), window=np.array([0, 0, 1, 1, 1]))
    upper = select_channels(seen, seen.window == 1)
    assert (upper.uu == seen.uu[2:]).all()
    assert (upper.frequency == seen.frequency[2:]).all()
    assert upper.window.tolist() == [1, 1, 1]
    assert (select_channels(seen, [4, 0]).data == seen.data[[4, 0]]).all()
    for nothing in ([], [False] * 5):
        with pytest.raises(ValueError, match="of 5 channels"):
            select_channels(seen, np.array(nothing, int if not nothing else bool))
    with pytest.raises(IndexError):
        select_channels(seen, [5])


@pytest.mark.parametrize("fwhm", [0.3, 0.75])
def test_the_beam_of_a_plane_filled_evenly_has_the_width_asked_for(fwhm: float) -> None:
    u, v = (part.ravel() for part in COORDS.ground_uv())
    inside = ((v > 0) | ((v == 0) & (u >= 0))) & (np.hypot(u, v) < COORDS.uv_limit)
    u, v = u[inside], v[inside]
    weight = np.where(np.hypot(u, v) == 0, 0.5, 1.0)  # which is its own mirror image
    made = DirtyImager(COORDS, u, v, weight, np.ones(len(u)), np.zeros(len(u)))
    scale = (math.pi * fwhm * ARCSEC) ** 2 / (4 * math.log(2))

    def taper(u, v):
        return np.exp(-scale * (u**2 + v**2))

    for weighting in ("natural", "uniform"):
        beam = fit_beam(made.get_dirty_beam(weighting, taper_function=taper)[0], COORDS.cell_size)
        assert (beam.major, beam.minor) == pytest.approx((fwhm, fwhm), rel=0.03)
