"""Several executions of one source: each one's flux scale, pointing offset and weights against the others, and a join.

Two executions are compared where their baselines overlap. A visibility changes over 1/(π f) wavelengths, where f is how
far the source reaches from the middle, so from the cells of one execution around it another's cell is predicted, with
the error of that: by kriging, which knows the noise of the cells and how alike neighbours are. No image is needed, and
none is believed. The prediction's own noise is taken out of the fit, which it would bias low.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from firstlight_imaging._types import Complex, Ints, Mask, Real
from firstlight_imaging.data.visibilities import (
    SAME_CENTRE,
    Visibilities,
    check_visibilities,
    join_executions,
    shift_phase_centre,
)
from firstlight_imaging.data.weights import check_weights, trusted
from firstlight_imaging.directions import phase_factor
from firstlight_imaging.units import ARCSEC, angle_text, angular_unit

_SIGNIFICANT = 3.0  # σ of what is applied
_SIGNIFICANT_OF_TWO = 11.83  # the same chance, of χ² of two numbers
_CELL = 0.06  # of a cell, in units of 1/f: a visibility hardly changes in it
_REACHES, _MISFIT = 16, 1.2  # halves of the shortest baseline's fringe, and how many times χ² one may be too small
_NEIGHBOURS, _NEAR = 8, 0.4  # cells that predict one, and how near the nearest is, in units of 1/(π f)
_FEWEST_CELLS, _MOST_CELLS = 300, 30_000  # into which an execution falls, and that are predicted
_MIN_OVERLAP, _MIN_SIGNAL = 10, 5.0  # cells, and σ of the flux scale, for a fit
_GROWING = (0.1, 0.3, 1.0, 1.0, 1.0)  # of the baselines: short ones first, whose phases do not wrap
_PARTS = 8  # of the overlap, each of which is left out once
_OUTLIER = 30.0  # times the median of χ²
_SAME_UNIT = 10.0  # the largest factor that is one of flux
_MAX_APART = 0.25  # of the fringe of the shortest baseline: another field of a mosaic is farther
_MAX_STRENGTH = 0.02  # of the noise: what the source may scatter in a cell, for its scatter to be noise
_SAME_BAND = 0.01  # of the frequency: a spectrum does less there than a flux scale


@dataclass(frozen=True)
class Execution:
    """What was found of one execution.

    Attributes
    ----------
    name
        Of its file.
    scale, scale_error
        Its fluxes are so many times those of the others, and one σ of that.
    east, north, east_error, north_error
        How far its sky lies from the others', in arcsec, and one σ of that.
    weights, weights_error
        The factor that its weights need, by the scatter in cells; NaN where antennas and times are known, which tell
        more.
    overlap
        How many cells of the Fourier plane it shares with the others; 0 of the reference, and where nothing was fitted.
    reason
        Why nothing was fitted.

    Examples
    --------
    >>> print(Execution("b.ms", 0.92, 0.01, -0.012, 0.001, 0.002, 0.002, overlap=200))
    b.ms: flux scale 0.92 ± 0.01 (applied); 12 ± 2 mas west and 1 ± 2 mas north (applied); from 200 cells ...
    """

    name: str
    scale: float = 1.0
    scale_error: float = math.nan
    east: float = 0.0
    north: float = 0.0
    east_error: float = math.nan
    north_error: float = math.nan
    weights: float = math.nan
    weights_error: float = math.nan
    overlap: int = 0
    reason: str = ""

    @property
    def is_scaled(self) -> bool:
        """Whether its flux scale differs from 1 by 3 σ or more, so that it is applied."""
        return abs(self.scale - 1) > _SIGNIFICANT * self.scale_error

    @property
    def is_shifted(self) -> bool:
        """Whether its offset is as significant, so that it is applied."""
        return (self.east / self.east_error) ** 2 + (self.north / self.north_error) ** 2 > _SIGNIFICANT_OF_TWO

    @property
    def is_reweighted(self) -> bool:
        """Whether its weights are as significantly off, so that they are scaled."""
        return abs(self.weights - 1) > _SIGNIFICANT * self.weights_error

    def __str__(self) -> str:
        """Return a line."""
        told = []
        if self.overlap:
            along, up = "east" if self.east >= 0 else "west", "north" if self.north >= 0 else "south"
            place = f"{_with_error(self.east, self.east_error)} {along} and "
            place += f"{_with_error(self.north, self.north_error)} {up}"
            told += [
                f"flux scale {self.scale:.4g} ± {_two_digits(self.scale_error)} ({_word(self.is_scaled)})",
                f"{place} ({_word(self.is_shifted)})",
                f"from {self.overlap:,} cells of the Fourier plane that the others see, too",
            ]
        if math.isfinite(self.weights):
            factor = f"{self.weights:.4g} ± {_two_digits(self.weights_error)}"
            told.append(f"weights × {factor} by their scatter in cells ({_word(self.is_reweighted)})")
        return f"{self.name}: {'; '.join([self.reason] * bool(self.reason) + told)}"


@dataclass(frozen=True, eq=False)
class Joined:
    """Executions as one set of visibilities, and what was found of each.

    Attributes
    ----------
    vis
        All of them, with what is significant applied.
    executions
        What was found, in their order.
    notes
        What there is to say besides, a sentence each.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> Joined(observe([Point(1.0)], uv_track(n_times=1)), (Execution("a.ms", reason="the reference"),), ())
    Joined(...)
    """

    vis: Visibilities
    executions: tuple[Execution, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """Return a summary, a line for each execution."""
        return "\n".join([*self.notes, *map(str, self.executions)])


def join(parts: Sequence[Visibilities], names: Sequence[str] = ()) -> Joined:
    """Return several executions of one source as one set, on one flux scale and about one place.

    The reference is the one with the most weight. The others are compared with it, and with those that were compared
    before, where their baselines overlap. What is found is divided out where it is significant (3 σ). Antennas are
    numbered on from one execution to the next, because the gains of each are its own.

    Parameters
    ----------
    parts
        The executions, in Jy. Weights that weren't checked before are now, as by `image`. Where their phase centres
        differ by a little, phases are shifted; farther away, it is another field, and refused.
    names
        What they are called in the report; by default, execution 0 and so on.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Ring
    >>> seen = with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(alma_antennas()[:20], n_times=20)), 0.01, seed=1)
    >>> moved = observe([Ring(0.4, 0, 0.5, east=0.02)], uv_track(alma_antennas()[5:20], n_times=9))
    >>> other = with_noise(moved, 0.01, seed=2)
    >>> found = join([seen, other])
    >>> round(found.executions[1].scale, 1), round(found.executions[1].east, 2), found.vis.data.shape
    (0.8, 0.02, (1, 4745))
    """
    names = list(names) or [f"execution {k}" for k in range(len(parts))]
    for part in parts:
        check_visibilities(part)
    untold = [not part.weights_checked and math.isnan(check_weights(part).worst) for part in parts]
    mended = [trusted(part) for part in parts]
    notes = [f"{name}: {note}" for name, (_, said) in zip(names, mended, strict=True) for note in said]
    held = [part for part, _ in mended]
    first = max(range(len(held)), key=lambda k: float(held[k].weight.sum()))
    held, moved = _about_one_centre(held, names, first)
    found, reach = [Execution(name) for name in names], _reach(held[first])
    for k in np.flatnonzero(untold):
        factor, error = _scatter_in_cells(held[k], reach)
        found[k] = replace(found[k], weights=factor, weights_error=error)
        if found[k].is_reweighted:
            held[k] = replace(held[k], weight=held[k].weight * factor)
    found[first] = replace(found[first], reason="the reference")
    cells = [_Cells.of(part, reach) for part in held]
    pool, left = cells[first], [k for k in range(len(held)) if k != first]
    while left:
        pairs = {k: _Overlap.of(cells[k], pool, reach) for k in left}
        best = max(left, key=lambda k: pairs[k].information)
        left.remove(best)
        found[best] = pairs[best].fitted(found[best])
        if found[best].overlap:
            held[best] = _applied(held[best], found[best])
            pool = pool.and_also(_Cells.of(held[best], reach), reach)
    bands = [part.mean_frequency for part in held]
    if max(bands) > (1 + _SAME_BAND) * min(bands):
        apart = " and ".join(f"{band / 1e9:.4g}" for band in sorted(set(bands)))
        spectrum = "a spectrum cannot be told from a flux scale, so fluxes are those of"
        notes.append(f"they are of {apart} GHz: {spectrum} {names[first]}")
    for number, part in enumerate(held):
        own = np.unique(part.antennas).tolist()
        held[number] = replace(part, antenna_names={one: f"{part.name_of(one)} of {names[number]}" for one in own})
    return Joined(join_executions(held), tuple(found), (*notes, *moved, f"{len(held)} executions are one source"))


def _about_one_centre(
    parts: Sequence[Visibilities], names: Sequence[str], first: int
) -> tuple[list[Visibilities], list[str]]:
    """Return parts with the phase centre of one of them, and what was done; raise an error for another field."""
    known = [part.phase_centre for part in parts if part.phase_centre]
    if not known:
        return [*parts], []
    centre = parts[first].phase_centre or known[0]
    shortest = min(float(part.lengths[~part.flagged & (part.lengths > 0)].min()) for part in parts)
    limit, moved, notes = _MAX_APART / shortest / ARCSEC, [], []
    for part, name in zip(parts, names, strict=True):
        if part.phase_centre is None:
            notes.append(f"{name} does not say where its phase centre is: it is taken for that of the others")
        elif np.abs(np.subtract(part.phase_centre, centre)).max() > SAME_CENTRE:
            east, north, apart = _direction(part.phase_centre, centre)
            if apart > limit:
                raise ValueError(
                    f"the phase centre of {name} is {angle_text(apart)} from that of {names[first]}, so it is another "
                    f"field: executions of one have theirs within {angle_text(limit)}. Image them one by one, or, if "
                    "the source is the same, move one there (shift_phase_centre)"
                )
            part = shift_phase_centre(part, east, north)
            notes.append(f"{name}: its phase centre was {angle_text(apart)} away, and is moved")
        moved.append(replace(part, phase_centre=centre))
    return moved, notes


def _reach(vis: Visibilities) -> float:
    """Return how far a source reaches from the middle, in radians: as little as half of its cells tell of the others.

    It is no more than the shortest baseline knows of.
    """
    lengths = vis.lengths[~vis.flagged & (vis.lengths > 0)]
    widest, misfits = 1 / (2 * float(lengths.min())), list[float]()
    for step in range(_REACHES):
        cells = _Cells.of(vis, reach := widest / 2.0**step)
        if len(cells.uv) < _FEWEST_CELLS:
            return 2 * reach
        order = np.random.default_rng(0).permutation(len(cells.uv))
        overlap = _Overlap.of(cells.taken(order[::2]), cells.taken(order[1::2]), reach)
        squares, power = overlap._squares(1.0, 0.0, 0.0), np.abs(overlap.predicted) ** 2  # where there is signal
        if len(squares) < _MIN_OVERLAP:
            continue
        misfits.append(float((squares * power).sum() / power.sum()))
        if misfits[-1] > _MISFIT * max(1.0, min(misfits)):
            return 2 * reach
    return reach


def _direction(centre: tuple[float, float], place: tuple[float, float]) -> tuple[float, float, float]:
    """Return where a place is as seen from a centre, in degrees: direction cosines in arcsec, and how far.

    Examples
    --------
    >>> [round(part, 3) for part in _direction((10.0, 60.0), (10.0 + 2 / 3600, 60.0))]
    [1.0, 0.0, 1.0]
    """
    dec, own, turn = math.radians(place[1]), math.radians(centre[1]), math.radians(place[0] - centre[0])
    east = math.cos(dec) * math.sin(turn)
    north = math.sin(dec) * math.cos(own) - math.cos(dec) * math.sin(own) * math.cos(turn)
    toward = math.sin(dec) * math.sin(own) + math.cos(dec) * math.cos(own) * math.cos(turn)
    return east / ARCSEC, north / ARCSEC, math.atan2(math.hypot(east, north), toward) / ARCSEC


def _applied(vis: Visibilities, found: Execution) -> Visibilities:
    """Return visibilities without what is significant of a scale and an offset."""
    scale = found.scale if found.is_scaled else 1.0
    east, north = (found.east, found.north) if found.is_shifted else (0.0, 0.0)
    turned = vis.data * phase_factor(vis.uu * ARCSEC, vis.vv * ARCSEC, -east, -north)
    return replace(vis, data=turned / scale, weight=vis.weight * scale**2)


class _Cells(NamedTuple):
    """Weighted means of visibilities in small cells of half the Fourier plane."""

    uv: Real
    data: Complex
    weight: Real

    @classmethod
    def of(cls, vis: Visibilities, reach: float) -> _Cells:
        """Return the cells of visibilities of a source that reaches so far, in radians."""
        u, v, data, weight = vis.unflagged
        return _averaged(np.column_stack([u, v]), data, weight, reach)[0]

    def and_also(self, other: _Cells, reach: float) -> _Cells:
        """Return the cells of both."""
        uv, data, weight = (np.concatenate(pair) for pair in zip(self, other, strict=True))
        return _averaged(uv, data, weight, reach)[0]

    def taken(self, which: Ints) -> _Cells:
        """Return some of the cells."""
        return _Cells(self.uv[which], self.data[which], self.weight[which])


def _averaged(uv: Real, data: Complex, weight: Real, reach: float) -> tuple[_Cells, Ints, Complex]:
    """Return averages of what lies in one cell; and of each its cell, and its data in that half of the plane."""
    mirrored = uv[:, 0] < 0
    uv, data = np.where(mirrored[:, None], -uv, uv), np.where(mirrored, data.conj(), data)
    places = np.floor(uv * reach / _CELL).astype(np.int64)
    cell = np.unique(places[:, 0] * 2**32 + places[:, 1], return_inverse=True)[1].ravel()
    total = np.asarray(np.bincount(cell, weight), float)
    means = [np.bincount(cell, weight * part) / total for part in (*uv.T, data.real, data.imag)]
    return _Cells(np.column_stack(means[:2]), means[2] + 1j * means[3], total), cell, data


def _scatter_in_cells(vis: Visibilities, reach: float) -> tuple[float, float]:
    """Return the factor that weights need for the scatter of visibilities within cells, and its σ; NaN if not known.

    Where the source is strong, it is the source that scatters, and gains: such cells are left out.
    """
    u, v, data, weight = vis.unflagged
    (_, mean, total), cell, seen = _averaged(np.column_stack([u, v]), data, weight, reach)
    count, squares = np.bincount(cell), np.bincount(cell, weight * np.abs(seen - mean[cell]) ** 2) / 2
    several = count > 1
    level = float(squares[several].sum() / max(1, (count[several] - 1).sum()))
    faint = several & (_CELL**2 * np.abs(mean) ** 2 * total / count < _MAX_STRENGTH * level)
    free = float((count[faint] - 1).sum())
    if free < _MIN_OVERLAP**2:
        return math.nan, math.nan
    factor = free / float(squares[faint].sum())
    return factor, factor / math.sqrt(free)


class _Overlap(NamedTuple):
    """Cells of one execution, and what the others predict of them: the visibility, and its variances.

    ``noise`` is of the predicted complex number, as far as noise makes it, ``variance`` all of its real part's.
    ``near`` are the cells that it was predicted from, with their ``shares`` of it.
    """

    uv: Real
    data: Complex
    weight: Real
    predicted: Complex
    noise: Real
    variance: Real
    near: Ints
    shares: Real

    @classmethod
    def of(cls, cells: _Cells, others: _Cells, reach: float) -> _Overlap:
        """Return the overlap of cells with others, for a source that reaches so far, in radians."""
        points, values, weights = np.concatenate([others.uv, -others.uv]), others.data, np.tile(others.weight, 2)
        values, unit = np.concatenate([values, values.conj()]), math.pi * reach
        found = min(_NEIGHBOURS, len(points))
        distance, near = cKDTree(points * unit).query(cells.uv * unit, k=found)
        there = np.flatnonzero(distance.reshape(len(cells.uv), -1)[:, 0] < _NEAR)
        there = there[:: 1 + len(there) // _MOST_CELLS]
        uv, data, weight = cells.taken(there)
        distance, near = (part.reshape(-1, found)[there] for part in (distance, near))
        noise, seen, places = 2 / weights[near], values[near], points[near] * unit
        power = np.average(np.abs(seen) ** 2 - noise, axis=1, weights=1 / noise) if len(near) else np.zeros(0)
        power = np.maximum(power, 0.1 * noise.min(axis=1, initial=np.inf))[:, None]
        alike = np.exp(-((places[:, :, None] - places[:, None]) ** 2).sum(axis=-1))
        system = np.ones((len(near), found + 1, found + 1))  # whose last row makes the weights sum to 1
        system[:, :found, :found] = alike + (noise / power + 1e-9)[:, :, None] * np.eye(found)
        system[:, found, found] = 0
        right = np.ones((len(near), found + 1, 1))
        right[:, :found, 0] = np.exp(-(distance**2))
        shares: Real = np.asarray(np.linalg.solve(system, right)[:, :found, 0], float)
        of_noise = (shares**2 * noise).sum(axis=1)
        of_distance: Real = 1 - 2 * (shares * right[:, :found, 0]).sum(axis=1)
        of_distance += np.einsum("ki,kij,kj->k", shares, alike, shares)
        variance = np.asarray(of_noise + power[:, 0] * of_distance.clip(0), float) / 2
        return cls(uv, data, weight, (shares * seen).sum(axis=1), of_noise, variance, near % len(others.uv), shares)

    @property
    def information(self) -> float:
        """How much they tell of a flux scale."""
        return float((np.abs(self.predicted) ** 2 / (1 / self.weight + self.variance)).sum())

    def fitted(self, found: Execution) -> Execution:
        """Return an execution with the scale and the offset by which it differs from the others."""
        if len(self.uv) < _MIN_OVERLAP:
            return replace(found, reason="its baselines do not overlap those of the others, so nothing is fitted")
        cells, (scale, *place) = self, (1.0, 0.0, 0.0)
        lengths = np.hypot(*self.uv.T)
        for share in _GROWING:
            short = cells._taken(np.hypot(*cells.uv.T) <= np.quantile(lengths, share))
            scale, *place = short._step(scale, *place)[0]
            squares = cells._squares(scale, *place)
            cells = cells._taken(squares <= _OUTLIER * max(1.0, float(np.median(squares))))
        solution, errors = cells._step(scale, *place)
        excess = math.sqrt(max(1.0, float(cells._squares(*solution).mean()))) * cells._repetition(scale)
        turn = np.argsort(np.arctan2(*cells.uv.T))
        parts = [
            cells._taken(np.delete(turn, part))._step(*solution)[0]
            for part in np.array_split(np.arange(len(turn)), _PARTS)
        ]
        errors = np.maximum(errors * excess, math.sqrt(_PARTS - 1) * np.std(parts, axis=0))
        scale, east, north = solution
        if not scale > _MIN_SIGNAL * errors[0]:
            return replace(found, reason="its signal is too weak where baselines overlap, so nothing is fitted")
        if not 1 / _SAME_UNIT < scale < _SAME_UNIT:
            raise ValueError(
                f"{found.name} is {scale:.3g} times as bright as the others, on the same baselines: is it in Jy, as "
                "they are, and the same source?"
            )
        scale_error, east_error, north_error = map(float, errors)
        fitted = replace(found, scale=scale, east=east, north=north, overlap=len(cells.uv))
        return replace(fitted, scale_error=scale_error, east_error=east_error, north_error=north_error)

    def _taken(self, which: Ints | Mask) -> _Overlap:
        """Return some of the cells."""
        return self._replace(**{name: part[which] for name, part in self._asdict().items()})

    def _turned(self, east: float, north: float) -> Complex:
        """Return the data without an offset."""
        return self.data * phase_factor(self.uv[:, 0] * ARCSEC, self.uv[:, 1] * ARCSEC, -east, -north)

    def _squares(self, scale: float, east: float, north: float) -> Real:
        """Return χ² of each cell, over its two degrees of freedom."""
        left = self._turned(east, north) - scale * self.predicted
        return np.asarray(np.abs(left) ** 2 / (1 / self.weight + scale**2 * self.variance) / 2)

    def _repetition(self, scale: float) -> float:
        """Return how many times larger errors are because one cell predicts several: their noise is the same."""
        weight = np.abs(self.predicted) / (1 / self.weight + scale**2 * self.variance)
        once = np.bincount(self.near.ravel(), (self.shares**2 * (weight**2)[:, None]).ravel())
        together = np.bincount(self.near.ravel(), (self.shares * weight[:, None]).ravel()) ** 2
        own, others = float((weight**2 / self.weight).sum()), float((weight**2 * scale**2 * self.variance).sum())
        return math.sqrt((own + others * max(1.0, float(together.sum() / once.sum()))) / (own + others))

    def _step(self, scale: float, east: float, north: float) -> tuple[tuple[float, float, float], Real]:
        """Return a better scale and offset, by least squares, and their σ."""
        weight = 1 / (1 / self.weight + scale**2 * self.variance)
        power = weight * (np.abs(self.predicted) ** 2 - self.noise)  # of what is no noise
        cross = weight * self._turned(east, north) * self.predicted.conj()
        total = max(float(power.sum()), 1e-9 * float(weight.sum()))
        scale = max(float(cross.real.sum()) / total, 1e-6)
        phase = 2 * math.pi * ARCSEC * self.uv
        normal = scale**2 * phase.T @ (power[:, None] * phase)
        inverse = np.linalg.pinv(normal, hermitian=True)
        move = inverse @ (phase.T @ (-scale * cross.imag))
        errors = np.sqrt(np.array([1 / total, *np.diag(inverse).clip(0)]))
        return (scale, east + float(move[0]), north + float(move[1])), errors


def _with_error(offset: float, error: float) -> str:
    """Return the size of an offset with its error, in the unit that suits both."""
    count, unit = angular_unit(max(abs(offset), error))
    return f"{count * abs(offset):.3g} ± {_two_digits(count * error)} {unit}"


def _two_digits(error: float) -> str:
    """Return an error with two digits.

    Examples
    --------
    >>> _two_digits(28.35), _two_digits(0.00123)
    ('28', '0.0012')
    """
    return f"{float(f'{error:.2g}'):g}"


def _word(applied: bool) -> str:
    """Return what was done with a number."""
    return "applied" if applied else "not significant, so not applied"
