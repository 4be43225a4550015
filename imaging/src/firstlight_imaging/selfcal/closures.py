"""Closure phases and log closure amplitudes: what visibilities tell of a sky whatever the antennas' gains are.

Around a loop of baselines the antennas' phases cancel, and combinations of log amplitudes in which every antenna has
the weight 0 don't know of their amplitudes. Of each stretch of time, a full and independent set of both is taken: a
loop for each baseline outside a tree of baselines (triangles, where all antennas see each other), and the log
amplitudes that are orthogonal, in units of their noise, to all that amplitudes of gains can do. A stretch is as long as
the field allows: products around loops are averaged over it, as no gain turns their phases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from scipy.ndimage import binary_fill_holes, gaussian_filter, maximum_filter
from scipy.optimize import minimize
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from firstlight_imaging._types import Ints, Mask, Real
from firstlight_imaging.automatic.grid import leave_out_intra_site
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.data.weights import trusted
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.fitting.quality import EXCESS, SOURCE_FLOOR, short_baseline_amplitude
from firstlight_imaging.fourier.limits import EARTH_ROTATION_RATE, suggest_grid
from firstlight_imaging.fourier.nufft import COMPLEX
from firstlight_imaging.model.losses import TSV
from firstlight_imaging.units import ARCSEC, angle_text, unit_meant

_MIN_SNR = 3.0  # of a visibility whose phase and log amplitude are nearly normal
_SYSTEMATIC = 0.02  # relative to a visibility: what polarisation leaks into it, and gains that change in an integration
_SMEARING = 0.1  # turns of a fringe from edge to edge of a field, while closure quantities are averaged
_PIXELS = 48  # seven a beam of the EHT, whose shortest baseline is a seventh of its longest
_PRIOR_WIDTH = 3 / 8  # of the field: of the Gaussian that an image is at first, and is drawn to
_STEPS = 120  # of L-BFGS, in each of the rounds
_MAX_CHI2 = 3.0  # reduced, of phases or of amplitudes: twice that of a sky that is right, and data with some errors
_MAX_BYTES = 4e9  # of the two phase factors of each visibility and pixel, while they are made, and of L-BFGS's history
_SCALE = 0.1  # how well amplitudes are calibrated on the whole, relatively
# An ensemble has an image of each of these fields, strengths of smoothness (relative to the next line) and entropy.
_FIELDS, _SMOOTHNESS, _ENTROPY = (1.0, 0.75, 0.5625), (6.0, 24.0), (0.3, 1.0)
# Rings of these radii, in fields, are starts of further ones if its own show no ring.
_ROUNDS, _FLUX, _RINGS = (6.0, 2.0, 1.0), 0.03, (0.2, 0.25)
_MAX_EXCESS = 1.25  # of chi² over the best one's, or over 1, of an image that fits
_MIN_IMAGES = 3  # that fit, and show whether they agree
_MIN_AGREEMENT = 0.9  # normalized cross-correlation with the mean: the EHT's papers say of 0.9 and more that it is one
_FAINT = 0.1  # of the peak: what is brighter is structure
_SAME_PLACE = 5  # pixels, two thirds of a beam
_MIN_HOLE, _MIN_DEPTH = 0.05, 0.3  # of the peak, and of its rim, by which a hole lies below its rim's faintest part
_SOME, _MOST = 0.25, 0.75  # parts of the images: fewer than the first have no structure, more than the other have it


class ClosureLikelihood:
    """chi² of the closure phases and log closure amplitudes of visibilities, for an image of any total flux.

    Parameters
    ----------
    vis
        What was observed, with its antennas and times.
    coords
        The grid of the image.
    dtype, device
        Where and in what to compute.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Point
    >>> vis = with_noise(observe([Point(1.0)], uv_track(alma_antennas()[:8], n_times=3)), 0.01, seed=0)
    >>> likelihood = ClosureLikelihood(vis, GridCoords(0.1, 8))
    >>> likelihood.nphases, likelihood.namplitudes  # of 8 antennas, 21 triangles and 20 quadrangles, three times
    (63, 60)
    """

    def __init__(
        self,
        vis: Visibilities,
        coords: GridCoords,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.coords = coords
        scans = list(_scans(vis, coords.npix * coords.cell_size * ARCSEC))
        if not any(len(scan.phases) for scan in scans):
            raise ValueError("no three antennas see the source at one time, so there is no closure phase")
        uv, log_data, phases, phase_weight, amplitudes = map(np.concatenate, list(zip(*scans, strict=True))[:5])
        _check_memory(len(uv), coords)
        axis = (np.arange(coords.npix) - coords.npix // 2) * coords.cell_size * ARCSEC
        axes = axis[::-1] - (1 - coords.npix % 2) * coords.cell_size * ARCSEC, axis
        self.east, self.north = (
            torch.as_tensor(np.exp(-2j * math.pi * np.outer(part, at))).to(device, COMPLEX[dtype])
            for part, at in zip(uv.T, axes, strict=True)
        )
        self.log_data, self.phases, self.phase_weight, self.amplitudes = (
            torch.as_tensor(part).to(device, dtype) for part in (log_data, phases, phase_weight, amplitudes)
        )
        self.loops, self.combinations = (
            _sparse([getattr(scan, name) for scan in scans]).to(device, dtype) for name in ("loops", "combinations")
        )
        self.nphases, self.namplitudes = len(phases), len(amplitudes)

    def visibilities(self, image: Tensor) -> Tensor:
        """Return the visibilities of an image, (npix, npix) in sky order, at the data that count."""
        seen: Tensor = ((self.north @ image.to(self.north.dtype)) * self.east).sum(1)
        return seen * self.coords.cell_size**2

    def terms(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return the reduced chi² of the phases and of the amplitudes of an image, (npix, npix)."""
        log = self.visibilities(image).log()
        phases = self.loops @ log.imag - self.phases
        amplitudes = self.combinations @ log.real - self.amplitudes
        amplitude_chi2 = amplitudes.square().sum() / max(1, self.namplitudes)
        return (2 * self.phase_weight * (1 - phases.cos())).mean(), amplitude_chi2

    def scale(self, image: Tensor) -> Tensor:
        """Return the log of the factor by which an image is too faint for the amplitudes on the whole."""
        return (self.log_data - self.visibilities(image).log().real).median()

    def __call__(self, image: Tensor) -> Tensor:
        """Return chi², the sum over phases and amplitudes."""
        phases, amplitudes = self.terms(image)
        return phases * self.nphases + amplitudes * self.namplitudes


