"""Observe a sky that does not exist: channels, noise, flags, and what goes wrong in real data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from firstlight.imaging.skies import Complex, Ints, Mask, Real, Sky, sky_visibilities
from firstlight.imaging.tracks import Track, uv_track

__all__ = [
    "Observation",
    "Track",
    "block",
    "channels",
    "flag",
    "join_executions",
    "join_windows",
    "misscale",
    "observe",
    "uv_track",
    "with_noise",
]

#: The speed of light, in metres a second.
LIGHT_SPEED = 299_792_458.0  # m/s


@dataclass(frozen=True, eq=False)
class Observation:
    """Visibilities and all that is known of them.

    Attributes
    ----------
    uu, vv
        In wavelengths, of shape (nchan, nvis).
    data
        In Jy, of shape (nchan, nvis).
    weight
        One over the variance of the real part, which is also that of the imaginary part; 0 where flagged.
    frequency, window
        Of each channel: in Hz, and the number of its spectral window.
    antennas, time, execution
        Of each visibility: the two antennas, seconds from transit, and the number of the execution.

    Examples
    --------
    >>> from firstlight.imaging.skies import Point
    >>> seen = observe([Point(1.0)], uv_track(n_times=2), channels(230e9, 1e9, 3))
    >>> seen.data.shape, seen.frequency / 1e9
    ((3, 1806), array([229., 230., 231.]))
    """

    uu: Real
    vv: Real
    data: Complex
    weight: Real
    frequency: Real
    window: Ints
    antennas: Ints
    time: Real
    execution: Ints

    def __post_init__(self) -> None:
        shape = (len(self.frequency), len(self.time))
        for name in ("uu", "vv", "data", "weight"):
            if getattr(self, name).shape != shape:
                raise ValueError(
                    f"{name} has the shape {getattr(self, name).shape}; {shape[0]} frequencies and {shape[1]} times "
                    f"need {shape}, a row for each channel"
                )
        for name, expected in (("window", shape[:1]), ("antennas", (shape[1], 2)), ("execution", shape[1:])):
            if getattr(self, name).shape != expected:
                raise ValueError(f"{name} has the shape {getattr(self, name).shape}; expected {expected}")

    @property
    def flagged(self) -> Mask:
        """What does not count, (nchan, nvis)."""
        return np.asarray(self.weight == 0)


def channels(centre: float, width: float, n: int) -> Real:
    """Give the frequencies of ``n`` neighbouring channels around a centre, in the units of ``centre`` and ``width``.

    Examples
    --------
    >>> channels(230.0, 0.5, 4)
    array([229.25, 229.75, 230.25, 230.75])
    """
    return np.asarray(centre + width * (np.arange(n) - (n - 1) / 2))


def observe(sky: Sky | Callable[[float], Sky], track: Track, frequency: ArrayLike = 230e9) -> Observation:
    """Observe a sky without noise; every weight is 1 until `with_noise`.

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
    >>> from firstlight.imaging.skies import Point
    >>> seen = observe([Point(0.5)], uv_track(n_times=2), channels(230e9, 1e9, 3))
    >>> seen.data.shape, seen.data[0, 0]
    ((3, 1806), np.complex128(0.5+0j))
    """
    hertz = np.atleast_1d(np.asarray(frequency, float))
    if hertz.ndim != 1 or not (np.isfinite(hertz) & (hertz > 0)).all():
        raise ValueError(f"frequency must be a positive number of Hz, or one for each channel; got {frequency!r}")
    uu, vv = (np.outer(hertz / LIGHT_SPEED, metres) for metres in track.uvw.T[:2])
    data = np.empty(uu.shape, complex)
    for channel, f in enumerate(hertz):
        data[channel] = sky_visibilities(sky(float(f)) if callable(sky) else sky, uu[channel], vv[channel])
    return Observation(
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


def with_noise(seen: Observation, sigma: ArrayLike, *, seed: int) -> Observation:
    """Add Gaussian noise to the real and the imaginary parts, and set the weights to what it is.

    Parameters
    ----------
    seen
        What it is added to; what is flagged stays flagged.
    sigma
        In Jy, for all antennas or for each. A baseline has the geometric mean of its two, as receivers multiply.
    seed
        The same seed gives the same noise.

    Examples
    --------
    >>> from firstlight.imaging.skies import Point
    >>> noisy = with_noise(observe([Point(1.0)], uv_track(n_times=1)), 0.005, seed=1)
    >>> float(noisy.weight[0, 0].round(6))
    40000.0
    """
    n_antennas = int(seen.antennas.max(initial=-1)) + 1
    given = np.asarray(sigma, float)
    if given.ndim > 1 or (given.ndim == 1 and len(given) < n_antennas):
        raise ValueError(f"sigma must be one number, or one for each of {n_antennas} antennas; got {given.shape}")
    if not (np.isfinite(given) & (given > 0)).all():
        raise ValueError(f"sigma must be a positive number of Jy for every antenna; got {sigma!r}")
    each = np.full(n_antennas, given) if given.ndim == 0 else given
    of_baseline = np.sqrt(each[seen.antennas].prod(axis=1))
    parts = np.random.default_rng(seed).standard_normal((*seen.data.shape, 2))
    weight = np.where(seen.flagged, 0.0, of_baseline**-2)
    return replace(seen, data=seen.data + of_baseline * parts.view(complex)[..., 0], weight=weight)


def block(
    seen: Observation,
    *,
    antenna: int | None = None,
    times: tuple[float, float] | None = None,
    window: int | None = None,
    execution: int | None = None,
) -> Mask:
    """Mark what belongs to an antenna, to a span of time in seconds, to a window and to an execution, all at once.

    Examples
    --------
    >>> from firstlight.imaging.skies import Point
    >>> seen = observe([Point(1.0)], uv_track(n_times=5), channels(230e9, 1e9, 2))
    >>> int(block(seen, antenna=7, times=(-60, 60)).sum())  # 42 baselines in 2 channels, at transit
    84
    """
    chosen = np.ones(seen.data.shape, bool)
    if antenna is not None:
        chosen &= (seen.antennas == antenna).any(axis=1)
    if times is not None:
        chosen &= (seen.time >= times[0]) & (seen.time <= times[1])
    if window is not None:
        chosen &= (seen.window == window)[:, None]
    if execution is not None:
        chosen &= seen.execution == execution
    return chosen


def flag(seen: Observation, where: Mask) -> Observation:
    """Set weights to 0 where the mask, such as one from `block`, is true; the data stay as they are, unreliable.

    Examples
    --------
    >>> from firstlight.imaging.skies import Point
    >>> seen = observe([Point(1.0)], uv_track(n_times=2))
    >>> int(flag(seen, block(seen, antenna=7)).flagged.sum())
    84
    """
    return replace(seen, weight=np.where(where, 0.0, seen.weight))


def misscale(seen: Observation, where: Mask, factor: complex) -> Observation:
    """Multiply data by a factor that their weights know nothing of: a wrong flux scale, or a phase.

    Examples
    --------
    >>> from firstlight.imaging.skies import Point
    >>> seen = observe([Point(1.0)], uv_track(n_times=2))
    >>> wrong = misscale(seen, block(seen, antenna=7), 1.1)
    >>> int((wrong.data != seen.data).sum())
    84
    """
    return replace(seen, data=np.where(where, factor * seen.data, seen.data))


def join_executions(parts: Sequence[Observation]) -> Observation:
    """Put observations of the same channels one after another, and number them.

    Examples
    --------
    >>> from firstlight.imaging.skies import Point
    >>> seen = observe([Point(1.0)], uv_track(n_times=2))
    >>> both = join_executions([seen, seen])
    >>> both.data.shape, sorted(set(both.execution.tolist()))
    ((1, 3612), [0, 1])
    """
    same(parts, "frequency", "window")
    joined = {
        name: np.concatenate([getattr(p, name) for p in parts], axis=1) for name in ("uu", "vv", "data", "weight")
    }
    return Observation(
        **joined,
        frequency=parts[0].frequency,
        window=parts[0].window,
        antennas=np.concatenate([p.antennas for p in parts]),
        time=np.concatenate([p.time for p in parts]),
        execution=numbered([p.execution for p in parts]),
    )


def join_windows(parts: Sequence[Observation]) -> Observation:
    """Put spectral windows that were observed at the same time beside each other, and number them.

    Examples
    --------
    >>> from firstlight.imaging.skies import Point
    >>> track = uv_track(n_times=2)
    >>> low, high = (observe([Point(1.0)], track, channels(centre, 1e9, 2)) for centre in (230e9, 245e9))
    >>> join_windows([low, high]).window
    array([0, 0, 1, 1])
    """
    same(parts, "antennas", "time", "execution")
    joined = {name: np.concatenate([getattr(p, name) for p in parts]) for name in ("uu", "vv", "data", "weight")}
    return replace(
        parts[0],
        **joined,
        frequency=np.concatenate([p.frequency for p in parts]),
        window=numbered([p.window for p in parts]),
    )


def same(parts: Sequence[Observation], *names: str) -> None:
    """Refuse to join observations that differ in what they must share."""
    if not parts:
        raise ValueError("there is nothing to join: give at least one observation")
    for name in names:
        first = getattr(parts[0], name)
        for i, part in enumerate(parts[1:], 1):
            if not np.array_equal(first, getattr(part, name)):
                raise ValueError(
                    f"observations 0 and {i} differ in {name}, which they must share to be joined: join_executions is "
                    "for the same channels at other times, join_windows for other channels at the same times"
                )


def numbered(labels: Sequence[Ints]) -> Ints:
    """Count on from one list of numbers to the next."""
    out: list[Ints] = []
    start = 0
    for label in labels:
        out.append(label + start)
        start = int(out[-1].max(initial=start - 1)) + 1
    return np.concatenate(out)
