"""Check weights against the scatter of the data themselves, and mend them.

What changes from one integration to the next is noise, and a little of the sky. Differences of higher order leave less
of a sky that changes smoothly, while noise weighs in them as before; and since the sky can only add to the scatter,
the order that shows the least of it is the one to believe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from firstlight_imaging._types import Ints, Mask, Real
from firstlight_imaging.data.visibilities import Visibilities, check_visibilities, flag

_ORDERS = (1, 2, 3, 4)
_BINS = 4  # of baseline length, with as many visibilities each
_MIN_DIFFERENCES = 30  # of which a scatter is made
_MAX_DIFFERENCES = 1_000_000  # of which a scatter is made; more would tell nothing new
_CHI2_MEDIAN = 2 * math.log(2)  # of |z|², where real and imaginary part of z are normal
_OUTLYING, _MOST, _FEW = 20.0, 0.9, 10  # times what most of a baseline's weights are, and how few tell nothing
_MAX_NAMED = 3
_TOLERANCE = 0.1  # a factor nearer to 1 is nothing to worry about


@dataclass(frozen=True)
class Scatter:
    """The scatter of neighbouring visibilities, relative to their weights.

    Attributes
    ----------
    window, execution
        Of which spectral window and execution.
    shortest, longest
        The baselines in question, in wavelengths.
    n
        The number of differences.
    factor
        The factor that the weights need; NaN where too few visibilities have neighbours.
    error
        Of the factor, one standard deviation.
    lower_limit
        Whether the sky, too, may be in the scatter, so that the factor is only the least that it can be.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Point
    >>> noisy = with_noise(observe([Point(1.0)], uv_track(n_times=20)), 0.1, seed=0)
    >>> total = check_weights(noisy).totals[0]
    >>> round(total.factor, 1), total.wrong
    (1.0, False)
    """

    window: int
    execution: int
    shortest: float
    longest: float
    n: int
    factor: float
    error: float
    lower_limit: bool

    @property
    def wrong(self) -> bool:
        """Whether the weights are off by more than a tenth, and by more than the error and the sky explain."""
        off = abs(self.factor - 1) > max(3 * self.error, _TOLERANCE)
        return off and not (self.lower_limit and self.factor < 1)

    @property
    def doubtful(self) -> bool:
        """Whether they would be wrong if it were not that the sky, too, may be what scatters."""
        return not self.wrong and replace(self, lower_limit=False).wrong

    def __str__(self) -> str:
        lengths = f"{self.shortest / 1e3:9.1f} to {self.longest / 1e3:9.1f}"
        if math.isnan(self.factor):
            return f"{self.window:6d} {self.execution:9d} {lengths} {self.n:9d}  cannot tell"
        sign = ">" if self.lower_limit else " "
        remark = "  wrong" if self.wrong else ""
        return (
            f"{self.window:6d} {self.execution:9d} {lengths} {self.n:9d} {self.factor**-0.5:9.4g} "
            f"{sign}{self.factor:9.4g} ± {self.error:.2g}{remark}"
        )


@dataclass(frozen=True)
class WeightReport:
    """What `check_weights` found: over all baselines of each window and execution, and by their length.

    Attributes
    ----------
    totals, by_length
        The scatter of all baselines, and of short and long ones.
    outliers
        Names the weights that stick out (`outlying_weights`), if there are any.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Point
    >>> noisy = with_noise(observe([Point(1.0)], uv_track(n_times=20)), 0.1, seed=0)
    >>> report = check_weights(noisy)
    >>> len(report.totals), report.wrong, abs(report.worst - 1) < 0.05
    (1, (), True)
    """

    totals: tuple[Scatter, ...]
    by_length: tuple[Scatter, ...]
    outliers: str = ""

    @property
    def worst(self) -> float:
        """The factor on the weights that is farthest from 1; NaN if none can be told."""
        factors = [total.factor for total in self.totals if total.factor > 0]
        return max(factors, key=lambda factor: abs(math.log(factor)), default=math.nan)

    @property
    def wrong(self) -> tuple[Scatter, ...]:
        """The windows and executions whose weights are off."""
        return tuple(total for total in self.totals if total.wrong)

    def __str__(self) -> str:
        head = "window execution  baselines, kilo-lambda  samples   scatter   weights x"
        rows = ["all lengths:", *map(str, self.totals), "by length:", *map(str, self.by_length)]
        if unknown := sum(math.isnan(total.factor) for total in self.totals):
            rows.append(f"Nothing can be told of {unknown} of {len(self.totals)}: too few neighbours are not flagged.")
        if self.wrong:
            rows.append(f"The weights of {len(self.wrong)} of {len(self.totals)} are wrong: see scale_weights.")
        if self.outliers:
            rows.append(f"{self.outliers}: see outlying_weights.")
        if any(total.lower_limit for total in self.totals):
            rows.append(">: the sky changes between neighbours, too; the factor is the least that it can be.")
        return "\n".join([head, *rows])


def check_weights(vis: Visibilities) -> WeightReport:
    """Return the scatter of neighbouring visibilities over 1/√w, for each window, execution and baseline length.

    Neighbours are of the same baseline, in successive integrations. Medians are taken, so a few outliers do no harm.

    Parameters
    ----------
    vis
        What was observed; what is flagged is left out, and what neighbours it on both sides is not compared.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import protoplanetary_disk
    >>> vis = with_noise(observe(protoplanetary_disk(), uv_track(n_times=120)), 0.02, seed=0)
    >>> promised = replace(vis, weight=4 * vis.weight)  # half of the noise that there is
    >>> report = check_weights(promised)
    >>> round(report.worst, 1), len(report.wrong)
    (0.2, 1)
    """
    check_visibilities(vis)
    windows, executions = np.unique(vis.window), np.unique(vis.execution)
    lengths = vis.lengths[~vis.flagged]
    edges = np.quantile(lengths, np.linspace(0, 1, _BINS + 1)) if len(lengths) else np.zeros(_BINS + 1)
    # Of every group the squares of each order; the groups are numbered by window, execution and length.
    rows, steps = _rows_in_time(vis)
    squares = [_squares_by_group(vis, order, edges, rows, steps) for order in _ORDERS]
    totals, by_length = [], []
    for w, window in enumerate(windows):
        for e, execution in enumerate(executions):
            label = int(window), int(execution)
            pieces = []
            for b in range(_BINS):
                group = (w * len(executions) + e) * _BINS + b
                quietest = _quietest([groups[group] for groups in squares])
                pieces.append(quietest)
                by_length.append(_scatter(label, (edges[b], edges[b + 1]), [quietest]))
            totals.append(_scatter(label, (edges[0], edges[-1]), pieces))
    return WeightReport(tuple(totals), tuple(by_length), _name_outliers(vis))


def trusted(vis: Visibilities) -> tuple[Visibilities, tuple[str, ...]]:
    """Return visibilities with weights that an image can stand on, and a sentence on all that was done to them.

    A weight that sticks out is left out, because one such visibility can carry a third of all weight. Weights that are
    wrong throughout a window are scaled. Those that may be too large are kept if the sky, too, may be what scatters.
    Weights that were checked before stay as they are, and nothing is said of them.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = with_noise(observe([Point(1.0)], uv_track(n_times=20)), 0.1, seed=0)
    >>> mended, (said,) = trusted(replace(vis, weight=1000 * vis.weight, weights_checked=False))
    >>> print(said)
    WARNING (check_weights): the weights were off, and are multiplied by 0.00..., as the data scatter
    >>> trusted(mended)[1]
    ()
    """
    if vis.weights_checked:
        return vis, ()
    report = check_weights(vis)
    doubtful, warnings = [one.factor for one in report.totals if one.doubtful], []
    if report.outliers:
        warnings.append(f"left out, since {report.outliers}")
        vis = flag(vis, outlying_weights(vis))
    if doubtful:
        times = f"{min(doubtful) ** -0.5:.3g} times as far as their weights say. The sky may do that, so"
        keeps = "the weights are kept; if it does not, they are too large and the errors too small"
        warnings.append(f"the data scatter up to {times} {keeps}")
    if report.wrong:
        factors = " and ".join(sorted({f"{one.factor:.3g}" for one in report.wrong}))
        warnings.append(f"the weights were off, and are multiplied by {factors}, as the data scatter")
        vis = scale_weights(vis, report)
    elif math.isnan(report.worst):
        warnings.append("nothing tells whether the weights are right: no antennas and times, or too few")
    notes = [f"WARNING (check_weights): {warning}" for warning in warnings]
    right = "check_weights: nothing is wrong with the weights, as far as the scatter of the data tells"
    return replace(vis, weights_checked=True), tuple(notes or [right])


def outlying_weights(vis: Visibilities) -> Mask:
    """Return where a weight is more than 20 times what nine in ten of its baseline's weights are at most.

    Elevation, weather and the length of integrations change weights by less, or change many of them. A weight is
    compared with those of the same baseline, execution and channel alone, as antennas differ by far more. Where these
    are fewer than ten, or nobody knows which antennas saw what, nothing sticks out.

    Examples
    --------
    >>> from firstlight_imaging.data import flag
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = with_noise(observe([Point(1.0)], uv_track(n_times=20)), 0.1, seed=0)
    >>> vis.weight[0, 7] *= 500
    >>> print(check_weights(vis).outliers)
    1 weight sticks out: antennas 0 and 8 in channel 0 (5e+04, 500 times as much as others ...), 2.7% of all weight
    >>> int(flag(vis, outlying_weights(vis)).flagged.sum())
    1
    """
    return np.asarray(vis.weight > _OUTLYING * _most_weights(vis))


def _most_weights(vis: Visibilities) -> Real:
    """Return what nine in ten of the weights of the same baseline, execution and channel are at most, or infinity."""
    most = np.full(vis.weight.shape, np.inf)
    baseline = _baseline_numbers(vis.execution, np.minimum(*vis.antennas.T), np.maximum(*vis.antennas.T))
    order = np.argsort(baseline, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(baseline[order])) + 1):
        ordered = np.sort(vis.weight[:, rows], axis=1)
        flagged = (ordered == 0).sum(axis=1)
        counts = len(rows) - flagged
        at = flagged + (_MOST * (counts - 1)).astype(int).clip(0)
        tenth = ordered[np.arange(len(ordered)), at.clip(max=len(rows) - 1)]
        most[:, rows] = np.where(counts < _FEW, np.inf, tenth)[:, None]
    return most if vis.antennas.any() else np.full_like(most, np.inf)


def _name_outliers(vis: Visibilities) -> str:
    """Return how many weights stick out, which they are, the largest first, and how much of all weight they have."""
    most = _most_weights(vis)
    outlying = np.argwhere(vis.weight > _OUTLYING * most)
    if not len(outlying):
        return ""
    weights = vis.weight[tuple(outlying.T)]
    named = []
    for channel, row in outlying[np.argsort(-weights)][:_MAX_NAMED]:
        who = " and ".join(map(vis.name_of, vis.antennas[row].tolist()))
        when = f" at {utc}" if (utc := vis.utc(vis.time[row])) else ""
        weight = vis.weight[channel, row]
        times = f"{weight:.4g}, {weight / most[channel, row]:.0f} times as much as others of this baseline"
        named.append(f"antennas {who}{when} in channel {channel} ({times})")
    more = f" and {len(outlying) - len(named)} more" if len(outlying) > len(named) else ""
    sticks = "1 weight sticks out" if len(outlying) == 1 else f"{len(outlying)} weights stick out"
    share = 100 * weights.sum() / vis.weight.sum()
    return f"{sticks}: {', '.join(named)}{more}, {share:.2g}% of all weight"


def scale_weights(vis: Visibilities, report: WeightReport) -> Visibilities:
    """Return visibilities whose weights are multiplied by the factor of the report, window by window.

    Left as they are: those of which the report can tell nothing, and those that it would lower although the sky may
    be what scatters.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = with_noise(observe([Point(1.0)], uv_track(n_times=20)), 0.1, seed=0)
    >>> wrong = replace(vis, weight=1000 * vis.weight)
    >>> mended = scale_weights(wrong, check_weights(wrong))
    >>> round(float(mended.weight[0, 0]), -1)  # 1 / 0.1²
    100.0
    """
    parts = {(int(w), int(e)) for w in np.unique(vis.window) for e in np.unique(vis.execution)}
    if missing := parts - {(total.window, total.execution) for total in report.totals}:
        raise ValueError(f"the report is of other data: it has no window and execution {min(missing)}")
    weight = vis.weight.copy()
    for total in report.totals:
        if math.isfinite(total.factor) and not (total.lower_limit and total.factor < 1):
            block = np.ix_(vis.window == total.window, vis.execution == total.execution)
            weight[block] *= total.factor
    return replace(vis, weight=weight, weights_checked=True)


@dataclass(frozen=True, eq=False)
class _Squares:
    """|differences|² of one order over what the weights say, and whether the sky may be in them."""

    values: Real
    order: int
    limit: bool = False

    @property
    def median(self) -> float:
        """Over that of noise whose weights are right: 1 where they are."""
        return float(np.median(self.values)) / _CHI2_MEDIAN if len(self.values) >= _MIN_DIFFERENCES else math.nan

    @property
    def independent(self) -> float:
        """The number of independent squares that tell as much: neighbouring differences share visibilities."""
        c = _coefficients(self.order)
        alike = np.correlate(c, c, "full") / (c @ c)
        return len(self.values) / float(alike @ alike)


def _quietest(orders: list[_Squares]) -> _Squares:
    """Return the lowest order that scatters as little as any; if it is the last, some of the sky may be left in it."""
    noisy = [s for s in orders if s.median > 0]
    if not noisy:
        return max(orders, key=lambda s: len(s.values))
    least = min(noisy, key=lambda s: s.median)
    margin = _relative_error(least.independent)
    quietest = next(s for s in noisy if s.median <= least.median * (1 + margin))
    if quietest is not noisy[-1]:
        return quietest
    # With one order only there is nothing that it could be compared with.
    return replace(quietest, limit=len(noisy) == 1 or noisy[-2].median > quietest.median * (1 + max(0.02, 3 * margin)))


def _scatter(label: tuple[int, int], lengths: tuple[float, float], pieces: list[_Squares]) -> Scatter:
    """Return the scatter of squares taken together: the factor makes their median what it should be."""
    together = _Squares(np.concatenate([p.values for p in pieces]), order=1)
    factor = error = math.nan
    if together.median > 0:
        factor = 1 / together.median
        error = factor * _relative_error(sum(p.independent for p in pieces))
    limit = any(p.limit for p in pieces) and not math.isnan(factor)
    return Scatter(*label, float(lengths[0]), float(lengths[1]), len(together.values), factor, error, limit)


def _relative_error(n: float) -> float:
    """Return the relative error of the median of n independent |z|², whose density there is 1/4."""
    return 2 / (_CHI2_MEDIAN * math.sqrt(n))


def _squares_by_group(vis: Visibilities, order: int, edges: Real, in_time: Ints, steps: Real) -> list[_Squares]:
    """Return the squared differences of an order by window, execution and length."""
    windows, window = np.unique(vis.window, return_inverse=True)
    executions, execution = np.unique(vis.execution, return_inverse=True)
    c, first = _coefficients(order), _first_of_even_steps(steps, order + 1)
    first = first[:: max(1, math.ceil(len(first) * len(vis.data) / _MAX_DIFFERENCES))]
    runs = in_time[first + np.arange(order + 1)[:, None]]
    squares: list[Real] = [np.empty(0)]
    groups: list[Ints] = [np.empty(0, int)]
    for channel, (data, weight, length) in enumerate(zip(vis.data, vis.weight, vis.lengths, strict=True)):
        rows = runs[:, (weight[runs] > 0).all(axis=0)]
        squares.append(np.abs(c @ data[rows]) ** 2 / (c**2 @ (1 / weight[rows])))
        middle = rows[len(rows) // 2]
        bins = np.clip(np.searchsorted(edges, length[middle], "right") - 1, 0, _BINS - 1)
        groups.append((window[channel] * len(executions) + execution[middle]) * _BINS + bins)
    values, group = np.concatenate(squares), np.concatenate(groups)
    sorting = np.argsort(group, kind="stable")
    cuts = np.searchsorted(group[sorting], np.arange(1, len(windows) * len(executions) * _BINS))
    return [_Squares(part, order) for part in np.split(values[sorting], cuts)]


def _coefficients(order: int) -> Ints:
    """Return the coefficients of a difference of some order.

    Examples
    --------
    >>> _coefficients(2)
    array([ 1, -2,  1])
    """
    return np.array([(-1) ** k * math.comb(order, k) for k in range(order + 1)])


def consecutive_rows(vis: Visibilities, length: int) -> Ints:
    """Return the rows of the same baseline and execution at even steps of time: (length, n)."""
    in_time, steps = _rows_in_time(vis)
    return np.asarray(in_time[_first_of_even_steps(steps, length) + np.arange(length)[:, None]])


def _rows_in_time(vis: Visibilities) -> tuple[Ints, Real]:
    """Return the rows by baseline and then by time, and the steps of time between them: 0 where another one begins."""
    baseline = _baseline_numbers(vis.execution, *vis.antennas.T)
    order = np.lexsort((vis.time, baseline))
    return order, np.where(np.diff(baseline[order]) == 0, np.diff(vis.time[order]), 0)


def _baseline_numbers(execution: Ints, first: Ints, second: Ints) -> Ints:
    """Return a number for each baseline of an execution, by which rows are sorted far sooner than by three."""
    executions = np.unique(execution, return_inverse=True)[1].ravel()
    most = int(max(first.max(initial=0), second.max(initial=0))) + 1
    return np.asarray((executions * most + first) * most + second)


def _first_of_even_steps(steps: Real, length: int) -> Ints:
    """Return the indices at which so many members begin at even steps; a step of 0 or less is none."""
    if len(steps) < length - 1:
        return np.empty(0, int)
    spans = sliding_window_view(steps, length - 1).T
    least = spans.min(axis=0)
    return np.flatnonzero((least > 0) & (spans.max(axis=0) <= 1.5 * least))