def _sparse(blocks: list[Real]) -> Tensor:
    """Return a sparse matrix with blocks along its diagonal."""
    whole = sparse.block_diag(blocks).tocoo()
    at = torch.as_tensor(np.stack([whole.row, whole.col]), dtype=torch.int64)
    return torch.sparse_coo_tensor(at, torch.as_tensor(whole.data), whole.shape, check_invariants=False).coalesce()


class _Scan(NamedTuple):
    """What closes in one stretch of time and one channel: u and v and log amplitudes of each baseline, and the rest."""

    uv: Real
    log_data: Real
    phases: Real
    phase_weight: Real
    amplitudes: Real
    loops: Real
    combinations: Real


def _scans(vis: Visibilities, field: float) -> Iterator[_Scan]:
    """Yield means of closure quantities over times in which no baseline turns by much of the fringe of a field."""
    if not vis.antennas.any():
        raise ValueError("the data do not say which antennas saw them, so nothing closes")
    span = _SMEARING / (field * EARTH_ROTATION_RATE * float(vis.lengths[~vis.flagged].max()))
    for rows in _stretches(vis, span):
        for channel in range(len(vis.data)):
            scan = _scan(vis, channel, rows)
            if scan is not None:
                yield scan


def _stretches(vis: Visibilities, span: float) -> Iterator[Ints]:
    """Yield the rows between two antennas of each stretch of time in an execution, of so many seconds at most."""
    rows = np.flatnonzero(vis.antennas[:, 0] != vis.antennas[:, 1])
    rows = rows[np.lexsort((vis.time[rows], vis.execution[rows]))]
    while rows.size:
        together = (vis.execution[rows] == vis.execution[rows[0]]) & (vis.time[rows] <= vis.time[rows[0]] + span)
        yield rows[together]
        rows = rows[~together]


