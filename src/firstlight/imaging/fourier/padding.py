"""Convolve an image with a point-spread function that is as wide as two images, by FFTs on a padded grid."""

from __future__ import annotations

import torch
from torch import Tensor

CACHED = 1 << 18  # numbers of a padded grid that are transformed at once


def spread(image: Tensor, kernel: Tensor) -> Tensor:
    """Convolve (…, npix, npix) images with what `transfer` made; rows, and maybe columns, come out padded.

    Examples
    --------
    A point-spread function with a tail to both sides, and a source at the edge: nothing comes in at the other edge.

    >>> tails = torch.zeros(1, 8, 8)
    >>> tails[0, 4, 3:6] = torch.tensor([0.5, 1.0, 0.5])
    >>> image = torch.zeros(1, 4, 4)
    >>> image[0, 0, 0] = 1
    >>> spread(image, transfer(tails, 8))[0, 0, :4].round(decimals=6).abs().tolist()
    [1.0, 0.5, 0.0, 0.0]
    """
    if not image.numel():  # not every FFT takes nothing
        return image.new_zeros(*image.shape[:-1], kernel.shape[-1])
    by_columns = image.device.type == "cpu" and not image.requires_grad
    return (spread_by_columns if by_columns else spread_at_once)(image, kernel)


def spread_at_once(image: Tensor, kernel: Tensor) -> Tensor:
    """Convolve in as few kernels as it takes."""
    square = kernel.shape[-1], kernel.shape[-1]
    whole: Tensor = torch.fft.irfft2(torch.fft.rfft2(image, s=square).mul_(kernel.mT), s=square)
    return whole


def spread_by_columns(image: Tensor, kernel: Tensor) -> Tensor:
    """Convolve without the half of the grid that is empty; some columns at once stay in the cache there and back."""
    npix, width = image.shape[-2], kernel.shape[-1]
    wide = torch.fft.rfft(image, n=width)
    together = max(1, CACHED // width)
    for first in range(0, width // 2 + 1, together):
        at = slice(first, first + together)
        columns = torch.fft.fft(wide[..., at].mT.contiguous(), n=width).mul_(kernel[..., at, :])
        room = columns.new_empty(*columns.shape[:-1], width + 8)[..., :width]  # a stride of 2^n thrashes a cache
        wide[..., at] = torch.fft.ifft(columns, out=room)[..., :npix].mT
    rows: Tensor = torch.fft.irfft(wide, n=width)
    return rows


def transfer(point_spread: Tensor, width: int) -> Tensor:
    """Turn the point-spread function into the real numbers that multiply the FFT of an image padded to ``width``.

    They lie as (nchan, width // 2 + 1, width): a row for a column of the FFT.
    """
    npix = point_spread.shape[-1] // 2
    wide = point_spread.new_zeros(len(point_spread), width, width)
    # Distance −npix has no partner +npix: with it the function would not be even, nor its transform real.
    wide[:, : 2 * npix - 1, : 2 * npix - 1] = point_spread[:, 1:, 1:]
    response: Tensor = torch.fft.rfft2(wide.roll((1 - npix, 1 - npix), dims=(-2, -1)))
    return response.real.mT.contiguous()


def fast_width(least: int) -> int:
    """Find the next even number without prime factors above 5.

    Examples
    --------
    >>> fast_width(1023), fast_width(361)
    (1024, 384)
    """
    width = least + least % 2
    while 30 ** width.bit_length() % width:  # a factor is left that 2, 3 and 5 do not have
        width += 2
    return width
