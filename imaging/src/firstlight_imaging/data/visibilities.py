"""Visibilities and all that is known of them: join, flag, shift, select and check them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from firstlight_imaging._types import Complex, Ints, Mask, Real
from firstlight_imaging.directions import phase_factor
from firstlight_imaging.units import ARCSEC

_CUBES = ("uu", "vv", "data", "weight")  # (nchan, nvis)
_PER_CHANNEL = ("frequency", "window")
_PER_ROW = ("antennas", "time", "execution")
_MAX_RA = 720  # degrees: within a turn of what is usual
SAME_CENTRE = 1e-7  # degrees, 0.4 mas: what files round
_DOPPLER = 3e-4  # of a frequency: twice what the Earth's motion changes, and more
_LONGEST_ERROR = 300  # characters of another library's error
MJD_ZERO, MAX_START = np.datetime64("1858-11-17T00:00:00"), 1e5 * 86400  # the year 2132, in seconds
_SAMPLE, _FEWEST, _MAX_AGAIN = 200, 10, 0.05  # visibilities that are looked for again, and the share that may be found
_MAX_SIGNAL = 1e15  # times its noise: no receiver is as linear, and float32 has room for its square


@dataclass(frozen=True, eq=False)
class Visibilities:
    """Visibilities of one source, and all that is known of them.

    Attributes
    ----------
    uu, vv
        In wavelengths, of shape (nchan, nvis).
    data
        In Jy, of shape (nchan, nvis).
    weight
        One over the variance of the real part, which is also that of the imaginary part; 0 where flagged.
    frequency, window
        Of each channel: in Hz, NaN where it is not known; and the number of its spectral window.
    antennas, time, execution
        Of each visibility: the two antennas; seconds from ``start`` or, of a simulation, from transit; and the number
        of the execution. All are 0 where they are not known.
    phase_centre
        Right ascension, from 0 to 360, and declination in degrees, ICRS; None where they are not known.
    telescope, target
        The name of the telescope, and that of the source; empty where they are not known.
    dish
        The diameter of its antennas in metres; None where it is not known, or they differ.
    start
        When time was 0: seconds of UTC since MJD 0; None where it is not known.
    weights_checked
        Whether the weights are right, as those of a simulation, or were held against the scatter of the data
        (`trusted`, `scale_weights`). `image` takes them as they are then.
    antenna_names
        The names of antennas by their numbers, as far as they are known.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import channels, observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = observe([Point(1.0)], uv_track(n_times=2), channels(230e9, 1e9, 3))
    >>> vis.data.shape, vis.frequency / 1e9, bool(vis.flagged.any())
    ((3, 1806), array([229., 230., 231.]), False)
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
    phase_centre: tuple[float, float] | None = None
    telescope: str = ""
    start: float | None = None
    target: str = ""
    dish: float | None = None
    weights_checked: bool = False
    antenna_names: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nchan, nvis = len(self.frequency), len(self.time)
        per_part = {"window": (nchan,), "antennas": (nvis, 2), "execution": (nvis,)}
        for name, expected in (dict.fromkeys(_CUBES, (nchan, nvis)) | per_part).items():
            if (shape := getattr(self, name).shape) != expected:
                raise ValueError(f"{name} is {shape}; {nchan} frequencies and {nvis} times need {expected}")
        if (np.isinf(self.frequency) | (self.frequency <= 0)).any():
            raise ValueError(f"frequencies must be positive numbers of Hz, or NaN; got {self.frequency}")
        if self.phase_centre is not None:
            ra, dec = self.phase_centre
            if not (abs(ra) <= _MAX_RA and -90 <= dec <= 90):
                raise ValueError(f"the phase centre must be in degrees, from -90 to 90 in declination; got {ra}, {dec}")
            object.__setattr__(self, "phase_centre", (ra % 360 % 360, dec))  # -1e-20 % 360 is 360

    @property
    def flagged(self) -> Mask:
        """Where the weight is 0, (nchan, nvis)."""
        return np.asarray(self.weight == 0)

    @property
    def unflagged(self) -> tuple[Real, Real, Complex, Real]:
        """u, v, data and weights of all that is not flagged, each in a row; they are views where nothing is."""
        there = slice(None) if self.weight.all() else ~self.flagged
        u, v, weight = (values[there].ravel() for values in (self.uu, self.vv, self.weight))
        return u, v, self.data[there].ravel(), weight

    @property
    def dark_chi2(self) -> float:
        """The reduced chi² of a dark sky."""
        rows = ((w[w > 0], d[w > 0]) for w, d in zip(self.weight, self.data, strict=True))
        return sum(float(w @ np.abs(d) ** 2) for w, d in rows) / (2 * int(np.count_nonzero(self.weight)) or 1)

    @property
    def lengths(self) -> Real:
        """The lengths of the baselines in wavelengths, (nchan, nvis)."""
        return np.hypot(self.uu, self.vv)

    @property
    def mean_frequency(self) -> float:
        """The mean of the channels by their weights, in Hz, which an image of all of them has."""
        return float(np.average(self.frequency, weights=self.weight.sum(axis=1)))

    def name_of(self, antenna: int) -> str:
        """Return the name of an antenna, or its number where it has none."""
        return self.antenna_names.get(antenna, str(antenna))

    def utc(self, time: float = 0.0) -> str:
        """Return the UTC so many seconds after ``start``, as 2017-04-05T00:46:15; nothing where it is not known."""
        if self.start is None or not 0 <= self.start < MAX_START:
            return ""
        return str(MJD_ZERO + np.timedelta64(round(self.start + time), "s"))

    @property
    def title(self) -> str:
        """What is known of source, telescope, date and frequency, for above a picture."""
        parts = self.target, self.telescope, self.utc()[:10], f"{self.mean_frequency / 1e9:.4g} GHz"
        return ", ".join(part for part in parts if part)

    @property
    def band(self) -> float:
        """The width of a channel about `mean_frequency` that holds all channels, in Hz; 1 for a single one."""
        steps = np.diff(np.unique(self.frequency))
        return float(2 * np.abs(self.frequency - self.mean_frequency).max() + steps.min()) if steps.size else 1.0


