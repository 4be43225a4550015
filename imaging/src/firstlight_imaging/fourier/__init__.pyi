from .beams import Beam, convolve, fit_beam
from .dirty import DirtyImager, image_by_gridding, image_by_nufft
from .fourier_cube import FourierCube
from .limits import Limit, check_image_grid, suggest_grid
from .nufft import adjoint, visibilities

__all__ = [
    "Beam",
    "DirtyImager",
    "FourierCube",
    "Limit",
    "adjoint",
    "check_image_grid",
    "convolve",
    "fit_beam",
    "image_by_gridding",
    "image_by_nufft",
    "suggest_grid",
    "visibilities",
]
