from .calibration_files import write_closure_image, write_gains
from .fits_images import read_mask, write_image
from .models import Model, read_model
from .plots import plot_image
from .provenance import digest_of, read_run, write_provenance
from .report import Products, compare_restored, limit_remarks, point_remark, write_assessment, write_products
from .whole_set import whole_set

__all__ = [
    "Model",
    "Products",
    "compare_restored",
    "digest_of",
    "limit_remarks",
    "plot_image",
    "point_remark",
    "read_mask",
    "read_model",
    "read_run",
    "whole_set",
    "write_assessment",
    "write_closure_image",
    "write_gains",
    "write_image",
    "write_products",
    "write_provenance",
]