def flag(vis: Visibilities, mask: Mask) -> Visibilities:
    """Return visibilities whose weights are 0 where a mask is true; data are kept.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = observe([Point(1.0)], uv_track(n_times=2))
    >>> int(flag(vis, (vis.antennas == 7).any(axis=1)).flagged.sum())  # 42 baselines of antenna 7, twice
    84
    """
    return replace(vis, weight=np.where(mask, 0.0, vis.weight))


def shift_phase_centre(vis: Visibilities, east: float, north: float) -> Visibilities:
    """Return visibilities of the sky moved so that what is ``east`` and ``north`` of the centre, in arcsec, lies in it.

    The offsets are direction cosines (in units of an arcsecond), as all offsets in images here are: at an angle θ they
    are smaller than it by the part θ²/6, 4e-9 at 30 arcsec. Only phases turn. The baselines stay projected as the old
    centre saw them, so the sky slides and is not seen anew: near its new centre it is foreshortened by the part θ²/2,
    and its north is turned by θ tan(declination), for θ to the east, from the north that is there. The w-term stays
    as large as it was. A ``phase_centre`` that is known moves along.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = observe([Point(2.0, east=0.5, north=-0.3)], uv_track(n_times=1))
    >>> bool(np.allclose(shift_phase_centre(vis, 0.5, -0.3).data, 2.0))
    True
    """
    if not math.hypot(east, north) * ARCSEC < 1:
        raise ValueError(f"east and north must be finite numbers of arcsec, in the sky; got {east!r} and {north!r}")
    centre = None if vis.phase_centre is None else _shifted(vis.phase_centre, east * ARCSEC, north * ARCSEC)
    return replace(
        vis, data=vis.data * phase_factor(vis.uu * ARCSEC, vis.vv * ARCSEC, -east, -north), phase_centre=centre
    )


