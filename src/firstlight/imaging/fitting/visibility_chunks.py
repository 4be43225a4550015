"""The visibilities that a likelihood is made from: arrays, maps of files or tensors, read a part at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from firstlight.imaging.fourier.nufft import Array, check_baselines, to_tensor
from firstlight.imaging.fourier.streaming import check_chunk, chunks

AT_ONCE = 1 << 18  # numbers of all channels together, 10 MB with copies: more would be read no faster


def check_measured(
    u: Array, v: Array, data: Array, weight: Array, factor: Array | None, chunk: int, nchan: int | None = None
) -> tuple[Array, Array, Array, Array, Array | None]:
    """Refuse what does not fit together, or no chi² can be made of; the data come back as (nchan, nvis)."""
    data = data if data.ndim > 1 else data[None]
    if data.ndim != 2 or (nchan is not None and len(data) != nchan):
        raise ValueError(f"The data have shape {tuple(data.shape)}, and should have ({nchan or 'nchan'}, nvis).")
    nchan, nvis = map(int, data.shape)
    u, v = check_baselines(u, v, nchan, nvis)
    weight = check_rows("weight", weight, nchan, nvis)
    factor = None if factor is None else check_rows("factor", factor, nchan, nvis)
    for at in pieces(nvis, nchan, check_chunk(chunk)):
        check_values(*read_part(weight, data, factor, at))
    return u, v, data, weight, factor


def pieces(nvis: int, nchan: int, chunk: int) -> Iterator[slice]:
    """Cut visibilities into parts, of all channels, that are small beside whatever an image needs."""
    return chunks(nvis, max(1, min(chunk, AT_ONCE) // max(1, nchan)))


def read_part(
    weight: Array, data: Array, factor: Array | None, at: slice | npt.NDArray[np.int64]
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Read weights, data and factors of a part in float64; what has no weight is 0, whatever it was."""
    values = to_tensor(data[:, at], torch.complex128)
    weights = to_tensor(weight[..., at], torch.float64).to(values.device).expand(len(values), -1)
    values = torch.where(weights == 0, 0, values)
    if factor is None:
        return weights, values, None
    factors = to_tensor(factor[..., at], torch.complex128).to(values.device)
    return weights, values, torch.where(weights == 0, 0, factors)


def check_rows(name: str, values: Array, nchan: int, nvis: int) -> Array:
    """Refuse numbers that do not fit the visibilities."""
    if tuple(values.shape) not in ((nvis,), (nchan, nvis)):
        raise ValueError(f"{name} has shape {tuple(values.shape)}, and should have ({nvis},) or ({nchan}, {nvis}).")
    return values


def check_beam(beam: Tensor, nchan: int, npix: int) -> Tensor:
    """Refuse a beam that does not fit the image."""
    if tuple(beam.shape) not in ((npix, npix), (1, npix, npix), (nchan, npix, npix)):
        raise ValueError(
            f"beam has shape {tuple(beam.shape)}, and should have ({npix}, {npix}) or ({nchan}, {npix}, {npix})."
        )
    return beam


def check_values(weight: Tensor, data: Tensor, factor: Tensor | None) -> None:
    """Refuse weights that are no weights, and data and factors that would make chi² NaN."""
    bad = int((~weight.isfinite() | (weight < 0)).sum())
    if bad:
        raise ValueError(f"{bad} weights are negative or not finite: set the weight of flagged visibilities to 0.")
    lost = ~data.isfinite() if factor is None else ~(data.isfinite() & factor.isfinite())
    if lost.any():
        raise ValueError(
            f"{int(lost.sum())} visibilities with a weight, or their factors, are not finite: set their weight to 0."
        )
