import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import flag, select_baselines
from firstlight_imaging.fourier.limits import Limit, check_image_grid, suggest_grid
from firstlight_imaging.simulate.observation import Track, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point
from firstlight_imaging.units import ARCSEC, LIGHT_SPEED, SIDEREAL_HOUR

SIX = np.random.default_rng(1).normal(scale=(300, 300, 10), size=(6, 3))
NOTHING = Track(np.empty((0, 3)), np.empty((0, 2), int), np.empty(0))
GRID = GridCoords(cell_size=0.03, npix=180)


def real(n_times=30, frequency=230e9, **track):
    return observe([Point(1.0)], uv_track(n_times=n_times, **track), frequency)


def limit(code, vis, coords=GRID, **given) -> Limit:
    (found,) = (f for f in check_image_grid(vis, coords, **given) if f.code == code)
    return found


def edges(coords: GridCoords) -> list[tuple[float, float]]:
    half = coords.npix * coords.cell_size / 2
    return [(half * e, half * n) for e in (-1, 0, 1) for n in (-1, 0, 1) if e or n]


def phase(u: np.ndarray, v: np.ndarray, east: float, north: float) -> np.ndarray:
    return np.exp(-2j * math.pi * (u * east + v * north) * ARCSEC)


def peak(vis, smeared, place):
    """What a point of 1 Jy shows in its place in the dirty image of natural weights."""
    return float((vis.weight * smeared * phase(vis.uu, vis.vv, *place).conj()).real.sum() / vis.weight.sum())


@pytest.mark.parametrize(("npix", "width"), [(180, 2e8), (512, 4e9), (1024, 2e8)])
def test_bandwidth_smearing_is_the_mean_over_the_band(npix: int, width: float):
    vis = with_noise(real(), np.linspace(0.1, 1, 43), seed=0)
    coords = GridCoords(0.03, npix)
    losses = []
    for place in edges(coords):
        smeared = np.zeros(vis.data.shape, complex)
        for offset in (np.arange(50) + 0.5) / 50 - 0.5:
            scale = 1 + offset * width / 230e9
            smeared += phase(vis.uu * scale, vis.vv * scale, *place) / 50
        losses.append(1 - peak(vis, smeared, place))
    found = limit("bandwidth", vis, coords, channel_width=width)
    assert found.value == pytest.approx(max(losses), rel=1e-3, abs=1e-6)
    assert found.severity == ("ok" if found.value < 0.01 else "note" if found.value < 0.1 else "warning")
    assert (found.remedy == "") == (found.severity == "ok")
    corner = math.sqrt(0.5) * npix * 0.03
    assert limit("bandwidth", vis, coords, channel_width=width, offset=corner).value == pytest.approx(found.value)


@pytest.mark.parametrize(("declination", "npix", "seconds"), [(-60.0, 180, 60), (-24.0, 1024, 60), (10.0, 1024, 300)])
def test_time_smearing_is_the_mean_over_the_integration(declination: float, npix: int, seconds: float):
    def track(late: float) -> Track:
        hours = (-2 + late / SIDEREAL_HOUR, 2 + late / SIDEREAL_HOUR)
        return uv_track(declination=declination, hour_angles=hours, n_times=25, min_elevation=0)

    vis = observe([Point(1.0)], track(0))
    coords = GridCoords(0.03, npix)
    moments = [observe([], track(late)) for late in seconds * ((np.arange(25) + 0.5) / 25 - 0.5)]
    losses = []
    for place in edges(coords):
        smeared = sum(phase(m.uu, m.vv, *place) for m in moments) / len(moments)
        losses.append(1 - peak(vis, np.asarray(smeared), place))
    found = limit("time", vis, coords, integration=seconds)
    assert found.value == pytest.approx(max(losses), rel=0.05, abs=1e-6)


def test_the_integration_is_taken_from_the_times():
    vis = real(n_times=361)  # a minute of sidereal time
    assert limit("time", vis).value == pytest.approx(limit("time", vis, integration=59.836).value, rel=1e-4)
    assert "59.84 s" in limit("time", vis).message


@pytest.mark.parametrize(("npix", "severity"), [(2, "ok"), (180, "ok"), (4096, "warning")])
def test_the_phase_of_w_is_that_of_the_curved_sky_on_the_longest_baseline(npix, severity):
    vis, coords = real(), GridCoords(0.03, npix)
    w = vis.lengths.max()
    assert w >= 0.95 * np.abs(uv_track(n_times=30).uvw[:, 2]).max() * 230e9 / LIGHT_SPEED
    half = np.longdouble(npix * 0.03 / 2 * ARCSEC)
    worst = float(2 * math.pi * w * (1 - np.sqrt(1 - 2 * half**2)))
    found = limit("w", vis, coords)
    assert found.value == pytest.approx(1 - math.cos(min(worst, math.pi / 2)), rel=1e-3, abs=1e-12)
    assert f"by {worst:.2g} rad" in found.message
    assert found.severity == severity


