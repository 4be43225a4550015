"""Write what ``firstlight image`` makes: FITS files, a picture, and a report of how good the image is."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import EngFormatter
from scipy.optimize import minimize

from firstlight_imaging._types import Complex, Real
from firstlight_imaging.automatic.assessment import Assessment
from firstlight_imaging.automatic.auto_image import Image
from firstlight_imaging.automatic.grid import leave_out_intra_site
from firstlight_imaging.automatic.problem import model_visibilities
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.data.visibilities import Visibilities
from firstlight_imaging.directions import phase_factor
from firstlight_imaging.fitting.quality import rms
from firstlight_imaging.fourier.beams import Beam, convolve, fit_beam
from firstlight_imaging.fourier.dirty import DirtyImager
from firstlight_imaging.fourier.limits import check_image_grid
from firstlight_imaging.products.fits_images import first_plane, known_of, write_image
from firstlight_imaging.products.plots import plot_image
from firstlight_imaging.units import ARCSEC, LIGHT_SPEED, angular_unit

_CONTOURS = 5.0  # times the rms of a restored map, and twice as much each
_ROOM, _MAX_VIEW = 1.0, 0.8  # around a source, in beams; and of the field, above which all is shown
# A primary beam's full width at half maximum, in wavelengths over the dish: 1.13 by ALMA's knowledge base, and by the
# VLA's observational status summary 42 arcmin at 1 GHz. And dishes in metres, of data that do not say theirs.
_PRIMARY_BEAM, _VLA_BEAM = 1.13, 1.02
_DISHES = {"ALMA": 12.0, "VLA": 25.0, "EVLA": 25.0, "NOEMA": 15.0, "SMA": 6.0, "ATCA": 22.0, "WSRT": 25.0}
_LOSSES = {"bandwidth", "time", "w"}  # that dim what is far from the centre
_MIN_LOSS = 3.0  # times the noise: less than that, nobody sees
_PIXELS, _NARROWER = 5, 0.7  # a beam, at least; how much narrower than with natural weights that is
_MAX_PIXELS = 4096  # of the width of a map that is finer than the image
_MAX_POINT_BEAMS = 40  # that the mask of a point covers
_MAX_POINT_SIGMA = 3  # that chi² is from 1 where a point explains all
_MIN_PRIMARY_BEAM = 0.2  # of its peak: beyond, there is more noise than sky


class Products(NamedTuple):
    """The files that were written, and what the report among them says.

    Examples
    --------
    >>> Products([Path("my.png"), Path("my.txt")], "flux 0.5 Jy").paths[-1].name
    'my.txt'
    """

    paths: list[Path]
    report: str


def write_products(
    found: Image,
    vis: Visibilities,
    folder: Path,
    name: str,
    *,
    dish: float | None = None,
    robust: float = 0.5,
    head: str = "",
) -> Products:
    """Write an image, its model and error, residuals and restored image to FITS files, a picture, and a report.

    Within `whole_set`, all of them are written, or none.

    Parameters
    ----------
    found
        What `image` made of the visibilities.
    vis
        The visibilities.
    folder, name
        Where: in a folder that exists, files called ``name.image.fits`` and so on, replaced if they exist.
    dish
        The diameter of the antennas in metres, for a restored map corrected for their primary beam, taken to be a
        Gaussian around the phase centre, and the flux of an image corrected for it. By default that of the data, and
        corrected is what the noise would not hide.
    robust
        Of Briggs' weights, for what is in Jy/beam: from -2 (sharp) to 2 (sensitive).
    head
        What the report begins with.

    Examples
    --------
    >>> import tempfile
    >>> from firstlight_imaging import image
    >>> from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Ring
    >>> seen = with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(alma_antennas()[:20], n_times=4)), 0.03, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_products(image(seen, draws=2), seen, Path(folder), "disk").paths][:2]
    ['disk.image.fits', 'disk.model.fits']
    """
    coords, finer = found.coords, math.ceil(_PIXELS * found.coords.cell_size / (_NARROWER * found.beam.minor))
    fine = GridCoords(coords.cell_size / finer, finer * coords.npix) if coords.npix <= _MAX_PIXELS / finer else coords
    vis, _ = leave_out_intra_site(vis)  # as the image does: of so short baselines, the beam is wider than its field
    dirty, psf = _briggs_image(vis, fine, robust)
    with warnings.catch_warnings(record=True) as doubts:  # the report tells what a user of the command can do
        warnings.simplefilter("always")
        beam = fit_beam(psf, fine.cell_size)
    left = vis.data - model_visibilities(found.model, vis, coords)
    residual = _briggs_image(replace(vis, data=left), fine, robust)[0]
    restored = convolve(_on_grid(found.model, fine), fine, beam) + residual
    maps: dict[str, tuple[Real, Beam | None]] = {
        "image": (found.sky, None),
        "model": (found.model, None),
        "error": (found.error, None),
        "dirty": (dirty, beam),
        "residual": (residual, beam),
        "restored": (restored, beam),
    }
    lines = [
        _beam_text(beam, coords, robust, vis),
        f"restored map: peak {restored.max():.3g} Jy/beam, rms of the residuals {rms(residual):.2g} Jy/beam",
    ]
    if doubts:
        lines.append(
            f"WARNING: the dirty beam is not like a Gaussian (off by {beam.misfit:.0%} of its peak), so Jy/beam are "
            f"doubtful: try a --robust below {robust:g}, or take fluxes from {name}.image.fits"
        )
    if np.isnan(found.error).any():  # where calibration limits the image, noise tells nothing of its errors
        del maps["error"]
    primary, said = _primary_beam(found, vis, dish)
    if primary is not None:
        maps["pbcor"] = _over(restored, primary, fine), beam
        corrected = float(_over(found.sky, primary, coords).sum()) * coords.cell_size**2
        lines.append(f"{said}: corrected for it, {corrected:.4g} Jy")
    ra, dec = vis.phase_centre or (None, None)
    written = [folder / f"{name}.{suffix}" for suffix in (*(f"{kind}.fits" for kind in maps), "png", "txt")]
    about = {"ra": ra, "dec": dec, "overwrite": True, **known_of(vis)}
    for path, (values, of) in zip(written, maps.values(), strict=False):
        unit, grid = ("Jy/beam", fine) if of else ("Jy/arcsec^2", coords)
        write_image(path, values[None], grid, unit=unit, beam=of, **about)
    _figure(found, vis.title, fine, dirty, restored, residual, beam).savefig(written[-2], dpi=150)
    report = "\n".join([*lines, str(found)])
    written[-1].write_text(f"{head}{report}\n", encoding="utf-8")
    return Products(written, report)


def write_assessment(
    found: Assessment, vis: Visibilities, folder: Path, name: str, *, head: str = "", restored: str = ""
) -> Products:
    """Write what was found of an image of another program to ``name.txt``, and a picture of it to ``name.png``.

    Examples
    --------
    >>> import tempfile
    >>> from firstlight_imaging.automatic import assess_model
    >>> from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
    >>> from firstlight_imaging.simulate.skies import Point
    >>> seen = with_noise(observe([Point(1.0)], uv_track(alma_antennas()[:20], n_times=2)), 0.1, seed=1)
    >>> sky = np.zeros((64, 64))
    >>> sky[32, 31] = 1.0 / 0.05**2
    >>> found = assess_model(seen, sky, GridCoords(0.05, 64))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(write_assessment(found, seen, Path(folder), "point").report.splitlines()[-1])
    - Nothing: residuals are noise, and the flux is that of the shortest baselines
    """
    written = [folder / f"{name}.{suffix}" for suffix in ("png", "txt")]
    _assessment_figure(found, vis.title).savefig(written[0], dpi=150)
    report = "\n".join([*[restored] * bool(restored), str(found)])
    written[1].write_text(f"{head}{report}\n", encoding="utf-8")
    return Products(written, report)


def compare_restored(path: Path, found: Assessment) -> str:
    """Return a sentence on a map in Jy/beam that a model was restored to: how much of its flux is no model.

    Examples
    --------
    >>> import tempfile
    >>> from firstlight_imaging.automatic import assess_model
    >>> from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track
    >>> from firstlight_imaging.simulate.skies import Point
    >>> sky, grid, beam = np.zeros((64, 64)), GridCoords(0.05, 64), Beam(0.3, 0.2, 0.0)
    >>> sky[32, 31] = 1.0 / 0.05**2
    >>> found = assess_model(observe([Point(1.0)], uv_track(alma_antennas()[:20], n_times=2)), sky, grid)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "my.image.fits")
    ...     made = {"unit": "Jy/beam", "beam": beam, "frequencies": [230e9], "ra": 83.8, "dec": -5.4}
    ...     write_image(path, convolve(sky, grid, beam)[None], grid, **made)
    ...     compare_restored(path, found)
    'restored map: 1 Jy/beam at most, ...'
    """
    plane, theirs, hdus = first_plane(path)
    header, coords = hdus[0].header, found.coords
    if str(header.get("BUNIT", "")).lower() != "jy/beam" or "BMAJ" not in header:
        raise ValueError(f"{path} must be in Jy/beam, with its beam in BMAJ, BMIN and BPA, as tclean's .image is")
    cell = 3600 * float(theirs.wcs.cdelt[1])
    if abs(cell - coords.cell_size) > 1e-3 * cell:
        raise ValueError(
            f"{path} has pixels of {cell:.4g} arcsec, and the model of {coords.cell_size:.4g}: give its own"
        )
    beam = Beam(3600 * header["BMAJ"], 3600 * header["BMIN"], header.get("BPA", 0.0))
    row, column = np.indices(plane.shape)
    west, north = column + 1 - theirs.wcs.crpix[0], row + 1 - theirs.wcs.crpix[1]
    half = coords.npix // 2
    at = tuple(np.rint([half + north, half - 1 + west]).astype(int))
    inside = (np.minimum(*at) >= 0) & (np.maximum(*at) < coords.npix)
    source = np.zeros(plane.shape, bool)
    source[inside] = found.source[at[0][inside], at[1][inside]]
    flux, model = float(plane[source].sum()) * cell**2 / beam.area, convolve(found.model, coords, beam) / beam.area
    own = float(model[found.source].sum()) * cell**2
    return (
        f"restored map: {plane.max():.3g} Jy/beam at most, {rms(plane[~source]):.2g} rms beside the source; it has "
        f"{flux:.4g} Jy in the source, of which the model is {own:.4g}. The rest are residuals, which are no Jy per "
        "clean beam: take fluxes from a map whose residuals are small"
    )


def point_remark(found: Image, vis: Visibilities) -> list[str]:
    """Return a line with the flux of a point, if that alone explains the data.

    An image knows it less well, because it allows for faint light around the point, which only short baselines see.
    """
    coords = found.coords
    if found.mask.sum() * coords.cell_size**2 > _MAX_POINT_BEAMS * found.beam.area:
        return []
    u, v, data, weight = vis.unflagged

    def moved(place: Real) -> Complex:
        return np.asarray(data * phase_factor(u * ARCSEC, v * ARCSEC, *-place))

    brightest = np.unravel_index(found.model.argmax(), found.model.shape)
    start = [along[brightest] for along in coords.sky_coordinates()]
    place = minimize(lambda place: -np.average(moved(place).real, weights=weight), start, method="Nelder-Mead").x
    flux = np.average(moved(place).real, weights=weight)
    chi2 = (np.abs(moved(place) - flux) ** 2 * weight).mean() / 2
    if abs(chi2 - 1) * math.sqrt(len(data)) > _MAX_POINT_SIGMA:
        return []
    return [
        f"note: a point of {flux:.4g} ± {weight.sum() ** -0.5:.2g} Jy alone fits the data (reduced chi² {chi2:.4f}). "
        "If the source is one, that is its flux; an image allows for faint light around it, too"
    ]


def _briggs_image(vis: Visibilities, coords: GridCoords, robust: float) -> tuple[Real, Real]:
    """Return the dirty image and beam of all channels, with Briggs' weights."""
    u, v, data, weight = vis.unflagged
    imager = DirtyImager(coords, u, v, weight, data.real, data.imag)
    image, psf = imager.get_dirty_image("briggs", robust, check_visibility_scatter=False)
    return image[0], psf[0]


