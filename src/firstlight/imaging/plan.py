"""What an exact likelihood and its fit will need, worked out before anything is allocated: memory, chunks and time."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap

import torch

from firstlight.imaging.needs import Job
from firstlight.imaging.nufft import CHUNK, COMPLEX, SMALL, check_npix
from firstlight.imaging.streaming import check_chunk

PASSES = 2  # over the visibilities, to set up: one for the kernel, one for the residuals
IMAGES = {"fused": 40, "autograd": 150}  # that are read or written in a step, counted as images of a channel


@dataclass(frozen=True)
class Plan:
    """What fits, in which chunks, and how long it takes: print it, or take a number from it.

    Attributes
    ----------
    chunk, channels_at_once
        What to give to `ExactLikelihood`.
    path
        Which form of the fit this is about: ``fused`` or ``autograd``.
    setup, fit
        Bytes at the peak of the set-up, re-centring included, and at that of the fit, part by part.
    memory
        Bytes that there are.
    seconds_setup, seconds_step
        At the least, as far as roofs were given.

    Examples
    --------
    >>> found = plan(npix=1024, nchan=4, nvis=10**7, memory=8e9)
    >>> found.fits, max(found.fit, key=found.fit.get)  # what takes the most memory
    (True, 'chunk of visibilities')
    """

    npix: int
    nchan: int
    nvis: int
    device: str
    path: str
    chunk: int
    channels_at_once: int
    setup: Mapping[str, int]
    fit: Mapping[str, int]
    memory: float
    seconds_setup: float | None
    seconds_step: float | None
    advice: str

    @property
    def peak(self) -> int:
        """Bytes at the most."""
        return max(sum(self.setup.values()), sum(self.fit.values()))

    @property
    def fits(self) -> bool:
        """Whether there is enough memory."""
        return self.peak <= self.memory

    def enough(self) -> int:
        """Give the chunk, or refuse too little memory."""
        if not self.fits:
            raise ValueError(f"memory is {size(self.memory)}, which is too little. {self.advice}")
        return self.chunk

    def __str__(self) -> str:
        """Say it in a table."""
        lines = [
            f"{self.nchan} channels of {self.npix} x {self.npix} pixels, {self.nvis:.3g} visibilities in each, "
            f"on {self.device}",
            f"{'fits' if self.fits else 'does not fit'}: {size(self.peak)} at the peak, of {size(self.memory)}",
            f"chunk={self.chunk}, channels_at_once={self.channels_at_once}",
        ]
        for name, parts in (("set-up", self.setup), (f"fit ({self.path})", self.fit)):
            lines.append(f"{name}: {size(sum(parts.values()))}")
            lines += [f"  {part:<34}{size(n):>10}" for part, n in parts.items() if n]
        for name, seconds in (("set-up", self.seconds_setup), ("a step", self.seconds_step)):
            if seconds is not None:
                lines.append(f"{name} takes {seconds:.3g} s at the least")
        return "\n".join([*lines, *wrap(self.advice, 84)])


def plan(
    npix: int,
    nchan: int,
    nvis: int,
    device: torch.device | str = "cpu",
    *,
    dtype: torch.dtype = torch.float32,
    shared: bool = False,
    fused: bool = False,
    memory: float | None = None,
    chunk: int = CHUNK,
    bandwidth: float | None = None,
    points_per_second: float | None = None,
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
    fused
        Whether the fit goes by the compiled loops that `fit` has for long fits on the CPU, or by autograd.
    memory
        Bytes that may be used; by default what is free on the device.
    chunk
        The most visibilities at once.
    bandwidth
        Bytes that the memory carries in a second, such as ``measured_roof(device).byte_rate`` of
        `firstlight.measure.roofs`.
    points_per_second
        Visibilities that a non-uniform transform takes in a second: ``nox -s bench -- scale`` measures it.

    Examples
    --------
    >>> found = plan(npix=1024, nchan=4, nvis=10**7, memory=8e9)
    >>> found.fits, found.chunk, found.channels_at_once, f"{found.peak / 1e9:.2f} GB"
    (True, 4194304, 4, '0.60 GB')
    >>> print(plan(npix=1024, nchan=4, nvis=10**7, memory=1e8).advice)
    At least 327.8 MB are needed: take fewer, larger pixels, or a device with more memory.
    """
    place = check(npix, nchan, nvis, device, dtype)
    free = free_memory(place) if memory is None else memory
    if not free > 0:
        raise ValueError(f"memory is {memory} bytes, and should be more than 0: 8e9, say.")
    for name, rate in (("bandwidth", bandwidth), ("points_per_second", points_per_second)):
        if rate is not None and not rate > 0:
            raise ValueError(f"{name} is {rate}, and should be a number above 0.")
    job = Job(npix, nchan, dtype, shared, fused, place.type)
    least = max(sum(job.setup(min(nvis, SMALL)).values()), sum(job.fit(1, min(nvis, SMALL)).values()))
    most = min(max(nvis, 1), check_chunk(chunk))
    at_once = most_that(lambda n: sum(job.fit(n, min(most, SMALL)).values()) <= free, 1, nchan)

    def within(m: int) -> bool:
        return max(sum(job.setup(m).values()), sum(job.fit(at_once, m).values())) <= free

    found = most_that(within, min(most, SMALL), most)
    return Plan(
        npix,
        nchan,
        nvis,
        str(place),
        "fused" if fused else "autograd",
        chunk if found == most else found,
        at_once,
        job.setup(found),
        job.fit(at_once, found),
        free,
        points_per_second and PASSES * nchan * nvis / points_per_second,
        bandwidth and IMAGES["fused" if fused else "autograd"] * nchan * npix**2 * dtype.itemsize / bandwidth,
        "" if least <= free else advice(job, least, free),
    )


