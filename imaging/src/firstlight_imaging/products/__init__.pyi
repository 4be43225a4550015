from .fits_images import write_image
from .plots import plot_image
from .report import write_products

__all__ = ["plot_image", "write_image", "write_products"]
