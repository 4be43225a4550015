"""Visibilities on a grid, in units of their noise: their likelihood, fits of it, and what a fit leaves over."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from firstlight_imaging._types import Complex, Mask, Real
from firstlight_imaging.coordinates import GridCoords, packed_to_sky, sky_to_packed
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.directions import phase_factor
from firstlight_imaging.fitting.exact import DirtyLikelihood, ExactLikelihood
from firstlight_imaging.fitting.fit_loop import FitState
from firstlight_imaging.fitting.objective import Objective
from firstlight_imaging.fitting.optimizers import LBFGS
from firstlight_imaging.fourier.beams import fit_beam
from firstlight_imaging.fourier.dirty import DirtyImager
from firstlight_imaging.fourier.nufft import visibilities
from firstlight_imaging.model.cubes import DEFAULT_BASE, smooth_columns, smooth_rows
from firstlight_imaging.model.gridded_net import GriddedNet
from firstlight_imaging.model.losses import TV_image
from firstlight_imaging.streaming import chunks
from firstlight_imaging.units import ARCSEC

_STEPS, _ROUGH_STEPS = 500, 100  # of L-BFGS; the last four fifths take a few percent of what chi² is above 1
_MASKED_PARAMETER = -1e4  # its softplus is 0, and its gradient too
_CHUNK = 1 << 20  # visibilities at once: what a transform needs for them is little beside ten million
_GPU_PIXELS = 512  # of the width of an image; a GPU spends the time of a smaller one on launches


@dataclass(frozen=True, eq=False)
class WhitenedVisibilities:
    """The visibilities of all channels in one row, scaled so that the noise of a beam is 1 Jy/arcsec² bright."""

    u: Real
    v: Real
    data: Complex
    weight: Real

    @property
    def noise(self) -> float:
        """The noise of an image with natural weights, in units of flux per beam."""
        return math.sqrt(1 / float(self.weight.sum()))

    def moved(self, east: float, north: float, noise: float) -> WhitenedVisibilities:
        """Return them with the phase centre moved there, scaled so that the noise is 1 where it was as much."""
        data = np.empty_like(self.data)
        for at in chunks(len(data), _CHUNK):
            factor = phase_factor(self.u[at], self.v[at], -east * ARCSEC, -north * ARCSEC)
            data[at] = factor * (self.data[at] / noise)
        return replace(self, data=data)


class ImagingProblem:
    """Whitened visibilities and a grid: their exact likelihood, fits, and residual images in units of the noise.

    ``sharp`` says whether pixels stand for something sharper than a point, see `sharpen`.
    """

    def __init__(
        self, vis: WhitenedVisibilities, coords: GridCoords, device: torch.device | str, sharp: bool = False
    ) -> None:
        self.sharp = sharp
        self.vis, self.coords, self.device = vis, coords, device if coords.npix >= _GPU_PIXELS else "cpu"
        self.likelihood = self._likelihood()
        self.gradient_noise = coords.cell_size**2 / vis.noise  # σ of the dirty residual of the likelihood

    def _likelihood(self, factor: Real | None = None) -> ExactLikelihood:
        """Return the likelihood of the visibilities."""
        vis, grid = self.vis, (self.coords.cell_size, self.coords.npix)
        return ExactLikelihood(
            vis.u, vis.v, vis.data, vis.weight, *grid, factor=factor, device=self.device, chunk=_CHUNK
        )

    @cached_property
    def smoothed(self) -> ExactLikelihood:
        """The likelihood of images that a `GriddedNet` smooths with a Hann window, about a dark one.

        Visibilities are divided by its transform, so that no point source is as wide as the window, and multiplied by
        that of `sharpen`.
        """
        turn = math.pi * self.coords.cell_size * ARCSEC
        window = np.cos(turn * self.vis.u)
        window *= np.cos(turn * self.vis.v)
        window **= 2
        return self._likelihood((2 - window if self.sharp else 1) / window)

    def sharpen(self, pixels: Tensor) -> Tensor:
        """Return the image that pixels stand for: if they are sharp, twice themselves less themselves smoothed.

        Positive pixels can then share a point anywhere between them, to the second order in the length of a baseline.
        """
        return 2 * pixels - hann_smooth(pixels) if self.sharp else pixels

    def smooth(self, pixels: Tensor) -> Tensor:
        """Return that image smoothed over two pixels."""
        return hann_smooth(self.sharpen(pixels))

    def dirty_likelihood(self) -> DirtyLikelihood:
        """Return the same to be fitted, from its dirty image."""
        of = self.smoothed
        return DirtyLikelihood(of, of.reference, of.dirty, of.c0)

    def noise_likelihood(self, pixels: Tensor, draws: int, seed: int) -> DirtyLikelihood:
        """Return that of an image's visibilities with so many draws of their noise."""
        of, chi2 = self.smoothed, self.smoothed.c0.new_full((draws,), 2 * len(self.vis.u))
        return DirtyLikelihood(of, hann_smooth(pixels).repeat(draws, 1, 1), of.draw_noise(draws, seed), chi2)

    def initial_parameters(self, mask: Mask, nchan: int) -> Tensor:
        """Return parameters of images that are faint in the mask, and zero outside it."""
        inside = sky_to_packed(torch.as_tensor(mask)[None]).to(self.device)
        return torch.where(inside, DEFAULT_BASE, _MASKED_PARAMETER).repeat(nchan, 1, 1)

    def fit(
        self, likelihood: ExactLikelihood, parameters: Tensor, tv_strength: float, what: str, rough: bool = False
    ) -> Tensor:
        """Return the fitted parameters; masked ones stay as they are. A terminal shows what is fitted."""
        strength = tv_strength * self.gradient_noise / len(self.vis.u)
        losses = {"tv": (strength, partial(TV_image, epsilon=1e-2))}
        tolerance = 0.02 / len(self.vis.u)  # of the reduced chi²: 0.04 of chi² itself, far less than noise does
        model = GriddedNet(self.coords, nchan := len(parameters), parameters)
        objective = Objective(model, likelihood, losses, "exact", separate=nchan > 1)
        FitState(objective, LBFGS(model, None)).run(
            _ROUGH_STEPS if rough else _STEPS, tolerance, check_every=10, progress=what
        )
        return model.bcube.base_cube.detach()

    def dirty_image(self) -> Real:
        """Return the dirty image, with natural weights, in σ."""
        return self.residual_image(torch.zeros_like(self.likelihood.reference))

    def residual_image(self, image: Tensor) -> Real:
        """Return the dirty image of the residual visibilities, with natural weights, in σ."""
        likelihood = self.likelihood
        residual = likelihood.dirty - likelihood.normal_operator(image - likelihood.reference)
        return np.asarray(residual[0].cpu().double().numpy()) / self.gradient_noise


