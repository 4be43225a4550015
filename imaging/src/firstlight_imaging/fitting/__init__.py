"""Fit an image to visibilities, and assess the fit.

The path of a fit through the files:

- `exact` is the likelihood of all visibilities (a `GriddedDataset` is the other kind of data);
  `visibility_chunks` reads them;
- `objective` adds the regularizers to its reduced χ²: a loss, and its gradient by autograd;
- `fused_step` is the same loss and gradient written out in the few kernels of `fused_kernels`, for speed;
- `optimizers` iterates: Adam or L-BFGS;
- `fit_loop` has `fit` itself: it iterates, checks every few iterations, stops, and returns a `Fit`;
- `quality` assesses the image by its residuals and its flux;
- `cross_validation` splits the data into folds, to choose λ by prediction;
- `auto_image` chooses the mask, and by the number of Bregman iterations the smoothness: `image`, behind
  ``firstlight image``. Its steps: `image_grid` chooses the grid, `source_mask` finds the mask, `bregman` fits and
  stops, `diagnosis` says why residuals are larger than noise; `imaging_problem` is what all of them compute with.
"""

from firstlight_imaging._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
