"""Executions are joined on one flux scale and about one place, as far as their baselines overlap."""

from dataclasses import replace

import numpy as np
import pytest

from firstlight_imaging import Visibilities, join
from firstlight_imaging.data.visibilities import flag, join_executions, select_baselines, shift_phase_centre
from firstlight_imaging.gains import solve_gains
from firstlight_imaging.selfcal import self_calibrate
from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point, Ring, protoplanetary_disk

ARRAY = alma_antennas()


def seen(size=1.0, n=43, n_times=30, noise=0.02, seed=0, sky=None, frequency=230e9) -> Visibilities:
    return with_noise(observe(sky or protoplanetary_disk(), uv_track(size * ARRAY[:n], n_times=n_times), frequency),
                      noise, seed=seed)  # fmt: skip


def otherwise(vis: Visibilities, scale: float, east: float, north: float) -> Visibilities:
    """Return what an execution of another flux scale, which points beside the source, would have seen."""
    moved = replace(shift_phase_centre(vis, -east, -north), phase_centre=vis.phase_centre)
    return replace(moved, data=scale * moved.data, weight=moved.weight / scale**2)


def pulls(one, scale, east, north):
    off = np.array([one.scale - scale, one.east - east, one.north - north])
    return off / [one.scale_error, one.east_error, one.north_error]


def test_known_scales_and_offsets_are_found_within_their_errors():
    found = []
    for seed in range(8):
        short = otherwise(seen(0.4, 30, 12, 0.015, seed + 50), 0.93, 0.03, -0.02)
        found.append(pulls(join([seen(seed=seed), short]).executions[1], 0.93, 0.03, -0.02))
    assert 0.4 < np.std(found) < 1.6
    assert np.abs(found).max() < 5


def test_what_is_significant_is_divided_out_and_nothing_else():
    whole, short = seen(), seen(0.4, 30, 12, 0.015, 50)
    wrong = otherwise(short, 0.9, 0.05, 0.04)
    mended, same = join([whole, wrong]), join([whole, short])
    one, none = mended.executions[1], same.executions[1]
    assert one.is_scaled and one.is_shifted and not none.is_scaled and not none.is_shifted  # noqa: PT018
    assert (same.vis.data[:, same.vis.execution == 1] == short.data).all()
    left = mended.vis.data[:, mended.vis.execution == 1] - short.data
    assert (np.abs(left) ** 2 * short.weight).mean() < 0.1
    assert (mended.vis.data[:, mended.vis.execution == 0] == whole.data).all()


def test_one_that_overlaps_only_with_another_is_compared_with_that():
    """Long baselines, middle ones 10 % fainter, and short ones as faint: the chain is found link by link."""
    vis = seen(n_times=60, noise=0.01)
    long, short = select_baselines(vis, shortest=3e5), otherwise(select_baselines(vis, longest=1.2e5), 0.9, 0.0, 0.0)
    middle = otherwise(seen(0.5, n_times=60, noise=0.01, seed=1), 0.9, 0.0, 0.0)
    apart, chain = join([long, short]).executions, join([long, short, middle]).executions
    assert not apart[0].overlap
    assert not apart[1].overlap
    assert "nothing is fitted" in str(join([long, short]))
    for one in chain:
        if one.reason != "the reference":
            assert one.overlap
    ratio = chain[1].scale / chain[2].scale
    assert ratio == pytest.approx(1, abs=0.03)


def test_phase_centres_that_differ_by_a_little_are_moved_and_another_field_is_refused():
    near = replace(seen(sky=[Ring(0.5, 0, 0.4)]), phase_centre=(83.0, -24.0))
    other = replace(seen(0.5, seed=1, sky=[Ring(0.5, 0, 0.4, north=-0.36)]), phase_centre=(83.0, -24.0 + 1e-4))
    found = join([near, other])
    assert "0.36 arcsec away" in str(found)
    assert not found.executions[1].is_shifted
    assert found.vis.phase_centre == (83.0, -24.0)
    for centre in ((83.004, -24.0), (83.0, -23.99)):
        with pytest.raises(ValueError, match="another field"):
            join([near, replace(other, phase_centre=centre)])


def test_other_units_are_refused_and_other_bands_are_said():
    point = seen(sky=[Point(1.0)])
    for factor in (1e3, 1e-3):
        with pytest.raises(ValueError, match="in Jy"):
            join([point, otherwise(seen(sky=[Point(1.0)], seed=1), factor, 0.0, 0.0)])
    assert "spectrum" in str(join([point, seen(sky=[Point(1.0)], seed=1, frequency=345e9)]))


def test_weights_that_nothing_else_tells_are_held_against_the_scatter_in_cells():
    def unknown(vis, factor):
        nobody = {"antennas": 0 * vis.antennas, "time": 0 * vis.time, "weights_checked": False}
        return replace(vis, weight=factor * vis.weight, **nobody)

    found = join([unknown(seen(0.2, noise=0.5), 1.0), unknown(seen(0.2, noise=0.5, seed=1), 5.0)])
    one, other = found.executions
    assert not one.is_reweighted
    assert other.weights == pytest.approx(0.2, abs=5 * other.weights_error)
    assert found.vis.weight == pytest.approx(4, rel=0.2)


def test_antennas_of_two_executions_have_gains_of_their_own():
    """Antenna 3 is off by 40 degrees in the second execution alone; one that knows no antennas has no gains."""
    clean = observe([Ring(2.0, 0, 0.4)], uv_track(ARRAY[:12], n_times=6))
    good, other = (with_noise(clean, 0.02, seed=seed) for seed in (0, 1))
    turn = np.exp(0.7j * ((good.antennas[:, 0] == 3) - 1.0 * (good.antennas[:, 1] == 3)))
    joined = join([good, replace(other, data=other.data * turn)]).vis
    scatter = solve_gains(joined, np.tile(clean.data, 2)).phase_scatter
    assert len(scatter) == 24
    assert np.nanargmax(scatter) == 12 + 3
    assert scatter[3] < 5 < 30 < scatter[15]
    nobody = replace(good, antennas=0 * good.antennas)
    with pytest.raises(ValueError, match="execution 1 does not say which antennas"):
        self_calibrate(join([good, nobody]).vis)


def test_antennas_keep_the_names_that_their_own_file_gives_them():
    """The second file has them in another order, the third doesn't name them."""
    vis = seen()
    first, second = {0: "AA", 3: "LM"}, {0: "LM", 3: "AA"}
    parts = [replace(vis, antenna_names=names) for names in (first, second, {})]
    joined, count = join(parts, ["a.ms", "b.uvfits", "c.npz"]).vis, int(vis.antennas.max()) + 1
    assert joined.name_of(3) == "LM of a.ms"
    assert [joined.name_of(count + k) for k in (0, 3)] == ["LM of b.uvfits", "AA of b.uvfits"]
    assert joined.name_of(2 * count + 3) == "3 of c.npz"
    assert join_executions(parts).antenna_names == {0: "AA", 3: "LM", count: "LM", count + 3: "AA"}


def test_noise_and_holes_are_no_reason_to_fail():
    whole, noise = seen(), with_noise(observe([Point(1e-9)], uv_track(ARRAY[:9], n_times=5)), 0.02, seed=3)
    found = join([whole, noise]).executions
    assert "too weak" in str(found)
    holes = flag(whole, np.random.default_rng(0).random(whole.weight.shape) < 0.9)
    assert (
        join([replace(holes, data=np.where(holes.flagged, np.nan, holes.data)), seen(0.5, seed=4)])
        .executions[0]
        .overlap
    )