class FieldProblem(ImagingProblem):
    """The problem of all channels on the grid of a whole field.

    ``beam`` is the natural one, ``sidelobe`` how deep its deepest is, ``unit`` that of the whitened image in
    Jy/arcsec², and ``seen`` the visibilities, in Jy, with all that is known of them.
    """

    def __init__(self, vis: Visibilities, coords: GridCoords, device: torch.device | str) -> None:
        u, v, data, weight = vis.unflagged
        psf = DirtyImager(coords, u, v, weight, data.real, data.imag).get_dirty_beam("natural")[0]
        self.sidelobe = -float(psf.min())
        with warnings.catch_warnings(action="ignore"):  # a rough size of the beam is all that is needed
            self.beam = fit_beam(psf, coords.cell_size)
        self.seen, self.unit = vis, float(weight.sum()) ** -0.5 / self.beam.area
        super().__init__(WhitenedVisibilities(u, v, data / self.unit, weight * self.unit**2), coords, device)


def model_visibilities(model: Real, vis: Visibilities, coords: GridCoords) -> Complex:
    """Return what an interferometer would see of an image in sky order, (nchan, nvis).

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = observe([Point(1.0)], uv_track(n_times=1))
    >>> star = np.zeros((8, 8))
    >>> star[4, 3] = 1 / 0.01**2  # 1 Jy in the middle
    >>> bool(np.allclose(model_visibilities(star, vis, GridCoords(0.01, 8)), vis.data))
    True
    """
    seen = visibilities(torch.from_numpy(model[None]), vis.uu.ravel(), vis.vv.ravel(), coords.cell_size)
    return np.asarray(seen[0].numpy().reshape(vis.data.shape))


def softplus_pixels(parameters: Tensor) -> Tensor:
    """Return the pixels of a `GriddedNet`, before it smooths them, in sky order."""
    return packed_to_sky(softplus(parameters))


def hann_smooth(images: Tensor) -> Tensor:
    """Return images smoothed as a `GriddedNet` does."""
    return smooth_columns(smooth_rows(images))
