"""How many bytes each part of an exact likelihood, and of a fit to it, takes: what `plan` adds up."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from firstlight.imaging.nufft import ACCURACY, COARSE, fine_grid
from firstlight.imaging.padding import fast_width

EXACT = ACCURACY[torch.float64]
DOUBLE, COMPLEX128, INDEX = 8, 16, 8  # bytes


@dataclass(frozen=True)
class Job:
    """What decides how much memory is needed; everything in bytes."""

    npix: int
    nchan: int
    dtype: torch.dtype
    shared: bool
    fused: bool
    kind: str

    def held(self) -> dict[str, int]:
        """What the likelihood keeps."""
        return {"kernels": self.kernels * self.kernel, "reference and residual images": 2 * self.cube}

    def setup(self, chunk: int) -> dict[str, int]:
        """Memory at the peak of making it: with the kernel's transform, or with that of the residuals."""
        eps = COARSE if self.dtype == torch.float32 else EXACT
        kernel = {
            "kernels": (self.kernels - 1) * self.kernel,  # memory counts once it is written to
            "reference and residual images": self.cube,
            "sums, in float64": 4 * self.npix**2 * DOUBLE,
            "result of the transform": 4 * self.npix**2 * COMPLEX128,
            "its fine grid": self.fine(2 * self.npix, eps),
            "chunk of visibilities": chunk * (3 * DOUBLE + COMPLEX128),
            "where they lie in the grid": chunk * INDEX,
        }
        residuals = self.held() | self.recentring(chunk, dark=True)
        return max(kernel, residuals, key=lambda parts: sum(parts.values()))

    def recentring(self, chunk: int, *, dark: bool = False) -> dict[str, int]:
        """Memory to make the residuals of an image; of a dark one, no visibilities are predicted."""
        return {
            "sums, in float64": (self.nchan + 1) * self.npix**2 * DOUBLE,
            "result of the transform": self.npix**2 * COMPLEX128,
            "its fine grid": self.fine(self.npix, EXACT),
            "chunk of visibilities": chunk * (3 * DOUBLE + (1 if dark else 2) * COMPLEX128),
            "where they lie in the grid": chunk * INDEX,
        }

    def fit(self, at_once: int, chunk: int) -> dict[str, int]:
        """Memory at the peak of a fit by Adam: with the FFTs of chi², or when the likelihood is centred anew."""
        held = self.held() | {
            "parameters, gradient, Adam, best": (4 if self.fused else 5) * self.cube,
            "image and its visibilities": 3 * self.cube,
            "loops' own arrays": self.loops() if self.fused else 0,
        }
        width = fast_width(2 * self.npix - 1)
        wide, half = width**2 * self.dtype.itemsize, width * (width // 2 + 1) * 2 * self.dtype.itemsize
        transformed = held | {
            "differences from the reference": 2 * self.cube,
            "FFTs of twice the width": at_once * (wide + (2 if at_once == 1 else 3) * half),
        }
        return max(transformed, held | self.recentring(chunk), key=lambda parts: sum(parts.values()))

    def loops(self) -> int:
        """Bytes of the arrays of the fused form."""
        width = fast_width(2 * self.npix - 1)
        rows = self.nchan * self.npix * self.dtype.itemsize
        return 5 * self.cube + rows * (2 * width + 2 * (width // 2 + 1)) + self.kernels * self.kernel

    def fine(self, modes: int, eps: float) -> int:
        """Bytes of the grid that finufft spreads on."""
        return fine_grid(modes, EXACT if self.kind == "cuda" else eps, torch.complex128)

    @property
    def kernels(self) -> int:
        """How many there are."""
        return 1 if self.shared else self.nchan

    @property
    def kernel(self) -> int:
        """Bytes of one."""
        width = fast_width(2 * self.npix - 1)
        return width * (width // 2 + 1) * self.dtype.itemsize

    @property
    def cube(self) -> int:
        """Bytes of an image of all channels."""
        return self.nchan * self.npix**2 * self.dtype.itemsize
