"""Check and read the visibilities of a likelihood, which may be arrays, maps of files or tensors, in chunks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from firstlight_imaging.fourier.nufft import Array, check_baselines, to_tensor
from firstlight_imaging.streaming import chunks

_MAX_NUMBERS = 1 << 18  # of all channels together, 10 MB with copies: more would be read no faster


def check_arrays(
    u: Array, v: Array, data: Array, weight: Array, factor: Array | None, chunk: int, nchan: int | None = None
) -> tuple[Array, Array, Array, Array, Array | None]:
    """Return visibilities, the data as (nchan, nvis); raise an error if shapes disagree, or if chi² would be NaN."""
    data = data if data.ndim > 1 else data[None]
    if data.ndim != 2 or (nchan is not None and len(data) != nchan):
        raise ValueError(f"The data have shape {tuple(data.shape)}, and should have ({nchan or 'nchan'}, nvis).")
    nchan, nvis = map(int, data.shape)
    u, v = check_baselines(u, v, nchan, nvis)
    weight = _check_rows("weight", weight, nchan, nvis)
    factor = None if factor is None else _check_rows("factor", factor, nchan, nvis)
    for at in chunks_of_all_channels(nvis, nchan, chunk):
        _check_finite(*read_chunk(weight, data, factor, at))
    return u, v, data, weight, factor


def chunks_of_all_channels(nvis: int, nchan: int, chunk: int) -> Iterator[slice]:
    """Return slices that cut visibilities into chunks, of all channels, that are small beside what an image needs."""
    return chunks(nvis, max(1, min(chunk, _MAX_NUMBERS) // max(1, nchan)))


def read_chunk(
    weight: Array, data: Array, factor: Array | None, at: slice | npt.NDArray[np.int64]
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return weights, data and factors of a chunk in float64; data without a weight are 0, whatever they were."""
    values = to_tensor(data[:, at], torch.complex128)
    weights = to_tensor(weight[..., at], torch.float64).to(values.device).expand(len(values), -1)
    values = torch.where(weights == 0, 0, values)
    if factor is None:
        return weights, values, None
    factors = to_tensor(factor[..., at], torch.complex128).to(values.device)
    return weights, values, torch.where(weights == 0, 0, factors)


def _check_rows(name: str, values: Array, nchan: int, nvis: int) -> Array:
    """Return numbers; raise an error if there is not one for each visibility."""
    if tuple(values.shape) not in ((nvis,), (nchan, nvis)):
        raise ValueError(f"{name} has shape {tuple(values.shape)}, and should have ({nvis},) or ({nchan}, {nvis}).")
    return values


def check_beam(beam: Tensor, nchan: int, npix: int) -> Tensor:
    """Return a primary beam; raise an error if its shape is not that of the image."""
    if tuple(beam.shape) not in ((npix, npix), (1, npix, npix), (nchan, npix, npix)):
        raise ValueError(f"beam has shape {tuple(beam.shape)}, and should be one or {nchan} planes, {npix} pixels wide")
    return beam


def _check_finite(weight: Tensor, data: Tensor, factor: Tensor | None) -> None:
    """Raise an error for weights that are negative, and for what would make chi² NaN."""
    bad = int((~weight.isfinite() | (weight < 0)).sum())
    if bad:
        raise ValueError(f"{bad} weights are negative or not finite: set the weight of flagged visibilities to 0.")
    lost = ~data.isfinite() if factor is None else ~(data.isfinite() & factor.isfinite())
    if lost.any():
        raise ValueError(f"{int(lost.sum())} visibilities, or their factors, are not finite: set their weight to 0.")
