"""Closure phases and log closure amplitudes: what visibilities tell of a sky whatever the antennas' gains are.

Around a loop of baselines the antennas' phases cancel, and combinations of log amplitudes in which every antenna has
the weight 0 don't know of their amplitudes. Of each integration, a full and independent set of both is taken: a loop
for each baseline outside a tree of baselines (triangles, where all antennas see each other), and the log amplitudes
that are orthogonal, in units of their noise, to all that amplitudes of gains can do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor
from tqdm import tqdm

from firstlight_imaging._types import Ints, Real
from firstlight_imaging.automatic.grid import leave_out_intra_site
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.fitting.exact import ExactLikelihood
from firstlight_imaging.fitting.quality import EXCESS, SOURCE_FLOOR, short_baseline_amplitude
from firstlight_imaging.fourier.limits import suggest_grid
from firstlight_imaging.fourier.nufft import COMPLEX
from firstlight_imaging.model.losses import TSV
from firstlight_imaging.units import ARCSEC, angle_text, unit_meant

_MIN_SNR = 3.0  # of a visibility whose phase and log amplitude are nearly normal
_SYSTEMATIC = 0.02  # relative to a visibility: what polarisation leaks into it, and gains that change in an integration
_PIXELS = 64
_PRIOR_WIDTH = 1 / 3  # of the field: of the Gaussian that an image is at first, and is drawn to
_STEPS = 300  # of L-BFGS, in each of the rounds
_MAX_CHI2 = 3.0  # reduced, of phases or of amplitudes: twice that of a sky that is right, and data with some errors
_MAX_BYTES = 4e9  # of the two phase factors of each visibility and pixel, while they are made, and of L-BFGS's history
_SCALE = 0.1  # how well amplitudes are calibrated on the whole, relatively
# How strongly an image is drawn to be smooth and to the prior, in each round, and to have little flux. With 24 and 0.2
# in the last round, weights that are a fifth larger split M87*'s ring in two.
_SMOOTHNESS, _ENTROPY, _FLUX = (240.0, 80.0, 40.0), (0.6, 0.4, 0.3), 0.03


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
        channel, row = _bright(vis)
        axis = (np.arange(coords.npix) - coords.npix // 2) * coords.cell_size * ARCSEC
        self.east, self.north = (
            torch.as_tensor(np.exp(-2j * math.pi * np.outer(part[channel, row], at))).to(device, COMPLEX[dtype])
            for part, at in ((vis.uu, axis[::-1] - (1 - coords.npix % 2) * coords.cell_size * ARCSEC), (vis.vv, axis))
        )
        data, weight = vis.data[channel, row], vis.weight[channel, row]
        error = np.sqrt(1 / (weight * np.abs(data) ** 2) + _SYSTEMATIC**2)
        loops, combinations = [], []
        for rows, first, second in _integrations(vis, channel, row):
            loops.append((rows, _loops(first, second)))
            combinations.append((rows, _closed_log_amplitudes(first, second, error[rows])))
        if not sum(len(block) for _, block in loops):
            raise ValueError("no three antennas see the source at one time, so there is no closure phase")
        self.loops, self.combinations = (_sparse(blocks, len(data)) for blocks in (loops, combinations))
        variance = torch.as_tensor(error**2)
        numbers = (
            self.loops @ torch.as_tensor(np.angle(data)),
            1 / ((self.loops * self.loops) @ variance),
            self.combinations @ torch.as_tensor(np.log(np.abs(data))),
        )
        self.phases, self.phase_weight, self.amplitudes = (part.to(device, dtype) for part in numbers)
        self.loops, self.combinations = self.loops.to(device, dtype), self.combinations.to(device, dtype)
        self.log_data = torch.as_tensor(np.log(np.abs(data))).to(device, dtype)
        self.nphases, self.namplitudes = len(self.loops), len(self.combinations)

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


def _sparse(parts: list[tuple[Ints, Real]], ncolumns: int) -> Tensor:
    """Return a sparse matrix of blocks, each with its columns."""
    blocks = []
    for columns, block in parts:
        row, column = np.nonzero(block)
        blocks.append(sparse.coo_array((block[row, column], (row, columns[column])), (len(block), ncolumns)))
    whole = sparse.vstack(blocks).tocoo()
    at = torch.as_tensor(np.stack([whole.row, whole.col]))
    return torch.sparse_coo_tensor(at, torch.as_tensor(whole.data), whole.shape, check_invariants=False).coalesce()


def _bright(vis: Visibilities) -> tuple[Ints, Ints]:
    """Return channels and rows of the visibilities with enough signal."""
    if not vis.antennas.any():
        raise ValueError("the data do not say which antennas saw them, so nothing closes")
    data = np.where(vis.flagged, 0, vis.data)
    first, second = vis.antennas.T
    channel, row = np.nonzero((vis.weight * np.abs(data) ** 2 > _MIN_SNR**2) & (first != second))
    return channel, row


def _integrations(vis: Visibilities, channel: Ints, row: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield the indices, and first and second antennas numbered from 0, of each channel, execution and time."""
    keys = np.column_stack([channel, vis.execution[row], vis.time[row]])
    slot = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(slot, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(slot[order])) + 1):
        numbers = np.unique(vis.antennas[row[members]], return_inverse=True)[1].reshape(-1, 2)
        yield members, numbers[:, 0], numbers[:, 1]


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
    """An image of closure quantities.

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
        The reduced chi² of closure phases and of log closure amplitudes.

    Examples
    --------
    >>> print(ClosureImage(np.ones((8, 8)), GridCoords(0.1, 8), flux=0.64, phase_chi2=1.0, amplitude_chi2=0.9))
    closure quantities: reduced chi² 1 of the phases, 0.9 of the amplitudes; flux 0.64 Jy, ...
    """

    sky: Real
    coords: GridCoords
    flux: float
    phase_chi2: float
    amplitude_chi2: float

    def __str__(self) -> str:
        """Return a summary, and a verdict where chi² is far above 1."""
        fits, flux = _fits(self.phase_chi2, self.amplitude_chi2), "flux not known"
        if not math.isnan(self.flux):
            flux = f"flux {self.flux:.3g} Jy, as right as the amplitudes are calibrated"
        elif fits:
            pixels = self.sky.sum() * self.coords.cell_size**2
            flux += f": the pixels add up to {pixels:.3g} Jy, far more than the shortest baselines see"
        summary = (
            f"closure quantities: reduced chi² {self.phase_chi2:.3g} of the phases, {self.amplitude_chi2:.3g} of the "
            f"amplitudes; {flux}"
        )
        advice = (
            "doubtful: this is no image to trust, as it does not fit the closure quantities, and no gain of an antenna "
            "is the reason. Try another --field, or each window by itself (--spw of a measurement set, else --channels)"
        )
        return summary if fits else f"{summary}\n{advice}"


