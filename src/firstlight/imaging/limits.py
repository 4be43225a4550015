"""What data can show on a grid, and what they cannot, in numbers: before an image is made, not after."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from firstlight.imaging.coordinates import ARCSEC, SMALLEST_PART, GridCoords, _rounded_down
from firstlight.imaging.neighbours import refuse_unknown
from firstlight.imaging.observe import LIGHT_SPEED, Observation
from firstlight.imaging.padding import fast_width
from firstlight.imaging.skies import Mask
from firstlight.imaging.smearing import Finding, averaging, bandwidth, w_term

__all__ = ["Finding", "check_image_grid", "suggest_grid"]

CELLS = 3  # for the finest fringe: 2 are the least with which it is a fringe
COARSE, FINE = 2.5, 10
RECOVERABLE = 0.6  # of the wavelength over the shortest baseline: what ALMA calls the maximum recoverable scale
SHORTEST_METRES = 10.0  # a longest baseline below this is no array's


def check_image_grid(
    seen: Observation,
    coords: GridCoords,
    *,
    channel_width: float | None = None,
    integration: float | None = None,
    ww: ArrayLike | None = None,
) -> list[Finding]:
    """Check observation and image grid against each other; what is flagged does not count.

    Losses are of a point source halfway along an edge of the field or in a corner, wherever it loses most, as a part
    of its peak in the dirty image of natural weights.

    Parameters
    ----------
    seen
        What was observed.
    coords
        The grid of the image.
    channel_width
        In Hz; by default the distance between the channels of each window.
    integration
        In seconds; by default the time between successive integrations of a baseline.
    ww
        In wavelengths, of the shape of ``seen.uu``. By default w is taken to be as large as the longest baseline: about
        what it can be in a flat array with long baselines in all directions, as long as the source is not low.

    Examples
    --------
    >>> from firstlight.imaging.observe import channels, observe, uv_track
    >>> from firstlight.imaging.skies import Point
    >>> seen = observe([Point(1.0)], uv_track(n_times=120), channels(230e9, 4e9, 2))
    >>> for finding in check_image_grid(seen, GridCoords(cell_size=0.03, npix=180)):
    ...     if finding.code == "bandwidth":
    ...         print(finding)  # doctest: +ELLIPSIS
    note: bandwidth: channels of up to 4e+09 Hz dim a point at the edge of the field, 3.8 arcsec from its centre, by ...
    """
    refuse_unknown(seen)
    counts = ~seen.flagged
    if not counts.any():
        raise ValueError("every visibility is flagged: there is nothing to image")
    return [
        units(seen, counts, coords),
        beyond(seen, coords),
        cells(seen, counts, coords),
        bandwidth(seen, counts, coords, channel_width),
        averaging(seen, counts, coords, integration),
        w_term(seen, counts, coords, ww),
        largest_scale(seen, counts, coords),
    ]


def suggest_grid(seen: Observation, field: float | None = None) -> GridCoords:
    """Suggest a grid: three cells for the finest fringe, and pixels enough for the field.

    Parameters
    ----------
    seen
        What was observed.
    field
        The width of the field in arcsec; by default the fringe of the shortest baseline, the largest scale of which
        the data know. Where antennas stand almost side by side, this is about their primary beam.

    Returns
    -------
    GridCoords
        Its ``npix`` is even and has no prime factor above 5, for a fast transform.

    Examples
    --------
    >>> from firstlight.imaging.observe import observe, uv_track
    >>> from firstlight.imaging.skies import Point
    >>> suggest_grid(observe([Point(1.0)], uv_track()), field=5.4)
    GridCoords(cell_size=0.035, npix=160)
    """
    refuse_unknown(seen)
    lengths = np.hypot(seen.uu, seen.vv)[~seen.flagged]
    lengths = lengths[lengths > 0]
    if not lengths.size:
        raise ValueError("there is no baseline with a length that is not flagged")
    if field is None:
        field = 1 / lengths.min() / ARCSEC
    if not (math.isfinite(field) and field > 0):
        raise ValueError(f"field must be a positive number of arcsec; got {field!r}")
    cell_size = _rounded_down(1 / (CELLS * lengths.max() * ARCSEC))
    return GridCoords(cell_size, fast_width(max(4, math.ceil(field / cell_size * (1 - 1e-9)))))


def units(seen: Observation, counts: Mask, coords: GridCoords) -> Finding:
    """Suspect u and v in another unit than wavelengths: too short for the grid, or for any array."""
    lengths = np.where(counts, np.hypot(seen.uu, seen.vv), 0)
    part = float(lengths.max()) / coords.uv_limit
    metres = float((lengths * (LIGHT_SPEED / seen.frequency[:, None])).max())
    message = (
        f"the longest baseline is {lengths.max():.4g} wavelengths ({metres:.4g} m), {100 * part:.2g} % of what "
        f"cells of {coords.cell_size:g} arcsec can hold."
    )
    if part >= SMALLEST_PART and metres >= SHORTEST_METRES:
        return Finding("units", "ok", message, "", part)
    remedy = "If u and v are in kilo-lambda, multiply them by 1000; if in metres, by the frequency over 299792458 m/s."
    return Finding("units", "error" if part < SMALLEST_PART else "warning", message, remedy, part)


def beyond(seen: Observation, coords: GridCoords) -> Finding:
    """Count what the grid cannot hold, flagged or not: a grid refuses both."""
    reach = np.maximum(np.abs(seen.uu), np.abs(seen.vv))
    outside = int((reach > coords.uv_limit).sum())
    part = outside / reach.size
    if not outside:
        message = f"all baselines are on the grid, which holds u and v up to {coords.uv_limit:.4g} wavelengths."
        return Finding("beyond", "ok", message, "", 0.0)
    message = (
        f"{outside} of {reach.size} visibilities ({100 * part:.2g} %) reach up to {reach.max():.4g} wavelengths, but "
        f"cells of {coords.cell_size:g} arcsec hold only {coords.uv_limit:.4g}."
    )
    fitting = _rounded_down(coords.cell_size * coords.uv_limit / reach.max())
    remedy = (
        f"Take a cell_size of {fitting:g} arcsec or less, or select_baselines(seen, longest={coords.uv_limit:.4g})."
    )
    return Finding("beyond", "error", message, remedy, part)


def cells(seen: Observation, counts: Mask, coords: GridCoords) -> Finding:
    """Compare a cell with the finest fringe."""
    fringe = 1 / (max(float(np.hypot(seen.uu, seen.vv)[counts].max()), 1e-300) * ARCSEC)
    pixels = fringe / coords.cell_size
    message = f"the finest fringe is {fringe:.4g} arcsec wide: {pixels:.3g} cells of {coords.cell_size:g} arcsec."
    if COARSE <= pixels <= FINE:
        return Finding("cells", "ok", message, "", pixels)
    better = _rounded_down(fringe / CELLS)
    if pixels < COARSE:
        remedy = f"That is coarse: a model cannot be sharper than its cells. Take {better:g} arcsec."
    else:
        remedy = f"Finer cells than about {better:g} arcsec show nothing more and cost time."
    return Finding("cells", "note", message, remedy, pixels)


def largest_scale(seen: Observation, counts: Mask, coords: GridCoords) -> Finding:
    """Say what is too wide for the shortest baseline: 0.6 of its fringe, as ALMA's Observing Tool has it.

    Of a Gaussian as wide at half its maximum as that, the shortest baseline sees 28 % of the flux; of a uniform disk
    of that diameter, 62 %.
    """
    lengths = np.hypot(seen.uu, seen.vv)[counts]
    lengths = lengths[lengths > 0]
    if not lengths.size:
        return Finding("scale", "error", "no baseline has a length.", "", math.nan)
    scale, field = RECOVERABLE / lengths.min() / ARCSEC, coords.npix * coords.cell_size
    message = (
        f"the shortest baseline, of {lengths.min():.4g} wavelengths, recovers scales up to {scale:.3g} arcsec; the "
        f"field is {field:.3g} arcsec wide."
    )
    if scale >= field:
        return Finding("scale", "ok", message, "", scale)
    remedy = "What is wider and smooth is missing, and with it flux: compare with a single dish or a compact array."
    return Finding("scale", "note", message, remedy, scale)
