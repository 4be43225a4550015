"""The truth: sums written out in float64, from the conventions alone."""

import math

import numpy as np
import torch

ARCSEC = math.pi / 180 / 3600
CELL = 0.02


def waves(u, v, npix: int, cell: float = CELL):
    """exp(-2πi v m) for every row of a sky image and exp(-2πi u l) for every column."""
    m = (np.arange(npix) - npix // 2) * cell * ARCSEC
    l = (npix // 2 - 1 - np.arange(npix)) * cell * ARCSEC  # noqa: E741
    return np.exp(-2j * np.pi * np.outer(v, m)), np.exp(-2j * np.pi * np.outer(u, l))


def vis_of(sky, u, v, cell: float = CELL):
    """V(u, v) of a cube; u and v are (nvis,) or (nchan, nvis)."""
    sky = np.asarray(sky, dtype=np.float64)
    u, v = (np.broadcast_to(w, (len(sky), w.shape[-1])) for w in (u, v))
    rows = []
    for image, a, b in zip(sky, u, v, strict=True):
        down, along = waves(a, b, len(image), cell)
        rows.append(np.einsum("kj,kj->k", down @ image, along))
    return np.array(rows) * cell**2


def sky_of(vis, u, v, npix: int, cell: float = CELL):
    """The transpose of `vis_of`, real."""
    u, v = (np.broadcast_to(w, (len(vis), w.shape[-1])) for w in (u, v))
    images = []
    for row, a, b in zip(vis, u, v, strict=True):
        down, along = waves(a, b, npix, cell)
        images.append(((down.conj().T * row) @ along.conj()).real)
    return np.array(images) * cell**2


def baselines(nvis: int, seed: int = 0, cell: float = CELL, reach: float = 0.45):
    """Points all over the plane that the grid can hold, more to one side than to the other."""
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(-reach, reach, (2, nvis)) / (cell * ARCSEC)
    return np.abs(u) ** 0.9 * np.sign(u) + 0.1 * np.abs(u), v * 0.8


def field_filling(nchan: int, npix: int, seed: int = 0):
    """Positive skies that fill the field to its corners, brighter off-centre, like no mirror image of themselves."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:npix, :npix] / npix
    blob = 3 * np.exp(-((x - 0.8) ** 2 / 0.02 + (y - 0.3) ** 2 / 0.1 + (x - 0.8) * (y - 0.3) / 0.05))
    return rng.uniform(0.2, 1, (nchan, npix, npix)) + blob + x


def ratio_error(value, truth) -> float:
    """|ratio − 1|, never 'lower': wrong likelihoods score below the truth."""
    value, truth = (
        np.asarray(a.detach() if isinstance(a, torch.Tensor) else a, dtype=np.float64) for a in (value, truth)
    )
    return float(np.abs(value / truth - 1).max())


def relative_error(value, truth) -> float:
    """The norm of the difference over the norm of the truth."""
    value, truth = (np.asarray(a.detach() if isinstance(a, torch.Tensor) else a) for a in (value, truth))
    return float(np.linalg.norm(value - truth) / np.linalg.norm(truth))
