from .auto_image import Image, assess_model, image
from .problem import model_visibilities

__all__ = ["Image", "assess_model", "image", "model_visibilities"]
