from .datasets import GriddedDataset
from .gridding import DataAverager
from .ms import read_ms
from .npz import read_npz
from .reading import read_executions, read_visibilities
from .uvfits import read_uvfits
from .uvtable import read_uvtable, write_uvtable
from .visibilities import (
    Visibilities,
    flag,
    join_executions,
    join_windows,
    select_baselines,
    select_channels,
    shift_phase_centre,
)
from .weights import Scatter, WeightReport, check_weights, outlying_weights, scale_weights, trusted

__all__ = [
    "DataAverager",
    "GriddedDataset",
    "Scatter",
    "Visibilities",
    "WeightReport",
    "check_weights",
    "flag",
    "join_executions",
    "join_windows",
    "outlying_weights",
    "read_executions",
    "read_ms",
    "read_npz",
    "read_uvfits",
    "read_uvtable",
    "read_visibilities",
    "scale_weights",
    "select_baselines",
    "select_channels",
    "shift_phase_centre",
    "trusted",
    "write_uvtable",
]
