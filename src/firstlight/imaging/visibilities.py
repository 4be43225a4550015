"""Visibilities without all that an observation knows of them, and what makes them unusable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from firstlight.imaging.observe import Observation
from firstlight.imaging.skies import Complex, Mask, Real

__all__ = ["Visibilities"]

PIECE = 2**20  # visibilities looked at, at a time
SAMPLE = 1000  # visibilities whose conjugates are looked for


@dataclass(frozen=True, eq=False)
class Visibilities:
    """What a likelihood or an image needs of an observation.

    Attributes
    ----------
    uu, vv
        In wavelengths, of shape (nchan, nvis).
    data
        In Jy, of shape (nchan, nvis).
    weight
        One over the variance of the real part, which is also that of the imaginary part; 0 where flagged.
    frequency
        Of each channel in Hz, where it is known.

    Examples
    --------
    >>> seen = Visibilities(np.array([[1e5, 3e5]]), np.zeros((1, 2)), np.array([[1, 0.5j]]), np.array([[1.0, 0.0]]))
    >>> seen.flagged
    array([[False,  True]])
    """

    uu: Real
    vv: Real
    data: Complex
    weight: Real
    frequency: Real | None = None

    def __post_init__(self) -> None:
        shapes = {name: getattr(self, name).shape for name in ("uu", "vv", "data", "weight")}
        if len(set(shapes.values())) > 1 or self.data.ndim != 2:
            raise ValueError(f"uu, vv, data and weight must all be (nchan, nvis); got {shapes}")
        if self.frequency is not None and self.frequency.shape != self.data.shape[:1]:
            raise ValueError(f"frequency has the shape {self.frequency.shape}; there are {len(self.data)} channels")

    @property
    def flagged(self) -> Mask:
        """What does not count, (nchan, nvis)."""
        return np.asarray(self.weight == 0)

    def observation(self, frequency: ArrayLike | None = None) -> Observation:
        """Take them for an observation of one window, whose antennas and times are not known: all are 0.

        Parameters
        ----------
        frequency
            Of each channel in Hz, where the file does not say it.
        """
        known = self.frequency if frequency is None else np.atleast_1d(np.asarray(frequency, float))
        if known is None:
            raise ValueError("the frequencies are not known: give frequency=, in Hz, one for each channel")
        nchan, n = self.data.shape
        nothing = {"antennas": np.zeros((n, 2), int), "time": np.zeros(n), "execution": np.zeros(n, int)}
        arrays = {name: np.asarray(getattr(self, name)) for name in ("uu", "vv", "data", "weight")}
        return Observation(**arrays, frequency=known, window=np.zeros(nchan, int), **nothing)


def check(called: str, seen: Visibilities, flag: Mask | None, mirrors: bool = True) -> float:
    """Refuse what cannot be used, and return the length of the longest baseline."""
    faults: Counter[str] = Counter()
    longest = 0.0
    for channel, piece in pieces(seen):
        u, v, data, weight = (array[channel, piece] for array in (seen.uu, seen.vv, seen.data, seen.weight))
        for name, array in (("uu", u), ("vv", v), ("data", data), ("weight", weight)):
            faults[f"of {name} are NaN or infinite"] += count(~np.isfinite(array))
        faults["of weight are negative"] += count(weight < 0)
        meant = np.zeros_like(weight, bool) if flag is None else flag[channel, piece]
        faults["of weight are 0, and no array flag says that this is meant"] += count((weight == 0) & ~meant)
        faults["of weight are not 0, though flagged"] += count((weight != 0) & meant)
        longest = max(longest, float(np.hypot(u, v).max()))
    if found := "; ".join(f"{times} {fault}" for fault, times in faults.items() if times):
        raise ValueError(f"{called} cannot be used: of {seen.data.size} values {found}")
    if flag is not None and not any(seen.weight[at].any() for at in pieces(seen)):
        raise ValueError(f"{called} is flagged throughout: no weight is above zero")
    if mirrors and (share := mirrored(seen)):
        raise ValueError(
            f"{called} holds Hermitian pairs: about {share:.0%} of its visibilities stand in it again, conjugated, at "
            "(-u, -v). That counts them twice; keep one of each pair"
        )
    return longest


def count(mask: Mask) -> int:
    """Count what is true."""
    return int(np.count_nonzero(mask))


def pieces(seen: Visibilities) -> Iterator[tuple[int, slice]]:
    """Divide all visibilities into pieces that fit into memory."""
    n_channels, n = seen.data.shape
    return ((channel, slice(i, i + PIECE)) for channel in range(n_channels) for i in range(0, n, PIECE))


def mirrored(seen: Visibilities) -> float:
    """Look for the conjugates of a sample, and return the share that has one."""
    u, v, data = (array[0, :: max(1, seen.data.shape[1] // SAMPLE)] for array in (seen.uu, seen.vv, seen.data))
    wanted = -(u + 1j * v)
    order = np.argsort(wanted)
    wanted, conjugates = wanted[order], data[order].conj()
    found = np.zeros(len(wanted), bool)
    for channel, piece in pieces(seen):
        if channel:
            break
        places = seen.uu[0, piece] + 1j * seen.vv[0, piece]
        at = np.searchsorted(wanted, places).clip(max=len(wanted) - 1)
        pair = (wanted[at] == places) & (places != 0) & (conjugates[at] == seen.data[0, piece])
        found[at[pair]] = True
    return float(found.mean())