def _shifted(centre: tuple[float, float], east: float, north: float) -> tuple[float, float]:
    """Return right ascension and declination, in degrees, of what is at direction cosines from a centre.

    Examples
    --------
    >>> _shifted((350.0, 0.0), east=0.5, north=0.0)
    (20.0, 0.0)
    """
    toward = math.sqrt(1 - east**2 - north**2)
    declination = math.radians(centre[1])
    across = toward * math.cos(declination) - north * math.sin(declination)
    up = toward * math.sin(declination) + north * math.cos(declination)
    right_ascension = (centre[0] + math.degrees(math.atan2(east, across))) % 360
    return round(right_ascension, 12), round(math.degrees(math.atan2(up, math.hypot(east, across))), 12)


def select_channels(vis: Visibilities, channels: slice) -> Visibilities:
    """Return the visibilities of some channels, counted from 0.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import channels, observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = observe([Point(1.0)], uv_track(n_times=1), channels(230e9, 1e9, 9))
    >>> select_channels(vis, slice(4, 5)).frequency / 1e9
    array([230.])
    """
    kept = {name: getattr(vis, name)[channels] for name in (*_CUBES, *_PER_CHANNEL)}
    if not len(kept["frequency"]):
        last = len(vis.frequency) - 1
        raise ValueError(f"there are channels 0 to {last}; none of them is in {channels.start}:{channels.stop}")
    return replace(vis, **kept)


def select_baselines(vis: Visibilities, *, shortest: float = 0.0, longest: float = math.inf) -> Visibilities:
    """Return the visibilities whose baselines are within a range of lengths, in wavelengths, in every channel.

    What is out of range is gone, not flagged, so that the rest fits a grid that would not hold it.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = observe([Point(2.0)], uv_track(n_times=1))
    >>> len(vis.time), len(select_baselines(vis, longest=1e5).time)
    (903, 48)
    """
    lengths = vis.lengths
    keep = ((lengths >= shortest) & (lengths <= longest)).all(axis=0)
    if not keep.any():
        held = f"they are {lengths.min():.4g} to {lengths.max():.4g} wavelengths" if lengths.size else "there are none"
        raise ValueError(f"no baseline is from {shortest=:.4g} to {longest=:.4g} in every channel; {held}")
    selected = {name: getattr(vis, name)[:, keep] for name in _CUBES}
    return replace(vis, **selected, **{name: getattr(vis, name)[keep] for name in _PER_ROW})


def join_executions(parts: Sequence[Visibilities]) -> Visibilities:
    """Return executions one after another, numbered, as are their antennas: each has gains of its own.

    Windows of the same channels, to half a channel, lie in the same rows of the arrays; the others beside each other,
    and what an execution hasn't of them is flagged. Of telescopes and targets that differ, none is kept. Times count
    from the first start; if one is not known, each one's from its own.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = observe([Point(1.0)], uv_track(n_times=2))
    >>> both = join_executions([vis, vis])
    >>> both.data.shape, sorted(set(both.execution.tolist())), int(both.antennas.max())
    ((1, 3612), [0, 1], 85)
    """
    channels, frequency, window = _common_channels(parts)
    axes = []
    for part, rows in zip(parts, channels, strict=True):
        whole: dict[str, Any] = {name: np.tile(getattr(part, name)[:1], (len(frequency), 1)) for name in _CUBES}
        whole["weight"][:] = 0  # where it has no such channel; baselines are as long there as in its first
        for name, cube in whole.items():
            cube[rows] = getattr(part, name)
        axes.append(replace(part, **whole, frequency=frequency, window=window))
    if all(part.start is not None for part in parts):
        start = min(part.start or 0.0 for part in parts)
        axes = [replace(part, time=part.time + (part.start or 0.0) - start, start=start) for part in axes]
    return _join(axes, (), _PER_ROW, ("execution", "antennas"))


def _common_channels(parts: Sequence[Visibilities]) -> tuple[list[Ints], Real, Ints]:
    """Return where the channels of each part lie among those of all, and the frequencies and windows of these."""
    frequencies: list[Real] = []
    places: list[Ints] = []
    for part in parts:
        own, rows = [part.frequency[part.window == k] for k in np.unique(part.window)], np.zeros(len(part.window), int)
        taken: set[int] = set()
        for k, hertz in zip(np.unique(part.window), own, strict=True):
            free = (g for g, held in enumerate(frequencies) if g not in taken and _are_same_channels(held, hertz))
            at = next(free, len(frequencies))
            frequencies += [hertz] * (at == len(frequencies))
            taken.add(at)
            rows[part.window == k] = sum(map(len, frequencies[:at])) + np.arange(len(hertz))
        places.append(rows)
    numbers = np.repeat(np.arange(len(frequencies)), [len(hertz) for hertz in frequencies])
    return places, np.concatenate([*frequencies, np.zeros(0)]), numbers