def _scan(vis: Visibilities, channel: int, rows: Ints) -> _Scan | None:
    """Return the closure quantities of a stretch of time, in which gains turn, but hardly grow."""
    pairs, column = np.unique(vis.antennas[rows], axis=0, return_inverse=True)
    times, line = np.unique(vis.time[rows], return_inverse=True)
    table = np.zeros((4, len(times), len(pairs)), complex)
    unflagged = ~vis.flagged[channel, rows]
    parts = (part[channel, rows] for part in (vis.data, vis.weight, vis.uu, vis.vv))
    for number, part in enumerate(parts):
        table[number, line, column.ravel()] = np.where(unflagged, part, 0)
    data, (weight, u, v) = table[0], table[1:].real
    total = np.maximum(weight.sum(axis=0), 1e-300)
    power = ((weight * np.abs(data) ** 2).sum(axis=0) - 2 * (weight > 0).sum(axis=0)) / total  # without that of noise
    seen = power * total > _MIN_SNR**2
    if not seen.any():
        return None
    data, weight, power, total = data[:, seen], weight[:, seen], power[seen], total[seen]
    u, v = ((weight * part[:, seen]).sum(axis=0) / total for part in (u, v))
    first, second = np.unique(pairs[seen], return_inverse=True)[1].reshape(-1, 2).T
    noise = 2 / np.maximum(power * weight, 1e-9)  # over signal, in power
    loops = _loops(first, second)
    unit = data / np.sqrt(power)
    factors = [np.where(loop > 0, unit, np.where(loop < 0, unit.conj(), 1)) for loop in loops]
    bispectrum = np.prod(factors or np.zeros((0, *unit.shape)), axis=2).T
    # The noise of a product of visibilities, from those of its factors.
    each = 2 / np.expm1(np.log1p(noise) @ np.abs(loops).T)
    phases = np.angle((bispectrum * each).sum(axis=0))
    closed = each.sum(axis=0) > 1
    phase_weight = 1 / (1 / each.sum(axis=0) + _SYSTEMATIC**2 * np.abs(loops).sum(axis=1))
    error = np.sqrt((1 + 1 / (power * total / (weight > 0).sum(axis=0))) / (power * total) + _SYSTEMATIC**2)
    combinations = _closed_log_amplitudes(first, second, error)
    log_data = np.log(power) / 2
    found = phases[closed], phase_weight[closed], combinations @ log_data, loops[closed], combinations
    return _Scan(np.stack([u, v], 1), log_data, *found)


def _loops(first: Ints, second: Ints) -> Real:
    """Return loops of baselines, a row each: 1 or -1 for each baseline, along it or against it."""
    n = int(max(first.max(), second.max())) + 1
    incidence = np.eye(n)[first] - np.eye(n)[second]
    hub = np.abs(incidence).sum(axis=0).argmax()  # all of whose baselines are in the tree: others close triangles
    graph = sparse.coo_array((np.where(incidence[:, hub], 1, 2), (first, second)), (n, n))
    pairs, places = np.unique(n * first + second, return_index=True)
    row, column = minimum_spanning_tree(graph).nonzero()
    tree = places[np.isin(pairs, n * row + column)]
    loops = np.delete(np.eye(len(first)), tree, axis=0)
    loops[:, tree] = -np.round(np.delete(incidence, tree, axis=0) @ np.linalg.pinv(incidence[tree]))
    return np.asarray(loops)


