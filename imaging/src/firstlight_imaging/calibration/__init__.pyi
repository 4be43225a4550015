from .closures import ClosureImage, ClosureLikelihood, closure_image
from .gains import Gains, apply_gains, chi2_of_gains, describe_gains, solve_gains
from .self_calibration import SelfCalibration, self_calibrate

__all__ = [
    "ClosureImage",
    "ClosureLikelihood",
    "Gains",
    "SelfCalibration",
    "apply_gains",
    "chi2_of_gains",
    "closure_image",
    "describe_gains",
    "self_calibrate",
    "solve_gains",
]