def limit_remarks(found: Image, vis: Visibilities) -> list[str]:
    """Return what limits an image: its grid, and what channels, times and a flat sky take, unless noise hides it."""
    remarks, (offset, over_noise) = [], _most_affected(found)
    for limit in check_image_grid(vis, found.coords, offset=offset):
        if limit.code not in _LOSSES:
            remarks += [str(limit)] * (limit.severity in ("warning", "error"))
        elif limit.value * over_noise > _MIN_LOSS:
            remarks.append(f"note: {limit.code}: {limit.message} It is {limit.value * over_noise:.2g} times the noise")
    return remarks


def _over(image: Real, primary: Beam, coords: GridCoords) -> Real:
    """Return an image over a primary beam, 0 where that is too faint."""
    gain = primary.at(*coords.sky_coordinates())
    return np.where(gain > _MIN_PRIMARY_BEAM, image / gain, 0.0)


def _on_grid(sky: Real, fine: GridCoords) -> Real:
    """Return the same points, in the middles of pixels, on a grid that is some times as fine."""
    finer = fine.npix // len(sky)
    points = np.zeros((fine.npix, fine.npix))
    points[::finer, finer - 1 :: finer] = finer**2 * sky
    return points


def _primary_beam(found: Image, vis: Visibilities, dish: float | None) -> tuple[Beam | None, str]:
    """Return the primary beam, if it was asked for or matters, and a sentence on it."""
    if dish is not None and not (math.isfinite(dish) and dish > 0):
        raise ValueError(f"dish must be a positive number of metres; got {dish!r}")
    diameter = dish or vis.dish or _DISHES.get(vis.telescope.upper())
    if diameter is None:
        return None, ""
    factor = _VLA_BEAM if vis.telescope.upper() in ("VLA", "EVLA") else _PRIMARY_BEAM
    width = factor * LIGHT_SPEED / vis.mean_frequency / diameter / ARCSEC
    offset, over_noise = _most_affected(found)
    primary = Beam(width, width, 0)
    lost = 1 - float(primary.at(offset, 0.0))
    if dish is None and not lost * over_noise > _MIN_LOSS:
        return None, ""
    count, unit = angular_unit(offset)
    return primary, (
        f"primary beam of {diameter:g} m: {factor:g} λ/D = {width:.3g} arcsec wide, dims what is {count * offset:.3g} "
        f"{unit} from the phase centre by 1 - 2^(-(2 · offset / width)²) = {100 * lost:.2g}%, {lost * over_noise:.2g} "
        "times the noise"
    )