def test_baselines_beyond_the_grid_are_counted_and_both_remedies_work():
    vis = real(frequency=[200e9, 230e9])
    coarse = GridCoords(0.08, 180)
    found = limit("outside_grid", vis, coarse)
    outside = (np.maximum(np.abs(vis.uu), np.abs(vis.vv)) > coarse.uv_limit).sum()
    assert outside > 0
    assert f"{outside} of {vis.uu.size} visibilities" in found.message
    assert found.severity == "error"
    fitting = float(found.remedy.split("cell_size of ")[1].split()[0])
    GridCoords(fitting, 180).check_data_fit(vis.uu, vis.vv)
    assert fitting > 0.9 * 0.08 * coarse.uv_limit / max(np.abs(vis.uu).max(), np.abs(vis.vv).max())
    kept = select_baselines(vis, longest=float(found.remedy.split("longest=")[1].rstrip(").")))
    coarse.check_data_fit(kept.uu, kept.vv)
    assert limit("outside_grid", kept, coarse).severity == "ok"


@pytest.mark.parametrize("unit", [1e-3, LIGHT_SPEED / 230e9])
def test_other_units_than_wavelengths_are_suspected(unit: float):
    vis = real()
    other = replace(vis, uu=vis.uu * unit, vv=vis.vv * unit)
    assert limit("units", vis).severity == "ok"
    found = limit("units", other)
    assert found.severity == "error"
    assert "1000" in found.remedy
    # On a grid that fits them, too: no array is so small.
    assert limit("units", other, suggest_grid(other, field=1000 * 5.4)).severity == "warning"


def test_the_largest_scale_is_where_the_shortest_baseline_still_sees_something():
    vis = real()
    found = limit("scale", vis)
    q = vis.lengths.min()
    assert found.value == pytest.approx(0.6 / q / ARCSEC)
    assert found.severity == "ok"
    assert limit("scale", vis, GridCoords(0.03, 1024)).severity == "note"


def test_what_is_flagged_does_not_count():
    vis = real()
    length = vis.lengths
    some = flag(vis, (length > 0.5 * length.max()) | (length < 0.05 * length.max()))
    left = length[~some.flagged]
    assert limit("cells", some).value == pytest.approx(1 / left.max() / ARCSEC / 0.03)
    assert limit("scale", some).value == pytest.approx(0.6 / left.min() / ARCSEC)
    assert limit("bandwidth", some, channel_width=1e9).value < limit("bandwidth", vis, channel_width=1e9).value
    broken = replace(some, data=np.where(some.flagged, math.nan, some.data))
    assert check_image_grid(broken, GRID, channel_width=1e9) == check_image_grid(some, GRID, channel_width=1e9)


@given(st.floats(0.01, 50), st.floats(50e9, 900e9))
def test_a_suggested_grid_covers_the_field_and_holds_the_data(field: float, frequency: float):
    vis = observe([], uv_track(SIX, n_times=3), frequency)
    coords = suggest_grid(vis, field)
    coords.check_data_fit(vis.uu, vis.vv)
    assert coords.npix % 2 == 0
    assert coords.npix * coords.cell_size >= field * (1 - 1e-6)
    assert coords.npix <= max(4, 1.3 * field / coords.cell_size + 4)
    fringe = 1 / vis.lengths.max() / ARCSEC
    assert 3 <= fringe / coords.cell_size <= 3.31


def test_nothing_to_image_and_impossible_numbers_are_refused():
    vis = real(n_times=1)
    calls = (lambda s: check_image_grid(s, GRID), suggest_grid)
    for call, message in zip(calls, ("flagged", "baseline"), strict=True):
        with pytest.raises(ValueError, match=message):
            call(flag(vis, ~vis.flagged))
        with pytest.raises(ValueError, match="empty"):
            call(observe([], NOTHING))
    for options in ({"channel_width": 0.0}, {"integration": math.nan}):
        with pytest.raises(ValueError, match=next(iter(options))):
            check_image_grid(vis, GRID, **options)
    with pytest.raises(ValueError, match="field"):
        suggest_grid(vis, 0.0)
