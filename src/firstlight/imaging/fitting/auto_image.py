"""An image from visibilities, without a knob to turn: where the source is, how smooth it is, and how sure that is.

Positive pixels turn the noise of an empty sky into flux, so emission is allowed only where the data show a source.
Total variation alone would dim what it smooths: what a strong one leaves in the residuals is handed back to the data,
and fitted again, until the residuals of the source are no larger than noise. Then the recipe is run on data that it
makes itself, of the image and fresh noise: how far those images differ is the error of this one, and what they have
more of than they were made from is taken off it.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from scipy.ndimage import binary_propagation
from torch import Tensor
from torch.nn.functional import max_pool2d, softplus

from firstlight.imaging._types import Array, Complex, Mask, Real
from firstlight.imaging.coordinates import GridCoords, packed_to_sky, phase_factor, sky_to_packed
from firstlight.imaging.data.visibilities import Visibilities, check_visibilities, select_baselines
from firstlight.imaging.fitting.descent import fit
from firstlight.imaging.fitting.exact import ExactLikelihood
from firstlight.imaging.fitting.quality import BRIGHT, Quality, judged, rms, short_flux
from firstlight.imaging.fourier.beams import Beam, convolve, fit_beam
from firstlight.imaging.fourier.dirty import DirtyImager
from firstlight.imaging.fourier.limits import suggest_grid
from firstlight.imaging.fourier.padding import fast_fft_size
from firstlight.imaging.model.cubes import DEFAULT_BASE, smooth_columns, smooth_rows
from firstlight.imaging.model.gridded_net import GriddedNet
from firstlight.imaging.model.losses import TV_image
from firstlight.imaging.units import ARCSEC

STRONG, WEAK = 8.0, 4.0  # total variation, in units of what noise alone does to the slope of chi²
LOOKS, ROUNDS, STEPS = 3, 6, 500
DARK = -1e4  # a parameter whose pixel is 0, and stays so
SCALES = (0, 2, 4, 8)  # beams, by which an image is smoothed to see what is faint and wide
SEED, EDGE = 5.0, 2.5  # σ: where a source is found, and how far it reaches
FAINT = 30.0  # σ: of a brighter source, wide light is looked for in what it leaves
FEW = 4  # beams
LARGEST = 4.9  # σ, of what may be left of a source
PART = 0.05  # of the brightest, below which nothing is taken to be its edge


@dataclass(frozen=True, eq=False)
class Rows:
    """What counts of all channels, in one row, in units in which the noise of a beam is 1 Jy/arcsec² bright."""

    u: Real
    v: Real
    data: Complex
    weight: Real

    @property
    def noise(self) -> float:
        """Of an image with natural weights, in units of flux a beam."""
        return math.sqrt(1 / float(self.weight.sum()))

    def moved(self, east: float, north: float) -> Rows:
        """Move what is there to the phase centre."""
        return replace(self, data=self.data * phase_factor(self.u * ARCSEC, self.v * ARCSEC, -east, -north))


class Scene:
    """Rows on a grid: their exact likelihood, the natural beam, and residuals in units of the noise."""

    def __init__(self, rows: Rows, coords: GridCoords, device: torch.device | str) -> None:
        self.rows, self.coords, self.device = rows, coords, device
        self.likelihood = self.likelihood_of(rows.data)
        # A GriddedNet smooths its pixels; here that is undone, since no point source is as wide.
        u, v = (math.pi * coords.cell_size * ARCSEC * axis for axis in (rows.u, rows.v))
        self.sharpened = 1 / (np.cos(u) * np.cos(v)) ** 2
        self.unit = coords.cell_size**2 / rows.noise  # of the residuals that the likelihood has

    def likelihood_of(self, data: Complex, factor: Real | None = None) -> ExactLikelihood:
        """Make one of other data of these rows, one set or several."""
        u, v, weight, coords = self.rows.u, self.rows.v, self.rows.weight, self.coords
        grid = coords.cell_size, coords.npix
        return ExactLikelihood(u, v, data, weight, *grid, factor=factor, device=self.device, progress=False)

    def start(self, mask: Mask, nchan: int) -> Tensor:
        """Make parameters of images that are dark but in a mask, where they are faint."""
        inside = sky_to_packed(torch.as_tensor(mask)[None]).to(self.device)
        return torch.where(inside, DEFAULT_BASE, DARK).repeat(nchan, 1, 1)

    def fit(self, likelihood: ExactLikelihood, parameters: Tensor, strength: float) -> Tensor:
        """Fit from where parameters are, which dark pixels never leave."""
        model = GriddedNet(self.coords, nchan := len(parameters), parameters)
        slope = strength * self.unit / len(self.rows.u)
        fit(
            model,
            likelihood,
            losses={"tv": (slope, partial(TV_image, epsilon=1e-2))},
            optimizer="lbfgs",
            lambdas="exact",
            max_iter=STEPS,
            tolerance=0.02 / len(self.rows.u),  # of the reduced chi²: 0.04 of chi² itself, far less than noise does
            check_every=10,
            separate=nchan > 1,
        )
        return model.bcube.base_cube.detach()

    def brighter(self, image: Tensor, data: Complex) -> Tensor:
        """Find the factor by which each image fits its data best."""
        likelihood = self.likelihood if len(data) == 1 else self.likelihood_of(data)
        seen = likelihood.respond(image)
        squares = (image * seen).sum((1, 2), keepdim=True)
        dirty = likelihood.dirty + likelihood.respond(likelihood.reference)
        return torch.where(squares > 0, (image * dirty).sum((1, 2), keepdim=True) / squares, 1.0)

    def residual(self, image: Tensor) -> Array:
        """Give the dirty image of what an image does not explain, with natural weights, in σ."""
        likelihood = self.likelihood
        left = likelihood.dirty - likelihood.respond(image - likelihood.reference)
        return np.asarray(left[0].cpu().double().numpy()) / self.unit


def smoothed(image: Array, coords: GridCoords, width: float) -> Array:
    """Smooth by a Gaussian of an integral of 1, and of some arcsec at half its maximum."""
    v, u = np.fft.fftfreq(coords.npix, coords.cell_size), np.fft.rfftfreq(coords.npix, coords.cell_size)
    spectrum = np.fft.rfft2(image) * taper(u[None] ** 2 + v[:, None] ** 2, width)
    return np.asarray(np.fft.irfft2(spectrum, s=image.shape))


def taper(squared: Array, width: float) -> Array:
    """Transform that Gaussian: frequencies squared in cycles per arcsec."""
    return np.asarray(np.exp(-((math.pi * width) ** 2) / (4 * math.log(2)) * squared))


def source_in(scene: Scene, beam: Beam, residual: Array, model: Array, before: Mask) -> Mask:
    """Mark where a model and its residuals, in σ, stand out of the noise, at any of a few scales."""
    rows, coords = scene.rows, scene.coords
    shown = convolve(model, coords, beam) / beam.area if before.any() else np.zeros(model.shape)
    source, highest = before & (model > 1), 0.0
    bright = (residual + shown).max() > FAINT
    across = min(beam.major, 2 * beam.minor)  # of a snapshot, a beam can be long
    for width in (scale * across for scale in SCALES):
        lost = taper((rows.u**2 + rows.v**2) * ARCSEC**2, width)
        noise = math.sqrt((rows.weight * lost**2).sum() / rows.weight.sum())
        left = smoothed(residual, coords, width) / noise
        seen = left + smoothed(shown, coords, width) / noise
        if width and (bright or seen.max() < highest):  # smoothed, a narrow source would be a wide one
            if not before.any():
                break
            seen = left
        highest = max(highest, seen.max())
        least = max(PART * seen.max(), -left.min())  # no source is negative: what is as faint may be a sidelobe
        source = source | binary_propagation(seen > max(SEED, least), mask=seen > max(EDGE, least))
    return widened(source, round(across / coords.cell_size))


def widened(mask: Mask, pixels: int) -> Mask:
    """Add what is so many pixels away along either axis, or nearer."""
    around = torch.from_numpy(mask)[None, None].float()
    return np.asarray(max_pool2d(around, 2 * pixels + 1, 1, pixels)[0, 0].bool().numpy())


@dataclass(frozen=True, eq=False)
class Image:
    """An image, how sure it is, and how it was chosen.

    Attributes
    ----------
    sky, error
        (npix, npix) in sky order, in Jy/arcsec²: the image, without residuals, and what noise does to each pixel,
        one σ. What total variation smooths away is not in it.
    model
        What was compared with the data. It is not smoothed over two pixels, and still has what noise adds to pixels
        that cannot be negative, which is taken off the image: as much as images of made data have on average.
    flux, flux_error
        Of the image, in Jy; the error is one σ, of the noise and of what was taken off.
    residual
        The dirty image of what is left, with natural weights, in units of its noise.
    source
        Where light was allowed.
    coords
        The grid.
    beam
        The main lobe of the dirty beam with natural weights, whose noise is ``noise``, in Jy/beam.
    quality
        Whether the residuals are noise, and the flux is what the shortest baselines see.
    choices
        What was chosen, and why, a sentence each.

    Examples
    --------
    >>> from firstlight.imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight.imaging.simulate.skies import Ring
    >>> found = image(with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(n_times=4)), 0.03, seed=1), draws=2)
    >>> found.sky.shape == found.error.shape == found.residual.shape, bool(found.model[~found.source].any())
    (True, False)
    """

    sky: Array
    error: Array
    model: Array
    flux: float
    flux_error: float
    residual: Array
    source: Mask
    coords: GridCoords
    beam: Beam
    noise: float
    quality: Quality
    choices: tuple[str, ...]

    def __str__(self) -> str:
        """Say it in a few lines."""
        return "\n".join([*self.choices, f"flux {self.flux:.4g} ± {self.flux_error:.2g} Jy", str(self.quality)])


def image(
    vis: Visibilities,
    *,
    field: float | None = None,
    draws: int = 16,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Image:
    """Make one image of all channels: where the source is, how smooth, and how sure, is found from the data.

    Parameters
    ----------
    vis
        What was observed. The weights must be right: see `check_weights`.
    field
        The width of the image in arcsec; by default as wide as the source needs.
    draws
        How many images of made data the errors are taken from.
    seed
        Of their noise.
    device
        Where to fit.

    Examples
    --------
    >>> from firstlight.imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight.imaging.simulate.skies import Ring
    >>> seen = with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(n_times=4)), 0.03, seed=1)
    >>> found = image(seen, draws=4)
    >>> abs(found.flux - 0.5) < 0.05, found.residual.std().round()
    (True, np.float64(1.0))
    """
    check_visibilities(vis)
    # In seconds, as float32: so a UVFITS has them, and the same data make the same image, whatever file they were in.
    hertz = vis.frequency[:, None]
    vis = replace(vis, uu=np.float32(vis.uu / hertz) * hertz, vv=np.float32(vis.vv / hertz) * hertz)
    around = source_field(vis, device) if field is None else field
    suggested = suggest_grid(vis, around)
    for finer in (1, 2):  # pixels of a fifth of a beam show the place of a bright point too coarsely
        coords = GridCoords(suggested.cell_size / finer, suggested.npix * finer)
        scene, beam, unit = scene_of(vis, coords, device)
        source = find_source(scene, beam)
        if not source.any():
            most = np.abs(scene.residual(torch.zeros_like(scene.likelihood.reference))).max()
            raise ValueError(
                f"no source is seen: the dirty image has nothing above {SEED:g} times its noise (at most {most:.1f}). "
                "Check the weights (check_weights) and the phase centre, or observe for longer"
            )
        crop, centre, near_coords = cropped(source, coords)
        near, mask = Scene(scene.rows.moved(*centre), near_coords, device), source[crop]
        images = settle(near, near.rows.data[None], mask, ROUNDS, judged=True)
        if np.abs(near.residual(images[-1])[mask]).max() < LARGEST:
            break
    share = least_share(near, images, mask) if len(images) > 1 else 1.0
    best = mixed(images, share)
    # Of the dark pixels as dark as they are in the sky, so that what noise adds to them is seen, too.
    kept = torch.where(best > 1, best, 0)
    made = near.rows.data - near.likelihood.residuals(kept).cpu().numpy() + noise_of(near.rows.weight, draws, seed)
    others = smoothed_pixels(mixed(settle(near, made, mask, len(images)), share))
    added = others.mean(0) - smoothed_pixels(kept)[0]  # by noise, as pixels are not negative
    fluxes = others.sum((1, 2)).cpu().double().numpy() * coords.cell_size**2 * unit
    sky, error, model = np.zeros((3, coords.npix, coords.npix))
    model[crop] = best[0].cpu().numpy() * unit
    sky[crop] = (smoothed_pixels(best)[0] - added).cpu().numpy() * unit
    error[crop] = others.std(0).cpu().numpy() * unit
    full = torch.as_tensor(model / unit, dtype=torch.float32, device=scene.device)[None]
    scene.likelihood.recentre(full)  # for all digits of chi², however strong the source
    residual, count = scene.residual(full), len(scene.rows.u)
    flux = float(sky.sum()) * coords.cell_size**2
    bright = source & (sky > unit)
    # Faint light all over a field can add up to any flux that the shortest baselines do not see.
    shape = np.where(model > BRIGHT * model.max(), model, 0) / unit
    short, short_error = (unit * value for value in short_flux(shape, scene.likelihood, coords, 0))
    chi2 = float(scene.likelihood(full)) / 2 / count
    loud = rms(residual[bright]), rms(residual[~source]), float(np.abs(residual).max())
    beams = bright.sum() * coords.cell_size**2 / beam.area
    return Image(
        sky=sky,
        error=error,
        model=model,
        flux=flux,
        flux_error=math.hypot(fluxes.std(ddof=1), float(added.sum()) * coords.cell_size**2 * unit),
        residual=residual,
        source=source,
        coords=coords,
        beam=beam,
        noise=scene.rows.noise * unit,
        quality=judged(chi2, count, *loud, (flux, short, short_error), beams=beams),
        choices=(
            f"field {coords.npix * coords.cell_size:.3g} arcsec, {coords.npix} pixels of {coords.cell_size:g} arcsec: "
            + ("as asked for" if field else "as the source needs" if around else "all that the shortest baseline sees"),
            f"emission is allowed in {source.sum() * coords.cell_size**2 / beam.area:.0f} beams of {beam.major:.3g} × "
            f"{beam.minor:.3g} arcsec, where the data show a source",
            f"total variation {STRONG:g} times as strong as noise alone would ask for; what it left in the residuals "
            f"was handed back {len(images) - 2 + share:.2g} times, until the residuals of the source were noise",
        ),
    )


def scene_of(vis: Visibilities, coords: GridCoords, device: torch.device | str) -> tuple[Scene, Beam, float]:
    """Put all channels into one row, in units of the noise; give the natural beam, and the unit in Jy/arcsec²."""
    counts = ~vis.flagged
    u, v, data, weight = (getattr(vis, name)[counts] for name in ("uu", "vv", "data", "weight"))
    psf = DirtyImager(coords, u, v, weight, data.real, data.imag).get_dirty_beam("natural")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a rough size of the beam is all that is needed
        beam = fit_beam(psf, coords.cell_size)
    unit = float(weight.sum()) ** -0.5 / beam.area
    return Scene(Rows(u, v, data / unit, weight * unit**2), coords, device), beam, unit


def source_field(vis: Visibilities, device: torch.device | str) -> float | None:
    """Look coarsely at all that the shortest baseline can see, and take a field two and a half times the source."""
    reach = float(np.quantile(vis.lengths.max(axis=0), 0.25))
    short = select_baselines(vis, longest=reach)
    coords = suggest_grid(short)
    try:
        scene, beam, _ = scene_of(short, coords, device)
    except ValueError:  # so few baselines have no beam
        return None
    source = find_source(scene, beam)
    if not source.any():
        return None  # all baselines together may see more
    half = coords.npix / 2
    far = max(np.abs(axis + 0.5 - half).max() for axis in np.nonzero(source))
    return float(min(2.5 * far, coords.npix) * coords.cell_size)


def find_source(scene: Scene, beam: Beam) -> Mask:
    """Mark where the source is: by what is seen of it, then by what a fit of that leaves."""
    shape = (1, scene.coords.npix, scene.coords.npix)
    found = torch.zeros(shape, device=scene.device)
    source, sharp = np.zeros(shape[1:], bool), scene.likelihood_of(scene.rows.data, scene.sharpened)
    for look in range(LOOKS):
        if look:
            found = pixels(scene.fit(sharp, scene.start(source, 1), WEAK))
        image = smoothed_pixels(found)[0].cpu().double().numpy()
        source = source_in(scene, beam, scene.residual(found), image, source)
        if not source.any():
            break
    return source


def cropped(source: Mask, coords: GridCoords) -> tuple[tuple[slice, slice], tuple[float, float], GridCoords]:
    """Give the part of a grid that holds a source: where it is, its centre in arcsec east and north, and its grid."""
    spans = [(int(axis.min()), int(axis.max()) + 1) for axis in np.nonzero(source)]
    npix = min(fast_fft_size(max(end - start for start, end in spans) + 4), coords.npix)
    first = [min(max((start + end - npix) // 2, 0), coords.npix - npix) for start, end in spans]
    half, cell = coords.npix // 2, coords.cell_size
    north, east = (first[0] + npix // 2 - half) * cell, (half - 1 - (first[1] + npix // 2 - 1)) * cell
    return (slice(first[0], first[0] + npix), slice(first[1], first[1] + npix)), (east, north), GridCoords(cell, npix)


def settle(scene: Scene, data: Complex, mask: Mask, rounds: int, judged: bool = False) -> list[Tensor]:
    """Fit, hand what is left back to the data, and fit again: till the residuals of the source are those of noise."""
    likelihood, images, least = scene.likelihood_of(data, scene.sharpened), [], math.inf
    parameters = scene.start(mask, len(data))
    for _ in range(rounds):
        parameters = scene.fit(likelihood, parameters, STRONG)
        image = pixels(parameters)
        image = scene.brighter(image, data) * image
        before, least = least, rms(scene.residual(image)[mask])
        if judged and least > 0.98 * before:
            break  # what is handed back no longer helps
        images.append(image)
        if judged and is_noise(scene.residual(image), image, mask):
            break
        likelihood.replace(data + likelihood.residuals(smoothed_pixels(image)).cpu().numpy())
    return images


def is_noise(residual: Array, image: Tensor, mask: Mask) -> bool:
    """Tell whether residuals are as small as noise where an image is bright, and nowhere in the mask above it."""
    bright = mask & (image[0] > 1).cpu().numpy()
    return rms(residual[bright]) <= 1 and float(np.abs(residual[mask]).max()) <= LARGEST


def least_share(scene: Scene, images: list[Tensor], mask: Mask) -> float:
    """Find how much of the last image must be mixed with the one before for residuals like noise, and no quieter."""
    bright = (images[-1][0] > 1).sum().item() * scene.coords.cell_size**2
    if bright < FEW * scene.rows.noise:
        return 1.0  # of so few beams, the residuals tell nothing
    before, after = (scene.residual(one) for one in images[-2:])
    for share in np.linspace(0, 1, 1001)[:-1]:
        mixture = share * images[-1] + (1 - share) * images[-2]
        if is_noise(share * after + (1 - share) * before, mixture, mask):
            return float(share)
    return 1.0


def mixed(images: list[Tensor], share: float) -> Tensor:
    """Take the last image, and of the one before it what is not the last one's share."""
    return images[-1] if len(images) == 1 else share * images[-1] + (1 - share) * images[-2]


def pixels(parameters: Tensor) -> Tensor:
    """Make what a `GriddedNet` smooths."""
    return packed_to_sky(softplus(parameters))


def smoothed_pixels(images: Tensor) -> Tensor:
    """Smooth as a `GriddedNet` does."""
    return smooth_columns(smooth_rows(images))


def noise_of(weight: Real, draws: int, seed: int) -> Complex:
    """Draw noise of these weights, so many times."""
    parts = np.random.default_rng(seed).normal(size=(2, draws, len(weight))) / np.sqrt(weight)
    return np.asarray(parts[0] + 1j * parts[1])