def _over_noise(found: Image) -> Real:
    """Return the model in Jy/beam over the noise of those, or over the rms of the residuals."""
    return convolve(found.model, found.coords, found.beam) / (found.noise * max(1.0, rms(found.residual)))


def _most_affected(found: Image) -> tuple[float, float]:
    """Return how far out that is, in arcsec, which a loss by the square of the distance hurts most; and its S/N."""
    seen, distance = _over_noise(found), np.hypot(*found.coords.sky_coordinates())
    worst = np.unravel_index((seen * distance**2).argmax(), seen.shape)
    return float(distance[worst]), float(seen[worst])


def _beam_text(beam: Beam, coords: GridCoords, robust: float, vis: Visibilities) -> str:
    """Return the beam of what is in Jy/beam, and the frequency."""
    count, unit = angular_unit(coords.npix * coords.cell_size)
    return (
        f"dirty and restored map: {vis.mean_frequency / 1e9:.5g} GHz, robust {robust:g}, beam "
        f"{count * beam.major:.3g} × {count * beam.minor:.3g} {unit} at {beam.position_angle:.0f}°"
    )


def _four_panels(title: str, *names: str) -> tuple[Figure, list[Axes]]:
    """Return a figure of four panels with these titles, to be drawn in."""
    figure = Figure(figsize=(10, 8.6), layout="compressed")
    axes: list[Axes] = figure.subplots(2, 2).ravel().tolist()
    for ax, name in zip(axes, names, strict=True):
        ax.set_title(name, fontsize="medium")
        ax.locator_params(nbins=5)
    figure.suptitle(title)
    return figure, axes


