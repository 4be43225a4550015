"""From a sky image to visibilities at any (u, v), and back: non-uniform Fourier transforms with gradients.

finufft does the work on a CPU and, where it is installed, cufinufft on a CUDA device; without it CUDA tensors take
the way through the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import finufft
import numpy as np
import torch
from torch import Tensor

from firstlight.imaging.fourier.padding import fast_fft_size
from firstlight.imaging.fourier.streaming import let_go, stream
from firstlight.imaging.units import ARCSEC

CHUNK = 1 << 22  # visibilities in one transform: 64 MiB of complex128 a channel
ACCURACY = {torch.float32: 1e-6, torch.float64: 1e-14}  # about the best that each type can give
COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
# Up to so many visibilities, starting threads takes longer than the work; and for modes, threads that add in another
# order each time make another image of the same data, in the last digit, and after hundreds of steps in the third.
SMALL, REPEATABLE = 10_000, 1_000_000
COARSE = 1e-9  # the least error for which a grid finer by a quarter will do, in float64
PIECES, SHORTEST = 1000, 200  # that finufft's threads cut the points into, and of how many at least
TOGETHER, GRIDS = 8, 4  # channels that cufinufft transforms at once, and the grids that each takes at the most,
EACH, OTHER = 32, 1 << 28  # with so many bytes a point, and for all else

Array = Tensor | np.ndarray[Any, Any]


def visibilities(
    sky: Tensor,
    u: Array,
    v: Array,
    cell_size: float,
    *,
    eps: float | None = None,
    chunk: int = CHUNK,
) -> Tensor:
    """Predict what an interferometer sees of a sky (a transform of type 2).

    Parameters
    ----------
    sky
        A cube of shape (nchan, npix, npix) in Jy/arcsec², float32 or float64: row 0 is south, column 0 is east.
    u, v
        Baselines in wavelengths: of shape (nvis,) for all channels, or (nchan, nvis).
    cell_size
        The width of a pixel in arcsec.
    eps
        The error to allow, relative to the result; by default the best that the type of the sky can give. float32
        also rounds the phases: expect errors of about ``npix`` times 1e-7.
    chunk
        How many visibilities to transform at once. Where a device runs out of memory, it becomes less, with a warning.

    Returns
    -------
    Tensor
        Complex visibilities in Jy, of shape (nchan, nvis). Gradients flow to the sky, not to the baselines.

    Examples
    --------
    A source of 2 Jy in one pixel at the centre of the field is seen alike by every baseline:

    >>> sky = torch.zeros(1, 8, 8, dtype=torch.float64)
    >>> sky[0, 4, 3] = 2 / 0.1**2
    >>> visibilities(sky, np.array([0.0, 3e5]), np.array([0.0, -4e5]), 0.1).real.round(decimals=9).tolist()
    [[2.0, 2.0]]
    """
    check_sky(sky)
    eps = ACCURACY[sky.dtype] if eps is None else eps
    modes = to_modes(sky, cell_size)
    u, v = check_baselines(u, v, len(sky))
    if u.ndim == 2:
        rows = zip(modes, u, v, strict=True)
        return torch.cat([in_chunks_to_visibilities(m[None], a, b, cell_size, eps, chunk) for m, a, b in rows])
    return in_chunks_to_visibilities(modes, u, v, cell_size, eps, chunk)


def adjoint(
    vis: Tensor,
    u: Array,
    v: Array,
    cell_size: float,
    npix: int,
    *,
    eps: float | None = None,
    chunk: int = CHUNK,
) -> Tensor:
    """Carry visibilities back onto the sky (a transform of type 1): the adjoint of `visibilities`.

    This is the exact transpose, not an inverse: weight the visibilities before, and divide by the sum of the weights
    and by ``cell_size**2`` after, to have a dirty image in Jy/beam.

    Parameters
    ----------
    vis
        Complex visibilities of shape (nchan, nvis).
    u, v, cell_size, eps, chunk
        As in `visibilities`.
    npix
        The width of the image, an even number of pixels.

    Returns
    -------
    Tensor
        A real cube of shape (nchan, npix, npix), row 0 in the south, column 0 in the east. Gradients flow to ``vis``.

    Examples
    --------
    >>> vis = torch.ones(1, 1, dtype=torch.complex128)
    >>> adjoint(vis, np.zeros(1), np.zeros(1), 0.5, 2).round(decimals=9).tolist()
    [[[0.25, 0.25], [0.25, 0.25]]]
    """
    check_npix(npix)
    if vis.ndim != 2 or not vis.is_complex():
        raise ValueError(
            f"vis has shape {tuple(vis.shape)} and type {vis.dtype}, and should be complex of shape (nchan, nvis): "
            "of one channel, pass vis[None]."
        )
    eps = ACCURACY[vis.real.dtype] if eps is None else eps
    u, v = check_baselines(u, v, len(vis), vis.shape[1])
    if u.ndim == 2:
        rows = zip(vis, u, v, strict=True)
        modes = torch.cat([in_chunks_to_modes(x[None], a, b, cell_size, npix, eps, chunk) for x, a, b in rows])
    else:
        modes = in_chunks_to_modes(vis, u, v, cell_size, npix, eps, chunk)
    return sky_of(modes, cell_size)


def sums_of_cosines(weight: Tensor, u: Array, v: Array, cell_size: float, npix: int, eps: float) -> Tensor:
    """Sum Σ w cos 2π(ul + vm) at distances of −npix/2 to npix/2 − 1 pixels from the centre, rows north, columns west.

    With columns to the west it is the response to a pixel in the order of a sky image, whose columns run west, too.
    """
    strengths = weight[None].to(COMPLEX[weight.dtype])
    x, y = phases(u, v, cell_size, strengths)
    return differentiable(strengths, x, y.neg_(), npix, eps).real  # west is −l: turning u around turns columns around


def to_modes(sky: Tensor, cell_size: float) -> Tensor:
    """Turn a sky into what is transformed, in ground order: column 0 is west."""
    return (sky.flip(-1) * cell_size**2).to(COMPLEX[sky.dtype])


def sky_of(modes: Tensor, cell_size: float) -> Tensor:
    """Turn what a transform gave into a sky: the transpose of `to_modes`."""
    return modes.real.flip(-1) * cell_size**2


def in_chunks_to_visibilities(modes: Tensor, u: Array, v: Array, cell_size: float, eps: float, chunk: int) -> Tensor:
    """Add up modes at every baseline; they come in ground order: column 0 is west."""
    parts: list[Tensor] = []
    stream(len(u), chunk, lambda at: parts.append(at_once(modes, u[at], v[at], cell_size, None, eps)))
    return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]


def in_chunks_to_modes(vis: Tensor, u: Array, v: Array, cell_size: float, npix: int, eps: float, chunk: int) -> Tensor:
    """Add up visibilities at every pixel, in ground order: column 0 is west."""
    total = None

    def add(at: slice) -> None:
        nonlocal total
        part = at_once(vis[:, at], u[at], v[at], cell_size, npix, eps)
        total = part if total is None else total.add_(part)

    stream(len(u), chunk, add)
    assert total is not None
    return total


def at_once(values: Tensor, u: Array, v: Array, cell_size: float, npix: int | None, eps: float) -> Tensor:
    """Transform modes to visibilities, or with ``npix`` visibilities to modes, all in one go."""
    return differentiable(values, *phases(u, v, cell_size, values), npix, eps)


class Transform(torch.autograd.Function):
    """The transform of type 2, or of type 1 where ``npix`` is given; each is the other's derivative."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, x: Tensor, y: Tensor, npix: int | None, eps: float) -> Tensor:
        """Transform, and keep what the way back needs."""
        ctx.save_for_backward(x, y)
        ctx.back = values.shape[-1] if npix is None else None, eps
        return transform(values, x, y, npix, eps)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Carry a gradient back by the adjoint, which can be differentiated in turn."""
        return differentiable(grad, *ctx.saved_tensors, *ctx.back), None, None, None, None


def differentiable(values: Tensor, x: Tensor, y: Tensor, npix: int | None, eps: float) -> Tensor:
    """Transform, with a gradient."""
    out: Tensor = Transform.apply(values, x, y, npix, eps)  # type: ignore[no-untyped-call]
    return out


def phases(u: Array, v: Array, cell_size: float, like: Tensor) -> tuple[Tensor, Tensor]:
    """Turn baselines into radians a pixel, along rows and along columns: multiplied in float64, then rounded."""
    scale = 2 * math.pi * cell_size * ARCSEC
    x, y = ((to_tensor(w, torch.float64) * scale).to(like.real.dtype).to(like.device) for w in (v, u))
    return x.contiguous(), y.contiguous()


def to_tensor(values: Array, dtype: torch.dtype) -> Tensor:
    """Copy an array, which may be a read-only map of a file; a tensor goes to where there is float64."""
    if isinstance(values, Tensor):
        return values.detach().to(exact_place(values.device)).to(dtype)
    copy = torch.from_numpy(np.array(values)).to(dtype)
    let_go(values)
    return copy


def exact_place(device: torch.device) -> torch.device:
    """Name the device that computes in float64 for this one: for Apple's GPUs, which have none, the CPU.

    Examples
    --------
    >>> exact_place(torch.device("mps")), exact_place(torch.device("cuda"))
    (device(type='cpu'), device(type='cuda'))
    """
    return torch.device("cpu") if device.type == "mps" else device


def check_npix(npix: int) -> None:
    """Refuse a grid whose centre would not be on a pixel's corner as the conventions have it."""
    if npix < 2 or npix % 2:
        raise ValueError(f"npix is {npix}, and should be an even number, at least 2.")


