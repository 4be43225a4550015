"""The grid of an image: which baselines it is made of, how wide it is, and how fine."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from firstlight_imaging._types import MaskFunction
from firstlight_imaging.automatic.mask import find_source
from firstlight_imaging.automatic.problem import FieldProblem
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities, select_baselines
from firstlight_imaging.fourier.limits import suggest_grid
from firstlight_imaging.fourier.padding import fast_fft_size
from firstlight_imaging.units import ARCSEC, angle_text, unit_meant

_MIN_PIXELS, _MAX_PIXELS = 48, 1024  # of the width of a field that nobody asked for
_MAX_PIXELS_ASKED = 4096  # of one that somebody did: 4 GB
_MAX_CELL = 1.2  # of the suggested one, which is a third of the finest fringe: half of it is the end
_MAX_FIELD = 4e5  # arcsec: no sky is as wide
_INTRA_SITE = 10.0  # times as long is the next baseline, at least
# Of the natural beam: its narrow width in pixels, at least; of its length, a field, at least; and times as long as wide
# is that of baselines along a line, which no image holds. Its full width is so much over their rms length.
_PIXELS_A_BEAM, _BEAM_IN_FIELD, _LINE, _CURVED = 2.0, 1.5, 300.0, math.sqrt(math.log(4)) / math.pi


class Options(NamedTuple):
    """What was asked of an image, as `image` documents it, and how many times as wide as it seems to need it is."""

    field: float | None
    cell_size: float | None
    mask: MaskFunction | None
    device: torch.device | str
    parameters: float
    wider: int = 1


def leave_out_intra_site(vis: Visibilities) -> tuple[Visibilities, tuple[str, ...]]:
    """Return visibilities without baselines so short that their field has too many pixels, and a sentence on it.

    Those of antennas of one site see flux on scales that no other baseline knows of.
    """
    if not vis.lengths[~vis.flagged].any() or suggest_grid(vis).npix <= _MAX_PIXELS:
        return vis, ()
    lengths = np.sort(vis.lengths[~vis.flagged & (vis.lengths > 0)])
    jumps = lengths[1:] / lengths[:-1]
    if jumps.max() < _INTRA_SITE:
        return vis, ()
    shortest = float(lengths[1:][jumps >= _INTRA_SITE][-1])
    kept, site = select_baselines(vis, shortest=shortest), ~vis.flagged & (vis.lengths < shortest)
    power = float((vis.weight[site] * np.abs(vis.data[site]) ** 2).sum()) - 2 * np.count_nonzero(site)  # but for noise
    seen = math.sqrt(max(0, power) / float(vis.weight[site].sum()))
    sentence = (
        f"{len(vis.time) - len(kept.time)} of {len(vis.time)} visibilities are left out, of baselines up to "
        f"{lengths[lengths < shortest].max():.3g} wavelengths, within a site: the next are of {shortest:.3g}. They see "
        f"{seen:.3g} Jy, also on scales that no other baseline knows of"
    )
    return kept, (sentence,)


def choose_grid(vis: Visibilities, options: Options) -> tuple[GridCoords, str]:
    """Return the grid of an image, and why it is as wide."""
    coords, why = _grid_of_source(vis, options)
    return _grid_with_mask(coords, why, options.mask, options.field is not None) if options.mask else (coords, why)


def _grid_of_source(vis: Visibilities, options: Options) -> tuple[GridCoords, str]:
    """Return a grid as wide as asked for, or as the source needs, and which of these it is."""
    field, cell_size, wider = options.field, options.cell_size, options.wider
    source_width = _suggest_field(vis, options.device) if field is None else field
    suggested = suggest_grid(vis, source_width)
    if wider > 1:
        source_width = wider * suggested.npix * suggested.cell_size
        suggested = suggest_grid(vis, source_width)
    npix, size = suggested.npix, suggested.cell_size
    narrow, long = _rough_beam(vis)
    if cell_size is None and narrow < _PIXELS_A_BEAM * size:  # all baselines are about as long
        npix, size = fast_fft_size(math.ceil(npix * size * _PIXELS_A_BEAM / narrow)), narrow / _PIXELS_A_BEAM
    # A field that nobody asked for holds the beam, too.
    npix = npix if field else max(npix, fast_fft_size(math.ceil(min(_BEAM_IN_FIELD * long / size, _MAX_PIXELS))))
    if cell_size is not None:
        if not 0 < cell_size <= _MAX_CELL * size:
            raise ValueError(
                f"cell_size must be above 0, and at most {_MAX_CELL * size:.3g} arcsec for the finest fringe of these "
                f"data to be one; got {cell_size:g}. Leave out the longest baselines (select_baselines) for a coarser "
                "one"
            )
        npix, size = fast_fft_size(math.ceil((source_width or npix * size) / cell_size * (1 - 1e-9))), cell_size
    if not source_width:
        npix = max(npix, _MIN_PIXELS)
    if field is None:
        npix = min(npix, _MAX_PIXELS)
    elif npix > _MAX_PIXELS_ASKED:
        raise ValueError(
            f"a field of {angle_text(field)} needs {npix} x {npix} pixels of {angle_text(size)}; more than "
            f"{_MAX_PIXELS_ASKED} x {_MAX_PIXELS_ASKED} take too much memory: take a field of "
            f"{angle_text(_MAX_PIXELS_ASKED * size)} or less{unit_meant(field, _MAX_PIXELS_ASKED * size)}, or leave "
            "out the longest baselines (select_baselines)"
        )
    if npix * size > _MAX_FIELD:
        raise ValueError(
            f"these data see {npix * size / 3600:.0f} degrees of sky, and an image takes it for flat: ask for a field "
            "that is much narrower, or use a program for wide fields, such as WSClean"
        )
    why = "as the source needs" if wider == 1 else f"{wider} times as wide as the source seems to need"
    if field or not source_width:
        why = "as asked for" if field else "all that the shortest baseline sees"
    return GridCoords(size, npix), why


def _rough_beam(vis: Visibilities) -> tuple[float, float]:
    """Return how narrow and how long the natural beam is in arcsec, by its curvature; refuse what has none."""
    u, v, _, weight = vis.unflagged
    spread, axes = np.linalg.eigh(np.einsum("n,in,jn", weight, uv := np.stack([u, v]), uv) / weight.sum())
    short, long = np.sqrt(spread.clip(0))
    two = np.unique(vis.antennas).size == 2 and not np.ptp(vis.execution)
    if two or long > _LINE * short:
        line = f"along a line, {math.degrees(math.atan2(*axes[:, 1])) % 180:.0f} degrees from north to east"
        raise ValueError(
            f"the baselines are {'of two antennas' if two else line}, so no field makes an image. Join data of other "
            "hour angles or arrays (all files at once), or fit a model to the visibilities"
        )
    return _CURVED / (float(long) * ARCSEC), _CURVED / (float(short) * ARCSEC)


def _grid_with_mask(coords: GridCoords, width: str, mask: MaskFunction, asked: bool) -> tuple[GridCoords, str]:
    """Return a grid that holds a mask, two or four times as wide if need be, and why it is as wide.

    It stays as it is if it was asked for, or if the mask is wider yet.
    """
    for times in (1, 2, 4):
        wider = GridCoords(coords.cell_size, times * coords.npix)
        beyond = GridCoords(coords.cell_size, 2 * wider.npix)
        east, north = beyond.sky_coordinates()
        outside = np.maximum(np.abs(east), np.abs(north)) > wider.npix * coords.cell_size / 2
        allowed = np.asarray(mask(east, north))
        if allowed.shape != east.shape or not allowed[outside].any():
            return wider, width if times == 1 else "as the mask needs"
        if asked or beyond.npix > _MAX_PIXELS:
            break
    return coords, f"{width}; the mask reaches beyond it"


def _suggest_field(vis: Visibilities, device: torch.device | str) -> float | None:
    """Return a field two and a half times as wide as the source, which is found in a coarse image of a wide field."""
    longest = float(np.quantile(vis.lengths.max(axis=0), 0.25))
    short = select_baselines(vis, longest=longest)
    suggested = suggest_grid(short)
    coords = GridCoords(suggested.cell_size, min(suggested.npix, _MAX_PIXELS))
    try:
        mask, *_ = find_source(FieldProblem(short, coords, device))
    except ValueError:  # so few baselines have no beam, or one that is narrower than its pixels
        return None
    if not mask.any():
        return None  # all baselines together may see more
    half = coords.npix / 2
    farthest = max(np.abs(axis + 0.5 - half).max() for axis in np.nonzero(mask))
    return float(min(2.5 * farthest, coords.npix) * coords.cell_size)