def _closed_log_amplitudes(first: Ints, second: Ints, error: Real) -> Real:
    """Return combinations of log amplitudes, a row each with a noise of 1, that no antenna's amplitude changes."""
    gains = np.zeros((len(first), int(max(first.max(), second.max())) + 1))
    for antenna in (first, second):
        gains[np.arange(len(first)), antenna] = 1 / error
    left, values, _ = np.linalg.svd(gains, full_matrices=True)
    return np.asarray(left[:, int((values > 1e-9 * values[0]).sum()) :].T / error)


@dataclass(frozen=True, eq=False)
class ClosureImage:
    """An image of closure quantities: the mean of an ensemble, whose images differ in all that nobody knows.

    Attributes
    ----------
    sky
        (npix, npix) in sky order, in Jy/arcsec².
    coords
        Its grid, around the middle of the source, wherever that is: closure quantities know no position.
    flux
        In Jy, by which the amplitudes on the baselines that were imaged fit best; it is as right as their calibration.
        NaN where it is far above what the shortest baselines see, as closure quantities know no flux, or chi² above 1.
    phase_chi2, amplitude_chi2
        The reduced chi² of closure phases and of log closure amplitudes: the median of the images that fit.
    images
        Those that fit, (n, npix, npix), aligned and each of a sum of 1.
    tried
        How many there were.
    ring_fits
        Whether, of images that show no ring, one that began as a ring kept it and fits as well.

    Examples
    --------
    >>> print(ClosureImage(np.ones((8, 8)), GridCoords(0.1, 8), flux=0.64, phase_chi2=1.0, amplitude_chi2=0.9,
    ...                    images=np.ones((11, 8, 8)) / 64, tried=12))
    closure quantities: reduced chi² 1 of the phases, 0.9 of the amplitudes; flux 0.64 Jy, ...
    """

    sky: Real
    coords: GridCoords
    flux: float
    phase_chi2: float
    amplitude_chi2: float
    images: Real
    tried: int
    ring_fits: bool = False

    @property
    def agreement(self) -> float:
        """The median of the normalized cross-correlations of the images with their mean, 1 if all are the same."""
        mean = self.images.mean(axis=0)
        norms = np.linalg.norm(self.images, axis=(1, 2)) * np.linalg.norm(mean)
        return float(np.median((self.images * mean).sum(axis=(1, 2)) / norms))

    @property
    def scatter(self) -> Real:
        """The standard deviation of the images in each pixel, in Jy/arcsec²."""
        return np.asarray(self.images.std(axis=0) * self.sky.sum())

    @property
    def is_disputed(self) -> Mask:
        """Where there is structure, a tenth of an image's peak or more, in only some of the images."""
        share = (self.images > _FAINT * self.images.max(axis=(1, 2), keepdims=True)).mean(axis=0)
        return np.asarray((share > _SOME) & (share < _MOST))

    @cached_property
    def holes(self) -> Real:
        """How far each image falls, inside the hole that most have, below its rim's faintest part, over its peak."""
        depths = np.array([maximum_filter(_depth(image), _SAME_PLACE) for image in self.images])
        return np.asarray(depths[(..., *np.unravel_index(depths.mean(axis=0).argmax(), self.sky.shape))])

    @property
    def has_ring(self) -> bool | None:
        """Whether the images show a ring, a hole with a rim that goes all around; None, if only some do."""
        share = (self.holes > _MIN_HOLE).mean()
        return None if _SOME < share < _MOST else bool(share > 0.5)

    @property
    def verdict(self) -> str:
        """What to call it, in a word or two (a ring, no ring, doubtful)."""
        return "doubtful" if self.doubts else "a ring" if self.has_ring else "no ring"

    @property
    def results(self) -> dict[str, float | str]:
        """What the summary says, for programs. Angles are in arcsec, and fluxes in Jy."""
        return {
            "verdict": self.verdict,
            "flux": self.flux,
            "phase_chi2": self.phase_chi2,
            "amplitude_chi2": self.amplitude_chi2,
            "images_tried": self.tried,
            "images_that_fit": len(self.images),
            "agreement": self.agreement,
            "images_with_a_hole": int((self.holes > _MIN_HOLE).sum()),
            "hole": float(self.holes.mean()),
            "hole_scatter": float(self.holes.std()),
            "cell_size": self.coords.cell_size,
            "npix": self.coords.npix,
        }

    @property
    def doubts(self) -> list[str]:
        """What speaks against believing the image, which is nothing for a good one."""
        if not _fits(self.phase_chi2, self.amplitude_chi2):
            return [
                "this is no image to trust, as it does not fit the closure quantities, and no gain of an antenna is "
                "the reason. Try another --field, or each window by itself (--spw of a measurement set, else "
                "--channels)"
            ]
        doubts = []
        if len(self.images) < _MIN_IMAGES:
            doubts.append("too few images fit to say whether they agree: try another --field")
        elif self.agreement < _MIN_AGREEMENT:
            doubts.append("the images fit as well as each other and do not agree, so the data do not decide")
        if self.has_ring is None:
            doubts.append("only some of the images show a ring")
        elif self.ring_fits:
            doubts.append("these images show no ring, but one that began as a ring kept it and fits as well")
        return doubts

    def __str__(self) -> str:
        """Return a summary, and a verdict."""
        fits, flux = _fits(self.phase_chi2, self.amplitude_chi2), "flux not known"
        if not math.isnan(self.flux):
            flux = f"flux {self.flux:.3g} Jy, as right as the amplitudes are calibrated"
        elif fits:
            pixels = self.sky.sum() * self.coords.cell_size**2
            flux += f": the pixels add up to {pixels:.3g} Jy, far more than the shortest baselines see"
        lines = [
            f"closure quantities: reduced chi² {self.phase_chi2:.3g} of the phases, {self.amplitude_chi2:.3g} of the "
            f"amplitudes; {flux}"
        ]
        if fits:
            lines += self._told()
        return "\n".join([*lines, *(f"doubtful: {doubt}" for doubt in self.doubts)])

    def _told(self) -> list[str]:
        """Return what the ensemble shows."""
        number, holes = len(self.images), self.holes
        disputed = self.sky[self.is_disputed].sum() / self.sky.sum()
        return [
            f"ensemble: {number} of {self.tried} images fit, of other fields, smoothness, entropy and starts; this is "
            f"their mean, with which they agree by {self.agreement:.2f}; {disputed:.0%} of its flux is in structure "
            "that only some have",
            f"{self.verdict}: {(holes > _MIN_HOLE).sum()} of {number} images have a hole, which lies "
            f"{np.mean(holes):.2f} ± {np.std(holes):.2f} of the peak below the faintest part of its rim",
        ]


