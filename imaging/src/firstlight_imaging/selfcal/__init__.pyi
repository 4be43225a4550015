from .closures import ClosureImage, ClosureLikelihood, closure_image
from .self_calibration import SelfCalibration, self_calibrate

__all__ = ["ClosureImage", "ClosureLikelihood", "SelfCalibration", "closure_image", "self_calibrate"]
