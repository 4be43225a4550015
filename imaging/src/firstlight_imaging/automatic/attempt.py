"""An attempt at an image: the steps up to the bootstrap, on one grid, with the weights as they are."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from torch import Tensor

from firstlight_imaging._types import Mask, Real
from firstlight_imaging.automatic.bregman import MAX_RESIDUAL, TV_STRENGTH, Iterations
from firstlight_imaging.automatic.diagnosis import diagnose
from firstlight_imaging.automatic.grid import Options, choose_grid, leave_out_intra_site
from firstlight_imaging.automatic.mask import crop_to_mask, fit_in, mask_of, negative_emission
from firstlight_imaging.automatic.problem import FieldProblem, ImagingProblem
from firstlight_imaging.automatic.residuals import Cause, Residuals, judge, residuals_of
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.fitting.quality import MAX_SIGMA, Quality
from firstlight_imaging.units import angular_unit

_WIDE_MASK = 0.3  # of the field: where artefacts are louder than noise, it may well follow them
_SHARPER = 0.5  # of chi² above 1: if sharp pixels leave less, a point was between pixels


class Errors(NamedTuple):
    """What noise does to an image: the bias of its fit, the error of each pixel, and that of the flux in Jy."""

    bias: Tensor | float
    pixels: Real
    flux: float


def attempt_image(vis: Visibilities, options: Options) -> Attempt:
    """Return an attempt at an image, on the grid that the data and these options ask for."""
    # In seconds, as float32: so a UVFITS has them, and the same data make the same image, whatever file they were in.
    hertz = np.nan_to_num(vis.frequency, nan=1.0)[:, None]
    vis = replace(vis, uu=np.float32(vis.uu / hertz) * hertz, vv=np.float32(vis.vv / hertz) * hertz)
    vis, left_out = leave_out_intra_site(vis)
    coords, why = choose_grid(vis, options)
    attempt = Attempt(vis, coords, options)
    if attempt.is_too_coarse:
        attempt = Attempt(vis, GridCoords(coords.cell_size / 2, 2 * coords.npix), options)
    attempt.why, attempt.left_out = why, left_out
    return attempt


class Attempt:
    """An image on one grid: what was fitted where, what it leaves of the data, and why.

    ``noise`` is that of the residuals beside the source, in units of what the weights say; the ``iterations`` are in
    units of it. ``rough_chi2`` is the reduced chi² of the last fit for the mask.
    """

    def __init__(self, vis: Visibilities, coords: GridCoords, options: Options) -> None:
        self.coords, self.options, self.why = coords, options, ""
        self.left_out = self.notes = tuple[str, ...]()
        self.problem = FieldProblem(vis, coords, options.device)
        self.mask, self.noise, self.rough_chi2 = self._find_source(sharp=False)
        self.sharp, excess = False, self.rough_chi2 - 1
        if excess * math.sqrt(len(self.problem.vis.u)) > MAX_SIGMA:  # wrong gains, or a point between pixels
            self.problem.sharp, most = True, 1 + _SHARPER * excess
            if fit_in(self.problem, self.mask, "sharp pixels", rough=True)[2] < most:  # else no mask would help
                mask, noise, chi2 = self._find_source(sharp=True)
                if noise <= 1 and chi2 < most:
                    self.sharp, self.mask, self.noise, self.rough_chi2 = True, mask, noise, chi2
            vars(self.problem).pop("smoothed", None)
        self.crop = crop_to_mask(self.mask, coords)

    def _find_source(self, sharp: bool) -> tuple[Mask, float, float]:
        """Return the mask, the noise beside it and chi², by fits of pixels that are sharp or not."""
        self.problem.sharp = sharp
        found = mask_of(self.problem, self.options.mask)
        vars(self.problem).pop("smoothed", None)  # large, of other pixels, and of no use after the mask
        return found

    @cached_property
    def iterations(self) -> Iterations:
        """The fits of the image, in the mask: of sharp pixels if the source is compact, or if it needs them."""
        found = self._iterate(self.sharp)
        return self._iterate(sharp=True) if self.noise <= 1 and not self.sharp and found.is_compact else found

    def _iterate(self, sharp: bool) -> Iterations:
        """Return the fits of pixels that are sharp or not."""
        whitened = self.problem.vis.moved(*self.crop.centre, self.noise)
        cropped = ImagingProblem(whitened, self.crop.coords, self.options.device, sharp)
        return Iterations(cropped, self.mask[self.crop.pixels])

    @property
    def is_too_coarse(self) -> bool:
        """Whether its pixels, of a fifth of a beam, show the position of a bright point badly, or may do so."""
        may = not self.options.cell_size and self.noise <= 1
        return may and (self.sharp or self.iterations.largest >= MAX_RESIDUAL)

    @cached_property
    def model(self) -> Real:
        """The image on the grid of the field, before it is smoothed, whitened."""
        return self._on_field(self.iterations.problem.sharpen(self.iterations.best)[0], 1.0)

    @cached_property
    def left(self) -> Residuals:
        """What it leaves of the data."""
        return residuals_of(self.problem, self.model, self.mask, self.options.parameters)

    @cached_property
    def cause(self) -> Cause | None:
        """Why that is more than noise, if it is."""
        return diagnose(self.left)

    @property
    def limited(self) -> bool:
        """Whether something else than noise limits it."""
        return self.cause is not None and self.cause.limits

    def sky(self, bias: Tensor | float = 0.0) -> Real:
        """Return the image in Jy/arcsec², smoothed as the fit does, without a bias."""
        image = self.iterations.problem.smooth(self.iterations.best)[0]
        return self._on_field(image - bias, self.problem.unit)

    def quality(self, bias: Tensor | float = 0.0) -> Quality:
        """Return the quality of that image."""
        return judge(self.problem, self.model, self.sky(bias), self.mask, self.left, self.cause)

    def errors(self, draws: int, seed: int) -> Errors:
        """Return the errors of so many images of simulated noise; NaN without any, and where noise tells nothing."""
        if self.limited or not draws:
            return Errors(0.0, np.full(self.mask.shape, math.nan), math.nan)
        found, bias = self.iterations.bootstrap(draws, seed)
        pixel_flux = self.coords.cell_size**2 * self.problem.unit * self.noise
        scatter = float((found.sum((1, 2)).cpu().double() * pixel_flux).std())
        flux = math.hypot(scatter, float(bias.sum()) * pixel_flux)
        return Errors(bias, self._on_field(found.std(0), self.problem.unit), flux)

    def choices(self) -> tuple[str, ...]:
        """Return what was chosen, and why, a sentence each."""
        coords, beam = self.coords, self.problem.beam
        width, share = coords.npix * coords.cell_size, self.mask.mean()
        count, unit = angular_unit(width)
        size = f"{count * beam.major:.3g} × {count * beam.minor:.3g} {unit}"
        beams = self.mask.sum() * coords.cell_size**2 / beam.area
        doubt = "; faint pieces may be artefacts" if self.limited and share > _WIDE_MASK else ""
        noise = "noise" if self.noise == 1 else f"as those beside it, {self.noise:.2g} times the expected noise"
        iterations = len(self.iterations.images) - 2 + self.iterations.fraction
        return (
            *self.left_out,
            f"field {count * width:.3g} {unit}, {coords.npix} pixels of {count * coords.cell_size:g} {unit}: "
            f"{self.why}",
            f"the mask, where emission is allowed, covers {beams:.0f} beams of {size}, {share:.0%} of the field, "
            f"{'as given' if self.options.mask else 'where the data show a source'}{doubt}",
            f"total variation {TV_STRENGTH:g} times the noise of the gradient; {iterations:.2g} Bregman iterations, "
            f"until the residuals of the source were {noise} (discrepancy principle)",
            *self.notes,
            *filter(None, [negative_emission(self.problem)]),
        )

    def _on_field(self, pixels: Tensor, unit: float) -> Real:
        """Return an image of the crop on the grid of the field, in some unit."""
        image = np.zeros(self.mask.shape)
        image[self.crop.pixels] = pixels.cpu().numpy() * unit * self.noise
        return image
