"""Write what ``firstlight image`` makes: FITS files, a picture, and a report of how good the image is."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from firstlight.imaging._types import Real
from firstlight.imaging.coordinates import GridCoords
from firstlight.imaging.data.visibilities import Visibilities
from firstlight.imaging.fitting.auto_image import Image
from firstlight.imaging.fourier.beams import Beam, convolve, fit_beam
from firstlight.imaging.fourier.dirty import DirtyImager
from firstlight.imaging.fourier.nufft import visibilities
from firstlight.imaging.products.fits_images import write_image, write_whole
from firstlight.imaging.products.plots import plot_image
from firstlight.imaging.units import ARCSEC, LIGHT_SPEED

_SUFFIXES = (
    "image.fits",
    "model.fits",
    "error.fits",
    "dirty.fits",
    "residual.fits",
    "restored.fits",
    "pbcor.fits",
    "png",
    "txt",
)
_PRIMARY_BEAM = 1.13  # its full width at half maximum, in wavelengths over the dish: ALMA's
_MIN_PRIMARY_BEAM = 0.2  # of its peak: beyond, there is more noise than sky


def check_no_overwrite(folder: Path, name: str) -> None:
    """Raise an error if a file that would be written exists."""
    if existing := [path for suffix in _SUFFIXES if (path := folder / f"{name}.{suffix}").exists()]:
        raise FileExistsError(f"{existing[0]} exists; choose another folder (--out), or replace all with --overwrite")


def write_products(
    found: Image, vis: Visibilities, folder: Path, name: str, *, dish: float | None = None, head: str = ""
) -> list[Path]:
    """Write an image, its model and error, residuals and restored image to FITS files, a picture, and a report.

    Parameters
    ----------
    found
        What `image` made of the visibilities.
    vis
        The visibilities.
    folder, name
        Where: files are called ``name.image.fits`` and so on, and replaced if they exist.
    dish
        The diameter of the antennas in metres, for an image corrected for their primary beam, taken to be a Gaussian.
    head
        What the report begins with.

    Examples
    --------
    >>> import tempfile
    >>> from firstlight.imaging import image
    >>> from firstlight.imaging.simulate.observation import observe, uv_track, with_noise
    >>> from firstlight.imaging.simulate.skies import Ring
    >>> seen = with_noise(observe([Ring(0.5, 0, 0.5)], uv_track(n_times=2)), 0.03, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_products(image(seen, draws=2), seen, Path(folder), "disk")][:2]
    ['disk.image.fits', 'disk.model.fits']
    """
    folder.mkdir(parents=True, exist_ok=True)
    coords = found.coords
    dirty, psf = _briggs_image(vis, coords)
    beam = fit_beam(psf, coords.cell_size)
    model = visibilities(torch.from_numpy(found.model[None]), vis.uu.ravel(), vis.vv.ravel(), coords.cell_size)
    residual = _briggs_image(replace(vis, data=vis.data - model[0].numpy().reshape(vis.data.shape)), coords)[0]
    maps: dict[str, tuple[Real, Beam | None]] = {
        "image": (found.sky, None),
        "model": (found.model, None),
        "error": (found.error, None),
        "dirty": (dirty, beam),
        "residual": (residual, beam),
        "restored": (convolve(found.model, coords, beam) + residual, beam),
    }
    if np.isnan(found.error).any():  # where calibration limits the image, noise tells nothing of its errors
        del maps["error"]
    if dish:
        maps["pbcor"] = _primary_beam_corrected(found.sky, coords, dish, vis), None
    ra, dec = vis.phase_centre or (None, None)
    written = []
    for kind, (values, of) in maps.items():
        written.append(folder / f"{name}.{kind}.fits")
        write_image(
            written[-1],
            values[None],
            coords,
            unit="Jy/beam" if of else "Jy/arcsec^2",
            frequencies=[_mean_frequency(vis)],
            ra=ra,
            dec=dec,
            beam=of,
            telescope=vis.telescope,
            start=vis.start,
            overwrite=True,
        )
    picture, report = folder / f"{name}.png", folder / f"{name}.txt"
    with write_whole(picture, overwrite=True) as temporary:
        _figure(found, dirty, psf, beam).savefig(temporary, format="png", dpi=150)
    with write_whole(report, overwrite=True) as temporary:
        temporary.write_text(f"{head}{found}\n", encoding="utf-8")
    return [*written, picture, report]


def _briggs_image(vis: Visibilities, coords: GridCoords) -> tuple[Real, Real]:
    """Return the dirty image and beam of all channels, with Briggs' weights of 0.5."""
    counts = ~vis.flagged
    u, v, data, weight = (getattr(vis, part)[counts] for part in ("uu", "vv", "data", "weight"))
    imager = DirtyImager(coords, u, v, weight, data.real, data.imag)
    image, psf = imager.get_dirty_image("briggs", 0.5, check_visibility_scatter=False)
    return image[0], psf[0]


def _mean_frequency(vis: Visibilities) -> float:
    """Return the frequency of the image: the mean by weights."""
    return float(np.average(vis.frequency, weights=vis.weight.sum(axis=1)))


def _primary_beam_corrected(sky: Real, coords: GridCoords, dish: float, vis: Visibilities) -> Real:
    """Return an image over the primary beam, 0 where that is too faint."""
    width = _PRIMARY_BEAM * LIGHT_SPEED / _mean_frequency(vis) / dish / ARCSEC
    east, north = coords.sky_coordinates()
    beam = np.exp(-4 * math.log(2) * (east**2 + north**2) / width**2)
    return np.where(beam > _MIN_PRIMARY_BEAM, sky / beam, 0.0)


def _figure(found: Image, dirty: Real, psf: Real, beam: Beam) -> Figure:
    """Return a figure of the dirty image, the image, the residuals and the dirty beam."""
    figure = Figure(figsize=(10, 8.6), layout="constrained")
    coords, axes = found.coords, figure.subplots(2, 2).ravel()
    bar = float(f"{coords.npix * coords.cell_size / 6:.1g}")
    plot_image(dirty, coords, ax=axes[0], stretch="linear", unit="Jy/beam", beam=beam)
    plot_image(found.sky, coords, ax=axes[1], stretch="sqrt", scale_bar=bar)
    look = {"stretch": "linear", "cmap": "PuOr", "vmin": -5, "vmax": 5, "unit": "σ"}
    plot_image(found.residual, coords, ax=axes[2], **look)  # type: ignore[arg-type]
    plot_image(psf, coords, ax=axes[3], stretch="linear", unit="of the peak")
    titles = ("dirty image", f"image: {found.flux_text}", "residual", "dirty beam")
    axes[1].set_ylabel(""), axes[3].set_ylabel("")
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title)
    return figure