def _fits(*chi2: float) -> bool:
    """Return whether an image with such a reduced chi² of phases and of amplitudes may be one."""
    return max(chi2) < _MAX_CHI2


def _depth(image: Real) -> Real:
    """Return how deep the holes of an image are below the faintest parts of their rims, over the image's peak."""
    image = image / image.max()
    filled = image.copy()  # as by rain, up to the lowest way out
    for level in np.arange(0.02, 1, 0.02):
        bright = image > level
        filled[binary_fill_holes(bright) & ~bright] = level
    return np.asarray(np.where(filled - image > _MIN_DEPTH * filled, filled - image, 0))


def closure_image(vis: Visibilities, *, field: float | None = None, device: torch.device | str = "cpu") -> ClosureImage:
    """Return an image that fits closure phases and closure amplitudes, of data whose gains nobody knows.

    Many images fit them. So a dozen are made, in fields of other widths, by other regularizers and from other starts;
    the result is the mean of those that fit, and says how far they agree.

    Parameters
    ----------
    vis
        What was observed, with its antennas and times. If its weights weren't checked before, they are now (`trusted`).
    field
        The width of the image in arcsec; by default the fringe of the shortest baseline between sites.
    device
        Where to fit.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Ring
    >>> track = uv_track(alma_antennas()[::5], n_times=12)
    >>> found = closure_image(with_noise(observe([Ring(0.5, 0.2, 0.06)], track), 0.002, seed=0), field=1.0)
    >>> bool(found.phase_chi2 < 2), abs(found.flux - 0.5) < 0.05, found.has_ring
    (True, True, True)
    """
    every, _ = trusted(vis)
    vis, _ = leave_out_intra_site(every)
    grid = suggest_grid(vis, field)
    width = field or 1 / float(vis.lengths[~vis.flagged & (vis.lengths > 0)].min()) / ARCSEC
    cell = min(grid.cell_size, width / _PIXELS)
    grids = [GridCoords(cell, 2 * math.ceil(part * width / cell / 2 * (1 - 1e-9))) for part in _FIELDS]
    likelihoods = [ClosureLikelihood(vis, coords, device=device) for coords in grids]
    strengths = [smoothness * (grids[0].npix / _PIXELS) ** 4 for smoothness in _SMOOTHNESS]
    whole, coords, ways = likelihoods[0], grids[0], enumerate(product(likelihoods, strengths, _ENTROPY))
    made, terms, chi2 = _made(whole, [(*how, seed, 0.0) for seed, how in ways])
    fits = (terms.max(axis=1) < _MAX_CHI2) & (chi2 < _MAX_EXCESS * max(1.0, chi2.min())) | (chi2 == chi2.min())
    images = _aligned([made[i].double().cpu().numpy() for i in np.flatnonzero(fits)])
    image = torch.as_tensor(images.mean(axis=0)).float().to(device)
    phase_chi2, amplitude_chi2 = np.median(terms[fits], axis=0).tolist()
    sky = (image * whole.scale(image).exp()).double().cpu().numpy()
    flux = float(sky.sum()) * cell**2
    known = _fits(phase_chi2, amplitude_chi2) and flux < EXCESS * _short_flux(every, sky, coords)
    found = ClosureImage(sky, coords, flux if known else math.nan, phase_chi2, amplitude_chi2, images, len(made))
    if found.has_ring is False:
        rings, _, of_rings = _made(whole, list(product(likelihoods[:2], strengths[-1:], _ENTROPY[-1:], [0], _RINGS)))
        deep = np.array([_depth(ring.double().cpu().numpy()).max() > _MIN_HOLE for ring in rings])
        found = replace(found, ring_fits=bool((deep & (of_rings < _MAX_EXCESS * max(1.0, chi2.min()))).any()))
    return found