def _fits(*chi2: float) -> bool:
    """Return whether an image with such a reduced chi² of phases and of amplitudes may be one."""
    return max(chi2) < _MAX_CHI2


def closure_image(vis: Visibilities, *, field: float | None = None, device: torch.device | str = "cpu") -> ClosureImage:
    """Return an image that fits closure phases and closure amplitudes, of data whose gains nobody knows.

    Parameters
    ----------
    vis
        What was observed, with its antennas and times.
    field
        The width of the image in arcsec; by default the fringe of the shortest baseline between sites.
    device
        Where to fit.

    Examples
    --------
    >>> from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Ring
    >>> track = uv_track(alma_antennas()[::5], n_times=12)
    >>> found = closure_image(with_noise(observe([Ring(0.5, 0.2, 0.1)], track), 0.002, seed=0), field=1.0)
    >>> bool(found.phase_chi2 < 2), abs(found.flux - 0.5) < 0.05
    (True, True)
    """
    every, (vis, _) = vis, leave_out_intra_site(vis)
    grid = suggest_grid(vis, field)
    width = field or 1 / float(vis.lengths[~vis.flagged & (vis.lengths > 0)].min()) / ARCSEC
    coords = GridCoords(min(grid.cell_size, width / _PIXELS), max(grid.npix, _PIXELS))
    _check_memory(len(_bright(vis)[1]), coords)
    likelihood = ClosureLikelihood(vis, coords, device=device)
    east, north = (torch.as_tensor(part.copy()).float().to(device) for part in coords.sky_coordinates())
    prior = -4 * math.log(2) * (east**2 + north**2) / (_PRIOR_WIDTH * width) ** 2
    prior = prior - prior.logsumexp((0, 1))
    parameters = torch.cat([prior.flatten(), likelihood.log_data.quantile(0.9)[None]])
    for count, (smoothness, entropy) in enumerate(zip(_SMOOTHNESS, _ENTROPY, strict=True), start=1):
        with tqdm(desc=f"closures, {count} of {len(_ENTROPY)}", leave=False, disable=None) as bar:
            parameters = _fit(likelihood, parameters, prior, smoothness, entropy, bar)
    image = _image_of(parameters, coords)
    phase_chi2, amplitude_chi2 = (float(term) for term in likelihood.terms(image))
    sky = (image * likelihood.scale(image).exp()).double().cpu().numpy()
    flux = float(sky.sum()) * coords.cell_size**2
    known = _fits(phase_chi2, amplitude_chi2) and flux < EXCESS * _short_flux(every, sky, coords)
    return ClosureImage(sky, coords, flux if known else math.nan, phase_chi2, amplitude_chi2)


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


def _fit(
    likelihood: ClosureLikelihood, start: Tensor, prior: Tensor, smoothness: float, entropy: float, bar: tqdm[Any]
) -> Tensor:
    """Return the parameters of the image with the least chi² plus regularizers."""
    parameters, coords = start.clone().requires_grad_(), likelihood.coords
    optimizer = torch.optim.LBFGS([parameters], max_iter=_STEPS, history_size=20, line_search_fn="strong_wolfe")
    unit = likelihood.log_data.median().exp()

    def loss() -> Tensor:
        optimizer.zero_grad()
        bar.update()
        image = _image_of(parameters, coords)
        phases, amplitudes = likelihood.terms(image)
        # Fringes know nothing of a halo that they resolve: of all images that fit, one of little flux is taken.
        off = (likelihood.visibilities(image).log().real - likelihood.log_data).clamp(-3, 3).mean() / _SCALE
        pixels = image * coords.cell_size**2 / unit
        share = pixels / pixels.sum()
        surprise = (share * (share.clamp(min=1e-30).log() - prior)).sum()
        roughness = TSV(pixels[None]) * (coords.npix / _PIXELS) ** 4
        total: Tensor = (
            phases + amplitudes + off**2 + entropy * surprise + smoothness * roughness + _FLUX * pixels.sum()
        )
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return parameters.detach()
