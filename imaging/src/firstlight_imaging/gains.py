"""Antenna gains against a model of the sky, solved in closed form, and no more of them than the data bear.

A visibility is V = g₁ ḡ₂ M, where M is that of the model. In an interval, all that V tells of the gains are the sums of
``w V M̄`` and ``w |M|²`` over each baseline, so each step of StefCal (Salvini & Wijnholds 2014) is one product of small
matrices. Intervals are lengthened until the model is seen well enough by most antennas. What is left of a solution is
as much of it as is not noise: how far the gains of an antenna scatter, and their mean is off, beyond their own errors,
says how much that is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import chdtrc, chdtri

from firstlight_imaging._types import Complex, Ints, Mask, Real
from firstlight_imaging.data.visibilities import Visibilities

_ITERATIONS = 60
_MIN_SOLVED = 3.0  # of the model's signal over noise, for an antenna to be solved at all
_WEAKEST = 0.25  # of the antennas may have less signal than `_MIN_SIGNAL`
_PARTS = 4  # of the baselines, each of which is left out once
_CHANCE = 1e-4  # that noise alone scatters so much, for an antenna's gains to be right

Mode = Literal["phase", "amplitude"]

# What gains need to be solved: the signal of the model over noise, per antenna, and antennas that close.
_MIN_SIGNAL: dict[Mode, float] = {"phase": 5.0, "amplitude": 15.0}
_MIN_ANTENNAS: dict[Mode, int] = {"phase": 3, "amplitude": 4}


@dataclass(frozen=True, eq=False)
class Gains:
    """Gains of antennas in intervals of time.

    Attributes
    ----------
    values, error
        (ninterval, nantenna): the gains, 1 where none was solved; and of what was solved, before noise was taken out of
        it, the σ of the phase in radians, which is also that of the relative amplitude; infinite where nothing was.
    start, execution
        When each interval begins, in seconds as in `Visibilities`, and in which execution.
    antennas
        Their numbers.
    reference
        The antenna whose phase is 0.
    names
        What each is called: its name, or its number where it has none.
    parameters
        How many numbers they are that noise is in, too: so much less is chi² of what they calibrate.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Point
    >>> clean = observe([Point(1.0)], uv_track(n_times=5))
    >>> gains = solve_gains(with_noise(clean, 0.1, seed=1), clean.data)
    >>> gains.values.shape, float(gains.phase_scatter.max())  # nothing is wrong with them
    ((5, 43), 0.0)
    """

    values: Complex
    error: Real
    start: Real
    execution: Ints
    antennas: Ints
    reference: int
    names: tuple[str, ...]
    parameters: float = 0.0

    @property
    def phase_scatter(self) -> Real:
        """Of each antenna, the rms of its phases about the mean of all antennas, in degrees; NaN if never solved."""
        return np.degrees(_rms_over_time(_centred_phases(self.values, self.error), self.error))

    @property
    def amplitude_scatter(self) -> Real:
        """Of each antenna, the rms of its log amplitude, about the relative error of its gain; NaN if never solved."""
        return _rms_over_time(np.log(np.abs(self.values)), self.error)

    @property
    def spacing(self) -> float:
        """The median distance between intervals of an execution, in seconds; NaN for a single one."""
        steps = np.diff(self.start)[np.diff(self.execution) == 0]
        return float(np.median(steps)) if steps.size else math.nan


def solve_gains(vis: Visibilities, model: Complex, *, mode: Mode = "phase", every: float | None = None) -> Gains:
    """Return the gains with which a model of the sky fits what was observed, one for all channels.

    Parameters
    ----------
    vis
        What was observed, with its antennas and times.
    model
        The visibilities of the model, (nchan, nvis).
    mode
        ``"phase"``, or ``"amplitude"`` for both. The mean of the amplitudes is 1, so the flux is kept.
    every
        The least length of an interval in seconds; by default one integration. Where the signal is too weak for that,
        intervals are longer.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Point
    >>> clean = observe([Point(1.0)], uv_track(n_times=5))
    >>> turned = replace(clean, data=clean.data * np.where(clean.antennas[:, 0] == 0, 1j, 1))  # antenna 0 by 90 degrees
    >>> gains = solve_gains(with_noise(turned, 0.1, seed=1), clean.data)
    >>> round(float(gains.phase_scatter[0])), gains.values.shape
    (88, (5, 43))
    """
    check_mode(mode)
    if not vis.antennas.any():
        raise ValueError("the data do not say which antennas saw them, so gains cannot be solved")
    baselines = _Baselines(vis, model)
    solved = baselines.solve(mode, every, 1.0)
    # Where residuals are louder than the weights say, solutions are worse, and need longer intervals.
    noise = baselines.noise(baselines.residuals(solved.values, _interval_of(baselines, solved)))
    return baselines.solve(mode, every, noise) if noise > 1 else solved


def check_mode(mode: Mode) -> None:
    """Raise an error for a mode that there is not."""
    if mode not in _MIN_SIGNAL:
        raise ValueError(f"mode must be 'phase' or 'amplitude'; got {mode!r}")


def apply_gains(vis: Visibilities, gains: Gains) -> Visibilities:
    """Return visibilities calibrated: divided by the gains of their two antennas, their weights to match.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> clean = observe([Point(1.0)], uv_track(n_times=5))
    >>> turned = replace(clean, data=clean.data * np.where(clean.antennas[:, 0] == 0, 1j, 1))
    >>> bool(abs(apply_gains(turned, solve_gains(turned, clean.data)).data - 1).max() < 0.05)
    True
    """
    interval = _interval_of(vis, gains)
    first, second = np.searchsorted(gains.antennas, vis.antennas).T
    factor = gains.values[interval, first] * gains.values[interval, second].conj()
    return replace(vis, data=vis.data / factor, weight=vis.weight * np.abs(factor) ** 2)


def describe_gains(gains: Gains, mode: Mode = "phase") -> str:
    """Return a sentence on how far the phases are off, or the amplitudes, and of which antennas most.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> clean = observe([Point(1.0)], uv_track(n_times=5))
    >>> describe_gains(solve_gains(clean, clean.data))
    'phases of 43 of 43 antennas, solved ..., agree with this image'
    """
    what, unit, scatter = "phases", "°", gains.phase_scatter
    if mode == "amplitude":
        what, unit, scatter = "amplitudes", " %", 100 * gains.amplitude_scatter
    solved = np.isfinite(scatter)
    if not solved.any():
        return f"the signal is too weak to solve {what} of any antenna"
    times = f"every {gains.spacing:.3g} s" if gains.spacing > 0 else "once"
    head = f"{what} of {solved.sum()} of {len(solved)} antennas, solved {times}, "
    if not scatter[solved].any():
        return f"{head}agree with this image"
    most = np.argsort(np.where(solved, scatter, -1))[::-1][:3]
    named = ", ".join(f"{gains.names[k]} by {scatter[k]:.3g}{unit}" for k in most)
    return f"{head}are off by {np.median(scatter[solved]):.3g}{unit} (median; most of all antenna {named})"


def chi2_of_gains(vis: Visibilities, model: Complex, mode: Mode = "phase", *, parameters: float = 0.0) -> float:
    """Return the reduced chi² that is left of a model by the best gains of each interval: what no gain explains.

    As closure quantities, it does not care how wrong the gains are. ``parameters`` are those of phases that the data
    were calibrated with before.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Point
    >>> clean = observe([Point(1.0)], uv_track(n_times=5))
    >>> noisy = with_noise(replace(clean, data=clean.data * np.where(clean.antennas[:, 0] == 0, 1j, 1)), 0.1, seed=1)
    >>> abs(chi2_of_gains(noisy, clean.data) - 1) < 0.1
    True
    """
    baselines, noise, residuals, power = _Baselines(vis, model), 1.0, np.zeros(0), np.zeros(0)
    for _ in range(2):
        start, _, interval = baselines.intervals(_MIN_SIGNAL[mode] * noise, None)
        cross, power = baselines.matrices(interval, len(start))
        residuals = baselines.residuals(_stefcal(cross, power, mode), interval)
        noise = baselines.noise(residuals)
    solved = power.any(axis=2).sum(axis=1)
    phases = max(parameters, float((solved - 1).clip(0).sum()))  # the gains fit some of the noise, too
    free = 2 * baselines.count.sum() - phases - (solved.sum() if mode == "amplitude" else 0)
    return float(residuals.sum() / max(1, free))


def fit_other_baselines(vis: Visibilities, model: Complex, mode: Mode) -> bool:
    """Return whether gains that were solved without a part of the baselines fit that part better than none.

    Those of antennas do. Those that make up for what the model lacks of the sky do not.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Point
    >>> clean = observe([Point(1.0)], uv_track(n_times=5))
    >>> turned = with_noise(replace(clean, data=clean.data * np.where(clean.antennas[:, 0] == 0, 1j, 1)), 0.1, seed=1)
    >>> fit_other_baselines(turned, clean.data, "phase"), fit_other_baselines(turned, turned.data, "phase")
    (True, False)
    """
    baselines = _Baselines(vis, model)
    start, _, interval = baselines.intervals(_MIN_SIGNAL[mode], None)
    pair = baselines.first * len(baselines.antennas) + baselines.second
    part = np.random.default_rng(0).integers(_PARTS, size=len(baselines.antennas) ** 2)[pair]
    worse = -baselines.residuals(np.ones((len(start), len(baselines.antennas)), complex), interval)
    for left_out in (part == k for k in range(_PARTS)):
        cross, power = baselines.matrices(interval, len(start), ~left_out)
        worse[left_out] += baselines.residuals(_stefcal(cross, power, mode), interval)[left_out]
    # An antenna with few baselines left has wild gains, which may outweigh all the others.
    most = mode == "phase" and np.median(np.bincount(pair, worse)[np.unique(pair)]) < 0
    return bool(most or worse.sum() < 0)


class _Baselines:
    """The sums over channels of w V M̄, w |M|² and w |V|² of each visibility, and where in time and array it is."""

    def __init__(self, vis: Visibilities, model: Complex) -> None:
        self.antennas, numbers = np.unique(vis.antennas, return_inverse=True)
        self.names = tuple(map(vis.name_of, self.antennas.tolist()))
        first, second = numbers.reshape(-1, 2).T
        keep = (first != second) & vis.weight.any(axis=0)
        weight, data, model = vis.weight[:, keep], np.where(vis.flagged, 0, vis.data)[:, keep], model[:, keep]
        self.cross = (weight * data * model.conj()).sum(0)
        self.power, self.total = ((weight * np.abs(part) ** 2).sum(0) for part in (model, data))
        self.count = (weight > 0).sum(0)
        self.time, self.execution = vis.time[keep], vis.execution[keep]
        self.first, self.second = first[keep], second[keep]

    def solve(self, mode: Mode, every: float | None, noise: float) -> Gains:
        """Return the gains, where the noise is as many times as loud as the weights say."""
        start, execution, interval = self.intervals(_MIN_SIGNAL[mode] * noise, every)
        cross, power = self.matrices(interval, len(start))
        values = _stefcal(cross, power, mode)
        signal = np.einsum("kpq,kq->kp", power, np.abs(values) ** 2)
        error = noise / np.sqrt(np.where(signal > 0, signal, np.nan))
        # An antenna with its own amplitude is seen as well as its gain is large.
        error = np.where(error < 1 / _MIN_SOLVED, error, np.inf)
        error[np.isfinite(error).sum(axis=1) < _MIN_ANTENNAS[mode]] = np.inf
        values, parameters = _without_noise(np.where(np.isfinite(error), values, 1), error)
        reference = int(np.isfinite(error).sum(0).argmax())
        turn = np.where(np.isfinite(error[:, reference]), values[:, reference], 1)
        values = np.where(np.isfinite(error), values * (np.abs(turn) / turn)[:, None], 1)
        number = int(self.antennas[reference])
        return Gains(values, error, start, execution, self.antennas, number, self.names, parameters)

    def noise(self, residuals: Real) -> float:
        """Return the noise of residuals, in units of what the weights say, from their median; 1 or more."""
        return math.sqrt(max(1.0, float(np.median(residuals / chdtri(2 * self.count, 0.5)))))

    def residuals(self, gains: Complex, interval: Ints) -> Real:
        """Return Σ w |V - g₁ ḡ₂ M|² over the channels of each visibility."""
        factor = gains[interval, self.first] * gains[interval, self.second].conj()
        return np.asarray(self.total - 2 * (self.cross * np.conj(factor)).real + self.power * np.abs(factor) ** 2)

    def intervals(self, signal: float, every: float | None) -> tuple[Real, Ints, Ints]:
        """Return starts and executions of intervals with enough signal, and the interval of each visibility."""
        slots, slot = np.unique(np.column_stack([self.execution, self.time]), axis=0, return_inverse=True)
        slot, power = slot.ravel(), np.zeros((len(slots), len(self.antennas)))
        for antenna in (self.first, self.second):
            np.add.at(power, (slot, antenna), self.power)
        firsts, total = [0], power[0].copy()
        for k in range(1, len(slots)):
            same = slots[k, 0] == slots[k - 1, 0]
            present = total[total > 0]
            enough = present.size and np.quantile(present, _WEAKEST) >= signal**2
            if not same or (enough and slots[k, 1] - slots[firsts[-1], 1] >= (every or 0) * (1 - 1e-6)):
                firsts.append(k)
                total = power[k].copy()
            else:
                total += power[k]
        interval = np.searchsorted(firsts, slot, side="right") - 1
        return slots[firsts, 1], slots[firsts, 0].astype(int), interval

    def matrices(self, interval: Ints, n: int, of: Mask | slice = slice(None)) -> tuple[Complex, Real]:
        """Return the sums of these visibilities over each interval as matrices of antenna by antenna."""
        shape = n, len(self.antennas), len(self.antennas)
        cross, power = np.zeros(shape, complex), np.zeros(shape)
        interval, first, second = interval[of], self.first[of], self.second[of]
        np.add.at(cross, (interval, first, second), self.cross[of])
        np.add.at(cross, (interval, second, first), self.cross[of].conj())
        np.add.at(power, (interval, first, second), self.power[of])
        np.add.at(power, (interval, second, first), self.power[of])
        return cross, power


def _stefcal(cross: Complex, power: Real, mode: Mode) -> Complex:
    """Return the gains of each interval, phases alone or with amplitudes."""
    gains = _phase(np.linalg.eigh(cross)[1][:, :, -1])  # of a point source it is the solution, whatever the phases
    for step in range(_ITERATIONS):
        fitted = np.einsum("kpq,kq->kp", cross, gains)
        scale = np.einsum("kpq,kq->kp", power, np.abs(gains) ** 2) if mode == "amplitude" else np.abs(fitted)
        fitted = fitted / np.where(scale > 0, scale, 1)
        fitted = np.where(np.abs(fitted) < np.finfo(float).tiny, 1, fitted)  # of an antenna that saw nothing
        mean = _phase(gains + fitted) if mode == "phase" else (gains + fitted) / 2
        gains = fitted if mode == "amplitude" and step % 2 == 0 else mean
    return gains


def _without_noise(values: Complex, error: Real) -> tuple[Complex, float]:
    """Return gains about their mean, with as much of each antenna's phases and amplitudes as is not noise.

    And how many numbers they are: of a solution of which half is kept, half of one.
    """
    phase, kept = _what_is_no_noise(_centred_phases(values, error), error)
    log_amplitude = np.log(np.abs(values))
    solved = np.isfinite(error)
    parameters = float((kept.sum(axis=1) * (1 - 1 / solved.sum(axis=1).clip(1))).sum())  # their mean phase is not one
    if solved.any() and log_amplitude.any():
        log_amplitude, kept = _what_is_no_noise(log_amplitude - log_amplitude[solved].mean(), error)
        parameters += float(kept.sum())
        log_amplitude -= log_amplitude[solved].mean()
    return np.asarray(np.exp(log_amplitude + 1j * phase)), parameters


def _what_is_no_noise(values: Real, error: Real) -> tuple[Real, Real]:
    """Return as much of values as is no noise, antenna by antenna, and how many numbers each of them is.

    The mean of an antenna counts if it is far from 0, and what is about it if that scatters more than noise does.
    """
    weight = 1 / error**2
    total = np.where(weight.any(axis=0), weight.sum(axis=0), 1)
    mean = (weight * values).sum(axis=0) / total
    off = chdtrc(1, mean**2 * total) < _CHANCE
    mean_kept = 1 - 1 / np.where(off, mean**2 * total, 1)
    rest = np.where(np.isfinite(error), values - mean * off, 0)
    squares, free = (weight * rest**2).sum(axis=0), (np.isfinite(error).sum(axis=0) - off).clip(1)
    variance = np.where(chdtrc(free, squares) < _CHANCE, (squares - free) / total, 0)
    kept, share = variance * weight / (1 + variance * weight), off * weight / total  # of the mean, which rest lacks
    return np.where(np.isfinite(error), mean_kept * mean + kept * rest, 0), kept * (1 - share) + mean_kept * share


def _centred_phases(values: Complex, error: Real) -> Real:
    """Return the phases of gains relative to the mean of the antennas that are solved, 0 for others."""
    solved: Mask = np.isfinite(error)
    units = np.where(solved, _phase(values), 0)
    mean = (units / error**2).sum(axis=1, keepdims=True)
    return np.where(solved, np.angle(units * np.where(mean == 0, 1, mean).conj()), 0)


def _phase(values: Complex) -> Complex:
    """Return numbers of modulus 1; of 0, 1."""
    size = np.abs(values)
    nothing = size < np.finfo(float).tiny  # or so little that its quotients are not finite
    return np.asarray(np.where(nothing, 1, values) / np.where(nothing, 1, size), complex)


def _rms_over_time(values: Real, error: Real) -> Real:
    """Return the rms of each antenna's solutions, NaN without one."""
    solved = np.isfinite(error)
    count = solved.sum(axis=0)
    return np.asarray(np.sqrt(np.where(solved, values**2, 0).sum(axis=0) / np.where(count, count, np.nan)))


def _interval_of(vis: Visibilities | _Baselines, gains: Gains) -> Ints:
    """Return the interval of each visibility."""
    late = np.lexsort((gains.start, gains.execution))
    keys = np.column_stack([gains.execution, gains.start])[late]
    stacked = np.concatenate([keys, np.column_stack([vis.execution, vis.time])])
    rank = np.unique(stacked, axis=0, return_inverse=True)[1].ravel()
    at = np.searchsorted(rank[: len(keys)], rank[len(keys) :], side="right") - 1
    return np.asarray(late[np.maximum(at, 0)])