def _assessment_figure(found: Assessment, title: str) -> Figure:
    """Return a figure of a model, its residuals, and how well it explains baselines of each length."""
    names = "residual, and the source", "how well it explains baselines", "and their flux"
    figure, axes = _four_panels(title, f"model, convolved: {found.flux:.4g} Jy", *names)
    coords = found.coords
    seen = convolve(found.model, coords, found.beam)
    plot_image(seen, coords, ax=axes[0], stretch="sqrt", vmin=0.0, unit="Jy/beam", beam=found.beam)
    most = max(5.0, float(np.abs(found.left.map).max()))
    plot_image(found.left.map, coords, ax=axes[1], stretch="linear", cmap="PuOr", vmin=-most, vmax=most, unit="σ")
    axes[1].contour(found.source, [0.5], extent=coords.img_ext, colors="dimgrey", linewidths=0.7)
    edges = [found.lengths[0].shortest, *(row.longest for row in found.lengths)]
    for ax, name, values in zip(axes[2:], ("chi2", "ratio"), ("reduced χ²", "data / model"), strict=True):
        ax.stairs([getattr(row, name) for row in found.lengths], edges, baseline=1.0, linewidth=2)
        ax.axhline(1.0, color="dimgrey", linewidth=0.7)
        ax.set(xlabel="baseline", ylabel=values)
        ax.xaxis.set_major_formatter(EngFormatter(unit="λ"))
    return figure


