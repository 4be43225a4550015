from .cross_validation import split_cells, split_dartboard, stack, stack_folds
from .exact import ExactLikelihood
from .fit_loop import Fit, fit
from .fused_step import FusedStep, has_fused_step
from .objective import Objective
from .optimizers import LBFGS, Adam
from .quality import Quality, assess_image

__all__ = [
    "LBFGS",
    "Adam",
    "ExactLikelihood",
    "Fit",
    "FusedStep",
    "Objective",
    "Quality",
    "assess_image",
    "fit",
    "has_fused_step",
    "split_cells",
    "split_dartboard",
    "stack",
    "stack_folds",
]
