"""Which visibilities are neighbours: of the same baseline in successive integrations, or in successive channels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from firstlight.imaging.observe import Observation
from firstlight.imaging.skies import Complex, Ints, Real

MOST = 1_000_000  # runs of neighbours that are looked at; more would tell nothing new

Direction = Literal["time", "frequency"]


def neighbours(seen: Observation, length: int, along: Direction) -> Iterator[tuple[int, Ints, Complex, Real]]:
    """Give the channel, the rows in the middle, and data and weights of neighbours, (length, n) each."""
    if along == "time":
        rows = time_runs(seen, length)
        rows = rows[:, :: max(1, math.ceil(rows.shape[1] * len(seen.frequency) / MOST))]
        for channel in range(len(seen.frequency)):
            yield channel, rows[length // 2], seen.data[channel][rows], seen.weight[channel][rows]
    else:
        runs = channel_runs(seen, length)
        every = max(1, math.ceil(len(runs) * len(seen.time) / MOST))
        for run in runs:
            some = slice(None, None, every)
            yield run[length // 2], np.arange(len(seen.time))[some], seen.data[run][:, some], seen.weight[run][:, some]


def time_runs(seen: Observation, length: int) -> Ints:
    """Find rows of the same baseline and execution in even steps of time: (length, n)."""
    labels = np.column_stack([seen.execution, seen.antennas])
    order = np.lexsort((seen.time, *labels.T))
    alike = (np.diff(labels[order], axis=0) == 0).all(axis=1)
    return order[even_runs(np.where(alike, np.diff(seen.time[order]), 0), length)]


def channel_runs(seen: Observation, length: int) -> Ints:
    """Find channels of the same window in even steps of frequency: (n, length)."""
    order = np.lexsort((seen.frequency, seen.window))
    alike = np.diff(seen.window[order]) == 0
    return order[even_runs(np.where(alike, np.diff(seen.frequency[order]), 0), length)].T


def even_runs(steps: Real, length: int) -> Ints:
    """Find where so many members follow each other in like steps; a step of 0 or less is none: (length, n)."""
    if len(steps) < length - 1:
        return np.empty((length, 0), int)
    spans = sliding_window_view(steps, length - 1)
    first = np.flatnonzero((spans.min(axis=1) > 0) & (spans.max(axis=1) <= 1.5 * spans.min(axis=1)))
    return first + np.arange(length)[:, None]


def refuse_unknown(seen: Observation) -> None:
    """Refuse an observation with nothing in it, or with what is not a number."""
    if not seen.data.size:
        raise ValueError("there are no visibilities: the observation is empty")
    if not (np.isfinite(seen.weight) & (seen.weight >= 0)).all():
        raise ValueError("weights must be finite and not negative; a flagged visibility has the weight 0")
    if not (np.isfinite(seen.uu).all() and np.isfinite(seen.vv).all()):
        raise ValueError("uu and vv must be finite numbers of wavelengths; some are NaN or infinite")
    unknown = ~np.isfinite(seen.data) & ~seen.flagged
    if unknown.any():
        raise ValueError(
            f"{unknown.sum()} visibilities are NaN or infinite, and not flagged: "
            "flag(seen, ~np.isfinite(seen.data)) flags them"
        )
