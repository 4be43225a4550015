"""What a model leaves of the data: a map of it, its chi², and whether it is noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from firstlight_imaging._types import Complex, Mask, Real
from firstlight_imaging.automatic.problem import FieldProblem, model_visibilities
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.fitting.quality import MAX_MAP_NOISE, map_noise, rms
from firstlight_imaging.fourier.beams import convolve

_MAX_ARTEFACT = 6.5  # σ: a larger residual is no noise


@dataclass(frozen=True, eq=False)
class Residuals:
    """What a model leaves of the data.

    Attributes
    ----------
    vis, model_vis
        What was observed, and what the model has of it, in units of the noise of an image.
    map, coords
        The dirty image of the residual visibilities, with natural weights, in σ; and its grid.
    chi2
        The reduced chi².
    dynamic_range
        The peak of the restored image over the noise of the residuals.
    is_noise
        Whether they are no louder than noise, as far as the map tells.
    parameters
        How many gains were fitted before.
    """

    vis: Visibilities
    model_vis: Complex
    map: Real
    coords: GridCoords
    chi2: float
    dynamic_range: float
    is_noise: bool
    parameters: float = 0.0

    @property
    def largest(self) -> float:
        """The largest residual, in σ."""
        return float(np.abs(self.map).max())


def residuals_of(problem: FieldProblem, model: Real, source: Mask, parameters: float) -> Residuals:
    """Return the residuals of a whitened model of a source, after so many gains were fitted to the data."""
    coords, beam, vis = problem.coords, problem.beam, problem.seen
    whitened = torch.as_tensor(model, dtype=torch.float32, device=problem.device)[None]
    problem.likelihood.recentre(whitened)  # for all digits of chi², however strong the source
    free = max(1.0, 2 * len(problem.vis.u) - parameters)
    chi2, residual = float(problem.likelihood(whitened)) / free, problem.residual_image(whitened)
    noise, restored = map_noise(residual, source), convolve(model, coords, beam) / beam.area + residual
    return Residuals(
        vis=vis,
        model_vis=model_visibilities(model, vis, coords),
        map=residual,
        coords=coords,
        chi2=chi2,
        dynamic_range=float(restored.max()) / max(noise, rms(residual)),
        is_noise=noise <= MAX_MAP_NOISE and float(np.abs(residual).max()) <= _MAX_ARTEFACT,
        parameters=parameters,
    )
