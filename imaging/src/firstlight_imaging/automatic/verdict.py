"""The verdict on an image, by its residuals, their cause, and the flux that the shortest baselines see."""

from __future__ import annotations

import math

import numpy as np

from firstlight_imaging._types import Mask, Real
from firstlight_imaging.automatic.diagnosis import Cause
from firstlight_imaging.automatic.problem import FieldProblem
from firstlight_imaging.automatic.residuals import Residuals
from firstlight_imaging.fitting.quality import (
    SOURCE_FLOOR,
    Measured,
    Quality,
    assess,
    rms,
    short_baseline_amplitude,
    short_baseline_flux,
)

_ADVICE = (
    "look where they are in the residual map. A source outside the mask needs a wider field, or a mask of yours; one "
    "between pixels, a smaller cell"
)


def judge(problem: FieldProblem, model: Real, sky: Real, source: Mask, left: Residuals, cause: Cause | None) -> Quality:
    """Return the quality of an image, in Jy/arcsec², whose whitened model leaves such residuals."""
    limited, coords, unit = cause is not None and cause.limits, problem.coords, problem.unit
    bright = source & (sky > unit)
    # Faint emission all over a field can add up to any flux that the shortest baselines do not see.
    shape = np.where(model > SOURCE_FLOOR * model.max(), model, 0)
    fitted = short_baseline_amplitude if limited else short_baseline_flux
    short_flux, short_error = fitted(shape, problem.likelihood, 0)
    measured = Measured(
        chi2=left.chi2,
        count=len(problem.vis.u),
        inside=rms(left.map[bright]),
        outside=rms(left.map[~source]),
        largest=left.largest,
        flux=float(sky.sum()) * coords.cell_size**2,
        short_flux=unit * short_flux,
        short_error=unit * short_error,
        beams=bright.sum() * coords.cell_size**2 / problem.beam.area,
        dynamic_range=left.dynamic_range if limited else math.nan,
    )
    return assess(measured, cause=cause.fault if cause else None, advice=_ADVICE)
