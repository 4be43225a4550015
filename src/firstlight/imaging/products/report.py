"""What is handed out of an image: FITS files, a picture, and a report of how good it is."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from firstlight.imaging._types import Array
from firstlight.imaging.coordinates import GridCoords
from firstlight.imaging.data.visibilities import Visibilities
from firstlight.imaging.fitting.auto_image import Image
from firstlight.imaging.fourier.beams import Beam, convolve, fit_beam
from firstlight.imaging.fourier.dirty import DirtyImager
from firstlight.imaging.fourier.nufft import visibilities
from firstlight.imaging.products.fits_images import completed, write_image
from firstlight.imaging.products.plots import plot_image
from firstlight.imaging.units import ARCSEC, LIGHT_SPEED

ENDS = (
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
ILLUMINATED = 1.13  # wavelengths over the dish: the full width of a beam of ALMA's antennas
FAINTEST = 0.2  # of the primary beam: beyond, there is more noise than sky


def check_names(folder: Path, name: str) -> None:
    """Refuse to write over what is there."""
    if there := [path for end in ENDS if (path := folder / f"{name}.{end}").exists()]:
        raise FileExistsError(f"{there[0]} exists; choose another folder (--out), or replace all with --overwrite")


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
    dirty, psf = briggs(vis, coords)
    beam = fit_beam(psf, coords.cell_size)
    seen = visibilities(torch.from_numpy(found.model[None]), vis.uu.ravel(), vis.vv.ravel(), coords.cell_size)
    left = briggs(replace(vis, data=vis.data - seen[0].numpy().reshape(vis.data.shape)), coords)[0]
    maps: dict[str, tuple[Array, Beam | None]] = {
        "image": (found.sky, None),
        "model": (found.model, None),
        "error": (found.error, None),
        "dirty": (dirty, beam),
        "residual": (left, beam),
        "restored": (convolve(found.model, coords, beam) + left, beam),
    }
    if dish:
        maps["pbcor"] = corrected(found.sky, coords, dish, vis), None
    ra, dec = vis.phase_centre or (None, None)
    written = []
    for kind, (values, of) in maps.items():
        written.append(folder / f"{name}.{kind}.fits")
        write_image(
            written[-1],
            values[None],
            coords,
            unit="Jy/beam" if of else "Jy/arcsec^2",
            frequencies=[mean_frequency(vis)],
            ra=ra,
            dec=dec,
            beam=of,
            telescope=vis.telescope,
            start=vis.start,
            overwrite=True,
        )
    picture, report = folder / f"{name}.png", folder / f"{name}.txt"
    with completed(picture, overwrite=True) as unfinished:
        drawn(found, dirty, psf, beam).savefig(unfinished, format="png", dpi=150)
    with completed(report, overwrite=True) as unfinished:
        unfinished.write_text(f"{head}{found}\n", encoding="utf-8")
    return [*written, picture, report]


def briggs(vis: Visibilities, coords: GridCoords) -> tuple[Array, Array]:
    """Make the dirty image and beam of all channels, with Briggs' weights of 0.5."""
    counts = ~vis.flagged
    u, v, data, weight = (getattr(vis, part)[counts] for part in ("uu", "vv", "data", "weight"))
    imager = DirtyImager(coords, u, v, weight, data.real, data.imag)
    image, psf = imager.get_dirty_image("briggs", 0.5, check_visibility_scatter=False)
    return image[0], psf[0]


def mean_frequency(vis: Visibilities) -> float:
    """Give that of the image."""
    return float(np.average(vis.frequency, weights=vis.weight.sum(axis=1)))


def corrected(sky: Array, coords: GridCoords, dish: float, vis: Visibilities) -> Array:
    """Divide by the primary beam, where it is not too faint."""
    width = ILLUMINATED * LIGHT_SPEED / mean_frequency(vis) / dish / ARCSEC
    east, north = coords.sky_coordinates()
    beam = np.exp(-4 * math.log(2) * (east**2 + north**2) / width**2)
    return np.where(beam > FAINTEST, sky / beam, 0.0)


def drawn(found: Image, dirty: Array, psf: Array, beam: Beam) -> Figure:
    """Draw the dirty image, the image, the residuals and the dirty beam."""
    figure = Figure(figsize=(10, 8.6), layout="constrained")
    coords, axes = found.coords, figure.subplots(2, 2).ravel()
    bar = float(f"{coords.npix * coords.cell_size / 6:.1g}")
    plot_image(dirty, coords, ax=axes[0], stretch="linear", unit="Jy/beam", beam=beam)
    plot_image(found.sky, coords, ax=axes[1], stretch="sqrt", scale_bar=bar)
    look = {"stretch": "linear", "cmap": "PuOr", "vmin": -5, "vmax": 5, "unit": "σ"}
    plot_image(found.residual, coords, ax=axes[2], **look)  # type: ignore[arg-type]
    plot_image(psf, coords, ax=axes[3], stretch="linear", unit="of the peak")
    titles = ("dirty image", f"image: {found.flux:.4g} ± {found.flux_error:.1g} Jy", "residual", "dirty beam")
    axes[1].set_ylabel(""), axes[3].set_ylabel("")
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title)
    return figure