def most_that(fits: Callable[[int], bool], least: int, most: int) -> int:
    """Find the largest number that fits, where all below it do; the least, if none does.

    Examples
    --------
    >>> most_that(lambda n: n * n <= 50, 1, 100)
    7
    """
    return max(least, least - 1 + bisect_left(range(least, most + 1), True, key=lambda n: not fits(n)))


def advice(job: Job, least: int, free: float) -> str:
    """Say what to change where there is too little memory."""
    small = min(job.nchan, 1) * SMALL
    alone = replace(job, nchan=min(job.nchan, 1))
    one = max(sum(alone.setup(small).values()), sum(alone.fit(1, small).values()))
    ways = []
    if job.nchan > 1 and one <= free:
        ways.append(f"fit fewer channels at a time, or on more devices (one channel needs {size(one)})")
    if job.dtype == torch.float64:
        ways.append("use float32, which is as exact about a reference")
    ways.append("take fewer, larger pixels, or a device with more memory")
    return f"At least {size(least)} are needed: {'; '.join(ways)}."


def check(npix: int, nchan: int, nvis: int, device: torch.device | str, dtype: torch.dtype) -> torch.device:
    """Refuse what nothing could be planned for."""
    check_npix(npix)
    if nchan < 1 or nvis < 0:
        raise ValueError(f"nchan and nvis are {nchan} and {nvis}, and should be at least 1 and 0.")
    if dtype not in COMPLEX:
        raise TypeError(f"dtype is {dtype}, and should be torch.float32 or torch.float64.")
    try:
        return torch.device(device)
    except RuntimeError:
        raise ValueError(f"device is {device!r}, and should be one such as 'cpu', 'cuda' or 'cuda:1'.") from None


def free_memory(device: torch.device) -> int:
    """Ask how many bytes a device has to spare."""
    if device.type == "cuda" and torch.cuda.is_available():
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "cpu":
        with suppress(OSError, StopIteration):  # only on Linux
            lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
            return 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
        with suppress(OSError, ValueError, AttributeError):
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    raise ValueError(f"how much memory {device} has cannot be asked here: give memory=8e9, say, in bytes.")


def size(n: float) -> str:
    """Write bytes.

    Examples
    --------
    >>> size(2.5e9), size(3000)
    ('2.50 GB', '0.0 MB')
    """
    return f"{n / 1e9:.2f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB"
