"""Bregman iterations, the discrepancy principle that ends them, and a parametric bootstrap of their image."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from firstlight_imaging._types import Complex, Mask, Real
from firstlight_imaging.fitting.imaging_problem import ImagingProblem, hann_smooth, softplus_pixels
from firstlight_imaging.fitting.quality import rms

TV_STRENGTH = 8.0  # λ of total variation, in units of the noise of the gradient of chi²
_MIN_BEAMS = 4  # of a source, for its residuals to tell anything
MAX_RESIDUAL = 4.9  # σ, in the mask


def bregman_iterations(
    problem: ImagingProblem, data: Complex, mask: Mask, max_iterations: int, *, stop_at_noise: bool = False
) -> list[Tensor]:
    """Return the images of Bregman iterations: each fits the data plus what the fit before left of its own.

    With ``stop_at_noise`` they end by the discrepancy principle, or when the residuals no longer shrink.
    """
    likelihood, images, residual_rms = problem.likelihood_of(data, problem.inverse_hann), [], math.inf
    parameters = problem.initial_parameters(mask, len(data))
    what = "image" if len(data) == 1 else f"{len(data)} images of simulated noise"
    for iteration in range(max_iterations):
        parameters = problem.fit(likelihood, parameters, TV_STRENGTH, f"{what}, iteration {iteration + 1}")
        pixels = softplus_pixels(parameters)
        image = problem.best_fit_scale(pixels, data) * pixels
        if stop_at_noise:
            residual = problem.residual_image(image)
            previous, residual_rms = residual_rms, rms(residual[mask])
            if residual_rms > 0.98 * previous:
                break
        images.append(image)
        if stop_at_noise and _residuals_are_noise(residual, image, mask):
            break
        likelihood.replace(data + likelihood.residuals(hann_smooth(image)).cpu().numpy())
    return images


def _residuals_are_noise(residual: Real, image: Tensor, mask: Mask) -> bool:
    """Return whether residuals are as small as noise where the image is bright, and nowhere in the mask above it."""
    bright = mask & (image[0] > 1).cpu().numpy()
    return rms(residual[bright]) <= 1 and float(np.abs(residual[mask]).max()) <= MAX_RESIDUAL


def fraction_of_last_iteration(problem: ImagingProblem, images: list[Tensor], mask: Mask) -> float:
    """Return the least fraction of the last iteration that leaves residuals like noise (discrepancy principle)."""
    bright = (images[-1][0] > 1).sum().item() * problem.coords.cell_size**2
    if len(images) == 1 or bright < _MIN_BEAMS * problem.vis.noise:
        return 1.0  # of so few beams, the residuals tell nothing
    before, after = (problem.residual_image(one) for one in images[-2:])
    for fraction in np.linspace(0, 1, 1001)[:-1]:
        residual = fraction * after + (1 - fraction) * before
        if _residuals_are_noise(residual, interpolate(images, fraction), mask):
            return float(fraction)
    return 1.0


def interpolate(images: list[Tensor], fraction: float) -> Tensor:
    """Return the last image but one plus a fraction, from 0 to 1, of what the last iteration has changed."""
    return images[-1] if len(images) == 1 else fraction * images[-1] + (1 - fraction) * images[-2]


def bootstrap(
    problem: ImagingProblem, images: list[Tensor], fraction: float, mask: Mask, draws: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Return images of simulated data, and their mean excess over the image that these were made from."""
    best = interpolate(images, fraction)
    kept = torch.where(best > 1, best, 0)  # faint pixels as dark as they are in the sky, so that their bias shows
    model_vis = problem.vis.data - problem.likelihood.residuals(kept).cpu().numpy()
    simulated = model_vis + problem.vis.noise_realizations(draws, seed)
    found = hann_smooth(interpolate(bregman_iterations(problem, simulated, mask, len(images)), fraction))
    return found, found.mean(0) - hann_smooth(kept)[0]
