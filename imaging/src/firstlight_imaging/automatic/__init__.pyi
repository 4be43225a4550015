from .assessment import Assessment, assess_model
from .auto_image import Image, image
from .problem import model_visibilities

__all__ = ["Assessment", "Image", "assess_model", "image", "model_visibilities"]
