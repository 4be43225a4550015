"""The calls of finufft and cufinufft: on what grid they spread points, and in how much memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import finufft
import torch
from torch import Tensor

from firstlight.imaging.padding import fast_width

SMALL = 10_000  # up to so many visibilities, starting threads takes longer than the work
COARSE = 1e-9  # the least error for which a grid finer by a quarter will do, in float64
CUDA_BATCH = 8  # channels for which cufinufft has grids at once
PIECES, SHORTEST = 1000, 200  # that finufft's threads cut the points into, and of how many at least


def transform(values: Tensor, x: Tensor, y: Tensor, npix: int | None, eps: float) -> Tensor:
    """Run finufft on (nchan, npix, npix) modes, or with ``npix`` on (nchan, nvis) strengths."""
    shape = (len(values), len(x)) if npix is None else (len(values), npix, npix)
    if not len(values) or not len(x):
        return torch.zeros(shape, dtype=values.dtype, device=values.device)
    values = values.detach().resolve_conj().contiguous()
    type_1 = {} if npix is None else {"n_modes": (npix, npix)}
    options: dict[str, Any] = {"eps": eps, "isign": -1 if npix is None else 1}
    name = "nufft2d2" if npix is None else "nufft2d1"
    on_gpu = cuda_finufft() if values.device.type == "cuda" else None
    if on_gpu is not None:
        with its_own_memory():
            out = getattr(on_gpu, name)(x, y, values, **type_1, **options, gpu_device_id=values.device.index or 0)
        return torch.as_tensor(out).reshape(shape)
    options["nthreads"] = torch.get_num_threads() if x.numel() > SMALL else 1
    options["upsampfac"] = finer(eps, values.dtype)
    # Threads add to pieces of the grid of their own. With points crowded at the centre, two of the usual length are as
    # large together as the grid; short ones take no longer.
    options["spread_max_sp_size"] = max(SHORTEST, x.numel() // PIECES)
    out = getattr(finufft, name)(*(a.cpu().numpy() for a in (x, y, values)), **type_1, **options)
    return torch.from_numpy(out.reshape(shape)).to(values.device)


def finer(eps: float, dtype: torch.dtype) -> float:
    """Choose how many times finer than the image's own the grid is that finufft spreads on; a coarse one is cheap.

    Examples
    --------
    >>> finer(1e-14, torch.complex128), finer(1e-9, torch.complex128), finer(1e-6, torch.complex64)
    (2.0, 1.25, 2.0)
    """
    return 1.25 if eps >= COARSE and dtype == torch.complex128 else 2.0


def fine_grid(npix: int, eps: float, dtype: torch.dtype) -> int:
    """Count the bytes of the grid that a channel is spread on."""
    return fast_width(int(finer(eps, dtype) * npix)) ** 2 * dtype.itemsize


@contextmanager
def its_own_memory() -> Iterator[None]:
    """Call by its name what cufinufft says in general words, having asked CUDA for memory that is not there."""
    try:
        yield
    except RuntimeError as error:
        if str(error).startswith("Error ") and not isinstance(error, torch.OutOfMemoryError):
            raise torch.OutOfMemoryError(f"cufinufft, probably for want of memory: {error}") from error
        raise


def cuda_finufft() -> Any:
    """Find cufinufft, which is 115 MB and therefore not a dependency."""
    try:
        import cufinufft
    except ImportError:
        return None
    return cufinufft
