"""Bregman iterations, the discrepancy principle that ends them, and a parametric bootstrap of their image."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from firstlight_imaging._types import Mask, Real
from firstlight_imaging.automatic.problem import ImagingProblem, hann_smooth, softplus_pixels
from firstlight_imaging.fitting.exact import DirtyLikelihood
from firstlight_imaging.fitting.quality import rms

TV_STRENGTH = 8.0  # λ of total variation, in units of the noise of the gradient of chi²
_MIN_BEAMS = 4  # of a source, for its residuals to tell anything, and for its place between pixels not to matter
_MAX_ITERATIONS = 6
MAX_RESIDUAL = 4.9  # σ, in the mask


class Iterations:
    """The images of Bregman iterations: each fits the data plus what the fit before left of its own.

    They end by the discrepancy principle, or when the residuals no longer shrink. Sharp pixels get two at least: the
    first leaves a point some percent too faint.
    """

    def __init__(self, problem: ImagingProblem, mask: Mask) -> None:
        self.problem, self.mask = problem, mask
        self.images, residual_rms = list[Tensor](), math.inf
        for image in self._fits(problem.dirty_likelihood(), _MAX_ITERATIONS):
            residual = self._residual(image)
            previous, residual_rms = residual_rms, rms(residual[mask])
            if residual_rms > 0.98 * previous:
                break
            self.images.append(image)
            if len(self.images) > problem.sharp and self._is_noise(residual, image):
                break

    @property
    def largest(self) -> float:
        """The largest residual of the last image in the mask, in σ."""
        return float(np.abs(self._residual(self.images[-1])[self.mask]).max())

    @property
    def is_compact(self) -> bool:
        """Whether it is bright in so few beams that their residuals tell nothing."""
        bright = (self.images[-1][0] > 1).sum().item() * self.problem.coords.cell_size**2
        return bright < _MIN_BEAMS * self.problem.vis.noise

    @cached_property
    def fraction(self) -> float:
        """The least fraction of the last iteration that leaves residuals like noise (discrepancy principle)."""
        if len(self.images) == 1 or self.is_compact:
            return 1.0
        before, after = (self._residual(one) for one in self.images[-2:])
        for fraction in np.linspace(0, 1, 1001)[:-1]:
            residual = fraction * after + (1 - fraction) * before
            if self._is_noise(residual, _interpolate(self.images, fraction)):
                return float(fraction)
        return 1.0

    @cached_property
    def best(self) -> Tensor:
        """The last image but one plus that fraction of what the last iteration has changed."""
        return _interpolate(self.images, self.fraction)

    def bootstrap(self, draws: int, seed: int) -> tuple[Tensor, Tensor]:
        """Return images of simulated data, and their mean excess over the image that these were made from."""
        problem = self.problem
        kept = torch.where(self.best > 1, self.best, 0)  # faint pixels as dark as they are in the sky: their bias shows
        simulated = problem.noise_likelihood(kept, draws, seed)
        found = problem.smooth(_interpolate([*self._fits(simulated, len(self.images))], self.fraction))
        return found, found.mean(0) - problem.smooth(kept)[0]

    def _fits(self, likelihood: DirtyLikelihood, most: int) -> Iterator[Tensor]:
        """Yield the images of so many iterations at most; of several sets of data, all at once."""
        problem, nchan = self.problem, likelihood.nchan
        parameters = faint = problem.initial_parameters(self.mask, nchan)
        what = "image" if nchan == 1 else f"{nchan} images of simulated noise"
        for iteration in range(1, most + 1):
            if problem.sharp:  # pixels that went out have no gradient to come back by
                parameters = torch.maximum(parameters, faint)
            parameters = problem.fit(likelihood, parameters, TV_STRENGTH, f"{what}, iteration {iteration}")
            pixels = softplus_pixels(parameters)
            yield (image := likelihood.best_fit_scale(hann_smooth(pixels)) * pixels)
            likelihood.add_residuals(hann_smooth(image), iteration)

    def _residual(self, pixels: Tensor) -> Real:
        """Return the residual image of pixels, in σ."""
        return self.problem.residual_image(self.problem.sharpen(pixels))

    def _is_noise(self, residual: Real, image: Tensor) -> bool:
        """Return whether residuals are as small as noise where it is bright, and nowhere in the mask above it."""
        bright = self.mask & (image[0] > 1).cpu().numpy()
        return rms(residual[bright]) <= 1 and float(np.abs(residual[self.mask]).max()) <= MAX_RESIDUAL


def _interpolate(images: list[Tensor], fraction: float) -> Tensor:
    """Return the last image but one plus a fraction, from 0 to 1, of what the last iteration has changed."""
    return images[-1] if len(images) == 1 else fraction * images[-1] + (1 - fraction) * images[-2]