def check_sky(sky: Tensor) -> None:
    """Refuse what is not a cube of square channels in float32 or float64."""
    if sky.ndim != 3 or sky.shape[-1] != sky.shape[-2]:
        raise ValueError(
            f"The sky has shape {tuple(sky.shape)}, and should have (nchan, npix, npix): "
            "of one image, pass image[None]."
        )
    if sky.dtype not in COMPLEX:
        raise TypeError(f"The sky is {sky.dtype}, and should be float32 or float64: sky.to(torch.float32).")
    check_npix(sky.shape[-1])


def check_baselines(u: Any, v: Any, nchan: int, nvis: int | None = None) -> tuple[Array, Array]:
    """Refuse baselines that do not fit each other, the channels or the visibilities."""
    u, v = (w if isinstance(w, Tensor) else np.asarray(w) for w in (u, v))
    nvis = u.shape[-1] if nvis is None and u.ndim else nvis
    if u.shape != v.shape or tuple(u.shape) not in ((nvis,), (nchan, nvis)):
        raise ValueError(
            f"u and v have shapes {tuple(u.shape)} and {tuple(v.shape)}, and should both have ({nvis},), "
            f"or ({nchan}, {nvis}) to differ between channels."
        )
    if any(isinstance(w, Tensor) and w.requires_grad for w in (u, v)):
        raise ValueError("u or v asks for a gradient, and there is none for baselines: pass u.detach(), v.detach().")
    return u, v


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
        with its_own_memory(values.device, own_needs(values, len(x), npix)):
            out = getattr(on_gpu, name)(x, y, values, **type_1, **options, gpu_device_id=values.device.index or 0)
        return torch.as_tensor(out).reshape(shape)
    options["nthreads"] = torch.get_num_threads() if x.numel() > (SMALL if npix is None else REPEATABLE) else 1
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
    return fast_fft_size(int(finer(eps, dtype) * npix)) ** 2 * dtype.itemsize


