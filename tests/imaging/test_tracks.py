from __future__ import annotations

import astropy.units as un
import numpy as np
import pytest
from astropy.coordinates import ITRS, AltAz, EarthLocation, HADec, SkyCoord
from astropy.time import Time

from firstlight.imaging.tracks import (
    ALMA_LATITUDE,
    SIDEREAL_HOUR,
    alma_antennas,
    elevation,
    equatorial,
    project,
    uv_track,
)

HILLY = np.random.default_rng(3).normal(scale=(400, 700, 60), size=(7, 3))
LONGITUDE = -67.7549
NOON = Time("2020-03-01T12:00:00")


def site(latitude: float) -> EarthLocation:
    return EarthLocation.from_geodetic(LONGITUDE * un.deg, latitude * un.deg, 5056.8 * un.m)


def local(coordinate: SkyCoord) -> np.ndarray:
    """The unit vector to a place in the sky as east, north, up."""
    alt, az = coordinate.alt.rad, coordinate.az.rad
    return np.array([np.cos(alt) * np.sin(az), np.cos(alt) * np.cos(az), np.sin(alt)])


@pytest.mark.parametrize("latitude", [ALMA_LATITUDE, 53.1, 0.0])
def test_equatorial_against_astropy(latitude: float) -> None:
    """Astropy knows the antennas as azimuth, height and distance, and turns them into geocentric axes."""
    east, north, up = HILLY.T
    distance = np.linalg.norm(HILLY, axis=1)
    here = {"obstime": NOON, "location": site(latitude)}
    seen = AltAz(
        az=np.arctan2(east, north) * un.rad, alt=np.arcsin(up / distance) * un.rad, distance=distance * un.m, **here
    )
    itrs = seen.transform_to(ITRS(**here)).cartesian.xyz.to_value(un.m)
    turn = np.radians(LONGITUDE)
    x, y, z = np.cos(turn) * itrs[0] + np.sin(turn) * itrs[1], np.cos(turn) * itrs[1] - np.sin(turn) * itrs[0], itrs[2]
    assert np.abs(equatorial(HILLY, latitude) - np.stack([x, y, z], axis=1)).max() < 1e-6 * distance.max()


@pytest.mark.parametrize(("declination", "hour_angle"), [(-77.0, 4.0), (-24.0, -3.5), (0.0, 0.4), (35.0, 0.0)])
def test_uvw_against_astropy(declination: float, hour_angle: float) -> None:
    """Astropy finds source, its north and its east in the local sky; u, v, w are how far the antennas reach there."""
    here = {"obstime": NOON, "location": site(ALMA_LATITUDE)}
    source = SkyCoord(HADec(ha=hour_angle * un.hourangle, dec=declination * un.deg, **here))
    north = source.directional_offset_by(0 * un.deg, 90 * un.deg)
    east = source.directional_offset_by(-90 * un.deg, 90 * un.deg)  # hour angles grow to the west
    expected = np.stack([HILLY @ local(place.transform_to(AltAz(**here))) for place in (east, north, source)], axis=1)
    uvw = project(equatorial(HILLY), [hour_angle], declination)[0]
    assert np.abs(uvw - expected).max() < 1e-6 * np.linalg.norm(HILLY, axis=1).max()
    height = source.transform_to(AltAz(**here)).alt.deg
    assert elevation(hour_angle, declination)[0] == pytest.approx(height, abs=1e-6)


def test_length_is_kept_and_the_second_antenna_is_where_it_leads() -> None:
    track = uv_track(HILLY, n_times=9)
    lengths = np.linalg.norm(HILLY[track.antennas[:, 1]] - HILLY[track.antennas[:, 0]], axis=1)
    assert np.linalg.norm(track.uvw, axis=1) == pytest.approx(lengths, rel=1e-12)
    eastward = uv_track([[0, 0, 0], [100, 0, 0]], hour_angles=(0, 0), n_times=1)
    assert eastward.uvw[0] == pytest.approx([100, 0, 0], abs=1e-9)
    northward = uv_track([[0, 0, 0], [0, 100, 0]], hour_angles=(0, 0), n_times=1, declination=ALMA_LATITUDE)
    assert northward.uvw[0] == pytest.approx([0, 100, 0], abs=1e-9)  # in the zenith the ground is not foreshortened


def test_coincident_antennas_have_no_length() -> None:
    track = uv_track([[5.0, -3.0, 2.0]] * 2 + [[80.0, 10.0, 0.0]], n_times=11)
    together = (track.antennas == [0, 1]).all(axis=1)
    assert together.sum() == 11
    assert not track.uvw[together].any()
    assert track.uvw[~together].any(axis=1).all()


def test_every_row_names_its_pair_and_its_time() -> None:
    track = uv_track(HILLY[:4], hour_angles=(-1, 2), n_times=4)
    assert track.antennas[:6].tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert (track.antennas.reshape(4, 6, 2) == track.antennas[:6]).all()
    assert track.time.reshape(4, 6)[:, 3] == pytest.approx(np.array([-1, 0, 1, 2]) * SIDEREAL_HOUR)
    a, b = track.antennas[15]
    expected = project(equatorial(HILLY[[b]] - HILLY[[a]]), track.time[15] / SIDEREAL_HOUR, -24)[0, 0]
    assert track.uvw[15] == pytest.approx(expected)


def test_integrations_below_the_limit_are_left_out() -> None:
    track = uv_track(HILLY, hour_angles=(-12, 12), n_times=97, min_elevation=30)
    hours = np.unique(track.time) / SIDEREAL_HOUR
    assert 0 < len(hours) < 97
    assert elevation(hours, -24).min() >= 30
    assert elevation(hours[-1] + 0.25, -24)[0] < 30


def test_a_source_that_never_rises_is_refused_with_its_height() -> None:
    with pytest.raises(ValueError, match=r"-13\.0"):
        uv_track(declination=80, n_times=3)


def test_the_array_is_the_published_one_in_extent() -> None:
    antennas = alma_antennas()
    track = uv_track(antennas, hour_angles=(0, 0), n_times=1)
    lengths = np.linalg.norm(track.uvw, axis=1)
    assert (len(antennas), len(lengths)) == (43, 903)
    assert 14 < lengths.min() < 16
    assert 2510 < lengths.max() < 2520


@pytest.mark.parametrize(
    ("antennas", "match"),
    [
        (np.zeros((1, 3)), "needs two antennas; got 1"),
        (np.zeros((4, 2)), r"got the shape \(4, 2\)"),
        (np.zeros(3), r"got the shape \(3,\)"),
    ],
)
def test_impossible_arrays_are_refused(antennas: np.ndarray, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        uv_track(antennas)


def test_no_integrations_are_refused() -> None:
    with pytest.raises(ValueError, match="n_times"):
        uv_track(n_times=0)
