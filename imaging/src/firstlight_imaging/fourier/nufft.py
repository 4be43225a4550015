"""From a sky image to visibilities at any (u, v), and back: non-uniform Fourier transforms with gradients.

finufft does the work on a CPU and, where it is installed, cufinufft on a CUDA device; without it CUDA tensors take
the way through the CPU.
"""

from __future__ import annotations

import math
import warnings
from functools import cache
from importlib.util import find_spec
from typing import Any

import finufft
import numpy as np
import torch
from torch import Tensor

from firstlight_imaging.streaming import chunks, release_pages
from firstlight_imaging.units import ARCSEC

CHUNK = 1 << 22  # visibilities in one transform: 64 MiB of complex128 a channel
DEFAULT_EPS = {torch.float32: 1e-6, torch.float64: 1e-14}  # about the best that each type can give
COARSE_EPS = 1e-9  # the least error for which a grid finer by a quarter will do, in float64
COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
# Up to so many visibilities, starting threads takes longer than the work. For an image, threads that add in another
# order each time make another one of the same data, in the last digit, and after hundreds of steps in the third.
_ONE_THREAD, _ONE_THREAD_TO_IMAGE = 10_000, 1_000_000
_SUBPROBLEMS, _MIN_SUBPROBLEM = 1000, 200  # into which finufft's threads cut the points, and the points of one at least

Array = Tensor | np.ndarray[Any, Any]


def visibilities(
    sky: Tensor, u: Array, v: Array, cell_size: float, *, eps: float | None = None, chunk: int = CHUNK
) -> Tensor:
    """Return what an interferometer sees of a sky (a transform of type 2).

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
        How many visibilities to transform at once: fewer need less memory.

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
    _check_sky(sky)
    eps = DEFAULT_EPS[sky.dtype] if eps is None else eps
    modes = sky_to_modes(sky, cell_size)
    u, v = check_baselines(u, v, len(sky))
    if u.ndim == 2:
        rows = zip(modes, u, v, strict=True)
        return torch.cat([_modes_to_visibilities(m[None], a, b, cell_size, eps, chunk) for m, a, b in rows])
    return _modes_to_visibilities(modes, u, v, cell_size, eps, chunk)


def adjoint(
    vis: Tensor, u: Array, v: Array, cell_size: float, npix: int, *, eps: float | None = None, chunk: int = CHUNK
) -> Tensor:
    """Return the sum of visibilities at each pixel of the sky (a transform of type 1): the adjoint of `visibilities`.

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
        raise ValueError(f"vis must be complex and (nchan, nvis), or vis[None]; got {vis.dtype} {tuple(vis.shape)}")
    eps = DEFAULT_EPS[vis.real.dtype] if eps is None else eps
    u, v = check_baselines(u, v, len(vis), vis.shape[1])
    if u.ndim == 2:
        rows = zip(vis, u, v, strict=True)
        modes = torch.cat([_visibilities_to_modes(x[None], a, b, cell_size, npix, eps, chunk) for x, a, b in rows])
    else:
        modes = _visibilities_to_modes(vis, u, v, cell_size, npix, eps, chunk)
    return modes_to_sky(modes, cell_size)


def cosine_sums(weight: Tensor, u: Array, v: Array, cell_size: float, npix: int, eps: float) -> Tensor:
    """Return Σ w cos 2π(ul + vm) at offsets of −npix/2 to npix/2 − 1 pixels from the centre, rows north, columns west.

    With columns to the west it is the response to a pixel in the order of a sky image, whose columns run west, too.
    """
    strengths = weight[None].to(COMPLEX[weight.dtype])
    x, y = _radians_per_pixel(u, v, cell_size, strengths)
    return _transform(strengths, x, y.neg_(), npix, eps).real  # west is −l: turning u around turns columns around


def sky_to_modes(sky: Tensor, cell_size: float) -> Tensor:
    """Return a sky as finufft's modes, in ground order: column 0 is west."""
    return (sky.flip(-1) * cell_size**2).to(COMPLEX[sky.dtype])


def modes_to_sky(modes: Tensor, cell_size: float) -> Tensor:
    """Return the sky of finufft's modes: the transpose of `sky_to_modes`."""
    return modes.real.flip(-1) * cell_size**2


def _modes_to_visibilities(modes: Tensor, u: Array, v: Array, cell_size: float, eps: float, chunk: int) -> Tensor:
    """Return the visibilities of modes, computed in chunks."""
    parts = [nufft(modes, u[at], v[at], cell_size, None, eps) for at in chunks(len(u), chunk)]
    return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]


def _visibilities_to_modes(
    vis: Tensor, u: Array, v: Array, cell_size: float, npix: int, eps: float, chunk: int
) -> Tensor:
    """Return the modes of visibilities, summed up in chunks."""
    first, *others = chunks(len(u), chunk)
    total = nufft(vis[:, first], u[first], v[first], cell_size, npix, eps)
    for at in others:
        total = total.add_(nufft(vis[:, at], u[at], v[at], cell_size, npix, eps))
    return total


def nufft(values: Tensor, u: Array, v: Array, cell_size: float, npix: int | None, eps: float) -> Tensor:
    """Return the visibilities of modes, or with ``npix`` the modes of visibilities, by one transform."""
    return _transform(values, *_radians_per_pixel(u, v, cell_size, values), npix, eps)


class _Transform(torch.autograd.Function):
    """The transform of type 2, or of type 1 where ``npix`` is given; each is the other's derivative."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, x: Tensor, y: Tensor, npix: int | None, eps: float) -> Tensor:
        """Return the transform; keep what the way back needs."""
        ctx.save_for_backward(x, y)
        ctx.back = values.shape[-1] if npix is None else None, eps
        return _finufft(values, x, y, npix, eps)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient by the adjoint, which can be differentiated in turn."""
        return _transform(grad, *ctx.saved_tensors, *ctx.back), None, None, None, None


