"""Simulate an observation: antennas, the tracks of their baselines while the earth turns, and noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from firstlight_imaging._types import Ints, Real
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.simulate.skies import Sky, sky_visibilities
from firstlight_imaging.units import LIGHT_SPEED, SIDEREAL_HOUR

ALMA_LATITUDE = -23.0229  # degrees

# East and north in metres, to 0.1 m, of ALMA's published 12 m configuration 6 of Cycle 6 (C43-6).
_C43_6 = """
15.9 -700.7  10.7 -659.6  -93.1 -746.0  2.4 -763.3  17.1 -766.5  -5.3 -862.9  -54.7 -616.7  -140.5 -651.2
-159.6 -789.5  108.1 -762.9  89.1 -600.0  -205.1 -724.7  103.7 -848.0  -62.6 -519.1  -136.1 -902.1  211.0 -760.3
-201.6 -507.6  149.6 -491.6  -320.6 -763.9  211.0 -883.5  -71.2 -427.4  -115.7 -1075.4  278.4 -571.6  -371.0 -604.1
159.5 -1067.1  28.9 -305.4  -322.5 -1004.1  -405.2 -342.1  -235.4 -182.5  -589.0 -511.9  442.0 -1210.8
664.5 -652.4  186.6 -1550.4  336.2 47.6  -175.9 -1647.5  738.7 -82.2  -1138.0 10.0  -134.1 -1268.8
384.8 -367.5  -768.8 -1726.7  1123.3 -455.3  386.3 -1962.1  -124.4 -2293.8
"""


@dataclass(frozen=True, eq=False)
class Track:
    """The baselines of every integration, a row each, integration after integration.

    ``uvw`` is in metres and leads from the first antenna of the pair to the second; ``time`` is in seconds from
    transit.

    Examples
    --------
    >>> track = uv_track(n_times=2)
    >>> track.uvw.shape, track.antennas.shape, track.time.shape
    ((1806, 3), (1806, 2), (1806,))
    """

    uvw: Real
    antennas: Ints
    time: Real


def alma_antennas() -> Real:
    """Return the pads of 43 ALMA antennas as east, north and up in metres; baselines of 15 m to 2.5 km.

    East and north are those of a published configuration, C43-6 of Cycle 6. Heights are left out: up is 0.

    Examples
    --------
    >>> alma_antennas().shape
    (43, 3)
    """
    east_north = np.array(_C43_6.split(), float).reshape(-1, 2)
    return np.pad(east_north, ((0, 0), (0, 1)))


def _equatorial(antennas: ArrayLike, latitude: float = ALMA_LATITUDE) -> Real:
    """Return east, north and up at a latitude as X (to the meridian on the equator), Y (east) and Z (north pole).

    Examples
    --------
    >>> _equatorial([[0.0, 0.0, 2.0]], latitude=90).round(12)
    array([[0., 0., 2.]])
    """
    enu = np.asarray(antennas, float)
    if enu.ndim != 2 or enu.shape[1] != 3:
        raise ValueError(f"antennas must be rows of east, north and up in metres, (n, 3); got the shape {enu.shape}")
    east, north, up = enu.T
    sin, cos = math.sin(math.radians(latitude)), math.cos(math.radians(latitude))
    return np.stack([cos * up - sin * north, east, cos * north + sin * up], axis=1)


def _project(xyz: Real, hour_angle: ArrayLike, declination: float) -> Real:
    """Return X, Y, Z as u (east), v (north) and w (to the source), seen from that source.

    Parameters
    ----------
    xyz
        From `_equatorial`, of shape (n, 3).
    hour_angle
        In hours, of length t.
    declination
        In degrees.

    Returns
    -------
    array
        Of shape (t, n, 3), in the units of ``xyz``.

    Examples
    --------
    >>> _project(_equatorial([[100.0, 0.0, 0.0]]), [0.0], declination=-40)[0].round(9)  # at transit, east is u
    array([[100.,   0.,   0.]])
    """
    h = np.atleast_1d(np.asarray(hour_angle, float))[:, None] * (math.pi / 12)
    x, y, z = xyz.T
    sin, cos = math.sin(math.radians(declination)), math.cos(math.radians(declination))
    outward, sideways = np.cos(h) * x - np.sin(h) * y, np.sin(h) * x + np.cos(h) * y
    return np.stack([sideways, cos * z - sin * outward, cos * outward + sin * z], axis=-1)


def elevation(hour_angle: ArrayLike, declination: float, latitude: float = ALMA_LATITUDE) -> Real:
    """Return the elevation of a source, in degrees.

    Examples
    --------
    >>> elevation([0.0, 6.0], declination=0.0, latitude=-23.0).round(9)
    array([67.,  0.])
    """
    zenith = _equatorial([[0.0, 0.0, 1.0]], latitude)
    sine = _project(zenith, hour_angle, declination)[:, 0, 2]
    return np.asarray(np.degrees(np.arcsin(np.clip(sine, -1, 1))))


def uv_track(
    antennas: ArrayLike | None = None,
    *,
    declination: float = -24.0,
    hour_angles: tuple[float, float] = (-3.0, 3.0),
    n_times: int = 332,
    min_elevation: float = 20.0,
    latitude: float = ALMA_LATITUDE,
) -> Track:
    """Return the baselines of an array that follows a source while the earth turns.

    Parameters
    ----------
    antennas
        East, north and up in metres, a row each; by default `alma_antennas`.
    declination
        Of the source, in degrees.
    hour_angles
        In hours, of the first and the last integration.
    n_times
        How many integrations; those below the elevation limit are left out.
    min_elevation, latitude
        In degrees.

    Examples
    --------
    >>> track = uv_track(n_times=10)
    >>> track.uvw.shape  # 10 integrations of 43 * 42 / 2 baselines
    (9030, 3)
    """
    xyz = _equatorial(alma_antennas() if antennas is None else antennas, latitude)
    if len(xyz) < 2:
        raise ValueError(f"a baseline needs two antennas; got {len(xyz)}")
    if n_times < 1:
        raise ValueError(f"n_times must be 1 or more; got {n_times}")
    hours = np.linspace(*hour_angles, n_times)
    elevations = elevation(hours, declination, latitude)
    hours = hours[elevations >= min_elevation]
    if not len(hours):
        raise ValueError(f"the source reaches {elevations.max():.1f} degrees in these hours, below {min_elevation=:g}")
    first, second = np.triu_indices(len(xyz), 1)
    return Track(
        uvw=_project(xyz[second] - xyz[first], hours, declination).reshape(-1, 3),
        antennas=np.tile(np.stack([first, second], axis=1), (len(hours), 1)),
        time=np.repeat(hours * SIDEREAL_HOUR, len(first)),
    )


def channels(centre: float, width: float, n: int) -> Real:
    """Return the frequencies of ``n`` neighbouring channels around a centre, in the units of ``centre`` and ``width``.

    Examples
    --------
    >>> channels(230.0, 0.5, 4)
    array([229.25, 229.75, 230.25, 230.75])
    """
    return np.asarray(centre + width * (np.arange(n) - (n - 1) / 2))


def observe(sky: Sky | Callable[[float], Sky], track: Track, frequency: ArrayLike = 230e9) -> Visibilities:
    """Return the visibilities of a sky without noise; every weight is 1 until `with_noise`.

    Parameters
    ----------
    sky
        Rings and points; or a function that makes them from a frequency, where the sky changes with it.
    track
        From `uv_track`. A baseline is longer, in wavelengths, in a channel of higher frequency.
    frequency
        In Hz, of each channel.

    Examples
    --------
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = observe([Point(0.5)], uv_track(n_times=2), channels(230e9, 1e9, 3))
    >>> vis.data.shape, vis.data[0, 0]
    ((3, 1806), np.complex128(0.5+0j))
    """
    hertz = np.atleast_1d(np.asarray(frequency, float))
    if hertz.ndim != 1 or not (np.isfinite(hertz) & (hertz > 0)).all():
        raise ValueError(f"frequency must be a positive number of Hz, or one for each channel; got {frequency!r}")
    uu, vv = (np.outer(hertz / LIGHT_SPEED, metres) for metres in track.uvw.T[:2])
    data = np.empty(uu.shape, complex)
    for channel, f in enumerate(hertz):
        data[channel] = sky_visibilities(sky(float(f)) if callable(sky) else sky, uu[channel], vv[channel])
    return Visibilities(
        uu=uu,
        vv=vv,
        data=data,
        weight=np.ones(uu.shape),
        frequency=hertz,
        window=np.zeros(len(hertz), int),
        antennas=track.antennas,
        time=track.time,
        execution=np.zeros(len(track.time), int),
    )


def with_noise(vis: Visibilities, sigma: ArrayLike, *, seed: int) -> Visibilities:
    """Return visibilities with Gaussian noise in real and imaginary parts, and weights that say how much.

    Parameters
    ----------
    vis
        The visibilities; what is flagged stays flagged.
    sigma
        In Jy, for all antennas or for each. A baseline has the geometric mean of its two, as receivers multiply.
    seed
        The same seed gives the same noise.

    Examples
    --------
    >>> from firstlight_imaging.simulate.skies import Point
    >>> noisy = with_noise(observe([Point(1.0)], uv_track(n_times=1)), 0.005, seed=1)
    >>> float(noisy.weight[0, 0].round(6))
    40000.0
    """
    n_antennas = int(vis.antennas.max(initial=-1)) + 1
    per_antenna = np.asarray(sigma, float)
    if per_antenna.ndim > 1 or (per_antenna.ndim == 1 and len(per_antenna) < n_antennas):
        raise ValueError(f"sigma must be one number, or one for each of {n_antennas} antennas; got {per_antenna.shape}")
    if not (np.isfinite(per_antenna) & (per_antenna > 0)).all():
        raise ValueError(f"sigma must be a positive number of Jy for every antenna; got {sigma!r}")
    per_antenna = np.broadcast_to(per_antenna, max(n_antennas, per_antenna.size))
    per_baseline = np.sqrt(per_antenna[vis.antennas].prod(axis=1))
    parts = np.random.default_rng(seed).standard_normal((*vis.data.shape, 2))
    weight = np.where(vis.flagged, 0.0, per_baseline**-2)
    return replace(vis, data=vis.data + per_baseline * parts.view(complex)[..., 0], weight=weight, weights_checked=True)
