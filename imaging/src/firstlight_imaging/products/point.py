"""Whether a single point explains the data, and its flux then."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from firstlight_imaging._types import Complex, Real
from firstlight_imaging.automatic.auto_image import Image
from firstlight_imaging.coordinates import phase_factor
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.units import ARCSEC

_MAX_POINT_BEAMS = 40  # that the mask of a point covers
_MAX_POINT_SIGMA = 3  # that chi² is from 1 where a point explains all


def point_remark(found: Image, vis: Visibilities) -> list[str]:
    """Return a line with the flux of a point, if that alone explains the data.

    An image has it a little too bright: pixels cannot be negative, so those around it take up noise.
    """
    coords = found.coords
    if found.mask.sum() * coords.cell_size**2 > _MAX_POINT_BEAMS * found.beam.area:
        return []
    u, v, data, weight = (getattr(vis, part)[~vis.flagged] for part in ("uu", "vv", "data", "weight"))

    def moved(place: Real) -> Complex:
        return np.asarray(data * phase_factor(u * ARCSEC, v * ARCSEC, *-place))

    brightest = np.unravel_index(found.model.argmax(), found.model.shape)
    start = [along[brightest] for along in coords.sky_coordinates()]
    place = minimize(lambda place: -np.average(moved(place).real, weights=weight), start, method="Nelder-Mead").x
    flux = np.average(moved(place).real, weights=weight)
    chi2 = (np.abs(moved(place) - flux) ** 2 * weight).mean() / 2
    if abs(chi2 - 1) * math.sqrt(len(data)) > _MAX_POINT_SIGMA:
        return []
    return [
        f"note: a point of {flux:.4g} ± {weight.sum() ** -0.5:.2g} Jy alone fits the data (reduced chi² {chi2:.4f}). "
        "If the source is one, that is its flux; an image has it a little too bright"
    ]