def _made(whole: ClosureLikelihood, ways: list[tuple[Any, ...]]) -> tuple[list[Tensor], Real, Real]:
    """Return images, on the grid of the whole field, the reduced chi² of their phases and amplitudes, and of both."""
    images = [_one_image(*how) for how in tqdm(ways, desc="closures", leave=False, disable=None)]
    images = [functional.pad(image, 4 * [(whole.coords.npix - len(image)) // 2]) for image in images]
    terms = np.array([[float(term) for term in whole.terms(image)] for image in images])
    return images, terms, terms @ [whole.nphases, whole.namplitudes] / (whole.nphases + whole.namplitudes)


def _aligned(images: list[Real]) -> Real:
    """Return images, each of a sum of 1, shifted by whole pixels to where they are most like their mean."""
    shifted = np.stack([image / image.sum() for image in images])
    for target in (shifted[0].copy(), None):
        like = shifted.mean(axis=0) if target is None else target
        alike = np.fft.ifft2(np.fft.fft2(shifted) * np.fft.fft2(like).conj()).real
        for i, one in enumerate(alike):
            shifted[i] = np.roll(shifted[i], [-int(at) for at in np.unravel_index(one.argmax(), one.shape)], (0, 1))
    return shifted


def _short_flux(vis: Visibilities, sky: Real, coords: GridCoords) -> float:
    """Return the flux that the shortest baselines see, those within a site, too."""
    u, v, data, weight = vis.unflagged
    seen = ExactLikelihood(u, v, data, weight, cell_size=coords.cell_size, npix=coords.npix)
    bright = np.where(sky > SOURCE_FLOOR * sky.max(), sky, 0)
    return short_baseline_amplitude(bright, seen, 0)[0]


def _check_memory(nvis: int, coords: GridCoords) -> None:
    """Raise an error if an image takes too much memory."""
    per_column, per_pixel = 40.0 * nvis, 4.0 * 50  # complex128 and what it is made of; 50 images in float32
    width = coords.npix * coords.cell_size
    if coords.npix * (per_column + per_pixel * coords.npix) > _MAX_BYTES:
        most = (math.hypot(per_column, 2 * math.sqrt(per_pixel * _MAX_BYTES)) - per_column) / (2 * per_pixel)
        raise ValueError(
            f"a field of {angle_text(width)} needs {coords.npix} x {coords.npix} pixels for "
            f"{nvis} visibilities, which take more than {_MAX_BYTES / 1e9:g} GB: take a field of "
            f"{angle_text(most * coords.cell_size)} or less{unit_meant(width, most * coords.cell_size)}, average the "
            "data, or leave out the longest baselines (select_baselines)"
        )


def _image_of(parameters: Tensor, coords: GridCoords) -> Tensor:
    """Return the image of the logits of its pixels, and of the log of its flux."""
    shape = parameters[:-1].softmax(0).view(coords.npix, coords.npix)
    return shape * parameters[-1].exp() / coords.cell_size**2


def _one_image(of: ClosureLikelihood, smoothness: float, entropy: float, seed: int, ring: float) -> Tensor:
    """Return the image with the least chi² plus regularizers, from clouds of its own, or a ring of such a radius."""
    coords = of.coords
    device, width = of.log_data.device, coords.npix * coords.cell_size
    east, north = (torch.as_tensor(part.copy()).float().to(device) for part in coords.sky_coordinates())
    prior = -4 * math.log(2) * (east**2 + north**2) / (_PRIOR_WIDTH * width) ** 2
    prior = prior - prior.logsumexp((0, 1))
    clouds = gaussian_filter(np.random.default_rng(seed).normal(size=prior.shape), coords.npix / 12)
    start = prior + torch.as_tensor(clouds / clouds.std()).float().to(device)
    if ring:
        off = (torch.hypot(east, north) / (ring * width) - 1) / 0.6
        start = torch.logaddexp(-4 * math.log(2) * off**2, prior - prior.max() - 4)
    parameters = torch.cat([start.flatten(), of.log_data.quantile(0.9)[None]])
    for factor in _ROUNDS:
        parameters = _fit(of, parameters, prior, factor * smoothness, min(2.0, factor) * entropy)
    return _image_of(parameters, coords)


def _fit(likelihood: ClosureLikelihood, start: Tensor, prior: Tensor, smoothness: float, entropy: float) -> Tensor:
    """Return the parameters of the image with the least chi² plus regularizers."""
    coords, unit = likelihood.coords, likelihood.log_data.median().exp()

    def loss(values: Real) -> tuple[float, Real]:
        parameters = torch.as_tensor(values).to(start).requires_grad_()
        image = _image_of(parameters, coords)
        phases, amplitudes = likelihood.terms(image)
        # Fringes know nothing of a halo that they resolve: of all images that fit, one of little flux is taken.
        off = (likelihood.visibilities(image).log().real - likelihood.log_data).clamp(-3, 3).mean() / _SCALE
        pixels = image * coords.cell_size**2 / unit
        share = pixels / pixels.sum()
        surprise = (share * (share.clamp(min=1e-30).log() - prior)).sum()
        total: Tensor = (
            phases + amplitudes + off**2 + entropy * surprise + smoothness * TSV(pixels[None]) + _FLUX * pixels.sum()
        )
        total.backward()  # type: ignore[no-untyped-call]
        assert parameters.grad is not None
        return float(total.detach()), parameters.grad.double().cpu().numpy()

    options = {"maxiter": _STEPS, "maxcor": 20}
    found = minimize(loss, start.double().cpu().numpy(), jac=True, method="L-BFGS-B", options=options)
    return torch.as_tensor(found.x).to(start)
