"""Convolve an image with a point-spread function that is as wide as two images, by FFTs on a padded grid."""

from __future__ import annotations

import torch
from scipy.fft import next_fast_len
from torch import Tensor

CACHED = 1 << 18  # numbers of a padded grid that are transformed at once


def fft_convolve(image: Tensor, transfer: Tensor) -> Tensor:
    """Return (…, npix, npix) images convolved with a transfer function; rows, and maybe columns, come out padded.

    Examples
    --------
    A point-spread function with a tail to both sides, and a source at the edge: nothing comes in at the other edge.

    >>> tails = torch.zeros(1, 8, 8)
    >>> tails[0, 4, 3:6] = torch.tensor([0.5, 1.0, 0.5])
    >>> image = torch.zeros(1, 4, 4)
    >>> image[0, 0, 0] = 1
    >>> fft_convolve(image, transfer_function(tails, 8))[0, 0, :4].round(decimals=6).abs().tolist()
    [1.0, 0.5, 0.0, 0.0]
    """
    if not image.numel():  # not every FFT takes nothing
        return image.new_zeros(*image.shape[:-1], transfer.shape[-1])
    by_columns = image.device.type == "cpu" and not image.requires_grad
    return (_convolve_by_columns if by_columns else _convolve_at_once)(image, transfer)


def _convolve_at_once(image: Tensor, transfer: Tensor) -> Tensor:
    """Return the convolution by two-dimensional FFTs: few kernels on a GPU."""
    square = transfer.shape[-1], transfer.shape[-1]
    whole: Tensor = torch.fft.irfft2(torch.fft.rfft2(image, s=square).mul_(transfer.mT), s=square)
    return whole


def _convolve_by_columns(image: Tensor, transfer: Tensor) -> Tensor:
    """Return the same, the empty half of the grid left out, some columns at a time so that they stay in the cache."""
    npix, width = image.shape[-2], transfer.shape[-1]
    wide = torch.fft.rfft(image, n=width)
    together = max(1, CACHED // width)
    for first in range(0, width // 2 + 1, together):
        at = slice(first, first + together)
        columns = torch.fft.fft(wide[..., at].mT.contiguous(), n=width).mul_(transfer[..., at, :])
        room = columns.new_empty(*columns.shape[:-1], width + 8)[..., :width]  # a stride of 2^n thrashes a cache
        wide[..., at] = torch.fft.ifft(columns, out=room)[..., :npix].mT
    rows: Tensor = torch.fft.irfft(wide, n=width)
    return rows


def transfer_function(point_spread: Tensor, width: int) -> Tensor:
    """Return the transfer function of a point-spread function: it multiplies the FFT of an image padded to ``width``.

    It is real, and lies as (nchan, width // 2 + 1, width): a row for a column of the FFT.
    """
    npix = point_spread.shape[-1] // 2
    wide = point_spread.new_zeros(len(point_spread), width, width)
    # Distance −npix has no partner +npix: with it the function would not be even, nor its transform real.
    wide[:, : 2 * npix - 1, : 2 * npix - 1] = point_spread[:, 1:, 1:]
    response: Tensor = torch.fft.rfft2(wide.roll((1 - npix, 1 - npix), dims=(-2, -1)))
    return response.real.mT.contiguous()


def fast_fft_size(minimum: int) -> int:
    """Return the next even number without prime factors above 5.

    Examples
    --------
    >>> fast_fft_size(1023), fast_fft_size(361)
    (1024, 384)
    """
    return 2 * int(next_fast_len((minimum + 1) // 2, real=True))
