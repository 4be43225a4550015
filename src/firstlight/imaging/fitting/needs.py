"""What an exact likelihood and its fit will need, worked out before anything is allocated: memory, chunks and time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from firstlight.imaging.fourier.nufft import ACCURACY, CHUNK, COARSE, COMPLEX, SMALL, check_npix, fine_grid
from firstlight.imaging.fourier.padding import fast_fft_size
from firstlight.imaging.fourier.streaming import check_chunk

IMAGES = 150  # that are read or written in a step, counted as images of a channel
DOUBLE, COMPLEX128, INDEX = 8, 16, 8  # bytes


@dataclass(frozen=True)
class Plan:
    """What fits, in which chunks, and how long it takes: print it, or take a number from it.

    Attributes
    ----------
    chunk, channels_at_once
        What to give to `ExactLikelihood`.
    setup, fit
        Bytes at the peak of the set-up and at that of the fit, re-centring included.
    memory
        Bytes that there are.
    seconds_step
        At the least, where the bandwidth was given.

    Examples
    --------
    >>> needs = plan(npix=1024, nchan=4, nvis=10**7, memory=8e9)
    >>> needs.fits, needs.fit > needs.setup
    (True, True)
    """

    job: str
    chunk: int
    channels_at_once: int
    setup: int
    fit: int
    memory: float
    seconds_step: float | None

    @property
    def peak(self) -> int:
        """Bytes at the most."""
        return max(self.setup, self.fit)

    @property
    def fits(self) -> bool:
        """Whether there is enough memory."""
        return self.peak <= self.memory

    def __str__(self) -> str:
        """Say it, and what to change where it does not fit."""
        advice = "" if self.fits else ". Fit fewer channels at a time, in float32, or fewer, larger pixels"
        seconds = f"\na step takes {self.seconds_step:.3g} s at the least" if self.seconds_step else ""
        return (
            f"{self.job}\nset-up {size(self.setup)}, fit {size(self.fit)}, of {size(self.memory)}{advice}\n"
            f"chunk={self.chunk}, channels_at_once={self.channels_at_once}{seconds}"
        )


def plan(
    npix: int,
    nchan: int,
    nvis: int,
    device: torch.device | str = "cpu",
    *,
    dtype: torch.dtype = torch.float32,
    shared: bool = False,
    memory: float,
    chunk: int = CHUNK,
    bandwidth: float | None = None,
) -> Plan:
    """Work out what an `ExactLikelihood` and a fit of a `GriddedNet` to it need, beside the visibilities themselves.

    On Linux the peak resident memory of a process stays within a tenth of this where glibc hands back what is freed
    (``MALLOC_MMAP_THRESHOLD_=131072``); as it comes, it keeps up to some 100 MB for later use. Of a GPU it is an
    estimate: cuFFT and cufinufft choose their workspace themselves.

    Parameters
    ----------
    npix, nchan
        The width of the image in pixels, and its channels.
    nvis
        Visibilities of a channel.
    device
        Where.
    dtype
        Of the model and the likelihood.
    shared
        Whether all channels have the same u, v and weights, and therefore one kernel.
    memory
        Bytes that may be used; ``torch.cuda.mem_get_info()[0]`` are free on a GPU.
    chunk
        The most visibilities at once; halved until it fits.
    bandwidth
        Bytes that the memory carries in a second, such as ``measured_roof(device).byte_rate`` of
        `firstlight.timing.roofs`.

    Examples
    --------
    >>> needs = plan(npix=1024, nchan=4, nvis=10**7, memory=8e9)
    >>> needs.fits, needs.chunk, needs.channels_at_once, f"{needs.peak / 1e9:.2f} GB"
    (True, 4194304, 4, '0.60 GB')
    >>> print(plan(npix=256, nchan=4, nvis=10**7, memory=1e7))
    4 channels of 256 x 256 pixels, 1e+07 visibilities in each, on cpu
    set-up 16.0 MB, fit 21.1 MB, of 10.0 MB. Fit fewer channels at a time, in float32, or fewer, larger pixels
    chunk=10000, channels_at_once=1
    """
    check_npix(npix)
    if dtype not in COMPLEX:
        raise TypeError(f"dtype is {dtype}, and should be torch.float32 or torch.float64.")
    device = torch.device(device)
    for name, number in (("memory", memory), ("bandwidth", bandwidth)):
        if number is not None and not number > 0:
            raise ValueError(f"{name} is {number}, and should be a number above 0: 8e9, say.")

    def within(chunk: int, at_once: int) -> Plan:
        setup, fit = peaks(npix, nchan, dtype, shared, device.type, chunk, at_once)
        job = f"{nchan} channels of {npix} x {npix} pixels, {nvis:.3g} visibilities in each, on {device}"
        seconds = bandwidth and IMAGES * nchan * npix**2 * dtype.itemsize / bandwidth
        return Plan(job, chunk, at_once, setup, fit, memory, seconds)

    most, at_once = min(max(nvis, 1), check_chunk(chunk)), nchan
    least = min(most, SMALL)
    while at_once > 1 and not within(least, at_once).fits:
        at_once //= 2
    part = most
    while part > least and not within(part, at_once).fits:
        part = max(least, part // 2)
    plan = within(part, at_once)
    return replace(plan, chunk=chunk) if plan.fits and part == most else plan


def peaks(
    npix: int, nchan: int, dtype: torch.dtype, shared: bool, kind: str, chunk: int, at_once: int
) -> tuple[int, int]:
    """Return what is held at the peak of the set-up, and at that of a fit by Adam, in bytes."""
    exact = ACCURACY[torch.float64]
    coarse = COARSE if dtype == torch.float32 and kind != "cuda" else exact
    cube, width, kernels = nchan * npix**2 * dtype.itemsize, fast_fft_size(2 * npix - 1), 1 if shared else nchan
    wide, half = width**2 * dtype.itemsize, width * (width // 2 + 1) * 2 * dtype.itemsize
    # A transform to pixels: sums in float64, its result, and the grid that it spreads on.
    to_kernel = 4 * npix**2 * (DOUBLE + COMPLEX128) + fine_grid(2 * npix, coarse, torch.complex128)
    to_image = npix**2 * ((nchan + 1) * DOUBLE + COMPLEX128) + fine_grid(npix, exact, torch.complex128)
    read = chunk * (3 * DOUBLE + COMPLEX128 + INDEX)
    # Kernels; images, parameters, gradient and Adam; transforms; visibilities.
    kernel, fft = kernels * half // 2, at_once * (wide + (2 if at_once == 1 else 3) * half)
    last_kernel = kernel - half // 2 + cube + to_kernel + read  # memory counts once it is written to
    centring = kernel + 10 * cube + to_image + read + chunk * COMPLEX128
    return max(last_kernel, kernel + 2 * cube + to_image + read), max(kernel + 12 * cube + fft, centring)


def size(n: float) -> str:
    """Write bytes.

    Examples
    --------
    >>> size(2.5e9), size(3000)
    ('2.50 GB', '0.0 MB')
    """
    return f"{n / 1e9:.2f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB"