def _are_same_channels(one: Real, other: Real) -> bool:
    """Return whether frequencies are the same, to half a channel or, of a single one, what the Earth's motion does."""
    if len(one) != len(other):
        return False
    half = np.abs(np.diff(one)).min() / 2 if len(one) > 1 else _DOPPLER * one[0]
    return bool((np.abs(one - other) <= half).all() or np.isnan([one, other]).all())


def join_windows(parts: Sequence[Visibilities]) -> Visibilities:
    """Return spectral windows that were observed at the same time beside each other, numbered.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import channels, observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> track = uv_track(n_times=2)
    >>> low, high = (observe([Point(1.0)], track, channels(centre, 1e9, 2)) for centre in (230e9, 245e9))
    >>> join_windows([low, high]).window
    array([0, 0, 1, 1])
    """
    return _join(parts, (*_PER_ROW, "start"), _PER_CHANNEL, ("window",))


def _join(
    parts: Sequence[Visibilities], shared: Sequence[str], others: Sequence[str], labels: Sequence[str]
) -> Visibilities:
    """Return parts joined that differ in ``others`` alone, labels counted on from one to the next."""
    if not parts:
        raise ValueError("there is nothing to join: give at least one set of visibilities")
    if len(parts) == 1:  # without a copy
        return parts[0]
    for name in shared:
        for i, part in enumerate(parts[1:], 1):
            if not np.array_equal(getattr(parts[0], name), getattr(part, name)):
                raise ValueError(
                    f"visibilities 0 and {i} differ in {name}, so they are no windows of one execution: join makes one "
                    "set of several executions"
                )
    axis = 0 if "window" in labels else 1
    joined: dict[str, Any] = {}
    joined |= {name: np.concatenate([getattr(part, name) for part in parts], axis=axis) for name in _CUBES}
    joined |= {name: np.concatenate([getattr(part, name) for part in parts]) for name in others}
    for label in labels:
        highest = np.cumsum([0] + [getattr(part, label).max(initial=-1) + 1 for part in parts[:-1]])
        values = [getattr(part, label) for part in parts]
        counted = [  # antennas that are not known stay so
            own + n * (label != "antennas" or own.any()) for own, n in zip(values, highest, strict=True)
        ]
        joined[label] = np.concatenate(counted)
        if label == "antennas":
            named = [(part.antenna_names, int(n)) for part, n in zip(parts, highest, strict=True)]
            joined["antenna_names"] = {n + k: name for names, n in named for k, name in names.items()}
    centres = [part.phase_centre for part in parts if part.phase_centre]
    if len(centres) > 1 and np.ptp(centres, axis=0).max() > SAME_CENTRE:
        raise ValueError(f"the phase centres {sorted(set(centres))} differ: shift_phase_centre moves one to another")
    kept = {**joined, "phase_centre": centres[0] if len(centres) == len(parts) else None}
    kept["weights_checked"] = all(part.weights_checked for part in parts)
    for name, unknown in (("telescope", ""), ("target", ""), ("dish", None), ("start", None)):
        kept[name] = getattr(parts[0], name) if len({getattr(part, name) for part in parts}) == 1 else unknown
    return replace(parts[0], **kept)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise one error, of one line that names the path, whatever NumPy, zipfile, astropy or arcae raise inside."""
    try:
        yield
    except (ImportError, FileNotFoundError):
        raise
    except Exception as error:  # for a damaged file, each library raises what it likes
        said = " ".join(str(error).split())[:_LONGEST_ERROR]
        if isinstance(error, ValueError) and not isinstance(error, UnicodeError):
            raise ValueError(f"{path} cannot be used: {said}") from error
        raise ValueError(
            f"{path} is damaged, or not copied completely ({type(error).__name__}: {said}). Copy or export it again"
        ) from error


def check_is_file(path: Path) -> None:
    """Raise an error that names what reads a folder, or a file that is not there or is none, such as a pipe."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, and a file is expected; read_ms reads a measurement set")
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}: is its name right, and the folder ({Path.cwd()})?")
    if not path.is_file():
        raise ValueError(f"{path} is a pipe or a device, not a file: write what comes out of it into one first")


