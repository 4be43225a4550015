import math

import astropy.units as un
import numpy as np
import pytest
from astropy.coordinates import ITRS, AltAz, EarthLocation, HADec, SkyCoord
from astropy.time import Time

from firstlight_imaging.simulate.observation import (
    ALMA_LATITUDE,
    Track,
    _equatorial,
    _project,
    channels,
    elevation,
    observe,
    uv_track,
    with_noise,
)
from firstlight_imaging.simulate.skies import Point, protoplanetary_disk
from firstlight_imaging.units import LIGHT_SPEED, SIDEREAL_HOUR

DISK = protoplanetary_disk()
HILLY = np.random.default_rng(3).normal(scale=(400, 700, 60), size=(7, 3))
LONGITUDE = -67.7549
NOON = Time("2020-03-01T12:00:00")


def few(n_times=8, frequency=230e9):
    return observe(DISK, uv_track(HILLY[:6], n_times=n_times), frequency)


def here(latitude=ALMA_LATITUDE):
    site = EarthLocation.from_geodetic(LONGITUDE * un.deg, latitude * un.deg, 5056.8 * un.m)
    return {"obstime": NOON, "location": site}


@pytest.mark.parametrize("latitude", [ALMA_LATITUDE, 53.1, 0.0])
def test_equatorial_against_astropy(latitude):
    """Astropy knows the antennas as azimuth, height and distance, and turns them into geocentric axes."""
    east, north, up = HILLY.T
    distance = np.linalg.norm(HILLY, axis=1)
    place = {"az": np.arctan2(east, north) * un.rad, "alt": np.arcsin(up / distance) * un.rad}
    local = AltAz(**place, distance=distance * un.m, **here(latitude))
    itrs = local.transform_to(ITRS(**here(latitude))).cartesian.xyz.to_value(un.m)
    turn = np.radians(LONGITUDE)
    x, y, z = np.cos(turn) * itrs[0] + np.sin(turn) * itrs[1], np.cos(turn) * itrs[1] - np.sin(turn) * itrs[0], itrs[2]
    assert np.abs(_equatorial(HILLY, latitude) - np.stack([x, y, z], axis=1)).max() < 1e-6 * distance.max()


@pytest.mark.parametrize(("declination", "hour_angle"), [(-77.0, 4.0), (-24.0, -3.5), (0.0, 0.4), (35.0, 0.0)])
def test_uvw_against_astropy(declination, hour_angle):
    """Astropy finds source, its north and its east in the local sky; u, v, w are how far the antennas reach there."""

    def reach(place: SkyCoord) -> np.ndarray:
        local = place.transform_to(AltAz(**here()))
        alt, az = local.alt.rad, local.az.rad
        return HILLY @ [np.cos(alt) * np.sin(az), np.cos(alt) * np.cos(az), np.sin(alt)]

    source = SkyCoord(HADec(ha=hour_angle * un.hourangle, dec=declination * un.deg, **here()))
    north = source.directional_offset_by(0 * un.deg, 90 * un.deg)
    east = source.directional_offset_by(-90 * un.deg, 90 * un.deg)  # hour angles grow to the west
    expected = np.stack([reach(place) for place in (east, north, source)], axis=1)
    uvw = _project(_equatorial(HILLY), [hour_angle], declination)[0]
    assert np.abs(uvw - expected).max() < 1e-6 * np.linalg.norm(HILLY, axis=1).max()
    height = source.transform_to(AltAz(**here())).alt.deg
    assert elevation(hour_angle, declination)[0] == pytest.approx(height, abs=1e-6)


def test_every_row_names_its_pair_and_its_time_and_leads_to_the_second_antenna():
    track = uv_track(HILLY[:4], hour_angles=(-1, 2), n_times=4)
    assert track.antennas[:6].tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert track.time.reshape(4, 6)[:, 3] == pytest.approx(np.array([-1, 0, 1, 2]) * SIDEREAL_HOUR)
    a, b = track.antennas[15]
    expected = _project(_equatorial(HILLY[[b]] - HILLY[[a]]), track.time[15] / SIDEREAL_HOUR, -24)[0, 0]
    assert track.uvw[15] == pytest.approx(expected)
    eastward = uv_track([[0, 0, 0], [100, 0, 0]], hour_angles=(0, 0), n_times=1)
    assert eastward.uvw[0] == pytest.approx([100, 0, 0], abs=1e-9)


def test_integrations_below_the_limit_are_left_out():
    track = uv_track(HILLY, hour_angles=(-12, 12), n_times=97, min_elevation=30)
    hours = np.unique(track.time) / SIDEREAL_HOUR
    assert 0 < len(hours) < 97
    assert elevation(hours, -24).min() >= 30 > elevation(hours[-1] + 0.25, -24)[0]
    with pytest.raises(ValueError, match=r"-13\.0"):
        uv_track(declination=80, n_times=3)


def test_a_sky_may_change_with_frequency():
    frequency, track = channels(230e9, 20e9, 3), uv_track(HILLY, n_times=8)
    same = observe([Point(1.0, east=0.2)], track, frequency)
    steep = observe(lambda f: [Point((f / 230e9) ** 3, east=0.2)], track, frequency)
    assert steep.data == pytest.approx(same.data * (frequency / 230e9)[:, None] ** 3)


def test_an_off_centre_source_turns_the_phase_as_the_convention_says():
    track = Track(np.array([[500.0, 0.0, 0.0], [0.0, 500.0, 0.0]]), np.array([[0, 1], [0, 2]]), np.zeros(2))
    vis = observe([Point(1.0, east=0.1)], track, 230e9)
    angle = -2 * math.pi * 500 * 230e9 / LIGHT_SPEED * math.radians(0.1 / 3600)
    assert np.angle(vis.data[0]) == pytest.approx([angle, 0.0])


@pytest.mark.parametrize("seed", range(3))
def test_the_truth_has_a_reduced_chi2_of_one(seed):
    truth = few(n_times=100, frequency=channels(230e9, 1e9, 2))
    noisy = with_noise(truth, np.linspace(0.002, 0.02, 6), seed=seed)
    chi2 = (noisy.weight * np.abs(noisy.data - truth.data) ** 2).sum() / 2 / noisy.data.size
    assert abs(chi2 - 1) < 5 / math.sqrt(noisy.data.size)
    assert (with_noise(truth, np.linspace(0.002, 0.02, 6), seed=seed).data == noisy.data).all()


def test_noise_of_every_antenna_is_in_its_baselines_and_no_two_are_alike():
    truth = few(n_times=2000, frequency=channels(230e9, 1e9, 2))
    sigma = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 9.0])
    noise = with_noise(truth, sigma, seed=0).data - truth.data
    loud = (truth.antennas == 5).any(axis=1)
    for part in (noise.real, noise.imag):
        assert part[0, loud].std() == pytest.approx(3, rel=0.05)
        assert part[0, ~loud].std() == pytest.approx(1, rel=0.05)
    for one, other in ((noise.real, noise.imag), (noise[0].real, noise[1].real)):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / math.sqrt(one.size)
    assert with_noise(truth, sigma, seed=0).weight[0, loud] == pytest.approx(1 / 9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: uv_track(np.zeros((1, 3))), "got 1"),
        (lambda: uv_track(np.zeros((4, 2))), r"\(4, 2\)"),
        (lambda: few(frequency=[230e9, math.inf]), "frequency"),
        (lambda: with_noise(few(), [1, 1, 1, 1, 1, 0], seed=0), "sigma"),
        (lambda: with_noise(few(), np.ones(5), seed=0), "sigma"),
    ],
)
def test_impossible_observations_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
