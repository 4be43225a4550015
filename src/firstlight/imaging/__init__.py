"""Image a sky from its visibilities, in MPoL's vocabulary; importing this package alone imports no library."""
# ruff: isort: skip_file

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a line a module, as in the table below
    from firstlight.imaging.beams import Beam as Beam, convolve as convolve, fit_beam as fit_beam
    from firstlight.imaging.coordinates import GridCoords as GridCoords
    from firstlight.imaging.crossval import split_cells as split_cells, split_dartboard as split_dartboard
    from firstlight.imaging.datasets import GriddedDataset as GriddedDataset
    from firstlight.imaging.dirty import DirtyImager as DirtyImager
    from firstlight.imaging.distributed import processes as processes
    from firstlight.imaging.exact import ExactLikelihood as ExactLikelihood
    from firstlight.imaging.files import write_image as write_image
    from firstlight.imaging.fitting import Fit as Fit, fit as fit
    from firstlight.imaging.fourier import FourierCube as FourierCube
    from firstlight.imaging.gridding import DataAverager as DataAverager
    from firstlight.imaging.images import BaseCube as BaseCube, HannConvCube as HannConvCube, ImageCube as ImageCube
    from firstlight.imaging.limits import check_image_grid as check_image_grid, suggest_grid as suggest_grid
    from firstlight.imaging.minibatch import MiniBatches as MiniBatches
    from firstlight.imaging.ms import read_ms as read_ms, write_ms_column as write_ms_column
    from firstlight.imaging.needs import plan as plan
    from firstlight.imaging.npz import read_npz as read_npz
    from firstlight.imaging.plots import plot_image as plot_image
    from firstlight.imaging.precomposed import GriddedNet as GriddedNet
    from firstlight.imaging.quality import Quality as Quality
    from firstlight.imaging.reading import read_visibilities as read_visibilities
    from firstlight.imaging.recipe import Image as Image, image as image
    from firstlight.imaging.skies import Point as Point, Ring as Ring
    from firstlight.imaging.uvfits import read_uvfits as read_uvfits
    from firstlight.imaging.visibilities import Visibilities as Visibilities
    from firstlight.imaging.weights import check_weights as check_weights, scale_weights as scale_weights

_NAMES = {
    "beams": ("Beam", "convolve", "fit_beam"),
    "coordinates": ("GridCoords",),
    "crossval": ("split_cells", "split_dartboard"),
    "datasets": ("GriddedDataset",),
    "dirty": ("DirtyImager",),
    "distributed": ("processes",),
    "exact": ("ExactLikelihood",),
    "files": ("write_image",),
    "fitting": ("Fit", "fit"),
    "fourier": ("FourierCube",),
    "gridding": ("DataAverager",),
    "images": ("BaseCube", "HannConvCube", "ImageCube"),
    "limits": ("check_image_grid", "suggest_grid"),
    "minibatch": ("MiniBatches",),
    "ms": ("read_ms", "write_ms_column"),
    "needs": ("plan",),
    "npz": ("read_npz",),
    "plots": ("plot_image",),
    "precomposed": ("GriddedNet",),
    "quality": ("Quality",),
    "reading": ("read_visibilities",),
    "recipe": ("Image", "image"),
    "skies": ("Point", "Ring"),
    "uvfits": ("read_uvfits",),
    "visibilities": ("Visibilities",),
    "weights": ("check_weights", "scale_weights"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}
__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
