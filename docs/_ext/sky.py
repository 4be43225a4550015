"""The chapter's sky for the reader's GPU: averages in cells, and frames of their fit."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from firstlight_imaging import DataAverager, FourierCube, GridCoords
from firstlight_imaging.coordinates import packed_to_sky
from firstlight_imaging.model import losses
from firstlight_imaging.simulate.observation import observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import protoplanetary_disk, sky_image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstlight_imaging import GriddedDataset

# The field is twice as wide as what is shown, that of 4_imaging/01: averages in small cells are off by less.
COORDS = GridCoords(cell_size=2 * 5.4 / 256, npix=256)
SHOWN = slice(64, 192)
SIGMA = 1e-2  # Jy, of a visibility
UNIT = 0.01  # Jy/arcsec²: what brightness is measured in
EPSILON, RATE = 1e-3, 0.3
STEPS = (1, 2, 4, 8, 16, 32, 64, 100, 150, 200, 300)  # that have a frame
SKY = protoplanetary_disk(flux=0.25, size=1.7)


def averages(noise: float = 0.0) -> GriddedDataset:
    """Observe the sky of 4_imaging/01 for a night, with or without its noise, and average in cells."""
    quiet = observe(SKY, uv_track())
    seen = with_noise(quiet, SIGMA, seed=1)
    vis = quiet.data + noise * (seen.data - quiet.data)
    averager = DataAverager(COORDS, seen.uu, seen.vv, seen.weight * UNIT**2, vis.real / UNIT, vis.imag / UNIT)
    return averager.to_pytorch_dataset(check_visibility_scatter=False)


def settings(cells: GriddedDataset) -> dict[str, float]:
    """Return the numbers of the loss, as the kernels have them."""
    return {"area": COORDS.cell_size**2, "share": 1 / len(cells.weight_indexed), "epsilon": EPSILON, "rate": RATE}


class Stage(NamedTuple):
    """A step of a fit: the packed image, the reduced chi², and the slope of the loss along each parameter."""

    image: torch.Tensor
    chi2: float
    slope: torch.Tensor


def fitted(cells: GriddedDataset, strength: float, steps: int, dtype: torch.dtype = torch.float32) -> Iterator[Stage]:
    """Yield the steps of a fit by autograd and PyTorch's Adam."""
    parameter = torch.zeros(1, COORDS.npix, COORDS.npix, dtype=dtype, requires_grad=True)
    adam, fourier, cells = torch.optim.Adam([parameter], lr=RATE), FourierCube(COORDS), cells.to(dtype)
    variation = partial(losses.TV_image, epsilon=EPSILON)
    for _ in range(steps):
        adam.zero_grad()
        image = torch.nn.functional.softplus(parameter)
        chi2 = losses.r_chi_squared_gridded(fourier(image), cells)
        (chi2 + strength * variation(packed_to_sky(image))).backward()  # type: ignore[no-untyped-call]
        adam.step()
        assert parameter.grad is not None
        yield Stage(image.detach()[0], chi2.item(), parameter.grad[0].clone())


def strength_of(cells: GriddedDataset, times: float) -> float:
    """Return so many times the slope that noise alone has along a pixel."""
    return times * COORDS.cell_size**2 * math.sqrt(float(cells.weight_indexed.sum())) / len(cells.weight_indexed)


def text(values: Any, dtype: str) -> str:
    """Write numbers for the page's script."""
    return b64encode(np.ascontiguousarray(values, dtype).tobytes()).decode()


def write_sky(folder: Path) -> None:
    """Write the averages as a script, and the frames as a picture, unless they are there already."""
    script, code = folder / "sky.js", sha256(Path(__file__).read_bytes()).hexdigest()
    if script.is_file() and code in script.read_text(encoding="utf-8"):
        return
    import matplotlib.pyplot as plt

    cells, noisy = averages(), averages(noise=1.0)
    truth = sky_image(SKY, COORDS.cell_size, COORDS.npix) / UNIT
    steps = list(fitted(noisy, strength_of(noisy, 8), STEPS[-1]))
    dirty = torch.zeros(1, COORDS.npix, COORDS.npix, dtype=torch.complex64)
    dirty[cells.mask] = (noisy.weight_indexed * noisy.vis_indexed).to(dirty.dtype)
    skies = [torch.fft.ifft2(dirty)[0].real, *(steps[step - 1].image for step in STEPS)]
    tops = [float(skies[0].max()), *[float(truth.max())] * len(STEPS)]
    shown = [packed_to_sky(sky.numpy() / top)[SHOWN, SHOWN] for sky, top in zip(skies, tops, strict=True)]
    plt.imsave(folder / "fit.png", np.hstack(shown)[::-1].clip(0, 1) ** 0.5, cmap="inferno", vmin=0, vmax=1)
    vis, count = cells.vis_indexed.numpy(), cells.weight_indexed * (SIGMA / UNIT) ** 2
    most = float(abs(vis).max())
    content = {
        "cells": text(np.flatnonzero(cells.mask.numpy()), "<u2"), "count": text(count.round(), "<u2"),
        "vis": text((np.stack([vis.real, vis.imag], -1) * 32767 / most).round(), "<i2"), "most": most,
        "truth": text((255 * (truth[SHOWN, SHOWN] / truth.max()) ** 0.5).round(), "u1"), "top": float(truth.max()),
        "weight": (UNIT / SIGMA) ** 2, **settings(cells),
        "frames": {"steps": [0, *STEPS], "chi2": ["", *(f"{steps[step - 1].chi2:.3f}" for step in STEPS)]},
    }  # fmt: skip
    written = f"/* {code} */ globalThis.firstlightSky = {json.dumps(content)};\n"
    where = 'document.currentScript.src.replace("sky.js", "fit.png")'
    script.write_text(f"{written}firstlightSky.frames.image = {where};\n", encoding="utf-8")