def own_needs(values: Tensor, points: int, npix: int | None) -> int:
    """Bound the bytes that cufinufft asks CUDA for itself: grids, the workspace of their FFTs, the order of the points.

    Examples
    --------
    >>> own_needs(torch.zeros(1, 512, 512, dtype=torch.complex64), 10**6, None) / 1e6
    333.989888
    """
    grid = fine_grid(npix or values.shape[-1], 0.0, values.dtype)
    return GRIDS * min(len(values), TOGETHER) * grid + EACH * points + OTHER


@contextmanager
def its_own_memory(device: torch.device, needed: int) -> Iterator[None]:
    """Tell want of memory from what else goes wrong in cufinufft, by what is free: it has the same words for both.

    Its library has one number for all that CUDA refuses, and its Python does not show even that.
    """
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or not str(error).startswith("Error "):
            raise
        free = torch.cuda.mem_get_info(device)[0]
        if free >= needed:
            raise
        message = f"cufinufft: {error} It may need {needed:.3g} bytes, and {free:.3g} are free."
        raise torch.OutOfMemoryError(message) from error


def cuda_finufft() -> Any:
    """Find cufinufft, which is 115 MB and therefore not a dependency."""
    try:
        import cufinufft
    except ImportError:
        return None
    return cufinufft
