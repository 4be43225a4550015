from .automatic.auto_image import Image, image
from .coordinates import GridCoords
from .data.datasets import GriddedDataset
from .data.gridding import DataAverager
from .data.ms import read_ms
from .data.npz import read_npz
from .data.reading import read_visibilities
from .data.uvfits import read_uvfits
from .data.uvtable import read_uvtable, write_uvtable
from .data.visibilities import Visibilities
from .data.weights import check_weights, scale_weights
from .fitting.cross_validation import split_cells, split_dartboard
from .fitting.exact import ExactLikelihood
from .fitting.fit_loop import Fit, fit
from .fitting.quality import Quality
from .fourier.beams import Beam, convolve, fit_beam
from .fourier.dirty import DirtyImager
from .fourier.fourier_cube import FourierCube
from .fourier.limits import check_image_grid, suggest_grid
from .joining import Joined, join
from .model.cubes import BaseCube, HannConvCube, ImageCube
from .model.gridded_net import GriddedNet
from .products.fits_images import write_image
from .products.plots import plot_image
from .simulate.skies import Point, Ring

__version__: str
__all__ = [
    "BaseCube",
    "Beam",
    "DataAverager",
    "DirtyImager",
    "ExactLikelihood",
    "Fit",
    "FourierCube",
    "GridCoords",
    "GriddedDataset",
    "GriddedNet",
    "HannConvCube",
    "Image",
    "ImageCube",
    "Joined",
    "Point",
    "Quality",
    "Ring",
    "Visibilities",
    "check_image_grid",
    "check_weights",
    "convolve",
    "fit",
    "fit_beam",
    "image",
    "join",
    "plot_image",
    "read_ms",
    "read_npz",
    "read_uvfits",
    "read_uvtable",
    "read_visibilities",
    "scale_weights",
    "split_cells",
    "split_dartboard",
    "suggest_grid",
    "write_image",
    "write_uvtable",
]
