"""What an image leaves of the data, and the quality of one that leaves so much for such a cause."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch

from firstlight_imaging._types import Complex, Mask, Real
from firstlight_imaging.automatic.problem import FieldProblem, model_visibilities
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.fitting import quality
from firstlight_imaging.fourier.beams import convolve

_MAX_ARTEFACT = 6.5  # σ: a larger residual is no noise
_LOUD = (
    "look where they are in the residual map. A source outside the mask needs a wider field, or a mask of yours; one "
    "between pixels, a smaller cell"
)
_QUIET = "check the weights (check_weights)"


@dataclass(frozen=True, eq=False)
class Residuals:
    """What a model leaves of the data.

    Attributes
    ----------
    vis, model
        What was observed, and the model in Jy/arcsec².
    map, coords
        The dirty image of the residual visibilities, with natural weights, in σ; and the grid of both.
    chi2
        The reduced chi².
    dynamic_range
        The peak of the restored image over the noise of the residuals.
    is_noise
        Whether they are no louder than noise, as far as the map tells.
    parameters
        How many gains were fitted before.

    Examples
    --------
    >>> left = Residuals(None, None, np.array([[0.5, -3.0], [1.0, 0.0]]), None, 1.1, 40.0, True)
    >>> left.largest
    3.0
    """

    vis: Visibilities
    model: Real
    map: Real
    coords: GridCoords
    chi2: float
    dynamic_range: float
    is_noise: bool
    parameters: float = 0.0

    @cached_property
    def model_vis(self) -> Complex:
        """What the model has of the visibilities."""
        return model_visibilities(self.model, self.vis, self.coords)

    @property
    def largest(self) -> float:
        """The largest residual, in σ."""
        return float(np.abs(self.map).max())


def residuals_of(problem: FieldProblem, model: Real, source: Mask, parameters: float) -> Residuals:
    """Return the residuals of a whitened model of a source, after so many gains were fitted to the data."""
    coords, beam = problem.coords, problem.beam
    whitened = torch.as_tensor(model, dtype=torch.float32, device=problem.device)[None]
    problem.likelihood.recentre(whitened)  # for all digits of chi², however strong the source
    free = max(1.0, 2 * len(problem.vis.u) - parameters)
    chi2, residual = float(problem.likelihood(whitened)) / free, problem.residual_image(whitened)
    noise, restored = quality.map_noise(residual, source), convolve(model, coords, beam) / beam.area + residual
    reached, largest = float(restored.max()) / max(noise, quality.rms(residual)), float(np.abs(residual).max())
    is_noise = noise <= quality.MAX_MAP_NOISE and largest <= _MAX_ARTEFACT
    return Residuals(problem.seen, model * problem.unit, residual, coords, chi2, reached, is_noise, parameters)


@dataclass(frozen=True)
class Cause:
    """Why residuals are larger than noise: a kind of cause, the verdict on the image, and a text for people.

    ``cured`` is how much of chi² above 1 gains explain, and ``also`` another cause that it may be as well.
    """

    kind: Literal["gains", "weights", "unexplained", "unknown", "outside", "uncalibrated"]
    verdict: quality.ImageVerdict
    text: str
    cured: float = math.nan
    also: Literal["gains", "weights", ""] = ""

    @property
    def limits(self) -> bool:
        """Whether it limits the image, so that noise tells nothing of its errors."""
        return self.kind == "outside" or self.verdict in quality.LIMITED


def judge(
    problem: FieldProblem, model: Real, sky: Real, source: Mask, left: Residuals, cause: Cause | None
) -> quality.Quality:
    """Return the quality of an image, in Jy/arcsec², whose whitened model leaves such residuals."""
    limited, coords, unit = cause is not None and cause.limits, problem.coords, problem.unit
    bright = source & (sky > unit)
    # Faint emission all over a field can add up to any flux that the shortest baselines do not see.
    shape = np.where(model > quality.SOURCE_FLOOR * model.max(), model, 0)
    short = quality.short_baseline_amplitude if limited else quality.short_baseline_flux
    short_flux, short_error = short(shape, problem.likelihood, 0)
    fluxes = float(sky.sum()) * coords.cell_size**2, unit * short_flux, unit * short_error
    residuals = quality.rms(left.map[bright]), quality.rms(left.map[~source]), left.largest
    beams = bright.sum() * coords.cell_size**2 / problem.beam.area
    reached = left.dynamic_range if limited else math.nan
    measured = quality.Measured(left.chi2, len(problem.vis.u), *residuals, *fluxes, beams=beams, dynamic_range=reached)
    fault = quality.Fault(cause.verdict, cause.text) if cause else None
    return quality.assess(measured, cause=fault, loud=_LOUD, quiet=_QUIET)