def _figure(
    found: Image, title: str, fine: GridCoords, dirty: Real, restored: Real, residual: Real, beam: Beam
) -> Figure:
    """Return a figure of the dirty image, the image, the residuals and the restored map, with contours."""
    contours = f"restored map, contours: −{_CONTOURS:g}, {_CONTOURS:g}, {2 * _CONTOURS:g}, {4 * _CONTOURS:g} … σ"
    names = f"image: {found.flux_text}", "residual, the whole field", contours
    figure, axes = _four_panels(title, "dirty image, the whole field", *names)
    coords, view = found.coords, _view_of_source(found, beam)
    width, sigma = view[0] - view[1], rms(residual)
    count, unit = angular_unit(width)
    plot_image(dirty, fine, ax=axes[0], stretch="linear", unit="Jy/beam", beam=beam)
    if view != coords.img_ext:
        axes[0].add_patch(
            Rectangle((view[1], view[2]), width, width, fill=False, edgecolor="whitesmoke", linestyle=":")
        )
    bright = {"stretch": "sqrt", "vmin": 0.0, "view": view}
    bar = float(f"{width / 6:.1g}")
    plot_image(found.sky / count**2, coords, ax=axes[1], unit=f"Jy/{unit}²", scale_bar=bar, **bright)  # type: ignore[arg-type]
    most = max(5.0, float(np.abs(found.residual).max()))
    look = {"stretch": "linear", "cmap": "PuOr", "vmin": -most, "vmax": most, "unit": "σ"}
    plot_image(found.residual, coords, ax=axes[2], **look)  # type: ignore[arg-type]
    plot_image(restored, fine, ax=axes[3], unit="Jy/beam", beam=beam, **bright)  # type: ignore[arg-type]
    levels = [-_CONTOURS, *(_CONTOURS * 2**step for step in range(12))]
    axes[3].contour(restored / sigma, levels, extent=coords.img_ext, colors="whitesmoke", linewidths=0.7)
    for ax in axes[1::2]:
        ax.set_ylabel("")
    return figure


def _view_of_source(found: Image, beam: Beam) -> tuple[float, float, float, float]:
    """Return the edges (east, west, south, north) of a square around the source, or of the field, if it fills that."""
    edges = found.coords.img_ext
    bright = _over_noise(found) > _CONTOURS
    if not bright.any():
        return edges
    spans = [(along[bright].min(), along[bright].max()) for along in found.coords.sky_coordinates()]
    half = max(high - low for low, high in spans) / 2 + _ROOM * beam.major
    if half > _MAX_VIEW * (edges[0] - edges[1]) / 2:
        return edges
    lowest, highest = (edges[1], edges[2]), (edges[0], edges[3])
    east, north = (
        min(max((low + high) / 2, least + half), most - half)
        for (low, high), least, most in zip(spans, lowest, highest, strict=True)
    )
    return east + half, east - half, north - half, north + half
