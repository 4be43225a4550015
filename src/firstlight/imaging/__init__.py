"""Image a sky from its visibilities, in MPoL's vocabulary; importing this package alone imports no library."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstlight.imaging.coordinates import GridCoords
    from firstlight.imaging.datasets import GriddedDataset
    from firstlight.imaging.exact import ExactLikelihood
    from firstlight.imaging.fourier import FourierCube
    from firstlight.imaging.gridding import DataAverager
    from firstlight.imaging.images import BaseCube, HannConvCube, ImageCube
    from firstlight.imaging.precomposed import GriddedNet

__all__ = [
    "BaseCube",
    "DataAverager",
    "ExactLikelihood",
    "FourierCube",
    "GridCoords",
    "GriddedDataset",
    "GriddedNet",
    "HannConvCube",
    "ImageCube",
]

_HOME = {
    "BaseCube": "images",
    "DataAverager": "gridding",
    "ExactLikelihood": "exact",
    "FourierCube": "fourier",
    "GridCoords": "coordinates",
    "GriddedDataset": "datasets",
    "GriddedNet": "precomposed",
    "HannConvCube": "images",
    "ImageCube": "images",
}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