def check_visibilities(vis: Visibilities) -> None:
    """Raise an error if there are none, or some that count are not finite."""
    if not vis.data.size:
        raise ValueError("there are no visibilities: the observation is empty")
    if not (np.isfinite(vis.weight) & (vis.weight >= 0)).all():
        raise ValueError("weights must be finite and not negative; a flagged visibility has the weight 0")
    if not (np.isfinite(vis.uu).all() and np.isfinite(vis.vv).all()):
        raise ValueError("uu and vv must be finite numbers of wavelengths; some are NaN or infinite")
    unknown = ~np.isfinite(vis.data) & ~vis.flagged
    if unknown.any():
        raise ValueError(f"{unknown.sum()} visibilities are NaN or infinite: flag(vis, ~np.isfinite(vis.data)) helps")
    with np.errstate(over="ignore", invalid="ignore"):
        loudest = np.nanmax(np.abs(vis.data) * np.sqrt(vis.weight))
    if loudest > _MAX_SIGNAL:
        raise ValueError(f"a visibility is {loudest:.3g} times its noise: are data in Jy, and weights in 1/Jy²?")


def check_nothing_counts_twice(vis: Visibilities) -> None:
    """Raise an error if many visibilities stand there a second time, as they are or as their own mirror images."""
    channel = int(np.count_nonzero(vis.weight, axis=1).argmax())
    rows = vis.weight[channel] > 0
    u, v, data = (values[channel, rows] for values in (vis.uu, vis.vv, vis.data))
    who = np.sort(vis.antennas[rows], axis=1).T
    share = _share_found_again(np.stack([u, v, vis.time[rows], vis.execution[rows], *who]), data, mirrored=False)
    if share > _MAX_AGAIN:
        raise ValueError(f"{share:.0%} of its rows are there twice, and would count twice: keep one of each")
    check_no_hermitian_pairs(u, v, data)


def check_no_hermitian_pairs(u: Real, v: Real, data: Complex) -> None:
    """Raise an error if many visibilities stand a second time at (-u, -v), conjugated: they would count double."""
    share = _share_found_again(np.stack([u, v]), data, mirrored=True)
    if share > _MAX_AGAIN:
        raise ValueError(f"{share:.0%} are Hermitian pairs, there again, conjugated, at (-u, -v). Keep one of each")


def _share_found_again(keys: Real, data: Complex, *, mirrored: bool) -> float:
    """Return the share of some visibilities that are there again, as far as their first digits tell.

    Examples
    --------
    >>> u = np.arange(-10.0, 11)
    >>> [_share_found_again(np.stack([u, u]), np.exp(1j * u), mirrored=mirrored) for mirrored in (True, False)]
    [1.0, 0.0]
    """
    picked = np.unique(np.linspace(0, max(0, data.size - 1), _SAMPLE).astype(int))[: data.size]
    picked = picked[keys[:2, picked].any(axis=0)]  # not of an antenna with itself
    if len(picked) < _FEWEST:
        return 0.0
    sign = -1 if mirrored else 1
    wanted = np.sort(sign * keys[0, picked])
    alike = np.flatnonzero(wanted[np.searchsorted(wanted, keys[0]).clip(max=len(wanted) - 1)] == keys[0])
    scale = 1e4 / math.sqrt(float((np.abs(data[picked]) ** 2).mean()) or 1.0)

    def rows(at: Ints, sign: int) -> list[tuple[complex, ...]]:
        rounded = np.rint(scale * data[at])
        others = *(sign * keys[:2, at]).tolist(), *keys[2:, at].tolist()
        return list(zip(*others, (rounded if sign > 0 else rounded.conj()).tolist(), strict=True))

    held = Counter(rows(alike, 1))
    return sum(held[row] > (not mirrored) for row in rows(picked, sign)) / len(picked)