def _transform(values: Tensor, x: Tensor, y: Tensor, npix: int | None, eps: float) -> Tensor:
    """Return the transform of values, with its gradient."""
    out: Tensor = _Transform.apply(values, x, y, npix, eps)  # type: ignore[no-untyped-call]
    return out


def _radians_per_pixel(u: Array, v: Array, cell_size: float, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return baselines in radians per pixel, along rows and along columns: computed in float64, then rounded."""
    scale = 2 * math.pi * cell_size * ARCSEC
    x, y = ((to_tensor(w, torch.float64) * scale).to(like.real.dtype).to(like.device) for w in (v, u))
    return x.contiguous(), y.contiguous()


def to_tensor(values: Array, dtype: torch.dtype) -> Tensor:
    """Return a copy of an array, which may be a read-only map of a file; a tensor moves to a device with float64."""
    if isinstance(values, Tensor):
        return values.detach().to(float64_device(values.device)).to(dtype)
    copy = torch.from_numpy(np.array(values)).to(dtype)
    release_pages(values)
    return copy


def float64_device(device: torch.device) -> torch.device:
    """Return the device that computes in float64 for this one: for Apple's GPUs, which have none, the CPU.

    Examples
    --------
    >>> float64_device(torch.device("mps")), float64_device(torch.device("cuda"))
    (device(type='cpu'), device(type='cuda'))
    """
    return torch.device("cpu") if device.type == "mps" else device


def check_npix(npix: int) -> None:
    """Raise an error for an odd npix: the centre of the image is the corner of a pixel."""
    if npix < 2 or npix % 2:
        raise ValueError(f"npix is {npix}, and should be an even number, at least 2.")


def _check_sky(sky: Tensor) -> None:
    """Raise an error for a sky that is not a cube of square channels in float32 or float64."""
    if sky.ndim != 3 or sky.shape[-1] != sky.shape[-2]:
        raise ValueError(f"The sky must be (nchan, npix, npix), image[None] of one image; got {tuple(sky.shape)}")
    if sky.dtype not in COMPLEX:
        raise TypeError(f"The sky is {sky.dtype}, and should be float32 or float64: sky.to(torch.float32).")
    check_npix(sky.shape[-1])


def check_baselines(u: Any, v: Any, nchan: int, nvis: int | None = None) -> tuple[Array, Array]:
    """Return baselines; raise an error if their shapes disagree with each other, the channels or the visibilities."""
    u, v = (w if isinstance(w, Tensor) else np.asarray(w) for w in (u, v))
    nvis = u.shape[-1] if nvis is None and u.ndim else nvis
    if u.shape != v.shape or tuple(u.shape) not in ((nvis,), (nchan, nvis)):
        raise ValueError(f"u and v must be ({nvis},), or ({nchan}, {nvis}); got {tuple(u.shape)} and {tuple(v.shape)}")
    if any(isinstance(w, Tensor) and w.requires_grad for w in (u, v)):
        raise ValueError("u or v asks for a gradient, and there is none for baselines: pass u.detach(), v.detach().")
    return u, v


def _finufft(values: Tensor, x: Tensor, y: Tensor, npix: int | None, eps: float) -> Tensor:
    """Return finufft's transform of (nchan, npix, npix) modes, or with ``npix`` of (nchan, nvis) strengths."""
    shape = (len(values), len(x)) if npix is None else (len(values), npix, npix)
    if not len(values) or not len(x):
        return torch.zeros(shape, dtype=values.dtype, device=values.device)
    values = values.detach().resolve_conj().contiguous()
    type_1 = {} if npix is None else {"n_modes": (npix, npix)}
    options: dict[str, Any] = {"eps": eps, "isign": -1 if npix is None else 1}
    name = "nufft2d2" if npix is None else "nufft2d1"
    cufinufft = find_cufinufft() if values.device.type == "cuda" else None
    if cufinufft is not None:
        out = getattr(cufinufft, name)(x, y, values, **type_1, **options, gpu_device_id=values.device.index or 0)
        return torch.as_tensor(out).reshape(shape)
    options["nthreads"] = (
        torch.get_num_threads() if x.numel() > (_ONE_THREAD if npix is None else _ONE_THREAD_TO_IMAGE) else 1
    )
    # How many times finer than the image's own the grid is that finufft spreads on; a coarse one is cheap.
    options["upsampfac"] = 1.25 if eps >= COARSE_EPS and values.dtype == torch.complex128 else 2.0
    # Threads add to pieces of the grid of their own. With points crowded at the centre, two of the usual length are as
    # large together as the grid; short ones take no longer.
    options["spread_max_sp_size"] = max(_MIN_SUBPROBLEM, x.numel() // _SUBPROBLEMS)
    out = getattr(finufft, name)(*(a.cpu().numpy() for a in (x, y, values)), **type_1, **options)
    return torch.from_numpy(out.reshape(shape)).to(values.device)


@cache
def find_cufinufft() -> Any:
    """Return cufinufft, which is 115 MB and therefore not a dependency, or None; warn if it is there and broken.

    Examples
    --------
    >>> found = find_cufinufft()
    >>> found is None or found.__name__ == "cufinufft"
    True
    """
    if find_spec("cufinufft") is None:
        return None
    try:
        import cufinufft
    except ImportError as error:
        warnings.warn(
            f"cufinufft is installed but does not load ({error}), so the CPU does the NUFFTs. Its wheels need the "
            "libraries of CUDA 12: install nvidia-cufft-cu12 and nvidia-cuda-runtime-cu12, and put their lib folders "
            "on LD_LIBRARY_PATH",
            stacklevel=2,
        )
        return None
    return cufinufft
