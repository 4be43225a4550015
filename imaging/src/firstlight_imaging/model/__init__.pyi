from . import losses
from .cubes import BaseCube, HannConvCube, ImageCube
from .gridded_net import GriddedNet

__all__ = ["BaseCube", "GriddedNet", "HannConvCube", "ImageCube", "losses"]
